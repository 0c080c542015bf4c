"""The check of what ptxas says of kernels: on a log of our own, since nvcc is not everywhere."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

_spec = importlib.util.spec_from_file_location("resources", Path(__file__).parent.parent / "cuda" / "resources.py")
assert _spec is not None
assert _spec.loader is not None
resources = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(resources)

_LOG = """ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function '_ZN9isinglass4cuda16{name}_bodyENS0_10AnnealArgsE' for 'sm_90'
ptxas info    : Function properties for _ZN9isinglass4cuda16{name}_bodyENS0_10AnnealArgsE
    8 bytes stack frame, 4 bytes spill stores, 20 bytes spill loads
ptxas info    : Used {registers} registers, used 1 barriers, 432 bytes cmem[0]{shared}
ptxas info    : Compiling entry function '_ZN9isinglass4cudaL15anneal_8x1_bodyENS0_10AnnealArgsE' for 'sm_80'
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 32 registers, used 1 barriers
"""


def log(name: str = "anneal_16x4", registers: int = 55, shared: str = "") -> str:
    return _LOG.format(name=name, registers=registers, shared=shared)


def test_reads_names_registers_spills_and_stack() -> None:
    assert resources.kernels_of(log()) == {
        ("anneal_16x4", "sm_90"): (55, 24, 8, 0),
        ("anneal_8x1", "sm_80"): (32, 0, 0, 0),
    }
    assert resources.kernels_of("") == {}
    assert resources.excesses(resources.kernels_of(log())) == []


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (log(registers=255), "anneal_16x4 (sm_90) must be within Use(registers=64"),
        (log(shared=", 16 bytes smem"), "got Use(registers=55, spills=24, stack=8, shared=16)"),
        (log(name="unheard_of1", registers=129), "unheard_of1 (sm_90) must be within Use(registers=128"),
    ],
)
def test_names_what_is_beyond_the_table(changed: str, said: str) -> None:
    (wrong,) = resources.excesses(resources.kernels_of(changed))
    assert said in wrong
