"""The CUDA back end over host emulation, for tests of the logic of its kernels. No GPU takes part."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from types import ModuleType

import pytest
from isinglass import backends
from isinglass.backends import cuda

_NAME = "isinglass._cuda_emulated"


@lru_cache(maxsize=1)
def emulated_module() -> ModuleType:
    """`_cuda_emulated` from the build folder that ISINGLASS_CUDA_EMULATED names; skips where it is unset."""
    if not (folder := os.environ.get("ISINGLASS_CUDA_EMULATED")):
        pytest.skip("ISINGLASS_CUDA_EMULATED is unset: no emulated build of the CUDA back end (see cuda/README.md)")
    (path,) = Path(folder).glob("_cuda_emulated*.so")
    spec = importlib.util.spec_from_file_location(_NAME, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[_NAME] = module
    spec.loader.exec_module(module)
    return module


def forget_availability() -> None:
    """Plans remember what was available when they were made."""
    backends._plan.cache_clear()
    backends._resolve_bare.cache_clear()


@contextmanager
def emulation() -> Iterator[ModuleType]:
    """`backend="cuda"` runs on fibers; yields the module with its controls."""
    native = emulated_module()
    before = cuda.module
    cuda.module = lambda: native  # type: ignore[assignment]
    forget_availability()
    try:
        yield native
    finally:
        cuda.module = before
        native.order_threads(0)
        native.fill_memory(0xA5)
        native.skip_barrier("", 0)
        forget_availability()
