"""Word statistics of a pool of texts: overlap, weights, cosine. Everything here counts words as integers."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from isinglass import _core
from isinglass.measure.characters import character_table

Word = TypeVar("Word")
IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]

# Bytes of a dense similarity matrix above which a clear refusal is kinder than a machine that swaps.
LARGEST_MATRIX = 4 << 30


class Vocabulary:
    """Numbers for words, in order of first use.

    Parameters
    ----------
    ascii_words : bool
        Which rule makes the words: `measure.text.ascii_words`, or `measure.text.words`.
    """

    def __init__(self, ascii_words: bool) -> None:
        self._ascii_words = ascii_words
        self._core = _core.WordNumbers(ascii_words)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Word numbers of each text, in order."""
        numbers, starts = self._encoded(texts)
        flat, bounds = numbers.tolist(), starts.tolist()
        return [flat[a:b] for a, b in pairwise(bounds)]

    def count(self, texts: Sequence[str]) -> list[int]:
        """How many words each text has."""
        counts: list[int] = np.diff(self._encoded(texts)[1]).tolist()
        return counts

    def _encoded(self, texts: Sequence[str]) -> tuple[IntArray, IntArray]:
        given, table = list(texts), None
        if not (self._ascii_words or all(map(str.isascii, given))):
            table = character_table()
            given = [text if text.isascii() else unicodedata.normalize("NFC", text) for text in given]
        return self._core.encode(given, table)

    @property
    def number(self) -> dict[str, int]:
        """The number of every word so far."""
        return {word: i for i, word in enumerate(self._core.words)}


def overlap(a: AbstractSet[Word], b: AbstractSet[Word]) -> float:
    """Jaccard similarity of two sets of words; 0 if one is empty."""
    shared = len(a & b)
    return shared / (len(a) + len(b) - shared) if shared else 0.0


@dataclass(frozen=True, eq=False)
class WordCounts:
    """How often each word stands in each of n texts, in compressed rows.

    Attributes
    ----------
    row_start : ndarray of int64, shape (n + 1,)
    word : ndarray of int64, shape (nnz,)
        Word numbers, ascending in each row.
    count : ndarray of int64, shape (nnz,)
    size : int
        Number of words in the vocabulary.
    """

    row_start: IntArray
    word: IntArray
    count: IntArray
    size: int

    @classmethod
    def of(cls, texts: Sequence[Sequence[int]], size: int) -> WordCounts:
        """Counts of encoded texts over a vocabulary of `size` words."""
        lengths = np.fromiter(map(len, texts), dtype=np.int64, count=len(texts))
        flat = np.array(list(chain.from_iterable(texts)), dtype=np.int64)
        rows = np.repeat(np.arange(len(texts)), lengths)
        keys, count = np.unique(rows * size + flat, return_counts=True)
        row_start = np.searchsorted(keys, np.arange(len(texts) + 1) * size)
        return cls(row_start.astype(np.int64), keys % max(size, 1), count.astype(np.int64), size)

    def take(self, order: IntArray) -> WordCounts:
        """The counts of the texts `order`, in that order."""
        length = np.diff(self.row_start)[order]
        row_start = np.concatenate(([0], np.cumsum(length)))
        at = np.repeat(self.row_start[order] - row_start[:-1], length) + np.arange(row_start[-1])
        return WordCounts(row_start, self.word[at], self.count[at], self.size)

    @property
    def rows(self) -> IntArray:
        """Row of each stored count, shape (nnz,)."""
        return np.repeat(np.arange(len(self.row_start) - 1), np.diff(self.row_start))

    def presence(self, words: Sequence[int]) -> NDArray[np.uint8]:
        """Which of `words` each text holds: 0/1, shape (n, len(words))."""
        column = np.full(self.size, -1, dtype=np.int64)
        column[np.asarray(words, dtype=np.int64)] = np.arange(len(words))
        at = column[self.word]
        dense = np.zeros((len(self.row_start) - 1, len(words)), dtype=np.uint8)
        dense[self.rows[at >= 0], at[at >= 0]] = 1
        return dense

    def overlaps(self, i: int) -> FloatArray:
        """Jaccard similarity of the word set of text `i` with that of every text, shape (n,)."""
        marked = np.zeros(self.size, dtype=bool)
        marked[self.word[self.row_start[i] : self.row_start[i + 1]]] = True
        sizes = np.diff(self.row_start)
        shared = np.bincount(self.rows, weights=marked[self.word], minlength=len(sizes))
        overlaps: FloatArray = shared / np.maximum(sizes + sizes[i] - shared, 1)
        return overlaps

    def cosine(self) -> NDArray[np.float32]:
        """Cosine of the count vectors of every pair, shape (n, n), symmetric, 1 on the diagonal.

        Dot products of counts are sums of integers, hence exact in any order of summation; so equal texts have
        similarity exactly 1, and the matrix has the same bits on every machine.
        """
        n = len(self.row_start) - 1
        check_matrix(n)
        rows = self.rows
        frequency = np.bincount(self.word, minlength=self.size)
        dots = np.zeros((n, n))
        # A dense product pays n * n for a word, the list of its pairs frequency ** 2 at a dozen times the price.
        common = (frequency > 1) & (frequency * 12 >= n)
        self._add_dense(dots, rows, common)
        self._add_pairs(dots, rows, frequency, (frequency > 1) & ~common)
        norms = np.bincount(rows, weights=self.count * self.count, minlength=n)
        scale = np.sqrt(np.multiply.outer(norms, norms))
        cosine = np.divide(dots, scale, out=dots, where=scale > 0).astype(np.float32)
        np.fill_diagonal(cosine, 1.0)
        return cosine

    def _add_dense(self, dots: FloatArray, rows: IntArray, common: NDArray[np.bool_]) -> None:
        chosen = np.flatnonzero(common)
        step = max(1, (1 << 22) // max(len(dots), 1))
        for begin in range(0, len(chosen), step):
            column = np.full(self.size, -1, dtype=np.int64)
            part = chosen[begin : begin + step]
            column[part] = np.arange(len(part))
            at = column[self.word]
            held = at >= 0
            block = np.zeros((len(dots), len(part)))
            block[rows[held], at[held]] = self.count[held]
            dots += block @ block.T

    def _add_pairs(self, dots: FloatArray, rows: IntArray, frequency: IntArray, rare: NDArray[np.bool_]) -> None:
        held = np.flatnonzero(rare[self.word])
        held = held[np.argsort(self.word[held], kind="stable")]
        if not len(held):
            return
        row, count = rows[held], self.count[held]
        size = frequency[self.word[held]]
        first = np.searchsorted(self.word[held], self.word[held])
        ends = np.cumsum(size)
        begin = 0
        while begin < len(held):
            end = max(begin + 1, int(np.searchsorted(ends, (ends[begin - 1] if begin else 0) + (1 << 22))))
            sizes = size[begin:end]
            left = np.repeat(np.arange(begin, end), sizes)
            right = np.repeat(first[begin:end] - np.cumsum(sizes) + sizes, sizes) + np.arange(len(left))
            np.add.at(dots.reshape(-1), row[left] * len(dots) + row[right], (count[left] * count[right]).astype(float))
            begin = end


def check_matrix(n: int) -> None:
    """Refuse a dense (n, n) similarity that would not fit, before any of it is allocated."""
    needed = 12 * n * n
    if needed > LARGEST_MATRIX:
        raise MemoryError(
            f"the similarity of {n} candidates needs {needed} bytes, more than {LARGEST_MATRIX}: "
            "give fewer candidates, or take a policy that compares no pairs (naive, topk, packed, focused)"
        )


def inverse_frequency(presence: NDArray[np.uint8]) -> FloatArray:
    """ln(1 + n / df) of each column of a 0/1 matrix, shape (t,); 0 where no text has the term."""
    held = presence.sum(axis=0, dtype=np.int64)
    return np.where(held > 0, np.log1p(len(presence) / np.maximum(held, 1)), 0.0)
