"""The report: its figures, its structure, and that texts stay texts; what a browser makes of it is tested apart."""

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import isinglass as ig
import numpy as np
import pytest
from isinglass.cli import main
from isinglass.diagnosis import read_trace
from isinglass.experiments.advice import advise
from isinglass.experiments.report import read_results, report_html
from isinglass.experiments.rows import Rows
from isinglass.experiments.statistics import bootstrap_mean, paired_bootstrap
from isinglass.experiments.summary import Key, Summary
from isinglass.experiments.traced import traced_rows

from tests.hostile_texts import HOSTILE, LINE, QUESTION, write_trace

SAMPLE = str(Path(ig.__file__).parent / "sample" / "questions.jsonl")


class Page(HTMLParser):
    """Elements with their attributes and texts, in order."""

    def __init__(self, html):
        super().__init__()
        self.elements = []
        self.texts = {}
        self.open = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        self.open.append(len(self.elements) - 1)

    def handle_data(self, text):
        if self.open:
            self.texts[self.open[-1]] = self.texts.get(self.open[-1], "") + text

    def handle_endtag(self, tag):
        while self.open and self.elements[self.open.pop()][0] != tag:
            pass

    def all(self, tag):
        return [
            (attributes, self.texts.get(i, "")) for i, (name, attributes) in enumerate(self.elements) if name == tag
        ]

    def json(self, name):
        return next(json.loads(text) for attributes, text in self.all("script") if attributes.get("id") == name)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    rows, trace = folder / "rows.parquet", folder / "trace.jsonl"
    command = ["evaluate", SAMPLE, "--policies", "bridge,naive,mmr", "--budget", "40,80", "--rows", str(rows)]
    assert main([*command, "--trace", str(trace), "--trace-text", "--retriever", "none"]) == 0
    return rows, trace


@pytest.fixture(scope="module")
def page(results):
    return Page(report_html(*read_results(results)))


def test_the_page_has_its_parts_and_nothing_from_elsewhere(page, results):
    html = report_html(*read_results(results))
    assert [attributes["id"] for attributes, _ in page.all("h2")] == [
        "headline-title", "curve-title", "funnel-title", "advice-title", "questions-title",
    ]  # fmt: skip
    assert not {tag for tag, _ in page.elements} & {"link", "img", "iframe", "object", "embed", "base", "form"}
    assert [attributes for tag, attributes in page.elements if "src" in attributes or "style" in attributes] == []
    assert {attributes["href"] for attributes, _ in page.all("a")} == {"#questions"}
    assert set(re.findall(r"https?://[^\"' ]*", html)) == {"http://www.w3.org/2000/svg"}
    assert "url(" not in html
    assert "@import" not in html
    script = page.all("script")
    assert [a.get("type") for a, _ in script].count(None) == 1
    labelled = {attributes.get("for") for attributes, _ in page.all("label")} - {None}
    assert labelled == set()  # every label holds its field
    assert page.elements[1][0] == "head"
    assert dict(page.elements)["html"]["lang"] == "en"


def test_only_the_pages_own_script_and_style_may_run(page):
    policy = next(a["content"] for a, _ in page.all("meta") if a.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'")
    for tag in ("script", "style"):
        text = next(text for attributes, text in page.all(tag) if "type" not in attributes)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    script = next(text for attributes, text in page.all("script") if "type" not in attributes)
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|Function\(|fetch|XMLHttp", script
    )


def test_headline_figures_are_those_of_the_rows(page, results):
    rows = Rows.read(results[0])
    tables = page.all("table")
    assert len(tables) == 2 + 1  # one a budget, and that of the conditions
    values = [float(a["data-value"]) for a, _ in page.all("td") if "data-value" in a]
    summary = Summary.of(rows)
    assert len(values) == 2 * 3 * len(summary.measures)
    expected = [
        np.nanmean(rows.where(policy=policy, budget=budget)[measure.name])
        for budget in (40, 80)
        for policy in ("bridge", "naive", "mmr")
        for measure in summary.measures
    ]
    np.testing.assert_allclose(values, expected)


def test_intervals_are_those_of_the_statistics(results):
    rows = Rows.read(results[0])
    summary = Summary.of(rows, baseline="naive")
    mine, other = (rows.where(policy=policy, budget=40)["gold_doc_coverage"] for policy in ("mmr", "naive"))
    found = summary.intervals[Key("mmr", 40)]["gold_doc_coverage"]
    np.testing.assert_allclose(found, bootstrap_mean(mine), rtol=1e-12)
    change = summary.differences[Key("mmr", 40)]["gold_doc_coverage"]
    np.testing.assert_allclose(change, paired_bootstrap(mine, other), atol=1e-12)
    assert Key("naive", 40) not in summary.differences


def test_advice_is_that_of_the_rows(page, results):
    (advice,) = advise(Rows.read(results[0]))
    said = [text.strip() for _, text in page.all("li")]
    assert said == list(advice.sentences())
    verdicts = [text for attributes, text in page.all("td") if "holds" in (attributes.get("class") or "")]
    assert verdicts == [condition.verdict for condition in advice.conditions]


def test_every_question_has_its_candidates_and_the_answer_is_marked(page, results):
    data = page.json("data")
    records = [json.loads(line) for line in Path(SAMPLE).read_text().splitlines()]
    assert data["questions"]["id"] == [record["id"] for record in records]
    assert data["questions"]["query"] == [record["question"] for record in records]
    marked = 0
    for i, record in enumerate(records):
        detail = page.json(f"d{i}")
        assert detail["answers"] == record["answers"]
        assert sorted(detail["picks"]) == sorted(f"{p},{b}" for p in range(3) for b in range(2))
        for key, pick in detail["picks"].items():
            policy, budget = map(int, key.split(","))
            row = data["results"][policy][budget]
            assert pick["cost"] == row["tokens"][i]
            assert [k for k, reason in enumerate(pick["reasons"]) if reason == 0] == sorted(pick["order"])
            if row["answer_in_context"][i] is not None and "\n\n" not in record["answers"][0]:
                assert isinstance(pick["context"], list) == (row["answer_in_context"][i] == 1)
                marked += isinstance(pick["context"], list)
    assert marked > 10


def test_the_reasons_are_those_of_the_trace(page, results):
    data = page.json("data")
    names = [name for name, _ in data["reasons"]]
    place = {name: i for i, name in enumerate(data["questions"]["id"])}
    for record in read_trace(results[1]):
        detail = page.json(f"d{place[record['query_id']]}")
        key = f"{data['policies'].index(record['policy'])},{data['budgets'].index(record['budget'])}"
        pick = detail["picks"][key]
        pool = detail["pools"][pick["pool"]]
        for candidate, code, held, gain in zip(record["candidates"], pick["reasons"], pool, pick["gains"], strict=True):
            passage, start, end, relevance, text = held
            assert (passage, [start, end]) == (candidate["passage"], candidate["span"])
            assert relevance == pytest.approx(candidate["relevance"], rel=1e-3)
            assert "".join(detail["texts"][text]) == candidate["text"]
            assert candidate["reason"].partition(":")[0] == (names[code] if code >= 0 else "duplicate_of")
            assert gain == (None if candidate["gain"] is None else pytest.approx(candidate["gain"], rel=1e-3))


def test_traces_alone_give_the_figures_of_the_rows(results):
    rows, traced = Rows.read(results[0]), traced_rows(read_trace(results[1]))
    assert len(rows) == len(traced)
    for name in traced.columns:
        np.testing.assert_array_equal(traced[name], rows[name], err_msg=name)
    assert {"answer_in_context", "all_gold_retrieved", "gold_doc_coverage", "tokens"} <= set(traced.columns)


def test_traces_without_texts_still_count_documents(tmp_path):
    bare = tmp_path / "bare.jsonl"
    command = ["evaluate", SAMPLE, "--policies", "bridge,naive", "--budget", "40", "--retriever", "none"]
    assert main([*command, "--trace", str(bare), "--rows", str(tmp_path / "rows.parquet")]) == 0
    rows, traced = Rows.read(tmp_path / "rows.parquet"), traced_rows(read_trace(bare))
    for name in ("gold_doc_coverage", "all_gold_in_context", "all_gold_retrieved", "distractor_docs", "gold_documents"):
        np.testing.assert_array_equal(traced[name], rows[name], err_msg=name)
    np.testing.assert_allclose(traced["gold_token_density"], rows["gold_token_density"])
    assert not {"answer_in_context", "answer_in_context_p1", "failure"} & set(traced.columns)
    assert "advice-title" not in report_html(traced)


def test_traffic_without_ids_and_gold_makes_a_report(tmp_path):
    path = tmp_path / "trace.jsonl"
    for question in ("Where is Blue Lake?", "Who rules Norland?"):
        ig.select(question, ["Blue Lake lies in Norland.", "Fog is wet."], 10, trace=path)
    page = Page(report_html(*read_results([path])))
    assert [len(name) for name in page.json("data")["questions"]["id"]] == [64, 64]
    assert page.json("data")["texts"] == "none"
    assert page.json("d1")["picks"]["0,0"]["cost"] <= 10


def test_hostile_texts_stay_texts(tmp_path):
    html = report_html(*read_results([write_trace(tmp_path / "trace.jsonl")]))
    html.encode("utf-8")
    page = Page(html)
    assert {tag for tag, _ in page.elements}.isdisjoint({"b", "i", "u", "s", "em", "img"} - {"b"})
    assert len(page.all("b")) == 3  # those of the funnel's caption
    assert len(page.all("script")) == 2 + 2
    assert len(page.all("style")) == 1
    data = page.json("data")
    assert data["questions"]["query"][0] == QUESTION
    texts = {"".join(text) for text in page.json("d0")["texts"]}
    assert {text.replace("x" * 1_000, LINE) for text in HOSTILE.values()} <= texts
    assert [a for tag, a in page.elements if any(name.startswith("on") for name in a)] == []


def test_a_lone_surrogate_and_a_line_end_inside_of_json_are_escaped():
    rows = Rows.of([{"question": "\ud800 </script> \u2028", "policy": "p", "budget": 1.0, "tokens": 1.0}])
    html = report_html(rows)
    html.encode("utf-8")
    assert Page(html).json("data")["questions"]["id"] == ["\ud800 </script> \u2028"]


def test_the_page_says_what_was_not_recorded(results, tmp_path):
    rows, _ = results
    assert "No trace was given" in report_html(*read_results([rows]))
    bare = tmp_path / "bare.jsonl"
    command = ["evaluate", SAMPLE, "--policies", "bridge,naive,mmr", "--budget", "40,80", "--retriever", "none"]
    assert main([*command, "--trace", str(bare)]) == 0
    html = report_html(*read_results([rows, bare]))
    assert "Texts were not recorded" in html
    assert Page(html).json("d0")["pools"][0][0][4] is None
    assert "No trace was given" not in html
    both = report_html(*read_results([rows, bare, results[1]]))
    assert "Texts were not recorded for some" in both


def test_lines_on_what_is_not_in_the_rows_are_counted(results):
    rows = Rows.read(results[0]).where(policy=["bridge", "mmr"])
    assert "24 trace lines are on no row" in report_html(rows, read_trace(results[1]))


def test_the_same_results_give_the_same_page(results):
    assert report_html(*read_results(results)) == report_html(*read_results(results))


ROW = {"dataset": "d", "question": "q", "policy": "p", "budget": 10.0, "tokens": 5.0}


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "got none named 'question'"),
        ([{"question": "q", "policy": "p"}], "got none named 'budget'"),
        ([ROW, ROW], "got two of question 'q' of 'd', policy 'p', budget 10"),
    ],
)
def test_rows_that_are_no_table_of_evaluate(rows, message):
    with pytest.raises(ValueError, match=message):
        report_html(Rows.of(rows))


def test_a_baseline_must_be_there():
    with pytest.raises(ValueError, match=r"baseline must be one of the policies \(p\), got 'x'"):
        report_html(Rows.of([ROW]), baseline="x")


def test_retrievers_and_readers_that_vary_are_part_of_the_name():
    rows = Rows.of([ROW | {"retriever": r, "reader": reader} for r in ("x", "y") for reader in ("m", "n")])
    summary = Summary.of(rows)
    assert summary.policies == ("p · x · m", "p · x · n", "p · y · m", "p · y · n")
    with pytest.raises(ValueError, match="traces name no retriever: expected rows of one, got x, y"):
        report_html(rows, [{"budget": 10}])


def test_stages_follow_one_another():
    cases = [  # retrieved, coverage, all gold, answer in context, em, last stage
        (0, 1, 1, 1, 1, 0),
        (1, 0, 0, 1, 1, 1),
        (1, 0.5, 0, 0, 0, 2),
        (1, 0.5, 0, 1, 0, 3),
        (1, 1, 1, None, 0, 3),
        (1, 0.5, 0, None, 0, 2),
        (1, 1, 1, 1, 1, 4),
        (None, None, None, 1, 1, None),
    ]
    names = ("all_gold_retrieved", "gold_doc_coverage", "all_gold_in_context", "answer_in_context", "em")
    rows = [
        ROW | {"question": str(i), "bucket": "b" if i < 3 else None} | dict(zip(names, case))
        for i, case in enumerate(cases)
    ]
    summary = Summary.of(Rows.of(rows))
    key = Key("p", 10)
    assert [None if np.isnan(stage) else int(stage) for stage in summary.stage(key)] == [case[-1] for case in cases]
    assert summary.funnel(key) == (7, 6, 5, 3, 1)
    assert summary.funnel(key, "b") == (3, 2, 1, 0, 0)
    assert summary.funnel(key, "") == (4, 4, 4, 3, 1)


def test_the_command_line(results, tmp_path, capsys):
    rows, trace = map(str, results)
    out, figures = tmp_path / "report.html", tmp_path / "figures"
    capsys.readouterr()
    assert main(["report", rows, trace, "-o", str(out), "--figures", str(figures), "--json"]) == 0
    written = json.loads(capsys.readouterr().out)
    assert written["report"] == str(out)
    assert out.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    names = {Path(path).name for path in written["figures"]}
    assert {"intervals.svg", "intervals.png", "curve-answer_in_context.svg", "losses-40.png"} <= names
    assert {path.name for path in figures.iterdir()} == names
    for path in figures.iterdir():
        start = path.read_bytes()[:200]
        assert start.startswith(b"\x89PNG") if path.suffix == ".png" else b"<?xml" in start
    again = tmp_path / "again"
    assert main(["report", rows, "-o", str(out), "--figures", str(again)]) == 0
    assert (again / "losses-40.svg").read_bytes() == (figures / "losses-40.svg").read_bytes()
    assert main(["report", SAMPLE, "-o", str(out)]) == 2
    assert "expected a table (.parquet, .csv)" in capsys.readouterr().err
    assert main(["report", str(tmp_path / "no.csv"), "-o", str(out)]) == 2


def test_what_is_missing_is_named(monkeypatch, results):
    monkeypatch.setitem(__import__("sys").modules, "jinja2", None)
    with pytest.raises(ImportError, match=r"isinglass\[app\]"):
        report_html(*read_results(results))
