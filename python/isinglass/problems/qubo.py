"""Quadratic unconstrained binary optimisation (QUBO): the model that the search engines minimise."""

from __future__ import annotations

import itertools
import math
import operator
import os
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, NoReturn, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isinglass import _core
from isinglass.problems import device, gate
from isinglass.problems.device import DeviceArray
from isinglass.problems.gate import Floats

if TYPE_CHECKING:
    import dimod

Indices = NDArray[np.int64]

# A matrix this small is kept dense whatever its density: half a megabyte, and nothing to look up.
_ALWAYS_DENSE = 256
_DENSE_FROM = 0.25
_EXACT = 1 << 53
# Bytes from which on the machine is asked for its memory.
_ASK_FROM = 1 << 28


class Rows(NamedTuple):
    """Couplings in compressed sparse rows, each pair stored in both directions, columns ascending in a row."""

    row_start: Indices  # (n + 1,)
    neighbour: NDArray[np.int32]  # (m,)
    coupling: Floats  # (m,)


class Ising(NamedTuple):
    """Minimise ``h @ s + s @ J @ s + offset`` over spins s in {-1, +1}; J is strictly upper triangular."""

    h: Floats  # (n,)
    J: Floats  # (n, n)
    offset: float


class Qubo:
    """Minimise ``x @ Q @ x + offset`` over x in {0, 1}, every entry of `Q` counted once.

    To maximise, pass ``-Q``; the energies are then the negated values. ``Q[i, j]`` and ``Q[j, i]`` are added, so a
    symmetric matrix states each coupling in two halves and an upper triangular one states it whole.

    Parameters
    ----------
    Q : array_like of shape (n, n), scipy sparse matrix or array, or mapping
        Finite coefficients. An array may be of any integer or float type up to 64 bits, strided, memory-mapped or
        read-only; it is copied once and never modified. One that lies on a CUDA device (CuPy, PyTorch, Numba) is
        copied to the host, but for one of int8, int16 or int32 with more than 256 variables: its integers are packed
        on the device, and stay there (`device_rows`). A mapping has keys ``(i, j)`` with hashable labels and
        numbers as values; ``(i, i)`` is the bias of a variable, and the values of ``(i, j)`` and ``(j, i)`` are added.
    offset : float, default 0.0
        Constant of every energy.
    labels : sequence of hashable, optional
        Names of the variables in column order, without repetition. Default: 0 .. n-1 for arrays; for a mapping the
        labels in its keys, sorted by value. Labels that do not compare are sorted by the name of their type, and
        within a type by value, or by ``repr`` where not even these compare. With a mapping, declared labels that
        have no term stay as variables.

    Attributes
    ----------
    linear : ndarray of float64, shape (n,)
        Bias of each variable.
    dense : ndarray of float64, shape (n, n), or None
        Upper triangular matrix of the model, `linear` on its diagonal; None where `rows` is stored instead.
    rows : Rows or None
        The couplings as compressed sparse rows; None where `dense` is stored. Which of the two is stored depends on
        the values alone: dense up to 256 variables or from a quarter of all pairs on.
    device_rows : DeviceArray of int8, int16 or int32, shape (n, m), or None
        The couplings of a model that lies on a CUDA device, as integers: times what makes all coefficients whole
        numbers without a common divisor, 0 on the diagonal and past the n-th column. `dense` and `rows` are None then;
        `anneal`, `temper` and `tabu` of ``backend="cuda"`` solve it, and what asks for couplings on the host raises
        ValueError.
    offset : float
    sense : {"minimise", "maximise"}
        "maximise" where the source was stated so and its coefficients were negated (`read_qubo`, `from_max_cut`):
        its objective is ``-energy``. Minimising the energy is right in both cases.
    vartype : {"BINARY", "SPIN"}
        "SPIN" where the source was stated over spins: then `initial_states` may be given as -1 and +1 too. Samples are
        0 and 1 always, x = (s + 1) / 2.

    Raises
    ------
    ValueError
        If `Q` is not square, not of numbers (bool, complex, object, text), or has NaN, an infinity, or an integer that
        float64 cannot hold: with its position; if a key is not a pair; if labels do not fit.
    TypeError
        If `Q` is no matrix or mapping at all.
    MemoryError
        If the model needs more memory than the machine has: with the bytes, before they are allocated.

    Notes
    -----
    Frozen, with read-only arrays. Equality compares the values and labels, not `sense` and `vartype`.
    """

    __slots__ = (
        "__weakref__",
        "_cores",
        "_labels",
        "dense",
        "device_rows",
        "linear",
        "offset",
        "rows",
        "sense",
        "vartype",
    )

    linear: Floats
    dense: Floats | None
    rows: Rows | None
    device_rows: DeviceArray | None
    offset: float
    sense: str
    vartype: str
    _labels: tuple[Hashable, ...] | None
    _cores: dict[float | None, _core.QuboCore]

    def __init__(
        self,
        Q: ArrayLike | Mapping[tuple[Hashable, Hashable], float] | Any,
        offset: float = 0.0,
        labels: Sequence[Hashable] | None = None,
    ) -> None:
        constant = _number(offset, "offset")
        self._fill(_read_there(Q, labels, constant) or _read(Q, labels, "Q"), constant)

    def _fill(self, model: _Model, offset: float, sense: str = "minimise", vartype: str = "BINARY") -> None:
        put = object.__setattr__
        for array in (model.linear, model.dense, *(model.rows or ())):
            if array is not None:
                array.flags.writeable = False
        put(self, "linear", model.linear)
        put(self, "dense", model.dense)
        put(self, "rows", model.rows)
        put(self, "device_rows", model.device_rows)
        put(self, "offset", offset)
        put(self, "sense", sense)
        put(self, "vartype", vartype)
        put(self, "_labels", model.labels)
        put(self, "_cores", {})

    @classmethod
    def _of(cls, model: _Model, offset: float, sense: str = "minimise", vartype: str = "BINARY") -> Qubo:
        qubo = cls.__new__(cls)
        qubo._fill(model, offset, sense, vartype)
        return qubo

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a Qubo is frozen: cannot set {name!r}")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"a Qubo is frozen: cannot delete {name!r}")

    def _here(self) -> None:
        if self.device_rows is not None:
            raise ValueError(
                "the matrix lies on a CUDA device: solve with backend='cuda' and method 'anneal', 'temper' or 'tabu', "
                "or give a copy of it"
            )

    def __reduce__(self) -> tuple[Any, ...]:
        if self.device_rows is not None:
            raise TypeError("a Qubo on a CUDA device stays in its process: give a copy of its matrix on the host")
        model = _Model(self.linear, self.dense, self.rows, self._labels)
        return Qubo._of, (model, self.offset, self.sense, self.vartype)

    # --- other ways in -------------------------------------------------------------------------------------------

    @classmethod
    def from_entries(
        cls,
        rows: ArrayLike,
        columns: ArrayLike,
        values: ArrayLike,
        num_variables: int,
        offset: float = 0.0,
        labels: Sequence[Hashable] | None = None,
        *,
        sense: Literal["minimise", "maximise"] = "minimise",
    ) -> Qubo:
        """The model of ``sum_k values[k] x[rows[k]] x[columns[k]] + offset``: coordinates, each entry counted once.

        Parameters
        ----------
        rows, columns : array_like of int, shape (m,)
            Variables 0 .. num_variables-1, in any order; equal for a bias; repeated entries are added.
        values : array_like of float, shape (m,)
        num_variables : int
        offset, labels
            As for `Qubo`.
        sense : {"minimise", "maximise"}
            "maximise": `values` and `offset` state an objective to be maximised; the model holds its negation.
        """
        if sense not in ("minimise", "maximise"):
            raise ValueError(f"sense must be 'minimise' or 'maximise', got {sense!r}")
        i, j, w, n = _coordinates(rows, columns, values, num_variables)
        constant = _number(offset, "offset")
        if sense == "maximise":
            w, constant = -w, 0.0 - constant
        return cls._of(_from_entries(i, j, w, n, _check_labels(labels, n)), constant, sense)

    @classmethod
    def from_max_cut(
        cls,
        rows: ArrayLike,
        columns: ArrayLike,
        weights: ArrayLike,
        num_vertices: int,
        labels: Sequence[Hashable] | None = None,
    ) -> Qubo:
        """The maximum cut of a weighted graph: ``-energy`` is the weight of the cut between x = 0 and x = 1.

        Parameters
        ----------
        rows, columns : array_like of int, shape (m,)
            The two different ends of each edge, 0 .. num_vertices-1; weights of parallel edges are added.
        weights : array_like of float, shape (m,)
        num_vertices : int
        labels
            As for `Qubo`.
        """
        i, j, w, n = _coordinates(rows, columns, weights, num_vertices)
        if (loop := np.flatnonzero(i == j)).size:
            raise ValueError(f"edge {loop[0]} must join two vertices, got {i[loop[0]]} twice")
        couplings = _from_entries(i, j, w, n, _check_labels(labels, n))
        return cls._of(_transform(couplings, -_degree(couplings), 2.0), 0.0, "maximise")

    @classmethod
    def from_ising(
        cls,
        h: ArrayLike | Mapping[Hashable, float],
        J: ArrayLike | Mapping[tuple[Hashable, Hashable], float] | Any,
        offset: float = 0.0,
        labels: Sequence[Hashable] | None = None,
    ) -> Qubo:
        """The model ``h @ s + s @ J @ s + offset`` over spins s = 2x - 1, every entry of `J` counted once.

        Parameters
        ----------
        h : array_like of shape (n,), or mapping from label to field
        J : array_like of shape (n, n), scipy sparse, or mapping from pairs of labels
            Its diagonal must be 0. A mapping goes with a mapping `h`; the variables are the labels of both.
        offset, labels
            As for `Qubo`.
        """
        if isinstance(h, Mapping) and isinstance(J, Mapping):
            if labels is None:
                labels = _sorted_labels({*h, *itertools.chain.from_iterable(_pairs(J, "J"))})
            couplings = _read(J, labels, "J")
            column = {label: k for k, label in enumerate(labels)}
            if unknown := [label for label in h if label not in column]:
                raise ValueError(f"h has a label that `labels` lacks: {unknown[0]!r}")
            values = _values([h.get(label, 0.0) for label in column], "h", list(column).__getitem__)
        elif isinstance(h, Mapping) or isinstance(J, Mapping):
            raise TypeError(f"h and J must both be mappings or both arrays, got {_kind(h)} and {_kind(J)}")
        else:
            couplings = _read(J, labels, "J")
            values = _values(h, "h", lambda k: k)
        if values.shape != couplings.linear.shape:
            raise ValueError(f"h must have shape {couplings.linear.shape} to go with J, got {values.shape}")
        if (own := np.flatnonzero(couplings.linear)).size:
            k = own[0]
            raise ValueError(f"J[{k}, {k}] must be 0 (fields belong in h), got {couplings.linear[k]}")
        return cls._from_spins(values, couplings, _number(offset, "offset"))

    @classmethod
    def from_spin_terms(
        cls,
        h: ArrayLike,
        rows: ArrayLike,
        columns: ArrayLike,
        values: ArrayLike,
        offset: float = 0.0,
        labels: Sequence[Hashable] | None = None,
    ) -> Qubo:
        """The model ``h @ s + sum_k values[k] s[rows[k]] s[columns[k]] + offset``: what `spin_terms` returns."""
        fields = _values(h, "h", lambda k: k)
        i, j, w, n = _coordinates(rows, columns, values, fields.size)
        if (own := np.flatnonzero(i == j)).size:
            raise ValueError(f"coupling {own[0]} must join two variables, got {i[own[0]]} twice")
        return cls._from_spins(fields, _from_entries(i, j, w, n, _check_labels(labels, n)), _number(offset, "offset"))

    @classmethod
    def _from_spins(cls, h: Floats, J: _Model, offset: float) -> Qubo:
        # s = 2x - 1: h s = 2 h x - h and J s t = 4 J x y - 2 J x - 2 J y + J.
        degree = _degree(J)
        constant = offset + float(degree.sum()) / 2 - float(h.sum())
        return cls._of(_transform(J, 2 * h - 2 * degree, 4.0), constant, vartype="SPIN")

    @classmethod
    def from_bqm(cls, bqm: dimod.BinaryQuadraticModel) -> Qubo:
        """A dimod binary quadratic model, binary or spin; its variables become the labels, in its own order."""
        vartype = getattr(getattr(bqm, "vartype", None), "name", None)
        if vartype not in ("BINARY", "SPIN"):
            raise TypeError(f"expected a dimod BinaryQuadraticModel, got {_kind(bqm)}")
        labels = tuple(bqm.variables)
        biases, (i, j, w), offset = bqm.to_numpy_vectors(variable_order=labels)
        linear = _values(biases, "linear", labels.__getitem__)
        couplings = _from_entries(*_coordinates(i, j, w, linear.size), _check_labels(labels, linear.size))
        if vartype == "SPIN":
            return cls._from_spins(linear, couplings, _number(offset, "offset"))
        return cls._of(_transform(couplings, linear, 1.0), _number(offset, "offset"))

    @classmethod
    def from_pyqubo(cls, model: Any, feed_dict: Mapping[str, float] | None = None) -> Qubo:
        """A pyqubo model (``expression.compile()``), its variables sorted by name, those without a term included."""
        if not hasattr(model, "to_qubo") or not hasattr(model, "variables"):
            raise TypeError(f"expected a compiled pyqubo model (expression.compile()), got {_kind(model)}")
        Q, offset = model.to_qubo(feed_dict=feed_dict)
        return cls(Q, offset, labels=sorted(model.variables))

    def core(self, scale: float | None = None) -> _core.QuboCore:
        """The native integer image, made on first use.

        Parameters
        ----------
        scale : float, optional
            Coefficients are ``round(scale * w)``, ties to even. None: the scale at which they are exact multiples of
            their greatest common granule or least common denominator, or else the largest that keeps every field
            within 2**30.
        """
        self._here()
        core = self._cores.get(scale)
        if core is None:
            start, neighbour, coupling = self.rows or (None, None, None)
            core = self._cores[scale] = _core.QuboCore(
                self.linear, self.dense, start, neighbour, coupling, self.offset, scale
            )
        return core

    @property
    def device_core(self) -> _core.QuboCore | None:
        """The native integer image of a model that lies on a device."""
        return None if self.device_rows is None else cast(_core.QuboCore, self.device_rows.owner)

    # --- what it is ----------------------------------------------------------------------------------------------

    @property
    def num_variables(self) -> int:
        return self.linear.size

    def __len__(self) -> int:
        return self.linear.size

    @property
    def labels(self) -> tuple[Hashable, ...]:
        """Label of each column of a sample."""
        return tuple(range(len(self))) if self._labels is None else self._labels

    @property
    def num_interactions(self) -> int:
        """Pairs of variables with a coupling other than 0."""
        if (there := self.device_core) is not None:
            return there.num_couplings
        if self.rows is not None:
            return self.rows.neighbour.size // 2
        assert self.dense is not None
        return int(np.count_nonzero(self.dense != 0) - np.count_nonzero(self.linear))

    @property
    def density(self) -> float:
        """Share of the n (n - 1) / 2 pairs that are coupled; 0 below two variables."""
        n = len(self)
        return 2 * self.num_interactions / (n * (n - 1)) if n > 1 else 0.0

    def couplings(self) -> tuple[Indices, Indices, Floats]:
        """Arrays i, j, w of the couplings other than 0, each pair once with i < j, sorted by i, then j."""
        self._here()
        if self.dense is not None:
            i, j = np.divmod(np.flatnonzero(self.dense != 0), len(self))
            pair = i != j
            i, j = i[pair], j[pair]
            return i, j, self.dense[i, j]
        assert self.rows is not None
        i = _row_of_each(self.rows)
        pair = self.rows.neighbour > i
        return i[pair], self.rows.neighbour[pair].astype(np.int64), self.rows.coupling[pair]

    def __repr__(self) -> str:
        sense = "" if self.sense == "minimise" else f", sense={self.sense!r}"
        return f"Qubo(num_variables={len(self)}, density={self.density:.3g}, offset={self.offset:g}{sense})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Qubo):
            return NotImplemented
        if self.device_rows is not None or other.device_rows is not None:
            return self is other
        if (len(self), self.offset, self.labels) != (len(other), other.offset, other.labels):
            return False
        if self.dense is not None and other.dense is not None:
            return np.array_equal(self.dense, other.dense)
        return np.array_equal(self.linear, other.linear) and all(
            map(np.array_equal, self.couplings(), other.couplings())
        )

    def __hash__(self) -> int:
        return hash((len(self), self.offset, float(self.linear.sum())))

    # --- energies ------------------------------------------------------------------------------------------------

    def energies(self, X: ArrayLike) -> Floats:
        """Energy of each row of `X`, in float64 from the coefficients as they were given.

        Parameters
        ----------
        X : array_like of shape (r, n)
            States, each value 0 or 1 (any bool, integer or float type).

        Returns
        -------
        ndarray of float64, shape (r,)
            Its terms are added by ascending row, then column of the upper triangle, so the energy of a state has the
            same bits whatever other rows stand beside it, and in every `Result`.
        """
        states = _states(X, len(self))
        if (there := self.device_core) is not None:
            return cast(Floats, device.native().energies(there, states, _core.available_cores()))
        return self.core().energies(states)

    def energy(self, x: ArrayLike) -> float:
        """Energy of one state, shape (n,), values 0 or 1."""
        gate.unmasked("x", x)
        state = np.asarray(x)
        if state.shape != (len(self),):
            raise ValueError(f"x must have shape ({len(self)},), got {state.shape}")
        return float(self.energies(state[np.newaxis])[0])

    # --- other ways out ------------------------------------------------------------------------------------------

    def to_numpy(self) -> Floats:
        """The upper triangular matrix Q of the model, read-only: biases on the diagonal, whole couplings above it.

        Raises
        ------
        MemoryError
            If n * n float64 are more than the machine's memory: with the bytes, before they are allocated.
        """
        if self.dense is not None:
            return self.dense
        Q = _square(len(self))
        i, j, w = self.couplings()
        Q[i, j] = w
        Q.reshape(-1)[:: len(self) + 1] = self.linear
        Q.flags.writeable = False
        return Q

    def to_ising(self) -> Ising:
        """The same energies over spins s = 2x - 1, as ``(h, J, offset)``; dense, so see `to_numpy` on memory."""
        h, i, j, w, offset = self.spin_terms()
        J = _square(len(self))
        J[i, j] = w
        h.flags.writeable = J.flags.writeable = False
        return Ising(h, J, offset)

    def spin_terms(self) -> tuple[Floats, Indices, Indices, Floats, float]:
        """Fields h, couplings i, j, w (each pair once, i < j, sorted) and offset of the model over spins s = 2x - 1."""
        i, j, w = self.couplings()
        n = len(self)
        degree = _sums(i, w, n) + _sums(j, w, n)
        offset = self.offset + float(self.linear.sum()) / 2 + float(w.sum()) / 4
        return self.linear / 2 + degree / 4, i, j, w / 4, offset

    def to_bqm(self, vartype: str = "BINARY") -> dimod.BinaryQuadraticModel:
        """A dimod binary quadratic model with the same labels and energies, "BINARY" or "SPIN" (extra `ocean`)."""
        if vartype not in ("BINARY", "SPIN"):
            raise ValueError(f"vartype must be 'BINARY' or 'SPIN', got {vartype!r}")
        try:
            import dimod
        except ImportError as error:
            raise ImportError("Qubo.to_bqm needs dimod: pip install 'isinglass[ocean]'") from error
        if vartype == "SPIN":
            linear, i, j, w, offset = self.spin_terms()
        else:
            linear, (i, j, w), offset = self.linear, self.couplings(), self.offset
        return dimod.BinaryQuadraticModel.from_numpy_vectors(
            linear, (i, j, w), offset, vartype, variable_order=list(self.labels)
        )


class _Model(NamedTuple):
    """Coefficients and labels, before they are a `Qubo`; labels None for 0 .. n-1."""

    linear: Floats
    dense: Floats | None
    rows: Rows | None
    labels: tuple[Hashable, ...] | None
    device_rows: DeviceArray | None = None


# --- reading what the caller gave ------------------------------------------------------------------------------------


def _read_there(Q: Any, labels: Sequence[Hashable] | None, offset: float) -> _Model | None:
    """The model of a matrix that lies on a device, and is to stay there."""
    if isinstance(Q, np.ndarray | Mapping) or not device.on_device(Q):
        return None
    matrix = device.device_array("Q", Q, ndim=2, dtypes=device.NUMBERS)
    n = _side(matrix.shape, "Q")
    if n <= _ALWAYS_DENSE or matrix.dtype not in (np.int8, np.int16, np.int32):
        return _read(matrix.to_host(), labels, "Q")
    native = device.native()
    if n > native.most_large:
        raise ValueError(f"Q on a device must have at most {native.most_large} variables, got {n}")
    named = _check_labels(labels, n)
    core, linear, pointer, stride, size = native.device_qubo(
        matrix.pointer, n, matrix.dtype.itemsize, offset, matrix.device
    )
    rows = DeviceArray(core, pointer, (n, stride), np.dtype(f"i{size}"), readonly=True)
    return _Model(linear, None, None, named, rows)


def _read(Q: Any, labels: Sequence[Hashable] | None, name: str) -> _Model:
    if isinstance(Q, Mapping):
        return _read_mapping(Q, labels, name)
    if hasattr(Q, "tocoo"):
        coo = Q.tocoo()
        n = _side(coo.shape, name)
        i, j = (np.asarray(index).astype(np.int64) for index in (coo.row, coo.col))
        values = _values(coo.data, name, lambda k: f"{i[k]}, {j[k]}")
        return _from_entries(i, j, values, n, _check_labels(labels, n))
    if isinstance(Q, Qubo):
        raise TypeError(f"{name} is already a Qubo")
    if hasattr(Q, "mask"):
        raise TypeError(f"{name} must not be a masked array: fill it first")
    if device.on_device(Q):
        Q = device.host_copy(name, Q, ndim=2)
    try:
        array = np.asarray(Q)
    except ValueError as error:
        raise ValueError(f"{name} must be a square matrix of numbers: {error}") from None
    if array.ndim == 0:
        raise TypeError(f"{name} must be a square matrix, scipy sparse or a mapping, got {_kind(Q)}")
    n = _side(array.shape, name)
    _refuse_wide(gate.numeric_array(name, array, ndim=2), name)
    return _fold_dense(array, _check_labels(labels, n), name)


def _read_mapping(Q: Mapping[Any, Any], labels: Sequence[Hashable] | None, name: str) -> _Model:
    keys = _pairs(Q, name)
    if labels is None:
        labels = _sorted_labels(set(itertools.chain.from_iterable(keys)))
    labels = tuple(labels)
    # Names and positions are the same thing when the labels are 0 .. n-1: such a model equals one from a matrix.
    stored = _check_labels(labels, len(labels))
    column = {label: k for k, label in enumerate(labels)}
    try:
        i = np.fromiter(map(column.__getitem__, map(operator.itemgetter(0), keys)), np.int64, len(keys))
        j = np.fromiter(map(column.__getitem__, map(operator.itemgetter(1), keys)), np.int64, len(keys))
    except KeyError as error:
        raise ValueError(f"{name} has a label that `labels` lacks: {error.args[0]!r}") from None
    values = _values(list(Q.values()), name, lambda k: f"{keys[k][0]!r}, {keys[k][1]!r}")
    return _from_entries(i, j, values, len(labels), stored)


def _pairs(Q: Mapping[Any, Any], name: str) -> list[tuple[Hashable, Hashable]]:
    for key in Q:
        if not isinstance(key, tuple) or len(key) != 2:
            raise ValueError(f"keys of {name} must be pairs (i, j), got {key!r}")
    return list(Q)


def _sorted_labels(labels: set[Hashable]) -> list[Hashable]:
    if (ordered := _ordered(labels)) is not None:
        return ordered
    by_type: dict[str, list[Hashable]] = {}
    for label in labels:
        by_type.setdefault(type(label).__qualname__, []).append(label)
    return [
        label
        for kind in sorted(by_type)
        for label in (_ordered(by_type[kind]) or sorted(by_type[kind], key=lambda label: (repr(label), hash(label))))
    ]


def _ordered(labels: Iterable[Any]) -> list[Hashable] | None:
    """The labels sorted by value, or None where their comparison is not a total order (sets compare by inclusion)."""
    try:
        ordered = sorted(labels)
    except TypeError:
        return None
    return ordered if all(map(operator.lt, ordered, ordered[1:])) else None


def _check_labels(labels: Sequence[Hashable] | None, n: int) -> tuple[Hashable, ...] | None:
    if labels is None:
        return None
    named = tuple(labels)
    if len(named) != n:
        raise ValueError(f"labels must name {n} variables, got {len(named)}")
    try:
        seen = dict(zip(named, range(n)))
    except TypeError as error:
        raise ValueError(f"labels must be hashable: {error}") from None
    if len(seen) != n:
        twice = next(label for k, label in enumerate(named) if seen[label] != k)
        raise ValueError(f"labels must be distinct, got {twice!r} twice")
    return None if all(type(label) is int and label == k for k, label in enumerate(named)) else named


def _side(shape: tuple[int, ...], name: str) -> int:
    if len(shape) != 2 or shape[0] != shape[1]:
        raise ValueError(f"{name} must be square, shape (n, n), got shape {shape}")
    return shape[0]


def _kind(value: object) -> str:
    return type(value).__name__


def _values(values: Any, name: str, position: Any) -> Floats:
    """Numbers in one dimension as float64; `position(k)` names the k-th in an error."""
    gate.unmasked(name, values)
    array = np.asarray(values)
    if array.ndim != 1:
        raise ValueError(f"{name} must be 1-D, got shape {array.shape}")
    if array.size == 0:
        return np.zeros(0)
    if array.dtype.kind not in "iuf":
        # Found one by one: numpy turns a list with one text into texts, and one with a large integer into objects.
        for k, value in enumerate(values):
            if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
                raise ValueError(f"{name}[{position(k)}] must be a number, got {value!r}")
            if isinstance(value, int) and not _holds(value):
                raise ValueError(f"{name}[{position(k)}] must be an integer that float64 holds, got {value}")
        if isinstance(values, np.ndarray):
            raise ValueError(f"{name} must be an array of int or float, got dtype {array.dtype}: convert it first")
        array = np.array([float(value) for value in values])
    _refuse_wide(array, name)
    floats = array.astype(np.float64)
    if (bad := np.flatnonzero(~np.isfinite(floats))).size:
        raise ValueError(f"{name}[{position(bad[0])}] must be finite, got {floats[bad[0]]}")
    if np.abs(floats).max() >= _EXACT:
        for large in np.flatnonzero(np.abs(floats) >= _EXACT):
            if isinstance(values[large], int | np.integer) and not _holds(int(values[large])):
                raise ValueError(
                    f"{name}[{position(large)}] must be an integer that float64 holds, got {values[large]}"
                )
    return floats


def _refuse_wide(array: NDArray[Any], name: str) -> None:
    if array.dtype.itemsize > 8:
        raise ValueError(f"{name} must be at most 64 bits wide, got dtype {array.dtype}: float64 cannot hold it")


def _holds(value: int) -> bool:
    try:
        return int(float(value)) == value
    except OverflowError:
        return False


def _number(value: Any, name: str) -> float:
    if type(value) is float and math.isfinite(value):
        return value
    return gate.number(name, value.item() if isinstance(value, np.ndarray) and value.ndim == 0 else value)


def _coordinates(
    rows: ArrayLike, columns: ArrayLike, values: ArrayLike, num_variables: int
) -> tuple[Indices, Indices, Floats, int]:
    n = gate.integer("the number of variables", num_variables, low=0, high=(1 << 31) - 1)
    gate.unmasked("rows", rows)
    gate.unmasked("columns", columns)
    i, j, w = np.asarray(rows), np.asarray(columns), _values(values, "values", lambda k: k)
    for index, name in ((i, "rows"), (j, "columns")):
        if index.shape != w.shape or index.ndim != 1:
            raise ValueError(f"{name} must have the shape (m,) of values, {w.shape}, got {index.shape}")
        if index.size and index.dtype.kind not in "iu":
            raise ValueError(f"{name} must be an array of int, got dtype {index.dtype}")
        gate.refuse(name, (index < 0) | (index >= n), index, f"an index in [0, {n})")
    return i.astype(np.int64), j.astype(np.int64), w, n


# --- the stored form -------------------------------------------------------------------------------------------------


def _machine_memory() -> float:
    try:
        return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, ValueError, OSError):
        return math.inf


def _square(n: int) -> Floats:
    if (needed := 8 * n * n) > _ASK_FROM and needed > (present := _machine_memory()):
        raise MemoryError(
            f"a dense matrix of {n} variables needs {needed:,} bytes, this machine has {present:,.0f}: "
            "give scipy sparse or a mapping, and read the model by couplings()"
        )
    return np.zeros((n, n))


def _fold_dense(Q: NDArray[Any], labels: tuple[Hashable, ...] | None, name: str) -> _Model:
    """Q[i, j] + Q[j, i] for i < j, in one native pass over the caller's memory."""
    if Q.dtype == np.float16 or not (Q.dtype.isnative and Q.flags.aligned):
        Q = Q.astype(np.float32 if Q.dtype == np.float16 else Q.dtype.newbyteorder("="))
    n = Q.shape[0]
    upper, linear = _square(n), np.empty(n)
    pairs, plain = _core.fold(Q, upper, linear)
    if not plain:
        _check_entries(Q, upper, name)
    if _stored_dense(n, pairs):
        return _Model(linear, upper, None, labels)
    upper.reshape(-1)[:: n + 1] = 0
    cells = np.flatnonzero(upper != 0)
    return _Model(linear, None, _compress(*np.divmod(cells, n), upper.reshape(-1)[cells], n), labels)


def _check_entries(Q: NDArray[Any], upper: Floats, name: str) -> None:
    """Name the first entry that is not finite, or an integer that float64 cannot hold."""
    for i, row in enumerate(Q):
        _values(row, name, lambda j, i=i: f"{i}, {j}")
    if (bad := np.argwhere(~np.isfinite(upper))).size:
        i, j = bad[0]
        raise ValueError(f"{name}[{i}, {j}] + {name}[{j}, {i}] must be finite, got {upper[i, j]}")


def _from_entries(i: Indices, j: Indices, w: Floats, n: int, labels: tuple[Hashable, ...] | None) -> _Model:
    """Add repeated entries; i, j and w are trusted."""
    if n <= _ALWAYS_DENSE:
        upper = _sums(np.minimum(i, j) * n + np.maximum(i, j), w, n * n).reshape(n, n)
        model = _Model(upper.diagonal().copy(), upper, None, labels)
    else:
        own = i == j
        linear = _sums(i[own], w[own], n)
        low, high, w = np.minimum(i, j)[~own], np.maximum(i, j)[~own], w[~own]
        pair = low * n + high
        if (pair[1:] <= pair[:-1]).any():
            order = np.argsort(pair, kind="stable")
            pair, w = pair[order], w[order]
            first = np.flatnonzero(np.r_[True, pair[1:] != pair[:-1]])
            pair, w = pair[first], np.add.reduceat(w, first)
        pair, w = pair[w != 0], w[w != 0]
        low, high = np.divmod(pair, n)
        if _stored_dense(n, w.size):
            upper = _square(n)
            upper[low, high] = w
            upper.reshape(-1)[:: n + 1] = linear
            model = _Model(linear, upper, None, labels)
        else:
            model = _Model(linear, None, _compress(low, high, w, n), labels)
    if not all(
        np.isfinite(part).all() for part in (model.linear, model.dense, *(model.rows or ())) if part is not None
    ):
        raise ValueError("the sum of repeated entries must be finite: it overflows float64")
    return model


def _stored_dense(n: int, pairs: int) -> bool:
    return n <= _ALWAYS_DENSE or 2 * pairs >= _DENSE_FROM * n * (n - 1)


def _compress(low: Indices, high: Indices, w: Floats, n: int) -> Rows:
    """Both directions of the pairs low < high, which come sorted by low, then high."""
    up, down = np.bincount(low, minlength=n), np.bincount(high, minlength=n)
    row_start = np.zeros(n + 1, dtype=np.int64)
    np.cumsum(up + down, out=row_start[1:])
    neighbour = np.empty(2 * w.size, dtype=np.int32)
    coupling = np.empty(2 * w.size)
    # In a row the smaller neighbours come first: the pairs sorted by high, each low ascending since the sort is stable.
    by_high = np.argsort(high, kind="stable")
    rank = np.arange(w.size)
    below = row_start[high[by_high]] + rank - (np.cumsum(down) - down)[high[by_high]]
    above = (row_start[:-1] + down)[low] + rank - (np.cumsum(up) - up)[low]
    neighbour[below], coupling[below] = low[by_high], w[by_high]
    neighbour[above], coupling[above] = high, w
    return Rows(row_start, neighbour, coupling)


def _sums(index: Indices, weights: Floats, n: int) -> Floats:
    """Sum of the weights of each index 0 .. n-1, added in their order."""
    return np.bincount(index, weights=weights, minlength=n).astype(np.float64, copy=False)


def _row_of_each(rows: Rows) -> Indices:
    return np.repeat(np.arange(rows.row_start.size - 1), np.diff(rows.row_start))


def _degree(model: _Model) -> Floats:
    """Sum of the couplings of each variable, in a model whose biases are 0."""
    if model.rows is not None:
        return _sums(_row_of_each(model.rows), model.rows.coupling, model.linear.size)
    assert model.dense is not None
    across: Floats = model.dense.sum(axis=0) + model.dense.sum(axis=1)
    return across


def _transform(model: _Model, linear: Floats, factor: float) -> _Model:
    """The model with these biases and its couplings times `factor`."""
    if model.rows is not None:
        return _Model(linear, None, model.rows._replace(coupling=model.rows.coupling * factor), model.labels)
    assert model.dense is not None
    upper = model.dense * factor
    upper.reshape(-1)[:: linear.size + 1] = linear
    return _Model(linear, upper, None, model.labels)


# --- states ----------------------------------------------------------------------------------------------------------


def _states(X: ArrayLike, n: int) -> NDArray[np.uint8]:
    gate.unmasked("X", X)
    states = np.asarray(X)
    if states.ndim != 2 or states.shape[1] != n:
        raise ValueError(f"X must have shape (r, {n}), got {states.shape}")
    bits: NDArray[np.bool_] = states == 1
    if states.dtype.kind != "b" and not (bits | (states == 0)).all():
        r, i = np.argwhere(~bits & (states != 0))[0]
        raise ValueError(f"X[{r}, {i}] must be 0 or 1, got {states[r, i]}")
    return np.ascontiguousarray(bits).view(np.uint8)
