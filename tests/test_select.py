"""`select`: the rendered context, its offsets, its true cost, and the trace."""

from __future__ import annotations

import asyncio
import json
import math
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import isinglass as ig
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from isinglass.diagnosis import openinference_attributes, read_trace
from isinglass.measure import count_words
from isinglass.policies import POLICIES

ALL = tuple(name for name, policy in POLICIES.items() if policy.fills and name != "random")
LAKE = "Blue Lake lies in Norland. It is deep. The lake feeds the Elm River. Cats sleep."
PASSAGES = [
    {"text": "Blue Lake lies in Norland.", "title": "Blue Lake", "id": "a", "score": 0.9},
    {"text": "Cats sleep.", "title": "Cat", "id": "b", "score": 0.1},
    {"text": "Norland is a country.", "title": "Norland", "id": "c", "score": 0.5},
]


@pytest.mark.parametrize("policy", ALL)
def test_whole_passages_align(policy: str) -> None:
    whole = {"candidates": "passages", "render": "plain"}
    picked = ig.select("Where is Blue Lake?", PASSAGES, budget=9, policy=policy, **whole)
    assert sorted(picked.indices) == [0, 2]
    assert [kept.index for kept in picked.passages] == list(picked.indices) == [s.index for s in picked.snippets]
    assert [kept.text for kept in picked.passages] == [PASSAGES[i]["text"] for i in picked.indices]
    assert picked.text == "\n\n".join(kept.text for kept in picked.passages)
    assert (picked.cost, picked.budget, picked.counter, picked.margin) == (9, 9, "unicode_words", 0)
    assert [entry.reason for entry in picked.record] == ["selected", "budget", "selected"]
    assert [kept.id for kept in picked.passages] == [PASSAGES[i]["id"] for i in picked.indices]


def check_offsets(picked: ig.Selected, passages: list[Any]) -> None:
    assert len(picked.snippets) == sum(entry.reason == "selected" for entry in picked.record)
    for snippet in picked.snippets:
        low, high = snippet.context
        assert picked.text[low:high] == snippet.text
        text = passages[snippet.index]["text"]
        assert text[slice(*snippet.span)] == snippet.text
        assert picked.record[snippet.candidate].reason == "selected"
        if snippet.source is not None:
            start = passages[snippet.index]["start"]
            assert snippet.source == (start + snippet.span[0], start + snippet.span[1])


@pytest.mark.parametrize("render", ["plain", "titled"])
@pytest.mark.parametrize("order", ["choice", "relevance", "document", "edges"])
@pytest.mark.parametrize("grain", ["passages", "sentences", "windows"])
def test_offsets_lead_back_to_the_source(order: str, render: str, grain: str) -> None:
    passages = [
        {"text": LAKE[:40], "title": "Lake", "doc": "d", "start": 100},
        {"text": LAKE[27:], "title": "Lake", "doc": "d", "start": 127},
        {"text": f"\n {LAKE} ", "title": "Other"},
    ]
    for budget in (5, 12, 30, 60):
        picked = ig.select("lake in Norland", passages, budget, order=order, render=render, candidates=grain)
        check_offsets(picked, passages)
        assert count_words(picked.text) == picked.cost <= budget


def test_orders() -> None:
    passages = [{"text": f"t{k}", "score": s} for k, s in enumerate([0.5, 0.9, 0.1, 0.7, 0.3])]
    texts = {
        order: ig.select("q", passages, budget=9, order=order, policy="naive", pinned=[2], separator=" ").text
        for order in ("choice", "relevance", "document", "edges")
    }
    assert texts == {
        "choice": "t2 t1 t3 t0 t4",
        "relevance": "t1 t3 t0 t4 t2",
        "document": "t0 t1 t2 t3 t4",
        "edges": "t1 t0 t2 t4 t3",
    }


def test_overlapping_spans_of_a_document_are_joined_rag_row22_row23() -> None:
    text = "alpha beta gamma delta epsilon zeta eta theta iota"
    # A chain: each overlaps or touches the next; the third lies within the second; the last is apart.
    spans = [(0, 16), (11, 30), (17, 22), (31, 35), (45, 50)]
    passages = [{"text": text[a:b], "doc": "d", "start": a, "end": b} for a, b in spans]
    passages[3]["text"] = text[30:35]
    passages[3]["start"] = 30
    picked = ig.select("q", passages, budget=100, order="document", policy="naive")
    assert picked.text == f"{text[:35]}\n\n{text[45:]}"
    assert picked.indices == (0, 1, 2, 3, 4)
    check_offsets(picked, passages)
    assert [s.context for s in picked.snippets] == [(0, 16), (11, 30), (17, 22), (30, 35), (37, 42)]
    assert picked.cost == 7
    apart = ig.select("q", passages, budget=100, order="choice", policy="naive")
    assert apart.text.count("\n\n") == 4


def test_adjacent_sentences_keep_their_white_space() -> None:
    picked = ig.select("q", [{"text": "One here.\n Two here.  Three."}], 10, candidates="sentences", order="document")
    assert picked.text == "One here.\n Two here.  Three."
    assert picked.passages[0].spans == ((0, 9), (11, 20), (22, 28))


def test_texts_that_contradict_their_offsets_are_not_joined() -> None:
    passages = [{"text": "abc def", "doc": "d", "start": 0}, {"text": "xyz", "doc": "d", "start": 4}]
    assert ig.select("q", passages, 10, order="document").text == "abc def\n\nxyz"
    passages = [{"text": "abc def", "doc": "d", "start": 0, "end": 20}, {"text": "xyz", "doc": "d", "start": 7}]
    assert ig.select("q", passages, 10, order="document").text == "abc def\n\nxyz"


def test_titles_stand_once_above_neighbours() -> None:
    passages = [{"text": LAKE, "title": "Lake"}, {"text": "A cat sleeps.", "title": "Cat"}, {"text": "No title."}]
    picked = ig.select("lake", passages, 40, candidates="sentences", order="document", render="titled", separator="\n")
    assert picked.text == f"Lake\n{LAKE}\nCat\nA cat sleeps.\nNo title."
    assert ig.select("lake", passages, 40, render="plain", order="document").text.count("Lake\n") == 0


COUNTERS = {
    "white space": lambda text: len(text.split()),
    "characters": len,
    "quarters": lambda text: -(-len(text) // 4),
    "special tokens": lambda text: 2 + len(text.split()),
    "superadditive": lambda text: len(text.split()) ** 2,
    "constant": lambda text: 7,
    "zero": lambda text: 0,
}


@pytest.mark.parametrize("render", ["plain", "titled"])
@pytest.mark.parametrize("name", COUNTERS)
@pytest.mark.parametrize("policy", ALL)
def test_the_rendered_context_is_within_budget_rag_row7_row18(policy: str, name: str, render: str) -> None:
    counter = COUNTERS[name]
    for budget in (0, 1, 3, 8, 20, 50, 10_000):
        picked = ig.select("Where is Blue Lake?", PASSAGES, budget, policy=policy, count_tokens=counter, render=render)
        assert picked.cost == (counter(picked.text) if picked.text else 0)
        assert picked.cost <= budget
        if name != "superadditive":
            assert picked.margin == 0


def test_counters_that_do_not_add_up_are_met_with_a_margin() -> None:
    picked = ig.select("lake", PASSAGES, budget=30, policy="naive", count_tokens=COUNTERS["superadditive"])
    assert picked.text
    assert picked.margin > 0
    assert picked.counter.endswith("<lambda>")


def test_separators_and_headers_of_many_short_snippets_row18() -> None:
    def count(text: str) -> int:
        return 2 * text.count("|") + len(text.replace("|", " ").split())

    picked = ig.select(
        "q", [f"t{k}" for k in range(200)], budget=100, reserve_tokens=4, separator="|", count_tokens=count
    )
    assert 31 <= len(picked.indices) <= 32
    assert count(picked.text) <= 96


def test_one_piece_may_fill_the_budget() -> None:
    picked = ig.select("q", ["x" * 50], budget=50, count_tokens=len)
    assert picked.cost == 50
    assert picked.record[0].reason == "selected"
    assert ig.select("q", ["x" * 51], budget=50, count_tokens=len).record[0].reason == "too_long"


@pytest.mark.parametrize("budget", [-1, 3.7, True, math.nan, math.inf, None, "9"], ids=lambda b: f"row21-{b!r}")
def test_bad_budgets_are_told_before_any_work_row21(budget: Any) -> None:
    def count(text: str) -> int:
        raise AssertionError("counted")

    with pytest.raises(ValueError, match="budget must be"):
        ig.select("q", ["a", "b"], budget=budget, count_tokens=count)
    with pytest.raises(ValueError, match="reserve_tokens must be within the budget, got 200 > 160"):
        ig.select("q", ["a"], budget=160, reserve_tokens=200, count_tokens=count)


def test_an_empty_context_is_an_answer() -> None:
    for passages in ([], [""], ["a b c"]):
        picked = ig.select("q", passages, budget=0)
        assert (picked.text, picked.indices, picked.snippets, picked.cost) == ("", (), (), 0)
        assert len(picked.record) == sum(map(bool, passages))  # an empty text has no sentence


@pytest.mark.parametrize("answer", [-1, 1.5, True, None], ids=repr)
def test_bad_counters_are_named(answer: Any) -> None:
    with pytest.raises(ValueError, match=r"count_tokens .* must return an integer >= 0, got"):
        ig.select("q", ["a"], budget=5, count_tokens=lambda text: answer)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"ordr": "choice"}, TypeError, "did you mean 'order'"),
        ({"cout_tokens": len}, TypeError, "did you mean 'count_tokens'"),
        ({"alhpa": 0.5}, TypeError, "policy 'bridge' has no option 'alhpa'"),
        ({"relevance_weight": 0.5}, TypeError, "policy 'bridge' has no option 'relevance_weight'"),
        ({"order": "edge"}, ValueError, "did you mean 'edges'"),
        ({"render": "title"}, ValueError, "did you mean 'titled'"),
        ({"policy": "MMR"}, ValueError, "policy must be one of"),
        ({"measure": "p2"}, ValueError, "measure must be one of 'default', 'p1', got 'p2'"),
    ],
)
def test_unknown_words_are_refused_row11(options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        ig.select("q", ["a"], budget=5, **options)


def test_published_measure_renders_as_published() -> None:
    text = " ".join(f"Sentence number {k} is here." for k in range(30))
    picked = ig.select("sentence number 7", [{"text": text, "title": "T"}], 100, policy="submodular", measure="p1")
    assert len(picked.snippets) <= 8
    assert picked.text == " ".join(snippet.text for snippet in picked.snippets)
    assert picked.counter == "ascii_words"
    assert picked.cost == sum(snippet.cost for snippet in picked.snippets)
    assert picked.result is not None
    assert picked.result.provenance["method"] == "lazy_greedy"
    # The record stays in input order, though the candidates were ranked.
    assert [entry.id for entry in picked.record] == [f"0#{k}" for k in range(30)]
    for snippet in picked.snippets:
        assert text[slice(*snippet.span)] == snippet.text


def test_trace_adds_one_line_without_text(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    for _ in range(2):
        picked = ig.select("Where is Blue Lake?", PASSAGES, budget=9, trace=path, policy="submodular")
    ig.select("Where is Blue Lake?", PASSAGES, budget=8, trace=str(path), policy="mmr", allowed=[True, True, False])
    first, second, third = map(json.loads, path.read_text().splitlines())
    assert first | {"timings": None} == second | {"timings": None}
    assert set(first) >= {"schema_version", "query_hash", "config_hash", "counter", "stages", "candidates"}
    assert first["query_hash"] == third["query_hash"]
    assert first["config_hash"] != third["config_hash"]
    stages = first["stages"]
    assert stages["retrieved"] == stages["compressed"] == ["a", "b", "c"]
    assert sorted(stages["selected"]) == ["a", "c"]
    assert [tuple(m["context"]) for m in stages["materialised"]] == [s.context for s in picked.snippets]
    assert [c["reason"] for c in first["candidates"]] == [entry.reason for entry in picked.record]
    assert "Norland" not in path.read_text()


def test_same_answer_in_threads_and_event_loops() -> None:
    def answer(k: int) -> ig.Selected:
        return ig.select(f"lake {k % 3}", PASSAGES, budget=9, policy=ALL[k % len(ALL)])

    expected = [answer(k).text for k in range(24)]
    with ThreadPoolExecutor(8) as pool:
        assert [picked.text for picked in pool.map(answer, range(24))] == expected

    async def both() -> list[ig.Selected]:
        return await asyncio.gather(*(ig.aselect("lake 0", PASSAGES, 9, policy=policy) for policy in ALL))

    assert [p.text for p in asyncio.run(both())] == [ig.select("lake 0", PASSAGES, 9, policy=p).text for p in ALL]


@settings(max_examples=60, deadline=None)
@given(
    texts=st.lists(st.text("ab .\u6771\u0301\n", max_size=15), max_size=6),
    titles=st.lists(st.none() | st.text("aB", max_size=3), min_size=6, max_size=6),
    budget=st.integers(0, 15),
    order=st.sampled_from(["choice", "relevance", "document", "edges"]),
    render=st.sampled_from(["plain", "titled"]),
    grain=st.sampled_from(["passages", "sentences", "windows"]),
    counter=st.sampled_from([None, *COUNTERS.values()]),
)
def test_any_text_keeps_the_budget_row22(
    texts: list[str], titles: list[str | None], budget: int, order: str, render: str, grain: str, counter: Any
) -> None:
    passages = [{"text": text, "title": title} for text, title in zip(texts, titles, strict=False)]
    for measure in ("default", "p1"):
        picked = ig.select(
            "ab", passages, budget, order=order, render=render, candidates=grain, count_tokens=counter, measure=measure
        )
        assert picked.cost <= budget
        for snippet in picked.snippets:
            assert picked.text[slice(*snippet.context)] == snippet.text


@pytest.mark.parametrize("title", ["", "  ", "\n"])
def test_a_blank_title_is_not_rendered(title: str) -> None:
    picked = ig.select("Where is the lake?", [{"text": "The lake is in Norland.", "title": title}], 9)
    assert picked.text == "The lake is in Norland."


@pytest.mark.parametrize("policy", ["bridge", "mmr", "submodular", "qubo"])
def test_embeddings_of_passages_without_text(policy: str) -> None:
    picked = ig.select("lake", [{"text": ""}], 9, policy=policy, candidates="sentences", embed=lambda t: np.eye(len(t)))
    assert picked.text == ""
    assert picked.record == ()


def test_passages_that_share_an_id_are_told_apart(tmp_path):
    passages = [
        {"id": "a", "text": "The lake is in Norland."},
        {"id": "a", "text": "The lake is deep."},
        {"text": "Fog is wet."},
        {"id": "2", "text": "The lake is in Norland."},
        {"id": "a", "text": "The lake is deep."},
        {"id": "a@1", "text": "The lake is cold."},
    ]
    trace = tmp_path / "trace.jsonl"
    picked = ig.select("Where is the lake?", passages, 100, policy="naive", trace=trace)
    assert [entry.id for entry in picked.record] == ["a", "a@1@1", "2", "2@3", "a@4", "a@1"]
    reasons = [entry.reason for entry in picked.record]
    assert (reasons[3], reasons[4]) == ("duplicate_of:a", "duplicate_of:a@1@1")
    assert [snippet.id for snippet in picked.snippets].count("a") == 2  # the caller's own names stay
    (record,) = read_trace(trace)
    told = openinference_attributes(record)
    assert len([name for name in told if name.endswith(".document.id")]) == len(passages) + len(picked.snippets)
