"""The packing problem: which items to take under a hard budget."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from math import floor, fsum, isfinite, lcm
from typing import Any, Literal, NamedTuple, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isinglass import _core
from isinglass.problems import gate
from isinglass.problems.device import DeviceArray
from isinglass.problems.embeddings import embedding_rows
from isinglass.problems.gate import Floats
from isinglass.problems.term import Term

_ARRAYS_OF_TERM = {
    "relevance": ("relevance",),
    "coverage": ("coverage",),
    "representation": ("similarity", "embeddings"),
    "diversity": ("relevance", "groups"),
    "facility_location": ("similarity", "embeddings"),
}
# Items up to which the similarity that embeddings mean is stored: it fits the caches, and gains are read, not made.
_STORED_SIMILARITY = 2048
# Items up to which each is represented: beyond, sums over all pairs take minutes.
_REPRESENTED_WHOLLY = 65_536
_SAMPLE = 4_096
_ALWAYS_THERE = 2**26  # bytes for which a machine is not asked
_NO_ITEMS = gate.indices("pinned", (), size=0)
# The largest part of a pool that one Greedy+Max of `sharded` gets.
_SHARD = 32_768
# Sixteen lanes of the sums of rows, and the vectors of a run.
_WORKING_BYTES_PER_ITEM = 256
# Of all items: sums, shards, and the gains and knapsack of a bound.
_BYTES_PER_SHARDED_ITEM = 96
_EITHER_ARRAY = ("representation", "facility_location")  # one of its arrays is enough


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
    named: frozenset[str] = field(repr=False, compare=False)

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
        for (name, default), value in zip(_DEFAULT_WEIGHTS.items(), given, strict=True):
            weight = default if value is None else gate.number(f"weights.{name}", value, low=0)
            if value is not None and weight > 0:
                named.add(name)
            object.__setattr__(self, name, weight)
        object.__setattr__(self, "named", frozenset(named))


_DEFAULT_WEIGHTS = {
    "relevance": 1.0,
    "coverage": 0.5,
    "representation": 0.4,
    "diversity": 0.3,
    "facility_location": 0.0,
}
_DEFAULTS = PackingWeights()


class Csr(NamedTuple):
    """A sparse matrix by rows: columns ascending and distinct, no stored zeros. Coverage has no values: all are 1."""

    row_start: NDArray[np.int64]
    column: NDArray[np.int32]
    value: NDArray[np.float32] | None


def _is_sparse(value: object) -> bool:
    return all(hasattr(value, name) for name in ("indptr", "indices", "data", "shape")) or hasattr(value, "tocsr")


def _csr_parts(name: str, matrix: Any, rows: int) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], int]:
    """Row starts, columns and values of a sparse matrix, columns ascending, distinct in a row, no stored zeros."""
    csr = matrix.tocsr() if hasattr(matrix, "tocsr") else matrix
    shape = tuple(csr.shape)
    if len(shape) != 2 or shape[0] != rows:
        raise ValueError(f"{name} must have {rows} rows, got shape {shape}")
    start = np.array(csr.indptr, dtype=np.int64)
    column = np.asarray(csr.indices)
    value = gate.numeric_array(f"{name}.data", csr.data, ndim=1) if csr.data.dtype != np.bool_ else csr.data.astype(int)
    if start.shape != (rows + 1,) or start[0] != 0 or (np.diff(start) < 0).any() or start[-1] != column.size:
        raise ValueError(f"{name}.indptr must ascend from 0 to {column.size} in {rows + 1} entries, got {start}")
    if column.size and (column.min() < 0 or column.max() >= shape[1]):
        raise ValueError(f"{name}.indices must lie in [0, {shape[1]}), got {column.min()} to {column.max()}")
    if _in_order(start, column) and value.all():
        return start, gate.owned(column.astype(np.int32, copy=False), column), value, int(shape[1])
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


def _in_order(start: NDArray[np.int64], column: NDArray[Any]) -> bool:
    """Whether columns ascend in every row."""
    ascends = column[1:] > column[:-1]
    first = start[1:-1]
    ascends[first[(first > 0) & (first < column.size)] - 1] = True
    return bool(ascends.all())


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
    return gate.owned(matrix, array)


def _similarity(value: object, n: int) -> NDArray[np.float32] | Csr | None:
    if value is None:
        return None
    return _sparse_similarity(value, n) if _is_sparse(value) else _dense_similarity(value, n)


def _groups(value: ArrayLike | None, n: int) -> NDArray[np.int32] | None:
    if value is None:
        return None
    gate.unmasked("groups", value)
    groups = np.asarray(value)
    if groups.shape != (n,) or (n and groups.dtype.kind not in "iuSU"):
        raise ValueError(f"groups must be an array of int or str of shape ({n},), got {groups.dtype} {groups.shape}")
    if groups.dtype == np.int64 and (ranks := _core.ranks(np.ascontiguousarray(groups), 8 * n)) is not None:
        return ranks  # what sorting would give, by a table
    numbers = np.unique(groups, return_inverse=True)[1].astype(np.int32).reshape(n)
    numbers.setflags(write=False)
    return numbers


def _sparse_similarity(value: object, n: int) -> Csr:
    start, column, data, columns = _csr_parts("similarity", value, n)
    if columns != n:
        raise ValueError(f"similarity must have shape ({n}, {n}), got ({n}, {columns})")
    values = gate.owned(data.astype(np.float32, copy=False), data)
    if not (values.min(initial=0.0) >= 0 and np.isfinite(values.max(initial=0.0))):
        gate.refuse("similarity.data", ~(np.isfinite(values) & (values >= 0)), values, "finite and >= 0 (max(0, cos))")
    tolerance = 1e-5 * float(values.max(initial=0.0))
    if _core.first_unmirrored(start, column, values, tolerance) >= 0:
        raise ValueError("similarity must be symmetric, got a sparse matrix that differs from its transpose")
    return Csr(start, column, values)


def _coverage(value: object, n: int) -> tuple[Csr | None, int]:
    if value is None:
        return None, 0
    if _is_sparse(value):
        start, column, data, terms = _csr_parts("coverage", value, n)
        gate.refuse("coverage.data", data != 1, data, "0 or 1 (give weights as coverage_weights)")
        return Csr(start, column, None), terms
    gate.unmasked("coverage", value)
    array = np.asarray(value)
    if array.dtype != np.bool_:
        array = gate.numeric_array("coverage", array, ndim=2)
        gate.refuse("coverage", (array != 0) & (array != 1), array, "0 or 1 (give weights as coverage_weights)")
    if array.ndim != 2 or array.shape[0] != n:
        raise ValueError(f"coverage must have shape ({n}, terms), got {array.shape}")
    return Csr(*_core.true_entries(np.ascontiguousarray(array, dtype=np.bool_)), None), array.shape[1]


def integer_costs(costs: NDArray[np.float64], budget: float | int) -> tuple[NDArray[np.int64], int] | None:
    """Costs and budget as exact multiples of a common granule, or None where the costs share none.

    A cost such as 22 / 160 is a decimal fraction that no double holds; it counts as the fraction when the fraction,
    divided, gives exactly this double.
    """
    total = float(costs.sum())
    if total < 2.0**53:
        integers = costs.astype(np.int64)
        if (integers == costs).all():
            return integers, min(floor(budget), int(total))
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


def _own_terms(terms: Sequence[Term], n: int) -> tuple[Term, ...]:
    if isinstance(terms, Term) or not isinstance(terms, Sequence):
        raise TypeError(f"terms must be a sequence of Term, got {type(terms).__name__}")
    for position, term in enumerate(terms):
        if not isinstance(term, Term):
            raise TypeError(f"terms[{position}] must be a Term, got {type(term).__name__}")
        if term.name in _ARRAYS_OF_TERM or term.name in [other.name for other in terms[:position]]:
            raise ValueError(f"terms[{position}].name must be new, got {term.name!r} again")
        term.verify(n, term.check)
    return tuple(term for term in terms if term.weight > 0)


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
        Symmetric, finite and >= 0; read as float32, and kept without a copy if it is that already, contiguous and
        read-only. Sparse: anything with `tocsr()` or CSR's `indptr`, `indices`, `data`, `shape`.
    embeddings : array_like of float, shape (n, d), optional
        Instead of `similarity`: max(0, cosine) of the rows, in float32. Large pools never form the (n, n) matrix. A
        memory map that is opened for reading is not copied. A float32 array on a CUDA device (CuPy, PyTorch: by
        `__cuda_array_interface__` or DLPack) is read where it lies, by `backend="cuda"` alone, at the first solve:
        until then it must not change.
    coverage : array_like of 0/1, shape (n, t), or sparse matrix, optional
        Which of t terms each item covers.
    coverage_weights : array_like of float, shape (t,), optional
        Weight of each term, finite and >= 0; all 1 when absent.
    groups : array_like of int or str, shape (n,), optional
        Group of each item (its document); the mass under the root of diversity is the relevance.
    weights : PackingWeights, optional
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
    represented : int, optional
        How many items representation and facility location sum over, where similarities come from `embeddings`: their
        outer sums run over a fixed sample of so many, drawn by hash whatever the seed, with every similarity to it
        exact. So the objective is that of the sample, an estimate of the one over all items; values, bounds and
        certificates are exact for it. None: all items up to 65,536, a sample of 4,096 of larger pools, where all pairs
        would take minutes to hours. `represented_items` names them.
    terms : sequence of Term, optional
        Terms that the caller wrote as compiled functions, each with a weight of its own; `own_terms` keeps those whose
        weight is positive.

    Raises
    ------
    ValueError
        For any entry out of its range, named by position; for pinned items that exceed the budget or the cap, or are
        not allowed; for a weight named without its array.

    Notes
    -----
    Arrays of numbers may lie on a CUDA device: but for `embeddings` they are copied to the host.

    References
    ----------
    A. N. Bala, 2026, "A Diagnostic for Budget-Constrained Multi-Hop RAG and When Submodular Evidence Packing Improves
    It"; H. Lin, J. Bilmes, 2011, "A class of submodular functions for document summarization".
    """

    costs: Floats
    budget: int | float
    relevance: Floats | None
    similarity: NDArray[np.float32] | Csr | None
    embeddings: NDArray[Any] | DeviceArray | None
    coverage: Csr | None
    coverage_weights: Floats | None
    groups: NDArray[np.int32] | None
    weights: PackingWeights
    saturation: float
    normalisation: Literal["p1", "unit"]
    max_items: int | None
    allowed: NDArray[np.bool_] | None
    pinned: NDArray[np.int64]
    represented: int | None
    own_terms: tuple[Term, ...]

    def __init__(
        self,
        costs: ArrayLike,
        budget: float,
        relevance: ArrayLike | None = None,
        similarity: Any = None,
        embeddings: ArrayLike | None = None,
        coverage: Any = None,
        coverage_weights: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        weights: PackingWeights | None = None,
        saturation: float = 0.3,
        normalisation: Literal["p1", "unit"] = "p1",
        max_items: int | None = None,
        allowed: ArrayLike | None = None,
        pinned: Sequence[int] | ArrayLike | None = None,
        represented: int | None = None,
        terms: Sequence[Term] = (),
    ) -> None:
        fields = self.__dict__
        fields["costs"] = gate.vector("costs", costs, positive=True)
        n = self.costs.size
        checked = gate.number("budget", budget, low=0)
        fields["budget"] = int(budget) if isinstance(budget, (int, np.integer)) else checked
        fields["weights"] = _DEFAULTS if weights is None else weights
        if not isinstance(self.weights, PackingWeights):
            raise ValueError(f"weights must be PackingWeights, got {weights!r}")
        fields["saturation"] = gate.number("saturation", saturation, above=0)
        if self.saturation > 1:
            raise ValueError(f"saturation must be in (0, 1], got {saturation}")
        if normalisation not in ("p1", "unit"):
            raise ValueError(f"normalisation must be 'p1' or 'unit', got {normalisation!r}")
        fields["normalisation"] = normalisation
        hint = " (see isinglass.measure.calibrate)"
        fields["relevance"] = None if relevance is None else gate.vector("relevance", relevance, size=n, hint=hint)
        if similarity is not None and embeddings is not None:
            raise ValueError("similarity and embeddings exclude each other, got both")
        fields["similarity"] = _similarity(similarity, n)
        fields["embeddings"] = None if embeddings is None else embedding_rows("embeddings", embeddings, n)
        fields["coverage"], covered_terms = _coverage(coverage, n)
        if coverage is None and coverage_weights is not None:
            raise ValueError("coverage_weights need coverage, got none")
        if coverage_weights is not None:
            fields["coverage_weights"] = gate.vector("coverage_weights", coverage_weights, size=covered_terms)
        else:
            fields["coverage_weights"] = None if coverage is None else np.ones(covered_terms)
        fields["groups"] = _groups(groups, n)
        fields["allowed"] = None if allowed is None else gate.flags("allowed", allowed, size=n)
        fields["pinned"] = _NO_ITEMS if pinned is None else gate.indices("pinned", pinned, size=n)
        fields["max_items"] = None if max_items is None else gate.integer("max_items", max_items, low=0)
        fields["own_terms"] = _own_terms(terms, n)
        fields["represented"] = None if represented is None else gate.integer("represented", represented, low=1)
        if represented is not None and embeddings is None:
            raise ValueError(f"represented needs embeddings, got {represented} without them")
        fields["_integer_costs"] = integer_costs(self.costs, self.budget)
        self._check_pinned()
        self._check_weights()

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"PackingProblem is frozen: cannot set {name!r}")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"PackingProblem is frozen: cannot delete {name!r}")

    def __getstate__(self) -> dict[str, Any]:
        # The native form stays in its process; another one makes its own.
        return {name: value for name, value in self.__dict__.items() if name != "_native"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    def _check_pinned(self) -> None:
        pinned = self.pinned
        if not pinned.size:
            return
        if self.allowed is not None:
            refused = pinned[~self.allowed[pinned]]
            if refused.size:
                raise ValueError(f"pinned items must be allowed, got item {refused[0]} pinned and not allowed")
        if self.max_items is not None and pinned.size > self.max_items:
            raise ValueError(f"pinned items exceed max_items: {pinned.size} > {self.max_items}")
        exact = self._exact_costs
        total = fsum(self.costs[pinned])
        if int(exact[0][pinned].sum()) > exact[1] if exact is not None else total > self.budget:
            raise ValueError(f"pinned items cost more than the budget: {total:g} > {self.budget:g}")

    def _check_weights(self) -> None:
        for name in self.weights.named:
            needed = _ARRAYS_OF_TERM[name]
            absent = [array for array in needed if getattr(self, array) is None]
            if name in _EITHER_ARRAY:
                if len(absent) == len(needed):
                    raise ValueError(f"weights.{name} needs {' or '.join(needed)}, got none")
            elif absent:
                raise ValueError(f"weights.{name} needs {absent[0]}, got none")
        for name, array in (("relevance", self.relevance), ("coverage", self.coverage_weights)):
            weight = getattr(self.weights, name)
            # The sum itself is finite.
            if array is not None and weight > 1 and not isfinite(weight * float(array.sum())):
                raise ValueError(f"weights.{name} must keep the objective finite, got {weight:g}")

    @property
    def _exact_costs(self) -> tuple[NDArray[np.int64], int] | None:
        exact: tuple[NDArray[np.int64], int] | None = self.__dict__["_integer_costs"]
        return exact

    def __len__(self) -> int:
        return self.costs.size

    def __repr__(self) -> str:
        return f"PackingProblem(n={len(self)}, budget={self.budget:g}, terms={list(self.terms)})"

    @cached_property
    def terms(self) -> tuple[str, ...]:
        """Names of the terms that are on, in the order of `PackingWeights`."""
        on = []
        for name, arrays in _ARRAYS_OF_TERM.items():
            present = [getattr(self, array) is not None for array in arrays]
            given = any(present) if name in _EITHER_ARRAY else all(present)
            if given and getattr(self.weights, name) > 0:
                on.append(name)
        return (*on, *(term.name for term in self.own_terms))

    @property
    def is_submodular(self) -> bool:
        """Whether gains only fall as the set grows: by theorem for the terms here, by declaration for `own_terms`."""
        return all(term.submodular for term in self.own_terms)

    @property
    def is_bounded(self) -> bool:
        """Whether bounds hold: what laziness and certificates need of `own_terms`."""
        return self.is_submodular and all(term.monotone for term in self.own_terms)

    @cached_property
    def represented_items(self) -> NDArray[np.int32] | None:
        """Items that representation and facility location sum over, ascending; None: all."""
        n = len(self)
        count = self.represented or (n if n <= _REPRESENTED_WHOLLY else _SAMPLE)
        if count >= n or not self.uses_embeddings:
            return None
        lowest = np.argpartition(_hashes(n), count)[:count]
        items = np.sort(lowest).astype(np.int32)
        items.setflags(write=False)
        return items

    @property
    def _stores_similarity(self) -> bool:
        """Whether a solve makes the matrix that `embeddings` mean; else gains compute what they need of it."""
        return self.uses_embeddings and len(self) <= _STORED_SIMILARITY and self.represented_items is None

    @property
    def uses_embeddings(self) -> bool:
        """Whether a term that is on looks at `embeddings`."""
        return self.embeddings is not None and ("representation" in self.terms or "facility_location" in self.terms)

    @property
    def num_represented(self) -> int:
        """How many items representation and facility location sum over."""
        items = self.represented_items
        return len(self) if items is None else items.size

    @property
    def default_shards(self) -> int:
        """Parts of the pool that `sharded` makes when not told."""
        return max(1, -(-len(self) // _SHARD))

    def sharded_bytes(self, shards: int, threads: int) -> int:
        """Bytes that `sharded` allocates: those of a solve, sums and a bound over all items, a run for each thread."""
        n = len(self)
        groups = 0 if self.groups is None else int(self.groups.max(initial=-1)) + 1
        run = _WORKING_BYTES_PER_ITEM * 2 * -(-n // shards) + 64 * self.num_represented + 24 * groups
        return self.working_bytes + _BYTES_PER_SHARDED_ITEM * n + (min(threads, shards) + 1) * run

    @property
    def working_bytes(self) -> int:
        """Bytes that a solve allocates for `embeddings`: their similarity matrix, or scaled copies and sums."""
        if self.embeddings is None or not self.uses_embeddings:
            return 0
        n, d = map(int, self.embeddings.shape)
        rows = self.embeddings
        sample = self.represented_items
        if isinstance(rows, DeviceArray):
            copied = 4 * n * d if sample is not None else 0
        else:
            copied = 0 if rows.dtype == np.float32 and rows.flags.c_contiguous else 4 * n * d
        if sample is not None:
            m = sample.size
            return copied + 4 * m * d + _core.bytes_of_sample_sums(n, m) + _WORKING_BYTES_PER_ITEM * (n + 8 * m)
        return copied + 4 * n * d + (4 * n * n if self._stores_similarity else _WORKING_BYTES_PER_ITEM * n)

    def check_memory(self, memory_limit: int | None, needed: int) -> None:
        """Refuses to need more than `memory_limit` bytes (None: physical memory), before anything is allocated."""
        if memory_limit is None and needed <= _ALWAYS_THERE:
            return
        limit = physical_memory() if memory_limit is None else memory_limit
        if needed > limit:
            hint = ": give a sparse similarity, a smaller `represented`, or weights.representation=0"
            raise MemoryError(
                f"packing from {len(self)} {'items' if self.embeddings is None else 'embeddings'} needs {needed} bytes,"
                f" limit {limit} bytes{'' if self.embeddings is None else hint}"
            )

    @property
    def ready_core(self) -> _core.PackingCore | None:
        """The native form, if it was made."""
        return self.__dict__.get("_native")

    def core(self, memory_limit: int | None = None, threads: int | None = None) -> _core.PackingCore:
        """The native form, made on first use.

        Raises
        ------
        MemoryError
            If what `embeddings` ask for exceeds `memory_limit` bytes (None: physical memory).
        """
        ready = self.__dict__.get("_native")
        if ready is None:
            self.check_memory(memory_limit, self.working_bytes)
            ready = self.__dict__["_native"] = self._make_core(threads or _core.available_cores())
        return ready

    def _make_core(self, threads: int) -> _core.PackingCore:
        exact = self._exact_costs
        similarity = self.similarity if isinstance(self.similarity, np.ndarray) else None
        sparse = self.similarity if isinstance(self.similarity, Csr) else None
        embeddings = dimension = None
        if self.uses_embeddings and isinstance(self.embeddings, DeviceArray):
            dimension = self.embeddings.shape[1]
        elif self.uses_embeddings:
            embeddings = np.ascontiguousarray(self.embeddings, dtype=np.float32)
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
            embeddings=embeddings,
            device_dimension=dimension,
            represented=self.represented_items,
            store_similarity=self._stores_similarity,
            coverage_rows=self.coverage.row_start if self.coverage else None,
            coverage_terms=self.coverage.column if self.coverage else None,
            term_weights=self.coverage_weights,
            groups=self.groups,
            num_groups=0 if self.groups is None else int(self.groups.max(initial=-1)) + 1,
            allowed=None if self.allowed is None else self.allowed.view(np.uint8),
            pinned=self.pinned.astype(np.int32),
            max_items=len(self) if self.max_items is None else self.max_items,
            relevance_weight=weights.relevance,
            coverage_weight=weights.coverage,
            representation_weight=weights.representation,
            diversity_weight=weights.diversity,
            facility_location_weight=weights.facility_location,
            saturation=self.saturation,
            unit_normalisation=self.normalisation == "unit",
            terms=self.own_terms,
            threads=threads,
        )


def _hashes(n: int) -> NDArray[np.uint64]:
    """A 64-bit hash of each of 0 .. n - 1: splitmix64 (Steele, Lea, Flood 2014)."""
    x = np.arange(n, dtype=np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def physical_memory() -> int:
    """Bytes of memory of this machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
