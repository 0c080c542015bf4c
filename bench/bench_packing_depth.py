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


def embedded(n: int, dimension: int) -> dict[str, Any]:
    """Arguments of a problem from embeddings in fifty clusters, with the other terms of `packing_arrays`."""
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(50, dimension))
    return {
        "costs": rng.integers(3, 40, n),
        "relevance": rng.random(n),
        "coverage": rng.random((n, 8)) < 0.3,
        "groups": rng.integers(0, max(1, n // 3), n),
        "embeddings": (rng.normal(size=(n, dimension)) + centres[rng.integers(0, 50, n)]).astype(np.float32),
    }


@pytest.mark.parametrize(("n", "dimension", "budget"), [(60, 384, 160), (2000, 320, 1024), (10_000, 320, 1024)])
def bench_from_embeddings(benchmark: Any, backend: str, n: int, dimension: int, budget: int) -> None:
    """From arrays to the answer, the problem's checks included, on one core."""
    benchmark.group = f"from embeddings n={n} d={dimension} budget={budget}"
    arrays = embedded(n, dimension)
    tight = "tight" if n <= 200 else "fast"

    def run() -> ig.Result:
        problem = ig.PackingProblem(budget=budget, **arrays)
        problem.core(threads=1)
        return ig.solve(problem, backend=backend, certificate=tight, threads=1)

    result = benchmark.pedantic(run, rounds=200 if n <= 200 else 2, warmup_rounds=1 if n <= 200 else 0)
    assert result.certificate.feasible
    assert result.certificate.gap < 0.35
    problem = ig.PackingProblem(budget=budget, **arrays)
    benchmark.extra_info["bytes"] = problem.working_bytes
    assert n <= 2048 or problem.working_bytes < n * n
