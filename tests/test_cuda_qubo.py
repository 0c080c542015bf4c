"""QUBO search of the CUDA back end on host emulation: the same bits as the CPU. Kernel logic tests, never GPU tests."""

from __future__ import annotations

import signal
import threading
import time
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


def wide(n: int, seed: int = 0) -> Qubo:
    """Couplings that need 32 bits."""
    rng = np.random.default_rng(seed)
    return Qubo(np.triu(rng.integers(-2_000_000, 2_000_001, (n, n))))


MAKERS = {"dense": dense, "sparse": sparse, "penalised": penalised, "wide": wide}
SIZES = (0, 1, 2, 31, 32, 33, 64, 65, 97, 129, 161, 256)
ANNEAL: dict[str, Any] = {"seed": 2**64 - 3, "num_reads": 5, "num_sweeps": 9, "trace": True}


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("n", SIZES)
def test_anneal_emulated_equals_cpu(emulated: ModuleType, maker: str, n: int) -> None:
    qubo = MAKERS[maker](n, seed=n) if n else Qubo(np.zeros((0, 0)), offset=1.5)
    found = ig.solve(qubo, "anneal", "cuda", **ANNEAL)
    assert same(found, ig.solve(qubo, "anneal", "cpu", **ANNEAL))
    assert found.provenance["backend"] == "cuda"
    assert found.provenance["device"] == "emulated 0 (cuda:0)"
    width = {"dense": 8, "sparse": 8, "penalised": 16, "wide": 32}[maker]
    assert found.provenance["layout"] == f"warps{width if n > 2 else 8}" or n <= 2


@pytest.mark.parametrize("warps", [1, 2, 3, 16])
@pytest.mark.parametrize("slice_", [1, 4, 0])
@pytest.mark.parametrize("order", [0, 1, 2])
def test_anneal_emulated_in_any_cut_and_order(
    emulated: ModuleType, monkeypatch: pytest.MonkeyPatch, warps: int, slice_: int, order: int
) -> None:
    qubo = penalised(45, 3)
    expected = ig.solve(qubo, "anneal", **ANNEAL)
    monkeypatch.setattr(cuda, "CUT", {"warps": warps, "slice": slice_})
    emulated.order_threads(order)
    emulated.fill_memory(17 * order)
    assert same(ig.solve(qubo, "anneal", "cuda", **ANNEAL), expected)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"num_sweeps": 80, "num_reads": 2},
        {"beta_range": (0.02, 0.02)},
        {"beta_range": (0.0, 0.4), "beta_schedule": "linear"},
        {"beta_schedule": [0.0, 0.1, 0.3, np.inf]},
        {"num_sweeps": 0},
        {"num_solutions": 2},
        {"num_reads": 130, "target_energy": -40.0, "num_sweeps": 1},
        {"num_reads": 130, "target_energy": -1e9, "num_sweeps": 1},
        {"initial_states": np.eye(6, 33, dtype=np.int8), "num_reads": 6},
        {"bits": 8},
    ],
    ids=str,
)
def test_anneal_emulated_keeps_every_option(emulated: ModuleType, options: dict[str, Any]) -> None:
    options = {**ANNEAL, **options}
    if not isinstance(options.get("beta_schedule", ""), str):
        del options["num_sweeps"]
    for qubo in (dense(33, 6), Qubo(np.round(np.random.default_rng(8).normal(size=(33, 33)), 2), offset=-1.5)):
        found, expected = (ig.solve(qubo, "anneal", backend, **options) for backend in ("cuda", "cpu"))
        assert same(found, expected)
        for key in ("betas", "seed", "num_reads", "num_sweeps", "generations", "target_reached", "quench"):
            assert np.array_equal(found.provenance[key], expected.provenance[key]), key


def test_anneal_emulated_batches_of_mixed_models(emulated: ModuleType) -> None:
    models = [MAKERS[maker](n, seed=n) for n in (3, 40, 33, 90) for maker in MAKERS]
    seeds = list(range(len(models)))
    found, expected = (
        ig.solve_many(models, "anneal", backend, seed=seeds, num_reads=3, num_sweeps=6) for backend in ("cuda", "cpu")
    )
    assert all(same(a, b) for a, b in zip(found, expected, strict=True))
    assert same(found[5], ig.solve(models[5], "anneal", "cuda", seed=5, num_reads=3, num_sweeps=6))


@pytest.mark.parametrize("targeted", [False, True])
@pytest.mark.parametrize("method", ["anneal", "temper"])
def test_emulated_batches_in_portions(
    emulated: ModuleType, monkeypatch: pytest.MonkeyPatch, method: str, targeted: bool
) -> None:
    models = [dense(12, seed=k) for k in range(8)]
    # Half of the models never get there, and need every generation of reads.
    target = float(np.median([ig.solve(model, "exact").energy for model in models])) if targeted else None
    run = {"seed": 3, "num_reads": 70 if targeted else 3, "num_sweeps": 4, "target_energy": target}
    whole = ig.solve_many(models, method, "cuda", **run)
    monkeypatch.setattr(cuda, "CUT", {"portion": 3})
    launches = emulated.devices().launches
    parted = ig.solve_many(models, method, "cuda", **run)
    assert emulated.devices().launches >= launches + 3
    expected = ig.solve_many(models, method, "cpu", **run)
    assert all(same(a, c) and same(b, c) for a, b, c in zip(whole, parted, expected, strict=True))
    assert len({result.provenance["target_reached"] for result in whole}) == 1 + targeted


def test_emulated_refuses_by_name(emulated: ModuleType) -> None:
    with pytest.raises(BackendError, match="backend 'cuda' cannot honour option 'layout' of method 'anneal'"):
        ig.solve(dense(5), "anneal", "cuda", layout="lanes32")
    with pytest.raises(BackendError, match="backend 'cpu' cannot honour option 'device' of method 'anneal'"):
        ig.solve(dense(5), "anneal", "cpu", device=0)
    with pytest.raises(BackendError, match=r"device must be in 0\.\.1, got 2"):
        ig.solve(dense(5), "anneal", "cuda", device=2)
    huge = Qubo({(0, 1): 1.0}, labels=range(20_000))
    with pytest.raises(ValueError, match="backend 'cuda' takes models of at most 19456 variables, got 20000"):
        ig.solve(huge, "memetic", "cuda")
    with pytest.raises(ValueError, match="got 20000 for problem 1"):
        ig.solve_many([dense(5), huge], "tabu", "cuda")
    with pytest.raises(BackendError, match="backend 'cuda' has no method 'descent', it offers"):
        ig.solve(dense(5), "descent", "cuda")


def test_emulated_auto_method_is_one_that_the_device_offers(emulated: ModuleType) -> None:
    found = ig.solve(dense(12), backend="cuda", seed=1)
    assert (found.provenance["method"], found.provenance["chosen_by"]) == ("memetic", "auto")
    assert ig.solve(dense(12), backend="cuda", seed=1, num_sweeps=3).provenance["method"] == "anneal"
    evidence = ig.EvidenceProblem([0.9, 0.5, 0.4], [[2, 1, 0]], max_passages=2)
    assert ig.solve(evidence, backend="cuda", seed=1).provenance["method"] == "swap"


def test_emulated_device_by_number_and_auto(emulated: ModuleType) -> None:
    qubo = dense(40)
    named = ig.solve(qubo, "anneal", device=1, **ANNEAL)
    assert named.provenance["device"] == "emulated 1 (cuda:1)"
    assert same(named, ig.solve(qubo, "anneal", **ANNEAL))
    assert ig.solve(qubo, "anneal", **ANNEAL).provenance["backend"] == "cpu"


def test_emulated_errors_are_clear_and_the_next_call_works(emulated: ModuleType) -> None:
    qubo, devices = dense(40), emulated.devices()
    expected = ig.solve(qubo, "anneal", **ANNEAL)
    devices.failure = "cudaErrorDeviceUnavailable: lost"
    with pytest.raises(RuntimeError, match="CUDA device 0, kernel anneal_8x2: cudaErrorDeviceUnavailable: lost"):
        ig.solve(qubo, "anneal", "cuda", **ANNEAL)
    devices.memory, before = 1000, devices.memory
    launches = devices.launches
    with pytest.raises(MemoryError, match=r"CUDA device 0 needs \d+ bytes, has 1000 free"):
        ig.solve(qubo, "anneal", "cuda", **ANNEAL)
    assert devices.launches == launches
    devices.memory = before
    assert same(ig.solve(qubo, "anneal", "cuda", **ANNEAL), expected)


@pytest.mark.parametrize("method", ["anneal", "temper"])
def test_emulated_device_is_reset_once_nothing_is_held(
    emulated: ModuleType, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    monkeypatch.setattr(cuda, "CUT", {"portion": 1})
    models, devices = [dense(40, seed=k) for k in range(6)], emulated.devices()
    run: dict[str, Any] = {"seed": 3, "num_reads": 2, "num_sweeps": 5}

    def fail(share: float) -> None:
        devices.failure = "cudaErrorDeviceUnavailable: lost"

    with pytest.raises(RuntimeError, match="cudaErrorDeviceUnavailable: lost"):
        ig.solve_many(models * 1000, method, "cuda", **run, progress=fail)
    assert devices.held_at_reset == 0  # though another portion was under way
    found, expected = (ig.solve_many(models, method, backend, **run) for backend in ("cuda", "cpu"))
    assert all(same(a, b) for a, b in zip(found, expected, strict=True))


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("anneal", {"num_reads": 1, "num_sweeps": 10**6}),
        ("temper", {"num_reads": 1, "num_sweeps": 10**6}),
        ("tabu", {"num_reads": 1, "patience": 10**8}),
        ("memetic", {"patience": 10**8, "generations": 10**6, "restarts": 1}),
    ],
)
def test_emulated_time_limit_is_of_all_large_models(
    emulated: ModuleType, monkeypatch: pytest.MonkeyPatch, method: str, options: dict[str, Any]
) -> None:
    monkeypatch.setattr(cuda, "CUT", {"slice": 1})
    models = [dense(258, seed=k, largest=3) for k in range(6)]
    begin = time.monotonic()
    found = ig.solve_many(models, method, "cuda", seed=1, time_limit=1.0, **options)
    assert time.monotonic() - begin < 5
    assert {result.status for result in found} == {"time_limit"}


def test_emulated_ends_at_ctrl_c(emulated: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda, "CUT", {"slice": 1})
    timer = threading.Timer(0.15, signal.raise_signal, [signal.SIGINT])
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        ig.solve(dense(64), "anneal", "cuda", num_reads=8, num_sweeps=10**6)
    timer.join()
    assert same(ig.solve(dense(9), "anneal", "cuda", **ANNEAL), ig.solve(dense(9), "anneal", **ANNEAL))


def test_emulated_time_limit(emulated: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda, "CUT", {"slice": 1})
    result = ig.solve(dense(64), "anneal", "cuda", seed=1, num_reads=8, num_sweeps=10**6, time_limit=0.05)
    assert result.status == "time_limit"
    assert len(result.samples) in (1, 8)  # 1: the time was over before the first launch
    assert result.energy == result.energies.min() == dense(64).energies(result.samples).min()
    assert ig.solve(dense(64), "anneal", "cuda", time_limit=0).status == "time_limit"


TEMPER: dict[str, Any] = {"seed": 11, "num_reads": 2, "num_sweeps": 35}


def same_ladders(a: ig.Result, b: ig.Result) -> bool:
    return same(a, b) and all(np.array_equal(a.provenance[key], b.provenance[key]) for key in ("betas", "swap_rates"))


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("n", [0, 1, 33, 97, 161])
def test_temper_emulated_equals_cpu(emulated: ModuleType, maker: str, n: int) -> None:
    qubo = MAKERS[maker](n, seed=n) if n else Qubo(np.zeros((0, 0)), offset=1.5)
    found = ig.solve(qubo, "temper", "cuda", **TEMPER)
    assert same_ladders(found, ig.solve(qubo, "temper", "cpu", **TEMPER))
    assert found.provenance["device"] == "emulated 0 (cuda:0)"


@pytest.mark.parametrize(("slice_", "order"), [(1, 0), (5, 1), (16, 2), (0, 3)])
def test_temper_emulated_in_any_cut_and_order(
    emulated: ModuleType, monkeypatch: pytest.MonkeyPatch, slice_: int, order: int
) -> None:
    qubo = penalised(40, 3)
    expected = ig.solve(qubo, "temper", **TEMPER)
    monkeypatch.setattr(cuda, "CUT", {"slice": slice_})
    emulated.order_threads(order)
    emulated.fill_memory(17 * order)
    assert same_ladders(ig.solve(qubo, "temper", "cuda", **TEMPER), expected)


@pytest.mark.parametrize(
    "options",
    [
        {"beta_range": (0.01, 0.5)},
        {"num_sweeps": 1},
        {"num_sweeps": 130, "num_reads": 1, "target_energy": -1.0},
        {"num_sweeps": 2, "num_reads": 66, "target_energy": -1e9},
        {"initial_states": np.eye(3, 20, dtype=np.int8), "num_reads": 3},
        {"num_solutions": 1, "bits": 8},
    ],
    ids=str,
)
def test_temper_emulated_keeps_every_option(emulated: ModuleType, options: dict[str, Any]) -> None:
    for qubo in (dense(20, 6), Qubo(np.round(np.random.default_rng(8).normal(size=(20, 20)), 2), offset=-1.5)):
        found, expected = (ig.solve(qubo, "temper", backend, **{**TEMPER, **options}) for backend in ("cuda", "cpu"))
        assert same_ladders(found, expected)
        for key in ("seed", "num_reads", "num_sweeps", "generations", "target_reached"):
            assert np.array_equal(found.provenance[key], expected.provenance[key]), key


def test_temper_emulated_batch_and_time_limit(emulated: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    models = [dense(20), penalised(33), wide(7), dense(20, 4)]
    found = ig.solve_many(models, "temper", "cuda", **TEMPER)
    assert all(same(a, ig.solve(q, "temper", **TEMPER)) for a, q in zip(found, models, strict=True))
    monkeypatch.setattr(cuda, "CUT", {"slice": 1})
    cut = ig.solve(dense(64), "temper", "cuda", seed=1, num_sweeps=10**6, time_limit=0.05)
    assert cut.status == "time_limit"
    assert cut.energy == dense(64).energies(cut.samples).min()


def test_evidence_emulated_through_its_qubo(emulated: ModuleType) -> None:
    problem = ig.EvidenceProblem([0.9, 0.5, 0.4], [[2, 1, 0]], max_passages=2)
    found, expected = (ig.solve(problem, "anneal", backend, seed=1, num_reads=4) for backend in ("cuda", "cpu"))
    assert np.array_equal(found.samples, expected.samples)
    assert found.objective == expected.objective
