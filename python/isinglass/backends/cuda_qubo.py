"""Annealing and tempering on a device: batches of small QUBOs, and a large one; the reads of `cpu` bit for bit."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from typing import Any

from isinglass.backends import BackendError, Plan, Request, available_cores, cuda
from isinglass.backends.native_qubo import (
    AnnealBatch,
    anneal_batch,
    image_of,
    ladder_ends,
    ladder_settings,
    ladder_states,
    walked_result,
)
from isinglass.problems.qubo import Qubo
from isinglass.result import Result


def _anneal_many(problems: Sequence[Qubo], plan: Plan, requests: Sequence[Request]) -> list[Result]:
    native, placement, where = cuda.placed(plan, problems)

    def walk(batch: AnnealBatch) -> Any:
        schedule, options = batch.schedule, batch.options
        shared = (schedule.num_sweeps, schedule.beta_range, schedule.linear, schedule.betas, not schedule.held)
        large = {index for index, problem in enumerate(problems) if len(problem) > native.most_small}
        if large and options["trace"]:
            raise BackendError(
                f"backend 'cuda' cannot honour option 'trace' of method 'anneal' beyond {native.most_small} variables"
            )
        small = [index for index in range(len(problems)) if index not in large]
        found = {}
        if small:
            walked = native.anneal_many(
                [batch.cores[index] for index in small],
                [batch.num_reads[index] for index in small],
                *shared,
                [batch.seeds[index] for index in small],
                batch.threads,
                [batch.states[index] for index in small],
                options["target_energy"],
                options["trace"],
                batch.request.time_limit,
                batch.request.progress,
                placement,
            )
            found = dict(zip(small, walked, strict=True))
        for index in large:
            found[index] = native.anneal_large(
                batch.cores[index],
                batch.num_reads[index],
                *shared,
                batch.seeds[index],
                batch.threads,
                batch.states[index],
                options["target_energy"],
                batch.request.time_limit,
                batch.request.progress,
                placement,
            )
        return [found[index] for index in range(len(problems))]

    return anneal_batch(problems, plan, requests, walk, where)


def _temper_many(problems: Sequence[Qubo], plan: Plan, requests: Sequence[Request]) -> list[Result]:
    if not problems:
        return []
    native, placement, where = cuda.placed(plan, problems)
    options, num_sweeps, first = plan.options, plan.options["num_sweeps"], requests[0]
    starts = [ladder_states(problem, options) for problem in problems]
    images = [image_of(problem, options["bits"], there=True) for problem in problems]
    seeds = [secrets.randbits(64) if request.seed is None else request.seed for request in requests]
    ends, threads = ladder_ends(options), first.threads or available_cores()
    asked = (options["target_energy"], first.time_limit, first.progress, placement)
    small = [index for index, problem in enumerate(problems) if len(problem) <= native.most_small]
    walks: dict[int, Any] = {}
    if small:
        walked = native.temper_many(
            [images[index].core for index in small],
            [starts[index][1] for index in small],
            num_sweeps,
            ends,
            [seeds[index] for index in small],
            threads,
            [starts[index][0] for index in small],
            *asked,
        )
        walks = dict(zip(small, walked, strict=True))
    for index in range(len(problems)):
        if index not in walks:
            states, num_reads = starts[index]
            walks[index] = native.temper_large(
                images[index].core, num_reads, num_sweeps, ends, seeds[index], threads, states, *asked
            )
    found = [walks[index] for index in range(len(problems))]
    return [
        walked_result(problem, walked, image, plan, ladder_settings(seed, num_reads, num_sweeps), where=where)
        for problem, walked, image, seed, (_, num_reads) in zip(problems, found, images, seeds, starts, strict=True)
    ]


def _alone(batch: Callable[[Sequence[Any], Plan, Sequence[Request]], Sequence[Result]]) -> Any:
    """The runner for one problem: a batch of one."""

    def run(problem: Any, plan: Plan, request: Request) -> Result:
        return batch([problem], plan, [request])[0]

    return run


BATCH_RUNNERS: dict[tuple[type, str], Any] = {(Qubo, "anneal"): _anneal_many, (Qubo, "temper"): _temper_many}
RUNNERS: dict[tuple[type, str], Any] = {key: _alone(batch) for key, batch in BATCH_RUNNERS.items()}
