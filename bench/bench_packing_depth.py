"""Packing beyond one greedy run: effort, proofs, quality: `pytest bench/bench_packing_depth.py`."""

from __future__ import annotations

from typing import Any

import isinglass as ig
import numpy as np
import pytest
from isinglass.generators import packing_arrays

from bench import packing_quality


@pytest.mark.parametrize("family", packing_quality.FAMILIES)
def bench_quality(benchmark: Any, family: str) -> None:
    benchmark.group = "share of the optimum, 200 instances of 16"
    rows = benchmark.pedantic(lambda: list(packing_quality.shares(family, 200)), rounds=1)
    mean = {name: float(np.mean([row[0][name] for row in rows])) for name in packing_quality.METHODS}
    benchmark.extra_info.update(mean)
    assert mean["greedy_plus_max"] >= 0.986
    assert mean['greedy_plus_max, effort="high"'] >= 0.995
    assert min(row[0]['greedy_plus_max, effort="high"'] for row in rows) >= 0.93
    assert np.mean([row[1]["tight"] for row in rows]) <= 1.05


@pytest.mark.parametrize(("n", "budget"), [(20, 160), (60, 160), (200, 160)])
def bench_high_effort(benchmark: Any, backend: str, n: int, budget: int) -> None:
    benchmark.group = f"effort high n={n} budget={budget}"
    problem = ig.PackingProblem(budget=budget, **packing_arrays(n, seed=1))
    problem.core()
    result = benchmark(lambda: ig.solve(problem, "greedy_plus_max", backend, effort="high", threads=1))
    assert result.objective >= ig.solve(problem, backend=backend).objective


@pytest.mark.parametrize(("n", "budget"), [(20, 80), (60, 80), (60, 160), (100, 160)])
def bench_exact(benchmark: Any, backend: str, n: int, budget: int) -> None:
    benchmark.group = f"exact n={n} budget={budget}"
    problem = ig.PackingProblem(budget=budget, **packing_arrays(n, seed=1))
    problem.core()
    result = benchmark.pedantic(lambda: ig.solve(problem, "exact", backend, time_limit=20), rounds=2)
    assert result.status == "optimal"
