"""The report of a thousand questions: how long it takes to make, and to open in a browser until it can be used."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import isinglass as ig
import pytest
from isinglass.diagnosis import Trace
from isinglass.experiments.evaluation import evaluate
from isinglass.experiments.report import read_results, report_html

POLICIES = ("bridge", "submodular", "focused", "naive")


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Rows and traces of 1,000 questions (the sample of twelve, again and again), four policies, two budgets."""
    folder = tmp_path_factory.mktemp("results")
    lines = (Path(ig.__file__).parent / "sample" / "questions.jsonl").read_text(encoding="utf-8").splitlines()
    many = [line.replace('"id": "', f'"id": "{i}-', 1) for i in range(84) for line in lines][:1000]
    questions, rows, trace = folder / "questions.jsonl", folder / "rows.parquet", folder / "trace.jsonl"
    questions.write_text("\n".join(many), encoding="utf-8")
    found = evaluate(questions, policies=POLICIES, budgets=[40, 80], retriever="none", trace=Trace(trace, text=True))
    found.table.write(rows)
    return [rows, trace]


@pytest.fixture(scope="module")
def page(results: list[Path]) -> Path:
    path = results[0].with_name("report.html")
    path.write_text(report_html(*read_results(results)), encoding="utf-8")
    return path


def bench_make_full(benchmark: Any, results: list[Path]) -> None:
    """1,000 questions, 8,000 traced selections, with intervals."""
    html = benchmark.pedantic(lambda: report_html(*read_results(results)), rounds=1)
    assert html.count('type="application/json"') == 1001


def bench_open_full(benchmark: Any, page: Path) -> None:
    """From the address to a page with the list drawn and the first question open; must be under 2 s."""
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright (extra browser)")
    if (chromium := shutil.which("chromium")) is None:
        pytest.skip("needs the Debian package chromium")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])

        def visit() -> Any:
            tab = browser.new_page()
            tab.goto(page.as_uri())
            tab.wait_for_selector("#list .row[aria-selected=true]")
            tab.wait_for_selector(".side-of .candidates li")
            return tab

        tab = benchmark.pedantic(visit, rounds=5, warmup_rounds=1)
        assert tab.locator("#count").inner_text() == "1,000 questions"
        assert 0 < tab.locator("#list .row").count() < 40  # only what is in sight is drawn
        browser.close()
