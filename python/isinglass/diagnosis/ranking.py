"""Measures of the retrieved list, before anything is packed."""

from collections.abc import Collection, Hashable, Sequence
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


def _first(retrieved: Sequence[Hashable], k: int) -> Sequence[Hashable]:
    if isinstance(k, bool):
        raise TypeError(f"k must be an integer >= 0, got {k!r}")
    if (depth := index(k)) < 0:
        raise ValueError(f"k must be >= 0, got {k}")
    return retrieved[:depth]
