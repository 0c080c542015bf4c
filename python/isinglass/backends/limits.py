"""When `backend="auto"` gives a batch to a device: the one table, measured by `bench/gpu.py`."""

from __future__ import annotations

from typing import NamedTuple

from isinglass.problems.evidence import EvidenceProblem
from isinglass.problems.packing import PackingProblem
from isinglass.problems.qubo import Qubo


class Limit(NamedTuple):
    """From how many problems on, each of at most how many variables."""

    least_batch: int | None  # None: not measured, so the CPU keeps the work
    most_size: int


LIMITS: dict[tuple[type, str], Limit] = {
    (Qubo, "anneal"): Limit(None, 256),
    (Qubo, "temper"): Limit(None, 256),
    (Qubo, "tabu"): Limit(None, 256),
    (Qubo, "memetic"): Limit(None, 256),
    (EvidenceProblem, "swap"): Limit(None, 256),
    (PackingProblem, "greedy_plus_max"): Limit(None, 1024),
    (PackingProblem, "lazy_greedy"): Limit(None, 1024),
}


def device_pays(problem_type: type, method: str, size: int, batch: int) -> bool:
    """Whether a batch of that many problems of that size is faster on a device than on the CPU."""
    limit = LIMITS.get((problem_type, method))
    return (
        limit is not None and limit.least_batch is not None and batch >= limit.least_batch and size <= limit.most_size
    )
