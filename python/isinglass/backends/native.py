"""The native back end: C++ kernels, chosen for this machine's instruction set at import."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from isinglass import _core
from isinglass.backends import Availability, Plan, Request
from isinglass.problems.packing import PackingProblem
from isinglass.result import Certificate, PackingTrace, Result, gap_of
from isinglass.version import __version__


def availability() -> Availability:
    """Always available; the device is the instruction set in force."""
    return Availability(True, None, f"cpu ({_core.isa()})")


class _PackingResult(Result):
    """A packing result whose parts are made when they are looked at."""

    _problem: PackingProblem
    _packing: _core.Packing
    _plan: Plan

    @cached_property
    def certificate(self) -> Certificate:  # type: ignore[override]
        packing = self._packing
        return Certificate(
            value=packing.value,
            feasible=True,
            upper_bound=packing.upper_bound,
            gap=gap_of(packing.value, packing.upper_bound),
            method=packing.bound_method,
        )

    @cached_property
    def trace(self) -> PackingTrace:
        costs = np.asarray(self._problem.costs)[self.selection]
        costs.setflags(write=False)
        assert self.selection is not None
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
            "device": "cpu",
            "instruction_set": self._instruction_set,
            "seed": None,
            "options": {**plan.options, "certificate": "tight" if self._tight else "fast"},
            "version": __version__,
            "terms": self._problem.terms,
            "terms_off": tuple(t for t in _TERMS if t not in self._problem.terms),
            "gain_evaluations": self._packing.gain_evaluations,
        }

    def __reduce__(self) -> Any:
        # Native objects stay in their process: what travels is the plain result.
        fields = ("selection", "objective", "cost", "status", "certificate", "trace", "timings", "provenance")
        return _rebuild, ({name: getattr(self, name) for name in fields},)


def _rebuild(fields: dict[str, Any]) -> Result:
    return Result(**fields)


_TERMS = ("relevance", "coverage", "representation", "diversity", "facility_location")
_WORST_CASE_GAP = 1e-12  # relative: bounds carry their own float slack


def _packing_result(problem: PackingProblem, packing: _core.Packing, plan: Plan, request: Request) -> Result:
    stopped = packing.stopped
    if stopped != "none":
        status = stopped
    elif packing.nothing_fits or packing.upper_bound - packing.value <= _WORST_CASE_GAP * packing.upper_bound:
        status = "optimal"
    else:
        status = "bounded"
    return _PackingResult(
        selection=packing.selection,
        objective=packing.value,
        cost=packing.cost,
        status=status,
        _problem=problem,
        _packing=packing,
        _plan=plan,
        _tight=request.tight,
        _instruction_set=_core.isa(),
    )


def _greedy(problem: PackingProblem, plan: Plan, request: Request) -> Result:
    packing = _core.pack(
        problem.core(request.memory_limit),
        plan.method == "greedy_plus_max",
        request.tight,
        request.time_limit,
        request.progress,
    )
    return _packing_result(problem, packing, plan, request)


def _greedy_many(problems: Sequence[PackingProblem], plan: Plan, requests: Sequence[Request]) -> list[Result]:
    if not problems:
        return []
    first = requests[0]
    packings = _core.pack_many(
        [problem.core(first.memory_limit) for problem in problems],
        plan.method == "greedy_plus_max",
        first.tight,
        first.time_limit,
        first.threads or 1,
        first.progress,
    )
    return [_packing_result(p, packing, plan, r) for p, packing, r in zip(problems, packings, requests, strict=True)]


RUNNERS = {
    (PackingProblem, "greedy_plus_max"): _greedy,
    (PackingProblem, "lazy_greedy"): _greedy,
}
BATCH_RUNNERS = {
    (PackingProblem, "greedy_plus_max"): _greedy_many,
    (PackingProblem, "lazy_greedy"): _greedy_many,
}
