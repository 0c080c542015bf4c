"""The slow judge of evidence problems: every feasible selection, valued by the formula as it is written."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from math import comb
from typing import Any

import numpy as np

from isinglass.backends import Plan, Request
from isinglass.problems.evidence import EvidenceProblem
from isinglass.result import Certificate, Result
from isinglass.version import __version__

_MOST_SELECTIONS = 1_000_000


def value_of(problem: EvidenceProblem, chosen: tuple[int, ...]) -> float:
    """The paper's objective, one sum after the other."""
    weights, support, w = problem.weights, problem.support, problem.requirement_weights
    needs = [{j for j in range(len(w)) if support[j, i] > 0} for i in range(len(problem))]
    value = 0.0
    for i in chosen:
        value += weights.alpha * problem.relevance[i] - weights.mu
        value += weights.eta * sum(w[j] * support[j, i] for j in range(len(w)))
        value -= weights.kappa * (not needs[i])
    for j in range(len(w)):
        value += w[j] * weights.gamma_partial * any(support[j, i] >= 1 for i in chosen)
        value += w[j] * weights.gamma_direct * any(support[j, i] == 2 for i in chosen)
    for i, k in itertools.combinations(chosen, 2):
        shared, either = len(needs[i] & needs[k]), len(needs[i] | needs[k])
        rho = shared / either if shared else weights.rho_diff
        value += weights.delta * problem.complementarity[i, k] - weights.beta * rho * problem.redundancy[i, k]
    return float(value)


def feasible_selections(problem: EvidenceProblem) -> Iterator[tuple[int, ...]]:
    """Every selection within the limits, the smaller first.

    Raises
    ------
    ValueError
        For more than a million of them before the token budget.
    """
    n = len(problem)
    most = min(problem.max_passages, n)
    count = sum(comb(n, k) for k in range(most + 1))
    if count > _MOST_SELECTIONS:
        raise ValueError(f"backend 'numpy' enumerates at most {_MOST_SELECTIONS:,} selections, got {count:,}")
    for k in range(most + 1):
        for chosen in itertools.combinations(range(n), k):
            if problem.costs is None or not problem.violations(chosen):
                yield chosen


def _enumerate(problem: EvidenceProblem, plan: Plan, request: Request) -> Result:
    if unused := [name for name, value in plan.options.items() if value is not None]:
        raise ValueError(f"backend 'numpy' enumerates: it takes no {unused[0]}")
    begin = time.perf_counter()
    best: tuple[int, ...] = ()
    best_value = 0.0
    for chosen in feasible_selections(problem):
        if (value := value_of(problem, chosen)) > best_value:
            best, best_value = chosen, value
    selection = np.array(best, dtype=np.int64)
    selection.setflags(write=False)
    return Result(
        selection=selection,
        objective=best_value,
        cost=problem.cost(selection),
        certificate=Certificate(best_value, True, best_value, 0.0, "exact"),
        status="optimal",
        timings={"search": time.perf_counter() - begin},
        provenance={
            "method": plan.method,
            "chosen_by": plan.chosen_by,
            "backend": "numpy",
            "device": "cpu",
            "instruction_set": None,
            "seed": None,
            "options": {key: value for key, value in plan.options.items() if value is not None},
            "version": __version__,
        },
    )


RUNNERS: dict[tuple[type, str], Any] = {(EvidenceProblem, "exact"): _enumerate}
