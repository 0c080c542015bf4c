"""Certificates of any selection, from any source."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isinglass import _core
from isinglass.backends import Request
from isinglass.problems import gate
from isinglass.problems.evidence import EvidenceProblem
from isinglass.problems.packing import PackingProblem
from isinglass.problems.qubo import Qubo
from isinglass.result import Certificate, gap_of

# Subproblems of branch and bound that a tight certificate may take without a time limit: about a second.
_NODES = 10_000
# Steps on the dual of an evidence problem that a fast certificate takes.
_DUAL_STEPS = 200


def certify(
    problem: PackingProblem | EvidenceProblem | Qubo,
    selection: ArrayLike,
    *,
    level: Literal["fast", "tight"] = "tight",
    time_limit: float | None = None,
    memory_limit: int | None = None,
) -> Certificate:
    """The certificate of an answer: its value recomputed from the problem's arrays, and how far it can be from best.

    Parameters
    ----------
    problem : PackingProblem, EvidenceProblem or Qubo
    selection : array_like of int
        Packing and evidence: distinct items in any order, shape (k,). A QUBO: a state of 0 and 1, shape (n,).
    level : {"fast", "tight"}
        Packing, "fast": the online bound at the empty set, at `selection` and, where that is cheap, at the first 4, 8,
        16 ... items of it; "tight": the concave bound too. A QUBO,
        "fast": the roof dual bound; "tight": branch and bound from there, which may prove the optimum. Evidence,
        "fast": the Lagrangian dual bound; "tight": branch and bound, which may prove the optimum.
    time_limit : float, optional
        Seconds that the bound may take. None: branch and bound ends after 10,000 subproblems.
    memory_limit : int, optional
        Bytes, as in `solve`; not for evidence.

    Returns
    -------
    Certificate
        `upper_bound` bounds the optimum of the problem, also when `selection` is not feasible (`gap` is None then).
        None beside terms of the caller that are not declared submodular and monotone. For a QUBO no state has an energy
        below it.

    Raises
    ------
    ValueError
        If `selection` holds an index out of range, or one twice; for a QUBO, anything but 0 and 1.

    References
    ----------
    J. Leskovec et al., 2007, "Cost-effective outbreak detection in networks" (the online bound).
    P. L. Hammer, P. Hansen, B. Simeone, 1984, "Roof duality, complementation and persistency in quadratic 0-1
    optimization".
    """
    if level not in ("fast", "tight"):
        raise ValueError(f"level must be 'fast' or 'tight', got {level!r}")
    limit = float("inf") if time_limit is None else gate.number("time_limit", time_limit, low=0)
    if isinstance(problem, Qubo):
        return _certify_state(problem, selection, level, limit, memory_limit)
    if not isinstance(problem, (PackingProblem, EvidenceProblem)):
        kinds = "a PackingProblem, an EvidenceProblem or a Qubo"
        raise TypeError(f"problem must be {kinds}, got {type(problem).__name__}")
    items = gate.indices("selection", selection, size=len(problem))
    if isinstance(problem, EvidenceProblem):
        return _certify_evidence(problem, items, level, limit)
    core = problem.core(memory_limit)
    value, upper_bound, method = core.bound(items, level == "tight", limit)
    feasible = (
        core.spending(items)[1]
        and (problem.allowed is None or bool(problem.allowed[items].all()))
        and set(problem.pinned.tolist()) <= set(items.tolist())
        and (problem.max_items is None or items.size <= problem.max_items)
    )
    if upper_bound is None:
        return Certificate(value, feasible, None, None, None)
    if feasible:
        upper_bound = max(upper_bound, value)
    return Certificate(value, feasible, upper_bound, gap_of(value, upper_bound) if feasible else None, method)


def _certify_state(problem: Qubo, sample: ArrayLike, level: str, time_limit: float, memory: int | None) -> Certificate:
    from isinglass.backends.native_exact import certificate_of, prove

    value = problem.energy(np.asarray(sample))
    node_limit = 1 if level == "fast" else None if np.isfinite(time_limit) else _NODES
    request = Request(time_limit=time_limit, memory_limit=memory)
    proof, _ = prove(problem, node_limit=node_limit, initial_states=sample, request=request)
    return certificate_of(value, proof)


def _certify_evidence(problem: EvidenceProblem, items: NDArray[np.int64], level: str, limit: float) -> Certificate:
    value, core, method = problem.objective(items), problem.core(), "dual"
    feasible = not problem.violations(items)
    if level == "fast":
        upper_bound = core.bound(value if feasible else 0.0, _DUAL_STEPS, limit)
    else:
        node_limit = 0 if np.isfinite(limit) else _NODES
        answer = _core.select_evidence(core, 0, 0, node_limit, 0, 0, limit, None)
        assert answer.upper_bound is not None
        upper_bound = answer.upper_bound
        method = "exact" if answer.proved else "dual"
    if feasible:
        upper_bound = max(upper_bound, value)
    return Certificate(value, feasible, upper_bound, gap_of(value, upper_bound) if feasible else None, method)
