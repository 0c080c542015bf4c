"""Checks what ptxas says of every kernel against the table of what is allowed: `python cuda/resources.py LOG`.

The log is the output of a whole build of the target `isinglass_cuda_kernels` with ISINGLASS_PTXAS=ON. Registers decide
how many warps a multiprocessor holds, spills and the stack go through slow memory, and shared memory is to come from
the launch alone.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import NamedTuple


class Use(NamedTuple):
    """Of one kernel on one architecture."""

    registers: int  # of a thread
    spills: int  # bytes stored and loaded
    stack: int  # bytes
    shared: int  # bytes beside the launch's own


# By the beginning of a name, the first that matches. A little above what was seen with nvcc 13.0.
ALLOWED: tuple[tuple[str, Use], ...] = (
    ("anneal_.*x8", Use(64, 160, 32, 0)),
    ("anneal_", Use(64, 96, 32, 0)),
    ("temper_", Use(128, 256, 352, 0)),  # its stack: the ladder's tables, when it moves
    ("tabu_", Use(80, 64, 16, 0)),
    ("fill_", Use(64, 96, 32, 0)),
    ("breed_", Use(128, 320, 256, 0)),
    ("exchange", Use(96, 0, 448, 0)),  # its stack: the ladder's tables, when it moves
    ("large_", Use(64, 160, 32, 0)),
    ("sparse_", Use(64, 64, 16, 0)),
    ("evidence_", Use(80, 192, 32, 0)),
    ("packing_greedy", Use(128, 32, 1792, 0)),  # its stack: exact sums of costs without a granule
    ("row_sums", Use(184, 0, 0, 0)),  # 64 sums of a thread, and the next chunk on its way
    ("fold_", Use(80, 0, 0, 0)),
    ("read_energies", Use(40, 0, 0, 0)),
    ("cosines_of_groups", Use(144, 0, 0, 0)),  # the same products
    ("unit_rows", Use(40, 0, 0, 0)),
    ("", Use(128, 128, 256, 0)),
)

_HEAD = re.compile(r"Compiling entry function '(\S+)' for '(\S+)'")
_STACK = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers")
_SHARED = re.compile(r"(\d+) bytes smem")
_NAME = re.compile(r"4cudaL?(\d+)")  # the length of a name stands before it


def kernels_of(log: str) -> dict[tuple[str, str], Use]:
    """Every kernel of the log by name and architecture."""
    found: dict[tuple[str, str], Use] = {}
    heads = list(_HEAD.finditer(log))
    ends = [head.start() for head in heads[1:]] + [len(log)]
    for head, end in zip(heads, ends, strict=False):
        part = log[head.end() : end]
        stack, used, shared = _STACK.search(part), _USED.search(part), _SHARED.search(part)
        name = _NAME.search(head[1])
        if stack is None or used is None or name is None:
            raise ValueError(f"cannot read what ptxas says of {head[1]} for {head[2]}")
        plain = head[1][name.end() : name.end() + int(name[1])].removesuffix("_body")
        frame, stores, loads = map(int, stack.groups())
        found[plain, head[2]] = Use(int(used[1]), stores + loads, frame, int(shared[1]) if shared else 0)
    return found


def excesses(found: dict[tuple[str, str], Use]) -> list[str]:
    """What is beyond the table."""
    wrong = []
    for (name, architecture), use in sorted(found.items()):
        allowed = next(use for pattern, use in ALLOWED if re.match(pattern, name))
        if any(a > b for a, b in zip(use, allowed, strict=True)):
            wrong.append(f"{name} ({architecture}) must be within {allowed}, got {use}")
    return wrong


def main() -> int:
    """Exit code 1 for an excess."""
    found = kernels_of(Path(sys.argv[1]).read_text())
    if not found:
        print("no kernel in the log: build the target isinglass_cuda_kernels from clean, with ISINGLASS_PTXAS=ON")
        return 1
    wrong = excesses(found)
    for (name, architecture), use in sorted(found.items()):
        print(f"{name:28} {architecture}  {use.registers:3} registers  {use.spills:3} spilled  {use.stack:3} stack")
    print(*wrong, sep="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
