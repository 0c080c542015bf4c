"""From passages to candidates: whole passages, sentences, or windows of sentences."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import chain

from isinglass.measure.lexical import Vocabulary
from isinglass.measure.passages import Passage
from isinglass.measure.text import Span

GRAINS = ("passages", "sentences", "windows")

# Of the published code: sentences on each side of the centre, and words that a snippet is cut to.
_NEIGHBOURS = 1
_SNIPPET_WORDS = 80
_INK = re.compile(r"\S+")


@dataclass(frozen=True, eq=False)
class Candidate:
    """A piece of one passage that may be chosen.

    Attributes
    ----------
    passage, sentence : int
        Which passage it is cut from, and around which of its sentences (0 for a whole passage).
    span : (int, int)
        Where it stands in the passage's text.
    text : str
    words : sequence of int
        Its words, numbered.
    centres : list of sequence of int
        Words of the sentences around which it is cut; more than one where their windows have one text.
    """

    passage: int
    sentence: int
    span: Span
    text: str
    words: Sequence[int]
    centres: list[Sequence[int]] = field(default_factory=list)


def cut(
    passages: Sequence[Passage],
    grain: str,
    sentences: Callable[[str], list[Span]],
    vocabulary: Vocabulary,
    published: bool,
) -> list[Candidate]:
    """Candidates of all passages, in input order.

    `published` joins the sentences of a window by one space and cuts it to 80 white-space words, as the code of Bala
    (2026) does; otherwise every candidate is a piece of its passage as it stands.
    """
    if grain == "passages":
        texts = [passage.text for passage in passages]
        return [
            Candidate(i, 0, (0, len(text)), text, words, [words])
            for i, (text, words) in enumerate(zip(texts, vocabulary.encode(texts), strict=True))
        ]
    spans_of = [sentences(passage.text) for passage in passages]
    every = vocabulary.encode(
        [passage.text[a:b] for passage, spans in zip(passages, spans_of, strict=True) for a, b in spans]
    )
    found: list[Candidate] = []
    done = 0
    for i, (passage, spans) in enumerate(zip(passages, spans_of, strict=True)):
        text = passage.text
        encoded = every[done : done + len(spans)]
        done += len(spans)
        by_text: dict[str, Candidate] = {}
        for k in range(len(spans)):
            reach = _NEIGHBOURS if grain == "windows" else 0
            low, high = max(0, k - reach), min(len(spans), k + reach + 1)
            start, end = spans[low][0], spans[high - 1][1]
            piece = text[start:end]
            words = encoded[k] if not reach else list(chain.from_iterable(encoded[low:high]))
            if published and grain == "windows":
                piece = " ".join(text[a:b] for a, b in spans[low:high])
                if len(ink := piece.split()) > _SNIPPET_WORDS:
                    piece = " ".join(ink[:_SNIPPET_WORDS])
                    words = vocabulary.encode([piece])[0]
                    end = [word.end() for word in _INK.finditer(text, start, end)][_SNIPPET_WORDS - 1]
            candidate = by_text.setdefault(piece, Candidate(i, k, (start, end), piece, words))
            candidate.centres.append(encoded[k])
        found.extend(by_text.values())
    return found
