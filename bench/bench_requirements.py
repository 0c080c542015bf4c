"""From texts to the picks of policy qubo, one core: `pytest bench/bench_requirements.py`.

Documents as in `bench_bridge`: four sentences of some twenty words each. Everything is in the time: cutting sentences,
counting words, relevance, similarity, requirements, the problem, its proved optimum, the record and the context. Limits
are milliseconds of the median round; a quarter of each is the aim. `bench_parts` says where the time goes.
"""

from __future__ import annotations

from typing import Any

import isinglass as ig
import pytest
from isinglass.measure import prepare
from isinglass.measure.requirements import evidence_problem, rule_requirements
from isinglass.solving import solve

from bench.bench_bridge import question

LIMITS = {40: 2.0, 200: 8.0}
PARTS = ("prepare", "similarity", "requirements", "problem", "solve")


@pytest.mark.parametrize("sentences", LIMITS)
def bench_texts_to_picks(benchmark: Any, sentences: int) -> None:
    asked, passages = question(sentences // 4)
    picked = benchmark(lambda: ig.select(asked, passages, 10**5, policy="qubo"))
    assert len(picked.record) == sentences
    assert 0 < len(picked.snippets) <= 5
    assert picked.result.status == "optimal"


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("sentences", LIMITS)
def bench_parts(benchmark: Any, sentences: int, part: str) -> None:
    asked, passages = question(sentences // 4)

    def pool_of() -> Any:
        return prepare(asked, passages, candidates="sentences", render="titled")

    def with_requirements(pool: Any) -> Any:
        return pool, rule_requirements(pool)

    def with_problem(pool: Any, labels: Any) -> Any:
        return evidence_problem(pool, labels)

    if part == "prepare":
        assert len(benchmark(pool_of)) == sentences
        return
    # A pool keeps what it has computed, so every round gets a new one.
    made = {
        "similarity": (lambda pool: pool.similarity, lambda: (pool_of(),)),
        "requirements": (rule_requirements, lambda: (pool_of(),)),
        "problem": (with_problem, lambda: with_requirements(pool_of())),
        "solve": (solve, lambda: (with_problem(*with_requirements(pool_of())),)),
    }
    run, setup = made[part]
    result = benchmark.pedantic(run, setup=lambda: (setup(), {}), rounds=50)
    assert result is not None
