"""Best-known values of public QUBO, Ising and maximum-cut instances: `python bench/quality.py`.

Every instance of `best_known.tsv` (folder of `ISINGLASS_DATA`) is solved with method "auto" until its best-known value
or its time limit. One line an instance: what was found, in the file's own sense, and after how many seconds. Exit code
1 when a value that must be reached was not.
"""

from __future__ import annotations

import argparse
import csv
import os
import re
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import isinglass as ig
from isinglass.generators import palubeckis
from isinglass.problems.formats import read_qubo

# By instance name, the first match: seconds, threads, and the value to reach where that is not the best-known one.
_LIMITS = (
    (r"bqp2500\.1", 1.0, 1, None),
    (r"bqp.*|gka.*|be\d.*|g05.*|pm1.*|pw0.*|w0.*", 1.0, 1, None),
    (r"ising.*|t[23]g.*|QPLIB.*", 10.0, 1, None),
    (r"G[124578]", 10.0, 1, None),
    (r"K2000", 60.0, 2, 33_300.0),
    (r"G22", 60.0, 2, None),
)
# Others have no value that must be reached: what is found in this time is printed.
_OTHERS = (10.0, 2)

QUICK = ("bqp100.10", "bqp250.1", "bqp1000.2", "gka5d", "gka3f", "be250.1", "pm1d_100.1", "t2g10_5555", "G1")


@dataclass(frozen=True)
class Instance:
    """One row: `sign` turns an energy into a value in the sense of the file."""

    name: str
    path: Path
    sign: int
    best_known: float | None
    must: float | None  # None: nothing is asked
    seconds: float
    threads: int


def instances(folder: Path) -> Iterator[Instance]:
    """The rows of `best_known.tsv`."""
    with (folder / "best_known.tsv").open() as lines:
        for row in csv.DictReader(lines, delimiter="\t"):
            known = float(row["best_known"]) if row["best_known"] else None
            seconds, threads, must = *_OTHERS, None
            for pattern, limit, cores, value in _LIMITS:
                if re.fullmatch(pattern, row["instance"]):
                    seconds, threads, must = limit, cores, value if value is not None else known
                    break
            sign = 1 if row["sense"] == "min" else -1
            yield Instance(row["instance"], folder / row["file"], sign, known, must, seconds, threads)


# Published by its generator alone: too large to store.
GENERATED = {"p3000.1": lambda: palubeckis(3000, 50, 31000)}


def run(instance: Instance, seed: int, backend: str = "auto") -> tuple[float, float, bool]:
    """The value found, after how many seconds, and whether it is what must be reached."""
    qubo = GENERATED[instance.name]() if instance.name in GENERATED else read_qubo(instance.path)
    target = None if instance.best_known is None else instance.sign * instance.best_known
    begin = time.perf_counter()
    result = ig.solve(
        qubo, "auto", backend, seed=seed, target_energy=target, time_limit=instance.seconds, threads=instance.threads
    )
    seconds = time.perf_counter() - begin
    assert result.sample is not None
    energy = qubo.energy(result.sample)
    reached = instance.must is None or energy <= instance.sign * instance.must
    return instance.sign * energy, seconds, reached


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--only", default=".*", help="regular expression of instance names")
    parser.add_argument("--quick", action="store_true", help="the short subset of the test suite")
    parser.add_argument("--seeds", type=int, default=1, help="runs of each instance, seeds 0, 1, ...")
    parser.add_argument("--backend", default="auto")
    arguments = parser.parse_args()
    if "ISINGLASS_DATA" not in os.environ:
        parser.error("ISINGLASS_DATA is unset: it is the folder of the data")
    missed = count = 0
    print(f"{'instance':20} {'best known':>14} {'found':>14} {'seconds':>9} {'limit':>6}  threads")
    for instance in instances(Path(os.environ["ISINGLASS_DATA"]) / "qubo"):
        if not re.fullmatch(arguments.only, instance.name) or (arguments.quick and instance.name not in QUICK):
            continue
        for seed in range(arguments.seeds):
            value, seconds, reached = run(instance, seed, arguments.backend)
            known = "-" if instance.best_known is None else f"{instance.best_known:.10g}"
            note = "" if reached else "  MISSED"
            if instance.must is None and known != "-":
                note = f"  {instance.sign * (value - float(known)) / abs(float(known)) * 100 + 0:.3f} % off"
            print(
                f"{instance.name:20} {known:>14} {value:14.10g} {seconds:9.3f} {instance.seconds:6g}  "
                f"{instance.threads}{note}",
                flush=True,
            )
            missed += not reached
            count += 1
    print(f"{count - missed} of {count} as they must be")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
