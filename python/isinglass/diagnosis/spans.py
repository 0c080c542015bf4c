"""Where in a text the gold answers stand, in characters: what a page highlights."""

import re
from collections.abc import Sequence

from isinglass.diagnosis.normalisation import NO_ASCII_PUNCTUATION, is_span, official_tokens
from isinglass.measure.text import Span

_WORD = re.compile(r"\S+")


def answer_spans(text: str, answers: Sequence[str]) -> tuple[Span, ...]:
    """Every stretch of a text that is a gold answer for `isinglass.diagnosis.answer_in_context`.

    Parameters
    ----------
    text : str
    answers : sequence of str
        Those that can stand in no text (yes, no, nothing) are passed over.

    Returns
    -------
    tuple of (int, int)
        Start and end in characters, end excluded; ascending, overlapping ones joined. Empty exactly where the measure
        finds no answer in the text.

    Raises
    ------
    TypeError
        If `answers` is a bare string.

    Examples
    --------
    >>> text = 'He lived in "The Hague", near Leiden.'
    >>> [text[start:end] for start, end in answer_spans(text, ["the Hague", "Leiden"])]
    ['Hague', 'Leiden']
    """
    if isinstance(answers, str):
        raise TypeError(f"answers must be a collection, expected e.g. [{answers!r}], got the bare string {answers!r}")
    runs = [run for answer in answers if is_span(run := official_tokens(answer))]
    letters = text.lower().translate(NO_ASCII_PUNCTUATION)
    if not any(max(run, key=len) in letters for run in runs):
        return ()  # most texts hold no answer, and need not be cut
    # The rules never join what white space divides, so a word can be normalised by itself and keeps its place.
    words = [(token, word) for word in _WORD.finditer(text) for token in official_tokens(word.group())]
    tokens = [token for token, _ in words]
    found = []
    for run in runs:
        for i in range(len(tokens) - len(run) + 1):
            if tokens[i : i + len(run)] == run:
                found.append((_inner(words[i][1])[0], _inner(words[i + len(run) - 1][1])[1]))
    return tuple(_joined(sorted(found)))


def _inner(word: re.Match[str]) -> Span:
    """A word's place without the punctuation around it, as long as something is left."""
    inner = re.search(r"\w.*\w|\w", word.group(), re.DOTALL)
    start = word.start()
    return (start + inner.start(), start + inner.end()) if inner else word.span()


def _joined(spans: Sequence[Span]) -> list[Span]:
    joined: list[Span] = []
    for start, end in spans:
        if joined and start < joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined
