"""Packing of large pools, from embeddings and from neighbours: `pytest bench/bench_packing_scale.py [--full]`.

Times are from arrays to the selection. `peak_bytes` is what the process took at most beyond its inputs while it solved.
`--full` adds the pools of a million.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import isinglass as ig
import numpy as np
import pytest
from isinglass.generators import packing_arrays
from numpy.typing import NDArray

numba_greedy = pytest.importorskip("bench.numba_greedy", reason="the peer needs numba (extra test)")


def embedded(n: int, dimension: int) -> dict[str, Any]:
    """Arguments of a problem from embeddings in fifty clusters, with the other terms of `packing_arrays`."""
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(50, dimension))
    return {
        "costs": rng.integers(3, 40, n),
        "relevance": rng.random(n),
        "coverage": rng.random((n, 8)) < 0.3,
        "groups": rng.integers(0, max(1, n // 3), n),
        "embeddings": (rng.normal(size=(n, dimension)) + centres[rng.integers(0, 50, n)]).astype(np.float32),
    }


def _memory(field: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))


def peak_bytes(run: Callable[[], object]) -> int:
    """Bytes of memory that a call takes at most, beyond what the process held before it (Linux)."""
    Path("/proc/self/clear_refs").write_text("5")  # forgets the peak so far
    before = _memory("VmRSS")
    run()
    return _memory("VmHWM") - before


def one_thread() -> contextlib.AbstractContextManager[Any]:
    """NumPy's products on one core."""
    return pytest.importorskip("threadpoolctl").threadpool_limits(1)


def cosines(embeddings: NDArray[np.float32]) -> NDArray[np.float32]:
    """What a user of the peer writes: the whole matrix, by one product."""
    unit = embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True)
    similarity = unit @ unit.T
    return np.maximum(similarity, 0, out=similarity)


def peer_selection(arrays: dict[str, Any], similarity: NDArray[np.float32], budget: int) -> NDArray[np.int64]:
    groups = np.unique(arrays["groups"], return_inverse=True)[1]
    chosen, _ = numba_greedy.lazy_greedy(
        similarity,
        0.3 * similarity.sum(axis=1, dtype=np.float64),
        arrays["relevance"],
        arrays["coverage"],
        groups,
        int(groups.max()) + 1,
        arrays["costs"],
        budget,
        np.array([1.0, 0.5, 0.4, 0.3]),
    )
    return chosen


FROM_EMBEDDINGS = [(60, 384, 160), (2000, 320, 1024), (10_000, 320, 1024)]


@pytest.mark.parametrize(("n", "dimension", "budget"), FROM_EMBEDDINGS)
def bench_from_embeddings(benchmark: Any, backend: str, n: int, dimension: int, budget: int) -> None:
    """The problem's checks included, on one core; the tight certificate at n = 60."""
    benchmark.group = f"from embeddings n={n} d={dimension} budget={budget}"
    arrays = embedded(n, dimension)
    tight = "tight" if n <= 200 else "fast"

    def run() -> ig.Result:
        problem = ig.PackingProblem(budget=budget, **arrays)
        problem.core(threads=1)
        result = ig.solve(problem, backend=backend, certificate=tight, threads=1)
        assert result.selection is not None
        return result

    benchmark.extra_info["peak_bytes"] = peak_bytes(run)
    result = benchmark.pedantic(run, rounds=500 if n <= 200 else 3, warmup_rounds=1)
    assert result.certificate.feasible
    assert result.certificate.gap < 0.35
    if n > 200:
        # The products of half of the matrix, at the speed of NumPy's on one core, over all that we took.
        with one_thread():
            begin = perf_counter()
            cosines(arrays["embeddings"])
            whole = perf_counter() - begin
        benchmark.extra_info["half_a_product_over_all"] = whole / 2 / benchmark.stats.stats.min


@pytest.mark.parametrize(("n", "dimension", "budget"), FROM_EMBEDDINGS)
def bench_peer_numba_from_embeddings(benchmark: Any, n: int, dimension: int, budget: int) -> None:
    benchmark.group = f"from embeddings n={n} d={dimension} budget={budget}"
    arrays = embedded(n, dimension)
    with one_thread():
        peer_selection(arrays, cosines(arrays["embeddings"]), budget)
        chosen = benchmark.pedantic(
            lambda: peer_selection(arrays, cosines(arrays["embeddings"]), budget), rounds=500 if n <= 200 else 2
        )
    assert chosen.size


@pytest.mark.parametrize("term", ["facility_location", "tight certificate"])
def bench_dear_terms_from_embeddings(benchmark: Any, backend: str, term: str, request: pytest.FixtureRequest) -> None:
    """What looks at every similarity again, at n = 10,000."""
    if not request.config.getoption("--full"):
        pytest.skip("--full adds terms that take seconds")
    benchmark.group = f"{term} from embeddings n=10000 d=320 budget=1024"
    arrays = embedded(10_000, 320)
    tight = term == "tight certificate"
    weights = None if tight else ig.PackingWeights(facility_location=0.4)
    problem = ig.PackingProblem(budget=1024, weights=weights, **arrays)
    certificate = "tight" if tight else "fast"
    result = benchmark.pedantic(
        lambda: ig.solve(problem, backend=backend, certificate=certificate, threads=1), rounds=1, warmup_rounds=1
    )
    assert result.certificate.feasible


@pytest.fixture(scope="module")
def given() -> dict[str, Any]:
    """Arrays of 10,000 items with their similarity, which a problem keeps without a copy."""
    arrays = packing_arrays(10_000, seed=1)
    arrays["similarity"].setflags(write=False)
    return arrays


def bench_similarity_given(benchmark: Any, backend: str, given: dict[str, Any]) -> None:
    """Sums of rows included, one core."""
    benchmark.group = "similarity given n=10000 budget=8192"

    def problem() -> tuple[tuple[ig.PackingProblem], dict[str, Any]]:
        made = ig.PackingProblem(budget=8192, **given)
        made.core(threads=1)
        return (made,), {}

    def run(made: ig.PackingProblem) -> ig.Result:
        result = ig.solve(made, backend=backend, threads=1)
        assert result.selection is not None
        return result

    benchmark.extra_info["peak_bytes"] = peak_bytes(lambda: run(*problem()[0]))
    result = benchmark.pedantic(run, setup=problem, rounds=5)
    assert result.certificate.gap < 0.1


def bench_peer_numba_similarity_given(benchmark: Any, given: dict[str, Any]) -> None:
    benchmark.group = "similarity given n=10000 budget=8192"
    peer_selection(given, given["similarity"], 8192)
    chosen = benchmark.pedantic(lambda: peer_selection(given, given["similarity"], 8192), rounds=2)
    assert chosen.size


class Neighbours:
    """A symmetric matrix of `k` neighbours or so an item: items on a ring, as a sparse matrix by rows."""

    def __init__(self, n: int, k: int) -> None:
        half = k // 2
        offsets = np.r_[-half:0, 0 : half + 1].astype(np.int64)
        columns = (np.arange(n, dtype=np.int64)[:, None] + offsets) % n
        order = np.argsort(columns, axis=1)
        values = (1 / (1 + np.abs(offsets))).astype(np.float32)
        self.indptr = np.arange(n + 1, dtype=np.int64) * offsets.size
        self.indices = np.take_along_axis(columns, order, axis=1).astype(np.int32).ravel()
        self.data = values[order].ravel()
        self.shape = (n, n)


@pytest.mark.parametrize("similarity", ["embeddings", "neighbours"])
def bench_sharded(
    benchmark: Any, backend: str, similarity: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """A million items, two threads; embeddings come as a memory map."""
    if not request.config.getoption("--full"):
        pytest.skip("--full adds the pools of a million")
    n, budget, limit = 1_000_000, 8192, 4 * 10**9
    benchmark.group = f"sharded n={n} from {similarity} budget={budget}"
    arrays = embedded(n, 64)
    rows = arrays.pop("embeddings")
    if similarity == "embeddings":
        np.save(tmp_path / "rows.npy", rows)
        arrays["embeddings"] = np.load(tmp_path / "rows.npy", mmap_mode="r")
    else:
        arrays["similarity"] = Neighbours(n, 16)
    del rows

    def run() -> ig.Result:
        problem = ig.PackingProblem(budget=budget, **arrays)
        return ig.solve(problem, "sharded", backend, seed=1, threads=2, memory_limit=limit)

    benchmark.extra_info["peak_bytes"] = peak_bytes(run)
    result = benchmark.pedantic(run, rounds=2)
    assert result.certificate.feasible
    assert result.certificate.gap < 0.1
    assert benchmark.extra_info["peak_bytes"] < limit
