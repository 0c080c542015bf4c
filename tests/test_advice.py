"""Advice on samples whose truth is known, because we drew them; and on real ones."""

import json

import isinglass as ig
import numpy as np
import pytest
from isinglass.cli import main
from isinglass.experiments.advice import CANNOT_TELL, NO, THRESHOLDS, YES, advise
from isinglass.experiments.evaluation import evaluate
from isinglass.experiments.rows import Rows

DRAWS = 400


def sample(
    n, seed=0, *, hops=0.9, retrieved=0.9, tokens=500, evidence=50, kept=None, budgets=(100,), worth=0.5, reads=None
):
    """Rows of `n` questions. `kept[policy][i]` is the chance that the answer stands in the context at budget i.

    `worth`: how much likelier that is with all gold documents there. `reads`: what it adds to F1.
    """
    rng = np.random.default_rng(seed)
    kept = kept or {"one": (0.8,), "other": (0.4,)}
    rows = []
    for q in range(n):
        of_question = {
            "dataset": "drawn", "question": str(q), "gold_documents": 2 if rng.random() < hops else 1,
            "all_gold_retrieved": rng.random() < retrieved, "retrieved_tokens": rng.normal(tokens, 20),
            "evidence_tokens": rng.normal(evidence, 5),
        }  # fmt: skip
        for i, budget in enumerate(budgets):
            for policy, chances in kept.items():
                whole = rng.random() < 0.5
                chance = np.clip(chances[i] + worth * (whole - 0.5), 0, 1)
                stands = rng.random() < chance
                row = of_question | {
                    "policy": policy, "budget": budget, "tokens": budget - (5 if policy == "one" else 1),
                    "all_gold_in_context": whole, "answer_in_context": stands,
                }  # fmt: skip
                if reads is not None:
                    right = rng.random() < 0.2 + reads * stands
                    row |= {"f1": float(right), "em": float(right), "reader": "drawn"}
                rows.append(row)
    return Rows.of(rows)


def condition(advice, name, budget=None):
    return next(c for c in advice.conditions if c.name == name and c.budget == budget)


@pytest.mark.parametrize(
    ("options", "name", "budget", "verdict"),
    [
        ({}, "complementarity", None, YES),
        ({"hops": 0.2}, "complementarity", None, NO),
        ({"worth": 0.0}, "complementarity", None, NO),
        ({"hops": 0.5}, "complementarity", None, CANNOT_TELL),
        ({"retrieved": 0.8}, "retrieval", None, YES),
        ({"retrieved": 0.4}, "retrieval", None, NO),
        ({"retrieved": 0.6}, "retrieval", None, CANNOT_TELL),
        ({"tokens": 500}, "budget", 100, YES),
        ({"tokens": 50}, "budget", 100, NO),
        ({"tokens": 100}, "budget", 100, CANNOT_TELL),
        ({"evidence": 150}, "budget", 100, NO),
        ({"evidence": 96.6}, "budget", 100, CANNOT_TELL),
        ({"reads": 0.5}, "reader", None, YES),
        ({"reads": 0.0}, "reader", None, NO),
    ],
)
def test_a_condition_is_told_where_the_sample_carries_it(options, name, budget, verdict):
    (advice,) = advise(sample(600, **options), draws=DRAWS)
    assert condition(advice, name, budget).verdict == verdict


def test_a_small_sample_tells_nothing():
    (advice,) = advise(sample(20, reads=0.5), draws=DRAWS)
    assert {c.verdict for c in advice.conditions} == {CANNOT_TELL}
    assert advice.in_scope == CANNOT_TELL
    assert [found.verdict for found in advice.policies] == [CANNOT_TELL]
    assert advice.policy is None
    assert advice.policies[0].questions_needed >= 30
    assert any("20 questions are too few, 30 are the least" in sentence for sentence in advice.sentences())


def test_without_labels_of_evidence_a_budget_that_binds_is_all_there_is():
    rows = sample(100)
    bare = Rows({name: column for name, column in rows.columns.items() if name != "evidence_tokens"})
    (advice,) = advise(bare, draws=DRAWS)
    assert [evidence.name for evidence in condition(advice, "budget", 100).evidence] == ["binds"]
    assert condition(advice, "budget", 100).verdict == YES


def test_the_better_policy_is_told_from_the_other():
    (advice,) = advise(sample(400), draws=DRAWS)
    found = advice.policies[0]
    assert (found.verdict, found.policy, found.beaten, found.against) == ("pays", "one", ("other",), "other")
    assert found.lead.low > 0
    assert advice.in_scope == YES
    assert advice.policy == "one"
    assert any("take one" in sentence for sentence in advice.sentences())


def test_policies_that_are_the_same_are_as_good_and_the_shorter_is_taken():
    rows = sample(400, kept={"other": (0.5,)})
    twin = [{**row, "policy": "one", "tokens": 60.0} for row in rows]
    (advice,) = advise(Rows.of([*rows, *twin]), draws=DRAWS)
    found = advice.policies[0]
    assert (found.verdict, found.policy, found.rivals) == ("no difference", "one", ("other",))


def test_policies_of_one_truth_are_rarely_told_apart():
    told = 0
    for seed in range(60):
        rows = sample(120, seed, kept=dict.fromkeys("abcd", (0.5,)), worth=0.0)
        told += advise(rows, draws=DRAWS)[0].policies[0].verdict == "pays"
    assert told <= 8  # 5 % of 60 is 3; nine or more would come once in three hundred times


def test_a_condition_at_its_line_is_rarely_told():
    line = THRESHOLDS["retrieved"].value
    told = sum(
        condition(advise(sample(150, seed, retrieved=line), draws=DRAWS)[0], "retrieval").verdict != CANNOT_TELL
        for seed in range(60)
    )
    assert told <= 9


def test_a_budget_pays_as_long_as_the_curve_rises():
    kept = {"one": (0.3, 0.6, 0.6), "other": (0.2, 0.3, 0.3)}
    rows = sample(800, budgets=(50, 100, 200), kept=kept)
    # The last budget brings exactly what the one before does.
    flat = [row if row["budget"] < 200 else None for row in rows]
    again = [row | {"budget": 200.0, "tokens": 150.0} for row in rows if row["budget"] == 100]
    (advice,) = advise(Rows.of([*filter(None, flat), *again]), draws=DRAWS)
    assert [step.verdict for step in advice.steps] == ["pays", "no difference"]
    assert (advice.budget, advice.policy) == (100, "one")
    assert advice.steps[0].tokens == 50


def test_rising_to_the_end_and_a_single_budget_are_said():
    (rising,) = advise(sample(600, budgets=(50, 100), kept={"one": (0.3, 0.8), "other": (0.1, 0.2)}), draws=DRAWS)
    assert any("still rises at 100" in sentence for sentence in rising.sentences())
    (single,) = advise(sample(100), draws=DRAWS)
    assert any("try several" in sentence for sentence in single.sentences())


def test_one_policy_and_no_gold():
    (alone,) = advise(sample(100, kept={"one": (0.5,)}), draws=DRAWS)
    assert alone.policy is None
    assert any("only one was run" in sentence for sentence in alone.sentences())
    bare = Rows.of([{"question": str(i), "policy": "p", "budget": 10.0, "tokens": 5.0} for i in range(40)])
    (nothing,) = advise(bare, draws=DRAWS)
    assert nothing.measure is None
    assert {c.verdict for c in nothing.conditions} == {CANNOT_TELL}


def test_an_answer_that_is_easy_for_all_is_no_proof_of_completeness():
    """Where easy questions have all gold and the answer, and hard ones neither, nothing varies within a question."""
    rows = [
        {"question": str(q), "policy": p, "budget": 10.0, "tokens": 5.0, "gold_documents": 2, "retrieved_tokens": 99.0,
         "all_gold_retrieved": 1.0, "all_gold_in_context": easy, "answer_in_context": easy}
        for q in range(200) for p in "ab" for easy in (float(q % 2),)
    ]  # fmt: skip
    (advice,) = advise(Rows.of(rows), draws=DRAWS)
    assert condition(advice, "complementarity").verdict == CANNOT_TELL


def test_each_dataset_and_reader_has_its_own_advice_and_the_oracle_none():
    rows = [*sample(60), *({**row, "dataset": "second"} for row in sample(60, 1))]
    oracle = [{**row, "policy": "oracle", "answer_in_context": 1.0} for row in sample(60) if row["policy"] == "one"]
    found = advise(Rows.of([*rows, *oracle]), draws=DRAWS)
    assert [advice.of for advice in found] == ["drawn", "second"]
    assert {p.policy for advice in found for p in advice.policies} == {"one"}


def test_json_and_the_command_line(tmp_path, capsys):
    from pathlib import Path

    file = str(Path(ig.__file__).parent / "sample" / "questions.jsonl")
    command = ["evaluate", file, "--retriever", "none", "--policies", "bridge,naive", "--budget", "40,80", "--advise"]
    assert main([*command, "--json"]) == 0
    (told,) = json.loads(capsys.readouterr().out)["advice"]
    assert told["questions"] == 12
    assert told["policy"] is None
    assert {c["verdict"] for c in told["conditions"]} == {CANNOT_TELL}
    assert set(told["thresholds"]) == set(THRESHOLDS)
    assert all(threshold["why"] for threshold in told["thresholds"].values())
    assert main(command) == 0
    out = capsys.readouterr().out
    assert "advice from 12 questions: questions, none" in out
    assert "cannot tell" in out
    config = tmp_path / "experiment.toml"
    config.write_text(f'files = ["{file}"]\npolicies = ["bridge", "naive"]\nbudgets = [40]\npool = "own"\n')
    assert main(["evaluate", "--config", str(config), "--advise", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["advice"][0]["questions"] == 12


def test_real_questions(data):
    """All paragraphs of multi-hop questions: a wide lead that is told; passages of one article: no case for spread."""
    options = {"policies": ["focused", "bridge"], "budgets": [96, 160], "limit": 60}
    (advice,) = advise(evaluate(data / "qa" / "2wiki_dev.jsonl.gz", retriever="none", **options).table)
    assert advice.in_scope == YES
    assert {found.verdict for found in advice.policies} == {"pays"}
    assert advice.policy == "bridge"
    (other,) = advise(evaluate(data / "qa" / "covidqa.jsonl.gz", top_k=20, **options).table)
    assert condition(other, "complementarity").verdict == NO
    assert other.in_scope == NO
    (poor,) = advise(evaluate(data / "qa" / "musique_dev.jsonl.gz", **options).table)
    assert condition(poor, "retrieval").verdict == NO
