"""The slow judge of QUBO search: every state enumerated, and a plain Metropolis walk that draws the same numbers."""

from __future__ import annotations

import math
import time
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from isinglass.backends import Plan, Request
from isinglass.backends.native_qubo import best_distinct, image_of, schedule_of, start_states
from isinglass.problems.gate import Floats
from isinglass.problems.qubo import Qubo
from isinglass.result import Certificate, Result
from isinglass.version import __version__

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
    changing: NDArray[np.int64]  # (s,), accepted moves that change the energy, of all reads
    uphill: NDArray[np.int64]  # (s,), accepted moves that raise it
    best: NDArray[np.uint8]  # (r, n), the last state where none was lower, else the first lowest at the end of a sweep


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
    best, lowest = x.copy(), _integer_energies(linear, couplings, x)
    changing, uphill = np.zeros(len(t2), dtype=np.int64), np.zeros(len(t2), dtype=np.int64)
    for sweep, temperature in enumerate(t2, start=first_sweep):
        for i in range(n):
            cost = (1 - 2 * x[:, i]) * (linear[i] + x @ couplings[i])
            threshold = np.trunc(neg_log2_uniform(random_bits(seed, reads, sweep, i)) * temperature)
            accepted = cost <= threshold.astype(np.float64)
            x[accepted, i] ^= 1
            flips += accepted
            changing[sweep - first_sweep] += np.count_nonzero(accepted & (cost != 0))
            uphill[sweep - first_sweep] += np.count_nonzero(accepted & (cost > 0))
        energies[sweep - first_sweep] = now = _integer_energies(linear, couplings, x)
        best[now < lowest] = x[now < lowest]
        lowest = np.minimum(lowest, now)
    level = _integer_energies(linear, couplings, x) == lowest
    best[level] = x[level]
    return Walk(x.astype(np.uint8), energies, flips, changing, uphill, best.astype(np.uint8))


def _integer_energies(
    linear: NDArray[np.int64], couplings: NDArray[np.int64], x: NDArray[np.int64]
) -> NDArray[np.int64]:
    energies: NDArray[np.int64] = x @ linear + ((x @ couplings) * x).sum(axis=1) // 2
    return energies


def quench(
    linear: NDArray[np.int64], couplings: NDArray[np.int64], states: NDArray[np.uint8]
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Flip whatever lowers the energy, in ascending order, sweep after sweep until nothing does; and the flips."""
    x, flips = states.astype(np.int64), np.zeros(len(states), dtype=np.int64)
    moved = True
    while moved:
        moved = False
        for i in range(linear.size):
            lower = (1 - 2 * x[:, i]) * (linear[i] + x @ couplings[i]) < 0
            x[lower, i] ^= 1
            flips += lower
            moved |= bool(lower.any())
    return x.astype(np.uint8), flips


# --- temperatures ----------------------------------------------------------------------------------------------------

_LN2 = 0.693147180559945309417
_PROBE = 0x589965CC75374CC3


def _log(x: float) -> float:
    m, exponent = math.frexp(x)
    if m < 0.70710678118654752:
        m, exponent = m * 2, exponent - 1
    s = (m - 1) / (m + 1)
    z, total = s * s, 0.0
    for k in range(27, 0, -2):
        total = total * z + 1.0 / k
    return 2 * s * total + exponent * _LN2


def _exp(x: float) -> float:
    k = math.floor(x / _LN2 + 0.5)
    r, total = x - k * _LN2, 1.0
    for j in range(18, 0, -1):
        total = total * r / j + 1
    return math.ldexp(total, k)


def spaced(first: float, last: float, count: int, *, linear: bool) -> list[float]:
    """`count` numbers from `first` to about `last`, by a constant step or a constant factor."""
    if count < 2 or first == last:
        return [first] * count
    if linear:
        step = (last - first) / (count - 1)
        return [first + k * step for k in range(count)]
    ratio = _exp((_log(last) - _log(first)) / (count - 1))
    values = [first]
    while len(values) < count:
        values.append(values[-1] * ratio)
    return values


def kernel_temperatures(temperatures: list[float]) -> NDArray[np.float32]:
    """float(T ln 2), kept finite."""
    return np.array([np.float32(min(t * _LN2, 1e30)) for t in temperatures], dtype=np.float32)


def integers_of(problem: Qubo, scale: float) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Biases (n,) and couplings (n, n), symmetric: round(scale * w), ties to even."""
    n = len(problem)
    couplings = np.zeros((n, n), dtype=np.int64)
    i, j, w = problem.couplings()
    couplings[i, j] = couplings[j, i] = np.rint(w * scale).astype(np.int64)
    return np.rint(problem.linear * scale).astype(np.int64), couplings


def plain_window(linear: NDArray[np.int64], couplings: NDArray[np.int64], factor: float = 30) -> tuple[float, float]:
    """From half the 90 % quantile of the root of the summed squares of a row, down by a factor."""
    squares = (couplings.astype(np.float64) ** 2).sum(axis=1)
    squares = np.where(squares == 0, linear.astype(np.float64) ** 2, squares)
    ranked = np.sort(squares[squares > 0])
    hot = float(np.sqrt(ranked[int(0.9 * (ranked.size - 1))])) / 2 if ranked.size else 0.0
    return hot, hot / factor


def probe_window(linear: NDArray[np.int64], couplings: NDArray[np.int64]) -> tuple[float, float]:
    """Where 10 % of the moves of a short anneal change the energy, and where uphill moves become rare."""
    hot, cold = plain_window(linear, couplings, 1000)
    if hot == 0:
        return hot, cold
    temperatures = spaced(hot, cold, 32, linear=False)
    walk = metropolis(linear, couplings, kernel_temperatures(temperatures), _PROBE, np.arange(16))
    moves = 16 * linear.size
    first = next((k for k in range(31) if walk.changing[k] < 0.1 * moves), 31)
    last = next((k for k in range(first, 31) if walk.uphill[k] < min(0.3 * 16, 0.007 * moves)), 31)
    return temperatures[first], temperatures[last]


# --- methods ---------------------------------------------------------------------------------------------------------


def _anneal(problem: Qubo, plan: Plan, request: Request) -> Result:
    options, begin = plan.options, time.perf_counter()
    states, num_reads = start_states(problem, options["initial_states"], options["num_reads"])
    schedule = schedule_of(options)
    image = image_of(problem, options["bits"])
    scale = image.core.scale
    linear, couplings = integers_of(problem, scale)
    seed = request.drawn_seed()
    if schedule.betas is not None:
        betas = schedule.betas.tolist()
    else:
        ends = schedule.beta_range
        if ends is None:
            hot, cold = (plain_window if schedule.num_sweeps < 64 else probe_window)(linear, couplings)
            ends = (scale / hot, scale / cold) if hot > 0 else (math.inf, math.inf)
        betas = spaced(*ends, schedule.num_sweeps, linear=schedule.linear)
    t2 = kernel_temperatures([scale / beta if beta > 0 else math.inf for beta in betas])
    walk = metropolis(linear, couplings, t2, seed, np.arange(num_reads), states)
    x, flips = walk.states, walk.flips
    if betas and not schedule.held:
        x, more = quench(linear, couplings, walk.best)
        flips = flips + more
    trace = np.minimum.accumulate(walk.energies.min(axis=1)) / scale + problem.offset
    samples, energies = x.astype(np.int8), problem.energies(x)
    if options["num_solutions"] is not None:
        samples, energies = best_distinct(samples, energies, options["num_solutions"])
    best = int(np.argmin(energies))
    for array in (samples, energies, flips):
        array.setflags(write=False)
    return Result(
        energy=float(energies[best]),
        sample=samples[best],
        samples=samples,
        energies=energies,
        selection=np.flatnonzero(samples[best]),
        status="feasible",
        certificate=Certificate(float(energies[best]), True, None, None, None),
        trace=trace if options["trace"] else None,
        timings={"search": time.perf_counter() - begin},
        provenance={
            "method": plan.method,
            "chosen_by": plan.chosen_by,
            "backend": "numpy",
            "device": "cpu",
            "instruction_set": None,
            "version": __version__,
            "quantisation": image.describe(),
            "layout": None,
            "betas": np.array(betas),
            "num_flips": flips,
            "seed": seed,
            "num_reads": num_reads,
            "num_sweeps": schedule.num_sweeps,
            "quench": not schedule.held,
            "options": {key: v for key, v in options.items() if v is not None and key != "initial_states"},
        },
    )


def _enumerate(problem: Qubo, plan: Plan, request: Request) -> Result:
    options, begin = plan.options, time.perf_counter()
    if options["initial_states"] is not None:
        start_states(problem, options["initial_states"], None)  # enumeration needs none, but refuses what is none
    energies = all_energies(problem)
    ranked = np.argsort(energies, kind="stable")[: options["num_solutions"]]
    samples = np.array([state_of(int(k), len(problem)) for k in ranked], dtype=np.int8).reshape(len(ranked), -1)
    energies = problem.energies(samples)
    for array in (samples, energies):
        array.setflags(write=False)
    lowest = float(energies[0])
    return Result(
        energy=lowest,
        sample=samples[0],
        samples=samples,
        energies=energies,
        selection=np.flatnonzero(samples[0]),
        status="optimal",
        certificate=Certificate(lowest, True, lowest, 0.0, "exact"),
        timings={"search": time.perf_counter() - begin},
        provenance={
            "method": plan.method,
            "chosen_by": plan.chosen_by,
            "backend": "numpy",
            "device": "cpu",
            "instruction_set": None,
            "version": __version__,
            "seed": None,
            "nodes": 1 << len(problem),
            "options": {key: v for key, v in options.items() if v is not None and key != "initial_states"},
        },
    )


RUNNERS: dict[tuple[type, str], Any] = {(Qubo, "anneal"): _anneal, (Qubo, "exact"): _enumerate}
