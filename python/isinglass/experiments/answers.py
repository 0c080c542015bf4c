"""A reader's answers joined to the rows of an experiment, and the policies that can only be made from the others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

import numpy as np

from isinglass.diagnosis.scoring import answer_score
from isinglass.experiments.rows import Rows
from isinglass.records import RecordError, read_records

_FACTORS = ("dataset", "seed", "retriever", "policy", "budget")
ANY = "any"
"""The retriever of rows that are made of several."""

MADE_OF_OTHERS = ("oracle", "router")
"""Policies whose rows are copies of others."""

_NOT_COMPARED = ("packed", *MADE_OF_OTHERS)
FEATURES = ("question_tokens", "candidates", "retrieved_tokens", "hits", "top_relevance", "relevance_margin")
"""What the router sees: nothing of the gold, nothing of what was packed."""


class Answers:
    """Answers by question, and by as many other factors as they name.

    Each line of a file has `question` (the id), and `prediction`, or `em` and `f1`; and optionally `dataset`, `seed`,
    `retriever`, `policy`, `budget`, which must then agree, and `reader`.

    Parameters
    ----------
    records : iterable of dict
    """

    def __init__(self, records: Iterable[dict[str, Any]]) -> None:
        self.readers: dict[str, list[dict[tuple[Any, ...], dict[str, Any]]]] = {}
        self._named: dict[str, list[tuple[str, ...]]] = {}
        self._used: set[int] = set()
        for record in records:
            reader = str(record.get("reader", "reader"))
            named = tuple(name for name in _FACTORS if name in record)
            patterns = self._named.setdefault(reader, [])
            tables = self.readers.setdefault(reader, [])
            if named not in patterns:
                patterns.append(named)
                tables.append({})
            table = tables[patterns.index(named)]
            key = (record["question"], *(record[name] for name in named))
            if key in table:
                where = "".join(f", {name} {record[name]!r}" for name in named)
                raise ValueError(f"expected one answer for question {key[0]!r}, reader {reader!r}{where}, got two")
            table[key] = record

    @classmethod
    def read(cls, paths: Sequence[str]) -> Answers:
        """From JSON Lines files.

        Raises
        ------
        RecordError
            At the first faulty line (a ValueError), with its place.
        """
        records = []
        for path in paths:
            for line, record in read_records(path):
                if isinstance(record, RecordError):
                    raise record
                if (reason := _fault(record)) is not None:
                    raise RecordError(path, line, reason)
                records.append(record)
        return cls(records)

    def of(self, reader: str, row: dict[str, Any]) -> dict[str, Any] | None:
        """The answer of a reader to a row; of several, that which names the most factors."""
        order = sorted(zip(self._named[reader], self.readers[reader]), key=lambda named_table: -len(named_table[0]))
        for named, table in order:
            if (found := table.get((row["question"], *(row.get(name) for name in named)))) is not None:
                self._used.add(id(found))
                return found
        return None

    @property
    def unused(self) -> int:
        """How many answers no row has asked for yet: of other questions, or of factors that were not varied."""
        return sum(len(table) for tables in self.readers.values() for table in tables) - len(self._used)


def _fault(record: Any) -> str | None:
    """What is wrong with a line of answers, or None."""
    scored = isinstance(record, dict) and {"em", "f1"} <= record.keys()
    predicted = isinstance(record, dict) and isinstance(record.get("prediction"), str)
    if not (scored or predicted) or not isinstance(record.get("question"), str):
        return f"expected question, and prediction or em and f1, got {record!r}"
    for name in ("em", "f1") if scored else ():
        value = record[name]
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
            return f"{name} must be a number in [0, 1], got {value!r}"
    # A factor that is misspelt would not restrict the answer, and it would stand for every policy or budget.
    for key in record.keys() - {*_FACTORS, "question", "prediction", "em", "f1", "reader"}:
        if near := get_close_matches(key, (*_FACTORS, "reader"), 1, 0.75):
            return f"expected the factors {', '.join(_FACTORS)}, got {key} (did you mean {near[0]}?)"
    return None


def with_answers(
    rows: Rows, answers: Answers, golds: Mapping[tuple[str, str], Sequence[str]], rule: str = "hotpotqa"
) -> Rows:
    """The rows of every reader, with `em` and `f1`; a row that a reader did not answer is left out of its rows.

    `failure` follows: right where the answer matches, in_context_wrong where the evidence was there. `golds` has the
    gold answers of each (dataset, question).
    """
    joined = []
    for reader in answers.readers:
        for row in rows:
            if (answer := answers.of(reader, row)) is None:
                continue
            if "em" in answer:
                em, f1 = float(answer["em"]), float(answer["f1"])
            else:
                score = answer_score(answer["prediction"], golds[row["dataset"], row["question"]], rule)
                em, f1 = score.em, score.f1
            lost = row.get("failure") if isinstance(row.get("failure"), str) and row["failure"] else None
            failure = "right" if em == 1 else lost or "in_context_wrong"
            joined.append(row | {"reader": reader, "em": em, "f1": f1, "failure": failure})
    if not joined:
        raise ValueError("answers must answer at least one row of the experiment, got none that agrees with any")
    return Rows.of(joined)


def with_oracle(rows: Rows) -> Rows:
    """With rows of the policy ``oracle``: for every question the best row by F1, then EM, then fewer tokens, ties to
    the earlier of the table.

    It knows the answers: headroom, never deployed. ``packed`` does not compete, as published.
    """
    groups = rows.keys(_question_factors(rows))
    compared = ~np.isin(rows["policy"], np.array(_NOT_COMPARED, dtype=object))
    best: dict[int, int] = {}
    for i in np.flatnonzero(compared).tolist():
        held = best.get(int(groups[i]))
        if held is None or _merit(rows, i) > _merit(rows, held):
            best[int(groups[i])] = i
    return _joined(rows, list(best.values()), "oracle")


def with_router(rows: Rows, outcome: str, *, folds: int = 5, penalty: float = 1.0) -> Rows:
    """With rows of the policy ``router``: for every question the policy that a model of the others' questions expects
    most of, from features of retrieval only.

    A ridge regression of the outcome for each policy, fitted on the other folds; questions of one id share a fold.
    """
    names = [name for name in FEATURES if name in rows]
    groups = rows.keys(_question_factors(rows))
    question = rows.keys(("dataset", "question"))
    fold = np.random.default_rng(0).permutation(question.max() + 1)[question] % folds
    raw = np.column_stack([rows[name] for name in names])
    spread = raw.std(axis=0)
    X = np.column_stack([np.ones(len(rows)), (raw - raw.mean(axis=0)) / np.where(spread > 0, spread, 1.0)])
    expected = np.full(len(rows), -np.inf)
    compared = ~np.isin(rows["policy"], np.array(_NOT_COMPARED, dtype=object))
    arms = rows.keys(("dataset", "reader", "retriever", "policy", "budget"))
    y = rows[outcome]
    for arm in np.unique(arms[compared]):
        mine = (arms == arm) & ~np.isnan(y)
        for k in range(folds):
            train, test = mine & (fold != k), mine & (fold == k)
            ridge = penalty * np.eye(X.shape[1])
            ridge[0, 0] = 0.0
            if train.any() and test.any():
                expected[test] = X[test] @ np.linalg.solve(X[train].T @ X[train] + ridge, X[train].T @ y[train])
    best: dict[int, int] = {}
    for i in np.flatnonzero(np.isfinite(expected)).tolist():
        held = best.get(int(groups[i]))
        if held is None or expected[i] > expected[held]:
            best[int(groups[i])] = i
    return _joined(rows, list(best.values()), "router")


def _question_factors(rows: Rows) -> tuple[str, ...]:
    return tuple(name for name in ("dataset", "seed", "reader", "question", "budget") if name in rows)


def _merit(rows: Rows, i: int) -> tuple[float, float, float]:
    return rows["f1"][i], rows["em"][i], -rows["tokens"][i]


def _joined(rows: Rows, chosen: list[int], policy: str) -> Rows:
    added = rows.take(np.array(chosen, dtype=np.int64))
    columns = {name: [*values.tolist(), *added[name].tolist()] for name, values in rows.columns.items()}
    columns["policy"] = [*rows["policy"].tolist(), *[policy] * len(chosen)]
    columns["retriever"] = [*rows["retriever"].tolist(), *[ANY] * len(chosen)]
    return Rows(columns)
