"""The evidence graph: its nodes and edges, the walk over it, and the published tables of retrieval over it."""

import numpy as np
import pytest
from isinglass.diagnosis import all_gold_at, recall_at
from isinglass.experiments.corpus import Corpus, Document
from isinglass.experiments.datasets import read_questions
from isinglass.experiments.graph import EvidenceGraph, entities
from isinglass.experiments.retrieval import WordCosine, by_retriever
from isinglass.measure.text import ascii_words


@pytest.mark.parametrize(
    ("sentence", "names"),
    [
        ("Maud Ellery was born in Eddlestow", ["Maud Ellery", "Eddlestow"]),
        ("She was born in Eddlestow.", ["She"]),  # a word before a full stop is none
        ("The lake, Blue Lake, is deep", ["Blue"]),
        ("The Great Lake is deep", ["The Great Lake"]),
        ("NASA and the R101 flew", ["R101"]),  # a capital needs a small letter or a digit
        ("One Two Three Four Five Six here", ["One Two Three Four Five", "Six"]),
        ("Ab is short, Abe is not", ["Abe"]),
        ("McKinley of DeLand went", ["McKinley", "DeLand"]),
    ],
)
def test_entities_are_runs_of_capitalised_words(sentence, names):
    found = entities(sentence)
    assert [name for name, _ in found] == names
    assert all(sentence[start:end] == name for name, (start, end) in found)


DOCUMENTS = [
    Document("light", "Light", "Maud Ellery designed the Corrow Light in 1871. It burns oil."),
    Document("denial", "Denial", "Fog is wet. Maud Ellery never designed the Corrow Light in 1871 alone."),
    Document("fog", "Fog", "Fog is wet and grey. Fog comes from the sea."),
]


def graph_of(documents=DOCUMENTS, idf=False):
    return EvidenceGraph(documents, lambda texts: WordCosine(texts, ascii_words, idf=idf))


def test_claims_stand_where_they_say():
    graph = graph_of()
    assert [claim.text for claim in graph.claims][:2] == [
        "Maud Ellery designed the Corrow Light in 1871.",
        "It burns oil.",
    ]
    for claim in graph.claims:
        assert DOCUMENTS[claim.document].text[slice(*claim.span)] == claim.text
    assert "maud ellery" in graph.entities


def test_a_denial_contradicts_and_brings_its_passage():
    graph = graph_of()
    assert graph.contradictions == {0: (3,), 3: (0,)}
    found = graph.retrieve("Who designed the Corrow Light in 1871?", 5, nodes=1)
    assert [document.name for document in found] == ["light", "denial"]
    assert [document.hits for document in found] == [(graph.claims[0].text,), (graph.claims[3].text,)]
    assert [document.name for document in graph.retrieve("Who designed the Corrow Light in 1871?", 1)] == ["light"]


def test_the_walk_stops_where_enough_documents_are_reached():
    graph = graph_of()
    assert len(graph.retrieve("fog of Maud Ellery", 2)) == 2
    assert {d.name for d in graph.retrieve("fog of Maud Ellery", None)} == {"light", "denial", "fog"}
    assert graph.retrieve("zebra", 5, nodes=0) == []


def test_the_graph_in_networkx_has_spans_on_its_edges():
    graph = graph_of()
    network = graph.graph()
    kinds = {}
    for source, target, data in network.edges(data=True):
        kinds.setdefault(data["kind"], []).append((source, target, data))
    assert len(kinds["derived_from"]) == len(graph.claims)
    assert {(s[1], t[1]) for s, t, _ in kinds["contradicts"]} == {(0, 3), (3, 0)}
    for (_, k), (_, name), data in kinds["mentions"]:
        text = DOCUMENTS[graph.claims[k].document].text
        assert text[slice(*data["span"])].lower() == name
    assert ("passage", "fog", 2) in network


def test_the_bridge_reaches_what_the_first_hit_names():
    documents = [
        Document("light", "Light", "The Corrow Light was designed by Maud Ellery, as all know."),
        *(Document(f"k{i}", "Keeper", f"The Corrow Light had keeper {i} of the town.") for i in range(12)),
        Document("other", "Other", "The harbour of that coast was built by a firm."),
        Document("ellery", "Ellery", "Everyone in Eddlestow knew Maud Ellery as a child."),
    ]
    graph = graph_of(documents)
    plain, bridged = (
        [d.name for d in graph.retrieve("Who designed the Corrow Light?", None, bridge=bridge)]
        for bridge in (False, True)
    )
    assert plain[0] == bridged[0] == "light"
    assert plain.index("other") < plain.index("ellery")
    assert bridged.index("ellery") < bridged.index("other")


def test_word_cosine_by_hand():
    index = WordCosine(["a b b", "b", "c"], str.split, idf=False)
    np.testing.assert_allclose(index.scores("b b z"), [2 / np.sqrt(5), 1.0, 0.0])
    weighted = WordCosine(["a b b", "b", "c"], str.split, idf=True)
    idf = {"a": np.log(4 / 2) + 1, "b": np.log(4 / 3) + 1}
    norm = np.hypot(idf["a"], 2 * idf["b"])
    np.testing.assert_allclose(weighted.scores("a"), [idf["a"] / norm, 0, 0])
    assert weighted.scores("z").tolist() == [0, 0, 0]
    assert WordCosine([], str.split, idf=True).top("a", 3) == []


# Recall at 1, 2, 5 and all gold at 1, 2, 5 of the authors' published retriever with the same lexical embedders. The
# order of equal scores is arbitrary there.
PUBLISHED = {
    ("hotpotqa_dev", "tfidf", None): (0.3070, 0.4320, 0.6260, 0.0, 0.1240, 0.3640),
    ("hotpotqa_dev", "tfidf", "ace"): (0.2960, 0.4330, 0.6330, 0.0, 0.1140, 0.3540),
    ("hotpotqa_dev", "cosine", None): (0.1880, 0.2750, 0.3760, 0.0, 0.0620, 0.1400),
    ("hotpotqa_dev", "cosine", "ace"): (0.1830, 0.2560, 0.3400, 0.0, 0.0400, 0.1120),
    ("2wiki_dev", "cosine", None): (0.0730, 0.1075, 0.1674, 0.0, 0.0090, 0.0317),
    ("2wiki_dev", "cosine", "ace"): (0.1052, 0.1346, 0.1946, 0.0, 0.0136, 0.0543),
    ("musique_dev", "cosine", None): (0.0481, 0.0628, 0.0887, 0.0, 0.0030, 0.0091),
    ("musique_dev", "cosine", "ace"): (0.0393, 0.0514, 0.0732, 0.0, 0.0030, 0.0030),
}


SHORT = [("hotpotqa_dev", "tfidf", None), ("hotpotqa_dev", "tfidf", "ace"), ("2wiki_dev", "cosine", "ace")]


@pytest.mark.parametrize(
    ("part", "retriever", "graph"),
    [pytest.param(*key, marks=[] if key in SHORT else [pytest.mark.full]) for key in PUBLISHED],
)
def test_published_retrieval_but_for_ties(data, part, retriever, graph):
    questions = read_questions(data / "qa" / f"{part}.jsonl.gz", limit=500).questions
    retrieve = by_retriever(questions, retriever, pool="file", top_k=5, published=True, graph=graph)
    found = [[document.name for document in retrieve(question)] for question in questions]
    measured = [
        float(np.mean([at(names, q.gold_documents, k) for names, q in zip(found, questions)]))
        for at in (recall_at, all_gold_at)
        for k in (1, 2, 5)
    ]
    assert measured == pytest.approx(PUBLISHED[part, retriever, graph], abs=0.005)


@pytest.mark.full
def test_published_bridge_retrieval_comes_close(data):
    questions = read_questions(data / "qa" / "hotpotqa_dev.jsonl.gz", limit=500).questions
    corpus = Corpus(questions, merge_titles=True)
    graph = EvidenceGraph(corpus.documents, lambda texts: WordCosine(texts, ascii_words, idf=False))
    few = questions[::10]
    plain, bridged = (
        np.mean([recall_at([d.name for d in graph.retrieve(q.question, 5, bridge=b)], q.gold, 5) for q in few])
        for b in (False, True)
    )
    # 0.340 and 0.356 over all 500; 50 of them keep the test short.
    assert plain == pytest.approx(0.340, abs=0.06)
    assert bridged == pytest.approx(0.356, abs=0.06)
