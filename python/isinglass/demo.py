"""The demonstration: every policy packs the sample questions. Whose answers survive? (`demo_tables` prints it.)"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from statistics import fmean
from time import perf_counter
from typing import Any

import numpy as np

from isinglass import sample
from isinglass.certificate import certify
from isinglass.diagnosis import all_gold_in_context, answer_in_context
from isinglass.experiments.datasets import Question
from isinglass.measure import prepare
from isinglass.policies import POLICIES
from isinglass.problems import gate
from isinglass.selecting import Selected, select
from isinglass.solving import solve

BUDGET = 60


@dataclass(frozen=True)
class Packing:
    """What one policy made of one question.

    Attributes
    ----------
    context : str
        Exactly what a reader would see.
    tokens : int
        What it costs.
    chosen : tuple of str
        Titles of the passages kept, in order of choice.
    reasons : dict of str to str
        By title, for every passage: `selected`, or why it was dropped.
    answer_survived, all_gold : bool
        Whether the answer stands in the context; whether every passage that the question needs is kept.
    proved : float
        The certificate: by the packing objective, the choice is at least this share of the best within the budget.
    of_best : float
        What that share is, by enumeration of every choice.
    """

    context: str
    tokens: int
    chosen: tuple[str, ...]
    reasons: dict[str, str]
    answer_survived: bool
    all_gold: bool
    proved: float
    of_best: float


@dataclass(frozen=True)
class Packed:
    """A question of the sample, its number (from 1), the tokens of its passages by title, its packings by policy."""

    number: int
    question: Question
    tokens: dict[str, int]
    packings: dict[str, Packing]


@dataclass(frozen=True)
class Summary:
    """One policy over all questions: two counts, then means."""

    answers_survived: int
    all_gold: int
    tokens: float
    proved: float
    of_best: float


@dataclass(frozen=True)
class Demonstration:
    """What `run` returns; `counter` names what counts tokens, `seconds` is the time from texts to contexts."""

    budget: int
    counter: str
    seconds: float
    questions: tuple[Packed, ...]

    def summary(self, policy: str) -> Summary:
        """Counts and means of one policy over the questions."""
        packings = [packed.packings[policy] for packed in self.questions]
        return Summary(
            answers_survived=sum(packing.answer_survived for packing in packings),
            all_gold=sum(packing.all_gold for packing in packings),
            tokens=fmean(packing.tokens for packing in packings),
            proved=fmean(packing.proved for packing in packings),
            of_best=fmean(packing.of_best for packing in packings),
        )

    def as_dict(self) -> dict[str, Any]:
        """For JSON: summaries by policy, then every question with its packings by policy."""
        return {
            "budget": self.budget,
            "counter": self.counter,
            "seconds": self.seconds,
            "policies": {policy: asdict(self.summary(policy)) for policy in POLICIES},
            "questions": [
                {
                    "number": packed.number,
                    "id": packed.question.id,
                    "question": packed.question.question,
                    "answers": packed.question.answers,
                    "gold": packed.question.gold,
                    "tokens": packed.tokens,
                    "packings": {policy: asdict(packing) for policy, packing in packed.packings.items()},
                }
                for packed in self.questions
            ],
        }


def run(budget: int = BUDGET, question: int | None = None) -> Demonstration:
    """Pack the sample by every policy.

    Parameters
    ----------
    budget : int
        Tokens, >= 0.
    question : int, optional
        Only this question, counted from 1.

    Returns
    -------
    Demonstration

    Raises
    ------
    ValueError
        If `budget` or `question` is out of range.
    """
    budget = gate.integer("budget", budget, low=0)
    numbered = list(enumerate(sample.questions(), start=1))
    if question is not None:
        numbered = [numbered[gate.integer("question", question, low=1, high=len(numbered)) - 1]]
    start = perf_counter()
    picks = [
        {name: select(asked.question, sample.passages(asked), budget, policy=name) for name in POLICIES}
        for _, asked in numbered
    ]
    seconds = perf_counter() - start
    packed = tuple(
        _packed(number, asked, picked, budget) for (number, asked), picked in zip(numbered, picks, strict=True)
    )
    counter = next(iter(picks[0].values())).counter
    return Demonstration(budget, counter, seconds, packed)


def _packed(number: int, asked: Question, picks: dict[str, Selected], budget: int) -> Packed:
    pool = prepare(asked.question, sample.passages(asked))
    problem = pool.problem(budget, items=np.arange(len(pool)))
    best = solve(problem, "exact", "numpy").objective
    packings = {}
    for policy, picked in picks.items():
        certificate = certify(problem, picked.indices)
        assert certificate.gap is not None, "a policy exceeded the budget"
        chosen = tuple(asked.paragraphs[i].title for i in picked.indices)
        packings[policy] = Packing(
            context=picked.text,
            tokens=picked.cost,
            chosen=chosen,
            reasons={str(entry.id): entry.reason for entry in picked.record},
            answer_survived=answer_in_context(picked.text, asked.answers).p1,
            all_gold=bool(all_gold_in_context(chosen, asked.gold)),
            proved=1 - certificate.gap,
            of_best=certificate.value / best if best else 1.0,
        )
    return Packed(number, asked, dict(zip(pool.ids, pool.costs.tolist(), strict=True)), packings)
