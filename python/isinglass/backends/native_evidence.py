"""Evidence methods of the native back end: one native call, a result made when looked at."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isinglass import _core
from isinglass.backends import Plan, Request, available_cores
from isinglass.problems.evidence import EvidenceProblem
from isinglass.result import Certificate, Result, Status, gap_of
from isinglass.version import __version__

# "auto" proves where that takes no more than this, and else answers with the best it has and a bound.
_AUTO_NODES = 300


def swap_defaults(problem: EvidenceProblem, options: Mapping[str, Any]) -> tuple[int, int]:
    """Reads and patience: what the caller gave, else what found the proved optimum in 99.9 % of calls."""
    reads, patience = options["num_reads"], options["patience"]
    size = min(problem.max_passages, len(problem))
    return 2 if reads is None else reads, 4 + 2 * size if patience is None else patience


class _EvidenceResult(Result):
    """A result whose parts are made when they are looked at: a call takes less time than all of them."""

    _problem: EvidenceProblem
    _answer: _core.EvidenceAnswer
    _plan: Plan
    _seed: int
    _instruction_set: str

    @cached_property
    def selection(self) -> NDArray[np.int64]:  # type: ignore[override]
        return self._answer.selection

    @cached_property
    def objective(self) -> float:  # type: ignore[override]
        return self._answer.value

    @cached_property
    def cost(self) -> float:  # type: ignore[override]
        return self._problem.cost(self.selection)

    @cached_property
    def status(self) -> Status:  # type: ignore[override]
        answer = self._answer
        if answer.proved:
            return "optimal"
        if answer.stopped != "none":
            return answer.stopped
        return "feasible" if answer.upper_bound is None else "bounded"

    @cached_property
    def certificate(self) -> Certificate:  # type: ignore[override]
        value, bound = self._answer.value, self._answer.upper_bound
        if bound is None:
            return Certificate(value, True, None, None, None)
        return Certificate(value, True, bound, gap_of(value, bound), "exact" if self._answer.proved else "dual")

    @cached_property
    def timings(self) -> dict[str, float]:  # type: ignore[override]
        return {"search": self._answer.search_seconds, "proof": self._answer.proof_seconds}

    @cached_property
    def provenance(self) -> dict[str, Any]:  # type: ignore[override]
        plan, answer = self._plan, self._answer
        num_reads, patience = swap_defaults(self._problem, plan.options)
        # What "auto" could not prove is the answer of the swaps.
        swapped = plan.chosen_by == "auto" and not answer.proved
        return {
            "method": "swap" if swapped else plan.method,
            "chosen_by": plan.chosen_by,
            "backend": plan.backend,
            "device": "cpu",
            "instruction_set": self._instruction_set,
            "seed": self._seed,
            "options": {key: value for key, value in plan.options.items() if value is not None},
            "version": __version__,
            "num_reads": num_reads,
            "patience": patience,
            "num_moves": answer.moves,
            "nodes": answer.nodes,
            "dual_steps": answer.dual_steps,
        }

    def __reduce__(self) -> Any:
        # Native objects stay in their process: what travels is the plain result.
        fields = ("selection", "objective", "cost", "status", "certificate", "timings", "provenance")
        return _rebuild, ({name: getattr(self, name) for name in fields},)


def _rebuild(fields: dict[str, Any]) -> Result:
    return Result(**fields)


def _node_limit(plan: Plan) -> int:
    """As the native call takes it: -1 for swaps alone, 0 for no limit."""
    if plan.method == "swap":
        return -1
    given: int | None = plan.options["node_limit"]
    if given is None:
        return _AUTO_NODES if plan.chosen_by == "auto" else 0
    return given


def _select(problem: EvidenceProblem, plan: Plan, request: Request) -> Result:
    seed = secrets.randbits(64) if request.seed is None else request.seed
    num_reads, patience = swap_defaults(problem, plan.options)
    answer = _core.select_evidence(
        problem.core(), num_reads, patience, _node_limit(plan), seed, request.time_limit, request.progress
    )
    return _EvidenceResult(_problem=problem, _answer=answer, _plan=plan, _seed=seed, _instruction_set=_core.isa())


def _select_many(problems: Sequence[EvidenceProblem], plan: Plan, requests: Sequence[Request]) -> list[Result]:
    if not problems:
        return []
    first, level = requests[0], _core.isa()
    seeds = [secrets.randbits(64) if request.seed is None else request.seed for request in requests]
    settings = [swap_defaults(problem, plan.options) for problem in problems]
    answers = _core.select_evidence_many(
        [problem.core() for problem in problems],
        [num_reads for num_reads, _ in settings],
        [patience for _, patience in settings],
        _node_limit(plan),
        seeds,
        first.threads or available_cores(),
        first.time_limit,
        first.progress,
    )
    return [
        _EvidenceResult(_problem=problem, _answer=answer, _plan=plan, _seed=seed, _instruction_set=level)
        for problem, answer, seed in zip(problems, answers, seeds, strict=True)
    ]


RUNNERS: dict[tuple[type, str], Any] = {(EvidenceProblem, "swap"): _select, (EvidenceProblem, "exact"): _select}
BATCH_RUNNERS: dict[tuple[type, str], Any] = {
    (EvidenceProblem, "swap"): _select_many,
    (EvidenceProblem, "exact"): _select_many,
}
