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
SHOWN = ("bridge", "submodular", "focused", "packed", "mmr", "naive", "topk", "qubo")
"""The policies of the demonstration; the others are baselines of experiments."""


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
    proved : float or None
        The certificate: by the packing objective, the choice is at least this share of the best within the budget.
        None where a policy picks sentences, which that objective over passages does not rate.
    of_best : float or None
        What that share is, by enumeration of every choice.
    """

    context: str
    tokens: int
    chosen: tuple[str, ...]
    reasons: dict[str, str]
    answer_survived: bool
    all_gold: bool
    proved: float | None
    of_best: float | None


@dataclass(frozen=True)
class Packed:
    """A question of the sample, its number (from 1), the tokens of its passages by title, its packings by policy."""

    number: int
    question: Question
    tokens: dict[str, int]
    packings: dict[str, Packing]


@dataclass(frozen=True)
class Summary:
    """One policy over all questions: two counts, then means (None: not defined)."""

    answers_survived: int
    all_gold: int
    tokens: float
    proved: float | None
    of_best: float | None


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
            proved=_mean([packing.proved for packing in packings]),
            of_best=_mean([packing.of_best for packing in packings]),
        )

    def as_dict(self) -> dict[str, Any]:
        """For JSON: summaries by policy, then every question with its packings by policy."""
        return {
            "budget": self.budget,
            "counter": self.counter,
            "seconds": self.seconds,
            "policies": {policy: asdict(self.summary(policy)) for policy in SHOWN},
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


def _mean(values: list[float | None]) -> float | None:
    defined = [value for value in values if value is not None]
    return fmean(defined) if defined else None


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
        {name: select(asked.question, sample.passages(asked), budget, policy=name) for name in SHOWN}
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
        chosen = tuple(asked.paragraphs[i].title for i in picked.indices)
        proved = of_best = None
        if POLICIES[policy].candidates is None:
            certificate = certify(problem, picked.indices)
            assert certificate.gap is not None, "a policy exceeded the budget"
            proved, of_best = 1 - certificate.gap, certificate.value / best if best else 1.0
        packings[policy] = Packing(
            context=picked.text,
            tokens=picked.cost,
            chosen=chosen,
            reasons=_by_title(picked, pool.ids),
            answer_survived=answer_in_context(picked.text, asked.answers).p1,
            all_gold=bool(all_gold_in_context(chosen, asked.gold)),
            proved=proved,
            of_best=of_best,
        )
    return Packed(number, asked, dict(zip(pool.ids, pool.costs.tolist(), strict=True)), packings)


def _by_title(picked: Selected, titles: tuple[str, ...]) -> dict[str, str]:
    """What became of each passage: `selected` if any of its candidates was, else the reason of its first."""
    reasons: dict[str, str] = {}
    for entry in picked.record:
        title = entry.id if entry.id in titles else entry.id.rpartition("#")[0]
        if entry.reason == "selected":
            reasons[title] = entry.reason
        elif entry.reason.startswith("duplicate_of:"):
            other = entry.reason if entry.reason.partition(":")[2] in titles else entry.reason.rpartition("#")[0]
            reasons.setdefault(title, other)
        else:
            reasons.setdefault(title, entry.reason)
    return reasons
