"""The CUDA back end: batches of small problems on a device, the same answers as `cpu` bit for bit."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from types import ModuleType
from typing import Any

import numpy as np

from isinglass.backends import (
    Availability,
    BackendError,
    Plan,
    Request,
    cuda_evidence,
    cuda_packing,
    cuda_qubo,
    cuda_search,
)
from isinglass.backends.native_qubo import Where
from isinglass.problems.device import DeviceArray, one_device
from isinglass.problems.qubo import Qubo
from isinglass.result import Result

_MODULE = "isinglass._cuda"

REFUSES = ("layout",)
_PARTS = (cuda_packing, cuda_qubo, cuda_search, cuda_evidence)


def _alone(batch: Callable[[Sequence[Any], Plan, Sequence[Request]], Sequence[Result]]) -> Any:
    """The runner for one problem: a batch of one."""

    def run(problem: Any, plan: Plan, request: Request) -> Result:
        return batch([problem], plan, [request])[0]

    return run


BATCH_RUNNERS: dict[tuple[type, str], Any] = {key: run for part in _PARTS for key, run in part.BATCH_RUNNERS.items()}
RUNNERS: dict[tuple[type, str], Any] = {key: _alone(batch) for key, batch in BATCH_RUNNERS.items()}
# How blocks and launches are cut; tests vary it, no answer depends on it.
CUT: dict[str, int] = {}


@lru_cache(maxsize=1)
def module() -> ModuleType | None:
    """The native module, or None where the package was built without it. It loads without a driver too."""
    try:
        return importlib.import_module(_MODULE)
    except ModuleNotFoundError:
        return None


def availability() -> Availability:
    """Available with the module, a driver and a device that it was built for."""
    native = module()
    if native is None:
        return Availability(False, "built without CUDA: no working nvcc was found, or ISINGLASS_CUDA=OFF", None)
    if reason := native.unavailable():
        return Availability(False, reason, None)
    names = [native.device(k)["name"] for k in range(native.device_count())]
    return Availability(True, None, ", ".join(names))


def native() -> ModuleType:
    """The native module, for runners: a plan was made, so it is there."""
    found = module()
    assert found is not None
    return found


def device_of(plan: Plan, arrays: Iterable[DeviceArray] = ()) -> tuple[int, Where]:
    """The device that a plan names, else the one that holds the arrays, else the first: its number, and what results
    say of it."""
    asked, count, there = plan.options["device"], native().device_count(), one_device(arrays)
    if asked is not None and asked >= count:
        raise BackendError(f"device must be in 0..{count - 1}, got {asked}")
    if asked is not None and there is not None and asked != there:
        raise BackendError(f"a solve on cuda:{asked} needs its arrays there, got them on cuda:{there}")
    number = asked or there or 0
    found = native().device(number)
    return number, Where(f"{found['name']} (cuda:{number})", found["architecture"])


def placed(plan: Plan, problems: Iterable[Qubo] = ()) -> tuple[Any, Any, Where]:
    """The native module, where it places the blocks of a plan, and what results say of the device."""
    number, where = device_of(plan, [p.device_rows for p in problems if p.device_rows is not None])
    return native(), native().Placement(number, **CUT), where


def by_size(
    problems: Sequence[Any],
    most_small: int,
    together: Callable[[Callable[[Sequence[Any]], list[Any]]], Sequence[Any]],
    alone: Callable[[int, Request], Any],
    request: Request,
) -> list[Any]:
    """What the small problems find `together` and each other one `alone`, by its index; in the order of the problems.

    `together` is given what picks the entries of the small problems from a column of all, `alone` the request with the
    time that is left: its limit is of the whole call.
    """
    begin = time.monotonic()
    small = [index for index, problem in enumerate(problems) if len(problem) <= most_small]
    found = {}
    if small:
        walked = together(lambda column: [column[index] for index in small])
        found = dict(zip(small, walked, strict=True))
    return [found[index] if index in found else alone(index, request.since(begin)) for index in range(len(problems))]


class Kept:
    """Reads of large models that stay on the device, too, where `keep_on_device` asks for it."""

    def __init__(self, plan: Plan, placement: Any, problems: Iterable[Qubo]) -> None:
        self._asked, self._placement = plan.options["keep_on_device"], placement
        self._memory: dict[int, Any] = {}
        most = native().most_small
        if self._asked and any(len(problem) <= most for problem in problems):
            raise BackendError(
                f"backend 'cuda' cannot honour option 'keep_on_device' of method {plan.method!r} up to {most} variables"
            )

    def placement(self, index: int, problem: Qubo, num_reads: int) -> Any:
        """Where a problem is solved: with room for its reads."""
        if not self._asked:
            return self._placement
        own = native().Placement(self._placement.device, **CUT)
        own.samples = self._memory[index] = native().DeviceMemory(own.device, num_reads * len(problem))
        return own

    def hand_over(self, results: list[Result]) -> list[Result]:
        """Results with what stayed: the reads that were walked before a target or a stop."""
        for index, memory in self._memory.items():
            fields = results[index].__dict__
            shape = (fields["_walked"].energies.size, len(fields["_problem"]))
            fields["device_samples"] = DeviceArray(memory, memory.pointer, shape, np.dtype(np.int8))
        return results
