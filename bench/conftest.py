"""Benchmarks: `pytest bench` (pytest-benchmark). Each asserts the quality of what it times.

`--backend NAME` chooses the back end of our side (default cpu); peers run in the same session, so that ratios hold
whatever the machine. `--full` adds the long rows.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Generator
from pathlib import Path
from typing import Any

import isinglass as ig
import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--backend", default="cpu", help="back end of our side (isinglass backends lists them)")
    parser.addoption("--full", action="store_true", help="also the long rows")


@pytest.fixture
def backend(request: pytest.FixtureRequest) -> str:
    name: str = request.config.getoption("--backend")
    state = ig.available_backends().get(name)
    if state is None or not state.available:
        pytest.skip(f"backend {name!r}: {state.reason if state else 'unknown'}")
    return name


@pytest.fixture(scope="session")
def data() -> Path:
    if not (named := os.environ.get("ISINGLASS_DATA")):
        pytest.skip("ISINGLASS_DATA is unset: no real data to bench on")
    return Path(named)


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """Passes over what the chosen back end does not offer, and says so."""
    try:
        return (yield)
    except ig.BackendError as error:
        if pyfuncitem.config.getoption("--backend") == "cpu":
            raise
        pytest.skip(str(error))


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor()


def pytest_benchmark_update_machine_info(config: pytest.Config, machine_info: dict[str, Any]) -> None:
    machine_info["cpu_model"] = _cpu_model()
    machine_info["isinglass"] = ig.__version__
    machine_info["device"] = ig.available_backends()["cpu"].device


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Ratios of each group to its peer, from the fastest rounds: the least disturbed ones."""
    session = getattr(config, "_benchmarksession", None)
    groups: dict[str, dict[str, float]] = {}
    for bench in getattr(session, "benchmarks", []):
        if bench.group and bench.stats is not None:
            groups.setdefault(bench.group, {})[bench.name.split("[")[0]] = bench.stats.min
    rows = {
        group: times
        for group, times in groups.items()
        if any(name.startswith("bench_peer") for name in times) and len(times) > 1
    }
    if not rows:
        return
    terminalreporter.section(f"ratios to the peer, {_cpu_model()}, one thread unless the name says otherwise")
    for group, times in rows.items():
        peers = {name: seconds for name, seconds in times.items() if name.startswith("bench_peer")}
        for name, seconds in times.items():
            if name in peers:
                continue
            for peer, peer_seconds in peers.items():
                terminalreporter.write_line(
                    f"{group:28} {name:34} {seconds * 1e3:10.4f} ms   {peer} {peer_seconds * 1e3:10.4f} ms"
                    f"   x{peer_seconds / seconds:.2f}"
                )
