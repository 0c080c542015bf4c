"""Packing with more effort than greedy: guesses and exchanges, branch and bound, sampling, each against slow judges."""

from __future__ import annotations

import isinglass as ig
import numpy as np
import pytest
from isinglass import _core
from isinglass.backends import reference
from isinglass.generators import packing_arrays

from tests.packing_instances import arrays, problem

VARIANTS = [
    {},
    {"facility": True},
    {"max_items": 4},
    {"pinned": [3, 1]},
    {"integer": False},
    {"normalisation": "unit"},
    {"allowed": np.arange(11) % 3 != 0},
]
METHODS = ["greedy_plus_max", "lazy_greedy"]


# --- effort="high" ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("seed", range(len(VARIANTS)))
def test_high_effort_picks_are_those_of_the_plain_reference(method, seed):
    p = problem(11, 60, seed, **VARIANTS[seed])
    native = ig.solve(p, method, effort="high")
    plain = ig.solve(p, method, backend="numpy", effort="high")
    assert sorted(native.selection.tolist()) == sorted(plain.selection.tolist())
    assert native.objective == pytest.approx(plain.objective, abs=1e-9)
    assert native.trace.gains.sum() == pytest.approx(native.objective, abs=1e-12)


@pytest.mark.parametrize("method", METHODS)
def test_high_effort_is_never_worse_and_sometimes_better(method):
    better = 0
    for seed in range(25):
        p = problem(40, 120, seed)
        plain, high = ig.solve(p, method), ig.solve(p, method, effort="high")
        assert high.objective >= plain.objective
        assert high.cost <= 120
        assert high.certificate.feasible
        assert high.certificate.upper_bound >= high.objective
        better += high.objective > plain.objective
    assert better >= 5


def test_no_exchange_improves_a_high_effort_answer():
    p = problem(20, 90, 2)
    value = reference.objective(p)
    chosen = ig.solve(p, effort="high").selection.tolist()
    for out in chosen:
        rest = [item for item in chosen if item != out]
        for other in set(range(20)) - set(chosen):
            if reference.fits(p, [*rest, other]):
                assert value([*rest, other]) <= value(chosen) + 1e-12


@pytest.mark.parametrize("threads", [1, 2, 7])
def test_high_effort_has_the_same_bits_for_any_threads_and_instruction_set(threads, isa):
    got = ig.solve(problem(50, 160, 8, facility=True), effort="high", threads=threads)
    _core.force_isa("scalar")
    p = problem(50, 160, 8, facility=True)
    expected = ig.solve(p, effort="high", threads=1)
    assert got.provenance["instruction_set"] == isa
    assert got.selection.tolist() == expected.selection.tolist()
    assert got.trace.gains.tobytes() == expected.trace.gains.tobytes()
    assert got.certificate == expected.certificate
    (batched,) = ig.solve_many([p], effort="high", threads=threads)
    assert batched.selection.tolist() == expected.selection.tolist()


def test_high_effort_ends_at_the_time_limit_with_the_best_so_far():
    p = ig.PackingProblem(budget=8192, **packing_arrays(1500, seed=0))
    p.core()
    result = ig.solve(p, effort="high", time_limit=0.05)
    assert result.status == "time_limit"
    assert result.certificate.feasible
    assert result.timings["search"] < 0.15
    assert result.objective >= ig.solve(p).objective


def test_effort_is_checked():
    with pytest.raises(ValueError, match="effort must be one of 'normal', 'high', got 'max'"):
        ig.solve(problem(5, 20, 0), effort="max")


# --- exact -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3 * len(VARIANTS)))
def test_branch_and_bound_reaches_the_enumerated_optimum(seed):
    p = problem(11, [50, 60, 90][seed % 3], seed, **VARIANTS[seed % len(VARIANTS)])
    result, judge = ig.solve(p, "exact"), ig.solve(p, "exact", backend="numpy")
    assert result.status == "optimal"
    assert result.objective == pytest.approx(judge.objective, abs=1e-11)
    assert reference.fits(p, result.selection.tolist())
    assert result.objective <= result.certificate.upper_bound <= result.objective * (1 + 1e-11)
    assert result.trace.gains.sum() == pytest.approx(result.objective, abs=1e-12)


@pytest.mark.parametrize("equal", [False, True])
def test_branch_and_bound_with_ties_and_terms_that_are_off(equal):
    for seed in range(6):
        a = arrays(10, seed)
        if equal:
            a.update(costs=np.full(10, 7), relevance=np.ones(10), similarity=np.eye(10, dtype=np.float32))
        else:
            del a["similarity"], a["coverage"]
        p = ig.PackingProblem(budget=33, **a)
        expected = ig.solve(p, "exact", backend="numpy").objective
        assert ig.solve(p, "exact").objective == pytest.approx(expected, abs=1e-11)


@pytest.mark.parametrize(("budget", "seed"), [(60, 0), (100, 1), (160, 3)])
def test_sixty_items_are_proved(budget, seed):
    p = problem(60, budget, seed)
    result = ig.solve(p, "exact")
    assert result.status == "optimal"
    assert result.objective >= ig.solve(p, effort="high").objective
    assert result.provenance["nodes"] > 0


def test_a_limit_gives_the_best_so_far_and_a_bound():
    p = problem(60, 160, 0)
    optimum = ig.solve(p, "exact").objective
    for limit in (0, 1, 20):
        result = ig.solve(p, "exact", node_limit=limit)
        assert result.status == "bounded"
        assert result.provenance["nodes"] <= limit
        assert result.objective <= optimum < result.certificate.upper_bound < optimum * 1.1
    timed = ig.solve(problem(400, 800, 0), "exact", time_limit=0.1)
    assert timed.status == "time_limit"
    assert timed.certificate.feasible
    assert 0 < timed.certificate.gap < 0.2
    assert timed.timings["search"] < 0.3


def test_exact_has_the_same_bits_on_every_instruction_set(isa):
    got = ig.solve(problem(30, 90, 5, facility=True), "exact", threads=2)
    _core.force_isa("scalar")
    expected = ig.solve(problem(30, 90, 5, facility=True), "exact", threads=1)
    assert got.selection.tolist() == expected.selection.tolist()
    assert got.certificate == expected.certificate
    assert got.provenance["nodes"] == expected.provenance["nodes"]


def test_exact_takes_an_empty_optimum_and_checks_its_options():
    result = ig.solve(ig.PackingProblem([5, 7], 1, relevance=[1, 1]), "exact")
    assert (result.status, result.objective, result.certificate.gap) == ("optimal", 0, 0)
    with pytest.raises(ValueError, match="node_limit must be >= 0, got -1"):
        ig.solve(problem(5, 20, 0), "exact", node_limit=-1)
    with pytest.raises(ValueError, match="no nodes to limit, got node_limit"):
        ig.solve(problem(5, 20, 0), "exact", backend="numpy", node_limit=7)


# --- stochastic greedy -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", VARIANTS[:4], ids=str)
def test_samples_that_hold_everything_give_plain_greedy(options):
    for seed in range(5):
        p = problem(30, 100, seed, **options)
        plain, sampled = ig.solve(p, "lazy_greedy"), ig.solve(p, "stochastic_greedy", epsilon=1e-300, seed=seed)
        assert sampled.selection.tolist() == plain.selection.tolist()
        assert sampled.trace.gains.tobytes() == plain.trace.gains.tobytes()


def test_sampling_is_reproducible_by_seed_on_every_instruction_set(isa):
    def run(seed):
        return ig.solve(problem(200, 300, 1), "stochastic_greedy", seed=seed)

    got, other = run(5), run(6)
    assert got.provenance["seed"] == 5
    assert got.selection.tolist() != other.selection.tolist()
    _core.force_isa("scalar")
    expected = run(5)
    assert got.selection.tolist() == expected.selection.tolist()
    assert got.certificate == expected.certificate
    drawn = ig.solve(problem(200, 300, 1), "stochastic_greedy")
    assert run(drawn.provenance["seed"]).selection.tolist() == drawn.selection.tolist()
    batch = ig.solve_many([problem(200, 300, 1)] * 2, "stochastic_greedy", seed=[6, 5])
    assert [r.selection.tolist() for r in batch] == [other.selection.tolist(), got.selection.tolist()]


def test_sampling_comes_close_to_greedy():
    shares = []
    for seed in range(8):
        p = problem(400, 600, seed)
        greedy, sampled = ig.solve(p, "lazy_greedy"), ig.solve(p, "stochastic_greedy", seed=seed)
        assert sampled.certificate.feasible
        assert sampled.objective <= sampled.certificate.upper_bound
        assert sampled.cost <= 600
        shares.append(sampled.objective / greedy.objective)
    assert np.mean(shares) > 0.9


def test_epsilon_is_checked():
    for bad in (0, 1, -0.5, 2):
        with pytest.raises(ValueError, match="epsilon must be"):
            ig.solve(problem(5, 20, 0), "stochastic_greedy", epsilon=bad)
