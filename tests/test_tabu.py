"""One-flip tabu search: judged by enumeration and by a plain twin in NumPy."""

from __future__ import annotations

import time
from typing import Any

import isinglass as ig
import numpy as np
import pytest
from isinglass import Qubo, _core
from isinglass.backends.reference_qubo import integers_of, random_bits, random_states
from numpy.typing import NDArray

from tests.qubo_cases import all_states, dense, instruction_set, optimum, penalised, sparse

LAYOUTS = ("rows32", "rows32_of16", "rows32_of8", "rows16", "rows16_of8", "sparse")
_TENURE_STREAM = 0xD1342543DE82EF95


def same(a: ig.Result, b: ig.Result) -> bool:
    return (
        np.array_equal(a.samples, b.samples)
        and np.array_equal(a.energies, b.energies)
        and np.array_equal(a.provenance["num_flips"], b.provenance["num_flips"])
    )


def twin(qubo: Qubo, start: NDArray[np.uint8], seed: int, read: int, patience: int, max_moves: int) -> Any:
    """The rules once more, without kept costs, blocks or rings: best state, its energy, moves."""
    n = len(qubo)
    linear, couplings = integers_of(qubo, 1.0)
    low, spread = min(n // 100 + 7, n // 4), min(10, n // 4 + 1)
    x = start.astype(np.int64)
    energy = best = int(x @ linear + (x @ couplings @ x) // 2)
    best_state, held, moves, since = x.copy(), np.full(n, -1), 0, 0
    while moves < max_moves and since < patience:
        costs = (1 - 2 * x) * (linear + couplings @ x)
        allowed = (held < moves) | (costs < best - energy)
        i = int(np.argmin(np.where(allowed, costs, np.iinfo(np.int64).max)))
        draw = int(random_bits(seed ^ _TENURE_STREAM, np.array([read]), 0, moves)[0])
        x[i] ^= 1
        energy += int(costs[i])
        moves += 1
        if held[i] < moves - 1 and (tenure := low + (draw * spread >> 32)):
            held[i] = moves + tenure - 1
        if energy < best:
            best, best_state, since = energy, x.copy(), 0
        else:
            since += 1
    return best_state, best, moves


@pytest.mark.parametrize("make", [dense, sparse, penalised])
@pytest.mark.parametrize("n", [4, 8, 13, 20])
def test_reaches_the_enumerated_optimum(make: Any, n: int) -> None:
    qubo = make(n, seed=n)
    result = ig.solve(qubo, "tabu", seed=1)
    assert result.energy == optimum(qubo)
    assert np.array_equal(result.energies, qubo.energies(result.samples))
    assert result.status == "feasible"
    assert "betas" not in result.provenance


@pytest.mark.parametrize(
    "qubo",
    [dense(5), dense(23, 1), dense(70, 2), sparse(150, 3, 0.03), sparse(300, 4, 0.01), penalised(33), dense(1)],
    ids=["dense-5", "dense-23", "dense-70", "sparse-150", "sparse-300", "penalised-33", "single"],
)
def test_equals_its_twin_move_by_move(qubo: Qubo) -> None:
    n, seed = len(qubo), 2**64 - 3
    for moves in (1, 2, 7, 60, 400):
        found = ig.solve(qubo, "tabu", seed=seed, num_reads=3, patience=120, max_moves=moves)
        starts = random_states(seed, np.arange(3), n)
        for read in range(3):
            state, energy, done = twin(qubo, starts[read], seed, read, 120, moves)
            assert np.array_equal(found.samples[read], state)
            assert found.energies[read] == energy + qubo.offset
            assert found.provenance["num_flips"][read] == done


@pytest.mark.parametrize(
    "qubo",
    [dense(33, 1), dense(64, 2), sparse(700, 3, 0.02), penalised(40, 4), dense(70, 5, largest=3)],
    ids=["dense-33", "dense-64", "sparse-700", "penalised-40", "bytes-70"],
)
def test_bits_do_not_depend_on_layout_level_or_threads(qubo: Qubo) -> None:
    options: dict[str, Any] = {"seed": 42, "num_reads": 9, "patience": 300}
    fitting = set(qubo.core().layouts) & set(LAYOUTS)
    assert {"rows32", "sparse"} <= fitting
    with instruction_set("scalar"):
        expected = ig.solve(qubo, "tabu", layout="rows32", threads=1, **options)
    for level in _core.isa_levels():
        with instruction_set(level):
            for layout in fitting:
                for threads in (1, 2, 7):
                    found = ig.solve(qubo, "tabu", layout=layout, threads=threads, **options)
                    assert found.provenance["layout"] == layout
                    assert same(found, expected), (level, layout, threads)


def test_layouts_that_cannot_hold_the_model_are_refused() -> None:
    with pytest.raises(ValueError, match="layout 'rows16' cannot hold this model: a field may leave 16 bits"):
        ig.solve(penalised(40), "tabu", layout="rows16")
    with pytest.raises(ValueError, match="layout 'lanes32' cannot hold this model: a search is one read"):
        ig.solve(dense(10), "tabu", layout="lanes32")


def test_fields_at_the_edge_of_sixteen_bits() -> None:
    for largest in (32765, 32766, 32767):
        qubo = Qubo(np.diag([largest, -largest, 5, -7, largest - 1, 1 - largest]))
        assert ig.solve(qubo, "tabu", seed=0).energy == -(largest + 7 + largest - 1)


def test_a_read_does_not_depend_on_its_company() -> None:
    qubo = dense(45)
    many = ig.solve(qubo, "tabu", seed=9, num_reads=130, patience=50)
    for reads in (1, 33, 64, 65):
        few = ig.solve(qubo, "tabu", seed=9, num_reads=reads, patience=50)
        assert np.array_equal(few.samples, many.samples[:reads])


def test_starts_are_honoured() -> None:
    qubo = dense(12)
    starts = all_states(12)[[5, 77, 4095]]
    rest = ig.solve(qubo, "tabu", initial_states=starts, max_moves=0)
    assert np.array_equal(rest.samples, starts)
    from_result = ig.solve(qubo, "tabu", initial_states=rest, num_reads=2, max_moves=0)
    assert np.array_equal(from_result.samples, [rest.sample] * 2)
    searched = ig.solve(qubo, "tabu", seed=0, initial_states=starts)
    assert (searched.energies <= rest.energies).all()


@pytest.mark.parametrize("options", [{"patience": 10**9}, {}], ids=["counted", "by the clock"])
def test_time_limit_of_many_is_of_the_whole_call_and_leaves_some_to_each(options: dict[str, Any]) -> None:
    qubos = [dense(60, seed) for seed in range(5)]
    begin = time.monotonic()
    results = ig.solve_many(qubos, "tabu", seed=0, num_reads=1, time_limit=0.5, **options)
    assert time.monotonic() - begin < 1.5  # each with the whole limit would take 2.5
    assert [result.status for result in results] == ["time_limit"] * 5
    assert min(int(result.provenance["num_flips"].sum()) for result in results) > 100


def test_time_limit_restarts_reads_until_it_ends() -> None:
    qubo = dense(60)
    begin = time.perf_counter()
    result = ig.solve(qubo, "tabu", seed=0, time_limit=0.2, num_reads=3)
    assert result.status == "time_limit"
    assert time.perf_counter() - begin < 1.0
    assert result.timings["search"] > 0.19
    assert len(result.samples) == 3
    assert np.array_equal(result.energies, qubo.energies(result.samples))
    once = ig.solve(qubo, "tabu", seed=0, num_reads=3)
    assert (result.energies <= once.energies).all()
    counted = ig.solve(qubo, "tabu", seed=0, num_reads=3, patience=100, time_limit=60)
    assert counted.status == "feasible"
    at_once = ig.solve(qubo, "tabu", seed=0, time_limit=0.0)
    assert at_once.status == "time_limit"
    assert len(at_once.samples) >= 1


def test_target_energy_stops_at_a_generation() -> None:
    qubo = dense(18)
    best = optimum(qubo)
    result = ig.solve(qubo, "tabu", seed=0, num_reads=1000, target_energy=best, trace=True)
    assert result.provenance["target_reached"]
    assert result.energy == best == result.trace[-1]
    assert len(result.samples) == 64
    unreached = ig.solve(qubo, "tabu", seed=0, num_reads=70, patience=10, target_energy=best - 1, trace=True)
    assert not unreached.provenance["target_reached"]
    assert len(unreached.samples) == 70
    assert unreached.trace.shape == (2,)


def test_options_are_checked() -> None:
    for options, message in [
        ({"patience": 0}, r"patience must be in \[1"),
        ({"max_moves": -1}, "max_moves must be in"),
        ({"tenure": 1.5}, "tenure must be an integer"),
        ({"num_reads": 0}, "num_reads must be in"),
        ({"initial_states": np.full(9, 3)}, r"initial_states\[0\] must be 0 or 1, got 3"),
    ]:
        with pytest.raises(ValueError, match=message):
            ig.solve(dense(9), "tabu", **options)
    with pytest.raises(TypeError, match="did you mean 'tenure'"):
        ig.solve(dense(9), "tabu", tenur=3)


def test_long_tenures_only_pause() -> None:
    qubo = dense(9)
    held = ig.solve(qubo, "tabu", seed=0, tenure=500, max_moves=100)
    assert np.array_equal(held.energies, qubo.energies(held.samples))


def test_corners() -> None:
    assert ig.solve(Qubo(np.zeros((0, 0)), offset=2.5), "tabu").energy == 2.5
    assert ig.solve(Qubo([[-1.0]]), "tabu", seed=0).energy == -1
    assert ig.solve(Qubo(np.zeros((7, 7))), "tabu", seed=0).energy == 0
    tiny = Qubo(dense(10).to_numpy() * 1e-9)
    assert ig.solve(tiny, "tabu", seed=0).energy == pytest.approx(optimum(tiny), rel=1e-12)
    huge = dense(15).to_numpy().copy()
    huge[0, 1] = 1e9
    assert ig.solve(Qubo(huge), "tabu", seed=0).energy == optimum(Qubo(huge))
