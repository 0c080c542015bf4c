"""Configurations of requirement-aware selection: ablations, variants of an experiment file, the best of some."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from isinglass.experiments.evaluation import Variant
from isinglass.experiments.statistics import Interval, bootstrap_mean
from isinglass.policies import check_options, find_policy
from isinglass.problems.evidence import EvidencePenalties, EvidenceWeights

# What each ablation of the paper, and three of ours, takes out of the objective.
_ABLATIONS: dict[str, dict[str, float]] = {
    "full": {},
    "relevance + coverage": {"beta": 0, "delta": 0, "eta": 0, "kappa": 0, "mu": 0},
    "- support strength": {"eta": 0, "gamma_direct": 0},
    "- unsupported penalty": {"kappa": 0},
    "- redundancy": {"beta": 0},
    "- complementarity": {"delta": 0},
    "- compactness": {"mu": 0},
}


def ablations(weights: EvidenceWeights | None = None) -> dict[str, Variant]:
    """The qubo policy in full, with relevance and coverage only, and without each term, as variants for `evaluate`."""
    full = EvidenceWeights() if weights is None else weights
    return {name: ("qubo", {"weights": replace(full, **changes)}) for name, changes in _ABLATIONS.items()}


def read_variant(table: Any) -> tuple[str, Variant]:
    """A variant of an experiment file: a table of `name`, `policy` (default qubo), and options of the policy.

    `weights` and `penalties` of qubo are tables of those that differ from the defaults.

    Raises
    ------
    ValueError
        For a table without a name, or an option that the policy does not take.
    """
    if not isinstance(table, Mapping) or not isinstance(table.get("name"), str):
        raise ValueError(f"a variant must be a table with a name, got {table!r}")
    options = {key: value for key, value in table.items() if key not in ("name", "policy")}
    policy = find_policy(table.get("policy", "qubo"))
    try:
        if policy.name == "qubo":
            for key, kind in (("weights", EvidenceWeights), ("penalties", EvidencePenalties)):
                if key in options:
                    options[key] = kind(**options[key])
        check_options(policy, options)
    except TypeError as error:
        raise ValueError(f"variant {table['name']!r}: {error}") from None
    return table["name"], (policy.name, options)


class BestFixed(NamedTuple):
    """The configuration that does best on one part of the questions, and what it does on the other.

    Attributes
    ----------
    name : str
    dev : float
        Mean on the part it was chosen on.
    test : Interval
        Mean on the other part.
    """

    name: str
    dev: float
    test: Interval


def best_fixed(questions: Sequence[str], values: Mapping[str, npt.NDArray[np.float64]], *, seed: int = 0) -> BestFixed:
    """Choose a configuration on half of the questions, and say what it reaches on the other half.

    The rule: the greatest mean on the dev part, the first of equal ones. A question's part is the parity of the CRC-32
    of its id and the seed, so it is the same in every experiment.

    Parameters
    ----------
    questions : sequence of str, length q
        Ids.
    values : dict of str to ndarray, shape (q,)
        By configuration, the measure of every question (greater is better); nan where it is not defined.
    seed : int
    """
    dev = np.array([zlib.crc32(f"{seed}:{question}".encode()) % 2 == 0 for question in questions], dtype=bool)
    means = {
        name: float(known.mean()) if (known := column[dev][~np.isnan(column[dev])]).size else -np.inf
        for name, column in values.items()
    }
    name = max(means, key=lambda name: means[name])
    return BestFixed(name, means[name], bootstrap_mean(values[name][~dev], seed=seed))
