"""The one table of methods: which problem each solves and which options it takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isinglass.problems import gate
from isinglass.problems.evidence import EvidenceProblem
from isinglass.problems.packing import PackingProblem
from isinglass.problems.qubo import Qubo


@dataclass(frozen=True)
class Option:
    """One option of a method: `check(name, value)` returns the value in its plain form or raises ValueError."""

    name: str
    default: Any
    check: Callable[[str, Any], Any]
    doc: str


@dataclass(frozen=True)
class Method:
    """A way to solve problems of one type; `summary` says what it is and what it promises."""

    name: str
    problem: type
    summary: str
    options: tuple[Option, ...] = ()

    def complete(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The options with defaults filled in.

        Raises
        ------
        TypeError
            For a keyword that the method does not take, with the nearest one that it does.
        ValueError
            For a value out of range.
        """
        complete = {option.name: option.default for option in self.options}
        for name, value in given.items():
            if name not in complete:
                raise TypeError(unknown_keyword(name, complete, f"method {self.name!r}"))
            if value is not None:
                complete[name] = next(option for option in self.options if option.name == name).check(name, value)
        return complete


def unknown_keyword(name: str, known: Any, where: str) -> str:
    """The message for a misspelt keyword or name."""
    near = get_close_matches(name, list(known), n=1)
    hint = f"; did you mean {near[0]!r}?" if near else f"; it takes {', '.join(sorted(known)) or 'no options'}"
    return f"{where} has no option {name!r}{hint}"


def count(low: int, high: int | None = None) -> Callable[[str, Any], int]:
    """Checks an integer in [low, high]."""
    return lambda name, value: gate.integer(name, value, low=low, high=high)


def at_least(low: float) -> Callable[[str, Any], float]:
    """Checks a finite number that is at least `low`."""
    return lambda name, value: gate.number(name, value, low=low)


def fraction(name: str, value: Any) -> float:
    """Checks a number in (0, 1)."""
    share = gate.number(name, value, above=0)
    if share >= 1:
        raise ValueError(f"{name} must be in (0, 1), got {value!r}")
    return share


def above(low: float) -> Callable[[str, Any], float]:
    """Checks a finite number that is greater than `low`."""
    return lambda name, value: gate.number(name, value, above=low)


def text(name: str, value: Any) -> str:
    """Checks a text."""
    if not isinstance(value, str):
        raise ValueError(f"{name} must be a text, got {value!r}")
    return value


def choice(*allowed: Any) -> Callable[[str, Any], Any]:
    """Checks one of a few values."""

    def check(name: str, value: Any) -> Any:
        if isinstance(value, bool) or value not in allowed:
            raise ValueError(f"{name} must be one of {', '.join(map(repr, allowed))}, got {value!r}")
        return value

    return check


def flag(name: str, value: Any) -> bool:
    """Checks True or False."""
    if not isinstance(value, (bool, np.bool_)):
        raise ValueError(f"{name} must be True or False, got {value!r}")
    return bool(value)


def _beta(name: str, value: Any) -> float:
    if isinstance(value, (float, np.floating)) and value == np.inf:
        return float(value)
    return gate.number(name, value, low=0)


def beta_range(name: str, value: Any) -> tuple[float, float]:
    """Checks (first, last) inverse temperatures, 0 <= first <= last."""
    if isinstance(value, str) or not hasattr(value, "__len__") or len(value) != 2:
        raise ValueError(f"{name} must be a pair (first, last), got {value!r}")
    first, last = (_beta(f"{name}[{k}]", end) for k, end in enumerate(value))
    if first > last:
        raise ValueError(f"{name} must ascend (from hot to cold), got {value!r}")
    return first, last


def beta_schedule(name: str, value: Any) -> str | NDArray[np.float64]:
    """Checks the name of a spacing, or one inverse temperature for each sweep."""
    if isinstance(value, str):
        return str(choice("geometric", "linear")(name, value))
    array = gate.numeric_array(name, value, ndim=1)
    with np.errstate(invalid="ignore"):
        gate.refuse(name, ~(array >= 0), array, ">= 0")
    betas = np.array(array, dtype=np.float64)
    betas.setflags(write=False)
    return betas


def given(name: str, value: Any) -> Any:
    """Passes a value on: it is checked against the problem by the back end."""
    return value


METHODS: dict[tuple[type, str], Method] = {}


def register(method: Method) -> None:
    """Adds a line to the table."""
    METHODS[method.problem, method.name] = method


def find(problem_type: type, name: str) -> Method:
    """The method of that name for that type of problem."""
    try:
        return METHODS[problem_type, name]
    except KeyError:
        known = [method for kind, method in METHODS if kind is problem_type]
        if not known:
            raise TypeError(
                f"problem must be a PackingProblem, an EvidenceProblem or a Qubo, got {problem_type.__name__}"
            ) from None
        near = get_close_matches(str(name), known, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"expected one of {', '.join(sorted(known))}"
        raise ValueError(f"{problem_type.__name__} has no method {name!r}: {hint}") from None


_DEVICE = Option(
    "device",
    None,
    count(0),
    "CUDA device by its number, for the back end cuda alone; None: where its arrays lie, or the first",
)
_KEEP = Option("keep_on_device", False, flag, "leave the reads of a large model on the device too: device_samples")
_EFFORT = Option(
    "effort", "normal", choice("normal", "high"), "'high': also one run from each first item (.6174), then exchanges"
)
register(
    Method(
        "greedy_plus_max",
        PackingProblem,
        "greedy prefix and the best single item beside it, filled up; 1/2",
        (_EFFORT, _DEVICE),
    )
)
register(
    Method(
        "lazy_greedy",
        PackingProblem,
        "gain per cost, then the best single item if that alone is better; .405",
        (_EFFORT, _DEVICE),
    )
)
register(
    Method(
        "exact",
        PackingProblem,
        "branch and bound, proves the optimum (back end numpy: enumeration, up to 20 items)",
        (Option("node_limit", None, count(0), "nodes after which the best so far is returned; None: 1,000,000"),),
    )
)
register(
    Method(
        "stochastic_greedy",
        PackingProblem,
        "best gain per cost of a random sample, by seed; for large pools; no worst-case factor under a budget",
        (Option("epsilon", 0.1, fraction, "samples hold n/k ln(1/epsilon) items, for k picks of mean cost"),),
    )
)
register(
    Method(
        "sharded",
        PackingProblem,
        "Greedy+Max on random shards, by seed, then on what they picked; for millions; no worst-case factor is claimed",
        (Option("shards", None, count(1, 2**20), "parts of the pool; None: as many as hold 32,768 items each"),),
    )
)

_MOST_READS = 2**31 - 1
_MOST_SWEEPS = 2**32 - 1  # a sweep is 32 bits of the counter that random numbers are hashed from
_QUBO_OPTIONS = (
    Option(
        "num_reads",
        None,
        count(1, _MOST_READS),
        "reads; None: 32 (temper: 4), or the rows of initial_states",
    ),
    Option("initial_states", None, given, "start states of 0 and 1, (n,) or (num_reads, n), or a Result; None: random"),
    Option("target_energy", None, lambda name, value: gate.number(name, value), "stop after 64 reads that reach it"),
    Option("num_solutions", None, count(1), "return the best distinct states, this many at most, by energy"),
    Option("bits", "auto", choice("auto", 8, 16, 32), "width of the integer coefficients, see isinglass.quantize"),
)
_LAYOUTS = ("lanes32", "lanes16", "rows32", "rows32_of16", "rows32_of8", "rows16", "rows16_of8", "sparse")
_LAYOUT = Option(
    "layout", "auto", choice("auto", *_LAYOUTS), "how reads are laid out in vectors; no answer depends on it"
)
register(
    Method(
        "anneal",
        Qubo,
        "simulated annealing; every read ends in a local minimum, unless beta_range=(b, b) holds the temperature",
        (
            *_QUBO_OPTIONS,
            Option(
                "num_sweeps", None, count(0, _MOST_SWEEPS), "sweeps of a read; None: 1000, or one for each beta given"
            ),
            Option("beta_range", None, beta_range, "first and last 1/T in the units of the energy; None: by a probe"),
            Option("beta_schedule", "geometric", beta_schedule, "'geometric', 'linear', or one 1/T for each sweep"),
            Option("trace", False, flag, "record the lowest energy of any read by sweep"),
            _LAYOUT,
            _DEVICE,
            _KEEP,
        ),
    )
)
register(
    Method(
        "temper",
        Qubo,
        "parallel tempering: a read is 16 replicas on a ladder of constant swap rate, two ladders of 8 below n = 150",
        (
            *_QUBO_OPTIONS,
            Option("num_sweeps", 1000, count(1, _MOST_SWEEPS), "sweeps of every replica"),
            Option("beta_range", None, beta_range, "ends of the ladder, 1/T in units of 1/energy; None: by a probe"),
            _LAYOUT,
            _DEVICE,
            _KEEP,
        ),
    )
)
register(
    Method(
        "descent",
        Qubo,
        "one-flip descent to a local minimum",
        (
            *_QUBO_OPTIONS,
            Option("rule", "steepest", choice("steepest", "first"), "flip what lowers most, or what lowers, in order"),
            _LAYOUT,
        ),
    )
)
register(
    Method(
        "exact",
        Qubo,
        "branch and bound with persistency and the roof dual bound: proves, or says how far it came; one thread",
        (
            Option("num_solutions", 1, count(1), "the best distinct states, this many at most, by energy"),
            Option("node_limit", None, count(0), "stop after so many subproblems, with the bound so far"),
            Option("initial_states", None, given, "states to beat, 0 and 1, (n,) or (r, n), or a Result"),
        ),
    )
)
_SEARCH_OPTIONS = {option.name: option for option in _QUBO_OPTIONS}
_TENURE = Option("tenure", None, count(0, 2**20), "moves for which a flipped variable is held, at least; None: by size")
_MOST_MOVES = 2**63 - 1
register(
    Method(
        "tabu",
        Qubo,
        "one-flip tabu search from random states; under time_limit alone every read starts again until it ends",
        (
            *_QUBO_OPTIONS,
            Option("patience", None, count(1, _MOST_MOVES), "moves without a better state; None: 50 n + 500"),
            Option("max_moves", None, count(0, _MOST_MOVES), "moves of a read; None: until patience is at its end"),
            _TENURE,
            Option("trace", False, flag, "record the lowest energy so far by generation of 64 reads"),
            _LAYOUT,
            _DEVICE,
            _KEEP,
        ),
    )
)
register(
    Method(
        "memetic",
        Qubo,
        "short anneals fill pools, whose members are crossed and improved by tabu search; under time_limit alone, "
        "pools of varying effort until it ends",
        (
            *(_SEARCH_OPTIONS[name] for name in ("initial_states", "target_energy", "bits")),
            Option("num_solutions", None, count(1, _MOST_READS), "best distinct states to return; None: pool_size"),
            Option("pool_size", 16, count(2, 2**16), "states of a pool"),
            Option("generations", None, count(1, _MOST_READS), "children of a pool; None: until it is exhausted"),
            Option(
                "restarts", None, count(1, _MOST_READS), "pools; None: until two agree on the lowest energy, 16 at most"
            ),
            Option("patience", None, count(1, _MOST_MOVES), "moves of a child without a better state; None: by size"),
            _TENURE,
            Option("trace", False, flag, "record the lowest energy so far by child"),
            _DEVICE,
        ),
    )
)
_SOLVER = (
    Option("num_solutions", None, count(1), "return the best distinct states, this many at most, by energy"),
    Option("solver", None, text, "name of the solver of the service; None: as its configuration says"),
    Option("sampler", None, given, "a dimod sampler to use in place of the service's own: configured, or a mock"),
)
register(
    Method(
        "quantum_anneal",
        Qubo,
        "quantum annealing (back end dwave): embedded in the qubits of a processor and scaled to its range",
        (
            Option("num_reads", 100, count(1, _MOST_READS), "anneals"),
            Option("chain_strength", None, above(0), "of the chains, in units of the energy; None: by the torque rule"),
            Option("annealing_time", None, above(0), "microseconds of an anneal; None: the processor's default"),
            Option("embedding", None, given, "qubits of each variable, by column number; None: found by minorminer"),
            *_SOLVER,
        ),
    )
)
register(Method("hybrid", Qubo, "D-Wave's hybrid service (back end leap); never run on the service by us", _SOLVER))

_EVIDENCE_OPTIONS = (
    Option(
        "num_reads",
        None,
        count(1, _MOST_READS),
        "walks, the first from nothing; None: until two or more agree, 64 at most",
    ),
    Option("patience", None, count(1, _MOST_SWEEPS), "moves without a new best before a walk ends; None: 10"),
)
register(
    Method(
        "swap",
        EvidenceProblem,
        "tabu search over passages: the best of all additions, removals and exchanges at every move",
        (*_EVIDENCE_OPTIONS, _DEVICE),
    )
)
register(
    Method(
        "exact",
        EvidenceProblem,
        "branch and bound on a Lagrangian dual, from a swap start; proves, or says how far it may be from best",
        (*_EVIDENCE_OPTIONS, Option("node_limit", None, count(1), "nodes to visit at most; None: until it is proved")),
    )
)

# Every way to search a QUBO is one to search an evidence problem: through its matrix, decoded.
for _method in [method for (kind, name), method in METHODS.items() if kind is Qubo and name != "exact"]:
    register(replace(_method, problem=EvidenceProblem, summary=f"on the QUBO of the problem: {_method.summary}"))
