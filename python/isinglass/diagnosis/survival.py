"""Measures of the packed context: did the answer and the gold documents survive into it?"""

from collections.abc import Collection, Hashable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from isinglass import _core
from isinglass.diagnosis.normalisation import NORMALISATIONS, is_span, normalised_tokens
from isinglass.measure.characters import character_table
from isinglass.measure.pool import one_of


class AnswerInContext(NamedTuple):
    """Whether a gold answer stands in the context, in two columns.

    Attributes
    ----------
    p1 : bool
        The published measure, which scores every question: "yes" is looked for like any other string, and an answer
        that normalises to nothing is never found.
    defined : bool or None
        The same over the answers that can stand in a text. None, not False, where no gold answer can: all are
        yes/no or normalise to nothing.
    """

    p1: bool
    defined: bool | None


def answer_in_context(context: str, answers: Sequence[str]) -> AnswerInContext:
    """Whether any gold answer is a contiguous run of tokens of the context, both normalised.

    Parameters
    ----------
    context : str
        Exactly what the reader sees.
    answers : sequence of str
        Gold answers; the best of them counts.

    Returns
    -------
    AnswerInContext

    Raises
    ------
    TypeError
        If `answers` is a bare string: its letters would be taken for answers.

    Notes
    -----
    Tokens are compared, not characters: "no" is not in "nothing to know". A run may cross the border of two snippets,
    as it does for the published measure.

    References
    ----------
    A. N. Bala (2026), "A Diagnostic for Budget-Constrained Multi-Hop RAG and When Submodular Evidence Packing
    Improves It".
    """
    _refuse_string(answers, "answers")
    runs = [tokens for answer in answers if (tokens := normalised_tokens(answer))]
    # A token holds no white space, so a run of tokens is a substring once both sides are joined and fenced by blanks.
    haystack = f" {' '.join(normalised_tokens(context))} "
    found = [f" {' '.join(tokens)} " in haystack for tokens in runs]
    spans = [hit for hit, tokens in zip(found, runs) if is_span(tokens)]
    return AnswerInContext(any(found), any(spans) if spans else None)


class AnswersInContexts(NamedTuple):
    """`AnswerInContext` of many contexts, as columns of shape (n,).

    Attributes
    ----------
    p1 : ndarray of bool
        Whether any gold answer stands in the context; all questions scored.
    defined : ndarray of float64
        1 or 0 over the answers that can stand in a text; nan where none can.
    cross_boundary : ndarray of float64
        1 where the answer stands in the context, but in no single snippet; nan where `defined` is.
    """

    p1: npt.NDArray[np.bool_]
    defined: npt.NDArray[np.float64]
    cross_boundary: npt.NDArray[np.float64]


_ACROSS = 1  # of Standing in cpp/include/isinglass/survival.hpp


def answers_in_contexts(
    contexts: Sequence[Sequence[str]], answers: Sequence[Sequence[str]], normalisation: str = "official"
) -> AnswersInContexts:
    """`answer_in_context` for many contexts at once, natively, on the numbers of their tokens.

    Parameters
    ----------
    contexts : sequence, length n, of sequence of str
        The snippets of each context, in order, with white space between them in the context.
    answers : sequence, length n, of sequence of str
        Gold answers of each context.
    normalisation : {"official", "p1", "lenient"}
        See `isinglass.diagnosis.normalisation`.

    Returns
    -------
    AnswersInContexts

    Raises
    ------
    TypeError
        If a context or its answers are a bare string.
    ValueError
        If `contexts` and `answers` differ in length, or for another normalisation.
    """
    tokens_of = NORMALISATIONS[one_of("normalisation", normalisation, tuple(NORMALISATIONS))]
    if len(contexts) != len(answers):
        raise ValueError(f"answers must have one entry a context: expected {len(contexts)}, got {len(answers)}")
    for context, golds in zip(contexts, answers):
        _refuse_string(context, "contexts")
        _refuse_string(golds, "answers")
    numbers = _core.TokenNumbers(normalisation == "official", character_table())
    snippets = [snippet for context in contexts for snippet in context]
    # What lower case is, Python knows; the rest of the two published rules is done natively.
    texts = list(map(tokens_of, snippets)) if normalisation == "lenient" else [text.lower() for text in snippets]
    golds = [gold for of_one in answers for gold in of_one]
    tokenised: dict[str, list[str]] = {gold: tokens_of(gold) for gold in golds}
    context_runs = _offsets(answers)
    standing = _core.find_runs(
        *numbers.of(texts), _offsets(contexts), *numbers.of([tokenised[gold] for gold in golds]), context_runs
    )
    spans = {gold: is_span(tokens) for gold, tokens in tokenised.items()}
    can_stand = np.array([spans[gold] for gold in golds], dtype=bool)
    which = np.repeat(np.arange(len(answers)), np.diff(context_runs))
    defined = np.bincount(which[can_stand], minlength=len(answers)) > 0
    best = np.zeros(len(answers), dtype=np.uint8)
    np.maximum.at(best, which[can_stand], standing[can_stand])
    p1 = np.bincount(which[standing > 0], minlength=len(answers)) > 0
    return AnswersInContexts(p1, np.where(defined, best > 0, np.nan), np.where(defined, best == _ACROSS, np.nan))


def answers_in_one_text(
    texts: Sequence[Sequence[str]], answers: Sequence[Sequence[str]], normalisation: str = "official"
) -> npt.NDArray[np.float64]:
    """Whether an answer stands in one of some texts that are no context together, such as retrieved documents.

    Arguments and errors as for `answers_in_contexts`; 1 or 0, nan where no answer can stand in a text; shape (n,).
    """
    found = answers_in_contexts(texts, answers, normalisation)
    return found.defined - np.nan_to_num(found.cross_boundary)


def _offsets(rows: Sequence[Sequence[object]]) -> npt.NDArray[np.int64]:
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum([len(row) for row in rows], dtype=np.int64)])


def gold_doc_coverage(documents: Collection[Hashable], gold: Collection[Hashable]) -> float | None:
    """Share of the gold documents with at least one snippet in the context.

    Parameters
    ----------
    documents : collection of hashable
        The document of each snippet in the context; repeats are fine.
    gold : collection of hashable
        The gold documents, those that were never retrieved included.

    Returns
    -------
    float or None
        In [0, 1]; None where the question has no gold document.
    """
    gold_set = _set(gold, "gold")
    return len(gold_set & _set(documents, "documents")) / len(gold_set) if gold_set else None


def all_gold_in_context(documents: Collection[Hashable], gold: Collection[Hashable]) -> bool | None:
    """Whether every gold document has a snippet in the context; arguments as for `gold_doc_coverage`.

    Returns
    -------
    bool or None
        None where the question has no gold document.
    """
    gold_set = _set(gold, "gold")
    return gold_set <= _set(documents, "documents") if gold_set else None


def gold_token_density(
    documents: Sequence[Hashable], tokens: Sequence[float], gold: Collection[Hashable]
) -> float | None:
    """Share of the context's tokens that come from gold documents.

    Parameters
    ----------
    documents : sequence of hashable, length s
        The document of each snippet in the context.
    tokens : sequence of int, length s
        Tokens of each snippet, by the counter that the budget is counted in.
    gold : collection of hashable
        The gold documents.

    Returns
    -------
    float or None
        In [0, 1]; 0 for a context without tokens; None where the question has no gold document.

    Raises
    ------
    ValueError
        If `documents` and `tokens` differ in length, or a count is negative.
    """
    gold_set = _set(gold, "gold")
    _refuse_string(documents, "documents")
    if len(documents) != len(tokens):
        raise ValueError(
            f"tokens must have one count a snippet: expected {len(documents)} as in documents, got {len(tokens)}"
        )
    for i, count in enumerate(tokens):
        if not count >= 0:
            raise ValueError(f"tokens[{i}] must be >= 0, got {count}")
    if not gold_set:
        return None
    total = sum(tokens)
    return sum(count for document, count in zip(documents, tokens) if document in gold_set) / total if total else 0.0


def distractor_docs(documents: Collection[Hashable], gold: Collection[Hashable]) -> int:
    """Number of distinct documents in the context that are not gold; arguments as for `gold_doc_coverage`."""
    return len(_set(documents, "documents") - _set(gold, "gold"))


def _set(names: Collection[Hashable], what: str) -> frozenset[Hashable]:
    _refuse_string(names, what)
    return frozenset(names)


def _refuse_string(value: object, what: str) -> None:
    if isinstance(value, (str, bytes)):
        raise TypeError(f"{what} must be a collection, expected e.g. [{value!r}], got the bare string {value!r}")
