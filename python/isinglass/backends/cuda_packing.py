"""Packing on a device: one batch, the answers of `cpu` bit for bit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from isinglass.backends import BackendError, Plan, Request, available_cores, cuda
from isinglass.backends.native import PackingBatch
from isinglass.problems.packing import PackingProblem
from isinglass.result import Result, Results


def _greedy_many(problems: Sequence[PackingProblem], plan: Plan, requests: Sequence[Request]) -> Results:
    if plan.options["effort"] != "normal":
        raise BackendError(f"backend 'cuda' cannot honour effort={plan.options['effort']!r} of method {plan.method!r}")
    if any(problem.own_terms for problem in problems):
        raise BackendError("backend 'cuda' cannot call terms of the caller: their code is for the CPU")
    first = requests[0]
    native, (device, where) = cuda.native(), cuda.device_of(plan)
    batch = native.pack_many(
        [problem.core(first.memory_limit, first.threads) for problem in problems],
        plan.method == "greedy_plus_max",
        first.tight,
        device,
        first.threads or available_cores(),
        first.time_limit,
        first.progress,
    )
    return PackingBatch(problems, batch, plan, first, *where)


def _greedy(problem: PackingProblem, plan: Plan, request: Request) -> Result:
    return _greedy_many([problem], plan, [request])[0]


_METHODS = ("greedy_plus_max", "lazy_greedy")
RUNNERS: dict[tuple[type, str], Any] = {(PackingProblem, method): _greedy for method in _METHODS}
BATCH_RUNNERS: dict[tuple[type, str], Any] = {(PackingProblem, method): _greedy_many for method in _METHODS}
