"""Back ends: one registry, asked for capability, with a reason.

A back end module offers `availability() -> Availability` and `RUNNERS`, a table from (problem type, method) to a
function `run(problem, plan, request) -> Result`; and `BATCH_RUNNERS`, the same from many problems to a sequence of
results, where it has a native batch.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from typing import Any, NamedTuple

from isinglass import _core, methods
from isinglass.backends.through_qubo import through_qubo
from isinglass.problems.evidence import EvidenceProblem
from isinglass.problems.packing import PackingProblem
from isinglass.problems.qubo import Qubo
from isinglass.result import Result, Results

available_cores = _core.available_cores


@dataclass(frozen=True)
class Availability:
    """Whether a back end can run here: if not, `reason` says why; `device` names what it runs on."""

    available: bool
    reason: str | None
    device: str | None


class BackendError(ValueError):
    """A back end that is unknown, unavailable, or lacks what was asked of it."""


class Request(NamedTuple):
    """What a caller asks beside the method's own options."""

    seed: int | None = None
    time_limit: float = float("inf")  # seconds
    threads: int | None = None
    tight: bool = False
    memory_limit: int | None = None
    progress: Callable[[float], object] | None = None


@dataclass(frozen=True)
class Plan:
    """A method, its complete options and the function that runs it."""

    method: str
    chosen_by: str
    backend: str
    options: Mapping[str, Any]
    run: Callable[[Any, Plan, Request], Result]


_MODULES = {"cpu": "isinglass.backends.native", "numpy": "isinglass.backends.reference"}
_AUTO_METHOD: dict[type, Callable[[int], str]] = {
    PackingProblem: lambda size: "greedy_plus_max",
    Qubo: lambda size: "memetic",
    EvidenceProblem: lambda size: "exact",  # within a small number of nodes, see native_evidence
}
_AUTO_BACKEND = "cpu"


def names() -> tuple[str, ...]:
    """Names of all back ends, available or not."""
    return tuple(_MODULES)


def load(name: str) -> Any:
    """The module of a back end."""
    if name not in _MODULES:
        near = get_close_matches(str(name), _MODULES, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"expected auto, {', '.join(_MODULES)}"
        raise BackendError(f"unknown backend {name!r}: {hint}")
    return importlib.import_module(_MODULES[name])


def available_backends() -> dict[str, Availability]:
    """Every back end by name, with whether it can run here, why not, and on what device."""
    return {name: load(name).availability() for name in _MODULES}


@lru_cache(maxsize=256)
def _plan(problem_type: type, method: str, backend: str, chosen_by: str) -> Plan:
    entry = methods.find(problem_type, method)
    module = load(backend)
    run = module.RUNNERS.get((problem_type, method))
    on_qubo = module.RUNNERS.get((Qubo, method)) if problem_type is EvidenceProblem and method != "exact" else None
    if run is None and on_qubo is not None:
        run = through_qubo(on_qubo)
    if run is None:
        offers = sorted(m for kind, m in module.RUNNERS if kind is problem_type)
        raise BackendError(f"backend {backend!r} has no method {method!r}, it offers {', '.join(offers) or 'none'}")
    state = module.availability()
    if not state.available:
        raise BackendError(f"backend {backend!r} is not available: {state.reason}")
    return Plan(method, chosen_by, backend, entry.complete({}), run)


def resolve(problem_type: type, size: int, method: str, backend: str, options: Mapping[str, Any]) -> Plan:
    """The plan for a problem type and size, a method (or "auto"), a back end (or "auto") and the given options."""
    chosen_by = "caller"
    if method == "auto" and problem_type in _AUTO_METHOD:
        method, chosen_by = _AUTO_METHOD[problem_type](size), "auto"
    plan = _plan(problem_type, method, _AUTO_BACKEND if backend == "auto" else backend, chosen_by)
    if options:
        complete = methods.find(problem_type, method).complete(options)
        plan = Plan(plan.method, plan.chosen_by, plan.backend, complete, plan.run)
    return plan


def run_many(
    problems: Sequence[Any], method: str, backend: str, requests: Sequence[Request], options: Mapping[str, Any]
) -> Results:
    """One plan over many problems: natively where the back end has a batch for it, else one by one."""
    plans: dict[tuple[type, int], Plan] = {}
    groups: dict[tuple[type, str], list[int]] = {}
    plan_of: dict[tuple[type, str], Plan] = {}
    for index, problem in enumerate(problems):
        kind = type(problem), len(problem)
        if (plan := plans.get(kind)) is None:
            plan = plans[kind] = resolve(*kind, method, backend, options)
        key = kind[0], plan.method
        plan_of.setdefault(key, plan)
        groups.setdefault(key, []).append(index)
    results: dict[int, Result] = {}
    for key, members in groups.items():
        plan = plan_of[key]
        batch = getattr(load(plan.backend), "BATCH_RUNNERS", {}).get(key)
        if batch is None:
            results.update({i: plan.run(problems[i], plan, requests[i]) for i in members})
        elif len(groups) == 1:
            answers = batch(problems, plan, requests)
            return answers if isinstance(answers, Results) else Results(answers)
        else:
            answers = batch([problems[i] for i in members], plan, [requests[i] for i in members])
            results.update(zip(members, answers, strict=True))
    return Results([results[i] for i in range(len(problems))])
