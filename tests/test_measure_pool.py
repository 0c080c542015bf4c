"""Pools: what enters, what it costs, how relevant and how similar it is."""

from __future__ import annotations

import math
from collections import Counter
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from isinglass.measure import Passage, as_passages, prepare
from isinglass.measure.lexical import WordCounts, check_matrix

LAKE = "Blue Lake lies in Norland. It is deep. The lake feeds the Elm River."


def test_passages_as_strings_mappings_and_objects() -> None:
    given = [
        "one",
        {"text": "two", "title": "T", "id": 7, "page": 3},
        SimpleNamespace(text="three", doc="d", start=5),
        Passage("four"),
    ]
    one, two, three, four = as_passages(given)
    assert (one.text, two.title, two.id, three.doc, three.start, three.end, four.text) == (
        "one",
        "T",
        7,
        "d",
        5,
        10,
        "four",
    )
    assert as_passages(iter(["x"]))[0].text == "x"
    assert as_passages([]) == ()


@pytest.mark.parametrize(
    ("passages", "error", "message"),
    [
        pytest.param("one text", TypeError, "must be a sequence of passages, got str", id="string"),
        pytest.param({"text": "x"}, TypeError, "must be a sequence of passages, got dict", id="mapping"),
        pytest.param(None, TypeError, "must be a sequence of passages, got NoneType", id="none"),
        pytest.param(["a", None], ValueError, r"passages\[1\] must be a string or have `text`", id="none-passage"),
        pytest.param([{"text": None}], ValueError, r"passages\[0\].text must be a string, got None", id="none-text"),
        pytest.param([{"title": "T"}], ValueError, r"passages\[0\] must be a string or have `text`", id="no-text"),
        pytest.param([{"text": "x", "title": 3}], ValueError, r"title must be a string, got 3", id="title"),
        pytest.param([{"text": "x", "id": 1.5}], ValueError, r"id must be a string or an integer", id="id"),
        pytest.param([{"text": "x", "doc": []}], ValueError, r"doc must be hashable, got list", id="doc"),
        pytest.param([{"text": "x", "start": -1}], ValueError, r"start must be >= 0, got -1", id="start"),
        pytest.param([{"text": "x", "start": 5, "end": 4}], ValueError, r"end must be >= 5, got 4", id="end"),
        pytest.param([{"text": "x", "end": 4}], ValueError, r"start must be given with end", id="end-alone"),
        pytest.param([{"text": "x", "score": math.nan}], ValueError, r"passages\[0\].score must be finite", id="nan"),
        pytest.param([{"text": "x", "score": math.inf}], ValueError, r"passages\[0\].score must be finite", id="inf"),
        pytest.param([{"text": "x", "score": True}], ValueError, r"score must be a number, got True", id="bool"),
        pytest.param(
            [{"text": "x", "score": -0.5}],
            ValueError,
            r"score must be >= 0, got -0.5.*measure.calibrate",
            id="row29-negative",
        ),
        pytest.param(
            [{"text": "x"}, {"text": "y", "score": 0.2}], ValueError, r"passages\[0\].score is missing", id="row28-none"
        ),
        pytest.param(
            [{"text": "x", "embedding": [1.0]}, {"text": "y"}],
            ValueError,
            r"passages\[1\].embedding is missing",
            id="embedding",
        ),
        pytest.param(
            [{"text": "x", "embedding": [1.0, math.nan]}],
            ValueError,
            r"embedding\[1\] must be finite",
            id="embedding-nan",
        ),
    ],
)
def test_bad_passages_are_named(passages: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        as_passages(passages)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"measure": "P1"}, "measure must be one of 'default', 'p1', got 'P1'"),
        ({"candidates": "sentence"}, r"candidates must be one of .* \(did you mean 'sentences'\?\)"),
        ({"render": "title"}, r"did you mean 'titled'"),
        ({"separator": 3}, "separator must be a string, got 3"),
        ({"hits": [["a"], ["b"]]}, "hits must have an entry for each of 1 passages, got 2"),
    ],
)
def test_bad_options_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        prepare("q", ["text"], **options)
    with pytest.raises(ValueError, match="query must be a string, got None"):
        prepare(None, ["text"])  # type: ignore[arg-type]


def test_candidates_at_each_grain_point_into_their_passages() -> None:
    passages = [{"text": f"  {LAKE}\n"}, {"text": "Alone."}]
    for grain, texts in [
        ("passages", [f"  {LAKE}\n", "Alone."]),
        ("sentences", ["Blue Lake lies in Norland.", "It is deep.", "The lake feeds the Elm River.", "Alone."]),
        ("windows", [LAKE[:38], LAKE, LAKE[27:], "Alone."]),
    ]:
        pool = prepare("lake", passages, candidates=grain)
        assert list(pool.texts) == texts
        for text, passage, (a, b) in zip(pool.texts, pool.passage, pool.spans, strict=True):
            assert passages[passage]["text"][a:b] == text


@pytest.mark.parametrize("measure", ["default", "p1"])
@pytest.mark.parametrize("grain", ["passages", "sentences", "windows"])
@pytest.mark.parametrize("texts", [[], ["", "", ""], ["..."], ["東京"]], ids=["none", "row30-empty", "dots", "cjk"])
def test_pools_of_nothing(measure: str, grain: str, texts: list[str]) -> None:
    for query in ("", "who is it?", "rain in 東京"):
        pool = prepare(query, texts, measure=measure, candidates=grain)
        assert np.isfinite(pool.relevance).all()
        assert (pool.costs >= 1).all()
        assert pool.similarity.shape == (len(pool), len(pool))
        assert len(pool.problem(10)) <= len(pool)


def test_content_terms_are_covered_once_row32() -> None:
    pool = prepare("rain rain, the rain?", ["rain today", "dry"])
    assert pool.terms == ("rain",)
    assert pool.coverage.tolist() == [[1], [0]]


def test_relevance_prefers_what_matches_in_any_script() -> None:
    pool = prepare(
        "東京の人口",
        ["大阪は西", "東京の人口は多い"],
    )
    assert pool.relevance[1] > pool.relevance[0] > 0


def test_score_is_the_relevance() -> None:
    passages = [{"text": LAKE, "score": 0.25}, {"text": "Other.", "score": 0}]
    assert prepare("lake", passages).relevance.tolist() == [0.25, 0]
    assert prepare("lake", passages, candidates="sentences").relevance.tolist() == [0.25, 0.25, 0.25, 0]


def plain_cosine(a: str, b: str) -> float:
    x, y = Counter(a.split()), Counter(b.split())
    norm = math.sqrt(sum(v * v for v in x.values()) * sum(v * v for v in y.values()))
    return sum(x[w] * y[w] for w in x) / norm if norm else 0.0


@pytest.mark.parametrize("n", [3, 40, 150])
def test_similarity_is_the_cosine_of_token_counts(n: int) -> None:
    rng = np.random.default_rng(n)
    texts = [" ".join(f"w{int(k)}" for k in rng.zipf(1.3, size=30) if k < 3000) for _ in range(n)]
    pool = prepare("w1", texts)
    expected = np.array([[plain_cosine(a, b) for b in texts] for a in texts])
    assert pool.similarity.dtype == np.float32
    assert np.abs(pool.similarity - expected).max() < 1e-6
    assert (pool.similarity == pool.similarity.T).all()
    assert (pool.similarity.diagonal() == 1).all()


def test_equal_counts_have_similarity_exactly_one() -> None:
    similarity = prepare("q", ["a b b c", "b c a b", "!!!", "x"]).similarity
    assert similarity[0, 1] == 1
    assert similarity[2].tolist() == [0, 0, 1, 0]


def test_pairs_are_counted_in_blocks() -> None:
    # More pairs of rare words than one block holds, and words common enough for the dense product.
    texts = [[k % 97, 100 + k // 2, 5000] for k in range(3000)]
    counts = WordCounts.of(texts, 6000)
    similarity = counts.cosine()
    for i, j in [(0, 1), (0, 97), (5, 102), (2998, 2999)]:
        shared = len(set(texts[i]) & set(texts[j]))
        assert similarity[i, j] == pytest.approx(shared / 3)


def test_no_matrix_is_begun_that_would_not_fit_row2() -> None:
    with pytest.raises(MemoryError, match=r"similarity of 3000000 candidates needs \d+ bytes, more than \d+"):
        check_matrix(3_000_000)


def test_shared_source_text_counts_as_similar() -> None:
    text = "one two three four five six."
    passages = [
        {"text": text[:20], "doc": "d", "start": 100},
        {"text": text[10:28], "doc": "d", "start": 110},
        {"text": text[10:28], "doc": "e", "start": 110},
        {"text": text[:20], "doc": "d"},
    ]
    similarity = prepare("q", passages).similarity
    assert similarity[0, 1] == np.float32(10 / 18)
    assert similarity[0, 2] == similarity[1, 3] < 0.5
    assert similarity[0, 3] == 1
    assert prepare("q", passages, measure="p1", candidates="passages").similarity[0, 1] < 0.5
    windows = prepare("q", [LAKE], candidates="windows").similarity
    assert windows[0, 1] == 1


def letters(texts: list[str]) -> list[list[float]]:
    return [[text.count("a") - 0.5, text.count("b") - 0.5] for text in texts]


def test_embeddings_by_callable() -> None:
    pool = prepare("a", ["aaa", "bbb", "aabb"], embed=letters)
    vectors = np.array(letters(list(pool.texts)))
    unit = vectors / np.linalg.norm(vectors, axis=1)[:, None]
    assert np.abs(pool.similarity - np.maximum(0, unit @ unit.T)).max() < 1e-6
    query = np.array(letters(["a"])[0])
    expected = np.maximum(0, unit @ query / np.linalg.norm(query)) + 0.05 / np.arange(1, 4)
    assert pool.relevance == pytest.approx(expected)


def test_embeddings_of_the_passages() -> None:
    passages = [
        {"text": "x y", "embedding": [1e200, 0]},
        {"text": "x z", "embedding": [-1e-200, 1e-200]},
        {"text": "w", "embedding": [0, 0]},
    ]
    pool = prepare("x", passages)
    assert pool.similarity.tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 1]]
    with pytest.raises(ValueError, match="candidates='sentences' need vectors of their own"):
        _ = prepare("x", passages, candidates="sentences").similarity
    with pytest.raises(ValueError, match=r"passages\[1\].embedding must have 2 numbers like the first, got 1"):
        _ = prepare("x", [{"text": "a", "embedding": [1, 2]}, {"text": "b", "embedding": [1]}]).similarity


@pytest.mark.parametrize(
    ("embed", "message"),
    [
        (lambda texts: [[1.0, math.nan] for _ in texts], r"embed\(texts\)\[0, 1\] must be finite, got nan"),
        (lambda texts: [[1.0]], "embed must return one row for each of 2 texts, got 1"),
        (lambda texts: [1.0 for _ in texts], "must be 2-D"),
        (lambda texts: [[1.0], [1.0, 2.0]], "rows of equal length"),
        (lambda texts: [["a"] for _ in texts], "must be an array of int or float"),
        (lambda texts: np.ones((len(texts), len(texts))), "2 numbers for the texts but 1 for the query"),
    ],
)
def test_bad_embeddings_are_named(embed: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        prepare("q", ["one", "two"], embed=embed)


def test_costs_hold_separator_and_heading_row18() -> None:
    passages = [{"text": "one two", "title": "My Title"}, {"text": "three"}]
    assert prepare("q", passages).costs.tolist() == [2, 1]
    assert prepare("q", passages, render="titled").costs.tolist() == [4, 1]
    assert prepare("q", passages, separator=" and then ").costs.tolist() == [4, 3]
    assert prepare("q", passages, count_tokens=len, render="titled").costs.tolist() == [2 + 9 + 7, 2 + 5]
    assert prepare("q", ["...", ""]).costs.tolist() == [1, 1]


def test_special_tokens_are_paid_once() -> None:
    pool = prepare("q", ["one two", "three"], count_tokens=lambda text: 2 + len(text.split()))
    assert pool.fixed_cost == 2
    assert pool.costs.tolist() == [2, 1]


def test_counters_differ_and_are_named_row23() -> None:
    texts = ["a long sentence of words", "short", "middle one"]

    def quarter(text: str) -> int:
        return -(-len(text) // 4)

    pools = [prepare("q", texts), prepare("q", texts, count_tokens=quarter, separator="")]
    assert pools[0].costs.tolist() == [5, 1, 2]
    assert pools[1].costs.tolist() == [6, 2, 3]
    assert pools[0].counter.name == "unicode_words"
    assert pools[1].counter.name.endswith("quarter")


def test_only_piece_needs_no_separator() -> None:
    pool = prepare("q", ["12345678", "123"], count_tokens=len)
    assert pool.costs.tolist() == [10, 5]
    assert pool.costs_within(7).tolist() == [10, 5]
    assert pool.costs_within(8).tolist() == [8, 5]


def test_published_windows() -> None:
    words = " ".join(f"w{k}" for k in range(60))
    text = f"{words}. {words}. End here."
    pool = prepare("w1", [{"text": text, "title": "w1"}], measure="p1")
    by_centre = dict(zip(pool.sentence.tolist(), pool.texts, strict=True))
    assert by_centre[0].split() == f"{words}. {words}.".split()[:80]
    # The windows around 0 and 1 have one text after the cut, so they are one candidate.
    assert sorted(by_centre) == [0, 2]
    assert dict(zip(pool.sentence.tolist(), pool.costs.tolist(), strict=True)) == {0: 80, 2: 62}
    spans = dict(zip(pool.sentence.tolist(), pool.spans, strict=True))
    assert text[slice(*spans[0])].split() == by_centre[0].split()
    assert (np.diff(pool.relevance) <= 0).all()


def test_published_relevance() -> None:
    pool = prepare("red fox", [{"text": "The red dog.", "title": "Fox"}, {"text": "A red fox."}], measure="p1")
    expected = [1.15 * 2 / 3 + 0.65 + 0.05 / 2, 1.15 / 4 + 0.65 + 0.25 / 2 + 0.05]
    assert pool.relevance == pytest.approx(expected)
    assert pool.passage.tolist() == [1, 0]
    hits = prepare("red fox", [{"text": "The red dog."}], measure="p1", hits=[["a dog", "red dog"]])
    assert hits.relevance[0] == pytest.approx(1.15 / 4 + 0.65 * 2 / 3 + 0.05)


def test_published_limit_is_160_texts() -> None:
    text = " ".join(f"Sentence number {k}." for k in range(200))
    pool = prepare("number 7", [text, text], measure="p1")
    assert len(pool) == 400
    assert (~pool.beyond_limit & (pool.first_copy == np.arange(400))).sum() == 160
    assert len(pool.problem(160)) == 160


def test_first_copy_is_the_first_in_input_order() -> None:
    assert prepare("q", ["a b", "c", "a  b", "a b"]).first_copy.tolist() == [0, 1, 0, 0]
    passages = [{"text": "x."}, {"text": "x.", "title": "q"}]
    pool = prepare("q", passages, measure="p1")
    assert pool.passage.tolist() == [1, 0]
    assert pool.first_copy.tolist() == [1, 1]
