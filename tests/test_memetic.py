"""Memetic search, the default for a QUBO: judged by enumeration and by published values."""

from __future__ import annotations

import csv
import time
from pathlib import Path
from typing import Any

import isinglass as ig
import numpy as np
import pytest
from isinglass import Qubo, _core
from isinglass.problems.formats import read_qubo

from tests.qubo_cases import all_states, dense, instruction_set, optimum, penalised, sparse


def same(a: ig.Result, b: ig.Result) -> bool:
    return (
        np.array_equal(a.samples, b.samples)
        and np.array_equal(a.energies, b.energies)
        and a.provenance["children"] == b.provenance["children"]
        and a.provenance["generations"] == b.provenance["generations"]
        and (a.trace is None or np.array_equal(a.trace, b.trace))
    )


@pytest.mark.parametrize("make", [dense, sparse, penalised])
@pytest.mark.parametrize("n", [4, 5, 8, 13, 20])
def test_reaches_the_enumerated_optimum(make: Any, n: int) -> None:
    qubo = make(n, seed=n)
    result = ig.solve(qubo, "memetic", seed=1)
    assert result.energy == optimum(qubo)
    assert np.array_equal(result.energies, qubo.energies(result.samples))
    assert (np.diff(result.energies) >= 0).all()
    assert len(np.unique(result.samples, axis=0)) == len(result.samples) <= 16


def test_is_what_auto_takes_above_the_reach_of_exact() -> None:
    result = ig.solve(dense(60), seed=0)
    assert result.provenance["method"] == "memetic"
    assert result.provenance["chosen_by"] == "auto"
    small = ig.solve(dense(20), seed=0)
    assert (small.provenance["method"], small.status) == ("exact", "optimal")
    assert small.energy == optimum(dense(20))
    assert ig.solve(dense(20), seed=0, restarts=1).provenance["method"] == "memetic"  # an option of the search
    assert ig.solve(dense(20), seed=0, num_reads=3).provenance["method"] == "anneal"  # memetic has no reads
    assert ig.solve(dense(20), backend="numpy", seed=0, num_reads=1).provenance["method"] == "anneal"
    with pytest.raises(TypeError, match="no option 'num_sweep'; did you mean 'num_sweeps'"):
        ig.solve(dense(60), num_sweep=10)


@pytest.mark.parametrize(
    "qubo",
    [dense(20), dense(77, 2), sparse(400, 3, 0.02), penalised(40, 4), dense(70, 5, largest=3)],
    ids=["dense-20", "dense-77", "sparse-400", "penalised-40", "bytes-70"],
)
def test_bits_do_not_depend_on_level_or_threads(qubo: Qubo) -> None:
    options: dict[str, Any] = {"seed": 42, "trace": True}
    with instruction_set("scalar"):
        expected = ig.solve(qubo, "memetic", threads=1, **options)
    for level in _core.isa_levels():
        with instruction_set(level):
            for threads in (1, 2, 7):
                assert same(ig.solve(qubo, "memetic", threads=threads, **options), expected), (level, threads)


def test_seeds() -> None:
    qubo = dense(90)
    first, second = (ig.solve(qubo, "memetic", seed=s, restarts=1, generations=1) for s in (1, 2))
    assert not np.array_equal(first.samples, second.samples)
    drawn = ig.solve(qubo, "memetic")
    assert same(drawn, ig.solve(qubo, "memetic", seed=drawn.provenance["seed"]))


def test_a_batch_equals_its_single_solves() -> None:
    qubos = [dense(n, seed=n) for n in (5, 40, 64, 100)] + [sparse(200, 1, 0.02), penalised(24), Qubo(np.zeros((0, 0)))]
    alone = [ig.solve(qubo, "memetic", seed=3) for qubo in qubos]
    for threads in (1, 2, 7):
        batch = ig.solve_many(qubos, "memetic", seed=3, threads=threads)
        assert all(same(a, b) for a, b in zip(alone, batch, strict=True))
    backwards = ig.solve_many(qubos[::-1], "memetic", seed=3)
    assert all(same(a, b) for a, b in zip(alone, backwards[::-1], strict=True))
    limited = ig.solve_many([dense(150)] * 400, seed=0, time_limit=0.05)
    assert {result.status for result in limited} >= {"time_limit"}
    assert all(result.energy == result.energies.min() for result in limited)


def test_counters() -> None:
    qubo = dense(80)
    result = ig.solve(qubo, "memetic", seed=0, restarts=3, generations=7, trace=True)
    assert result.provenance["generations"] == 3
    assert result.provenance["children"] == 21
    assert result.trace.shape == (24,)
    assert (np.diff(result.trace) <= 0).all()
    assert result.trace[-1] == result.energy


def test_num_solutions_are_the_lowest_distinct_ones() -> None:
    qubo = dense(9)
    result = ig.solve(qubo, "memetic", seed=0, num_solutions=5, pool_size=64, restarts=4)
    assert len(result.samples) == 5
    assert np.array_equal(result.energies, np.sort(qubo.energies(all_states(9)))[:5])
    few = ig.solve(qubo, "memetic", seed=0, num_solutions=1)
    assert np.array_equal(few.samples[0], few.sample)


def test_warm_starts() -> None:
    qubo = dense(40)
    best = ig.solve(qubo, "memetic", seed=0)
    again = ig.solve(qubo, "memetic", seed=5, initial_states=best, restarts=1, generations=1)
    assert again.energy <= best.energy
    single = ig.solve(qubo, "memetic", seed=5, initial_states=best.sample, restarts=1, generations=1)
    assert single.energy <= best.energy
    with pytest.raises(ValueError, match=r"initial_states must have shape \(40,\)"):
        ig.solve(qubo, "memetic", initial_states=np.zeros(39))


def test_target_energy_is_the_first_hit_for_any_number_of_threads() -> None:
    qubo = sparse(150, 7, 0.3)
    best = ig.solve(qubo, seed=1).energy
    hits = [ig.solve(qubo, seed=2, target_energy=best, threads=threads, time_limit=60) for threads in (1, 2, 7)]
    assert all(hit.provenance["target_reached"] and hit.energy <= best and hit.status == "feasible" for hit in hits)
    assert same(hits[0], hits[1])
    assert same(hits[0], hits[2])


def test_time_limit() -> None:
    qubo = dense(100)
    begin = time.perf_counter()
    result = ig.solve(qubo, seed=0, time_limit=0.2)
    assert result.status == "time_limit"
    assert result.timings["search"] > 0.19
    assert time.perf_counter() - begin < 1.0
    repeated = ig.solve(qubo, seed=0, restarts=result.provenance["generations"])
    assert repeated.energy >= result.energy
    at_once = ig.solve(qubo, seed=0, time_limit=0.0)
    assert at_once.status == "time_limit"
    assert len(at_once.samples) >= 1
    counted = ig.solve(qubo, seed=0, restarts=1, time_limit=60)
    assert counted.status == "feasible"


def test_progress_is_reported() -> None:
    shares: list[float] = []
    ig.solve(dense(100), seed=0, time_limit=0.4, threads=1, progress=shares.append)
    assert shares
    assert 0 <= min(shares) <= max(shares) <= 1
    assert sorted(shares) == shares


def test_options_are_checked() -> None:
    for options, message in [
        ({"pool_size": 1}, r"pool_size must be in \[2"),
        ({"generations": 0}, "generations must be in"),
        ({"restarts": 0}, "restarts must be in"),
        ({"num_solutions": 0}, "num_solutions must be"),
        ({"target_energy": float("nan")}, "target_energy must be finite"),
    ]:
        with pytest.raises(ValueError, match=message):
            ig.solve(dense(9), "memetic", **options)
    with pytest.raises(TypeError, match="method 'memetic' has no option 'num_reads'"):
        ig.solve(dense(9), "memetic", num_reads=3)


def test_corners() -> None:
    assert ig.solve(Qubo(np.zeros((0, 0)), offset=2.5), "memetic").energy == 2.5
    assert ig.solve(Qubo(np.zeros((0, 0)), offset=2.5), "memetic").status == "optimal"
    assert ig.solve(Qubo([[-1.0]]), "memetic", seed=0).energy == -1
    assert ig.solve(Qubo(np.zeros((7, 7))), "memetic", seed=0).energy == 0
    for factor in (1e-9, 1e9):
        scaled = Qubo(dense(10).to_numpy() * factor)
        assert ig.solve(scaled, "memetic", seed=0).energy == pytest.approx(optimum(scaled), rel=1e-12)
    rng = np.random.default_rng(3)
    floats = Qubo(rng.normal(size=(18, 18)), offset=0.125)
    assert ig.solve(floats, "memetic", seed=0).energy == pytest.approx(optimum(floats), abs=1e-12)


# --- published values ------------------------------------------------------------------------------------------------


def _best_known(folder: Path) -> dict[str, tuple[Path, float]]:
    with (folder / "best_known.tsv").open() as lines:
        rows = list(csv.DictReader(lines, delimiter="\t"))
    if "energy" in rows[0]:
        return {row["instance"]: (folder / f"{row['instance']}.coo", float(row["energy"])) for row in rows}
    signs = {"min": 1, "max": -1}
    return {
        row["instance"]: (folder / row["file"], signs[row["sense"]] * float(row["best_known"]))
        for row in rows
        if row["best_known"]
    }


@pytest.mark.parametrize(
    "name",
    [
        "bqp50.1",
        "bqp100.10",
        "bqp250.1",
        "bqp500.2",
        "bqp1000.2",
        "bqp2500.1",
        "gka5d",
        "gka3f",
        "be250.1",
        "g05_100.1",
        "pm1d_100.1",
        "pw05_100.0",
        "w05_100.0",
        "G1",
        "G5",
    ],
)
def test_best_known_values(name: str, data: Path) -> None:
    path, best = _best_known(data / "qubo")[name]
    qubo = read_qubo(path)
    found = ig.solve(qubo, seed=0, target_energy=best, time_limit=20)
    assert found.energy == best == qubo.energy(found.sample)


def test_proved_optima_of_penalty_models(data: Path) -> None:
    for path, best in _best_known(data / "rag").values():
        found = ig.solve(read_qubo(path), seed=0, target_energy=best, time_limit=20)
        assert found.energy == best
