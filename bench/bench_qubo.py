"""Annealing against dwave-samplers and OpenJij: `pytest bench/bench_qubo.py`, one thread on both sides.

Rates are attempted updates per nanosecond over a whole schedule, at equal temperatures and sweeps; what a peer spends
before its first sweep is taken off (its time with one sweep), and so is ours. OpenJij runs its dense path
(`sparse=False`), which is its fast one. Time to solution (TTS99) is the time of a read times ln 0.01 / ln(1 - p), by
the reads that reach the proved optimum, at the best of a few sweep counts.
"""

from __future__ import annotations

import csv
import math
import os
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import isinglass as ig
import numpy as np
import pytest
from isinglass.problems.formats import read_qubo

ROUNDS = 5


def fastest(call: Callable[[], object], rounds: int = ROUNDS) -> float:
    """CPU seconds of the least disturbed of some rounds."""
    seconds = []
    for _ in range(rounds):
        begin = time.process_time()
        call()
        seconds.append(time.process_time() - begin)
    return min(seconds)


def our_rate(qubo: ig.Qubo, betas: tuple[float, float], sweeps: int, reads: int) -> float:
    def run(count: int) -> ig.Result:
        return ig.solve(qubo, "anneal", seed=1, num_reads=reads, num_sweeps=count, beta_range=betas, threads=1)

    qubo.core()
    assert run(sweeps).provenance["num_sweeps"] == sweeps
    return reads * (sweeps - 1) * len(qubo) / (fastest(lambda: run(sweeps)) - fastest(lambda: run(1))) / 1e9


def dwave_rate(qubo: ig.Qubo, betas: tuple[float, float], sweeps: int, reads: int) -> float:
    samplers = pytest.importorskip("dwave.samplers", reason="the peer needs the ocean extra")
    sampler, bqm = samplers.SimulatedAnnealingSampler(), qubo.to_bqm()

    def run(count: int) -> object:
        return sampler.sample(bqm, num_reads=reads, num_sweeps=count, beta_range=list(betas), seed=1)

    return reads * (sweeps - 1) * len(qubo) / (fastest(lambda: run(sweeps), 3) - fastest(lambda: run(1), 3)) / 1e9


def openjij_rate(qubo: ig.Qubo, betas: tuple[float, float], sweeps: int) -> float:
    openjij = pytest.importorskip("openjij", reason="the peer needs the openjij extra")
    ising = qubo.to_ising()
    fields = {i: float(h) for i, h in enumerate(ising.h)}
    couplings = {(int(i), int(j)): float(ising.J[i, j]) for i, j in np.argwhere(ising.J != 0)}
    sampler = openjij.SASampler()

    def run(count: int) -> object:
        return sampler.sample_ising(
            fields,
            couplings,
            num_reads=1,
            num_sweeps=count,
            beta_min=betas[0],
            beta_max=betas[1],
            sparse=False,
            seed=1,
        )

    seconds = fastest(lambda: run(sweeps), 2) - fastest(lambda: run(1), 2)
    return (sweeps - 1) * len(qubo) / seconds / 1e9


def spin_glass(n: int) -> tuple[ig.Qubo, tuple[float, float]]:
    """Dense integer couplings of -10 .. 10, and betas from T = 1 down to 0.06 of sqrt(n) times their spread."""
    rng = np.random.default_rng(1)
    J = np.triu(rng.integers(-10, 11, (n, n)), 1)
    spread = math.sqrt(110 / 3 * n)
    return ig.Qubo.from_ising(np.zeros(n), J), (1 / spread, 1 / (0.06 * spread))


def report(benchmark: Any, capsys: pytest.CaptureFixture[str], name: str, **figures: float) -> None:
    benchmark.extra_info.update(figures)
    with capsys.disabled():
        print(f"\n{name}: " + ", ".join(f"{key} {value:.4g}" for key, value in figures.items()), end=" ")


@pytest.fixture
def data() -> Path:
    if not (named := os.environ.get("ISINGLASS_DATA")):
        pytest.skip("ISINGLASS_DATA is unset: no real data to bench on")
    return Path(named)


@pytest.fixture
def rag(data: Path) -> Callable[[int], list[tuple[ig.Qubo, float]]]:
    """Penalty models of so many passages, with their proved optima."""

    def load(passages: int) -> list[tuple[ig.Qubo, float]]:
        with (data / "rag" / "best_known.tsv").open() as lines:
            rows = [row for row in csv.DictReader(lines, delimiter="\t") if int(row["passages"]) == passages]
        return [(read_qubo(data / "rag" / f"{row['instance']}.coo"), float(row["energy"])) for row in rows]

    return load


@pytest.mark.parametrize("passages", [20, 40, 100])
def bench_rate_penalty(benchmark: Any, capsys: Any, rag: Any, passages: int) -> None:
    qubo, _ = rag(passages)[0]
    hot, cold = qubo.core().window
    betas = (1 / hot, 1 / cold)
    ours, dwave = our_rate(qubo, betas, 2000, 64), dwave_rate(qubo, betas, 2000, 8)
    report(benchmark, capsys, f"rag-like n={len(qubo)}, updates/ns", ours=ours, dwave=dwave, ratio=ours / dwave)
    benchmark(
        lambda: ig.solve(qubo, "anneal", seed=1, num_reads=64, num_sweeps=200, beta_range=betas, threads=1).energy
    )
    assert ours > dwave


@pytest.mark.parametrize(("n", "sweeps", "reads"), [(64, 2000, 64), (128, 1000, 64), (1000, 200, 2), (2000, 100, 1)])
def bench_rate_dense(benchmark: Any, capsys: Any, n: int, sweeps: int, reads: int) -> None:
    qubo, betas = spin_glass(n)
    ours, openjij = our_rate(qubo, betas, sweeps, reads), openjij_rate(qubo, betas, 20_000_000 // n)
    figures = {"ours": ours, "openjij dense": openjij, "ratio": ours / openjij}
    if n <= 200:
        figures["dwave"] = dwave_rate(qubo, betas, sweeps, 4)
        figures["ratio to dwave"] = ours / figures["dwave"]
    report(benchmark, capsys, f"dense n={n}, updates/ns", **figures)
    benchmark(
        lambda: ig.solve(qubo, "anneal", seed=1, num_reads=reads, num_sweeps=20, beta_range=betas, threads=1).energy
    )
    assert ours > openjij


@pytest.fixture
def small() -> np.ndarray[Any, Any]:
    return np.triu(np.random.default_rng(0).integers(-20, 21, (50, 50))).astype(float)


def bench_call(benchmark: Any, small: Any) -> None:
    """From a NumPy matrix to a sample: one read, one sweep."""
    benchmark.group = "call overhead, n=50"
    benchmark(lambda: ig.solve(ig.Qubo(small), "anneal", seed=1, num_reads=1, num_sweeps=1).sample)


def bench_peer_openjij_call(benchmark: Any, small: Any) -> None:
    benchmark.group = "call overhead, n=50"
    openjij = pytest.importorskip("openjij", reason="the peer needs the openjij extra")
    sampler = openjij.SASampler()
    Q = {(i, j): small[i, j] for i in range(50) for j in range(i, 50)}
    benchmark(lambda: sampler.sample_qubo(Q, num_reads=1, num_sweeps=1, sparse=False, seed=1).first)


def bench_peer_dwave_call(benchmark: Any, small: Any) -> None:
    benchmark.group = "call overhead, n=50"
    dimod = pytest.importorskip("dimod", reason="the peer needs the ocean extra")
    samplers = pytest.importorskip("dwave.samplers", reason="the peer needs the ocean extra")
    sampler = samplers.SimulatedAnnealingSampler()
    betas = [0.1, 1.0]
    benchmark(
        lambda: (
            sampler.sample(
                dimod.BinaryQuadraticModel(small, "BINARY"), num_reads=1, num_sweeps=1, beta_range=betas, seed=1
            ).first
        )
    )


@pytest.mark.parametrize(
    ("passages", "sweeps"), [(20, (60, 120, 250)), (40, (250, 500, 1000)), (100, (2000, 4000, 8000))]
)
def bench_time_to_solution(benchmark: Any, capsys: Any, rag: Any, passages: int, sweeps: tuple[int, ...]) -> None:
    """Plain annealing in the automatic window; the probe is part of no read."""
    reads = 512 if passages < 100 else 256
    times: dict[int, list[float]] = {count: [] for count in sweeps}
    for qubo, optimum in rag(passages):
        assert qubo.core().window[0] > 0  # probed
        for count in sweeps:
            begin = time.process_time()
            result = ig.solve(qubo, "anneal", seed=3, num_reads=reads, num_sweeps=count, threads=1)
            seconds = (time.process_time() - begin) / reads
            assert (result.energies >= optimum - 1e-9).all()
            p = float((result.energies <= optimum + 1e-9).mean())
            times[count].append(
                seconds * (1.0 if p >= 0.99 else math.log(0.01) / math.log1p(-p)) if p > 0 else math.inf
            )
    best = min(sweeps, key=lambda count: median(times[count]))
    figures = {"median": median(times[best]) * 1e3, "worst": max(times[best]) * 1e3, "sweeps": float(best)}
    report(benchmark, capsys, f"rag-like {passages}, TTS99 in ms", **figures)
    qubo, _ = rag(passages)[0]
    benchmark(lambda: ig.solve(qubo, "anneal", seed=3, num_reads=32, num_sweeps=best, threads=1).energy)


def bench_batch(benchmark: Any, capsys: Any, request: pytest.FixtureRequest) -> None:
    """Dense models of 64 variables from NumPy matrices, 99 % to the best that 16 times the work finds; two threads."""
    count = 10_000 if request.config.getoption("--full") else 1_000
    rng = np.random.default_rng(0)
    matrices = [np.triu(rng.integers(-100, 101, (64, 64))).astype(float) for _ in range(count)]

    def run() -> Any:
        return ig.solve_many([ig.Qubo(Q) for Q in matrices], "anneal", seed=1, num_reads=32, num_sweeps=16, threads=2)

    found = np.array([result.energy for result in run()])[:200]
    longer = ig.solve_many([ig.Qubo(Q) for Q in matrices[:200]], "anneal", seed=2, num_reads=128, num_sweeps=256)
    best = np.minimum(found, [result.energy for result in longer])
    assert (found <= best).mean() >= 0.99
    benchmark.pedantic(run, rounds=3)
    report(benchmark, capsys, f"batch of {count}, n=64, two threads", per_second=count / benchmark.stats.stats.min)
