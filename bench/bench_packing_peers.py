"""Packing against apricot and submodlib on the terms that they can state: `pytest bench/bench_packing_peers.py`.

Equal task: one term, `COUNT` items of equal cost (apricot knows no other budget), similarity given. Equal answer:
the value that each reaches, by our `certify`, is that of plain greedy; ties may be broken otherwise. The bare `fit` of
apricot is timed, and submodlib with its function object, since that is where it takes the similarity over.
"""

from __future__ import annotations

from typing import Any

import isinglass as ig
import numpy as np
import pytest
from isinglass.generators import packing_arrays

N, COUNT = 1000, 50
TERMS = ("facility_location", "representation", "diversity", "coverage")


def instance(term: str) -> tuple[ig.PackingProblem, dict[str, Any]]:
    arrays = packing_arrays(N, num_terms=400, seed=1)
    arrays["coverage"] &= np.random.default_rng(1).random(arrays["coverage"].shape) < 0.05
    off = dict.fromkeys(("relevance", "coverage", "representation", "diversity", "facility_location"), 0.0)
    weights = ig.PackingWeights(**{**off, term: 1.0})
    arrays["costs"] = np.ones(N)
    return ig.PackingProblem(budget=COUNT, weights=weights, **arrays), arrays


def check(term: str, chosen: Any) -> None:
    problem, _ = instance(term)
    ours = ig.solve(problem, "lazy_greedy").objective
    assert len(set(map(int, chosen))) == COUNT
    slack = 0.02 if term == "coverage" else 2e-3  # whole terms are covered or not: most picks are ties
    value = ig.certify(problem, np.asarray(chosen, dtype=np.int64), level="fast").value
    assert value == pytest.approx(ours, rel=slack)


@pytest.mark.parametrize("term", TERMS)
def bench_lazy_greedy(benchmark: Any, backend: str, term: str) -> None:
    benchmark.group = f"{term} n={N} k={COUNT}"
    problem, _ = instance(term)
    ig.solve(problem, backend=backend)
    result = benchmark(lambda: ig.solve(problem, "lazy_greedy", backend))
    assert result.certificate.feasible


@pytest.mark.parametrize("term", TERMS[:3])
def bench_peer_apricot(benchmark: Any, term: str) -> None:
    apricot = pytest.importorskip("apricot", reason="a peer that is not installed: apricot-select (extra bench)")
    pytest.importorskip("numba").set_num_threads(1)  # one thread, like us; on a busy machine more make it slower
    benchmark.group = f"{term} n={N} k={COUNT}"
    problem, arrays = instance(term)
    similarity = arrays["similarity"].astype(np.float64)
    make, given = {
        "facility_location": (
            lambda: apricot.FacilityLocationSelection(COUNT, "precomputed", optimizer="lazy"),
            similarity,
        ),
        "representation": (
            lambda: apricot.SaturatedCoverageSelection(COUNT, "precomputed", alpha=0.3, optimizer="lazy"),
            similarity,
        ),
        "diversity": (
            lambda: apricot.FeatureBasedSelection(COUNT, concave_func="sqrt", optimizer="lazy"),
            np.eye(int(problem.groups.max()) + 1)[problem.groups] * arrays["relevance"][:, None],
        ),
    }[term]
    make().fit(given)  # compiles
    chosen = benchmark(lambda: make().fit(given).ranking)
    check(term, chosen)


@pytest.mark.parametrize("term", ["facility_location", "coverage"])
def bench_peer_submodlib(benchmark: Any, term: str) -> None:
    submodlib = pytest.importorskip("submodlib", reason="a peer that is not installed: submodlib-py (extra bench)")
    benchmark.group = f"{term} n={N} k={COUNT}"
    _, arrays = instance(term)
    covered = [set(map(int, np.flatnonzero(row))) for row in arrays["coverage"]]

    def select() -> list[int]:
        if term == "coverage":
            function = submodlib.SetCoverFunction(n=N, cover_set=covered, num_concepts=arrays["coverage"].shape[1])
        else:
            function = submodlib.FacilityLocationFunction(
                n=N, mode="dense", sijs=arrays["similarity"], separate_rep=False
            )
        picks = function.maximize(budget=COUNT, optimizer="LazyGreedy", show_progress=False)
        return [item for item, _ in picks]

    check(term, benchmark(select))
