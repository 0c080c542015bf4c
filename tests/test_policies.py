"""Policies: what each picks, a reason for every candidate, and a budget that holds."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from isinglass.measure import prepare
from isinglass.policies import POLICIES, choose
from isinglass.problems.packing import PackingWeights

# Those that take the best that fits; test_requirement_policies has those that choose a set, or blindly.
ALL = tuple(name for name, policy in POLICIES.items() if policy.fills and name != "random")
NO_COUNT = [-1, 3.7, True, math.nan, None, "160", np.float64(5), [5]]


def pool_of(costs: list[int], scores: list[float], **options: Any) -> Any:
    passages = [
        {"text": " ".join(f"w{i}x{k}" for k in range(c)), "score": s} for i, (c, s) in enumerate(zip(costs, scores))
    ]
    return prepare("w0x0", passages, **options)


@pytest.mark.parametrize("policy", ALL)
@pytest.mark.parametrize("budget", NO_COUNT, ids=lambda b: f"row21-{b!r}")
def test_a_budget_is_a_count_row21(policy: str, budget: Any) -> None:
    with pytest.raises(ValueError, match="budget must be"):
        choose(pool_of([1, 2], [0.5, 0.4]), policy, budget)


@pytest.mark.parametrize("policy", ALL)
def test_zero_and_huge_budgets_row21(policy: str) -> None:
    pool = pool_of([1, 2], [0.5, 0.4])
    nothing = choose(pool, policy, 0)
    assert nothing.order == ()
    assert [entry.reason for entry in nothing.record] == ["too_long", "too_long"]
    for budget in (np.int64(1000), 10**30):
        assert sorted(choose(pool, policy, budget).order) == [0, 1]


@pytest.mark.parametrize("policy", ALL)
@pytest.mark.parametrize("measure", ["default", "p1"])
def test_empty_pools(policy: str, measure: str) -> None:
    for passages in ([], ["", " "]):
        choice = choose(prepare("", passages, measure=measure), policy, 10)
        assert choice.order == ()
        assert {entry.reason for entry in choice.record} <= {"no_gain"}


@pytest.mark.parametrize("policy", ALL)
def test_skips_what_does_not_fit_and_goes_on_row19(policy: str) -> None:
    choice = choose(pool_of([90, 80, 10, 10], [0.9, 0.8, 0.3, 0.3]), policy, 110)
    assert sorted(choice.order) == [0, 2, 3]
    assert choice.record[1].reason == "budget"


@pytest.mark.parametrize("policy", ALL)
def test_what_can_never_fit_is_told_and_the_rest_packed_row25(policy: str) -> None:
    choice = choose(pool_of([500, 20, 20], [0.99, 0.5, 0.4]), policy, 100)
    assert sorted(choice.order) == [1, 2]
    assert choice.record[0].reason == "too_long"


@pytest.mark.parametrize("policy", ALL)
def test_more_asked_than_there_are_row13(policy: str) -> None:
    pool = pool_of([5, 5], [0.5, 0.4])
    assert sorted(choose(pool, policy, 1000, max_items=10).order) == [0, 1]
    if policy == "topk":
        assert sorted(choose(pool, policy, 1000, k=10).order) == [0, 1]


@pytest.mark.parametrize("policy", ALL)
def test_max_items_zero_is_zero_row10(policy: str) -> None:
    pool = pool_of([5, 5, 5], [0.5, 0.4, 0.3])
    assert choose(pool, policy, 100, max_items=0).order == ()
    choice = choose(pool, policy, 100, max_items=2)
    assert len(choice.order) == 2
    assert sorted(entry.reason for entry in choice.record) == ["cap", "selected", "selected"]
    assert len(choose(pool, policy, 100, max_items=None).order) == 3
    for bad in (-1, 1.5, True):
        with pytest.raises(ValueError, match="max_items must be"):
            choose(pool, policy, 100, max_items=bad)


def test_k_zero_is_zero_row10() -> None:
    pool = pool_of([1] * 7, [0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1])
    assert choose(pool, "topk", 100, k=0).order == ()
    assert choose(pool, "topk", 100).order == (0, 1, 2, 3, 4)
    choice = choose(pool, "topk", 100, k=2)
    assert [entry.reason for entry in choice.record] == ["selected"] * 2 + ["cap"] * 5


@pytest.mark.parametrize("policy", ALL)
def test_what_is_not_allowed_is_never_picked_row15(policy: str) -> None:
    pool = pool_of([1, 10, 10], [9.0, 0.2, 0.1])
    choice = choose(pool, policy, 10, allowed=[False, True, True])
    assert choice.order
    assert 0 not in choice.order
    assert choice.record[0].reason == "not_allowed"
    with pytest.raises(ValueError, match=r"allowed must have shape \(3,\)"):
        choose(pool, policy, 10, allowed=[True])
    with pytest.raises(ValueError, match="allowed must be an array of bool"):
        choose(pool, policy, 10, allowed=[0, 1, 1])


@pytest.mark.parametrize("policy", ALL)
def test_pinned_are_in_and_paid_row24(policy: str) -> None:
    pool = pool_of([30, 40, 10], [0.1, 0.9, 0.8])
    choice = choose(pool, policy, 60, pinned=[0])
    assert choice.order[0] == 0
    assert choice.order == (0, 2)
    assert choice.record[1].reason == "budget"
    assert choose(pool_of([30, 40], [0.1, 0.9]), policy, 60, pinned=[0]).order == (0,)
    with pytest.raises(ValueError, match="30 > 20"):
        choose(pool, policy, 20, pinned=[0])
    with pytest.raises(ValueError, match="pinned passages must be allowed, got passage 0"):
        choose(pool, policy, 60, pinned=[0], allowed=[False, True, True])
    with pytest.raises(ValueError, match="pinned candidates exceed max_items: 2 > 1"):
        choose(pool, policy, 60, pinned=[0, 2], max_items=1)
    with pytest.raises(ValueError, match=r"pinned\[0\] must be an index"):
        choose(pool, policy, 60, pinned=[3])


@pytest.mark.parametrize("policy", ALL)
def test_pinned_row4(policy: str) -> None:
    pool = pool_of([4, 6, 5, 3, 7, 2, 8, 4], [0.1, 0.01, 0.9, 0.8, 0.7, 0.01, 0.5, 0.4])
    choice = choose(pool, policy, 6 + 2 + 10, pinned=[1, 5])
    assert {1, 5} < set(choice.order)
    assert len(set(choice.order)) == len(choice.order)
    assert pool.costs[list(choice.order)].sum() <= 18


@pytest.mark.parametrize("policy", ALL)
def test_reserve(policy: str) -> None:
    pool = pool_of([5, 5], [0.5, 0.4])
    assert choose(pool, policy, 10, reserve_tokens=5).order == (0,)
    with pytest.raises(ValueError, match="reserve_tokens must be within the budget, got 11 > 10"):
        choose(pool, policy, 10, reserve_tokens=11)
    with pytest.raises(ValueError, match="reserve_tokens must be an integer"):
        choose(pool, policy, 10, reserve_tokens=1.0)


@pytest.mark.parametrize("policy", ALL)
def test_copies_are_one_candidate_row14(policy: str) -> None:
    vector = [1.0, 0.0]
    shared = [{"text": "a b", "embedding": vector, "score": 0.5} for _ in range(3)]
    equal = [{"text": "a b", "embedding": list(vector), "score": 0.5} for _ in range(3)]
    for passages in (shared, equal):
        choice = choose(prepare("a", passages), policy, 100)
        assert choice.order == (0,)
        assert [entry.reason for entry in choice.record] == ["selected", "duplicate_of:0", "duplicate_of:0"]


@pytest.mark.parametrize("policy", ALL)
def test_the_copy_that_may_be_shown_stands_for_all(policy: str) -> None:
    pool = prepare("a", [{"text": "a b", "id": "x"}, {"text": "a b", "id": "y"}, "c"])
    choice = choose(pool, policy, 100, allowed=[False, True, True])
    assert sorted(choice.order) == [1, 2]
    assert choice.record[0].reason == "not_allowed"
    choice = choose(pool, policy, 100, pinned=[1])
    assert [entry.reason for entry in choice.record] == ["duplicate_of:y", "selected", "selected"]


@pytest.mark.parametrize("policy", ALL)
def test_ties_go_to_the_first_row7(policy: str) -> None:
    assert choose(pool_of([2] * 5, [0.5] * 5), policy, 6).order == (0, 1, 2)


@pytest.mark.parametrize("policy", ALL)
def test_no_relevance_at_all_row30(policy: str) -> None:
    choice = choose(prepare("rain", [{"text": t, "score": 0} for t in ("rain a", "b", "c")]), policy, 3)
    assert all(math.isfinite(entry.gain) for entry in choice.record if entry.gain is not None)
    assert sum(entry.cost for entry in choice.record if entry.reason == "selected") <= 3


def test_mmr_weight_one_is_relevance_only_row12() -> None:
    passages = [
        {"text": "one two three four", "score": 1.0},
        {"text": "one two three five", "score": 0.9},
        {"text": "odd item out here", "score": 0.1},
    ]
    pool = prepare("q", passages)
    assert choose(pool, "mmr", 8, relevance_weight=1).order == (0, 1)
    assert choose(pool, "mmr", 8, relevance_weight=0).order == (0, 2)
    for bad in (-0.1, 1.1, math.nan, True):
        with pytest.raises(ValueError, match="relevance_weight must be"):
            choose(pool, "mmr", 8, relevance_weight=bad)


def test_mmr_compares_with_every_pick_rag_row17() -> None:
    # The third is a copy in other words of the first pick and unlike the second.
    passages = [
        {"text": "red red fox", "score": 1.0},
        {"text": "green tall tree", "score": 0.9},
        {"text": "fox red red", "score": 0.8},
        {"text": "blue deep lake", "score": 0.3},
    ]
    choice = choose(prepare("q", passages), "mmr", 9, relevance_weight=0.5)
    assert choice.order == (0, 1, 3)
    assert choice.record[2].reason == "not_in_best_set"
    assert choice.record[2].gain == pytest.approx(0.5 * (0.8 - 0.3) / 0.7 - 0.5)


def test_focused_skips_near_copies() -> None:
    text = "a b c d e f g h i j"
    choice = choose(prepare("q", [text, text + " k", "other words"]), "focused", 100)
    assert choice.order == (0, 2)
    assert choice.record[1].reason == "no_gain"


def test_packed_takes_one_a_document_first() -> None:
    passages = [{"text": "fox one", "doc": "d"}, {"text": "fox two", "doc": "d"}, {"text": "cat three", "doc": "e"}]
    assert choose(prepare("fox", passages), "packed", 100).order == (0, 2, 1)


def test_submodular_gains_add_up_to_the_objective() -> None:
    choice = choose(pool_of([3, 4, 5, 6], [0.5, 0.4, 0.3, 0.2]), "submodular", 12)
    assert choice.result is not None
    picked = [choice.record[i].gain for i in choice.order]
    assert sum(g for g in picked if g is not None) == pytest.approx(choice.result.objective)
    assert choice.items == (0, 1, 2, 3)
    assert [choice.items[k] for k in choice.result.selection] == list(choice.order)


def test_weight_zero_is_not_default_row10() -> None:
    passages = [
        {"text": "one two", "doc": "d", "score": 0.5},
        {"text": "six ten", "doc": "d", "score": 0.49},
        {"text": "fox hen", "doc": "e", "score": 0.2},
    ]
    pool = prepare("q", passages)
    assert choose(pool, "submodular", 4, weights=PackingWeights(representation=0, diversity=5)).order == (0, 2)
    assert choose(pool, "submodular", 4, weights=PackingWeights(representation=0, diversity=0)).order == (0, 1)


def test_method_and_certificate_reach_the_solver() -> None:
    pool = pool_of([3, 4, 5, 6], [0.5, 0.4, 0.3, 0.2])
    default, lazy = choose(pool, "submodular", 12), choose(pool, "submodular", 12, method="lazy_greedy")
    assert default.result is not None
    assert lazy.result is not None
    assert default.result.provenance["method"] == "greedy_plus_max"
    assert lazy.result.provenance["method"] == "lazy_greedy"
    published = choose(prepare("w0x0", list(pool.texts), measure="p1"), "submodular", 12)
    assert published.result is not None
    assert published.result.provenance["method"] == "lazy_greedy"


@pytest.mark.parametrize("policy", [policy for policy in ALL if policy != "bridge"])
def test_published_packers_stop_at_eight(policy: str) -> None:
    text = " ".join(f"Sentence number {k} of it." for k in range(30))
    pool = prepare("number 7", [text], measure="p1")
    options = {"k": 20} if policy == "topk" else {}
    assert len(choose(pool, policy, 1000, **options).order) <= 8
    assert len(choose(pool, policy, 1000, max_items=9, **options).order) >= min(
        9, len(choose(pool, policy, 1000).order)
    )


def test_published_copies_are_kept_until_one_is_taken() -> None:
    passages = [{"text": "Red fox."}, {"text": "Red fox.", "title": "red fox"}]
    pool = prepare("red fox", passages, measure="p1")
    # The second has the better title; with copies merged the text belongs to the first.
    assert pool.passage[list(choose(pool, "focused", 10).order)].tolist() == [1]
    assert pool.passage[list(choose(pool, "mmr", 10).order)].tolist() == [0]


@pytest.mark.parametrize(
    ("policy", "options", "error", "message"),
    [
        ("submodula", {}, ValueError, "did you mean 'submodular'"),
        (None, {}, ValueError, "policy must be one of"),
        ("submodular", {"staturation": 0.5}, TypeError, "did you mean 'saturation'"),
        ("mmr", {"relevance_wieght": 0.5}, TypeError, "did you mean 'relevance_weight'"),
        ("naive", {"max_item": 5}, TypeError, "did you mean 'max_items'"),
        ("naive", {"backend": "cpu"}, TypeError, "policy 'naive' has no option 'backend'"),
        ("submodular", {"backend": "gpu"}, ValueError, "gpu"),
        ("submodular", {"weights": 3}, ValueError, "weights must be PackingWeights"),
    ],
)
def test_unknown_words_are_refused_row11(
    policy: Any, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        choose(pool_of([1], [1.0]), policy, 5, **options)


@pytest.mark.parametrize("policy", ALL)
def test_copies_that_differ_in_space_are_one_text(policy: str) -> None:
    choice = choose(prepare("ab a", ["a", "a ", " a"], candidates="passages"), policy, 4)
    assert choice.order == (0,)
    assert [entry.reason for entry in choice.record] == ["selected", "duplicate_of:0", "duplicate_of:0"]


@settings(max_examples=80, deadline=None)
@given(
    texts=st.lists(st.text("ab c.\u6771\n", max_size=12), max_size=8),
    budget=st.integers(0, 12),
    measure=st.sampled_from(["default", "p1"]),
    grain=st.sampled_from(["passages", "sentences", "windows"]),
    max_items=st.none() | st.integers(0, 4),
)
def test_invariants_row22(texts: list[str], budget: int, measure: str, grain: str, max_items: int | None) -> None:
    pool = prepare("ab a", texts, measure=measure, candidates=grain)
    for policy in ALL:
        choice = choose(pool, policy, budget, max_items=max_items)
        assert len(set(choice.order)) == len(choice.order)
        assert pool.costs_within(budget)[list(choice.order)].sum() <= budget
        assert len({pool.texts[i] for i in choice.order}) == len(choice.order)
        assert max_items is None or len(choice.order) <= max_items
        assert len(choice.record) == len(pool)
        assert [i for i, e in enumerate(choice.record) if e.reason == "selected"] == sorted(choice.order)
