"""The CUDA back end: what it says where it cannot run, and kernel logic tests on host emulation (never GPU tests)."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

import isinglass as ig
import pytest
from isinglass.backends import cuda

from tests.cuda_emulated import emulation, forget_availability


@pytest.fixture
def emulated() -> Iterator[ModuleType]:
    with emulation() as native:
        yield native


def test_says_why_it_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda, "module", lambda: None)
    forget_availability()
    state = ig.available_backends()["cuda"]
    assert not state.available
    assert "built without CUDA" in str(state.reason)
    forget_availability()


def test_module_loads_without_a_driver() -> None:
    if (native := cuda.module()) is None:
        pytest.skip("this build has no CUDA module")
    state = ig.available_backends()["cuda"]
    assert state.available == (native.device_count() > 0) == (native.unavailable() == "")
    if not state.available:
        with pytest.raises(native.DeviceError, match=str(state.reason)):
            native.device(0)


def test_emulated_devices_are_listed(emulated: ModuleType) -> None:
    assert ig.available_backends()["cuda"] == ig.Availability(True, None, "emulated 0, emulated 1")
    with pytest.raises(ValueError, match=r"device must be in 0\.\.1, got 2"):
        emulated.device(2)
    emulated.devices().unavailable = "no CUDA driver is installed"
    assert ig.available_backends()["cuda"].reason == "no CUDA driver is installed"
    emulated.devices().unavailable = ""
