"""The slow judge: short NumPy, no laziness, no incremental state. Asked for by name only."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isinglass.backends import Availability, BackendError, Plan, Request, reference_evidence, reference_qubo
from isinglass.problems.packing import PackingProblem
from isinglass.problems.qubo import Qubo
from isinglass.result import Certificate, PackingTrace, Result, gap_of
from isinglass.version import __version__

_ENUMERATION_LIMIT = 20
_TIE = 1e-13  # differences of whole objectives are exact to about 1e-15 only


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
    rows_of = np.repeat(np.arange(len(problem)), np.diff(csr.row_start))
    dense[rows_of, csr.column] = csr.value
    return dense


def objective(problem: PackingProblem) -> Callable[[Sequence[int]], float]:
    """F as a function of a selection, by the definition of each term."""
    n = len(problem)
    weights = problem.weights
    parts: list[tuple[float, Callable[[NDArray[np.int64]], float], float]] = []

    def add(name: str, part: Callable[[NDArray[np.int64]], float], whole: float | None = None) -> None:
        divisor = part(np.arange(n)) if whole is None else whole
        if name in problem.terms and divisor > 0:
            parts.append((getattr(weights, name), part, divisor))

    if (relevance := problem.relevance) is not None:
        add("relevance", lambda chosen: float(relevance[chosen].sum()))
        if (groups := problem.groups) is not None:
            whole = float(np.sqrt(relevance.sum())) if problem.normalisation == "p1" else None
            add("diversity", lambda s: float(np.sqrt(np.bincount(groups[s], weights=relevance[s])).sum()), whole)
    if problem.coverage is not None:
        term_weights = np.asarray(problem.coverage_weights)
        covers = np.zeros((n, term_weights.size))
        covers[np.repeat(np.arange(n), np.diff(problem.coverage.row_start)), problem.coverage.column] = 1
        add("coverage", lambda s: float(covers[s].max(axis=0, initial=0) @ term_weights), float(term_weights.sum()))
    if (similarity := similarity_of(problem)) is not None:
        cap = problem.saturation * similarity.sum(axis=0)
        if problem.represented_items is not None:
            similarity, cap = similarity[:, problem.represented_items], cap[problem.represented_items]
        represented = lambda s: float(np.minimum(similarity[s].sum(axis=0), cap).sum())  # noqa: E731
        add("representation", represented, float(cap.sum()))
        add("facility_location", lambda s: float(similarity[s].max(axis=0, initial=0).sum()))

    def value(selection: Sequence[int]) -> float:
        chosen = np.asarray(selection, dtype=np.int64)
        own = sum(term.weight * term.value(selection) for term in problem.own_terms)
        return float(sum(weight * part(chosen) / whole for weight, part, whole in parts) + own)

    return value


def fits(problem: PackingProblem, selection: Sequence[int]) -> bool:
    """Whether a selection is within the budget, the cap and what is allowed, with all that is pinned."""
    chosen = np.asarray(selection, dtype=np.int64)
    allowed = problem.allowed is None or bool(problem.allowed[chosen].all())
    within_cap = problem.max_items is None or chosen.size <= problem.max_items
    # Costs that are fractions of a common granule, as the problem says: 22 / 160 counts as the fraction.
    spent = sum((Fraction(float(cost)).limit_denominator(10_000) for cost in problem.costs[chosen]), Fraction(0))
    close = all(float(Fraction(float(c)).limit_denominator(10_000)) == c for c in problem.costs)
    within = spent <= problem.budget if close else math.fsum(problem.costs[chosen]) <= problem.budget
    return within and allowed and within_cap and set(problem.pinned.tolist()) <= set(selection)


def _density_greedy(problem: PackingProblem, value: Callable[[Sequence[int]], float], start: list[int]) -> list[int]:
    chosen = list(start)
    while True:
        base = value(chosen)
        best, best_density = -1, 0.0
        for item in range(len(problem)):
            if item not in chosen and fits(problem, [*chosen, item]):
                density = (value([*chosen, item]) - base) / problem.costs[item]
                if density > best_density + _TIE:
                    best, best_density = item, density
        if best < 0:
            return chosen
        chosen.append(best)


def _greedy_from(
    problem: PackingProblem, value: Callable[[Sequence[int]], float], start: list[int], plus_max: bool
) -> list[int]:
    path = _density_greedy(problem, value, start)
    best = path
    for size in range(len(start), len(path) + 1) if plus_max else ():
        best = _best_with_single(problem, value, path[:size], best)
    return _density_greedy(problem, value, best) if best is not path else best


def _best_with_single(
    problem: PackingProblem, value: Callable[[Sequence[int]], float], prefix: list[int], best: list[int]
) -> list[int]:
    for item in range(len(problem)):
        if item not in prefix and fits(problem, [*prefix, item]) and value([*prefix, item]) > value(best) + _TIE:
            best = [*prefix, item]
    return best


def _polish(problem: PackingProblem, value: Callable[[Sequence[int]], float], selection: list[int]) -> list[int]:
    pinned = problem.pinned.size
    selection = _density_greedy(problem, value, selection)
    position = len(selection) - 1
    while position >= pinned:
        rest = selection[:position] + selection[position + 1 :]
        best = _best_with_single(problem, value, rest, selection)
        if best is selection:
            position -= 1
        else:
            selection = _density_greedy(problem, value, best)
            position = len(selection) - 1
    return selection


def _greedy(problem: PackingProblem, plan: Plan, request: Request) -> Result:
    value = objective(problem)
    pinned = problem.pinned.tolist()
    plus_max = plan.method == "greedy_plus_max"
    best = _greedy_from(problem, value, pinned, plus_max)
    if not plus_max:
        best = _best_with_single(problem, value, pinned, best)
    if plan.options["effort"] == "high":
        for item in range(len(problem)):
            if item not in pinned and fits(problem, [*pinned, item]):
                found = _greedy_from(problem, value, [*pinned, item], plus_max)
                best = found if value(found) > value(best) + _TIE else best
        best = _polish(problem, value, best)
    return _result(problem, plan, best, value, upper_bound=None)


def _enumerate(problem: PackingProblem, plan: Plan, request: Request) -> Result:
    n = len(problem)
    if n > _ENUMERATION_LIMIT:
        raise ValueError(f"backend 'numpy' enumerates at most {_ENUMERATION_LIMIT} items, got {n}")
    if plan.options["node_limit"] is not None:
        raise BackendError("backend 'numpy' enumerates every set: it has no nodes to limit, got node_limit")
    value = objective(problem)
    best: list[int] = problem.pinned.tolist()
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
    costs = problem.costs[items]
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
        cost=math.fsum(costs),
        certificate=Certificate(
            reached, fits(problem, selection), upper_bound, gap, None if upper_bound is None else "exact"
        ),
        trace=PackingTrace(items, gains, costs),
        timings={"certificate": time.perf_counter() - begin},
        status="feasible" if upper_bound is None else "optimal",
        provenance=provenance,
    )


IMPLIES: dict[type, str] = {Qubo: "anneal"}  # of its two, the one for any size


def _unlimited(run: Callable[[Any, Plan, Request], Result]) -> Callable[[Any, Plan, Request], Result]:
    def checked(problem: Any, plan: Plan, request: Request) -> Result:
        if request.memory_limit is not None:
            raise BackendError("backend 'numpy' cannot honour memory_limit")
        return run(problem, plan, request)

    return checked


REFUSES = ("device", "keep_on_device")
RUNNERS: dict[tuple[type, str], Any] = {
    key: _unlimited(run)
    for key, run in {
        **reference_qubo.RUNNERS,
        **reference_evidence.RUNNERS,
        (PackingProblem, "greedy_plus_max"): _greedy,
        (PackingProblem, "lazy_greedy"): _greedy,
        (PackingProblem, "exact"): _enumerate,
    }.items()
}
