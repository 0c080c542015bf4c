"""From a question and passages to candidates with costs, relevance, similarity and coverage."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache, cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isinglass.measure import text as script
from isinglass.measure.candidates import GRAINS, Candidate, cut
from isinglass.measure.characters import cut_sentences
from isinglass.measure.lexical import FloatArray, IntArray, Vocabulary, WordCounts, check_matrix
from isinglass.measure.passages import Passage, as_passages, finite_array
from isinglass.measure.relevance import centre_relevance, matched_share, published_relevance
from isinglass.measure.text import Counter, Span
from isinglass.problems.packing import PackingProblem, PackingWeights

RENDERS = ("plain", "titled")
Embed = Callable[[list[str]], Any]


@dataclass(frozen=True)
class Measure:
    """The rules by which texts become numbers."""

    words: Callable[[str], list[str]]
    sentences: Callable[[str], list[Span]]
    is_content_word: Callable[[str], bool]
    counter: Counter
    published: bool
    grain: str
    separator: str


# One table: what each name of `measure=` stands for.
MEASURES = {
    "default": Measure(
        words=script.words,
        sentences=script.sentences,
        is_content_word=script.is_content_word,
        counter=Counter(script.count_words, "unicode_words"),
        published=False,
        grain="passages",
        separator="\n\n",
    ),
    "p1": Measure(
        words=script.ascii_words,
        sentences=script.published_sentences,
        is_content_word=script.is_ascii_content_word,
        counter=Counter(script.count_ascii_words, "ascii_words"),
        published=True,
        grain="windows",
        separator=" ",
    ),
}

_PUBLISHED_LIMIT = 160


@dataclass(frozen=True, eq=False)
class Pool:
    """The candidates of one question, measured. Made by `prepare`; n candidates, q content terms in the question.

    Attributes
    ----------
    query : str
    passages : tuple of Passage
        As given, in input order.
    measure, grain, render, separator : str
        How the candidates were made, and how they will be rendered as far as costs know.
    texts : tuple of str
        Text of each candidate.
    ids : tuple of str
        Id of the candidate's passage (its position, where it has none), with ``#sentence`` for finer grains. No two are
        alike: where passages share an id, each but the first has ``@position`` after it.
    passage : ndarray of int64, shape (n,)
        Position of the passage that each candidate comes from.
    sentence : ndarray of int64, shape (n,)
        Its (centre) sentence in that passage; 0 for a whole passage.
    spans : ndarray of int64, shape (n, 2)
        Where it stands in the passage's text, in characters, end excluded.
    sources : ndarray of int64, shape (n, 2)
        Where it stands in its document; in its passage, where the passage's own place is not given. -1 where the
        passage's offsets do not have the length of its text, so that a part of it cannot be located.
    frame : ndarray of int64, shape (n,)
        Number of the text that `sources` counts in: candidates of one frame can be compared by place.
    document : ndarray of int64, shape (n,)
        Number of its document, by first appearance in the input.
    costs : ndarray of int64, shape (n,)
        Tokens, with its heading and one separator; at least 1.
    fixed_cost : int
        Tokens that the counter charges for any text at all (special tokens); 0 for the built-in counters.
    relevance : ndarray of float64, shape (n,)
        >= 0.
    terms : tuple of str
        Content terms of the question.
    coverage : ndarray of uint8, shape (n, q)
        Which content terms of the question each candidate holds.
    first_copy : ndarray of int64, shape (n,)
        The first candidate in input order with the same text: the candidate itself, where there is none before it.
    beyond_limit : ndarray of bool, shape (n,)
        Candidates outside the most relevant 160 (``measure="p1"`` only).
    counter : Counter
        Counts tokens; `counter.name` is its name.
    counts : WordCounts
        Words of each candidate.
    """

    query: str
    passages: tuple[Passage, ...]
    measure: str
    grain: str
    render: str
    separator: str
    texts: tuple[str, ...]
    ids: tuple[str, ...]
    passage: IntArray
    sentence: IntArray
    spans: IntArray
    sources: IntArray
    frame: IntArray
    document: IntArray
    costs: IntArray
    fixed_cost: int
    relevance: FloatArray
    terms: tuple[str, ...]
    coverage: NDArray[np.uint8]
    first_copy: IntArray
    beyond_limit: NDArray[np.bool_]
    counter: Counter
    counts: WordCounts = field(repr=False)
    _vectors: Callable[[], FloatArray] | None = field(repr=False)
    _asked: Callable[[], FloatArray] | None = field(repr=False)
    _centre_relevance: Callable[[], FloatArray] = field(repr=False)

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def embedded(self) -> bool:
        """Whether the candidates have embeddings."""
        return self._vectors is not None

    @cached_property
    def vectors(self) -> tuple[FloatArray, FloatArray] | None:
        """Embedding of the question, shape (d,), and of each candidate, (n, d); None where no `embed` was given."""
        return None if self._vectors is None or self._asked is None else (self._asked(), self._vectors())

    @cached_property
    def centre_relevance(self) -> FloatArray:
        """Score of the centre sentence alone, by which policy ``packed`` ranks, shape (n,)."""
        return self._centre_relevance()

    @cached_property
    def blank(self) -> NDArray[np.bool_]:
        """Candidates without any text, which are never chosen, shape (n,)."""
        return np.array([not text or text.isspace() for text in self.texts], dtype=bool)

    @cached_property
    def similarity(self) -> NDArray[np.float32]:
        """Similarity of every pair of candidates, shape (n, n), symmetric, in [0, 1], 1 on the diagonal.

        max(0, cosine) of the embeddings where there are any, else the cosine of the token counts. Where two
        candidates of one document stand at known places, it is at least the number of characters that they share
        over the length of the shorter (not in ``measure="p1"``).
        """
        check_matrix(len(self))
        similarity = self.counts.cosine() if self._vectors is None else _cosine(self._vectors())
        if not MEASURES[self.measure].published:
            self._raise_to_shared_text(similarity)
        similarity.setflags(write=False)
        return similarity

    @property
    def is_lexical(self) -> bool:
        """Whether relevance comes from words alone: no scores, no embeddings."""
        return self._vectors is None and not (self.passages and self.passages[0].score is not None)

    def _raise_to_shared_text(self, similarity: NDArray[np.float32]) -> None:
        located = np.flatnonzero(self.sources[:, 0] >= 0)
        order = located[np.lexsort((self.sources[located, 0], self.frame[located]))]
        frame, (start, end) = self.frame[order], self.sources[order].T
        if not ((frame[1:] == frame[:-1]) & (start[1:] < end[:-1])).any():
            return  # as for sentences: nothing is shared
        for group in np.split(order, np.flatnonzero(np.diff(self.frame[order])) + 1):
            if len(group) < 2:
                continue
            start, end = self.sources[group].T
            shared = np.minimum.outer(end, end) - np.maximum.outer(start, start)
            shorter = np.minimum.outer(end - start, end - start)
            share = np.divide(shared, shorter, out=np.zeros(shared.shape), where=(shared > 0) & (shorter > 0))
            block = np.ix_(group, group)
            similarity[block] = np.maximum(similarity[block], share.astype(np.float32))

    def piece(self, i: int) -> str:
        """What candidate `i` looks like in a context where it stands alone."""
        return heading(self.passages[self.passage[i]].title, self.render) + self.texts[i]

    def heading_cost(self, passage: int) -> int:
        """Tokens of the line above a passage, 0 where there is none."""
        line = heading(self.passages[passage].title, self.render)
        return max(0, self.counter(line) - self.fixed_cost) if line else 0

    def costs_within(self, capacity: int) -> IntArray:
        """Costs when so many tokens may be spent, shape (n,).

        The first piece of a context has no separator before it. So a candidate that fits alone but not with a
        separator costs exactly the capacity: it may be the only one.
        """
        costs = self.costs.copy()
        if self.separator:
            for i in np.flatnonzero(costs > capacity):
                if max(1, self.counter(self.piece(int(i))) - self.fixed_cost) <= capacity:
                    costs[i] = capacity
        return costs

    def problem(
        self,
        budget: int,
        *,
        items: IntArray | None = None,
        weights: PackingWeights | None = None,
        max_items: int | None = None,
        allowed: NDArray[np.bool_] | None = None,
        pinned: IntArray | None = None,
        **options: Any,
    ) -> PackingProblem:
        """The packing problem over some of the candidates.

        Parameters
        ----------
        budget : int
            Tokens, the counter's fixed cost taken off.
        items : ndarray of int, shape (m,), optional
            Candidates, each once; default the first copy of every text that is not blank, within the limit of the
            measure.
        weights, max_items, allowed, pinned, **options
            Of `PackingProblem`; `allowed` and `pinned` count the items.

        Returns
        -------
        PackingProblem
            Of m items: relevance, coverage of the question's terms, similarity, and documents as groups.
        """
        if items is None:
            items = np.flatnonzero((self.first_copy == np.arange(len(self))) & ~self.blank & ~self.beyond_limit)
        whole = len(items) == len(self) and bool((items == np.arange(len(self))).all())
        return PackingProblem(
            costs=self.costs_within(budget)[items],
            budget=budget,
            relevance=self.relevance[items],
            similarity=self.similarity if whole else self.similarity[np.ix_(items, items)],
            coverage=self.coverage[items],
            groups=self.document[items],
            weights=PackingWeights() if weights is None else weights,
            max_items=max_items,
            allowed=allowed,
            pinned=pinned,
            **options,
        )


def heading(title: str | None, render: str) -> str:
    """The line above a passage: its title, where titles are rendered and it has one."""
    return f"{title}\n" if render == "titled" and title and not title.isspace() else ""


def prepare(
    query: str,
    passages: Any,
    *,
    measure: str = "default",
    candidates: str | None = None,
    count_tokens: Callable[[str], int] | None = None,
    embed: Embed | None = None,
    embed_titles: bool = False,
    separator: str | None = None,
    render: str = "plain",
    hits: Sequence[Sequence[str]] | None = None,
) -> Pool:
    """Measure passages against a question.

    Parameters
    ----------
    query : str
    passages : sequence of str, mapping or object
        See `Passage`. Best first, where a retriever ordered them: an earlier document gets a small bonus.
    measure : {"default", "p1"}
        ``default``: Unicode words, a sentence cut that knows abbreviations, no text rewritten. ``p1``: exactly the
        rules of Bala (2026): ASCII words, windows cut to 80 words, at most 160 candidates.
    candidates : {"passages", "sentences", "windows"}, optional
        What may be chosen: whole passages (the default), single sentences, or a sentence with its neighbours (the
        default of ``measure="p1"``).
    count_tokens : callable, optional
        Text to number of tokens, as the reader counts. Default: the words of the measure.
    embed : callable, optional
        ``embed(list of str)`` to an array (n, d); called with the texts of the candidates, and with the query alone.
    embed_titles : bool
        Whether `embed` gets "Title. text" of a candidate, as policy bridge does, or the text alone.
    separator : str, optional
        What stands between two pieces of the context: a blank line, or one space in ``measure="p1"``.
    render : {"plain", "titled"}
        Whether titles are part of the context, and so of the costs.
    hits : sequence of sequence of str, optional
        For each passage the texts by which it was retrieved; the passage itself when not given.

    Returns
    -------
    Pool
        Candidates in input order; in ``measure="p1"`` by falling relevance, ties in input order.

    Raises
    ------
    ValueError
        If a passage or an option is not valid; the message says which, what was expected and what was given.

    Notes
    -----
    Relevance is the passage's `score` where scores are given. Otherwise, in ``measure="p1"``, with J the Jaccard
    overlap of word sets: 1.15 J(text, query) + 0.65 max over hits of J(text, hit) + 0.25 J(title, query)
    + 0.05 / (1 + rank of the document). In the default measure: m(text) + 0.25 m(title) + 0.05 / (1 + rank), where m
    is the share of the question's content terms that a text holds, each weighted by ln(1 + n / df) over the
    candidates; with `embed`, max(0, cosine with the query) takes the place of m(text). A share, since the overlap
    falls with length and so ranks one matching line above the paragraph that answers.

    References
    ----------
    A. N. Bala, 2026, "A Diagnostic for Budget-Constrained Multi-Hop RAG and When Submodular Evidence Packing
    Improves It".
    """
    if not isinstance(query, str):
        raise ValueError(f"query must be a string, got {query!r}")
    rules = MEASURES[one_of("measure", measure, tuple(MEASURES))]
    grain = rules.grain if candidates is None else one_of("candidates", candidates, GRAINS)
    separator = rules.separator if separator is None else separator
    if not isinstance(separator, str):
        raise ValueError(f"separator must be a string, got {separator!r}")
    one_of("render", render, RENDERS)
    given = as_passages(passages)
    names = _names(given)
    if hits is not None and len(hits) != len(given):
        raise ValueError(f"hits must have an entry for each of {len(given)} passages, got {len(hits)}")

    vocabulary = Vocabulary(rules.published)
    vocabulary.encode([query])
    question = tuple(vocabulary.number)
    # The published cut and limit belong to the published candidates, which are windows.
    windows = rules.published and grain == "windows"
    cuts = cut(given, grain, rules.sentences if windows else cut_sentences, vocabulary, rules.published)
    titles = vocabulary.encode([passage.title or "" for passage in given])
    hit_words = _hits(given, cuts, hits, vocabulary)

    passage = np.array([c.passage for c in cuts], dtype=np.int64)
    document = _numbers([i if p.doc is None else ("doc", p.doc) for i, p in enumerate(given)])
    terms = tuple(word for word in question if rules.is_content_word(word))
    number = vocabulary.number
    columns = [number[word] for word in terms]
    counts = WordCounts.of([c.words for c in cuts], len(number))
    coverage = counts.presence(columns)
    vectors = _vectors(given, cuts, grain, embed, embed_titles)
    asked_vector = None if embed is None or vectors is None else _query_vector(query, vectors, embed)

    asked = frozenset(range(len(question)))
    if given and given[0].score is not None:
        relevance = np.array([given[c.passage].score for c in cuts], dtype=np.float64)
    elif rules.published:
        relevance = published_relevance(cuts, asked, [frozenset(title) for title in titles], hit_words(), document)
    else:
        in_title = WordCounts.of(titles, len(number)).presence(columns)
        of_passage = 0.25 * matched_share(in_title, coverage) + 0.05 / (1 + document)
        match = matched_share(coverage, coverage) if embed is None else _cosine_with(asked_vector, vectors)
        relevance = match + of_passage[passage]

    counter = rules.counter if count_tokens is None else Counter.of(count_tokens)
    fixed_cost = counter("")
    heads = [separator + heading(given[c.passage].title, render) for c in cuts]
    if count_tokens is None:
        # The words are counted already, and words of two texts never become more by joining these.
        tokens = {head: counter(head) for head in set(heads)}
        costs = [max(1, tokens[head] + len(c.words)) for head, c in zip(heads, cuts, strict=True)]
    else:
        costs = [max(1, counter(head + c.text) - fixed_cost) for head, c in zip(heads, cuts, strict=True)]
    first_copy = _first_copies([c.text if rules.published else " ".join(c.text.split()) for c in cuts])
    order = np.argsort(-relevance, kind="stable") if rules.published else np.arange(len(cuts))
    place = np.argsort(order)
    sources, frame = _places(given, cuts)
    return Pool(
        query=query,
        passages=given,
        measure=measure,
        grain=grain,
        render=render,
        separator=separator,
        texts=tuple(cuts[i].text for i in order),
        ids=tuple(
            names[cuts[i].passage] if grain == "passages" else f"{names[cuts[i].passage]}#{cuts[i].sentence}"
            for i in order
        ),
        passage=passage[order],
        sentence=np.array([cuts[i].sentence for i in order], dtype=np.int64),
        spans=np.array([cuts[i].span for i in order], dtype=np.int64).reshape(-1, 2),
        sources=sources[order],
        frame=frame[order],
        document=document[passage][order],
        costs=np.array(costs, dtype=np.int64)[order],
        fixed_cost=fixed_cost,
        relevance=relevance[order],
        terms=terms,
        coverage=coverage[order],
        first_copy=place[first_copy[order]],
        beyond_limit=_beyond_limit(first_copy, order, _PUBLISHED_LIMIT if windows else len(cuts)),
        counter=counter,
        counts=counts.take(order),
        _vectors=None if vectors is None else (lambda: vectors()[order]),
        _asked=asked_vector,
        _centre_relevance=lambda: centre_relevance(cuts, asked, hit_words(), document)[order],
    )


def one_of(name: str, value: Any, allowed: Sequence[str]) -> str:
    """`value`, if it is one of the words allowed for the option `name`; else a ValueError with the nearest."""
    if isinstance(value, str) and value in allowed:
        return value
    near = get_close_matches(value, allowed, 1) if isinstance(value, str) else []
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    raise ValueError(f"{name} must be one of {', '.join(map(repr, allowed))}, got {value!r}{hint}")


def _hits(
    given: Sequence[Passage], cuts: Sequence[Candidate], hits: Sequence[Sequence[str]] | None, vocabulary: Vocabulary
) -> Callable[[], list[list[frozenset[int]]]]:
    """A function to the word sets of the texts by which each passage was retrieved: by default its own, all of its
    centres together."""
    encoded = None if hits is None else [[frozenset(words) for words in vocabulary.encode(texts)] for texts in hits]

    @cache
    def hit_words() -> list[list[frozenset[int]]]:
        if encoded is not None:
            return encoded
        own: list[set[int]] = [set() for _ in given]
        for candidate in cuts:
            own[candidate.passage].update(*candidate.centres)
        return [[frozenset(words)] for words in own]

    return hit_words


def _numbers(keys: Sequence[Hashable]) -> IntArray:
    number: dict[Hashable, int] = {}
    return np.array([number.setdefault(key, len(number)) for key in keys], dtype=np.int64)


def _first_copies(texts: Sequence[str]) -> IntArray:
    first: dict[str, int] = {}
    return np.array([first.setdefault(text, i) for i, text in enumerate(texts)], dtype=np.int64)


def _beyond_limit(first_copy: IntArray, order: IntArray, limit: int) -> NDArray[np.bool_]:
    """Which candidates, in `order`, are not among the first `limit` different texts."""
    originals = np.flatnonzero(first_copy[order] == order)
    within = np.zeros(len(order), dtype=bool)
    within[order[originals[:limit]]] = True
    return ~within[first_copy[order]]


def _names(given: Sequence[Passage]) -> list[str]:
    """A name for each passage, no two alike: its id, else its position; of one id, a later bearer adds its position."""
    names = [str(i if passage.id is None else passage.id) for i, passage in enumerate(given)]
    taken = set(names)
    if len(taken) == len(names):
        return names
    seen: set[str] = set()
    for i, name in enumerate(names):
        if name in seen:
            while name in taken:
                name = f"{name}@{i}"
            taken.add(name)
            names[i] = name
        seen.add(name)
    return names


def _places(given: Sequence[Passage], cuts: Sequence[Candidate]) -> tuple[IntArray, IntArray]:
    """Spans of the candidates in their documents (or passages), and the number of the text these count in."""
    frame = _numbers([("doc", p.doc) if p.start is not None and p.doc is not None else i for i, p in enumerate(given)])
    spans = np.empty((len(cuts), 2), dtype=np.int64)
    for i, candidate in enumerate(cuts):
        passage, (begin, end) = given[candidate.passage], candidate.span
        if passage.start is None or passage.end is None:
            spans[i] = begin, end
        elif passage.end - passage.start == len(passage.text):
            spans[i] = passage.start + begin, passage.start + end
        elif candidate.span == (0, len(passage.text)):
            spans[i] = passage.start, passage.end
        else:
            spans[i] = -1, -1
    return spans, frame[[c.passage for c in cuts]] if cuts else frame[:0]


def _vectors(
    given: Sequence[Passage], cuts: Sequence[Candidate], grain: str, embed: Embed | None, titles: bool
) -> Callable[[], FloatArray] | None:
    """A function to the vectors of the candidates, called when they are needed, or None without embeddings."""
    if not cuts or (embed is None and given[0].embedding is None):
        return None

    @cache
    def vectors() -> FloatArray:
        if embed is not None:
            return embedded(embed, [titled(given[c.passage].title if titles else None, c.text) for c in cuts])
        if grain != "passages":
            raise ValueError(
                f"candidates={grain!r} need vectors of their own: give embed=, or choose candidates='passages' "
                "to compare the passages' embeddings"
            )
        sizes = [len(p.embedding) for p in given]
        if (odd := next((i for i, size in enumerate(sizes) if size != sizes[0]), None)) is not None:
            raise ValueError(f"passages[{odd}].embedding must have {sizes[0]} numbers like the first, got {sizes[odd]}")
        return np.stack([given[c.passage].embedding for c in cuts])

    return vectors


def titled(title: str | None, text: str) -> str:
    """What is embedded of a text whose title counts: "Title. text"."""
    return f"{title}. {text}" if title else text


def embedded(embed: Embed, texts: list[str]) -> FloatArray:
    """Vectors of texts, shape (n, d), or a ValueError that says what is wrong with the answer of `embed`."""
    vectors = finite_array("embed(texts)", embed(texts) if texts else np.zeros((0, 0)), ndim=2)
    if len(vectors) != len(texts):
        raise ValueError(f"embed must return one row for each of {len(texts)} texts, got {len(vectors)}")
    return vectors


def _query_vector(query: str, vectors: Callable[[], FloatArray], embed: Embed) -> Callable[[], FloatArray]:
    """A function to the vector of the query, of the width of those of the candidates."""

    @cache
    def asked_vector() -> FloatArray:
        texts, asked = vectors(), embedded(embed, [query])
        if texts.shape[1] != asked.shape[1]:
            raise ValueError(f"embed gave {texts.shape[1]} numbers for the texts but {asked.shape[1]} for the query")
        vector: FloatArray = asked[0]
        return vector

    return asked_vector


def _cosine_with(asked: Callable[[], FloatArray] | None, vectors: Callable[[], FloatArray] | None) -> FloatArray:
    """max(0, cosine) of each candidate with the query."""
    if asked is None or vectors is None:
        return np.zeros(0)
    cosine: FloatArray = np.clip(_unit(vectors()) @ _unit(asked()[None])[0], 0.0, 1.0)
    return cosine


def _cosine(vectors: FloatArray) -> NDArray[np.float32]:
    unit = _unit(vectors)
    cosine = np.clip(unit @ unit.T, 0.0, 1.0).astype(np.float32)
    np.fill_diagonal(cosine, 1.0)
    return cosine


def _unit(vectors: FloatArray) -> FloatArray:
    scaled = by_largest(vectors)
    return _divided(scaled, np.sqrt(np.square(scaled).sum(axis=1)))


def by_largest(vectors: FloatArray) -> FloatArray:
    """Rows over their largest entry: squares of very large or very small numbers leave the range of a float."""
    return _divided(vectors, np.abs(vectors).max(axis=1, initial=0.0))


def _divided(vectors: FloatArray, lengths: FloatArray) -> FloatArray:
    return np.divide(vectors, lengths[:, None], out=np.zeros_like(vectors), where=lengths[:, None] > 0)
