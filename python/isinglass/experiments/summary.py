"""What a table of rows says as a whole: means, differences and losses, by policy, budget and bucket."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from isinglass.experiments.rows import Rows
from isinglass.experiments.statistics import DRAWS, Interval, bootstrap_means

Floats = npt.NDArray[np.float64]


class Measure(NamedTuple):
    """A column that is worth a place in a report.

    Attributes
    ----------
    name : str
        Of the column.
    label, meaning : str
        For people.
    digits : int
        Behind the point.
    share : bool
        Whether it lies in [0, 1], and more is better.
    """

    name: str
    label: str
    meaning: str
    digits: int = 3
    share: bool = True

    @property
    def words(self) -> str:
        """The label inside of a sentence."""
        return self.label[0].lower() + self.label[1:]


MEASURES = (
    Measure("f1", "Answer F1", "overlap of the reader's answer with the best gold answer"),
    Measure("em", "Exact match", "share of questions that the reader answers exactly"),
    Measure(
        "answer_in_context",
        "Answer in context",
        "share of questions whose gold answer stands in the packed context, of those whose answer can stand in a text",
    ),
    Measure("gold_doc_coverage", "Gold documents", "share of the gold documents with a piece in the context"),
    Measure("all_gold_in_context", "All gold", "share of questions with a piece of every gold document in the context"),
    Measure("supporting_fact_f1", "Fact F1", "overlap of the packed sentences with the supporting facts"),
    Measure("gold_token_density", "Gold tokens", "share of the context's tokens that come from gold documents"),
    Measure("distractor_docs", "Other documents", "documents in the context that are not gold", 2, False),
    Measure("tokens", "Tokens", "tokens of the context", 1, False),
    Measure("snippets", "Pieces", "pieces that the context is made of", 2, False),
)
"""Columns of a report, those first that decide."""

CURVES = ("f1", "answer_in_context", "gold_doc_coverage")
"""Those that are drawn by budget."""

SEPARATOR = " · "
"""Between a policy, its retriever and its reader, where these vary."""

STAGES = ("asked", "retrieved", "packed", "in_context", "answered")
"""Stages that the evidence of a question passes, each only after the one before.

``retrieved``: every gold document is in the retrieved list. ``packed``: a piece of some gold document is in the
context. ``in_context``: the answer stands in the context or, where it can stand in no text (yes, no), every gold
document has a piece there. ``answered``: the reader's answer is right.
"""


class Key(NamedTuple):
    """What a column of a summary is of: a policy at a budget; None is no limit."""

    policy: str
    budget: int | None


@dataclass(frozen=True)
class Summary:
    """Rows by question, policy and budget.

    Attributes
    ----------
    questions : tuple of (str, int, str)
        Data set, seed and id of each question.
    buckets : tuple of str, length q
        What each question counts under; empty where that is not known.
    policies : tuple of str
        With the retriever and the reader, where these vary.
    budgets : tuple of int or None
        Ascending; None for no limit.
    values : dict of Key to dict of str to ndarray, shape (q,)
        By column name; nan where it is not defined.
    baseline : str
        The policy that others are compared with.
    """

    questions: tuple[tuple[str, int, str], ...]
    buckets: tuple[str, ...]
    policies: tuple[str, ...]
    budgets: tuple[int | None, ...]
    values: dict[Key, dict[str, Floats]]
    baseline: str

    @classmethod
    def of(cls, rows: Rows, baseline: str | None = None) -> Summary:
        """Of a table of `isinglass evaluate`.

        Parameters
        ----------
        rows : Rows
        baseline : str, optional
            Default: the first policy of the table.

        Raises
        ------
        ValueError
            If the table has no rows, lacks a column, or has two rows for one question, policy and budget.
        """
        if missing := [name for name in ("question", "policy", "budget") if name not in rows]:
            raise ValueError(
                f"rows must have the columns of `isinglass evaluate --rows`, got none named {missing[0]!r}"
            )
        if not len(rows):
            raise ValueError("rows must be of at least one question, got none")
        names = [name for name in ("reader", "retriever", "policy") if name in rows]
        varied = [name for name in names if name == "policy" or len(rows.distinct(name)) > 1]
        labels = [SEPARATOR.join(map(str, reversed(parts))) for parts in zip(*(rows[name].tolist() for name in varied))]
        budgets = [None if np.isnan(budget) else int(budget) for budget in rows["budget"].tolist()]
        asked = list(zip(*(_factor(rows, name) for name in ("dataset", "seed", "question"))))
        place = {question: i for i, question in enumerate(dict.fromkeys(asked))}
        buckets = [""] * len(place)
        given = rows["bucket"].tolist() if "bucket" in rows else [None] * len(rows)
        for question, bucket in zip(asked, given):
            buckets[place[question]] = bucket if isinstance(bucket, str) else ""
        at: dict[Key, tuple[list[int], list[int]]] = {}
        seen: set[tuple[Key, tuple[str, int, str]]] = set()
        for i, (policy, budget, question) in enumerate(zip(labels, budgets, asked)):
            key = Key(policy, budget)
            if (key, question) in seen:
                raise ValueError(
                    f"rows must be one a question, policy and budget, got two of question {question[2]!r} of "
                    f"{question[0]!r}, policy {policy!r}, budget {budget}"
                )
            seen.add((key, question))
            sources, targets = at.setdefault(key, ([], []))
            sources.append(i)
            targets.append(place[question])
        numeric = [name for name, column in rows.columns.items() if column.dtype != object]
        values = {}
        for key, (sources, targets) in at.items():
            values[key] = {name: np.full(len(place), np.nan) for name in numeric}
            for name in numeric:
                values[key][name][targets] = rows[name][sources]
        policies = tuple(dict.fromkeys(labels))
        if baseline is not None and baseline not in policies:
            raise ValueError(f"baseline must be one of the policies ({', '.join(policies)}), got {baseline!r}")
        return cls(
            questions=tuple(place),
            buckets=tuple(buckets),
            policies=policies,
            budgets=tuple(sorted(set(budgets), key=lambda budget: (budget is None, budget))),
            values=values,
            baseline=baseline or policies[0],
        )

    @property
    def measures(self) -> tuple[Measure, ...]:
        """Those of `MEASURES` that some row has."""
        return tuple(
            measure
            for measure in MEASURES
            if any(name == measure.name and not np.isnan(v).all() for name, v in self._columns())
        )

    @property
    def main(self) -> Measure | None:
        """The measure that decides: the answer's F1 where there are answers, else the answer in the context; None where
        there is neither."""
        names = {measure.name: measure for measure in self.measures}
        return names.get("f1") or names.get("answer_in_context")

    def at(self, budget: int | None) -> Iterator[Key]:
        """The policies that were run at a budget."""
        return (key for policy in self.policies if (key := Key(policy, budget)) in self.values)

    @cached_property
    def intervals(self) -> dict[Key, dict[str, Interval]]:
        """Mean of every measure with its 95 % bootstrap interval over questions."""
        keys = [(key, measure.name) for key in self.values for measure in self.measures]
        found = bootstrap_means(_table([self.values[key][name] for key, name in keys]), self.clusters, draws=DRAWS)
        return _nested(dict(zip(keys, found)))

    @cached_property
    def differences(self) -> dict[Key, dict[str, Interval]]:
        """What each policy changes against the baseline at the same budget: paired bootstrap over questions."""
        pairs = [(key, Key(self.baseline, key.budget)) for key in self.values if key.policy != self.baseline]
        return self.contrasts(dict(pair for pair in pairs if pair[1] in self.values))

    def contrasts(self, pairs: Mapping[Key, Key]) -> dict[Key, dict[str, Interval]]:
        """Every measure of each key less that of its partner: paired bootstrap over questions."""
        keys = [(key, measure.name) for key in pairs for measure in self.measures]
        columns = [self.values[key][name] - self.values[pairs[key]][name] for key, name in keys]
        return _nested(dict(zip(keys, bootstrap_means(_table(columns), self.clusters, draws=DRAWS))))

    @cached_property
    def clusters(self) -> npt.NDArray[np.int64]:
        """A number a question, the same for all seeds of one; shape (q,)."""
        numbers: dict[tuple[str, str], int] = {}
        return np.array([numbers.setdefault((dataset, name), len(numbers)) for dataset, _, name in self.questions])

    @property
    def answered(self) -> bool:
        """Whether a reader's answers are part of the rows."""
        return any(measure.name == "em" for measure in self.measures)

    def stage(self, key: Key) -> Floats:
        """The last of `STAGES` that each question reached, as its number, shape (q,); nan without gold or a row."""
        columns = self.values[key]
        retrieved, coverage, whole, stands, em = (
            columns.get(name, np.full(len(self.questions), np.nan))
            for name in ("all_gold_retrieved", "gold_doc_coverage", "all_gold_in_context", "answer_in_context", "em")
        )
        survived = np.where(np.isnan(stands), whole, stands)
        passed = np.cumprod([retrieved == 1, coverage > 0, survived == 1, em == 1], axis=0)
        return np.where(np.isnan(retrieved), np.nan, passed.sum(axis=0))

    def funnel(self, key: Key, bucket: str | None = None) -> tuple[int, ...]:
        """Questions that reached each of `STAGES`, of one bucket or of all."""
        stage = self.stage(key)
        if bucket is not None:
            stage = stage[np.array(self.buckets) == bucket]
        return tuple(int((stage >= number).sum()) for number in range(len(STAGES)))

    def _columns(self) -> Iterator[tuple[str, Floats]]:
        return (column for columns in self.values.values() for column in columns.items())


_UNNAMED: dict[str, str | int] = {"dataset": "", "seed": 0, "question": ""}


def _factor(rows: Rows, name: str) -> list[Any]:
    """A column that names questions, with one name for what a table does not say."""
    if name not in rows:
        return [_UNNAMED[name]] * len(rows)
    given = rows[name].tolist()
    if name == "seed":
        return [0 if np.isnan(value) else int(value) for value in given]
    return [value if isinstance(value, str) else _UNNAMED[name] for value in given]


def _table(columns: list[Floats]) -> Floats:
    return np.stack(columns, axis=1) if columns else np.empty((0, 0))


def _nested(flat: Mapping[tuple[Key, str], Interval]) -> dict[Key, dict[str, Interval]]:
    nested: dict[Key, dict[str, Interval]] = {}
    for (key, name), interval in flat.items():
        nested.setdefault(key, {})[name] = interval
    return nested
