"""The figures of a report as files, for papers and slides: SVG and PNG, drawn by matplotlib."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from isinglass.experiments.summary import CURVES, STAGES, Key, Measure, Summary

COLOURS = ("#0b64a0", "#b8500a", "#2f7d5b", "#8a4f9e", "#8c6d1f", "#4c8fb5", "#b5476b", "#6b6b6b")
"""Those of the page: of different lightness, and told apart by colour-blind readers."""

MARKERS = "osD^vPX*"
FORMATS = ("svg", "png")

# Of the funnel, from what is lost first to what arrives: one hue from pale to deep, so that order is seen.
_LOSSES = ("#d9d4c9", "#eebf97", "#9cc3e0", "#0b64a0")


def write_figures(summary: Summary, folder: str | Path) -> tuple[Path, ...]:
    """Draw the intervals, the budget curves and the losses of a summary.

    Parameters
    ----------
    summary : Summary
    folder : path
        Made if it is not there.

    Returns
    -------
    tuple of Path
        The files: ``intervals``, ``curve-MEASURE`` where there are several budgets, ``losses-BUDGET``; each as SVG and
        PNG. The same summary gives the same SVG.

    Raises
    ------
    ImportError
        If matplotlib is not installed (extra `app`).
    """
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("figures need matplotlib: pip install 'isinglass[app]'") from error
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    style = {
        "font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "axes.edgecolor": "#6a665f",
        "axes.titlesize": 10, "axes.titleweight": "bold", "axes.titlelocation": "left", "svg.hashsalt": "isinglass",
        "xtick.color": "#6a665f", "ytick.color": "#6a665f", "legend.frameon": False, "savefig.dpi": 200,
    }  # fmt: skip
    written = []
    with mpl.rc_context(style):
        for name, figure in _figures(summary, Figure):
            for suffix in FORMATS:
                written.append(place / f"{name}.{suffix}")
                figure.savefig(written[-1], metadata={"Date": None} if suffix == "svg" else None)
    return tuple(written)


def _figures(summary: Summary, figure: Any) -> Iterator[tuple[str, Any]]:
    limited = [budget for budget in summary.budgets if budget is not None]
    if summary.main is not None:
        yield "intervals", _intervals(summary, summary.main, figure)
    if len(limited) > 1:
        for measure in summary.measures:
            if measure.name in CURVES:
                yield f"curve-{measure.name}", _curve(summary, measure, limited, figure)
    for budget in summary.budgets:
        if any(sum(summary.funnel(key)) for key in summary.at(budget)):
            yield f"losses-{'no-limit' if budget is None else budget}", _losses(summary, budget, figure)


def _intervals(summary: Summary, measure: Measure, figure: Any) -> Any:
    budgets = summary.budgets
    made = figure(figsize=(1.6 + 2.3 * len(budgets), 0.7 + 0.3 * len(summary.policies)), layout="constrained")
    panels = made.subplots(1, len(budgets), sharey=True, sharex=True, squeeze=False)[0]
    for axes, budget in zip(panels, budgets):
        for row, policy in enumerate(summary.policies):
            if (key := Key(policy, budget)) in summary.values:
                found = summary.intervals[key][measure.name]
                axes.plot([found.low, found.high], [row, row], color=_colour(row), lw=1.6, solid_capstyle="butt")
                axes.plot(found.estimate, row, MARKERS[row % len(MARKERS)], color=_colour(row), ms=5)
        axes.set_yticks(range(len(summary.policies)), summary.policies)
        axes.grid(axis="x", color="#ece8df")
        axes.set_axisbelow(True)
        axes.set_title("no limit" if budget is None else f"{budget} tokens")
    panels[0].invert_yaxis()
    made.supxlabel(f"{measure.label}, mean with 95 % interval", fontsize=9)
    return made


def _curve(summary: Summary, measure: Measure, budgets: list[int], figure: Any) -> Any:
    made = figure(figsize=(5.2, 3.3), layout="constrained")
    axes = made.add_subplot(xlabel="token budget", ylabel=measure.label)
    for row, policy in enumerate(summary.policies):
        run = [budget for budget in budgets if Key(policy, budget) in summary.values]
        found = [summary.intervals[Key(policy, budget)][measure.name] for budget in run]
        low, middle, high = np.array([(f.low, f.estimate, f.high) for f in found]).T
        axes.fill_between(run, low, high, color=_colour(row), alpha=0.08, lw=0)
        marker = MARKERS[row % len(MARKERS)]
        axes.plot(run, middle, marker=marker, ms=4.5, color=_colour(row), lw=1.6, label=policy)
    axes.set_xticks(budgets)
    axes.grid(axis="y", color="#ece8df")
    axes.set_axisbelow(True)
    made.legend(loc="outside right upper")
    return made


def _losses(summary: Summary, budget: int | None, figure: Any) -> Any:
    keys = list(summary.at(budget))
    kept = "answered" if summary.answered else "in context"
    names = ("not retrieved", "lost in packing", *(("in context, wrong",) if summary.answered else ()), kept)
    colours = _LOSSES if summary.answered else (*_LOSSES[:2], _LOSSES[3])
    made = figure(figsize=(6.2, 0.9 + 0.34 * len(keys)), layout="constrained")
    axes = made.add_subplot(xlabel="share of questions with gold documents, %")
    funnels = np.array([summary.funnel(key) for key in keys], dtype=float)
    at = dict(zip(STAGES, funnels.T))
    parts = [at["asked"] - at["retrieved"], at["retrieved"] - at["in_context"]]
    parts += [at["in_context"] - at["answered"], at["answered"]] if summary.answered else [at["in_context"]]
    left = np.zeros(len(keys))
    rows = np.arange(len(keys))
    for name, colour, part in zip(names, colours, parts):
        share = 100 * part / at["asked"]
        axes.barh(rows, share, left=left, color=colour, height=0.62, label=name)
        left += share
    axes.set_yticks(rows, [key.policy for key in keys])
    axes.invert_yaxis()
    axes.set_xlim(0, 100)
    axes.set_title("no limit" if budget is None else f"{budget} tokens")
    made.legend(loc="outside lower center", ncols=len(names), handlelength=1.1, columnspacing=1.2)
    return made


def _colour(row: int) -> str:
    return COLOURS[row % len(COLOURS)]
