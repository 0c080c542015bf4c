"""What a packing problem and a solve refuse, with what was expected and got; corner cases that have an answer."""

from __future__ import annotations

import re
from typing import Any

import isinglass as ig
import numpy as np
import pytest

from tests.packing_instances import problem

GOOD = {"costs": [2, 3, 4], "budget": 6, "relevance": [1.0, 2.0, 3.0]}
NAN, INF = float("nan"), float("inf")


def refused(message, **changes):
    return pytest.param({**GOOD, **changes}, message, id=message)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        refused("costs[1] must be finite and > 0, got nan", costs=[2, NAN, 3]),
        refused("costs[0] must be finite and > 0, got inf", costs=[INF, 1, 3]),
        refused("costs[2] must be finite and > 0, got 0", costs=[1, 1, 0]),
        refused("costs[0] must be finite and > 0, got -3.0", costs=[-3.0, 1, 1]),
        refused("costs must be an array of int or float, got dtype bool", costs=[True, True, False]),
        refused("costs must be an array of int or float, got dtype <U1", costs=["1", "2", "3"]),
        refused("costs[1] must be a number, got None", costs=[1, None, 3]),
        refused("costs must be 1-D, got shape (1, 3)", costs=[[1, 2, 3]]),
        refused("costs must be an array of int or float, got dtype complex128", costs=np.ones(3) * 1j),
        refused("costs must have a finite sum, got entries up to 1e+308", costs=[1e308, 1e308, 1]),
        refused("relevance must have a finite sum, got entries up to 1e+308", relevance=[1e308, 1e308, 0]),
        refused(
            "weights.relevance must keep the objective finite, got 1e+308", weights=ig.PackingWeights(relevance=1e308)
        ),
        refused("embeddings[0, 0] must be within float32, got 1e+39", embeddings=np.full((3, 2), 1e39)),
        refused("relevance must have shape (3,), got (2,)", relevance=[1, 2]),
        refused("relevance[0] must be a number, got None", relevance=[None, 0.2, 0.1]),
        refused(
            "relevance[1] must be finite and >= 0 (see isinglass.measure.calibrate), got -0.5", relevance=[1, -0.5, 0]
        ),
        refused("budget must be finite and >= 0, got -1", budget=-1),
        refused("budget must be finite and >= 0, got nan", budget=NAN),
        refused("budget must be finite and >= 0, got inf", budget=INF),
        refused("budget must be a number, got True", budget=True),
        refused("budget must be a number, got '160'", budget="160"),
        refused("similarity must have shape (3, 3), got (3, 2)", similarity=np.ones((3, 2))),
        refused("similarity must be 2-D, got shape (3,)", similarity=np.ones(3)),
        refused(
            "similarity[0, 2] must be finite and >= 0 (max(0, cos)), got nan",
            similarity=[[1, 0, NAN], [0, 1, 0], [NAN, 0, 1]],
        ),
        refused(
            "similarity[0, 1] must be finite and >= 0 (max(0, cos)), got -0.5",
            similarity=[[1, -0.5, 0], [-0.5, 1, 0], [0, 0, 1]],
        ),
        refused(
            "similarity must be symmetric, got 0.5 at [0, 1] and 0.0 at [1, 0]",
            similarity=[[1, 0.5, 0], [0, 1, 0], [0, 0, 1]],
        ),
        refused("similarity and embeddings exclude each other, got both", similarity=np.eye(3), embeddings=np.eye(3)),
        refused("embeddings must have 3 rows, got shape (2, 4)", embeddings=np.ones((2, 4))),
        refused("embeddings[1, 0] must be finite, got nan", embeddings=[[1.0], [NAN], [1.0]]),
        refused(
            "coverage[0, 1] must be 0 or 1 (give weights as coverage_weights), got 2", coverage=[[0, 2], [1, 1], [0, 0]]
        ),
        refused("coverage must have shape (3, terms), got (2, 2)", coverage=np.ones((2, 2))),
        refused("coverage_weights need coverage, got none", coverage_weights=[1.0]),
        refused("coverage_weights must have shape (2,), got (1,)", coverage=np.ones((3, 2)), coverage_weights=[1.0]),
        refused(
            "coverage_weights[0] must be finite and >= 0, got -1.0", coverage=np.ones((3, 1)), coverage_weights=[-1.0]
        ),
        refused("groups must be an array of int or str of shape (3,), got float64 (3,)", groups=[0.5, 1, 2]),
        refused("groups must be an array of int or str of shape (3,), got int64 (2,)", groups=[0, 1]),
        refused("allowed must be an array of bool, got dtype int64", allowed=[1, 0, 1]),
        refused("allowed must have shape (3,), got (2,)", allowed=[True, False]),
        refused("pinned[0] must be an index in [0, 3), got 3", pinned=[3]),
        refused("pinned[1] must be distinct from the others, got 0 again", pinned=[0, 0]),
        refused("pinned must be a 1-D array of int, got dtype float64 and shape (1,)", pinned=[1.0]),
        refused("pinned items cost more than the budget: 7 > 6", pinned=[1, 2]),
        refused("pinned items exceed max_items: 2 > 1", pinned=[0, 1], max_items=1),
        refused(
            "pinned items must be allowed, got item 0 pinned and not allowed", pinned=[0], allowed=[False, True, True]
        ),
        refused("max_items must be >= 0, got -1", max_items=-1),
        refused("max_items must be an integer, got 1.5", max_items=1.5),
        refused("max_items must be an integer, got True", max_items=True),
        refused("saturation must be finite and > 0, got 0", saturation=0),
        refused("saturation must be in (0, 1], got 1.5", saturation=1.5),
        refused("normalisation must be 'p1' or 'unit', got 'l2'", normalisation="l2"),
        refused("weights must be PackingWeights, got {'relevance': 1}", weights={"relevance": 1}),
        refused("weights.coverage needs coverage, got none", weights=ig.PackingWeights(coverage=1)),
        refused("weights.diversity needs groups, got none", weights=ig.PackingWeights(diversity=0.3)),
        refused(
            "weights.facility_location needs similarity or embeddings, got none",
            weights=ig.PackingWeights(facility_location=1),
        ),
    ],
)
def test_a_bad_problem_is_refused(arguments, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        ig.PackingProblem(**arguments)


@pytest.mark.parametrize("value", [-0.1, NAN, INF, True, "1"])
def test_a_bad_weight_is_refused(value):
    with pytest.raises(ValueError, match=r"weights\.relevance must be"):
        ig.PackingWeights(relevance=value)


@pytest.mark.parametrize(
    ("keywords", "error", "message"),
    [
        ({"methd": 1}, TypeError, "no option 'methd'"),
        ({"certficate": "tight"}, TypeError, "no option 'certficate'"),
        ({"method": "lazy_gredy"}, ValueError, "did you mean 'lazy_greedy'?"),
        ({"backend": "cupy"}, ValueError, "unknown backend 'cupy'"),
        ({"backend": "nunpy"}, ValueError, "did you mean 'numpy'?"),
        ({"certificate": "loose"}, ValueError, "certificate must be 'fast' or 'tight', got 'loose'"),
        ({"time_limit": -1}, ValueError, "time_limit must be finite and >= 0, got -1"),
        ({"time_limit": True}, ValueError, "time_limit must be a number, got True"),
        ({"threads": 0}, ValueError, "threads must be in [1, 1024], got 0"),
        ({"threads": 2.0}, ValueError, "threads must be an integer, got 2.0"),
        ({"seed": -1}, ValueError, "seed must be in [0, 18446744073709551615], got -1"),
        ({"seed": 2**64}, ValueError, "seed must be in"),
        ({"seed": 1.0}, ValueError, "seed must be an integer, got 1.0"),
        ({"memory_limit": -5}, ValueError, "memory_limit must be >= 0, got -5"),
    ],
    ids=str,
)
def test_a_bad_solve_is_refused(keywords, error, message):
    with pytest.raises(error, match=re.escape(message)):
        ig.solve(ig.PackingProblem(**GOOD), **keywords)
    with pytest.raises(error, match=re.escape(message)):
        ig.solve_many([ig.PackingProblem(**GOOD)], **keywords)


def test_only_problems_are_solved():
    with pytest.raises(TypeError, match="problem must be a PackingProblem, an EvidenceProblem or a Qubo, got list"):
        ig.solve([1, 2])


# --- behaviours that users of the peers miss (row numbers of the list we keep) ---------------------------------------


@pytest.mark.parametrize("method", ["greedy_plus_max", "lazy_greedy"])
class TestBehaviours:
    def test_a2_memory_is_estimated_before_it_is_taken(self, method, tmp_path):
        rows = np.memmap(tmp_path / "rows", dtype=np.float32, mode="w+", shape=(3_000_000, 1))
        p = ig.PackingProblem(np.ones(3_000_000), 10, embeddings=rows)
        with pytest.raises(MemoryError, match=rf"needs {p.working_bytes} bytes, limit 536870912 bytes"):
            ig.solve(p, method, memory_limit=2**29)

    def test_a4_pinned_items_are_kept_paid_and_picked_once(self, method):
        for n, pinned in [(8, [1, 5]), (8, [5, 1])]:
            base = problem(n, 1000, 3)
            budget = int(base.costs[pinned].sum()) + 10
            result = ig.solve(problem(n, budget, 3, pinned=pinned), method)
            assert result.selection[:2].tolist() == pinned
            assert len(set(result.selection.tolist())) == result.selection.size
            assert result.cost <= budget

    def test_a7_ties_go_to_the_lowest_index(self, method):
        result = ig.solve(ig.PackingProblem([2] * 5, 6, relevance=[1.0] * 5), method)
        assert result.selection.tolist() == [0, 1, 2]

    def test_b10_zero_is_zero_and_none_is_the_default(self, method):
        grouped = {"costs": [1, 1, 1], "budget": 2, "relevance": [1.0, 0.9, 0.5], "groups": [0, 0, 1]}
        spread = ig.solve(ig.PackingProblem(**grouped, weights=ig.PackingWeights(diversity=1.0)), method)
        flat = ig.solve(ig.PackingProblem(**grouped, weights=ig.PackingWeights(diversity=0)), method)
        assert spread.selection.tolist() == [0, 2]
        assert flat.selection.tolist() == [0, 1]
        assert ig.solve(ig.PackingProblem(**{**GOOD, "max_items": 0}), method).selection.size == 0
        assert ig.solve(ig.PackingProblem(**{**GOOD, "budget": 0}), method).selection.size == 0

    def test_b13_a_cap_above_the_number_of_items_takes_all(self, method):
        result = ig.solve(ig.PackingProblem([3, 4], 1000, relevance=[1, 1], max_items=10), method)
        assert sorted(result.selection.tolist()) == [0, 1]

    def test_b15_what_is_not_allowed_is_never_picked(self, method):
        p = ig.PackingProblem([10, 1, 1], 10, relevance=[100, 1, 1], allowed=[False, True, True])
        assert sorted(ig.solve(p, method).selection.tolist()) == [1, 2]

    def test_c19_what_does_not_fit_is_skipped(self, method):
        p = ig.PackingProblem([90, 80, 10, 10], 110, relevance=[0.9, 0.8, 0.3, 0.3])
        assert sorted(ig.solve(p, method).selection.tolist()) == [0, 2, 3]

    @pytest.mark.parametrize("budget", [0, 1])
    def test_c21_a_budget_in_which_nothing_fits_gives_an_empty_optimum(self, method, budget):
        result = ig.solve(ig.PackingProblem([5, 7], budget, relevance=[1, 1]), method)
        assert result.selection.size == 0
        assert result.status == "optimal"
        assert (result.objective, result.cost, result.certificate.gap) == (0, 0, 0)

    def test_c24_pinned_parts_are_reserved_first(self, method):
        with pytest.raises(ValueError, match="30 > 20"):
            ig.PackingProblem([30, 40], 20, relevance=[1, 1], pinned=[0])
        assert ig.solve(ig.PackingProblem([30, 40], 60, relevance=[1, 1], pinned=[0]), method).selection.tolist() == [0]

    def test_c25_one_very_long_item_blocks_nothing(self, method):
        p = ig.PackingProblem([500, 20, 20], 100, relevance=[0.99, 0.5, 0.4])
        assert sorted(ig.solve(p, method).selection.tolist()) == [1, 2]

    def test_d30_zero_relevance_and_no_terms_give_a_valid_answer(self, method):
        p = ig.PackingProblem(
            [1, 1], 2, relevance=[0, 0], coverage=np.zeros((2, 0)), groups=[0, 1], similarity=np.zeros((2, 2))
        )
        result = ig.solve(p, method, certificate="tight")
        assert result.selection.size == 0
        assert result.objective == 0
        assert result.status == "optimal"

    def test_e1_duplicated_rows_are_never_picked_twice(self, method):
        rows = np.repeat(np.random.default_rng(0).random((8, 4)), 2, axis=0)
        weights = ig.PackingWeights(facility_location=1)
        result = ig.solve(ig.PackingProblem(np.ones(16), 16, embeddings=rows, weights=weights), method)
        assert len(set(result.selection.tolist())) == result.selection.size

    def test_e2_nan_similarity_is_refused_at_once(self, method):
        similarity = np.eye(4)
        similarity[1, 1] = NAN
        with pytest.raises(ValueError, match=r"similarity\[1, 1\]"):
            ig.solve(ig.PackingProblem(np.ones(4), 2, similarity=similarity), method)

    def test_e3_a_budget_may_exceed_the_number_of_items(self, method):
        assert ig.solve(ig.PackingProblem([2, 3, 4, 5], 10, relevance=[1] * 4), method).cost <= 10

    def test_e4_small_gains_per_cost_are_still_gains(self, method):
        p = ig.PackingProblem([10, 10, 10], 60, coverage=[[1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 0, 1]])
        assert sorted(ig.solve(p, method).selection.tolist()) == [0, 1, 2]

    def test_e7_the_best_single_item_is_not_missed(self, method):
        p = ig.PackingProblem([1, 160], 160, relevance=[1, 100])
        assert ig.solve(p, method).selection.tolist() == [1]

    @pytest.mark.parametrize("unit", [1, 160, 3])
    def test_e14_a_budget_can_be_filled_exactly(self, method, unit):
        for order in range(8):
            tokens = np.roll([22] * 7 + [6], order)
            costs = tokens if unit == 1 else tokens / unit
            budget = 160 if unit == 1 else 160 / unit
            result = ig.solve(ig.PackingProblem(costs, budget, relevance=np.ones(8)), method)
            assert result.selection.size == 8
            assert result.certificate.feasible


def test_a_huge_budget_takes_all_that_adds_something():
    result = ig.solve(ig.PackingProblem([2, 3, 4], 10**30, relevance=[1, 0, 1]))
    assert sorted(result.selection.tolist()) == [0, 2]
    with pytest.raises(ValueError, match="budget must be finite"):
        ig.PackingProblem([1], 10**400)


@pytest.mark.parametrize("n", [0, 1, 2])
def test_tiny_problems(n):
    p = ig.PackingProblem(
        np.ones(n), 5, relevance=np.ones(n), similarity=np.eye(n), groups=np.arange(n), coverage=np.ones((n, 2))
    )
    for method in ("greedy_plus_max", "lazy_greedy"):
        for backend in ("cpu", "numpy"):
            result = ig.solve(p, method, backend)
            assert sorted(result.selection.tolist()) == list(range(n))
    assert len(ig.solve_many([])) == 0


def test_numpy_integers_are_integers():
    p = ig.PackingProblem(
        np.array([2, 3], dtype=np.int8), np.int64(5), relevance=np.float32([1, 1]), max_items=np.int32(1)
    )
    assert ig.solve(p, seed=np.uint64(3), threads=np.int64(1)).selection.size == 1


def test_a_problem_keeps_its_numbers_when_the_callers_arrays_change():
    rng = np.random.default_rng(0)
    given = {
        "costs": np.ones(6),
        "relevance": rng.random(6),
        "similarity": np.eye(6, dtype=np.float32),
        "groups": np.array([0, 0, 1, 1, 2, 2]),
        "coverage": np.eye(6),
        "coverage_weights": rng.random(6),
        "allowed": np.ones(6, dtype=bool),
    }
    vectors = {"costs": np.ones(6), "embeddings": rng.random((6, 3))}
    for arrays in (given, vectors):
        before = ig.solve(ig.PackingProblem(**arrays, budget=3))
        p = ig.PackingProblem(**arrays, budget=3)
        for array in arrays.values():
            array[...] = array[..., ::-1].copy() if array.ndim == 1 else 0
        after = ig.solve(p)
        assert (after.objective, after.selection.tolist()) == (before.objective, before.selection.tolist())
    for name in ("similarity", "groups"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(ig.PackingProblem(**given, budget=3), name)[0] = 0


def test_a_read_only_similarity_is_not_copied():
    similarity = np.eye(4, dtype=np.float32)
    similarity.setflags(write=False)
    assert ig.PackingProblem(np.ones(4), 2, similarity=similarity).similarity is similarity


@pytest.mark.parametrize(
    ("fields", "match"),
    [
        ({"relevance": np.ma.masked_less([0.2, 0.7, 0.9], 0.5)}, "relevance must not be a masked array"),
        ({"embeddings": np.ma.masked_less(np.eye(3), 0.5)}, "embeddings must not be a masked array"),
        ({"coverage": np.ma.masked_equal(np.eye(3, dtype=np.int8), 0)}, "coverage must not be a masked array"),
        ({"groups": np.ma.masked_equal([1, 2, 3], 2)}, "groups must not be a masked array"),
        ({"allowed": np.ma.masked_equal([True, False, True], False)}, "allowed must not be a masked array"),
        ({"pinned": np.ma.masked_equal([0, 1], 1)}, "pinned must not be a masked array"),
    ],
)
def test_what_a_mask_hides_is_not_counted(fields: dict[str, Any], match: str) -> None:
    with pytest.raises(TypeError, match=match):
        ig.PackingProblem([1, 1, 1], 2, **fields)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda masked: ig.Qubo(np.eye(2)).energy(masked), "x"),
        (lambda masked: ig.Qubo(np.eye(2)).energies(masked[np.newaxis]), "X"),
        (lambda masked: ig.select("a", [{"text": "a b", "embedding": masked}], 9), r"passages\[0\].embedding"),
        (lambda masked: ig.EvidenceProblem([1, 1], [[2, 1]]).to_qubo().decode(masked), "sample"),
    ],
)
def test_no_door_drops_a_mask(call: Any, name: str) -> None:
    with pytest.raises(TypeError, match=f"{name} must not be a masked array"):
        call(np.ma.masked_equal([1, 0], 0))


def test_embeddings_that_float32_would_lose_are_refused() -> None:
    with pytest.raises(ValueError, match=r"embeddings\[1\] must be zero or have an entry of at least 1.18e-38"):
        ig.PackingProblem([1, 1, 1], 2, embeddings=np.diag([1.0, 1e-60, 0.0]))
    with pytest.raises(ValueError, match=r"embeddings must have at least one column, got shape \(3, 0\)"):
        ig.PackingProblem([1, 1, 1], 2, embeddings=np.zeros((3, 0)))


@pytest.mark.parametrize("thing", [None, 3, object()])
def test_what_is_no_problem_is_named(thing: object) -> None:
    with pytest.raises(TypeError, match="problem must be a PackingProblem, an EvidenceProblem or a Qubo"):
        ig.solve(thing)
    with pytest.raises(TypeError, match=r"problems\[1\] must be a PackingProblem, an EvidenceProblem or a Qubo"):
        ig.solve_many([ig.PackingProblem([1], 1, relevance=[1]), thing])


@pytest.mark.parametrize("method", ["greedy_plus_max", "exact"])
def test_the_reference_refuses_a_memory_limit(method: str) -> None:
    problem = ig.PackingProblem([1, 1], 1, relevance=[1, 2])
    with pytest.raises(ValueError, match="backend 'numpy' cannot honour memory_limit"):
        ig.solve(problem, method, backend="numpy", memory_limit=10**9)
