"""The native back end: C++ kernels, chosen for this machine's instruction set at import."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isinglass import _core
from isinglass.backends import (
    Availability,
    BackendError,
    Plan,
    Request,
    native_evidence,
    native_exact,
    native_qubo,
    native_search,
)
from isinglass.problems.packing import PackingProblem
from isinglass.result import Certificate, PackingTrace, Result, Results, gap_of, lazy, read_only
from isinglass.version import __version__


def availability() -> Availability:
    """Always available; the device is the instruction set in force."""
    return Availability(True, None, f"cpu ({_core.isa()})")


class PackingResult(_core.Packing, Result):  # type: ignore[misc] # what is a property there is an attribute here
    """A packing result. Its numbers stay native; what else there is is made when it is looked at: a solve takes less
    time than all of it."""

    _device: str = "cpu"
    _instruction_set: str | None = None  # of a device; None: that of the kernels

    @lazy
    def certificate(self) -> Certificate:
        return Certificate(
            value=self.objective,
            feasible=self.feasible,
            upper_bound=self.upper_bound,
            gap=None if self.upper_bound is None else gap_of(self.objective, self.upper_bound),
            method=self.bound_method,
        )

    @lazy
    def trace(self) -> PackingTrace:
        costs = self.problem.costs[self.selection]
        costs.setflags(write=False)
        return PackingTrace(items=self.selection, gains=self.gains, costs=costs)

    @lazy
    def timings(self) -> dict[str, float]:  # type: ignore[override]
        return {"search": self.search_seconds, "certificate": self.certificate_seconds}

    @lazy
    def provenance(self) -> dict[str, Any]:  # type: ignore[override]
        plan, terms = self.plan, self.problem.terms
        return {
            "method": plan.method,
            "chosen_by": plan.chosen_by,
            "backend": plan.backend,
            "device": self._device,
            "instruction_set": self._instruction_set or self.instruction_set,
            "seed": self.request.seed if plan.method in _DRAWING else None,
            "options": {**plan.options, "certificate": "tight" if self.request.tight else "fast"},
            "version": __version__,
            "terms": terms,
            "terms_off": tuple(t for t in _TERMS if t not in terms),
            "represented": self.problem.num_represented,
            "gain_evaluations": self.gain_evaluations,
            "nodes": self.nodes,
        }

    def __reduce__(self) -> Any:
        # Native objects stay in their process: what travels is the plain result.
        fields = ("selection", "objective", "cost", "status", "certificate", "trace", "timings", "provenance")
        return _rebuild, ({name: getattr(self, name) for name in fields},)


def _rebuild(fields: dict[str, Any]) -> Result:
    return Result(**fields)


_TERMS = ("relevance", "coverage", "representation", "diversity", "facility_location")


_DRAWING = ("stochastic_greedy", "sharded")  # methods that draw random numbers


def _require(problem: PackingProblem, holds: bool, plan: Plan, what: str) -> None:
    """Refuses a method that own terms would make unsound."""
    if not holds:
        names = ", ".join(repr(term.name) for term in problem.own_terms)
        high = " with effort='high'" if plan.options.get("effort") == "high" else ""
        raise BackendError(f"method {plan.method!r}{high} needs terms that are {what}, got {names}")


def _greedy(problem: PackingProblem, plan: Plan, request: Request) -> Result:
    high = plan.options["effort"] == "high"
    if high:
        _require(problem, problem.is_submodular, plan, "submodular")
    answer: Result = _core.pack(
        PackingResult,
        problem,
        plan,
        request,
        problem.ready_core or problem.core(request.memory_limit, request.threads),
        plan.method == "greedy_plus_max",
        request.tight,
        request.time_limit,
        request.progress,
        high,
        (request.threads or _core.available_cores()) if high else 1,
    )
    return answer


_NODE_LIMIT = 1_000_000


def _exact(problem: PackingProblem, plan: Plan, request: Request) -> Result:
    node_limit = plan.options["node_limit"]
    request = request._replace(tight=True)
    _require(problem, problem.is_bounded, plan, "submodular and monotone")
    answer: Result = _core.pack_exactly(
        PackingResult,
        problem,
        plan,
        request,
        problem.core(request.memory_limit, request.threads),
        _NODE_LIMIT if node_limit is None else node_limit,
        request.time_limit,
        request.threads or _core.available_cores(),
        request.progress,
    )
    return answer


def _drawn(request: Request) -> tuple[Request, int]:
    seed = request.drawn_seed()
    return request._replace(seed=seed), seed


def _stochastic(problem: PackingProblem, plan: Plan, request: Request) -> Result:
    request, seed = _drawn(request)
    answer: Result = _core.pack_samples(
        PackingResult,
        problem,
        plan,
        request,
        problem.core(request.memory_limit, request.threads),
        plan.options["epsilon"],
        seed,
        request.tight,
        request.time_limit,
        request.progress,
    )
    return answer


def _sharded(problem: PackingProblem, plan: Plan, request: Request) -> Result:
    _require(problem, not problem.own_terms, plan, "absent, since shards renumber items")
    request, seed = _drawn(request)
    shards = plan.options["shards"] or problem.default_shards
    threads = request.threads or _core.available_cores()
    problem.check_memory(request.memory_limit, problem.sharded_bytes(shards, threads))
    answer: Result = _core.pack_shards(
        PackingResult,
        problem,
        replace(plan, options={**plan.options, "shards": shards}),
        request,
        problem.core(request.memory_limit, threads),
        shards,
        seed,
        threads,
        request.tight,
        request.time_limit,
        request.progress,
    )
    return answer


class PackingBatch(Results):
    """The answers of one native batch: columns come from it whole, a `Result` is made when it is indexed."""

    def __init__(
        self,
        problems: Sequence[PackingProblem],
        batch: _core.PackingBatch,
        plan: Plan,
        request: Request,
        device: str = "cpu",
        instruction_set: str | None = None,
    ) -> None:
        self._problems, self._batch, self._plan, self._request = problems, batch, plan, request
        self._device, self._instruction_set = device, instruction_set

    def __len__(self) -> int:
        return len(self._batch)

    def _at(self, index: int) -> Result:
        answer = self._batch.answer(index, PackingResult, self._problems[index], self._plan, self._request)
        answer.__dict__.update(_device=self._device, _instruction_set=self._instruction_set)
        return answer

    @cached_property
    def objectives(self) -> NDArray[np.float64]:
        return self._batch.values

    @cached_property
    def costs(self) -> NDArray[np.float64]:
        return self._batch.costs

    @cached_property
    def upper_bounds(self) -> NDArray[np.float64]:
        return self._batch.upper_bounds

    @cached_property
    def gaps(self) -> NDArray[np.float64]:
        above, bounds = self.upper_bounds - self.objectives, self.upper_bounds
        return read_only(np.divide(above, bounds, out=0 * bounds, where=bounds > 0))

    @cached_property
    def statuses(self) -> NDArray[np.str_]:
        return read_only(np.array(self._batch.statuses, dtype=np.str_))

    @cached_property
    def offsets(self) -> NDArray[np.int64]:
        return self._batch.offsets

    @cached_property
    def selections(self) -> NDArray[np.int64]:
        return self._batch.selections


def _greedy_many(problems: Sequence[PackingProblem], plan: Plan, requests: Sequence[Request]) -> Results:
    first = requests[0]
    if plan.options["effort"] == "high":
        for problem in problems:
            _require(problem, problem.is_submodular, plan, "submodular")
    batch = _core.pack_many(
        [problem.ready_core or problem.core(first.memory_limit, first.threads) for problem in problems],
        plan.method == "greedy_plus_max",
        first.tight,
        first.time_limit,
        first.threads or 1,
        first.progress,
        plan.options["effort"] == "high",
    )
    return PackingBatch(problems, batch, plan, first)


REFUSES = ("device", "keep_on_device")
RUNNERS: dict[tuple[type, str], Any] = {
    **native_qubo.RUNNERS,
    **native_exact.RUNNERS,
    **native_search.RUNNERS,
    **native_evidence.RUNNERS,
    (PackingProblem, "greedy_plus_max"): _greedy,
    (PackingProblem, "lazy_greedy"): _greedy,
    (PackingProblem, "exact"): _exact,
    (PackingProblem, "stochastic_greedy"): _stochastic,
    (PackingProblem, "sharded"): _sharded,
}
BATCH_RUNNERS: dict[tuple[type, str], Any] = {
    **native_qubo.BATCH_RUNNERS,
    **native_search.BATCH_RUNNERS,
    **native_evidence.BATCH_RUNNERS,
    (PackingProblem, "greedy_plus_max"): _greedy_many,
    (PackingProblem, "lazy_greedy"): _greedy_many,
}
