"""Generators: the same seed gives the same instance, and an instance is what its family says."""

from __future__ import annotations

import hashlib
import itertools

import numpy as np
import pytest
from isinglass import generators
from isinglass.problems.formats import read_qubo

SIZES = [(20, 3, 5), (40, 4, 6), (100, 6, 10)]


@pytest.mark.parametrize(
    "make",
    [
        lambda seed: generators.random_qubo(30, 0.4, seed=seed),
        lambda seed: generators.random_max_cut(30, 0.4, (-1, 1), seed=seed),
        lambda seed: generators.sherrington_kirkpatrick(30, seed=seed),
        lambda seed: generators.rag_like(8, 2, 3, seed=seed),
        lambda seed: generators.palubeckis(30, 50, seed + 1),
    ],
)
def test_same_seed_same_instance(make):
    assert make(3) == make(3)
    assert make(3) != make(4)
    with pytest.raises(ValueError, match="seed must be"):
        make(-2)


def test_random_qubo():
    qubo = generators.random_qubo(400, 0.1, -7, 9, seed=1)
    _, _, w = qubo.couplings()
    assert qubo.density == pytest.approx(0.1 * 16 / 17, rel=0.03)  # one value in 17 is 0
    assert (w.min(), w.max(), qubo.linear.min(), qubo.linear.max()) == (-7, 9, -7, 9)
    assert generators.random_qubo(20, low=1, high=1, seed=1).density == 1
    assert generators.random_qubo(20, 0, seed=1).density == 0
    assert len(generators.random_qubo(0, 0.5, seed=1)) == 0
    with pytest.raises(ValueError, match=r"density must be in \[0, 1\], got 1.5"):
        generators.random_qubo(5, 1.5, seed=1)
    with pytest.raises(ValueError, match="high must be >= 5"):
        generators.random_qubo(5, 1, 5, 4, seed=1)


def test_random_max_cut():
    qubo = generators.random_max_cut(200, 0.3, (-2, 5), seed=2)
    assert qubo.sense == "maximise"
    assert qubo.density == pytest.approx(0.3, rel=0.05)
    assert set(qubo.couplings()[2] / 2) == {-2, 5}
    x = np.random.default_rng(3).integers(0, 2, 200)
    i, j, w = qubo.couplings()
    assert -qubo.energy(x) == (w / 2)[x[i] != x[j]].sum()
    with pytest.raises(ValueError, match="at least one weight"):
        generators.random_max_cut(5, weights=(), seed=1)


def test_sherrington_kirkpatrick():
    n = 400
    h, i, _, J, offset = generators.sherrington_kirkpatrick(n, seed=4).spin_terms()
    assert np.abs(h).max() < 1e-12
    assert abs(offset) < 1e-9
    assert i.size == n * (n - 1) // 2
    assert J.std() * np.sqrt(n) == pytest.approx(1, rel=0.02)


def test_palubeckis_is_the_published_p3000_1():
    qubo = generators.palubeckis(3000, 50, 31000)
    i, j, w = qubo.couplings()
    own = np.flatnonzero(qubo.linear)
    i, j, values = np.r_[own, i], np.r_[own, j], -np.r_[qubo.linear[own], w / 2].astype(int)
    order = np.lexsort((j, i))
    lines = [
        f"{a} {b} {c}\n" for a, b, c in zip((i + 1)[order].tolist(), (j + 1)[order].tolist(), values[order].tolist())
    ]
    assert len(lines) == 2_241_409
    published = "0e173a7d756644c402fb213c9a735fca1646e1ae4d6c1460dcc50eeffcc794c5"
    assert hashlib.sha256("".join(lines).encode()).hexdigest() == published


def test_palubeckis_follows_its_generator_draw_by_draw():
    n, density, state = 23, 30, 77

    def draw() -> float:
        nonlocal state
        state = 16807 * state % (2**31 - 1)
        return state / 2**31

    Q = np.zeros((n, n))
    for i in range(n):
        Q[i, i] = np.floor(201 * draw() - 100)
        for j in range(i + 1, n):
            if 100 * draw() <= density:
                Q[i, j] = 2 * np.floor(201 * draw() - 100)
    assert np.array_equal(-generators.palubeckis(n, density, 77).to_numpy(), Q)


# --- rag_like --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "m", "most"), SIZES)
def test_rag_like_looks_like_the_published_instances(n, m, most, data):
    files = [read_qubo(data / "rag" / f"rag_N{n}_M{m}_K{most}_s{s}.coo") for s in range(1, 8)]
    ours = [generators.rag_like(n, m, most, seed=s) for s in range(40)]

    def measures(qubo):
        Q, (_, _, w) = qubo.to_numpy(), qubo.couplings()
        pairs = Q[:n, :n][np.triu_indices(n, 1)]
        return [len(qubo), qubo.density, Q.diagonal()[:n].mean(), pairs.mean(), pairs.std(), w.max(), qubo.linear.min()]

    theirs, mine = np.array([measures(q) for q in files]), np.array([measures(q) for q in ours])
    spread = mine.std(axis=0) + 1e-9
    assert (np.abs(mine.mean(axis=0) - theirs.mean(axis=0)) < 3.5 * spread / np.sqrt(len(theirs))).all()
    assert (np.abs(theirs - mine.mean(axis=0)) < 4 * spread).all()
    cap = slice(n + 2 * m, n + 2 * m + most.bit_length())  # its bits come next in the files too
    assert np.array_equal(ours[0].to_numpy()[cap, cap], files[0].to_numpy()[cap, cap])
    assert all((q.to_numpy() == np.rint(q.to_numpy())).all() for q in ours)
    assert ours[0].offset == 300 * most**2


@pytest.mark.parametrize("seed", range(6))
def test_rag_like_energies_are_the_objective_on_feasible_states(seed):
    n, m, most = 6, 2, 3
    evidence = generators.rag_evidence(n, m, seed=seed)
    qubo = generators.rag_like(n, m, most, seed=seed)
    s, S, w = evidence.relevance, evidence.support, evidence.requirement_weights
    R = [{j for j in range(m) if S[j, i]} for i in range(n)]

    def pair(i, k):
        rho = len(R[i] & R[k]) / len(R[i] | R[k]) if R[i] & R[k] else 0.25
        return 8 * evidence.complementarity[i, k] - 10 * rho * evidence.redundancy[i, k]

    def gain(i):
        return 10 * s[i] + 10 * sum(w[j] * S[j, i] for j in range(m)) - 20 * (not R[i]) - 2

    checked = 0
    for size in range(most + 1):
        for chosen in itertools.combinations(range(n), size):
            covered = {j: sum(S[j, i] > 0 for i in chosen) for j in range(m)}
            direct = {j: sum(S[j, i] == 2 for i in chosen) for j in range(m)}
            value = sum(round(10 * gain(i)) for i in chosen)
            value += sum(round(10 * pair(i, k)) for i, k in itertools.combinations(chosen, 2))
            value += sum(round(40 * w[j]) * (covered[j] > 0) + round(100 * w[j]) * (direct[j] > 0) for j in range(m))
            need = {("q",): most - size}
            for j in range(m):
                need["vP", j] = covered[j] - (covered[j] > 0)
                need["vD", j] = direct[j] - (direct[j] > 0)
            x = np.zeros(len(qubo), dtype=int)
            for k, name in enumerate(qubo.labels):
                kind, j = name[0], name[1]
                if kind == "x":
                    x[k] = j in chosen
                elif kind in ("yP", "yD", "m"):
                    yes = {"yP": covered[j] > 0, "yD": direct[j] > 0, "m": (covered[j] > 0) and not direct[j]}
                    x[k] = yes[kind]
            for name, amount in need.items():
                bits = [k for k, label in enumerate(qubo.labels) if label[: len(name)] == name]
                bound = (
                    most
                    if name == ("q",)
                    else min(most, sum(S[name[1], i] >= (1 if name[0] == "vP" else 2) for i in range(n)))
                )
                weights = slack_weights(bound)
                assert len(weights) == len(bits)
                for pick in itertools.product([0, 1], repeat=len(bits)):
                    if np.dot(pick, weights) == amount:
                        x[bits] = pick
                        break
                else:
                    raise AssertionError(f"{name} cannot reach {amount} with {weights}")
            assert qubo.energy(x) == -value
            checked += 1
    assert checked == 1 + 6 + 15 + 20


def slack_weights(bound: int) -> list[int]:
    weights, left = [], bound
    while left:
        weights.append(min(2 ** len(weights), left))
        left -= weights[-1]
    return weights


def test_rag_evidence_has_the_stated_shape():
    evidence = generators.rag_evidence(200, 5, seed=1)
    assert evidence.support.shape == (5, 200)
    assert (evidence.support == 2).any(axis=1).all()
    assert set(np.unique(evidence.support)) == {0, 1, 2}
    assert ((evidence.requirement_weights >= 0.5) & (evidence.requirement_weights <= 1)).all()
    assert ((evidence.relevance >= 0) & (evidence.relevance <= 1)).all()
    for matrix in (evidence.redundancy, evidence.complementarity):
        assert np.array_equal(matrix, matrix.T)
        assert not matrix.diagonal().any()
        assert (matrix >= 0).all()
    supports = evidence.support > 0
    meets = supports.T.astype(int) @ supports > 0
    useful = supports.any(axis=0)
    assert not evidence.complementarity[meets].any()
    assert not evidence.complementarity[~useful].any()
    with pytest.raises(ValueError, match="num_passages must be >= 1, got 0"):
        generators.rag_evidence(0, 1, seed=1)
    with pytest.raises(ValueError, match="max_passages must be >= 1, got 0"):
        generators.rag_like(5, 1, 0, seed=1)
