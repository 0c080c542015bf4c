"""Shared by all tests: the data folder, the instruction sets, the back end, the `full` marker of the long checks."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from isinglass import _core, backends
from isinglass.backends.limits import LIMITS

from tests.cuda_emulated import emulation


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help="also run the long checks (marker `full`)")
    parser.addoption(
        "--backend",
        choices=("cuda", "cuda-emulated"),
        help="the whole suite on a device: what `auto` would give to the CPU goes there, if it is taken there",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--full"):
        return
    long = [item for item in items if item.get_closest_marker("full")]
    if long:
        config.hook.pytest_deselected(items=long)
        items[:] = [item for item in items if not item.get_closest_marker("full")]


@pytest.fixture(scope="session", autouse=True)
def _heard() -> None:
    """A suite in the background of a shell inherits a Ctrl-C that is ignored: a test of it would wait for ever."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def _backend(request: pytest.FixtureRequest) -> Iterator[None]:
    """`--backend`: everything that a device takes runs on it, unless a test names another back end."""
    name, on_cpu = request.config.getoption("--backend"), backends.resolve

    def on_device(
        kind: type, size: int, method: str, backend: str, options: Mapping[str, Any], batch: int = 1
    ) -> backends.Plan:
        plan = on_cpu(kind, size, method, backend, options, batch)
        limit = LIMITS.get((kind, plan.method))
        if backend != "auto" or limit is None or size > limit.most_size:
            return plan
        try:
            taken = on_cpu(kind, size, plan.method, "cuda", options, batch)
        except backends.BackendError:
            return plan
        return replace(taken, chosen_by=plan.chosen_by)

    if name is None:
        yield
        return
    with emulation() if name == "cuda-emulated" else nullcontext():
        if not (state := backends.load("cuda").availability()).available:
            pytest.skip(f"no CUDA device: {state.reason}")
        backends.resolve = on_device
        try:
            yield
        finally:
            backends.resolve = on_cpu


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder of real data that ISINGLASS_DATA names."""
    if not (named := os.environ.get("ISINGLASS_DATA")):
        pytest.skip("ISINGLASS_DATA is unset: no real data to test on")
    return Path(named)


@pytest.fixture(params=_core.isa_levels())
def isa(request: pytest.FixtureRequest) -> Iterator[str]:
    """Each instruction set that this machine has, in force for the test."""
    before = _core.isa()
    _core.force_isa(request.param)
    yield request.param
    _core.force_isa(before)
