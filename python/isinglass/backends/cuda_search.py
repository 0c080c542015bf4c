"""Tabu and memetic search on a device: batches of small QUBOs, and a large one; the samples are those of `cpu`."""

from __future__ import annotations

import math
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


def _limits(problems: Sequence[Qubo], plan: Plan, first: Request) -> tuple[bool, float, Any]:
    """Whether the clock ends the search, its limit in seconds, and what is told of progress.

    In a batch the time limit is of the whole call: each problem ends by its own counters.
    """
    by_clock = len(problems) == 1 and not is_counted(plan) and math.isfinite(first.time_limit)
    return by_clock, first.time_limit, first.progress


def _tabu_many(problems: Sequence[Qubo], plan: Plan, requests: Sequence[Request]) -> list[Result]:
    if not problems:
        return []
    native, placement, where = cuda.placed(plan, problems)
    check_sizes(problems, native.most_large_tabu)
    options, first = plan.options, requests[0]
    starts = [start_states(problem, options["initial_states"], options["num_reads"]) for problem in problems]
    states, num_reads = [given for given, _ in starts], [reads for _, reads in starts]
    images = [image_of(problem, options["bits"], there=True) for problem in problems]
    cores, seeds = [image.core for image in images], [request.drawn_seed() for request in requests]
    patience = [patience_of(problem, options) for problem in problems]
    max_moves = MOST_MOVES if options["max_moves"] is None else options["max_moves"]
    threads = first.threads or available_cores()
    kept = cuda.Kept(plan, placement, problems)
    asked = (options["target_energy"], options["trace"], *_limits(problems, plan, first))
    found = cuda.by_size(
        problems,
        native.most_small,
        lambda pick: native.tabu_many(
            pick(cores),
            pick(num_reads),
            pick(patience),
            max_moves,
            options["tenure"],
            pick(seeds),
            threads,
            pick(states),
            *asked,
            placement,
        ),
        lambda index, left: native.tabu_large(
            cores[index],
            num_reads[index],
            patience[index],
            max_moves,
            options["tenure"],
            seeds[index],
            threads,
            states[index],
            options["target_energy"],
            options["trace"],
            *_limits(problems, plan, left),
            kept.placement(index, problems[index], num_reads[index]),
        ),
        first,
    )
    results = [
        walked_result(problem, walked, image, plan, {"seed": seed, "num_reads": reads, "patience": moves}, where=where)
        for problem, walked, image, seed, reads, moves in zip(
            problems, found, images, seeds, num_reads, patience, strict=True
        )
    ]
    return kept.hand_over(results)


def _memetic_many(problems: Sequence[Qubo], plan: Plan, requests: Sequence[Request]) -> list[Result]:
    if not problems:
        return []
    native, placement, where = cuda.placed(plan)
    check_sizes(problems, native.most_large_tabu)
    options, first = plan.options, requests[0]
    any_small = any(len(problem) <= native.most_small for problem in problems)
    if any_small and options["trace"]:
        raise BackendError(
            f"backend 'cuda' cannot honour option 'trace' of method 'memetic' up to {native.most_small} variables"
        )
    if any_small and options["pool_size"] > native.most_pool_size:
        raise BackendError(
            f"backend 'cuda' takes a pool_size of at most {native.most_pool_size} up to {native.most_small} variables, "
            f"got {options['pool_size']}"
        )
    images = [image_of(problem, options["bits"]) for problem in problems]
    cores, seeds = [image.core for image in images], [request.drawn_seed() for request in requests]
    states = [members(problem, options["initial_states"]) for problem in problems]
    keep, threads = options["num_solutions"] or options["pool_size"], first.threads or available_cores()
    sizes = (options["pool_size"], options["generations"] or 0, options["restarts"] or 0, options["patience"] or 0)
    kept = (options["target_energy"], keep, options["num_solutions"] is not None)
    limits = (*_limits(problems, plan, first), placement)
    found = cuda.by_size(
        problems,
        native.most_small,
        lambda pick: native.memetic_many(
            pick(cores), *sizes, options["tenure"], pick(seeds), threads, pick(states), *kept, *limits
        ),
        lambda index, left: native.memetic_large(
            cores[index],
            *sizes,
            options["tenure"],
            seeds[index],
            threads,
            states[index],
            *kept,
            options["trace"],
            *_limits(problems, plan, left),
            placement,
        ),
        first,
    )
    return [
        walked_result(problem, walked, image, plan, memetic_settings(walked, seed), keep, where)
        for problem, walked, image, seed in zip(problems, found, images, seeds, strict=True)
    ]


BATCH_RUNNERS: dict[tuple[type, str], Any] = {(Qubo, "tabu"): _tabu_many, (Qubo, "memetic"): _memetic_many}
