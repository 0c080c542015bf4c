"""Answers in contexts of 160 words, one core: `pytest bench/bench_diagnosis.py`.

Contexts are paragraphs of real questions, four snippets each. The peer is how a scoring script does it: normalise the
context and each answer by the official rule, and look for the one in the other. Both must find the same.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import isinglass as ig
import numpy as np
import pytest
from isinglass.diagnosis import answers_in_contexts
from isinglass.diagnosis.normalisation import is_span, official_tokens
from isinglass.experiments.datasets import read_questions

WORDS, SNIPPETS = 160, 4


@pytest.fixture(scope="module")
def asked(request: pytest.FixtureRequest) -> tuple[list[list[str]], list[dict[str, Any]]]:
    """5,000 contexts, and the questions that they are of."""
    data: Path = request.getfixturevalue("data")
    contexts, questions = [], []
    for question in read_questions(data / "qa" / "hotpotqa_dev.jsonl.gz").questions:
        words = " ".join(paragraph.text for paragraph in question.paragraphs).split()
        for start in range(0, len(words) - WORDS, WORDS):
            if len(contexts) == 5000:
                return contexts, questions
            step = WORDS // SNIPPETS
            contexts.append([" ".join(words[at : at + step]) for at in range(start, start + WORDS, step)])
            questions.append({"answers": list(question.answers)})
    return contexts, questions


def by_script(contexts: list[list[str]], answers: list[list[str]]) -> list[float]:
    found = []
    for snippets, golds in zip(contexts, answers, strict=True):
        context = f" {' '.join(official_tokens(' '.join(snippets)))} "
        runs = [tokens for gold in golds if is_span(tokens := official_tokens(gold))]
        found.append(float(any(f" {' '.join(run)} " in context for run in runs)) if runs else np.nan)
    return found


@pytest.mark.benchmark(group="answers in 5,000 contexts")
def bench_answers_in_contexts(benchmark: Any, asked: Any) -> None:
    contexts, questions = asked
    answers = [question["answers"] for question in questions]
    found = benchmark(lambda: answers_in_contexts(contexts, answers))
    np.testing.assert_array_equal(found.defined, by_script(contexts, answers))


@pytest.mark.benchmark(group="answers in 5,000 contexts")
def bench_peer_script(benchmark: Any, asked: Any) -> None:
    contexts, questions = asked
    assert len(benchmark(lambda: by_script(contexts, [question["answers"] for question in questions]))) == len(contexts)


def bench_whole_diagnosis(benchmark: Any, asked: Any) -> None:
    contexts, questions = asked
    rows = benchmark(lambda: ig.diagnose(contexts, questions))
    assert 0 < rows.summary()["answer_in_context"]["mean"] < 1
