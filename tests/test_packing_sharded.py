"""Packing at scale: random shards, a sample that is represented, memory maps, and limits on time and memory."""

from __future__ import annotations

import signal
import time

import isinglass as ig
import numpy as np
import pytest
from isinglass import _core
from isinglass.generators import packing_arrays
from isinglass.problems import packing


class Csr:
    """A sparse matrix as the door asks for it."""

    def __init__(self, dense):
        row, column = np.nonzero(dense)
        self.indptr = np.concatenate(([0], np.cumsum(np.bincount(row, minlength=dense.shape[0]))))
        self.indices, self.data, self.shape = column, dense[row, column], dense.shape


def instance(n, budget, seed, *, kind="embeddings", d=12, **options):
    arrays = packing_arrays(n, seed=seed)
    similarity = arrays.pop("similarity")
    rng = np.random.default_rng(seed)
    if kind == "dense":
        arrays["similarity"] = similarity
    elif kind == "sparse":
        arrays["similarity"] = Csr(np.where(similarity > np.quantile(similarity, 0.7), similarity, 0))
    else:
        centres = rng.normal(size=(5, d))
        rows = rng.normal(size=(n, d)) + 1.5 * centres[rng.integers(0, 5, n)]
        rows[n // 3] = 0
        arrays["embeddings"] = rows.astype(np.float32)
    return ig.PackingProblem(budget=budget, **{**arrays, **options})


CASES = [
    {"kind": "dense"},
    {"kind": "sparse"},
    {"kind": "embeddings"},
    {"represented": 37},
    {"represented": 37, "saturation": 0.03},
    {"represented": 20, "weights": ig.PackingWeights(facility_location=0.6), "pinned": [5, 2]},
    {"kind": "sparse", "max_items": 6, "pinned": [9]},
]


@pytest.mark.parametrize("case", CASES)
def test_shards_give_what_certify_confirms(case):
    p = instance(150, 400, 1, **case)
    plain = ig.solve(p)
    for shards in (1, 4, 11):
        got = ig.solve(p, "sharded", seed=3, shards=shards)
        told = ig.certify(p, got.selection, level="fast")
        assert got.certificate == told
        assert told.feasible
        assert got.objective == told.value <= told.upper_bound
        assert got.objective >= (1 if shards == 1 else 0.9) * plain.objective
        assert set(p.pinned.tolist()) <= set(got.selection.tolist())
        assert got.trace.gains.sum() == pytest.approx(got.objective, abs=1e-9)
        assert got.provenance["options"]["shards"] == shards
    assert ig.solve(p, "sharded", seed=3, shards=4, certificate="tight").certificate.upper_bound <= told.upper_bound + 1


@pytest.mark.parametrize("case", CASES)
def test_no_selection_beats_the_bound_of_shards(case):
    p = instance(40, 100, 2, **{**case, **({"represented": 13} if "represented" in case else {})})
    best = ig.solve(p, "exact")
    assert best.status == "optimal"
    got = ig.solve(p, "sharded", seed=0, shards=3)
    assert got.certificate.upper_bound >= best.objective - 1e-6
    assert got.objective <= best.objective + 1e-6
    assert got.objective >= 0.5 * best.objective


@pytest.mark.parametrize("case", CASES[1:6])
def test_same_bits_for_any_threads_and_instruction_set(case, isa, monkeypatch):
    monkeypatch.setattr(packing, "_STORED_SIMILARITY", -1)
    solved = [ig.solve(instance(140, 500, 4, **case), "sharded", seed=9, shards=5, threads=t) for t in (1, 2, 5)]
    _core.force_isa("scalar")
    solved.append(ig.solve(instance(140, 500, 4, **case), "sharded", seed=9, shards=5, threads=1))
    for other in solved[1:]:
        assert other.selection.tolist() == solved[0].selection.tolist()
        assert other.trace.gains.tobytes() == solved[0].trace.gains.tobytes()
        assert other.certificate == solved[0].certificate


def test_seeds_draw_the_shards():
    rows = np.random.default_rng(0).normal(size=(400, 3))
    weights = ig.PackingWeights(representation=0, facility_location=1)
    p = ig.PackingProblem(np.ones(400), 4, embeddings=rows, weights=weights)
    seen = {tuple(ig.solve(p, "sharded", seed=seed, shards=40).selection.tolist()) for seed in range(6)}
    assert len(seen) > 1
    drawn = ig.solve(p, "sharded", shards=40)
    again = ig.solve(p, "sharded", shards=40, seed=drawn.provenance["seed"])
    assert again.selection.tolist() == drawn.selection.tolist()


@pytest.mark.parametrize("saturation", [0.3, 0.04])
@pytest.mark.parametrize("weights", [None, ig.PackingWeights(facility_location=0.7)])
def test_a_sample_is_represented_as_the_plain_reference_says(saturation, weights):
    for seed in range(3):
        p = instance(30, 150, seed, represented=9, saturation=saturation, weights=weights)
        assert p.represented_items.size == p.num_represented == 9
        got, plain = ig.solve(p), ig.solve(p, backend="numpy")
        assert got.selection.tolist() == plain.selection.tolist()
        assert got.objective == pytest.approx(plain.objective, abs=1e-6)
        assert got.provenance["represented"] == 9
        assert ig.certify(p, got.selection).upper_bound >= got.objective
    whole = instance(30, 150, 0, represented=30, saturation=saturation, weights=weights)
    plain = instance(30, 150, 0, saturation=saturation, weights=weights)
    assert ig.solve(whole).objective == ig.solve(plain).objective


def test_large_pools_represent_a_sample():
    n = packing._REPRESENTED_WHOLLY + 1
    rng = np.random.default_rng(0)
    p = ig.PackingProblem(rng.integers(3, 40, n), 400, rng.random(n), embeddings=rng.normal(size=(n, 8)))
    assert p.num_represented == 4096
    items = p.represented_items
    assert (np.diff(items) > 0).all()
    spread = np.bincount(items // (n // 16 + 1), minlength=16)
    assert spread.min() > 150
    result = ig.solve(p, "sharded", seed=1)
    assert result.provenance["options"]["shards"] == 3
    assert result.certificate.gap < 0.1


def test_represented_needs_embeddings():
    with pytest.raises(ValueError, match="represented needs embeddings, got 5"):
        instance(20, 50, 0, kind="dense", represented=5)
    with pytest.raises(ValueError, match="represented must be >= 1"):
        instance(20, 50, 0, represented=0)


@pytest.mark.parametrize("kind", ["sparse", "embeddings"])
def test_memory_is_named_before_it_is_taken(kind):
    p = instance(400, 300, 0, kind=kind)
    needed = p.sharded_bytes(4, 2)
    assert ig.solve(p, "sharded", shards=4, threads=2, memory_limit=needed, seed=0).certificate.feasible
    fresh = instance(400, 300, 0, kind=kind)
    with pytest.raises(MemoryError, match=rf"needs {needed} bytes, limit {needed - 1} bytes"):
        ig.solve(fresh, "sharded", shards=4, threads=2, memory_limit=needed - 1, seed=0)
    assert "_native" not in fresh.__dict__


def anonymous_bytes():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("RssAnon"))


def test_a_memory_map_is_not_copied(tmp_path):
    n, d = 200_000, 64
    rng = np.random.default_rng(0)
    np.save(tmp_path / "rows.npy", rng.normal(size=(n, d)).astype(np.float32))
    rows = np.load(tmp_path / "rows.npy", mmap_mode="r")
    before = anonymous_bytes()
    p = ig.PackingProblem(np.full(n, 20), 400, rng.random(n), embeddings=rows, represented=64)
    result = ig.solve(p, "sharded", seed=0)
    assert p.embeddings.ctypes.data == rows.ctypes.data
    assert result.selection.size == 20
    assert anonymous_bytes() - before < rows.nbytes


@pytest.mark.parametrize("method", ["greedy_plus_max", "sharded", "stochastic_greedy"])
def test_row_sums_keep_the_time_limit(method):
    n = 30_000
    rng = np.random.default_rng(0)
    p = ig.PackingProblem(
        np.full(n, 20), 400, rng.random(n), embeddings=rng.normal(size=(n, 128)).astype(np.float32), pinned=[7]
    )
    begin = time.perf_counter()
    result = ig.solve(p, method, time_limit=0.1, seed=0)
    assert time.perf_counter() - begin < 1.5
    assert result.status == "time_limit"
    assert result.selection[0] == 7
    assert result.certificate.feasible
    assert result.certificate.upper_bound >= result.objective


def test_row_sums_hear_an_interruption():
    n = 30_000
    rng = np.random.default_rng(0)
    p = ig.PackingProblem(np.full(n, 20), 400, embeddings=rng.normal(size=(n, 128)).astype(np.float32))
    signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(signal.SIGINT))
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    begin = time.perf_counter()
    with pytest.raises(KeyboardInterrupt):
        ig.solve(p, threads=2)
    assert time.perf_counter() - begin < 1.5


def test_neighbours_in_order_are_read_in_place(tmp_path):
    dense = np.maximum(packing_arrays(60, seed=0)["similarity"] - 0.4, 0).astype(np.float32)
    sorted_rows = Csr(dense)
    np.save(tmp_path / "columns.npy", sorted_rows.indices.astype(np.int32))
    np.save(tmp_path / "values.npy", sorted_rows.data)
    sorted_rows.indices = np.load(tmp_path / "columns.npy", mmap_mode="r")
    sorted_rows.data = np.load(tmp_path / "values.npy", mmap_mode="r")
    p = ig.PackingProblem(np.full(60, 10), 80, similarity=sorted_rows)
    assert p.similarity.column.ctypes.data == sorted_rows.indices.ctypes.data
    assert p.similarity.value.ctypes.data == sorted_rows.data.ctypes.data
    shuffled = Csr(dense)
    for i in range(60):
        row = slice(shuffled.indptr[i], shuffled.indptr[i + 1])
        shuffled.indices[row], shuffled.data[row] = shuffled.indices[row][::-1], shuffled.data[row][::-1]
    again = ig.PackingProblem(np.full(60, 10), 80, similarity=shuffled)
    assert ig.solve(again).selection.tolist() == ig.solve(p).selection.tolist()
    written = Csr(dense)
    kept = ig.PackingProblem(np.full(60, 10), 80, similarity=written)
    written.data[:] = 0
    assert kept.similarity.value.min() > 0


@pytest.mark.parametrize("change", ["missing", "value", "elsewhere"])
def test_neighbours_must_be_symmetric(change):
    dense = np.eye(6, dtype=np.float32)
    dense[1, 4] = dense[4, 1] = dense[2, 3] = dense[3, 2] = 0.5
    if change == "missing":
        dense[4, 1] = 0
    elif change == "value":
        dense[4, 1] = 0.6
    else:
        dense[4, 1], dense[4, 2] = 0, 0.5
    with pytest.raises(ValueError, match="similarity must be symmetric"):
        ig.PackingProblem(np.ones(6), 3, similarity=Csr(dense))
