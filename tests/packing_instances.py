"""Random packing problems for the tests, with every term."""

from __future__ import annotations

from typing import Any

import isinglass as ig
import numpy as np
from isinglass.generators import packing_arrays


def arrays(n: int, seed: int, *, facility: bool = False, integer: bool = True) -> dict[str, Any]:
    """Arguments of a PackingProblem with every term; facility location and costs without a granule on demand."""
    costs = {} if integer else {"costs": np.random.default_rng(seed).uniform(3, 40, n)}
    weights = ig.PackingWeights(facility_location=0.5) if facility else ig.PackingWeights()
    return {**packing_arrays(n, num_terms=7, seed=seed), **costs, "weights": weights}


def problem(n: int, budget: float, seed: int, **options: Any) -> ig.PackingProblem:
    """A PackingProblem over `arrays`; further keywords go to the constructor."""
    facility = options.pop("facility", False)
    integer = options.pop("integer", True)
    return ig.PackingProblem(budget=budget, **{**arrays(n, seed, facility=facility, integer=integer), **options})
