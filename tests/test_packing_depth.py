"""Packing with more effort than greedy: guesses and exchanges, branch and bound, sampling, each against slow judges."""

from __future__ import annotations

import isinglass as ig
import numpy as np
import pytest
from isinglass import _core
from isinglass.backends import reference
from isinglass.generators import packing_arrays

from tests.packing_instances import problem

VARIANTS = [
    {},
    {"facility": True},
    {"max_items": 4},
    {"pinned": [3, 1]},
    {"integer": False},
    {"normalisation": "unit"},
    {"allowed": np.arange(14) % 3 != 0},
]
METHODS = ["greedy_plus_max", "lazy_greedy"]


# --- effort="high" ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("seed", range(len(VARIANTS)))
def test_high_effort_picks_are_those_of_the_plain_reference(method, seed):
    p = problem(14, 70, seed, **VARIANTS[seed])
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
