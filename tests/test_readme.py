"""The README does what it says: its Python blocks run, in order, and print what stands below them."""

from __future__ import annotations

import contextlib
import io
import json
import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest
from isinglass import Qubo, cli
from isinglass.experiments.evaluation import evaluate
from isinglass.policies import POLICIES
from isinglass.problems.formats import write_qubo

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def names() -> dict[str, Any]:
    """What the blocks before have defined, as for a reader who pastes one after the other."""
    return {}


def python_blocks() -> list[Any]:
    found = []
    for i, (language, code) in enumerate(BLOCKS):
        if language == "python":
            printed = BLOCKS[i + 1][1] if i + 1 < len(BLOCKS) and BLOCKS[i + 1][0] == "text" else ""
            found.append(pytest.param(code, printed, id=f"block{len(found) + 1}"))
    return found


@pytest.mark.parametrize(("code", "printed"), python_blocks())
def test_python_block_prints_what_is_shown(code: str, printed: str, names: dict[str, Any]) -> None:
    if "numba" in code:
        pytest.importorskip("numba", reason="the block needs numba (extra numba)")
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(compile(code, "README.md", "exec"), names)
    assert out.getvalue() == printed


def commands() -> list[str]:
    lines = [line for language, block in BLOCKS if language == "sh" for line in block.splitlines()]
    return [line for line in lines if line.startswith("isinglass ")]


@pytest.fixture(scope="module")
def folder(names: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the commands run, in order, too: one reads what another wrote."""
    folder = tmp_path_factory.mktemp("readme")
    lines = (json.dumps(passage) for passage in names["passages"])
    (folder / "passages.jsonl").write_text("\n".join(lines), encoding="utf-8")
    write_qubo(Qubo(names["Q"]), folder / "model.qubo")
    (folder / "python").symlink_to(ROOT / "python")
    return folder


@pytest.mark.parametrize("command", commands())
def test_command_runs(command: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    assert cli.main(shlex.split(command)[1:]) == 0


def test_set_up_lines_are_whole_and_name_extras_that_exist() -> None:
    with open(ROOT / "pyproject.toml", "rb") as file:
        extras = set(tomllib.load(file)["project"]["optional-dependencies"])
    set_up = [block.strip() for language, block in BLOCKS if language == "sh" and "venv" in block]
    assert [line.count("\n") for line in set_up] == [0, 0]
    assert set_up[0].endswith("isinglass demo")
    assert set_up[1].endswith("pytest")
    named = set(re.findall(r"'\.\[(\w+)\]'", "\n".join(set_up)))
    assert named == {"app", "test"}
    assert named <= extras


def test_every_policy_is_described() -> None:
    table = README.split("## Policies")[1].split("##")[0]
    assert set(re.findall(r"^\| `([\w-]+)`", table, re.MULTILINE)) == set(POLICIES)


def test_every_place_on_the_map_exists() -> None:
    table = README.split("## Map")[1].split("## Status")[0]
    rows = re.findall(r"^\|([^|]*)\|", table, re.MULTILINE)
    places = [place for row in rows for place in re.findall(r"`([^`]+)`", row)]
    assert places
    assert [place for place in places if not (ROOT / place).exists()] == []


def test_figures_are_what_evaluate_finds(data: Path) -> None:
    rows = re.findall(r"^\| `(\w+)` \| (0\.\d+) \| (0\.\d+) \| (0\.\d+) \| (\d+\.\d) \|$", README, re.MULTILINE)
    assert len(rows) == 4
    evaluation = evaluate(
        data / "qa" / "hotpotqa_dev.jsonl.gz",
        policies=[row[0] for row in rows],
        budgets=160,
        measure="p1",
        runs=[data / "runs" / "hotpotqa_dev_own_bm25.jsonl"],
    )
    assert len(evaluation.ids) == 958
    for policy, answer, coverage, all_gold, tokens in rows:
        means = evaluation.means(policy, 160)
        found = (means["answer_in_context.p1"], means["gold_doc_coverage"], means["all_gold_in_context"])
        assert tuple(f"{value:.4f}" for value in found) == (answer, coverage, all_gold)
        assert f"{means['tokens']:.1f}" == tokens
