"""Requirement-aware selection: passages that together support what an answer requires, and its QUBO."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from difflib import get_close_matches
from functools import cached_property
from math import floor, fsum
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isinglass import _core
from isinglass.problems import gate
from isinglass.problems.embeddings import cosines, embedding_rows
from isinglass.problems.gate import Floats
from isinglass.problems.packing import integer_costs
from isinglass.problems.qubo import Qubo
from isinglass.result import Result

Indices = NDArray[np.int64]
Name = tuple[str | int, ...]


def _check_numbers(instance: Any) -> None:
    """Each field of a frozen dataclass becomes a finite float >= 0."""
    for field in fields(instance):
        value = gate.number(f"{type(instance).__name__}.{field.name}", getattr(instance, field.name), low=0)
        object.__setattr__(instance, field.name, value)


@dataclass(frozen=True)
class EvidenceWeights:
    """Weights of the objective, each finite and >= 0. The defaults are the paper's, but for `mu`, which is ours.

    Attributes
    ----------
    alpha : float
        Of the relevance s_i of each chosen passage.
    beta : float
        Of the redundancy of each chosen pair (subtracted).
    gamma_partial, gamma_direct : float
        gamma_P and gamma_D: of a requirement's weight once a chosen passage supports it at all, and directly.
    delta : float
        Of the complementarity of each chosen pair.
    eta : float
        Of the support that a passage brings, sum_j w_j S_ji.
    kappa : float
        Penalty of a chosen passage that supports nothing.
    mu : float
        Price of every chosen passage: compactness.
    rho_diff : float
        Factor of redundancy between passages that support nothing in common.
    """

    alpha: float = 10.0
    beta: float = 10.0
    gamma_partial: float = 4.0
    gamma_direct: float = 10.0
    delta: float = 8.0
    eta: float = 10.0
    kappa: float = 20.0
    mu: float = 2.0
    rho_diff: float = 0.25

    def __post_init__(self) -> None:
        _check_numbers(self)


@dataclass(frozen=True)
class EvidencePenalties:
    """Weights of the squared constraints of the QUBO, each finite and >= 0. All are ours (the paper's are unpublished).

    No answer of `swap` and `exact` depends on them. The defaults are moderate, as in the paper's runs, and not large
    enough for every problem: see `EvidenceProblem.check_penalties` and `safe_penalties`.

    Attributes
    ----------
    lambda_K : float
        Of at most `max_passages` passages.
    lambda_P, lambda_D : float
        Of y^P_j <= the number of chosen passages that support j, and y^D_j <= those that do so directly.
    lambda_H : float
        Of y^D_j <= y^P_j.
    lambda_B : float
        Of the token budget, where there is one; the unit of its square is the common granule of the costs.
    """

    lambda_K: float = 30.0  # noqa: N815
    lambda_P: float = 20.0  # noqa: N815
    lambda_D: float = 20.0  # noqa: N815
    lambda_H: float = 20.0  # noqa: N815
    lambda_B: float = 30.0  # noqa: N815

    def __post_init__(self) -> None:
        _check_numbers(self)


_PRESETS: dict[str, dict[str, Any]] = {
    "baseline": {},
    "C1": {"penalties": EvidencePenalties(lambda_K=15.0, lambda_P=10.0, lambda_D=10.0)},
    "K3": {"max_passages": 3},
    "K6": {"max_passages": 6},
    "compact": {"weights": EvidenceWeights(mu=6.0)},
    "rigid": {"penalties": EvidencePenalties(lambda_K=3000.0)},
}


def preset(name: str) -> dict[str, Any]:
    """Keyword arguments of a named configuration: ``EvidenceProblem(..., **preset("C1"))``.

    Parameters
    ----------
    name : {"baseline", "C1", "K3", "K6", "compact", "rigid"}
        "C1": weaker budget and coverage penalties (the paper's best); "K3", "K6": that many passages; "compact": a
        higher price of each passage; "rigid": a very large budget penalty. The numbers are ours.

    Returns
    -------
    dict
        weights, penalties, max_passages.
    """
    if name not in _PRESETS:
        near = get_close_matches(str(name), _PRESETS, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"expected one of {', '.join(_PRESETS)}"
        raise ValueError(f"unknown preset {name!r}: {hint}")
    return {"weights": EvidenceWeights(), "penalties": EvidencePenalties(), "max_passages": 5, **_PRESETS[name]}


# --- scores from support ---------------------------------------------------------------------------------------------


def unsupported(support: ArrayLike) -> NDArray[np.bool_]:
    """u_i: whether passage i supports no requirement.

    Parameters
    ----------
    support : array_like of {0, 1, 2}, shape (m, n)

    Returns
    -------
    ndarray of bool, shape (n,)
    """
    return np.asarray((_support(support) == 0).all(axis=0))


def support_overlap(support: ArrayLike, rho_diff: float = 0.25) -> Floats:
    """rho_ik: the Jaccard overlap of what two passages support, or `rho_diff` where they share nothing.

    Parameters
    ----------
    support : array_like of {0, 1, 2}, shape (m, n)
    rho_diff : float

    Returns
    -------
    ndarray, shape (n, n)
        Symmetric.
    """
    return _overlap(_support(support), rho_diff)


def _overlap(support: NDArray[np.int8], rho_diff: float) -> Floats:
    supports = (support > 0).astype(np.float64)
    shared = np.einsum("ji,jk->ik", supports, supports)  # not by @: see to_qubo
    size = supports.sum(axis=0)
    either = size[:, np.newaxis] + size - shared
    return np.where(shared > 0, shared / np.maximum(either, 1), rho_diff)


def support_aware_redundancy(support: ArrayLike, redundancy: ArrayLike, rho_diff: float = 0.25) -> Floats:
    """The redundancy that the objective subtracts: base redundancy times `support_overlap`, 0 on the diagonal.

    Parameters
    ----------
    support : array_like of {0, 1, 2}, shape (m, n)
    redundancy : array_like, shape (n, n)
        Base redundancy d_ik >= 0, symmetric; the diagonal is ignored.
    rho_diff : float

    Returns
    -------
    ndarray, shape (n, n)
    """
    checked = _support(support)
    aware = _pair_matrix("redundancy", redundancy, checked.shape[1]) * support_overlap(checked, rho_diff)
    np.fill_diagonal(aware, 0)
    return aware


def complementarity(
    support: ArrayLike,
    requirement_weights: ArrayLike,
    embeddings: ArrayLike | None = None,
    entities: ArrayLike | None = None,
) -> Floats:
    """How much two passages add to each other: b_ik in [0, 1], symmetric, 0 on the diagonal.

    Two parts, definitions ours. Union gain: the share of requirement weight that both together support beyond the
    better one alone. Bridge: ``1 - max(0, cos)`` of their embeddings where they share an entity, else 0. The union gain
    alone, or the mean of the two where embeddings and entities are given.

    Parameters
    ----------
    support : array_like of {0, 1, 2}, shape (m, n)
    requirement_weights : array_like, shape (m,)
        Finite and >= 0.
    embeddings : array_like, shape (n, d), optional
    entities : array_like of bool, shape (n, t), optional
        Which entities each passage names; goes with `embeddings`.

    Returns
    -------
    ndarray, shape (n, n)
    """
    checked = _support(support)
    m, n = checked.shape
    w = gate.vector("requirement_weights", requirement_weights, size=m)
    supports = (checked > 0).astype(np.float64)
    alone = w @ supports
    shared = (supports * w[:, np.newaxis]).T @ supports
    # |R_i u R_k| - max(|R_i|, |R_k|) = min - |R_i n R_k|
    gain = (np.minimum(alone[:, np.newaxis], alone) - shared) / (w.sum() or 1.0)
    result = np.maximum(gain, 0)
    if (embeddings is None) != (entities is None):
        raise ValueError("embeddings and entities go together, got one of them")
    if embeddings is not None:
        rows = gate.numeric_array("embeddings", embeddings, ndim=2).astype(np.float64)
        gate.refuse("embeddings", ~np.isfinite(rows), rows, "finite")
        gate.unmasked("entities", entities)
        named = np.asarray(entities)
        if len(rows) != n or named.ndim != 2 or len(named) != n:
            raise ValueError(f"embeddings and entities must have {n} rows, got shapes {rows.shape} and {named.shape}")
        if named.dtype != np.bool_:
            gate.refuse("entities", (named != 0) & (named != 1), named, "0 or 1")
        norm = np.sqrt((rows**2).sum(axis=1, keepdims=True))
        unit = np.divide(rows, norm, out=np.zeros_like(rows), where=norm > 0)
        bridge = (1 - np.clip(unit @ unit.T, 0, 1)) * (named.astype(np.float64) @ named.T.astype(np.float64) > 0)
        result = (result + bridge) / 2
    result = (result + result.T) / 2
    np.fill_diagonal(result, 0)
    return result


# --- the problem -----------------------------------------------------------------------------------------------------


def _support(value: object) -> NDArray[np.int8]:
    array = gate.numeric_array("support", value, ndim=2)
    gate.refuse("support", ~((array == 0) | (array == 1) | (array == 2)), array, "0 (none), 1 (partial) or 2 (direct)")
    result = np.array(array, dtype=np.int8, order="C")
    result.setflags(write=False)
    return result


def _pair_matrix(name: str, value: object, n: int) -> Floats:
    """A symmetric matrix of entries >= 0; its diagonal is ignored, and becomes 0."""
    array = gate.numeric_array(name, value, ndim=2)
    if array.shape != (n, n):
        raise ValueError(f"{name} must have shape ({n}, {n}), got {array.shape}")
    result = np.array(array, dtype=np.float64, order="C")
    np.fill_diagonal(result, 0)
    with np.errstate(invalid="ignore"):
        if not (result >= 0).all() or not np.isfinite(result).all():
            gate.refuse(name, ~np.isfinite(result) | (result < 0), result, "finite and >= 0")
    if not np.array_equal(result, result.T):
        i, k = (int(axis[0]) for axis in np.nonzero(result != result.T))
        raise ValueError(f"{name} must be symmetric, got [{i}, {k}] = {result[i, k]} and [{k}, {i}] = {result[k, i]}")
    result.setflags(write=False)
    return result


def _summable(name: str, terms: Floats) -> Floats:
    """Terms of the objective, read-only: no selection of them may leave the range of float64."""
    with np.errstate(over="ignore", invalid="ignore"):
        if not np.isfinite(np.abs(terms).sum()):
            raise ValueError(f"{name}, times its weight, must have a finite sum, got numbers too large for float64")
    terms.setflags(write=False)
    return terms


@dataclass(frozen=True)
class PenaltyCheck:
    """Whether penalties are proved large enough.

    Attributes
    ----------
    ok : bool
        Every minimiser of the QUBO is then an optimum of the constrained problem.
    reasons : tuple of str
        Why not: one line for each weight that is not above its bound.
    bounds : dict of str to float
        What each weight must exceed.
    """

    ok: bool
    reasons: tuple[str, ...]
    bounds: Mapping[str, float]


class EvidenceProblem:
    """Select at most `max_passages` passages that support what an answer requires, relevant and not redundant.

    Maximises, over selections S of at most K passages (and, with `costs`, at most `budget` tokens),
    ``sum_i (alpha s_i + eta sum_j w_j S_ji - kappa u_i - mu)`` over the chosen
    ``+ sum_j w_j (gamma_P y^P_j + gamma_D y^D_j)``
    ``+ sum_{i<k} (delta b_ik - beta rho_ik d_ik)`` over the chosen pairs,
    where y^P_j says whether a chosen passage supports requirement j at all, and y^D_j whether one does directly.

    Parameters
    ----------
    relevance : array_like, shape (n,)
        s_i, finite and >= 0.
    support : array_like of {0, 1, 2}, shape (m, n)
        S_ji: passage i does not support requirement j, does partially (or as a bridge), or directly. m may be 0.
    requirement_weights : array_like, shape (m,), optional
        w_j, finite and >= 0. Default: all 1. A requirement that nothing supports stays unmet, and changes no choice.
    redundancy : array_like, shape (n, n), optional
        Base redundancy d_ik >= 0, symmetric, diagonal ignored; rho is applied inside. Default: none.
    complementarity : array_like, shape (n, n), optional
        b_ik >= 0, symmetric, diagonal ignored. Default: none.
    max_passages : int
        K, at least 1. With n or fewer passages it binds nothing.
    weights : EvidenceWeights, optional
    penalties : EvidencePenalties, optional
        Used by `to_qubo` alone.
    costs : array_like, shape (n,), optional
        Tokens of each passage, > 0; with `budget`. They must share a granule, as integers do.
    budget : int or float, optional
        Tokens, >= 0.

    Raises
    ------
    ValueError
        For any entry out of its range, named by position; for shapes that do not fit; for a matrix that is not
        symmetric; for `costs` without `budget` or the reverse.

    Notes
    -----
    Arrays may lie on a CUDA device: they are copied to the host (see `from_embeddings` for what need not be).
    Where every passage costs more than it brings, as when none supports anything, the optimum is the empty selection.

    References
    ----------
    QUBO context selection for RAG, 2026 (objective and QUBO; `mu`, the penalties and the token budget are ours).
    """

    relevance: Floats
    support: NDArray[np.int8]
    requirement_weights: Floats
    redundancy: Floats
    complementarity: Floats
    max_passages: int
    weights: EvidenceWeights
    penalties: EvidencePenalties
    costs: Floats | None
    budget: int | float | None

    def __init__(
        self,
        relevance: ArrayLike,
        support: ArrayLike,
        requirement_weights: ArrayLike | None = None,
        redundancy: ArrayLike | None = None,
        complementarity: ArrayLike | None = None,
        max_passages: int = 5,
        weights: EvidenceWeights | None = None,
        penalties: EvidencePenalties | None = None,
        costs: ArrayLike | None = None,
        budget: float | None = None,
    ) -> None:
        put = self.__dict__
        put["relevance"] = gate.vector("relevance", relevance, hint=" (see isinglass.measure.calibrate)")
        n = self.relevance.size
        put["support"] = _support(support)
        m = self.support.shape[0]
        if self.support.shape[1] != n:
            raise ValueError(f"support must have shape (m, {n}), got {self.support.shape}")
        given = np.ones(m) if requirement_weights is None else requirement_weights
        put["requirement_weights"] = gate.vector("requirement_weights", given, size=m)
        for name, matrix in (("redundancy", redundancy), ("complementarity", complementarity)):
            put[name] = _pair_matrix(name, np.zeros((n, n)) if matrix is None else matrix, n)
        put["max_passages"] = gate.integer("max_passages", max_passages, low=1)
        put["weights"] = EvidenceWeights() if weights is None else weights
        if not isinstance(self.weights, EvidenceWeights):
            raise ValueError(f"weights must be EvidenceWeights, got {weights!r}")
        put["penalties"] = EvidencePenalties() if penalties is None else penalties
        if not isinstance(self.penalties, EvidencePenalties):
            raise ValueError(f"penalties must be EvidencePenalties, got {penalties!r}")
        if (costs is None) != (budget is None):
            missing, present = ("budget", "costs") if budget is None else ("costs", "budget")
            raise ValueError(f"{present} needs {missing}, got none")
        put["costs"] = put["budget"] = put["_integer_costs"] = None
        if costs is not None:
            put["costs"] = gate.vector("costs", costs, size=n, positive=True)
            checked = gate.number("budget", budget, low=0)
            put["budget"] = int(checked) if isinstance(budget, (int, np.integer)) else checked
            put["_integer_costs"] = integer_costs(put["costs"], put["budget"])
            if self._integer_costs is None:
                raise ValueError("costs must be multiples of a common granule (as integers are), got none that fits")

    @classmethod
    def from_embeddings(
        cls,
        passages: ArrayLike,
        requirements: ArrayLike,
        query: ArrayLike | None = None,
        *,
        thresholds: tuple[float, float],
        relevance: ArrayLike | None = None,
        requirement_weights: ArrayLike | None = None,
        max_passages: int = 5,
        weights: EvidenceWeights | None = None,
        penalties: EvidencePenalties | None = None,
        costs: ArrayLike | None = None,
        budget: float | None = None,
    ) -> EvidenceProblem:
        """The problem that embeddings state: support by thresholds on cosines, redundancy as cosines.

        Passage i supports requirement j partially from a cosine of ``thresholds[0]`` on, and directly from
        ``thresholds[1]``. Redundancy is max(0, cosine) of two passages, complementarity the union gain of
        `complementarity`. All cosines are those of `isinglass.measure.cosines`.

        Parameters
        ----------
        passages : array_like of float, shape (n, d)
            On a CUDA device they are read where they lie, by the device: the n (n + m + 1) cosines come to the host.
        requirements : array_like of float, shape (m, d)
            On the host or a device, likewise.
        query : array_like of float, shape (1, d), optional
            Relevance is then max(0, cosine) with it; instead of `relevance`.
        thresholds : (float, float)
            Of partial and direct support, 0 < partial <= direct. They depend on the model: there is no default.
        relevance, requirement_weights, max_passages, weights, penalties, costs, budget
            Of `EvidenceProblem`.

        Raises
        ------
        ValueError
            As `isinglass.measure.cosines` and `EvidenceProblem`; without exactly one of `query` and `relevance`.
        """
        if (query is None) == (relevance is None):
            raise ValueError(f"give query or relevance, got {'neither' if query is None else 'both'}")
        if not isinstance(thresholds, tuple) or len(thresholds) != 2:
            raise ValueError(f"thresholds must be a pair (partial, direct), got {thresholds!r}")
        partial, direct = (gate.number(f"thresholds[{k}]", value, above=0) for k, value in enumerate(thresholds))
        if partial > direct:
            raise ValueError(f"thresholds must ascend, got {thresholds!r}")
        given = {"passages": passages, "requirements": requirements, "query": query}
        rows = {name: embedding_rows(name, value) for name, value in given.items() if value is not None}
        columns = rows["passages"].shape[1]
        for name, matrix in rows.items():
            if matrix.shape[1] != columns:
                raise ValueError(f"{name} must have {columns} columns, as passages have, got shape {matrix.shape}")
        own: Any = relevance
        if query is not None:
            if len(rows["query"]) != 1:
                raise ValueError(f"query must have shape (1, d), got {len(rows['query'])} rows")
            own = np.asarray(cosines(rows["query"], rows["passages"]))[0]
        # In float64, where a threshold is the caller's own number.
        similar = np.asarray(cosines(rows["requirements"], rows["passages"]), dtype=np.float64)
        support = (similar >= partial).astype(np.int8) + (similar >= direct)
        importance = np.ones(len(support)) if requirement_weights is None else requirement_weights
        return cls(
            own,
            support,
            importance,
            redundancy=cosines(rows["passages"], rows["passages"]),
            complementarity=complementarity(support, importance),
            max_passages=max_passages,
            weights=weights,
            penalties=penalties,
            costs=costs,
            budget=budget,
        )

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"EvidenceProblem is frozen: cannot set {name!r}")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"EvidenceProblem is frozen: cannot delete {name!r}")

    def __getstate__(self) -> dict[str, Any]:
        # The native form stays in its process; another one makes its own.
        return {name: value for name, value in self.__dict__.items() if name != "_native"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    @property
    def _integer_costs(self) -> tuple[Indices, int] | None:
        exact: tuple[Indices, int] | None = self.__dict__["_integer_costs"]
        return exact

    def __len__(self) -> int:
        return self.relevance.size

    def __repr__(self) -> str:
        budget = "" if self.budget is None else f", budget={self.budget:g}"
        return f"EvidenceProblem(n={len(self)}, m={len(self.support)}, max_passages={self.max_passages}{budget})"

    # --- the objective -------------------------------------------------------------------------------------------

    @cached_property
    def gains(self) -> Floats:
        """What each passage brings alone, coverage apart: alpha s_i + eta sum_j w_j S_ji - kappa u_i - mu; (n,)."""
        weights = self.weights
        with np.errstate(over="ignore", invalid="ignore"):
            gains: Floats = weights.alpha * self.relevance + weights.eta * (self.requirement_weights @ self.support)
            gains = gains - weights.kappa * (self.support == 0).all(axis=0) - weights.mu
        return _summable("relevance, support or price", gains)

    @cached_property
    def pair_gains(self) -> Floats:
        """delta b_ik - beta rho_ik d_ik, symmetric, 0 on the diagonal; (n, n)."""
        weights = self.weights
        with np.errstate(over="ignore", invalid="ignore"):
            pairs: Floats = weights.delta * self.complementarity
            pairs -= weights.beta * (self.redundancy * _overlap(self.support, weights.rho_diff))
        return _summable("complementarity or redundancy", pairs)

    @cached_property
    def coverage_gains(self) -> Floats:
        """w_j gamma_P and w_j gamma_D: what support at all, and direct support, of each requirement bring; (2, m)."""
        with np.errstate(over="ignore"):
            gains = np.outer((self.weights.gamma_partial, self.weights.gamma_direct), self.requirement_weights)
        return _summable("requirement_weights", gains)

    def objective(self, selection: Sequence[int] | ArrayLike) -> float:
        """The paper's objective of a selection, with the best y: whether it is feasible does not matter here.

        Parameters
        ----------
        selection : array_like of int, shape (k,)
            Distinct passages, in any order.
        """
        chosen = gate.indices("selection", selection, size=len(self))
        support = self.support[:, chosen]
        covered = np.stack(((support > 0).any(axis=1), (support == 2).any(axis=1)))
        pairs = self.pair_gains[np.ix_(chosen, chosen)]
        return fsum(self.gains[chosen]) + fsum(self.coverage_gains[covered]) + fsum(np.triu(pairs).ravel())

    def change_if_added(self, selection: Sequence[int] | ArrayLike) -> Floats:
        """By how much the objective changes when each passage joins the others of a selection, shape (n,).

        For a chosen passage that is what the selection would lose without it.

        Parameters
        ----------
        selection : array_like of int, shape (k,)
            Distinct passages, in any order.
        """
        chosen = gate.indices("selection", selection, size=len(self))
        change: Floats = self.gains + self.pair_gains[:, chosen].sum(axis=1)
        taken = np.zeros(len(self), dtype=np.int64)
        taken[chosen] = 1
        for level, worth in zip((1, 2), self.coverage_gains, strict=True):
            supports = self.support >= level
            others = supports[:, chosen].sum(axis=1)[:, np.newaxis] - supports * taken
            change = change + worth @ (supports & (others == 0))
        return change

    def cost(self, selection: Sequence[int] | ArrayLike) -> float:
        """Tokens of a selection; the number of its passages where there are no costs."""
        chosen = gate.indices("selection", selection, size=len(self))
        return float(chosen.size) if self.costs is None else fsum(self.costs[chosen])

    def violations(self, selection: Sequence[int] | ArrayLike) -> tuple[str, ...]:
        """What a selection breaks, a sentence each: nothing for a feasible one."""
        chosen = gate.indices("selection", selection, size=len(self))
        broken = []
        if chosen.size > self.max_passages:
            broken.append(f"{chosen.size} passages, at most {self.max_passages} allowed")
        exact = self._integer_costs
        if exact is not None and int(exact[0][chosen].sum()) > exact[1]:
            broken.append(f"{self.cost(chosen):g} tokens, at most {self.budget:g} allowed")
        return tuple(broken)

    def repair(self, selection: Sequence[int] | ArrayLike) -> Indices:
        """The selection without what breaks its limits, ascending: while it breaks one, the passage goes whose absence
        leaves the greatest objective (the lowest index of equal ones)."""
        chosen = sorted(gate.indices("selection", selection, size=len(self)).tolist())
        while self.violations(chosen):
            without = [[i for i in chosen if i != gone] for gone in chosen]
            chosen = max(without, key=self.objective)
        result = np.array(chosen, dtype=np.int64)
        result.setflags(write=False)
        return result

    def core(self) -> _core.EvidenceCore:
        """The native form, made on first use."""
        ready = self.__dict__.get("_native")
        if ready is None:
            exact = self._integer_costs
            ready = self.__dict__["_native"] = _core.EvidenceCore(
                linear=self.gains,
                pairs=self.pair_gains,
                covers=np.concatenate((self.support > 0, self.support == 2)).view(np.uint8),
                term_weights=self.coverage_gains.ravel(),
                max_items=min(self.max_passages, len(self)),
                costs=None if exact is None else exact[0],
                budget=0 if exact is None else exact[1],
            )
        return ready

    # --- the QUBO ------------------------------------------------------------------------------------------------

    def safe_penalties(self) -> EvidencePenalties:
        """The smallest integer penalties that are proved large enough: `check_penalties` holds with them."""
        return EvidencePenalties(**{name: floor(bound) + 1.0 for name, bound in self._penalty_bounds.items()})

    def check_penalties(self) -> PenaltyCheck:
        """Whether `penalties` are proved large enough, so that every minimiser of the QUBO is a constrained optimum.

        They may do without proof: the bounds are sufficient, not necessary.
        """
        return _check(self.penalties, self._penalty_bounds)

    @cached_property
    def _penalty_bounds(self) -> dict[str, float]:
        return _bounds(self, self.gains, self.pair_gains, self.coverage_gains)

    def to_qubo(self, bits: int | None = None, *, scale: float | None = None) -> EncodedEvidence:
        """The paper's QUBO: minimise -F plus the squared constraints, slack variables in bounded binary expansions.

        Parameters
        ----------
        bits : int, optional
            Scale the *scores* so that the largest fills signed integers of so many bits, 2 to 32, and round them;
            penalties are scaled too and rounded up, so that they stay exact integers. None: leave both as they are.
            (Rounding the finished QUBO instead is `isinglass.quantize`.)
        scale : float, optional
            The same by a given factor; excludes `bits`.

        Returns
        -------
        EncodedEvidence
            With variables ``("x", i)``, ``("yP", j)``, ``("yD", j)``, ``("q", bit)``, ``("vP", j, bit)``,
            ``("vD", j, bit)``, ``("m", j)``, and ``("t", bit)`` for the tokens left.
        """
        if bits is not None and scale is not None:
            raise ValueError("bits and scale exclude each other, got both")
        gains, pairs, coverage = self.gains, self.pair_gains, self.coverage_gains
        penalties = np.array([getattr(self.penalties, field.name) for field in fields(EvidencePenalties)])
        factor, error = 1.0, 0.0
        if bits is not None:
            largest = max((float(np.abs(part).max(initial=0)) for part in (gains, pairs, coverage)), default=0.0)
            factor = ((1 << (gate.integer("bits", bits, low=2, high=32) - 1)) - 1) / (largest or 1.0)
        elif scale is not None:
            factor = gate.number("scale", scale, above=0)
        if bits is not None or scale is not None:
            exact = (factor * gains, factor * pairs, factor * coverage)
            gains, pairs, coverage = (np.rint(part) for part in exact)
            penalties = np.ceil(factor * penalties)
            worst = [float(np.abs(a - b).max(initial=0)) for a, b in zip(exact, (gains, pairs, coverage))]
            k = min(self.max_passages, len(self))
            error = (worst[0] * k + worst[1] * k * (k - 1) / 2 + worst[2] * coverage.size) / factor
        names, rows, targets, kinds = _constraints(self)
        weight = penalties[kinds]
        # Not by @: at this size a matrix product wakes the threads of the BLAS, which on a busy machine wait for cores
        # longer than the whole sum takes.
        Q = np.einsum("ri,rj->ij", weight[:, np.newaxis] * rows, rows)
        n, m = len(self), len(self.support)
        diagonal = Q.reshape(-1)[:: len(names) + 1]
        diagonal -= 2 * (weight * targets) @ rows
        diagonal[:n] -= gains
        diagonal[n : n + 2 * m] -= coverage.ravel()
        Q[:n, :n] -= pairs / 2
        offset = float(weight @ targets**2)
        return EncodedEvidence(
            Qubo(Q, offset, labels=names),
            tuple(names),
            self,
            factor,
            error,
            EvidencePenalties(*penalties.tolist()),
            (gains, pairs, coverage),
        )


def _bounded_bits(bound: int) -> list[int]:
    """Weights of bits whose sums are 0 .. bound, each of them and no more: 1, 2, 4 ... and the rest."""
    count = bound.bit_length()
    return [1 << k for k in range(count - 1)] + ([bound - (1 << (count - 1)) + 1] if count else [])


def _constraints(problem: EvidenceProblem) -> tuple[list[Name], Floats, Floats, Indices]:
    """Names of the variables, then the equations ``rows @ z = targets`` and which penalty each takes.

    Penalties count in the order of the fields of `EvidencePenalties`.
    """
    m, n = problem.support.shape
    most = min(problem.max_passages, n)  # more passages than there are cannot be chosen
    supports = (problem.support > 0, problem.support == 2)
    names: list[Name] = [("x", i) for i in range(n)]
    names += [("yP", j) for j in range(m)]
    names += [("yD", j) for j in range(m)]
    slack: list[tuple[int, int, list[int]]] = []  # (equation, first column, weights)

    def expand(equation: int, bound: int, *name: str | int) -> None:
        weights = _bounded_bits(bound)
        slack.append((equation, len(names), weights))
        names.extend((*name, bit) for bit in range(len(weights)))

    exact = problem._integer_costs
    first = 1 if exact is None else 2  # equation of the first requirement
    expand(0, most, "q")
    if exact is not None:
        expand(1, exact[1], "t")
    counts = [covers.sum(axis=1).tolist() for covers in supports]
    for j in range(m):
        expand(first + j, min(most, counts[0][j]), "vP", j)
        expand(first + m + j, min(most, counts[1][j]), "vD", j)
        slack.append((first + 2 * m + j, len(names), [1]))
        names.append(("m", j))
    rows = np.zeros((first + 3 * m, len(names)))
    targets = np.zeros(len(rows))
    for equation, column, weights in slack:
        rows[equation, column : column + len(weights)] = weights
    rows[0, :n], targets[0] = 1, most
    if exact is not None:
        rows[1, :n], targets[1] = exact
    own = np.arange(m)
    for part, covers in enumerate(supports):
        rows[first + part * m + own, n + part * m + own] = 1
        rows[first + part * m : first + (part + 1) * m, :n] = -covers.astype(np.float64)
    rows[first + 2 * m + own, n + own] = -1
    rows[first + 2 * m + own, n + m + own] = 1
    kinds = np.r_[[0] if exact is None else [0, 4], np.repeat([1, 2, 3], m)].astype(np.int64)
    return names, rows, targets, kinds


def _bounds(problem: EvidenceProblem, gains: Floats, pairs: Floats, coverage: Floats) -> dict[str, float]:
    """What each penalty must exceed, for the QUBO of these scores.

    Proof. Fix the passages x, of which C_j support requirement j and D_j <= C_j do so directly, and write F(x) for the
    objective with the best y: y^P_j = [C_j > 0], y^D_j = [D_j > 0].

    (1) If x is feasible, then C_j <= min(K, supporters of j), so slack values exist that make every square 0 at the
    best y: the minimum over the other variables is at most -F(x). Another y gains over it only by y^P_j = 1 while
    C_j = 0, or y^D_j = 1 while D_j = 0, which gains at most w_j gamma_P, or w_j gamma_D, and leaves
    y + v - 0 >= 1 in the square, since v >= 0. So with lambda_P > max_j w_j gamma_P and
    lambda_D > max_j w_j gamma_D the minimum is -F(x) exactly, and only there. (y^D_j <= y^P_j then holds by itself: any
    lambda_H >= 0 keeps this; it must be positive so that every minimiser has the slack m_j that it should.)

    (2) If x has K + t passages, t > 0, its energy is at least -F(x) + lambda_K t^2 by the argument of (1): a slack that
    cannot reach its value only adds. Taking the passage i out of a set of s passages lowers F by at most
    L_i(s) = max(0, gain_i + the coverage that i brings + its s - 1 largest positive pair terms). Of s different
    passages one has at most the s-th largest L(s) of all: call it loss(s). Taking out that one t times, a feasible set
    is left, so F(x) <= OPT + sum_{r=1..t} loss(K + r), and x is worse than the optimum if lambda_K t^2 exceeds this sum
    for every t.

    (3) If x also (or only) exceeds the token budget by r > 0 granules, at most r more passages have to go, each of
    which costs at least one granule, from sets of at most K: lambda_B > max_{s <= K} loss(s) makes
    lambda_B r^2 >= lambda_B r pay for them.
    """
    n = len(problem)
    bounds = {
        "lambda_K": 0.0,
        "lambda_P": float(coverage[0].max(initial=0)),
        "lambda_D": float(coverage[1].max(initial=0)),
        "lambda_H": 0.0,
    }
    if problem.costs is not None:
        bounds["lambda_B"] = 0.0
    if n == 0:
        return bounds
    alone = gains + coverage[0] @ (problem.support > 0) + coverage[1] @ (problem.support == 2)
    ranked = -np.sort(-np.maximum(pairs, 0), axis=1)
    partners = np.concatenate((np.zeros((n, 1)), np.cumsum(ranked[:, : n - 1], axis=1)), axis=1)
    losses = np.sort(np.maximum(alone[:, np.newaxis] + partners, 0), axis=0)  # column s - 1, ascending
    loss = losses[n - 1 - np.arange(n), np.arange(n)]  # the s-th largest of column s - 1
    most = min(problem.max_passages, n)
    if most < n:
        t = np.arange(1, n - most + 1)
        bounds["lambda_K"] = float((np.cumsum(loss[most:]) / t**2).max())
    if problem.costs is not None:
        bounds["lambda_B"] = float(loss[:most].max())
    return bounds


def _check(penalties: EvidencePenalties, bounds: Mapping[str, float]) -> PenaltyCheck:
    weak = [name for name, bound in bounds.items() if getattr(penalties, name) <= bound]
    return PenaltyCheck(
        not weak,
        tuple(f"{name} must exceed {bounds[name]:g} to be proved, got {getattr(penalties, name):g}" for name in weak),
        bounds,
    )


@dataclass(frozen=True)
class DecodedEvidence:
    """What a state of the QUBO says about passages.

    Attributes
    ----------
    selection : ndarray of int
        Repaired: within every limit, ascending.
    objective : float
        The paper's objective of `selection`.
    raw_selection : ndarray of int
        The passages of the state as they are.
    raw_objective : float
        The paper's objective of `raw_selection`, with the best y.
    energy : float
        Of the state, in the units of the QUBO (`EncodedEvidence.scale` times the objective's).
    feasible : bool
        Whether the state broke no constraint. (Slack variables that are off their value are none: only the energy
        shows them.)
    violations : tuple of str
        What it broke, a sentence each.
    dropped : ndarray of int
        The passages that the repair took out.
    """

    selection: Indices
    objective: float
    raw_selection: Indices
    raw_objective: float
    energy: float
    feasible: bool
    violations: tuple[str, ...]
    dropped: Indices


@dataclass(frozen=True, repr=False, eq=False)
class EncodedEvidence:
    """The QUBO of an evidence problem, and the way back.

    Attributes
    ----------
    qubo : Qubo
        Its energy is ``scale * -objective`` plus penalties.
    variables : tuple
        Name of each column.
    problem : EvidenceProblem
    scale : float
        Factor of scores and penalties; 1 unless `bits` or `scale` was asked for.
    max_error : float
        The most by which rounding changed the objective of any feasible selection, in the objective's own units.
    penalties : EvidencePenalties
        As they stand in the matrix.
    """

    qubo: Qubo
    variables: tuple[Name, ...]
    problem: EvidenceProblem
    scale: float
    max_error: float
    penalties: EvidencePenalties
    _scores: tuple[Floats, Floats, Floats]

    def __repr__(self) -> str:
        return f"EncodedEvidence(num_variables={len(self.variables)}, scale={self.scale:g}, problem={self.problem!r})"

    def check_penalties(self) -> PenaltyCheck:
        """As `EvidenceProblem.check_penalties`, for the scores as they were rounded."""
        return _check(self.penalties, _bounds(self.problem, *self._scores))

    def decode(self, sample: ArrayLike | Mapping[Name, int] | Result) -> DecodedEvidence:
        """Read a state.

        Parameters
        ----------
        sample : array_like of {0, 1}, shape (num_variables,), or mapping from names to values, or Result
            A mapping must hold every variable.
        """
        if isinstance(sample, Result):
            if sample.sample is None:
                raise ValueError("sample must be a Result of this QUBO, got one without a sample")
            sample = sample.sample
        if isinstance(sample, Mapping):
            lacking = [name for name in self.variables if name not in sample]
            if lacking:
                raise ValueError(f"sample must hold every variable, got none for {lacking[0]!r}")
            sample = [sample[name] for name in self.variables]
        gate.unmasked("sample", sample)
        state = np.asarray(sample)
        energy = self.qubo.energy(state)
        problem = self.problem
        m, n = problem.support.shape
        raw = np.flatnonzero(state[:n]).astype(np.int64)
        support = problem.support[:, raw]
        partly, directly = state[n : n + m] == 1, state[n + m : n + 2 * m] == 1
        broken = list(problem.violations(raw))
        for name, y, covered, how in (
            ("yP", partly, (support > 0).any(axis=1), "supports"),
            ("yD", directly, (support == 2).any(axis=1), "directly supports"),
        ):
            broken += [f"{name}[{j}] is 1, but nothing chosen {how} it" for j in np.flatnonzero(y & ~covered)]
        broken += [f"yD[{j}] is 1, but yP[{j}] is 0" for j in np.flatnonzero(directly & ~partly)]
        selection = problem.repair(raw)
        dropped = np.setdiff1d(raw, selection)
        for array in (raw, dropped):
            array.setflags(write=False)
        return DecodedEvidence(
            selection,
            problem.objective(selection),
            raw,
            problem.objective(raw),
            energy,
            not broken,
            tuple(broken),
            dropped,
        )
