"""Weights of requirement-aware selection learnt from questions with supporting facts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from isinglass.diagnosis import supporting_fact_score
from isinglass.experiments.datasets import Question, read_questions
from isinglass.experiments.evaluation import as_retrieved
from isinglass.experiments.retrieval import by_retriever
from isinglass.experiments.statistics import Interval, bootstrap_mean, paired_bootstrap
from isinglass.measure import prepare
from isinglass.measure.requirements import Labeller, evidence_problem, rule_requirements
from isinglass.problems import gate
from isinglass.problems.evidence import EvidenceProblem, EvidenceWeights
from isinglass.solving import solve_many

_FACTORS = (0.0, 0.25, 0.5, 2.0, 4.0)


@dataclass(frozen=True)
class Labelled:
    """A question's problem, and the supporting facts that each candidate gives.

    Attributes
    ----------
    problem : EvidenceProblem
    facts : tuple of frozenset, length n
        Sentences of the file, as (title, number), of which half stands in the candidate.
    gold : frozenset
        The supporting facts.
    """

    problem: EvidenceProblem
    facts: tuple[frozenset[tuple[str, int]], ...]
    gold: frozenset[tuple[str, int]]


@dataclass(frozen=True)
class Fit:
    """What `fit` found.

    Attributes
    ----------
    weights : EvidenceWeights
        Best of the trials on all questions.
    max_passages : int
    questions, trials, folds, seed : int
    default : Interval
        Mean supporting-fact F1 of the default weights.
    held_out : Interval
        That of the weights fitted without the fold that they are measured on.
    gain : Interval
        Held-out less default, question by question.
    fold_weights : tuple of EvidenceWeights
        What each fold chose.
    """

    weights: EvidenceWeights
    max_passages: int
    questions: int
    trials: int
    folds: int
    seed: int
    default: Interval
    held_out: Interval
    gain: Interval
    fold_weights: tuple[EvidenceWeights, ...]

    def as_dict(self) -> dict[str, Any]:
        """For JSON: a preset that policy ``qubo`` takes, with the report of the fit beside it."""
        report: dict[str, Any] = {name: getattr(self, name) for name in ("questions", "trials", "folds", "seed")} | {
            name: getattr(self, name)._asdict() for name in ("default", "held_out", "gain")
        }
        report["fold_weights"] = [asdict(weights) for weights in self.fold_weights]
        return {"weights": asdict(self.weights), "max_passages": self.max_passages, "fit": report}


def labelled_problems(
    paths: str | Path | Sequence[str | Path],
    *,
    max_passages: int = 5,
    requirements: Labeller = rule_requirements,
    retriever: str = "none",
    top_k: int | None = None,
    limit: int | None = None,
) -> list[Labelled]:
    """The sentences of each question with supporting facts, as a problem; parameters as for `evaluate`."""
    found = []
    for path in [paths] if isinstance(paths, (str, Path)) else paths:
        questions = [q for q in read_questions(path, limit=limit).questions if q.supporting_facts]
        retrieve = by_retriever(questions, retriever, pool="own", top_k=top_k)
        found += [_labelled(question, retrieve(question), max_passages, requirements) for question in questions]
    return found


def _labelled(question: Question, retrieved: Any, max_passages: int, requirements: Labeller) -> Labelled:
    pool = prepare(question.question, as_retrieved(retrieved), candidates="sentences", render="titled")
    items = np.flatnonzero((pool.first_copy == np.arange(len(pool))) & ~pool.blank)
    facts = []
    for i in items.tolist():
        low, high = pool.spans[i].tolist()
        document = retrieved[pool.passage[i]]
        facts.append(
            frozenset(
                (document.title, number)
                for number, (start, end) in enumerate(document.sentences)
                if 0 < end - start <= 2 * (min(end, high) - max(start, low))
            )
        )
    problem = evidence_problem(pool, requirements(pool), items=items, max_passages=max_passages)
    return Labelled(problem, tuple(facts), frozenset(question.supporting_facts or ()))


def trial_weights(trials: int, seed: int) -> list[EvidenceWeights]:
    """The weights that a fit tries: the default, each weight off or at 1/4, 1/2, 2, 4 times, then random ones.

    The random ones draw every weight log-uniformly from 1/4 to 4 times its default, and switch each off in one of ten.
    They depend on nothing but the seed, so that a fold's choice knows nothing of its held-out questions.
    """
    default = EvidenceWeights()
    names = [field.name for field in fields(default)]
    tried = [default]
    tried += [replace(default, **{n: f * getattr(default, n)}) for n in names for f in _FACTORS]
    rng = np.random.default_rng(seed)
    while len(tried) < trials:
        factor = np.exp(rng.uniform(-np.log(4), np.log(4), len(names))) * (rng.random(len(names)) > 0.1)
        tried.append(EvidenceWeights(**{n: float(f) * getattr(default, n) for n, f in zip(names, factor, strict=True)}))
    return tried[:trials]


def fit(
    labelled: Sequence[Labelled],
    *,
    trials: int = 150,
    folds: int = 5,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> Fit:
    """Choose the weights whose proved optima have the best supporting-fact F1, and say what that is worth elsewhere.

    Every trial solves every problem to proved optimality. In each fold the trial with the best mean on the other folds
    is measured on the held-out one; the report compares these with the default weights on the same questions.

    Parameters
    ----------
    labelled : sequence of Labelled, length q
    trials : int
        Weights tried, see `trial_weights`.
    folds : int
        At least 2, at most q.
    seed : int
        Of trials, folds and bootstrap.
    progress : callable, optional
        Called with (trials done, trials).

    Returns
    -------
    Fit
    """
    if len(labelled) < 2:
        raise ValueError(f"labelled must hold at least two questions with supporting facts, got {len(labelled)}")
    gate.integer("trials", trials, low=1)
    gate.integer("folds", folds, low=2, high=len(labelled))
    tried = trial_weights(trials, seed)
    scores = np.empty((len(tried), len(labelled)))
    for t, weights in enumerate(tried):
        results = solve_many([_weighted(one.problem, weights) for one in labelled], "exact", seed=seed)
        for i, (one, result) in enumerate(zip(labelled, results, strict=True)):
            assert result.selection is not None
            given = frozenset().union(*(one.facts[k] for k in result.selection.tolist()))
            scores[t, i] = supporting_fact_score(given, one.gold).f1
        if progress is not None:
            progress(t + 1, len(tried))
    fold = np.random.default_rng(seed).permutation(len(labelled)) % folds
    held_out = np.empty(len(labelled))
    chosen = []
    for k in range(folds):
        best = _best(scores[:, fold != k])
        chosen.append(tried[best])
        held_out[fold == k] = scores[best, fold == k]
    return Fit(
        weights=tried[_best(scores)],
        max_passages=labelled[0].problem.max_passages,
        questions=len(labelled),
        trials=len(tried),
        folds=folds,
        seed=seed,
        default=bootstrap_mean(scores[0], seed=seed),
        held_out=bootstrap_mean(held_out, seed=seed),
        gain=paired_bootstrap(held_out, scores[0], seed=seed),
        fold_weights=tuple(chosen),
    )


def _best(scores: npt.NDArray[np.float64]) -> int:
    """The first of the best: the default where nothing beats it."""
    return int(scores.mean(axis=1).argmax())


def _weighted(problem: EvidenceProblem, weights: EvidenceWeights) -> EvidenceProblem:
    return EvidenceProblem(
        problem.relevance,
        problem.support,
        problem.requirement_weights,
        problem.redundancy,
        problem.complementarity,
        problem.max_passages,
        weights,
    )
