"""Back ends: one registry, asked for capability, with a reason.

A back end is a module, or an object in one, that offers `availability() -> Availability` and `RUNNERS`, a table from
(problem type, method) to a function `run(problem, plan, request) -> Result`; and `BATCH_RUNNERS`, the same from many
problems to a sequence of results, where it has a native batch. One that cannot keep every option of its methods lists
those that it `honours`; naming one alone means the method that it `IMPLIES` for the type of problem.
"""

from __future__ import annotations

import importlib
import secrets
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import lru_cache
from typing import Any, NamedTuple

from isinglass import _core, methods
from isinglass.backends.limits import device_pays
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

    def drawn_seed(self) -> int:
        """The caller's seed, or one that is drawn now."""
        return secrets.randbits(64) if self.seed is None else self.seed

    def since(self, begin: float) -> Request:
        """What is left of it for one of several problems, of a call that began at that `time.monotonic()`."""
        return self._replace(time_limit=max(0.0, self.time_limit - (time.monotonic() - begin)))


@dataclass(frozen=True)
class Plan:
    """A method, its complete options and the function that runs it."""

    method: str
    chosen_by: str
    backend: str
    options: Mapping[str, Any]
    run: Callable[[Any, Plan, Request], Result]


_MODULES = {
    "cpu": "isinglass.backends.native",
    "cuda": "isinglass.backends.cuda",
    "numpy": "isinglass.backends.reference",
    "neal": "isinglass.backends.ocean:NEAL",
    "dwave-tabu": "isinglass.backends.ocean:TABU",
    "dwave": "isinglass.backends.ocean:QPU",
    "leap": "isinglass.backends.ocean:LEAP",
    "openjij": "isinglass.backends.openjij:OPENJIJ",
}
_PROVED_IN_MILLISECONDS = 20  # variables of a Qubo that `exact` proves within about 10 ms, whatever its coefficients


def _qubo_method(size: int, options: Mapping[str, Any], offered: Collection[str]) -> str:
    """Proof where it costs nothing, else the strongest search; of these the first that takes the options named."""
    for name in ("exact", "memetic", "anneal", "tabu"):
        takes = {option.name for option in methods.find(Qubo, name).options}
        if name in offered and takes.issuperset(options) and (name != "exact" or size <= _PROVED_IN_MILLISECONDS):
            return name
    known = {option.name for (kind, _), method in methods.METHODS.items() if kind is Qubo for option in method.options}
    for option in options:
        if option not in known:
            raise TypeError(methods.unknown_keyword(option, known, "a Qubo"))
    return "memetic"


def _evidence_method(size: int, options: Mapping[str, Any], offered: Collection[str]) -> str:
    return "exact" if "exact" in offered else "swap"  # within a small number of nodes, see native_evidence


_AUTO_METHOD: dict[type, Callable[[int, Mapping[str, Any], Collection[str]], str]] = {
    PackingProblem: lambda size, options, offered: "greedy_plus_max",
    Qubo: _qubo_method,
    EvidenceProblem: _evidence_method,
}
_AUTO_BACKEND = "cpu"


def names() -> tuple[str, ...]:
    """Names of all back ends, available or not."""
    return tuple(_MODULES)


@lru_cache(maxsize=64)
def load(name: str) -> Any:
    """A back end by name."""
    if name not in _MODULES:
        near = get_close_matches(str(name), _MODULES, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"expected auto, {', '.join(_MODULES)}"
        raise BackendError(f"unknown backend {name!r}: {hint}")
    module, _, attribute = _MODULES[name].partition(":")
    backend = importlib.import_module(module)
    return getattr(backend, attribute) if attribute else backend


def is_foreign(name: str) -> bool:
    """Whether a back end is of others, and so keeps only some of our options."""
    return hasattr(load(name), "honours")


def available_backends() -> dict[str, Availability]:
    """Every back end by name, with whether it can run here, why not, and on what device."""
    return {name: load(name).availability() for name in _MODULES}


@lru_cache(maxsize=256)
def _plan(problem_type: type, method: str, backend: str, chosen_by: str) -> Plan:
    entry = methods.find(problem_type, method)
    module = load(backend)
    offered = {m: run for (kind, m), run in module.RUNNERS.items() if kind is problem_type}
    if problem_type is EvidenceProblem:
        on_qubo = {m: through_qubo(run) for (kind, m), run in module.RUNNERS.items() if kind is Qubo and m != "exact"}
        offered = {**on_qubo, **offered}
    run = offered.get(method)
    if run is None:
        offers = sorted(offered)
        raise BackendError(f"backend {backend!r} has no method {method!r}, it offers {', '.join(offers) or 'none'}")
    if not is_foreign(backend) and not (state := module.availability()).available:
        raise BackendError(f"backend {backend!r} is not available: {state.reason}")
    return Plan(method, chosen_by, backend, entry.complete({}), run)


def resolve(
    problem_type: type, size: int, method: str, backend: str, options: Mapping[str, Any], batch: int = 1
) -> Plan:
    """The plan for a problem type and size, a method (or "auto"), a back end (or "auto") and the given options.

    "auto" stays on the CPU, unless a `device` is named, or so large a `batch` pays on one.
    """
    if not options and batch == 1 and (bare := _resolve_bare(problem_type, size, method, backend)) is not None:
        return bare
    if backend == "auto":
        backend = _AUTO_BACKEND if options.get("device") is None else "cuda"
        if batch > 1 and backend == _AUTO_BACKEND:
            plan = resolve(problem_type, size, method, backend, options)
            if device_pays(problem_type, plan.method, size, batch) and load("cuda").availability().available:
                on_device = resolve(problem_type, size, plan.method, "cuda", options)
                return replace(on_device, chosen_by=plan.chosen_by)
            return plan
    return _resolve(problem_type, size, method, backend, options)


@lru_cache(maxsize=1024)
def _resolve_bare(problem_type: type, size: int, method: str, backend: str) -> Plan | None:
    # What our own back ends offer never changes, and working it out takes as long as packing a dozen passages. Whether
    # one of others is available may: None.
    name = _AUTO_BACKEND if backend == "auto" else backend
    return None if is_foreign(name) else _resolve(problem_type, size, method, name, {})


def _resolve(problem_type: type, size: int, method: str, name: str, options: Mapping[str, Any]) -> Plan:
    chosen_by = "caller"
    if method == "auto":
        implies = getattr(load(name), "IMPLIES", {})
        implied = implies.get(Qubo if problem_type is EvidenceProblem else problem_type)
        if implied is not None:
            method, chosen_by = implied, "backend"
        elif problem_type in _AUTO_METHOD:
            offered = {m for kind, m in load(name).RUNNERS if kind is problem_type}
            method, chosen_by = _AUTO_METHOD[problem_type](size, options, offered), "auto"
    plan = _plan(problem_type, method, name, chosen_by)
    _check_foreign(name, method, options)
    for option in getattr(load(name), "REFUSES", ()):
        if (value := options.get(option)) not in (None, "auto") and value is not False:
            raise BackendError(f"backend {name!r} cannot honour option {option!r} of method {method!r}")
    if options:
        complete = methods.find(problem_type, method).complete(options)
        plan = Plan(plan.method, plan.chosen_by, plan.backend, complete, plan.run)
    return plan


def _check_foreign(name: str, method: str, options: Mapping[str, Any]) -> None:
    """Refuses a back end of others that cannot run here, or that cannot keep an option."""
    if not is_foreign(name):
        return
    backend = load(name)
    honours = backend.honours
    # A sampler that the caller made needs no solver of ours, so no token either.
    if options.get("sampler") is None and not (state := backend.availability()).available:
        raise BackendError(f"backend {name!r} is not available: {state.reason}")
    known = {option.name for option in methods.find(Qubo, method).options}
    for option, value in options.items():
        if value is not None and option in known and option not in honours:
            kept = ", ".join(sorted(honours & known))
            raise BackendError(
                f"backend {name!r} cannot honour option {option!r} of method {method!r}; it takes {kept}"
            )


def run_many(
    problems: Sequence[Any], method: str, backend: str, requests: Sequence[Request], options: Mapping[str, Any]
) -> Results:
    """One plan over many problems: natively where the back end has a batch for it, else one by one."""
    kinds = [(type(problem), len(problem)) for problem in problems]
    plans = {kind: resolve(*kind, method, backend, options, len(problems)) for kind in dict.fromkeys(kinds)}
    plan_of: dict[tuple[type, str], Plan] = {}
    for (problem_type, _), plan in plans.items():
        plan_of.setdefault((problem_type, plan.method), plan)
    results: dict[int, Result] = {}
    begin = time.monotonic()

    def shared(members: Sequence[int]) -> list[Request]:
        """Their requests with their share of the time that is left: a search that ends by the clock would take all."""
        share = len(members) / (len(problems) - len(results))
        spent = time.monotonic() - begin
        return [requests[i]._replace(time_limit=max(0.0, requests[i].time_limit - spent) * share) for i in members]

    for key, plan in plan_of.items():
        batch = getattr(load(plan.backend), "BATCH_RUNNERS", {}).get(key)
        if batch is not None and len(plan_of) == 1:
            answers = batch(problems, plan, requests)
            return answers if isinstance(answers, Results) else Results(answers)
        members = [i for i, kind in enumerate(kinds) if (kind[0], plans[kind].method) == key]
        if batch is None:
            for i in members:
                results[i] = plan.run(problems[i], plan, *shared([i]))
        else:
            answers = batch([problems[i] for i in members], plan, shared(members))
            results.update(zip(members, answers, strict=True))
    return Results([results[i] for i in range(len(problems))])
