"""Bridge against the published policies on the public questions: what survives, with intervals, as Markdown tables.

    ISINGLASS_DATA=... python -m bench.bridge_quality [--half test] [--budget 160] [--settings hotpotqa-own-5 ...]

Contexts are plain and in order of choice, and words ASCII, as in the published tables; but for the rows `bridge` and
`bridge, no titles`, the policy as it is by default: Unicode words, links by shared names, and untitled documents named
by their beginning. `by rate` is the published rule as a packing problem; `focused, bridge` and `submodular, bridge` are
those policies on single sentences, without their cap, with the relevance of `measure.bridge_relevance`. With `--embed`
there are rows `bridge, vectors COSINE, REDUNDANCY` for several weights of the two terms; encoding takes most of the
time, so `--limit` takes only the first questions of a half.
"""

from __future__ import annotations

import argparse
import itertools
import os
import pkgutil
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

import isinglass as ig
import numpy as np
from isinglass.diagnosis import all_gold_in_context, answer_in_context, gold_doc_coverage
from isinglass.experiments.datasets import Question
from isinglass.measure import prepare
from isinglass.measure.bridge import Bridge, BridgeWeights, bridge_relevance, prepare_bridge
from isinglass.measure.pool import Embed
from isinglass.policies import choose
from numpy.typing import NDArray

from tests.bridge_questions import Case, Setting, cases

SETTINGS = [
    Setting(data, pool, depth)
    for data in ("hotpotqa", "2wiki", "musique")
    for pool, depth in (("own", 5), ("pooled", 5), ("own", None), ("pooled", 20))
]
MEASURES = ("AIC", "coverage", "all gold", "tokens", "snippets")
BASE = "bridge, published"
VECTOR_WEIGHTS = ((0, 0), (2, 0), (2, 0.4), (2, 0.8), (4, 0), (4, 0.8), (4, 1.6), (6, 0.8), (8, 0.8), (8, 1.6))

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


def policies(case: Case, budget: int, embed: Embed | None) -> dict[str, Callable[[], Values]]:
    """Every policy on one question, by name; called for its measures."""
    question, passages = case

    def sentences(bridge: Bridge, order: Sequence[int]) -> Values:
        texts = [bridge.texts[i] for i in order]
        documents = [str(passages[bridge.passage[i]].doc) for i in order]
        return measured(question, texts, documents, int(bridge.tokens[order].sum()))

    def picked(measure: str, titles: bool = True) -> Values:
        given = passages if titles else [replace(passage, title=None) for passage in passages]
        bridge = prepare_bridge(question.question, given, measure=measure)
        return sentences(bridge, bridge.pick(budget).order.tolist())

    @cache
    def embedded() -> Bridge:
        return prepare_bridge(question.question, passages, embed=embed)

    def near(cosine: float, redundancy: float) -> Values:
        weights = BridgeWeights(cosine=cosine, redundancy=redundancy)
        return sentences(embedded(), embedded().pick(budget, weights=weights).order.tolist())

    def by_rate() -> Values:
        bridge = prepare_bridge(question.question, passages, measure="p1")
        return sentences(bridge, ig.solve(bridge.problem(budget), "lazy_greedy").selection.tolist())

    def chosen(policy: str, bridged: bool) -> Values:
        pool = prepare(question.question, passages, measure="p1", candidates="sentences" if bridged else None)
        if bridged:
            pool = replace(pool, relevance=bridge_relevance(pool))
        order = list(choose(pool, policy, budget, max_items=len(pool) if bridged else None).order)
        documents = [str(pool.passages[pool.passage[i]].doc) for i in order]
        return measured(question, [pool.texts[i] for i in order], documents, int(pool.costs[order].sum()))

    return {
        "bridge, published": lambda: picked("p1"),
        "bridge": lambda: picked("default"),
        "by rate": by_rate,
        **{f"{policy}, bridge": partial(chosen, policy, True) for policy in ("focused", "submodular")},
        **{policy: partial(chosen, policy, False) for policy in ("packed", "focused", "submodular")},
        "bridge, published, no titles": lambda: picked("p1", titles=False),
        "bridge, no titles": lambda: picked("default", titles=False),
        **{f"bridge, vectors {c:g}, {r:g}": partial(near, c, r) for c, r in VECTOR_WEIGHTS if embed is not None},
    }


def interval(differences: NDArray[np.float64], draws: int = 10_000) -> tuple[float, float]:
    """95 % of paired bootstrap means."""
    rng = np.random.default_rng(0)
    means = [differences[rng.integers(len(differences), size=len(differences))].mean() for _ in range(draws)]
    low, high = np.percentile(means, [2.5, 97.5])
    return float(low), float(high)


def table(
    data: Path,
    setting: Setting,
    half: str,
    budget: int,
    names: Sequence[str] | None,
    embed: Embed | None,
    limit: int | None,
) -> None:
    rows: dict[str, list[Values]] = defaultdict(list)
    for case in itertools.islice(cases(data, setting, half), limit):
        for policy, run in policies(case, budget, embed).items():
            if names is None or policy in (BASE, *names):
                rows[policy].append(run())
    means = {policy: np.array(values) for policy, values in rows.items()}
    bridge = means[BASE]
    print(f"\n### {name(setting)}, {half} half, {len(bridge)} questions, {budget} tokens\n")
    print("| policy |", " | ".join(MEASURES), "| minus the first: AIC |")
    print("|---" * (len(MEASURES) + 2) + "|")
    for policy, values in means.items():
        digits = (3, 3, 3, 1, 1)
        cells = [f"{mean:.{d}f}" for mean, d in zip(values.mean(axis=0), digits, strict=True)]
        low, high = interval(values[:, 0] - bridge[:, 0])
        difference = f"{values[:, 0].mean() - bridge[:, 0].mean():+.3f} [{low:+.3f}, {high:+.3f}]"
        print(f"| {policy} |", " | ".join(cells), "|", "" if policy == BASE else difference, "|", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--half", choices=("tune", "test"), default="test")
    parser.add_argument("--budget", type=int, default=160)
    parser.add_argument("--settings", nargs="*", choices=[name(s) for s in SETTINGS], metavar="SETTING")
    parser.add_argument("--policies", nargs="*", metavar="POLICY", help="rows of the tables")
    parser.add_argument("--embed", type=pkgutil.resolve_name, metavar="MODULE:FUNCTION", help="texts to vectors")
    parser.add_argument("--limit", type=int, metavar="N", help="only the first N questions of a half")
    options = parser.parse_args()
    for setting in SETTINGS:
        if options.settings is None or name(setting) in options.settings:
            data = Path(os.environ["ISINGLASS_DATA"])
            table(data, setting, options.half, options.budget, options.policies, options.embed, options.limit)


if __name__ == "__main__":
    main()
