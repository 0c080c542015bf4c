"""The bridge policy from texts to picks, one core: `pytest bench/bench_bridge.py`.

Passages are made up, of the size of encyclopaedic paragraphs: four sentences of some twenty words, some of which have
a letter beyond ASCII. The judge of the tests must pick the same sentences. Limits are milliseconds of the fastest
round; a third of each is the aim.
"""

from __future__ import annotations

import random
from typing import Any

import pytest
from isinglass.measure.bridge import pick_many, prepare_bridge, prepare_bridges

from tests.bridge_judge import Judge

BUDGET = 160
LIMITS = {5: 0.10, 10: 0.20, 20: 0.40}


def question(documents: int, seed: int = 1) -> tuple[str, list[dict[str, str]]]:
    """A question of a dozen words, and documents whose sentences name each other now and then."""
    rng = random.Random(seed)
    words = [
        "".join(rng.choices("etaoinshrdlucm", k=rng.randint(2, 10))) + ("é" if k % 50 == 0 else "") for k in range(3000)
    ]
    titles = [" ".join(rng.sample(words, 2)).title() for _ in range(documents)]
    passages = []
    for title in titles:
        sentences = []
        for _ in range(4):
            sentence = rng.choices(words, k=rng.randint(10, 30))
            if rng.random() < 0.3:
                sentence[rng.randrange(len(sentence))] = rng.choice(titles)
            sentences.append(" ".join(sentence).capitalize() + ".")
        passages.append({"title": title, "text": " ".join(sentences)})
    asked = rng.sample(" ".join(p["text"] for p in passages).split(), 8)
    return "Which of the " + " ".join(asked) + "?", passages


@pytest.mark.parametrize("documents", LIMITS)
def bench_one_question(benchmark: Any, documents: int) -> None:
    asked, passages = question(documents)
    picks = benchmark(lambda: prepare_bridge(asked, passages).pick(BUDGET))
    judge = Judge(asked, [(p["title"], p["text"]) for p in passages])
    assert picks.order.tolist() == judge.pick(BUDGET)


def bench_one_more_budget(benchmark: Any) -> None:
    bridge = prepare_bridge(*question(20))
    assert benchmark(lambda: bridge.pick(BUDGET)).cost <= BUDGET


def bench_a_thousand_documents(benchmark: Any) -> None:
    asked, passages = question(1000)
    picks = benchmark(lambda: prepare_bridge(asked, passages).pick(BUDGET))
    assert 0 < picks.cost <= BUDGET


def bench_ten_thousand_questions(benchmark: Any) -> None:
    questions, passages = zip(*(question(5, seed) for seed in range(100)), strict=True)
    questions, passages = questions * 100, passages * 100
    many = benchmark.pedantic(
        lambda: pick_many(prepare_bridges(questions, passages, threads=2), BUDGET, threads=2), rounds=3
    )
    alone = prepare_bridge(questions[7], passages[7]).pick(BUDGET)
    assert many[7].order.tolist() == many[107].order.tolist() == alone.order.tolist()
