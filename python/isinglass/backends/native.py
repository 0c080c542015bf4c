"""The native back end: C++ kernels, chosen for this machine's instruction set at import."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isinglass import _core
from isinglass.backends import (
    Availability,
    Plan,
    Request,
    native_evidence,
    native_exact,
    native_qubo,
    native_search,
)
from isinglass.problems.packing import PackingProblem
from isinglass.result import Certificate, PackingTrace, Result, Results, Status, gap_of, read_only
from isinglass.version import __version__


def availability() -> Availability:
    """Always available; the device is the instruction set in force."""
    return Availability(True, None, f"cpu ({_core.isa()})")


class PackingResult(Result):
    """A packing result whose parts are made when they are looked at: a solve takes less time than all of them."""

    _problem: PackingProblem
    _packing: _core.Packing
    _plan: Plan
    _tight: bool
    _seed: int | None = None
    _device: str = "cpu"
    _instruction_set: str | None = None  # of a device; None: that of the kernels

    @cached_property
    def selection(self) -> NDArray[np.int64]:  # type: ignore[override]
        return self._packing.selection

    @cached_property
    def objective(self) -> float:  # type: ignore[override]
        return self._packing.value

    @cached_property
    def cost(self) -> float:  # type: ignore[override]
        return self._packing.cost

    @cached_property
    def status(self) -> Status:  # type: ignore[override]
        return self._packing.status

    @cached_property
    def certificate(self) -> Certificate:  # type: ignore[override]
        packing = self._packing
        return Certificate(
            value=packing.value,
            feasible=packing.feasible,
            upper_bound=packing.upper_bound,
            gap=gap_of(packing.value, packing.upper_bound),
            method=packing.bound_method,
        )

    @cached_property
    def trace(self) -> PackingTrace:
        costs = self._problem.costs[self.selection]
        costs.setflags(write=False)
        return PackingTrace(items=self.selection, gains=self._packing.gains, costs=costs)

    @cached_property
    def timings(self) -> dict[str, float]:  # type: ignore[override]
        return {"search": self._packing.search_seconds, "certificate": self._packing.certificate_seconds}

    @cached_property
    def provenance(self) -> dict[str, Any]:  # type: ignore[override]
        plan = self._plan
        return {
            "method": plan.method,
            "chosen_by": plan.chosen_by,
            "backend": plan.backend,
            "device": self._device,
            "instruction_set": self._instruction_set or self._packing.instruction_set,
            "seed": self._seed,
            "options": {**plan.options, "certificate": "tight" if self._tight else "fast"},
            "version": __version__,
            "terms": self._problem.terms,
            "terms_off": tuple(t for t in _TERMS if t not in self._problem.terms),
            "represented": self._problem.num_represented,
            "gain_evaluations": self._packing.gain_evaluations,
            "nodes": self._packing.nodes,
        }

    def __reduce__(self) -> Any:
        # Native objects stay in their process: what travels is the plain result.
        fields = ("selection", "objective", "cost", "status", "certificate", "trace", "timings", "provenance")
        return _rebuild, ({name: getattr(self, name) for name in fields},)


def _rebuild(fields: dict[str, Any]) -> Result:
    return Result(**fields)


_TERMS = ("relevance", "coverage", "representation", "diversity", "facility_location")


def _greedy(problem: PackingProblem, plan: Plan, request: Request) -> Result:
    deeper = () if plan.options["effort"] == "normal" else (True, request.threads or _core.available_cores())
    packing = _core.pack(
        problem.core(request.memory_limit, request.threads),
        plan.method == "greedy_plus_max",
        request.tight,
        request.time_limit,
        request.progress,
        *deeper,
    )
    return PackingResult(_problem=problem, _packing=packing, _plan=plan, _tight=request.tight)


_NODE_LIMIT = 1_000_000


def _exact(problem: PackingProblem, plan: Plan, request: Request) -> Result:
    node_limit = plan.options["node_limit"]
    packing = _core.pack_exactly(
        problem.core(request.memory_limit, request.threads),
        _NODE_LIMIT if node_limit is None else node_limit,
        request.time_limit,
        request.threads or _core.available_cores(),
        request.progress,
    )
    return PackingResult(_problem=problem, _packing=packing, _plan=plan, _tight=True)


def _stochastic(problem: PackingProblem, plan: Plan, request: Request) -> Result:
    seed = secrets.randbits(64) if request.seed is None else request.seed
    packing = _core.pack_samples(
        problem.core(request.memory_limit, request.threads),
        plan.options["epsilon"],
        seed,
        request.tight,
        request.time_limit,
        request.progress,
    )
    return PackingResult(_problem=problem, _packing=packing, _plan=plan, _tight=request.tight, _seed=seed)


def _sharded(problem: PackingProblem, plan: Plan, request: Request) -> Result:
    seed = secrets.randbits(64) if request.seed is None else request.seed
    shards = plan.options["shards"] or problem.default_shards
    threads = request.threads or _core.available_cores()
    problem.check_memory(request.memory_limit, problem.sharded_bytes(shards, threads))
    packing = _core.pack_shards(
        problem.core(request.memory_limit, threads),
        shards,
        seed,
        threads,
        request.tight,
        request.time_limit,
        request.progress,
    )
    plan = replace(plan, options={**plan.options, "shards": shards})
    return PackingResult(_problem=problem, _packing=packing, _plan=plan, _tight=request.tight, _seed=seed)


class PackingBatch(Results):
    """The answers of one native batch: columns come from it whole, a `Result` is made when it is indexed."""

    def __init__(
        self,
        problems: Sequence[PackingProblem],
        batch: _core.PackingBatch,
        plan: Plan,
        tight: bool,
        device: str = "cpu",
        instruction_set: str | None = None,
    ) -> None:
        self._problems, self._batch, self._plan, self._tight = problems, batch, plan, tight
        self._device, self._instruction_set = device, instruction_set

    def __len__(self) -> int:
        return len(self._batch)

    def _at(self, index: int) -> Result:
        return PackingResult(
            _problem=self._problems[index],
            _packing=self._batch[index],
            _plan=self._plan,
            _tight=self._tight,
            _device=self._device,
            _instruction_set=self._instruction_set,
        )

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
        return read_only(np.divide(above, bounds, out=np.zeros_like(bounds), where=bounds > 0))

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
    batch = _core.pack_many(
        [problem.core(first.memory_limit, first.threads) for problem in problems],
        plan.method == "greedy_plus_max",
        first.tight,
        first.time_limit,
        first.threads or 1,
        first.progress,
        plan.options["effort"] == "high",
    )
    return PackingBatch(problems, batch, plan, first.tight)


REFUSES = ("device",)
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
