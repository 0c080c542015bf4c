"""Shared by all tests: the data folder, the instruction sets, and the `full` marker of the long checks."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from isinglass import _core


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help="also run the long checks (marker `full`)")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--full"):
        return
    long = [item for item in items if item.get_closest_marker("full")]
    if long:
        config.hook.pytest_deselected(items=long)
        items[:] = [item for item in items if not item.get_closest_marker("full")]


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
