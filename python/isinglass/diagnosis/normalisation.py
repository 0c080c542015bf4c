"""The text normalisations of answer scoring.

Three rules, each its own column, none a repair of another: ``p1`` as published by Bala (2026), ``official`` as the
scoring scripts of SQuAD and HotpotQA have it, ``lenient`` for what those two keep apart by accident.
"""

import re
import string
import unicodedata
from collections.abc import Callable

from isinglass.measure.text import _UNSPACED_CHARACTER

NO_ASCII_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = frozenset(("a", "an", "the"))
_ARTICLE = re.compile(r"\b(a|an|the)\b")
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
    words = text.lower().translate(NO_ASCII_PUNCTUATION).split()
    return [word for word in words if word not in _ARTICLES]


def official_tokens(text: str) -> list[str]:
    """Tokens of `text` as the official scoring scripts of SQuAD and HotpotQA normalise it, bit for bit.

    As `normalised_tokens`, but for the articles: they go wherever no letter, digit or underscore touches them, so
    "the" goes from "the–end" too, and a space takes its place.

    Parameters
    ----------
    text : str

    Returns
    -------
    list of str
        Possibly empty.

    References
    ----------
    P. Rajpurkar et al. (2016), "SQuAD: 100,000+ Questions for Machine Comprehension of Text". Z. Yang et al. (2018),
    "HotpotQA: A Dataset for Diverse, Explainable Multi-hop Question Answering".
    """
    return _ARTICLE.sub(" ", text.lower().translate(NO_ASCII_PUNCTUATION)).split()


_QUOTES = dict.fromkeys(map(ord, "\u2018\u2019\u201a\u201b\u2032\u02bc\u02b9\u0060\u00b4"), "'")
_POSSESSIVE = re.compile(r"(?<=\w)'s\b")
_GROUP = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_POINT = re.compile(r"(?<=\d)\.(?=\d)")
_POINTED = re.compile(r"\d[.,]\d")
_A_POINT = "\ue000"  # private use: no text that was normalised has it for anything else


def lenient_tokens(text: str) -> list[str]:
    """Tokens of `text` for readers who would not count a difference of spelling as an error.

    Unicode form NFKC and case folding; invisible characters dropped; every dash is a space ("Jean-Luc" is "Jean Luc",
    "1990–1995" is "1990-1995"); every apostrophe is one ("O’Brien" is "O'Brien"), and a possessive loses its "'s"; the
    commas of "1,000" go, the point of "3.14" stays; other punctuation of any script is deleted, and articles are taken
    out as by `official_tokens`. In scripts written without spaces (Chinese, Japanese and others) and in Hangul, each
    character is a token.

    Parameters
    ----------
    text : str

    Returns
    -------
    list of str
        Possibly empty.
    """
    plain = text.isascii()
    if plain:
        text = text.lower().replace("`", "'")
    else:
        text = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text.translate(_QUOTES)).casefold())
    if "'s" in text:
        text = _POSSESSIVE.sub("", text)
    if _POINTED.search(text):
        text = _POINT.sub(_A_POINT, _GROUP.sub("", text))
    if plain:
        text = text.replace("-", " ").translate(NO_ASCII_PUNCTUATION)
        if text.isprintable():  # then nothing but white space bounds a word
            return [token for token in text.split() if token not in _ARTICLES]
    else:
        text = _UNSPACED_CHARACTER.sub(r" \g<0> ", text.translate(_FOLDED))
    return _ARTICLE.sub(" ", text).replace(_A_POINT, ".").split()


def _folded(character: str) -> str:
    if character.isalnum() or character == _A_POINT:
        return character
    match unicodedata.category(character):
        case "Pd":
            return " "
        case "Cf":
            return ""
        case kind if kind[0] == "P" or character in string.punctuation:
            return ""
    return " " if character == "\u2212" else character  # the minus sign is a dash to a reader


class _Folds(dict[int, str]):
    """What each character becomes, worked out when it is first met."""

    def __missing__(self, code: int) -> str:
        self[code] = folded = _folded(chr(code))
        return folded


_FOLDED = _Folds()


NORMALISATIONS: dict[str, Callable[[str], list[str]]] = {
    "p1": normalised_tokens,
    "official": official_tokens,
    "lenient": lenient_tokens,
}


def is_span(tokens: list[str]) -> bool:
    """Whether a normalised answer can stand in a text at all: not empty, and not a yes/no verdict."""
    return bool(tokens) and not (len(tokens) == 1 and tokens[0] in _NOT_A_SPAN)
