"""Packing from embeddings with backend="cuda": sums by the device, arrays that lie there, the bits of "cpu"."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType
from typing import Any

import isinglass as ig
import numpy as np
import pytest
from isinglass.backends import cuda, cuda_packing
from isinglass.problems import packing
from isinglass.problems.device import DeviceArray

from tests.cuda_emulated import emulation
from tests.device_arrays import GIVEN, ByInterface


@pytest.fixture
def emulated() -> Iterator[ModuleType]:
    with emulation() as native:
        yield native


def pool(n: int, d: int, **more: Any) -> dict[str, Any]:
    rng = np.random.default_rng(n)
    return {
        "costs": rng.integers(5, 60, n),
        "budget": 400,
        "relevance": rng.random(n),
        "groups": rng.integers(0, 9, n),
        "embeddings": (rng.normal(size=(n, d)) + 0.4).astype(np.float32),
        **more,
    }


def assert_same(found: ig.Result, wanted: ig.Result) -> None:
    assert found.selection.tolist() == wanted.selection.tolist()
    np.testing.assert_array_equal(found.trace.gains, wanted.trace.gains)
    assert found.certificate == wanted.certificate
    assert found.status == wanted.status


@pytest.mark.parametrize("represented", [None, 300])
def test_emulated_large_pool_equals_cpu(
    emulated: ModuleType, monkeypatch: pytest.MonkeyPatch, represented: int | None
) -> None:
    monkeypatch.setattr(cuda_packing, "_PRODUCTS_THAT_PAY", 0)
    arrays = pool(1100, 5, represented=represented)
    launches = emulated.devices().launches
    found = ig.solve(ig.PackingProblem(**arrays), backend="cuda")
    assert emulated.devices().launches > launches
    assert_same(found, ig.solve(ig.PackingProblem(**arrays)))
    assert found.provenance["device"].startswith("emulated 0")


@pytest.mark.parametrize("represented", [None, 60])
def test_emulated_gains_of_a_large_pool_are_the_device_s(
    emulated: ModuleType, monkeypatch: pytest.MonkeyPatch, represented: int | None
) -> None:
    monkeypatch.setattr(cuda_packing, "_PRODUCTS_THAT_PAY", 0)
    monkeypatch.setattr(packing, "_STORED_SIMILARITY", 1000)
    weights = ig.PackingWeights(relevance=0.3, representation=0.3, facility_location=1.0)
    arrays = pool(1030, 3, represented=represented, weights=weights)
    problem = ig.PackingProblem(**arrays)
    before = emulated.devices().launches
    found = ig.solve(problem, backend="cuda")
    assert emulated.devices().launches - before > 2 * len(found.selection)  # a row a pick, and gains
    assert_same(found, ig.solve(ig.PackingProblem(**arrays)))
    launches = emulated.devices().launches
    assert_same(ig.solve(problem, backend="cpu"), found)  # without the device that lent a hand before
    assert emulated.devices().launches == launches


def lent() -> dict[str, Any]:
    """A large pool whose gains a device forms, of which few items fit."""
    weights = ig.PackingWeights(relevance=0.3, facility_location=1.0)
    costs = np.where(np.arange(1030) < 120, 10, 1000)
    return pool(1030, 3, represented=40, weights=weights, costs=costs, budget=40)


def test_emulated_device_lends_a_hand_to_one_thread_alone(
    emulated: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuda_packing, "_PRODUCTS_THAT_PAY", 0)
    monkeypatch.setattr(packing, "_STORED_SIMILARITY", 1000)
    arrays = lent()
    problem, wanted = ig.PackingProblem(**arrays), ig.solve(ig.PackingProblem(**arrays))
    launches = emulated.devices().launches
    ig.solve(problem, backend="cuda")
    alone = emulated.devices().launches - launches
    ig.solve(problem, backend="cuda")
    again = emulated.devices().launches - launches - alone  # its sums are known
    of_others: list[int] = []

    def meanwhile(share: float) -> None:
        for backend in ("cpu", "cuda") if not of_others else ():
            before = emulated.devices().launches
            with ThreadPoolExecutor(1) as other:
                assert_same(other.submit(ig.solve, problem, backend=backend).result(), wanted)
            of_others.append(emulated.devices().launches - before)

    launches = emulated.devices().launches
    assert_same(ig.solve(problem, backend="cuda", progress=meanwhile), wanted)
    assert of_others[0] == 0
    assert emulated.devices().launches - launches == again + sum(of_others)  # the first goes on there


def test_emulated_failure_amid_picks_parks_nothing_of_the_device(
    emulated: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuda_packing, "_PRODUCTS_THAT_PAY", 0)
    monkeypatch.setattr(packing, "_STORED_SIMILARITY", 1000)
    devices = emulated.devices()
    problem = ig.PackingProblem(**lent())
    wanted = ig.solve(problem, backend="cuda")

    def fail(share: float) -> None:
        devices.failure = "cudaErrorIllegalAddress"

    def failing() -> None:
        with pytest.raises(RuntimeError, match=r"kernel .*: cudaErrorIllegalAddress"):
            ig.solve(problem, backend="cuda", progress=fail)

    failing()
    before = devices.replays
    assert_same(ig.solve(problem, backend="cuda"), wanted)
    replays = devices.replays - before
    failing()
    before = devices.replays
    assert_same(ig.solve(problem, backend="cuda"), wanted)
    assert devices.replays - before == replays  # by streams that began anew
    assert devices.held_at_reset == 0


@pytest.mark.parametrize("given", GIVEN)
@pytest.mark.parametrize("n", [60, 1030])
@pytest.mark.parametrize("represented", [None, 50])
def test_emulated_arrays_of_a_device_are_read_in_place(
    emulated: ModuleType, given: str, n: int, represented: int | None
) -> None:
    arrays = pool(n, 6, represented=represented)
    there = {**arrays, "embeddings": GIVEN[given](arrays["embeddings"])}
    problem = ig.PackingProblem(**there)
    assert isinstance(problem.embeddings, DeviceArray)
    assert problem.embeddings.pointer == arrays["embeddings"].ctypes.data
    with pytest.raises(ValueError, match="embeddings lie on a CUDA device: solve with backend='cuda'"):
        ig.solve(problem, backend="cpu")
    found = ig.solve(problem, backend="cuda")
    assert_same(found, ig.solve(ig.PackingProblem(**arrays)))
    many = ig.solve_many([ig.PackingProblem(**there)] * 2, backend="cuda", certificate="tight")
    assert_same(many[1], ig.solve(ig.PackingProblem(**arrays), certificate="tight"))
    with pytest.raises(TypeError, match="stays in its process"):
        pickle.dumps(problem)


@pytest.mark.parametrize("represented", [None, 300])
@pytest.mark.parametrize("pinned", [None, [5, 7]])
def test_emulated_array_on_the_device_keeps_a_time_limit(
    emulated: ModuleType, represented: int | None, pinned: list[int] | None
) -> None:
    arrays = pool(1100, 4, represented=represented, pinned=pinned)
    problem = ig.PackingProblem(**{**arrays, "embeddings": ByInterface(arrays["embeddings"])})
    cut = ig.solve(problem, backend="cuda", time_limit=0)
    assert cut.status == "time_limit"
    assert cut.certificate.feasible
    whole = ig.solve(problem, backend="cuda")
    assert_same(whole, ig.solve(ig.PackingProblem(**arrays)))
    assert whole.certificate.value <= cut.certificate.upper_bound


@pytest.mark.parametrize("represented", [None, 300])
def test_emulated_facility_location_of_an_array_on_the_device(emulated: ModuleType, represented: int | None) -> None:
    weights = ig.PackingWeights(facility_location=0.7)
    arrays = pool(1100, 4, represented=represented, weights=weights)
    there = {**arrays, "embeddings": ByInterface(arrays["embeddings"])}
    assert_same(ig.solve(ig.PackingProblem(**there), backend="cuda"), ig.solve(ig.PackingProblem(**arrays)))


def test_emulated_array_that_is_not_finite(emulated: ModuleType) -> None:
    arrays = pool(40, 3)
    arrays["embeddings"][7, 1] = np.nan
    arrays["embeddings"] = ByInterface(arrays["embeddings"])
    with pytest.raises(ValueError, match="embeddings must be finite, row 7 is not"):
        ig.solve(ig.PackingProblem(**arrays), backend="cuda")


def test_large_pool_on_the_device_equals_cpu() -> None:
    if not (state := cuda.availability()).available:
        pytest.skip(f"no CUDA device: {state.reason}")
    arrays = pool(20_000, 384)
    assert_same(ig.solve(ig.PackingProblem(**arrays), backend="cuda"), ig.solve(ig.PackingProblem(**arrays)))
    cupy = pytest.importorskip("cupy")
    there = {**arrays, "embeddings": cupy.asarray(arrays["embeddings"])}
    assert_same(ig.solve(ig.PackingProblem(**there), backend="cuda"), ig.solve(ig.PackingProblem(**arrays)))
