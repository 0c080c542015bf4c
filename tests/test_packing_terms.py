"""Terms that the caller wrote: the native engine against the reference, what is refused, what is checked."""

from __future__ import annotations

import ctypes
import pickle

import isinglass as ig
import numpy as np
import pytest
from isinglass.problems.term import Term

from tests.packing_instances import arrays

N, GROUPS = 9, 3
GAIN = ctypes.CFUNCTYPE(
    ctypes.c_double, ctypes.c_int64, ctypes.POINTER(ctypes.c_int64), ctypes.c_int64, ctypes.c_void_p
)
SIZES = np.random.default_rng(5).integers(1, 9, N).astype(float)
METHODS = ["greedy_plus_max", "lazy_greedy"]


def from_python(gain, **declared) -> Term:
    return Term(GAIN(lambda item, selected, size, data: gain(item, selected[:size])), **declared)


def largest_of_group(item, selected):
    """Monotone and submodular: the sum over groups of the largest size in each."""
    return max(0.0, SIZES[item] - max((SIZES[s] for s in selected if s % GROUPS == item % GROUPS), default=0.0))


def pairs(item, selected):
    """Monotone, supermodular: items of a group help each other."""
    return 0.5 + sum(s % GROUPS == item % GROUPS for s in selected)


def crowded(item, selected):
    """Submodular, not monotone: items of a group stand in each other's way."""
    return 1.0 - 0.8 * sum(s % GROUPS == item % GROUPS for s in selected)


DECLARED = {
    "both": (largest_of_group, {"submodular": True, "monotone": True, "weight": 0.1}),
    "undeclared": (largest_of_group, {"weight": 0.1}),
    "supermodular": (pairs, {"monotone": True, "weight": 0.3}),
    "falling": (crowded, {"submodular": True, "weight": 0.4}),
}


def problem(kind: str, seed: int, **options) -> ig.PackingProblem:
    gain, declared = DECLARED[kind]
    return ig.PackingProblem(budget=60, terms=[from_python(gain, **declared)], **{**arrays(N, seed), **options})


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", DECLARED)
def test_native_picks_are_those_of_the_plain_reference(kind, method):
    for seed in range(3):
        p = problem(kind, seed, **([{}, {"max_items": 3}, {"pinned": [2]}][seed % 3]))
        native, plain = ig.solve(p, method), ig.solve(p, method, backend="numpy")
        np.testing.assert_array_equal(native.selection, plain.selection)
        assert native.objective == pytest.approx(plain.objective, abs=1e-9)
        np.testing.assert_allclose(native.trace.gains, plain.trace.gains, atol=1e-9)
        assert native.trace.gains.sum() == pytest.approx(native.objective, abs=1e-9)
        assert native.provenance["terms"][-1] == "user"


@pytest.mark.parametrize("kind", DECLARED)
def test_bounds_hold_where_both_are_declared_and_are_absent_elsewhere(kind):
    for seed in range(2):
        p = problem(kind, seed)
        optimum = ig.solve(p, "exact", backend="numpy").objective
        for level in ("fast", "tight"):
            for result in (ig.solve(p, certificate=level), ig.solve(p, "stochastic_greedy", seed=1, certificate=level)):
                for certificate in (result.certificate, ig.certify(p, result.selection, level=level)):
                    assert certificate.value <= optimum + 1e-12
                    if kind == "both":
                        assert certificate.upper_bound >= optimum
                        assert certificate.gap >= 0
                    else:
                        assert certificate.upper_bound is certificate.gap is certificate.method is None
                assert result.status in (("bounded", "optimal") if kind == "both" else ("feasible",))


def test_exact_proves_where_bounds_hold_and_is_refused_elsewhere():
    for seed in range(2):
        p = problem("both", seed)
        proof = ig.solve(p, "exact")
        assert proof.status == "optimal"
        assert proof.objective == pytest.approx(ig.solve(p, "exact", backend="numpy").objective, abs=1e-9)
    for kind in ("undeclared", "supermodular", "falling"):
        with pytest.raises(
            ig.BackendError, match="method 'exact' needs terms that are submodular and monotone, got 'user'"
        ):
            ig.solve(problem(kind, 0), "exact")
    with pytest.raises(ig.BackendError, match="with effort='high' needs terms that are submodular, got 'user'"):
        ig.solve(problem("supermodular", 0), effort="high")
    with pytest.raises(ig.BackendError, match="'sharded' needs terms that are absent"):
        ig.solve(problem("both", 0), "sharded")
    high = ig.solve(problem("both", 0), effort="high")
    assert high.objective >= ig.solve(problem("both", 0)).objective


def test_only_with_nothing_to_add_is_an_answer_optimal_without_a_bound():
    result = ig.solve(ig.PackingProblem([5], 3, terms=[from_python(pairs)]))
    assert (result.status, result.selection.tolist(), result.certificate.gap) == ("optimal", [], 0)


def test_a_batch_is_its_single_solves():
    problems = [problem(kind, seed) for seed in range(3) for kind in DECLARED]
    results = ig.solve_many(problems, threads=2)
    for k, p in enumerate(problems):
        single = ig.solve(p)
        assert results[k].selection.tolist() == single.selection.tolist()
        assert results[k].certificate == single.certificate
        assert results.statuses[k] == single.status
    assert np.isnan(results.upper_bounds[1])
    assert np.isnan(results.gaps[1])
    assert results.gaps[0] == results[0].certificate.gap


def test_verify_finds_false_declarations():
    from_python(largest_of_group, submodular=True, monotone=True).verify(N)
    from_python(pairs, monotone=True).verify(N)
    from_python(crowded, submodular=True).verify(N)
    with pytest.raises(ValueError, match=r"term 'user' is not submodular: item [0-9]+ gains .* beside"):
        from_python(pairs, submodular=True).verify(N)
    with pytest.raises(ValueError, match="term 'user' is not monotone: a gain is -"):
        from_python(crowded, monotone=True).verify(N)
    with pytest.raises(ValueError, match="term 'user' is no function of sets"):
        from_python(lambda item, selected: 1.0 + len(selected) * item).verify(N)
    with pytest.raises(ValueError, match="in another order"):
        from_python(lambda item, selected: float(selected[0]) if selected else 0.0).verify(N)
    with pytest.raises(ValueError, match="not submodular"):  # the debug mode: when the problem is made
        ig.PackingProblem(np.ones(N), 3, terms=[from_python(pairs, submodular=True, check=200)])
    from_python(pairs, submodular=True).verify(1)  # nothing to compare


def test_gains_that_are_no_numbers_are_refused():
    term = from_python(lambda item, selected: float("nan") if selected else 1.0)
    p = ig.PackingProblem(np.ones(5), 3, terms=[term])
    for backend in ("cpu", "numpy"):
        with pytest.raises(ValueError, match="terms must give finite gains, got nan"):
            ig.solve(p, backend=backend)
    with pytest.raises(ValueError, match="terms must give finite gains, got nan"):
        ig.solve_many([p, p], threads=2)


def test_items_that_are_no_integers_are_refused_not_cut():
    term = from_python(lambda item, selected: 1.0)
    assert (term.gain(np.int64(1), [0]), term.value(np.array([2, 0]))) == (1.0, 2.0)
    for call, fault in (
        (lambda: term.gain(0.0, []), r"item must be an integer, got 0\.0"),
        (lambda: term.gain(0, [1, 1.7]), r"selected\[1\] must be an integer, got 1\.7"),
        (lambda: term.value([True]), r"selection\[0\] must be an integer, got True"),
    ):
        with pytest.raises(ValueError, match=fault):
            call()


def test_what_is_refused():
    good = GAIN(lambda item, selected, size, data: 1.0)
    for function, message in (
        (ctypes.CFUNCTYPE(ctypes.c_int)(lambda: 1), "function must be double gain"),
        (
            ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_int64, ctypes.c_double, ctypes.c_int64, ctypes.c_double)(
                lambda item, selected, size, data: 1.0
            ),
            "function must be double gain",
        ),
        ("gain", "function must be a function, a numba cfunc or an address, got str"),
        (0, "function must be the address of double gain"),
    ):
        with pytest.raises(TypeError, match=message):
            Term(function)
    for keywords, message in (
        ({"weight": -1}, "weight must be finite and >= 0"),
        ({"submodular": 1}, "submodular must be True or False, got 1"),
        ({"data": np.ones((4, 4))[:, ::2]}, "data must be a C-contiguous array"),
        ({"data": [1]}, "data must be a C-contiguous array of numbers, got list"),
        ({"name": ""}, "name must be a text"),
    ):
        with pytest.raises(ValueError, match=message):
            Term(good, **keywords)
    with pytest.raises(AttributeError, match="frozen"):
        Term(good).weight = 2
    with pytest.raises(TypeError, match="terms must be a sequence of Term, got Term"):
        ig.PackingProblem([1], 1, terms=Term(good))
    with pytest.raises(TypeError, match=r"terms\[0\] must be a Term, got int"):
        ig.PackingProblem([1], 1, terms=[3])
    with pytest.raises(ValueError, match=r"terms\[1\].name must be new, got 'user' again"):
        ig.PackingProblem([1], 1, terms=[Term(good), Term(good)])
    with pytest.raises(ValueError, match="got 'relevance' again"):
        ig.PackingProblem([1], 1, terms=[Term(good, name="relevance")])
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(Term(good))
    assert ig.PackingProblem([1], 1, terms=[Term(good, weight=0)]).terms == ()


def compiled_gain(item, selected, size, data):
    rows, gain = carray(data, (9, 4), np.float64), 0.0  # noqa: F821 - numba resolves it when it compiles
    for t in range(4):
        best = 0.0
        for k in range(size):
            best = max(best, rows[selected[k], t])
        gain += max(0.0, rows[item, t] - best)
    return gain


def test_compiled_by_numba_and_across_processes():
    numba = pytest.importorskip("numba", reason="compiled terms need numba (extra numba)")
    compiled_gain.__globals__["carray"] = numba.carray
    rows = np.random.default_rng(1).random((N, 4))
    term = Term(compiled_gain, rows, submodular=True, monotone=True, check=300, name="nearness")
    rows[:] = 0  # the term keeps its own
    p = ig.PackingProblem(budget=60, terms=[term], **arrays(N, 3))
    native, plain = ig.solve(p, certificate="tight"), ig.solve(p, backend="numpy")
    assert native.selection.tolist() == plain.selection.tolist()
    assert native.objective == pytest.approx(plain.objective, abs=1e-9)
    assert term.value(native.selection) > 0
    there = pickle.loads(pickle.dumps(p))
    assert ig.solve(there).selection.tolist() == native.selection.tolist()
    signature = numba.types.float64(
        numba.types.int64, numba.types.CPointer(numba.types.int64), numba.types.int64, numba.types.voidptr
    )
    made = numba.cfunc(signature)(compiled_gain)
    for function in (made, made.address):
        same = Term(function, there.own_terms[0].data, submodular=True, monotone=True, name="nearness")
        assert ig.solve(ig.PackingProblem(budget=60, terms=[same], **arrays(N, 3))).objective == native.objective
    other = numba.cfunc(numba.types.float64(numba.types.int64))(lambda item: 1.0)
    with pytest.raises(TypeError, match="function must be double gain"):
        Term(other)
