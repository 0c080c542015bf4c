"""The evidence graph of P1 ("ACE"): passages, the claims they make, and the entities that claims share.

Retrieval walks claims and entities instead of passages, so that one matching sentence is enough to bring its passage.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from isinglass.experiments.corpus import Document
from isinglass.measure.lexical import overlap
from isinglass.measure.text import STOP_WORDS, Span, ascii_words, published_sentences

_ENTITY = re.compile(r"\b(?:[A-Z][A-Za-z0-9]*[a-z0-9][A-Za-z0-9]*(?:\s+|$)){1,5}")
_NEGATIONS = frozenset(["not", "no", "never", "none", "cannot", "isnt", "wasnt", "didnt"])
_BRIDGE_STOP_WORDS = STOP_WORDS | {"into", "than", "then", "also"}
_CONTRADICTION = 0.45
_BRIDGE_NODES, _BRIDGE_TERMS = 12, 10


class Index(Protocol):
    """Scores every text of an index for a query."""

    def scores(self, query: str) -> npt.NDArray[Any]:
        """Shape (texts,)."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A sentence of a document.

    Attributes
    ----------
    text : str
    document : int
        Position of its document.
    span : (int, int)
        Where it stands in the document's text.
    entities : tuple of str
        In lower case, each once.
    negated : bool
    """

    text: str
    document: int
    span: Span
    entities: tuple[str, ...]
    negated: bool


def entities(sentence: str) -> list[tuple[str, Span]]:
    """Names in a sentence with their places.

    One to five consecutive words, each a capital and at least one small letter or digit, each followed by white space
    or the end; longer than two characters; "The" alone is none.
    """
    found = []
    for match in _ENTITY.finditer(sentence):
        name = match.group().rstrip()
        if len(name) > 2 and name != "The":
            found.append((name, (match.start(), match.start() + len(name))))
    return found


class EvidenceGraph:
    """Claims and entities of documents, and which claims contradict each other.

    Parameters
    ----------
    documents : sequence of Document
    index : callable
        From a list of texts (first the claims, then the entities) to something that scores them for a query.

    Attributes
    ----------
    documents : tuple of Document
    claims : tuple of Claim
        In document order.
    entities : tuple of str
        In lower case, by first appearance.

    References
    ----------
    A. N. Bala (2026), "A Diagnostic for Budget-Constrained Multi-Hop RAG and When Submodular Evidence Packing Improves
    It".
    """

    def __init__(self, documents: Sequence[Document], index: Callable[[list[str]], Index]) -> None:
        self.documents = tuple(documents)
        claims = []
        surface: dict[str, str] = {}
        for i, document in enumerate(self.documents):
            for start, end in published_sentences(document.text):
                text = document.text[start:end]
                named = {name.lower(): name for name, _ in entities(text)}
                for key, name in named.items():
                    surface.setdefault(key, name)
                negated = not _NEGATIONS.isdisjoint(ascii_words(text))
                claims.append(Claim(text, i, (start, end), tuple(named), negated))
        self.claims = tuple(claims)
        self.entities = tuple(surface)
        self._index = index([*(claim.text for claim in claims), *surface.values()])

    @cached_property
    def contradictions(self) -> dict[int, tuple[int, ...]]:
        """For each claim that has any, the claims that contradict it: of a shared entity, exactly one of the two
        negated, and alike in their words (Jaccard >= 0.45)."""
        of_entity: dict[str, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
        for k, claim in enumerate(self.claims):
            for name in claim.entities:
                of_entity[name][claim.negated].append(k)
        words: dict[int, frozenset[str]] = {}

        def words_of(k: int) -> frozenset[str]:
            if k not in words:
                words[k] = frozenset(ascii_words(self.claims[k].text))
            return words[k]

        found: dict[int, set[int]] = defaultdict(set)
        for asserted, denied in of_entity.values():
            for a in denied:
                for b in asserted:
                    if _overlap(words_of(a), words_of(b)) >= _CONTRADICTION:
                        found[a].add(b)
                        found[b].add(a)
        return {k: tuple(sorted(others)) for k, others in found.items()}

    def graph(self) -> Any:
        """The graph as a `networkx.MultiDiGraph`.

        Nodes ``("passage", name, position)``, ``("claim", position)`` and ``("entity", name)``; edges of `kind`
        ``derived_from`` (claim to passage, with its `span` there), ``mentions`` (claim to entity, with the `span` in
        the passage) and ``contradicts`` (both ways).

        Raises
        ------
        ImportError
            If networkx is not installed (extra `eval`).
        """
        try:
            import networkx
        except ImportError as error:
            raise ImportError("the evidence graph needs networkx: pip install 'isinglass[eval]'") from error
        graph = networkx.MultiDiGraph()
        passages = [("passage", document.name, i) for i, document in enumerate(self.documents)]
        graph.add_nodes_from(passages)
        graph.add_nodes_from(("entity", name) for name in self.entities)
        for k, claim in enumerate(self.claims):
            graph.add_node(("claim", k), text=claim.text, negated=claim.negated)
            graph.add_edge(("claim", k), passages[claim.document], kind="derived_from", span=claim.span)
            for name, (start, end) in entities(claim.text):
                span = (claim.span[0] + start, claim.span[0] + end)
                graph.add_edge(("claim", k), ("entity", name.lower()), kind="mentions", span=span)
        for k, others in self.contradictions.items():
            graph.add_edges_from((("claim", k), ("claim", other), {"kind": "contradicts"}) for other in others)
        return graph

    def retrieve(self, query: str, top_k: int | None = 5, *, nodes: int = 48, bridge: bool = False) -> list[Document]:
        """Walk the best nodes: a claim brings its document, then those of the claims that contradict it.

        Parameters
        ----------
        query : str
        top_k : int or None
            Stop after the node at which so many documents are reached; None for all that the nodes bring.
        nodes : int
            How many nodes are walked at most.
        bridge : bool
            Score nodes a second time, by the query with terms that the first nodes lead to.

        Returns
        -------
        list of Document
            As reached, with the claims that brought each as `hits`; at most `top_k`.
        """
        scores = np.asarray(self._index.scores(query), dtype=np.float64)
        if bridge:
            scores = self._bridged(query, scores)
        hits: dict[int, list[str]] = {}
        for node in np.argsort(-scores, kind="stable")[:nodes].tolist():
            if node >= len(self.claims):
                continue  # an entity brings nothing
            for k in (node, *self.contradictions.get(node, ())):
                claim = self.claims[k]
                if claim.document in hits or top_k is None or len(hits) < top_k:
                    hits.setdefault(claim.document, []).append(claim.text)
            if top_k is not None and len(hits) >= top_k:
                break
        return [replace(self.documents[i], hits=tuple(texts)) for i, texts in hits.items()]

    def _bridged(self, query: str, first: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        lowered, asked = query.lower(), frozenset(ascii_words(query))
        weight: dict[str, float] = defaultdict(float)
        for rank, node in enumerate(np.argsort(-first, kind="stable")[:_BRIDGE_NODES].tolist()):
            if node < len(self.claims):
                claim = self.claims[node]
                source = self.documents[claim.document].text
                own = claim.entities
                named = {*own, *(name.lower() for name, _ in entities(source))}
                terms = set(ascii_words(source))
            else:
                own = (self.entities[node - len(self.claims)],)
                named, terms = set(own), set(ascii_words(own[0]))
            named = {name for name in named if name not in lowered}
            for name in sorted(named):
                weight[name] += 2 / (rank + 1)
            for term in sorted(terms - asked - named):
                if len(term) > 2 and term not in _BRIDGE_STOP_WORDS:
                    weight[term] += 1 / (rank + 1)
            for name in own:
                if name not in lowered:
                    weight[name] += 2.5 / (rank + 1)
        added = sorted(weight, key=lambda term: -weight[term])[:_BRIDGE_TERMS]
        second = np.asarray(self._index.scores(" ".join([query, *added])), dtype=np.float64)
        scores: npt.NDArray[np.float64] = 0.65 * first + 0.35 * second
        in_source = [any(term in text for term in added) for text in self._lowered]
        for k, claim in enumerate(self.claims):
            if in_source[claim.document]:
                low, high = claim.span
                held = any(term in self._lowered[claim.document][low:high] for term in added)
                scores[k] += 0.06 + 0.12 * held
        for e, name in enumerate(self.entities, len(self.claims)):
            scores[e] += 0.12 * any(term in name for term in added)
        return scores

    @cached_property
    def _lowered(self) -> tuple[str, ...]:
        # Only ASCII letters, so that places stay what they are.
        return tuple(document.text.translate(_LOWER) for document in self.documents)


_LOWER = {c: c + 32 for c in range(ord("A"), ord("Z") + 1)}


def _overlap(a: frozenset[str], b: frozenset[str]) -> float:
    # The smaller over the larger bounds the overlap, and spares most of the sets.
    if min(len(a), len(b)) < _CONTRADICTION * max(len(a), len(b)):
        return 0.0
    return overlap(a, b)
