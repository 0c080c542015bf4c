"""`Results`: what `solve_many` returns is a sequence of the single results, and columns of the same numbers."""

from __future__ import annotations

import pickle
import time
from concurrent.futures import ThreadPoolExecutor

import isinglass as ig
import numpy as np
import pytest
from isinglass.generators import random_qubo

from tests.packing_instances import problem

PROBLEMS = [problem(8 + k, 60, k, pinned=[0] if k % 5 == 0 else None) for k in range(23)]


@pytest.fixture(params=["native", "executor"])
def results(request):
    if request.param == "native":
        return ig.solve_many(PROBLEMS, threads=2)
    with ThreadPoolExecutor(2) as pool:
        return ig.solve_many(PROBLEMS, executor=pool)


def test_columns_are_those_of_the_single_solves(results):
    singles = [ig.solve(p) for p in PROBLEMS]
    assert results.objectives.tolist() == [r.objective for r in singles]
    assert results.costs.tolist() == [r.cost for r in singles]
    assert results.upper_bounds.tolist() == [r.certificate.upper_bound for r in singles]
    assert results.gaps.tolist() == [r.certificate.gap for r in singles]
    assert results.statuses.tolist() == [r.status for r in singles]
    assert np.isnan(results.energies).all()
    for k, single in enumerate(singles):
        assert results.selections[results.offsets[k] : results.offsets[k + 1]].tolist() == single.selection.tolist()
        assert results[k].selection.tolist() == single.selection.tolist()
        assert results[k].trace.gains.tobytes() == single.trace.gains.tobytes()
        assert results[k].certificate == single.certificate
    for column in ("objectives", "costs", "upper_bounds", "gaps", "statuses", "offsets", "selections"):
        assert not getattr(results, column).flags.writeable


def test_results_are_a_sequence(results):
    assert len(results) == len(PROBLEMS)
    assert isinstance(results, ig.Results)
    assert results[-1].objective == results[len(PROBLEMS) - 1].objective
    assert [r.objective for r in results] == results.objectives.tolist()
    assert results[3:9:2].objectives.tolist() == results.objectives[3:9:2].tolist()
    assert [r.cost for r in reversed(results)] == results.costs[::-1].tolist()
    with pytest.raises(IndexError):
        results[len(PROBLEMS)]
    with pytest.raises(IndexError):
        results[-len(PROBLEMS) - 1]


def test_results_travel_between_processes(results):
    back = pickle.loads(pickle.dumps(results))
    assert back.objectives.tolist() == results.objectives.tolist()
    assert back.selections.tolist() == results.selections.tolist()
    assert back[2].certificate == results[2].certificate


def test_a_mixed_batch_keeps_its_order():
    batch = [PROBLEMS[0], random_qubo(12, seed=1), PROBLEMS[1]]
    results = ig.solve_many(batch, seed=4)
    assert results[0].selection.tolist() == ig.solve(PROBLEMS[0]).selection.tolist()
    assert results[1].energy == ig.solve(batch[1], seed=4).energy
    np.testing.assert_array_equal(np.isnan(results.energies), [True, False, True])
    np.testing.assert_array_equal(np.isnan(results.objectives), [False, True, False])


def test_no_problems_give_no_results():
    results = ig.solve_many([])
    assert len(results) == 0
    assert results.selections.tolist() == []
    assert results.offsets.tolist() == [0]
    assert results.objectives.tolist() == []


def test_what_the_clock_leaves_out_is_said_so_and_feasible():
    results = ig.solve_many(PROBLEMS, time_limit=0)
    for p, result in zip(PROBLEMS, results, strict=True):
        assert result.status == "time_limit"
        assert result.certificate.feasible
        assert set(p.pinned.tolist()) <= set(result.selection.tolist())
        assert result.certificate.upper_bound >= ig.solve(p).objective


def test_what_solve_many_refuses() -> None:
    with pytest.raises(TypeError, match="problems must be a sequence of problems, got PackingProblem; see solve"):
        ig.solve_many(PROBLEMS[0])
    with pytest.raises(TypeError, match=r"executor must have submit, .*, got int"):
        ig.solve_many(PROBLEMS, executor=3)
    with ThreadPoolExecutor(1) as pool, pytest.raises(ValueError, match="progress and executor exclude each other"):
        ig.solve_many(PROBLEMS, executor=pool, progress=print)


def test_the_time_limit_is_of_the_whole_batch_with_an_executor_too():
    rng = np.random.default_rng(4)
    problems = [ig.Qubo(rng.integers(-50, 51, size=(120, 120))) for _ in range(6)]
    begun = time.perf_counter()
    with ThreadPoolExecutor(1) as pool:
        results = ig.solve_many(problems, "memetic", seed=1, time_limit=0.5, executor=pool)
    assert time.perf_counter() - begun < 1.5  # six times .5 would be 3
    assert [len(result.sample) for result in results] == [120] * 6
    assert "time_limit" in results.statuses.tolist()
