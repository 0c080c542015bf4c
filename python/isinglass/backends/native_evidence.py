"""Evidence methods of the native back end: one native call, a result made when looked at."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isinglass import _core
from isinglass.backends import Plan, Request, available_cores
from isinglass.problems.evidence import EvidenceProblem
from isinglass.result import Certificate, Result, Results, Status, gap_of
from isinglass.version import __version__

# "auto" proves where that takes no more nodes and no more work than this (ten milliseconds), and else answers with the
# best it has and a bound.
_AUTO_NODES = 300
_AUTO_WORK = 1_000_000


class _EvidenceResult(Result):
    """A result whose parts are made when they are looked at: a call takes less time than all of them."""

    _problem: EvidenceProblem
    _answer: _core.EvidenceAnswer
    _plan: Plan
    _seed: int
    _device: str
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
        # What "auto" could not prove is the answer of the swaps.
        swapped = plan.chosen_by == "auto" and not answer.proved
        return {
            "method": "swap" if swapped else plan.method,
            "chosen_by": plan.chosen_by,
            "backend": plan.backend,
            "device": self._device,
            "instruction_set": self._instruction_set,
            "seed": self._seed,
            "options": {key: value for key, value in plan.options.items() if value is not None},
            "version": __version__,
            "num_reads": answer.reads,
            "patience": answer.patience,
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


class EvidenceBatch(Results):
    """The answers of one native batch: columns come from it whole, a `Result` is made when it is indexed."""

    def __init__(
        self,
        problems: Sequence[EvidenceProblem],
        batch: _core.EvidenceBatch,
        plan: Plan,
        seeds: Sequence[int],
        device: str,
        instruction_set: str,
    ) -> None:
        self._problems, self._batch, self._plan, self._seeds = problems, batch, plan, seeds
        self._device, self._instruction_set = device, instruction_set

    def __len__(self) -> int:
        return len(self._batch)

    def _at(self, index: int) -> Result:
        return _EvidenceResult(
            _problem=self._problems[index],
            _answer=self._batch[index],
            _plan=self._plan,
            _seed=self._seeds[index],
            _device=self._device,
            _instruction_set=self._instruction_set,
        )

    @cached_property
    def objectives(self) -> NDArray[np.float64]:
        return self._batch.values

    @cached_property
    def upper_bounds(self) -> NDArray[np.float64]:
        return self._batch.upper_bounds

    @cached_property
    def offsets(self) -> NDArray[np.int64]:
        return self._batch.offsets

    @cached_property
    def selections(self) -> NDArray[np.int64]:
        return self._batch.selections


def _arguments(plan: Plan) -> tuple[int, int, int, int]:
    """Reads, patience, limits of nodes and work as the native call takes them.

    0: it settles it itself, or has no limit; a node limit of -1: swaps alone.
    """
    options = plan.options
    num_reads, patience = options["num_reads"] or 0, options["patience"] or 0
    if plan.method == "swap":
        return num_reads, patience, -1, 0
    if options["node_limit"] is None and plan.chosen_by == "auto":
        return num_reads, patience, _AUTO_NODES, _AUTO_WORK
    return num_reads, patience, options["node_limit"] or 0, 0


def _select(problem: EvidenceProblem, plan: Plan, request: Request) -> Result:
    seed = request.drawn_seed()
    answer = _core.select_evidence(problem.core(), *_arguments(plan), seed, request.time_limit, request.progress)
    return _EvidenceResult(
        _problem=problem, _answer=answer, _plan=plan, _seed=seed, _device="cpu", _instruction_set=_core.isa()
    )


def _select_many(problems: Sequence[EvidenceProblem], plan: Plan, requests: Sequence[Request]) -> Results:
    first = requests[0]
    seeds = [request.drawn_seed() for request in requests]
    batch = _core.select_evidence_many(
        [problem.core() for problem in problems],
        *_arguments(plan),
        seeds,
        first.threads or available_cores(),
        first.time_limit,
        first.progress,
    )
    return EvidenceBatch(problems, batch, plan, seeds, "cpu", _core.isa())


RUNNERS: dict[tuple[type, str], Any] = {(EvidenceProblem, "swap"): _select, (EvidenceProblem, "exact"): _select}
BATCH_RUNNERS: dict[tuple[type, str], Any] = {
    (EvidenceProblem, "swap"): _select_many,
    (EvidenceProblem, "exact"): _select_many,
}
