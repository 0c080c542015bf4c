"""The sample is what it claims to be, and the demonstration shows it as it is."""

from __future__ import annotations

import itertools
import json
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from isinglass import cli, demo, sample
from isinglass.demo import SHOWN
from isinglass.diagnosis import answer_in_context
from isinglass.experiments.datasets import Question

QUESTIONS = sample.questions()


def words(text: str) -> list[str]:
    return re.findall(r"[^\W_]+", text.lower())


def holds(text: str, answer: str) -> bool:
    return f" {' '.join(words(answer))} " in f" {' '.join(words(text))} "


def without_note(title: str) -> str:
    return re.sub(r" \(.*\)$", "", title)


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.id)
class TestEachQuestion:
    def test_has_ten_short_paragraphs_of_their_own(self, question: Question) -> None:
        assert len({paragraph.title for paragraph in question.paragraphs}) == 10
        for paragraph in question.paragraphs:
            assert 2 <= len(paragraph.sentences) <= 5
            assert 10 <= len(words(paragraph.text)) <= 40

    def test_gold_titles_positions_and_facts_agree(self, question: Question) -> None:
        titles = [paragraph.title for paragraph in question.paragraphs]
        assert [titles.index(title) for title in question.gold] == list(question.gold_idx)
        assert question.supporting_facts is not None
        assert {title for title, _ in question.supporting_facts} == set(question.gold)
        for title, sentence in question.supporting_facts:
            assert question.paragraphs[titles.index(title)].sentences[sentence]

    def test_answer_stands_in_needed_paragraphs_only(self, question: Question) -> None:
        holders = {paragraph.title for paragraph in question.paragraphs if holds(paragraph.text, question.answers[0])}
        assert holders
        assert holders <= set(question.gold)

    def test_every_further_hop_is_named_by_another(self, question: Question) -> None:
        gold = {p.title: p.text for p in question.paragraphs if p.title in question.gold}
        for title in gold:
            in_question = set(words(without_note(title))) <= set(words(question.question))
            named = any(holds(text, without_note(title)) for other, text in gold.items() if other != title)
            assert in_question or named

    def test_no_needed_paragraph_is_copied(self, question: Question) -> None:
        texts = [paragraph.text for paragraph in question.paragraphs]
        assert all(texts.count(texts[i]) == 1 for i in question.gold_idx)


def test_sample_has_both_kinds_of_question_and_duplicates() -> None:
    assert len(QUESTIONS) == 12
    kinds = [question.type for question in QUESTIONS]
    assert set(kinds) == {"bridge", "comparison"}
    assert min(kinds.count(kind) for kind in set(kinds)) >= 3
    copies = close = 0
    for question in QUESTIONS:
        for one, other in itertools.combinations([set(words(p.text)) for p in question.paragraphs], 2):
            copies += one == other
            close += 0.5 < len(one & other) / len(one | other) < 1
    assert copies >= 2
    assert close >= 2


@pytest.fixture(scope="module")
def shown() -> demo.Demonstration:
    return demo.run()


def test_every_policy_packs_every_question_within_the_budget(shown: demo.Demonstration) -> None:
    assert [packed.number for packed in shown.questions] == list(range(1, 13))
    for packed in shown.questions:
        assert set(packed.packings) == set(SHOWN)
        for packing in packed.packings.values():
            assert len(words(packing.context)) <= packing.tokens <= demo.BUDGET


def test_context_is_the_chosen_passages_and_the_rest_have_a_reason(shown: demo.Demonstration) -> None:
    for packed in shown.questions:
        texts = {paragraph.title: paragraph.text for paragraph in packed.question.paragraphs}
        for packing in packed.packings.values():
            assert list(packing.reasons) == list(texts)
            assert {title for title, reason in packing.reasons.items() if reason == "selected"} == set(packing.chosen)
            whole = words(" ".join(texts[title] for title in packing.chosen))
            if packing.proved is not None:
                assert words(packing.context) == whole
            else:  # sentences, under the titles of their passages
                assert set(words(packing.context)) <= {*whole, *words(" ".join(packing.chosen))}
            assert packing.all_gold == (set(packed.question.gold) <= set(packing.chosen))
            assert packing.answer_survived == holds(packing.context, packed.question.answers[0])


def test_some_answers_survive_under_some_policies_only(shown: demo.Demonstration) -> None:
    survival = [{packing.answer_survived for packing in packed.packings.values()} for packed in shown.questions]
    assert survival.count({True, False}) >= 4


def test_certificates_hold_and_are_not_empty(shown: demo.Demonstration) -> None:
    for packed in shown.questions:
        for packing in packed.packings.values():
            if packing.proved is not None:
                assert 0.5 < packing.proved <= packing.of_best + 1e-9
                assert packing.of_best <= 1 + 1e-9
        assert [name for name, packing in packed.packings.items() if packing.proved is None] == ["bridge", "qubo"]


def test_summary_counts_its_questions(shown: demo.Demonstration) -> None:
    for policy in SHOWN:
        summary = shown.summary(policy)
        packings = [packed.packings[policy] for packed in shown.questions]
        assert summary.answers_survived == sum(packing.answer_survived for packing in packings)
        assert summary.tokens == pytest.approx(sum(packing.tokens for packing in packings) / 12)


def test_a_copy_is_told_from_its_original() -> None:
    (packed,) = demo.run(budget=1000, question=3).questions
    for packing in packed.packings.values():
        assert packing.reasons["Cadder (mountain)"] == "duplicate_of:Mount Cadder"


def test_nothing_fits_into_nothing() -> None:
    for packed in demo.run(budget=0).questions:
        for packing in packed.packings.values():
            assert (packing.context, packing.tokens, packing.chosen) == ("", 0, ())
            assert packing.of_best in (1.0, None)
            assert not packing.answer_survived


@pytest.mark.parametrize(("keyword", "value"), [("budget", -1), ("budget", True), ("question", 0), ("question", 13)])
def test_out_of_range_is_refused_by_name(keyword: str, value: int) -> None:
    with pytest.raises(ValueError, match=keyword):
        demo.run(**{keyword: value})


class TestCommand:
    def run(self, capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
        assert cli.main(["demo", *arguments]) == 0
        return capsys.readouterr().out

    @pytest.mark.parametrize("columns", [60, 80, 120])
    def test_is_as_wide_as_asked_and_plain_where_no_terminal_is(
        self, columns: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("COLUMNS", str(columns))
        lines = self.run(capsys).splitlines()
        assert max(map(len, lines)) <= columns
        assert "\x1b" not in "".join(lines)

    def test_shows_every_policy_a_gain_and_a_loss(self, capsys: pytest.CaptureFixture[str]) -> None:
        printed = self.run(capsys)
        assert all(policy in printed for policy in SHOWN)
        assert "answer survived" in printed
        assert "answer lost" in printed
        assert "no room left" in printed

    def test_highlights_the_answer_on_a_terminal(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("FORCE_COLOR", "1")
        monkeypatch.setenv("TERM", "xterm-256color")
        monkeypatch.delenv("NO_COLOR", raising=False)
        assert re.search("\x1b\\[[0-9;]*7[0-9;]*mEddlestow\x1b", self.run(capsys, "--question", "1"))

    def test_one_question_is_shown_alone(self, capsys: pytest.CaptureFixture[str]) -> None:
        printed = self.run(capsys, "--question", "3", "--budget", "90")
        assert "Sorrel Observatory" in printed
        assert "Corrow" not in printed
        assert "90 tokens" in printed

    def test_json_is_the_same_but_for_the_clock(self, capsys: pytest.CaptureFixture[str]) -> None:
        first, second = (json.loads(self.run(capsys, "--json")) for _ in range(2))
        first.pop("seconds")
        second.pop("seconds")
        assert first == second
        assert first["budget"] == demo.BUDGET
        assert len(first["questions"]) == 12
        assert set(first["policies"]) == set(SHOWN)

    def test_wrong_number_stops_with_a_reason(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert cli.main(["demo", "--question", "13"]) == 2
        assert "question must be in [1, 12], got 13" in capsys.readouterr().err

    def test_without_rich_the_extra_is_named(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delitem(sys.modules, "isinglass.demo_tables", raising=False)
        monkeypatch.delattr("isinglass.demo_tables", raising=False)
        monkeypatch.setitem(sys.modules, "rich.console", None)
        assert cli.main(["demo"]) == 2
        assert "isinglass[app]" in capsys.readouterr().err
        assert json.loads(self.run(capsys, "--json"))["budget"] == demo.BUDGET

    def test_survives_a_terminal_without_unicode(self) -> None:
        code = "import sys; from isinglass.cli import main; sys.exit(main(['demo']))"
        env = {"PYTHONPATH": ":".join(sys.path), "PYTHONIOENCODING": "ascii", "COLUMNS": "80"}
        done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr.decode()
        assert b"submodular" in done.stdout

    def test_takes_under_two_seconds(self, capsys: pytest.CaptureFixture[str]) -> None:
        start = time.process_time()
        self.run(capsys)
        assert time.process_time() - start < 2


def test_evaluate_reads_the_sample(tmp_path: Path) -> None:
    out = tmp_path / "report.json"
    file = Path(sample.__file__).with_name("questions.jsonl")
    assert cli.main(["evaluate", str(file), "--retriever", "none", "--budget", "60", "-o", str(out)]) == 0
    report = json.loads(out.read_text(encoding="utf-8"))
    shown = demo.run()
    assert report["questions"] == 12
    for policy in SHOWN:
        survived = report["policies"][policy]["answer_in_context"]["p1"]
        assert round(12 * survived) == shown.summary(policy).answers_survived


def test_answers_are_spans_by_the_published_measure_too() -> None:
    for question in QUESTIONS:
        everything = " ".join(paragraph.text for paragraph in question.paragraphs)
        assert answer_in_context(everything, question.answers) == (True, True)
