"""D-Wave's samplers as back ends: simulated annealing, tabu, quantum processors, and the hybrid service.

`neal` looks at the time limit between two reads, `dwave-tabu` gives each read its share of it.

`dwave` is tested with the mock sampler of dwave-system and `leap` with a stand-in: neither was run on the service.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from isinglass.backends import BackendError
from isinglass.backends.foreign import Call, Drawn, Foreign, columns_of, spin_model
from isinglass.backends.native_qubo import schedule_of
from isinglass.problems.qubo import Qubo


def _neal(problem: Qubo, call: Call) -> Drawn:
    from dwave.samplers import SimulatedAnnealingSampler

    schedule = schedule_of(call.options)
    if schedule.betas is not None:
        if not np.isfinite(schedule.betas).all():
            raise ValueError("beta_schedule must be finite for backend 'neal'")
        temperatures: dict[str, Any] = {"beta_schedule_type": "custom", "beta_schedule": schedule.betas}
    else:
        spacing = "linear" if schedule.linear else "geometric"
        temperatures = {"beta_schedule_type": spacing, "beta_range": schedule.beta_range}
    sampleset = SimulatedAnnealingSampler().sample(
        spin_model(problem),
        num_reads=call.num_reads,
        num_sweeps=schedule.num_sweeps,
        num_sweeps_per_beta=1,  # its own default rounds the sweeps asked for
        seed=call.seed,
        initial_states=_initial(call, len(problem)),
        interrupt_function=call.late if np.isfinite(call.time_limit) else None,
        **temperatures,
    )
    samples = columns_of(sampleset, len(problem))
    ends = sampleset.info.get("beta_range")
    settings = {
        "num_reads": call.num_reads,
        "num_sweeps": schedule.num_sweeps,
        "beta_range": None if ends is None else tuple(map(float, ends)),
    }
    return Drawn(samples, settings, late=len(samples) < call.num_reads)


# What its sampler does unasked: most of the milliseconds that one read may take.
_TABU_TIMEOUT = 20


def _tabu(problem: Qubo, call: Call) -> Drawn:
    from dwave.samplers import TabuSampler

    timeout = _TABU_TIMEOUT
    if np.isfinite(call.time_limit):
        timeout = max(1, int(1000 * call.time_limit / call.num_reads))
    target = call.options["target_energy"]
    _, _, _, _, offset = problem.spin_terms()
    sampleset = TabuSampler().sample(
        spin_model(problem),
        num_reads=call.num_reads,
        seed=call.seed,
        timeout=timeout,
        tenure=call.options["tenure"],
        energy_threshold=None if target is None else target - offset,
        initial_states=_initial(call, len(problem)),
    )
    # Each read ends by this clock, so its own seed does not give the same bits again.
    return Drawn(columns_of(sampleset, len(problem)), {"num_reads": call.num_reads, "timeout_ms": timeout})


def _initial(call: Call, n: int) -> Any:
    return None if call.states is None else (call.states, list(range(n)))


# --- services --------------------------------------------------------------------------------------------------------


def _no_token() -> str | None:
    if os.environ.get("DWAVE_API_TOKEN"):
        return None
    from dwave.cloud.config import get_configfile_paths

    if any(Path(path).is_file() for path in get_configfile_paths()):
        return None
    return "no token: set DWAVE_API_TOKEN, or write a configuration file with `dwave config create`"


def _open(kind: str, name: str, solver: str | None) -> Any:
    """The sampler of a service, or what to set."""
    import dwave.system
    from dwave.cloud.exceptions import SolverError

    try:
        return getattr(dwave.system, kind)(**({} if solver is None else {"solver": solver}))
    except (ValueError, SolverError) as error:
        raise BackendError(
            f"backend {name!r} cannot open {'a solver' if solver is None else f'solver {solver!r}'}: {error} "
            "(variables DWAVE_API_TOKEN, DWAVE_API_SOLVER, DWAVE_API_REGION)"
        ) from error


def _given_sampler(call: Call, kind: str, name: str) -> Any:
    given, solver = call.options["sampler"], call.options["solver"]
    if given is None:
        return _open(kind, name, solver)
    if solver is not None:
        raise ValueError("give sampler or solver, not both")
    if not callable(getattr(given, "sample", None)) or not hasattr(given, "properties"):
        raise ValueError(f"sampler must be a dimod sampler with sample and properties, got {type(given).__name__}")
    return given


def _within(name: str, value: float, sampler: Any, key: str) -> None:
    low, high = sampler.properties.get(key, (-np.inf, np.inf))
    if not low <= value <= high:
        raise ValueError(f"{name} must be in [{low}, {high}] for this solver, got {value}")


def device_scale(problem: Qubo, chain_strength: float, properties: Any) -> float:
    """The largest factor at which fields, couplings and chains are within what a quantum processor can set."""
    h, _, _, w, _ = problem.spin_terms()
    chain_range = properties.get("extended_j_range", properties.get("j_range", (-1.0, 1.0)))
    fields, couplings = properties.get("h_range", (-4.0, 4.0)), properties.get("j_range", (-1.0, 1.0))
    limits = [
        (np.abs(h).max(initial=0.0), min(-fields[0], fields[1])),
        (np.abs(w).max(initial=0.0), min(-couplings[0], couplings[1])),
        (chain_strength, -chain_range[0]),
    ]
    return min((float(most / used) for used, most in limits if used > 0), default=1.0)


def _quantum(problem: Qubo, call: Call) -> Drawn:
    from dwave.embedding.chain_strength import uniform_torque_compensation
    from dwave.system import EmbeddingComposite, FixedEmbeddingComposite

    options = call.options
    device = _given_sampler(call, "DWaveSampler", "dwave")
    _within("num_reads", call.num_reads, device, "num_reads_range")
    strength = options["chain_strength"]
    if strength is None:
        strength = float(uniform_torque_compensation(spin_model(problem)))
    scale = device_scale(problem, strength, device.properties)
    parameters: dict[str, Any] = {"num_reads": call.num_reads, "answer_mode": "raw", "auto_scale": False}
    if options["annealing_time"] is not None:
        _within("annealing_time", options["annealing_time"], device, "annealing_time_range")
        parameters["annealing_time"] = options["annealing_time"]
    parameters = {key: value for key, value in parameters.items() if key in device.parameters}
    if options["embedding"] is None:
        embedded: Any = EmbeddingComposite(device)
        parameters["return_embedding"] = True
    else:
        embedded = FixedEmbeddingComposite(device, options["embedding"])
    try:
        sampleset = embedded.sample(spin_model(problem, scale), chain_strength=strength * scale, **parameters)
    except ValueError as error:
        if "no embedding found" not in str(error):
            raise
        raise BackendError(
            f"backend 'dwave' found no embedding of {len(problem)} variables and {problem.num_interactions} couplings "
            f"in the {len(device.nodelist)} qubits of this solver"
        ) from error
    context = sampleset.info.get("embedding_context", {})
    return Drawn(
        columns_of(sampleset, len(problem)),
        {
            "num_reads": call.num_reads,
            "solver": device.properties.get("chip_id"),
            "chain_strength": strength,
            "embedding": options["embedding"] or context.get("embedding"),
            "chain_break_fraction": getattr(sampleset.record, "chain_break_fraction", None),
            # Scaled into the device's range, on an analog machine: nothing of the rounding is certified.
            "quantisation": {"scale": scale, "certificate": "uncertified", "max_error": None, "eps": None},
            "timing": dict(sampleset.info.get("timing", {})),
        },
    )


def _hybrid(problem: Qubo, call: Call) -> Drawn:
    service = _given_sampler(call, "LeapHybridSampler", "leap")
    model = spin_model(problem)
    limit = None
    if np.isfinite(call.time_limit):
        least = float(service.min_time_limit(model))
        if call.time_limit < least:
            raise ValueError(f"time_limit must be >= {least:g} s for this model on the service, got {call.time_limit}")
        limit = call.time_limit
    sampleset = service.sample(model, time_limit=limit)
    return Drawn(
        columns_of(sampleset, len(problem)),
        {"solver": service.properties.get("category"), "timing": dict(sampleset.info)},
    )


_READS = frozenset({"num_reads", "initial_states", "num_solutions", "seed", "time_limit"})
_SERVICE = frozenset({"num_solutions", "solver", "sampler"})

NEAL = Foreign(
    name="neal",
    method="anneal",
    package="dwave-samplers",
    extra="ocean",
    device="cpu",
    honours=_READS | {"num_sweeps", "beta_range", "beta_schedule"},
    draw=_neal,
    most_seed=2**31 - 1,
)
TABU = Foreign(
    name="dwave-tabu",
    method="tabu",
    package="dwave-samplers",
    extra="ocean",
    device="cpu",
    honours=_READS | {"target_energy", "tenure"},
    draw=_tabu,
)
QPU = Foreign(
    name="dwave",
    method="quantum_anneal",
    package="dwave-system",
    extra="ocean",
    device="quantum processor",
    honours=_SERVICE | {"num_reads", "chain_strength", "annealing_time", "embedding"},
    draw=_quantum,
    unready=_no_token,
)
LEAP = Foreign(
    name="leap",
    method="hybrid",
    package="dwave-system",
    extra="ocean",
    device="hybrid service",
    honours=_SERVICE | {"time_limit"},
    draw=_hybrid,
    unready=_no_token,
)
