"""A dimod sampler: Ocean programs change one import.

from isinglass.adapters.dimod import IsinglassSampler as SimulatedAnnealingSampler
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

try:
    import dimod
except ImportError as error:
    raise ImportError("isinglass.adapters.dimod needs dimod: pip install 'isinglass[ocean]'") from error

from isinglass import backends, methods
from isinglass.problems.qubo import Qubo
from isinglass.result import Result
from isinglass.solving import solve
from isinglass.version import __version__

_OF_SOLVE = ("method", "backend", "seed", "time_limit", "threads", "memory_limit", "progress")


class IsinglassSampler(dimod.Sampler):  # type: ignore[misc]
    """Samples binary quadratic models with `isinglass.solve`.

    Attributes
    ----------
    parameters : dict
        Keywords of `sample`: those of `solve`, and the options of its methods for a `Qubo`.
    properties : dict
        `methods` (name to what it is), `backends` (names), `version`.

    Examples
    --------
    >>> IsinglassSampler().sample_qubo({("a", "a"): -1, ("a", "b"): 2}, num_reads=4, seed=1).first.sample
    {'a': 1, 'b': 0}
    """

    @property
    def parameters(self) -> dict[str, list[str]]:
        names = {option.name for method in _offered().values() for option in method.options}
        return {name: [] for name in (*_OF_SOLVE, *sorted(names))}

    @property
    def properties(self) -> dict[str, Any]:
        return {
            "methods": {name: method.summary for name, method in _offered().items()},
            "backends": list(backends.names()),
            "version": __version__,
        }

    def sample(self, bqm: dimod.BinaryQuadraticModel, **parameters: Any) -> dimod.SampleSet:
        """Samples of a model, in read order.

        Parameters
        ----------
        bqm : dimod.BinaryQuadraticModel
            Of binary variables or spins.
        **parameters
            See `parameters`. `method` is "anneal" unless given, which takes what D-Wave's annealing sampler takes
            ("memetic" is stronger); with a back end of others it is that one's own. `initial_states` may be
            whatever dimod takes for samples, in the values of the model.

        Returns
        -------
        dimod.SampleSet
            Of the model's own variables, order and vartype, with its energies. `info["isinglass"]` holds `status`,
            `certificate`, `timings` and `provenance`.

        Raises
        ------
        TypeError
            For an unknown keyword, with the nearest known one: none is ignored.
        """
        problem = Qubo.from_bqm(bqm)
        if parameters.get("method") is None:
            own = parameters.get("backend") in (None, "auto", "cpu", "cuda", "numpy")
            parameters["method"] = "anneal" if own else "auto"
        if parameters.get("initial_states") is not None:
            parameters["initial_states"] = _states(bqm, parameters["initial_states"])
        result = solve(problem, **parameters)
        assert result.samples is not None
        spins = bqm.vartype is dimod.SPIN
        values = 2 * result.samples - 1 if spins else np.array(result.samples)
        samples = (values, list(bqm.variables))
        return dimod.SampleSet.from_samples(
            samples,
            vartype=bqm.vartype,
            energy=bqm.energies(samples),
            info={"isinglass": _record(result)},
            sort_labels=False,
        )


def _offered() -> dict[str, methods.Method]:
    return {name: method for (kind, name), method in methods.METHODS.items() if kind is Qubo}


def _states(bqm: dimod.BinaryQuadraticModel, given: Any) -> Any:
    """Start states as 0 and 1, by the columns of the model."""
    if isinstance(given, Result):
        return given
    vartype = given.vartype if isinstance(given, dimod.SampleSet) else bqm.vartype
    values, labels = dimod.as_samples(given)
    position = {label: k for k, label in enumerate(labels)}
    if missing := [label for label in bqm.variables if label not in position]:
        raise ValueError(f"initial_states must have every variable of the model, got none for {missing[0]!r}")
    columns = values[:, [position[label] for label in bqm.variables]]
    low = -1 if vartype is dimod.SPIN else 0
    if (bad := np.argwhere((columns != low) & (columns != 1))).size:
        row, column = bad[0]
        raise ValueError(
            f"initial_states must be {low} or 1 for a {vartype.name} model, "
            f"got {columns[row, column]} for {bqm.variables[column]!r}"
        )
    states = (columns == 1).astype(np.uint8)
    return states[0] if len(states) == 1 else states


def _record(result: Result) -> dict[str, Any]:
    return {
        "status": result.status,
        "certificate": asdict(result.certificate),
        "timings": dict(result.timings),
        "provenance": dict(result.provenance),
    }
