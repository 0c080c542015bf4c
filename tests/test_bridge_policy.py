"""Bridge as a policy: from `select` to the context, and as a relevance for others."""

from __future__ import annotations

from dataclasses import astuple, replace
from pathlib import Path

import isinglass as ig
import numpy as np
import pytest
from isinglass.measure import BridgeWeights, bridge_relevance, count_words, prepare, prepare_bridge
from isinglass.policies import choose

from tests.bridge_questions import Setting, cases
from tests.test_bridge import LAKE, embed, topics

QUESTION = "Which river does the largest water of Norland feed?"


@pytest.mark.parametrize("measure", ["p1", "default"])
def test_the_policy_picks_what_the_engine_picks(data: Path, measure: str) -> None:
    for question, passages in list(cases(data, Setting("hotpotqa", "own", 5)))[::20]:
        bridge = prepare_bridge(question.question, passages, measure=measure)
        picked = ig.select(
            question.question, passages, 160, measure=measure, render="plain", order="choice", separator=" "
        )
        assert [s.text for s in picked.snippets] == [bridge.texts[i] for i in bridge.pick(160).order]
        titled = ig.select(question.question, passages, 160, measure=measure)
        in_place = sorted(bridge.pick(160, titled=True).order.tolist())
        assert [s.text for s in titled.snippets] == [bridge.texts[i] for i in in_place]
        assert titled.margin == 0


def test_sentences_stand_under_their_titles_each_paid_once() -> None:
    picked = ig.select(QUESTION, LAKE, 21)
    assert picked.text == (
        "Blue Lake\nBlue Lake is deep. It feeds the river Arn.\n\nNorland\nIts largest water is Blue Lake."
    )
    assert picked.cost == count_words(picked.text) == 18
    by_text = {snippet.text: snippet.cost for snippet in picked.snippets}
    assert by_text == {"Blue Lake is deep.": 4, "It feeds the river Arn.": 7, "Its largest water is Blue Lake.": 7}


@pytest.mark.parametrize("budget", range(0, 40, 3))
def test_the_rendered_context_is_within_any_budget(budget: int) -> None:
    for count in (None, len, lambda text: len(text.split())):
        picked = ig.select(QUESTION, LAKE, budget, count_tokens=count)
        assert picked.cost <= budget


def test_the_record_says_what_each_pick_earned() -> None:
    picked = ig.select(QUESTION, LAKE, 21)
    earned = {snippet.text: picked.record[snippet.candidate].earned for snippet in picked.snippets}
    assert "named by 'Norland' through sentence 2" in earned["It feeds the river Arn."]
    assert "names 'Blue Lake'" in earned["Its largest water is Blue Lake."]
    assert all(entry.earned == "" for entry in picked.record if entry.reason != "selected")


def test_the_same_text_in_other_case_is_a_duplicate() -> None:
    picked = ig.select("Which lake is deep?", [*LAKE, {"title": "Copy", "text": "BLUE LAKE is deep."}], 100)
    assert picked.record[-1].reason == "duplicate_of:0#0"


def test_a_passage_that_is_not_allowed_vouches_for_nobody() -> None:
    picked = ig.select(QUESTION, LAKE, 100, allowed=[True, False, True])
    assert {entry.reason for entry in picked.record if entry.id.startswith("1#")} == {"not_allowed"}
    assert not any("named by" in entry.earned for entry in picked.record)


def test_pinned_passages_are_whole_and_paid() -> None:
    picked = ig.select(QUESTION, LAKE, 20, pinned=[2])
    assert [s.text for s in picked.snippets if s.index == 2] == ["Cats sleep all day.", "They like fish."]
    assert picked.cost <= 20
    with pytest.raises(ValueError, match="pinned passages cost more tokens"):
        ig.select(QUESTION, LAKE, 5, pinned=[2])


def test_weights_change_the_picks_and_are_checked() -> None:
    only_match = BridgeWeights(match=1, fresh=0, named=0, names=0, title=0, first=0, length=0, link=0, linked=0)
    picked = ig.select(QUESTION, LAKE, 8, weights=only_match, render="plain")
    assert [s.text for s in picked.snippets] == ["Its largest water is Blue Lake."]
    with pytest.raises(TypeError, match="weights must be BridgeWeights, got dict"):
        ig.select(QUESTION, LAKE, 9, weights={"match": 1})


def test_embeddings_join_the_policy(data: Path) -> None:
    for question, passages in list(cases(data, Setting("hotpotqa", "own", 5)))[::40]:
        bridge = prepare_bridge(question.question, passages, embed=embed)
        picked = ig.select(question.question, passages, 160, embed=embed, render="plain", order="choice", separator=" ")
        assert [s.text for s in picked.snippets] == [bridge.texts[i] for i in bridge.pick(160).order]


def test_select_embeds_titles_with_sentences_and_says_who_is_close() -> None:
    seen: list[str] = []

    def close(texts: list[str]) -> list[list[float]]:
        seen.extend(texts)
        return topics("fish", "lake")([text.replace("food", "fish") for text in texts])

    question = "Which food would be eaten?"
    plain = ig.select(question, LAKE, 4, render="plain")
    picked = ig.select(question, LAKE, 4, render="plain", embed=close)
    assert [s.text for s in plain.snippets] == ["Blue Lake is deep."]
    assert [s.text for s in picked.snippets] == ["They like fish."]
    assert "Cats. They like fish." in seen
    assert seen.count(question) == 1
    assert len(seen) == len(set(seen)) == 7
    assert picked.record[5].earned == "close to the question (cosine 1.00)"


def test_bad_embeddings_are_refused() -> None:
    with pytest.raises(ValueError, match=r"embed\(texts\)\[0, 0\] must be finite, got nan"):
        ig.select(QUESTION, LAKE, 9, embed=lambda texts: [[float("nan")] for _ in texts])
    with pytest.raises(ValueError, match="embed must return one row for each of 6 texts, got 1"):
        ig.select(QUESTION, LAKE, 9, embed=lambda texts: [[1.0]])


@pytest.mark.parametrize("candidates", ["passages", "sentences", "windows"])
def test_relevance_for_other_policies(candidates: str) -> None:
    pool = prepare(QUESTION, [*LAKE, {"title": "x", "text": "..."}, LAKE[0]], candidates=candidates)
    relevance = bridge_relevance(pool)
    assert relevance.shape == (len(pool),)
    assert (relevance >= 0).all()
    if candidates == "sentences":
        bridge = prepare_bridge(QUESTION, LAKE)
        worth = bridge.core.worth(astuple(BridgeWeights()))
        # The wordless candidate has no relevance, a copy that of its original.
        assert relevance[pool.passage == 3].tolist() == [0]
        assert relevance[pool.passage == 4].tolist() == relevance[pool.passage == 0].tolist()
        assert len(worth) == 6
    for policy in ("focused", "submodular"):
        assert choose(replace(pool, relevance=relevance), policy, 20).order


def test_by_rate_is_a_packing_problem_with_a_certificate() -> None:
    bridge = prepare_bridge(QUESTION, LAKE)
    result = ig.solve(bridge.problem(20), certificate="tight")
    assert result.certificate.feasible
    assert 0 <= result.certificate.gap < 0.5
    assert ig.certify(bridge.problem(20), bridge.pick(20).order).feasible
    np.testing.assert_allclose(bridge.relevance(), np.exp(bridge.core.worth(astuple(BridgeWeights())) / 2), rtol=1e-14)
