"""Policies by what an answer requires, and the baselines of requirement-aware selection."""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from typing import Any

import bm25s
import isinglass as ig
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from isinglass.measure import prepare
from isinglass.measure.requirements import (
    RequirementCache,
    RequirementRecord,
    candidate_keys,
    evidence_problem,
    rule_requirements,
)
from isinglass.measure.text import words
from isinglass.policies import FREE_POLICIES, choose
from isinglass.problems.evidence import EvidenceWeights
from isinglass.requirement_policies import bm25_scores

QUESTION = "Which river feeds Blue Lake?"
LAKE = [
    {"title": "Blue Lake", "text": "Blue Lake lies in the hills. The river Grey Burn feeds it."},
    {"title": "Grey Burn", "text": "Grey Burn is a river, measured in 1850. It is short."},
    {
        "title": "Old Mill",
        "text": "A river feeds the wheel of the mill. Sheep graze there. It has been shut.",
    },
    {"title": "Copy", "text": "It is short. Nobody goes there."},
]


def pool_of(passages: Any = LAKE, question: str = QUESTION, **options: Any) -> Any:
    return prepare(question, passages, **{"candidates": "sentences", "render": "titled"} | options)


# --- qubo ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("budget", [12, 25, 1000])
@pytest.mark.parametrize("max_items", [1, 3])
def test_qubo_is_the_best_set_of_the_problem(budget: int, max_items: int) -> None:
    pool = pool_of()
    items = [i for i in range(len(pool)) if pool.first_copy[i] == i and pool.costs_within(budget)[i] <= budget]
    costs = pool.costs_within(budget)
    problem = evidence_problem(pool, rule_requirements(pool), items=items, max_passages=max_items)
    feasible = [
        chosen
        for k in range(max_items + 1)
        for chosen in combinations(range(len(items)), k)
        if costs[[items[c] for c in chosen]].sum() <= budget
    ]
    best = max(feasible, key=problem.objective)
    choice = choose(pool, "qubo", budget, max_items=max_items)
    assert sorted(choice.order) == sorted(items[c] for c in best)
    assert choice.result is not None
    assert choice.result.objective == pytest.approx(problem.objective(best))
    assert [choice.items[c] for c in choice.result.selection] == sorted(choice.order)


def test_qubo_says_what_each_candidate_would_change() -> None:
    pool = pool_of()
    choice = choose(pool, "qubo", 1000, max_items=3)
    problem = evidence_problem(pool, rule_requirements(pool), items=list(choice.items), max_passages=3)
    chosen = set(choice.result.selection.tolist())  # type: ignore[union-attr]
    value = problem.objective(sorted(chosen))
    for item, i in enumerate(choice.items):
        entry = choice.record[i]
        without = problem.objective(sorted(chosen - {item}))
        expected = value - without if item in chosen else problem.objective(sorted(chosen | {item})) - value
        assert entry.gain == pytest.approx(expected, abs=1e-9)
        assert entry.reason == ("selected" if item in chosen else "not_in_best_set")
    gains = [choice.record[i].gain for i in choice.order]
    assert gains == sorted(gains, reverse=True)
    assert choice.record[7].reason == "duplicate_of:1#1"


def test_qubo_takes_five_unless_told_otherwise() -> None:
    many = [{"title": f"Lake {i}", "text": f"The river {i} feeds Blue Lake number {i}."} for i in range(12)]
    assert len(choose(pool_of(many), "qubo", 1000).order) == 5
    assert len(choose(pool_of(many), "qubo", 1000, preset="K3").order) == 3
    assert len(choose(pool_of(many), "qubo", 1000, preset={"max_passages": 6}).order) == 6
    assert len(choose(pool_of(many), "qubo", 1000, max_items=12).order) > 6
    assert choose(pool_of(many), "qubo", 1000, max_items=0).order == ()


def test_qubo_leaves_out_what_does_more_harm_than_good() -> None:
    pool = pool_of()
    assert choose(pool, "qubo", 1000, weights=EvidenceWeights(mu=1e6)).order == ()
    record = choose(pool, "qubo", 1000, weights=EvidenceWeights(mu=1e6)).record
    assert {entry.reason for entry in record} == {"not_in_best_set", "duplicate_of:1#1"}


@pytest.mark.parametrize("method", ["exact", "swap", "memetic"])
def test_qubo_by_any_method(method: str) -> None:
    auto = choose(pool_of(), "qubo", 1000, max_items=3)
    choice = choose(
        pool_of(), "qubo", 1000, max_items=3, method=method, seed=1, penalties=ig.EvidencePenalties(200, 90, 90, 90)
    )
    assert sorted(choice.order) == sorted(auto.order)
    assert choice.result is not None
    assert choice.result.provenance["method"] == method


def test_qubo_keeps_what_is_not_allowed_out_and_refuses_pins() -> None:
    choice = choose(pool_of(), "qubo", 1000, allowed=[False, True, True, True])
    assert not {0, 1} & set(choice.order)
    assert choice.record[0].reason == "not_allowed"
    with pytest.raises(ValueError, match="policy 'qubo' takes no pinned passages"):
        choose(pool_of(), "qubo", 1000, pinned=[0])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"preset": "C9"}, "unknown preset 'C9'"),
        ({"preset": {"mu": 1}}, "key of preset must be one of"),
        ({"preset": 3}, "preset must be a name or a mapping, got 3"),
        ({"relevance": "bm52"}, "relevance must be one of 'pool', 'bm25', 'bridge', got 'bm52'"),
        ({"method": "greedy"}, "has no method 'greedy'"),
    ],
)
def test_qubo_refuses_by_name(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        choose(pool_of(), "qubo", 1000, **options)


@pytest.mark.parametrize("policy", ["qubo", "greedy-coverage"])
def test_a_labeller_is_a_callable(policy: str) -> None:
    with pytest.raises(TypeError, match="requirements must be a callable from a pool"):
        choose(pool_of(), policy, 1000, requirements="rules")


def test_select_by_qubo_shows_sentences_under_their_titles() -> None:
    picked = ig.select(QUESTION, LAKE, 40, policy="qubo", max_items=2)
    assert picked.text == (
        "Blue Lake\nBlue Lake lies in the hills. The river Grey Burn feeds it."
        if picked.indices == (0,)
        else picked.text
    )
    assert len(picked.snippets) == 2
    assert picked.cost <= 40
    assert picked.result is not None
    assert picked.result.status == "optimal"
    assert {entry.reason for entry in picked.record} == {"selected", "not_in_best_set", "duplicate_of:1#1"}


def test_qubo_takes_given_scores_as_they_are() -> None:
    scored = [dict(p, score=s) for p, s in zip(LAKE, (0.0, 0.0, 1e6, 0.0))]
    only_relevance = EvidenceWeights(beta=0, delta=0, eta=0, gamma_partial=0, gamma_direct=0, kappa=0)
    choice = choose(pool_of(scored), "qubo", 1000, max_items=3, weights=only_relevance)
    assert sorted(choice.order) == [4, 5, 6]


# --- baselines -------------------------------------------------------------------------------------------------------


def test_greedy_coverage_takes_what_covers_most_weight_first() -> None:
    pool = pool_of()
    labels = rule_requirements(pool)
    choice = choose(pool, "greedy-coverage", 1000)
    first = max(range(len(pool)), key=lambda i: (labels.weights @ labels.support[:, i], pool.relevance[i]))
    assert choice.order[0] == first
    assert choice.record[first].gain == pytest.approx(labels.weights @ labels.support[:, first])
    level = np.zeros(len(labels.weights))
    for i in choice.order:
        gain = labels.weights @ np.maximum(labels.support[:, i] - level, 0)
        rest = [k for k in choice.order if k not in choice.order[: choice.order.index(i)]]
        assert gain == pytest.approx(max(labels.weights @ np.maximum(labels.support[:, k] - level, 0) for k in rest))
        level = np.maximum(level, labels.support[:, i])
    tail = [pool.relevance[i] for i in choice.order if choice.record[i].gain == 0]
    assert tail == sorted(tail, reverse=True)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.text("ab c", min_size=1, max_size=12), min_size=1, max_size=6), st.text("abc ", max_size=8))
def test_bm25_scores_are_those_of_bm25s(texts: list[str], question: str) -> None:
    passages = [{"title": f"a{'b' * (i % 2)}", "text": text} for i, text in enumerate(texts)]
    pool = prepare(question, passages, render="titled")
    tokens = [words(p["title"]) + words(p["text"]) for p in passages]
    index = bm25s.BM25(method="lucene", k1=1.5, b=0.75)
    index.index(tokens, show_progress=False)
    asked = [word for word in words(question) if word in index.vocab_dict]
    expected = index.get_scores(asked) if asked else np.zeros(len(texts))
    assert bm25_scores(pool) == pytest.approx(expected, rel=1e-5, abs=1e-6)


def test_bm25_and_hybrid_rank() -> None:
    pool = pool_of()
    scores = bm25_scores(pool)
    assert [scores[i] for i in choose(pool, "bm25", 1000).order] == sorted(
        (s for i, s in enumerate(scores) if pool.first_copy[i] == i), reverse=True
    )
    assert choose(pool, "hybrid", 1000, relevance_weight=0).order == choose(pool, "bm25", 1000).order
    assert choose(pool, "hybrid", 1000, relevance_weight=1).order == choose(pool, "naive", 1000).order
    for fusion in ("score", "rank"):
        assert (
            choose(pool, "hybrid", 1000, fusion=fusion, relevance_weight=1.0).order == choose(pool, "naive", 1000).order
        )
    for options, message in (
        ({"fusion": "mean"}, "fusion must be one of 'score', 'rank'"),
        ({"relevance_weight": 1.5}, r"relevance_weight must be in \[0, 1\]"),
    ):
        with pytest.raises(ValueError, match=message):
            choose(pool, "hybrid", 1000, **options)


def test_hybrid_rank_is_reciprocal() -> None:
    pool = pool_of(LAKE[:3])
    by = {}
    for policy in ("naive", "bm25"):
        by[policy] = {i: 1 + rank for rank, i in enumerate(choose(pool, policy, 1000).order)}
    choice = choose(pool, "hybrid", 1000, fusion="rank", relevance_weight=0.25)
    for i, entry in enumerate(choice.record):
        assert entry.gain == pytest.approx(0.25 / (60 + by["naive"][i]) + 0.75 / (60 + by["bm25"][i]))


def test_random_is_seeded_and_differs_by_question() -> None:
    many = [f"sentence number {i}" for i in range(40)]
    pool = prepare("number?", many)
    first = choose(pool, "random", 1000).order
    assert first == choose(prepare("number?", many), "random", 1000).order
    assert first != choose(pool, "random", 1000, seed=1).order
    assert first != choose(prepare("sentence?", many), "random", 1000).order
    heads = Counter(choose(pool, "random", 1000, seed=s).order[0] for s in range(200))
    assert len(heads) > 30  # of 40, each of which leads five times in the mean
    with pytest.raises(ValueError, match="seed must be >= 0"):
        choose(pool, "random", 1000, seed=-1)


# --- recorded selections ---------------------------------------------------------------------------------------------


def recorded(pool: Any, chosen: list[int], question: str = QUESTION, **selections: Any) -> RequirementCache:
    keys = candidate_keys(pool)
    return RequirementCache(
        [RequirementRecord(question, (), {}, {"setr": tuple(keys[i] for i in chosen)} | selections, "m", "v")]
    )


def test_setr_is_the_recorded_selection_within_the_budget() -> None:
    pool = pool_of()
    assert choose(pool, "setr", 1000, requirements=recorded(pool, [2, 0])).order == (2, 0)
    tight = choose(pool, "setr", int(pool.costs[2]), requirements=recorded(pool, [2, 0]))
    assert tight.order == (2,)
    assert tight.record[0].reason == "budget"
    assert choose(pool, "setr", 1000, max_items=1, requirements=recorded(pool, [2, 0])).order == (2,)
    assert choose(pool, "setr", 1000, requirements=recorded(pool, [2])).record[1].reason == "not_in_best_set"


@pytest.mark.parametrize("policy", ["setr", "setro"])
def test_recorded_selections_say_what_they_need(policy: str) -> None:
    pool = pool_of()
    with pytest.raises(ValueError, match=f"policy '{policy}' needs requirements=RequirementCache .*, got NoneType"):
        choose(pool, policy, 1000)
    with pytest.raises(ValueError, match="the cache has no record of the question"):
        choose(pool, policy, 1000, requirements=recorded(pool, [0], question="Why?"))
    bare = RequirementCache([RequirementRecord(QUESTION, (), {}, {}, "m", "v")])
    with pytest.raises(ValueError, match=f"needs a recorded selection '{policy}' .*, got a record with none"):
        choose(pool, policy, 1000, requirements=bare)
    with pytest.raises(ValueError, match=f"the selection '{policy}' .* does not fit the pool: it lacks 'k'"):
        choose(pool, policy, 1000, requirements=recorded(pool, [0], **{policy: ("k",)}))


# --- all -------------------------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(
    texts=st.lists(st.text("ab c.\u6771\n", max_size=12), max_size=7),
    budget=st.integers(0, 12),
    measure=st.sampled_from(["default", "p1"]),
    grain=st.sampled_from(["passages", "sentences", "windows"]),
    max_items=st.none() | st.integers(0, 4),
)
def test_invariants(texts: list[str], budget: int, measure: str, grain: str, max_items: int | None) -> None:
    pool = prepare("ab a", texts, measure=measure, candidates=grain)
    for policy in FREE_POLICIES:
        choice = choose(pool, policy, budget, max_items=max_items)
        assert len(set(choice.order)) == len(choice.order)
        assert pool.costs_within(budget)[list(choice.order)].sum() <= budget
        assert len({pool.texts[i] for i in choice.order}) == len(choice.order)
        assert max_items is None or len(choice.order) <= max_items
        assert [i for i, e in enumerate(choice.record) if e.reason == "selected"] == sorted(choice.order)
