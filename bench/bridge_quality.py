"""Bridge against the published policies on the public questions: what survives, with intervals, as Markdown tables.

    ISINGLASS_DATA=... python -m bench.bridge_quality [--half test] [--budget 160] [--settings hotpotqa-own-5 ...]

Words are ASCII, contexts plain and in order of choice, as in the published tables. `by rate` is bridge as a packing
problem; `focused, bridge` and `submodular, bridge` are those policies on single sentences, without their cap, with the
relevance of `measure.bridge_relevance`.
"""

from __future__ import annotations

import argparse
import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import isinglass as ig
import numpy as np
from isinglass.diagnosis import all_gold_in_context, answer_in_context, gold_doc_coverage
from isinglass.experiments.datasets import Question
from isinglass.measure import Pool, prepare
from isinglass.measure.bridge import bridge_relevance, prepare_bridge
from isinglass.policies import choose
from numpy.typing import NDArray

from tests.bridge_questions import Case, Setting, cases

SETTINGS = [
    Setting(data, pool, depth)
    for data in ("hotpotqa", "2wiki", "musique")
    for pool, depth in (("own", 5), ("pooled", 5), ("own", None), ("pooled", 20))
]
MEASURES = ("AIC", "coverage", "all gold", "tokens", "snippets")
PUBLISHED = ("packed", "focused", "submodular")

Values = tuple[float, float, float, float, float]


def name(setting: Setting) -> str:
    return f"{setting.data}-{setting.pool}-{setting.depth or 'all'}"


def measured(question: Question, texts: Sequence[str], documents: Sequence[str], tokens: int) -> Values:
    gold = question.gold_documents
    answer = answer_in_context(" ".join(texts), question.answers).p1
    return (
        float(answer),
        gold_doc_coverage(documents, gold) or 0.0,
        float(bool(all_gold_in_context(documents, gold))),
        float(tokens),
        float(len(texts)),
    )


def contexts(case: Case, budget: int) -> Iterator[tuple[str, Values]]:
    """Every policy on one question."""
    question, passages = case
    bridge = prepare_bridge(question.question, passages, measure="p1")

    def sentences(order: Sequence[int]) -> Values:
        texts = [bridge.texts[i] for i in order]
        documents = [str(passages[bridge.passage[i]].doc) for i in order]
        return measured(question, texts, documents, int(bridge.tokens[order].sum()))

    yield "bridge", sentences(bridge.pick(budget).order.tolist())
    result = ig.solve(bridge.problem(budget), "lazy_greedy")
    yield "by rate", sentences(result.selection.tolist() if len(bridge) else [])

    def chosen(pool: Pool, policy: str, **options: int) -> Values:
        order = list(choose(pool, policy, budget, **options).order)
        documents = [str(pool.passages[pool.passage[i]].doc) for i in order]
        return measured(question, [pool.texts[i] for i in order], documents, int(pool.costs[order].sum()))

    pool = prepare(question.question, passages, measure="p1", candidates="sentences")
    pool = replace(pool, relevance=bridge_relevance(pool))
    for policy in ("focused", "submodular"):
        yield f"{policy}, bridge", chosen(pool, policy, max_items=len(pool))
    pool = prepare(question.question, passages, measure="p1")
    for policy in PUBLISHED:
        yield policy, chosen(pool, policy)


def interval(differences: NDArray[np.float64], draws: int = 10_000) -> tuple[float, float]:
    """95 % of paired bootstrap means."""
    rng = np.random.default_rng(0)
    means = [differences[rng.integers(len(differences), size=len(differences))].mean() for _ in range(draws)]
    low, high = np.percentile(means, [2.5, 97.5])
    return float(low), float(high)


def table(data: Path, setting: Setting, half: str, budget: int) -> None:
    rows: dict[str, list[Values]] = defaultdict(list)
    for case in cases(data, setting, half):
        for policy, values in contexts(case, budget):
            rows[policy].append(values)
    means = {policy: np.array(values) for policy, values in rows.items()}
    bridge = means["bridge"]
    print(f"\n### {name(setting)}, {half} half, {len(bridge)} questions, {budget} tokens\n")
    print("| policy |", " | ".join(MEASURES), "| bridge minus it: AIC |")
    print("|---" * (len(MEASURES) + 2) + "|")
    for policy, values in means.items():
        digits = (3, 3, 3, 1, 1)
        cells = [f"{mean:.{d}f}" for mean, d in zip(values.mean(axis=0), digits, strict=True)]
        low, high = interval(bridge[:, 0] - values[:, 0])
        difference = f"{bridge[:, 0].mean() - values[:, 0].mean():+.3f} [{low:+.3f}, {high:+.3f}]"
        print(f"| {policy} |", " | ".join(cells), "|", "" if policy == "bridge" else difference, "|", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--half", choices=("tune", "test"), default="test")
    parser.add_argument("--budget", type=int, default=160)
    parser.add_argument("--settings", nargs="*", choices=[name(s) for s in SETTINGS], metavar="SETTING")
    options = parser.parse_args()
    for setting in SETTINGS:
        if options.settings is None or name(setting) in options.settings:
            table(Path(os.environ["ISINGLASS_DATA"]), setting, options.half, options.budget)


if __name__ == "__main__":
    main()
