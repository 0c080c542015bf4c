"""Learning the weights of requirement-aware selection: trials, folds, the preset, and what it says of itself."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from isinglass import EvidenceProblem, EvidenceWeights, cli
from isinglass.diagnosis import supporting_fact_score
from isinglass.experiments.fitting import Labelled, fit, labelled_problems, trial_weights
from isinglass.measure import prepare
from isinglass.policies import choose
from isinglass.solving import solve

from tests.lake_question import LAKE


def written(tmp_path: Any, count: int = 4) -> Any:
    path = tmp_path / "questions.jsonl"
    asked = [
        LAKE | {"id": f"q{i}", "question": q}
        for i, q in enumerate(["Which river feeds Blue Lake?", "Is it short?"] * 9)
    ]
    path.write_text("".join(json.dumps(record) + "\n" for record in asked[:count]))
    return path


def planted(count: int, seed: int = 0) -> list[Labelled]:
    """Problems whose gold is the least relevant passage: weights without relevance find it, the default does not."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        relevance = rng.random(8)
        support = np.zeros((1, 8), dtype=np.int8)
        gold = int(relevance.argmin())
        support[0, gold] = 1
        problem = EvidenceProblem(relevance * 4, support, [0.5], max_passages=1)
        found.append(Labelled(problem, tuple(frozenset({("t", i)}) for i in range(8)), frozenset({("t", gold)})))
    return found


def test_facts_and_problems_of_a_file(tmp_path: Any) -> None:
    first, *_ = labelled_problems(written(tmp_path), max_passages=2)
    assert first.gold == {("Blue Lake", 1), ("Grey Burn", 0), ("Grey Burn", 9)}
    assert [sorted(facts) for facts in first.facts[:3]] == [[("Blue Lake", 0)], [("Blue Lake", 1)], [("Old Mill", 0)]]
    assert first.facts[3] == {("Old Mill", 2)}  # the empty sentence keeps its number
    assert first.problem.max_passages == 2


def test_trials_start_with_the_default_and_depend_on_the_seed_alone() -> None:
    tried = trial_weights(60, seed=3)
    assert len(tried) == 60
    assert tried[0] == EvidenceWeights()
    assert tried[1] == EvidenceWeights(alpha=0)
    assert tried == trial_weights(60, seed=3)
    assert tried[50:] != trial_weights(60, seed=4)[50:]
    assert trial_weights(2, seed=0) == tried[:2]


def test_a_fit_finds_planted_weights_and_measures_them_on_held_out_questions() -> None:
    labelled = planted(40)
    found = fit(labelled, trials=60, folds=4)
    assert found.default.estimate < 0.5
    assert found.held_out.estimate == 1
    assert found.gain.low > 0
    assert found.gain.estimate == pytest.approx(found.held_out.estimate - found.default.estimate)
    assert len(found.fold_weights) == 4
    for one in labelled:
        problem = EvidenceProblem(
            one.problem.relevance, one.problem.support, one.problem.requirement_weights, max_passages=1,
            weights=found.weights,
        )  # fmt: skip
        chosen = solve(problem, "exact").selection
        given = set().union(*(one.facts[i] for i in chosen))  # type: ignore[union-attr]
        assert supporting_fact_score(given, one.gold).f1 == 1
    assert fit(labelled, trials=60, folds=4) == found


def test_a_fit_that_finds_nothing_says_so() -> None:
    rng = np.random.default_rng(2)
    labelled = [
        Labelled(one.problem, one.facts, frozenset({("t", int(rng.integers(8)))})) for one in planted(60, seed=1)
    ]
    found = fit(labelled, trials=60, folds=5)
    assert found.gain.low <= 0
    # The best of many trials on the same questions would have claimed more than what holds on new ones.
    assert found.held_out.estimate <= 0.3


@pytest.mark.parametrize(
    ("labelled", "options", "message"),
    [
        (1, {}, "at least two questions with supporting facts, got 1"),
        (4, {"folds": 1}, r"folds must be in \[2, 4\], got 1"),
        (4, {"folds": 5}, r"folds must be in \[2, 4\], got 5"),
        (4, {"trials": 0}, "trials must be >= 1, got 0"),
    ],
)
def test_bad_fits(labelled: int, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        fit(planted(labelled), **{"folds": 2, **options})


def test_the_command_saves_a_preset_that_the_policy_takes(tmp_path: Any, capsys: Any) -> None:
    out = tmp_path / "preset.json"
    arguments = ["fit", str(written(tmp_path)), "--trials", "10", "--folds", "2", "--max-passages", "2"]
    assert cli.main(arguments) == 0
    printed = capsys.readouterr().out
    assert "supporting-fact F1 on 4 questions; 10 trials, 2 folds" in printed
    assert "gain on new questions" in printed
    assert "alpha = " in printed
    assert cli.main([*arguments, "-o", str(out)]) == 0
    saved = json.loads(out.read_text())
    assert set(saved) == {"weights", "max_passages", "fit"}
    pool = prepare("Which river feeds Blue Lake?", ["The river feeds it.", "A lake.", "Blue."])
    own = EvidenceWeights(**saved["weights"])
    assert choose(pool, "qubo", 99, preset=str(out)).order == choose(pool, "qubo", 99, weights=own, max_items=2).order


def test_a_file_that_is_no_preset_is_named(tmp_path: Any) -> None:
    pool = prepare("Which river?", ["The river."])
    for content in ("{", "[]", "{}", '{"weights": {"nu": 1}, "max_passages": 2}', '{"weights": {}, "max_passages": 0}'):
        path = tmp_path / "preset.json"
        path.write_text(content)
        with pytest.raises(ValueError, match=r"preset.json: expected a preset with weights and max_passages"):
            choose(pool, "qubo", 99, preset=str(path))
    with pytest.raises(FileNotFoundError):
        choose(pool, "qubo", 99, preset=str(tmp_path / "none.json"))
