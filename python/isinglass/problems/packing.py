"""The packing problem: which items to take under a hard budget."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import cached_property
from math import floor, lcm
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isinglass import _core
from isinglass.problems import gate

_ARRAY_OF_TERM = {
    "relevance": ("relevance",),
    "coverage": ("coverage",),
    "representation": ("similarity", "embeddings"),
    "diversity": ("relevance", "groups"),
    "facility_location": ("similarity", "embeddings"),
}


@dataclass(frozen=True, init=False)
class PackingWeights:
    """Weights of the terms of the packing objective.

    Parameters
    ----------
    relevance : float
        w_rel: modular relevance, `sum rel(S) / sum rel(all)`.
    coverage : float
        w_qry: weighted set coverage, the share of the query's terms that S covers.
    representation : float
        w_cov: saturated representation, `sum_i min(sum_{j in S} sim(i, j), saturation deg_i)`, scaled to [0, 1].
    diversity : float
        w_div: `sum_g sqrt(relevance of S in group g)`.
    facility_location : float
        `sum_i max_{j in S} sim(i, j)`, divided by its value at all items. Not a term of the paper.

    Notes
    -----
    Finite and >= 0. A term whose array the problem lacks is off; to name a positive weight for it is an error.

    References
    ----------
    A. N. Bala, 2026, "A Diagnostic for Budget-Constrained Multi-Hop RAG and When Submodular Evidence Packing Improves
    It" (the symbols and the default values).
    """

    relevance: float
    coverage: float
    representation: float
    diversity: float
    facility_location: float

    def __init__(
        self,
        relevance: float | None = None,
        coverage: float | None = None,
        representation: float | None = None,
        diversity: float | None = None,
        facility_location: float | None = None,
    ) -> None:
        given = (relevance, coverage, representation, diversity, facility_location)
        named = set()
        for field, value, default in zip(fields(self), given, _DEFAULT_WEIGHTS, strict=True):
            weight = default if value is None else gate.number(f"weights.{field.name}", value, low=0)
            if value is not None and weight > 0:
                named.add(field.name)
            object.__setattr__(self, field.name, weight)
        object.__setattr__(self, "_named", frozenset(named))


_DEFAULT_WEIGHTS = (1.0, 0.5, 0.4, 0.3, 0.0)


@dataclass(frozen=True)
class _Csr:
    row_start: NDArray[np.int64]
    column: NDArray[np.int32]
    value: NDArray[np.float32]


def _is_sparse(value: object) -> bool:
    return all(hasattr(value, name) for name in ("indptr", "indices", "data", "shape")) or hasattr(value, "tocsr")


def _csr_parts(name: str, matrix: Any, rows: int) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], int]:
    """Row starts, columns and values of a sparse matrix, columns ascending, distinct in a row, no stored zeros."""
    csr = matrix.tocsr() if hasattr(matrix, "tocsr") else matrix
    shape = tuple(csr.shape)
    if len(shape) != 2 or shape[0] != rows:
        raise ValueError(f"{name} must have {rows} rows, got shape {shape}")
    start = np.asarray(csr.indptr, dtype=np.int64)
    column = np.asarray(csr.indices)
    value = gate.numeric_array(f"{name}.data", csr.data, ndim=1) if csr.data.dtype != np.bool_ else csr.data.astype(int)
    if start.shape != (rows + 1,) or start[0] != 0 or (np.diff(start) < 0).any() or start[-1] != column.size:
        raise ValueError(f"{name}.indptr must ascend from 0 to {column.size} in {rows + 1} entries, got {start}")
    if column.size and (column.min() < 0 or column.max() >= shape[1]):
        raise ValueError(f"{name}.indices must lie in [0, {shape[1]}), got {column.min()} to {column.max()}")
    row = np.repeat(np.arange(rows), np.diff(start))
    order = np.lexsort((column, row))
    row, column, value = row[order], column[order], value[order]
    twice = np.flatnonzero((row[1:] == row[:-1]) & (column[1:] == column[:-1]))
    if twice.size:
        raise ValueError(f"{name} must hold each entry once, got [{row[twice[0]]}, {column[twice[0]]}] twice")
    kept = value != 0
    row, column, value = row[kept], column[kept], value[kept]
    start = np.concatenate(([0], np.cumsum(np.bincount(row, minlength=rows))))
    return start.astype(np.int64), column.astype(np.int32), value, int(shape[1])


def _check_symmetric(name: str, matrix: NDArray[np.float32]) -> None:
    # In blocks, so that checking takes no second matrix.
    block = 512
    tolerance = 1e-5 * float(matrix.max(initial=0.0))
    for begin in range(0, matrix.shape[0], block):
        rows = matrix[begin : begin + block]
        difference = np.abs(rows - matrix[:, begin : begin + block].T)
        if difference.size and difference.max() > tolerance:
            i, j = divmod(int(difference.argmax()), difference.shape[1])
            there, back = rows[i, j], matrix[j, begin + i]
            raise ValueError(
                f"{name} must be symmetric, got {there} at [{begin + i}, {j}] and {back} at [{j}, {begin + i}]"
            )


def _dense_similarity(value: object, n: int) -> NDArray[np.float32]:
    array = gate.numeric_array("similarity", value, ndim=2)
    if array.shape != (n, n):
        raise ValueError(f"similarity must have shape ({n}, {n}), got {array.shape}")
    with np.errstate(over="ignore"):
        matrix = np.ascontiguousarray(array, dtype=np.float32)
    if array.size:
        low, high = float(matrix.min()), float(matrix.max())  # NaN passes through both
        if not (low >= 0 and np.isfinite(high)):
            gate.refuse("similarity", ~(np.isfinite(matrix) & (matrix >= 0)), matrix, "finite and >= 0 (max(0, cos))")
    _check_symmetric("similarity", matrix)
    return matrix


def _sparse_similarity(value: object, n: int) -> _Csr:
    start, column, data, columns = _csr_parts("similarity", value, n)
    if columns != n:
        raise ValueError(f"similarity must have shape ({n}, {n}), got ({n}, {columns})")
    values = data.astype(np.float32)
    gate.refuse("similarity.data", ~(np.isfinite(values) & (values >= 0)), values, "finite and >= 0 (max(0, cos))")
    row = np.repeat(np.arange(n), np.diff(start))
    mirrored = np.lexsort((row, column))
    same = np.array_equal(row[mirrored], column) and np.array_equal(column[mirrored], row)
    if not same or (values.size and np.abs(values - values[mirrored]).max() > 1e-5 * values.max()):
        raise ValueError("similarity must be symmetric, got a sparse matrix that differs from its transpose")
    return _Csr(start, column, values)


def _coverage(value: object, n: int) -> tuple[NDArray[np.int64], NDArray[np.int32], int]:
    if _is_sparse(value):
        start, column, data, terms = _csr_parts("coverage", value, n)
        gate.refuse("coverage.data", data != 1, data, "0 or 1 (give weights as coverage_weights)")
        return start, column, terms
    array = np.asarray(value)
    if array.dtype != np.bool_:
        array = gate.numeric_array("coverage", array, ndim=2)
        gate.refuse("coverage", (array != 0) & (array != 1), array, "0 or 1 (give weights as coverage_weights)")
    if array.ndim != 2 or array.shape[0] != n:
        raise ValueError(f"coverage must have shape ({n}, terms), got {array.shape}")
    row, column = np.nonzero(array)
    start = np.concatenate(([0], np.cumsum(np.bincount(row, minlength=n))))
    return start.astype(np.int64), column.astype(np.int32), int(array.shape[1])


def _integer_costs(costs: NDArray[np.float64], budget: float | int) -> tuple[NDArray[np.int64], int] | None:
    """Costs and budget as exact multiples of a common granule, or None where the costs share none.

    A cost such as 22 / 160 is a decimal fraction that no double holds; it counts as the fraction when the fraction,
    divided, gives exactly this double.
    """
    largest_denominator = 10_000
    denominator = 1
    if not (costs == np.floor(costs)).all():
        for cost in np.unique(costs):
            fraction = Fraction(float(cost)).limit_denominator(largest_denominator)
            if fraction.numerator / fraction.denominator != cost:
                return None
            denominator = lcm(denominator, fraction.denominator)
            if denominator > largest_denominator**2:
                return None
    scaled = np.rint(costs * denominator)
    if scaled.sum() >= 2.0**53 or not (scaled / denominator == costs).all():
        return None
    exact_budget = Fraction(budget)
    nearby = exact_budget.limit_denominator(largest_denominator)
    if nearby.numerator / nearby.denominator == float(budget):
        exact_budget = nearby
    integers = scaled.astype(np.int64)
    return integers, min(floor(exact_budget * denominator), int(integers.sum()))


@dataclass(frozen=True, eq=False)
class PackingProblem:
    """Maximise a weighted sum of monotone submodular terms over the sets that cost at most the budget.

    F(S) = relevance + coverage + representation + diversity + facility location, each weighted by `weights` and scaled
    as its entry there says; every term whose array is given and whose weight is positive is on.

    Parameters
    ----------
    costs : array_like of int or float, shape (n,)
        Cost of each item in the unit of `budget` (tokens, for texts). Finite and > 0.
    budget : int or float
        What a selection may cost. Hard: costs that share a granule (integers, n/160) are summed as integers, others
        exactly and rounded once. 0 is a budget in which nothing fits.
    relevance : array_like of float, shape (n,), optional
        Finite and >= 0 (`isinglass.measure.calibrate` turns other scores into such).
    similarity : array_like of float, shape (n, n), or sparse matrix, optional
        Symmetric, finite and >= 0; read as float32. Sparse: anything with `tocsr()` or CSR's `indptr`, `indices`,
        `data`, `shape`.
    embeddings : array_like of float, shape (n, d), optional
        Instead of `similarity`: max(0, cosine) of the rows.
    coverage : array_like of 0/1, shape (n, t), or sparse matrix, optional
        Which of t terms each item covers.
    coverage_weights : array_like of float, shape (t,), optional
        Weight of each term, finite and >= 0; all 1 when absent.
    groups : array_like of int or str, shape (n,), optional
        Group of each item (its document); the mass under the root of diversity is the relevance.
    weights : PackingWeights
    saturation : float
        alpha of the paper, in (0, 1]: an item counts as represented at this share of its degree.
    normalisation : {"p1", "unit"}
        Divisor of diversity: "p1", the root of all relevance, as the paper's authors compute it (the term may exceed
        1); "unit", the value at all items.
    max_items : int, optional
        At most so many items, pinned ones included.
    allowed : array_like of bool, shape (n,), optional
        False: never picked.
    pinned : sequence of int, optional
        Always in the selection, paid from the budget, first in its order.

    Raises
    ------
    ValueError
        For any entry out of its range, named by position; for pinned items that exceed the budget or the cap, or are
        not allowed; for a weight named without its array.

    References
    ----------
    A. N. Bala, 2026, "A Diagnostic for Budget-Constrained Multi-Hop RAG and When Submodular Evidence Packing Improves
    It"; H. Lin, J. Bilmes, 2011, "A class of submodular functions for document summarization".
    """

    costs: ArrayLike
    budget: float
    relevance: ArrayLike | None = None
    similarity: Any = None
    embeddings: ArrayLike | None = None
    coverage: Any = None
    coverage_weights: ArrayLike | None = None
    groups: ArrayLike | None = None
    weights: PackingWeights = PackingWeights()
    saturation: float = 0.3
    normalisation: Literal["p1", "unit"] = "p1"
    max_items: int | None = None
    allowed: ArrayLike | None = None
    pinned: ArrayLike | None = None

    def __post_init__(self) -> None:
        def put(name: str, value: object) -> None:
            object.__setattr__(self, name, value)

        costs = gate.vector("costs", self.costs, positive=True)
        n = costs.size
        put("costs", costs)
        budget = gate.number("budget", self.budget, low=0)
        put("budget", int(self.budget) if isinstance(self.budget, (int, np.integer)) else budget)
        if not isinstance(self.weights, PackingWeights):
            raise ValueError(f"weights must be PackingWeights, got {self.weights!r}")
        put("saturation", gate.number("saturation", self.saturation, above=0))
        if self.saturation > 1:
            raise ValueError(f"saturation must be in (0, 1], got {self.saturation}")
        if self.normalisation not in ("p1", "unit"):
            raise ValueError(f"normalisation must be 'p1' or 'unit', got {self.normalisation!r}")
        if self.relevance is not None:
            hint = " (see isinglass.measure.calibrate)"
            put("relevance", gate.vector("relevance", self.relevance, size=n, hint=hint))
        self._take_similarity(n, put)
        self._take_coverage(n, put)
        if self.groups is not None:
            groups = np.asarray(self.groups)
            if groups.shape != (n,) or (n and groups.dtype.kind not in "iuSU"):
                raise ValueError(
                    f"groups must be an array of int or str of shape ({n},), got {groups.dtype} {groups.shape}"
                )
            _, inverse = np.unique(groups, return_inverse=True)
            put("groups", groups)
            put("_groups", inverse.astype(np.int32).reshape(n))
        if self.allowed is not None:
            put("allowed", gate.flags("allowed", self.allowed, size=n))
        put("pinned", gate.indices("pinned", () if self.pinned is None else self.pinned, size=n))
        if self.max_items is not None:
            put("max_items", gate.integer("max_items", self.max_items, low=0))
        put("_integer_costs", _integer_costs(costs, self.budget))
        self._check_pinned()
        for name in self.weights._named:  # type: ignore[attr-defined]
            needed = _ARRAY_OF_TERM[name]
            either = name in ("representation", "facility_location")
            absent = [a for a in needed if getattr(self, a) is None]
            if len(absent) == len(needed) if either else absent:
                raise ValueError(f"weights.{name} needs {' or '.join(absent) if either else absent[0]}, got none")

    def _take_similarity(self, n: int, put: Any) -> None:
        if self.similarity is not None and self.embeddings is not None:
            raise ValueError("similarity and embeddings exclude each other, got both")
        if self.similarity is not None:
            sparse = _is_sparse(self.similarity)
            put("similarity", (_sparse_similarity if sparse else _dense_similarity)(self.similarity, n))
        if self.embeddings is not None:
            array = gate.numeric_array("embeddings", self.embeddings, ndim=2)
            if array.shape[0] != n:
                raise ValueError(f"embeddings must have {n} rows, got shape {array.shape}")
            if not np.isfinite(array.sum(dtype=np.float64)):
                gate.refuse("embeddings", ~np.isfinite(array), array, "finite")
            put("embeddings", np.asarray(array))

    def _take_coverage(self, n: int, put: Any) -> None:
        if self.coverage is None:
            if self.coverage_weights is not None:
                raise ValueError("coverage_weights need coverage, got none")
            return
        start, column, terms = _coverage(self.coverage, n)
        put("coverage", (start, column))
        if self.coverage_weights is None:
            put("coverage_weights", np.ones(terms))
        else:
            put("coverage_weights", gate.vector("coverage_weights", self.coverage_weights, size=terms))

    def _check_pinned(self) -> None:
        pinned = np.asarray(self.pinned)
        if self.allowed is not None:
            refused = pinned[np.asarray(self.allowed)[pinned] == 0]
            if refused.size:
                raise ValueError(f"pinned items must be allowed, got item {refused[0]} pinned and not allowed")
        if self.max_items is not None and pinned.size > self.max_items:
            raise ValueError(f"pinned items exceed max_items: {pinned.size} > {self.max_items}")
        exact = self._integer_costs  # type: ignore[attr-defined]
        total = float(np.asarray(self.costs)[pinned].sum())
        over = int(exact[0][pinned].sum()) > exact[1] if exact is not None else total > self.budget
        if over:
            raise ValueError(f"pinned items cost more than the budget: {total:g} > {self.budget:g}")

    def __len__(self) -> int:
        return int(np.asarray(self.costs).size)

    def __repr__(self) -> str:
        return f"PackingProblem(n={len(self)}, budget={self.budget:g}, terms={list(self.terms)})"

    @cached_property
    def terms(self) -> tuple[str, ...]:
        """Names of the terms that are on, in the order of `PackingWeights`."""
        on = []
        for name, arrays in _ARRAY_OF_TERM.items():
            present = [getattr(self, array) is not None for array in arrays]
            given = any(present) if name in ("representation", "facility_location") else all(present)
            if given and getattr(self.weights, name) > 0:
                on.append(name)
        return tuple(on)

    @property
    def similarity_bytes(self) -> int:
        """Bytes of the similarity matrix that a solve will allocate: 0 unless embeddings are given and used."""
        used = "representation" in self.terms or "facility_location" in self.terms
        return 4 * len(self) ** 2 if self.embeddings is not None and used else 0

    def core(self, memory_limit: int | None = None) -> _core.PackingCore:
        """The native form, made on first use.

        Raises
        ------
        MemoryError
            If the similarity matrix that `embeddings` ask for exceeds `memory_limit` bytes (None: physical memory).
        """
        ready = self.__dict__.get("_native")
        if ready is None:
            limit = physical_memory() if memory_limit is None else memory_limit
            if self.similarity_bytes > limit:
                raise MemoryError(
                    f"similarity of {len(self)} embeddings needs {self.similarity_bytes} bytes, limit {limit} bytes:"
                    " give a sparse similarity, or weights.representation=0"
                )
            ready = self.__dict__["_native"] = self._make_core()
        return ready

    def _make_core(self) -> _core.PackingCore:
        exact: tuple[NDArray[np.int64], int] | None = self.__dict__["_integer_costs"]
        similarity = self.similarity if isinstance(self.similarity, np.ndarray) else None
        sparse = self.similarity if isinstance(self.similarity, _Csr) else None
        if self.similarity_bytes:
            similarity = _core.cosine_similarity(np.ascontiguousarray(self.embeddings, dtype=np.float32))
        start, column = self.coverage if self.coverage is not None else (None, None)
        groups = self.__dict__.get("_groups")
        pinned = np.asarray(self.pinned, dtype=np.int32)
        weights = self.weights
        return _core.PackingCore(
            costs=self.costs,
            budget=float(self.budget),
            integer_costs=exact[0] if exact else None,
            integer_budget=exact[1] if exact else 0,
            relevance=self.relevance,
            similarity=similarity,
            similarity_rows=sparse.row_start if sparse else None,
            similarity_columns=sparse.column if sparse else None,
            similarity_values=sparse.value if sparse else None,
            coverage_rows=start,
            coverage_terms=column,
            term_weights=self.coverage_weights,
            groups=groups,
            num_groups=int(groups.max(initial=-1)) + 1 if groups is not None else 0,
            allowed=self.allowed,
            pinned=pinned,
            max_items=len(self) if self.max_items is None else self.max_items,
            relevance_weight=weights.relevance,
            coverage_weight=weights.coverage,
            representation_weight=weights.representation,
            diversity_weight=weights.diversity,
            facility_location_weight=weights.facility_location,
            saturation=self.saturation,
            unit_normalisation=self.normalisation == "unit",
        )


def physical_memory() -> int:
    """Bytes of memory of this machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
