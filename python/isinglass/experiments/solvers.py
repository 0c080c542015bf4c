"""Solvers compared on the same evidence problems: who finds the optimum, who proves it, how fast, how feasibly."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt

from isinglass import backends
from isinglass.problems.evidence import EvidenceProblem
from isinglass.result import Result
from isinglass.solving import solve

SOLVERS = (
    "cpu:exact",
    "cpu:swap",
    "cpu:memetic",
    "cpu:tabu",
    "cpu:temper",
    "cpu:anneal",
    "neal",
    "dwave-tabu",
    "openjij",
)
# An objective this close to the optimum is the optimum: sums of a few dozen doubles of size 10 to 100.
_SAME = 1e-7


@dataclass(frozen=True)
class Comparison:
    """What one solver made of all problems.

    Attributes
    ----------
    solver : str
    optimal : float
        Share of the problems with a proved optimum where the answer is one.
    proved : float
        Share that the solver itself proved.
    feasible : float
        Share whose best state was feasible before any repair.
    gap_mean, gap_max : float
        ``(optimum - objective) / |optimum|`` of the repaired answers.
    p50, p95, p99 : float
        Milliseconds a call, from the problem to the answer.
    """

    solver: str
    optimal: float
    proved: float
    feasible: float
    gap_mean: float
    gap_max: float
    p50: float
    p95: float
    p99: float


@dataclass(frozen=True)
class Solvers:
    """The comparison of all solvers.

    Attributes
    ----------
    problems : int
    references : int
        Problems whose optimum is proved; the others count for latency and feasibility alone.
    comparisons : tuple of Comparison
    """

    problems: int
    references: int
    comparisons: tuple[Comparison, ...]

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "problems": self.problems,
            "references": self.references,
            "solvers": {
                row.solver: {k: v for k, v in asdict(row).items() if k != "solver"} for row in self.comparisons
            },
        }

    def plot(self, path: str | Path) -> None:
        """Draw latency against the share of optima found, a point a solver, into a file (its suffix is the format)."""
        try:
            from matplotlib.figure import Figure
        except ImportError as error:
            raise ImportError("the figure needs matplotlib: pip install 'isinglass[app]'") from error
        figure = Figure(figsize=(6, 4), layout="constrained")
        axes = figure.add_subplot(xscale="log", xlabel="median latency, ms", ylabel="optima found, %")
        for row in self.comparisons:
            axes.plot(row.p50, 100 * row.optimal, "o")
            axes.annotate(row.solver, (row.p50, 100 * row.optimal), xytext=(4, 4), textcoords="offset points")
        figure.savefig(path)


def parse_solver(name: str) -> tuple[str, str]:
    """Back end and method of ``backend:method``, or of a back end of others alone, whose method is its own.

    Raises
    ------
    ValueError
        If there is no such back end or method for evidence problems, or the back end cannot run here.
    """
    backend, _, method = name.partition(":")
    backends.resolve(EvidenceProblem, 10, method or "auto", backend, {})
    return backend, method or "auto"


def compare_solvers(
    problems: Sequence[EvidenceProblem],
    solvers: Sequence[str] = SOLVERS,
    *,
    seed: int = 0,
    reference_seconds: float = 10.0,
    progress: Callable[[int, int], None] | None = None,
) -> Solvers:
    """Solve every problem by every solver, one call at a time, one thread.

    Parameters
    ----------
    problems : sequence of EvidenceProblem
    solvers : sequence of str
        See `parse_solver`; each with its default options.
    seed : int
        Of every call.
    reference_seconds : float
        Time that the proof of an optimum may take.
    progress : callable, optional
        Called with (calls done, calls in all).

    Returns
    -------
    Solvers
    """
    if not problems:
        raise ValueError("problems must hold at least one, got none")
    parsed = {name: parse_solver(name) for name in solvers}
    total = len(problems) * (1 + len(parsed))
    done = 0

    def count() -> None:
        nonlocal done
        done += 1
        if progress is not None:
            progress(done, total)

    optimum = np.full(len(problems), np.nan)
    for i, problem in enumerate(problems):
        best = solve(problem, "exact", "cpu", seed=seed, threads=1, time_limit=reference_seconds)
        if best.status == "optimal":
            optimum[i] = best.objective
        count()
    rows = []
    for name, (backend, method) in parsed.items():
        seconds, objective = np.empty(len(problems)), np.empty(len(problems))
        proved, feasible = np.zeros(len(problems), dtype=bool), np.ones(len(problems), dtype=bool)
        # The first call of a process loads libraries; it is none of the latencies.
        solve(problems[0], method, backend, seed=seed)
        for i, problem in enumerate(problems):
            begin = perf_counter()
            result = solve(problem, method, backend, seed=seed)
            selection = result.selection
            assert selection is not None
            seconds[i] = perf_counter() - begin
            objective[i] = problem.objective(selection)
            proved[i] = result.status == "optimal"
            feasible[i] = _was_feasible(problem, result)
            count()
        rows.append(_compared(name, optimum, objective, proved, feasible, seconds))
    return Solvers(len(problems), int((~np.isnan(optimum)).sum()), tuple(rows))


def _was_feasible(problem: EvidenceProblem, result: Result) -> bool:
    if result.decoded is not None:
        return bool(result.decoded.feasible)
    assert result.selection is not None
    return not problem.violations(result.selection)


def _compared(
    name: str,
    optimum: npt.NDArray[np.float64],
    objective: npt.NDArray[np.float64],
    proved: npt.NDArray[np.bool_],
    feasible: npt.NDArray[np.bool_],
    seconds: npt.NDArray[np.float64],
) -> Comparison:
    known = ~np.isnan(optimum)
    scale = np.maximum(np.abs(optimum[known]), 1.0)
    gap = np.maximum(optimum[known] - objective[known], 0) / scale
    p50, p95, p99 = 1e3 * np.percentile(seconds, (50, 95, 99))
    return Comparison(
        name,
        float((gap <= _SAME).mean()) if known.any() else 0.0,
        float(proved.mean()),
        float(feasible.mean()),
        float(gap.mean()) if known.any() else 0.0,
        float(gap.max(initial=0.0)),
        float(p50),
        float(p95),
        float(p99),
    )
