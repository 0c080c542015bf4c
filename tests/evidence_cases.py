"""Evidence problems for tests, and judges that share no code with what they judge."""

from __future__ import annotations

import csv
import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from isinglass import EvidenceProblem, Qubo, _core, generators
from isinglass.backends.reference_evidence import feasible_selections, value_of
from isinglass.problems.formats import read_qubo
from numpy.typing import NDArray


def small(n: int = 8, m: int = 3, most: int = 3, seed: int = 0, **changes: Any) -> EvidenceProblem:
    """Random numbers without structure; single arguments may be changed."""
    rng = np.random.default_rng(seed)
    redundancy, complementarity = (np.triu(rng.random((n, n)), 1) for _ in range(2))
    arguments: dict[str, Any] = {
        "relevance": rng.random(n),
        "support": rng.integers(0, 3, (m, n)) * (rng.random((m, n)) < 0.6),
        "requirement_weights": rng.random(m),
        "redundancy": redundancy + redundancy.T,
        "complementarity": complementarity + complementarity.T,
        "max_passages": most,
    }
    return EvidenceProblem(**{**arguments, **changes})


def with_tokens(n: int = 8, seed: int = 0, **changes: Any) -> EvidenceProblem:
    """With a token budget that binds before the number of passages does."""
    costs = np.random.default_rng(seed).integers(3, 12, n)
    return small(n, most=max(1, n // 2), seed=seed, costs=costs, budget=int(costs.sum() // 4), **changes)


def best_by_enumeration(problem: EvidenceProblem) -> float:
    return max(value_of(problem, chosen) for chosen in feasible_selections(problem))


def minima_given(qubo: Qubo, selections: Sequence[tuple[int, ...]], n: int) -> NDArray[np.float64]:
    """The least energy over all variables but the first n, for each selection of these.

    The other variables meet in small groups (the slack of one constraint and its y), so each group is enumerated.
    """
    Q = np.triu(qubo.to_numpy()) + np.triu(qubo.to_numpy().T, 1)
    x = np.zeros((len(selections), n))
    for row, chosen in zip(x, selections, strict=True):
        row[list(chosen)] = 1
    energies = np.einsum("ri,ij,rj->r", x, Q[:n, :n], x, optimize=True) + qubo.offset
    field = np.diag(Q)[n:] + x @ Q[:n, n:]
    rest = np.triu(Q[n:, n:], 1)
    coupled = rest + rest.T != 0
    unseen = set(range(len(rest)))
    while unseen:
        group: set[int] = set()
        edge = {min(unseen)}
        while edge:
            group |= edge
            edge = {int(k) for g in edge for k in np.flatnonzero(coupled[g])} - group
        unseen -= group
        members = sorted(group)
        states = np.array(list(itertools.product((0, 1), repeat=len(members))), dtype=float)
        within = ((states @ rest[np.ix_(members, members)]) * states).sum(axis=1)
        energies += (field[:, members] @ states.T + within).min(axis=1)
    return energies


def all_selections(n: int) -> Iterator[tuple[int, ...]]:
    for k in range(n + 1):
        yield from itertools.combinations(range(n), k)


class Published(NamedTuple):
    """A stored rag-like instance, its scores read back out of the matrix."""

    name: str
    qubo: Qubo
    energy: float  # the lowest known, without the offset
    n: int
    m: int
    most: int
    gains: NDArray[np.float64]
    pairs: NDArray[np.float64]
    covers: NDArray[np.uint8]  # (2 m, n)
    coverage_gains: NDArray[np.float64]  # (2 m,)

    def core(self, most: int) -> _core.EvidenceCore:
        return _core.EvidenceCore(
            linear=self.gains,
            pairs=self.pairs,
            covers=self.covers,
            term_weights=self.coverage_gains,
            max_items=most,
            costs=None,
            budget=0,
        )


def published(data: Path) -> Iterator[Published]:
    """The stored instances. Their penalties are 300 and 200, so what is left of each coefficient are the scores."""
    with (data / "rag" / "best_known.tsv").open() as file:
        for row in csv.DictReader(file, delimiter="\t"):
            n, m, most = int(row["passages"]), int(row["requirements"]), int(row["K"])
            qubo = read_qubo(data / "rag" / f"{row['instance']}.coo")
            Q = qubo.to_numpy()
            covers = (Q[:n, n : n + 2 * m] != 0).T
            upper = Q[:n, :n] - 400 * covers.T.astype(float) @ covers - 600
            pairs = -np.triu(upper, 1)
            gains = 300 * (1 - 2 * most) + 200 * covers.sum(axis=0) - Q.diagonal()[:n]
            coverage_gains = 400 - Q.diagonal()[n : n + 2 * m]
            yield Published(
                row["instance"],
                qubo,
                float(row["energy"]),
                n,
                m,
                most,
                gains,
                pairs + pairs.T,
                np.ascontiguousarray(covers, dtype=np.uint8),
                coverage_gains,
            )


FAMILIES = {"rag": generators.rag_problem, "hard": generators.hard_problem}
