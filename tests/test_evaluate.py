"""Policies compared on question files written here."""

import json

import numpy as np
import pytest
from isinglass.diagnosis import answer_in_context
from isinglass.experiments.evaluation import evaluate
from isinglass.records import RecordError

LAKE = {
    "id": "lake",
    "question": "Which river feeds Blue Lake?",
    "answers": ["Grey Burn"],
    "paragraphs": [
        {"title": "Blue Lake", "sentences": ["Blue Lake lies in the hills.", "The river Grey Burn feeds Blue Lake."]},
        {"title": "Old Mill", "sentences": ["Old Mill is a ruin by the sea.", "It has a wheel."]},
        {"title": "Grey Burn", "sentences": ["Grey Burn is a river.", "It is short."]},
        {"title": "Red Hill", "sentences": ["Red Hill is a hill of red stone.", "Sheep graze there."]},
    ],
    "gold": ["Blue Lake", "Grey Burn"],
    "gold_idx": [0, 2],
    "supporting_facts": [["Blue Lake", 1], ["Grey Burn", 0]],
}
MILL = {
    "id": "mill",
    "question": "Is Old Mill a ruin?",
    "answers": ["yes"],
    "paragraphs": LAKE["paragraphs"][1:],
    "gold": ["Old Mill", "Nowhere"],
    "gold_idx": [0],
    "supporting_facts": [["Old Mill", 0], ["Nowhere", 0]],
}
BARE = {
    "id": "bare",
    "question": "What is here?",
    "answers": ["!!!"],
    "paragraphs": [],
    "gold": [],
    "gold_idx": [],
    "supporting_facts": None,
}


def write(path, *records):
    lines = (record if isinstance(record, str) else json.dumps(record) for record in records)
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


@pytest.fixture
def questions(tmp_path):
    return write(tmp_path / "questions.jsonl", LAKE, MILL, BARE)


def test_measures_of_worked_questions(questions):
    evaluation = evaluate(questions, policies=["naive"], budgets=13, retriever="none")
    assert evaluation.ids == ("lake", "mill", "bare")
    row = {name: values.tolist() for name, values in evaluation.rows["naive", 13].items()}
    # lake: "Blue Lake ..." has 13 words and is the most relevant; mill: "Old Mill ..." has 12.
    assert row["answer_in_context.p1"] == [1, 0, 0]
    assert row["gold_doc_coverage"][:2] == [0.5, 0.5]
    assert row["all_gold_in_context"][:2] == [0, 0]
    assert row["gold_token_density"][:2] == [1, 1]
    assert row["distractor_docs"] == [0, 0, 0]
    assert row["tokens"] == [13, 12, 0]
    assert row["snippets"] == [1, 1, 0]
    assert row["recall@1"][:2] == [0.5, 0.5]
    assert row["recall@5"][:2] == [1, 0.5]
    assert row["all_gold@5"][:2] == [1, 0]
    for name in ("answer_in_context.defined", "gold_doc_coverage", "recall@5"):
        assert np.isnan(row[name][2])
    assert row["answer_in_context.defined"][0] == 1
    assert np.isnan(row["answer_in_context.defined"][1])


def test_means_are_over_the_questions_where_a_measure_is_defined(questions):
    evaluation = evaluate(questions, policies=["naive"], budgets=13, retriever="none")
    means = evaluation.means("naive", 13)
    assert means["answer_in_context.p1"] == pytest.approx(1 / 3)
    assert means["answer_in_context.defined"] == 1
    assert means["gold_doc_coverage"] == 0.5
    assert means["snippets"] == pytest.approx(2 / 3)
    nowhere = evaluate(write(questions, BARE), policies=["naive"], budgets=13)
    assert nowhere.means("naive", 13)["gold_doc_coverage"] is None


def test_json_shape(questions):
    policies = ["naive", "mmr"]
    report = evaluate(questions, policies=policies, budgets=[20], measure="p1").as_dict()
    assert report["questions"] == 3
    assert report["skipped"] == 0
    assert list(report["policies"]) == policies
    measures = report["policies"]["mmr"]
    assert set(measures) == {
        *(f"recall@{k}" for k in (1, 2, 5)),
        *(f"all_gold@{k}" for k in (1, 2, 5)),
        "answer_in_context",
        "gold_doc_coverage",
        "all_gold_in_context",
        "gold_token_density",
        "distractor_docs",
        "tokens",
        "snippets",
        *(f"supporting_fact_{name}" for name in ("precision", "recall", "f1")),
        "weighted_coverage",
        "direct_coverage",
        "capped_support",
        "marginal_utility",
        "average_relevance",
        "size",
    }
    assert set(measures["answer_in_context"]) == {"p1", "defined"}
    assert report["settings"]["counter"] == "ascii_words"
    json.dumps(report, allow_nan=False)


def test_several_budgets_are_measured_at_once_and_equal_one_by_one(questions):
    both = evaluate(questions, policies=["submodular", "focused"], budgets=[12, 30], measure="p1")
    report = both.as_dict()["policies"]
    for budget in (12, 30):
        alone = evaluate(questions, policies=["submodular", "focused"], budgets=budget, measure="p1").as_dict()
        for policy in ("submodular", "focused"):
            assert report[policy][str(budget)] == alone["policies"][policy]


def test_every_policy_keeps_to_the_budget_and_zero_is_an_empty_context(questions):
    from isinglass.policies import FREE_POLICIES

    evaluation = evaluate(questions, policies=list(FREE_POLICIES), budgets=[0, 7, 23])
    for (_, budget), row in evaluation.rows.items():
        assert (row["tokens"] <= budget).all()
        if budget == 0:
            assert not row["snippets"].any()
            assert not row["answer_in_context.p1"].any()


def test_the_depth_of_retrieval_is_a_column_of_its_own(questions):
    evaluation = evaluate(questions, policies=["naive"], budgets=20, top_k=3, pool="file")
    assert {"recall@3", "all_gold@3", "recall@5"} <= evaluation.means("naive", 20).keys()
    row = evaluation.rows["naive", 20]
    assert (row["recall@3"][:2] == row["recall@5"][:2]).all()  # only three were retrieved


def test_the_pool_of_the_file_lends_paragraphs(questions):
    own = evaluate(questions, policies=["naive"], budgets=60)
    file = evaluate(questions, policies=["naive"], budgets=60, pool="file", top_k=None)
    assert own.rows["naive", 60]["snippets"].tolist() == [4, 3, 0]
    assert file.rows["naive", 60]["snippets"].tolist() == [4, 4, 4]


def test_policies_see_one_retrieved_list(questions):
    evaluation = evaluate(questions, policies=["naive", "packed", "mmr"], budgets=20, top_k=2)
    recalls = [row["recall@5"][:2].tolist() for row in evaluation.rows.values()]
    assert recalls[0] == recalls[1] == recalls[2]


def test_a_title_is_no_part_of_the_published_context(tmp_path):
    record = LAKE | {"answers": ["Old Mill"], "paragraphs": [{"title": "Old Mill", "sentences": ["It is a ruin."]}]}
    path = write(tmp_path / "q.jsonl", record | {"gold": ["Old Mill"], "gold_idx": [0]})
    evaluation = evaluate(path, policies=["submodular"], budgets=20, measure="p1")
    assert evaluation.means("submodular", 20)["answer_in_context.p1"] == 0


def test_the_grain_of_the_candidates_may_be_named(questions):
    whole, single = (
        evaluate(questions, policies=["naive"], budgets=60, candidates=grain).rows["naive", 60]["snippets"].tolist()
        for grain in ("passages", "sentences")
    )
    assert whole == [4, 3, 0]
    assert single == [8, 6, 0]


def test_same_numbers_on_every_run(questions):
    first, second = (evaluate(questions, policies=["submodular", "mmr"], budgets=25).as_dict() for _ in range(2))
    assert first == second


def test_embeddings_retrieve_by_a_callable(questions):
    def embed(texts):
        return [[text.count("ruin") + 0.01, text.count("lake") + 0.01] for text in map(str.lower, texts)]

    evaluation = evaluate(questions, policies=["naive"], budgets=20, retriever="embed", embed=embed, top_k=1)
    assert evaluation.rows["naive", 20]["recall@1"][:2].tolist() == [0.5, 0.5]


# Runs


def test_a_run_says_which_questions_and_documents(tmp_path, questions):
    lines = {"id": "lake", "documents": ["Grey Burn", "Red Hill"]}, {"id": "elsewhere", "documents": ["Grey Burn"]}
    run = write(tmp_path / "run.jsonl", *lines)
    evaluation = evaluate(questions, policies=["naive"], budgets=60, runs=[run])
    assert evaluation.ids == ("lake",)
    assert (evaluation.not_in_run, evaluation.not_in_files) == (2, 1)
    assert evaluation.rows["naive", 60]["recall@5"].tolist() == [0.5]
    assert evaluation.rows["naive", 60]["distractor_docs"].tolist() == [1]


def test_runs_are_joined_and_may_not_overlap(tmp_path, questions):
    first = write(tmp_path / "a.jsonl", {"id": "lake", "documents": []})
    second = write(tmp_path / "b.jsonl", {"id": "mill", "documents": ["Old Mill"]})
    assert evaluate(questions, policies=["naive"], budgets=9, runs=[first, second]).ids == ("lake", "mill")
    with pytest.raises(RecordError, match="expected questions that no other run has, got 'lake' again"):
        evaluate(questions, policies=["naive"], budgets=9, runs=[first, first])


def test_an_unknown_document_of_a_run_is_named(tmp_path, questions):
    run = write(
        tmp_path / "run.jsonl", {"id": "lake", "documents": ["Nowhere"]}, {"id": "mill", "documents": ["Old Mill"]}
    )
    with pytest.raises(RecordError, match=r"question 'lake': expected documents .* got 'Nowhere'"):
        evaluate(questions, policies=["naive"], budgets=9, runs=[run])
    evaluation = evaluate(questions, policies=["naive"], budgets=9, runs=[run], keep_going=True)
    assert evaluation.ids == ("mill",)
    assert len(evaluation.skipped) == 1


# Faults


def test_files_of_one_name_are_refused(tmp_path):
    # Their rows, golds and traces would be of one data set, and could not be told apart.
    (tmp_path / "more").mkdir()
    paths = [write(folder / "dev.jsonl", LAKE) for folder in (tmp_path, tmp_path / "more")]
    with pytest.raises(ValueError, match="files must have names of their own, got 'dev' twice"):
        evaluate(paths, policies=["naive"], budgets=9)


def test_keep_going_passes_over_faults_and_lists_them(tmp_path):
    path = write(tmp_path / "q.jsonl", LAKE, '{"id": "half', MILL)
    missing = tmp_path / "missing.jsonl"
    with pytest.raises(RecordError, match=r"q\.jsonl, line 2: expected one whole JSON object a line"):
        evaluate(path, policies=["naive"], budgets=9)
    with pytest.raises(FileNotFoundError):
        evaluate([path, missing], policies=["naive"], budgets=9, keep_going=False, limit=1)
    evaluation = evaluate([missing, path], policies=["naive"], budgets=9, keep_going=True)
    assert evaluation.ids == ("lake", "mill")
    assert [(fault.file, fault.line) for fault in evaluation.skipped] == [(str(missing), 0), (str(path), 2)]
    report = evaluation.as_dict()
    assert report["skipped"] == 2
    assert "No such file" in report["skipped_records"][0]["reason"]


def test_a_question_that_a_policy_refuses_is_named(tmp_path, questions, monkeypatch):
    from isinglass.experiments import evaluation as module

    def refuse(query, *args, **options):
        if "mill" in query.lower():
            raise ValueError("expected better")
        return real(query, *args, **options)

    real = module.prepare
    monkeypatch.setattr(module, "prepare", refuse)
    with pytest.raises(RecordError, match=r"questions\.jsonl: question 'mill': expected better"):
        evaluate(questions, policies=["naive"], budgets=9)
    kept = evaluate(questions, policies=["naive"], budgets=9, keep_going=True)
    assert kept.ids == ("lake", "bare")
    assert len(kept.rows["naive", 9]["tokens"]) == 2


def test_nothing_to_do(tmp_path):
    path = write(tmp_path / "q.jsonl")
    evaluation = evaluate(path, policies=["naive"], budgets=9)
    assert evaluation.ids == evaluation.skipped == ()
    assert evaluation.as_dict()["policies"] == {"naive": {}}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"policies": ["naiv"]}, r"policy must be one of .* got 'naiv' \(did you mean 'naive'\?\)"),
        ({"budgets": -1}, "budget must be >= 0, got -1"),
        ({"budgets": [9, True]}, "budget must be an integer, got True"),
        ({"budgets": 1.5}, "budget must be an integer, got 1.5"),
        ({"measure": "p2"}, r"measure must be one of 'default', 'p1', got 'p2'"),
        ({"candidates": "words"}, "candidates must be one of .* got 'words'"),
        ({"top_k": 0}, "top_k must be >= 1, got 0"),
        ({"retriever": "embed"}, "'embed' must have embed"),
        ({"backend": "gpu"}, "^unknown backend 'gpu'"),
        ({"policies": []}, "policies must name at least one policy"),
    ],
)
def test_options_are_checked(questions, options, message):
    with pytest.raises(ValueError, match=message):
        evaluate(questions, **({"policies": ["submodular"], "budgets": 9} | options))


def test_progress_counts_every_question(questions):
    seen = []
    evaluate(questions, policies=["naive"], budgets=9, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(1, 3), (2, 3), (3, 3)]


# Real data


def test_real_questions_from_the_whole_file_by_bm25(data):
    evaluation = evaluate(
        data / "qa" / "2wiki_dev.jsonl.gz", policies=["submodular"], budgets=160, measure="p1", pool="file", limit=60
    )
    means = evaluation.means("submodular", 160)
    assert len(evaluation.ids) == 60
    assert means["recall@5"] > 0.5
    assert means["tokens"] <= 160


def test_every_public_file_is_read_and_packed(data):
    files = sorted(path for path in (data / "qa").glob("*.jsonl*") if not path.name.startswith("run_"))
    assert len(files) == 9
    evaluation = evaluate(files, policies=["naive"], budgets=160, limit=8)
    assert len(evaluation.ids) == 72
    assert evaluation.skipped == ()


def test_a_record_without_paragraphs_and_an_answer_that_normalises_to_nothing_occur(data):
    from isinglass.experiments.datasets import read_questions

    questions = read_questions(data / "qa" / "hotpotqa_fullwiki.jsonl.gz").questions
    assert any(not question.paragraphs for question in questions)
    assert any(answer_in_context("", question.answers).defined is None for question in questions)


def test_differences_to_a_baseline_are_paired(questions):
    evaluation = evaluate(questions, policies=["naive", "mmr", "focused"], budgets=[13, 26], retriever="none")
    report = evaluation.as_dict("focused")
    assert report["baseline"] == "focused"
    assert list(report["differences"]) == ["naive", "mmr"]
    found = report["differences"]["naive"]["26"]["gold_doc_coverage"]
    pairs = evaluation.rows["naive", 26]["gold_doc_coverage"] - evaluation.rows["focused", 26]["gold_doc_coverage"]
    assert found["estimate"] == pytest.approx(np.nanmean(pairs))
    assert found["low"] <= found["estimate"] <= found["high"]
    assert (found["n"], found["clusters"]) == (2, 2)
    assert report["undefined"]["answer_in_context.defined"] == 2
    assert report["undefined"]["answer_in_context.p1"] == 0
    assert "differences" not in evaluation.as_dict()
    with pytest.raises(ValueError, match=r"baseline must be one of the policies evaluated \(naive, mmr, focused\)"):
        evaluation.differences("bridge")
