"""QUBO matrices on a device, on the emulated module: packed and searched there, with the answers of a copy."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import isinglass as ig
import numpy as np
import pytest
from isinglass import Qubo
from isinglass.backends import BackendError
from isinglass.problems.device import DeviceArray
from numpy.typing import NDArray

from tests.cuda_emulated import emulation
from tests.device_arrays import GIVEN, ByInterface
from tests.qubo_cases import same


@pytest.fixture
def emulated() -> Iterator[ModuleType]:
    with emulation() as native:
        yield native
        native.devices().of_others = 0


def matrix(n: int, dtype: type, largest: int, factor: int = 1, seed: int = 0) -> NDArray[Any]:
    """Neither symmetric nor triangular: Q[i, j] and Q[j, i] are added."""
    return (factor * np.random.default_rng(seed).integers(-largest, largest + 1, (n, n))).astype(dtype)


#        entries, largest, common factor: bytes of a row
CASES = {
    "int8 to 8": (np.int8, 40, 1, 1),
    "int8 to 16": (np.int8, 127, 1, 2),
    "int16 to 8": (np.int16, 9, 1000, 1),
    "int16 to 16": (np.int16, 9000, 1, 2),
    "int32 to 8": (np.int32, 5, 12345, 1),
    "int32 to 32": (np.int32, 2_000_000, 1, 4),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("n", [257, 300, 320])
def test_emulated_image_is_that_of_a_copy(emulated: ModuleType, case: str, n: int) -> None:
    dtype, largest, factor, size = CASES[case]
    Q = matrix(n, dtype, largest, factor)
    Q[3] = Q[:, 3] = 0  # a variable without any term
    Q[5] = Q[:, 5] = 0
    Q[5, 5] = factor  # and one with a bias alone
    found, wanted = Qubo(ByInterface(Q), offset=2.5), Qubo(Q, offset=2.5)
    core, copy = found.device_core, wanted.core()
    assert core is not None
    assert (core.scale, core.exact, core.max_error) == (copy.scale, True, 0)
    assert (core.worst_field, core.num_couplings) == (copy.worst_field, wanted.num_interactions)
    assert core.window == copy.window  # quantiles of sums of squares, and a walk
    assert (found.num_interactions, found.density, found.labels) == (
        wanted.num_interactions,
        wanted.density,
        wanted.labels,
    )
    np.testing.assert_array_equal(found.linear, wanted.linear)
    rows = found.device_rows
    assert isinstance(rows, DeviceArray)
    assert (rows.dtype.itemsize, rows.shape) == (size, (n, -(-n // 64) * 64))
    couplings = np.rint((Q.astype(float) + Q.T) * copy.scale) * (1 - np.eye(n))
    np.testing.assert_array_equal(rows.to_host()[:, :n], couplings)
    assert not rows.to_host()[:, n:].any()


@pytest.mark.parametrize("given", GIVEN)
def test_emulated_energies_are_those_of_a_copy(emulated: ModuleType, given: str) -> None:
    for case in CASES:
        dtype, largest, factor, _ = CASES[case]
        Q = matrix(290, dtype, largest, factor)
        found, wanted = Qubo(GIVEN[given](Q), -0.75), Qubo(Q, -0.75)
        states = np.random.default_rng(1).integers(0, 2, (11, 290))
        states[0], states[1] = 0, 1
        np.testing.assert_array_equal(found.energies(states), wanted.energies(states))
        assert found.energy(states[3]) == wanted.energy(states[3])


SEARCHES: dict[str, dict[str, Any]] = {
    "anneal": {"num_reads": 5, "num_sweeps": 70},
    "anneal short": {"num_reads": 2, "num_sweeps": 3},
    "anneal to a target": {"num_reads": 70, "num_sweeps": 1, "target_energy": 0.0},
    "temper": {"num_reads": 1, "num_sweeps": 20},
    "tabu": {"num_reads": 2, "patience": 50, "max_moves": 120},
}


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("case", ["int8 to 8", "int16 to 16", "int32 to 32", "int32 to 8"])
def test_emulated_search_is_that_of_a_copy(emulated: ModuleType, search: str, case: str) -> None:
    dtype, largest, factor, _ = CASES[case]
    Q, method = matrix(270, dtype, largest, factor), search.split()[0]
    found = ig.solve(Qubo(ByInterface(Q), 7.0), method, "cuda", seed=5, **SEARCHES[search])
    wanted = ig.solve(Qubo(Q, 7.0), method, "cpu", seed=5, **SEARCHES[search])
    assert same(found, wanted)
    assert found.provenance["quantisation"] == wanted.provenance["quantisation"]
    assert found.provenance.get("betas") is None or found.provenance["betas"].tolist() == (
        wanted.provenance["betas"].tolist()
    )


def test_emulated_sparse_model_is_searched_where_it_lies(emulated: ModuleType) -> None:
    Q = matrix(270, np.int16, 30) * (np.random.default_rng(3).random((270, 270)) < 0.02)
    for method in ("anneal", "temper"):
        found = ig.solve(Qubo(ByInterface(Q)), method, "cuda", seed=5, num_reads=2, num_sweeps=10)
        assert same(found, ig.solve(Qubo(Q), method, "cpu", seed=5, num_reads=2, num_sweeps=10))


def test_emulated_batches_mix_what_lies_there_and_here(emulated: ModuleType) -> None:
    Q, small = matrix(260, np.int8, 30), matrix(12, np.int8, 30)
    options: dict[str, Any] = {"seed": 4, "num_reads": 2, "num_sweeps": 5}
    found = ig.solve_many([Qubo(ByInterface(Q)), Qubo(Q), Qubo(ByInterface(small))], "anneal", "cuda", **options)
    for result, copy in zip(found, (Q, Q, small), strict=True):
        assert same(result, ig.solve(Qubo(copy), "anneal", "cpu", **options))


def test_emulated_matrix_is_not_needed_afterwards(emulated: ModuleType) -> None:
    Q = matrix(260, np.int8, 30)
    wanted = ig.solve(Qubo(Q), "tabu", seed=1, num_reads=1, patience=20)
    given = Q.copy()
    problem = Qubo(ByInterface(given))
    given[:] = 1
    assert same(ig.solve(problem, "tabu", "cuda", seed=1, num_reads=1, patience=20), wanted)


@pytest.mark.parametrize("given", GIVEN)
@pytest.mark.parametrize(
    "Q", [matrix(256, np.int8, 30), matrix(260, np.float32, 30), matrix(260, np.int64, 30), matrix(3, np.uint8, 0)]
)
def test_emulated_other_matrices_are_copied(emulated: ModuleType, given: str, Q: NDArray[Any]) -> None:
    problem = Qubo(GIVEN[given](Q), labels=[f"v{k}" for k in range(len(Q))])
    assert problem.device_rows is None
    assert problem == Qubo(Q, labels=[f"v{k}" for k in range(len(Q))])


def test_emulated_model_there_is_refused_elsewhere(emulated: ModuleType) -> None:
    problem = Qubo(ByInterface(matrix(260, np.int8, 30)))
    there = "the matrix lies on a CUDA device: solve with backend='cuda' and method 'anneal', 'temper' or 'tabu'"
    for call in (
        lambda: ig.solve(problem),
        lambda: ig.solve(problem, "anneal", "cpu"),
        lambda: ig.solve(problem, "anneal", "numpy"),
        lambda: ig.solve_many([problem, problem], "anneal"),
        lambda: ig.quantize(problem, 8),
        lambda: ig.certify(problem, np.zeros(260)),
        problem.couplings,
        problem.to_numpy,
        problem.spin_terms,
        problem.core,
    ):
        with pytest.raises(ValueError, match=there):
            call()
    with pytest.raises(ValueError, match="bits must be 'auto' for a model that lies on a device: it is exact, got 8"):
        ig.solve(problem, "anneal", "cuda", bits=8)
    with pytest.raises(TypeError, match="stays in its process"):
        pickle.dumps(problem)
    assert problem == problem
    assert problem != Qubo(matrix(260, np.int8, 30))
    assert repr(problem).startswith("Qubo(num_variables=260, density=")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (ByInterface(np.ones((260, 261), dtype=np.int8)), r"Q must be square, shape \(n, n\), got shape \(260, 261\)"),
        (ByInterface(np.ones(260, dtype=np.int8)), "Q must be a 2-D array, got 1-D"),
        (ByInterface(np.ones((260, 260), dtype=bool)), "Q on a device must be int8, int16, .* or float64, got bool"),
        (ByInterface(np.ones((260, 520), dtype=np.int8)[:, ::2]), "Q on a device must be in C order"),
        (ByInterface(np.full((260, 260), 2**30, dtype=np.int32) - np.eye(260, dtype=np.int32)), "keep fields within"),
        (ByInterface(np.broadcast_to(np.int8(1), (32769, 32769)), strides=None), "at most 32768 variables, got 32769"),
    ],
)
def test_emulated_matrices_are_checked(emulated: ModuleType, value: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Qubo(value)


def test_emulated_model_is_searched_on_its_device(emulated: ModuleType) -> None:
    emulated.devices().of_others = 1
    problem = Qubo(ByInterface(matrix(260, np.int8, 30)))
    assert problem.device_rows is not None
    assert problem.device_rows.device == 1
    found = ig.solve(problem, "anneal", "cuda", num_reads=1, num_sweeps=2)
    assert found.provenance["device"] == "emulated 1 (cuda:1)"
    with pytest.raises(BackendError, match="a solve on cuda:0 needs its arrays there, got them on cuda:1"):
        ig.solve(problem, "anneal", "cuda", device=0)


def test_emulated_memory_of_a_model_is_asked_before(emulated: ModuleType) -> None:
    before = emulated.devices().memory
    emulated.devices().memory = 1 << 16
    try:
        with pytest.raises(MemoryError, match="needs 83200 bytes"):
            Qubo(ByInterface(matrix(260, np.int8, 30)))
    finally:
        emulated.devices().memory = before


@pytest.mark.parametrize("order", [0, 1, 2])
def test_emulated_model_in_any_order(emulated: ModuleType, order: int) -> None:
    Q = matrix(257, np.int16, 9000)
    wanted = ig.solve(Qubo(Q), "anneal", seed=2, num_reads=2, num_sweeps=4)
    emulated.order_threads(order)
    emulated.fill_memory(17 * order)
    assert same(ig.solve(Qubo(ByInterface(Q)), "anneal", "cuda", seed=2, num_reads=2, num_sweeps=4), wanted)


# --- reads that stay -------------------------------------------------------------------------------------------------

KEPT: dict[str, tuple[str, dict[str, Any]]] = {
    **{name: (name.split()[0], options) for name, options in SEARCHES.items()},
    "distinct": ("anneal", {"num_reads": 9, "num_sweeps": 2, "num_solutions": 2}),
    "quenched from given": ("anneal", {"num_sweeps": 0, "initial_states": np.eye(4, 270, dtype=np.int8)}),
}


@pytest.mark.parametrize("search", KEPT)
@pytest.mark.parametrize("density", [1.0, 0.02], ids=["dense", "sparse"])
def test_emulated_reads_stay_on_the_device(emulated: ModuleType, search: str, density: float) -> None:
    method, options = KEPT[search]
    Q = matrix(270, np.int16, 300) * (np.random.default_rng(3).random((270, 270)) < density)
    plain = ig.solve(Qubo(Q), method, "cuda", seed=5, **options)
    found = ig.solve(Qubo(Q), method, "cuda", seed=5, keep_on_device=True, **options)
    assert same(found, plain)
    assert plain.device_samples is None
    kept = found.device_samples
    assert isinstance(kept, DeviceArray)
    assert (kept.dtype, kept.device) == (np.int8, 0)
    everything = ig.solve(Qubo(Q), method, "cpu", seed=5, **{**options, "num_solutions": None})
    np.testing.assert_array_equal(kept.to_host(), everything.samples)
    # And into the next model, without the host.
    assert kept.__cuda_array_interface__["shape"] == everything.samples.shape
    assert pickle.loads(pickle.dumps(found)).device_samples is None


def test_emulated_reads_of_a_batch_stay(emulated: ModuleType) -> None:
    Q, other = matrix(260, np.int8, 30), matrix(300, np.int8, 30, seed=1)
    found = ig.solve_many(
        [Qubo(ByInterface(Q)), Qubo(other)], "temper", "cuda", seed=1, num_reads=2, num_sweeps=3, keep_on_device=True
    )
    for result in found:
        np.testing.assert_array_equal(result.device_samples.to_host(), result.samples)


def test_emulated_reads_of_an_evidence_problem_stay(emulated: ModuleType) -> None:
    support = np.random.default_rng(2).integers(0, 3, (30, 40))
    problem = ig.EvidenceProblem(np.ones(40), support)
    found = ig.solve(problem, "anneal", "cuda", seed=1, num_reads=2, num_sweeps=3, keep_on_device=True)
    assert len(problem.to_qubo().variables) > 256
    np.testing.assert_array_equal(found.device_samples.to_host(), found.samples)


def test_emulated_keeping_is_refused_where_nothing_is_kept(emulated: ModuleType) -> None:
    small, large = Qubo(matrix(256, np.int8, 9)), Qubo(matrix(257, np.int8, 9))
    for method in ("anneal", "temper", "tabu"):
        with pytest.raises(BackendError, match=f"'keep_on_device' of method '{method}' up to 256 variables"):
            ig.solve_many([large, small], method, "cuda", keep_on_device=True)
        for backend in ("cpu", "numpy"):
            with pytest.raises(BackendError, match=f"backend '{backend}' cannot honour option 'keep_on_device'"):
                ig.solve(small, "anneal", backend, keep_on_device=True)
    assert ig.solve(small, "anneal", "cpu", keep_on_device=False, num_reads=1, num_sweeps=1).device_samples is None
    with pytest.raises(TypeError, match="keep_on_device"):
        ig.solve(small, "memetic", "cuda", keep_on_device=True)
    before = emulated.devices().memory
    emulated.devices().memory = 1 << 16
    try:
        with pytest.raises(MemoryError, match="needs 257000 bytes"):
            ig.solve(large, "anneal", "cuda", num_reads=1000, keep_on_device=True)
    finally:
        emulated.devices().memory = before
