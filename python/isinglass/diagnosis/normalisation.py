"""The text normalisation of answer scoring."""

import string

_NO_ASCII_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = frozenset(("a", "an", "the"))
_NOT_A_SPAN = frozenset(("yes", "no", "noanswer"))


def normalised_tokens(text: str) -> list[str]:
    """Tokens of `text` after the normalisation of P1.

    Lower case; ASCII punctuation deleted, not replaced, so that "Jean-Luc" becomes "jeanluc"; cut at white space;
    the words "a", "an" and "the" dropped. Nothing else is folded: dashes and quotes outside ASCII, accents and
    composed or decomposed letters stay as they are.

    Parameters
    ----------
    text : str

    Returns
    -------
    list of str
        Possibly empty.

    References
    ----------
    A. N. Bala (2026), "A Diagnostic for Budget-Constrained Multi-Hop RAG and When Submodular Evidence Packing
    Improves It".
    """
    words = text.lower().translate(_NO_ASCII_PUNCTUATION).split()
    return [word for word in words if word not in _ARTICLES]


def is_span(tokens: list[str]) -> bool:
    """Whether a normalised answer can stand in a text at all: not empty, and not a yes/no verdict."""
    return bool(tokens) and not (len(tokens) == 1 and tokens[0] in _NOT_A_SPAN)
