"""Swap search of evidence problems with backend="cuda": the answers of "cpu", bit for bit."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from types import ModuleType

import isinglass as ig
import numpy as np
import pytest
from isinglass.backends import cuda

from tests.cuda_emulated import emulation
from tests.evidence_cases import small, with_tokens


@pytest.fixture
def emulated() -> Iterator[ModuleType]:
    with emulation() as native:
        yield native


def problems() -> list[ig.EvidenceProblem]:
    sizes = [(1, 1), (3, 2), (20, 4), (33, 5), (40, 12), (64, 3)]
    return [small(n, k, min(n, k), seed=n) for n, k in sizes] + [with_tokens(n) for n in (8, 37)]


def assert_same(batch: list[ig.EvidenceProblem], **options: object) -> None:
    found = ig.solve_many(batch, "swap", "cuda", seed=5, **options)
    wanted = ig.solve_many(batch, "swap", "cpu", seed=5, **options)
    np.testing.assert_array_equal(found.objectives, wanted.objectives)
    np.testing.assert_array_equal(found.offsets, wanted.offsets)
    np.testing.assert_array_equal(found.selections, wanted.selections)
    for a, b in zip(found, wanted, strict=True):
        assert a.status == b.status
        assert a.certificate == b.certificate
        for name in ("num_reads", "patience", "num_moves", "seed", "options"):
            assert a.provenance[name] == b.provenance[name]


def test_emulated_swaps_equal_cpu(emulated: ModuleType) -> None:
    assert_same(problems())
    emulated.order_threads(3)
    emulated.fill_memory(0x11)
    assert_same(problems(), num_reads=3, patience=12)


def test_emulated_solve_is_one_of_many(emulated: ModuleType) -> None:
    problem = problems()[2]
    one = ig.solve(problem, "swap", "cuda", seed=5)
    assert one.selection.tolist() == ig.solve(problem, "swap", "cpu", seed=5).selection.tolist()
    assert one.provenance["backend"] == "cuda"
    assert one.provenance["device"] == "emulated 0 (cuda:0)"
    assert one.provenance["instruction_set"] == "host"
    assert pickle.loads(pickle.dumps(one)).objective == one.objective


def test_emulated_refusals(emulated: ModuleType) -> None:
    large = small(260, 3, 4, seed=1)
    with pytest.raises(ValueError, match=r"at most 256 passages, got 260 \(problem 1\)"):
        ig.solve_many([problems()[0], large], "swap", "cuda", seed=1)
    with pytest.raises(ValueError, match="no method 'exact'"):
        ig.solve(problems()[0], "exact", "cuda")
    emulated.devices().failure = "cudaErrorDeviceLost"
    with pytest.raises(RuntimeError, match="kernel evidence_swap: cudaErrorDeviceLost"):
        ig.solve(problems()[0], "swap", "cuda", seed=1)
    assert_same(problems()[:2])  # a second call works
    before = emulated.devices().memory
    emulated.devices().memory = 1000
    try:
        with pytest.raises(MemoryError, match=r"needs \d+ bytes, has \d+ free"):
            ig.solve(small(200, 3, 4, seed=1), "swap", "cuda", seed=1)
    finally:
        emulated.devices().memory = before


def test_swaps_on_the_device_equal_cpu() -> None:
    if not (state := cuda.availability()).available:
        pytest.skip(f"no CUDA device: {state.reason}")
    assert_same([small(n, 5, 5, seed=n) for n in range(20, 257, 40)] * 20)
