"""Tabu and memetic search of the native back end."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from isinglass import _core
from isinglass.backends import Plan, Request, available_cores
from isinglass.backends.native_qubo import States, image_of, start_states, walked_result
from isinglass.problems.qubo import Qubo
from isinglass.result import Result

# Variables below which a second thread costs more than it does.
_ONE_THREAD = 128
MOST_MOVES = 2**63 - 1


def _threads(problem: Qubo, request: Request) -> int:
    if request.threads is not None:
        return request.threads
    return 1 if len(problem) < _ONE_THREAD else available_cores()


def patience_of(problem: Qubo, options: Mapping[str, Any]) -> int:
    """Moves without a better state that a tabu search makes."""
    patience: int | None = options["patience"]
    return 50 * len(problem) + 500 if patience is None else patience


def is_counted(plan: Plan) -> bool:
    """Whether counters of the caller end a search, so that a time limit only cuts it short."""
    counters = ("patience", "max_moves") if plan.method == "tabu" else ("restarts", "generations")
    return any(plan.options[counter] is not None for counter in counters)


def _tabu(problem: Qubo, plan: Plan, request: Request) -> Result:
    options = plan.options
    states, num_reads = start_states(problem, options["initial_states"], options["num_reads"])
    image = image_of(problem, options["bits"])
    seed = request.drawn_seed()
    patience, max_moves = patience_of(problem, options), options["max_moves"]
    walked = _core.tabu(
        image.core,
        num_reads,
        patience,
        MOST_MOVES if max_moves is None else max_moves,
        options["tenure"],
        seed,
        _threads(problem, request),
        None if options["layout"] == "auto" else options["layout"],
        states,
        options["target_energy"],
        options["trace"],
        not is_counted(plan) and math.isfinite(request.time_limit),
        request.time_limit,
        request.progress,
    )
    return walked_result(problem, walked, image, plan, {"seed": seed, "num_reads": num_reads, "patience": patience})


def members(problem: Qubo, given: Any) -> States | None:
    """States for the first pool, all those of a Result."""
    if given is None:
        return None
    if isinstance(given, Result) and given.samples is not None:
        given = given.samples
    states, _ = start_states(problem, given if isinstance(given, Result) else np.atleast_2d(given), None)
    return states


def memetic_settings(walked: _core.Walked, seed: int) -> dict[str, Any]:
    """What the provenance of `memetic` says beside its options."""
    return {"seed": seed, "children": walked.children}


def _memetic(problem: Qubo, plan: Plan, request: Request) -> Result:
    options = plan.options
    states = members(problem, options["initial_states"])
    image = image_of(problem, options["bits"])
    seed = request.drawn_seed()
    keep = options["num_solutions"] or options["pool_size"]
    walked = _core.memetic(
        image.core,
        options["pool_size"],
        options["generations"] or 0,
        options["restarts"] or 0,
        options["patience"] or 0,
        options["tenure"],
        seed,
        _threads(problem, request),
        states,
        options["target_energy"],
        keep,
        options["num_solutions"] is not None,
        options["trace"],
        not is_counted(plan) and math.isfinite(request.time_limit),
        request.time_limit,
        request.progress,
    )
    return walked_result(problem, walked, image, plan, memetic_settings(walked, seed), keep)


def _memetic_many(problems: Sequence[Qubo], plan: Plan, requests: Sequence[Request]) -> list[Result]:
    if not problems:
        return []
    options, first = plan.options, requests[0]
    images = [image_of(problem, options["bits"]) for problem in problems]
    seeds = [request.drawn_seed() for request in requests]
    keep = options["num_solutions"] or options["pool_size"]
    found = _core.memetic_many(
        [image.core for image in images],
        options["pool_size"],
        options["generations"] or 0,
        options["restarts"] or 0,
        options["patience"] or 0,
        options["tenure"],
        seeds,
        first.threads or available_cores(),
        [members(problem, options["initial_states"]) for problem in problems],
        options["target_energy"],
        keep,
        options["num_solutions"] is not None,
        options["trace"],
        first.time_limit,
        first.progress,
    )
    return [
        walked_result(problem, walked, image, plan, memetic_settings(walked, seed), keep)
        for problem, walked, image, seed in zip(problems, found, images, seeds, strict=True)
    ]


RUNNERS: dict[tuple[type, str], Any] = {(Qubo, "tabu"): _tabu, (Qubo, "memetic"): _memetic}
BATCH_RUNNERS: dict[tuple[type, str], Any] = {(Qubo, "memetic"): _memetic_many}
