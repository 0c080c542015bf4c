"""Annealing and tempering on a device: batches of small QUBOs, and a large one; the reads of `cpu` bit for bit."""

from __future__ import annotations

from collections.abc import Sequence
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
    kept = cuda.Kept(plan, placement, problems)

    def walk(batch: AnnealBatch) -> Any:
        schedule, options = batch.schedule, batch.options
        shared = (schedule.num_sweeps, schedule.beta_range, schedule.linear, schedule.betas, not schedule.held)
        if options["trace"] and any(len(problem) > native.most_small for problem in problems):
            raise BackendError(
                f"backend 'cuda' cannot honour option 'trace' of method 'anneal' beyond {native.most_small} variables"
            )
        limits = (batch.request.time_limit, batch.request.progress)
        return cuda.by_size(
            problems,
            native.most_small,
            lambda pick: native.anneal_many(
                pick(batch.cores),
                pick(batch.num_reads),
                *shared,
                pick(batch.seeds),
                batch.threads,
                pick(batch.states),
                options["target_energy"],
                options["trace"],
                *limits,
                placement,
            ),
            lambda index, left: native.anneal_large(
                batch.cores[index],
                batch.num_reads[index],
                *shared,
                batch.seeds[index],
                batch.threads,
                batch.states[index],
                options["target_energy"],
                left.time_limit,
                left.progress,
                kept.placement(index, problems[index], batch.num_reads[index]),
            ),
            batch.request,
        )

    return kept.hand_over(anneal_batch(problems, plan, requests, walk, where))


def _temper_many(problems: Sequence[Qubo], plan: Plan, requests: Sequence[Request]) -> list[Result]:
    if not problems:
        return []
    native, placement, where = cuda.placed(plan, problems)
    options, num_sweeps, first = plan.options, plan.options["num_sweeps"], requests[0]
    starts = [ladder_states(problem, options) for problem in problems]
    states, num_reads = [given for given, _ in starts], [reads for _, reads in starts]
    images = [image_of(problem, options["bits"], there=True) for problem in problems]
    cores, seeds = [image.core for image in images], [request.drawn_seed() for request in requests]
    ends, threads = ladder_ends(options), first.threads or available_cores()
    kept = cuda.Kept(plan, placement, problems)
    asked = (options["target_energy"], first.time_limit, first.progress)
    found = cuda.by_size(
        problems,
        native.most_small,
        lambda pick: native.temper_many(
            pick(cores), pick(num_reads), num_sweeps, ends, pick(seeds), threads, pick(states), *asked, placement
        ),
        lambda index, left: native.temper_large(
            cores[index],
            num_reads[index],
            num_sweeps,
            ends,
            seeds[index],
            threads,
            states[index],
            options["target_energy"],
            left.time_limit,
            left.progress,
            kept.placement(index, problems[index], num_reads[index]),
        ),
        first,
    )
    results = [
        walked_result(problem, walked, image, plan, ladder_settings(seed, reads, num_sweeps), where=where)
        for problem, walked, image, seed, reads in zip(problems, found, images, seeds, num_reads, strict=True)
    ]
    return kept.hand_over(results)


BATCH_RUNNERS: dict[tuple[type, str], Any] = {(Qubo, "anneal"): _anneal_many, (Qubo, "temper"): _temper_many}
