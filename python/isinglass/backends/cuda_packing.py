"""Packing on a device, with the answers of `cpu` bit for bit.

Pools of up to 1,024 items are packed there, a batch at once. Of larger ones that come from embeddings the device scales
the rows and forms all their sums, and the gains of facility location, which is nearly all of the work; the host picks.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from isinglass import _core
from isinglass.backends import BackendError, Plan, Request, available_cores, cuda
from isinglass.backends.native import PackingBatch, PackingResult
from isinglass.backends.native_qubo import Where
from isinglass.problems.device import DeviceArray
from isinglass.problems.packing import PackingProblem
from isinglass.result import Result, Results

_MOST_ITEMS = 1024  # of one problem of a batch
_PRODUCTS_THAT_PAY = 1 << 28  # of entries of embeddings: below, the host has them before the device has begun


def _embed(problem: PackingProblem, device: int, request: Request) -> bool:
    """Unit rows and sums by the device, where the problem asks for them and it pays. Whether it did."""
    if (embeddings := problem.embeddings) is None or not problem.uses_embeddings:
        return False
    n, d = embeddings.shape
    pointer = _pointer(problem)
    if pointer is None and n * problem.num_represented * d < _PRODUCTS_THAT_PAY:
        return False
    core = problem.core(request.memory_limit, request.threads)
    cuda.native().embed(core, pointer, device, request.time_limit, request.progress)
    return True


def _pointer(problem: PackingProblem) -> int | None:
    return problem.embeddings.pointer if isinstance(problem.embeddings, DeviceArray) else None


def _large(problem: PackingProblem, plan: Plan, request: Request, device: int, where: Where) -> Result:
    begin = time.monotonic()
    # What is represented once needs few gains. Nearness changes with every pick, so the device forms those too.
    lends = _embed(problem, device, request) and problem.weights.facility_location > 0
    core = problem.core(request.memory_limit, request.threads)
    try:
        if lends:
            cuda.native().lend(core, _pointer(problem), device)
        answer: Result = _core.pack(
            PackingResult,
            problem,
            plan,
            request,
            core,
            plan.method == "greedy_plus_max",
            request.tight,
            max(0.0, request.time_limit - (time.monotonic() - begin)),
            request.progress,
            False,
            1,
        )
    finally:
        if lends:
            cuda.native().take_back(core)
    answer.__dict__.update(_device=where.device, _instruction_set=where.instruction_set)
    return answer


def _greedy_many(problems: Sequence[PackingProblem], plan: Plan, requests: Sequence[Request]) -> Results:
    if plan.options["effort"] != "normal":
        raise BackendError(f"backend 'cuda' cannot honour effort={plan.options['effort']!r} of method {plan.method!r}")
    if any(problem.own_terms for problem in problems):
        raise BackendError("backend 'cuda' cannot call terms of the caller: their code is for the CPU")
    first = requests[0]
    arrays = [p.embeddings for p in problems if p.uses_embeddings and isinstance(p.embeddings, DeviceArray)]
    native, (device, where) = cuda.native(), cuda.device_of(plan, arrays)
    if any(len(problem) > _MOST_ITEMS and problem.uses_embeddings for problem in problems):
        begin = time.monotonic()
        return Results([_alone(problem, plan, first.since(begin), device, where) for problem in problems])
    for problem in problems:
        _embed(problem, device, first)
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


def _alone(problem: PackingProblem, plan: Plan, request: Request, device: int, where: Where) -> Result:
    if len(problem) > _MOST_ITEMS and problem.uses_embeddings:
        return _large(problem, plan, request, device, where)
    return _greedy_many([problem], plan, [request])[0]


_METHODS = ("greedy_plus_max", "lazy_greedy")
BATCH_RUNNERS: dict[tuple[type, str], Any] = {(PackingProblem, method): _greedy_many for method in _METHODS}
