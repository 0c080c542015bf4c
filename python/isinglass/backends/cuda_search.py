"""Tabu and memetic search on a device: batches of small QUBOs, and a large one; the samples are those of `cpu`."""

from __future__ import annotations

import math
import secrets
from collections.abc import Sequence
from typing import Any

from isinglass.backends import BackendError, Plan, Request, available_cores, cuda
from isinglass.backends.native_qubo import image_of, start_states, walked_result
from isinglass.backends.native_search import (
    MOST_MOVES,
    is_counted,
    members,
    memetic_settings,
    patience_of,
)
from isinglass.problems.qubo import Qubo
from isinglass.result import Result


def check_sizes(problems: Sequence[Qubo], most: int) -> None:
    """Refuses models that are too large, by their place in the batch."""
    for index, problem in enumerate(problems):
        if len(problem) > most:
            place = "" if len(problems) == 1 else f" for problem {index}"
            raise BackendError(f"backend 'cuda' takes models of at most {most} variables, got {len(problem)}{place}")


def _seeds(requests: Sequence[Request]) -> list[int]:
    return [secrets.randbits(64) if request.seed is None else request.seed for request in requests]


def _tabu_many(problems: Sequence[Qubo], plan: Plan, requests: Sequence[Request]) -> list[Result]:
    if not problems:
        return []
    native, placement, where = cuda.placed(plan, problems)
    check_sizes(problems, native.most_large_tabu)
    options, first = plan.options, requests[0]
    starts = [start_states(problem, options["initial_states"], options["num_reads"]) for problem in problems]
    images = [image_of(problem, options["bits"], there=True) for problem in problems]
    seeds = _seeds(requests)
    patience = [patience_of(problem, options) for problem in problems]
    max_moves = MOST_MOVES if options["max_moves"] is None else options["max_moves"]
    threads = first.threads or available_cores()
    asked = (
        options["target_energy"],
        options["trace"],
        # In a batch the time limit is of the whole call: each problem ends by its own counters.
        len(problems) == 1 and not is_counted(plan) and math.isfinite(first.time_limit),
        first.time_limit,
        first.progress,
        placement,
    )
    small = [index for index, problem in enumerate(problems) if len(problem) <= native.most_small]
    walks: dict[int, Any] = {}
    if small:
        walked = native.tabu_many(
            [images[index].core for index in small],
            [starts[index][1] for index in small],
            [patience[index] for index in small],
            max_moves,
            options["tenure"],
            [seeds[index] for index in small],
            threads,
            [starts[index][0] for index in small],
            *asked,
        )
        walks = dict(zip(small, walked, strict=True))
    for index in range(len(problems)):
        if index not in walks:
            states, num_reads = starts[index]
            walks[index] = native.tabu_large(
                images[index].core,
                num_reads,
                patience[index],
                max_moves,
                options["tenure"],
                seeds[index],
                threads,
                states,
                *asked,
            )
    found = [walks[index] for index in range(len(problems))]
    return [
        walked_result(
            problem, walked, image, plan, {"seed": seed, "num_reads": num_reads, "patience": moves}, where=where
        )
        for problem, walked, image, seed, (_, num_reads), moves in zip(
            problems, found, images, seeds, starts, patience, strict=True
        )
    ]


def _memetic_many(problems: Sequence[Qubo], plan: Plan, requests: Sequence[Request]) -> list[Result]:
    if not problems:
        return []
    native, placement, where = cuda.placed(plan)
    check_sizes(problems, native.most_large_tabu)
    options, first = plan.options, requests[0]
    small = [index for index, problem in enumerate(problems) if len(problem) <= native.most_small]
    if small and options["trace"]:
        raise BackendError(
            f"backend 'cuda' cannot honour option 'trace' of method 'memetic' up to {native.most_small} variables"
        )
    if small and options["pool_size"] > native.most_pool_size:
        raise BackendError(
            f"backend 'cuda' takes a pool_size of at most {native.most_pool_size} up to {native.most_small} variables, "
            f"got {options['pool_size']}"
        )
    images = [image_of(problem, options["bits"]) for problem in problems]
    seeds = _seeds(requests)
    states = [members(problem, options["initial_states"]) for problem in problems]
    keep, threads = options["num_solutions"] or options["pool_size"], first.threads or available_cores()
    sizes = (options["pool_size"], options["generations"] or 0, options["restarts"] or 0, options["patience"] or 0)
    kept = (options["target_energy"], keep, options["num_solutions"] is not None)
    limits = (
        # In a batch the time limit is of the whole call: each problem ends by its own counters.
        len(problems) == 1 and not is_counted(plan) and math.isfinite(first.time_limit),
        first.time_limit,
        first.progress,
        placement,
    )
    walks: dict[int, Any] = {}
    if small:
        walked = native.memetic_many(
            [images[index].core for index in small],
            *sizes,
            options["tenure"],
            [seeds[index] for index in small],
            threads,
            [states[index] for index in small],
            *kept,
            *limits,
        )
        walks = dict(zip(small, walked, strict=True))
    for index in range(len(problems)):
        if index not in walks:
            walks[index] = native.memetic_large(
                images[index].core,
                *sizes,
                options["tenure"],
                seeds[index],
                threads,
                states[index],
                *kept,
                options["trace"],
                *limits,
            )
    found = [walks[index] for index in range(len(problems))]
    return [
        walked_result(problem, walked, image, plan, memetic_settings(walked, seed), keep, where)
        for problem, walked, image, seed in zip(problems, found, images, seeds, strict=True)
    ]


def _tabu(problem: Qubo, plan: Plan, request: Request) -> Result:
    return _tabu_many([problem], plan, [request])[0]


def _memetic(problem: Qubo, plan: Plan, request: Request) -> Result:
    return _memetic_many([problem], plan, [request])[0]


RUNNERS: dict[tuple[type, str], Any] = {(Qubo, "tabu"): _tabu, (Qubo, "memetic"): _memetic}
BATCH_RUNNERS: dict[tuple[type, str], Any] = {(Qubo, "tabu"): _tabu_many, (Qubo, "memetic"): _memetic_many}
