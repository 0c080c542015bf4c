"""Random packing problems for tests and benches: named, seeded, with every term."""

from __future__ import annotations

from typing import Any

import isinglass as ig
import numpy as np


def arrays(n: int, seed: int, *, facility: bool = False, integer: bool = True) -> dict[str, Any]:
    """Arguments of a PackingProblem with cosine similarities of clustered rows."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n, 8)) + 0.7 * rng.normal(size=(5, 8))[rng.integers(0, 5, n)]
    rows /= np.linalg.norm(rows, axis=1, keepdims=True) + 1e-9
    similarity = np.clip(rows @ rows.T, 0, 1).astype(np.float32)
    similarity = np.maximum(similarity, similarity.T)
    np.fill_diagonal(similarity, 1)
    weights = ig.PackingWeights(facility_location=0.5) if facility else ig.PackingWeights()
    return {
        "costs": rng.integers(3, 40, n) if integer else rng.uniform(3, 40, n),
        "relevance": rng.random(n),
        "similarity": similarity,
        "coverage": rng.random((n, 7)) < 0.3,
        "groups": rng.integers(0, max(1, n // 3), n),
        "weights": weights,
    }


def problem(n: int, budget: float, seed: int, **options: Any) -> ig.PackingProblem:
    """A PackingProblem over `arrays`; further keywords go to the constructor."""
    facility = options.pop("facility", False)
    integer = options.pop("integer", True)
    return ig.PackingProblem(budget=budget, **{**arrays(n, seed, facility=facility, integer=integer), **options})
