"""Simulated annealing: judged by enumeration, by a twin in NumPy, and by Boltzmann's distribution."""

from __future__ import annotations

from typing import Any

import isinglass as ig
import numpy as np
import pytest
from isinglass import Qubo, _core, methods
from scipy import stats

from tests.qubo_cases import all_states, dense, instruction_set, optimum, penalised, same, sparse

LAYOUTS = methods._LAYOUTS


# --- answers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [dense, sparse, penalised])
@pytest.mark.parametrize("n", [3, 8, 13, 20])
def test_reaches_the_enumerated_optimum(make: Any, n: int) -> None:
    qubo = make(n, seed=n)
    result = ig.solve(qubo, "anneal", seed=1, num_reads=64)
    assert result.energy == optimum(qubo)
    assert result.energy == qubo.energy(result.sample) == result.energies.min()
    assert result.status == "feasible"


def test_energies_are_the_callers_floats() -> None:
    rng = np.random.default_rng(3)
    qubo = Qubo(rng.normal(size=(18, 18)), offset=0.125)
    result = ig.solve(qubo, seed=0)
    np.testing.assert_allclose(result.energies, qubo.energies(result.samples), rtol=1e-13)
    assert result.energy == pytest.approx(optimum(qubo), abs=1e-12)
    assert result.provenance["quantisation"]["certificate"] == "certified"
    assert 0 < result.provenance["quantisation"]["eps"] < 1e-5


def test_every_read_ends_in_a_local_minimum() -> None:
    qubo = dense(30)
    result = ig.solve(qubo, "anneal", seed=5, num_reads=20, num_sweeps=2)
    for sample, energy in zip(result.samples, result.energies, strict=True):
        flipped = sample ^ np.eye(30, dtype=np.int8)
        assert (qubo.energies(flipped) >= energy).all()


# --- the same bits everywhere ----------------------------------------------------------------------------------------

_MODELS = {
    "dense-33": dense(33, 1),
    "dense-64": dense(64, 2),
    "sparse-90": sparse(90, 3),
    "penalised-40": penalised(40, 4),
    "bytes-70": dense(70, 5, largest=3),
}


@pytest.mark.parametrize("name", _MODELS)
@pytest.mark.parametrize("level", _core.isa_levels())
def test_bits_do_not_depend_on_layout_level_or_threads(name: str, level: str) -> None:
    qubo = _MODELS[name]
    options: dict[str, Any] = {"seed": 42, "num_reads": 37, "num_sweeps": 25, "trace": True}
    with instruction_set("scalar"):
        expected = ig.solve(qubo, "anneal", layout="lanes32", threads=1, **options)
    with instruction_set(level):
        fitting = qubo.core().layouts
        for layout in fitting:
            for threads in (1, 2, 7):
                found = ig.solve(qubo, "anneal", layout=layout, threads=threads, **options)
                assert found.provenance["layout"] == layout
                assert same(found, expected), (layout, threads)
    assert {"lanes32", "rows32", "sparse"} <= set(fitting) <= set(LAYOUTS)


def test_narrow_layouts_are_refused_where_a_field_may_overflow() -> None:
    qubo = penalised(40)
    for layout in set(LAYOUTS) - set(qubo.core().layouts):
        with pytest.raises(ValueError, match=f"layout '{layout}' cannot hold this model"):
            ig.solve(qubo, "anneal", layout=layout)
    assert "lanes16" not in qubo.core().layouts
    assert "rows16" not in qubo.core().layouts


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"num_sweeps": 70},
        {"beta_range": (0.01, 0.5)},
        {"beta_range": (0.02, 0.02)},
        {"beta_range": (0.0, 0.4), "beta_schedule": "linear"},
        {"beta_schedule": [0.0, 0.1, 0.3, np.inf]},
        {"num_sweeps": 0},
        {"num_solutions": 4},
    ],
    ids=str,
)
@pytest.mark.parametrize("model", ["dense", "penalised", "floats", "zeros", "single"])
def test_equals_the_numpy_twin_bit_for_bit(model: str, options: dict[str, Any]) -> None:
    rng = np.random.default_rng(8)
    qubo = {
        "dense": dense(17, 6),
        "penalised": penalised(16, 7),
        "floats": Qubo(np.round(rng.normal(size=(15, 15)), 2), offset=-1.5),
        "zeros": Qubo(np.zeros((4, 4)), offset=2.0),
        "single": Qubo([[-3.0]]),
    }[model]
    options = {"num_sweeps": 20, "num_reads": 9, "seed": 2**64 - 1, "trace": True} | options
    if not isinstance(options.get("beta_schedule", ""), str):
        del options["num_sweeps"]
    native = ig.solve(qubo, "anneal", **options)
    twin = ig.solve(qubo, "anneal", "numpy", **options)
    assert np.array_equal(native.provenance["betas"], twin.provenance["betas"])
    assert np.array_equal(native.samples, twin.samples)
    assert np.array_equal(native.provenance["num_flips"], twin.provenance["num_flips"])
    np.testing.assert_allclose(native.energies, twin.energies, rtol=1e-13)
    np.testing.assert_allclose(native.trace, twin.trace, rtol=1e-13)


def test_a_read_does_not_depend_on_its_company() -> None:
    qubo = dense(45)
    many = ig.solve(qubo, "anneal", seed=9, num_reads=200, num_sweeps=10)
    for reads in (1, 5, 33, 64, 65):
        few = ig.solve(qubo, "anneal", seed=9, num_reads=reads, num_sweeps=10)
        assert np.array_equal(few.samples, many.samples[:reads])


def test_seeds() -> None:
    qubo = dense(60)
    options: dict[str, Any] = {"num_reads": 50, "num_sweeps": 3}
    first, second = (ig.solve(qubo, "anneal", seed=s, **options) for s in (1, 2))
    assert not np.array_equal(first.samples, second.samples)
    assert len(np.unique(first.samples, axis=0)) > 15
    drawn = ig.solve(qubo, "anneal", **options)
    assert same(drawn, ig.solve(qubo, "anneal", seed=drawn.provenance["seed"], **options))
    for bad in (-1, 2**64, 1.5, True, "1"):
        with pytest.raises(ValueError, match="seed must be"):
            ig.solve(qubo, "anneal", seed=bad)  # type: ignore[arg-type]


# --- detailed balance ------------------------------------------------------------------------------------------------


def _chi_square(qubo: Qubo, beta: float, samples: Any) -> float:
    """z of the chi-square of sampled states against Boltzmann weights, rare states pooled."""
    states = all_states(len(qubo))
    energies = qubo.energies(states)
    weights = np.exp(-beta * (energies - energies.min()))
    expected = weights / weights.sum() * len(samples)
    observed = np.bincount(samples @ (1 << np.arange(len(qubo))), minlength=len(states))
    rare = expected < 10
    if rare.any():
        expected = np.append(expected[~rare], expected[rare].sum())
        observed = np.append(observed[~rare], observed[rare].sum())
    degrees = len(expected) - 1
    chi = float(((observed - expected) ** 2 / expected).sum())
    return float(stats.norm.isf(stats.chi2.sf(chi, degrees)))


@pytest.mark.parametrize("beta", [0.05, 0.15, 0.5])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("level", _core.isa_levels())
def test_held_temperature_samples_boltzmann(level: str, layout: str, beta: float) -> None:
    qubo = dense(8, seed=12, largest=10)
    with instruction_set(level):
        held = ig.solve(
            qubo,
            "anneal",
            seed=77,
            num_reads=20_000,
            num_sweeps=60,
            beta_range=(beta, beta),
            layout=layout,
        )
    assert not held.provenance["quench"]
    assert abs(_chi_square(qubo, beta, held.samples.astype(np.int64))) < 4


def test_the_chi_square_judge_sees_a_wrong_temperature() -> None:
    qubo = dense(8, seed=12, largest=10)
    held = ig.solve(qubo, "anneal", seed=77, num_reads=20_000, num_sweeps=60, beta_range=(0.16, 0.16))
    assert _chi_square(qubo, 0.15, held.samples.astype(np.int64)) > 6


def test_a_held_temperature_is_in_the_units_of_the_energy() -> None:
    small = dense(8, seed=12, largest=10)
    large = Qubo(small.to_numpy() * 1e6)
    a = ig.solve(small, "anneal", seed=3, num_reads=50, num_sweeps=9, beta_range=(0.1, 0.1))
    b = ig.solve(large, "anneal", seed=3, num_reads=50, num_sweeps=9, beta_range=(1e-7, 1e-7))
    assert np.array_equal(a.samples, b.samples)


# --- options ---------------------------------------------------------------------------------------------------------


def test_initial_states_are_honoured_and_checked() -> None:
    qubo = dense(12)
    start = all_states(12)[[5, 77, 4095]]
    result = ig.solve(qubo, "anneal", initial_states=start, num_sweeps=0)
    assert np.array_equal(result.samples, start)
    assert np.array_equal(result.energies, qubo.energies(start))
    broadcast = ig.solve(qubo, "anneal", initial_states=start[1], num_sweeps=0, num_reads=4)
    assert np.array_equal(broadcast.samples, np.tile(start[1], (4, 1)))
    for bad, message in [
        (np.full(12, 2), r"initial_states\[0\] must be 0 or 1, got 2"),
        (np.where(np.arange(12) == 3, -1, 1), r"initial_states\[3\] must be 0 or 1, got -1"),
        (np.zeros(11), r"must have shape \(12,\)"),
        (np.zeros((0, 12)), "at least 1"),
        (np.full(12, np.nan), r"initial_states\[0\] must be 0 or 1, got nan"),
    ]:
        with pytest.raises(ValueError, match=message):
            ig.solve(qubo, "anneal", initial_states=bad)
    with pytest.raises(ValueError, match="num_reads = 5 rows"):
        ig.solve(qubo, "anneal", initial_states=start, num_reads=5)


def test_target_energy_ends_after_a_generation() -> None:
    qubo = dense(16)
    best = optimum(qubo)
    result = ig.solve(qubo, "anneal", seed=0, num_reads=1000, num_sweeps=50, target_energy=best)
    assert result.provenance["target_reached"]
    assert len(result.samples) == 64 * result.provenance["generations"] < 1000
    assert result.energy == best
    again = ig.solve(qubo, "anneal", seed=0, num_reads=len(result.samples), num_sweeps=50)
    assert np.array_equal(again.samples, result.samples)


def test_time_limit_returns_what_there_is() -> None:
    qubo = dense(200)
    result = ig.solve(qubo, "anneal", seed=0, num_reads=64, num_sweeps=10**7, time_limit=0.1)
    assert result.status == "time_limit"
    assert result.timings["search"] < 0.5
    assert result.provenance["generations"] == 0
    np.testing.assert_array_equal(result.energies, qubo.energies(result.samples))
    at_once = ig.solve(qubo, "anneal", seed=0, time_limit=0.0)
    assert at_once.status == "time_limit"
    assert len(at_once.samples) >= 1
    generations = ig.solve(qubo, "anneal", seed=4, num_reads=10**6, num_sweeps=10, time_limit=1.5)
    done = generations.provenance["generations"]
    assert len(generations.samples) == 64 * done > 0
    repeated = ig.solve(qubo, "anneal", seed=4, num_reads=64 * done, num_sweeps=10)
    assert same(generations, repeated)


def test_num_solutions_are_distinct_and_sorted() -> None:
    qubo = dense(60)
    result = ig.solve(qubo, "anneal", seed=0, num_reads=200, num_sweeps=4, num_solutions=5)
    assert len(result.samples) == 5
    assert len(np.unique(result.samples, axis=0)) == 5
    assert (np.diff(result.energies) >= 0).all()
    assert np.array_equal(result.sample, result.samples[0])
    assert result.energy == result.energies[0]


def test_trace_descends_to_what_was_seen() -> None:
    qubo = dense(40)
    result = ig.solve(qubo, "anneal", seed=0, num_sweeps=30, trace=True)
    assert result.trace.shape == (30,)
    assert (np.diff(result.trace) <= 0).all()
    assert ig.solve(qubo, "anneal", seed=0).trace is None


def test_schedules() -> None:
    qubo = dense(10)
    result = ig.solve(qubo, "anneal", beta_range=(0.1, 10), num_sweeps=101)
    np.testing.assert_allclose(result.provenance["betas"], np.geomspace(0.1, 10, 101), rtol=1e-12)
    linear = ig.solve(qubo, "anneal", beta_range=(0.0, 1), num_sweeps=5, beta_schedule="linear")
    np.testing.assert_allclose(linear.provenance["betas"], [0, 0.25, 0.5, 0.75, 1], rtol=1e-15)
    for options, message in [
        ({"beta_range": (1, 0.1)}, "must ascend"),
        ({"beta_range": (0, 1)}, "must be > 0 and finite"),
        ({"beta_range": (-1, 1)}, r"beta_range\[0\] must be finite and >= 0"),
        ({"beta_range": 3}, "must be a pair"),
        ({"beta_range": (float("nan"), 1)}, "must be finite"),
        ({"beta_schedule": "cubic"}, "must be one of"),
        ({"beta_schedule": [0.1, -1]}, r"beta_schedule\[1\] must be >= 0"),
        ({"beta_schedule": [0.1], "num_sweeps": 2}, "must be the 1 entries"),
        ({"beta_schedule": [0.1], "beta_range": (1, 2)}, "not both"),
        ({"num_reads": 0}, r"num_reads must be in \[1"),
        ({"num_sweeps": -1}, "num_sweeps must be in"),
        ({"layout": "diagonal"}, "layout must be one of"),
        ({"bits": 7}, "bits must be one of"),
    ]:
        with pytest.raises(ValueError, match=message):
            ig.solve(qubo, "anneal", **options)


def test_bits_quantise_and_say_so() -> None:
    rng = np.random.default_rng(0)
    qubo = Qubo(rng.normal(size=(14, 14)))
    coarse = ig.solve(qubo, "anneal", seed=1, bits=8)
    quantised = ig.quantize(qubo, 8)
    assert coarse.provenance["quantisation"] == {
        "scale": quantised.scale,
        "certificate": "certified",
        "max_error": quantised.max_error,
        "eps": quantised.eps,
    }
    assert coarse.energy == pytest.approx(qubo.energy(coarse.sample), rel=1e-13)
    assert coarse.energy <= optimum(qubo) + quantised.eps


# --- batches ---------------------------------------------------------------------------------------------------------


def test_a_batch_equals_its_single_solves() -> None:
    qubos = [dense(n, seed=n) for n in (5, 40, 64, 100)] + [sparse(300, 1, 0.02), penalised(24), Qubo(np.zeros((0, 0)))]
    options: dict[str, Any] = {"num_reads": 10, "num_sweeps": 12}
    alone = [ig.solve(qubo, "anneal", seed=3, **options) for qubo in qubos]
    for threads in (1, 2, 7):
        batch = ig.solve_many(qubos, "anneal", seed=3, threads=threads, **options)
        assert all(same(a, b) for a, b in zip(alone, batch, strict=True))
    backwards = ig.solve_many(qubos[::-1], "anneal", seed=3, **options)
    assert all(same(a, b) for a, b in zip(alone, backwards[::-1], strict=True))
    seeded = ig.solve_many(qubos, "anneal", seed=[3, 4, 5, 6, 7, 8, 9], **options)
    assert same(seeded[0], alone[0])
    assert not same(seeded[1], alone[1])


def test_a_batch_keeps_its_time_limit() -> None:
    batch = ig.solve_many([dense(100)] * 50, "anneal", seed=0, num_sweeps=100_000, time_limit=0.1)
    assert {result.status for result in batch} == {"time_limit"}
    assert all(result.energy == result.energies.min() for result in batch)


# --- the model's corners ---------------------------------------------------------------------------------------------


def test_several_threads_share_one_core() -> None:
    from concurrent.futures import ThreadPoolExecutor

    qubo = dense(80)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda s: ig.solve(qubo, "anneal", seed=s % 2, num_sweeps=20), range(8)))
    assert all(same(found[k], found[k % 2]) for k in range(8))


def test_results_travel() -> None:
    import pickle

    result = ig.solve(dense(10), "anneal", seed=0, num_sweeps=5)
    copy = pickle.loads(pickle.dumps(result))
    assert same(copy, result)
    assert copy.energy == result.energy
    assert "num_reads" in copy.provenance


def test_start_states_in_the_callers_vartype() -> None:
    rng = np.random.default_rng(4)
    h, J = rng.integers(-9, 9, 12).astype(float), np.triu(rng.integers(-9, 9, (12, 12)).astype(float), 1)
    model = Qubo.from_ising(h, J)
    assert (model.vartype, Qubo(J).vartype) == ("SPIN", "BINARY")
    spins = rng.choice([-1, 1], (3, 12))
    as_spins = ig.solve(model, "anneal", num_sweeps=0, initial_states=spins, num_reads=3, beta_range=(1, 1))
    as_bits = ig.solve(model, "anneal", num_sweeps=0, initial_states=(spins + 1) // 2, num_reads=3, beta_range=(1, 1))
    assert np.array_equal(as_spins.samples, (spins + 1) // 2)
    assert np.array_equal(as_spins.energies, as_bits.energies)
    assert as_spins.energies == pytest.approx([s @ h + s @ J @ s for s in spins])
    with pytest.raises(ValueError, match=r"initial_states\[0\] must be -1 or 1, got 0"):
        ig.solve(model, "anneal", initial_states=[0, -1] + [1] * 10)
    with pytest.raises(ValueError, match=r"initial_states\[0\] must be 0 or 1, got -1"):
        ig.solve(Qubo(J), "anneal", initial_states=[-1] * 12)
