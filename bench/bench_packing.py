"""Packing against a numba lazy greedy: `pytest bench/bench_packing.py`.

Both sides get the similarity ready made and run on one core. Ours is `solve()` with its fast certificate, from call to
selection; the peer is lazy greedy alone.
"""

from __future__ import annotations

from typing import Any

import isinglass as ig
import numpy as np
import pytest
from isinglass.generators import packing_arrays

numba_greedy = pytest.importorskip("bench.numba_greedy", reason="the peer needs numba (extra test)")

SIZES = [(20, 160), (60, 160), (200, 160), (200, 1024), (1000, 1024), (1000, 8192)]


def problem_and_peer(n: int, budget: int) -> tuple[ig.PackingProblem, tuple[Any, ...]]:
    arrays = packing_arrays(n, seed=1)
    problem = ig.PackingProblem(budget=budget, **arrays)
    cap = problem.saturation * arrays["similarity"].sum(axis=1, dtype=np.float64)
    groups = np.unique(arrays["groups"], return_inverse=True)[1]
    peer = (
        arrays["similarity"],
        cap,
        arrays["relevance"],
        arrays["coverage"],
        groups,
        int(groups.max()) + 1,
        arrays["costs"],
        budget,
        np.array([1.0, 0.5, 0.4, 0.3]),
    )
    return problem, peer


@pytest.mark.parametrize(("n", "budget"), SIZES)
def bench_greedy_plus_max(benchmark: Any, backend: str, n: int, budget: int) -> None:
    benchmark.group = f"pack n={n} budget={budget}"
    problem, peer = problem_and_peer(n, budget)
    problem.core()
    result = benchmark(lambda: (r := ig.solve(problem, backend=backend), r.selection)[0])
    assert result.certificate.feasible
    assert result.objective >= numba_greedy.lazy_greedy(*peer)[1] - 1e-12
    assert result.certificate.gap < 0.35


@pytest.mark.parametrize(("n", "budget"), SIZES)
def bench_lazy_greedy(benchmark: Any, backend: str, n: int, budget: int) -> None:
    benchmark.group = f"pack n={n} budget={budget}"
    problem, peer = problem_and_peer(n, budget)
    problem.core()
    result = benchmark(lambda: (r := ig.solve(problem, "lazy_greedy", backend), r.selection)[0])
    assert result.selection.tolist() == numba_greedy.lazy_greedy(*peer)[0].tolist()


@pytest.mark.parametrize(("n", "budget"), SIZES)
def bench_peer_numba(benchmark: Any, n: int, budget: int) -> None:
    benchmark.group = f"pack n={n} budget={budget}"
    _, peer = problem_and_peer(n, budget)
    numba_greedy.lazy_greedy(*peer)
    selection, _ = benchmark(numba_greedy.lazy_greedy, *peer)
    assert selection.size


@pytest.mark.parametrize("n", [20, 60, 200])
def bench_tight_certificate(benchmark: Any, backend: str, n: int) -> None:
    benchmark.group = f"tight certificate n={n}"
    problem, _ = problem_and_peer(n, 160)
    problem.core()
    result = benchmark(lambda: ig.solve(problem, backend=backend, certificate="tight"))
    assert result.certificate.gap < 0.08


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("queries", [1_000, 10_000])
def bench_batch(benchmark: Any, backend: str, threads: int, queries: int) -> None:
    benchmark.group = f"batch of {queries:,} n=60 budget=160"
    problems = [ig.PackingProblem(budget=160, **packing_arrays(60, seed=seed)) for seed in range(queries)]
    ig.solve_many(problems, backend=backend, threads=threads)
    results = benchmark(lambda: ig.solve_many(problems, backend=backend, threads=threads))
    assert results[7].selection.tolist() == ig.solve(problems[7], backend=backend).selection.tolist()
