"""Lexical relevance of candidates to a question."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

import numpy as np
from numpy.typing import NDArray

from isinglass.measure.candidates import Candidate
from isinglass.measure.lexical import FloatArray, IntArray, inverse_frequency, overlap

Words = AbstractSet[int]


def matched_share(texts: NDArray[np.uint8], presence: NDArray[np.uint8]) -> FloatArray:
    """Share of the question's terms that each of `texts` holds, a term weighted by its rarity in `presence`.

    Parameters
    ----------
    texts : ndarray of uint8, shape (m, q)
        Which terms each text holds.
    presence : ndarray of uint8, shape (n, q)
        Which terms each candidate holds: gives the weights ln(1 + n / df). A term of no candidate weighs nothing.

    Returns
    -------
    ndarray of float64, shape (m,)
        In [0, 1]; 0 where no term is in any candidate.
    """
    weight = inverse_frequency(presence)
    total = weight.sum()
    # Term by term, so that the sum has one order on every machine.
    share = np.zeros(len(texts))
    for column, w in zip(texts.T, weight, strict=True):
        share += column * w
    return share / total if total else share


def published_relevance(
    candidates: Sequence[Candidate],
    question: Words,
    titles: Sequence[Words],
    hits: Sequence[Sequence[Words]],
    rank: IntArray,
) -> FloatArray:
    """Relevance of snippets in the code of Bala (2026), shape (n,): always positive.

    `titles`, `hits` and `rank` (of the document, from 0) have one entry a passage.
    """
    title = [0.25 * overlap(words, question) for words in titles]
    scores = np.empty(len(candidates))
    for i, candidate in enumerate(candidates):
        words, p = frozenset(candidate.words), candidate.passage
        nearest = max((overlap(words, hit) for hit in hits[p]), default=0.0)
        scores[i] = 1.15 * overlap(words, question) + 0.65 * nearest + title[p] + 0.05 / (1 + rank[p])
    return scores


def centre_relevance(
    candidates: Sequence[Candidate], question: Words, hits: Sequence[Sequence[Words]], rank: IntArray
) -> FloatArray:
    """Score of the centre sentence, by which policy ``packed`` ranks (Bala 2026), shape (n,)."""
    scores = np.empty(len(candidates))
    for i, candidate in enumerate(candidates):
        p = candidate.passage
        scores[i] = max(
            max((overlap(centre, hit) for hit in hits[p]), default=0.0) + 0.75 * overlap(centre, question)
            for centre in map(frozenset, candidate.centres)
        ) + 0.05 / (1 + rank[p])
    return scores
