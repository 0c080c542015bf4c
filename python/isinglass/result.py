"""What a solve returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, Literal, NoReturn, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T")
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
        A bound on the optimum: no selection is better than this. For a QUBO, whose energy is minimised, better is
        lower: no state has an energy below it. None where nothing is proved.
    gap : float or None
        `(upper_bound - value) / upper_bound`, 0 when both are 0: the answer is at least `1 - gap` of the optimum. For
        an energy `(value - upper_bound) / |upper_bound|`: the distance to the bound, which the offset of a model
        changes.
    method : str or None
        Where the bound comes from: "online", "concave", "total", "roof_dual", "dual", "exact".
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


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """The array itself, no longer writeable."""
    array.setflags(write=False)
    return array


def energy_gap(value: float, bound: float) -> float:
    """Relative distance of an energy to a bound below the optimum."""
    if value == bound:
        return 0.0
    return (value - bound) / abs(bound) if bound != 0 else float("inf")


@dataclass(frozen=True)
class PackingTrace:
    """The picks in order of choice: `items`, `gains` (marginal gain when picked), `costs`, each of shape (k,)."""

    items: NDArray[np.int64]
    gains: NDArray[np.float64]
    costs: NDArray[np.float64]


class lazy(Generic[T]):  # noqa: N801 - used like functools.cached_property
    """A part that is made when it is looked at, and kept: without the lock of `cached_property`, which costs more than
    the parts do. Two threads that look at once may both make it; it is the same."""

    def __init__(self, make: Callable[[Any], T]) -> None:
        self._make = make
        self._name = make.__name__
        self.__doc__ = make.__doc__

    def __get__(self, result: Any, kind: type | None = None) -> T:
        if result is None:
            return self  # type: ignore[return-value]
        value = result.__dict__[self._name] = self._make(result)
        return value


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
    device_samples : DeviceArray of int8
        `samples` of a large model in read order on the CUDA device that found them, where `keep_on_device` was asked
        for. It stays in its process.
    decoded : DecodedEvidence
        What `sample` says, where an evidence problem was solved as a QUBO; None elsewhere.
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
    device_samples: Any = None
    decoded: Any = None
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


class Results(Sequence[Result]):
    """The answers to many problems, in their order: a sequence of `Result`, and their numbers as columns.

    Attributes
    ----------
    objectives, energies : ndarray of float, shape (n,)
        Value of each answer; NaN where its problem is minimised (has an energy), or maximised.
    costs : ndarray of float, shape (n,)
        What each selection costs; NaN where a problem has no costs.
    upper_bounds, gaps : ndarray of float, shape (n,)
        Of the certificates; NaN where nothing is proved.
    statuses : ndarray of str, shape (n,)
    selections : ndarray of int, shape (offsets[-1],)
        All selections one after another: that of answer i is `selections[offsets[i] : offsets[i + 1]]`.
    offsets : ndarray of int, shape (n + 1,)
    """

    def __init__(self, results: Sequence[Result]) -> None:
        self._results = tuple(results)

    def __len__(self) -> int:
        return len(self._results)

    @overload
    def __getitem__(self, index: int) -> Result: ...
    @overload
    def __getitem__(self, index: slice) -> Results: ...
    def __getitem__(self, index: int | slice) -> Result | Results:
        if isinstance(index, slice):
            return Results([self[i] for i in range(*index.indices(len(self)))])
        return self._at(range(len(self))[index])

    def _at(self, index: int) -> Result:
        return self._results[index]

    def __reduce__(self) -> Any:
        return Results, (list(self),)

    def __repr__(self) -> str:
        return f"Results(n={len(self)})"

    def _column(self, value: Callable[[Result], float | None]) -> NDArray[np.float64]:
        numbers = (value(result) for result in self)
        return read_only(np.array([np.nan if number is None else number for number in numbers], dtype=np.float64))

    @cached_property
    def objectives(self) -> NDArray[np.float64]:
        return self._column(lambda result: result.objective)

    @cached_property
    def energies(self) -> NDArray[np.float64]:
        return self._column(lambda result: result.energy)

    @cached_property
    def costs(self) -> NDArray[np.float64]:
        return self._column(lambda result: result.cost)

    @cached_property
    def upper_bounds(self) -> NDArray[np.float64]:
        return self._column(lambda result: result.certificate.upper_bound)

    @cached_property
    def gaps(self) -> NDArray[np.float64]:
        return self._column(lambda result: result.certificate.gap)

    @cached_property
    def statuses(self) -> NDArray[np.str_]:
        return read_only(np.array([result.status for result in self], dtype=np.str_))

    @cached_property
    def _chosen(self) -> list[NDArray[np.int64]]:
        none = np.empty(0, dtype=np.int64)
        return [none if result.selection is None else result.selection for result in self]

    @cached_property
    def selections(self) -> NDArray[np.int64]:
        return read_only(np.concatenate([np.empty(0, dtype=np.int64), *self._chosen]))

    @cached_property
    def offsets(self) -> NDArray[np.int64]:
        return read_only(np.cumsum([0, *(chosen.size for chosen in self._chosen)], dtype=np.int64))
