"""What all back ends of others share: refusals by name, seeds, start states, and energies that we recompute.

A foreign sampler gets the model over its own column numbers, as spins and without the offset: labels, their order,
constants and variables without a term never leave this house. Its samples come back in read order.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import metadata
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from isinglass import _core
from isinglass.backends import Availability, BackendError, Plan, Request
from isinglass.backends.native_qubo import best_distinct, start_states
from isinglass.problems.evidence import EvidenceProblem
from isinglass.problems.qubo import Qubo
from isinglass.result import Certificate, Result, read_only
from isinglass.version import __version__

Samples = NDArray[np.int8]


class Call(NamedTuple):
    """What one sampling call is asked for."""

    num_reads: int
    states: NDArray[np.int8] | None  # of -1 and 1, (num_reads, n)
    seed: int | None  # as the peer takes it
    time_limit: float  # seconds
    deadline: float  # on the clock of time.perf_counter
    options: Mapping[str, Any]

    def late(self) -> bool:
        return time.perf_counter() >= self.deadline


class Drawn(NamedTuple):
    """What a foreign sampler returned."""

    samples: Samples  # of 0 and 1, (reads, n), by our columns
    settings: Mapping[str, Any]  # for provenance
    late: bool = False


@dataclass(frozen=True)
class Foreign:
    """A back end of others.

    `honours` names the options of the method, and of `seed` and `time_limit`, that it can keep; `most_seed` is the
    largest seed that it takes.
    """

    name: str
    method: str
    package: str
    extra: str
    device: str
    honours: frozenset[str]
    draw: Callable[[Qubo, Call], Drawn]
    most_seed: int = 2**32 - 1
    unready: Callable[[], str | None] = lambda: None

    def availability(self) -> Availability:
        """Without importing the peer, which may take seconds."""
        try:
            version = metadata.version(self.package)
        except metadata.PackageNotFoundError:
            return Availability(False, f"{self.package} is missing: pip install 'isinglass[{self.extra}]'", None)
        reason = self.unready()
        return Availability(reason is None, reason, f"{self.device}, {self.package} {version}" if not reason else None)

    @property
    def IMPLIES(self) -> dict[type, str]:  # noqa: N802 (the contract of back ends, see isinglass.backends)
        return {Qubo: self.method, EvidenceProblem: self.method}

    @cached_property
    def RUNNERS(self) -> dict[tuple[type, str], Any]:  # noqa: N802
        return {(Qubo, self.method): self.run}

    def __hash__(self) -> int:
        return hash(self.name)

    def run(self, problem: Qubo, plan: Plan, request: Request) -> Result:
        self._refuse(request)
        options, begin = plan.options, time.perf_counter()
        states, num_reads = start_states(problem, options.get("initial_states"), options.get("num_reads"))
        seed = None
        settings: dict[str, Any] = {"seed": None}
        if "seed" in self.honours:
            seed = request.drawn_seed()
            settings = {"seed": seed, "backend_seed": folded(seed, self.most_seed)}
            seed = settings["backend_seed"]
        spins = None if states is None else (2 * states.astype(np.int8) - 1)
        call = Call(num_reads, spins, seed, request.time_limit, begin + request.time_limit, options)
        # Some peers lose the reads of a model without variables, some fail: there is nothing to ask them.
        drawn = self.draw(problem, call) if len(problem) else Drawn(np.zeros((num_reads, 0), np.int8), {})
        settings = {
            "backend": self.name,
            "device": self.device,
            **settings,
            **drawn.settings,
            "options": {
                name: options[name]
                for name in sorted(self.honours & set(options))
                if options[name] is not None and name not in ("initial_states", "sampler")
            },
        }
        return _result(problem, plan, drawn, settings, time.perf_counter() - begin)

    def _refuse(self, request: Request) -> None:
        asked = {
            "seed": request.seed is not None,
            "time_limit": np.isfinite(request.time_limit),
            "memory_limit": request.memory_limit is not None,
            "progress": request.progress is not None,
        }
        for name, given in asked.items():
            if given and name not in self.honours:
                raise BackendError(f"backend {self.name!r} cannot honour {name}")


def folded(seed: int, most: int) -> int:
    """A 64-bit seed as one that a peer takes: itself where it fits, else 32 bits of its hash."""
    return seed if seed <= most else _core.random_bits(seed, 0, 0, 0) & most


def spin_model(problem: Qubo, scale: float = 1.0) -> Any:
    """The model times `scale` as a dimod model over spins 0 .. n-1, without its constant."""
    import dimod

    h, i, j, w, _ = problem.spin_terms()
    variables = list(range(len(problem)))
    return dimod.BinaryQuadraticModel.from_numpy_vectors(
        h * scale, (i, j, w * scale), 0.0, "SPIN", variable_order=variables
    )


def columns_of(sampleset: Any, n: int) -> Samples:
    """Rows of a sample set as 0 and 1 by column 0 .. n-1, each as often as it occurred."""
    position = {label: k for k, label in enumerate(sampleset.variables)}
    rows = np.asarray(sampleset.record.sample)[:, [position[k] for k in range(n)]]
    occurrences = getattr(sampleset.record, "num_occurrences", None)
    if occurrences is not None:
        rows = np.repeat(rows, occurrences, axis=0)
    return (rows > 0).astype(np.int8)


def _result(problem: Qubo, plan: Plan, drawn: Drawn, settings: Mapping[str, Any], seconds: float) -> Result:
    samples, energies = read_only(np.ascontiguousarray(drawn.samples)), read_only(problem.energies(drawn.samples))
    if len(samples) == 0:
        raise BackendError(f"backend {plan.backend!r} returned no sample")
    if plan.options["num_solutions"] is not None:
        samples, energies = best_distinct(samples, energies, plan.options["num_solutions"])
    best = int(np.argmin(energies))
    return Result(
        energy=float(energies[best]),
        sample=samples[best],
        samples=samples,
        energies=energies,
        selection=read_only(np.flatnonzero(samples[best])),
        status="optimal" if len(problem) == 0 else "time_limit" if drawn.late else "feasible",
        certificate=Certificate(float(energies[best]), True, None, None, None),
        timings={"search": seconds},
        provenance={
            "method": plan.method,
            "chosen_by": plan.chosen_by,
            "instruction_set": None,
            "version": __version__,
            **settings,
        },
    )
