"""OpenJij's simulated annealing, over dense couplings."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from isinglass import _core
from isinglass.backends.foreign import Call, Drawn, Foreign, columns_of, spin_model
from isinglass.backends.native_qubo import schedule_of
from isinglass.problems.qubo import Qubo

_MOST_SEED = 2**31 - 1


def _draw(problem: Qubo, call: Call) -> Drawn:
    from openjij import SASampler

    schedule = schedule_of(call.options)
    # It takes coefficients below about 1e-7 for nothing: a power of two brings the largest near 1, and rounds nothing.
    h, _, _, w, _ = problem.spin_terms()
    largest = max(np.abs(h).max(initial=0.0), np.abs(w).max(initial=0.0))
    scale = 2.0 ** -math.frexp(largest)[1] if largest > 0 else 1.0
    model = spin_model(problem, scale)
    temperatures: dict[str, Any] = {}
    if schedule.betas is not None:
        if not np.isfinite(schedule.betas).all():
            raise ValueError("beta_schedule must be finite for backend 'openjij'")
        temperatures["schedule"] = [[beta / scale, 1] for beta in schedule.betas.tolist()]
    else:
        temperatures["num_sweeps"] = schedule.num_sweeps
        if schedule.beta_range is not None:
            temperatures["beta_min"], temperatures["beta_max"] = (beta / scale for beta in schedule.beta_range)
    rows = []
    assert call.seed is not None
    for read in range(call.num_reads):
        # Read by read: under one seed all the reads of a call end in the same state.
        seed = call.seed if read == 0 else _core.random_bits(call.seed, read, 0, 0) & _MOST_SEED
        start = None if call.states is None else {k: int(s) for k, s in enumerate(call.states[read].tolist())}
        response = SASampler().sample(
            model, num_reads=1, seed=seed, initial_state=start, sparse=False, reinitialize_state=True, **temperatures
        )
        rows.append(columns_of(response, len(problem)))
        if read + 1 < call.num_reads and call.late():
            break
    samples = np.concatenate(rows)
    settings = {"num_reads": call.num_reads, "num_sweeps": schedule.num_sweeps, "model_scale": scale}
    return Drawn(samples, settings, late=len(samples) < call.num_reads)


OPENJIJ = Foreign(
    name="openjij",
    method="anneal",
    package="openjij",
    extra="openjij",
    device="cpu",
    honours=frozenset(
        {"num_reads", "num_sweeps", "beta_range", "beta_schedule", "initial_states", "num_solutions"}
        | {"seed", "time_limit"}
    ),
    draw=_draw,
    most_seed=_MOST_SEED,
)
