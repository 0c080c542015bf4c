"""What a policy fills: a basket of candidates under a budget, with a reason for everything that stays out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from isinglass.measure.lexical import FloatArray, IntArray
from isinglass.measure.pool import Pool
from isinglass.result import Result


@dataclass(frozen=True)
class Entry:
    """What became of one candidate.

    Attributes
    ----------
    reason : str
        ``selected``; ``budget`` (no room left); ``duplicate_of:<id>``; ``cap`` (no item left of a limit on their
        number); ``no_gain`` (adds nothing to what is chosen); ``not_allowed``; ``too_long`` (more than the whole
        budget); ``not_in_best_set`` (would lower, or not raise enough, what the policy maximises).
    gain : float or None
        What the policy credited it with: when it was picked, or what it would add to the final choice. None where the
        policy did not rate it.
    cost : int
        Tokens, with its heading and one separator.
    id : str
        Of the candidate; see `Pool.ids`.
    earned : str
        What spoke for a selected one, in words, where the policy can say it (bridge).
    """

    reason: str
    gain: float | None
    cost: int
    id: str
    earned: str = ""


class Basket:
    """What is taken so far, and what still fits.

    Parameters
    ----------
    pool : Pool
    capacity : int
        Tokens that may be spent.
    max_items : int
    allowed : ndarray of bool, shape (n,)
        By candidate.
    pinned : sequence of int
        Candidates taken before any choice.
    keeps_copies : bool
        Whether a text of two documents stays two candidates until one of them is taken (as `packed` and `focused` of
        the published code do) instead of being one from the start.
    shares_titles : bool
        Whether only the first pick of a document pays its title, since all stand under one.
    capped : bool
        Whether `max_items` is the caller's word, and not a default.
    """

    def __init__(
        self,
        pool: Pool,
        capacity: int,
        max_items: int,
        allowed: NDArray[np.bool_],
        pinned: IntArray,
        keeps_copies: bool,
        shares_titles: bool = False,
        capped: bool = True,
    ) -> None:
        self.pool = pool
        self.capped = capped
        self.capacity = capacity
        self.max_items = max_items
        self.allowed = allowed
        self.costs = pool.costs_within(capacity)
        self.own_costs = self.costs
        self.title_costs = np.zeros(len(pool.passages), dtype=np.int64)
        self.titled: set[int] = set()
        if shares_titles:
            headings = np.array([pool.heading_cost(i) for i in range(len(pool.passages))], dtype=np.int64)[pool.passage]
            self.own_costs = np.maximum(1, self.costs - headings)
            np.maximum.at(self.title_costs, pool.document, headings)
            self.costs = self.own_costs + self.title_costs[pool.document]
        self.original = _originals(pool, allowed, pinned)
        separate = keeps_copies | (self.original == np.arange(len(pool)))
        self.ground = separate & ~pool.blank & ~pool.beyond_limit
        self.open = self.ground & allowed
        self.left = capacity
        self.order: list[int] = []
        self.gains: dict[int, float] = {}
        self.refusals: dict[int, str] = {}
        self.earned: dict[int, str] = {}
        self.result: Result | None = None
        self.items: tuple[int, ...] = ()
        self._pin(list(dict.fromkeys(self.original[pinned].tolist())))

    def _pin(self, pinned: list[int]) -> None:
        for i in pinned:
            if not self.allowed[i]:
                raise ValueError(f"pinned passages must be allowed, got passage {self.pool.passage[i]} not allowed")
        if len(pinned) > self.max_items:
            raise ValueError(f"pinned candidates exceed max_items: {len(pinned)} > {self.max_items}")
        for i in pinned:
            self.take(i)
        if self.left < 0:
            cost = self.capacity - self.left
            raise ValueError(f"pinned passages cost more tokens than the budget leaves: {cost} > {self.capacity}")

    def fitting(self) -> NDArray[np.bool_]:
        """Which candidates could be taken now, shape (n,)."""
        if len(self.order) >= self.max_items:
            return np.zeros(len(self.pool), dtype=bool)
        fitting: NDArray[np.bool_] = self.open & (self.costs <= self.left)
        return fitting

    def fits(self, i: int) -> bool:
        """Whether candidate `i` could be taken now."""
        return bool(self.open[i]) and self.costs[i] <= self.left and len(self.order) < self.max_items

    def take(self, i: int, gain: float | None = None) -> None:
        """Take candidate `i`, and with it all of its copies off the market."""
        self.order.append(i)
        if gain is not None:
            self.gains[i] = gain
        self.left -= int(self.costs[i])
        if (document := int(self.pool.document[i])) not in self.titled:
            self.titled.add(document)
            spared = self.pool.document == document
            spared[i] = False
            self.costs = np.where(spared, self.costs - self.title_costs[document], self.costs)
        self.open &= self.pool.first_copy != self.pool.first_copy[i]

    def refuse(self, i: int, reason: str) -> None:
        """Take candidate `i` out of the choice for a reason of the policy's own."""
        self.refusals[i] = reason
        self.open[i] = False

    def take_in_order(self, ranking: IntArray, score: FloatArray) -> None:
        """Take whatever still fits, in the order of `ranking`, and credit each candidate its `score`, shape (n,)."""
        for i in ranking.tolist():
            if self.fits(i):
                self.take(i)
        self.credit(score)

    def credit(self, score: FloatArray) -> None:
        """Credit `score`, shape (n,), to every candidate that has no gain of its own yet."""
        self.gains = {i: float(score[i]) for i in np.flatnonzero(self.ground).tolist()} | self.gains

    def record(self, surplus: str) -> tuple[Entry, ...]:
        """An entry for every candidate; `surplus` is the reason of one that would fit and was still not taken."""
        first_copy, original, costs = (a.tolist() for a in (self.pool.first_copy, self.original, self.costs))
        winner = {first_copy[i]: i for i in self.order}
        return tuple(
            Entry(
                self._reason(i, winner.get(first_copy[i], original[i]), surplus),
                self.gains.get(i),
                costs[i],
                self.pool.ids[i],
                self.earned.get(i, ""),
            )
            for i in range(len(self.pool))
        )

    def _reason(self, i: int, winner: int, surplus: str) -> str:
        if winner in self.order and winner == i:
            return "selected"
        if not self.allowed[i]:
            return "not_allowed"
        if self.pool.blank[i]:
            return "no_gain"
        if winner != i:
            return f"duplicate_of:{self.pool.ids[winner]}"
        if self.pool.beyond_limit[i]:
            return "cap"
        if self.costs[i] > self.capacity:
            return "too_long"
        if i in self.refusals:
            return self.refusals[i]
        if self.costs[i] > self.left:
            return "budget"
        return "cap" if len(self.order) >= self.max_items else surplus


def _originals(pool: Pool, allowed: NDArray[np.bool_], pinned: IntArray) -> IntArray:
    """For each candidate, the copy that stands for its text: a pinned one, else an allowed one, else the first."""
    rank = np.ones(len(pool), dtype=np.int64) - allowed
    rank[pinned] = -1
    order = np.lexsort((pool.sentence, pool.passage, rank))
    text, first = np.unique(pool.first_copy[order], return_index=True)
    return order[first][np.searchsorted(text, pool.first_copy)]
