"""The report in a real browser: it opens, sorts, filters and highlights, by mouse and by keyboard, and stays quiet."""

import json
import shutil

import pytest
from isinglass.diagnosis import read_trace
from isinglass.experiments.report import read_results, write_report

from tests.hostile_texts import LINE, write_trace
from tests.test_report import SAMPLE, results  # noqa: F401

pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright (extra browser)")
    if (chromium := shutil.which("chromium")) is None:
        pytest.skip("needs the Debian package chromium")
    with playwright.sync_playwright() as driver:
        running = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield running
        running.close()


@pytest.fixture
def visit(browser):
    """Opens a page; afterwards it must have asked for nothing, and complained of nothing."""
    opened, requests, complaints = [], [], []

    def visit(path, **options):
        context = browser.new_context(viewport={"width": 1280, "height": 900}, **options)
        page = context.new_page()
        page.on("request", lambda request: requests.append(request.url))
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(path.as_uri())
        opened.append((context, path.as_uri()))
        return page

    yield visit
    for context, _ in opened:
        context.close()
    assert requests == [address for _, address in opened]
    assert complaints == []


@pytest.fixture(scope="module")
def report(results, tmp_path_factory):  # noqa: F811
    path = tmp_path_factory.mktemp("report") / "report.html"
    write_report(path, *read_results(results))
    return path


def shown(page):
    return page.eval_on_selector_all("#list .row .query", "rows => rows.map(row => row.textContent)")


def questions():
    with open(SAMPLE, encoding="utf-8") as file:
        return [json.loads(line)["question"] for line in file]


def test_it_opens_with_a_question_and_the_answer_highlighted(report, visit):
    page = visit(report)
    asked = questions()
    assert page.locator("#count").inner_text() == "12 questions"
    assert shown(page) == asked[: len(shown(page))]
    assert page.locator("#detail h3").inner_text() == asked[0]
    marks = page.locator("#detail mark").all_inner_texts()
    with open(SAMPLE, encoding="utf-8") as file:
        answers = json.loads(next(file))["answers"]
    assert marks
    assert {mark.lower() for mark in marks} <= {answer.lower() for answer in answers}
    for section in ("curve", "funnel", "questions"):
        assert page.locator(f"#{section}").is_visible()
    assert page.locator("#curve svg").count() == 2


def test_reasons_are_those_of_the_trace(report, visit, results):  # noqa: F811
    page = visit(report)
    budget = int(page.locator("input[name=budget]:checked + span").inner_text())
    record = next(r for r in read_trace(results[1]) if (r["policy"], r["budget"]) == ("naive", budget))
    side = page.locator(".side-of.is-b")
    assert side.locator("h4").inner_text() == "naive"
    fates = side.locator(".fate").all_inner_texts()
    assert len(fates) == len(record["candidates"])
    assert fates.count("packed") == len(record["stages"]["selected"])
    assert fates.count("no room left") == sum(c["reason"] == "budget" for c in record["candidates"])
    context = side.locator(".context").inner_text()
    assert " ".join(context.split()) == " ".join(record["context"].split())


def test_it_sorts_filters_and_searches(report, visit):
    page = visit(report)
    asked = questions()
    page.select_option("#sort", label="words of the question")
    by_words = sorted(asked, key=str.lower)
    assert shown(page) == by_words[: len(shown(page))]
    page.click("#direction")
    assert shown(page) == by_words[::-1][: len(shown(page))]
    page.fill("#search", "lighthouse")
    assert shown(page) == [question for question in by_words[::-1] if "lighthouse" in question.lower()]
    page.fill("#search", "no such words")
    assert page.locator("#list .empty").is_visible()
    page.fill("#search", "")
    counts = []
    for label in ("only A keeps the answer", "only B keeps the answer", "both keep it", "neither keeps it"):
        page.select_option("#outcome", label=label)
        counts.append(int(page.locator("#count").inner_text().split()[0]))
    assert sum(counts) == 12
    page.select_option("#outcome", label="A and B differ")
    assert int(page.locator("#count").inner_text().split()[0]) == counts[0] + counts[1]


def test_headline_sorts_by_a_heading(report, visit):
    page = visit(report)
    table = page.locator("table.headline:visible")
    button = table.get_by_role("button", name="Tokens", exact=True)
    cell = "tbody tr td:nth-last-child(2)"
    values = lambda: [float(value) for value in table.locator(cell).all_inner_texts()]  # noqa: E731
    button.click()
    assert values() == sorted(values(), reverse=True)
    button.press("Enter")
    assert values() == sorted(values())
    assert table.locator("th[aria-sort=ascending]").inner_text().startswith("Tokens")


def test_policies_and_budget_change_what_is_shown(report, visit):
    page = visit(report)
    page.select_option("#a", label="mmr")
    assert page.locator(".side-of.is-a h4").inner_text() == "mmr"
    assert page.locator("#funnel tr.is-a .who").first.inner_text() == "mmr"
    page.locator("input[name=budget]").first.check(force=True)
    assert page.locator("table.headline:visible").count() == 1
    assert page.locator(".side-of.is-a .tokens").inner_text().endswith("of 40 tokens")
    page.select_option("#b", label="mmr")
    assert page.locator(".side-of").count() == 1


def test_all_can_be_done_by_keyboard(report, visit):
    page = visit(report)
    asked = questions()
    page.keyboard.press("j")
    assert page.locator("#detail h3").inner_text() == asked[1]
    page.keyboard.press("k")
    assert page.locator("#detail h3").inner_text() == asked[0]
    page.focus("#list")
    for key, place in (("ArrowDown", 1), ("End", 11), ("ArrowUp", 10), ("Home", 0), ("PageDown", None)):
        page.keyboard.press(key)
        if place is not None:
            assert page.locator("#detail h3").inner_text() == asked[place]
        active = page.get_attribute("#list", "aria-activedescendant")
        assert page.get_attribute(f"#{active}", "aria-selected") == "true"
    page.keyboard.press("/")
    page.keyboard.type("lighthouse")
    assert page.evaluate("document.activeElement.id") == "search"
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.id") == "list"
    assert page.input_value("#search") == ""
    page.evaluate("document.activeElement.blur()")
    reached = []
    for _ in range(60):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.id || document.activeElement.name || ''"))
    assert {"budget", "a", "b", "search", "outcome", "sort", "direction", "list"} <= set(reached)


@pytest.mark.parametrize("width", [360, 480, 1280])
def test_no_width_scrolls_sideways(report, visit, width):
    page = visit(report)
    page.set_viewport_size({"width": width, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") == width


def test_dark_and_light_are_readable(report, visit):
    """Text against its ground has the contrast that WCAG 2 asks for, 4.5 to 1."""
    contrast = """() => {
      const light = (c) => c.match(/[\\d.]+/g).slice(0, 3).map((v) => v / 255)
        .map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
        .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
      const ground = (e) => { for (; e; e = e.parentElement) {
        const c = getComputedStyle(e).backgroundColor; if (!/, 0\\)|transparent|color/.test(c)) return c; } };
      const found = [];
      const texts = "h1, p, small, td, th, .sub, .query, .fate, .numbers, mark, .who, label";
      for (const e of document.querySelectorAll(texts)) {
        if (!e.offsetParent || !e.textContent.trim()) continue;
        const [a, b] = [light(getComputedStyle(e).color), light(ground(e))];
        found.push([(Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), e.className || e.tagName]);
      }
      return found.sort((p, q) => p[0] - q[0])[0];
    }"""
    for scheme in ("light", "dark"):
        ratio, where = visit(report, color_scheme=scheme).evaluate(contrast)
        assert ratio >= 4.5, (scheme, where)


def test_hostile_texts_break_nothing(visit, tmp_path):
    path = tmp_path / "hostile.html"
    write_report(path, *read_results([write_trace(tmp_path / "trace.jsonl")]))
    page = visit(path)
    page.locator("input[name=budget]").last.check(force=True)
    for policy in ("bridge", "naive"):
        page.select_option("#a", label=policy)
        for _ in range(2):
            page.keyboard.press("j")
            page.wait_for_selector(".side-of")
    assert page.evaluate("window.broken") is None
    assert page.locator("body").is_visible()
    assert page.evaluate("document.querySelectorAll('main b, main i, main u, main s, main img').length") == 4
    text = page.locator("#detail").inner_text()
    assert "<img src=x onerror='window.broken = 2'> <!-- ]]> {{ 7 * 7 }}" in text
    for code in ("U+202E", "U+0000", "U+001B", "U+2066"):
        assert code in text
    assert len(text) < 40_000
    assert page.evaluate("document.documentElement.scrollWidth") == 1280
    more = page.locator(".more", has_text="1,000,01").first
    more.click()
    assert page.evaluate("Math.max(...[...document.querySelectorAll('.words')].map(e => e.textContent.length))") > len(
        LINE
    )
    assert page.evaluate("document.documentElement.scrollWidth") == 1280
    page.keyboard.press("k")
    assert len(page.locator("#detail").inner_text()) < 40_000
