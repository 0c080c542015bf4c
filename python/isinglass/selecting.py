"""The main job: passages in, the context that a reader gets out, with a reason for everything that is not in it."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from isinglass.basket import Entry
from isinglass.diagnosis.trace import Trace, plain, text_hash
from isinglass.measure.passages import Passage
from isinglass.measure.pool import RENDERS, Embed, Pool, heading, one_of, prepare
from isinglass.measure.text import Span
from isinglass.policies import Choice, Policy, available_tokens, check_options, choose, find_policy
from isinglass.result import Result

ORDERS = ("choice", "relevance", "document", "edges")


@dataclass(frozen=True)
class Snippet:
    """One chosen candidate, where it came from and where it stands.

    Attributes
    ----------
    candidate : int
        Its position in `Selected.record`.
    index : int
        Position of its passage in the input.
    id, title, doc
        Of the passage; the id is the position where it has none.
    text : str
        As it stands in the context.
    span : (int, int)
        Where it stands in the passage's text, in characters, end excluded.
    source : (int, int) or None
        Where it stands in the document; None where the passage gives no usable offsets.
    context : (int, int)
        Where it stands in `Selected.text`.
    cost : int
        Tokens it was charged.
    """

    candidate: int
    index: int
    id: str | int
    title: str | None
    doc: Hashable
    text: str
    span: Span
    source: Span | None
    context: Span
    cost: int


@dataclass(frozen=True)
class Kept:
    """What is kept of one passage.

    Attributes
    ----------
    index : int
        Position of the passage in the input.
    id, title, doc
        Of the passage; the id is the position where it has none.
    text : str
        Its kept pieces in the passage's order, joined by the separator.
    spans : tuple of (int, int)
        Where they stand in the passage's text.
    score : float or None
        As given.
    """

    index: int
    id: str | int
    title: str | None
    doc: Hashable
    text: str
    spans: tuple[Span, ...]
    score: float | None


@dataclass(frozen=True)
class Selected:
    """What `select` returns.

    Attributes
    ----------
    text : str
        The context, ready for the prompt.
    passages : tuple of Kept
        What is kept of each passage, by first appearance in the context.
    indices : tuple of int
        Positions of these passages in the input.
    snippets : tuple of Snippet
        The chosen candidates, by appearance in the context.
    cost : int
        Tokens of `text`, counted on the text itself; never above `budget` less the reserve.
    budget : int
        As given.
    counter : str
        Name of what counted the tokens.
    margin : int
        Tokens left free because the counter gives more for the whole text than for its parts together; 0 for
        counters that add up.
    record : tuple of Entry
        For every candidate, in input order, what became of it.
    result : Result or None
        Of the solver, for policies that ask one, with its certificate.
    """

    text: str
    passages: tuple[Kept, ...]
    indices: tuple[int, ...]
    snippets: tuple[Snippet, ...]
    cost: int
    budget: int
    counter: str
    margin: int
    record: tuple[Entry, ...]
    result: Result | None

    def __str__(self) -> str:
        return self.text


def select(
    query: str,
    passages: Iterable[Any],
    budget: int,
    *,
    policy: str = "bridge",
    measure: str = "default",
    candidates: str | None = None,
    count_tokens: Callable[[str], int] | None = None,
    embed: Embed | None = None,
    order: str | None = None,
    render: str | None = None,
    separator: str | None = None,
    reserve_tokens: int = 0,
    trace: Trace | str | os.PathLike[str] | None = None,
    **options: Any,
) -> Selected:
    """Pick the passages that serve a reader best under a hard token budget.

    Parameters
    ----------
    query : str
    passages : iterable of str, mapping or object
        With `text`, and optionally `title`, `id`, `doc`, `start`, `end`, `score`, `embedding`; best first, where a
        retriever ordered them. See `isinglass.measure.Passage`.
    budget : int
        Tokens that the context may have, as `count_tokens` counts them. Hard. 0 gives an empty context.
    policy : str
        ``bridge``, ``submodular``, ``focused``, ``packed``, ``mmr``, ``naive``, ``topk``, ``qubo``, ``hybrid``,
        ``bm25``, ``greedy-coverage``, ``random``, ``setr`` or ``setro``; see `isinglass.policies`.
    measure : {"default", "p1"}
        How texts become numbers: for any script, or exactly as Bala (2026) published.
    candidates : {"passages", "sentences", "windows"}, optional
        What is picked: whole passages, sentences, or sentences with their neighbours. Default by policy and measure.
    count_tokens : callable, optional
        Text to number of tokens. Default: words, which are not a model's tokens.
    embed : callable, optional
        ``embed(list of str)`` to an array (n, d). Policy bridge adds how close a sentence is to the question, and takes
        off how close it is to one already chosen; it embeds "Title. sentence".
    order : {"choice", "relevance", "document", "edges"}, optional
        Order in the context. ``document``: by document and place, adjacent and overlapping pieces joined. ``edges``:
        the most relevant first and last, the least in the middle. Default ``choice``; ``document`` for bridge.
    render : {"plain", "titled"}, optional
        Whether a piece stands under its title. Default ``plain``; ``titled`` for bridge, which pays each shown title
        once.
    separator : str, optional
        Between two pieces: a blank line, or one space in ``measure="p1"``.
    reserve_tokens : int
        Tokens of the budget to keep free, for the question or the answer.
    trace : path or Trace, optional
        A file to which one JSON line is added: what was retrieved, cut, selected and rendered, by ids, hashes and
        places, without any text. An `isinglass.diagnosis.Trace` adds an id and a bucket, or the texts.
    **options
        `max_items`, `allowed`, `pinned` (of passages), and those of the policy; see `isinglass.policies.choose`.

    Returns
    -------
    Selected

    Raises
    ------
    TypeError
        For an unknown keyword, with the nearest known one.
    ValueError
        For a bad passage, budget or option; the message says which, what was expected and what was given.

    Examples
    --------
    >>> picked = select("Where is the lake?", ["The lake is in Norland.", "Cats sleep."], budget=6)
    >>> picked.text
    'The lake is in Norland.'
    >>> [entry.reason for entry in picked.record]
    ['selected', 'budget']
    """
    begun = time.perf_counter()
    entry = find_policy(policy)
    given = check_options(entry, options, also=select.__kwdefaults__ or ())
    available = available_tokens(budget, reserve_tokens)
    order = entry.order if order is None else one_of("order", order, ORDERS)
    render = entry.render if render is None else one_of("render", render, RENDERS)
    pool = prepare(
        query,
        passages,
        measure=measure,
        candidates=entry.candidates if candidates is None else candidates,
        count_tokens=count_tokens,
        embed=embed,
        embed_titles=entry.embeds_titles,
        separator=separator,
        render=render,
    )
    return _select(pool, entry, budget, reserve_tokens, available, order, given, trace, begun)


def select_from(
    pool: Pool,
    budget: int,
    *,
    policy: str = "bridge",
    order: str | None = None,
    reserve_tokens: int = 0,
    trace: Trace | str | os.PathLike[str] | None = None,
    **options: Any,
) -> Selected:
    """`select` from a pool that is measured already: many policies and budgets on one question.

    Parameters
    ----------
    pool : Pool
        Of `isinglass.measure.prepare`, which decides candidates, counter, separator and titles.
    budget, policy, order, reserve_tokens, trace, **options
        As for `select`; errors too.

    Returns
    -------
    Selected
    """
    begun = time.perf_counter()
    entry = find_policy(policy)
    order = entry.order if order is None else one_of("order", order, ORDERS)
    given = check_options(entry, options, also=select_from.__kwdefaults__ or ())
    available = available_tokens(budget, reserve_tokens)
    return _select(pool, entry, budget, reserve_tokens, available, order, given, trace, begun)


async def aselect(query: str, passages: Iterable[Any], budget: int, **options: Any) -> Selected:
    """`select` in a thread, for callers with an event loop; same parameters, same answer."""
    return await asyncio.to_thread(select, query, passages, budget, **options)


def _select(
    pool: Pool,
    policy: Policy,
    budget: int,
    reserve: int,
    available: int,
    order: str,
    options: dict[str, Any],
    trace: Trace | str | os.PathLike[str] | None,
    begun: float,
) -> Selected:
    choice, context, cost, margin = _within(pool, policy.name, budget, reserve, available, order, options)
    picked = _selected(pool, choice, context, cost, int(budget), margin)
    if trace is not None:
        config = {
            "policy": policy.name, "measure": pool.measure, "candidates": pool.grain, "order": order,
            "render": pool.render, "separator": pool.separator, "budget": int(budget), "reserve_tokens": int(reserve),
            "counter": pool.counter.name, "embeddings": pool.embedded, "options": options,
        }  # fmt: skip
        where = Trace.of(trace)
        seconds = time.perf_counter() - begun
        where.write(pool.query, _record(pool, choice, picked, config, seconds, text=where.text))
    return picked


def _within(
    pool: Pool, policy: str, budget: int, reserve: int, available: int, order: str, options: dict[str, Any]
) -> tuple[Choice, _Context, int, int]:
    """A choice whose rendered text, counted as a whole, is within what is available.

    Costs are of single pieces. A counter that gives more for the whole than for its parts is met by choosing again
    with a margin, which grows at least twofold until the text fits.
    """
    margin = 0
    while True:
        choice = choose(pool, policy, budget, reserve_tokens=reserve + margin, **options)
        context = _render(pool, _arranged(pool, choice.order, order), joined=order == "document")
        cost = pool.counter(context.text) if choice.order else 0
        if cost <= available:
            return choice, context, cost, margin
        margin = min(available, max(cost - available, 2 * margin))


@dataclass(frozen=True)
class _Context:
    """A rendered text, its candidates in order of appearance, and where each stands."""

    text: str
    candidates: tuple[int, ...]
    places: tuple[Span, ...]


@dataclass(frozen=True)
class _Block:
    """A stretch of text from one place, and the places of candidates in it."""

    text: str
    start: int
    candidates: tuple[int, ...]
    places: tuple[Span, ...]


def _arranged(pool: Pool, chosen: Sequence[int], order: str) -> list[int]:
    by_relevance = sorted(chosen, key=lambda i: -pool.relevance[i])
    match order:
        case "relevance":
            return by_relevance
        case "edges":
            return by_relevance[::2] + by_relevance[1::2][::-1]
        case "document":
            place = (pool.spans[:, 0], pool.passage, pool.sources[:, 0], pool.frame, pool.document)
            rank = np.empty(len(pool), dtype=np.int64)
            rank[np.lexsort(place)] = np.arange(len(pool))
            return sorted(chosen, key=lambda i: rank[i])
        case _:
            return list(chosen)


def _render(pool: Pool, arranged: Sequence[int], *, joined: bool) -> _Context:
    blocks: list[_Block] = []
    for i in arranged:
        block = _Block(pool.texts[i], int(pool.sources[i, 0]), (i,), ((0, len(pool.texts[i])),))
        if joined and blocks and (union := _union(pool, blocks[-1], i)) is not None:
            blocks[-1] = union
        else:
            blocks.append(block)
    text = ""
    candidates: list[int] = []
    places: list[Span] = []
    shown: tuple[int, str] | None = None
    for block in blocks:
        first = block.candidates[0]
        title = heading(pool.passages[pool.passage[first]].title, pool.render)
        place = int(pool.document[first]), title
        if text:
            # Under a title of their own, pieces of one document read as one paragraph.
            text += " " if joined and title and place == shown else pool.separator
        text += title if place != shown else ""
        shown = place
        candidates.extend(block.candidates)
        places.extend((len(text) + a, len(text) + b) for a, b in block.places)
        text += block.text
    return _Context(text, tuple(candidates), tuple(places))


def _union(pool: Pool, block: _Block, i: int) -> _Block | None:
    """The block with candidate `i` after or within it, if the two touch or overlap in one document; else None.

    White space between them counts as touching and is kept. Texts that contradict their offsets are not joined.
    """
    last = block.candidates[-1]
    start, end = pool.sources[i].tolist()
    passage = pool.passages[pool.passage[i]]
    low, high = pool.spans[i].tolist()
    same_title = passage.title == pool.passages[pool.passage[last]].title
    if pool.frame[i] != pool.frame[last] or min(start, block.start) < 0 or not same_title or end - start != high - low:
        return None
    # The source as it stands: a published window has its white space squeezed, which would shift all places.
    held = block.text if len(block.candidates) > 1 else _source_text(pool, last)
    if len(block.candidates) == 1 and len(held) != pool.sources[last, 1] - block.start:
        return None
    gap = start - (block.start + len(held))
    if gap > low or (gap > 0 and not passage.text[low - gap : low].isspace()):
        return None
    added = passage.text[low - max(gap, 0) : high]
    begin = start - max(gap, 0) - block.start
    if not added.startswith(held[begin:]) and not held[begin:].startswith(added):
        return None
    text = held[:begin] + max(added, held[begin:], key=len)
    place = (start - block.start, end - block.start)
    places = block.places if len(block.candidates) > 1 else ((0, len(held)),)
    return replace(block, text=text, candidates=(*block.candidates, i), places=(*places, place))


def _source_text(pool: Pool, i: int) -> str:
    low, high = pool.spans[i].tolist()
    text: str = pool.passages[pool.passage[i]].text
    return text[low:high]


def _selected(pool: Pool, choice: Choice, context: _Context, cost: int, budget: int, margin: int) -> Selected:
    input_order = np.lexsort((pool.sentence, pool.passage))
    position = np.empty(len(pool), dtype=np.int64)
    position[input_order] = np.arange(len(pool))
    snippets = []
    for i, place in zip(context.candidates, context.places, strict=True):
        index = int(pool.passage[i])
        passage = pool.passages[index]
        low, high = (int(k) for k in pool.spans[i])
        start, end = (int(k) for k in pool.sources[i])
        snippets.append(
            Snippet(
                candidate=int(position[i]),
                index=index,
                id=_name(passage, index),
                title=passage.title,
                doc=passage.doc,
                text=context.text[slice(*place)],
                span=(low, high),
                source=(start, end) if passage.start is not None and start >= 0 else None,
                context=place,
                cost=choice.record[i].cost,
            )
        )
    indices = tuple(dict.fromkeys(snippet.index for snippet in snippets))
    return Selected(
        text=context.text,
        passages=tuple(_kept(pool, index, snippets) for index in indices),
        indices=indices,
        snippets=tuple(snippets),
        cost=cost,
        budget=budget,
        counter=pool.counter.name,
        margin=margin,
        record=tuple(choice.record[i] for i in input_order),
        result=choice.result,
    )


def _kept(pool: Pool, index: int, snippets: Sequence[Snippet]) -> Kept:
    passage = pool.passages[index]
    own = sorted((s for s in snippets if s.index == index), key=lambda s: s.span)
    return Kept(
        index=index,
        id=_name(passage, index),
        title=passage.title,
        doc=passage.doc,
        text=pool.separator.join(s.text for s in own),
        spans=tuple(s.span for s in own),
        score=passage.score,
    )


def _name(passage: Passage, index: int) -> str | int:
    return index if passage.id is None else passage.id


def _record(
    pool: Pool, choice: Choice, picked: Selected, config: dict[str, Any], seconds: float, *, text: bool
) -> dict[str, Any]:
    """A trace line, but for what the `Trace` adds; see isinglass/diagnosis/trace.schema.json."""
    input_order = np.lexsort((pool.sentence, pool.passage)).tolist()
    result = picked.result
    record: dict[str, Any] = {
        "query_hash": text_hash(pool.query),
        "config_hash": text_hash(json.dumps(config, sort_keys=True, default=plain)),
        "config": config,
        "policy": config["policy"],
        "budget": picked.budget,
        "cost": picked.cost,
        "counter": picked.counter,
        "backend": None if result is None else result.provenance["backend"],
        "seed": None if result is None else result.provenance["seed"],
        "status": None if result is None else result.status,
        "certificate": None if result is None else asdict(result.certificate),
        "timings": ({} if result is None else dict(result.timings)) | {"total": seconds},
        "sources": [
            {
                "id": _name(passage, index),
                "doc": passage.doc,
                "hash": text_hash(passage.text),
                "tokens": pool.counter(passage.text),
                "score": passage.score,
                "start": passage.start,
                "end": passage.end,
            }
            | ({"title": passage.title} if text else {})
            for index, passage in enumerate(pool.passages)
        ],
        "stages": {
            "retrieved": [_name(passage, index) for index, passage in enumerate(pool.passages)],
            "compressed": [pool.ids[i] for i in input_order],
            "selected": [pool.ids[i] for i in choice.order],
            "materialised": [
                {
                    "id": picked.record[s.candidate].id,
                    "passage": s.index,
                    "tokens": s.cost,
                    "span": s.span,
                    "source": s.source,
                    "context": s.context,
                }
                for s in picked.snippets
            ],
        },
        "candidates": [
            {
                "id": entry.id,
                "passage": int(pool.passage[i]),
                "span": pool.spans[i].tolist(),
                "relevance": float(pool.relevance[i]),
                "reason": entry.reason,
                "gain": entry.gain,
                "cost": entry.cost,
            }
            | ({"text": pool.texts[i]} if text else {})
            for i, entry in zip(input_order, picked.record, strict=True)
        ],
    }
    return record | ({"query": pool.query, "context": picked.text} if text else {})
