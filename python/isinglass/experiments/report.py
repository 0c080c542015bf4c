"""The report: one HTML file that holds its data, opens from disk and asks the network for nothing."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import resources
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from isinglass.diagnosis.spans import answer_spans
from isinglass.diagnosis.trace import read_trace
from isinglass.experiments.advice import THRESHOLDS, advise
from isinglass.experiments.rows import Rows
from isinglass.experiments.summary import CURVES, MEASURES, SEPARATOR, STAGES, Floats, Key, Measure, Summary
from isinglass.experiments.traced import traced_rows
from isinglass.records import RecordError, read_records
from isinglass.version import __version__

REASONS = {
    "selected": "packed",
    "budget": "no room left",
    "duplicate_of": "the same text as another",
    "cap": "beyond the limit on their number",
    "no_gain": "adds nothing to what is packed",
    "not_allowed": "not allowed by the caller",
    "too_long": "longer than the whole budget",
    "not_in_best_set": "not in the best set",
}
"""What each reason of a record means, for people."""

_CODES = tuple(REASONS)
_DUPLICATE = "duplicate_of:"
# Of each (policy, budget) and question the page holds these columns; `stage` is added to them.
_SHOWN = ("answer_in_context", "gold_doc_coverage", "all_gold_in_context", "tokens", "f1", "em")
# In JSON inside of HTML nothing may end its element, start a comment, or be no character of UTF-8.
_UNSAFE = re.compile("[<>&\u2028\u2029\ud800-\udfff]")

Pieces = str | list[str]


def write_report(
    path: str | Path,
    rows: Rows,
    traces: Iterable[Mapping[str, Any]] = (),
    *,
    baseline: str | None = None,
    title: str = "What reached the reader",
) -> None:
    """Write a report of what policies made of questions; see `report_html`."""
    Path(path).write_text(report_html(rows, traces, baseline=baseline, title=title), encoding="utf-8")


def report_html(
    rows: Rows,
    traces: Iterable[Mapping[str, Any]] = (),
    *,
    baseline: str | None = None,
    title: str = "What reached the reader",
) -> str:
    """A report as one self-contained HTML page.

    Parameters
    ----------
    rows : Rows
        Of `isinglass evaluate --rows`: one a question, policy and budget. All figures come from them.
    traces : iterable of mapping
        Lines of `isinglass evaluate --trace`, see `isinglass.diagnosis.read_trace`: what was packed and why. The page
        shows texts where they have them. Of two lines on one selection the later counts; lines on what is not in the
        rows are passed over.
    baseline : str, optional
        The policy that the others are compared with; default: the first.
    title : str

    Returns
    -------
    str

    Raises
    ------
    ValueError
        If the rows are no table of `evaluate`, or traces are given for rows of several retrievers.
    ImportError
        If jinja2 is not installed (extra `app`).

    Notes
    -----
    The page may run the script that it carries and nothing else: a policy inside of it names the script's hash. Texts
    are data, shown as text; what is invisible in them or turns the direction of writing is shown by its code point.
    """
    try:
        import jinja2
    except ImportError as error:
        raise ImportError("the report needs jinja2: pip install 'isinglass[app]'") from error
    summary = Summary.of(rows, baseline)
    details = _Details(summary, rows, traces)
    folder = resources.files(__package__).joinpath("page")
    style, script, template = (
        folder.joinpath(name).read_text("utf-8") for name in ("report.css", "report.js", "report.html.j2")
    )
    environment = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {"figure": _figure, "share": _share, "signed": _signed, "json": _json}
    return environment.from_string(template).render(
        title=title,
        style=style,
        script=script,
        style_hash=_hash(style),
        script_hash=_hash(script),
        version=__version__,
        summary=summary,
        measures=summary.measures,
        stages=STAGES,
        reasons=REASONS,
        meanings=MEASURES,
        about=_about(rows, summary),
        findings={budget: _finding(summary, budget) for budget in summary.budgets},
        scale=_Scale(summary),
        thresholds=THRESHOLDS,
        details=details,
        advices=advise(rows),
        data=_page_data(summary, details),
    )


def read_results(paths: Sequence[str | Path]) -> tuple[Rows, Iterator[dict[str, Any]]]:
    """Rows and traces from files of both kinds, told by their names and contents.

    Parameters
    ----------
    paths : sequence of path
        Tables (.parquet, .csv), which are put one below the other, and traces. Without a table the rows are what the
        traces tell.

    Returns
    -------
    rows : Rows
    traces : iterator of dict
        Read as they are asked for.

    Raises
    ------
    RecordError
        For a file that is neither (a ValueError).
    OSError
        If a file cannot be opened.
    """
    tables = [path for path in paths if Path(path).suffix in (".parquet", ".csv")]
    traced = [path for path in paths if path not in tables]
    for path in traced:
        first = next(read_records(path), None)
        if first is not None and not (isinstance(first[1], dict) and "schema_version" in first[1]):
            raise RecordError(
                str(path), 0, "expected a table (.parquet, .csv) of `evaluate --rows` or a trace of `evaluate --trace`"
            )

    def traces() -> Iterator[dict[str, Any]]:
        return (record for path in traced for record in read_trace(path))

    if not tables:
        return traced_rows(traces()), traces()
    read = [Rows.read(path) for path in tables]
    return read[0] if len(read) == 1 else Rows.of(row for rows in read for row in rows), traces()


def _page_data(summary: Summary, details: _Details) -> dict[str, Any]:
    """What the script has from the start; the details of a question are read when it is looked at."""
    buckets = list(dict.fromkeys(summary.buckets))
    return {
        "policies": summary.policies,
        "budgets": summary.budgets,
        "baseline": summary.baseline,
        "answered": summary.answered,
        "buckets": buckets,
        "texts": details.texts,
        "reasons": [[name, meaning] for name, meaning in REASONS.items()],
        "questions": {
            "id": [name for _, _, name in summary.questions],
            "dataset": [dataset for dataset, _, _ in summary.questions],
            "bucket": [buckets.index(bucket) for bucket in summary.buckets],
            "query": [detail.get("query") for detail in details.of],
        },
        "results": [
            [_results(summary, Key(policy, budget)) for budget in summary.budgets] for policy in summary.policies
        ],
        "curves": [
            {
                "label": measure.label,
                "points": [
                    [_point(summary, Key(policy, budget), measure) for budget in summary.budgets]
                    for policy in summary.policies
                ],
            }
            for measure in summary.measures
            if measure.name in CURVES
        ],
    }


def _results(summary: Summary, key: Key) -> dict[str, list[float | None]] | None:
    if key not in summary.values:
        return None
    columns = {name: _numbers(summary.values[key][name]) for name in _SHOWN if name in summary.values[key]}
    return columns | {"stage": _numbers(summary.stage(key))}


def _numbers(values: Floats) -> list[float | None]:
    return [None if np.isnan(value) else _short(value) for value in values.tolist()]


def _short(value: float) -> float:
    """Four digits are what anybody sees."""
    rounded = float(f"{value:.4g}")
    return int(rounded) if rounded.is_integer() else rounded


def _point(summary: Summary, key: Key, measure: Measure) -> list[float] | None:
    interval = summary.intervals.get(key, {}).get(measure.name)
    if interval is None or np.isnan(interval.estimate):
        return None
    return [_short(interval.estimate), _short(interval.low), _short(interval.high)]


def _about(rows: Rows, summary: Summary) -> list[str]:
    """Facts of the run, in a line."""
    many, samples = len(set(summary.clusters.tolist())), len({seed for _, seed, _ in summary.questions})
    facts = [f"{many:,} question{'s' if many > 1 else ''}" + (f" in {samples} samples" if samples > 1 else "")]
    for name in ("dataset", "retriever", "reader"):
        if name in rows and (values := [str(value) for value in rows.distinct(name) if isinstance(value, str)]):
            facts.append(", ".join(values))
    facts.append(f"{len(summary.policies)} polic{'ies' if len(summary.policies) > 1 else 'y'}")
    named = ["no limit" if budget is None else f"{budget:,}" for budget in summary.budgets]
    facts.append(f"budget {', '.join(named)}" + ("" if summary.budgets == (None,) else " tokens"))
    return facts


def _finding(summary: Summary, budget: int | None) -> dict[str, Any] | None:
    """The best policy at a budget, and whether it can be told from the next."""
    main, keys = summary.main, list(summary.at(budget))
    if main is None:
        return None
    means = {key: found.estimate for key in keys if not np.isnan((found := summary.intervals[key][main.name]).estimate)}
    ranked = sorted(means, key=lambda key: -means[key])
    if len(ranked) < 2:
        return None
    best, second = ranked[:2]
    return {
        "measure": main,
        "best": best.policy,
        "second": second.policy,
        "value": summary.intervals[best][main.name],
        "lead": summary.contrasts({best: second})[best][main.name],
    }


class _Scale:
    """Where a value of the main measure stands in the strip of intervals, in a drawing 100 wide."""

    def __init__(self, summary: Summary) -> None:
        self.measure = summary.main
        found = [] if self.measure is None else [columns[self.measure.name] for columns in summary.intervals.values()]
        known = [interval for interval in found if not np.isnan(interval.estimate)]
        self.low = min((interval.low for interval in known), default=0.0)
        self.high = max((interval.high for interval in known), default=1.0)

    def __call__(self, value: float) -> float:
        return round(3 + 94 * (value - self.low) / ((self.high - self.low) or 1.0), 2)


class _Details:
    """Of each question what the traces say of it.

    Attributes
    ----------
    of : list of dict
        One a question; see `_Question.plain`.
    texts : str
        Whether they have texts: ``all``, ``some``, ``none``, or ``untraced`` without any trace.
    unmatched : int
        Lines that are on no row.
    """

    def __init__(self, summary: Summary, rows: Rows, traces: Iterable[Mapping[str, Any]]) -> None:
        places: dict[tuple[str, str], list[int]] = {}
        for i, (dataset, _, name) in enumerate(summary.questions):
            for known in {dataset, ""}:
                places.setdefault((known, name), []).append(i)
        policies: dict[str, list[int]] = {}
        for number, label in enumerate(summary.policies):
            policies.setdefault(label.partition(SEPARATOR)[0], []).append(number)
        budgets = {budget: number for number, budget in enumerate(summary.budgets)}
        retrievers = rows.distinct("retriever") if "retriever" in rows else []
        questions = [_Question() for _ in summary.questions]
        told = untold = self.unmatched = 0
        for record in traces:
            if len(retrievers) > 1:
                raise ValueError(f"traces name no retriever: expected rows of one, got {', '.join(retrievers)}")
            budget = budgets.get(record["budget"], budgets.get(None))
            # Where a question stands twice, in samples of several seeds, a trace does not say which is meant.
            found = places.get((record.get("dataset", ""), record["query_id"] or record["query_hash"]), [])
            numbers = policies.get(record.get("variant") or record["policy"], [])
            if budget is None or len(found) != 1 or not numbers:
                self.unmatched += 1
                continue
            for number in numbers:
                questions[found[0]].add(record, f"{number},{budget}")
            told, untold = told + ("query" in record), untold + ("query" not in record)
        self.of = [question.plain() for question in questions]
        self.texts = ("some" if untold else "all") if told else ("none" if untold else "untraced")


class _Question:
    """What traces say of one question, each text once."""

    def __init__(self) -> None:
        self._known: dict[str, Any] = {}
        self._texts: dict[str, int] = {}
        self._pieces: list[Pieces] = []
        self._pools: dict[str, int] = {}
        self._candidates: list[Any] = []
        self._picks: dict[str, Any] = {}

    def add(self, record: Mapping[str, Any], key: str) -> None:
        self._known |= {name: record[name] for name in ("query", "answers", "gold") if name in record}
        gold = set(record.get("gold", ()))
        self._known["sources"] = [
            [source["id"], source.get("title"), source["tokens"], source["score"], int(_document(source) in gold)]
            for source in record["sources"]
        ]
        answers = record.get("answers", ())
        candidates = [
            [
                candidate["passage"],
                *candidate["span"],
                _short(candidate["relevance"]),
                self._text(candidate["text"], answers) if "text" in candidate else None,
            ]
            for candidate in record["candidates"]
        ]
        pool = json.dumps(candidates)
        if pool not in self._pools:
            self._pools[pool] = len(self._pools)
            self._candidates.append(candidates)
        place = {candidate["id"]: i for i, candidate in enumerate(record["candidates"])}
        certificate = record["certificate"] or {}
        self._picks[key] = {
            "pool": self._pools[pool],
            "order": [place[piece["id"]] for piece in record["stages"]["materialised"]],
            "reasons": [_reason(candidate["reason"], place) for candidate in record["candidates"]],
            "gains": [None if c["gain"] is None else _short(c["gain"]) for c in record["candidates"]],
            "costs": [candidate["cost"] for candidate in record["candidates"]],
            "cost": record["cost"],
            "gap": certificate.get("gap"),
            "context": _marked(record["context"], answers) if "context" in record else None,
        }

    def _text(self, text: str, answers: Sequence[str]) -> int:
        if text not in self._texts:
            self._texts[text] = len(self._texts)
            self._pieces.append(_marked(text, answers))
        return self._texts[text]

    def plain(self) -> dict[str, Any]:
        return self._known | {"texts": self._pieces, "pools": self._candidates, "picks": self._picks}


def _document(source: Mapping[str, Any]) -> Any:
    return source["id"] if source["doc"] is None else source["doc"]


def _reason(reason: str, place: Mapping[Any, int]) -> int:
    """Its place in `REASONS`; of a duplicate, less one less the place of the candidate that it repeats."""
    if reason.startswith(_DUPLICATE):
        return -1 - place[reason.removeprefix(_DUPLICATE)]
    return _CODES.index(reason)


def _marked(text: str, answers: Sequence[str]) -> Pieces:
    """The text, or its pieces where answers stand in it: every second one is an answer."""
    spans = answer_spans(text, answers)
    if not spans:
        return text
    cuts = [0, *(at for span in spans for at in span), len(text)]
    return [text[start:end] for start, end in pairwise(cuts)]


def _json(value: Any) -> Any:
    """JSON for an element of HTML: safe whatever the texts hold."""
    from markupsafe import Markup

    plain = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Markup(_UNSAFE.sub(lambda found: f"\\u{ord(found.group()):04x}", plain))


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _figure(value: float, measure: Measure) -> str:
    if np.isnan(value):
        return "–"
    text = f"{value:.{measure.digits}f}"
    return text.removeprefix("0") if measure.share and value < 1 else text


def _signed(value: float, measure: Measure) -> str:
    if np.isnan(value):
        return "–"
    sign = "−" if value < 0 else "+"
    return sign + _figure(abs(value), measure)


def _share(value: float) -> str:
    return f"{100 * value:.1f} %"
