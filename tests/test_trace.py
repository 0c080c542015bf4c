"""The trace: its schema, what crashes and crowds do to it, and its views, judged by the tools that read them."""

import json
import multiprocessing
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import ir_measures
import isinglass as ig
import jsonschema
import pytest
from isinglass.cli import main
from isinglass.diagnosis import (
    Trace,
    openinference_attributes,
    ragas_row,
    read_trace,
    text_hash,
    trec_qrels,
    trec_run,
)
from isinglass.diagnosis.trace import append_line, schema
from isinglass.diagnosis.views import trec_id
from isinglass.experiments.datasets import Question
from isinglass.experiments.evaluation import evaluate
from isinglass.policies import FREE_POLICIES
from isinglass.records import RecordError, read_records
from openinference.semconv.trace import DocumentAttributes, OpenInferenceSpanKindValues, RerankerAttributes

PASSAGES = [
    {"id": "a", "doc": "Blue Lake", "title": "Blue Lake", "text": "Blue Lake lies in Norland. It is deep.", "start": 7},
    {"id": "b", "doc": "Fog", "text": "Fog is wet. Fog is grey."},
    {"id": "c", "doc": "Blue Lake", "text": "Blue Lake lies in Norland. It is deep."},
    {"id": "d", "doc": "Norland", "text": "Norland is a land of 7 lakes and of fog, of rain and of long roads north."},
]
SAMPLE = str(Path(ig.__file__).parent / "sample" / "questions.jsonl")
QUERY = "Where is Blue Lake?"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "trace.jsonl"


@pytest.mark.parametrize("policy", FREE_POLICIES)
def test_lines_of_every_policy_fit_the_schema(path, policy):
    for measure in ("default", "p1"):
        if not (policy == "bridge" and measure == "p1"):
            ig.select(QUERY, PASSAGES, 12, policy=policy, measure=measure, trace=Trace(path, text=True))
    ig.select(QUERY, [], 12, policy=policy, trace=path)
    ig.select(QUERY, PASSAGES, 0, policy=policy, trace=path)
    lines = path.read_text().splitlines()
    assert len(lines) >= 3
    for line in lines:
        jsonschema.validate(json.loads(line), schema(), cls=jsonschema.Draft202012Validator)


def test_the_schema_is_one_and_refuses_more():
    jsonschema.Draft202012Validator.check_schema(schema())
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"schema_version": 1, "colour": "blue"}, schema())


def test_a_line_leads_from_the_context_back_to_the_source(path):
    picked = ig.select(QUERY, PASSAGES, 12, trace=path, policy="submodular", candidates="sentences")
    (record,) = read_trace(path)
    assert record["cost"] == picked.cost
    assert record["counter"] == "unicode_words"
    assert record["query_hash"] == text_hash(QUERY)
    assert record["certificate"]["gap"] == picked.result.certificate.gap
    assert record["backend"] == "cpu"
    assert record["timings"]["total"] > 0
    assert [source["hash"] for source in record["sources"]] == [text_hash(p["text"]) for p in PASSAGES]
    assert [source["tokens"] for source in record["sources"]] == [8, 6, 8, 17]
    assert record["stages"]["materialised"]
    for piece in record["stages"]["materialised"]:
        text = PASSAGES[piece["passage"]]["text"]
        assert text[slice(*piece["span"])] == picked.text[slice(*piece["context"])]
        if piece["source"] is not None:
            assert piece["source"] == [piece["span"][0] + 7, piece["span"][1] + 7]
    by_id = {candidate["id"]: candidate for candidate in record["candidates"]}
    assert {by_id[name]["reason"] for name in record["stages"]["selected"]} == {"selected"}
    assert "Norland" not in json.dumps({k: v for k, v in record.items() if k != "sources"})


def test_ids_buckets_and_texts_are_asked_for(path):
    ig.select(QUERY, PASSAGES, 12, trace=Trace(path, query_id="q1", bucket="short", text=True))
    ig.select(QUERY, PASSAGES, 12, trace=Trace(path, query_id=str.upper, bucket=lambda query: str(len(query.split()))))
    first, second = read_trace(path)
    assert (first["query_id"], first["bucket"], first["query"]) == ("q1", "short", QUERY)
    assert first["context"]
    assert (second["query_id"], second["bucket"]) == (QUERY.upper(), "4")
    assert "context" not in second
    assert first["config_hash"] == second["config_hash"]


def test_a_crash_loses_at_most_the_last_line(path):
    for _ in range(3):
        ig.select(QUERY, PASSAGES, 12, trace=path)
    whole = path.read_bytes()
    for cut in (1, 2, len(whole.splitlines()[-1]) // 2):
        path.write_bytes(whole[:-cut])
        ig.select(QUERY, PASSAGES, 12, trace=path)
        assert len(list(read_trace(path))) == (4 if cut == 1 else 3)


def test_a_line_of_another_version_is_refused(path):
    path.write_text('{"schema_version": 9}\n')
    with pytest.raises(RecordError, match="line 1: expected schema_version 1, got 9"):
        list(read_trace(path))


def test_a_trace_that_cannot_be_opened_says_so(tmp_path):
    with pytest.raises(OSError, match="missing"):
        ig.select(QUERY, PASSAGES, 12, trace=tmp_path / "missing" / "trace.jsonl")


def _crowd(path, worker):
    for k in range(40):
        append_line(path, json.dumps({"worker": worker, "line": k, "padding": "x" * (2000 * (k % 7))}))


def test_threads_and_processes_share_a_file(path):
    with ThreadPoolExecutor(4) as threads:
        context = multiprocessing.get_context("spawn")
        processes = [context.Process(target=_crowd, args=(path, f"p{i}")) for i in range(3)]
        for process in processes:
            process.start()
        list(threads.map(lambda i: _crowd(path, f"t{i}"), range(4)))
        for process in processes:
            process.join()
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert len(lines) == 7 * 40
    for worker in {line["worker"] for line in lines}:
        assert [line["line"] for line in lines if line["worker"] == worker] == list(range(40))


def _until_killed(path, worker, wrote):
    k = 0
    while True:
        append_line(path, json.dumps({"worker": worker, "line": k, "padding": "x" * 100_000}))
        wrote.send(k)
        k += 1


def test_processes_that_are_killed_lose_nothing_that_they_wrote(path):
    context = multiprocessing.get_context("spawn")
    told = {}
    processes = []
    for worker in ("a", "b"):
        told[worker], theirs = context.Pipe(duplex=False)
        processes.append(context.Process(target=_until_killed, args=(path, worker, theirs)))
        processes[-1].start()
        theirs.close()
    written = dict.fromkeys(told, 0)
    while min(written.values()) < 30:
        for worker, pipe in told.items():
            if pipe.poll(0.01):
                written[worker] = pipe.recv()
    for process in processes:
        process.kill()
        process.join()
    for worker, pipe in told.items():
        try:
            while True:
                written[worker] = pipe.recv()
        except EOFError:
            pass
    ig.select(QUERY, PASSAGES, 12, trace=path)  # after whatever the crash left
    lines = [record for _, record in read_records(path)]
    assert lines[-1]["policy"] == "bridge"
    kept = [record for record in lines[:-1] if not isinstance(record, RecordError)]
    assert len(lines) - 1 - len(kept) <= len(told)
    for worker, last in written.items():
        numbers = [record["line"] for record in kept if record["worker"] == worker]
        assert numbers == list(range(len(numbers)))
        assert len(numbers) > last


def test_the_command_line_writes_traces(path, tmp_path, capsys):
    passages = tmp_path / "passages.jsonl"
    passages.write_text("".join(json.dumps(p) + "\n" for p in PASSAGES))
    assert main(["select", str(passages), "-q", QUERY, "-b", "12", "--trace", str(path)]) == 0
    command = ["evaluate", SAMPLE, "--retriever", "none", "--budget", "60", "--policies", "bridge,mmr"]
    assert main([*command, "--limit", "3", "--json", "--trace", str(path)]) == 0
    capsys.readouterr()
    records = list(read_trace(path))
    assert [record["policy"] for record in records] == ["bridge", *["bridge", "mmr"] * 3]
    assert len({record["query_id"] for record in records}) == 4
    for record in records:
        jsonschema.validate(record, schema())


def question(name, gold):
    return Question(name, QUERY, ("x",), (), tuple(gold), (), (("Blue Lake", 0),), None, None)


def test_runs_and_qrels_are_what_trec_tools_read(path):
    ig.select(QUERY, PASSAGES, 12, trace=Trace(path, query_id="q 1"), policy="naive")
    records = list(read_trace(path))
    retrieved, packed = list(trec_run(records, "retrieved")), list(trec_run(records, "packed", tag="mine"))
    assert retrieved == [
        "q%201 Q0 Blue%20Lake 1 3 retrieved",
        "q%201 Q0 Fog 2 2 retrieved",
        "q%201 Q0 Norland 3 1 retrieved",
    ]
    assert packed[0].startswith("q%201 Q0 Blue%20Lake 1 ")
    assert packed[0].endswith(" mine")
    qrels = list(trec_qrels([question("q 1", ["Blue Lake", "Norland"])]))
    gold = list(ir_measures.read_trec_qrels("\n".join([*qrels, ""])))
    nothing = trec_id("")
    assert nothing.split() == [nothing]

    def measured(run, measure):
        return ir_measures.calc_aggregate([measure], gold, list(ir_measures.read_trec_run("\n".join([*run, ""]))))[
            measure
        ]

    row = ig.diagnose([], question("q 1", ["Blue Lake", "Norland"]), ["Blue Lake", "Fog", "Norland"])
    assert measured(retrieved, ir_measures.R @ 1) == row.recall[1] == 0.5
    assert measured(retrieved, ir_measures.R @ 5) == row.recall[5] == 1.0
    assert measured(retrieved, ir_measures.nDCG @ 5) == pytest.approx(row.ndcg[5])
    assert measured(packed, ir_measures.SetR) == len(packed) / 2


def test_attributes_are_those_of_openinference(path):
    picked = ig.select(QUERY, PASSAGES, 12, trace=Trace(path, text=True), policy="submodular")
    ig.select(QUERY, PASSAGES, 12, trace=path)
    told, untold = map(openinference_attributes, read_trace(path))
    assert told["openinference.span.kind"] == OpenInferenceSpanKindValues.RERANKER.value
    assert told[RerankerAttributes.RERANKER_QUERY] == QUERY
    assert told[RerankerAttributes.RERANKER_MODEL_NAME] == "isinglass/submodular"
    out = RerankerAttributes.RERANKER_OUTPUT_DOCUMENTS
    for i, snippet in enumerate(picked.snippets):
        assert told[f"{out}.{i}.{DocumentAttributes.DOCUMENT_ID}"] == picked.record[snippet.candidate].id
        assert told[f"{out}.{i}.{DocumentAttributes.DOCUMENT_CONTENT}"] == snippet.text
    first = f"{RerankerAttributes.RERANKER_INPUT_DOCUMENTS}.0"
    assert json.loads(told[f"{first}.{DocumentAttributes.DOCUMENT_METADATA}"])["reason"] == picked.record[0].reason
    assert isinstance(told[f"{first}.{DocumentAttributes.DOCUMENT_SCORE}"], float)
    assert RerankerAttributes.RERANKER_QUERY not in untold
    assert not any(name.endswith("content") for name in untold)


def test_rows_under_the_names_of_ragas():
    row = ragas_row(
        "q", ["one"], response="r", reference="g", reference_contexts=("c",), context_ids=("a",), reference_ids=("b",)
    )
    assert row == {
        "user_input": "q",
        "retrieved_contexts": ["one"],
        "response": "r",
        "reference": "g",
        "reference_contexts": ["c"],
        "retrieved_context_ids": ["a"],
        "reference_context_ids": ["b"],
    }
    assert ragas_row("q", []) == {"user_input": "q", "retrieved_contexts": []}


def test_evaluate_records_texts_answers_and_gold_when_asked(tmp_path):
    told, untold = tmp_path / "told.jsonl", tmp_path / "untold.jsonl"
    command = ["evaluate", SAMPLE, "--policies", "bridge,naive", "--budget", "60", "--limit", "3"]
    assert main([*command, "--trace", str(told), "--trace-text"]) == 0
    assert main([*command, "--trace", str(untold)]) == 0
    for path, texts in ((told, True), (untold, False)):
        records = list(read_trace(path))
        assert len(records) == 6
        for record in records:
            jsonschema.validate(record, schema(), cls=jsonschema.Draft202012Validator)
            assert record["dataset"] == "questions"
            assert len(record["gold"]) >= 1
            assert ("answers" in record) == ("query" in record) == ("title" in record["sources"][0]) == texts
    assert main([*command, "--trace-text"]) == 2


def test_a_variant_is_traced_under_its_own_name(tmp_path):
    path = tmp_path / "trace.jsonl"
    evaluate(SAMPLE, policies=["mmr"], budgets=60, variants={"keen": ("mmr", {"relevance_weight": 0.9})}, trace=path)
    assert {(record["policy"], record.get("variant")) for record in read_trace(path)} == {
        ("mmr", None),
        ("mmr", "keen"),
    }
