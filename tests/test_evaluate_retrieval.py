"""Documents under one name, the retrieval of them, and runs."""

import json
import sys

import numpy as np
import pytest
from isinglass.experiments.corpus import Corpus
from isinglass.experiments.datasets import Paragraph, Question
from isinglass.experiments.retrieval import Bm25, EmbeddingCosine, by_retriever, by_run
from isinglass.experiments.runs import read_run
from isinglass.measure.text import ascii_words, words
from isinglass.records import RecordError


def question(name, paragraphs, *, by_title=True, text="Blue lake?"):
    built = tuple(Paragraph(title, sentences, " ".join(sentences)) for title, *sentences in paragraphs)
    return Question(name, text, ("Blue Lake",), built, (), (), () if by_title else None, None, None)


LAKES = question(
    "q1",
    [
        ("Old Mill", "Old Mill is a ruin."),
        ("Blue Lake", "Blue Lake is a lake.", " It is blue. "),
        ("Grey Burn", "Grey Burn feeds a lake."),
    ],
)
REPEATS = question(
    "q2", [("Blue Lake", "First text."), ("Old Mill", "Old Mill is a ruin."), ("Blue Lake", "Second text.")]
)
PARAGRAPHS = question("q3", [("Blue Lake", "First."), ("Blue Lake", "Second."), ("Old Mill", "Third.")], by_title=False)


# Corpus


def test_texts_of_one_title_stay_apart_unless_merged():
    assert [(d.name, d.text) for d in Corpus([REPEATS], merge_titles=False).documents] == [
        ("Blue Lake", "First text."),
        ("Old Mill", "Old Mill is a ruin."),
        ("Blue Lake", "Second text."),
    ]
    merged = Corpus([REPEATS], merge_titles=True).documents
    assert [(d.name, d.text) for d in merged] == [("Blue Lake", "Second text."), ("Old Mill", "Old Mill is a ruin.")]


def test_equal_texts_of_one_title_are_one_document_of_a_file():
    documents = Corpus([LAKES, REPEATS], merge_titles=False).documents
    assert [d.name for d in documents] == ["Old Mill", "Blue Lake", "Grey Burn", "Blue Lake", "Blue Lake"]


def test_published_text_strips_sentences_and_faithful_text_does_not():
    assert Corpus([LAKES], merge_titles=True).documents[1].text == "Blue Lake is a lake. It is blue."
    assert Corpus([LAKES], merge_titles=False).documents[1].text == "Blue Lake is a lake.  It is blue. "


def test_documents_are_found_by_name_place_and_single_title():
    corpus = Corpus([PARAGRAPHS], merge_titles=False)
    assert [d.text for d in corpus.find("q3::1")] == ["Second."]
    assert [d.text for d in corpus.find("Old Mill")] == ["Third."]
    assert "Nowhere" not in corpus
    with pytest.raises(ValueError, match=r"got the title 'Blue Lake' of 2 documents: name one of q3::0, q3::1"):
        corpus.find("Blue Lake")
    titled = Corpus([REPEATS], merge_titles=False)
    assert [d.text for d in titled.find("Blue Lake")] == ["First text.", "Second text."]
    assert [d.text for d in titled.find("q2::2")] == ["Second text."]


# BM25


def lucene(texts, query):
    """The formula, term by term."""
    documents = [words(text) for text in texts]
    mean = sum(map(len, documents)) / len(documents)
    scores = np.zeros(len(texts))
    for term in words(query):
        df = sum(term in document for document in documents)
        idf = np.log(1 + (len(texts) - df + 0.5) / (df + 0.5))
        for i, document in enumerate(documents):
            tf = document.count(term)
            scores[i] += idf * tf / (tf + 1.5 * (1 - 0.75 + 0.75 * len(document) / mean))
    return scores


def test_bm25_is_the_lucene_formula():
    texts = ["the blue lake is a blue lake", "a lake", "old mill", "x y z x"]
    for query in ("blue lake", "a x", "lake lake mill", "Mill"):
        assert Bm25(texts, words).scores(query) == pytest.approx(lucene(texts, query), abs=1e-6)


def test_a_term_of_every_text_still_counts_and_none_scores_below_zero():
    scores = Bm25(["rain today", "rain", "rain again and rain"], words).scores("rain")
    assert (scores > 0).all()
    two = Bm25(["rain", "dry"], words).scores("rain")
    assert two[0] > two[1] == 0


def test_depth_above_the_corpus_gives_what_there_is_best_first_ties_in_order():
    index = Bm25(["dry", "rain", "dry", "rain rain"], words)
    assert index.top("rain", 99) == index.top("rain", None) == [3, 1, 0, 2]
    assert index.top("rain", 2) == [3, 1]


@pytest.mark.parametrize("texts", [[], [""], ["", "  "], ["!!!"]])
def test_nothing_to_index_scores_zero(texts):
    index = Bm25(texts, words)
    assert index.scores("rain").tolist() == [0.0] * len(texts)
    assert index.top("rain", 5) == list(range(len(texts)))


@pytest.mark.parametrize("query", ["", "!!!", "unknown"])
def test_a_query_without_known_terms_scores_zero(query):
    assert Bm25(["rain", "dry"], words).scores(query).tolist() == [0.0, 0.0]


def test_one_letter_words_and_other_scripts_are_indexed():
    assert Bm25(["x", "y"], words).top("y", 1) == [1]
    assert Bm25(["東京", "北京"], words).top("北京", 1) == [1]
    assert Bm25(["東京", "北京"], ascii_words).scores("北京").tolist() == [0.0, 0.0]


def test_without_bm25s_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "bm25s", None)
    with pytest.raises(ImportError, match=r"pip install 'isinglass\[eval\]'"):
        Bm25(["rain"], words)


# Embeddings


def letters(texts):
    return [[text.lower().count(letter) for letter in "abc"] for text in texts]


def test_embeddings_rank_by_cosine():
    index = EmbeddingCosine(["bbb", "a", "ab", ""], letters)
    assert index.scores("aa") == pytest.approx([0, 1, 0.5**0.5, 0])
    assert index.top("aa", 2) == [1, 2]
    assert EmbeddingCosine([], letters).top("aa", 2) == []


@pytest.mark.parametrize(
    ("embed", "message"),
    [
        (lambda texts: [1.0] * len(texts), r"must return an array of shape \(1, d\), got \(1,\)"),
        (lambda texts: [[1.0]] * 5, r"must return an array of shape \(1, d\), got \(5, 1\)"),
        (lambda texts: [[float("nan")]] * len(texts), "must return finite numbers"),
    ],
)
def test_a_wrong_embedding_is_refused(embed, message):
    with pytest.raises(ValueError, match=message):
        EmbeddingCosine(["a"], embed)


# By a retriever


def names(documents):
    return [document.name for document in documents]


def test_own_paragraphs_and_those_of_the_file():
    file = [LAKES, REPEATS]
    assert names(by_retriever(file, "bm25", pool="own", top_k=2)(LAKES)) == ["Blue Lake", "Grey Burn"]
    assert names(by_retriever(file, "bm25", pool="file", top_k=1)(REPEATS)) == ["Blue Lake"]
    assert names(by_retriever(file, "none", pool="own", top_k=1)(LAKES)) == ["Old Mill", "Blue Lake", "Grey Burn"]
    assert len(by_retriever(file, "bm25", pool="own", top_k=None)(LAKES)) == 3
    assert names(by_retriever(file, "embed", pool="file", top_k=1, embed=letters)(LAKES)) == ["Blue Lake"]


def test_a_question_without_paragraphs_retrieves_nothing():
    bare = question("q0", [])
    for retriever in ("bm25", "none"):
        assert by_retriever([bare], retriever, pool="own", top_k=5)(bare) == []
    assert by_retriever([bare], "bm25", pool="file", top_k=5)(bare) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"retriever": "bm52", "pool": "own"}, "retriever must be one of .* got 'bm52'"),
        ({"retriever": "bm25", "pool": "mine"}, "pool must be one of .* got 'mine'"),
        ({"retriever": "none", "pool": "file"}, "'none' must have pool 'own'"),
        ({"retriever": "embed", "pool": "own"}, "'embed' must have embed"),
    ],
)
def test_retrieval_options_are_checked(options, message):
    with pytest.raises(ValueError, match=message):
        by_retriever([LAKES], top_k=5, **options)


# By a run


def run_file(tmp_path, *lines):
    path = tmp_path / "run.jsonl"
    path.write_text("".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines))
    return path


def test_a_run_gives_the_documents_of_each_question(tmp_path):
    path = run_file(tmp_path, {"id": "q1", "documents": ["Blue Lake", "Old Mill"]}, {"id": "q3", "documents": []})
    assert read_run(path) == {"q1": ("Blue Lake", "Old Mill"), "q3": ()}


@pytest.mark.parametrize(
    ("line", "got"),
    [
        ('{"id": "q1", "docu', "got one that ends early"),
        ('{"id": "q1"}', r"got the fields \['id'\]"),
        ("[]", "got a list"),
        ('{"id": 3, "documents": []}', "got id 3"),
        ('{"id": "q1", "documents": "Blue Lake"}', "got documents Blue Lake"),
        ('{"id": "q1", "documents": [3]}', r"got documents \[3\]"),
        ('{"id": "q1", "documents": ["a", "b", "a"]}', "got document 'a' twice"),
        ('{"id": "q0", "documents": []}', "got id 'q0' a second time"),
    ],
)
def test_a_wrong_line_of_a_run_is_named(tmp_path, line, got):
    path = run_file(tmp_path, {"id": "q0", "documents": []}, line)
    with pytest.raises(RecordError, match=got) as caught:
        read_run(path)
    assert (caught.value.file, caught.value.line) == (str(path), 2)


def test_documents_of_a_run_come_in_its_order_and_to_its_depth():
    run = {"q1": ("Grey Burn", "Old Mill", "q1::1")}
    assert names(by_run(run, [LAKES], pool=None, top_k=None)(LAKES)) == ["Grey Burn", "Old Mill", "Blue Lake"]
    assert names(by_run(run, [LAKES], pool="own", top_k=2)(LAKES)) == ["Grey Burn", "Old Mill"]


def test_a_run_over_the_file_is_looked_up_there_without_being_told():
    run = {"q3": ("q3::1", "Grey Burn")}
    assert names(by_run(run, [LAKES, PARAGRAPHS], pool=None, top_k=5)(PARAGRAPHS)) == ["q3::1", "Grey Burn"]
    with pytest.raises(ValueError, match="among the question's own paragraphs, got 'Grey Burn'"):
        by_run(run, [LAKES, PARAGRAPHS], pool="own", top_k=5)(PARAGRAPHS)
    with pytest.raises(ValueError, match="among the paragraphs of the file, got 'Grey Burn'"):
        by_run(run, [PARAGRAPHS], pool=None, top_k=5)(PARAGRAPHS)


def test_the_questions_of_a_run_decide_the_text_of_a_merged_title():
    run = {"q2": ("Blue Lake", "Grey Burn")}
    found = by_run(run, [LAKES, REPEATS, question("q9", [("Blue Lake", "Other.")])], pool=None, top_k=5, published=True)
    assert found(REPEATS)[0].text == "Second text."
