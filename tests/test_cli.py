"""The command line: what it prints, where, and its exit codes."""

import gzip
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import isinglass
import pytest
from isinglass import console
from isinglass.cli import COMMANDS, main
from isinglass.passage_files import read_passages
from isinglass.records import RecordError

PASSAGES = ["Blue Lake lies in the hills.", "Grey Burn feeds Blue Lake.", "Old Mill is a ruin."]
QUESTION = {
    "id": "lake",
    "question": "Which river feeds Blue Lake?",
    "answers": ["Grey Burn"],
    "paragraphs": [
        {"title": "Blue Lake", "sentences": ["Grey Burn feeds Blue Lake."]},
        {"title": "Old Mill", "sentences": ["Old Mill is a ruin."]},
    ],
    "gold": ["Blue Lake"],
    "gold_idx": [0],
    "supporting_facts": [["Blue Lake", 0]],
}


@pytest.fixture
def passages(tmp_path):
    path = tmp_path / "passages.txt"
    path.write_text("\n".join([*PASSAGES[:2], "", PASSAGES[2], ""]))
    return path


@pytest.fixture
def questions(tmp_path):
    path = tmp_path / "questions.jsonl"
    path.write_text("".join(json.dumps(QUESTION | {"id": f"q{i}"}) + "\n" for i in range(3)))
    return path


@pytest.fixture
def run(capsys):
    def call(*arguments):
        code = main([str(argument) for argument in arguments])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return call


# The frame


def test_help_lists_every_command(run):
    code, out, err = run("--help")
    assert (code, err) == (0, "")
    for name, command in COMMANDS.items():
        assert name in out
        assert command.help.split()[0] in out


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_and_json(run, command):
    code, out, err = run(command, "--help")
    assert (code, err) == (0, "")
    assert f"usage: isinglass {command}" in out
    assert "--json" in out


def test_version(run):
    assert run("--version") == (0, f"isinglass {isinglass.__version__}\n", "")


def test_no_command_shows_help_and_stops(run):
    code, out, err = run()
    assert (code, out) == (2, "")
    assert "usage: isinglass" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["evalute"], "unknown command evalute, did you mean evaluate?"),
        (["frobnicate"], "unknown command frobnicate (commands: "),
        (["--verison"], "unknown option --verison, did you mean --version?"),
        (["evaluate", "--polices", "mmr", "f.jsonl"], "unknown option --polices, did you mean --policies?"),
        (["evaluate", "--bud", "9", "f.jsonl"], "unknown option --bud"),
        (["select", "--querry=x", "f.txt"], "unknown option --querry, did you mean --query?"),
        (["select", "f.txt", "-q", "x"], "the following arguments are required: --budget/-b"),
        (["backends", "extra"], "unrecognized arguments: extra"),
        (["evaluate", "f.jsonl", "--budget", "-1"], "argument --budget: expected an integer >= 0, got '-1'"),
        (["evaluate", "f.jsonl", "--budget", "9,,8"], "expected words with a comma between them, got '9,,8'"),
        (["evaluate", "f.jsonl", "--top-k", "0"], "argument --top-k: expected an integer >= 1 or all, got '0'"),
        (["evaluate", "f.jsonl", "--embed", "numpy"], "expected MODULE:FUNCTION, got 'numpy'"),
        (["evaluate", "f.jsonl", "--embed", "numpy:nothing"], "cannot import 'numpy:nothing'"),
        (["evaluate", "f.jsonl", "--embed", "numpy:pi"], "expected a function, got 'numpy:pi', a float"),
        (["evaluate", "f.jsonl", "-o", "/nowhere/out.json"], "expected a file in an existing folder"),
    ],
)
def test_misuse_stops_with_the_near_word(run, arguments, message):
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert "Traceback" not in err


def test_a_module_run_and_a_reader_that_leaves_early():
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-m", "isinglass", "backends", "--json"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["cpu"]["available"] is True
    reader, writer = os.pipe()
    os.close(reader)
    cut = subprocess.run(command, env=environment, stdout=writer, stderr=subprocess.PIPE, timeout=60, check=False)
    os.close(writer)
    assert (cut.returncode, cut.stderr) == (2, b"")


def test_ctrl_c_stops(run, questions, monkeypatch):
    def interrupted(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("isinglass.experiments.evaluation.evaluate", interrupted)
    assert run("evaluate", questions) == (2, "", "isinglass evaluate: error: interrupted\n")


# select


def test_select_prints_the_context(run, passages):
    code, out, err = run("select", "--query", "What feeds Blue Lake?", "--budget", "5", passages)
    assert (code, out, err) == (0, "Grey Burn feeds Blue Lake.\n", "")


def test_select_json_is_what_the_api_gives(run, passages):
    asked = ("-q", "What feeds Blue Lake?", "-b", "5", "--policy", "submodular")
    code, out, err = run("select", *asked, passages, "--json")
    assert (code, err) == (0, "")
    printed = json.loads(out)
    picked = isinglass.select("What feeds Blue Lake?", PASSAGES, 5, policy="submodular")
    assert printed["text"] == picked.text
    assert printed["indices"] == list(picked.indices) == [1]
    assert printed["cost"] == picked.cost == 5
    assert printed["counter"] == picked.counter
    assert [entry["reason"] for entry in printed["record"]] == [entry.reason for entry in picked.record]
    assert len(printed["record"]) == 3
    assert printed["result"]["certificate"]["upper_bound"] >= printed["result"]["objective"]


def test_select_options_reach_the_api(run, tmp_path):
    path = tmp_path / "p.jsonl"
    path.write_text("".join(json.dumps({"text": text, "title": f"T{i}"}) + "\n" for i, text in enumerate(PASSAGES)))
    options = ["--policy", "naive", "--render", "titled", "--order", "document", "--separator", " / "]
    code, out, _ = run("select", "-q", "What feeds Blue Lake?", "-b", "14", path, *options)
    assert (code, out) == (0, "T0\nBlue Lake lies in the hills. / T1\nGrey Burn feeds Blue Lake.\n")
    code, out, _ = run("select", "-q", "Blue Lake?", "-b", "14", path, "--policy", "mmr", "--json", "--measure", "p1")
    assert json.loads(out)["counter"] == "ascii_words"
    assert json.loads(out)["result"] is None


def test_select_reads_standard_input(run, monkeypatch):
    stdin = io.TextIOWrapper(io.BytesIO("\n".join(PASSAGES).encode()))
    monkeypatch.setattr(sys, "stdin", stdin)
    assert run("select", "-q", "What feeds Blue Lake?", "-b", "5", "-")[1] == "Grey Burn feeds Blue Lake.\n"


def test_select_writes_json_to_a_file(run, passages, tmp_path):
    out = tmp_path / "out.json"
    assert run("select", "-q", "x", "-b", "0", passages, "-o", out) == (0, "", "")
    assert json.loads(out.read_text())["text"] == ""


def test_an_empty_file_is_nothing_to_do(run, tmp_path):
    path = tmp_path / "empty.txt"
    path.write_text("\n")
    said = "nothing to do: no passage was left to select from\n"
    assert run("select", "-q", "x", "-b", "9", path) == (1, "\n", said)


def test_select_keeps_going_over_faulty_passages(run, tmp_path):
    path = tmp_path / "passages.jsonl"
    lines = ['{"text": "Grey Burn feeds Blue Lake."}', '{"txt": "half"', "7", '{"text": "Cats sleep.", "start": -1}']
    path.write_text("\n".join(lines))
    asked = ("select", "-q", "What feeds Blue Lake?", "-b", "5", path)
    code, out, err = run(*asked)
    assert (code, out) == (2, "")
    assert "line 2: expected one whole JSON object a line" in err
    code, out, err = run(*asked, "--keep-going")
    assert (code, out) == (1, "Grey Burn feeds Blue Lake.\n")
    assert err.count("skipped ") == 3
    assert "line 4: passage.start must be >= 0, got -1" in err
    code, out, _ = run(*asked, "--keep-going", "--json")
    report = json.loads(out)
    assert (code, report["skipped"]) == (1, 3)
    assert [fault["line"] for fault in report["skipped_records"]] == [2, 3, 4]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--policy", "mmmr"], "did you mean 'mmr'?"),
        (["--policy", "mmr", "--backend", "cpu"], "policy 'mmr' has no option 'backend'"),
        (["--policy", "submodular", "--backend", "gpu"], "unknown backend 'gpu'"),
    ],
)
def test_select_refuses_what_the_api_refuses(run, passages, options, message):
    code, out, err = run("select", "-q", "x", "-b", "9", passages, *options)
    assert (code, out) == (2, "")
    assert err.startswith("isinglass select: error: ")
    assert message in err


def test_a_missing_file_is_named(run, tmp_path):
    path = tmp_path / "none.txt"
    code, _, err = run("select", "-q", "x", "-b", "9", path)
    assert (code, err) == (2, f"isinglass select: error: {path}: No such file or directory\n")


# Passages from files


@pytest.mark.parametrize(
    ("name", "content", "passages"),
    [
        ("p.txt", '{"not": "json"}\n[1] A line.\r\n\n  B. \n', ['{"not": "json"}', "[1] A line.", "B."]),
        ("p", "[1] A numbered line.\n[2] Another.", ["[1] A numbered line.", "[2] Another."]),
        ("p", '"Quoted," he said.\nB.', ['"Quoted," he said.', "B."]),
        ("p", '["A.", {"text": "B."}]', ["A.", {"text": "B."}]),
        ("p", '\n [\n {"text": "B."}\n]', [{"text": "B."}]),
        ("p", '{"text": "A."}\n\n{"text": "B."}\n', [{"text": "A."}, {"text": "B."}]),
        ("p.jsonl", '"A."\n"B."\n', ["A.", "B."]),
        ("p.json", "[]", []),
        ("p", "[]", []),
        ("p", "", []),
        ("p", "\ufeffÉtang 北京\n", ["Étang 北京"]),
        ("p", "one\u2028line\x85still\n", ["one\u2028line\x85still"]),
    ],
)
def test_passages_are_lines_or_json_by_name_or_look(tmp_path, name, content, passages):
    path = tmp_path / name
    path.write_bytes(content.encode())
    assert read_passages(path).passages == passages
    path.with_suffix(path.suffix + ".gz").write_bytes(gzip.compress(content.encode()))
    assert read_passages(path.with_suffix(path.suffix + ".gz")).passages == passages


def test_the_format_may_be_named(tmp_path):
    path = tmp_path / "p"
    path.write_text('{"text": "A."}\n')
    assert read_passages(path, "text").passages == ['{"text": "A."}']
    path.write_text('"A."\n')
    assert read_passages(path, "json").passages == ["A."]
    with pytest.raises(ValueError, match="form must be one of 'auto', 'text', 'json', got 'csv'"):
        read_passages(path, "csv")


@pytest.mark.parametrize(
    ("content", "line", "message"),
    [
        (b'{"text": "A."}\n{"text": "B', 2, "expected one whole JSON object a line, got one that ends early"),
        (b'[{"text": "A."}, {"te', 1, "record 2: expected a whole JSON object"),
        (b'{"text": "A."}\n3\n', 2, "expected a passage, a string or an object with text, got 3"),
        (b"A.\nB \xff.\n", 2, "expected UTF-8, got byte 0xff"),
        (gzip.compress(b"A.\n" * 999)[:-9], 0, "expected a whole gzip stream"),
    ],
)
def test_a_broken_passage_file_is_named(tmp_path, content, line, message):
    path = tmp_path / "p"
    path.write_bytes(content)
    with pytest.raises(RecordError, match=message) as caught:
        read_passages(path)
    assert (caught.value.file, caught.value.line) == (str(path), line)


# evaluate


def test_evaluate_prints_a_table(run, questions):
    code, out, err = run("evaluate", questions, "--policies", "naive,mmr", "--budget", "5,9")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "budget 5 unicode_words; 3 questions, 0 skipped"
    assert lines[1].split() == ["recall", "all", "answer", "answer", "gold", "all", "gold", "other", "snip-"]
    assert lines[2].split() == [
        "policy",
        "@5",
        "gold@5",
        "p1",
        "defined",
        "docs",
        "gold",
        "tokens",
        "docs",
        "tokens",
        "pets",
    ]
    assert lines[4].split() == ["naive", *["1.0000"] * 7, "0.00", "5.0", "1.00"]
    assert lines[5].split()[0] == "mmr"
    assert max(map(len, lines)) < 80
    assert lines[6] == "evidence, budget 5 unicode_words; requirements by rules"
    assert lines[8].split() == [
        "policy",
        "prec.",
        "recall",
        "F1",
        "age",
        "direct",
        "support",
        "utility",
        "vance",
        "size",
    ]
    assert lines[10].split()[0] == "naive"
    assert lines[12] == "budget 9 unicode_words; 3 questions, 0 skipped"


def test_evaluate_prints_or_writes_json(run, questions, tmp_path):
    out_file = tmp_path / "out.json"
    code, out, err = run("evaluate", questions, "--policies", "naive", "--budget", "9", "--json", "-o", out_file)
    assert (code, err) == (0, "")
    report = json.loads(out)
    assert report == json.loads(out_file.read_text())
    assert {"questions": 3, "skipped": 0}.items() <= report.items()
    assert report["policies"]["naive"]["answer_in_context"] == {"p1": 1.0, "defined": 1.0}
    assert run("evaluate", questions, "--policies", "naive", "-o", out_file) == (0, "", "")


def test_evaluate_takes_every_option(run, questions, tmp_path):
    retrieved = tmp_path / "run.jsonl"
    lines = {"id": "q1", "documents": ["Old Mill", "Blue Lake"]}, {"id": "q7", "documents": []}
    retrieved.write_text("".join(json.dumps(line) + "\n" for line in lines))
    options = ["--measure", "p1", "--pool", "own", "--top-k", "1", "--backend", "cpu", "--limit", "2"]
    code, out, err = run("evaluate", questions, "--policies", "submodular", "--run", retrieved, "--json", *options)
    assert code == 0
    assert err.splitlines() == [
        "not evaluated, since no run lists them: 1 questions",
        "not evaluated, since no file holds them: 1 questions of the runs",
    ]
    report = json.loads(out)
    assert (report["questions"], report["not_in_run"]) == (1, 1)
    assert report["policies"]["submodular"]["recall@5"] == 0
    settings = {"measure": "p1", "pool": "own", "top_k": 1, "backend": "cpu", "retriever": "run", "budgets": [160]}
    assert settings.items() <= report["settings"].items()
    code, out, _ = run(
        "evaluate", questions, "--top-k", "all", "--retriever", "none", "--candidates", "sentences", "--json"
    )
    assert json.loads(out)["settings"]["top_k"] is None


def test_evaluate_embeds_by_a_function_from_the_current_folder(run, questions, tmp_path, monkeypatch):
    (tmp_path / "my_embedding.py").write_text("def embed(texts):\n    return [[len(text), 1.0] for text in texts]\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [folder for folder in sys.path if folder])
    code, _, err = run("evaluate", questions, "--retriever", "embed", "--embed", "my_embedding:embed")
    assert (code, err) == (0, "")
    code, _, err = run("evaluate", questions, "--retriever", "embed")
    assert code == 2
    assert "retriever 'embed' must have embed" in err


def test_a_broken_line_stops_or_is_passed_over(run, questions):
    with questions.open("a") as stream:
        stream.write('{"id": "q9", "quest')
    code, out, err = run("evaluate", questions, "--policies", "naive")
    assert (code, out) == (2, "")
    assert f"isinglass evaluate: error: {questions}, line 4: expected one whole JSON object a line" in err
    code, out, err = run("evaluate", questions, "--policies", "naive", "--keep-going", "--json")
    assert code == 1
    assert err.startswith(f"skipped {questions}, line 4: expected one whole JSON object a line")
    report = json.loads(out)
    assert (report["questions"], report["skipped"]) == (3, 1)
    assert report["skipped_records"][0]["line"] == 4


def test_nothing_to_do_has_its_own_exit_code(run, tmp_path):
    path = tmp_path / "empty.jsonl"
    path.write_text("")
    code, out, err = run("evaluate", path)
    assert (code, out) == (1, "")
    assert err == "nothing to do: no question was left to evaluate\n"
    code, out, _ = run("evaluate", path, "--json")
    assert (code, json.loads(out)["questions"]) == (1, 0)


def test_an_absent_extra_is_named(run, questions, monkeypatch):
    monkeypatch.setitem(sys.modules, "bm25s", None)
    code, out, err = run("evaluate", questions)
    assert (code, out) == (2, "")
    assert "pip install 'isinglass[eval]'" in err


# backends


def test_backends_lists_what_the_api_lists(run):
    code, out, err = run("backends", "--json")
    assert (code, err) == (0, "")
    listed = json.loads(out)
    available = isinglass.available_backends()
    assert list(listed) == list(available)
    assert listed["cpu"]["device"] == available["cpu"].device
    code, out, _ = run("backends")
    assert code == 0
    assert all(name in out for name in available)


# Tables and progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_table_is_drawn_by_rich_on_a_terminal_and_aligned_without_it(monkeypatch):
    columns, rows = ["policy", "tokens\nin all"], [["naive", "9.5"], ["submodular", "151.0"]]
    drawn = Terminal()
    monkeypatch.setattr(sys, "stdout", drawn)
    console.print_table("A title", columns, rows)
    assert "─" in drawn.getvalue()
    assert "submodular" in drawn.getvalue()
    plain = Terminal()
    monkeypatch.setattr(sys, "stdout", plain)
    for name in [name for name in sys.modules if name.partition(".")[0] == "rich"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "rich", None)
    console.print_table("A title", columns, rows)
    assert plain.getvalue().splitlines() == [
        "A title",
        "           tokens",
        "policy     in all",
        "---------- ------",
        "naive         9.5",
        "submodular  151.0",
    ]


def test_progress_shows_on_a_terminal_only_and_leaves_nothing(monkeypatch):
    for stream, shown in ((Terminal(), True), (io.StringIO(), False)):
        monkeypatch.setattr(sys, "stderr", stream)
        with console.Progress("questions") as progress:
            progress(1, 2)
            progress(2, 2)
        assert ("\r1/2 questions\r2/2 questions" in stream.getvalue()) == shown
        assert (stream.getvalue() == "") != shown
        if shown:
            assert stream.getvalue().endswith(f"\r{' ' * len('2/2 questions')}\r")


def test_json_refuses_numbers_that_json_lacks(tmp_path):
    with pytest.raises(ValueError, match="not JSON compliant"):
        console.write_json(tmp_path / "x.json", {"x": float("nan")})
    assert not Path(tmp_path / "x.json").exists()


def test_json_keeps_every_script(tmp_path):
    console.write_json(tmp_path / "x.json", {"x": "北京 é"})
    assert "北京 é" in (tmp_path / "x.json").read_text(encoding="utf-8")


def test_evaluate_against_a_baseline(run, questions):
    code, out, err = run("evaluate", questions, "--policies", "naive,mmr", "--budget", "9", "--baseline", "naive")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    at = lines.index("budget 9: difference to naive [95 % paired bootstrap, 10,000 draws]")
    assert lines[at + 3].split()[0] == "mmr"
    assert "[" in lines[at + 3]
    assert max(map(len, lines)) < 80
    code, _, err = run("evaluate", questions, "--policies", "naive,mmr", "--baseline", "focused")
    assert code == 2
    assert "--baseline must be one of --policies (naive, mmr), got 'focused'" in err


def test_evaluate_says_what_is_odd_in_the_questions(run, tmp_path):
    paragraphs = [{"title": "Blue Lake", "sentences": ["Blue Lake is deep."]}]
    record = {"id": "a", "question": "Is Blue Lake deep?", "answers": ["yes"], "paragraphs": paragraphs}
    record |= {"gold": ["Blue Lake", "Nowhere"], "gold_idx": [0], "supporting_facts": [["Blue Lake", 7]]}
    path = tmp_path / "odd.jsonl"
    path.write_text(json.dumps(record))
    code, out, _ = run("evaluate", path, "--policies", "naive", "--budget", "9")
    assert code == 0
    assert out.splitlines()[-3:] == [
        "questions with gold that is not in their paragraphs: 1",
        "questions with supporting facts out of range: 1",
        "questions whose answer can stand in no text (yes, no, nothing): 1",
    ]
    code, out, _ = run("evaluate", path, "--policies", "naive", "--budget", "9", "--json")
    assert json.loads(out)["oddities"]["answers_not_spans"] == 1
