"""How close packings come to the optimum: `python -m bench.packing_quality [--instances 200]`.

Three families of small instances whose optimum is proved by branch and bound (which the tests judge by enumeration).
Printed per family and method: the share of the optimum on average and at worst, how often the optimum itself was found;
then how far above the optimum each certificate lies.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

import isinglass as ig
import numpy as np
from isinglass.generators import packing_arrays

SIZE = 16
METHODS: dict[str, dict[str, Any]] = {
    "lazy_greedy": {"method": "lazy_greedy"},
    "stochastic_greedy": {"method": "stochastic_greedy", "seed": 0},
    "greedy_plus_max": {"method": "greedy_plus_max"},
    'greedy_plus_max, effort="high"': {"method": "greedy_plus_max", "effort": "high"},
}


def _passages(seed: int) -> ig.PackingProblem:
    """Clusters of alike passages, a few to a document, short and long by chance."""
    arrays = packing_arrays(SIZE, seed=seed)
    return ig.PackingProblem(budget=int(arrays["costs"].sum() // 4), **arrays)


def _skewed(seed: int) -> ig.PackingProblem:
    """Costs over two orders of magnitude, and what costs more is worth more: a few long items against many short."""
    rng = np.random.default_rng(seed)
    arrays = packing_arrays(SIZE, seed=seed)
    arrays["costs"] = np.maximum(1, np.exp(rng.normal(3, 1, SIZE)).astype(np.int64))
    arrays["relevance"] = arrays["costs"] ** 0.8 * rng.uniform(0.5, 1.5, SIZE)
    return ig.PackingProblem(budget=int(max(arrays["costs"].max(), arrays["costs"].sum() // 3)), **arrays)


def _redundant(seed: int) -> ig.PackingProblem:
    """Near-copies in three clusters, and terms that several items share: gains collapse after the first picks."""
    arrays = packing_arrays(SIZE, num_clusters=3, num_terms=24, seed=seed)
    arrays["similarity"] = arrays["similarity"] ** 0.5
    weights = ig.PackingWeights(relevance=0.3, coverage=1.0, representation=0.5, diversity=0.3, facility_location=0.5)
    return ig.PackingProblem(budget=int(arrays["costs"].sum() // 4), weights=weights, **arrays)


FAMILIES = {"passages": _passages, "skewed": _skewed, "redundant": _redundant}


def shares(family: str, instances: int) -> Iterator[tuple[dict[str, float], dict[str, float]]]:
    """By instance: value / optimum by method, and upper bound / optimum by level of certificate."""
    for seed in range(instances):
        problem = FAMILIES[family](seed)
        best = ig.solve(problem, "exact")
        assert best.status == "optimal", f"{family} {seed} is not proved"
        reached = {name: ig.solve(problem, **how).objective / best.objective for name, how in METHODS.items()}
        bounds = {
            level: ig.solve(problem, certificate=level).certificate.upper_bound / best.objective
            for level in ("fast", "tight")
        }
        yield reached, bounds


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--instances", type=int, default=200, help="of each family (default: %(default)s)")
    instances = parser.parse_args().instances
    print(f"{'family':10} {'method':32} {'mean':>7} {'worst':>7} {'optimal':>8}")
    for family in FAMILIES:
        rows = list(shares(family, instances))
        for name in METHODS:
            reached = np.array([row[0][name] for row in rows])
            optimal = float((reached > 1 - 1e-9).mean())
            print(f"{family:10} {name:32} {reached.mean():7.4f} {reached.min():7.4f} {optimal:8.1%}")
        for level in ("fast", "tight"):
            bound = np.array([row[1][level] for row in rows])
            print(f"{family:10} {f'certificate {level} / optimum':32} {bound.mean():7.4f} {bound.max():7.4f}")


if __name__ == "__main__":
    main()
