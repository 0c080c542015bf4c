"""Requirements of a question: the rules, the oracle, the cache of labels, and the problem that they make."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from isinglass.measure import prepare
from isinglass.measure.requirements import (
    OracleLabeller,
    Requirement,
    RequirementCache,
    RequirementRecord,
    Requirements,
    candidate_keys,
    evidence_problem,
    rule_requirements,
)
from isinglass.records import RecordError

LAKE = [
    {"title": "Blue Lake", "text": "Blue Lake lies in the hills. The river Grey Burn feeds it."},
    {"title": "Grey Burn", "text": "Grey Burn is a river, measured in 1850. It is short."},
    {"title": "Old Mill", "text": "A river feeds the wheel of the mill. Sheep graze there."},
]


def pool_of(question: str, passages: Any = LAKE, **options: Any) -> Any:
    return prepare(question, passages, candidates="sentences", render="titled", **options)


def levels(found: Requirements, text: str) -> list[int]:
    (j,) = (j for j, requirement in enumerate(found.requirements) if requirement.text == text)
    return found.support[j].tolist()


def test_entities_relations_and_the_answer_type_become_requirements() -> None:
    found = rule_requirements(pool_of("When did the river that feeds Blue Lake rise?"))
    assert [(r.text, r.kind) for r in found.requirements] == [
        ("Blue Lake", "entity"),
        ("river", "relation"),
        ("feeds", "relation"),
        ("rise", "relation"),
        ("a time", "answer"),
    ]
    assert (found.model, found.prompt_version) == ("rules", "1")
    assert found.weights.mean() == pytest.approx(1)
    assert not found.support.flags.writeable


@pytest.mark.parametrize(
    ("question", "entities"),
    [
        ("Who was born first, Ann Lee or Bob of the Hill?", ["Ann Lee", "Bob of the Hill"]),
        ('Which film is older, "the blue door" or Ran?', ["the blue door", "Ran"]),
        ("What happened in Paris in 1889?", ["Paris", "1889"]),
        ("Which 2 towns did Blue Lake feed?", ["Blue Lake"]),
        ("who wrote it?", []),
        ("Did Were And The?", []),
    ],
)
def test_entities(question: str, entities: list[str]) -> None:
    found = rule_requirements(pool_of(question))
    assert [r.text for r in found.requirements if r.kind == "entity"] == entities


@pytest.mark.parametrize(
    ("question", "asked"),
    [
        ("When did Grey Burn rise?", "a time"),
        ("How many sheep graze there?", "a number"),
        ("Who feeds Blue Lake?", "a name"),
        ("Is Blue Lake a lake?", None),
    ],
)
def test_type_of_the_answer(question: str, asked: str | None) -> None:
    found = rule_requirements(pool_of(question))
    assert [r.text for r in found.requirements if r.kind == "answer"] == ([asked] if asked else [])


def test_support_of_an_entity() -> None:
    # Sentences: lake lies, lake fed by Grey Burn; burn measured, it is short; a river feeds, sheep graze.
    found = rule_requirements(pool_of("Which river feeds Blue Lake?"))
    # 2: opens the document of that name, or says a relation of it. 1: of the document that a sentence about it names.
    assert levels(found, "Blue Lake") == [2, 2, 1, 1, 0, 0]


def test_support_of_a_relation_asks_for_its_anchor() -> None:
    found = rule_requirements(pool_of("Which river feeds Blue Lake?"))
    assert levels(found, "river feeds") == [0, 2, 0, 0, 1, 0]  # the mill's river feeds, but not the lake
    alone = rule_requirements(pool_of("which river feeds it?"))
    assert levels(alone, "river feeds") == [0, 2, 0, 0, 2, 0]  # no entity, so no anchor is asked


def test_support_of_an_answer_type() -> None:
    found = rule_requirements(pool_of("When was the river of Blue Lake measured?"))
    # 1850 stands in a sentence of the document that a sentence about the lake names, which also says "measured".
    assert levels(found, "a time") == [0, 0, 2, 0, 0, 0]
    assert levels(rule_requirements(pool_of("When was Blue Lake found?")), "a time") == [0, 0, 1, 0, 0, 0]


@pytest.mark.parametrize("question", ["", "who was it?", "?!", "的"])
def test_a_question_without_content_words_requires_little_and_nothing_fails(question: str) -> None:
    pool = pool_of(question)
    found = rule_requirements(pool)
    assert found.support.shape == (len(found.requirements), len(pool))
    problem = evidence_problem(pool, found)
    assert problem.support.shape[1] == 6


def test_pools_of_nothing_of_one_sentence_and_of_blanks() -> None:
    for passages in ([], [""], [" ", "\n"]):
        pool = prepare("Which river feeds Blue Lake?", passages)
        found = rule_requirements(pool)
        assert found.support.shape == (2, len(pool))
        assert len(evidence_problem(pool, found)) == 0
    one = pool_of("Which river feeds Blue Lake?", [{"title": "Blue Lake", "text": "The river Grey Burn feeds it."}])
    assert rule_requirements(one).support.tolist() == [[2], [2]]
    assert len(evidence_problem(one, rule_requirements(one))) == 1


def test_copies_are_supported_alike_and_are_one_item() -> None:
    twice = [LAKE[0], {"title": "Copy", "text": LAKE[0]["text"]}, {"title": "Empty", "text": ""}]
    pool = pool_of("Which river feeds Blue Lake?", twice)
    support = rule_requirements(pool).support
    assert (support[:, :2] == support[:, 2:4]).all()
    assert len(evidence_problem(pool, rule_requirements(pool))) == 2


def test_scripts_without_capitals_have_relations_only() -> None:
    pool = prepare("蓝湖在哪里", ["蓝湖在山中。", "老磨坊在海边。"], candidates="sentences")
    found = rule_requirements(pool)
    assert {r.kind for r in found.requirements} == {"relation"}
    assert found.support[:, 0].max() == 2


@pytest.mark.parametrize("question", ["เมืองหลวงของไทย", "भारत की राजधानी", "ecole de\u0301ja\u0300 vue"])
def test_marks_stay_with_the_words_of_a_question(question: str) -> None:
    found = rule_requirements(prepare(question, [question, "x"], candidates="passages"))
    assert found.requirements
    assert found.support[:, 0].all()
    assert not found.support[:, 1].any()


@pytest.mark.parametrize("measure", ["default", "p1"])
@pytest.mark.parametrize("grain", ["passages", "sentences", "windows"])
def test_every_grain_and_measure(measure: str, grain: str) -> None:
    pool = prepare("Which river feeds Blue Lake?", LAKE, measure=measure, candidates=grain)
    found = rule_requirements(pool)
    assert found.support.shape == (2, len(pool))
    assert found.support.max() == 2


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=60), st.lists(st.text(max_size=60), max_size=4))
def test_any_text_is_labelled_the_same_twice(question: str, texts: list[str]) -> None:
    first, second = (rule_requirements(prepare(question, texts, candidates="sentences")) for _ in range(2))
    assert first.requirements == second.requirements
    assert np.array_equal(first.support, second.support)
    assert set(np.unique(first.support)) <= {0, 1, 2}
    assert (first.weights >= 0).all()


def test_the_oracle_is_named_and_knows_the_facts() -> None:
    pool = pool_of("Which river feeds Blue Lake?", [dict(p, doc=p["title"]) for p in LAKE])
    fact = LAKE[0]["text"].index("The")
    found = OracleLabeller([("Blue Lake", (fact, len(LAKE[0]["text"])))])(pool)
    assert found.model == "oracle"
    assert found.support.tolist() == [[1, 2, 0, 0, 0, 0]]
    assert OracleLabeller([])(pool).support.shape == (0, 6)


# --- the problem -----------------------------------------------------------------------------------------------------


def test_problem_of_a_pool() -> None:
    pool = pool_of("Which river feeds Blue Lake?", [dict(p, score=s) for p, s in zip(LAKE, (4.0, 2.0, 1.0))])
    labels = rule_requirements(pool)
    problem = evidence_problem(pool, labels, max_passages=3)
    assert problem.max_passages == 3
    assert problem.relevance.tolist() == [1, 1, 0.5, 0.5, 0.25, 0.25]  # given scores, over the greatest
    assert np.array_equal(problem.support, labels.support)
    off = ~np.eye(6, dtype=bool)
    assert np.allclose(problem.redundancy[off], pool.similarity[off])
    # "The river Grey Burn feeds it" names the document of the third and fourth sentence; no other pair is linked.
    linked = problem.complementarity[1, 2]
    assert linked >= (1 - pool.similarity[1, 2]) / 2 > problem.complementarity[4, 5]


def test_lexical_pools_take_the_relevance_of_bridge_and_any_other_can_be_given() -> None:
    pool = pool_of("Which river feeds Blue Lake?")
    labels = rule_requirements(pool)
    own = evidence_problem(pool, labels)
    assert own.relevance[2] > 0.1  # Grey Burn, which the question does not name
    given = evidence_problem(pool, labels, relevance=pool.relevance)
    assert given.relevance.tolist() == (pool.relevance / pool.relevance.max()).tolist()
    with pytest.raises(ValueError, match=r"relevance must have shape \(6,\)"):
        evidence_problem(pool, labels, relevance=np.ones(5))


def test_a_budget_that_binds_nothing_is_left_out() -> None:
    pool = pool_of("Which river feeds Blue Lake?")
    labels = rule_requirements(pool)
    assert evidence_problem(pool, labels, budget=10**30).costs is None
    tight = evidence_problem(pool, labels, budget=20)
    assert tight.budget == 20
    assert tight.costs.tolist() == pool.costs.tolist()


def test_requirements_of_another_pool_are_refused() -> None:
    labels = rule_requirements(pool_of("Which river feeds Blue Lake?"))
    with pytest.raises(ValueError, match="a column of support for each of 2 candidates"):
        evidence_problem(pool_of("Which river?", LAKE[:1]), labels)


# --- the cache -------------------------------------------------------------------------------------------------------

QUESTION = "Which river feeds Blue Lake?"


def record(**changes: Any) -> dict[str, Any]:
    keys = candidate_keys(pool_of(QUESTION))
    return {
        "schema_version": 1,
        "question": QUESTION,
        "model": "a model",
        "prompt_version": "v3",
        "requirements": [{"text": "what feeds the lake", "kind": "relation", "weight": 2.0}],
        "supports": {key: [level] for key, level in zip(keys, (0, 2, 1, 0, 0, 0))},
        "selections": {"setr": [keys[1], keys[2]]},
    } | changes


def written(path: Any, *lines: Any) -> Any:
    path.write_text("".join(line if isinstance(line, str) else json.dumps(line) + "\n" for line in lines))
    return path


def test_a_cache_gives_back_what_was_recorded(tmp_path: Any) -> None:
    cache = RequirementCache.read(written(tmp_path / "cache.jsonl", record()))
    labels = cache(pool_of(QUESTION))
    assert labels.requirements == (Requirement("what feeds the lake", "relation", 2.0),)
    assert labels.support.tolist() == [[0, 2, 1, 0, 0, 0]]
    assert (labels.model, labels.prompt_version) == ("a model", "v3")
    cache.write(tmp_path / "again.jsonl")
    again = RequirementCache.read(tmp_path / "again.jsonl")
    assert again.record(QUESTION) == cache.record(QUESTION)
    assert RequirementRecord.from_dict(record()).as_dict() == record()


def test_a_pool_in_another_order_and_of_fewer_documents_fits() -> None:
    cache = RequirementCache([RequirementRecord.from_dict(record())])
    assert cache(pool_of(QUESTION, [LAKE[1], LAKE[0]])).support.tolist() == [[1, 0, 0, 2]]


def test_a_record_that_does_not_fit_the_pool_is_refused() -> None:
    cache = RequirementCache([RequirementRecord.from_dict(record())])
    with pytest.raises(ValueError, match="the cache has no record of the question 'Why\\?' \\(1 recorded\\)"):
        cache(pool_of("Why?"))
    with pytest.raises(ValueError, match=r"does not fit the pool: candidate '0#0' has no labels \(6 candidates"):
        cache(pool_of(QUESTION, [{"title": "Blue Lake", "text": "Blue Lake is deep."}]))
    with pytest.raises(ValueError, match="does not fit the pool"):  # another title: another passage to a reader
        cache(pool_of(QUESTION, [dict(LAKE[0], title="Lake")]))


def test_a_half_written_cache_stops_or_goes_on_without_its_last_line(tmp_path: Any) -> None:
    path = written(tmp_path / "cache.jsonl", record(), json.dumps(record(question="Why?"))[:-40])
    with pytest.raises(RecordError, match=r"cache.jsonl, line 2: expected one whole JSON object a line"):
        RequirementCache.read(path)
    cache = RequirementCache.read(path, keep_going=True)
    assert len(cache) == 1
    assert cache(pool_of(QUESTION)).model == "a model"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"schema_version": 2}, "schema_version must be 1, got 2"),
        ({"model": None}, "model must be a string, got None"),
        ({"requirements": [{"text": "x"}]}, "requirements must be objects with text, kind and weight"),
        ({"requirements": [{"text": "x", "kind": "wish", "weight": 1}]}, "kind of a requirement must be one of entity"),
        ({"requirements": [{"text": " ", "kind": "entity", "weight": 1}]}, "must be a string that says something"),
        ({"requirements": [{"text": "x", "kind": "entity", "weight": -1}]}, "must be finite and >= 0, got -1"),
        ({"supports": {"k": [1, 1]}}, r"supports\['k'\] must be 1 levels 0, 1 or 2, one a requirement, got \[1, 1\]"),
        ({"supports": {"k": [3]}}, "levels 0, 1 or 2"),
        ({"supports": {"k": [True]}}, "levels 0, 1 or 2"),
        ({"supports": []}, "supports must be an object of lists"),
        ({"selections": {"setr": [1]}}, r"selections\['setr'\] must be candidate keys"),
    ],
)
def test_faulty_records_are_named(changes: dict[str, Any], message: str, tmp_path: Any) -> None:
    path = written(tmp_path / "cache.jsonl", record(), record(question="other", **changes))
    with pytest.raises(RecordError, match=f"line 2: .*{message}"):
        RequirementCache.read(path)


def test_records_that_lack_fields_or_repeat_a_question(tmp_path: Any) -> None:
    lacking = {key: value for key, value in record().items() if key != "supports"}
    with pytest.raises(RecordError, match="line 1: expected a requirement record with the fields"):
        RequirementCache.read(written(tmp_path / "lacking.jsonl", lacking))
    with pytest.raises(RecordError, match=r"expected a requirement record .* got a list"):
        RequirementCache.read(written(tmp_path / "list.jsonl", "[[1]]"))
    with pytest.raises(RecordError, match=r"line 2: .* stands already in line 1"):
        RequirementCache.read(written(tmp_path / "twice.jsonl", record(), record()))
    with pytest.raises(ValueError, match="records must be one a question"):
        RequirementCache([RequirementRecord.from_dict(record())] * 2)
