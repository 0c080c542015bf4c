"""Arrays on a device by their protocols, and what is refused; on the emulated module where a device takes part."""

from __future__ import annotations

import ctypes
import gc
import pickle
import weakref
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import isinglass as ig
import numpy as np
import pytest
from isinglass import _core
from isinglass.backends import BackendError, cuda
from isinglass.measure import cosines
from isinglass.problems.device import DeviceArray, device_array, on_device
from numpy.typing import NDArray

from tests.cuda_emulated import emulation
from tests.device_arrays import GIVEN, SPEAKS_DLPACK_1, ByDlpack, ByInterface, ByOldDlpack, change_tensor


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
        pytest.param(
            ByDlpack(np.ones((2, 2), dtype=bool)),
            ValueError,
            "must be float32, got bool8",
            marks=pytest.mark.skipif(not SPEAKS_DLPACK_1, reason="this NumPy has no booleans in DLPack"),
        ),
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


@pytest.mark.skipif(not SPEAKS_DLPACK_1, reason="this NumPy has no capsules of DLPack 1")
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
    with pytest.raises(BackendError, match=r"a solve on cuda:0 needs its arrays there, got them on cuda:1"):
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


@pytest.mark.parametrize("represented", [None, 30])
@pytest.mark.parametrize("n", [40, 1100, 3000])
def test_embeddings_on_a_device_are_refused_elsewhere(n: int, represented: int | None) -> None:
    arrays: dict[str, Any] = {"costs": np.arange(1, n + 1), "budget": 100, "represented": represented}
    problem = ig.PackingProblem(**arrays, embeddings=ByInterface(random_rows(n, 3)))
    there = "lies? on a CUDA device: solve with backend='cuda', or give a copy of"
    for method in ("greedy_plus_max", "lazy_greedy", "exact", "sharded", "stochastic_greedy"):
        with pytest.raises(ValueError, match=there):
            ig.solve(problem, method)
    for call in (
        lambda: ig.solve(problem, "lazy_greedy", "numpy"),
        lambda: ig.solve(problem, effort="high"),
        lambda: ig.solve_many([problem, problem]),
        lambda: ig.certify(problem, [0, 1]),
        lambda: ig.certify(problem, [0, 1], level="tight"),
    ):
        with pytest.raises(ValueError, match=there):
            call()


# --- cosines ---------------------------------------------------------------------------------------------------------


def random_rows(n: int, d: int, seed: int = 0) -> NDArray[np.float32]:
    rows = (np.random.default_rng(seed).normal(size=(n, d)) + 0.2).astype(np.float32)
    rows[n // 2] = 0
    return rows


def there(array: DeviceArray) -> NDArray[Any]:
    """Memory of an emulated device as it is, found by the array's own interface."""
    said = array.__cuda_array_interface__
    size = int(np.prod(said["shape"])) * np.dtype(said["typestr"]).itemsize
    raw = (ctypes.c_uint8 * size).from_address(said["data"][0])
    return np.frombuffer(raw, said["typestr"]).reshape(said["shape"])


@pytest.mark.parametrize(("n", "m", "d"), [(1, 1, 1), (5, 17, 3), (40, 33, 64), (0, 3, 2), (3, 0, 2)])
def test_cosines_are_those_of_the_definition(isa: str, n: int, m: int, d: int) -> None:
    rows, others = random_rows(n, d) if n else np.ones((0, d)), random_rows(m, d, 1) if m else np.ones((0, d))
    found = cosines(rows, others)
    assert found.shape == (n, m)
    assert found.dtype == np.float32
    assert not found.flags.writeable

    def unit(a: NDArray[Any]) -> NDArray[Any]:
        a = a.astype(np.float64)
        length = np.sqrt((a**2).sum(axis=1, keepdims=True))
        return np.divide(a, length, out=np.zeros_like(a), where=length > 0)

    np.testing.assert_allclose(found, np.clip(unit(rows) @ unit(others).T, 0, 1), atol=1e-6)


def test_cosines_are_those_of_packing(isa: str) -> None:
    rows = random_rows(70, 20)
    wanted = _core.cosine_similarity(rows, 1)
    found = np.array(cosines(rows, rows))
    np.fill_diagonal(found, wanted.diagonal())
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(
    ("rows", "others", "message"),
    [
        (np.ones((2, 3)), np.ones((2, 4)), r"others must have 3 columns, as rows have, got shape \(2, 4\)"),
        (np.ones(3), np.ones((2, 3)), r"rows must be 2-D, got shape \(3,\)"),
        (np.full((1, 2), np.nan), np.ones((2, 2)), r"rows\[0, 0\] must be finite"),
        (np.ones((2, 0)), np.ones((2, 0)), "rows must have at least one column"),
        (np.full((1, 2), 1e-60), np.ones((2, 2)), r"rows\[0\] must be zero or have an entry of at least"),
    ],
)
def test_cosines_refuse_by_name(rows: Any, others: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        cosines(rows, others)


@pytest.mark.parametrize(("n", "m", "d"), [(1, 1, 1), (5, 130, 3), (140, 33, 20), (0, 3, 2), (3, 0, 2)])
@pytest.mark.parametrize("which", ["rows", "others", "both"])
def test_emulated_cosines_equal_cpu(emulated: ModuleType, n: int, m: int, d: int, which: str) -> None:
    rows, others = random_rows(n + 1, d)[:n], random_rows(m + 1, d, 1)[:m]
    wanted = cosines(rows, others)
    first = ByInterface(rows) if which != "others" else rows
    second = ByDlpack(others) if which != "rows" else others
    launches = emulated.devices().launches
    np.testing.assert_array_equal(cosines(first, second), wanted)
    assert n * m == 0 or emulated.devices().launches > launches


@pytest.mark.parametrize("order", [0, 1])
def test_emulated_cosines_stay_on_the_device(emulated: ModuleType, order: int) -> None:
    rows, others = random_rows(40, 6), random_rows(9, 6, 1)
    wanted = cosines(rows, others)
    emulated.order_threads(order)
    emulated.fill_memory(17 * order)
    for first, second in ((rows, others), (ByInterface(rows), others)):
        found = cosines(first, second, on_device=True)
        assert isinstance(found, DeviceArray)
        assert (found.shape, found.dtype, found.device, len(found)) == ((40, 9), np.float32, 0, 40)
        np.testing.assert_array_equal(there(found), wanted)
        np.testing.assert_array_equal(found.to_host(), wanted)
        # Into the next one, where it is.
        np.testing.assert_array_equal(cosines(found, wanted), cosines(wanted, wanted))
    emulated.devices().of_others = 1
    assert cosines(ByInterface(rows), others, on_device=True).device == 1
    with pytest.raises(
        ValueError, match=r"must lie on one device, got some on cuda:1 and DeviceArray\(shape=\(40, 9\)"
    ):
        cosines(ByInterface(wanted), found)


def test_emulated_cosines_of_rows_that_are_not_finite(emulated: ModuleType) -> None:
    rows = random_rows(40, 3)
    bad = rows.copy()
    bad[7, 1] = np.inf
    with pytest.raises(ValueError, match="rows must be finite, row 7 is not"):
        cosines(ByInterface(bad), rows)
    with pytest.raises(ValueError, match="others must be finite, row 7 is not"):
        cosines(rows, ByInterface(bad))


def test_arrays_of_a_device_need_one() -> None:
    if cuda.availability().available:
        pytest.skip("a CUDA device is there")
    for call in (
        lambda: cosines(ByInterface(ROWS), ROWS),
        lambda: cosines(ROWS, ROWS, on_device=True),
        lambda: ig.PackingProblem(ByInterface(ROWS[0]), 3),
        lambda: ig.DeviceArray.copy_of(ROWS),
    ):
        with pytest.raises(BackendError, match="arrays on a CUDA device need one that is available: "):
            call()


# --- out, to other libraries -----------------------------------------------------------------------------------------


class OnlyDlpack:
    """What a library sees that takes DLPack alone."""

    def __init__(self, array: DeviceArray, **more: Any) -> None:
        self.__dlpack_device__ = array.__dlpack_device__
        self.take = array.__dlpack__
        self.more = more

    def __dlpack__(self, **asked: Any) -> Any:
        return self.take(**{**asked, **self.more})


@pytest.mark.parametrize("version", [None, (0, 8), (1, 0), (1, 3)])
def test_emulated_arrays_go_out_by_dlpack(emulated: ModuleType, version: tuple[int, int] | None) -> None:
    found = cosines(random_rows(40, 6), random_rows(9, 6, 1), on_device=True)
    capsule = found.__dlpack__(stream=2, max_version=version)
    versioned = version is not None and version[0] >= 1
    assert repr(capsule).startswith(f'<capsule object "dltensor{"_versioned" if versioned else ""}"')
    taken = floats("taken", OnlyDlpack(found, max_version=version))
    assert (taken.pointer, taken.shape, taken.readonly) == (found.pointer, (40, 9), False)
    np.testing.assert_array_equal(there(taken), there(found))


def test_emulated_memory_lives_as_long_as_what_others_took(emulated: ModuleType) -> None:
    found = cosines(random_rows(8, 6), random_rows(9, 6, 1), on_device=True)
    wanted, gone = found.to_host(), weakref.ref(found.owner)
    capsule, versioned = found.__dlpack__(), found.__dlpack__(max_version=(1, 0))
    taken = floats("taken", OnlyDlpack(found))
    del found
    del capsule, versioned
    assert gone() is not None
    np.testing.assert_array_equal(there(taken), wanted)
    del taken
    assert gone() is None


def test_emulated_arrays_are_offered_where_they_are(emulated: ModuleType) -> None:
    found = cosines(ROWS, ROWS, on_device=True)
    assert found.__dlpack_device__() == (2, 0)
    with pytest.raises(BufferError, match="without a copy"):
        found.__dlpack__(copy=True)
    with pytest.raises(BufferError, match="offered there"):
        found.__dlpack__(dl_device=(1, 0))
    borrowed = floats("rows", ByInterface(ROWS))
    assert borrowed.__cuda_array_interface__["data"] == (ROWS.ctypes.data, True)
    with pytest.raises(BufferError, match="a read-only array goes by DLPack 1"):
        borrowed.__dlpack__()
    assert floats("again", OnlyDlpack(borrowed)).readonly
    with pytest.raises(TypeError, match="stays in its process"):
        pickle.dumps(found)


def round_trips(device: int) -> None:
    """Arrays of our own from one call to the next, as a caller has them who has no other library."""
    rows, others = random_rows(300, 24), random_rows(40, 24, 1)
    there = ig.DeviceArray.copy_of(rows, device)
    assert (there.shape, there.dtype, there.device) == ((300, 24), np.float32, device)
    np.testing.assert_array_equal(there.to_host(), rows)
    alike = cosines(there, others, on_device=True)
    np.testing.assert_array_equal(alike.to_host(), cosines(rows, others))
    for n in (300, 1100):
        arrays: dict[str, Any] = {"costs": np.arange(1, n + 1), "budget": 3 * n, "relevance": np.ones(n)}
        pool = random_rows(n, 8, 2)
        found = ig.solve(ig.PackingProblem(**arrays, embeddings=ig.DeviceArray.copy_of(pool, device)), backend="cuda")
        wanted = ig.solve(ig.PackingProblem(**arrays, embeddings=pool), backend="cpu")
        assert found.selection.tolist() == wanted.selection.tolist()
        np.testing.assert_array_equal(found.trace.gains, wanted.trace.gains)
    Q = np.random.default_rng(4).integers(-99, 100, (300, 300)).astype(np.int16)
    options: dict[str, Any] = {"seed": 3, "num_reads": 300, "num_sweeps": 5}
    found = ig.solve(ig.Qubo(ig.DeviceArray.copy_of(Q, device)), "anneal", "cuda", keep_on_device=True, **options)
    wanted = ig.solve(ig.Qubo(Q), "anneal", "cpu", **options)
    np.testing.assert_array_equal(found.samples, wanted.samples)
    np.testing.assert_array_equal(found.energies, wanted.energies)
    # Reads of 300 variables, 300 of them, are a matrix of int8 too: it stays where it is.
    again = ig.Qubo(found.device_samples)
    assert again.device_rows is not None
    np.testing.assert_array_equal(
        again.energies(wanted.samples[:5]), ig.Qubo(wanted.samples).energies(wanted.samples[:5])
    )


def test_emulated_arrays_of_our_own_make_round_trips(emulated: ModuleType) -> None:
    round_trips(1)


def test_arrays_of_our_own_make_round_trips_on_a_device() -> None:
    if not (state := cuda.availability()).available:
        pytest.skip(f"no CUDA device: {state.reason}")
    round_trips(0)


def test_emulated_copies_are_checked(emulated: ModuleType) -> None:
    with pytest.raises(ValueError, match="int or float of at most 64 bits, got dtype bool"):
        ig.DeviceArray.copy_of([True])
    with pytest.raises(ValueError, match="int or float of at most 64 bits, got dtype >f4"):
        ig.DeviceArray.copy_of(ROWS.astype(">f4"))
    with pytest.raises(TypeError, match="must not be a masked array"):
        ig.DeviceArray.copy_of(np.ma.masked_array(ROWS, ROWS > 3))
    with pytest.raises(ValueError, match=r"device must be in 0\.\.1, got 2"):
        ig.DeviceArray.copy_of(ROWS, 2)
    with pytest.raises(ValueError, match="device must be an integer, got True"):
        ig.DeviceArray.copy_of(ROWS, True)
    with pytest.raises(ValueError, match="on_device must be True or False, got 'no'"):
        cosines(ROWS, ROWS, on_device="no")  # type: ignore[call-overload]
    assert ig.DeviceArray.copy_of(np.asfortranarray(ROWS)).to_host().tolist() == ROWS.tolist()
    assert ig.DeviceArray.copy_of(np.ones((0, 3))).to_host().shape == (0, 3)


# --- everything else is small, and copied ----------------------------------------------------------------------------


@pytest.mark.parametrize("given", GIVEN)
def test_emulated_small_arrays_come_to_the_host(emulated: ModuleType, given: str) -> None:
    rng, lay = np.random.default_rng(5), GIVEN[given]
    costs, relevance = rng.integers(5, 40, 30), rng.random(30)
    similarity = np.array(cosines(random_rows(30, 4), random_rows(30, 4)))
    arrays = {"costs": costs, "relevance": relevance.astype(np.float32), "similarity": similarity}
    found = ig.PackingProblem(budget=100, **{name: lay(array) for name, array in arrays.items()})
    wanted = ig.PackingProblem(budget=100, **arrays)
    np.testing.assert_array_equal(found.similarity, wanted.similarity)
    assert ig.solve(found).selection.tolist() == ig.solve(wanted).selection.tolist()

    support, redundancy = rng.integers(0, 3, (4, 30)).astype(np.int32), similarity.astype(np.float64)
    problem = ig.EvidenceProblem(lay(relevance), lay(support), redundancy=lay(redundancy))
    assert problem.objective([1, 5]) == ig.EvidenceProblem(relevance, support, redundancy=redundancy).objective([1, 5])
    with pytest.raises(ValueError, match="relevance must be a 1-D array, got 2-D"):
        ig.EvidenceProblem(lay(redundancy), support)
    with pytest.raises(ValueError, match=r"relevance\[0\] must be finite and >= 0"):
        ig.EvidenceProblem(lay(-1 - relevance), support)


# --- evidence from embeddings ----------------------------------------------------------------------------------------


def evidence(lay: Any = lambda rows: rows, **more: Any) -> ig.EvidenceProblem:
    passages, requirements, query = random_rows(40, 12), random_rows(5, 12, 1)[[0, 1, 3, 4]], random_rows(3, 12, 2)[:1]
    options = {"query": lay(query), "thresholds": (0.1, 0.3), "max_passages": 4, **more}
    return ig.EvidenceProblem.from_embeddings(lay(passages), lay(requirements), **options)


def test_evidence_from_embeddings_by_hand() -> None:
    passages = np.array([[1, 0, 0], [1, 1, 0], [0, 0, 2.0], [-1, 0, 0]])
    problem = ig.EvidenceProblem.from_embeddings(
        passages, np.array([[1, 0, 0], [0, 0, 1.0]]), np.array([[0, 1, 0.0]]), thresholds=(0.5, 0.9), max_passages=2
    )
    half = np.sqrt(0.5)
    np.testing.assert_array_equal(problem.support, [[2, 1, 0, 0], [0, 0, 2, 0]])
    np.testing.assert_allclose(problem.relevance, [0, half, 0, 0], atol=1e-7)
    np.testing.assert_allclose(problem.redundancy[0], [0, half, 0, 0], atol=1e-7)
    np.testing.assert_array_equal(problem.complementarity[2], [0.5, 0.5, 0, 0])
    assert sorted(ig.solve(problem, "exact").selection.tolist()) == [0, 2]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"query": None}, "give query or relevance, got neither"),
        ({"relevance": np.ones(40)}, "give query or relevance, got both"),
        ({"query": np.ones((2, 12))}, r"query must have shape \(1, d\), got 2 rows"),
        ({"query": np.ones((1, 11))}, r"query must have 12 columns, as passages have, got shape \(1, 11\)"),
        ({"query": np.ones(12)}, r"query must be 2-D, got shape \(12,\)"),
        ({"thresholds": (0.4, 0.3)}, "thresholds must ascend"),
        ({"thresholds": 0.4}, r"thresholds must be a pair \(partial, direct\), got 0.4"),
        ({"thresholds": (0, 0.3)}, r"thresholds\[0\] must be finite and > 0"),
        ({"requirement_weights": np.ones(3)}, r"requirement_weights must have shape \(4,\)"),
    ],
)
def test_evidence_from_embeddings_refuses_by_name(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        evidence(**changes)


@pytest.mark.parametrize("given", GIVEN)
def test_emulated_evidence_is_built_where_embeddings_lie(emulated: ModuleType, given: str) -> None:
    wanted, found = evidence(), evidence(GIVEN[given])
    for name in ("relevance", "support", "redundancy", "complementarity"):
        np.testing.assert_array_equal(getattr(found, name), getattr(wanted, name))
    assert wanted.support.max() == 2
    assert found.to_qubo().qubo == wanted.to_qubo().qubo
    solved = ig.solve(found, "swap", "cuda", seed=3)
    assert solved.selection.tolist() == ig.solve(wanted, "swap", "cpu", seed=3).selection.tolist()


# --- on a device itself ----------------------------------------------------------------------------------------------


@pytest.fixture
def cupy() -> Any:
    if not (state := cuda.availability()).available:
        pytest.skip(f"no CUDA device: {state.reason}")
    return pytest.importorskip("cupy")


def test_cupy_arrays_on_a_device(cupy: Any) -> None:
    """From embeddings to a QUBO and back, in a stream of the caller's, without the host."""
    rows = random_rows(2000, 64)
    with cupy.cuda.Stream(non_blocking=True):
        there = cupy.asarray(rows) * cupy.float32(1)  # still under way when it is taken
        similar = cupy.asarray(cosines(there, there, on_device=True))
        Q = cupy.rint(1000 * similar).astype(cupy.int32)
        Q -= cupy.diag(cupy.full(2000, 20_000, dtype=cupy.int32))
        found = ig.solve(ig.Qubo(Q), "anneal", "cuda", seed=1, num_reads=8, num_sweeps=50, keep_on_device=True)
    wanted = np.rint(1000 * np.asarray(cosines(rows, rows))).astype(np.int32) - 20_000 * np.eye(2000, dtype=np.int32)
    expected = ig.solve(ig.Qubo(wanted), "anneal", "cpu", seed=1, num_reads=8, num_sweeps=50)
    np.testing.assert_array_equal(found.energies, expected.energies)
    for taken in (cupy.asarray(found.device_samples), cupy.from_dlpack(found.device_samples)):
        np.testing.assert_array_equal(taken.get(), expected.samples)


def test_cupy_embeddings_make_evidence(cupy: Any) -> None:
    wanted, found = evidence(), evidence(cupy.asarray)
    for name in ("relevance", "support", "redundancy"):
        np.testing.assert_array_equal(getattr(found, name), getattr(wanted, name))


def test_torch_tensors_on_a_device() -> None:
    if not (state := cuda.availability()).available:
        pytest.skip(f"no CUDA device: {state.reason}")
    torch = pytest.importorskip("torch")
    rows, others = random_rows(300, 32), random_rows(20, 32, 1)
    found = cosines(torch.from_numpy(rows).cuda(), torch.from_numpy(others).cuda(), on_device=True)
    for taken in (torch.from_dlpack(found), torch.as_tensor(found, device="cuda")):
        np.testing.assert_array_equal(taken.cpu().numpy(), cosines(rows, others))


def test_emulated_array_of_a_device_that_was_reset_is_not_released_again(emulated: ModuleType) -> None:
    devices, kept = emulated.devices(), ig.DeviceArray.copy_of(ROWS)
    devices.failure = "cudaErrorIllegalAddress"
    with pytest.raises(RuntimeError, match="cudaErrorIllegalAddress"):
        ig.solve(ig.Qubo(np.eye(9)), "anneal", "cuda")
    del kept
    gc.collect()
    assert devices.released_unknown == 0
    assert ig.DeviceArray.copy_of(ROWS).to_host().tolist() == ROWS.tolist()
