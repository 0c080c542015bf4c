"""Policies that choose by what an answer requires, and the baselines of requirement-aware selection."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from isinglass.basket import Basket
from isinglass.measure.bridge import bridge_relevance
from isinglass.measure.calibration import calibrate
from isinglass.measure.lexical import FloatArray
from isinglass.measure.pool import MEASURES, Pool, one_of
from isinglass.measure.requirements import (
    Labeller,
    RequirementCache,
    Requirements,
    candidate_keys,
    evidence_problem,
    rule_requirements,
)
from isinglass.problems import gate
from isinglass.problems.evidence import EvidencePenalties, EvidenceWeights, preset
from isinglass.solving import solve

_CONFIGURATION = ("weights", "penalties", "max_passages")


def configuration(given: str | Mapping[str, Any] | None) -> dict[str, Any]:
    """Weights, penalties and max_passages of a preset: its name, a file by `isinglass fit`, or a mapping of some.

    Raises
    ------
    ValueError
        For an unknown name or key, or a file that is no preset.
    OSError
        If the file cannot be opened.
    """
    if isinstance(given, str) and given.endswith(".json"):
        return preset("baseline") | _read_preset(Path(given))
    if given is None or isinstance(given, str):
        return preset(given or "baseline")
    if not isinstance(given, Mapping):
        raise ValueError(f"preset must be a name or a mapping, got {given!r}")
    for name in given:
        one_of("key of preset", name, _CONFIGURATION)
    return preset("baseline") | dict(given)


def _read_preset(path: Path) -> dict[str, Any]:
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        return {
            "weights": EvidenceWeights(**record["weights"]),
            "max_passages": gate.integer("max_passages", record["max_passages"], low=1),
        }
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path}: expected a preset with weights and max_passages, got {error!r}") from None


def label(pool: Pool, requirements: Labeller | None) -> Requirements:
    """The requirements of a pool by a labeller; None: by rules."""
    labeller = rule_requirements if requirements is None else requirements
    if not callable(labeller):
        raise TypeError(
            "requirements must be a callable from a pool to Requirements (a RequirementCache, say), "
            f"got {type(labeller).__name__}"
        )
    return labeller(pool)


def qubo(
    basket: Basket,
    requirements: Labeller | None = None,
    relevance: str | None = None,
    preset: str | Mapping[str, Any] | None = None,
    weights: EvidenceWeights | None = None,
    penalties: EvidencePenalties | None = None,
    method: str = "auto",
    backend: str = "auto",
    **options: Any,
) -> None:
    """The set of at most `max_items` candidates that best meets what the answer requires, as one problem.

    Maximises relevance, support and coverage of the requirements and complementarity, less redundancy and the price of
    each pick; see `EvidenceProblem`. On the constrained problem itself (exact, else by swaps), or by any QUBO method on
    its matrix. Picks stand in order of what the set would lose without each.

    `relevance`: ``pool`` (given, of embeddings, or lexical), ``bm25`` or ``bridge``; default: as in `evidence_problem`.
    """
    if basket.order:
        raise ValueError("policy 'qubo' takes no pinned passages: its problem cannot force a choice")
    settings = configuration(preset)
    settings |= {name: value for name, value in (("weights", weights), ("penalties", penalties)) if value is not None}
    if basket.capped:
        settings["max_passages"] = basket.max_items
    pool = basket.pool
    items = np.flatnonzero(basket.open & (basket.costs <= basket.capacity))
    if settings["max_passages"] == 0 or not len(items):
        return
    scores = None if relevance is None else RELEVANCES[one_of("relevance", relevance, tuple(RELEVANCES))](pool)
    problem = evidence_problem(
        pool, label(pool, requirements), items=items, relevance=scores, budget=basket.capacity, **settings
    )
    result = solve(problem, method, backend, **options)
    assert result.selection is not None
    change = problem.change_if_added(result.selection)
    basket.result, basket.items = result, tuple(items.tolist())
    basket.gains = dict(zip(items.tolist(), change.tolist(), strict=True))
    for item in sorted(result.selection.tolist(), key=lambda item: -change[item]):
        basket.take(int(items[item]))
    for i in np.flatnonzero(basket.open).tolist():
        basket.refuse(i, "not_in_best_set")


def greedy_coverage(basket: Basket, requirements: Labeller | None = None) -> None:
    """Whatever covers most requirement weight that is not covered yet, direct support twice; ties by relevance.

    Taken as long as anything fits: when all is covered, by relevance alone.
    """
    pool = basket.pool
    labels = label(pool, requirements)
    support, weights = labels.support, labels.weights
    level = np.zeros(len(weights), dtype=np.int8)
    for i in basket.order:
        level = np.maximum(level, support[:, i])
    by_relevance = np.argsort(-pool.relevance, kind="stable")
    while True:
        gain = weights @ np.maximum(support - level[:, np.newaxis], 0)
        fitting = basket.fitting()[by_relevance]
        if not fitting.any():
            break
        i = int(by_relevance[np.where(fitting, gain[by_relevance], -np.inf).argmax()])
        basket.take(i, float(gain[i]))
        level = np.maximum(level, support[:, i])
    basket.credit(gain)


def bm25(basket: Basket) -> None:
    """By falling BM25 of the question, over the candidates with their titles, whatever still fits."""
    scores = bm25_scores(basket.pool)
    basket.take_in_order(np.argsort(-scores, kind="stable"), scores)


def bm25_scores(pool: Pool, k1: float = 1.5, b: float = 0.75) -> FloatArray:
    """BM25 of the question for each candidate with its title, shape (n,), >= 0.

    The idf is ln(1 + (n - df + 0.5) / (df + 0.5)), over the candidates.

    References
    ----------
    S. Robertson, H. Zaragoza, 2009, "The Probabilistic Relevance Framework: BM25 and Beyond".
    """
    words = MEASURES[pool.measure].words
    asked = words(pool.query)
    number = {word: k for k, word in enumerate(dict.fromkeys(asked))}
    n = len(pool)
    frequency = np.zeros((n, len(number)))
    # The words of the question were numbered first, so their numbers in the pool's counts are these.
    of_question = pool.counts.word < len(number)
    rows = pool.counts.rows
    frequency[rows[of_question], pool.counts.word[of_question]] = pool.counts.count[of_question]
    lengths: FloatArray = np.bincount(rows, weights=pool.counts.count, minlength=n).astype(np.float64)
    titles = [words(passage.title or "") for passage in pool.passages]
    in_title = np.array([[title.count(word) for word in number] for title in titles], dtype=np.float64).reshape(
        len(titles), len(number)
    )
    frequency += in_title[pool.passage]
    lengths = lengths + np.array([len(title) for title in titles], dtype=np.float64)[pool.passage]
    held = (frequency > 0).sum(axis=0)
    idf = np.log1p((n - held + 0.5) / (held + 0.5))
    relative = lengths / (lengths.mean() if n and lengths.any() else 1.0)
    share = frequency / (frequency + k1 * (1 - b + b * relative)[:, np.newaxis])
    scores = np.zeros(n)
    for word in asked:  # term by term, so that the sum has one order on every machine
        scores += idf[number[word]] * share[:, number[word]]
    return scores


RELEVANCES: dict[str, Callable[[Pool], FloatArray]] = {
    "pool": lambda pool: pool.relevance,
    "bm25": bm25_scores,
    "bridge": bridge_relevance,
}


def hybrid(basket: Basket, fusion: str = "score", relevance_weight: float = 0.5) -> None:
    """Lexical and semantic ranking fused: BM25, and the relevance of the pool (of embeddings, where there are any).

    ``score``: w relevance' + (1 - w) BM25', both min-max scaled. ``rank``: w / (60 + rank) + (1 - w) / (60 + rank), the
    reciprocal rank fusion.

    References
    ----------
    G. Cormack, C. Clarke, S. Büttcher, 2009, "Reciprocal rank fusion outperforms Condorcet and individual rank learning
    methods".
    """
    one_of("fusion", fusion, ("score", "rank"))
    weight = gate.number("relevance_weight", relevance_weight, low=0)
    if weight > 1:
        raise ValueError(f"relevance_weight must be in [0, 1], got {relevance_weight!r}")
    fused = np.zeros(len(basket.pool))
    for w, scores in ((weight, basket.pool.relevance), (1 - weight, bm25_scores(basket.pool))):
        seen = scores[basket.ground]
        if fusion == "score":
            fused[basket.ground] += w * calibrate(seen, "minmax")
        else:
            order = np.argsort(-seen, kind="stable")
            rank = np.empty(len(seen))
            rank[order] = 1 + np.arange(len(seen))
            fused[basket.ground] += w / (60 + rank)
    basket.take_in_order(np.argsort(-fused, kind="stable"), fused)


def random(basket: Basket, seed: int = 0) -> None:
    """In an order drawn from the seed and the question, whatever still fits."""
    drawn = np.random.default_rng(
        [gate.integer("seed", seed, low=0), zlib.crc32(basket.pool.query.encode("utf-8", "surrogatepass"))]
    ).permutation(len(basket.pool))
    score = np.zeros(len(drawn))
    score[drawn] = np.arange(len(drawn), 0, -1)
    basket.take_in_order(drawn, score)


def setr(basket: Basket, requirements: RequirementCache | None = None) -> None:
    """What a language model selected when it was told the requirements, from a record, whatever of it fits."""
    _recorded(basket, "setr", requirements)


def setro(basket: Basket, requirements: RequirementCache | None = None) -> None:
    """What a language model selected when it inferred the requirements itself, from a record, whatever of it fits."""
    _recorded(basket, "setro", requirements)


def _recorded(basket: Basket, name: str, cache: RequirementCache | None) -> None:
    pool = basket.pool
    if not isinstance(cache, RequirementCache):
        raise ValueError(
            f"policy {name!r} needs requirements=RequirementCache with a recorded selection {name!r} for each "
            f"question, got {type(cache).__name__}"
        )
    record = cache.record(pool.query)
    if name not in record.selections:
        raise ValueError(
            f"policy {name!r} needs a recorded selection {name!r} of the question {pool.query!r}, "
            f"got a record with {', '.join(record.selections) or 'none'}"
        )
    position = {key: i for i, key in reversed(list(enumerate(candidate_keys(pool))))}
    chosen = record.selections[name]
    if absent := [key for key in chosen if key not in position]:
        raise ValueError(f"the selection {name!r} of {pool.query!r} does not fit the pool: it lacks {absent[0]!r}")
    for key in chosen:
        i = int(basket.original[position[key]])
        if basket.fits(i):
            basket.take(i)
