"""One door to every method and back end."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor
from typing import Any, Literal

import numpy as np

from isinglass import backends
from isinglass.problems import gate
from isinglass.result import Result, Results

_MAX_THREADS = 1024
_BARE_REQUEST = backends.Request()


def _threads(value: object) -> int:
    return backends.available_cores() if value is None else gate.integer("threads", value, low=1, high=_MAX_THREADS)


def _seed(value: object) -> int | None:
    return None if value is None else gate.integer("seed", value, low=0, high=2**64 - 1)


def _request(
    seed: object,
    time_limit: object,
    threads: object,
    certificate: object,
    memory_limit: object,
    progress: Callable[[float], object] | None,
) -> backends.Request:
    if certificate not in ("fast", "tight"):
        raise ValueError(f"certificate must be 'fast' or 'tight', got {certificate!r}")
    return backends.Request(
        None if seed is None else _seed(seed),
        float("inf") if time_limit is None else gate.number("time_limit", time_limit, low=0),
        None if threads is None else _threads(threads),
        certificate == "tight",
        None if memory_limit is None else gate.integer("memory_limit", memory_limit, low=0),
        progress,
    )


def _no_problem(name: str, value: object) -> TypeError:
    return TypeError(f"{name} must be a PackingProblem, an EvidenceProblem or a Qubo, got {type(value).__name__}")


def solve(
    problem: Any,
    method: str = "auto",
    backend: str = "auto",
    *,
    seed: int | None = None,
    time_limit: float | None = None,
    threads: int | None = None,
    certificate: Literal["fast", "tight"] = "fast",
    memory_limit: int | None = None,
    progress: Callable[[float], object] | None = None,
    **options: Any,
) -> Result:
    """Solve one problem.

    Parameters
    ----------
    problem : PackingProblem, EvidenceProblem or Qubo
    method : str
        A name of the table in `isinglass.methods`; "auto" picks by type and size and says so in `provenance`.
    backend : str
        A name of `isinglass.available_backends()`; "auto": the native one. One of others ("neal", "dwave-tabu",
        "dwave", "leap", "openjij") brings its own method, and refuses by name what it cannot honour.
    seed : int, optional
        0 .. 2**64 - 1, for methods that draw random numbers. None draws one and records it in `provenance`.
    time_limit : float, optional
        Seconds, an upper bound. The best answer so far is returned with status "time_limit".
    threads : int, optional
        None: every core this process may use. No answer depends on it.
    certificate : {"fast", "tight"}
        "fast": the online bound along the path; "tight": the concave bound too.
    memory_limit : int, optional
        Bytes that large temporary arrays may take; None: physical memory.
    progress : callable, optional
        Called with the share of the work that is done (0 to 1), at most 20 times a second, by the calling thread.
    **options
        Of the method.

    Returns
    -------
    Result

    Raises
    ------
    TypeError
        For an unknown keyword, with the nearest known one.
    ValueError
        For a value out of range, an unknown method or back end, or an option that the back end cannot honour.
    MemoryError
        Before any allocation beyond `memory_limit`.
    KeyboardInterrupt
        Within 100 ms of Ctrl-C.
    """
    unlimited = time_limit is None and threads is None and memory_limit is None
    if seed is None and unlimited and progress is None and certificate == "fast":
        request = _BARE_REQUEST  # asking nothing should cost nothing: a dozen passages are packed in microseconds
    else:
        request = _request(seed, time_limit, threads, certificate, memory_limit, progress)
    try:
        size = len(problem)
    except TypeError:
        raise _no_problem("problem", problem) from None
    plan = backends.resolve(type(problem), size, method, backend, options)
    return plan.run(problem, plan, request)


def solve_many(
    problems: Iterable[Any],
    method: str = "auto",
    backend: str = "auto",
    *,
    seed: int | Sequence[int] | None = None,
    time_limit: float | None = None,
    threads: int | None = None,
    certificate: Literal["fast", "tight"] = "fast",
    memory_limit: int | None = None,
    progress: Callable[[float], object] | None = None,
    executor: Executor | None = None,
    **options: Any,
) -> Results:
    """Solve many problems, each exactly as `solve` would.

    Parameters
    ----------
    problems : iterable of PackingProblem, of EvidenceProblem or of Qubo
    seed : int or sequence of int, optional
        One for all, or one each.
    executor : concurrent.futures.Executor, optional
        Where the solves run instead of in native threads: processes, Dask, MPI.

    Other parameters are those of `solve`; `time_limit` is of the whole call. Where problems are solved one after the
    other, each may take an even share of what is left of it.

    Returns
    -------
    Results
        A sequence of `Result` in the order of `problems`, with their numbers as columns.
    """
    if not isinstance(problems, Iterable):
        raise TypeError(f"problems must be a sequence of problems, got {type(problems).__name__}; see solve for one")
    batch = list(problems)
    for i, problem in enumerate(batch):
        if not hasattr(problem, "__len__"):
            raise _no_problem(f"problems[{i}]", problem)
    seeds = [_seed(s) for s in seed] if isinstance(seed, (Sequence, np.ndarray)) else [_seed(seed)] * len(batch)
    if len(seeds) != len(batch):
        raise ValueError(f"seed must be one integer or {len(batch)}, got {len(seeds)}")
    keywords = {"certificate": certificate, "memory_limit": memory_limit, **options}
    if executor is not None:
        if not callable(getattr(executor, "submit", None)):
            raise TypeError(f"executor must have submit, as of concurrent.futures, got {type(executor).__name__}")
        if progress is not None:
            raise ValueError("progress and executor exclude each other, got both")
        limit = None if time_limit is None else gate.number("time_limit", time_limit, low=0)
        # By the clock that processes and machines share; each looks at it when its turn comes.
        deadline = None if limit is None else time.time() + limit
        futures = [
            executor.submit(_solve_until, deadline, limit, problem, method, backend, seed=s, threads=1, **keywords)
            for problem, s in zip(batch, seeds, strict=True)
        ]
        return Results([future.result() for future in futures])
    request = _request(None, time_limit, _threads(threads), certificate, memory_limit, progress)
    if len(set(seeds)) <= 1:
        requests = [request._replace(seed=seeds[0])] * len(batch) if batch else []
    else:
        requests = [request._replace(seed=s) for s in seeds]
    return backends.run_many(batch, method, backend, requests, options)


def _solve_until(deadline: float | None, limit: float | None, problem: Any, *args: Any, **keywords: Any) -> Result:
    # No clock that is set back meanwhile makes the limit longer.
    left = None if deadline is None or limit is None else min(limit, max(0.0, deadline - time.time()))
    return solve(problem, *args, time_limit=left, **keywords)
