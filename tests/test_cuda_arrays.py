"""Arrays on a device by their protocols, and what is refused; on the emulated module where a device takes part."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import isinglass as ig
import numpy as np
import pytest
from isinglass.backends import BackendError
from isinglass.problems.device import device_array, on_device
from numpy.typing import NDArray

from tests.cuda_emulated import emulation
from tests.device_arrays import GIVEN, ByDlpack, ByInterface, ByOldDlpack, change_tensor


@pytest.fixture
def emulated() -> Iterator[ModuleType]:
    with emulation() as native:
        yield native
        native.devices().of_others = 0


def floats(name: str, value: Any) -> Any:
    return device_array(name, value, ndim=2, dtypes=(np.float32,))


ROWS: NDArray[Any] = np.arange(24, dtype=np.float32).reshape(4, 6)


@pytest.mark.parametrize("given", GIVEN)
@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.float32, np.float64])
def test_arrays_of_a_device_are_taken_where_they_lie(given: str, dtype: type) -> None:
    rows = ROWS.astype(dtype)[1:]
    found = device_array("rows", GIVEN[given](rows), ndim=2, dtypes=(np.int8, dtype))
    assert (found.pointer, found.shape, found.dtype) == (rows.ctypes.data, (3, 6), np.dtype(dtype))


def test_only_arrays_of_a_device_are_taken_for_such() -> None:
    assert not on_device(ROWS)
    assert not on_device([[1.0]])
    assert not on_device(ByDlpack(ROWS, device_type=1))
    assert not on_device(ByDlpack(ROWS, device_type=3))  # pinned memory of the host
    assert on_device(ByDlpack(ROWS, device_type=13))  # managed memory
    assert on_device(ByInterface(ROWS))


def test_order_is_asked_of_the_producer() -> None:
    """By DLPack the producer orders its work before the stream that is named: the legacy default one."""
    producer, older = ByDlpack(ROWS), ByOldDlpack(ROWS)
    floats("rows", producer)
    assert producer.asked == {"stream": 1, "max_version": (1, 0)}
    floats("rows", older)
    assert older.asked == {"stream": 1}


def test_memory_lives_as_long_as_the_array() -> None:
    for given in GIVEN.values():
        array = ROWS.copy()
        gone = weakref.ref(array)
        found = floats("rows", given(array))
        del array
        assert gone() is not None
        del found
        assert gone() is None


def test_entries_along_one_row_have_no_stride_to_speak_of() -> None:
    one = ROWS[:1]
    assert floats("rows", ByInterface(one, strides=(4, 4))).shape == (1, 6)
    assert floats("rows", ByInterface(ROWS, strides=None)).shape == (4, 6)
    assert floats("rows", ByInterface(ROWS[:, :1].copy(), strides=(4, 400))).shape == (4, 1)
    assert floats("rows", ByInterface(ROWS[:0], data=(0, False))).shape == (0, 6)


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        (ByInterface(ROWS.astype(np.float64)), ValueError, "rows on a device must be float32, got float64"),
        (ByInterface(ROWS.astype(">f4")), ValueError, "rows on a device must be float32, got >f4"),
        (ByInterface(ROWS, typestr="<V2"), ValueError, "rows on a device must be float32, got <V2"),
        (ByInterface(np.asfortranarray(ROWS)), ValueError, r"in C order, got strides \(4, 16\) for shape \(4, 6\)"),
        (ByDlpack(ROWS[:, ::2]), ValueError, r"in C order, got strides \(24, 8\) for shape \(4, 3\)"),
        (ByInterface(ROWS[0]), ValueError, "rows must be a 2-D array, got 1-D"),
        (ByInterface(ROWS, mask=object()), TypeError, "rows must not be a masked array: fill it first"),
        (ByInterface(ROWS, data=(0, False)), ValueError, "got a null pointer: was it freed"),
        (ByDlpack(np.ones((2, 2), dtype=np.int32)), ValueError, "must be float32, got int32"),
        (ByDlpack(np.ones((2, 2), dtype=complex)), ValueError, "must be float32, got complex128"),
        (ByDlpack(np.ones((2, 2), dtype=bool)), ValueError, "must be float32, got bool8"),
    ],
)
def test_other_arrays_are_refused_by_name(value: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        floats("rows", value)


class Changed(ByOldDlpack):
    """A producer that says something else of its tensor."""

    changes: dict[str, int] = {}  # noqa: RUF012

    def __dlpack__(self, *, stream: Any = None) -> Any:  # type: ignore[override]
        return change_tensor(self.array.__dlpack__(), **self.changes)


def test_types_that_numpy_lacks_are_named() -> None:
    producer = Changed(ROWS)
    for changes, name in (
        ({"code": 4, "bits": 16}, "bfloat16"),
        ({"lanes": 4}, "float32 in lanes of 4"),
        ({"bits": 8}, "float8"),
    ):
        producer.changes = changes
        with pytest.raises(ValueError, match=f"rows on a device must be float32, got {name}$"):
            floats("rows", producer)


def test_byte_offsets_count() -> None:
    producer = Changed(ROWS)
    producer.changes = {"byte_offset": 8}
    assert floats("rows", producer).pointer == ROWS.ctypes.data + 8


class Consumed(ByOldDlpack):
    def __dlpack__(self, *, stream: Any = None) -> Any:  # type: ignore[override]
        capsule = self.array.__dlpack__()
        np.from_dlpack(_Again(capsule))
        return capsule


class _Again:
    def __init__(self, capsule: Any) -> None:
        self.capsule = capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0

    def __dlpack__(self, **_: Any) -> Any:
        return self.capsule


def test_a_consumed_capsule_is_refused() -> None:
    with pytest.raises(BufferError, match="got one named b'used_dltensor': was it consumed before"):
        floats("rows", Consumed(ROWS))


def test_a_later_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from isinglass.problems import device

    class Later:
        major, minor = 2, 0

    monkeypatch.setattr(device._VersionedTensor, "from_address", lambda _: Later)
    with pytest.raises(BufferError, match=r"DLPack 1 or older, got version 2\.0"):
        floats("rows", ByDlpack(ROWS))


# --- which device ----------------------------------------------------------------------------------------------------


def packed(rows: Any, **options: Any) -> ig.Result:
    return ig.solve(ig.PackingProblem(np.ones(4), 2, embeddings=rows), backend="cuda", **options)


@pytest.mark.parametrize("given", GIVEN)
def test_emulated_solve_runs_where_its_arrays_lie(emulated: ModuleType, given: str) -> None:
    emulated.devices().of_others = 1
    assert packed(GIVEN[given](ROWS)).provenance["device"] == "emulated 1 (cuda:1)"
    assert packed(GIVEN[given](ROWS), device=1).provenance["device"] == "emulated 1 (cuda:1)"
    assert packed(ROWS).provenance["device"] == "emulated 0 (cuda:0)"
    with pytest.raises(BackendError, match=r"a solve on cuda:0 needs its arrays there, got one on cuda:1: DeviceArray"):
        packed(GIVEN[given](ROWS), device=0)


def test_emulated_pointer_to_the_host_is_refused(emulated: ModuleType) -> None:
    emulated.devices().of_others = -1
    with pytest.raises(ValueError, match="must have its memory there, got memory of the host"):
        packed(ByInterface(ROWS))


def test_emulated_empty_arrays_lie_nowhere(emulated: ModuleType) -> None:
    emulated.devices().of_others = -1
    problem = ig.PackingProblem(np.ones(0), 2, embeddings=ByInterface(ROWS[:0], data=(0, False)))
    assert ig.solve(problem, backend="cuda").selection.size == 0


def test_shapes_of_embeddings_on_a_device_are_checked() -> None:
    with pytest.raises(ValueError, match="must have 5 rows"):
        ig.PackingProblem(np.ones(5), 2, embeddings=ByInterface(ROWS))
    with pytest.raises(ValueError, match="at least one column"):
        ig.PackingProblem(np.ones(4), 2, embeddings=ByInterface(ROWS[:, :0], data=(0, False)))
    with pytest.raises(ValueError, match="lies on a CUDA device"):
        np.asarray(ig.PackingProblem(np.ones(4), 2, embeddings=ByInterface(ROWS)).embeddings)
