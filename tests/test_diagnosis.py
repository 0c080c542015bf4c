"""The measures of a packed context, on small cases worked by hand."""

import pytest
from isinglass.diagnosis import (
    AnswerInContext,
    all_gold_at,
    all_gold_in_context,
    answer_in_context,
    distractor_docs,
    gold_doc_coverage,
    gold_token_density,
    recall_at,
)
from isinglass.diagnosis.normalisation import normalised_tokens


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("Jean-Luc", ["jeanluc"]),
        ("1990–1995", ["1990–1995"]),
        ("1,000 or 3.14", ["1000", "or", "314"]),
        ("A. A. Milne", ["milne"]),
        ("The The", []),
        ("!!!", []),
        ("U.S.", ["us"]),
        ("C++ / C#", ["c", "c"]),
        ("don’t don't", ["don’t", "dont"]),
        ("an  apple\u00a0 of\n the\teye", ["apple", "of", "eye"]),
        ("Theory and Anthem", ["theory", "and", "anthem"]),
        ("", []),
    ],
)
def test_normalisation_deletes_ascii_punctuation_and_articles_only(text, tokens):
    assert normalised_tokens(text) == tokens


@pytest.mark.parametrize(
    ("context", "answers", "p1", "defined"),
    [
        ("The lake lies in Upper Vale.", ["upper vale"], True, True),
        ("The lake lies in the Upper Vale.", ["Lake lies in Upper"], True, True),
        ("Upper lies the Vale.", ["upper vale"], False, False),
        ("There is nothing to know.", ["no"], False, None),
        ("He said no.", ["no"], True, None),
        ("He said yes.", ["Yes!"], True, None),
        ("noanswer", ["noanswer"], True, None),
        ("He said no doubt.", ["no doubt"], True, True),
        ("Anything at all.", ["!!!"], False, None),
        ("Anything at all.", ["The A"], False, None),
        ("", ["lake"], False, False),
        ("The lake.", ["pond", "mere", "lake"], True, True),
        # Of two aliases only the one that can stand in a text decides what is defined.
        ("He said yes.", ["yes", "certainly"], True, False),
        ("It opens in New. York is far.", ["New York"], True, True),
        ("Obama's speech", ["Obama"], False, False),
        ("ein 北京 lake", ["北京"], True, True),
        ("lakes", ["lake"], False, False),
    ],
)
def test_answer_in_context_finds_contiguous_token_runs(context, answers, p1, defined):
    assert answer_in_context(context, answers) == AnswerInContext(p1, defined)


def test_no_answer_is_not_found_and_not_defined():
    assert answer_in_context("The lake.", []) == (False, None)


def test_a_bare_string_of_answers_is_refused():
    with pytest.raises(TypeError, match=r"answers must be a collection, expected e.g. \['lake'\]"):
        answer_in_context("The lake.", "lake")


def test_gold_measures_on_a_worked_context():
    documents = ["north", "south", "north", "east"]
    gold = ["north", "west"]
    assert gold_doc_coverage(documents, gold) == 0.5
    assert all_gold_in_context(documents, gold) is False
    assert all_gold_in_context([*documents, "west"], gold) is True
    assert distractor_docs(documents, gold) == 2
    assert gold_token_density(documents, [10, 20, 30, 40], gold) == 0.4


def test_a_gold_document_that_never_was_retrieved_counts_as_missing():
    assert recall_at(["a", "b"], ["a", "nowhere"], 5) == 0.5
    assert all_gold_at(["a", "b"], ["a", "nowhere"], 5) is False
    assert gold_doc_coverage(["a"], ["a", "nowhere"]) == 0.5


def test_an_empty_context_scores_zero():
    assert gold_doc_coverage([], ["a"]) == 0.0
    assert all_gold_in_context([], ["a"]) is False
    assert gold_token_density([], [], ["a"]) == 0.0
    assert distractor_docs([], ["a"]) == 0


def test_without_gold_documents_there_is_no_value():
    assert gold_doc_coverage(["a"], []) is None
    assert all_gold_in_context(["a"], []) is None
    assert gold_token_density(["a"], [3], []) is None
    assert recall_at(["a"], [], 1) is None
    assert all_gold_at(["a"], [], 1) is None
    assert distractor_docs(["a"], []) == 1


def test_repeated_gold_names_are_one_document():
    assert gold_doc_coverage(["a"], ["a", "a", "b"]) == 0.5
    assert recall_at(["a"], ["a", "a", "b"], 1) == 0.5


@pytest.mark.parametrize(
    ("k", "recall", "everything"), [(0, 0.0, False), (1, 0.0, False), (2, 0.5, False), (9, 1.0, True)]
)
def test_recall_looks_at_the_first_k(k, recall, everything):
    retrieved, gold = ["x", "a", "y", "b"], ["a", "b"]
    assert recall_at(retrieved, gold, k) == recall
    assert all_gold_at(retrieved, gold, k) is everything


def test_depth_must_be_a_count():
    with pytest.raises(ValueError, match=r"k must be >= 0, got -1"):
        recall_at(["a"], ["a"], -1)
    with pytest.raises(TypeError, match="k must be an integer >= 0, got True"):
        all_gold_at(["a"], ["a"], True)
    with pytest.raises(TypeError):
        recall_at(["a"], ["a"], 1.5)


def test_token_counts_are_checked():
    with pytest.raises(ValueError, match="expected 2 as in documents, got 1"):
        gold_token_density(["a", "b"], [3], ["a"])
    with pytest.raises(ValueError, match=r"tokens\[1\] must be >= 0, got -3"):
        gold_token_density(["a", "b"], [3, -3], ["a"])
    with pytest.raises(ValueError, match=r"tokens\[0\] must be >= 0, got nan"):
        gold_token_density(["a"], [float("nan")], ["a"])


def test_a_bare_string_of_documents_is_refused():
    with pytest.raises(TypeError, match="gold must be a collection"):
        gold_doc_coverage(["a"], "a")
    with pytest.raises(TypeError, match="documents must be a collection"):
        distractor_docs("a", ["a"])
