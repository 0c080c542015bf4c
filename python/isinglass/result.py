"""What a solve returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NoReturn

import numpy as np
from numpy.typing import NDArray

Status = Literal["optimal", "bounded", "feasible", "infeasible", "time_limit", "interrupted"]


@dataclass(frozen=True)
class Certificate:
    """How good an answer is, by code that did not compute it.

    Attributes
    ----------
    value : float
        The objective (or energy) of the answer, recomputed from the problem's arrays.
    feasible : bool
        Whether the answer is within the budget, the cap and what is allowed, with all that is pinned.
    upper_bound : float or None
        No selection is better than this (for an energy: none is lower). None where nothing is proved.
    gap : float or None
        `(upper_bound - value) / upper_bound`, 0 when both are 0: the answer is at least `1 - gap` of the optimum.
    method : str or None
        Where the bound comes from: "online", "concave", "total", "exact".
    """

    value: float
    feasible: bool
    upper_bound: float | None
    gap: float | None
    method: str | None


def gap_of(value: float, upper_bound: float) -> float:
    """Relative distance of a value to an upper bound of the optimum."""
    if upper_bound == 0:
        return 0.0 if value == 0 else float("inf")
    return (upper_bound - value) / upper_bound


@dataclass(frozen=True)
class PackingTrace:
    """The picks in order of choice: `items`, `gains` (marginal gain when picked), `costs`, each of shape (k,)."""

    items: NDArray[np.int64]
    gains: NDArray[np.float64]
    costs: NDArray[np.float64]


class Result:
    """The answer to one problem. Frozen; its arrays are read-only.

    Attributes
    ----------
    selection : ndarray of int, shape (k,)
        Chosen items; in order of choice for packing, ascending otherwise. None where a problem has no items.
    objective : float
        Value to be maximised (packing, evidence); None for a QUBO.
    energy : float
        Value to be minimised (QUBO, or an evidence problem solved as one), in float64 from the caller's numbers.
    cost : float
        What the selection costs, in the unit of the budget.
    sample, samples, energies : ndarray
        QUBO: the best assignment (n,), all reads (num_reads, n) in read order, their energies (num_reads,).
    certificate : Certificate
    timings : dict of str to float
        Seconds by stage.
    trace : object
        Packing: `PackingTrace`.
    status : str
        "optimal" (proved), "bounded" (with a bound), "feasible" (best found), "infeasible", "time_limit",
        "interrupted".
    provenance : dict
        method, backend, device, instruction_set, seed, options, version, and what the method adds.
    """

    selection: NDArray[np.int64] | None = None
    objective: float | None = None
    energy: float | None = None
    cost: float | None = None
    sample: NDArray[Any] | None = None
    samples: NDArray[Any] | None = None
    energies: NDArray[np.float64] | None = None
    trace: Any = None
    certificate: Certificate
    timings: Mapping[str, float]
    status: Status
    provenance: Mapping[str, Any]

    def __init__(self, **fields: Any) -> None:
        # One dictionary update: a frozen dataclass of this many fields would cost as much as packing twenty passages.
        self.__dict__.update(fields)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"Result is frozen: cannot set {name!r}")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"Result is frozen: cannot delete {name!r}")

    def __repr__(self) -> str:
        value = f"objective={self.objective:.6g}" if self.objective is not None else f"energy={self.energy:.6g}"
        gap = self.certificate.gap
        quality = "" if gap is None else f", gap={gap:.2%}"
        return f"Result({value}, status={self.status!r}{quality}, method={self.provenance['method']!r})"
