"""`isinglass solve` and `isinglass backends`: any file, any method, any back end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import isinglass as ig
import numpy as np
import pytest
from isinglass.cli import main
from isinglass.problems.formats import write_qubo

from tests.qubo_cases import dense, optimum

QUBO = dense(9, seed=2)


@pytest.fixture
def model(tmp_path: Path) -> str:
    path = tmp_path / "model.coo"
    write_qubo(QUBO, path)
    return str(path)


def solved(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert main(["solve", *arguments, "--json"]) == 0
    value: dict[str, Any] = json.loads(capsys.readouterr().out)
    return value


@pytest.mark.parametrize("backend", ["auto", "cpu", "numpy", "neal", "dwave-tabu", "openjij"])
def test_every_local_back_end_takes_the_same_line(backend: str, model: str, capsys: pytest.CaptureFixture[str]) -> None:
    if not ig.available_backends().get(backend, ig.Availability(True, None, None)).available:
        pytest.skip(f"back end {backend} is not installed")
    method = ["--method", "anneal"] if backend in ("auto", "cpu", "numpy") else []
    value = solved(capsys, model, *method, "--backend", backend, "--num-reads", "5", "--seed", "7")
    assert value["energy"] == optimum(QUBO) == QUBO.energy(value["sample"])
    assert len(value["energies"]) == 5
    assert value["provenance"]["backend"] == ("cpu" if backend == "auto" else backend)
    assert value["certificate"]["upper_bound"] is None


def test_a_proof_is_printed(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    value = solved(capsys, model, "--method", "exact", "--num-solutions", "3")
    assert (value["status"], value["certificate"]["gap"]) == ("optimal", 0.0)
    assert value["energies"] == sorted(value["energies"])
    assert len(value["samples"]) == 3
    assert main(["solve", model, "--method", "exact"]) == 0
    shown = capsys.readouterr().out
    bits = "".join(map(str, value["sample"]))
    for words in ("no energy below", "optimal", "exact", bits):
        assert words in shown


def test_numbers_that_json_lacks_become_null(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "zeros.coo"
    write_qubo(ig.Qubo(np.zeros((3, 3))), path)
    value = solved(capsys, str(path), "--method", "anneal", "--num-reads", "2")
    assert value["energy"] == 0
    assert value["provenance"]["betas"][0] is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--backend", "neall"], "unknown backend 'neall': did you mean 'neal'"),
        (["--backend", "neal", "--target", "3"], "backend 'neal' cannot honour option 'target_energy'"),
        (["--backend", "dwave", "--seed", "3"], "backend 'dwave'"),
        (["--method", "exact", "--num-reads", "3"], "method 'exact' has no option 'num_reads'"),
        (["--method", "exact", "--backend", "neal"], "backend 'neal' has no method 'exact'"),
        (["--format", "txt"], "format must be one of"),
    ],
)
def test_what_cannot_be_done_is_said(
    arguments: list[str], message: str, model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["solve", model, *arguments]) == 2
    assert message in capsys.readouterr().err


def test_backends_lists_every_name_with_its_reason(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["backends", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert {"cpu", "numpy", "neal", "dwave-tabu", "dwave", "leap", "openjij"} <= set(listed)
    for state in listed.values():
        assert state["device"] if state["available"] else state["reason"]
