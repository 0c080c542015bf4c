"""Branch and bound: judged by enumeration, by proved and published optima, and by its own bounds."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import isinglass as ig
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from isinglass import Qubo
from isinglass.backends.reference_qubo import all_energies
from isinglass.problems.formats import read_qubo

from tests.qubo_cases import dense, instruction_set, optimum, penalised, sparse

# --- proofs ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [dense, sparse, penalised])
@pytest.mark.parametrize("n", [1, 2, 3, 8, 13, 20])
def test_equals_enumeration(make: Any, n: int) -> None:
    qubo = make(n, seed=n)
    result = ig.solve(qubo, "exact")
    assert result.energy == optimum(qubo) == qubo.energy(result.sample)
    assert result.status == "optimal"
    assert result.certificate == ig.Certificate(result.energy, True, result.energy, 0.0, "exact")
    assert result.provenance["method"] == "exact"


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_any_small_model_is_solved_with_any_number_of_solutions(data: st.DataObject) -> None:
    """Ties, zero rows, symmetric cuts, chains and stars: whatever a reduction or a bound could get wrong."""
    n = data.draw(st.integers(1, 9))
    largest = data.draw(st.sampled_from([1, 2, 7, 1000]))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    entries = np.triu(rng.integers(-largest, largest + 1, (n, n)) * (rng.random((n, n)) < rng.random()))
    if data.draw(st.booleans()):  # no field on any spin
        entries = np.triu(entries, 1)
        np.fill_diagonal(entries, -entries.sum(axis=0) - entries.sum(axis=1))
        entries = 2 * np.triu(entries, 1) + np.diag(np.diag(entries))
    qubo = Qubo(entries * data.draw(st.sampled_from([1.0, 0.1, 0.37, 1e-9, 1e12])))
    k = data.draw(st.sampled_from([1, 1, 2, 5, 2**n, 2**n + 3]))
    result = ig.solve(qubo, "exact", num_solutions=k)
    expected = np.sort(all_energies(qubo))[:k]
    assert result.status == "optimal"
    np.testing.assert_allclose(result.energies, expected, rtol=1e-12, atol=1e-12 * np.abs(entries).sum())
    assert len(np.unique(result.samples, axis=0)) == len(expected)
    np.testing.assert_array_equal(result.energies, qubo.energies(result.samples))


@pytest.mark.parametrize("seed", range(6))
def test_real_coefficients_that_no_integer_states(seed: int) -> None:
    rng = np.random.default_rng(seed)
    qubo = Qubo(rng.normal(size=(14, 14)) * 10.0 ** rng.integers(-3, 3, (14, 14)), offset=0.1)
    assert not qubo.core().exact
    result = ig.solve(qubo, "exact", num_solutions=3)
    np.testing.assert_allclose(result.energies, np.sort(all_energies(qubo))[:3], rtol=1e-12)
    assert ig.solve(qubo, "exact").energy == result.energy
    assert result.status == "optimal"


def test_energies_that_differ_in_the_last_digits_of_an_image_are_told_apart() -> None:
    # At the scale that the large coupling leaves, both biases become 0.
    qubo = Qubo([[-1e-7, 0.0, 0.0], [0.0, 1e-7, 0.0], [0.0, 0.0, -1234567.1]])
    result = ig.solve(qubo, "exact", num_solutions=2)
    assert result.samples.tolist() == [[1, 0, 1], [0, 0, 1]]
    assert ig.solve(qubo, "exact").sample.tolist() == [1, 0, 1]


def test_an_offset_is_kept_and_hides_nothing() -> None:
    qubo = Qubo([[-1.0, 0.0], [0.0, 1.0]], offset=2.0**60)
    result = ig.solve(qubo, "exact")
    assert result.sample.tolist() == [1, 0]
    assert result.energy == 2.0**60
    shifted = ig.solve(Qubo([[-1.0, 0.0], [0.0, 1.0]], offset=12345.5), "exact")
    assert (shifted.energy, shifted.certificate.upper_bound) == (12344.5, 12344.5)


@pytest.mark.parametrize("n", [0, 1, 3])
def test_models_without_terms(n: int) -> None:
    result = ig.solve(Qubo(np.zeros((n, n)), offset=1.5), "exact", num_solutions=2)
    assert result.energy == 1.5
    assert result.status == "optimal"
    assert result.samples.shape == (min(2, 2**n), n)


# --- proved and published optima -------------------------------------------------------------------------------------


def _rag(data: Path) -> list[tuple[str, float]]:
    with open(data / "rag" / "best_known.tsv") as lines:
        rows = list(csv.DictReader(lines, delimiter="\t"))
    return [(row["instance"], float(row["energy"])) for row in rows if row["instance"].startswith("rag_N20_")]


def test_proves_the_penalty_models_of_twenty_passages(data: Path) -> None:
    instances = _rag(data)
    assert len(instances) == 7
    for name, energy in instances:
        result = ig.solve(read_qubo(data / "rag" / f"{name}.coo"), "exact")
        assert (result.energy, result.status) == (energy, "optimal"), name


@pytest.mark.parametrize(
    ("name", "energy"),
    [
        ("gka1b", -133),
        ("gka3b", -118),
        ("gka4b", -129),
        ("gka5b", -150),
        ("gka8b", -145),
        ("gka6a", -3980),
        ("gka7a", -4541),
        ("gka1a", -3414),
        ("gka5a", -5737),
        ("gka8a", -11109),
        ("bqp50.1", -2098),
        ("bqp50.8", -4216),
        ("bqp100.2", -11036),
        ("bqp100.10", -12565),
    ],
)
def test_proves_published_optima(data: Path, name: str, energy: float) -> None:
    result = ig.solve(read_qubo(data / "qubo" / f"{name}.sparse"), "exact")
    assert (result.energy, result.status) == (energy, "optimal")


# --- limits ----------------------------------------------------------------------------------------------------------


def test_limits_give_the_bound_so_far() -> None:
    qubo = dense(90, seed=1)
    by_nodes = ig.solve(qubo, "exact", node_limit=50)
    by_time = ig.solve(qubo, "exact", time_limit=0.05)
    assert (by_nodes.status, by_time.status) == ("bounded", "time_limit")
    assert by_nodes.provenance["nodes"] == 50
    for result in (by_nodes, by_time):
        bound = result.certificate.upper_bound
        assert bound is not None
        assert bound <= result.energy
        assert result.certificate.method == "roof_dual"
        assert result.certificate.gap == pytest.approx((result.energy - bound) / abs(bound))
        assert result.provenance["root_bound"] <= bound


@pytest.mark.parametrize("node_limit", [0, 1, 2, 5, 20, 80])
def test_bounds_hold_at_every_node_limit(node_limit: int) -> None:
    for seed in range(8):
        qubo = dense(14, seed)
        result = ig.solve(qubo, "exact", node_limit=node_limit)
        assert result.certificate.upper_bound <= optimum(qubo) <= result.energy


def test_memory_is_refused_before_it_is_taken() -> None:
    with pytest.raises(MemoryError, match=r"bytes for the 90 variables .* memory_limit is 1000"):
        ig.solve(dense(90), "exact", memory_limit=1000)


# --- the same every time ---------------------------------------------------------------------------------------------


def test_same_proof_on_every_instruction_set_and_for_any_threads() -> None:
    qubo = dense(35, seed=4)
    results = []
    for level in ("scalar", "v2"):
        with instruction_set(level):
            results += [ig.solve(qubo, "exact", num_solutions=5, threads=threads) for threads in (1, 7)]
    for result in results[1:]:
        np.testing.assert_array_equal(result.samples, results[0].samples)
        assert result.provenance["nodes"] == results[0].provenance["nodes"]


def test_solve_many_equals_solve() -> None:
    problems = [dense(12, seed) for seed in range(3)]
    for problem, result in zip(problems, ig.solve_many(problems, "exact", seed=3), strict=True):
        np.testing.assert_array_equal(result.samples, ig.solve(problem, "exact", seed=3).samples)


def test_states_to_beat_are_taken_in() -> None:
    qubo = dense(90, seed=1)
    good = ig.solve(qubo, "anneal", num_reads=200, seed=5)
    for given_states in (good, good.sample, good.samples):
        assert ig.solve(qubo, "exact", node_limit=1, initial_states=given_states).energy <= good.energy
    with pytest.raises(ValueError, match=r"initial_states\[0, 2\] must be 0 or 1, got 3"):
        ig.solve(dense(3), "exact", initial_states=[[0, 1, 3]])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_solutions": 0}, "num_solutions must be >= 1, got 0"),
        ({"node_limit": -1}, "node_limit must be >= 0, got -1"),
        ({"node_limit": 1.5}, "node_limit must be an integer, got 1.5"),
    ],
)
def test_bad_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ig.solve(dense(3), "exact", **options)
    with pytest.raises(TypeError, match="no option 'num_solution'; did you mean 'num_solutions'"):
        ig.solve(dense(3), "exact", num_solution=1)


# --- certificates of any state, and the judge ------------------------------------------------------------------------


def test_certify_bounds_any_state() -> None:
    qubo = dense(20, seed=2)
    best = optimum(qubo)
    rng = np.random.default_rng(0)
    for level in ("fast", "tight"):
        for state in rng.integers(0, 2, (4, 20)):
            certificate = ig.certify(qubo, state, level=level)  # type: ignore[arg-type]
            assert certificate.value == qubo.energy(state)
            assert certificate.upper_bound <= best <= certificate.value
    assert certificate.upper_bound == best
    assert certificate.method == "exact"
    optimal = ig.certify(qubo, ig.solve(qubo, "exact").sample)
    assert (optimal.value, optimal.gap) == (best, 0.0)


def test_certify_refuses_what_is_no_state() -> None:
    with pytest.raises(ValueError, match="must be 0 or 1, got 2"):
        ig.certify(dense(3), [0, 1, 2])
    with pytest.raises(ValueError, match=r"must have shape \(3,\)"):
        ig.certify(dense(3), [0, 1])
    with pytest.raises(TypeError, match=r"must be a PackingProblem, .* or a Qubo, got list"):
        ig.certify([], [])  # type: ignore[arg-type]


def test_the_numpy_judge_lists_states_by_energy() -> None:
    qubo = dense(10, seed=3)
    native, judge = (ig.solve(qubo, "exact", backend, num_solutions=6) for backend in ("cpu", "numpy"))
    np.testing.assert_array_equal(native.energies, judge.energies)
    with pytest.raises(ValueError, match="at most 20 variables, got 21"):
        ig.solve(dense(21), "exact", "numpy")
