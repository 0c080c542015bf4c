"""Policies: which candidates of a pool reach the reader, and why each of the others does not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import astuple, dataclass
from difflib import get_close_matches
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isinglass.basket import Basket, Entry
from isinglass.measure.bridge import BridgeWeights, bridge_pool
from isinglass.measure.pool import MEASURES, Pool, one_of
from isinglass.methods import METHODS
from isinglass.problems import gate
from isinglass.problems.evidence import EvidenceProblem
from isinglass.requirement_policies import bm25, greedy_coverage, hybrid, qubo, random, setr, setro
from isinglass.result import Result
from isinglass.solving import solve


@dataclass(frozen=True)
class Choice:
    """The answer of a policy.

    Attributes
    ----------
    order : tuple of int
        Chosen candidates, in order of choice.
    record : tuple of Entry
        One for each candidate of the pool, in its order.
    result : Result or None
        Of the solver, where the policy asks one. Its selection counts the items of `items`.
    items : tuple of int
        The candidates that the solver saw, in its order; empty for the other policies.
    """

    order: tuple[int, ...]
    record: tuple[Entry, ...]
    result: Result | None = None
    items: tuple[int, ...] = ()


def bridge(basket: Basket, weights: BridgeWeights | None = None) -> None:
    """Sentences that match the question, and documents that vouch for each other; a title is paid once a document.

    Taken as long as anything fits, by a key that adds, times `weights` (`isinglass.measure.BridgeWeights`): the share
    of the question that the sentence matches, and the share that no pick has; the best match of a sentence elsewhere
    that names its document, and of a document that it names; whether the question names its document; whether it is
    the first of its document; less the logarithm of its length. With embeddings also its cosine with the question,
    less the largest with a sentence already chosen.
    """
    weights = BridgeWeights() if weights is None else weights
    if not isinstance(weights, BridgeWeights):
        raise TypeError(f"weights must be BridgeWeights, got {type(weights).__name__}")
    pool = basket.pool
    pooled = bridge_pool(pool, basket.allowed & (basket.original == np.arange(len(pool))))
    core, candidate = pooled.bridge.core, pooled.candidate.copy()
    sentence = np.full(len(pool), -1, dtype=np.int64)
    sentence[candidate] = np.arange(len(candidate))
    pinned = [i for i in basket.order if pooled.kept_as[i] >= 0]
    fixed = sentence[pooled.kept_as[pinned]]
    candidate[fixed] = pinned

    others = [i for i in basket.order if pooled.kept_as[i] < 0]
    order, keys, fresh, _ = core.pick(
        astuple(weights),
        min(basket.capacity - int(basket.costs[others].sum()), 1 << 60),
        basket.max_items - len(others),
        basket.own_costs[candidate],
        basket.title_costs[: len(core.named)],
        fixed.tolist(),
    )
    gains = core.keys(astuple(weights), order.tolist(), basket.own_costs[candidate])
    basket.gains = dict(zip(candidate.tolist(), gains.tolist(), strict=True))
    for s, key, new in zip(order.tolist(), keys.tolist(), fresh.tolist(), strict=True):
        i = int(candidate[s])
        if i not in pinned:
            basket.take(i)
        basket.gains[i] = key
        basket.earned[i] = pooled.bridge.earned(s, new)
    for i in np.flatnonzero(basket.allowed & (pooled.kept_as != np.arange(len(pool)))).tolist():
        kept = int(pooled.kept_as[i])
        if i not in basket.order:
            basket.refuse(i, "no_gain" if kept < 0 else f"duplicate_of:{pool.ids[kept]}")


def naive(basket: Basket) -> None:
    """By falling relevance, whatever still fits."""
    basket.take_in_order(np.argsort(-basket.pool.relevance, kind="stable"), basket.pool.relevance)


def topk(basket: Basket, k: int = 5) -> None:
    """The `k` most relevant, those of them that fit."""
    ranking = np.argsort(-basket.pool.relevance, kind="stable")
    ranking = ranking[basket.open[ranking]]
    for i in ranking[gate.integer("k", k, low=0) :]:
        basket.refuse(int(i), "cap")
    basket.take_in_order(ranking, basket.pool.relevance)


def packed(basket: Basket) -> None:
    """By the score of the centre sentence: at most one a document, then two, then any number (Bala 2026, "packed")."""
    pool = basket.pool
    ranking = np.lexsort((pool.sentence, pool.passage, -pool.centre_relevance))
    for most in (1, 2, len(pool)):
        taken = np.bincount(pool.document[basket.order], minlength=1 + int(pool.document.max(initial=-1)))
        for i in ranking:
            if taken[pool.document[i]] < most and basket.fits(i):
                basket.take(int(i))
                taken[pool.document[i]] += 1
    basket.credit(pool.centre_relevance)


def focused(basket: Basket) -> None:
    """Relevance, with a bonus for new terms of the question and for a new document; near copies skipped (Bala 2026)."""
    pool = basket.pool
    input_order = np.lexsort((pool.sentence, pool.passage))
    held = pool.coverage.astype(bool)
    missing = np.ones(len(pool.terms), dtype=bool)
    new_document = np.ones(len(pool), dtype=bool)
    for i in basket.order:
        _note_focused(basket, i, missing, new_document)
    while True:
        new_terms = (held & missing).sum(axis=1) / max(len(pool.terms), 1)
        score = pool.relevance + 0.55 * new_terms + 0.15 * new_document
        fitting = basket.fitting()[input_order]
        if not fitting.any():
            break
        i = int(input_order[np.where(fitting, score[input_order], -np.inf).argmax()])
        basket.take(i, float(score[i]))
        _note_focused(basket, i, missing, new_document)
    basket.credit(score)


def _note_focused(basket: Basket, i: int, missing: NDArray[np.bool_], new_document: NDArray[np.bool_]) -> None:
    pool = basket.pool
    missing &= pool.coverage[i] == 0
    new_document &= pool.document != pool.document[i]
    for copy in np.flatnonzero(basket.open & (pool.counts.overlaps(i) > 0.8)).tolist():
        basket.refuse(copy, "no_gain")


def mmr(basket: Basket, relevance_weight: float = 0.7) -> None:
    """Maximal marginal relevance: w rel' - (1 - w) max over all picks of sim; rel' is min-max scaled.

    1 = relevance only. Taken as long as anything fits; those whose score at the end is negative would make the
    set worse.

    References
    ----------
    J. Carbonell, J. Goldstein, 1998, "The use of MMR, diversity-based reranking for reordering documents and producing
    summaries".
    """
    weight = gate.number("relevance_weight", relevance_weight, low=0)
    if weight > 1:
        raise ValueError(f"relevance_weight must be in [0, 1], got {relevance_weight!r}")
    pool = basket.pool
    seen = pool.relevance[basket.ground]
    low, high = seen.min(initial=np.inf), seen.max(initial=-np.inf)
    relevance = (pool.relevance - low) / (high - low) if high > low else np.zeros(len(pool))
    # Without the product when it is not needed: no similarity is computed, and w = 1 is exactly relevance.
    redundancy = np.zeros(len(pool))
    similar = pool.similarity if weight < 1 else None
    for i in basket.order:
        redundancy = redundancy if similar is None else np.maximum(redundancy, similar[i])
    while True:
        score = weight * relevance - (1 - weight) * redundancy
        fitting = basket.fitting()
        if not fitting.any():
            break
        i = int(np.where(fitting, score, -np.inf).argmax())
        basket.take(i, float(score[i]))
        redundancy = redundancy if similar is None else np.maximum(redundancy, similar[i])
    for i in np.flatnonzero(basket.open & (score < 0)).tolist():
        basket.refuse(i, "not_in_best_set")
    basket.credit(score)


# A marginal gain this small is rounding: the terms of the objective are sums of numbers up to about 1.
_NO_GAIN = 1e-12


def submodular(basket: Basket, method: str | None = None, backend: str = "auto", **options: Any) -> None:
    """Relevance, coverage of the question, representation and diversity as one packing problem, with a certificate.

    ``greedy_plus_max``; in ``measure="p1"`` the ``lazy_greedy`` of Bala (2026).
    """
    pool = basket.pool
    items = np.flatnonzero(basket.ground)
    position = np.full(len(pool), -1, dtype=np.int64)
    position[items] = np.arange(len(items))
    problem = pool.problem(
        basket.capacity,
        items=items,
        max_items=basket.max_items,
        allowed=basket.allowed[items],
        pinned=position[list(basket.order)],
        **{name: options.pop(name) for name in _PROBLEM_OPTIONS if name in options},
    )
    if method is None:
        method = "lazy_greedy" if MEASURES[pool.measure].published else "greedy_plus_max"
    result = solve(problem, method, backend, **options)
    pinned = set(basket.order)
    for i, gain in zip(items[result.trace.items].tolist(), result.trace.gains.tolist(), strict=True):
        basket.gains[i] = gain
        if i not in pinned:
            basket.take(i)
    basket.result, basket.items = result, tuple(items.tolist())
    assert result.selection is not None
    core = problem.core()
    for item, i in enumerate(items.tolist()):
        if i not in basket.gains:
            basket.gains[i] = core.gain(result.selection, item)
            if basket.gains[i] <= _NO_GAIN:
                basket.refuse(i, "no_gain")


_PROBLEM_OPTIONS = ("weights", "saturation", "normalisation")
_EVIDENCE_OPTIONS = tuple(
    dict.fromkeys(
        option.name for (kind, _), method in METHODS.items() if kind is EvidenceProblem for option in method.options
    )
)
_SOLVE_OPTIONS = ("method", "backend", "seed", "time_limit", "threads", "certificate", "memory_limit")


@dataclass(frozen=True)
class Policy:
    """One line of the table of policies.

    Attributes
    ----------
    name : str
    fill : callable
        ``fill(basket, **options)`` takes candidates until nothing more should be taken.
    options : tuple of str
        Keywords that `fill` takes.
    keeps_copies : bool
        Whether, in ``measure="p1"``, a text of two documents is two candidates until one of them is taken.
    surplus : str
        Reason of a candidate that would fit at the end and was not taken.
    shares_titles : bool
        Whether a title is paid once a document.
    published_max_items : int or None
        The default of `max_items` in ``measure="p1"``: the published packers stop at 8 snippets.
    candidates, order, render : str
        Defaults of `select` under this policy; `candidates` None leaves it to the measure.
    fills : bool
        Whether it takes candidates as long as any fits and is not ruled out, or the best set, however small.
    embeds_titles : bool
        Whether `select` has "Title. text" embedded rather than the text alone.
    needs : str
        The option without which it can do nothing; empty for most.
    """

    name: str
    fill: Callable[..., None]
    options: tuple[str, ...] = ()
    keeps_copies: bool = False
    surplus: str = "not_in_best_set"
    shares_titles: bool = False
    published_max_items: int | None = 8
    candidates: str | None = None
    order: str = "choice"
    render: str = "plain"
    fills: bool = True
    embeds_titles: bool = False
    needs: str = ""


POLICIES = {
    policy.name: policy
    for policy in (
        Policy(
            "bridge",
            bridge,
            ("weights",),
            shares_titles=True,
            published_max_items=None,
            candidates="sentences",
            order="document",
            render="titled",
            embeds_titles=True,
        ),
        Policy("submodular", submodular, (*_PROBLEM_OPTIONS, *_SOLVE_OPTIONS, "effort")),
        Policy("focused", focused, keeps_copies=True),
        Policy("packed", packed, keeps_copies=True),
        Policy("mmr", mmr, ("relevance_weight",)),
        Policy("naive", naive),
        Policy("topk", topk, ("k",)),
        Policy(
            "qubo",
            qubo,
            ("requirements", "relevance", "preset", "weights", "penalties", *_SOLVE_OPTIONS, *_EVIDENCE_OPTIONS),
            published_max_items=None,
            candidates="sentences",
            order="document",
            render="titled",
            fills=False,
        ),
        Policy("hybrid", hybrid, ("fusion", "relevance_weight")),
        Policy("bm25", bm25),
        Policy("greedy-coverage", greedy_coverage, ("requirements",)),
        Policy("random", random, ("seed",)),
        Policy("setr", setr, ("requirements",), fills=False, needs="requirements"),
        Policy("setro", setro, ("requirements",), fills=False, needs="requirements"),
    )
}
FREE_POLICIES = tuple(name for name, policy in POLICIES.items() if not policy.needs)
"""Those that choose from the texts alone, without a record of what a model said."""
_COMMON_OPTIONS = ("max_items", "allowed", "pinned", "reserve_tokens")


def find_policy(name: str) -> Policy:
    """The policy of that name, or a ValueError with the nearest one."""
    return POLICIES[one_of("policy", name, tuple(POLICIES))]


def check_options(policy: Policy, options: Mapping[str, Any], also: Iterable[str] = ()) -> dict[str, Any]:
    """The options that are given (None: not given), if the policy takes them all.

    Raises
    ------
    TypeError
        For one that it does not take, with the nearest word among those and `also`.
    """
    known = (*policy.options, *_COMMON_OPTIONS)
    for name in options:
        if name not in known:
            near = get_close_matches(name, (*known, *also), n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"it takes {', '.join(sorted(known))}"
            raise TypeError(f"policy {policy.name!r} has no option {name!r}: {hint}")
    return {name: value for name, value in options.items() if value is not None}


def available_tokens(budget: Any, reserve_tokens: Any = 0) -> int:
    """What `budget` leaves for the context after the reserve.

    Raises
    ------
    ValueError
        If one is not an integer >= 0, or the reserve exceeds the budget.
    """
    total = gate.integer("budget", budget, low=0)
    reserve = gate.integer("reserve_tokens", reserve_tokens, low=0)
    if reserve > total:
        raise ValueError(f"reserve_tokens must be within the budget, got {reserve} > {total} tokens")
    return total - reserve


def choose(pool: Pool, policy: str, budget: int, **options: Any) -> Choice:
    """Choose candidates of a pool under a budget.

    Parameters
    ----------
    pool : Pool
        From `isinglass.measure.prepare`.
    policy : str
        A name of `POLICIES`.
    budget : int
        Tokens, in those of the pool's counter. >= 0.
    max_items : int, optional
        At most so many candidates. Default: no limit; 5 for qubo; 8 in ``measure="p1"``, but for bridge and qubo.
    allowed : array_like of bool, shape (number of passages,), optional
        False: nothing of this passage is chosen.
    pinned : sequence of int, optional
        Passages that are chosen first, whatever their score, and paid from the budget.
    reserve_tokens : int, optional
        Tokens of the budget to leave free.
    **options
        Of the policy: `weights` (bridge: `BridgeWeights`), `relevance_weight` (mmr: 1 = relevance only), `k` (topk);
        for submodular those of `PackingProblem` (`weights`, `saturation`, `normalisation`) and of `solve`; for qubo
        `requirements` (a labeller, see `isinglass.measure.requirements`), `relevance` (``pool``, ``bm25`` or
        ``bridge``), `preset` (a name, or a file that `isinglass fit` wrote), `weights` (`EvidenceWeights`), `penalties`
        and those of `solve`; `requirements` for greedy-coverage, setr and setro too; `fusion` and `relevance_weight`
        (hybrid), `seed` (random). None means the default, 0 means 0.

    Returns
    -------
    Choice

    Raises
    ------
    TypeError
        For an option that the policy does not take.
    ValueError
        For a value out of range; for pinned passages that do not fit.
    """
    entry = find_policy(policy)
    given = check_options(entry, options)
    capacity = max(0, available_tokens(budget, given.pop("reserve_tokens", 0)) - pool.fixed_cost)
    published = MEASURES[pool.measure].published
    most = entry.published_max_items if published else None
    capped = "max_items" in given
    max_items = given.pop("max_items", len(pool) if most is None else most)
    allowed = given.pop("allowed", None)
    number = len(pool.passages)
    allowed = np.ones(number, dtype=bool) if allowed is None else gate.flags("allowed", allowed, size=number) > 0
    pinned = gate.indices("pinned", given.pop("pinned", ()), size=number)
    basket = Basket(
        pool,
        capacity,
        gate.integer("max_items", max_items, low=0),
        allowed[pool.passage],
        np.flatnonzero(np.isin(pool.passage, pinned)),
        keeps_copies=entry.keeps_copies and published,
        shares_titles=entry.shares_titles,
        capped=capped,
    )
    entry.fill(basket, **given)
    return Choice(tuple(basket.order), basket.record(entry.surplus), basket.result, basket.items)
