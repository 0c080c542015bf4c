"""The CUDA back end: batches of small problems on a device, the same answers as `cpu` bit for bit."""

from __future__ import annotations

import importlib
from functools import lru_cache
from types import ModuleType
from typing import Any

from isinglass.backends import Availability, cuda_evidence, cuda_packing

_MODULE = "isinglass._cuda"

RUNNERS: dict[tuple[type, str], Any] = {**cuda_evidence.RUNNERS, **cuda_packing.RUNNERS}
BATCH_RUNNERS: dict[tuple[type, str], Any] = {**cuda_evidence.BATCH_RUNNERS, **cuda_packing.BATCH_RUNNERS}


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
