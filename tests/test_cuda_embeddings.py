"""Packing from embeddings with backend="cuda": sums by the device, arrays that lie there, the bits of "cpu"."""

from __future__ import annotations

import ctypes
import pickle
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import isinglass as ig
import numpy as np
import pytest
from isinglass.backends import cuda, cuda_packing
from isinglass.problems.device import DeviceArray, device_matrix, on_device
from numpy.typing import NDArray

from tests.cuda_emulated import emulation


@pytest.fixture
def emulated() -> Iterator[ModuleType]:
    with emulation() as native:
        yield native


class OnDevice:
    """A stand-in for an array of CuPy: memory of an emulated device is the host's."""

    def __init__(self, array: NDArray[Any], **changes: Any) -> None:
        self.array = array
        self.__cuda_array_interface__ = {
            "shape": array.shape,
            "typestr": array.dtype.str,
            "data": (array.ctypes.data, True),
            "strides": array.strides,
            "version": 3,
            **changes,
        }


class ByDlpack:
    """An array that offers itself by DLPack alone, and says that it is on a CUDA device."""

    def __init__(self, array: NDArray[Any]) -> None:
        self.array = array

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 0

    def __dlpack__(self) -> Any:
        return self.array.__dlpack__()


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


@pytest.mark.parametrize("given", [OnDevice, ByDlpack])
@pytest.mark.parametrize("n", [60, 1030])
def test_emulated_arrays_of_a_device_are_read_in_place(emulated: ModuleType, given: Any, n: int) -> None:
    arrays = pool(n, 6)
    there = {**arrays, "embeddings": given(arrays["embeddings"])}
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


def test_emulated_array_that_is_not_finite(emulated: ModuleType) -> None:
    arrays = pool(40, 3)
    arrays["embeddings"][7, 1] = np.nan
    arrays["embeddings"] = OnDevice(arrays["embeddings"])
    with pytest.raises(ValueError, match="embeddings must be finite, row 7 is not"):
        ig.solve(ig.PackingProblem(**arrays), backend="cuda")


def test_arrays_of_a_device_are_checked() -> None:
    rows = np.ones((4, 6), dtype=np.float32)
    assert not on_device(rows)
    assert device_matrix("rows", OnDevice(rows, strides=None)).shape == (4, 6)
    with pytest.raises(ValueError, match="on a device must be float32, got <f8"):
        device_matrix("rows", OnDevice(rows.astype(np.float64)))
    with pytest.raises(ValueError, match=r"in C order, got strides \(4, 16\) for shape \(4, 6\)"):
        device_matrix("rows", OnDevice(np.asfortranarray(rows)))
    with pytest.raises(ValueError, match="must be a 2-D array, got 1-D"):
        device_matrix("rows", OnDevice(rows[0]))
    with pytest.raises(ValueError, match="on a device must be float32, got DLPack type 0"):
        device_matrix("rows", ByDlpack(np.ones((2, 2), dtype=np.int32)))
    by_dlpack = device_matrix("rows", ByDlpack(rows[1:]))
    assert by_dlpack.pointer == rows[1:].ctypes.data
    assert ctypes.c_float.from_address(by_dlpack.pointer).value == 1
    with pytest.raises(ValueError, match="must have 5 rows"):
        ig.PackingProblem(np.ones(5), 2, embeddings=OnDevice(rows))
    sampled = ig.PackingProblem(np.ones(4), 2, embeddings=OnDevice(rows), represented=2)
    with pytest.raises(ValueError, match="represented wholly: give represented=4, got 2"):
        sampled.core()
    with pytest.raises(ValueError, match="lies on a CUDA device"):
        np.asarray(ig.PackingProblem(np.ones(4), 2, embeddings=OnDevice(rows)).embeddings)


def test_large_pool_on_the_device_equals_cpu() -> None:
    if not (state := cuda.availability()).available:
        pytest.skip(f"no CUDA device: {state.reason}")
    arrays = pool(20_000, 384)
    assert_same(ig.solve(ig.PackingProblem(**arrays), backend="cuda"), ig.solve(ig.PackingProblem(**arrays)))
    cupy = pytest.importorskip("cupy")
    there = {**arrays, "embeddings": cupy.asarray(arrays["embeddings"])}
    assert_same(ig.solve(ig.PackingProblem(**there), backend="cuda"), ig.solve(ig.PackingProblem(**arrays)))
