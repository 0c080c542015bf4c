"""The settings in which the bridge policy is judged: public questions, their documents, and the split into halves."""

from __future__ import annotations

import hashlib
import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from isinglass.experiments.corpus import Corpus, Document
from isinglass.experiments.datasets import Question, read_questions
from isinglass.experiments.runs import read_run
from isinglass.measure import Passage
from isinglass.measure.text import ascii_words


class Setting(NamedTuple):
    """A data set, where its documents come from, and how many of them."""

    data: str
    pool: str  # own | pooled
    depth: int | None  # None: all


class Case(NamedTuple):
    """One question with its documents, best first."""

    question: Question
    passages: list[Passage]


def half(question_id: str) -> str:
    """The half of a question: settings are chosen on `tune`, figures are told of `test`."""
    return "test" if int(hashlib.sha1(question_id.encode()).hexdigest()[:8], 16) % 2 else "tune"


class Okapi:
    """Okapi BM25 as in the stored runs: k1 1.5, b 0.75, a negative idf replaced by a quarter of the mean."""

    def __init__(self, texts: Sequence[str]) -> None:
        counts = [Counter(ascii_words(text)) for text in texts]
        lengths = [sum(count.values()) for count in counts]
        frequency = Counter(word for count in counts for word in count)
        idf = {w: math.log(len(texts) - df + 0.5) - math.log(df + 0.5) for w, df in frequency.items()}
        floor = 0.25 * sum(idf.values()) / len(idf)
        mean = sum(lengths) / len(texts)
        self.size = len(texts)
        self.postings: dict[str, list[tuple[int, float]]] = defaultdict(list)
        for i, count in enumerate(counts):
            for word, tf in count.items():
                weight = idf[word] if idf[word] >= 0 else floor
                self.postings[word].append((i, weight * tf * 2.5 / (tf + 1.5 * (0.25 + 0.75 * lengths[i] / mean))))

    def ranking(self, query: str) -> list[int]:
        scores = [0.0] * self.size
        for word in ascii_words(query):
            for i, score in self.postings.get(word, ()):
                scores[i] += score
        return sorted(range(self.size), key=lambda i: -scores[i])


@cache
def _questions(path: Path) -> tuple[Question, ...]:
    return read_questions(path).questions


def cases(data: Path, setting: Setting, only: str | None = None) -> Iterator[Case]:
    """The questions of a setting: the five documents of the stored run, then the rest by the same BM25."""
    run = read_run(data / "runs" / f"{setting.data}_dev_{setting.pool}_bm25.jsonl")
    questions = [q for q in _questions(data / "qa" / f"{setting.data}_dev.jsonl.gz") if q.id in run]
    whole = Corpus(questions, merge_titles=True) if setting.pool == "pooled" else None
    index = Okapi([d.text for d in whole.documents]) if whole is not None and setting.depth != 5 else None
    for question in questions:
        if only is not None and half(question.id) != only:
            continue
        corpus = whole or Corpus([question], merge_titles=True)
        found: dict[Document, None] = dict.fromkeys(d for name in run[question.id] for d in corpus.find(name))
        if setting.depth != 5:
            okapi = index or Okapi([d.text for d in corpus.documents])
            found |= dict.fromkeys(corpus.documents[i] for i in okapi.ranking(question.question))
        documents = list(found)[: setting.depth]
        yield Case(question, [Passage(d.text, title=d.title, id=d.name, doc=d.name) for d in documents])
