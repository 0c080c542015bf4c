"""The judge itself: enumeration against plain sums, numbers against known answers, the walk against Boltzmann."""

from __future__ import annotations

import itertools

import isinglass as ig
import numpy as np
import pytest
from isinglass import _core, generators
from isinglass.backends import reference_qubo as judge
from isinglass.problems.formats import read_qubo


def integers_of(qubo: ig.Qubo) -> tuple[np.ndarray, np.ndarray]:
    upper = qubo.to_numpy().astype(np.int64)
    couplings = np.triu(upper, 1)
    return np.diag(upper).copy(), couplings + couplings.T


@pytest.mark.parametrize("n", [0, 1, 2, 5, 9])
def test_enumeration_is_every_state_in_order(n):
    qubo = ig.Qubo(np.random.default_rng(n).integers(-9, 10, (n, n)), offset=2.5)
    energies = judge.all_energies(qubo)
    states = np.array([judge.state_of(k, n) for k in range(2**n)]).reshape(2**n, n)
    assert len({tuple(state) for state in states}) == 2**n
    assert np.array_equal(energies, qubo.energies(states))


def test_enumeration_says_where_it_ends():
    with pytest.raises(ValueError, match="at most 20 variables, got 21"):
        judge.all_energies(ig.Qubo(np.eye(21)))


def test_enumeration_of_twenty_variables_finds_a_published_optimum(data):
    qubo = read_qubo(data / "qubo" / "gka1b.sparse")
    energies = judge.all_energies(qubo)
    assert energies.min() == -133
    assert qubo.energy(judge.state_of(int(energies.argmin()), 20)) == -133


def test_random_numbers_have_the_known_answers():
    for at, answer in {(0, 0, 0, 0): 0x41C6483E, (1, 2, 3, 4): 0xBF27073E, (42, 7, 1000, 153): 0x506D90B4}.items():
        seed, read, sweep, variable = at
        assert judge.random_bits(seed, np.array([read]), sweep, variable).tolist() == [answer]
    reads = np.arange(5)
    for seed, sweep, variable in itertools.product((0, 2**64 - 1), (0, 2**31), (0, 77)):
        native = [_core.random_bits(seed, int(read), sweep, variable) for read in reads]
        assert judge.random_bits(seed, reads, sweep, variable).tolist() == native


def test_the_logarithm_is_one():
    bits = np.arange(0, 2**32, 9973, dtype=np.uint64).astype(np.uint32)
    exact = -np.log2(((bits >> 8) | 1) / 2.0**24)
    assert np.abs(judge.neg_log2_uniform(bits) - exact).max() < 1.4e-4


def test_the_walk_keeps_its_energies_and_is_a_function_of_seed_and_read():
    qubo = generators.random_qubo(12, 0.6, -9, 9, seed=1)
    linear, couplings = integers_of(qubo)
    t2 = np.linspace(9, 1, 8, dtype=np.float32)
    walk = judge.metropolis(linear, couplings, t2, 5, np.arange(6))
    assert np.array_equal(walk.energies[-1], qubo.energies(walk.states))
    part = judge.metropolis(linear, couplings, t2, 5, np.array([4, 1]))
    assert np.array_equal(part.states, walk.states[[4, 1]])
    half = judge.metropolis(linear, couplings, t2[:3], 5, np.arange(6))
    rest = judge.metropolis(linear, couplings, t2[3:], 5, np.arange(6), half.states, first_sweep=3)
    assert np.array_equal(rest.states, walk.states)
    assert np.array_equal(half.flips + rest.flips, walk.flips)
    other = judge.metropolis(linear, couplings, t2, 6, np.arange(6))
    assert not np.array_equal(other.energies, walk.energies)


def test_cold_walks_only_descend_and_quench_ends_in_local_minima():
    qubo = generators.random_qubo(15, 0.5, -9, 9, seed=2)
    linear, couplings = integers_of(qubo)
    walk = judge.metropolis(linear, couplings, np.zeros(10, dtype=np.float32), 1, np.arange(20))
    assert (np.diff(walk.energies, axis=0) <= 0).all()
    start = judge.random_states(1, np.arange(20), 15)
    minima, _ = judge.quench(linear, couplings, start)
    assert (qubo.energies(minima) <= qubo.energies(start)).all()
    for i in range(15):
        flipped = minima.copy()
        flipped[:, i] ^= 1
        assert (qubo.energies(flipped) >= qubo.energies(minima)).all()


@pytest.mark.parametrize("temperature", [2.0, 6.0, 20.0])
def test_held_temperatures_sample_boltzmann(temperature):
    n, reads, sweeps = 6, 2000, 60
    qubo = generators.random_qubo(n, 1.0, -6, 6, seed=3)
    linear, couplings = integers_of(qubo)
    t2 = np.full(sweeps, temperature * np.log(2), dtype=np.float32)
    states = judge.metropolis(linear, couplings, t2, 11, np.arange(reads)).states
    weights = np.exp(-judge.all_energies(qubo) / temperature)
    expected = reads * weights / weights.sum()
    found = np.bincount(states @ (1 << np.arange(n)), minlength=2**n)
    common = expected >= 5
    cells = np.append(expected[common], expected[~common].sum())
    counts = np.append(found[common], found[~common].sum())
    cells, counts = cells[cells > 0], counts[cells > 0]
    chi_square, freedom = ((counts - cells) ** 2 / cells).sum(), len(cells) - 1
    assert abs(chi_square - freedom) < 4 * np.sqrt(2 * freedom)


@pytest.mark.parametrize(("name", "best"), [("bqp50.1", -2098), ("gka7a", -4541)])
def test_annealing_reaches_published_optima(name, best, data):
    qubo = read_qubo(data / "qubo" / f"{name}.sparse")
    linear, couplings = integers_of(qubo)
    hot = 0.5 * np.sqrt((couplings**2).sum(axis=1)).max()
    t2 = (hot * 0.93 ** np.arange(80) * np.log(2)).astype(np.float32)
    walk = judge.metropolis(linear, couplings, t2, 1, np.arange(40))
    assert qubo.energies(judge.quench(linear, couplings, walk.states)[0]).min() == best
