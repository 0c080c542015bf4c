"""Packing straight from embeddings: the same bits as from the matrix that they mean, without forming it."""

from __future__ import annotations

import isinglass as ig
import numpy as np
import pytest
from isinglass import _core
from isinglass.generators import packing_arrays
from isinglass.problems import packing


def instance(n, budget, seed, *, d=24, clusters=4, zeros=False, **options):
    """Clustered embeddings with every other term; `zeros`: some rows of zeros."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n, d)) + 1.5 * rng.normal(size=(clusters, d))[rng.integers(0, clusters, n)]
    if zeros:
        rows[:: max(2, n // 5)] = 0
    arrays = packing_arrays(n, seed=seed)
    del arrays["similarity"]
    return ig.PackingProblem(budget=budget, embeddings=rows.astype(np.float32), **{**arrays, **options})


@pytest.fixture
def never_stored(monkeypatch):
    monkeypatch.setattr(packing, "_STORED_SIMILARITY", -1)


CASES = [
    {},
    {"zeros": True},
    {"saturation": 0.05},
    {"weights": ig.PackingWeights(facility_location=0.5)},
    {"pinned": [2, 0]},
    {"max_items": 5},
    {"weights": ig.PackingWeights(relevance=0, coverage=0, representation=1, diversity=0), "saturation": 1.0},
]


@pytest.mark.parametrize("case", range(len(CASES)))
@pytest.mark.parametrize("n", [7, 16, 45, 130])
def test_computed_rows_give_the_bits_of_stored_ones(case, n, monkeypatch):
    stored = instance(n, 80 + 3 * n, case, **CASES[case])
    stored.core()
    monkeypatch.setattr(packing, "_STORED_SIMILARITY", -1)
    computed = instance(n, 80 + 3 * n, case, **CASES[case])
    for method, options in [("greedy_plus_max", {}), ("lazy_greedy", {}), ("greedy_plus_max", {"effort": "high"})]:
        expected, got = ig.solve(stored, method, **options), ig.solve(computed, method, **options)
        assert got.selection.tolist() == expected.selection.tolist()
        assert got.trace.gains.tobytes() == expected.trace.gains.tobytes()
        assert got.certificate == expected.certificate
    assert got.selection.size
    tight, judge = ig.solve(computed, certificate="tight"), ig.solve(stored, certificate="tight")
    assert tight.certificate.upper_bound >= tight.objective
    assert tight.certificate.upper_bound == pytest.approx(judge.certificate.upper_bound, rel=0.02)


def test_branch_and_bound_runs_on_computed_rows(never_stored):
    p = instance(14, 70, 3, weights=ig.PackingWeights(facility_location=0.3))
    assert ig.solve(p, "exact").objective == pytest.approx(ig.solve(p, "exact", backend="numpy").objective, abs=1e-6)


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
def test_same_bits_for_any_threads_and_instruction_set(threads, isa, never_stored):
    got = ig.solve(instance(150, 700, 1, d=33, saturation=0.1), threads=threads)
    _core.force_isa("scalar")
    expected = ig.solve(instance(150, 700, 1, d=33, saturation=0.1), threads=1)
    assert got.selection.tolist() == expected.selection.tolist()
    assert got.trace.gains.tobytes() == expected.trace.gains.tobytes()
    assert got.certificate == expected.certificate


def test_the_matrix_is_never_formed():
    n = 6000
    p = instance(n, 500, 0, d=16)
    assert p.working_bytes < n * n // 10
    result = ig.solve(p, memory_limit=p.working_bytes)
    assert result.certificate.feasible
    assert result.selection.size > 20
    with pytest.raises(MemoryError, match=rf"needs {p.working_bytes} bytes, limit {p.working_bytes - 1} bytes"):
        ig.solve(instance(n, 500, 0, d=16), memory_limit=p.working_bytes - 1)


def test_embeddings_agree_with_the_plain_reference(never_stored):
    for seed in range(4):
        p = instance(30, 150, seed, saturation=0.2)
        got, plain = ig.solve(p), ig.solve(p, backend="numpy")
        assert got.selection.tolist() == plain.selection.tolist()
        assert got.objective == pytest.approx(plain.objective, abs=1e-6)


def test_empty_embeddings_of_the_caller_stay_writeable() -> None:
    rows = np.ones((0, 3), dtype=np.float32)
    ig.PackingProblem(np.ones(0), 2, embeddings=rows)
    assert rows.flags.writeable
