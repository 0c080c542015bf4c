"""How much of a long answer survived: the share of its facts that the context still holds.

A span test is degenerate for answers of a paragraph. This softer measure cuts the answer to facts and asks for each. It
says nothing about whether a reader's answer is faithful to the context: that needs a judge of meaning, and is out of
scope.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from isinglass.measure.text import is_content_word, sentences, words

_NUMBER = re.compile(r"(?<![\w.,])\d+(?:[.,:]\d+)*(?:st|nd|rd|th|s)?(?!\w)")
_CAPITALISED = r"[^\W\d_a-z][\w'’-]*"
_ENTITY = re.compile(rf"{_CAPITALISED}(?:\s+(?:(?:of|the|de|van|von|der|la)\s+)?{_CAPITALISED})*")


class Fact(NamedTuple):
    """A piece of an answer that can survive or not.

    Attributes
    ----------
    kind : {"sentence", "number", "entity"}
    text : str
        As it stands in the answer.
    terms : frozenset of str
        What a snippet must hold: its content terms. Never empty.
    """

    kind: Literal["sentence", "number", "entity"]
    text: str
    terms: frozenset[str]


def answer_facts(answer: str) -> tuple[Fact, ...]:
    """The facts of an answer: its sentences, its numbers, and its named entities, each distinct one once.

    A named entity is a run of capitalised words (small words such as "of" may stand inside). One capitalised word that
    opens a sentence is none: it may be any word. What has no content term is no fact.

    Parameters
    ----------
    answer : str

    Returns
    -------
    tuple of Fact
        By kind: sentences, numbers, entities.
    """
    facts: dict[tuple[str, frozenset[str]], Fact] = {}

    def add(kind: Literal["sentence", "number", "entity"], text: str, terms: frozenset[str]) -> None:
        if terms:
            facts.setdefault((kind, terms), Fact(kind, text, terms))

    cut = [answer[start:end] for start, end in sentences(answer)]
    for sentence in cut:
        add("sentence", sentence, _content(sentence))
    for number in _NUMBER.findall(answer):
        add("number", number, frozenset(words(number)))
    for sentence in cut:
        for entity in _ENTITY.finditer(sentence):
            if entity.start() > 0 or len(entity.group().split()) > 1:
                add("entity", entity.group(), _content(entity.group()))
    return tuple(facts.values())


def answer_facts_in_context(snippets: Sequence[str], answers: Sequence[str], *, share: float = 1.0) -> float | None:
    """Share of the facts of an answer whose content terms stand in one snippet; the best over the answers.

    Parameters
    ----------
    snippets : sequence of str
        Of the context.
    answers : sequence of str
        Gold answers.
    share : float
        How much of a fact's terms one snippet must hold, in (0, 1].

    Returns
    -------
    float or None
        In [0, 1]; None where no answer has a fact.
    """
    if not 0 < share <= 1:
        raise ValueError(f"share must be in (0, 1], got {share!r}")
    held = [frozenset(words(snippet)) for snippet in snippets]

    def survives(fact: Fact) -> bool:
        return any(len(fact.terms & terms) >= share * len(fact.terms) for terms in held)

    return _best(answers, lambda facts: sum(map(survives, facts)) / len(facts))


def answer_facts_similarity(
    snippets: Sequence[str], answers: Sequence[str], embed: Callable[[list[str]], Any]
) -> float | None:
    """Mean over the sentences of an answer of the highest max(0, cosine) with a snippet; the best over the answers.

    Parameters
    ----------
    snippets, answers
        As for `answer_facts_in_context`.
    embed : callable
        From a list of texts to an array of shape (texts, d), finite.

    Returns
    -------
    float or None
        In [0, 1]; 0 for an empty context; None where no answer has a sentence with a content term.
    """

    def nearness(facts: tuple[Fact, ...]) -> float:
        said = [fact.text for fact in facts if fact.kind == "sentence"]
        if not snippets or not said:
            return 0.0
        vectors = np.asarray(embed([*said, *snippets]), dtype=np.float64)
        if vectors.ndim != 2 or len(vectors) != len(said) + len(snippets) or not np.isfinite(vectors).all():
            raise ValueError(
                f"embed must return finite numbers of shape ({len(said) + len(snippets)}, d), got {vectors.shape}"
            )
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        unit = vectors / np.where(norms > 0, norms, 1.0)
        cosine = unit[: len(said)] @ unit[len(said) :].T
        return float(np.clip(cosine.max(axis=1), 0.0, 1.0).mean())

    return _best(answers, nearness)


def _best(answers: Sequence[str], measure: Callable[[tuple[Fact, ...]], float]) -> float | None:
    return max((measure(facts) for answer in answers if (facts := answer_facts(answer))), default=None)


def _content(text: str) -> frozenset[str]:
    return frozenset(word for word in words(text) if is_content_word(word))
