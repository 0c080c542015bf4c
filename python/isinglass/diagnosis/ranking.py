"""Measures of the retrieved list, before anything is packed."""

from collections.abc import Collection, Hashable, Sequence
from math import log2
from operator import index


def recall_at(retrieved: Sequence[Hashable], gold: Collection[Hashable], k: int) -> float | None:
    """Share of the gold documents among the first `k` retrieved.

    Parameters
    ----------
    retrieved : sequence of hashable
        Documents, best first. `k` may exceed their number.
    gold : collection of hashable
        The gold documents; one that the collection lacks counts as not retrieved.
    k : int
        Depth, >= 0.

    Returns
    -------
    float or None
        In [0, 1]; None where the question has no gold document.

    Raises
    ------
    TypeError, ValueError
        If `k` is not an integer >= 0.
    """
    gold_set = frozenset(gold)
    return len(gold_set.intersection(_first(retrieved, k))) / len(gold_set) if gold_set else None


def all_gold_at(retrieved: Sequence[Hashable], gold: Collection[Hashable], k: int) -> bool | None:
    """Whether every gold document is among the first `k` retrieved; arguments and errors as for `recall_at`.

    Returns
    -------
    bool or None
        None where the question has no gold document.
    """
    gold_set = frozenset(gold)
    return gold_set.issubset(_first(retrieved, k)) if gold_set else None


def ndcg_at(retrieved: Sequence[Hashable], gold: Collection[Hashable], k: int) -> float | None:
    """Normalised discounted cumulative gain of the first `k` retrieved; arguments and errors as for `recall_at`.

    A gold document has gain 1 where it first appears, another 0; rank r from 1 is discounted by 1 / log2(1 + r); the
    ideal has all gold documents first.

    Returns
    -------
    float or None
        In [0, 1]; 0 at depth 0; None where the question has no gold document.

    References
    ----------
    K. Järvelin and J. Kekäläinen (2002), "Cumulated gain-based evaluation of IR techniques".
    """
    gold_set = frozenset(gold)
    if not gold_set:
        return None
    missing = set(gold_set)
    gained = 0.0
    for rank, name in enumerate(_first(retrieved, k), 1):
        if name in missing:
            missing.remove(name)
            gained += 1 / log2(1 + rank)
    ideal = sum(1 / log2(1 + rank) for rank in range(1, min(k, len(gold_set)) + 1))
    return gained / ideal if ideal else 0.0


def _first(retrieved: Sequence[Hashable], k: int) -> Sequence[Hashable]:
    if isinstance(k, bool):
        raise TypeError(f"k must be an integer >= 0, got {k!r}")
    if (depth := index(k)) < 0:
        raise ValueError(f"k must be >= 0, got {k}")
    return retrieved[:depth]
