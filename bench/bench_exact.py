"""Proofs: seconds of branch and bound on models whose optima are published or proved."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import isinglass as ig
import pytest
from isinglass import generators
from isinglass.problems.formats import read_qubo

# Penalty models of 20 and 40 passages, sparse and dense random ones, a sparse cut.
_FILES = {
    "rag/rag_N20_M3_K5_s1.coo": -9102,
    "rag/rag_N20_M3_K5_s2.coo": -9092,
    "qubo/bqp100.10.sparse": -12565,
    "qubo/gka3c.sparse": -6665,
    "qubo/gka9b.sparse": -137,
    "qubo/pm1s_80.1.mc": -85,
    "qubo/t2g10_5555.mc": -6049461,
}
_LONG = {"rag/rag_N40_M4_K6_s1.coo": -13174}


@pytest.mark.parametrize("name", [*_FILES, *(pytest.param(name, id=f"full-{name}") for name in _LONG)])
def bench_prove(benchmark: Any, data: Path, name: str, request: pytest.FixtureRequest) -> None:
    if name in _LONG and not request.config.getoption("--full"):
        pytest.skip("seconds long: --full")
    benchmark.group = f"prove {name.split('/')[1]}"
    qubo = read_qubo(data / name)
    result = benchmark.pedantic(ig.solve, (qubo, "exact"), rounds=3, warmup_rounds=1)
    assert (result.status, result.energy) == ("optimal", (_FILES | _LONG)[name])
    benchmark.extra_info |= {"nodes": result.provenance["nodes"], "variables": len(qubo)}


def bench_sample(benchmark: Any, backend: str) -> None:
    """One call of 20 reads on any back end (`--backend`), with the optimum proved beside it."""
    benchmark.group = "20 reads of a penalty model of 20 passages"
    qubo = generators.rag_like(20, 3, 5, seed=1)
    method = "anneal" if backend in ("cpu", "cuda") else "auto"
    # A quantum processor takes no seed, and a service no number of reads.
    options = {"num_reads": 20} if backend != "leap" else {}
    if backend not in ("dwave", "leap"):
        options["seed"] = 1
    result = benchmark.pedantic(ig.solve, (qubo, method, backend), options, rounds=3, warmup_rounds=1)
    best = ig.solve(qubo, "exact").energy
    assert best <= result.energy == qubo.energy(result.sample)
    benchmark.extra_info |= {"share_optimal": float((result.energies == best).mean())}
