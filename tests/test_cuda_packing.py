"""Packing with backend="cuda": picks, gains, objective and bound of "cpu", bit for bit."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import isinglass as ig
import numpy as np
import pytest
from isinglass.backends import cuda

from tests.cuda_emulated import emulation
from tests.packing_instances import problem


@pytest.fixture
def emulated() -> Iterator[ModuleType]:
    with emulation() as native:
        yield native


def assert_same(batch: list[ig.PackingProblem], method: str = "greedy_plus_max", **options: Any) -> None:
    found = ig.solve_many(batch, method, "cuda", **options)
    wanted = ig.solve_many(batch, method, "cpu", **options)
    for name in ("objectives", "costs", "upper_bounds", "offsets", "selections", "statuses"):
        np.testing.assert_array_equal(getattr(found, name), getattr(wanted, name))
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(a.trace.gains, b.trace.gains)
        assert a.certificate == b.certificate
        assert a.provenance["gain_evaluations"] == b.provenance["gain_evaluations"]


def problems() -> list[ig.PackingProblem]:
    embeddings = np.random.default_rng(3).normal(size=(21, 6)).astype(np.float32)
    costs = np.random.default_rng(4).integers(3, 20, 21)
    return [
        *(problem(n, budget, seed=n) for n, budget in [(1, 50), (13, 60), (32, 150), (47, 100), (20, 1)]),
        problem(25, 120, seed=1, facility=True),
        problem(25, 120, seed=2, integer=False),
        problem(30, 200, seed=3, max_items=4),
        problem(30, 200, seed=4, pinned=[4, 17], allowed=np.arange(30) % 3 > 0),
        ig.PackingProblem(costs, 70, relevance=np.linspace(0, 1, 21), embeddings=embeddings),
    ]


@pytest.mark.parametrize("method", ["greedy_plus_max", "lazy_greedy"])
def test_emulated_packing_equals_cpu(emulated: ModuleType, method: str) -> None:
    assert_same(problems(), method)
    emulated.order_threads(5)
    emulated.fill_memory(0x3C)
    assert_same(problems()[:6], method, certificate="tight")


def test_emulated_solve_is_one_of_many(emulated: ModuleType) -> None:
    one = problems()[2]
    found, wanted = (ig.solve(one, backend=backend) for backend in ("cuda", "cpu"))
    assert found.selection.tolist() == wanted.selection.tolist()
    assert found.certificate == wanted.certificate
    assert found.provenance["method"] == "greedy_plus_max"
    assert found.provenance["device"] == "emulated 0 (cuda:0)"
    assert pickle.loads(pickle.dumps(found)).objective == found.objective


def test_emulated_packing_under_no_time(emulated: ModuleType) -> None:
    found = ig.solve(problems()[3], backend="cuda", time_limit=0)
    assert found.status == "time_limit"
    assert found.certificate.upper_bound is not None


def test_emulated_refusals(emulated: ModuleType) -> None:
    with pytest.raises(ValueError, match=r"at most 1024 items, got 1025 \(problem 0\)"):
        ig.solve(ig.PackingProblem(np.ones(1025), 3, relevance=np.ones(1025)), backend="cuda")
    sparse = ig.PackingProblem([1, 1], 1, similarity=pytest.importorskip("scipy.sparse").csr_array(np.eye(2)))
    with pytest.raises(ValueError, match="got a sparse similarity"):
        ig.solve(sparse, backend="cuda")
    with pytest.raises(ValueError, match="cannot honour effort='high' of method 'lazy_greedy'"):
        ig.solve(problems()[0], "lazy_greedy", "cuda", effort="high")
    with pytest.raises(ValueError, match="has no method 'exact'"):
        ig.solve(problems()[0], "exact", "cuda")


def test_packing_on_the_device_equals_cpu() -> None:
    if not (state := cuda.availability()).available:
        pytest.skip(f"no CUDA device: {state.reason}")
    assert_same([problem(n, 10 * n**0.5, seed=n) for n in (20, 60, 200, 257, 1024)] * 20)
