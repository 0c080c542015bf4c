"""The slow judge of QUBO search: every state enumerated, and a plain Metropolis walk that draws the same numbers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from isinglass.problems.gate import Floats
from isinglass.problems.qubo import Qubo

_ENUMERATION_LIMIT = 20
_U32 = 0xFFFFFFFF
_U64 = 0xFFFFFFFFFFFFFFFF

Words = NDArray[np.uint32]


def all_energies(qubo: Qubo) -> Floats:
    """Energy of every state, at most 20 variables; bit i of a position is variable i."""
    n = len(qubo)
    if n > _ENUMERATION_LIMIT:
        raise ValueError(f"enumeration takes at most {_ENUMERATION_LIMIT} variables, got {n}")
    Q = qubo.to_numpy()
    energies = np.zeros(1)
    for k in range(n):
        # The states with variable k are those without it again, plus its bias and its couplings to the smaller ones.
        added = np.full(1, Q[k, k])
        for i in range(k):
            added = np.concatenate((added, added + Q[i, k]))
        energies = np.concatenate((energies, energies + added))
    return energies + qubo.offset


def state_of(position: int, n: int) -> NDArray[np.uint8]:
    """The state at a position of `all_energies`."""
    return np.array([position >> i & 1 for i in range(n)], dtype=np.uint8)


def random_bits(seed: int, reads: NDArray[np.int64], sweep: int, variable: int) -> Words:
    """One 32-bit word for each read: a hash of (seed, read, sweep, variable)."""
    z = np.array([_splitmix64(seed ^ _splitmix64(int(read))) for read in reads], dtype=np.uint64)
    low, high = (z & np.uint64(_U32)).astype(np.uint32), (z >> np.uint64(32)).astype(np.uint32)
    k0 = _mix(low + np.uint32(sweep * 0x85EBCA6B & _U32), high)
    k1 = _mix(high + np.uint32(sweep * 0xC2B2AE35 & _U32), low)
    return _mix(k0 + np.uint32(variable * 0x9E3779B9 & _U32), k1)


def _mix(x: Words, key: Words) -> Words:
    x = (x ^ (x >> np.uint32(16))) * np.uint32(0x7FEB352D)
    x = x ^ key
    x = (x ^ (x >> np.uint32(15))) * np.uint32(0x846CA68B)
    return x ^ (x >> np.uint32(16))


def _splitmix64(x: int) -> int:
    x = (x + 0x9E3779B97F4A7C15) & _U64
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 & _U64
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB & _U64
    return x ^ (x >> 31)


def neg_log2_uniform(bits: Words) -> NDArray[np.float32]:
    """-log2 of a uniform number made of the upper 23 bits, by the same single float operations as the kernels."""
    f = (bits >> np.uint32(8) | np.uint32(1)).astype(np.float32)
    word = f.view(np.uint32)
    exponent = (word >> np.uint32(23)).astype(np.float32)
    m = (word & np.uint32(0x7FFFFF) | np.uint32(0x3F800000)).view(np.float32)
    p = np.float32(0.0821295900) * m - np.float32(0.649704845)
    for constant in (2.13411929, -4.08636782, 153.519824):
        p = p * m + np.float32(constant)
    return p - exponent


class Walk(NamedTuple):
    """Where a walk of r reads over s sweeps came to."""

    states: NDArray[np.uint8]  # (r, n), at the end
    energies: NDArray[np.int64]  # (s, r), at the end of each sweep
    flips: NDArray[np.int64]  # (r,)


def random_states(seed: int, reads: NDArray[np.int64], n: int) -> NDArray[np.uint8]:
    """The states in which reads begin: the top bits of a stream of their own."""
    bits = [random_bits(seed ^ 0x2545F4914F6CDD1D, reads, 0, i) >> np.uint32(31) for i in range(n)]
    return np.array(bits, dtype=np.uint8).reshape(n, len(reads)).T.copy()


def metropolis(
    linear: NDArray[np.int64],
    couplings: NDArray[np.int64],
    t2: NDArray[np.float32],
    seed: int,
    reads: NDArray[np.int64],
    states: NDArray[np.uint8] | None = None,
    first_sweep: int = 0,
) -> Walk:
    """Sweep the variables in ascending order, flipping one when its integer cost is at most its threshold.

    Parameters
    ----------
    linear : ndarray of int, shape (n,)
    couplings : ndarray of int, shape (n, n)
        Symmetric, zero diagonal.
    t2 : ndarray of float32, shape (s,)
        Temperature times ln 2 of each sweep; the threshold is ``trunc(-log2(u) * t2)``.
    seed : int
    reads : ndarray of int, shape (r,)
        Numbers of the reads.
    states : ndarray of 0 or 1, shape (r, n), optional
        Where they begin; default `random_states`.
    first_sweep : int
        Number of the first sweep.

    Notes
    -----
    No field is kept: each cost is computed anew from the state, in 64-bit integers.
    """
    n = linear.size
    x = (random_states(seed, reads, n) if states is None else states).astype(np.int64)
    energies = np.empty((len(t2), len(reads)), dtype=np.int64)
    flips = np.zeros(len(reads), dtype=np.int64)
    for sweep, temperature in enumerate(t2, start=first_sweep):
        for i in range(n):
            cost = (1 - 2 * x[:, i]) * (linear[i] + x @ couplings[i])
            threshold = np.trunc(neg_log2_uniform(random_bits(seed, reads, sweep, i)) * temperature)
            accepted = cost <= threshold.astype(np.float64)
            x[accepted, i] ^= 1
            flips += accepted
        energies[sweep - first_sweep] = x @ linear + ((x @ couplings) * x).sum(axis=1) // 2
    return Walk(x.astype(np.uint8), energies, flips)


def quench(linear: NDArray[np.int64], couplings: NDArray[np.int64], states: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Flip whatever lowers the energy, in ascending order, sweep after sweep until nothing does."""
    x = states.astype(np.int64)
    moved = True
    while moved:
        moved = False
        for i in range(linear.size):
            lower = (1 - 2 * x[:, i]) * (linear[i] + x @ couplings[i]) < 0
            x[lower, i] ^= 1
            moved |= bool(lower.any())
    return x.astype(np.uint8)
