"""Packing: the native engine against plain greedy, enumeration and the definitions; certificates; properties."""

from __future__ import annotations

import pickle
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import isinglass as ig
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from isinglass import _core
from isinglass.backends import reference

from tests.packing_instances import arrays, problem

METHODS = ["greedy_plus_max", "lazy_greedy"]


# --- the engine against slower ones ---------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("seed", range(12))
def test_native_picks_are_those_of_the_plain_reference(method, seed):
    options = [
        {},
        {"facility": True},
        {"max_items": 4},
        {"pinned": [3, 1]},
        {"integer": False},
        {"normalisation": "unit"},
    ]
    p = problem(24, 90, seed, **options[seed % len(options)])
    native, plain = ig.solve(p, method), ig.solve(p, method, backend="numpy")
    np.testing.assert_array_equal(native.selection, plain.selection)
    assert native.objective == pytest.approx(plain.objective, abs=1e-9)
    np.testing.assert_allclose(native.trace.gains, plain.trace.gains, atol=1e-9)


@pytest.mark.parametrize("seed", range(12))
def test_optimum_lies_between_value_and_bound(seed):
    options = [{}, {"facility": True}, {"max_items": 3}, {"pinned": [5]}, {"allowed": np.arange(11) != 2}]
    p = problem(11, 60, seed, **options[seed % len(options)])
    optimum = ig.solve(p, "exact", backend="numpy").objective
    for method in METHODS:
        for level in ("fast", "tight"):
            certificate = ig.solve(p, method, certificate=level).certificate
            assert certificate.feasible
            assert certificate.value <= optimum + 1e-12
            assert certificate.upper_bound >= optimum
    assert ig.solve(p).objective >= optimum / 2


def test_greedy_plus_max_is_never_below_lazy_greedy():
    for seed in range(40):
        p = problem(30, 70, seed)
        assert ig.solve(p).objective >= ig.solve(p, "lazy_greedy").objective


@pytest.mark.parametrize("seed", range(6))
def test_tight_bound_is_close(seed):
    p = problem(60, 160, seed)
    fast, tight = ig.solve(p).certificate, ig.solve(p, certificate="tight").certificate
    assert tight.upper_bound <= fast.upper_bound
    assert tight.gap < 0.08


def test_same_bits_on_every_instruction_set(isa):
    for seed, options in enumerate([{}, {"facility": True}, {"integer": False}]):
        for n in (1, 15, 16, 17, 70):
            p = problem(n, 120, seed, **options)
            got = ig.solve(p, certificate="tight")
            assert got.provenance["instruction_set"] == isa
            _core.force_isa("scalar")
            expected = ig.solve(problem(n, 120, seed, **options), certificate="tight")
            _core.force_isa(isa)
            assert got.selection.tolist() == expected.selection.tolist()
            assert got.trace.gains.tobytes() == expected.trace.gains.tobytes()
            assert got.certificate == expected.certificate


def test_cosine_similarity_has_the_same_bits_on_every_instruction_set(isa):
    rows = np.random.default_rng(3).normal(size=(33, 50)).astype(np.float32)
    got = _core.cosine_similarity(rows, 2)
    _core.force_isa("scalar")
    assert got.tobytes() == _core.cosine_similarity(rows, 2).tobytes()
    unit = rows.astype(float) / np.linalg.norm(rows.astype(float), axis=1, keepdims=True)
    np.testing.assert_allclose(got, np.clip(unit @ unit.T, 0, 1), atol=1e-6)


@pytest.mark.parametrize("threads", [1, 2, 7])
def test_a_batch_is_its_single_solves_for_any_threads(threads):
    problems = [problem(10 + seed, 80, seed) for seed in range(40)]
    results = ig.solve_many(problems, threads=threads)
    for p, result in zip(problems, results, strict=True):
        single = ig.solve(p)
        assert result.selection.tolist() == single.selection.tolist()
        assert result.objective == single.objective
        assert result.certificate == single.certificate


def test_sparse_similarity_and_embeddings_mean_the_dense_matrix():
    from scipy import sparse

    a = arrays(30, 5, facility=True)
    dense = np.where(a["similarity"] > 0.4, a["similarity"], 0).astype(np.float32)
    expected = ig.solve(ig.PackingProblem(budget=100, **{**a, "similarity": dense}))
    coverage = sparse.csr_array(a["coverage"])
    for matrix in (sparse.csr_array(dense), sparse.coo_array(dense), sparse.csc_matrix(dense)):
        got = ig.solve(
            ig.PackingProblem(budget=100, **{**a, "similarity": matrix, "coverage": coverage}), certificate="tight"
        )
        assert got.selection.tolist() == expected.selection.tolist()
        assert got.objective == pytest.approx(expected.objective, abs=1e-12)
    rows = np.random.default_rng(0).normal(size=(30, 12))
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    similarity = np.clip(unit @ unit.T, 0, 1)
    np.fill_diagonal(similarity, 1)
    by_rows = ig.PackingProblem(budget=100, **{**a, "similarity": None, "embeddings": rows})
    by_matrix = ig.PackingProblem(budget=100, **{**a, "similarity": (similarity + similarity.T) / 2})
    assert ig.solve(by_rows).selection.tolist() == ig.solve(by_matrix).selection.tolist()
    assert ig.solve(by_rows).objective == pytest.approx(ig.solve(by_matrix).objective, abs=1e-6)


@pytest.mark.parametrize("n", [40, 300])
def test_ties_of_any_number_go_to_the_lowest_index(n):
    p = ig.PackingProblem(np.full(n, 2), 2 * n // 3, relevance=np.ones(n))
    for method in METHODS:
        assert ig.solve(p, method).selection.tolist() == list(range(n // 3))


# --- the objective's terms, each by hand -----------------------------------------------------------------------------


def test_each_term_by_hand():
    only = {"relevance": 0, "coverage": 0, "representation": 0, "diversity": 0}

    def weights(name):
        return ig.PackingWeights(**{**only, name: 2.0})

    sim = [[1, 0.5, 0], [0.5, 1, 0], [0, 0, 1]]
    base = {"costs": [1, 1, 1], "budget": 2, "relevance": [4, 1, 4], "groups": ["a", "a", "b"]}

    def value(chosen, **terms):
        return ig.certify(ig.PackingProblem(**{**base, **terms}), chosen).value

    assert value([0], weights=weights("relevance")) == pytest.approx(2 * 4 / 9)
    covered = {"coverage": [[1, 0], [1, 1], [0, 0]], "coverage_weights": [1.0, 3.0]}
    assert value([0], weights=weights("coverage"), **covered) == pytest.approx(2 * 1 / 4)
    assert value([0, 1], weights=weights("coverage"), **covered) == pytest.approx(2.0)
    # deg = 1.5, 1.5, 1; caps .45, .45, .3; item 0 gives .45 (of 1) + .45 (of .5) + 0
    assert value([0], weights=weights("representation"), similarity=sim) == pytest.approx(2 * 0.9 / 1.2)
    assert value([0, 2], weights=weights("diversity")) == pytest.approx(2 * (2 + 2) / 3)
    unit = {"weights": weights("diversity"), "normalisation": "unit"}
    assert value([0, 2], **unit) == pytest.approx(2 * (2 + 2) / (np.sqrt(5) + 2))
    assert value([0], weights=weights("facility_location"), similarity=sim) == pytest.approx(2 * 1.5 / 3)


def test_a_term_without_its_array_is_off_and_listed():
    result = ig.solve(ig.PackingProblem([1, 2], 2, relevance=[1, 2]))
    assert result.provenance["terms"] == ("relevance",)
    assert result.provenance["terms_off"] == ("coverage", "representation", "diversity", "facility_location")


def test_gains_add_up_to_the_objective_and_costs_to_the_cost():
    result = ig.solve(problem(40, 150, 1))
    assert result.trace.gains.sum() == pytest.approx(result.objective, abs=1e-12)
    assert result.trace.costs.sum() == result.cost <= 150
    np.testing.assert_array_equal(result.trace.items, result.selection)


# --- properties ------------------------------------------------------------------------------------------------------


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    n=st.integers(0, 14),
    budget=st.integers(0, 120),
    seed=st.integers(0, 2**32 - 1),
    method=st.sampled_from(METHODS),
    equal=st.booleans(),
    cap=st.none() | st.integers(0, 6),
)
def test_properties(n, budget, seed, method, equal, cap):
    a = arrays(n, seed)
    if equal:  # many ties and zero gains
        a["relevance"] = np.ones(n)
        a["costs"] = np.full(n, 7)
        a["similarity"] = np.eye(n, dtype=np.float32)
    p = ig.PackingProblem(budget=budget, max_items=cap, **a)
    result = ig.solve(p, method, certificate="tight")
    chosen = result.selection
    assert len(set(chosen.tolist())) == chosen.size
    assert p.costs[chosen].sum() == result.cost <= budget
    assert cap is None or chosen.size <= cap
    assert result.certificate.feasible
    assert result.certificate.upper_bound >= result.objective
    assert 0 <= result.certificate.gap <= 1
    assert result.objective == pytest.approx(reference.objective(p)(chosen), abs=1e-9)
    assert (result.trace.gains > 0).all()
    if not any(c <= budget for c in p.costs) or cap == 0:
        assert chosen.size == 0
        assert result.status == "optimal"
        assert result.certificate.gap == 0


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 20))
def test_shuffling_the_items_permutes_the_answer(seed, n):
    a = arrays(n, seed)
    order = np.random.default_rng(seed + 1).permutation(n)
    shuffled = {
        **{name: a[name][order] for name in ("costs", "relevance", "coverage", "groups")},
        "similarity": a["similarity"][np.ix_(order, order)],
    }
    plain, permuted = ig.PackingProblem(budget=60, **a), ig.PackingProblem(budget=60, weights=a["weights"], **shuffled)
    first, second = ig.solve(plain), ig.solve(permuted)
    densities = first.trace.gains / first.trace.costs
    if len(set(np.round(densities, 12))) == densities.size:  # no ties
        assert first.objective == pytest.approx(second.objective, abs=1e-9)
        assert sorted(order[second.selection].tolist()) == sorted(first.selection.tolist())


# --- certify ---------------------------------------------------------------------------------------------------------


def test_certify_judges_any_selection():
    p = problem(20, 80, 4)
    best = ig.solve(p)
    own = ig.certify(p, best.selection)
    assert own.value == best.objective
    assert own.feasible
    worse = ig.certify(p, best.selection[:1])
    assert worse.feasible
    assert worse.value < own.value
    assert worse.gap > own.gap
    everything = ig.certify(p, np.arange(20))
    assert not everything.feasible
    assert everything.gap is None
    with pytest.raises(ValueError, match=r"selection\[1\] must be distinct from the others, got 3 again"):
        ig.certify(p, [3, 3])
    with pytest.raises(ValueError, match=r"selection\[0\] must be an index in \[0, 20\), got 20"):
        ig.certify(p, [20])


def test_certify_where_nothing_fits_is_an_optimum_without_gap():
    own = ig.certify(ig.PackingProblem([2, 3], 0, relevance=[1, 0.5]), [])
    assert (own.value, own.upper_bound, own.gap) == (0, 0, 0)


def test_certify_sees_what_is_not_allowed_missing_or_too_many():
    a = arrays(6, 0)
    p = ig.PackingProblem(budget=1000, pinned=[1], max_items=2, allowed=np.arange(6) != 4, **a)
    assert ig.certify(p, [1, 0]).feasible
    assert not ig.certify(p, [0]).feasible
    assert not ig.certify(p, [1, 4]).feasible
    assert not ig.certify(p, [1, 0, 2]).feasible


# --- results ---------------------------------------------------------------------------------------------------------


def test_results_are_frozen_and_read_only():
    result = ig.solve(problem(10, 50, 0))
    with pytest.raises(AttributeError, match="frozen"):
        result.objective = 3
    for array in (result.selection, result.trace.gains, result.trace.costs):
        assert not array.flags.writeable
    assert "Result(objective=" in repr(result)


def test_results_and_problems_travel_between_processes():
    p = problem(12, 50, 0)
    expected = ig.solve(p)
    back = pickle.loads(pickle.dumps(expected))
    assert back.selection.tolist() == expected.selection.tolist()
    assert back.certificate == expected.certificate
    assert back.provenance == expected.provenance
    with ProcessPoolExecutor(1) as pool:
        (result,) = ig.solve_many([p], executor=pool)
    assert result.selection.tolist() == expected.selection.tolist()
    assert result.certificate == expected.certificate


def test_solves_from_several_python_threads_agree():
    problems = [problem(30, 90, seed) for seed in range(16)]
    expected = [ig.solve(p).selection.tolist() for p in problems]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda p: ig.solve(p).selection.tolist(), problems)) == expected


def test_inputs_are_read_and_never_changed():
    a = arrays(12, 0)
    copies = {name: np.copy(value) for name, value in a.items() if isinstance(value, np.ndarray)}
    for value in copies:
        a[value].setflags(write=False)
    strided = {**a, "relevance": np.repeat(a["relevance"], 2)[::2], "similarity": np.asfortranarray(a["similarity"])}
    one, two = ig.solve(ig.PackingProblem(budget=50, **a)), ig.solve(ig.PackingProblem(budget=50, **strided))
    assert one.selection.tolist() == two.selection.tolist()
    for name, value in copies.items():
        np.testing.assert_array_equal(a[name], value)
