"""The bridge policy's view of a question: sentences that match it, and documents that vouch for each other."""

from __future__ import annotations

import unicodedata
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import astuple, dataclass, fields
from functools import cached_property
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from isinglass import _core
from isinglass.measure.characters import character_table
from isinglass.measure.lexical import FloatArray, IntArray
from isinglass.measure.passages import Passage, as_passages
from isinglass.measure.pool import MEASURES, Embed, Pool, by_largest, embedded, one_of, titled
from isinglass.measure.text import Span
from isinglass.problems import gate
from isinglass.problems.packing import PackingProblem, PackingWeights


@dataclass(frozen=True)
class BridgeWeights:
    """What each part of a sentence's key counts. All finite and >= 0.

    Parameters
    ----------
    match : float
        Idf share of the question that the sentence matches.
    fresh : float
        The same over the terms that no chosen sentence has.
    named : float
        Best match of a sentence elsewhere that names this document: somebody who matches vouches for it.
    names : float
        Best match of a document that this sentence names: it leads there.
    title : float
        The question itself names the document.
    first : float
        First sentence of its document: it says who or what that is.
    length : float
        Subtracted, times ln(tokens).
    link : float
        Best match of a sentence elsewhere with which this one shares rare names, times min(1, their rarity / 6).
    linked : float
        Best link of any sentence of the document.
    cosine : float
        With embeddings: max(0, cosine) of the sentence with the question.
    redundancy : float
        With embeddings: subtracted, times the largest max(0, cosine) with a chosen sentence.

    Notes
    -----
    The first seven are log-odds of "this sentence holds the answer" on half of HotpotQA, roughly doubled and rounded;
    the optimum is flat, and they hold on other data, budgets and numbers of documents. `link` and `linked` are 0 in
    ``measure="p1"``, where the rule is the published one; ``bench/BRIDGE.md`` tells what they add. `cosine` and
    `redundancy` do nothing without embeddings.
    """

    match: float = 2.0
    fresh: float = 4.0
    named: float = 6.0
    names: float = 2.0
    title: float = 2.0
    first: float = 1.0
    length: float = 1.0
    link: float = 2.0
    linked: float = 1.0
    cosine: float = 4.0
    redundancy: float = 0.8

    def __post_init__(self) -> None:
        for field in fields(self):
            value = gate.number(f"BridgeWeights.{field.name}", getattr(self, field.name), low=0)
            object.__setattr__(self, field.name, value)


class Picks(NamedTuple):
    """What `Bridge.pick` chose.

    Attributes
    ----------
    order : ndarray of int64, shape (k,)
        Chosen sentences, in order of choice.
    keys : ndarray of float64, shape (k,)
        Key of each when it was chosen.
    fresh : ndarray of float64, shape (k,)
        Idf share of the question that each was the first to match.
    cost : int
        Tokens.
    """

    order: IntArray
    keys: FloatArray
    fresh: FloatArray
    cost: int


_DEFAULTS = BridgeWeights()
_Texts = tuple[str, list[str], list[int] | None, list[bool] | None, list[Any]]


@dataclass(frozen=True, eq=False)
class Bridge:
    """A question and its documents, prepared once for any number of budgets. Made by `prepare_bridge`.

    n sentences are kept: each different text once (case and white space ignored), none without a word. The question
    has q content terms, cut to five letters.

    Attributes
    ----------
    query : str
    core : _core.Bridge
        The native part, with an array for each part of the key.
    """

    query: str
    core: _core.Bridge
    _given: Sequence[Any]
    _cut: dict[int, list[Span]]
    _numbers: IntArray | None = None

    def __len__(self) -> int:
        return self.core.size

    @cached_property
    def passages(self) -> tuple[Passage, ...]:
        """As given, in input order."""
        return as_passages(self._given)

    @cached_property
    def passage(self) -> IntArray:
        """Position of the passage that each sentence comes from, shape (n,)."""
        return self.core.passage

    @cached_property
    def sentence(self) -> IntArray:
        """Its number in that passage, shape (n,)."""
        return self.core.position if self._numbers is None else self._numbers

    @cached_property
    def spans(self) -> IntArray:
        """Where it stands in the passage's text, in characters, end excluded, shape (n, 2)."""
        spans = np.stack([self.core.start, self.core.end], axis=1)
        for i in np.flatnonzero(np.isin(self.passage, list(self._cut))):
            spans[i] = self._cut[int(self.passage[i])][self.core.position[i]]
        return spans

    @cached_property
    def texts(self) -> tuple[str, ...]:
        """Text of each sentence."""
        places = zip(self.passage.tolist(), self.spans.tolist(), strict=True)
        return tuple(self.passages[p].text[a:b] for p, (a, b) in places)

    @cached_property
    def tokens(self) -> IntArray:
        """Words of each sentence, shape (n,)."""
        return self.core.tokens

    def pick(
        self,
        budget: int,
        *,
        weights: BridgeWeights = _DEFAULTS,
        titled: bool = False,
        max_items: int | None = None,
    ) -> Picks:
        """Choose sentences.

        Parameters
        ----------
        budget : int
            Words. Hard.
        weights : BridgeWeights
        titled : bool
            Whether the first pick of a document also pays the words of its title.
        max_items : int, optional
            At most so many sentences.

        Returns
        -------
        Picks
        """
        return Picks(
            *self.core.pick(
                astuple(weights),
                _budget(budget),
                len(self) if max_items is None else gate.integer("max_items", max_items, low=0),
                None,
                self.core.title_tokens if titled else None,
                [],
            )
        )

    def relevance(self, weights: BridgeWeights = _DEFAULTS) -> FloatArray:
        """e^(v / 2) of each sentence, shape (n,), for other policies; v: key less `fresh`, `length`, `redundancy`."""
        return np.array([_core.exponential(v / 2) for v in self.core.worth(astuple(weights)).tolist()])

    def problem(self, budget: int, weights: BridgeWeights = _DEFAULTS) -> PackingProblem:
        """The policy "by rate", as a packing problem: relevance as above, coverage of the question's terms.

        Solved by gain per token it comes close to `pick` and has the certificate of a packing problem.
        """
        return PackingProblem(
            self.tokens,
            budget,
            relevance=self.relevance(weights),
            coverage=self.core.coverage,
            weights=PackingWeights(1.0, 0.3, 0.0, 0.0),
        )

    def earned(self, i: int, fresh: float | None = None) -> str:
        """Which parts speak for sentence `i`, in words; `fresh`: what it was the first to match."""
        core = self.core
        document = int(core.document[i])
        parts = []
        if match := core.match[i]:
            new = "" if fresh is None else f", {fresh:.0%} new"
            parts.append(f"matches {match:.0%} of the question{new}")
        if core.cosine[i] > self._usual_cosine:
            parts.append(f"close to the question (cosine {core.cosine[i]:.2f})")
        if (through := int(core.through[document])) >= 0:
            source = self._title(int(core.document[through]))
            parts.append(f"named by {source} through sentence {int(self.sentence[through]) + 1}")
        if (leads_to := int(core.leads_to[i])) >= 0:
            parts.append(f"names {self._title(leads_to)}")
        if (speaker := int(core.linked_from[i])) not in (-1, through):
            other = self._title(int(core.document[speaker]))
            parts.append(f"shares names with {other}, sentence {int(self.sentence[speaker]) + 1}")
        if core.in_question[document]:
            parts.append("its document is named in the question")
        if core.first[i]:
            parts.append("first sentence of its document")
        return "; ".join(parts) or "short, and it fits"

    @cached_property
    def _usual_cosine(self) -> float:
        # What counts as close depends on the model, so a sentence is compared with the others.
        return float(np.median(self.core.cosine)) if self.core.embedded else 0.0

    def _title(self, document: int) -> str:
        parts = [i for i, d in enumerate(number_documents(self.passages)) if d == document]
        titles = [title for i in parts if (title := self.passages[i].title)]
        return repr(titles[0]) if titles else f"passage {parts[0]}"


def prepare_bridge(
    query: str, passages: Iterable[Any], *, measure: str = "default", embed: Embed | None = None
) -> Bridge:
    """Prepare a question for the bridge policy.

    Parameters
    ----------
    query : str
    passages : iterable of str, mapping or object
        See `isinglass.measure.Passage`; titles matter. Passages of one `doc` are one document.
    measure : {"default", "p1"}
        Words: of any script, or ``[A-Za-z0-9]+``.
    embed : callable, optional
        ``embed(list of str)`` to an array (n, d), finite; called once with the question and each "Title. sentence".
        Then `BridgeWeights.cosine` and `BridgeWeights.redundancy` count.

    Returns
    -------
    Bridge

    Raises
    ------
    ValueError
        If a passage is not valid, or what `embed` returns.
    """
    published = MEASURES[one_of("measure", measure, tuple(MEASURES))].published
    given, texts, table, cut = _read(query, passages, published)
    bridge = Bridge(query, _core.Bridge(texts, published, table), given, cut)
    _embed(bridge, embed)
    return bridge


def _embed(bridge: Bridge, embed: Embed | None) -> None:
    if embed is None or not len(bridge):
        return
    titles = [bridge.passages[p].title for p in bridge.passage.tolist()]
    texts = [titled(title, text) for title, text in zip(titles, bridge.texts, strict=True)]
    vectors = embedded(embed, [bridge.query, *texts])
    _add_vectors(bridge.core, vectors[0], vectors[1:])


def _add_vectors(core: _core.Bridge, question: FloatArray, vectors: FloatArray) -> None:
    core.embed(by_largest(question[None])[0].astype(np.float32), by_largest(vectors).astype(np.float32))


def prepare_bridges(
    queries: Sequence[str],
    passages: Sequence[Iterable[Any]],
    *,
    measure: str = "default",
    embed: Embed | None = None,
    threads: int | None = None,
) -> list[Bridge]:
    """`prepare_bridge` for many questions at once, on `threads` threads (None: all cores); same answers."""
    published = MEASURES[one_of("measure", measure, tuple(MEASURES))].published
    if len(queries) != len(passages):
        raise ValueError(f"passages must have an entry for each of {len(queries)} queries, got {len(passages)}")
    read = [_read(query, one, published) for query, one in zip(queries, passages, strict=True)]
    table = next((table for _, _, table, _ in read if table is not None), None)
    cores = _core.bridge_many([texts for _, texts, _, _ in read], published, table, _threads(threads))
    bridges = [
        Bridge(query, core, given, cut) for query, core, (given, _, _, cut) in zip(queries, cores, read, strict=True)
    ]
    for bridge in bridges:
        _embed(bridge, embed)
    return bridges


def pick_many(
    bridges: Sequence[Bridge],
    budget: int,
    *,
    weights: BridgeWeights = _DEFAULTS,
    titled: bool = False,
    threads: int | None = None,
) -> list[Picks]:
    """`Bridge.pick` for many questions at once, on `threads` threads (None: all cores); same answers."""
    cores = [bridge.core for bridge in bridges]
    picked = _core.pick_many(cores, astuple(weights), _budget(budget), titled, _threads(threads))
    return [Picks(*one) for one in picked]


def _budget(budget: int) -> int:
    # Beyond what any text costs, all budgets are alike; the engine counts in 64 bits.
    return min(gate.integer("budget", budget, low=0), 1 << 60)


@dataclass(frozen=True, eq=False)
class PooledBridge:
    """The candidates of a pool as the sentences of a `Bridge`, whatever their grain. Made by `bridge_pool`.

    Attributes
    ----------
    bridge : Bridge
    candidate : ndarray of int64, shape (number of sentences,)
        The candidate that each kept sentence is.
    kept_as : ndarray of int64, shape (n,)
        For each candidate the one that stands for its text: itself, an earlier one with the same text (case and white
        space ignored), or -1 where it has no word or may not be chosen.
    """

    bridge: Bridge
    candidate: IntArray
    kept_as: IntArray


def bridge_pool(pool: Pool, allowed: NDArray[np.bool_] | None = None) -> PooledBridge:
    """Prepare the candidates of a pool; passages without an `allowed` candidate, shape (n,), vouch for nobody."""
    published = MEASURES[pool.measure].published
    order = np.lexsort((pool.sentence, pool.passage))
    if allowed is not None:
        order = order[allowed[order]]
    pieces: list[list[str]] = [[] for _ in pool.passages]
    spans: dict[int, list[Span]] = {i: [] for i in range(len(pool.passages))}
    passage, places = pool.passage.tolist(), pool.spans.tolist()
    for i in order.tolist():
        pieces[passage[i]].append(pool.texts[i])
        spans[passage[i]].append((places[i][0], places[i][1]))
    texts, table = _normal(pool.query, _arranged(pool.passages), published, {}, pieces)
    core = _core.Bridge(texts, published, table)
    kept = core.kept_as
    number, first = np.unique(kept, return_index=True)
    candidate = order[first[number >= 0]]
    if len(candidate) and pool.vectors is not None:
        question, vectors = pool.vectors
        _add_vectors(core, question, vectors[candidate])
    bridge = Bridge(pool.query, core, pool.passages, spans, pool.sentence[candidate])
    kept_as = np.full(len(pool), -1, dtype=np.int64)
    kept_as[order] = np.where(kept >= 0, candidate[kept] if len(candidate) else -1, -1)
    return PooledBridge(bridge, candidate, kept_as)


_OF_POOL: WeakKeyDictionary[Pool, PooledBridge] = WeakKeyDictionary()


def whole_bridge_pool(pool: Pool) -> PooledBridge:
    """`bridge_pool` of all candidates, prepared once for each pool."""
    if (pooled := _OF_POOL.get(pool)) is None:
        pooled = _OF_POOL[pool] = bridge_pool(pool)
    return pooled


def bridge_relevance(pool: Pool, weights: BridgeWeights = _DEFAULTS) -> FloatArray:
    """Relevance of a pool's candidates by the bridge policy, for policies that take any relevance.

    ``dataclasses.replace(pool, relevance=bridge_relevance(pool))`` is a pool by which `focused`, `submodular` and the
    others rank; see the table in ``bench/BRIDGE.md`` for what each loses against the policy itself.

    Parameters
    ----------
    pool : Pool
    weights : BridgeWeights

    Returns
    -------
    ndarray of float64, shape (n,)
        e^(v / 2) of each candidate, v its key without `fresh`, `length` and `redundancy`; 0 for one without a word.
    """
    pooled = whole_bridge_pool(pool)
    relevance = np.zeros(len(pool))
    relevance[pooled.candidate] = pooled.bridge.relevance(weights)
    return np.where(pooled.kept_as >= 0, relevance[pooled.kept_as], 0.0)


def _threads(threads: int | None) -> int:
    return _core.available_cores() if threads is None else gate.integer("threads", threads, low=1)


def number_documents(passages: Sequence[Passage]) -> list[int]:
    """Number of each passage's document, by first appearance: its `doc`, or the passage itself."""
    number: dict[Hashable, int] = {}
    return [number.setdefault(i if p.doc is None else ("doc", p.doc), len(number)) for i, p in enumerate(passages)]


_Cut = dict[int, list[Span]]
_Arranged = tuple[list[str], list[str], list[int] | None, list[bool] | None]


def _read(
    query: str, passages: Iterable[Any], published: bool
) -> tuple[Sequence[Any], _Texts, _core.CharacterTable | None, _Cut]:
    """The passages, the arguments of _core.Bridge, and the sentences that had to be cut here."""
    if not isinstance(query, str):
        raise ValueError(f"query must be a string, got {query!r}")
    given: Sequence[Any] = passages if isinstance(passages, (list, tuple)) else as_passages(passages)
    arranged = _plain(given)
    if arranged is None:
        given = as_passages(given)
        arranged = _arranged(given)
    cut: _Cut = {}
    return given, *_normal(query, arranged, published, cut), cut


def _plain(passages: Sequence[Any]) -> _Arranged | None:
    """Texts and titles of dicts without further fields, else None: half of the time of a question saved."""
    texts, titles = [], []
    for passage in passages:
        if type(passage) is not dict or len(passage) != 2 or "text" not in passage or "title" not in passage:
            return None
        text, title = passage["text"], passage["title"]
        if type(text) is not str or type(title) is not str:
            return None
        texts.append(text)
        titles.append(title)
    return texts, titles, None, None


def _arranged(passages: Sequence[Passage]) -> _Arranged:
    """Text of each passage, title of each document, the passage's document, and whether it opens that."""
    document = number_documents(passages)
    titles = [""] * (1 + max(document, default=-1))
    opening: dict[int, tuple[int, int]] = {}
    for i, (d, passage) in enumerate(zip(document, passages, strict=True)):
        titles[d] = titles[d] or passage.title or ""
        place = (passage.start or 0, i)
        opening[d] = min(opening.get(d, place), place)
    return (
        [passage.text for passage in passages],
        titles,
        document,
        [opening[d][1] == i for i, d in enumerate(document)],
    )


def _normal(
    query: str, arranged: _Arranged, published: bool, cut: _Cut, pieces: Sequence[list[str]] | None = None
) -> tuple[_Texts, _core.CharacterTable | None]:
    """The arguments of _core.Bridge in Unicode normal form, and the table where they are not ASCII."""
    texts, titles, document, opens = arranged
    parts: list[Any] = texts if pieces is None else list(pieces)
    if query.isascii() and all(map(str.isascii, titles)) and all(map(str.isascii, texts)):
        return (query, titles, document, opens, parts), None
    table = character_table()
    if not published:
        query = unicodedata.normalize("NFC", query)
        titles = [unicodedata.normalize("NFC", title) for title in titles]
        for i, text in enumerate(texts):
            # Words are compared in normal form; the places of sentences are those of the text as it stands.
            if unicodedata.is_normalized("NFC", text):
                continue
            if pieces is None:
                cut[i] = _core.cut_sentences(text, table)
                parts = parts if parts is not texts else list(texts)
                parts[i] = [text[a:b] for a, b in cut[i]]
            parts[i] = [unicodedata.normalize("NFC", piece) for piece in parts[i]]
    return (query, titles, document, opens, parts), table
