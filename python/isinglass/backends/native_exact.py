"""Branch and bound of the native back end: options to plain arrays, one native call, a proof as a Result."""

from __future__ import annotations

from typing import Any

import numpy as np

from isinglass import _core
from isinglass.backends import Plan, Request
from isinglass.backends.native_qubo import Image, image_of, start_states
from isinglass.problems.packing import physical_memory
from isinglass.problems.qubo import Qubo
from isinglass.result import Certificate, Result, Status, energy_gap
from isinglass.version import __version__


def prove(
    problem: Qubo,
    *,
    num_solutions: int = 1,
    node_limit: int | None = None,
    seed: int = 0,
    initial_states: Any = None,
    request: Request,
) -> tuple[_core.Proof, Image]:
    """Branch and bound on the finest integer image of a model."""
    image = image_of(problem, "auto")
    states = None
    if initial_states is not None:
        single = isinstance(initial_states, Result) or np.ndim(initial_states) == 1
        states, _ = start_states(problem, initial_states, 1 if single else None)
    proof = _core.exact(
        image.core,
        num_solutions,
        node_limit,
        seed,
        states,
        physical_memory() if request.memory_limit is None else request.memory_limit,
        request.time_limit,
        request.progress,
    )
    return proof, image


def certificate_of(value: float, proof: _core.Proof) -> Certificate:
    """What a proof says of a state with this energy."""
    # A bound is a float64 sum beside another one: what it is above the energy of a state is rounding.
    bound = min(proof.lower_bound, value)
    method = "exact" if proof.proved else "roof_dual"
    return Certificate(value, True, bound, energy_gap(value, bound), method)


def _exact(problem: Qubo, plan: Plan, request: Request) -> Result:
    options = plan.options
    seed = request.seed or 0
    proof, image = prove(
        problem,
        num_solutions=options["num_solutions"],
        node_limit=options["node_limit"],
        seed=seed,
        initial_states=options["initial_states"],
        request=request,
    )
    samples, energies = proof.samples, proof.energies
    selection = np.flatnonzero(samples[0])
    selection.setflags(write=False)
    status: Status = "optimal" if proof.proved else "time_limit" if proof.stopped == "time_limit" else "bounded"
    return Result(
        selection=selection,
        energy=float(energies[0]),
        sample=samples[0],
        samples=samples,
        energies=energies,
        certificate=certificate_of(float(energies[0]), proof),
        timings={"start": proof.start_seconds, "search": proof.search_seconds},
        status=status,
        provenance={
            "method": plan.method,
            "chosen_by": plan.chosen_by,
            "backend": plan.backend,
            "device": "cpu",
            "instruction_set": _core.isa(),
            "version": __version__,
            "quantisation": image.describe(),
            "seed": seed,
            "nodes": proof.nodes,
            "reduced_variables": proof.reduced,
            "root_bound": proof.root_bound,
            "options": {k: v for k, v in options.items() if v is not None and k != "initial_states"},
        },
    )


RUNNERS: dict[tuple[type, str], Any] = {(Qubo, "exact"): _exact}
