"""Evidence problems on any back end that searches QUBOs: encode, search, decode."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from isinglass.problems.evidence import EvidenceProblem
from isinglass.result import Certificate, Result

if TYPE_CHECKING:
    from isinglass.backends import Plan, Request


def through_qubo(search: Callable[[Any, Plan, Request], Result]) -> Callable[[EvidenceProblem, Plan, Request], Result]:
    """The runner for evidence problems that a runner for QUBOs makes possible."""

    def run(problem: EvidenceProblem, plan: Plan, request: Request) -> Result:
        begin = time.perf_counter()
        encoded = problem.to_qubo()
        ready = time.perf_counter()
        found = search(encoded.qubo, plan, request)
        searched = time.perf_counter()
        decoded = encoded.decode(found)
        return Result(
            selection=decoded.selection,
            objective=decoded.objective,
            energy=found.energy,
            cost=problem.cost(decoded.selection),
            sample=found.sample,
            samples=found.samples,
            energies=found.energies,
            device_samples=found.device_samples,
            decoded=decoded,
            trace=found.trace,
            # Proved of the matrix is not proved of the problem, unless penalties are: the bound stays with the energy.
            certificate=Certificate(decoded.objective, True, None, None, None),
            status="feasible" if found.status == "optimal" else found.status,
            timings={
                "encode": ready - begin,
                **found.timings,
                "decode": time.perf_counter() - searched,
            },
            provenance={**found.provenance, "penalties": asdict(encoded.penalties)},
        )

    return run
