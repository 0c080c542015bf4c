"""Rows for ragas, judged by ragas itself; `.ci/full ragas` installs it apart, for its dependencies fit no others."""

import isinglass as ig
import pytest
from isinglass.diagnosis import ragas_row

ragas = pytest.importorskip("ragas", reason="ragas wants an environment of its own: .ci/full ragas")

PASSAGES = [
    {"doc": "Blue Lake", "text": "Blue Lake lies in Norland."},
    {"doc": "Fog", "text": "Fog is wet."},
    {"doc": "Norland", "text": "Norland is a land of seven lakes."},
]
QUERY = "Where is Blue Lake?"


def test_ragas_reads_every_column_and_agrees():
    from ragas.metrics import ExactMatch, IDBasedContextRecall, StringPresence

    picked = ig.select(QUERY, PASSAGES, 9, policy="naive")
    gold = {"answers": ["Norland"], "gold": ["Blue Lake", "Norland"]}
    row = ragas_row(
        QUERY,
        [snippet.text for snippet in picked.snippets],
        response="Norland",
        reference=gold["answers"][0],
        reference_contexts=[passage["text"] for passage in PASSAGES if passage["doc"] in gold["gold"]],
        context_ids=[snippet.doc for snippet in picked.snippets],
        reference_ids=gold["gold"],
    )
    # A name that ragas does not know it drops without a word.
    dataset = ragas.EvaluationDataset.from_list([row])
    assert dataset.to_list() == [row]
    judged = ig.diagnose(picked, gold, prediction="Norland")
    assert IDBasedContextRecall().single_turn_score(dataset[0]) == judged.gold_doc_coverage == 0.5
    assert ExactMatch().single_turn_score(dataset[0]) == judged.em == 1.0
    assert StringPresence().single_turn_score(dataset[0]) == 1.0
