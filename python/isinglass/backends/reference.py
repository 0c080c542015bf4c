"""The slow judge: short NumPy, no laziness, no incremental state. Asked for by name only."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isinglass.backends import Availability, Plan, Request
from isinglass.problems.packing import PackingProblem
from isinglass.result import Certificate, PackingTrace, Result, gap_of
from isinglass.version import __version__

_ENUMERATION_LIMIT = 20


def availability() -> Availability:
    """Always available: NumPy is the package's one dependency."""
    return Availability(True, None, "numpy")


def similarity_of(problem: PackingProblem) -> NDArray[np.float64] | None:
    """The dense similarity that the problem means."""
    if problem.embeddings is not None:
        rows = np.asarray(problem.embeddings, dtype=np.float64)
        norm = np.sqrt((rows**2).sum(axis=1))
        unit = np.divide(rows, norm[:, None], out=np.zeros_like(rows), where=norm[:, None] > 0)
        return np.asarray(np.clip(unit @ unit.T, 0, 1), dtype=np.float32).astype(np.float64)
    if problem.similarity is None:
        return None
    if isinstance(problem.similarity, np.ndarray):
        return problem.similarity.astype(np.float64)
    csr = problem.similarity
    dense = np.zeros((len(problem), len(problem)))
    dense[np.repeat(np.arange(len(problem)), np.diff(csr.row_start)), csr.column] = csr.value
    return dense


def objective(problem: PackingProblem) -> Callable[[Sequence[int]], float]:
    """F as a function of a selection, by the definition of each term."""
    n = len(problem)
    weights = problem.weights
    relevance = None if problem.relevance is None else np.asarray(problem.relevance)
    similarity = similarity_of(problem)
    covers = None
    if problem.coverage is not None:
        start, column = problem.coverage
        covers = np.zeros((n, np.asarray(problem.coverage_weights).size))
        covers[np.repeat(np.arange(n), np.diff(start)), column] = 1
    groups = None if problem.groups is None else np.unique(problem.groups, return_inverse=True)[1].reshape(n)

    def share(part: float, whole: float) -> float:
        return part / whole if whole > 0 else 0.0

    def roots(chosen: NDArray[np.int64]) -> float:
        assert relevance is not None
        return float(np.sqrt(np.bincount(groups[chosen], weights=relevance[chosen])).sum()) if chosen.size else 0.0

    def value(selection: Sequence[int]) -> float:
        chosen = np.asarray(selection, dtype=np.int64)
        total = 0.0
        if "relevance" in problem.terms:
            total += weights.relevance * share(relevance[chosen].sum(), relevance.sum())
        if "coverage" in problem.terms:
            covered = covers[chosen].max(axis=0, initial=0)
            total += weights.coverage * share(covered @ problem.coverage_weights, np.sum(problem.coverage_weights))
        if "representation" in problem.terms:
            cap = problem.saturation * similarity.sum(axis=1)
            total += weights.representation * share(np.minimum(similarity[chosen].sum(axis=0), cap).sum(), cap.sum())
        if "diversity" in problem.terms:
            whole = np.sqrt(relevance.sum()) if problem.normalisation == "p1" else roots(np.arange(n))
            total += weights.diversity * share(roots(chosen), whole)
        if "facility_location" in problem.terms:
            nearest = similarity[chosen].max(axis=0, initial=0)
            total += weights.facility_location * share(nearest.sum(), similarity.max(axis=1, initial=0).sum())
        return float(total)

    return value


def fits(problem: PackingProblem, selection: Sequence[int]) -> bool:
    """Whether a selection is within the budget, the cap and what is allowed, with all that is pinned."""
    core = problem.core()
    chosen = np.asarray(selection, dtype=np.int64)
    allowed = problem.allowed is None or bool(np.asarray(problem.allowed)[chosen].all())
    within_cap = problem.max_items is None or chosen.size <= problem.max_items
    return core.spending(chosen)[1] and allowed and within_cap and set(np.asarray(problem.pinned)) <= set(selection)


def _density_greedy(problem: PackingProblem, value: Callable[[Sequence[int]], float], start: list[int]) -> list[int]:
    chosen = list(start)
    while True:
        base = value(chosen)
        best, best_density = -1, 0.0
        for item in range(len(problem)):
            if item not in chosen and fits(problem, [*chosen, item]):
                density = (value([*chosen, item]) - base) / np.asarray(problem.costs)[item]
                # Differences of whole objectives are exact to about 1e-15 only: below that it is a tie.
                if density > best_density + 1e-13:
                    best, best_density = item, density
        if best < 0:
            return chosen
        chosen.append(best)


def _greedy(problem: PackingProblem, plan: Plan, request: Request) -> Result:
    value = objective(problem)
    pinned = np.asarray(problem.pinned).tolist()
    path = _density_greedy(problem, value, pinned)
    best = path
    for size in range(len(pinned), len(path) + 1) if plan.method == "greedy_plus_max" else (len(pinned),):
        prefix = path[:size]
        singles = [i for i in range(len(problem)) if i not in prefix and fits(problem, [*prefix, i])]
        for item in singles:
            if value([*prefix, item]) > value(best) + 1e-13:
                best = [*prefix, item]
    if best is not path and plan.method == "greedy_plus_max":
        best = _density_greedy(problem, value, best)
    return _result(problem, plan, best, value, upper_bound=None)


def _enumerate(problem: PackingProblem, plan: Plan, request: Request) -> Result:
    n = len(problem)
    if n > _ENUMERATION_LIMIT:
        raise ValueError(f"backend 'numpy' enumerates at most {_ENUMERATION_LIMIT} items, got {n}")
    value = objective(problem)
    best: list[int] = np.asarray(problem.pinned).tolist()
    best_value = value(best)
    for mask in range(1 << n):
        chosen = [i for i in range(n) if mask >> i & 1]
        if fits(problem, chosen) and value(chosen) > best_value:
            best, best_value = chosen, value(chosen)
    return _result(problem, plan, best, value, upper_bound=best_value)


def _result(
    problem: PackingProblem,
    plan: Plan,
    selection: list[int],
    value: Callable[[Sequence[int]], float],
    upper_bound: float | None,
) -> Result:
    begin = time.perf_counter()
    reached = value(selection)
    gains = np.diff([value(selection[:k]) for k in range(len(selection) + 1)])
    items = np.asarray(selection, dtype=np.int64)
    costs = np.asarray(problem.costs)[items]
    for array in (items, gains, costs):
        array.setflags(write=False)
    gap = None if upper_bound is None else gap_of(reached, upper_bound)
    provenance: dict[str, Any] = {
        "method": plan.method,
        "chosen_by": plan.chosen_by,
        "backend": "numpy",
        "device": "cpu",
        "instruction_set": None,
        "seed": None,
        "options": dict(plan.options),
        "version": __version__,
        "terms": problem.terms,
    }
    return Result(
        selection=items,
        objective=reached,
        cost=problem.core().spending(items)[0],
        certificate=Certificate(reached, fits(problem, selection), upper_bound, gap, upper_bound and "exact"),
        trace=PackingTrace(items, gains, costs),
        timings={"certificate": time.perf_counter() - begin},
        status="feasible" if upper_bound is None else "optimal",
        provenance=provenance,
    )


RUNNERS = {
    (PackingProblem, "greedy_plus_max"): _greedy,
    (PackingProblem, "lazy_greedy"): _greedy,
    (PackingProblem, "exact"): _enumerate,
}
