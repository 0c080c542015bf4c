"""Measures of a chosen set of passages against what the answer requires."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from isinglass.problems import gate
from isinglass.problems.evidence import EvidenceProblem


class SetMeasures(NamedTuple):
    """How well a set meets the requirements; None where that is not defined.

    Attributes
    ----------
    weighted_coverage : float or None
        Share of the requirement weight that a chosen passage supports; None without requirements of any weight.
    direct_coverage : float or None
        The same, supported directly.
    capped_support : float or None
        ``sum_j w_j min(sum_i S_ji, 2) / (2 sum_j w_j)``.
    marginal_utility : float or None
        Mean over the chosen of what the objective loses without it; None for an empty set.
    average_relevance : float or None
        None for an empty set.
    size : int
    """

    weighted_coverage: float | None
    direct_coverage: float | None
    capped_support: float | None
    marginal_utility: float | None
    average_relevance: float | None
    size: int


def set_measures(problem: EvidenceProblem, selection: ArrayLike) -> SetMeasures:
    """Measure a selection, feasible or not.

    Parameters
    ----------
    problem : EvidenceProblem
    selection : array_like of int, shape (k,)
        Distinct passages.

    Returns
    -------
    SetMeasures

    References
    ----------
    QUBO context selection for RAG, 2026 (the measures' names; their definitions are ours).
    """
    chosen = gate.indices("selection", selection, size=len(problem))
    support, weights = problem.support[:, chosen], problem.requirement_weights
    total = float(weights.sum())
    covered = direct = capped = None
    if total > 0:
        covered = float(weights @ (support > 0).any(axis=1)) / total
        direct = float(weights @ (support == 2).any(axis=1)) / total
        capped = float(weights @ np.minimum(support.sum(axis=1), 2)) / (2 * total)
    utility = relevance = None
    if len(chosen):
        utility = float(problem.change_if_added(chosen)[chosen].mean())
        relevance = float(problem.relevance[chosen].mean())
    return SetMeasures(covered, direct, capped, utility, relevance, len(chosen))
