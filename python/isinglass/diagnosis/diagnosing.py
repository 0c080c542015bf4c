"""The diagnostic: what of the evidence reached the reader, and where the rest was lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import pairwise
from typing import Any, NamedTuple, overload

import numpy as np
import numpy.typing as npt

from isinglass.diagnosis.facts import answer_facts_in_context, answer_facts_similarity
from isinglass.diagnosis.ranking import all_gold_at, ndcg_at, recall_at
from isinglass.diagnosis.scoring import answer_score, joint_score, supporting_fact_score
from isinglass.diagnosis.survival import (
    all_gold_in_context,
    answers_in_contexts,
    answers_in_one_text,
    distractor_docs,
    gold_doc_coverage,
    gold_token_density,
)
from isinglass.diagnosis.trace import text_hash
from isinglass.measure.lexical import Vocabulary

DEPTHS = (1, 2, 5)
"""Depths of the columns of the retrieved list, as published."""

FAILURES = ("not_retrieved", "lost_in_compression", "lost_in_packing", "in_context_wrong", "right")


@dataclass(frozen=True)
class Diagnosis:
    """One context against the gold of its question. None means that a measure is not defined here, never 0.

    Attributes
    ----------
    id : str or None
        Of the question.
    answer_in_context : bool or None
        Whether a gold answer is a contiguous run of tokens of the context, both normalised as by the official scripts.
        None where no answer can stand in a text: all are yes/no or normalise to nothing.
    answer_in_context_p1 : bool
        As published by Bala (2026): that normalisation, and every question is scored.
    answer_in_context_lenient : bool or None
        As the first, with spelling forgiven; see `isinglass.diagnosis.normalisation.lenient_tokens`.
    cross_boundary : bool or None
        The run of `answer_in_context` exists only across the border of two snippets: perhaps a coincidence.
    answer_in_retrieved : bool or None
        Whether the answer stands in one retrieved text; None also where the texts are not known.
    gold_doc_coverage, gold_token_density : float or None
    all_gold_in_context : bool or None
    distractor_docs : int or None
        See the functions of these names; None also where the snippets name no documents.
    recall, all_gold, ndcg : dict of int to float or None
        Of the retrieved list, by depth; empty without one.
    em, f1, supporting_fact_em, supporting_fact_f1, joint_em, joint_f1 : float or None
        Of the prediction.
    answer_facts_in_context, answer_facts_similarity : float or None
        Soft measures for long answers, where they were asked for.
    grounded : bool or None
        Every snippet occurs in the source that it names, at its place where it gives one; None without sources.
    failure : str or None
        The first stage at which the evidence was lost: ``not_retrieved``, ``lost_in_compression``,
        ``lost_in_packing``, ``in_context_wrong``, or ``right``. None where what is given does not tell.
    tokens, snippets : int
        Of the context; tokens by the snippets' own counts, else by words.
    """

    id: str | None
    answer_in_context: bool | None
    answer_in_context_p1: bool
    answer_in_context_lenient: bool | None
    cross_boundary: bool | None
    answer_in_retrieved: bool | None
    gold_doc_coverage: float | None
    all_gold_in_context: bool | None
    gold_token_density: float | None
    distractor_docs: int | None
    recall: dict[int, float | None]
    all_gold: dict[int, bool | None]
    ndcg: dict[int, float | None]
    em: float | None
    f1: float | None
    supporting_fact_em: float | None
    supporting_fact_f1: float | None
    joint_em: float | None
    joint_f1: float | None
    answer_facts_in_context: float | None
    answer_facts_similarity: float | None
    grounded: bool | None
    failure: str | None
    tokens: int
    snippets: int

    def as_dict(self) -> dict[str, Any]:
        """One flat row: the attributes, those by depth as ``recall@5``, ``all_gold@5``, ``ndcg@5``."""
        row: dict[str, Any] = {}
        for name, value in vars(self).items():
            if name in ("recall", "all_gold", "ndcg"):
                row.update({f"{name}@{k}": at_depth for k, at_depth in value.items()})
            else:
                row[name] = value
        return row


class Diagnoses(Sequence[Diagnosis]):
    """The diagnoses of many contexts: rows by position, columns by name.

    Parameters
    ----------
    rows : sequence of Diagnosis
    """

    def __init__(self, rows: Sequence[Diagnosis]) -> None:
        self._rows = tuple(rows)

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, at: int) -> Diagnosis: ...
    @overload
    def __getitem__(self, at: slice) -> Diagnoses: ...
    def __getitem__(self, at: int | slice) -> Diagnosis | Diagnoses:
        return Diagnoses(self._rows[at]) if isinstance(at, slice) else self._rows[at]

    def columns(self) -> dict[str, npt.NDArray[np.float64]]:
        """Every measure as an array of shape (n,), nan where it is not defined; `id` and `failure` are no measures."""
        dicts = [row.as_dict() for row in self._rows]
        names = list(dict.fromkeys(name for row in dicts for name in row if name not in ("id", "failure")))
        return {name: np.array([_number(row.get(name)) for row in dicts]) for name in names}

    def summary(self) -> dict[str, dict[str, float | int | None]]:
        """For each measure: `mean` over the rows where it is `defined`, and how many it is not (`undefined`)."""
        summary: dict[str, dict[str, float | int | None]] = {}
        for name, values in self.columns().items():
            known = values[~np.isnan(values)]
            mean = float(known.mean()) if len(known) else None
            summary[name] = {"mean": mean, "defined": len(known), "undefined": len(values) - len(known)}
        return summary

    def failures(self) -> dict[str, int]:
        """How many rows fell into each class; those of which nothing can be told under ``unknown``."""
        counts = Counter(row.failure or "unknown" for row in self._rows)
        return {name: counts[name] for name in (*FAILURES, "unknown") if counts[name]}


@overload
def diagnose(
    context: Any,
    question: Sequence[Any],
    retrieved: Sequence[Any] | None = None,
    prediction: Sequence[Any] | None = None,
    **options: Any,
) -> Diagnoses: ...
@overload
def diagnose(
    context: Any, question: Any, retrieved: Sequence[Any] | None = None, prediction: Any = None, **options: Any
) -> Diagnosis: ...
def diagnose(
    context: Any,
    question: Any,
    retrieved: Sequence[Any] | None = None,
    prediction: Any = None,
    **options: Any,
) -> Diagnosis | Diagnoses:
    """Say what of a question's evidence reached the reader, and where the rest was lost.

    Parameters
    ----------
    context : Selected, str or sequence of snippets
        Exactly what the reader sees. Snippets are strings, mappings or objects with `text`, and optionally `doc`,
        `title`, `id` (names of the document), `cost` or `tokens`, `span` (place in the source's text) and `hash`
        (SHA-256 of the source's text, in hexadecimal).
    question : mapping or object, or a list or tuple of them
        With `answers` (or `answer`), and optionally `id`, `gold_documents` (or `gold`), `supporting_facts`. A list
        asks for many at once; the other arguments then have one entry a question.
    retrieved : sequence, optional
        The retrieved documents, best first: names, or passages as for `isinglass.select`. With passages, their texts
        are the sources that snippets are checked against.
    prediction : str or mapping, optional
        The reader's answer; a mapping has `answer`, and optionally `supporting_facts`.
    compressed : sequence of snippets, optional
        What a compression stage made of the retrieved documents, if there was one.
    rule : str
        Of `isinglass.diagnosis.answer_score`; default "hotpotqa".
    depths : sequence of int
        Of the columns of the retrieved list; default 1, 2, 5.
    facts : bool
        Also measure the facts of long answers; default False.
    embed : callable, optional
        From a list of texts to vectors: also measure the facts of long answers by embeddings.

    Returns
    -------
    Diagnosis, or Diagnoses for many

    Raises
    ------
    TypeError, ValueError
        For an argument of another form; the message says which, what was expected and what was given.

    Notes
    -----
    `failure` names the first broken stage. A gold document that is not in `retrieved`, or that the data set names but
    does not contain, was not retrieved. Then the answer decides: it was lost where a stage had it and the next has not.
    Where it stands in no source word for word, or is a verdict (yes/no), the gold documents decide instead: evidence
    survives in a context that holds all of them.

    References
    ----------
    A. N. Bala (2026), "A Diagnostic for Budget-Constrained Multi-Hop RAG and When Submodular Evidence Packing
    Improves It".

    Examples
    --------
    >>> snippet = {"text": "Maud Ellery was born in Eddlestow.", "title": "Maud Ellery"}
    >>> question = {"answers": ["Eddlestow"], "gold": ["Corrow Lighthouse", "Maud Ellery"]}
    >>> row = diagnose([snippet], question, retrieved=["Maud Ellery", "Fog signal"])
    >>> row.answer_in_context, row.gold_doc_coverage, row.failure
    (True, 0.5, 'not_retrieved')
    """
    _refuse_unknown(options)
    if not isinstance(question, (list, tuple)):
        one = _diagnose([context], [question], [retrieved], [prediction], **_listed(options))
        return one[0]
    return _diagnose(
        _per_question("context", context, len(question)),
        question,
        _per_question("retrieved", retrieved, len(question)),
        _per_question("prediction", prediction, len(question)),
        **options,
    )


def _listed(options: dict[str, Any]) -> dict[str, Any]:
    return {name: [value] if name == "compressed" else value for name, value in options.items()}


def _refuse_unknown(options: Mapping[str, Any]) -> None:
    known = list(_diagnose.__kwdefaults__ or ())
    for name in options:
        if name not in known:
            nearest = get_close_matches(name, ["retrieved", "prediction", *known], 1)
            hint = f"did you mean {nearest[0]!r}?" if nearest else f"it takes {', '.join(known)}"
            raise TypeError(f"diagnose has no option {name!r}: {hint}")


def _per_question(name: str, values: Any, count: int) -> list[Any]:
    if values is None:
        return [None] * count
    _refuse_bare(name, values)
    if len(values) != count:
        raise ValueError(f"{name} must have one entry a question: expected {count}, got {len(values)}")
    return list(values)


def _refuse_bare(name: str, values: Any) -> None:
    if isinstance(values, (str, bytes)):  # its characters would be taken for entries
        raise TypeError(f"{name} must be a sequence with an entry each, got the bare string {values!r:.60}")


class _Question(NamedTuple):
    id: str | None
    answers: Sequence[str]
    gold: Sequence[Hashable]
    supporting_facts: Sequence[Hashable] | None


class _Snippet(NamedTuple):
    text: str
    names: tuple[Hashable, ...]  # of its document
    cost: int | None
    span: tuple[int, int] | None
    hash: str | None

    def document(self, gold: Sequence[Hashable]) -> Hashable:
        """The name that gold knows it by, else its first."""
        return next((name for name in self.names if name in gold), self.names[0])


class _Context(NamedTuple):
    pieces: Sequence[str]  # white space stands between them
    snippets: Sequence[_Snippet]
    tokens: int | None  # where it is not the sum of the snippets'


def _diagnose(
    contexts: Sequence[Any],
    questions: Sequence[Any],
    retrieved: Sequence[Any],
    predictions: Sequence[Any],
    *,
    compressed: Sequence[Any] | None = None,
    rule: str = "hotpotqa",
    depths: Sequence[int] = DEPTHS,
    facts: bool = False,
    embed: Callable[[list[str]], Any] | None = None,
) -> Diagnoses:
    if len(contexts) != len(questions):
        raise ValueError(f"context must have one entry a question: expected {len(questions)}, got {len(contexts)}")
    asked = [_question(question) for question in questions]
    seen = [_context(context) for context in contexts]
    answers = [question.answers for question in asked]
    pieces = [context.pieces for context in seen]
    official = answers_in_contexts(pieces, answers, "official")
    published = answers_in_contexts(pieces, answers, "p1")
    lenient = answers_in_contexts(pieces, answers, "lenient")
    for name, stage in (("retrieved", retrieved), ("compressed", compressed or ())):
        for found in stage:
            _refuse_bare(name, found)
    lists = [None if found is None else [_snippet(given, named=True) for given in found] for found in retrieved]
    # Names alone are no texts; an empty passage is one, in which nothing stands.
    sources = [
        None if found is None or any(isinstance(document, str) for document in found) else documents
        for found, documents in zip(retrieved, lists)
    ]
    in_sources = _found(sources, answers)
    squeezed = [
        None if made is None else [_snippet(given) for given in made]
        for made in _per_question("compressed", compressed, len(asked))
    ]
    in_compressed = _found(squeezed, answers)
    counted = iter(
        Vocabulary(ascii_words=False).count([s.text for context in seen for s in context.snippets if s.cost is None])
    )
    rows = []
    for i, (question, context) in enumerate(zip(asked, seen)):
        gold = question.gold
        named = all(snippet.names for snippet in context.snippets)
        documents = [snippet.document(gold) for snippet in context.snippets] if named else []
        costs = [next(counted) if s.cost is None else s.cost for s in context.snippets]
        found = lists[i]
        ranking = [] if found is None else [s.document(gold) for s in found if s.names]
        ranks = [] if found is None else sorted(depths)
        answered = _answered(question, predictions[i], rule)
        texts = [snippet.text for snippet in context.snippets]
        all_gold = _all_gold(context.snippets, gold)
        stands = _truth(official.defined[i])
        rows.append(
            Diagnosis(
                id=question.id,
                answer_in_context=stands,
                answer_in_context_p1=bool(published.p1[i]),
                answer_in_context_lenient=_truth(lenient.defined[i]),
                cross_boundary=_truth(official.cross_boundary[i]),
                answer_in_retrieved=_truth(in_sources[i]),
                gold_doc_coverage=gold_doc_coverage(documents, gold) if named else None,
                all_gold_in_context=all_gold,
                gold_token_density=gold_token_density(documents, costs, gold) if named else None,
                distractor_docs=distractor_docs(documents, gold) if named else None,
                recall={k: recall_at(ranking, gold, k) for k in ranks},
                all_gold={k: all_gold_at(ranking, gold, k) for k in ranks},
                ndcg={k: ndcg_at(ranking, gold, k) for k in ranks},
                answer_facts_in_context=answer_facts_in_context(texts, question.answers) if facts else None,
                answer_facts_similarity=answer_facts_similarity(texts, question.answers, embed) if embed else None,
                grounded=_grounded(context.snippets, sources[i]),
                failure=_failure(
                    em=answered["em"],
                    all_retrieved=None if found is None else all_gold_at(ranking, gold, len(ranking)),
                    in_sources=_truth(in_sources[i]),
                    in_compressed=_truth(in_compressed[i]),
                    gold_compressed=_all_gold(squeezed[i], gold),
                    in_context=stands,
                    all_gold=all_gold,
                ),
                tokens=sum(costs) if context.tokens is None else context.tokens,
                snippets=len(context.snippets),
                **answered,
            )
        )
    return Diagnoses(rows)


def _failure(
    *,
    em: float | None,
    all_retrieved: bool | None,
    in_sources: bool | None,
    in_compressed: bool | None,
    gold_compressed: bool | None,
    in_context: bool | None,
    all_gold: bool | None,
) -> str | None:
    if em == 1.0:
        return "right"
    if all_retrieved is False or (all_retrieved is None and in_sources is False):
        return "not_retrieved"
    by_answer = in_context is not None and (in_context or in_sources is not False)
    survived = in_context if by_answer else all_gold
    if survived:
        return None if em is None else "in_context_wrong"
    if survived is None or (all_retrieved is None and in_sources is None):
        return None
    compressed = in_compressed if by_answer else gold_compressed
    return "lost_in_compression" if compressed is False else "lost_in_packing"


def _all_gold(stage: Sequence[_Snippet] | None, gold: Sequence[Hashable]) -> bool | None:
    if stage is None or not all(snippet.names for snippet in stage):
        return None
    return all_gold_in_context([snippet.document(gold) for snippet in stage], gold)


def _answered(question: _Question, prediction: Any, rule: str) -> dict[str, float | None]:
    names = ("em", "f1", "supporting_fact_em", "supporting_fact_f1", "joint_em", "joint_f1")
    scores: dict[str, float | None] = dict.fromkeys(names)
    if prediction is None:
        return scores
    given = {"answer": prediction} if isinstance(prediction, str) else prediction
    if not isinstance(given, Mapping) or "answer" not in given:
        raise TypeError(f"prediction must be a string or a mapping with answer, got {prediction!r}")
    answer = answer_score(given["answer"], question.answers, rule)
    scores.update(em=answer.em, f1=answer.f1)
    if question.supporting_facts is not None and (predicted := given.get("supporting_facts")) is not None:
        facts = supporting_fact_score(predicted, question.supporting_facts)
        joint = joint_score(answer, facts)
        scores.update(supporting_fact_em=facts.em, supporting_fact_f1=facts.f1, joint_em=joint.em, joint_f1=joint.f1)
    return scores


def _grounded(snippets: Sequence[_Snippet], sources: Sequence[_Snippet] | None) -> bool | None:
    if sources is None:
        return None

    def stands_in(snippet: _Snippet, source: _Snippet) -> bool:
        if snippet.names and source.names and set(snippet.names).isdisjoint(source.names):
            return False
        if snippet.hash is not None and snippet.hash != text_hash(source.text):
            return False
        text = source.text if snippet.span is None else source.text[slice(*snippet.span)]
        # White space is squeezed where sentences are joined anew, as for the published windows.
        return " ".join(snippet.text.split()) in " ".join(text.split())

    return all(any(stands_in(snippet, source) for source in sources) for snippet in snippets)


def _found(stages: Sequence[Sequence[_Snippet] | None], answers: Sequence[Sequence[str]]) -> npt.NDArray[np.float64]:
    """Whether the answer stands in one text of a stage; nan where there is no such stage."""
    found = answers_in_one_text([[s.text for s in stage or ()] for stage in stages], answers)
    return np.where([stage is None for stage in stages], np.nan, found)


def _question(given: Any) -> _Question:
    answers = _field(given, "answers")
    if answers is None and (answer := _field(given, "answer")) is not None:
        answers = [answer]
    if isinstance(answers, str):
        answers = [answers]
    if answers is None or not all(isinstance(answer, str) for answer in answers):
        raise TypeError(f"question must have answers, a list of strings, got {_shown(given)}")
    gold = _field(given, "gold_documents")
    gold = _field(given, "gold") if gold is None else gold
    facts = _field(given, "supporting_facts")
    if gold is None and facts is not None:
        gold = [title for title, _ in facts]
    if isinstance(gold, str):
        raise TypeError(f"gold must be a collection, expected e.g. [{gold!r}], got the bare string {gold!r}")
    return _Question(_field(given, "id"), list(answers), list(dict.fromkeys(gold or ())), facts)


def _context(given: Any) -> _Context:
    if isinstance(given, str):
        return _Context([given], [_Snippet(given, (), None, None, None)] if given.strip() else [], None)
    snippets = _field(given, "snippets")
    if snippets is not None and isinstance(text := _field(given, "text"), str):
        return _Context(
            _pieces(text, _stretches(snippets)), [_snippet(snippet) for snippet in snippets], _field(given, "cost")
        )
    if isinstance(given, Mapping) or not isinstance(given, Sequence):
        raise TypeError(f"context must be a Selected, a string or a sequence of snippets, got {_shown(given)}")
    listed = [_snippet(snippet) for snippet in given]
    return _Context([snippet.text for snippet in listed], listed, None)


def _stretches(snippets: Sequence[Any]) -> list[tuple[int, int]]:
    """Where the context is one stretch of a source: snippets that touch or overlap there have no border."""
    stretches: list[tuple[int, int]] = []
    last: tuple[Any, int] | None = None
    for snippet in sorted(snippets, key=lambda snippet: tuple(_field(snippet, "context"))):
        begin, end = _field(snippet, "context")
        # The same distance from source to context: what lies between the two is the same too.
        at = (_field(snippet, "index"), _field(snippet, "span")[0] - begin)
        if at == last:
            stretches[-1] = (stretches[-1][0], max(end, stretches[-1][1]))
        else:
            stretches.append((begin, end))
        last = at
    return stretches


def _pieces(text: str, places: Sequence[tuple[int, int]]) -> list[str]:
    """A rendered context, cut at the borders of its snippets; headings are pieces too.

    Where no white space stands at a border (a separator without any), there is no border between tokens either.
    """
    cuts = sorted({0, len(text), *(at for place in places for at in place)})
    pieces: list[str] = []
    for begin, end in pairwise(cuts):
        if pieces and not (pieces[-1][-1].isspace() or text[begin].isspace()):
            pieces[-1] += text[begin:end]
        else:
            pieces.append(text[begin:end])
    return pieces


def _snippet(given: Any, *, named: bool = False) -> _Snippet:
    # In a retrieved list a string is the name of a document, in a context it is a text.
    if isinstance(given, str):
        return _Snippet("", (given,), None, None, None) if named else _Snippet(given, (), None, None, None)
    text = _field(given, "text")
    if not isinstance(text, str):
        raise TypeError(f"snippets must be strings or have text, a string, got {_shown(given)}")
    names = tuple(name for key in ("doc", "title", "id") if (name := _field(given, key)) is not None)
    cost = _field(given, "cost")
    span = _field(given, "span")
    return _Snippet(
        text, names, _field(given, "tokens") if cost is None else cost, None if span is None else tuple(span),
        _field(given, "hash"),
    )  # fmt: skip


def _field(given: Any, name: str) -> Any:
    return given.get(name) if isinstance(given, Mapping) else getattr(given, name, None)


def _truth(value: float) -> bool | None:
    return None if np.isnan(value) else bool(value)


def _number(value: Any) -> float:
    return np.nan if value is None else float(value)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
