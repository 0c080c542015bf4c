"""The script for the day a device is at hand, on host emulation in a tiny mode: its own logic, no timing of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench import gpu
from tests.cuda_emulated import emulation


def test_emulated_gpu_script_compares_times_and_reports(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "gpu.json"
    with emulation() as native:
        assert gpu.main(["--here", "--tiny", "--output", str(output)]) == 0
        native.devices().unavailable = "no CUDA driver is installed"
        assert gpu.main(["--here", "--tiny"]) == 2
        assert gpu.main(["--here", "--tiny", "--sections", "targets"]) == 0  # the CPU's side
        native.devices().unavailable = ""
    report = json.loads(output.read_text())
    assert report["device"]["name"] == "emulated 0"
    assert report["left_out"] == []
    assert {row["method"] for row in report["equality"]} >= {"anneal", "temper", "swap", "greedy_plus_max"}
    assert all(row["differences"] == [] and row["problems"] > 0 for row in report["equality"])
    for section in ("qubo", "evidence", "packing"):
        assert all(row["per_s_with_transfers"] > 0 and row["kernels_s"] > 0 for row in report[section])
        assert report[section]
    assert any(row.get("share_of_bound", 0) > 0 for row in report["qubo"])
    assert {row["method"] for row in report["limits"]} >= {"anneal", "swap", "greedy_plus_max"}
    assert all(row["flips_per_s"] > 0 and row["n"] == 300 for row in report["large"])
    assert report["large"]
    assert {(row["case"], row["layout"]) for row in report["size"]} == {
        ("temper n=270", "blocks"),
        ("tabu n=270", "blocks"),
        ("memetic n=270", "blocks"),
        ("anneal n=400", "lanes"),
        ("temper n=400", "lanes"),
    }
    assert all(row["differs"] is None and row["flips"] > 0 for row in report["size"])
    assert [(row["n"], row["differs"]) for row in report["pool"]] == [(1100, None)]
    text = capsys.readouterr().out
    assert "per_s_with_transfers" in text
    assert "no CUDA device: no CUDA driver is installed" in text


def test_emulated_gpu_script_sees_a_difference_and_a_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    with emulation():
        monkeypatch.setattr(gpu, "first_difference", lambda found, wanted: "samples")
        assert gpu.main(["--here", "--tiny", "--sections", "equality"]) == 1
        bench = gpu.Bench(0.0, tiny=True)
        assert gpu.equality(bench) == []
        assert "equality anneal n=5" in bench.report["left_out"]
