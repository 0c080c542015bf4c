"""QUBO methods of the native back end: options to plain arrays, one native call, a result made when looked at."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from isinglass import _core
from isinglass.backends import Plan, Request, available_cores
from isinglass.problems.qubo import Qubo
from isinglass.quantization import quantize
from isinglass.result import Certificate, Result, lazy
from isinglass.version import __version__

States = NDArray[np.uint8]

_DEFAULT_READS = 32
_WITHOUT_TEMPERATURE = ("tabu", "memetic")
_DEFAULT_LADDERS = 4
_DEFAULT_SWEEPS = 1000
_REPLICAS = 16
# Attempted flips below which a second thread costs more than it does.
_ONE_THREAD = 1 << 20


class Image(NamedTuple):
    """The integer image that a search runs on."""

    problem: Qubo
    bits: Any
    core: _core.QuboCore

    def describe(self) -> dict[str, Any]:
        """For `provenance`; worked out when asked for, since it takes longer than a short search."""
        if self.bits == "auto" and self.core.exact:
            error = self.core.max_error
            return {"scale": self.core.scale, "certificate": "exact", "max_error": error, "eps": 2 * error}
        q = quantize(self.problem, self.bits)
        return {"scale": self.core.scale, "certificate": q.certificate, "max_error": q.max_error, "eps": q.eps}


def image_of(problem: Qubo, bits: Any, *, there: bool = False) -> Image:
    """The integer image of a problem: by "auto" the exact one where there is one in 32 bits. `there`: it may lie on a
    device."""
    if there and (core := problem.device_core) is not None:
        if bits != "auto":
            raise ValueError(f"bits must be 'auto' for a model that lies on a device: it is exact, got {bits}")
        return Image(problem, bits, core)
    return Image(problem, bits, problem.core(None if bits == "auto" else quantize(problem, bits).scale))


def start_states(
    problem: Qubo, given: Any, num_reads: int | None, default: int = _DEFAULT_READS
) -> tuple[States | None, int]:
    """The start states as bytes (num_reads, n), or None for random ones, and the number of reads.

    Raises
    ------
    ValueError
        For another shape, or a value that is not 0 or 1 (-1 or 1 for a model stated over spins), with its position.
    """
    if given is None:
        return None, default if num_reads is None else num_reads
    if isinstance(given, Result):
        if given.sample is None:
            raise ValueError("initial_states must be a Result of a Qubo, got one without a sample")
        given = given.sample
    states, n = np.asarray(given), len(problem)
    single = states.ndim == 1
    if states.ndim not in (1, 2) or states.shape[-1] != n:
        raise ValueError(f"initial_states must have shape ({n},) or (num_reads, {n}), got {states.shape}")
    if states.dtype.kind not in "biuf":
        raise ValueError(f"initial_states must be numbers, got dtype {states.dtype}")
    spins = problem.vartype == "SPIN" and bool((states == -1).any())
    low = -1 if spins else 0
    bad = (states != low) & (states != 1)
    if bad.any():
        position = tuple(int(axis[0]) for axis in np.nonzero(bad))
        where = ", ".join(map(str, position))
        raise ValueError(f"initial_states[{where}] must be {low} or 1, got {states[position]}")
    if spins:
        states = states > 0
    if num_reads is None:
        num_reads = default if single else len(states)
    if single:
        states = np.broadcast_to(states, (num_reads, n))
    if len(states) != num_reads or num_reads == 0:
        raise ValueError(f"initial_states must have num_reads = {num_reads} rows, at least 1, got {len(states)}")
    return np.ascontiguousarray(states, dtype=np.uint8), num_reads


class Schedule(NamedTuple):
    """Arguments of the native annealer."""

    num_sweeps: int
    beta_range: tuple[float, float] | None
    linear: bool
    betas: NDArray[np.float64] | None
    held: bool  # the temperature never changes


def schedule_of(options: Mapping[str, Any]) -> Schedule:
    """The schedule that the options of `anneal` ask for.

    Raises
    ------
    ValueError
        For options that contradict each other.
    """
    spacing, ends, sweeps = options["beta_schedule"], options["beta_range"], options["num_sweeps"]
    held = ends is not None and ends[0] == ends[1]
    if not isinstance(spacing, str):
        if ends is not None:
            raise ValueError("give beta_range or an array as beta_schedule, not both")
        if sweeps is not None and sweeps != spacing.size:
            raise ValueError(f"num_sweeps must be the {spacing.size} entries of beta_schedule, got {sweeps}")
        return Schedule(spacing.size, None, False, spacing, held=False)
    if ends is not None and not held:
        low = "> 0" if spacing == "geometric" else ">= 0"
        if (spacing == "geometric" and ends[0] == 0) or np.isinf(ends[1]):
            raise ValueError(f"beta_range must be {low} and finite for a {spacing} beta_schedule, got {ends}")
    return Schedule(_DEFAULT_SWEEPS if sweeps is None else sweeps, ends, spacing == "linear", None, held)


class Where(NamedTuple):
    """What a search ran on, for `provenance`."""

    device: str
    instruction_set: str


class _QuboResult(Result):
    """A result whose arrays are made when they are looked at."""

    _problem: Qubo
    _plan: Plan
    _image: Image
    _walked: _core.Walked
    _settings: Mapping[str, Any]
    _num_solutions: int | None
    _where: Where

    @lazy
    def _rows(self) -> tuple[NDArray[np.int8], NDArray[np.float64]]:
        samples, energies = self._walked.samples, self._walked.energies
        return (
            (samples, energies)
            if self._num_solutions is None
            else best_distinct(samples, energies, self._num_solutions)
        )

    @lazy
    def samples(self) -> NDArray[np.int8]:
        return self._rows[0]

    @lazy
    def energies(self) -> NDArray[np.float64]:
        return self._rows[1]

    @lazy
    def sample(self) -> NDArray[np.int8]:
        best: NDArray[np.int8] = self.samples[0 if self._num_solutions is not None else self._walked.best]
        return best

    @lazy
    def selection(self) -> NDArray[np.int64]:
        ones = np.flatnonzero(self.sample)
        ones.setflags(write=False)
        return ones

    @lazy
    def certificate(self) -> Certificate:
        proved = self.status == "optimal"
        assert self.energy is not None
        return Certificate(
            value=self.energy,
            feasible=True,
            upper_bound=self.energy if proved else None,
            gap=0.0 if proved else None,
            method="exact" if proved else None,
        )

    @lazy
    def trace(self) -> NDArray[np.float64] | None:
        return self._walked.trace if self._plan.options.get("trace") else None

    @lazy
    def timings(self) -> Mapping[str, float]:
        walked = self._walked
        return {"schedule": walked.schedule_seconds, "search": walked.search_seconds - walked.schedule_seconds}

    @lazy
    def provenance(self) -> Mapping[str, Any]:
        walked, plan = self._walked, self._plan
        return {
            "method": plan.method,
            "chosen_by": plan.chosen_by,
            "backend": plan.backend,
            "device": self._where.device,
            "instruction_set": self._where.instruction_set,
            "version": __version__,
            "quantisation": self._image.describe(),
            "layout": walked.layout,
            **({} if plan.method in _WITHOUT_TEMPERATURE else {"betas": walked.betas}),
            "generations": walked.generations,
            "num_flips": walked.flips,
            "target_reached": walked.target_reached,
            **({"swap_rates": walked.swap_rates} if plan.method == "temper" else {}),
            **self._settings,
            "options": {
                key: value for key, value in plan.options.items() if value is not None and key != "initial_states"
            },
        }

    def __reduce__(self) -> Any:
        # Native objects stay in their process: what travels is the plain result.
        lazy = ("samples", "energies", "sample", "selection", "certificate", "trace", "timings", "provenance")
        return _rebuild, ({name: getattr(self, name) for name in ("energy", "status", *lazy)},)


def _rebuild(fields: dict[str, Any]) -> Result:
    return Result(**fields)


def best_distinct(
    samples: NDArray[np.int8], energies: NDArray[np.float64], most: int
) -> tuple[NDArray[np.int8], NDArray[np.float64]]:
    """At most `most` distinct rows by ascending energy, the earlier read first among equals."""
    chosen: dict[bytes, int] = {}
    for row in np.argsort(energies, kind="stable").tolist():
        chosen.setdefault(samples[row].tobytes(), row)
        if len(chosen) == most:
            break
    rows = list(chosen.values())
    samples, energies = samples[rows], energies[rows]
    samples.setflags(write=False)
    energies.setflags(write=False)
    return samples, energies


def walked_result(
    problem: Qubo,
    walked: _core.Walked,
    image: Image,
    plan: Plan,
    settings: Mapping[str, Any],
    num_solutions: int | None = None,
    where: Where | None = None,
) -> Result:
    """The result of a native search; `settings` joins its provenance, and `num_solutions` overrides the option.
    `where`: not on the CPU."""
    stopped = walked.stopped
    return _QuboResult(
        energy=walked.energy,
        status=stopped if stopped != "none" else "optimal" if len(problem) == 0 else "feasible",
        _problem=problem,
        _plan=plan,
        _image=image,
        _walked=walked,
        _settings=settings,
        _num_solutions=num_solutions or plan.options["num_solutions"],
        _where=where or Where("cpu", _core.isa()),
    )


def _threads(problem: Qubo, request: Request, num_reads: int, num_sweeps: int) -> int:
    if request.threads is not None:
        return request.threads
    return 1 if len(problem) * num_reads * num_sweeps < _ONE_THREAD else available_cores()


def _anneal(problem: Qubo, plan: Plan, request: Request) -> Result:
    options = plan.options
    states, num_reads = start_states(problem, options["initial_states"], options["num_reads"])
    schedule = schedule_of(options)
    image = image_of(problem, options["bits"])
    seed = request.drawn_seed()
    layout = options["layout"]
    walked = _core.anneal(
        image.core,
        num_reads,
        schedule.num_sweeps,
        schedule.beta_range,
        schedule.linear,
        schedule.betas,
        not schedule.held,
        seed,
        _threads(problem, request, num_reads, schedule.num_sweeps),
        None if layout == "auto" else layout,
        states,
        options["target_energy"],
        options["trace"],
        request.time_limit,
        request.progress,
    )
    settings = {"seed": seed, "num_reads": num_reads, "num_sweeps": schedule.num_sweeps, "quench": not schedule.held}
    return walked_result(problem, walked, image, plan, settings)


class AnnealBatch(NamedTuple):
    """Arguments of a native batch of anneals; lists have one entry a problem."""

    cores: list[_core.QuboCore]
    num_reads: list[int]
    schedule: Schedule
    seeds: list[int]
    threads: int
    states: list[States | None]
    options: Mapping[str, Any]
    request: Request


def anneal_batch(
    problems: Sequence[Qubo],
    plan: Plan,
    requests: Sequence[Request],
    walk: Callable[[AnnealBatch], Sequence[_core.Walked]],
    where: Where | None = None,
) -> list[Result]:
    """Many anneals by one native call, `walk`."""
    if not problems:
        return []
    options, first = plan.options, requests[0]
    starts = [start_states(problem, options["initial_states"], options["num_reads"]) for problem in problems]
    schedule = schedule_of(options)
    images = [image_of(problem, options["bits"], there=where is not None) for problem in problems]
    batch = AnnealBatch(
        [image.core for image in images],
        [num_reads for _, num_reads in starts],
        schedule,
        [request.drawn_seed() for request in requests],
        first.threads or available_cores(),
        [states for states, _ in starts],
        options,
        first,
    )
    shared = {"num_sweeps": schedule.num_sweeps, "quench": not schedule.held}
    return [
        walked_result(problem, walked, image, plan, {"seed": seed, "num_reads": reads, **shared}, where=where)
        for problem, walked, image, seed, reads in zip(
            problems, walk(batch), images, batch.seeds, batch.num_reads, strict=True
        )
    ]


def _anneal_many(problems: Sequence[Qubo], plan: Plan, requests: Sequence[Request]) -> list[Result]:
    def walk(batch: AnnealBatch) -> list[_core.Walked]:
        schedule, options, layout = batch.schedule, batch.options, batch.options["layout"]
        return _core.anneal_many(
            batch.cores,
            batch.num_reads,
            schedule.num_sweeps,
            schedule.beta_range,
            schedule.linear,
            schedule.betas,
            not schedule.held,
            batch.seeds,
            batch.threads,
            None if layout == "auto" else layout,
            batch.states,
            options["target_energy"],
            options["trace"],
            batch.request.time_limit,
            batch.request.progress,
        )

    return anneal_batch(problems, plan, requests, walk)


def ladder_ends(options: Mapping[str, Any]) -> tuple[float, float] | None:
    """The ends of a ladder that the options of `temper` ask for.

    Raises
    ------
    ValueError
        For ends that no ladder has.
    """
    ends: tuple[float, float] | None = options["beta_range"]
    if ends is not None and not 0 < ends[0] < ends[1] < np.inf:
        raise ValueError(f"beta_range must have 0 < first < last, finite, for method 'temper', got {ends}")
    return ends


def ladder_states(problem: Qubo, options: Mapping[str, Any]) -> tuple[States | None, int]:
    """Start states of ladders, or None, and the number of ladders."""
    return start_states(problem, options["initial_states"], options["num_reads"], _DEFAULT_LADDERS)


def ladder_settings(seed: int, num_reads: int, num_sweeps: int) -> dict[str, Any]:
    """What the provenance of `temper` says beside its options."""
    return {"seed": seed, "num_reads": num_reads, "num_sweeps": num_sweeps, "num_replicas": _REPLICAS}


def _temper(problem: Qubo, plan: Plan, request: Request) -> Result:
    options, num_sweeps = plan.options, plan.options["num_sweeps"]
    states, num_reads = ladder_states(problem, options)
    ends = ladder_ends(options)
    image = image_of(problem, options["bits"])
    seed = request.drawn_seed()
    walked = _core.temper(
        image.core,
        num_reads,
        num_sweeps,
        ends,
        seed,
        _threads(problem, request, num_reads * _REPLICAS, num_sweeps),
        None if options["layout"] == "auto" else options["layout"],
        states,
        options["target_energy"],
        request.time_limit,
        request.progress,
    )
    return walked_result(problem, walked, image, plan, ladder_settings(seed, num_reads, num_sweeps))


def _descend(problem: Qubo, plan: Plan, request: Request) -> Result:
    options = plan.options
    states, num_reads = start_states(problem, options["initial_states"], options["num_reads"])
    image = image_of(problem, options["bits"])
    seed = request.drawn_seed()
    walked = _core.descend(
        image.core,
        options["rule"] == "steepest",
        num_reads,
        seed,
        _threads(problem, request, num_reads, len(problem)),
        None if options["layout"] == "auto" else options["layout"],
        states,
        options["target_energy"],
        request.time_limit,
        request.progress,
    )
    return walked_result(problem, walked, image, plan, {"seed": seed, "num_reads": num_reads})


RUNNERS: dict[tuple[type, str], Any] = {
    (Qubo, "anneal"): _anneal,
    (Qubo, "temper"): _temper,
    (Qubo, "descent"): _descend,
}
BATCH_RUNNERS: dict[tuple[type, str], Any] = {(Qubo, "anneal"): _anneal_many}
