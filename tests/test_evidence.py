"""Evidence problems: the objective, the QUBO, its penalties and the way back, and what is refused."""

from __future__ import annotations

import pickle
import re
from dataclasses import asdict, replace

import isinglass as ig
import numpy as np
import pytest
from isinglass import EvidencePenalties, EvidenceProblem, EvidenceWeights, generators
from isinglass.backends.reference_evidence import feasible_selections, value_of
from isinglass.problems import evidence

from tests.evidence_cases import all_selections, best_by_enumeration, minima_given, small, with_tokens

# --- the objective ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_the_objective_is_the_formula(seed: int) -> None:
    problem = small(7, 3, 3, seed)
    for chosen in all_selections(7):
        assert problem.objective(chosen) == pytest.approx(value_of(problem, chosen), abs=1e-11)
    assert problem.objective([]) == 0
    assert problem.objective([3, 1]) == problem.objective([1, 3])


def test_weights_are_the_papers() -> None:
    weights = asdict(EvidenceWeights())
    assert weights.pop("mu") == 2  # ours
    assert weights == {
        "alpha": 10,
        "beta": 10,
        "gamma_partial": 4,
        "gamma_direct": 10,
        "delta": 8,
        "eta": 10,
        "kappa": 20,
        "rho_diff": 0.25,
    }


def test_presets_are_what_their_names_say() -> None:
    base = evidence.preset("baseline")
    assert base == {"weights": EvidenceWeights(), "penalties": EvidencePenalties(), "max_passages": 5}
    weaker = evidence.preset("C1")["penalties"]
    assert weaker.lambda_K < base["penalties"].lambda_K
    assert weaker.lambda_P < base["penalties"].lambda_P
    assert weaker.lambda_D < base["penalties"].lambda_D
    assert [evidence.preset(name)["max_passages"] for name in ("K3", "K6")] == [3, 6]
    assert evidence.preset("compact")["weights"].mu > base["weights"].mu
    assert evidence.preset("rigid")["penalties"].lambda_K >= 100 * base["penalties"].lambda_K
    assert EvidenceProblem([1.0], [[1]], **evidence.preset("K3")).max_passages == 3
    with pytest.raises(ValueError, match="unknown preset 'rigit': did you mean 'rigid'"):
        evidence.preset("rigit")


SUPPORT = np.array([[2, 1, 0, 0, 1], [0, 1, 0, 2, 0], [0, 0, 0, 1, 1]])


def test_unsupported_passages_support_nothing() -> None:
    assert evidence.unsupported(SUPPORT).tolist() == [False, False, True, False, False]
    assert evidence.unsupported(np.zeros((0, 3), dtype=int)).all()


def test_overlap_of_support_is_the_jaccard_index_where_it_is_not_zero() -> None:
    rho = evidence.support_overlap(SUPPORT, 0.25)
    R = [{0}, {0, 1}, set(), {1, 2}, {0, 2}]
    for i in range(5):
        for k in range(5):
            assert rho[i, k] == (len(R[i] & R[k]) / len(R[i] | R[k]) if R[i] & R[k] else 0.25)
    base = np.full((5, 5), 0.6)
    aware = evidence.support_aware_redundancy(SUPPORT, base, 0.25)
    assert aware[0, 1] == pytest.approx(0.3)
    assert aware[0, 3] == pytest.approx(0.15)
    assert not aware.diagonal().any()


def test_complementarity_is_union_gain_and_bridges() -> None:
    w = np.array([1.0, 2.0, 1.0])
    gain = evidence.complementarity(SUPPORT, w)
    R = [{0}, {0, 1}, set(), {1, 2}, {0, 2}]
    weigh = lambda needs: sum(w[j] for j in needs)  # noqa: E731
    for i in range(5):
        for k in range(5):
            expected = (weigh(R[i] | R[k]) - max(weigh(R[i]), weigh(R[k]))) / 4 if i != k else 0
            assert gain[i, k] == pytest.approx(expected)
    embeddings = np.array([[1.0, 0], [0, 1], [1, 0], [-1, 0], [0, 0]])
    entities = np.array([[1, 0], [1, 1], [0, 1], [1, 0], [0, 0]])
    both = evidence.complementarity(SUPPORT, w, embeddings, entities)
    assert both[0, 1] == pytest.approx((gain[0, 1] + 1) / 2)  # orthogonal, one entity shared
    assert both[0, 2] == pytest.approx(gain[0, 2] / 2)  # none shared
    assert both[1, 2] == pytest.approx((gain[1, 2] + 1) / 2)
    assert both[0, 3] == pytest.approx((gain[0, 3] + 1) / 2)  # opposite counts as orthogonal
    assert np.array_equal(both, both.T)
    with pytest.raises(ValueError, match="embeddings and entities go together, got one of them"):
        evidence.complementarity(SUPPORT, w, embeddings)
    with pytest.raises(ValueError, match=r"must have 5 rows, got shapes \(4, 2\) and \(5, 2\)"):
        evidence.complementarity(SUPPORT, w, embeddings[:4], entities)
    with pytest.raises(ValueError, match=r"entities\[0, 0\] must be 0 or 1, got 3"):
        evidence.complementarity(SUPPORT, w, embeddings, entities * 3)


def with_penalties(problem: EvidenceProblem, penalties: EvidencePenalties) -> EvidenceProblem:
    return EvidenceProblem(
        problem.relevance,
        problem.support,
        problem.requirement_weights,
        problem.redundancy,
        problem.complementarity,
        problem.max_passages,
        problem.weights,
        penalties,
        problem.costs,
        problem.budget,
    )


# --- the QUBO --------------------------------------------------------------------------------------------------------


def test_variables_are_named_and_slack_reaches_its_bound_exactly() -> None:
    problem = small(9, 2, 6, seed=2, costs=np.arange(1, 10), budget=21)
    encoded = problem.to_qubo()
    assert encoded.variables == encoded.qubo.labels
    kinds = [name[0] for name in encoded.variables]
    assert [kinds.count(kind) for kind in ("x", "yP", "yD", "m")] == [9, 2, 2, 2]
    rows = evidence._constraints(problem)[1]
    bounds = {("q",): 6, ("t",): 21}
    for j in range(2):
        bounds["vP", j] = min(6, int((problem.support[j] > 0).sum()))
        bounds["vD", j] = min(6, int((problem.support[j] == 2).sum()))
    for name, bound in bounds.items():
        columns = [k for k, label in enumerate(encoded.variables) if label[: len(name)] == name]
        weights = np.abs(rows[:, columns]).max(axis=0)
        sums = {
            int(bits @ weights) for bits in np.array(np.meshgrid(*[[0, 1]] * len(columns))).reshape(len(columns), -1).T
        }
        assert sums == set(range(bound + 1))


@pytest.mark.parametrize("bits", [None, 12])
@pytest.mark.parametrize("make", [small, with_tokens])
def test_coefficients_are_those_of_pyqubo(make, bits) -> None:
    pyqubo = pytest.importorskip("pyqubo", reason="the judge needs pyqubo (extra test)")
    problem = make(6, seed=4)
    encoded = problem.to_qubo(bits)
    scale, lam = encoded.scale, encoded.penalties
    rounded = (lambda a: np.rint(scale * a)) if bits else (lambda a: a)
    S = problem.support
    m, n = S.shape
    z = {name: pyqubo.Binary("_".join(map(str, name))) for name in encoded.variables}

    def slack(kind, bound, *name):
        total, k = 0, 0
        while bound > 0:
            step = min(2**k, bound)
            total += step * z[(kind, *name, k)]
            bound, k = bound - step, k + 1
        return total

    gains, pairs, coverage = rounded(problem.gains), rounded(problem.pair_gains), rounded(problem.coverage_gains)
    H = -sum(gains[i] * z["x", i] for i in range(n))
    H -= sum(pairs[i, k] * z["x", i] * z["x", k] for i in range(n) for k in range(i + 1, n))
    H -= sum(coverage[0, j] * z["yP", j] + coverage[1, j] * z["yD", j] for j in range(m))
    most = problem.max_passages
    H += lam.lambda_K * (sum(z["x", i] for i in range(n)) + slack("q", most) - most) ** 2
    for j in range(m):
        for kind, y, by, weight in (("vP", "yP", S[j] >= 1, lam.lambda_P), ("vD", "yD", S[j] == 2, lam.lambda_D)):
            count = sum(z["x", i] for i in np.flatnonzero(by).tolist())
            bound = min(most, int(by.sum()))
            H += weight * (z[y, j] - count + slack(kind, bound, j)) ** 2
        H += lam.lambda_H * (z["yD", j] - z["yP", j] + z["m", j]) ** 2
    if problem.costs is not None:
        tokens = sum(int(problem.costs[i]) * z["x", i] for i in range(n))
        H += lam.lambda_B * (tokens + slack("t", problem.budget) - problem.budget) ** 2
    Q, offset = H.compile().to_qubo()
    order = {"_".join(map(str, name)): k for k, name in enumerate(encoded.variables)}
    theirs = np.zeros((len(order), len(order)))
    for (a, b), value in Q.items():
        i, k = sorted((order[a], order[b]))
        theirs[i, k] += value
    np.testing.assert_allclose(encoded.qubo.to_numpy(), theirs, atol=1e-9)
    assert encoded.qubo.offset == pytest.approx(offset)


def test_bits_round_the_scores_alone() -> None:
    problem = small(10, 3, 4, seed=1)
    exact = problem.to_qubo()
    assert (exact.scale, exact.max_error, exact.penalties) == (1, 0, problem.penalties)
    for bits in (8, 16, 32):
        encoded = problem.to_qubo(bits)
        Q = encoded.qubo.to_numpy()
        assert (np.rint(Q) == Q).all()
        assert float(encoded.penalties.lambda_K).is_integer()
        assert encoded.penalties.lambda_K == np.ceil(encoded.scale * problem.penalties.lambda_K)
        assert max(float(np.abs(part).max()) for part in encoded._scores) == 2 ** (bits - 1) - 1
        selections = list(feasible_selections(problem))
        objectives = np.array([problem.objective(chosen) for chosen in selections])
        worst = np.abs(minima_given(encoded.qubo, selections, 10) / encoded.scale + objectives).max()
        assert 0 < worst <= encoded.max_error * (1 + 1e-9)
    assert problem.to_qubo(scale=10).scale == 10
    with pytest.raises(ValueError, match="bits must be in"):
        problem.to_qubo(40)
    with pytest.raises(ValueError, match="bits and scale exclude each other"):
        problem.to_qubo(8, scale=3)


@pytest.mark.parametrize("make", [small, with_tokens])
@pytest.mark.parametrize("n", [1, 5, 9, 12])
@pytest.mark.parametrize("seed", range(3))
def test_safe_penalties_make_the_qubo_say_the_same(make, n: int, seed: int) -> None:
    problem = make(n, seed=seed)
    safe = with_penalties(problem, problem.safe_penalties())
    assert safe.check_penalties().ok
    assert safe.check_penalties().reasons == ()
    optimum = best_by_enumeration(problem)
    selections = list(all_selections(n))
    energies = minima_given(safe.to_qubo().qubo, selections, n)
    for chosen, energy in zip(selections, energies, strict=True):
        if not safe.violations(chosen):
            assert energy == pytest.approx(-problem.objective(chosen), abs=1e-8)
        else:
            assert energy > -optimum + 1e-6
    assert energies.min() == pytest.approx(-optimum, abs=1e-8)


@pytest.mark.parametrize("make", [generators.rag_problem, generators.hard_problem])
def test_safe_penalties_at_fourteen_passages(make) -> None:
    problem = make(14, 3, 5, seed=3)
    selections = list(all_selections(14))
    energies = minima_given(with_penalties(problem, problem.safe_penalties()).to_qubo().qubo, selections, 14)
    best = int(np.argmin(energies))
    assert len(selections[best]) <= 5
    assert energies[best] == pytest.approx(-best_by_enumeration(problem), abs=1e-8)


def test_weak_penalties_are_reported() -> None:
    problem = small(9, 3, 3, penalties=EvidencePenalties(0, 0, 0, 0, 0))
    check = problem.check_penalties()
    assert not check.ok
    assert [reason.split()[0] for reason in check.reasons] == ["lambda_K", "lambda_P", "lambda_D", "lambda_H"]
    assert "must exceed" in check.reasons[0]
    assert not with_tokens(penalties=EvidencePenalties(lambda_B=0.5)).check_penalties().ok
    rounded = small(9, 3, 3, penalties=small(9, 3, 3).safe_penalties()).to_qubo(16)
    assert rounded.check_penalties().bounds["lambda_K"] == pytest.approx(
        small(9, 3, 3).check_penalties().bounds["lambda_K"] * rounded.scale, rel=1e-2
    )


def test_decoding_repairs_what_weak_penalties_let_through() -> None:
    problem = small(9, 3, 3, penalties=EvidencePenalties(lambda_K=0.1, lambda_P=0.1, lambda_D=0.1, lambda_H=0.1))
    encoded = problem.to_qubo()
    result = ig.solve(problem, "anneal", seed=1)
    decoded = result.decoded
    assert not decoded.feasible
    assert any("passages, at most 3 allowed" in line for line in decoded.violations)
    assert decoded.raw_selection.size > 3 >= decoded.selection.size
    assert set(decoded.dropped) == set(decoded.raw_selection) - set(decoded.selection)
    assert result.objective == decoded.objective == problem.objective(result.selection)
    assert decoded.raw_objective == problem.objective(decoded.raw_selection)
    assert decoded.energy == encoded.qubo.energy(result.sample) == pytest.approx(result.energy)
    assert result.certificate.feasible
    assert problem.violations(result.selection) == ()
    assert result.provenance["penalties"]["lambda_K"] == 0.1


def test_decoding_names_every_broken_constraint() -> None:
    support = [[1, 0, 0, 0], [0, 2, 0, 0]]
    problem = EvidenceProblem([0.9, 0.8, 0.7, 0.6], support, max_passages=2, costs=[5, 5, 5, 5], budget=10)
    encoded = problem.to_qubo()
    sample = dict.fromkeys(encoded.variables, 0)
    for name in (("x", 0), ("x", 2), ("x", 3), ("yP", 1), ("yD", 0)):
        sample[name] = 1
    decoded = encoded.decode(sample)
    assert decoded.violations == (
        "3 passages, at most 2 allowed",
        "15 tokens, at most 10 allowed",
        "yP[1] is 1, but nothing chosen supports it",
        "yD[0] is 1, but nothing chosen directly supports it",
        "yD[0] is 1, but yP[0] is 0",
    )
    assert decoded.raw_selection.tolist() == [0, 2, 3]
    assert decoded.dropped.tolist() == [3]  # the least useful
    assert decoded.selection.tolist() == [0, 2]
    by_array = encoded.decode([sample[name] for name in encoded.variables])
    assert by_array.energy == decoded.energy
    del sample["q", 0]
    with pytest.raises(ValueError, match=r"sample must hold every variable, got none for \('q', 0\)"):
        encoded.decode(sample)
    with pytest.raises(ValueError, match="must have shape"):
        encoded.decode([0, 1])
    with pytest.raises(ValueError, match="got one without a sample"):
        encoded.decode(ig.solve(problem, "swap", seed=1))


def test_a_clean_state_decodes_as_it_is() -> None:
    problem = small(8, 3, 3, seed=5)
    encoded = problem.to_qubo()
    best = ig.solve(problem, "exact", "numpy")
    state = np.zeros(len(encoded.variables), dtype=int)
    state[best.selection] = 1
    chosen = problem.support[:, best.selection]
    for k, (kind, *rest) in enumerate(encoded.variables):
        if kind == "yP":
            state[k] = (chosen[rest[0]] > 0).any()
        if kind == "yD":
            state[k] = (chosen[rest[0]] == 2).any()
    decoded = encoded.decode(state)
    assert decoded.feasible
    assert decoded.violations == ()
    assert decoded.dropped.size == 0
    assert decoded.objective == decoded.raw_objective == pytest.approx(best.objective)


# --- bad input -------------------------------------------------------------------------------------------------------

GOOD = {"relevance": [0.5, 0.4, 0.3], "support": [[0, 1, 2], [1, 0, 0]]}


SCALE = "must be 0 (none), 1 (partial) or 2 (direct), got"
NOT_A_NUMBER = [[0, np.nan, 0], [np.nan, 0, 0], [0, 0, 0]]
NEGATIVE = [[0, -1, 0], [-1, 0, 0], [0, 0, 0]]
ONE_SIDED = [[0, 1, 0], [0, 0, 0], [0, 0, 0]]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"weights": EvidenceWeights(alpha=1e308)}, "relevance, support or price, times its weight, must have a"),
        ({"redundancy": np.full((4, 4), 1e308)}, "complementarity or redundancy, times its weight, must have a"),
        ({"requirement_weights": [1e307, 1e308]}, "times its weight, must have a finite sum"),
    ],
)
def test_an_objective_beyond_float64_is_refused(changes, message) -> None:
    problem = EvidenceProblem(**{"relevance": [1.0] * 4, "support": np.ones((2, 4), dtype=int), **changes})
    for use in (ig.solve, lambda p: p.objective([0]), lambda p: p.to_qubo(), lambda p: ig.certify(p, [0])):
        with pytest.raises(ValueError, match=message):
            use(problem)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"support": [[0, 1, 3], [1, 0, 0]]}, f"support[0, 2] {SCALE} 3"),
        ({"support": [[0, 1, -1], [1, 0, 0]]}, f"support[0, 2] {SCALE} -1"),
        ({"support": [[0, 0.5, 1], [1, 0, 0]]}, f"support[0, 1] {SCALE} 0.5"),
        ({"support": [[0, np.nan, 1], [1, 0, 0]]}, f"support[0, 1] {SCALE} nan"),
        ({"support": [0, 1, 2]}, "support must be 2-D, got shape (3,)"),
        ({"support": [[0, 1], [1, 0]]}, "support must have shape (m, 3), got (2, 2)"),
        ({"support": [[0, 1, 2], [1, 0]]}, "support must be a 2-D array, got rows of different lengths"),
        ({"relevance": [0.5, np.nan, 0.3]}, "relevance[1] must be finite and >= 0"),
        ({"relevance": [0.5, -0.1, 0.3]}, "relevance[1] must be finite and >= 0 (see isinglass.measure.calibrate)"),
        ({"requirement_weights": [1, -1]}, "requirement_weights[1] must be finite and >= 0, got -1"),
        ({"requirement_weights": [1, np.inf]}, "requirement_weights[1] must be finite"),
        ({"requirement_weights": [1]}, "requirement_weights must have shape (2,), got (1,)"),
        ({"redundancy": np.ones((3, 2))}, "redundancy must have shape (3, 3), got (3, 2)"),
        ({"redundancy": ONE_SIDED}, "redundancy must be symmetric, got [0, 1] = 1.0 and [1, 0] = 0.0"),
        ({"redundancy": [[0, 1], [1]]}, "redundancy must be a 2-D array, got rows of different lengths"),
        ({"complementarity": ONE_SIDED}, "complementarity must be symmetric"),
        ({"complementarity": NOT_A_NUMBER}, "complementarity[0, 1] must be finite and >= 0, got nan"),
        ({"complementarity": NEGATIVE}, "complementarity[0, 1] must be finite and >= 0, got -1"),
        ({"max_passages": 0}, "max_passages must be >= 1, got 0"),
        ({"max_passages": 2.0}, "max_passages must be an integer, got 2.0"),
        ({"weights": EvidencePenalties()}, "weights must be EvidenceWeights"),
        ({"penalties": EvidenceWeights()}, "penalties must be EvidencePenalties"),
        ({"costs": [1, 2, 3]}, "costs needs budget, got none"),
        ({"budget": 5}, "budget needs costs, got none"),
        ({"costs": [1, 0, 3], "budget": 5}, "costs[1] must be finite and > 0, got 0"),
        ({"costs": [1, np.pi, 3], "budget": 5}, "costs must be multiples of a common granule"),
        ({"costs": [1, 2, 3], "budget": -1}, "budget must be finite and >= 0, got -1"),
    ],
)
def test_bad_input_is_refused_by_name(changes, message) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        EvidenceProblem(**{**GOOD, **changes})


@pytest.mark.parametrize("kind", [EvidenceWeights, EvidencePenalties])
def test_weights_and_penalties_are_finite_and_not_negative(kind) -> None:
    for name in asdict(kind()):
        for value in (-1.0, float("nan"), float("inf"), "1"):
            with pytest.raises(ValueError, match=rf"{kind.__name__}.{name} must be"):
                kind(**{name: value})


def test_more_passages_allowed_than_there_are_is_no_limit() -> None:
    problem = small(4, 2, 9)
    result = ig.solve(problem, seed=1)
    assert result.status == "optimal"
    assert result.objective == pytest.approx(best_by_enumeration(problem))
    assert sum(name[0] == "q" for name in problem.to_qubo().variables) == 3  # reaches 4
    assert problem.safe_penalties().lambda_K == 1


def test_no_requirement_leaves_relevance_and_pairs() -> None:
    problem = EvidenceProblem([0.9, 0.5, 0.1], np.zeros((0, 3), dtype=int), weights=EvidenceWeights(kappa=0))
    result = ig.solve(problem, seed=1)
    assert result.selection.tolist() == [0, 1]
    assert result.objective == pytest.approx(14 - 4)
    assert {name[0] for name in problem.to_qubo().variables} == {"x", "q"}


def test_a_requirement_that_nothing_supports_stays_unmet() -> None:
    problem = EvidenceProblem([0.9, 0.5], [[2, 1], [0, 0]], requirement_weights=[1, 1])
    result = ig.solve(problem, seed=1)
    alone = ig.solve(EvidenceProblem([0.9, 0.5], [[2, 1]]), seed=1)
    assert (result.selection.tolist(), result.objective) == (alone.selection.tolist(), alone.objective)
    assert not any(name[:2] == ("vP", 1) for name in problem.to_qubo().variables)
    assert ig.solve(problem, "anneal", seed=1).objective == result.objective


def test_passages_that_support_nothing_are_left_out() -> None:
    problem = EvidenceProblem([0.9, 0.5], [[0, 0]])
    result = ig.solve(problem, seed=1)
    assert result.selection.tolist() == []
    assert (result.objective, result.status, result.certificate.gap) == (0, "optimal", 0)


def test_no_passage_at_all() -> None:
    problem = EvidenceProblem([], np.zeros((2, 0), dtype=int))
    for method in ("auto", "swap", "exact", "anneal"):
        result = ig.solve(problem, method, seed=1)
        assert result.selection.size == 0
        assert result.objective == 0
    assert problem.safe_penalties().lambda_P == 5


def test_nothing_that_fits_the_budget() -> None:
    problem = EvidenceProblem([0.9, 0.5], [[2, 2]], costs=[10, 20], budget=5)
    result = ig.solve(problem, seed=1)
    assert (result.selection.size, result.status, result.certificate.gap) == (0, "optimal", 0)


def test_a_problem_is_frozen_and_travels() -> None:
    problem = with_tokens()
    with pytest.raises(AttributeError, match="EvidenceProblem is frozen: cannot set 'budget'"):
        problem.budget = 3
    with pytest.raises(AttributeError, match="cannot delete"):
        del problem.budget
    for array in (problem.relevance, problem.support, problem.redundancy, problem.gains, problem.pair_gains):
        assert not array.flags.writeable
    problem.core()
    again = pickle.loads(pickle.dumps(problem))
    assert ig.solve(again, seed=3).selection.tolist() == ig.solve(problem, seed=3).selection.tolist()
    assert repr(problem) == f"EvidenceProblem(n=8, m=3, max_passages=4, budget={problem.budget:g})"
    assert replace(problem.weights, mu=3).mu == 3


def test_selections_are_checked() -> None:
    with pytest.raises(ValueError, match=r"selection\[1\] must be an index in \[0, 8\), got 8"):
        small().objective([0, 8])
    with pytest.raises(ValueError, match=r"selection\[1\] must be distinct from the others, got 2 again"):
        small().violations([2, 2])
