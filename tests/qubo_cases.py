"""QUBO instances for tests of the search, and the judges that they share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from isinglass import Qubo, Result, _core
from numpy.typing import NDArray


def dense(n: int, seed: int = 0, largest: int = 20) -> Qubo:
    """Integer couplings between all pairs."""
    rng = np.random.default_rng(seed)
    return Qubo(np.triu(rng.integers(-largest, largest + 1, (n, n))))


def sparse(n: int, seed: int = 0, density: float = 0.1) -> Qubo:
    """Integer couplings between some pairs."""
    rng = np.random.default_rng(seed)
    return Qubo(np.triu(rng.integers(-30, 31, (n, n)) * (rng.random((n, n)) < density)))


def penalised(n: int, seed: int = 0) -> Qubo:
    """Choose n / 4 variables by a penalty whose fields leave 16 bits."""
    rng = np.random.default_rng(seed)
    k, penalty = n // 4, 5_000
    matrix = np.full((n, n), penalty) + np.diag(np.full(n, -2 * k * penalty))
    return Qubo(matrix + np.triu(rng.integers(-2000, 2001, (n, n))), offset=penalty * k * k)


def all_states(n: int) -> NDArray[np.uint8]:
    """Every state, (2**n, n)."""
    return ((np.arange(2**n)[:, None] >> np.arange(n)) & 1).astype(np.uint8)


def optimum(qubo: Qubo) -> float:
    """By enumeration."""
    return float(qubo.energies(all_states(len(qubo))).min())


def same(a: Result, b: Result) -> bool:
    """Whether two results have the same reads, bit for bit."""
    return (
        np.array_equal(a.samples, b.samples)
        and np.array_equal(a.energies, b.energies)
        and np.array_equal(a.provenance["num_flips"], b.provenance["num_flips"])
        and (a.trace is None or np.array_equal(a.trace, b.trace))
    )


@contextmanager
def instruction_set(level: str) -> Iterator[None]:
    """Runs the kernels of one level."""
    before = _core.isa()
    _core.force_isa(level)
    try:
        yield
    finally:
        _core.force_isa(before)
