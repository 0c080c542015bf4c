"""What the table of an experiment shows: every statistic that its columns allow, as tables to print or to write."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from isinglass.experiments.answers import ANY, MADE_OF_OTHERS
from isinglass.experiments.rows import Rows
from isinglass.experiments.statistics import (
    DRAWS,
    Interval,
    budget_sweep,
    conditional_means,
    decomposition,
    explained_by,
    intervention_table,
    iso_quality_saving,
    pearson_table,
    reader_ladder,
    whole,
)

FEATURES = (
    "recall@5",
    "all_gold@5",
    "answer_in_context_p1",
    "answer_in_context",
    "answer_in_context_lenient",
    "gold_doc_coverage",
    "all_gold_in_context",
    "gold_token_density",
    "distractor_docs",
    "supporting_fact_f1",
    "answer_facts_in_context",
    "tokens",
    "snippets",
)
"""Of a packed context or its retrieved list; what is correlated with a reader's scores."""

_ANSWERS = ("answer_in_context_p1", "answer_in_context")  # every question, and those where it is defined
_COMPARED = ("gold_doc_coverage", "answer_in_context_p1", "answer_in_context", "tokens", "f1", "em")


class Table(NamedTuple):
    """One statistic of one part of an experiment.

    Attributes
    ----------
    name : str
        Of the statistic; tables of one name belong together.
    title : str
    columns : tuple of (str, str, int)
        Heading, key in the rows, digits.
    rows : tuple of dict
        What the part is, and the values: numbers, `Interval`, texts, or None where one is not defined.
    """

    name: str
    title: str
    columns: tuple[tuple[str, str, int], ...]
    rows: tuple[dict[str, Any], ...]


def findings(
    rows: Rows,
    baselines: Sequence[str] = (),
    *,
    draws: int = DRAWS,
    progress: Callable[[int, int], object] | None = None,
) -> tuple[Table, ...]:
    """Every statistic that the columns allow.

    With scores of a reader: Pearson's r of `FEATURES` with F1 and EM, the regression of F1 on recall with and without
    answer_in_context with the partial correlation, and the conditional means among questions whose gold was all
    retrieved. These pool policies, retrievers and seeds of one data set, budget and reader, but for ``oracle`` and
    ``router``, whose rows are copies.

    With baselines: what every other policy changes (intervention table), at which budget it is as good and what that
    saves in tokens, the change by budget where there are several, by reader where there are several, and which
    questions it comes from.

    Parameters
    ----------
    rows : Rows
        Of `isinglass.experiments.factorial.run_experiment`.
    baselines : sequence of str
        Policies.
    draws : int
        Of every bootstrap.
    progress : callable, optional
        Called with (tables done, tables in all).

    Returns
    -------
    tuple of Table

    References
    ----------
    A. N. Bala (2026), "A Diagnostic for Budget-Constrained Multi-Hop RAG and When Submodular Evidence Packing Improves
    It".
    """
    if not len(rows):
        return ()
    makers = [*_of_readers(rows, draws), *(maker for name in baselines for maker in _against(rows, name, draws))]
    tables: list[Table] = []
    for done, make in enumerate(makers, 1):
        tables.extend(table for table in make() if table.rows)
        if progress is not None:
            progress(done, len(makers))
    return tuple(tables)


def plain(tables: Sequence[Table]) -> dict[str, list[dict[str, Any]]]:
    """For JSON: the rows of each statistic, an interval as a mapping, None where a value is not defined."""
    listed: dict[str, list[dict[str, Any]]] = {}
    for table in tables:
        listed.setdefault(table.name, []).extend(
            {name: _plain(value) for name, value in row.items()} for row in table.rows
        )
    return listed


def _of_readers(rows: Rows, draws: int) -> Iterator[Callable[[], list[Table]]]:
    if "f1" not in rows:
        return
    own = rows.take(~np.isin(rows["policy"], np.array(MADE_OF_OTHERS, dtype=object)))
    for part, of_one in _parts(own, ("dataset", "budget", "reader")):
        yield partial(_of_reader, part, of_one, draws)


def _of_reader(part: dict[str, Any], rows: Rows, draws: int) -> list[Table]:
    return [_correlations(part, rows, draws), _regressions(part, rows), _conditional(part, rows)]


def _correlations(part: dict[str, Any], rows: Rows, draws: int) -> Table:
    table = pearson_table(rows, [name for name in FEATURES if name in rows], draws=draws)
    return Table(
        "pearson",
        f"{_title(part)}: Pearson's r with a reader's scores [95 % bootstrap over questions]",
        (("", "feature", 0), ("F1", "f1", 3), ("EM", "em", 3)),
        tuple(part | {"feature": feature} | outcomes for feature, outcomes in table.items()),
    )


def _regressions(part: dict[str, Any], rows: Rows) -> Table:
    found = []
    for answer in _ANSWERS:
        row = part | {"answer": answer}
        try:
            explained = explained_by(rows, answer)
        except ValueError as error:  # a constant recall, say: every paragraph was given to every policy
            found.append(row | {"not_defined": str(error)})
            continue
        with_it = explained.with_it
        found.append(
            row
            | {
                "n": with_it.n,
                "clusters": with_it.clusters,
                "r2_without": explained.without.r2,
                "r2": with_it.r2,
                "delta_r2": explained.delta_r2,
                "beta_recall": float(with_it.betas[0]),
                "p_recall": float(with_it.p[0]),
                "beta_answer": float(with_it.betas[1]),
                "p_answer": float(with_it.p[1]),
                "partial_r": explained.partial_r,
            }
        )
    return Table(
        "regression",
        f"{_title(part)}: F1 on recall@5 without and with the answer in context; betas a standard deviation",
        (
            ("", "answer", 0), ("n", "n", 0), ("R2\nwithout", "r2_without", 3), ("R2", "r2", 3),
            ("delta\nR2", "delta_r2", 3), ("beta\nrecall", "beta_recall", 3), ("p", "p_recall", 3),
            ("beta\nanswer", "beta_answer", 3), ("p", "p_answer", 3), ("partial\nr", "partial_r", 3),
            ("", "not_defined", 0),
        ),
        tuple(found),
    )  # fmt: skip


def _conditional(part: dict[str, Any], rows: Rows) -> Table:
    found = []
    for answer in _ANSWERS:
        means = conditional_means(rows, by=answer)
        found.append(
            part
            | {"answer": answer, "n": means.n, "lost": means.share}
            | {f"{name}_with": value for name, value in means.when_true.items()}
            | {f"{name}_without": value for name, value in means.when_false.items()}
        )
    return Table(
        "conditional_means",
        f"{_title(part)}: among rows with all gold retrieved, by the answer in context",
        (
            ("", "answer", 0), ("n", "n", 0), ("answer\nlost", "lost", 3), ("F1\nwith", "f1_with", 3),
            ("F1\nwithout", "f1_without", 3), ("EM\nwith", "em_with", 3), ("EM\nwithout", "em_without", 3),
        ),
        tuple(found),
    )  # fmt: skip


def _against(rows: Rows, baseline: str, draws: int) -> Iterator[Callable[[], list[Table]]]:
    measures = [name for name in _COMPARED if name in rows]
    outcomes = [name for name in ("f1", "answer_in_context_p1") if name in rows]

    def intervention(part: dict[str, Any], of_one: Rows) -> list[Table]:
        found = []
        for policy in _others(of_one, baseline):
            table = intervention_table(of_one, policy, baseline, measures, draws=draws)
            found.append(part | {"baseline": baseline, "policy": policy} | table[part["dataset"]])
        headings = tuple((name.replace("answer_in_context", "answer"), name, 3) for name in measures)
        # The first three of them fit a terminal; F1 is what they are there to explain.
        shown = [column for column in headings if column[1] in ("gold_doc_coverage", "answer_in_context_p1", "f1")]
        title = f"{_title(part)}: change against {baseline} [95 % paired bootstrap over questions]"
        return [Table("intervention", title, (("", "policy", 0), *shown), tuple(found))]

    def sources(part: dict[str, Any], of_one: Rows) -> list[Table]:
        found = []
        reference = of_one.where(policy=baseline)
        for policy in _others(of_one, baseline):
            parts = decomposition(of_one.where(policy=policy), reference, by="answer_in_context_p1")
            for way, transition in parts.items():
                found.append(part | {"baseline": baseline, "policy": policy, "answer": way} | transition._asdict())
        title = f"{_title(part)}: change of F1 against {baseline}, by what became of the answer"
        columns = (
            ("", "policy", 0), ("answer", "answer", 0), ("questions", "n", 0), ("mean", "mean", 3),
            ("part of the\nchange", "contribution", 4),
        )  # fmt: skip
        return [Table("decomposition", title, columns, tuple(found))]

    def by_budget(part: dict[str, Any], of_one: Rows) -> list[Table]:
        swept, saved = [], []
        for policy in _others(of_one, baseline):
            for outcome in outcomes:
                row = part | {"baseline": baseline, "policy": policy, "measure": outcome}
                for budget, interval in budget_sweep(of_one, policy, baseline, outcome, draws=draws).items():
                    swept.append(row | {"budget": budget, "difference": interval})
                for budget in of_one.where(policy=baseline).distinct("budget"):
                    saving = iso_quality_saving(of_one, policy, baseline, budget, outcome, draws=draws)
                    saved.append(row | {"baseline_budget": int(budget)} | saving._asdict())
        sweep = Table(
            "budget_sweep",
            f"{_title(part)}: change against {baseline} at the same budget",
            (("", "policy", 0), ("measure", "measure", 0), ("budget", "budget", 0), ("change", "difference", 3)),
            tuple(swept),
        )
        iso = Table(
            "iso_quality",
            f"{_title(part)}: smallest budget that shows no loss against {baseline}, and the tokens saved",
            (
                ("", "policy", 0), ("measure", "measure", 0), (f"{baseline}\nbudget", "baseline_budget", 0),
                ("budget", "budget", 0), ("change", "difference", 3), ("tokens", "tokens", 1),
                (f"{baseline}\ntokens", "baseline_tokens", 1), ("saved", "saved", 3),
            ),
            tuple(saved),
        )  # fmt: skip
        return [sweep, iso]

    def by_reader(part: dict[str, Any], of_one: Rows) -> list[Table]:
        found = []
        for policy in _others(of_one, baseline):
            for reader, interval in reader_ladder(of_one, policy, baseline, draws=draws).items():
                found.append(part | {"baseline": baseline, "policy": policy, "reader": reader, "f1": interval})
        title = f"{_title(part)}: change of F1 against {baseline}, by reader"
        columns = (("", "policy", 0), ("reader", "reader", 0), ("F1", "f1", 3))
        return [Table("reader_ladder", title, columns, tuple(found))]

    several = {name: name in rows and len(rows.distinct(name)) > 1 for name in ("budget", "reader")}
    for make, by, wanted in (
        (intervention, ("dataset", "retriever", "budget", "reader"), True),
        (sources, ("dataset", "retriever", "budget", "reader"), "f1" in rows),
        (by_budget, ("dataset", "retriever", "reader"), several["budget"]),
        (by_reader, ("dataset", "retriever", "budget"), several["reader"]),
    ):
        if wanted:
            for part, of_one in _retrieved(rows, by):
                yield partial(make, part, of_one)


def _retrieved(rows: Rows, by: Sequence[str]) -> Iterator[tuple[dict[str, Any], Rows]]:
    """Parts by retriever, each with the rows that are made of several: these stand under no retriever of their own."""
    made = rows["retriever"] == ANY
    beside = rows.keys([name for name in by if name != "retriever"])
    for part, kept in _masks(rows, by):
        if part["retriever"] != ANY:
            yield part, rows.take(kept | (made & (beside == beside[kept.argmax()])))


def _parts(rows: Rows, by: Sequence[str]) -> Iterator[tuple[dict[str, Any], Rows]]:
    for part, kept in _masks(rows, by):
        yield part, rows.take(kept)


def _masks(rows: Rows, by: Sequence[str]) -> Iterator[tuple[dict[str, Any], npt.NDArray[np.bool_]]]:
    names = [name for name in by if name in rows]
    group = rows.keys(names)
    for number in dict.fromkeys(group.tolist()):
        kept = group == number
        yield {name: whole(rows[name][kept.argmax()]) for name in names}, kept


def _others(rows: Rows, baseline: str) -> list[str]:
    held = rows.distinct("policy")
    return [policy for policy in held if policy != baseline] if baseline in held else []


def _title(part: dict[str, Any]) -> str:
    return ", ".join(f"budget {value}" if name == "budget" else str(value) for name, value in part.items())


def _plain(value: Any) -> Any:
    if isinstance(value, Interval):
        return {name: _plain(number) for name, number in value._asdict().items()}
    return None if isinstance(value, float) and np.isnan(value) else value
