"""The CUDA back end on the device of this machine: is it equal to the CPU, and how fast is it.

One script for the minutes in which a device is at hand: `python bench/gpu.py --output gpu.json`. It builds the package
with CUDA where no build is given (`--built FOLDER`, that of an earlier run, is used as it is), compares the back end
with `cpu` bit for bit, times batches with and without transfers, and prints from how many problems on a batch pays
(`isinglass/backends/limits.py`). Less than six minutes in all: `--sections` chooses, and what would begin after
`--seconds` is left out and named.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SECTIONS = ("equality", "qubo", "evidence", "packing", "limits", "graphs", "large", "size", "pool", "targets")


def build(folder: Path) -> Path:
    """The package with its native modules, below `folder`."""
    site = folder / "site"
    import pybind11  # of the environment that runs this script

    configure = ["cmake", "-S", ROOT, "-B", folder, "-DCMAKE_BUILD_TYPE=Release", "-DISINGLASS_CUDA=ON"]
    configure += [f"-DPython_EXECUTABLE={sys.executable}", f"-Dpybind11_DIR={pybind11.get_cmake_dir()}"]
    subprocess.run([*configure, "-DCMAKE_INTERPROCEDURAL_OPTIMIZATION=OFF"], check=True)
    subprocess.run(["cmake", "--build", folder, "--parallel", str(os.cpu_count())], check=True)
    subprocess.run(["cmake", "--install", folder, "--component", "python", "--prefix", site], check=True)
    for path in (ROOT / "python" / "isinglass").rglob("*"):
        target = site / path.relative_to(ROOT / "python")
        if path.is_file() and path.suffix != ".so" and not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            target.symlink_to(path)
    return site


class Bench:
    """What is known so far, and the time that is left."""

    def __init__(self, seconds: float, tiny: bool) -> None:
        import isinglass as ig
        from isinglass.backends import cuda

        self.ig = ig
        self.native: Any = cuda.native() if cuda.availability().available else None
        self.begin, self.seconds, self.tiny = time.perf_counter(), seconds, tiny
        self.offered = sorted(cuda.RUNNERS, key=lambda key: (key[0].__name__, key[1]))
        self.report: dict[str, Any] = {
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "device": self.native.device(0) if self.native else None,
            "version": ig.__version__,
            "threads": len(os.sched_getaffinity(0)),
            "left_out": [],
        }

    def in_time(self, what: str) -> bool:
        """Whether there is time for something more; if not it is noted."""
        if time.perf_counter() - self.begin < self.seconds:
            return True
        self.report["left_out"].append(what)
        return False

    def size(self, full: int) -> int:
        """Problems of a batch."""
        return min(full, 2) if self.tiny else full

    def timed(self, run: Callable[[], Any]) -> tuple[float, float, Any]:
        """Least seconds of three runs, as a caller sees them and in kernels, and the last answer."""
        calls, kernels = [], []
        for _ in range(1 if self.tiny else 3):
            before, began = self.native.kernel_seconds(), time.perf_counter()
            answer = run()
            calls.append(time.perf_counter() - began)
            kernels.append(self.native.kernel_seconds() - before)
        return min(calls), min(kernels), answer


def qubos(count: int, n: int, largest: int = 100) -> list[Any]:
    """Dense models with whole coefficients."""
    from isinglass.generators import random_qubo

    return [random_qubo(n, low=-largest, high=largest, seed=seed) for seed in range(count)]


def evidence(count: int, n: int) -> list[Any]:
    """Retrieval problems, 8 requirements, 5 passages at most."""
    from isinglass.generators import rag_problem

    return [rag_problem(n, 8, 5, seed=seed) for seed in range(count)]


def queries(count: int, n: int) -> list[Any]:
    """Packing problems with every term of the default objective."""
    import isinglass as ig
    from isinglass.generators import packing_arrays

    return [ig.PackingProblem(budget=160, **packing_arrays(n, seed=seed)) for seed in range(count)]


def cases(kind: str, size: int, count: int) -> list[Any]:
    """A batch for one type of problem."""
    return {"Qubo": qubos, "EvidenceProblem": evidence, "PackingProblem": queries}[kind](count, size)


def options_of(method: str, tiny: bool) -> dict[str, Any]:
    """What keeps a search short: the work is the same on both sides."""
    few = 8 if tiny else 1
    return {
        "anneal": {"num_reads": 16 // few, "num_sweeps": 48 // few, "beta_range": (0.001, 0.1)},
        "temper": {"num_reads": 2, "num_sweeps": 64 // few, "beta_range": (0.001, 0.1)},
        "tabu": {"num_reads": 16 // few, "patience": 200 // few},
        "memetic": {"pool_size": 16 // few, "generations": 32 // few},
    }.get(method, {})


def first_difference(found: Any, wanted: Any) -> str | None:
    """What two results of the same problem do not share."""
    import numpy as np

    for name in ("selection", "sample", "samples", "energies", "objective", "energy", "cost"):
        a, b = getattr(found, name), getattr(wanted, name)
        if (a is None) != (b is None) or (a is not None and not np.array_equal(a, b)):
            return name
    if found.certificate != wanted.certificate:
        return "certificate"
    flips = "num_flips"
    if flips in wanted.provenance and not np.array_equal(found.provenance[flips], wanted.provenance[flips]):
        return flips
    return None


def equality(bench: Bench) -> list[dict[str, Any]]:
    """Every method that the device offers, over sizes around the widths of a warp, against the CPU."""
    rows = []
    sizes = (5, 9) if bench.tiny else (5, 31, 32, 33, 64, 100, 150, 200, 256)
    for kind, method in bench.offered:
        if kind.__name__ == "EvidenceProblem" and method != "swap":
            continue
        for size in sizes:
            if not bench.in_time(f"equality {method} n={size}"):
                break
            batch = cases(kind.__name__, size, bench.size(64))
            if kind.__name__ == "Qubo":  # couplings of 8, 16 and 32 bits
                batch += [m for largest in (10_000, 1_000_000) for m in qubos(bench.size(16), size, largest)]
            run = {"method": method, "seed": 7, **options_of(method, bench.tiny)}
            found = bench.ig.solve_many(batch, backend="cuda", **run)
            wanted = bench.ig.solve_many(batch, backend="cpu", **run)
            differences = [
                {"problem": i, "differs": name}
                for i, pair in enumerate(zip(found, wanted, strict=True))
                if (name := first_difference(*pair)) is not None
            ]
            rows.append({"method": method, "n": size, "problems": len(batch), "differences": differences[:5]})
    return rows


def share_of_bound(results: Any, n: int, reads: int, sweeps: int, info: dict[str, Any], seconds: float) -> float:
    """Kernel time against the least that issue allows: 12 warp instructions for 32 attempts, 3n/64 + 25 for a flip."""
    attempts = len(results) * n * reads * sweeps
    flips = sum(int(result.provenance["num_flips"].sum()) for result in results)
    issue = info["multiprocessors"] * 4 * info["clock_hertz"]
    least = (attempts / 32 * 12 + flips * (3 * n / 64 + 25)) / issue
    return least / seconds if seconds > 0 else 0.0


def compare(bench: Bench, name: str, batch: Sequence[Any], run: dict[str, Any]) -> dict[str, Any]:
    """One batch on the device and on every core of the CPU."""
    bench.ig.solve_many(batch, backend="cuda", **run)  # what is made once: images, memory, clocks
    called, kernels, found = bench.timed(lambda: bench.ig.solve_many(batch, backend="cuda", **run))
    few = batch[: max(1, len(batch) // 10)]
    on_cpu, _, _ = bench.timed(lambda: bench.ig.solve_many(few, backend="cpu", **run))
    count = len(batch)
    row = {
        "batch": name,
        "problems": count,
        "call_s": called,
        "kernels_s": kernels,
        "per_s_with_transfers": count / called,
        "per_s_kernels": count / kernels if kernels > 0 else None,
        "cpu_per_s": len(few) / on_cpu,
    }
    if "num_sweeps" in run and run["method"] == "anneal":
        n = len(batch[0])
        row["share_of_bound"] = share_of_bound(
            found, n, run["num_reads"], run["num_sweeps"], bench.report["device"], kernels
        )
    return row


def timings(bench: Bench, kind: str, sizes: Sequence[int], runs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Batches of 10,000."""
    rows = []
    for size in sizes[:1] if bench.tiny else sizes:
        batch = cases(kind, 20 if bench.tiny else size, bench.size(10_000))
        for run in runs:
            name = f"{run['method']} n={size}"
            if bench.in_time(name):
                rows.append(compare(bench, name, batch, run))
    return rows


def runs_of(bench: Bench, kind: str) -> list[dict[str, Any]]:
    """The methods of a type that the device offers itself."""
    own = {"EvidenceProblem": ("swap",), "PackingProblem": ("greedy_plus_max",)}.get(kind)
    return [
        {"method": method, "seed": 7, **options_of(method, bench.tiny)}
        for found, method in bench.offered
        if found.__name__ == kind and (own is None or method in own)
    ]


def limits(bench: Bench) -> list[dict[str, Any]]:
    """For each method the least batch from which the device wins, and both times there."""
    rows = []
    counts = (1, 2) if bench.tiny else (1, 4, 16, 64, 256, 1024, 4096)
    for kind in ("Qubo", "EvidenceProblem", "PackingProblem"):
        all_problems = cases(kind, 20 if bench.tiny else 100, counts[-1])
        for run in runs_of(bench, kind):
            least = None
            for count in counts:
                if not bench.in_time(f"limits {run['method']} x {count}"):
                    break
                batch = all_problems[:count]
                bench.ig.solve_many(batch, backend="cuda", **run)
                device, _, _ = bench.timed(lambda b=batch, r=run: bench.ig.solve_many(b, backend="cuda", **r))
                cpu, _, _ = bench.timed(lambda b=batch, r=run: bench.ig.solve_many(b, backend="cpu", **r))
                if device < cpu:
                    least = count
                    break
            rows.append({"problem": kind, "method": run["method"], "least_batch": least})
    return rows


def graphs(bench: Bench) -> list[dict[str, Any]]:
    """The same small batch again and again: started step by step, and replayed as a graph."""
    rows = []
    for kind, size in (("Qubo", 64), ("EvidenceProblem", 40), ("PackingProblem", 60)):
        batch = cases(kind, 20 if bench.tiny else size, bench.size(64))
        for run in runs_of(bench, kind):
            if not bench.in_time(f"graphs {run['method']}"):
                continue
            row: dict[str, Any] = {"batch": f"{run['method']} n={size}", "problems": len(batch)}
            for name, wanted in (("steps_s", False), ("graph_s", True)):
                bench.native.use_graphs(wanted)
                solve = partial(bench.ig.solve_many, batch, backend="cuda", **run)
                solve()
                solve()  # makes the graph
                row[name] = min(bench.timed(solve)[0] for _ in range(1 if bench.tiny else 5))
            rows.append(row)
    return rows


def signs(n: int) -> Any:
    """A dense model of +-1 couplings."""
    import isinglass as ig
    import numpy as np

    couplings = np.triu(np.random.default_rng(n).integers(0, 2, (n, n)) * 2 - 1, 1)
    return ig.Qubo(couplings.astype(np.float64))


def graph(n: int, degree: int) -> Any:
    """A sparse model of whole coefficients, by random pairs."""
    import isinglass as ig
    import numpy as np

    rng = np.random.default_rng(n)
    pairs = rng.integers(0, n, (2, n * degree // 2))
    i, j = pairs[:, pairs[0] != pairs[1]]
    return ig.Qubo.from_entries(i, j, rng.integers(-50, 51, i.size), n)


def large(bench: Bench) -> list[dict[str, Any]]:
    """One dense model of +-1 couplings, many reads: flips per second against what issue and the rows' way in allow."""
    import numpy as np

    info, rows = bench.report["device"], []
    for n in (300,) if bench.tiny else (1000, 2000, 4000, 8000):
        if not bench.in_time(f"large n={n}"):
            break
        model = signs(n)
        reads, sweeps = (2, 2) if bench.tiny else (2048, 32)
        deviation = np.sqrt(n)  # of a field
        run = {"num_reads": reads, "num_sweeps": sweeps, "seed": 7, "beta_range": (1 / deviation, 8 / deviation)}
        bench.ig.solve(model, "anneal", "cuda", **{**run, "num_reads": 1})  # images, memory, clocks
        called, kernels, found = bench.timed(lambda m=model, r=run: bench.ig.solve(m, "anneal", "cuda", **r))
        flips, attempts = int(found.provenance["num_flips"].sum()), n * reads * sweeps
        issue = info["multiprocessors"] * 4 * info["clock_hertz"]
        # Bytes per second of the second-level cache while the rows fit it, else of device memory: reference values.
        way_in = 5.5e12 if n * n <= 50e6 else 4.8e12
        least = max((attempts / 32 * 12 + flips * (3 * n / 64 + 25)) / issue, flips * n / way_in)
        rows.append(
            {
                "n": n,
                "reads": reads,
                "sweeps": sweeps,
                "call_s": called,
                "kernels_s": kernels,
                "attempts_per_s": attempts / kernels if kernels > 0 else None,
                "flips_per_s": flips / kernels if kernels > 0 else None,
                "share_of_bound": least / kernels if kernels > 0 else None,
            }
        )
    return rows


def size(bench: Bench) -> list[dict[str, Any]]:
    """One large model, dense or sparse, by every method that takes it: is it the CPU's answer, and how fast is it."""
    tiny = bench.tiny
    dense = signs(270 if tiny else 2000)
    sparse = graph(400 if tiny else 100_000, 10)
    wide = sparse if tiny else graph(1_000_000, 6)
    pools = {"pool_size": 16, "generations": 64, "restarts": 8, "patience": 2000}
    cases: list[tuple[Any, str, dict[str, Any]]] = [
        (dense, "temper", {"num_reads": 4, "num_sweeps": 32}),
        (dense, "tabu", {"num_reads": 256, "patience": 2000}),
        (dense, "memetic", pools),
        (sparse, "anneal", {"num_reads": 256, "num_sweeps": 32}),
        (sparse, "temper", {"num_reads": 8, "num_sweeps": 32}),
        (wide, "temper", {"num_reads": 1, "num_sweeps": 4}),
    ]
    if tiny:
        cases = [
            (model, method, {key: max(2, value // (64 if key == "patience" else 16)) for key, value in options.items()})
            for model, method, options in cases
        ]
    rows = []
    for model, method, options in cases:
        name = f"{method} n={len(model)}"
        if not bench.in_time(name):
            continue
        run = {"method": method, "seed": 7, **options}
        if method in ("anneal", "temper"):
            run["beta_range"] = (0.001, 0.1) if model is not dense else (0.02, 0.2)
        found: dict[str, Any] = {}
        seconds: dict[str, float] = {}
        before = bench.native.kernel_seconds()
        for backend in ("cuda", "cpu"):
            began = time.perf_counter()
            found[backend] = bench.ig.solve(model, backend=backend, **run)
            seconds[backend] = time.perf_counter() - began
        rows.append(
            {
                "case": name,
                "layout": found["cuda"].provenance["layout"],
                "cuda_s": seconds["cuda"],
                "kernels_s": bench.native.kernel_seconds() - before,
                "cpu_s": seconds["cpu"],
                "flips": int(found["cuda"].provenance["num_flips"].sum()),
                "differs": first_difference(found["cuda"], found["cpu"]),
            }
        )
    return rows


# Cuts to reach, and seconds allowed for each.
TARGETS: dict[str, tuple[float, tuple[float, ...]]] = {
    "K2000": (10.0, (33_000, 33_300, 33_337)),
    "G22": (10.0, (13_359,)),
    "G55": (60.0, (10_299,)),
    "G56": (60.0, (4_017,)),  # of the same size, with weights of either sign
    "G81": (20.0, (14_060,)),
}


def pool(bench: Bench) -> list[dict[str, Any]]:
    """One pool from embeddings, all of it represented: scaled and summed on the device, as a caller sees it."""
    import numpy as np

    rows = []
    sizes = [(1100, 4, 0.0)] if bench.tiny else [(20_000, 384, 0.0), (100_000, 384, 0.0), (10_000, 384, 1.0)]
    for n, d, facility_location in sizes:
        if not bench.in_time(f"pool of {n}"):
            continue
        rng = np.random.default_rng(n)
        arrays = {
            "costs": rng.integers(20, 200, n),
            "budget": 4096,
            "relevance": rng.random(n),
            "embeddings": (rng.normal(size=(n, d)) + 0.3).astype(np.float32),
            "represented": n,
            "weights": bench.ig.PackingWeights(relevance=1.0, representation=0.5, facility_location=facility_location),
        }
        before = bench.native.kernel_seconds()
        began = time.perf_counter()
        found = bench.ig.solve(bench.ig.PackingProblem(**arrays), backend="cuda")
        seconds, kernels = time.perf_counter() - began, bench.native.kernel_seconds() - before
        lying = {**arrays, "embeddings": bench.ig.DeviceArray.copy_of(arrays["embeddings"])}
        began = time.perf_counter()
        bench.ig.solve(bench.ig.PackingProblem(**lying), backend="cuda")
        in_place = time.perf_counter() - began
        began = time.perf_counter()
        wanted = bench.ig.solve(bench.ig.PackingProblem(**arrays), backend="cpu")
        cpu = time.perf_counter() - began
        difference = first_difference(found, wanted)
        row = {
            "n": n,
            "d": d,
            "facility": facility_location,
            "picks": len(found.selection),
            "cuda_s": seconds,
            "in_place_s": in_place,  # embeddings that lie there
            "kernels_s": kernels,
            "cpu_s": cpu,
        }
        rows.append({**row, "products_per_s": n * n * d / kernels if kernels else None, "differs": difference})
    return rows


def targets(bench: Bench) -> list[dict[str, Any]]:
    """Seconds to cuts of public graphs: annealing and memetic search on the device, on the CPU "auto".

    The CPU has two threads. Without a device it is the CPU's side alone.
    """
    import csv

    from isinglass.problems.formats import read_qubo

    if bench.tiny:
        return []
    if not (named := os.environ.get("ISINGLASS_DATA")):
        bench.report["left_out"].append("targets: ISINGLASS_DATA is unset")
        return []
    with (Path(named) / "qubo" / "best_known.tsv").open() as lines:
        files = {row["instance"]: row["file"] for row in csv.DictReader(lines, delimiter="\t")}
    runs: list[tuple[str, dict[str, Any]]] = [
        ("cuda", {"method": "anneal", "num_reads": 1 << 20, "num_sweeps": 2000}),
        ("cuda", {"method": "memetic"}),
        ("cpu", {"method": "auto", "threads": 2}),
    ]
    most_memetic = 2000  # variables; the whole script is to take minutes
    rows = []
    for name, (seconds, cuts) in TARGETS.items():
        if name not in files:
            bench.report["left_out"].append(f"targets: {name} is not among the data")
            continue
        model = read_qubo(Path(named) / "qubo" / files[name])
        for cut in cuts:
            for backend, run in runs:
                if backend == "cuda" and not bench.native:
                    continue
                if run["method"] == "memetic" and len(model) > most_memetic:
                    continue
                if not bench.in_time(f"{name} {cut} on {backend} by {run['method']}"):
                    continue
                began = time.perf_counter()
                found = bench.ig.solve(model, backend=backend, seed=1, target_energy=-cut, time_limit=seconds, **run)
                rows.append(
                    {
                        "graph": name,
                        "cut": cut,
                        "backend": backend,
                        "method": found.provenance["method"],
                        "found": round(-found.energy),
                        "seconds": time.perf_counter() - began,
                        "reached": -found.energy >= cut,
                    }
                )
    return rows


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Rows under their common headings."""
    if not rows:
        return "(nothing)"
    heads = list(dict.fromkeys(key for row in rows for key in row))
    text = [[_cell(row.get(head)) for head in heads] for row in rows]
    widths = [max(len(line[k]) for line in [heads, *text]) for k in range(len(heads))]
    return "\n".join("  ".join(cell.rjust(w) for cell, w in zip(line, widths, strict=True)) for line in [heads, *text])


def _cell(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else "-" if value is None else str(value)


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 1 when an answer differs from the CPU's, 2 when there is no device (but for section targets alone)."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--sections", default=",".join(SECTIONS), help="some of: " + ", ".join(SECTIONS))
    parser.add_argument("--seconds", type=float, default=240, help="nothing new begins after this many")
    parser.add_argument("--output", type=Path, help="where the JSON goes")
    parser.add_argument("--built", type=Path, help="folder of the build of an earlier run")
    parser.add_argument("--here", action="store_true", help="with the package that is importable: nothing is built")
    parser.add_argument("--tiny", action="store_true", help="a handful of small problems, to test this script")
    given = parser.parse_args(argv)
    if not given.here:
        site = given.built / "site" if given.built else build(ROOT / "build" / "gpu")
        arguments = list(sys.argv[1:] if argv is None else argv)
        environment = {**os.environ, "PYTHONPATH": str(site)}
        return subprocess.run([sys.executable, __file__, *arguments, "--here"], env=environment, check=False).returncode

    import isinglass as ig

    state = ig.available_backends()["cuda"]
    if not state.available:
        print(f"no CUDA device: {state.reason}")
        if given.sections != "targets":
            return 2
    bench = Bench(given.seconds, given.tiny)
    parts: dict[str, Callable[[], list[dict[str, Any]]]] = {
        "equality": lambda: equality(bench),
        "qubo": lambda: timings(bench, "Qubo", (64, 100, 150), runs_of(bench, "Qubo")),
        "evidence": lambda: timings(bench, "EvidenceProblem", (40, 100), runs_of(bench, "EvidenceProblem")),
        "packing": lambda: timings(bench, "PackingProblem", (60, 200), runs_of(bench, "PackingProblem")),
        "limits": lambda: limits(bench),
        "graphs": lambda: graphs(bench),
        "large": lambda: large(bench),
        "size": lambda: size(bench),
        "pool": lambda: pool(bench),
        "targets": lambda: targets(bench),
    }
    for name in given.sections.split(","):
        began = time.perf_counter()
        rows = bench.report[name] = parts[name]()
        print(f"\n{name} ({time.perf_counter() - began:.1f} s)\n{table(rows)}", flush=True)
        if given.output:  # after each part: a run that is cut short leaves what it had
            given.output.write_text(json.dumps(bench.report, indent=1, default=str) + "\n")
    if bench.report["left_out"]:
        print("\nleft out: " + ", ".join(bench.report["left_out"]))
    differs = any(row["differs"] for name in ("size", "pool") for row in bench.report.get(name, []))
    return int(differs or any(row["differences"] for row in bench.report.get("equality", [])))


if __name__ == "__main__":
    sys.exit(main())
