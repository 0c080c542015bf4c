"""The statistics of an experiment's table: which there are, of which rows, and that they are those of the API."""

import json
from pathlib import Path

import isinglass as ig
import numpy as np
import pytest
from isinglass.cli import main
from isinglass.experiments.answers import with_oracle
from isinglass.experiments.findings import findings, plain
from isinglass.experiments.rows import Rows
from isinglass.experiments.statistics import contrast, decomposition, explained_by, pearson

SAMPLE = Path(ig.__file__).parent / "sample" / "questions.jsonl"
DRAWS = 200


def table(readers=("3B", "7B"), recalls=(0.0, 0.5, 1.0)):
    rng = np.random.default_rng(3)
    records = []
    for reader in readers:
        for retriever in ("chunk", "ACE"):
            for budget in (80, 160):
                for policy in ("focused", "submodular", "mmr"):
                    for q in range(30):
                        recall = recalls[q % len(recalls)]
                        answer = float(rng.random() < 0.3 + 0.3 * recall)
                        f1 = float(np.clip(0.5 * answer + 0.3 * rng.random(), 0, 1))
                        records.append(
                            {
                                "dataset": "d", "seed": 1, "retriever": retriever, "question": f"q{q}",
                                "policy": policy, "budget": budget, "reader": reader, "recall@5": recall,
                                "all_gold@5": float(recall == 1), "answer_in_context_p1": answer,
                                "answer_in_context": answer if q else None, "gold_doc_coverage": recall * answer,
                                "tokens": budget - 10 * (policy == "submodular"), "f1": f1, "em": float(f1 > 0.6),
                            }
                        )  # fmt: skip
    return Rows.of(records)


def test_every_statistic_of_a_whole_table():
    rows = with_oracle(table())
    told = plain(findings(rows, ["focused"], draws=DRAWS))
    assert list(told) == [
        "pearson", "regression", "conditional_means", "intervention", "decomposition", "budget_sweep", "iso_quality",
        "reader_ladder",
    ]  # fmt: skip
    json.dumps(told, allow_nan=False)
    own = rows.where(reader="7B", budget=80, policy=["focused", "submodular", "mmr"])
    part = {"dataset": "d", "budget": 80, "reader": "7B"}

    def found(name, **wanted):
        (row,) = [r for r in told[name] if all(r[key] == value for key, value in wanted.items())]
        return row

    feature = found("pearson", **part, feature="recall@5")
    expected = pearson(own["recall@5"], own["f1"], own.keys(("dataset", "question")), draws=DRAWS)
    assert feature["f1"] == expected._asdict()
    assert expected.clusters == 30

    fit = found("regression", **part, answer="answer_in_context_p1")
    explained = explained_by(own, "answer_in_context_p1")
    assert (fit["r2_without"], fit["r2"]) == (explained.without.r2, explained.with_it.r2)
    assert fit["delta_r2"] == pytest.approx(fit["r2"] - fit["r2_without"])
    assert (fit["n"], fit["partial_r"]) == (180, explained.partial_r)
    assert found("regression", **part, answer="answer_in_context")["n"] == 174

    means = found("conditional_means", **part, answer="answer_in_context_p1")
    perfect = own.where(**{"all_gold@5": 1})
    assert means["n"] == len(perfect) == 60
    assert means["lost"] == pytest.approx(1 - perfect["answer_in_context_p1"].mean())
    assert means["f1_with"] == pytest.approx(perfect.where(answer_in_context_p1=1)["f1"].mean())

    ours, theirs = (own.where(retriever="ACE", policy=policy) for policy in ("submodular", "focused"))
    change = found("intervention", **part, retriever="ACE", policy="submodular")
    assert change["f1"] == contrast(ours, theirs, "f1", draws=DRAWS)._asdict()
    assert change["tokens"]["estimate"] == -10
    assert change["answer_in_context"]["n"] == 29
    ways = [r for r in told["decomposition"] if r["retriever"] == "ACE" and r["policy"] == "submodular"]
    ways = [r for r in ways if r["budget"] == 80 and r["reader"] == "7B"]
    by_hand = decomposition(ours, theirs, by="answer_in_context_p1")
    assert {r["answer"]: r["n"] for r in ways} == {way: part.n for way, part in by_hand.items()}
    assert sum(r["contribution"] for r in ways) == pytest.approx(change["f1"]["estimate"])

    at = {"dataset": "d", "retriever": "ACE", "policy": "submodular"}
    swept = found("budget_sweep", **at, reader="7B", budget=80, measure="f1")
    assert swept["difference"] == change["f1"]
    saved = found("iso_quality", **at, reader="7B", baseline_budget=160, measure="f1")
    assert saved["baseline_tokens"] == 160
    assert saved["tokens"] == saved["budget"] - 10
    assert found("reader_ladder", **at, budget=80, reader="7B")["f1"] == change["f1"]


def test_what_is_made_of_other_rows_is_compared_but_not_pooled():
    rows = table()
    alone, joined = (plain(findings(r, ["focused"], draws=DRAWS)) for r in (rows, with_oracle(rows)))
    for name in ("pearson", "regression", "conditional_means"):
        assert alone[name] == joined[name]
    oracle = [row for row in joined["intervention"] if row["policy"] == "oracle"]
    assert {row["retriever"] for row in oracle} == {"chunk", "ACE"}
    assert len(oracle) == 2 * 2 * 2
    assert all(row["f1"]["estimate"] > 0 for row in oracle)


def test_without_a_reader_there_are_only_contrasts_of_contexts():
    rows = table(readers=("3B",))
    contexts = Rows({name: values for name, values in rows.columns.items() if name not in ("f1", "em", "reader")})
    told = plain(findings(contexts, ["focused"], draws=DRAWS))
    assert list(told) == ["intervention", "budget_sweep", "iso_quality"]
    assert "f1" not in told["intervention"][0]
    assert {row["measure"] for row in told["iso_quality"]} == {"answer_in_context_p1"}
    assert findings(contexts) == ()
    assert findings(Rows({})) == ()


def test_a_recall_that_explains_nothing_is_told_and_not_fitted():
    told = plain(findings(table(readers=("3B",), recalls=(1.0,)), draws=DRAWS))
    assert all("not_defined" in row for row in told["regression"])
    assert "predictors must be independent and not constant" in told["regression"][0]["not_defined"]
    recall = [row for row in told["pearson"] if row["feature"] == "recall@5"]
    assert all(row["f1"]["estimate"] is None for row in recall)


@pytest.fixture
def config(tmp_path):
    (tmp_path / "questions.jsonl").write_text(SAMPLE.read_text())
    questions = [json.loads(line) for line in SAMPLE.read_text().splitlines()]
    answers = [
        {"question": q["id"], "policy": policy, "reader": reader, "prediction": q["answers"][0] if right else "fog"}
        for k, q in enumerate(questions)
        for reader, luck in (("small", 2), ("large", 3))
        for policy, right in (("focused", k % luck), ("submodular", not k % luck))
    ]
    (tmp_path / "answers.jsonl").write_text("".join(json.dumps(answer) + "\n" for answer in answers))
    path = tmp_path / "experiment.toml"
    path.write_text(
        """
files = ["questions.jsonl"]
policies = ["focused", "submodular"]
budgets = [40, 80]
measure = "p1"
answers = ["answers.jsonl"]
baselines = ["focused"]
retrievers = [{name = "chunk", top_k = 4}]
"""
    )
    return path


def test_the_command_line_prints_and_writes_them(config, capsys):
    assert main(["evaluate", "--config", str(config)]) == 0
    shown = capsys.readouterr().out
    for words in (
        "questions, budget 40, small: Pearson's r", "F1 on recall@5 without and with the answer in context",
        "among rows with all gold retrieved", "questions, chunk, budget 80, large: change against focused",
        "by what became of the answer", "change against focused at the same budget",
        "smallest budget that shows no loss against focused", "change of F1 against focused, by reader",
    ):  # fmt: skip
        assert words in shown
    assert main(["evaluate", "--config", str(config), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert len(report["statistics"]) == 8
    assert len(report["statistics"]["reader_ladder"]) == 2 * 2
    assert report["settings"]["baselines"] == ["focused"]


def test_a_configuration_says_everything_itself(config, capsys):
    refused = (["--budget", "60"], ["--baseline=mmr"], ["--policies", "mmr"], ["--trace", str(config.parent / "t")])
    for option in refused:
        assert main(["evaluate", "--config", str(config), *option]) == 2
        name = option[0].partition("=")[0]
        assert f"--config says it in the file, got {name} besides" in capsys.readouterr().err
    assert main(["evaluate", str(SAMPLE), "--workers", "2"]) == 2
    assert "--workers belongs to --config" in capsys.readouterr().err
    config.write_text(config.read_text().replace('baselines = ["focused"]', 'baselines = ["mmr"]'))
    assert main(["evaluate", "--config", str(config)]) == 2
    assert "baselines must be one of 'focused', 'submodular', got 'mmr'" in capsys.readouterr().err
