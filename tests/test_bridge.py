"""The bridge policy's engine against its judge, on real questions and on bad input."""

from __future__ import annotations

import math
import random
import time
import zlib
from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from isinglass import _core
from isinglass.diagnosis import answer_in_context
from isinglass.measure import count_words, sentences
from isinglass.measure.bridge import Bridge, BridgeWeights, pick_many, prepare_bridge, prepare_bridges
from isinglass.measure.characters import character_table
from isinglass.measure.text import ascii_words

from tests.bridge_judge import Judge, Weights
from tests.bridge_questions import Case, Setting, cases

LAKE = [
    {"title": "Blue Lake", "text": "Blue Lake is deep. It feeds the river Arn."},
    {"title": "Norland", "text": "Norland is a county. Its largest water is Blue Lake."},
    {"title": "Cats", "text": "Cats sleep all day. They like fish."},
]


def pairs(passages: Sequence[dict[str, str]]) -> list[tuple[str, str]]:
    return [(p.get("title", ""), p["text"]) for p in passages]


def agree(question: str, passages: Sequence[dict[str, str]], budget: int, ascii_rule: bool = False) -> Bridge:
    """Engine and judge must keep the same sentences and pick the same ones in the same order."""
    bridge = prepare_bridge(question, passages, measure="p1" if ascii_rule else "default")
    judge = Judge(question, pairs(passages), ascii_rule)
    assert list(bridge.texts) == [s.text for s in judge.sentences]
    assert bridge.tokens.tolist() == [s.tokens for s in judge.sentences]
    assert bridge.pick(budget).order.tolist() == judge.pick(budget)
    count = ascii_words if ascii_rule else lambda text: [None] * count_words(text)
    titles = [len(count(p.get("title", ""))) for p in passages]
    assert bridge.pick(budget, titled=True).order.tolist() == judge.pick(budget, titles)
    return bridge


# Real questions


SETTINGS = [Setting(data, *depth) for data in ("hotpotqa", "2wiki", "musique") for depth in (("own", 5), ("own", None))]


def compare(real: Sequence[Case]) -> None:
    for k, (question, passages) in enumerate(real):
        documents = [{"title": p.title or "", "text": p.text} for p in passages]
        agree(question.question, documents, (96, 160, 224)[k % 3], ascii_rule=k % 2 == 0)


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_picks_are_the_judges_on_real_questions(data: Path, setting: Setting) -> None:
    compare(list(cases(data, setting))[:: 5 if setting.depth == 5 else 10])


@pytest.mark.full
@pytest.mark.parametrize("setting", [*SETTINGS, Setting("hotpotqa", "pooled", 20)], ids=str)
def test_picks_are_the_judges_on_every_real_question(data: Path, setting: Setting) -> None:
    real = list(cases(data, setting))
    compare(real)
    compare([real[0], *real])  # the other word rule and another budget for each


def answers_kept(data: Path, setting: Setting) -> float:
    """Share of the test questions whose answer stands in the context at 160 ASCII words, picks in order of choice."""
    kept = []
    for question, passages in cases(data, setting, "test"):
        bridge = prepare_bridge(question.question, passages, measure="p1")
        context = " ".join(bridge.texts[i] for i in bridge.pick(160).order)
        kept.append(answer_in_context(context, question.answers).p1)
    return sum(kept) / len(kept)


PUBLISHED = {
    Setting("hotpotqa", "own", 5): 0.704,
    Setting("2wiki", "own", 5): 0.609,
    Setting("musique", "own", 5): 0.315,
}
PUBLISHED_LONG = {
    Setting("hotpotqa", "own", None): 0.849,
    Setting("hotpotqa", "pooled", 5): 0.624,
    Setting("hotpotqa", "pooled", 20): 0.733,
    Setting("2wiki", "own", None): 0.804,
}


@pytest.mark.parametrize("setting", PUBLISHED, ids=str)
def test_answers_survive_as_published(data: Path, setting: Setting) -> None:
    assert round(answers_kept(data, setting), 3) == PUBLISHED[setting]


@pytest.mark.full
@pytest.mark.parametrize("setting", PUBLISHED_LONG, ids=str)
def test_answers_survive_as_published_with_more_documents(data: Path, setting: Setting) -> None:
    assert round(answers_kept(data, setting), 3) == PUBLISHED_LONG[setting]


# The text code


_TRICKY = (
    "aBc .!?\"')(\n\t_1"
    "\u3002\uff0e\uff15\u6f22\u5b57\u3000\u00e9\u00c9\u00df\u0301\u200d\u2029\u2026\u00ab\u00bb"
    "\u0e40\u0e01\u0e31\u0130\u0345\ud800\u00b2\u00bd"
)
ANYTHING = st.text(st.sampled_from(_TRICKY), max_size=30) | st.text(max_size=30)


@given(ANYTHING)
def test_sentences_are_cut_as_in_python(text: str) -> None:
    assert _core.cut_sentences(text, character_table()) == sentences(text)


@pytest.mark.parametrize(
    "text", ["J. K. Smith left. No. 5 won.", 'Dr. Who? Yes! (So.) He said "Go." Then vs. them.', "One.\n\ntwo", "a. b"]
)
def test_ascii_sentences_need_no_table(text: str) -> None:
    assert _core.cut_sentences(text, None) == sentences(text)


@given(st.lists(ANYTHING, max_size=4), ANYTHING, ANYTHING)
def test_any_text_is_treated_as_the_judge_says(texts: list[str], title: str, question: str) -> None:
    passages = [{"title": title if i else "Blue", "text": text} for i, text in enumerate(texts)]
    agree(question, passages, 20)
    agree(question, passages, 20, ascii_rule=True)


@given(st.floats(1e-300, 1e300))
def test_logarithm(x: float) -> None:
    assert _core.natural_logarithm(x) == pytest.approx(math.log(x), rel=4e-16, abs=3e-16)


@given(st.floats(-700, 700))
def test_exponential(x: float) -> None:
    assert _core.exponential(x) == pytest.approx(math.exp(x), rel=1e-15)


# The rule


def test_parts_of_the_key() -> None:
    bridge = agree("Which river does the largest water of Norland feed?", LAKE, 30)
    core = bridge.core
    assert core.in_question.tolist() == [False, True, False]
    assert core.through.tolist() == [3, -1, -1]  # "Its largest water is Blue Lake" vouches for Blue Lake
    assert core.leads_to.tolist() == [-1, -1, -1, 0, -1, -1]
    assert core.first.tolist() == [True, False] * 3
    assert "named by 'Norland' through sentence 2" in bridge.earned(1)
    assert "names 'Blue Lake'" in bridge.earned(3)


@given(st.data())
def test_weights_are_those_of_the_formula(draw: st.DataObject) -> None:
    weights = draw.draw(st.tuples(*[st.floats(0, 10)] * 11))
    bridge = prepare_bridge("Which river does the largest water of Norland feed?", LAKE)
    judge = Judge("Which river does the largest water of Norland feed?", pairs(LAKE), weights=Weights(*weights))
    picked = bridge.pick(25, weights=BridgeWeights(*weights))
    assert picked.order.tolist() == judge.pick(25)
    worth = [judge.fixed(i) for i in range(len(bridge))]
    assert bridge.core.worth(weights).tolist() == pytest.approx(worth, rel=1e-12)
    assert bridge.relevance(BridgeWeights(*weights)) == pytest.approx(np.exp(np.array(worth) / 2), rel=1e-12)


@pytest.mark.parametrize("name", [field.name for field in fields(BridgeWeights)])
@pytest.mark.parametrize("value", [-1, math.nan, math.inf, "2", True])
def test_bad_weights_are_refused(name: str, value: object) -> None:
    with pytest.raises((ValueError, TypeError), match=f"BridgeWeights.{name}"):
        BridgeWeights(**{name: value})


def test_a_document_may_be_several_passages() -> None:
    parts = [
        {"doc": "n", "title": "Norland", "text": "Its largest water is Blue Lake.", "start": 40},
        {"doc": "b", "title": "Blue Lake", "text": "Blue Lake feeds the Arn."},
        {"doc": "n", "title": "Norland", "text": "Norland is a county.", "start": 0},
    ]
    bridge = prepare_bridge("Which river does the largest water of Norland feed?", parts)
    assert bridge.core.document.tolist() == [0, 1, 0]
    assert bridge.core.first.tolist() == [False, True, True]  # the passage that starts the document


# Same bits everywhere


def made_up(documents: int, seed: int = 0, vocabulary: int = 300) -> tuple[str, list[dict[str, str]]]:
    rng = random.Random(seed)
    word = [f"w{i}" + rng.choice(["a", "b\u00e9", "c"]) for i in range(vocabulary)]
    question = "Which " + " ".join(rng.choices(word, k=8)) + "?"
    passages = []
    for _ in range(documents):
        text = " ".join(" ".join(rng.choices(word, k=rng.randint(4, 20))).capitalize() + "." for _ in range(4))
        passages.append({"title": " ".join(rng.choices(word, k=2)).title(), "text": text})
    return question, passages


@pytest.mark.parametrize("threads", [1, 2, 7])
def test_batches_equal_single_calls_on_any_number_of_threads(threads: int) -> None:
    questions, passages = zip(*(made_up(k % 9, seed=k) for k in range(50)), strict=True)
    bridges = prepare_bridges(questions, passages, threads=threads)
    many = pick_many(bridges, 60, titled=True, threads=threads)
    for question, documents, bridge, picks in zip(questions, passages, bridges, many, strict=True):
        alone = prepare_bridge(question, documents)
        assert alone.texts == bridge.texts
        one = alone.pick(60, titled=True)
        assert one.order.tolist() == picks.order.tolist()
        assert one.keys.tobytes() == picks.keys.tobytes()
        assert one.cost == picks.cost <= 60


def test_keys_have_known_bits() -> None:
    keys = prepare_bridge("Which river does the largest water of Norland feed?", LAKE).pick(30).keys
    assert [key.hex() for key in keys.tolist()] == KNOWN


KNOWN = [
    "0x1.4dbab79050d44p+2",
    "0x1.3c02b3741e215p+2",
    "0x1.daa7a02eaefffp+1",
    "0x1.8e8de8082e308p+1",
    "-0x1.8b90bfbe8e7bcp-2",
    "-0x1.193ea7aad030ap+0",
]


# Vectors


QUESTION = "Which river does the largest water of Norland feed?"


def vector_of(text: str, d: int = 5) -> list[float]:
    """Some vector, the same for the same text."""
    return np.random.default_rng(zlib.crc32(text.encode())).normal(size=d).tolist()


def embed(texts: list[str]) -> list[list[float]]:
    return [vector_of(text) for text in texts]


def topics(*words: str) -> Callable[[list[str]], list[list[float]]]:
    """Vectors that count some words."""
    return lambda texts: [[float(text.lower().count(word)) for word in words] for text in texts]


@pytest.mark.parametrize("seed", range(40))
def test_vectors_join_the_key_as_the_judge_says(seed: int) -> None:
    question, passages = made_up(1 + seed % 12, seed=seed, vocabulary=60)
    weights = np.random.default_rng(seed).uniform(0, 8, size=11).tolist()
    judge = Judge(question, pairs(passages), weights=Weights(*weights), embed=vector_of)
    bridge = prepare_bridge(question, passages, embed=embed)
    assert bridge.core.cosine.tolist() == pytest.approx(judge.cosine, abs=1e-6)
    picked = bridge.pick(150, weights=BridgeWeights(*weights))
    assert picked.order.tolist() == judge.pick(150)
    for k, (i, key, new) in enumerate(zip(picked.order, picked.keys, picked.fresh, strict=True)):
        apart = judge.w.length * math.log(bridge.tokens[i]) + judge.w.redundancy * judge.redundancy(i, picked.order[:k])
        assert key == pytest.approx(judge.fixed(i) + judge.w.fresh * new - apart, abs=1e-5)


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_vectors_join_the_key_on_real_questions(data: Path, setting: Setting) -> None:
    for question, passages in list(cases(data, setting))[::40]:
        documents = [(p.title or "", p.text) for p in passages]
        judge = Judge(question.question, documents, embed=vector_of)
        bridge = prepare_bridge(question.question, passages, embed=embed)
        assert bridge.pick(160).order.tolist() == judge.pick(160)


def test_a_sentence_close_to_the_question_comes_first_and_says_so() -> None:
    close = topics("cats", "fish", "lake")
    assert prepare_bridge("Where do felines nap?", LAKE).pick(4).order.tolist() == [0]
    bridge = prepare_bridge("Where do felines nap, my cats?", LAKE, embed=close)
    assert bridge.texts[bridge.pick(4).order[0]] == "Cats sleep all day."
    assert "close to the question (cosine 1.00)" in bridge.earned(4)
    assert "close to the question" not in bridge.earned(2)


def test_a_sentence_that_repeats_a_chosen_one_comes_later() -> None:
    passages = [{"text": "Norland has a lake."}, {"text": "Norland has one lake."}, {"text": "Cats have long tails."}]
    alike = topics("norland", "cats")
    weights = BridgeWeights(cosine=0, redundancy=20)
    assert prepare_bridge("Norland", passages, embed=alike).pick(8, weights=weights).order.tolist() == [0, 2]
    weights = BridgeWeights(cosine=0, redundancy=0)
    assert prepare_bridge("Norland", passages, embed=alike).pick(8, weights=weights).order.tolist() == [0, 1]


def test_weights_of_vectors_change_nothing_without_vectors() -> None:
    question, passages = made_up(9)
    plain, asked = prepare_bridge(question, passages), prepare_bridge(question, passages, embed=None)
    some = plain.pick(80, weights=BridgeWeights(cosine=0, redundancy=0))
    for other in (plain.pick(80), asked.pick(80, weights=BridgeWeights(cosine=9, redundancy=9))):
        assert other.order.tolist() == some.order.tolist()
        assert other.keys.tobytes() == some.keys.tobytes()
    assert not plain.core.embedded


def test_the_length_of_a_vector_does_not_count() -> None:
    question, passages = made_up(6)
    plain = prepare_bridge(question, passages, embed=embed).pick(80)
    for scale in (2.0**-1000, 2.0**900):
        scaled = prepare_bridge(question, passages, embed=lambda texts, by=scale: np.array(embed(texts)) * by).pick(80)
        assert scaled.keys.tobytes() == plain.keys.tobytes()
    nothing = prepare_bridge(question, passages, embed=lambda texts: np.zeros((len(texts), 3)))
    assert not nothing.core.cosine.any()


def test_batches_embed_too() -> None:
    questions, passages = zip(*(made_up(k % 5, seed=k) for k in range(9)), strict=True)
    many = pick_many(prepare_bridges(questions, passages, embed=embed), 60)
    for question, documents, picks in zip(questions, passages, many, strict=True):
        assert picks.keys.tobytes() == prepare_bridge(question, documents, embed=embed).pick(60).keys.tobytes()


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (lambda texts: [[1.0, math.inf] for _ in texts], r"embed\(texts\)\[0, 1\] must be finite, got inf"),
        (lambda texts: [[1.0]], "embed must return one row for each of 7 texts, got 1"),
        (lambda texts: [1.0 for _ in texts], "must be 2-D"),
        (lambda texts: [[1.0] * (1 + len(text)) for text in texts], "rows of equal length"),
        (lambda texts: [["a"] for _ in texts], "must be an array of int or float"),
    ],
)
def test_bad_vectors_are_refused(bad: Callable[[list[str]], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        prepare_bridge(QUESTION, LAKE, embed=bad)


@pytest.mark.parametrize("shape", [(5, 3), (6, 2), (18,)])
def test_the_engine_wants_a_vector_for_each_sentence(shape: tuple[int, ...]) -> None:
    core = prepare_bridge(QUESTION, LAKE).core
    with pytest.raises(ValueError, match="vectors must be 2-D: a row a sentence"):
        core.embed(np.ones(3, dtype=np.float32), np.ones(shape, dtype=np.float32))


# Bad input


def test_documents_without_titles_are_named_by_their_beginning() -> None:
    untitled = [{"text": p["text"]} for p in LAKE]
    bridge = agree("Which river does the largest water of Norland feed?", untitled, 12)
    assert bridge.core.through.tolist() == [3, -1, -1]
    assert "named by passage 1 through sentence 2" in bridge.earned(1)
    exact = agree("Which river does the largest water of Norland feed?", untitled, 12, ascii_rule=True)
    assert not exact.core.named.any()  # the published rule has titles or nothing


def test_rare_names_link_sentences() -> None:
    passages = [
        {"title": "One", "text": "The mayor opened the Corrow bridge in 1931."},
        {"title": "Two", "text": "Builders finished it before 1931, at Corrow. Cats sleep."},
        {"title": "Three", "text": "Dogs bark at night. They run."},
    ]
    bridge = agree("Who opened the bridge?", passages, 14)
    assert bridge.core.linked_from.tolist() == [-1, 0, -1, -1, -1]
    assert bridge.core.linked_at.tolist() == [-1, 1, -1]
    assert "shares names with 'One', sentence 1" in bridge.earned(1)


def test_equal_titles_are_different_documents() -> None:
    twice = [LAKE[0], {"title": "Blue Lake", "text": "Another Blue Lake lies in Sorland. It is shallow."}, LAKE[1]]
    bridge = agree("Which river does the largest water of Norland feed?", twice, 25)
    assert bridge.core.through.tolist()[:2] == [5, 5]  # each is vouched for by the sentence of a third


@pytest.mark.parametrize("title", ["It", "The The", "A", "(film)", "()", "...", "", "   "])
def test_titles_that_are_common_words_name_nothing(title: str) -> None:
    passages = [{"title": title, "text": "It is the film of the year."}, LAKE[1]]
    bridge = agree("Which film of the year is it?", passages, 20)
    assert bridge.core.through[0] == -1
    assert not bridge.core.in_question[0]


def test_a_title_inside_a_longer_word_is_not_named() -> None:
    passages = [{"title": "Arn", "text": "A river in the north."}, {"title": "Barn", "text": "A barn is red."}]
    assert agree("Which river runs past the barn?", passages, 20).core.through[0] == -1


@pytest.mark.parametrize("question", ["", "?", "the", "lake", "Lake?", "of of of", "x" * 100_000, "lake " * 20_000])
def test_questions_of_one_word_or_none(question: str) -> None:
    bridge = agree(question, LAKE, 12)
    assert 0 < bridge.pick(12).cost <= 12


@pytest.mark.parametrize(
    ("question", "passages"),
    [
        ("富士山はどこですか。", [("富士山", "富士山は日本にある。高い山だ。"), ("日本", "日本の山は富士山です。")]),
        ("Где река Волга?", [("Волга", "Волга — река. Она длинная."), ("Река", "Река Волга в России.")]),
        ("नदी कहाँ है?", [("गंगा", "गंगा नदी है। बड़ी है।")]),
        (
            "Café straße?",
            [("Cafe\u0301", "Das Cafe\u0301 ist in der STRASSE. Groß."), ("Straße", "Die Straße am Café.")],
        ),
    ],
)
def test_other_scripts(question: str, passages: list[tuple[str, str]]) -> None:
    documents = [{"title": title, "text": text} for title, text in passages]
    bridge = agree(question, documents, 12)
    assert bridge.core.match.any()
    for text, p, (a, b) in zip(bridge.texts, bridge.passage, bridge.spans.tolist(), strict=True):
        assert documents[p]["text"][a:b] == text


def test_no_documents_and_empty_ones() -> None:
    assert len(prepare_bridge("Where?", [])) == 0
    assert prepare_bridge("Where?", []).pick(10).order.tolist() == []
    bridge = agree("Where is the lake?", [{"title": "Lake", "text": ""}, *LAKE, {"title": "x", "text": " \n ... "}], 20)
    assert 0 not in bridge.passage


def test_a_long_document() -> None:
    text = "".join(f"Sentence {i} speaks of lake number {i * i}. " for i in range(2500))
    assert len(text) > 100_000
    bridge = prepare_bridge("Which lake has number 1234?", [{"title": "Long", "text": text}, *LAKE])
    assert bridge.pick(10_000).cost <= 10_000
    unbroken = prepare_bridge("Which lake?", [{"title": "x", "text": "lake" * 25_000}])
    assert unbroken.tokens.tolist() == [1]


@pytest.mark.parametrize("budget", [-1, 1.5, True, None, "9"])
def test_bad_budgets_are_refused(budget: object) -> None:
    with pytest.raises((ValueError, TypeError), match="budget"):
        prepare_bridge("Where?", LAKE).pick(budget)  # type: ignore[arg-type]


def test_budget_zero_and_huge() -> None:
    bridge = prepare_bridge("Which lake?", LAKE)
    assert bridge.pick(0).order.tolist() == []
    assert sorted(bridge.pick(2**60).order.tolist()) == list(range(len(bridge)))


def seconds(question: str, passages: list[dict[str, str]]) -> float:
    best = math.inf
    for _ in range(3):
        begin = time.process_time()
        prepare_bridge(question, passages).pick(2000)
        best = min(best, time.process_time() - begin)
    return best


@pytest.mark.parametrize("kind", ["plain", "equal titles", "one title word"])
def test_time_is_linear_in_the_number_of_documents(kind: str) -> None:
    def make(n: int) -> tuple[str, list[dict[str, str]]]:
        question, passages = made_up(n, vocabulary=5000)
        for i, passage in enumerate(passages):
            if kind == "equal titles":
                passage["title"] = "Blue Lake"
                passage["text"] += " It names Blue Lake."
            elif kind == "one title word":
                passage["title"] = f"Lake x{i}y"
                passage["text"] += " It names a lake."
        return question, passages

    # Eight times the documents; quadratic time would be 64 times.
    assert seconds(*make(4000)) < 32 * seconds(*make(500))
