"""Experiments from one file: what they vary, that they resume, and what they add from a reader's answers."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import isinglass as ig
import numpy as np
import pytest
from isinglass.cli import main
from isinglass.experiments.answers import Answers, with_oracle, with_router
from isinglass.experiments.evaluation import evaluate
from isinglass.experiments.factorial import _processes, read_experiment, run_experiment
from isinglass.experiments.rows import Rows
from isinglass.experiments.statistics import contrast, intervention_table
from isinglass.records import RecordError

SAMPLE = Path(ig.__file__).parent / "sample" / "questions.jsonl"


@pytest.fixture
def config(tmp_path):
    (tmp_path / "questions.jsonl").write_text(SAMPLE.read_text())

    def write(extra="", retrievers=True):
        levels = """
[[retrievers]]
name = "chunk"
index = "tfidf"

[[retrievers]]
name = "ACE"
index = "tfidf"
graph = "ace"
nodes = 24
"""
        path = tmp_path / "experiment.toml"
        path.write_text(
            'files = ["questions.jsonl"]\npolicies = ["focused", "submodular"]\nbudgets = [40, 80]\nmeasure = "p1"\n'
            + f'pool = "file"\n{extra}\n{levels if retrievers else ""}'
        )
        return path

    return write


def test_every_combination_is_one_row_a_question(config):
    outcome = run_experiment(read_experiment(config()))
    rows = outcome.rows
    assert len(rows) == 12 * 2 * 2 * 2
    assert outcome.distinct == {"questions": 12}
    assert set(rows.distinct("retriever")) == {"chunk", "ACE"}
    assert rows.distinct("budget") == [40.0, 80.0]
    assert (rows["tokens"] <= rows["budget"]).all()
    assert (rows.where(retriever="ACE")["hits"] > 0).all()
    assert (rows.where(retriever="chunk")["hits"] == 0).all()
    assert set(rows.distinct("config")) == {outcome.experiment.hash}
    assert "f1" not in rows
    assert (rows["grounded"] == 1).all()


def test_rows_agree_with_evaluate(config, tmp_path):
    rows = run_experiment(read_experiment(config())).rows.where(retriever="chunk")
    evaluation = evaluate(
        tmp_path / "questions.jsonl", policies=["focused", "submodular"], budgets=[40, 80], measure="p1",
        retriever="tfidf", pool="file",
    )  # fmt: skip
    for (policy, budget), columns in evaluation.rows.items():
        mine = rows.where(policy=policy, budget=budget)
        for theirs, name in (
            ("gold_doc_coverage",) * 2,
            ("answer_in_context.p1", "answer_in_context_p1"),
            ("tokens",) * 2,
        ):
            np.testing.assert_array_equal(mine[name], columns[theirs])


def test_seeds_draw_samples_and_pools(config):
    outcome = run_experiment(read_experiment(config("seeds = [42, 13, 7]\nsample = 5", retrievers=False)))
    drawn = [tuple(outcome.rows.where(seed=seed).distinct("question")) for seed in (42, 13, 7)]
    assert [len(ids) for ids in drawn] == [5, 5, 5]
    assert len(set(drawn)) == 3
    assert outcome.distinct["questions"] == len({name for ids in drawn for name in ids})
    a, b = (outcome.rows.where(policy=policy, budget=40) for policy in ("submodular", "focused"))
    found = contrast(a, b, "gold_doc_coverage")
    assert (found.n, found.clusters) == (15, outcome.distinct["questions"])


def test_an_experiment_resumes_from_its_journal(config, tmp_path):
    journal = tmp_path / "rows.csv.journal"
    experiment = read_experiment(config())
    whole = run_experiment(experiment)
    run_experiment(experiment, journal)
    lines = journal.read_text().splitlines(keepends=True)
    assert len(lines) == 24
    journal.write_text("".join(lines[:10]) + lines[10][: len(lines[10]) // 2])
    again = run_experiment(experiment, journal)
    assert again.resumed == 10
    assert list(map(repr, again.rows)) == list(map(repr, whole.rows))
    assert run_experiment(experiment, journal).resumed == 24
    # A retriever that is added or left out leaves the others' lines as good as they were.
    fewer = config(retrievers=False)
    fewer.write_text(fewer.read_text() + '[[retrievers]]\nname = "chunk"\nindex = "tfidf"\n')
    assert run_experiment(read_experiment(fewer), journal).resumed == 12
    # Another configuration does not take these lines.
    other = read_experiment(config('candidates = "sentences"'))
    assert run_experiment(other, journal).resumed == 0
    # Nor do other data under the same name.
    questions = tmp_path / "questions.jsonl"
    questions.write_text("".join(questions.read_text().splitlines(keepends=True)[:-1]))
    assert run_experiment(experiment, journal).resumed == 0


def test_workers_give_the_same_table(config):
    experiment = read_experiment(config())
    alone = run_experiment(experiment)
    seen = []
    with ThreadPoolExecutor(3) as threads:
        many = run_experiment(
            experiment, executor=threads, workers=3, progress=lambda done, total: seen.append((done, total))
        )
    assert list(map(repr, many.rows)) == list(map(repr, alone.rows))
    assert seen[-1] == (24, 24)


def test_processes_give_the_same_table(config):
    experiment = read_experiment(config())
    alone, many = (run_experiment(experiment, workers=workers) for workers in (1, 2))
    assert list(map(repr, many.rows)) == list(map(repr, alone.rows))


def test_what_comes_last_is_read_first(config, tmp_path):
    seen = []
    for extra, message in (
        ('answers = ["missing.jsonl"]', "missing.jsonl"),
        ('embed = "no_such_module:embed"', "embed must be MODULE:FUNCTION, got 'no_such_module:embed'"),
    ):
        with pytest.raises((OSError, ValueError), match=message):
            run_experiment(read_experiment(config(extra)), progress=lambda *done: seen.append(done))
    assert not seen


def test_a_journal_of_anything_else_is_passed_over(config, tmp_path):
    journal = tmp_path / "journal"
    journal.write_text('[1]\n"text"\n{"config": 3}\nbroken\n')
    outcome = run_experiment(read_experiment(config(retrievers=False)), journal)
    assert (outcome.resumed, len(outcome.rows)) == (0, 12 * 2 * 2)


def test_no_question_is_nothing_to_do(config, tmp_path, capsys):
    (tmp_path / "questions.jsonl").write_text("")
    assert main(["evaluate", "--config", str(config()), "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert (report["rows"], report["best_variant"], report["statistics"]) == (0, None, {})


def test_faulty_records_and_questions_are_counted_and_told(config, tmp_path, capsys):
    lines = SAMPLE.read_text().splitlines()
    broken = [lines[0], lines[0], '{"id": "half', json.dumps({"id": "bare", "question": "?"}), lines[1]]
    path = config(retrievers=False)
    (tmp_path / "questions.jsonl").write_text("\n".join(broken))
    assert main(["evaluate", "--config", str(path)]) == 2
    assert "line 2: id must be unique in the file" in capsys.readouterr().err
    assert main(["evaluate", "--config", str(path), "--keep-going", "--json"]) == 1
    shown = capsys.readouterr()
    assert shown.err.count("skipped ") == 3
    report = json.loads(shown.out)
    assert report["questions"] == {"questions": 2}
    assert [fault["line"] for fault in report["skipped_records"]] == [2, 3, 4]


def test_a_process_that_dies_is_told():
    with pytest.raises(ChildProcessError, match="expected 1 processes to live"), _processes(1) as pool:
        pool.submit(os._exit, 1).result()


def test_an_impatient_interrupt_ends_at_once_and_loses_nothing(config, tmp_path):
    lines = [json.loads(line) for line in SAMPLE.read_text().splitlines()]
    many = [json.dumps(line | {"id": f"{line['id']} {k}"}) for k in range(10) for line in lines]
    path = config(retrievers=False)
    (tmp_path / "questions.jsonl").write_text("\n".join(many))
    rows, journal = tmp_path / "rows.csv", tmp_path / "rows.csv.journal"
    command = ["evaluate", "--config", str(path), "--rows", str(rows), "--workers", "2"]
    code = f"import sys; from isinglass.cli import main; sys.exit(main({command!r}))"
    process = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, start_new_session=True)
    while process.poll() is None and not (journal.exists() and journal.stat().st_size):
        time.sleep(0.02)
    for _ in range(2):
        os.killpg(process.pid, signal.SIGINT)
        time.sleep(0.02)
    _, said = process.communicate(timeout=60)
    assert (process.returncode, said) == (2, b"isinglass evaluate: error: interrupted\n")
    kept = [json.loads(line) for line in journal.read_text().splitlines()]
    assert 0 < len(kept) < len(many)
    outcome = run_experiment(read_experiment(path), journal)
    assert outcome.resumed == len(kept)
    assert len(outcome.rows) == len(many) * 2 * 2


def answer_file(tmp_path, records):
    (tmp_path / "answers.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    return 'answers = ["answers.jsonl"]'


def test_answers_are_scored_and_join_the_rows(config, tmp_path):
    questions = [json.loads(line) for line in SAMPLE.read_text().splitlines()]
    extra = answer_file(
        tmp_path,
        [{"question": q["id"], "policy": "submodular", "prediction": q["answers"][0]} for q in questions]
        + [{"question": q["id"], "policy": "focused", "em": 0, "f1": 0.25} for q in questions]
        + [{"question": questions[0]["id"], "policy": "focused", "budget": 80, "em": 0, "f1": 0.5}],
    )
    rows = run_experiment(read_experiment(config(extra + "\noracle = true\nrouter = true"))).rows
    right = rows.where(policy="submodular")
    assert (right["em"] == 1).all()
    assert set(right.distinct("failure")) == {"right"}
    wrong = rows.where(policy="focused")
    assert "in_context_wrong" in wrong.distinct("failure")
    assert wrong.where(question=questions[0]["id"], budget=80)["f1"].tolist() == [0.5, 0.5]
    assert wrong.where(question=questions[0]["id"], budget=40)["f1"].tolist() == [0.25, 0.25]
    table = intervention_table(rows.where(retriever="chunk", budget=40), "submodular", "focused")
    assert table["questions"]["f1"].estimate == pytest.approx(0.75)
    oracle = rows.where(policy="oracle")
    assert len(oracle) == 12 * 2
    assert (oracle["f1"] == 1).all()
    # Of the two equally right, the one with fewer tokens.
    for row in oracle.where(budget=80):
        rivals = rows.where(policy="submodular", question=row["question"], budget=80)
        assert row["tokens"] == rivals["tokens"].min()
    router = rows.where(policy="router")
    assert len(router) == 12 * 2
    assert (router["f1"] == 1).all()  # it learns that one policy is always right


def test_what_answers_leave_out_is_told(config, tmp_path, capsys):
    questions = [json.loads(line) for line in SAMPLE.read_text().splitlines()]
    extra = answer_file(
        tmp_path,
        [{"question": q["id"], "policy": "focused", "prediction": "x", "latency": 3} for q in questions[:5]]
        + [
            {"question": "elsewhere", "prediction": "x"},
            {"question": questions[0]["id"], "budget": 7, "em": 1, "f1": 1},
        ],
    )
    assert main(["evaluate", "--config", str(config(extra, retrievers=False)), "--json"]) == 0
    shown = capsys.readouterr()
    assert "reader answered 10 of 48 rows: its figures are of these alone" in shown.err
    assert "answers that agree with no row: 2" in shown.err
    report = json.loads(shown.out)
    assert (report["packed"], report["answered"], report["unused_answers"]) == (48, {"reader": 10}, 2)


def test_a_router_sees_nothing_of_its_own_fold():
    rng = np.random.default_rng(2)
    records = []
    for q in range(200):
        hard = float(q % 2)
        for policy in ("a", "b"):
            good = (policy == "a") == bool(hard)
            records.append(
                {
                    "dataset": "d",
                    "question": f"q{q}",
                    "retriever": "r",
                    "policy": policy,
                    "budget": 1,
                    "top_relevance": hard,
                }
                | {"hits": rng.random(), "f1": float(good) + 0.01 * rng.random(), "em": 0.0, "tokens": 1}
            )
    rows = with_router(Rows.of(records), "f1")
    assert rows.where(policy="router")["f1"].mean() > 0.99
    assert with_oracle(rows).where(policy="oracle")["f1"].mean() == pytest.approx(1.0, abs=0.02)


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ("colour = 1", "expected the keys answers, backend, .* got colour"),
        ("seeds = [1, 2]", "several seeds need a sample"),
        ("oracle = true", "oracle needs answers"),
        ('answers = ["$NO_SUCH_VARIABLE/x"]', "expected a variable that is set"),
        ('rule = "bleu"', "rule must be one of"),
        ('seeds = "42"', "seeds must be a list of int"),
        ("answers = [", "expected TOML"),
        ('sample = "x"', "sample must be an integer, got 'x'"),
        ("sample = true", "sample must be an integer, got True"),
        ("sample = 0", "sample must be >= 1, got 0"),
        ("seeds = []", "seeds must name at least one, got none"),
        ("sample = 2\nseeds = [7, 3, 7]", r"seeds must differ: .* got \[7, 3, 7\]"),
        ("seeds = [-1]", "seeds must be >= 0, got -1"),
        ("facts = 1", "facts must be true or false, got 1"),
        ("embed = 3", "embed must be a string, got 3"),
        ('backend = "gpu"', "unknown backend 'gpu'"),
        ('polices = ["mmr"]', "did you mean policies"),
        ("retrievers = []", "retrievers must name at least one, got none"),
        ('retrievers = {name = "a"}', "retrievers must be a list of dict"),
        ('baselines = ["mmr"]', "baselines must be one of 'focused', 'submodular', got 'mmr'"),
    ],
)
def test_bad_configurations_are_named(config, extra, message):
    with pytest.raises(ValueError, match=message):
        read_experiment(config(extra, retrievers=False))


@pytest.mark.parametrize(("named", "where"), [({}, ""), ({"budget": 60}, ", budget 60")])
def test_two_answers_for_one_row_are_named(named, where):
    record = {"question": "lake", "prediction": "x", **named}
    with pytest.raises(ValueError, match=f"expected one answer for question 'lake', reader 'reader'{where}, got two"):
        Answers([record, record])


def test_bad_retrievers_and_answers_are_named(config, tmp_path):
    path = config(retrievers=False)
    for level, message in (
        ('name = "x"\nindex = "bm52"', "index must be one of"),
        ('name = "x"\ntop_k = 0', "top_k"),
        ('index = "bm25"', "a retriever must be a table with a name"),
        ('name = "x"\ndepth = 5', "retriever 'x': expected the keys"),
        ('name = "x"\ntop_k = "5"', "retriever 'x': top_k must be an integer, got '5'"),
        ('name = "x"\nrun = 3', "retriever 'x': run must be a string, got 3"),
        ('name = "x"\nindex = "embed"', "retriever 'embed' must have embed"),
        ('name = "x"\nindex = "none"', "retriever 'none' must have pool 'own', got 'file'"),
        ('name = "x"\ntruncate_dim = 0', "truncate_dim must be >= 1, got 0"),
        ('name = "any"', "a retriever must not be called 'any'"),
    ):
        path.write_text(config(retrievers=False).read_text() + f"[[retrievers]]\n{level}\n")
        with pytest.raises(ValueError, match=message):
            read_experiment(path)
    (tmp_path / "a.jsonl").write_text('{"question": "x"}\n')
    with pytest.raises(RecordError, match="line 1: expected question, and prediction or em and f1"):
        Answers.read([str(tmp_path / "a.jsonl")])
    for line, message in (
        ('{"question": "x", "em": 1, "f1": "high"}', r"line 1: f1 must be a number in \[0, 1\], got 'high'"),
        ('{"question": "x", "em": true, "f1": 1}', r"em must be a number in \[0, 1\], got True"),
        ('{"question": "x", "em": 0, "f1": 35.5}', r"f1 must be a number in \[0, 1\], got 35.5"),
        ('{"question": "x", "prediction": "y", "polcy": "mmr"}', r"got polcy \(did you mean policy\?\)"),
    ):
        (tmp_path / "a.jsonl").write_text(line)
        with pytest.raises(RecordError, match=message):
            Answers.read([str(tmp_path / "a.jsonl")])
    with pytest.raises(ValueError, match="expected one answer for question 'x'"):
        Answers([{"question": "x", "em": 1, "f1": 1}] * 2)


def test_the_command_line_runs_an_experiment(config, tmp_path, capsys):
    rows = tmp_path / "rows.parquet"
    assert main(["evaluate", "--config", str(config()), "--rows", str(rows)]) == 0
    shown = capsys.readouterr()
    assert "questions, budget 40; 12 distinct questions" in shown.out
    assert "ACE submodular" in shown.out
    assert main(["evaluate", "--config", str(config()), "--rows", str(rows), "--json"]) == 0
    again = capsys.readouterr()
    report = json.loads(again.out)
    assert report["resumed"] == 24
    assert "24 questions" in again.err
    assert report["questions"] == {"questions": 12}
    assert len(report["means"]) == 8
    table = Rows.read(rows)
    assert len(table) == report["rows"] == 96
    assert set(table.distinct("config")) == {report["config"]}
    assert main(["evaluate", str(SAMPLE), "--config", str(config())]) == 2
    assert main(["evaluate"]) == 2
    assert "expected question files, or --config" in capsys.readouterr().err


def test_the_experiment_of_the_readme_runs(config, tmp_path, capsys):
    readme = Path(__file__).parents[1] / "README.md"
    (block,) = re.findall(r"```toml\n(.*?)```", readme.read_text(), re.DOTALL)
    path = tmp_path / "experiment.toml"
    config()
    path.write_text(block)
    assert main(["evaluate", "--config", str(path), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert len(report["means"]) == 2 * (2 * 4 + 1)
    assert set(report["statistics"]) == {"intervention", "budget_sweep", "iso_quality"}


def test_published_rows_from_a_configuration(data, tmp_path):
    path = tmp_path / "2wiki.toml"
    path.write_text(
        f"""
files = ["{data}/qa/2wiki_dev.jsonl.gz"]
policies = ["focused", "submodular"]
budgets = [160]
measure = "p1"
[[retrievers]]
name = "bm25"
run = "{data}/runs/2wiki_dev_own_bm25.jsonl"
"""
    )
    outcome = run_experiment(read_experiment(path))
    means = {mean["policy"]: mean for mean in outcome.means()}
    assert means["submodular"]["answer_in_context_p1"] == pytest.approx(0.4796, abs=5e-5)
    assert means["submodular"]["gold_doc_coverage"] == pytest.approx(0.6635, abs=5e-5)
    assert means["submodular"]["recall@5"] == pytest.approx(0.7460, abs=5e-5)
    assert means["focused"]["answer_in_context_p1"] == pytest.approx(0.4615, abs=5e-3)


def test_evaluate_writes_the_rows_of_an_experiment(config, tmp_path):
    rows = run_experiment(read_experiment(config())).rows.where(retriever="chunk")
    table = evaluate(
        tmp_path / "questions.jsonl", policies=["focused", "submodular"], budgets=[40, 80], measure="p1",
        retriever="tfidf", pool="file",
    ).table  # fmt: skip
    left, right = (dict(t.where(policy="focused", budget=40).columns) for t in (rows, table))
    assert set(left) - set(right) == {"seed", "config"}
    for name in right.keys() - {"retriever"}:
        np.testing.assert_array_equal(left[name], right[name])
    assert set(table.distinct("bucket")) > {"bridge"}


def test_the_command_line_writes_rows_with_answers(config, tmp_path, capsys):
    config()
    questions, out, answers = (tmp_path / name for name in ("questions.jsonl", "rows.csv", "answers.jsonl"))
    command = ["evaluate", str(questions), "--policies", "bridge,naive", "--budget", "40,80", "--rows", str(out)]
    assert main(command) == 0
    assert len(Rows.read(out)) == 12 * 2 * 2
    records = [json.loads(line) for line in questions.read_text().splitlines()]
    lines = [{"question": record["id"], "prediction": record["answers"][0]} for record in records]
    answers.write_text("\n".join(map(json.dumps, lines)))
    assert main([*command, "--answers", str(answers)]) == 0
    answered = Rows.read(out)
    assert (answered["f1"] == 1).all()
    assert set(answered["failure"]) == {"right"}
    assert main([*command[:-2], "--answers", str(answers)]) == 2
    assert "--answers belongs to --rows" in capsys.readouterr().err
