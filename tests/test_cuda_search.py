"""Tabu and memetic search of the CUDA back end on host emulation, and searches of one large model: the same bits as the
CPU. Kernel logic tests, never GPU tests."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType
from typing import Any

import isinglass as ig
import numpy as np
import pytest
from isinglass import Qubo
from isinglass.backends import BackendError, cuda

from tests.cuda_emulated import emulation
from tests.qubo_cases import dense, penalised, same, sparse


@pytest.fixture
def emulated() -> Iterator[ModuleType]:
    with emulation() as native:
        yield native


TABU: dict[str, Any] = {"seed": 2**64 - 3, "num_reads": 3, "patience": 60, "trace": True}
MEMETIC: dict[str, Any] = {"seed": 9, "pool_size": 4, "patience": 20, "generations": 5, "restarts": 2}
OPTIONS = {"tabu": TABU, "memetic": MEMETIC}


def same_search(found: ig.Result, expected: ig.Result) -> bool:
    """Every number of a search but its layout and time."""
    keys = ("num_flips", "generations", "target_reached", "seed", "children", "patience")
    return same(found, expected) and all(
        np.array_equal(found.provenance.get(key), expected.provenance.get(key)) for key in keys
    )


@pytest.mark.parametrize("method", OPTIONS)
@pytest.mark.parametrize("maker", [dense, sparse, penalised])
@pytest.mark.parametrize("n", [0, 1, 33, 70])
def test_search_emulated_equals_cpu(emulated: ModuleType, method: str, maker: Any, n: int) -> None:
    qubo = maker(n, seed=n) if n else Qubo(np.zeros((0, 0)), offset=1.5)
    found = ig.solve(qubo, method, "cuda", **OPTIONS[method])
    assert same_search(found, ig.solve(qubo, method, "cpu", **OPTIONS[method]))
    assert found.provenance["device"] == "emulated 0 (cuda:0)"


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("tabu", {"tenure": 0}),
        ("tabu", {"tenure": 40, "num_solutions": 2}),
        ("tabu", {"max_moves": 7}),
        ("tabu", {"num_reads": 130, "patience": 2, "target_energy": -40.0}),
        ("tabu", {"initial_states": np.eye(3, 24, dtype=np.int8)}),
        ("tabu", {"bits": 8}),
        ("memetic", {"num_solutions": 30}),
        ("memetic", {"generations": None, "restarts": None}),
        ("memetic", {"initial_states": np.eye(5, 24, dtype=np.int8), "tenure": 2}),
        ("memetic", {"target_energy": -40.0, "bits": 8}),
    ],
    ids=str,
)
def test_search_emulated_keeps_every_option(emulated: ModuleType, method: str, options: dict[str, Any]) -> None:
    for qubo in (dense(24, 6), Qubo(np.round(np.random.default_rng(8).normal(size=(24, 24)), 2), offset=-1.5)):
        found, expected = (
            ig.solve(qubo, method, backend, **{**OPTIONS[method], **options}) for backend in ("cuda", "cpu")
        )
        assert same_search(found, expected)


@pytest.mark.parametrize("method", OPTIONS)
@pytest.mark.parametrize(("slice_", "order"), [(1, 0), (7, 1), (0, 2)])
def test_search_emulated_in_any_cut_and_order(
    emulated: ModuleType, monkeypatch: pytest.MonkeyPatch, method: str, slice_: int, order: int
) -> None:
    qubo = penalised(30, 3)
    expected = ig.solve(qubo, method, **OPTIONS[method])
    monkeypatch.setattr(cuda, "CUT", {"slice": slice_})
    emulated.order_threads(order)
    emulated.fill_memory(17 * order)
    assert same_search(ig.solve(qubo, method, "cuda", **OPTIONS[method]), expected)


@pytest.mark.parametrize("method", OPTIONS)
def test_search_emulated_batches_of_mixed_models(emulated: ModuleType, method: str) -> None:
    models = [maker(n, seed=n) for n in (3, 40, 66) for maker in (dense, penalised)]
    seeds = list(range(len(models)))
    options = {key: value for key, value in OPTIONS[method].items() if key != "seed"}
    found, expected = (ig.solve_many(models, method, b, seed=seeds, **options) for b in ("cuda", "cpu"))
    assert all(same_search(a, b) for a, b in zip(found, expected, strict=True))
    assert len(ig.solve_many([], method, "cuda")) == 0


@pytest.mark.parametrize("method", OPTIONS)
def test_search_emulated_time_limit(emulated: ModuleType, monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    monkeypatch.setattr(cuda, "CUT", {"slice": 4})
    qubo = dense(40)
    for options in ({}, {"patience": 10**9}, {"time_limit": 0}):
        result = ig.solve(qubo, method, "cuda", seed=1, **{"time_limit": 0.05, **options})
        assert result.status == "time_limit"
        assert result.energy == qubo.energies(result.samples).min()


def test_search_emulated_refuses_by_name(emulated: ModuleType) -> None:
    with pytest.raises(BackendError, match="backend 'cuda' cannot honour option 'layout' of method 'tabu'"):
        ig.solve(dense(5), "tabu", "cuda", layout="rows32")
    with pytest.raises(BackendError, match="cannot honour option 'trace' of method 'memetic' up to 256 variables"):
        ig.solve(dense(5), "memetic", "cuda", trace=True)
    with pytest.raises(BackendError, match="takes a pool_size of at most 256 up to 256 variables, got 300"):
        ig.solve(dense(5), "memetic", "cuda", pool_size=300)
    huge = Qubo({(0, 1): 1.0}, labels=range(20_000))
    with pytest.raises(BackendError, match="at most 19456 variables, got 20000 for problem 1"):
        ig.solve_many([dense(5), huge], "memetic", "cuda")


LARGE: dict[str, Any] = {"seed": 5, "num_reads": 3, "num_sweeps": 4, "beta_range": (0.01, 0.5)}


@pytest.mark.parametrize("maker", [dense, sparse])
def test_large_anneal_emulated_equals_cpu(emulated: ModuleType, maker: Any) -> None:
    qubo = maker(270, seed=1) if maker is dense else sparse(270, 1, 0.03)
    found = ig.solve(qubo, "anneal", "cuda", **LARGE)
    assert same_search(found, ig.solve(qubo, "anneal", "cpu", **LARGE))
    assert found.provenance["layout"] == ("blocks" if maker is dense else "lanes")
    with pytest.raises(BackendError, match="cannot honour option 'trace' of method 'anneal' beyond 256 variables"):
        ig.solve(qubo, "anneal", "cuda", trace=True, **LARGE)
    mixed = ig.solve_many([dense(9), qubo, dense(8)], "anneal", "cuda", **LARGE)
    assert [len(result.sample) for result in mixed if result.sample is not None] == [9, 270, 8]
    assert same_search(mixed[1], found)


@pytest.mark.parametrize("maker", [dense, sparse])
def test_large_temper_emulated_equals_cpu(emulated: ModuleType, maker: Any) -> None:
    qubo = maker(260, 1) if maker is dense else sparse(260, 1, 0.03)
    options = {"seed": 5, "num_reads": 3, "num_sweeps": 5, "beta_range": (0.01, 0.5)}
    found, expected = (ig.solve(qubo, "temper", backend, **options) for backend in ("cuda", "cpu"))
    assert same_search(found, expected)
    assert all(np.array_equal(found.provenance[k], expected.provenance[k]) for k in ("betas", "swap_rates"))
    assert found.provenance["layout"] == ("blocks" if maker is dense else "lanes")
    mixed = ig.solve_many([dense(9), qubo], "temper", "cuda", **options)
    assert same_search(mixed[1], found)


def test_sparse_temper_emulated_of_more_variables_than_shared_memory_holds(emulated: ModuleType) -> None:
    n, rng = 33_000, np.random.default_rng(1)
    pairs = {(int(i), int(j)): int(w) for i, j, w in rng.integers(0, n, (n, 3)) if i < j}
    qubo = Qubo(pairs, labels=range(n))
    options = {"seed": 5, "num_reads": 1, "num_sweeps": 1, "beta_range": (0.0001, 0.01)}
    found, expected = (ig.solve(qubo, "temper", backend, **options) for backend in ("cuda", "cpu"))
    assert same_search(found, expected)
    devices = emulated.devices()
    devices.memory, before, launches = 1000, devices.memory, devices.launches
    with pytest.raises(MemoryError, match=r"CUDA device 0 needs \d+ bytes, has \d+ free"):
        ig.solve(qubo, "temper", "cuda", **{**options, "num_reads": 200})  # more than an earlier call left
    assert devices.launches == launches
    devices.memory = before


def test_large_tabu_emulated_equals_cpu(emulated: ModuleType) -> None:
    qubo = dense(260, 1)
    options = {**TABU, "patience": 20}
    found, expected = (ig.solve(qubo, "tabu", backend, **options) for backend in ("cuda", "cpu"))
    assert same_search(found, expected)
    mixed = ig.solve_many([dense(9), qubo], "tabu", "cuda", **options)
    assert same_search(mixed[1], found)


def test_large_memetic_emulated_equals_cpu(emulated: ModuleType) -> None:
    qubo = dense(260, 1)
    options = {**MEMETIC, "num_solutions": 9, "trace": True}
    found, expected = (ig.solve(qubo, "memetic", backend, **options) for backend in ("cuda", "cpu"))
    assert same_search(found, expected)
    assert found.provenance["layout"] == "blocks"
    options["trace"] = False
    mixed = ig.solve_many([dense(9), qubo], "memetic", "cuda", **options)
    assert np.array_equal(mixed[1].samples, found.samples)
    assert mixed[1].provenance["children"] == found.provenance["children"]
