"""Solvers side by side, ablations, variants of an experiment file, and the best fixed configuration."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from isinglass import EvidenceWeights, cli
from isinglass.experiments.evaluation import evaluate, evidence_problems
from isinglass.experiments.factorial import read_experiment, run_experiment
from isinglass.experiments.solvers import compare_solvers, parse_solver
from isinglass.experiments.variants import ablations, best_fixed, read_variant
from isinglass.solving import solve

from tests.lake_question import LAKE


@pytest.fixture
def questions(tmp_path: Any) -> Any:
    path = tmp_path / "lake.jsonl"
    other = LAKE | {"id": "mill", "question": "Is Old Mill a ruin by the sea?"}
    path.write_text("".join(json.dumps(record) + "\n" for record in (LAKE, other)))
    return path


def test_solvers_are_compared_with_proved_optima(questions: Any) -> None:
    problems = evidence_problems(questions, max_passages=2)
    calls = []
    compared = compare_solvers(
        problems, ["cpu:exact", "cpu:swap", "cpu:memetic", "cpu:descent"], progress=lambda *at: calls.append(at)
    )
    assert (compared.problems, compared.references) == (2, 2)
    assert calls[-1] == (10, 10)
    exact, swap, memetic, descent = compared.comparisons
    assert (exact.optimal, exact.proved, exact.feasible, exact.gap_max) == (1, 1, 1, 0)
    assert (swap.optimal, swap.proved, swap.feasible) == (1, 0, 1)
    assert memetic.optimal == 1
    assert 0 < exact.p50 <= exact.p95 <= exact.p99
    gaps = []
    for problem in problems:
        best = solve(problem, "exact").objective
        found = problem.objective(solve(problem, "descent", seed=0).selection)  # type: ignore[arg-type]
        gaps.append((best - found) / abs(best))  # type: ignore[operator,arg-type]
    assert descent.gap_mean == pytest.approx(np.mean(gaps), abs=1e-12)
    assert descent.gap_max == pytest.approx(max(gaps), abs=1e-12)


def test_solvers_are_named_by_back_end_and_method(questions: Any) -> None:
    assert parse_solver("cpu:swap") == ("cpu", "swap")
    assert parse_solver("neal") == ("neal", "auto")
    for name, message in (("cpu:swop", "no method 'swop'"), ("gpu:swap", "unknown backend 'gpu'")):
        with pytest.raises(ValueError, match=message):
            compare_solvers(evidence_problems(questions), [name])
    with pytest.raises(ValueError, match="problems must hold at least one"):
        compare_solvers([], ["cpu:swap"])


def test_the_command_line_prints_writes_and_draws(questions: Any, tmp_path: Any, capsys: Any) -> None:
    arguments = ["evaluate", str(questions), "--retriever", "none", "--max-passages", "2"]
    out, figure = tmp_path / "out.json", tmp_path / "figure.png"
    assert cli.main([*arguments, "--solvers", "cpu:exact,cpu:swap", "--figure", str(figure)]) == 0
    printed = capsys.readouterr().out
    assert "2 problems, 2 with a proved optimum" in printed
    assert max(map(len, printed.splitlines())) < 80
    assert figure.read_bytes().startswith(b"\x89PNG")
    assert cli.main([*arguments, "--solvers", "cpu:swap", "-o", str(out)]) == 0
    assert json.loads(out.read_text())["solvers"]["cpu:swap"]["optimal"] == 1
    assert cli.main([*arguments, "--solvers", "cpu:swop"]) == 2
    assert cli.main([*arguments, "--figure", str(figure)]) == 2
    assert "--figure belongs to --solvers" in capsys.readouterr().err


def test_ablations_take_out_what_they_say(questions: Any) -> None:
    found = ablations(EvidenceWeights(mu=3))
    weights = {name: options["weights"] for name, (_, options) in found.items()}
    assert weights["full"] == EvidenceWeights(mu=3)
    assert weights["- unsupported penalty"].kappa == 0
    assert weights["- support strength"].eta == weights["- support strength"].gamma_direct == 0
    assert weights["relevance + coverage"].alpha == weights["relevance + coverage"].gamma_direct == 10
    assert weights["relevance + coverage"].beta == weights["relevance + coverage"].eta == 0
    evaluation = evaluate(questions, policies=["topk"], budgets=None, retriever="none", variants=found, max_passages=2)
    assert [policy for policy, _ in evaluation.rows] == ["topk", *found]
    with pytest.raises(ValueError, match="variants must have names of their own, got that of the policy 'topk'"):
        evaluate(questions, policies=["topk"], budgets=None, variants={"topk": ("qubo", {})})


def test_ablate_on_the_command_line(questions: Any, capsys: Any) -> None:
    arguments = ["evaluate", str(questions), "--retriever", "none", "--policies", "qubo", "--max-passages", "2"]
    assert cli.main([*arguments, "--ablate", "--baseline", "full"]) == 0
    printed = capsys.readouterr().out
    assert "- complementarity" in printed
    assert "difference to full" in printed


def test_an_experiment_file_has_variants(questions: Any, tmp_path: Any) -> None:
    config = tmp_path / "experiment.toml"
    config.write_text(
        f"""
        files = ["{questions.name}"]
        policies = ["topk"]
        budgets = [1000]
        candidates = "sentences"
        render = "titled"
        max_passages = 2
        requirements = "oracle"
        retrievers = [{{name = "all", index = "none"}}]
        [[variants]]
        name = "qubo C1"
        preset = "C1"
        [[variants]]
        name = "one"
        max_items = 1
        weights = {{mu = 1}}
        penalties = {{lambda_K = 15}}
        """
    )
    outcome = run_experiment(read_experiment(config))
    rows = outcome.rows
    best = outcome.best_variant()
    assert best is not None
    assert best.name in ("qubo C1", "one")
    assert outcome.as_dict()["best_variant"]["dev"] == best.dev
    assert list(dict.fromkeys(rows["policy"])) == ["topk", "qubo C1", "one"]
    size = dict(zip(zip(rows["question"], rows["policy"]), rows["size"]))
    assert (size["lake", "qubo C1"], size["lake", "one"]) == (2, 1)
    fact = dict(zip(zip(rows["question"], rows["policy"]), rows["supporting_fact_precision"]))
    assert fact["lake", "qubo C1"] == 1  # told by the oracle
    for line, message in (
        ('requirements = "gold"', "requirements must be one of"),
        ('variants = [{name = "topk"}]', "variants must have names of their own"),
        ('variants = [{policy = "qubo"}]', "a variant must be a table with a name"),
    ):
        config.write_text(f'files = ["{questions.name}"]\npolicies = ["topk"]\nbudgets = [1]\n{line}\n')
        with pytest.raises(ValueError, match=message):
            read_experiment(config)


def test_variants_refuse_what_their_policy_lacks() -> None:
    assert read_variant({"name": "a", "policy": "mmr", "relevance_weight": 0.5}) == (
        "a",
        ("mmr", {"relevance_weight": 0.5}),
    )
    with pytest.raises(ValueError, match="variant 'a': policy 'mmr' has no option 'preset'"):
        read_variant({"name": "a", "policy": "mmr", "preset": "C1"})
    with pytest.raises(ValueError, match=r"variant 'a': .*'nu'"):
        read_variant({"name": "a", "weights": {"nu": 1}})


def test_the_best_fixed_configuration_is_chosen_on_one_half_and_told_on_the_other() -> None:
    ids = [f"q{i}" for i in range(400)]
    rng = np.random.default_rng(1)
    noise = {f"c{k}": rng.random(400) for k in range(3)}
    noise["good"] = rng.random(400) + 0.3
    noise["good"][7] = np.nan
    best = best_fixed(ids, noise)
    assert best.name == "good"
    assert 0.7 < best.test.estimate < 0.9
    assert best.test.low < best.test.estimate < best.test.high
    assert 150 < best.test.n < 250
    assert best_fixed(ids[:200], {n: v[:200] for n, v in noise.items()}).name == "good"
    ties = best_fixed(ids, {"first": np.ones(400), "second": np.ones(400)})
    assert ties.name == "first"
