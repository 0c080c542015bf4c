"""What users of other QUBO tools suffered, as promises of ours: the numbers are rows of our list of such threads."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import isinglass as ig
import numpy as np
import pytest
from isinglass import Qubo, cli, methods
from isinglass.backends import native
from isinglass.problems.formats import read_qubo

from tests.qubo_cases import all_states, dense, optimum

METHODS = sorted(name for problem, name in native.RUNNERS if problem is Qubo and name != "exact")
WALKS = ("anneal", "temper", "descent")


def _independent(scale: float, coupling: float | None = None) -> Qubo:
    """40 variables on their own, half of them better at 1: optimum -20 times the scale."""
    Q = np.diag(np.where(np.arange(40) % 2, 1.0, -1.0)) * scale
    if coupling is not None:
        Q[1, 3] = coupling * scale
    return Qubo(Q)


@pytest.mark.parametrize(
    "qubo",
    [
        pytest.param(_independent(1.0), id="E-plain"),
        pytest.param(_independent(1e-9), id="E-scale-1e-9"),
        pytest.param(_independent(1e9), id="E-scale-1e9"),
        pytest.param(_independent(1.0, 1e6), id="E-one-coupling-of-1e6"),
        pytest.param(_independent(1e-9, 1e6), id="E-scale-1e-9-and-one-coupling"),
        pytest.param(_independent(1e9, -0.5), id="E-scale-1e9-and-one-coupling"),
    ],
)
@pytest.mark.parametrize("method", WALKS)
def test_every_read_is_optimal_whatever_the_scale(qubo: Qubo, method: str) -> None:
    result = ig.solve(qubo, method, seed=0)
    unit = abs(qubo.linear[0])
    np.testing.assert_allclose(result.energies, -20 * unit, rtol=1e-12)


@pytest.mark.parametrize("method", WALKS)
def test_more_reads_never_worsen_the_best(method: str) -> None:  # A2
    qubo = dense(50, 3)
    extra: dict[str, Any] = {} if method == "descent" else {"num_sweeps": 2}
    best = [ig.solve(qubo, method, seed=7, num_reads=reads, **extra).energy for reads in (1, 10, 100)]
    assert best == sorted(best, reverse=True)
    negated = ig.solve(Qubo(-qubo.to_numpy()), method, seed=7, **extra)
    assert negated.energy == -max(-negated.energies)


def test_the_energy_is_always_the_energy() -> None:  # A5, A6
    Q = np.diag([1.0, -2.0, 3.0, -4.0]) + np.diag([1.0, -1.0, 1.0], 1)
    plain, moved = Qubo(Q), Qubo(Q, offset=12345.5)
    for method in METHODS:
        a, b = (ig.solve(q, method, seed=0) for q in (plain, moved))
        assert a.energy == optimum(plain)
        assert b.energy == a.energy + 12345.5


def test_both_directions_are_added() -> None:  # A9
    result = ig.solve(Qubo({(0, 1): 2, (1, 0): -2, (0, 0): -1}), seed=0)
    assert result.energy == -1
    assert result.sample[0] == 1


@pytest.mark.parametrize("method", WALKS)
def test_start_states_are_taken_as_given(method: str) -> None:  # A10, A11
    qubo = Qubo(np.diag([-5.0, -5.0, -5.0]))
    result = ig.solve(qubo, method, initial_states=[0, 0, 0], num_reads=3)
    assert result.samples.tolist() == [[1, 1, 1]] * 3
    with pytest.raises(ValueError, match=r"initial_states\[0\] must be 0 or 1, got 2"):
        ig.solve(qubo, method, initial_states=[2, 0, 0])


def test_inputs_are_never_modified() -> None:  # A17
    Q, start = np.diag([1.0, -1.0]), np.array([1, 1])
    copies = Q.copy(), start.copy()
    for array in (Q, start):
        array.setflags(write=False)
    qubo = Qubo(Q, offset=float(np.array(1.0)))
    assert ig.solve(qubo, seed=0, initial_states=start).energy == ig.solve(qubo, seed=0).energy == 0
    assert np.array_equal(Q, copies[0])
    assert np.array_equal(start, copies[1])


@pytest.mark.parametrize("sweeps", [1, 1999, 2001, 2500])
def test_all_sweeps_are_done(sweeps: int) -> None:  # B22
    result = ig.solve(dense(5), "anneal", seed=0, num_sweeps=sweeps, trace=True)
    assert result.provenance["num_sweeps"] == len(result.provenance["betas"]) == len(result.trace) == sweeps


def test_no_sweeps_return_the_start() -> None:  # B23
    qubo = dense(6)
    start = all_states(6)[:10]
    result = ig.solve(qubo, "anneal", num_sweeps=0, initial_states=start)
    assert np.array_equal(result.samples, start)
    assert np.array_equal(result.energies, qubo.energies(start))


@pytest.mark.parametrize("method", ["anneal", "temper"])
def test_the_time_limit_is_kept_and_named(method: str) -> None:  # B24
    limit = 0.2
    result = ig.solve(dense(30), method, seed=0, num_sweeps=4_000_000, num_reads=64, time_limit=limit)
    assert result.status == "time_limit"
    assert sum(result.timings.values()) < limit + 0.1


def test_unknown_keywords_raise() -> None:  # B25, B26, E
    for word, meant in [("num_sweep", "num_sweeps"), ("num_runs", "num_reads"), ("beta_ranges", "beta_range")]:
        with pytest.raises(TypeError, match=f"did you mean '{meant}'"):
            ig.solve(dense(3), "anneal", **{word: 10})
    with pytest.raises(TypeError, match="num_sweep"):
        ig.solve(dense(3), "descent", num_sweeps=10)


@pytest.mark.parametrize("size", ["N20_M3_K5", "N40_M4_K6"])
@pytest.mark.parametrize("method", ["anneal", "temper"])
def test_penalty_models_reach_the_proved_optimum(data: Path, size: str, method: str) -> None:  # B27
    proved = {}
    for line in (data / "rag" / "best_known.tsv").read_text().splitlines()[1:]:
        name, *_, energy, _ = line.split("\t")
        proved[name] = float(energy)
    for k in range(1, 8):
        name = f"rag_{size}_s{k}"
        reads = 512 if method == "anneal" else 32
        assert ig.solve(read_qubo(data / "rag" / f"{name}.coo"), method, seed=0, num_reads=reads).energy == proved[name]


@pytest.mark.parametrize("method", WALKS)
def test_a_warm_start_is_never_made_worse(method: str) -> None:  # B29
    qubo = dense(16)
    best = ig.solve(qubo, seed=0)
    assert best.energy == optimum(qubo)
    cold: dict[str, Any] = {"beta_range": (np.inf, np.inf)} if method == "anneal" else {}
    again = ig.solve(qubo, method, seed=1, initial_states=best.sample, num_reads=5, **cold)
    assert (again.energies == best.energy).all()


def test_results_name_what_ran() -> None:  # B30, D50
    result = ig.solve(dense(9), "anneal", "cpu", seed=3)
    provenance = result.provenance
    assert provenance["backend"] == "cpu"
    assert provenance["instruction_set"] == ig._core.isa()
    assert provenance["layout"] in methods._LAYOUTS
    assert {"betas", "num_sweeps", "num_reads", "seed", "quantisation", "generations", "version"} <= set(provenance)
    assert set(result.timings) == {"schedule", "search"}
    assert ig.solve(dense(9), "anneal", "numpy", seed=3).provenance["backend"] == "numpy"


def test_the_best_distinct_solutions_in_one_call() -> None:  # B31
    qubo = dense(10, 5)
    result = ig.solve(qubo, "anneal", seed=0, num_reads=2000, num_sweeps=40, beta_range=(0.02, 0.02), num_solutions=5)
    lowest = np.sort(qubo.energies(all_states(10)))[:5]
    assert np.array_equal(result.energies, lowest)


@pytest.mark.parametrize("n", [0, 1, 2, 3])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("time_limit", [None, 0.2, 0.0])
def test_small_and_null_models(method: str, n: int, time_limit: float | None) -> None:  # C33, C34, C36, E
    result = ig.solve(Qubo(np.zeros((n, n))), method, seed=0, time_limit=time_limit)
    assert result.energy == 0
    assert result.sample.shape == (n,)


def test_every_declared_variable_is_returned_in_order() -> None:  # C35, C43
    result = ig.solve(Qubo({(1, 1): -1, (1, 3): -2}, labels=range(5)), seed=0)
    assert result.samples.shape[1] == 5
    named = Qubo({("b", "b"): -1, ("a", "a"): 2, ("c", "c"): -3, ("b", "a"): 1})
    assert dict(zip(named.labels, ig.solve(named, seed=0).sample.tolist(), strict=True)) == {"a": 0, "b": 1, "c": 1}


@pytest.mark.parametrize("method", METHODS)
def test_every_method_works_with_defaults_only(method: str) -> None:  # C39
    assert ig.solve(dense(7), method).energy == optimum(dense(7))


def test_numpy_integers_and_results_are_taken() -> None:  # C41
    qubo = dense(20)
    first = ig.solve(qubo, "anneal", num_reads=np.int64(4), seed=np.uint64(2**63))
    assert len(first.samples) == 4
    assert ig.solve(qubo, "temper", initial_states=first).energy <= first.energy


def test_equal_models_give_equal_samples() -> None:  # E: same labelled problem, another order of insertion
    rng = np.random.default_rng(0)
    terms = {(int(i), int(j)): float(rng.integers(-9, 10)) for i in range(12) for j in range(i, 12)}
    backwards = dict(reversed(terms.items()))
    a, b = (ig.solve(Qubo(t), "anneal", seed=5, num_sweeps=3) for t in (terms, backwards))
    assert np.array_equal(a.samples, b.samples)


def test_reads_of_one_seed_are_distinct_and_seeds_share_none() -> None:  # E
    qubo = dense(60)
    options: dict[str, Any] = {"num_reads": 50, "beta_range": (0.001, 0.001), "num_sweeps": 5}
    samples = [ig.solve(qubo, "anneal", seed=seed, **options).samples for seed in (0, 1)]
    assert len(np.unique(np.concatenate(samples), axis=0)) == 100


def test_the_command_line_solves_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    qubo = dense(15, 2)
    path = tmp_path / "small.coo"
    i, j, w = qubo.couplings()
    lines = [f"{k} {k} {v}" for k, v in enumerate(qubo.linear)] + [f"{a} {b} {v}" for a, b, v in zip(i, j, w)]
    path.write_text(f"15 {len(lines)}\n" + "\n".join(lines) + "\n")
    for method in WALKS:
        assert cli.main(["solve", str(path), "--method", method, "--num-reads", "50", "--seed", "1", "--json"]) == 0
        printed = json.loads(capsys.readouterr().out)
        assert printed["energy"] == ig.solve(qubo, method, seed=1, num_reads=50).energy == printed["objective"]
        assert qubo.energy(printed["sample"]) == printed["energy"]
    assert cli.main(["solve", str(path), "--method", "anneal", "--time-limit", "5"]) == 0
    assert "feasible" in capsys.readouterr().out
    assert cli.main(["solve", str(path), "--method", "descent", "--num-sweeps", "5"]) == 2
    assert "has no option 'num_sweeps'" in capsys.readouterr().err
    assert cli.main(["solve", str(tmp_path / "absent.coo")]) == 2


def _interrupted(call: Callable[[], Any]) -> float:
    import _thread
    import threading
    import time

    timer = threading.Timer(0.2, _thread.interrupt_main)
    timer.start()
    begin = time.perf_counter()
    with pytest.raises(KeyboardInterrupt):
        call()
    return time.perf_counter() - begin - 0.2


@pytest.mark.parametrize("method", ["anneal", "temper"])
def test_ctrl_c_is_heard(method: str) -> None:
    late = _interrupted(lambda: ig.solve(dense(150), method, num_sweeps=10**6, num_reads=10**4, threads=2))
    assert late < 0.5  # 0.1 s where no one else computes


def test_progress_ascends() -> None:
    shares: list[float] = []
    ig.solve(dense(100), "anneal", num_sweeps=20_000, num_reads=64, progress=shares.append, threads=1)
    assert shares == sorted(shares)
    assert all(0 <= share <= 1 for share in shares)
