"""Certificates of any selection, from any source."""

from __future__ import annotations

from typing import Literal

from numpy.typing import ArrayLike

from isinglass.problems import gate
from isinglass.problems.packing import PackingProblem
from isinglass.result import Certificate, gap_of


def certify(
    problem: PackingProblem,
    selection: ArrayLike,
    *,
    level: Literal["fast", "tight"] = "tight",
    time_limit: float | None = None,
    memory_limit: int | None = None,
) -> Certificate:
    """The certificate of a selection: its value recomputed from the problem's arrays, and how far it can be from best.

    Parameters
    ----------
    problem : PackingProblem
    selection : array_like of int, shape (k,)
        Distinct items, in any order.
    level : {"fast", "tight"}
        "fast": the online bound at the empty set and at `selection`; "tight": the concave bound too.
    time_limit : float, optional
        Seconds that the concave bound may take.
    memory_limit : int, optional
        Bytes, as in `solve`.

    Returns
    -------
    Certificate
        `upper_bound` bounds the optimum of the problem, also when `selection` is not feasible (`gap` is None then).

    Raises
    ------
    ValueError
        If `selection` holds an index out of range, or one twice.

    References
    ----------
    J. Leskovec et al., 2007, "Cost-effective outbreak detection in networks" (the online bound).
    """
    if not isinstance(problem, PackingProblem):
        raise TypeError(f"problem must be a PackingProblem, got {type(problem).__name__}")
    if level not in ("fast", "tight"):
        raise ValueError(f"level must be 'fast' or 'tight', got {level!r}")
    limit = float("inf") if time_limit is None else gate.number("time_limit", time_limit, low=0)
    items = gate.indices("selection", selection, size=len(problem))
    core = problem.core(memory_limit)
    value = core.evaluate(items)
    upper_bound, method = core.bound(items, level == "tight", limit)
    feasible = (
        core.spending(items)[1]
        and (problem.allowed is None or bool(problem.allowed[items].all()))
        and set(problem.pinned.tolist()) <= set(items.tolist())
        and (problem.max_items is None or items.size <= problem.max_items)
    )
    if feasible:
        upper_bound = max(upper_bound, value)
    return Certificate(value, feasible, upper_bound, gap_of(value, upper_bound) if feasible else None, method)
