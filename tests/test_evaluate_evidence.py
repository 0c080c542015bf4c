"""Evaluation of chosen sets: supporting facts, coverage of requirements, limits on passages."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from isinglass import EvidenceProblem, cli
from isinglass.diagnosis import set_measures
from isinglass.experiments.evaluation import evaluate
from isinglass.measure import prepare
from isinglass.measure.requirements import RequirementCache, RequirementRecord, candidate_keys, rule_requirements

from tests.lake_question import LAKE

UNLABELLED = LAKE | {"id": "bare", "supporting_facts": None}
FACTS = ("supporting_fact_precision", "supporting_fact_recall", "supporting_fact_f1")


@pytest.fixture
def questions(tmp_path: Any) -> Any:
    path = tmp_path / "questions.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in (LAKE, UNLABELLED)))
    return path


def rows(questions: Any, policy: str, **options: Any) -> dict[str, Any]:
    evaluation = evaluate(
        questions, policies=[policy], **{"budgets": None, "retriever": "none", "candidates": "sentences"} | options
    )
    return {name: values.tolist() for name, values in evaluation.rows[policy, options.get("budgets")].items()}


def test_supporting_facts_are_counted_in_sentences_of_the_file(questions: Any) -> None:
    found = rows(questions, "naive")  # no limit: all six sentences that are not empty, two of three facts
    assert [found[name][0] for name in FACTS] == [2 / 6, 2 / 3, pytest.approx(4 / 9)]
    assert all(np.isnan(found[name][1]) for name in FACTS)
    whole = rows(questions, "naive", candidates="passages", max_passages=1)
    assert [whole[name][0] for name in FACTS[:2]] == [1 / 2, 1 / 3]  # Blue Lake
    windows = rows(questions, "naive", candidates="windows")  # overlapping spans count once
    assert [windows[name][0] for name in FACTS[:2]] == [2 / 6, 2 / 3]


def test_half_of_a_sentence_is_the_sentence(questions: Any, tmp_path: Any) -> None:
    # The file cuts where we do not: "No. 5" is one sentence to us, two to the file.
    cut = LAKE | {
        "paragraphs": [
            {"title": "Blue Lake", "sentences": ["Blue Lake is no.", "5 of the lakes that the river feeds."]}
        ],
        "gold": ["Blue Lake"],
        "gold_idx": [0],
        "supporting_facts": [["Blue Lake", 1]],
    }
    path = tmp_path / "cut.jsonl"
    path.write_text(json.dumps(cut) + "\n")
    assert [rows(path, "naive")[name][0] for name in FACTS[:2]] == [1 / 2, 1.0]


@pytest.mark.parametrize("policy", ["topk", "qubo", "mmr", "bridge", "greedy-coverage", "random", "submodular"])
def test_max_passages_holds_for_every_policy(questions: Any, policy: str) -> None:
    found = rows(questions, policy, max_passages=2)
    assert max(found["size"]) <= 2
    assert found["size"] == found["snippets"]


def test_the_measures_of_a_set_are_those_of_its_problem() -> None:
    problem = EvidenceProblem(
        [1.0, 0.5, 0.25], [[2, 0, 0], [1, 1, 0], [0, 0, 0]], [1.0, 2.0, 1.0], redundancy=np.full((3, 3), 0.5)
    )
    measures = set_measures(problem, [0, 1])
    assert measures.weighted_coverage == 3 / 4
    assert measures.direct_coverage == 1 / 4
    assert measures.capped_support == (1 * 2 + 2 * 2) / (2 * 4)
    assert measures.average_relevance == 0.75
    assert measures.size == 2
    value = problem.objective([0, 1])
    expected = np.mean([value - problem.objective([1]), value - problem.objective([0])])
    assert measures.marginal_utility == pytest.approx(expected)
    empty = set_measures(problem, [])
    assert (empty.weighted_coverage, empty.capped_support, empty.size) == (0, 0, 0)
    assert (empty.marginal_utility, empty.average_relevance) == (None, None)
    assert set_measures(EvidenceProblem([1.0], np.zeros((0, 1))), [0]).weighted_coverage is None
    with pytest.raises(ValueError, match=r"selection\[1\] must be distinct"):
        set_measures(problem, [0, 0])


def test_change_if_added_is_the_difference_of_objectives() -> None:
    rng = np.random.default_rng(5)
    for _ in range(20):
        n, m = 7, 4
        pairs = rng.random((2, n, n))
        pairs = pairs + pairs.transpose(0, 2, 1)
        problem = EvidenceProblem(
            rng.random(n), rng.integers(0, 3, (m, n)), rng.random(m), pairs[0], pairs[1], max_passages=3
        )
        chosen = rng.permutation(n)[:3].tolist()
        change = problem.change_if_added(chosen)
        for i in range(n):
            rest = [k for k in chosen if k != i]
            assert change[i] == pytest.approx(problem.objective([*rest, i]) - problem.objective(rest))


def test_the_oracle_is_named_and_finds_the_facts(questions: Any) -> None:
    evaluation = evaluate(
        questions, policies=["qubo"], budgets=None, candidates="sentences", retriever="none", requirements="oracle",
        max_passages=2,
    )  # fmt: skip
    assert evaluation.as_dict()["settings"]["requirements"] == "oracle"
    assert evaluation.rows["qubo", None]["supporting_fact_recall"][0] == 2 / 3
    assert evaluation.rows["qubo", None]["supporting_fact_precision"][0] == 1
    with pytest.raises(ValueError, match="requirements must be one of 'rules', 'oracle', got 'gold'"):
        evaluate(questions, policies=["qubo"], budgets=None, requirements="gold")


def test_recorded_requirements_reach_policies_and_measures(questions: Any, tmp_path: Any) -> None:
    paragraphs = [{"title": p["title"], "text": " ".join(p["sentences"])} for p in LAKE["paragraphs"]]
    pool = prepare(LAKE["question"], paragraphs, candidates="sentences", render="titled")
    labels = rule_requirements(pool)
    keys = candidate_keys(pool)
    supports = {key: tuple(labels.support[:, i].tolist()) for i, key in enumerate(keys)}
    record = RequirementRecord(LAKE["question"], labels.requirements, supports, {"setr": (keys[4],)}, "some model", "1")
    RequirementCache([record]).write(tmp_path / "cache.jsonl")
    cache = RequirementCache.read(tmp_path / "cache.jsonl")
    recorded = rows(questions, "qubo", requirements=cache, max_passages=2)
    ruled = rows(questions, "qubo", max_passages=2)
    for name in (*FACTS, "size", "weighted_coverage", "marginal_utility"):
        assert recorded[name] == pytest.approx(ruled[name], nan_ok=True)
    assert rows(questions, "setr", requirements=cache)["size"] == [1, 1]
    arguments = [
        "evaluate",
        str(questions),
        "--retriever",
        "none",
        "--candidates",
        "sentences",
        "--policies",
        "setr,qubo",
    ]
    out = tmp_path / "out.json"
    assert cli.main([*arguments, "--requirements", str(tmp_path / "cache.jsonl"), "-o", str(out)]) == 0
    assert json.loads(out.read_text())["policies"]["setr"]["size"] == 1


def test_the_command_line_limits_passages_and_says_so(questions: Any, capsys: Any) -> None:
    arguments = ["evaluate", str(questions), "--retriever", "none", "--policies", "topk,qubo"]
    assert cli.main([*arguments, "--candidates", "sentences", "--max-passages", "2", "--render", "titled"]) == 0
    printed = capsys.readouterr().out
    assert "at most 2 passages; 2 questions, 0 skipped" in printed
    assert "evidence, at most 2 passages; requirements by rules" in printed
    assert cli.main([*arguments, "--max-passages", "2", "--budget", "30", "--requirements", "oracle"]) == 0
    assert "evidence, budget 30 unicode_words, at most 2 passages; requirements by oracle" in capsys.readouterr().out
    assert cli.main([*arguments, "--max-passages", "0"]) == 2
    assert cli.main([*arguments, "--policies", "setr"]) == 2
    assert "policy 'setr' needs requirements=RequirementCache" in capsys.readouterr().err
