"""Named random instances for tests and benches: the same seed gives the same instance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isinglass.problems import gate
from isinglass.problems.evidence import EvidenceProblem, EvidenceWeights
from isinglass.problems.gate import Floats
from isinglass.problems.qubo import Qubo


def packing_arrays(n: int, *, num_terms: int = 8, num_clusters: int = 5, seed: int) -> dict[str, NDArray[Any]]:
    """Arguments of a PackingProblem as retrieval brings them: clusters of alike items, a few to a document.

    Returns
    -------
    dict
        costs (n,) int in [3, 40), relevance (n,) in [0, 1), similarity (n, n) float32 (cosines of clustered rows,
        negative ones 0), coverage (n, num_terms) bool with a share of .3, groups (n,) int, about three items each.
    """
    n, rng = gate.integer("n", n, low=0), _rng(seed)
    rows = rng.normal(size=(n, 8)) + 0.7 * rng.normal(size=(num_clusters, 8))[rng.integers(0, num_clusters, n)]
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    similarity = np.clip(rows @ rows.T, 0, 1).astype(np.float32)
    similarity = np.maximum(similarity, similarity.T)
    np.fill_diagonal(similarity, 1)
    return {
        "costs": rng.integers(3, 40, n),
        "relevance": rng.random(n),
        "similarity": similarity,
        "coverage": rng.random((n, num_terms)) < 0.3,
        "groups": rng.integers(0, max(1, n // 3), n),
    }


def random_qubo(n: int, density: float = 1.0, low: int = -100, high: int = 100, *, seed: int) -> Qubo:
    """Uniform integers in [low, high]: every bias, and each pair's coupling with probability `density`.

    References
    ----------
    J. E. Beasley, 1998, "Heuristic algorithms for the unconstrained binary quadratic programming problem" (the family,
    with couplings counted once here).
    """
    n, rng = gate.integer("n", n, low=0), _rng(seed)
    low, high = gate.integer("low", low), gate.integer("high", high, low=low)
    i, j = _random_pairs(rng, n, density)
    own = np.arange(n)
    values = rng.integers(low, high, n + i.size, endpoint=True)
    return Qubo.from_entries(np.r_[own, i], np.r_[own, j], values, n)


def random_max_cut(n: int, density: float = 0.5, weights: Sequence[int] = (1,), *, seed: int) -> Qubo:
    """The maximum cut of a random graph: each pair is an edge with probability `density`, its weight one of `weights`.

    References
    ----------
    G. Rinaldi, 1998, "rudy" (the families g05, pm1s, pm1d).
    """
    n, rng = gate.integer("n", n, low=0), _rng(seed)
    if len(weights) == 0:
        raise ValueError("weights must hold at least one weight, got none")
    i, j = _random_pairs(rng, n, density)
    return Qubo.from_max_cut(i, j, rng.choice(np.asarray(weights), i.size), n)


def sherrington_kirkpatrick(n: int, *, seed: int) -> Qubo:
    """The spin glass ``- sum_{i<j} J_ij s_i s_j / sqrt(n)`` with J_ij drawn from N(0, 1).

    References
    ----------
    D. Sherrington and S. Kirkpatrick, 1975, "Solvable model of a spin-glass".
    """
    n, rng = gate.integer("n", n, low=0), _rng(seed)
    i, j = np.triu_indices(n, 1)
    return Qubo.from_spin_terms(np.zeros(n), i, j, -rng.normal(size=i.size) / np.sqrt(max(n, 1)))


def palubeckis(n: int, density: int, seed: int) -> Qubo:
    """The published family p: integers in [-100, 100] of which couplings are non-zero with `density` per cent.

    `Qubo.sense` is "maximise": the objective is ``-energy``, with couplings counted twice. p3000.1 is
    ``palubeckis(3000, 50, 31000)``.

    References
    ----------
    G. Palubeckis, 2004, "Multistart tabu search strategies for the unconstrained binary quadratic optimization
    problem".
    """
    n, density = gate.integer("n", n, low=0), gate.integer("density", density, low=0, high=100)
    seed = gate.integer("seed", seed, low=1, high=_LEHMER_MODULUS - 1)
    u = _lehmer(seed, n + n * (n - 1)) / 2.0**31
    values = np.floor(201 * u - 100)
    listed = 100 * u <= density
    # A value follows each draw that lists a pair, so draws take turns within a run of draws that would all list one.
    linear = np.zeros(n)
    rows, columns, couplings = [], [], []
    at = 0
    for row in range(n):
        linear[row] = values[at]
        pairs = n - 1 - row
        window = listed[at + 1 : at + 1 + 2 * pairs]
        place = np.arange(window.size)
        since = place - np.maximum.accumulate(np.where(window, -1, place))
        is_value = np.zeros(window.size + 1, dtype=np.bool_)
        is_value[1:] = window & (since % 2 == 1)
        draws = np.flatnonzero(~is_value[:-1])[:pairs]
        hits = np.flatnonzero(window[draws])
        rows.append(np.full(hits.size, row))
        columns.append(row + 1 + hits)
        couplings.append(values[at + 2 + draws[hits]])
        at += 1 + pairs + hits.size
    own = np.arange(n)
    rows, columns, couplings = [own, *rows], [own, *columns], [linear, *couplings]
    i, j, w = np.concatenate(rows), np.concatenate(columns), np.concatenate(couplings)
    return Qubo.from_entries(i, j, np.where(i == j, w, 2 * w), n, sense="maximise")


_LEHMER_MODULUS = (1 << 31) - 1


def _lehmer(seed: int, count: int) -> NDArray[np.int64]:
    """The next `count` states of s <- 16807 s mod (2^31 - 1), by doubling: a product of two states has 62 bits."""
    states = np.empty(max(count, 1), dtype=np.int64)
    states[0] = 16807 * seed % _LEHMER_MODULUS
    filled, jump = 1, 16807
    while filled < count:
        step = min(filled, count - filled)
        states[filled : filled + step] = states[:step] * jump % _LEHMER_MODULUS
        filled, jump = filled + step, jump * jump % _LEHMER_MODULUS
    return states[:count]


# --- passages, requirements, penalties -------------------------------------------------------------------------------


@dataclass(frozen=True)
class RagEvidence:
    """Random scores of passages for requirements, as an evidence problem takes them.

    Attributes
    ----------
    relevance : ndarray, shape (n,)
    support : ndarray of int, shape (m, n)
        0, 1 (partial) or 2 (direct).
    requirement_weights : ndarray, shape (m,)
    redundancy, complementarity : ndarray, shape (n, n)
        Symmetric, zero diagonal.
    """

    relevance: Floats
    support: NDArray[np.int64]
    requirement_weights: Floats
    redundancy: Floats
    complementarity: Floats


def rag_evidence(num_passages: int, num_requirements: int, *, seed: int) -> RagEvidence:
    """Random passages on 2m topics, the first m of which are requirements.

    A passage whose topic is a requirement supports it by 0, 1 or 2 (.25, .5, .25) and, with probability .15, a random
    one by at least 1; a requirement without a direct passage gets a random one. Embeddings are a topic's centre from
    N(0, I_16) plus .8 N(0, I_16), unit length; redundancy d is max(0, cos); relevance s is .25 + .25 max_j S_ji +
    .18 N(0, 1), clipped to [0, 1]; weights are uniform in [.5, 1]; complementarity is .5 (s_i + s_k) (1 - d_ik) where
    both support something, but nothing in common.
    """
    n, m = gate.integer("num_passages", num_passages, low=1), gate.integer("num_requirements", num_requirements, low=1)
    rng = _rng(seed)
    topic = rng.integers(0, 2 * m, n)
    support = np.zeros((m, n), dtype=np.int64)
    for i in np.flatnonzero(topic < m):
        support[topic[i], i] = rng.choice(3, p=[0.25, 0.5, 0.25])
        if rng.random() < 0.15:
            other = rng.integers(m)
            support[other, i] = max(support[other, i], 1)
    lacking = np.flatnonzero((support < 2).all(axis=1))
    support[lacking, rng.integers(0, n, lacking.size)] = 2
    weights = rng.uniform(0.5, 1, m)
    embeddings = rng.normal(size=(2 * m, 16))[topic] + 0.8 * rng.normal(size=(n, 16))
    embeddings /= np.linalg.norm(embeddings, axis=1, keepdims=True)
    redundancy = np.maximum(0, embeddings @ embeddings.T)
    np.fill_diagonal(redundancy, 0)
    relevance = np.clip(0.25 + 0.25 * support.max(axis=0) + 0.18 * rng.normal(size=n), 0, 1)
    supports = support > 0
    useful = np.asarray(supports.any(axis=0))
    apart = np.outer(useful, useful) & (supports.T.astype(int) @ supports == 0)
    complementarity = np.where(apart, 0.5 * np.add.outer(relevance, relevance) * (1 - redundancy), 0.0)
    np.fill_diagonal(complementarity, 0)
    return RagEvidence(relevance, support, weights, redundancy, complementarity)


def rag_problem(num_passages: int, num_requirements: int, max_passages: int, *, seed: int) -> EvidenceProblem:
    """The evidence problem of `rag_evidence` with default weights and penalties. Easy for moves that swap passages."""
    evidence = rag_evidence(num_passages, num_requirements, seed=seed)
    return EvidenceProblem(
        evidence.relevance,
        evidence.support,
        evidence.requirement_weights,
        evidence.redundancy,
        evidence.complementarity,
        max_passages,
    )


def rag_like(num_passages: int, num_requirements: int, max_passages: int, *, seed: int) -> Qubo:
    """The penalty QUBO of requirement-aware passage selection on random evidence, in integers.

    That of `rag_problem`: the objective is scaled by 10 and rounded, penalties are 300 (at most `max_passages`
    passages) and 200. What makes these models hard is the penalties.

    Parameters
    ----------
    num_passages, num_requirements, max_passages : int
    seed : int

    References
    ----------
    QUBO context selection for RAG, 2026 (the model; penalties and the weight 2 are ours).
    """
    return rag_problem(num_passages, num_requirements, max_passages, seed=seed).to_qubo(scale=10).qubo


def hard_problem(num_passages: int, num_requirements: int, max_passages: int, *, seed: int) -> EvidenceProblem:
    """An evidence problem that single swaps do not solve: too many requirements, strong pair terms, near-ties.

    Every passage supports two or three random requirements, each directly with probability .3; with more requirements
    than ``3 * max_passages`` no selection covers all, and with fewer few do. Relevances are within .02 of each other,
    requirement weights within .05, so that no passage stands out by itself. Pair terms outweigh what is left: each pair
    is either redundant or complementary (even odds), by a uniform number in [.3, 1]; passages that share no support are
    as redundant as they look (`rho_diff` is 1).
    """
    n, m = gate.integer("num_passages", num_passages, low=1), gate.integer("num_requirements", num_requirements, low=3)
    rng = _rng(seed)
    wanted = np.argsort(rng.random((m, n)), axis=0) < rng.integers(2, 4, n)
    support = wanted * np.where(rng.random((m, n)) < 0.3, 2, 1)
    upper = np.triu(rng.uniform(0.3, 1, (n, n)), 1)
    good = rng.random((n, n)) < 0.5
    redundancy, complementarity = np.where(good, 0, upper), np.where(good, upper, 0)
    return EvidenceProblem(
        rng.uniform(0.49, 0.51, n),
        support,
        rng.uniform(0.95, 1, m),
        redundancy + redundancy.T,
        complementarity + complementarity.T,
        max_passages,
        weights=EvidenceWeights(eta=2.0, rho_diff=1.0),
    )


def _rng(seed: int) -> np.random.Generator:
    return np.random.default_rng(gate.integer("seed", seed, low=0, high=(1 << 64) - 1))


def _random_pairs(rng: np.random.Generator, n: int, density: float) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    share = gate.number("density", density, low=0)
    if share > 1:
        raise ValueError(f"density must be in [0, 1], got {density!r}")
    if share == 1:
        i, j = np.triu_indices(n, 1)
        return i.astype(np.int64), j.astype(np.int64)
    columns = [i + 1 + np.flatnonzero(rng.random(n - 1 - i) < share) for i in range(n)]
    rows = np.repeat(np.arange(n), [part.size for part in columns])
    return rows, np.concatenate([np.zeros(0, dtype=np.int64), *columns])
