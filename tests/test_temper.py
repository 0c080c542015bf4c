"""Parallel tempering and descent."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import isinglass as ig
import numpy as np
import pytest
from isinglass import Qubo, _core

from tests.qubo_cases import all_states, dense, instruction_set, optimum, penalised, same, sparse


@pytest.mark.parametrize("make", [dense, sparse, penalised])
@pytest.mark.parametrize("n", [1, 2, 9, 20])
def test_tempering_reaches_the_enumerated_optimum(make: Any, n: int) -> None:
    qubo = make(n, seed=n)
    result = ig.solve(qubo, "temper", seed=1)
    assert result.energy == optimum(qubo)
    assert np.array_equal(result.energies, qubo.energies(result.samples))


_MODELS = {"dense-40": dense(40, 1), "sparse-160": sparse(160, 2, 0.05), "penalised-30": penalised(30, 3)}


@pytest.mark.parametrize("name", _MODELS)
@pytest.mark.parametrize("level", _core.isa_levels())
def test_tempering_gives_the_same_bits_everywhere(name: str, level: str) -> None:
    qubo = _MODELS[name]
    options: dict[str, Any] = {"seed": 5, "num_reads": 3, "num_sweeps": 70}
    with instruction_set("scalar"):
        expected = ig.solve(qubo, "temper", layout="lanes32", threads=1, **options)
    with instruction_set(level):
        for layout in qubo.core().layouts:
            for threads in (1, 2, 7):
                assert same(ig.solve(qubo, "temper", layout=layout, threads=threads, **options), expected)


def test_a_ladder_moves_towards_equal_swap_rates() -> None:
    qubo = sparse(200, 4)
    start, moved = (ig.solve(qubo, "temper", seed=0, num_reads=1, num_sweeps=s).provenance for s in (15, 3000))
    np.testing.assert_allclose(start["betas"], np.geomspace(start["betas"][0], start["betas"][-1], 16), rtol=1e-9)
    assert moved["betas"][[0, -1]] == pytest.approx(start["betas"][[0, -1]], rel=1e-9)
    assert (np.diff(moved["betas"]) > 0).all()
    assert np.ptp(moved["swap_rates"]) < 0.2 < np.ptp(start["swap_rates"])
    assert len(ig.solve(dense(40), "temper", seed=0).provenance["betas"]) == 8


def test_exchanges_keep_boltzmann() -> None:
    # The coldest of two temperatures must be sampled as it would be alone: compare mean energies over many reads.
    qubo = dense(8, seed=12, largest=10)
    states = all_states(8)
    energies = qubo.energies(states)
    result = ig.solve(qubo, "temper", seed=3, num_reads=400, num_sweeps=200, beta_range=(0.02, 0.6))
    rates = np.array(result.provenance["swap_rates"])
    betas = np.array(result.provenance["betas"])
    expected = []
    for hot, cold in pairwise(betas):
        p, q = (np.exp(-b * (energies - energies.min())) for b in (hot, cold))
        pairs = np.outer(p / p.sum(), q / q.sum())
        expected.append((pairs * np.minimum(1, np.exp((hot - cold) * (energies[:, None] - energies[None])))).sum())
    np.testing.assert_allclose(rates, expected, atol=0.15)


def test_tempering_stops_at_its_target() -> None:
    qubo = dense(24, 3)
    best = ig.solve(qubo, "temper", seed=0).energy
    result = ig.solve(qubo, "temper", seed=0, num_reads=2, num_sweeps=10**7, target_energy=best)
    assert result.energy == best
    assert result.provenance["target_reached"]
    assert result.timings["search"] < 5


def test_tempering_keeps_a_time_limit_and_a_warm_start() -> None:
    qubo = dense(200)
    start = ig.solve(qubo, "anneal", seed=0)
    result = ig.solve(qubo, "temper", seed=0, num_sweeps=10**8, time_limit=0.1, initial_states=start)
    assert result.status == "time_limit"
    assert result.timings["search"] < 0.5
    assert result.energy <= start.energy
    with pytest.raises(ValueError, match="0 < first < last"):
        ig.solve(qubo, "temper", beta_range=(1, 1))


@pytest.mark.parametrize("rule", ["steepest", "first"])
def test_descent_ends_in_local_minima(rule: str) -> None:
    qubo = dense(30, 7)
    result = ig.solve(qubo, "descent", seed=2, rule=rule, num_reads=100)
    for sample, energy in zip(result.samples, result.energies, strict=True):
        assert (qubo.energies(sample ^ np.eye(30, dtype=np.int8)) >= energy).all()
    assert np.array_equal(result.energies, qubo.energies(result.samples))
    again = ig.solve(qubo, "descent", seed=2, rule=rule, num_reads=100, threads=7)
    assert same(result, again)


def test_steepest_descent_takes_the_steepest_flip() -> None:
    rng = np.random.default_rng(1)
    qubo = dense(25, 8)
    start = rng.integers(0, 2, 25)
    x, flips = start.copy(), 0
    while True:
        change = qubo.energies(x ^ np.eye(25, dtype=int)) - qubo.energy(x)
        if change.min() >= 0:
            break
        x[np.argmin(change)] ^= 1
        flips += 1
    result = ig.solve(qubo, "descent", initial_states=start, num_reads=1)
    assert np.array_equal(result.sample, x)
    assert result.provenance["num_flips"][0] == flips


@pytest.mark.parametrize("method", ["anneal", "temper", "descent"])
@pytest.mark.parametrize("n", [0, 1, 2, 3])
def test_small_and_empty_models(method: str, n: int) -> None:
    for qubo in (Qubo(np.zeros((n, n)), offset=1.5), dense(n, 4)):
        result = ig.solve(qubo, method, seed=0)
        assert result.samples.shape == (result.provenance["num_reads"], n)
        assert result.energy == optimum(qubo)
        assert result.status == ("optimal" if n == 0 else "feasible")
