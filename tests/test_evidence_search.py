"""Search on evidence problems: swaps, proofs and the automatic choice, judged by enumeration and by stored optima."""

from __future__ import annotations

import itertools
import pickle
from concurrent.futures import ThreadPoolExecutor

import isinglass as ig
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from isinglass import EvidenceProblem, EvidenceWeights, _core, backends, generators

from tests.evidence_cases import FAMILIES, best_by_enumeration, published, small, with_tokens
from tests.qubo_cases import instruction_set

MAKES = {"small": small, "tokens": with_tokens}


# --- answers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", MAKES.values(), ids=MAKES)
@pytest.mark.parametrize("n", [1, 2, 5, 9, 14])
@pytest.mark.parametrize("seed", range(4))
def test_exact_proves_the_enumerated_optimum(make, n: int, seed: int) -> None:
    problem = make(n, seed=seed)
    result = ig.solve(problem, "exact", seed=1)
    assert result.status == "optimal"
    assert result.objective == pytest.approx(best_by_enumeration(problem), abs=1e-10)
    assert result.objective == pytest.approx(problem.objective(result.selection), abs=1e-10)
    assert result.certificate == ig.Certificate(result.objective, True, result.objective, 0.0, "exact")
    assert problem.violations(result.selection) == ()
    assert result.selection.tolist() == sorted(result.selection.tolist())
    assert result.cost == problem.cost(result.selection)


@settings(max_examples=150, deadline=None)
@given(
    n=st.integers(0, 8),
    m=st.integers(0, 4),
    most=st.integers(1, 9),
    seed=st.integers(0, 10**6),
    levels=st.integers(1, 4),
    tokens=st.none() | st.integers(0, 25),
)
def test_exact_and_swap_on_small_integers(n, m, most, seed, levels, tokens) -> None:
    """Few different numbers, so that ties, zeros, copies and unaffordable passages are common."""
    rng = np.random.default_rng(seed)
    redundancy, complementarity = (np.triu(rng.integers(0, levels, (n, n)), 1) for _ in range(2))
    problem = EvidenceProblem(
        rng.integers(0, levels, n),
        rng.integers(0, 3, (m, n)),
        rng.integers(0, levels, m),
        redundancy + redundancy.T,
        complementarity + complementarity.T,
        most,
        costs=None if tokens is None else rng.integers(1, 9, n),
        budget=tokens,
    )
    optimum = best_by_enumeration(problem)
    proved = ig.solve(problem, "exact", seed=seed)
    assert proved.status == "optimal"
    assert proved.objective == pytest.approx(optimum, abs=1e-10)
    found = ig.solve(problem, "swap", seed=seed)
    assert problem.violations(found.selection) == ()
    assert found.objective <= optimum + 1e-10
    assert found.objective == pytest.approx(problem.objective(found.selection), abs=1e-10)


def test_exact_proves_selections_that_leave_out_few() -> None:
    """Relevance so high that the optimum is full: one of the C(30, 3) that leave out three."""
    problem = small(30, 3, 27, seed=4, weights=EvidenceWeights(alpha=1000.0, mu=0), relevance=np.linspace(1, 1.02, 30))
    result = ig.solve(problem, "exact", seed=1)
    every = set(range(30))
    best = max(problem.objective(sorted(every - set(out))) for out in itertools.combinations(range(30), 3))
    assert result.status == "optimal"
    assert result.objective == pytest.approx(best, abs=1e-9)


@pytest.mark.parametrize(
    ("family", "options", "least"), [("rag", {}, 100), ("hard", {}, 90), ("hard", {"num_reads": 20}, 100)]
)
def test_swap_finds_what_exact_proves(family: str, options: dict[str, int], least: int) -> None:
    hits = 0
    for seed in range(20):
        problem = FAMILIES[family](20, 4, 5, seed=seed)
        proved = ig.solve(problem, "exact", seed=0)
        assert proved.status == "optimal"
        hits += sum(ig.solve(problem, "swap", seed=s, **options).objective == proved.objective for s in range(5))
    assert hits >= least


def test_exact_proves_the_stored_optima(data) -> None:
    """A passage beyond K costs only 300 in the stored matrices, so the best state of some holds one passage more."""
    checked = 0
    for instance in published(data):
        best = -instance.energy - 300 * instance.most**2
        reached = []
        for beyond in range(3):
            core = instance.core(instance.most + beyond)
            answer = _core.select_evidence(core, 2, 20, 0, 0, 1, float("inf"), None)
            assert answer.proved
            reached.append(answer.value - 300 * beyond**2)
        assert max(reached) == best
        checked += 1
    assert checked == 21


def test_the_stored_matrices_are_those_of_the_scores_read_back(data) -> None:
    """The same scores as an evidence problem give the stored matrix back, to the last integer."""
    for instance in published(data):
        m = instance.m
        support = instance.covers[:m].astype(int) + instance.covers[m:]
        # Weights that round to the stored 40 w and 100 w.
        low = np.maximum((instance.coverage_gains[:m] - 0.5) / 40, (instance.coverage_gains[m:] - 0.5) / 100)
        high = np.minimum((instance.coverage_gains[:m] + 0.5) / 40, (instance.coverage_gains[m:] + 0.5) / 100)
        w = (low + high) / 2
        shift = max(0.0, -instance.gains.min())
        rest = ig.problems.evidence.support_overlap(support, 0.25)
        problem = EvidenceProblem(
            (instance.gains + shift) / 100,
            support,
            w,
            np.maximum(-instance.pairs, 0) / 100 / rest,
            np.maximum(instance.pairs, 0) / 80,
            instance.most,
            weights=EvidenceWeights(eta=0, kappa=0, mu=shift / 10),
        )
        ours = problem.to_qubo(scale=10).qubo
        assert np.array_equal(ours.to_numpy(), instance.qubo.to_numpy())


# --- limits, bounds, what is said ------------------------------------------------------------------------------------


def test_a_node_limit_leaves_a_bound_that_holds() -> None:
    problem = generators.hard_problem(40, 16, 6, seed=1)
    optimum = ig.solve(problem, "exact", seed=0)
    assert optimum.status == "optimal"
    for limit in (1, 3, 10):
        result = ig.solve(problem, "exact", seed=0, node_limit=limit)
        assert result.status == "bounded"
        assert result.certificate.method == "dual"
        assert result.certificate.upper_bound >= optimum.objective
        assert 0 < result.certificate.gap < 0.5
        assert result.provenance["nodes"] <= limit
    assert result.provenance["options"] == {"node_limit": 10}


def test_a_time_limit_is_kept_and_said() -> None:
    problem = generators.hard_problem(100, 24, 10, seed=1)
    result = ig.solve(problem, "exact", seed=0, time_limit=0.05)
    assert result.status == "time_limit"
    assert sum(result.timings.values()) < 0.5
    assert result.certificate.upper_bound > result.objective > 0
    nothing = ig.solve(problem, "swap", seed=0, time_limit=0)
    assert nothing.status == "time_limit"
    assert problem.violations(nothing.selection) == ()


def test_ctrl_c_ends_a_proof() -> None:
    import _thread
    import threading

    problem = generators.hard_problem(200, 40, 12, seed=2)
    timer = threading.Timer(0.2, _thread.interrupt_main)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        ig.solve(problem, "exact", seed=0, time_limit=20)
    timer.join()


def test_auto_proves_what_is_easy_and_bounds_the_rest() -> None:
    easy = ig.solve(generators.rag_problem(40, 4, 6, seed=1), seed=1)
    assert (easy.status, easy.provenance["method"], easy.provenance["chosen_by"]) == ("optimal", "exact", "auto")
    hard = ig.solve(generators.hard_problem(100, 24, 10, seed=1), seed=1)
    assert (hard.status, hard.provenance["method"], hard.provenance["chosen_by"]) == ("bounded", "swap", "auto")
    assert hard.certificate.gap > 0


def test_certify_bounds_any_selection() -> None:
    for problem in (small(12, 3, 4, seed=1), with_tokens(12, seed=2), generators.rag_problem(30, 4, 5, seed=1)):
        optimum = ig.solve(problem, "exact", seed=1).objective
        for selection in ([], [0], [3, 1]):
            fast = ig.certify(problem, selection, level="fast")
            tight = ig.certify(problem, selection)
            assert tight.value == problem.objective(selection)
            assert tight.feasible is (problem.violations(selection) == ())
            assert tight.upper_bound >= optimum - 1e-9
            assert fast.upper_bound >= optimum - 1e-9
            assert (fast.method, tight.method) == ("dual", "exact")
            assert tight.upper_bound == pytest.approx(optimum)
        best = ig.solve(problem, seed=1).selection
        assert ig.certify(problem, best).gap == pytest.approx(0, abs=1e-12)
        assert 0 <= ig.certify(problem, best, level="fast").gap < 0.2
    unproved = ig.certify(generators.hard_problem(100, 24, 10, seed=1), [0], time_limit=0.02)
    assert unproved.method == "dual"
    assert unproved.upper_bound > unproved.value
    too_many = ig.certify(problem, range(8))
    assert (too_many.feasible, too_many.gap) == (False, None)
    assert too_many.upper_bound >= optimum - 1e-9


def test_options_are_checked_and_named() -> None:
    problem = small()
    with pytest.raises(TypeError, match="method 'swap' has no option 'patiense'; did you mean 'patience'"):
        ig.solve(problem, "swap", patiense=3)
    with pytest.raises(ValueError, match="num_reads must be in"):
        ig.solve(problem, "swap", num_reads=0)
    with pytest.raises(ValueError, match="EvidenceProblem has no method 'swaps': did you mean 'swap'"):
        ig.solve(problem, "swaps")
    with pytest.raises(ValueError, match="backend 'numpy' has no method 'swap'"):
        ig.solve(problem, "swap", "numpy")
    with pytest.raises(ValueError, match="backend 'numpy' enumerates: it takes no node_limit"):
        ig.solve(problem, "exact", "numpy", node_limit=3)
    with pytest.raises(ValueError, match="enumerates at most 1,000,000 selections, got"):
        ig.solve(small(60, 3, 8), "exact", "numpy")


# --- the same answer everywhere --------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [*FAMILIES.values(), lambda n, m, most, seed: with_tokens(n, seed)])
def test_same_seed_same_answer_on_every_instruction_set(make) -> None:
    problems = [make(n, 5, 4, seed=n) for n in (3, 17, 40)]
    answers = {}
    for level in _core.isa_levels():
        with instruction_set(level):
            answers[level] = [
                (r.selection.tolist(), r.objective, r.provenance["num_moves"], r.provenance["nodes"], r.certificate)
                for problem in problems
                for method, options in (("swap", {"num_reads": 5, "patience": 30}), ("exact", {}))
                for r in [ig.solve(problem, method, seed=7, **options)]
            ]
    first, *others = answers.values()
    assert all(other == first for other in others)
    assert len(answers) > 1


@pytest.mark.parametrize("method", ["swap", "exact", "auto", "anneal"])
def test_a_batch_is_its_members(method: str) -> None:
    problems = [FAMILIES[f](n, 4, 4, seed=n) for f in FAMILIES for n in (6, 20, 30)]
    alone = [ig.solve(problem, method, seed=5) for problem in problems]
    for threads in (1, 2, 7):
        batch = ig.solve_many(problems[::-1], method, seed=5, threads=threads)[::-1]
        for a, b in zip(alone, batch, strict=True):
            assert a.selection.tolist() == b.selection.tolist()
            assert (a.objective, a.status, a.certificate) == (b.objective, b.status, b.certificate)
    with ThreadPoolExecutor(2) as executor:
        spread = ig.solve_many(problems, method, seed=5, executor=executor)
    assert [r.objective for r in spread] == [r.objective for r in alone]
    each = ig.solve_many(problems, method, seed=range(len(problems)))
    assert [r.provenance["seed"] for r in each] == list(range(len(problems)))


def test_a_result_travels_and_is_frozen() -> None:
    for method in ("swap", "exact", "anneal"):
        result = ig.solve(small(), method, seed=1)
        again = pickle.loads(pickle.dumps(result))
        assert again.selection.tolist() == result.selection.tolist()
        assert again.certificate == result.certificate
        assert again.provenance["method"] == method
        assert not result.selection.flags.writeable
        with pytest.raises(AttributeError, match="Result is frozen"):
            result.objective = 3


def test_seed_none_is_drawn_and_recorded() -> None:
    problem = generators.hard_problem(40, 12, 6, seed=3)
    drawn = ig.solve(problem, "swap")
    assert ig.solve(problem, "swap", seed=drawn.provenance["seed"]).selection.tolist() == drawn.selection.tolist()


# --- numbers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("factor", [1e-12, 1.0, 1e12])
def test_the_size_of_scores_does_not_matter(factor: float) -> None:
    base = small(12, 3, 4, seed=6)
    names = ("alpha", "beta", "gamma_partial", "gamma_direct", "delta", "eta", "kappa", "mu")
    weights = EvidenceWeights(**{name: factor * getattr(base.weights, name) for name in names})
    scaled = small(12, 3, 4, seed=6, weights=weights)
    a, b = ig.solve(base, "exact", seed=1), ig.solve(scaled, "exact", seed=1)
    assert a.selection.tolist() == b.selection.tolist()
    assert b.objective == pytest.approx(factor * a.objective)
    assert b.status == "optimal"


def test_integer_scores_are_held_exactly() -> None:
    whole = EvidenceProblem([3, 1, 2], [[1, 2, 0]], [2.0], max_passages=2, weights=EvidenceWeights(rho_diff=0.5))
    assert whole.core().max_error == 0
    assert whole.core().granule < 1e-9
    real = small(12, 3, 4, seed=6)
    assert real.core().max_error <= 1e-12 * abs(ig.solve(real, seed=1).objective)


def test_every_qubo_method_is_offered() -> None:
    of = lambda kind: {name for k, name in ig.methods.METHODS if k is kind}  # noqa: E731
    assert of(EvidenceProblem) == (of(ig.Qubo) | {"swap", "exact"})
    problem = small(10, 3, 3, penalties=small(10, 3, 3).safe_penalties())
    for method in sorted(m for kind, m in backends.load("cpu").RUNNERS if kind is ig.Qubo and m != "exact"):
        result = ig.solve(problem, method, seed=1)
        assert result.objective >= 0.8 * best_by_enumeration(problem)
        assert result.decoded.feasible
        assert result.energy >= -result.objective - 1e-9  # y and slack may be off
        assert result.samples.shape[1] == len(problem.to_qubo().variables)


@pytest.mark.parametrize(("backend", "method"), [("neal", "anneal"), ("dwave-tabu", "tabu"), ("openjij", "anneal")])
def test_samplers_of_others_solve_the_qubo(backend: str, method: str) -> None:
    state = ig.available_backends()[backend]
    if not state.available:
        pytest.skip(f"backend {backend}: {state.reason}")
    problem = small(10, 3, 3, penalties=small(10, 3, 3).safe_penalties())
    result = ig.solve(problem, backend=backend, seed=1, num_reads=20)
    assert (result.provenance["backend"], result.provenance["method"]) == (backend, method)
    assert problem.violations(result.selection) == ()
    assert result.objective == problem.objective(result.selection)
    assert result.objective >= 0.8 * best_by_enumeration(problem)
    with pytest.raises(backends.BackendError, match=f"backend '{backend}' has no method 'swap', it offers .*{method}"):
        ig.solve(problem, "swap", backend)
