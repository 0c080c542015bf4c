"""The BM25 tables of the published packers, reproduced to the digit from the stored retrieval runs.

`data/p1_tables.tsv` holds what the published packers of Bala (2026) give on the public questions (ours to compare
with; `packed` is the policy that the paper calls naive). Every column of every row must be equal as printed.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from isinglass import diagnosis
from isinglass.experiments.datasets import Question, read_questions
from isinglass.experiments.retrieval import by_run
from isinglass.experiments.runs import read_run
from isinglass.measure import Pool, prepare
from isinglass.policies import choose

with (Path(__file__).parent / "data" / "p1_tables.tsv").open(newline="") as file:
    ROWS = tuple(csv.DictReader(file, delimiter="\t"))
TABLES = tuple(dict.fromkeys((row["part"], row["pool"], row["budget"]) for row in ROWS))


@cache
def pools(data: Path, part: str, pool: str) -> tuple[tuple[Question, Pool], ...]:
    """Every question with its measured candidates: the five documents of the run, in order."""
    limit = 500 if pool == "pooled" else None
    questions = read_questions(data / "qa" / f"{part}.jsonl.gz", limit=limit).questions
    run = read_run(data / "runs" / f"{part}_{pool}_bm25.jsonl")
    retrieve = by_run(run, questions, pool={"own": "own", "pooled": "file"}[pool], top_k=5, published=True)
    measured = []
    for question in questions:
        passages = [{"text": d.text, "title": d.title, "id": d.name} for d in retrieve(question)]
        measured.append((question, prepare(question.question, passages, measure="p1")))
    return tuple(measured)


def measures(question: Question, pool: Pool, order: Sequence[int]) -> list[float | None]:
    documents = [pool.passages[pool.passage[i]].id for i in order]
    costs = pool.costs[list(order)].tolist()
    in_context = diagnosis.answer_in_context(" ".join(pool.texts[i] for i in order), question.answers)
    return [
        in_context.p1,
        in_context.defined,
        diagnosis.gold_doc_coverage(documents, question.gold_documents),
        diagnosis.all_gold_in_context(documents, question.gold_documents),
        diagnosis.gold_token_density(documents, costs, question.gold_documents),
        diagnosis.distractor_docs(documents, question.gold_documents),
        sum(costs),
        len(order),
    ]


@pytest.mark.parametrize(
    ("part", "pool", "budget"),
    [pytest.param(*table, marks=() if table[2] == "160" else pytest.mark.full, id="-".join(table)) for table in TABLES],
)
def test_published_table(data: Path, part: str, pool: str, budget: str) -> None:
    measured = pools(data, part, pool)
    for row in (row for row in ROWS if (row["part"], row["pool"], row["budget"]) == (part, pool, budget)):
        values = []
        for question, candidates in measured:
            choice = choose(candidates, row["policy"], int(budget))
            assert candidates.costs[list(choice.order)].sum() <= int(budget)
            values.append(measures(question, candidates, choice.order))
        table = np.array(values, dtype=float)
        got = [str(len(table)), str(np.count_nonzero(~np.isnan(table[:, 1])))]
        got += [f"{mean:.{2 if k == 6 else 4}f}" for k, mean in enumerate(np.nanmean(table, axis=0))]
        assert got == list(row.values())[4:], row["policy"]
