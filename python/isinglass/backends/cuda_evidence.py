"""Swap search of evidence problems on a device: one batch, the answers of `cpu` bit for bit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from isinglass.backends import Plan, Request, available_cores, cuda
from isinglass.backends.native_evidence import EvidenceBatch
from isinglass.problems.evidence import EvidenceProblem
from isinglass.result import Results


def _swap_many(problems: Sequence[EvidenceProblem], plan: Plan, requests: Sequence[Request]) -> Results:
    first, seeds = requests[0], [request.drawn_seed() for request in requests]
    native, (device, where) = cuda.native(), cuda.device_of(plan)
    batch = native.select_evidence_many(
        [problem.core() for problem in problems],
        plan.options["num_reads"] or 0,
        plan.options["patience"] or 0,
        seeds,
        device,
        first.threads or available_cores(),
        first.time_limit,
        first.progress,
    )
    return EvidenceBatch(problems, batch, plan, seeds, *where)


BATCH_RUNNERS: dict[tuple[type, str], Any] = {(EvidenceProblem, "swap"): _swap_many}
