"""What an answer requires, and which candidates support it: by rules, from recorded labels, or by an oracle.

Everything that turns a question into requirements is a *labeller*: a callable from a `Pool` to `Requirements`. The
default, `rule_requirements`, needs no model. A language model's labels are stored once and read back by a
`RequirementCache`, so that an experiment asks nobody a second time.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from isinglass.measure.bridge import PooledBridge, bridge_relevance, whole_bridge_pool
from isinglass.measure.lexical import FloatArray
from isinglass.measure.pool import MEASURES, Pool
from isinglass.measure.text import combining_marks
from isinglass.problems import gate
from isinglass.problems.evidence import EvidencePenalties, EvidenceProblem, EvidenceWeights, complementarity
from isinglass.records import RecordError, read_records

KINDS = ("entity", "relation", "answer")
RULES_VERSION = "1"


@dataclass(frozen=True)
class Requirement:
    """One thing that an answer needs to be told.

    Attributes
    ----------
    text : str
        In words.
    kind : {"entity", "relation", "answer"}
        Who or what the question speaks of; what it says or asks of them; the type of the answer.
    weight : float
        w_j >= 0.
    """

    text: str
    kind: str
    weight: float

    def __post_init__(self) -> None:
        if not isinstance(self.text, str) or not self.text.strip():
            raise ValueError(f"text of a requirement must be a string that says something, got {self.text!r}")
        if self.kind not in KINDS:
            raise ValueError(f"kind of a requirement must be one of {', '.join(KINDS)}, got {self.kind!r}")
        object.__setattr__(self, "weight", gate.number("weight of a requirement", self.weight, low=0))


@dataclass(frozen=True, eq=False)
class Requirements:
    """The requirements of a question, and how far each candidate of a pool supports each.

    Attributes
    ----------
    requirements : tuple of Requirement, length m
    support : ndarray of int8, shape (m, n)
        0: not; 1: mentions or bridges; 2: states it.
    model : str
        Who says so: ``rules``, ``oracle`` (gold labels: for experiments only), or the name of a language model.
    prompt_version : str
        Of the rules, or of the prompts.
    """

    requirements: tuple[Requirement, ...]
    support: NDArray[np.int8]
    model: str
    prompt_version: str

    @property
    def weights(self) -> FloatArray:
        """w_j, shape (m,)."""
        return np.array([requirement.weight for requirement in self.requirements], dtype=np.float64)


class Labeller(Protocol):
    """From a pool to what its question requires and what its candidates support."""

    def __call__(self, pool: Pool, /) -> Requirements: ...


# --- rules -----------------------------------------------------------------------------------------------------------


@cache
def _token(ascii_only: bool) -> re.Pattern[str]:
    # Marks belong to the word: it would otherwise fall apart into words that the question does not have.
    marks = "" if ascii_only else f"[{combining_marks()}]|"
    return re.compile(rf"[\"“”]|[^\W_](?:[^\W_]|{marks}['’.&-](?=[^\W_]))*")


_SMALL_WORDS = "of the de van von der la le di da del al bin ibn"
_SMALL = frozenset(_SMALL_WORDS.split())
# Words that say how a thing is asked and not what it is about; the stop words of the measure come on top.
_ASKING_WORDS = (
    "can could would will shall should may might must many much more most less least than then there name named called "
    "also both either neither between among one two into about after before during between whether other another any "
    "first last earlier later older younger same such only very often ever has have had not no yes or and but"
)
_ASKING = frozenset(_ASKING_WORDS.split())
_NUMBER_ASKED = re.compile(r"\b(?:how (?:many|much|long|far|tall|high|big|large)|what (?:number|population))\b", re.I)
_TIME_ASKED = re.compile(r"\b(?:when|(?:what|which) (?:year|date|day|month|decade|century)|how old)\b", re.I)
_NAME_ASKED = re.compile(r"\b(?:who|whom|whose|where|what name|(?:what|which) (?:is|was) the (?:name|title))\b", re.I)
_DIGIT = re.compile(r"\d")
_MONTHS = "January|February|March|April|May|June|July|August|September|October|November|December"
_TIME = re.compile(rf"\b(?:(?:1\d|20)\d\d|{_MONTHS})\b")
_NAME = re.compile(r"(?<=[^\W_][ ,;(])[^\W\d_a-z][^\W\d_]+")
# Type of the answer that a question asks for, what says so in the question, and what a candidate must then hold.
_ANSWERS = (("a time", _TIME_ASKED, _TIME), ("a number", _NUMBER_ASKED, _DIGIT), ("a name", _NAME_ASKED, _NAME))


@dataclass(frozen=True)
class _Words:
    """A stretch of the question: its words as they stand, and their stems."""

    text: str
    stems: tuple[str, ...]


def _parts(pool: Pool) -> tuple[list[_Words], list[_Words]]:
    """Entities and relations of the question, each distinct one once.

    An entity is a run of capitalised words or numbers (small words such as "of" may stand inside), or what stands in
    double quotes; a capitalised word that only asks is none. A relation is a run of content words between them.
    """
    rules = MEASURES[pool.measure]
    entities: dict[tuple[str, ...], _Words] = {}
    relations: dict[tuple[str, ...], _Words] = {}

    def close(run: list[str], kept: dict[tuple[str, ...], _Words]) -> None:
        while run and run[-1] in _SMALL:
            run.pop()
        text = " ".join(run)
        stems = tuple(dict.fromkeys(word[:5] for word in rules.words(text) if rules.is_content_word(word)))
        if stems:
            kept.setdefault(stems, _Words(text, stems))
        run.clear()

    named: list[str] = []
    said: list[str] = []
    quoted = False
    end = 0
    for token in _token(pool.query.isascii()).finditer(pool.query):
        word = token.group()
        apart = pool.query[end : token.start()].strip() != ""
        end = token.end()
        if word in '"“”':
            close(named, entities)
            close(said, relations)
            quoted = not quoted
            continue
        if apart and not quoted:
            close(named, entities)
            close(said, relations)
        lower = word.lower()
        content = any(map(rules.is_content_word, rules.words(word))) and lower not in _ASKING
        if quoted or (content and (word[0].isupper() or (word.isdigit() and (named or len(word) > 2)))):
            close(said, relations)
            named.append(word)
        elif named and lower in _SMALL:
            named.append(word)
        else:
            close(named, entities)
            if content:
                said.append(word)
            else:
                close(said, relations)
    close(named, entities)
    close(said, relations)
    return list(entities.values()), list(relations.values())


def rule_requirements(pool: Pool) -> Requirements:
    """Requirements and supports without a model: deterministic, from words alone.

    Requirements: each entity of the question, each relation (a run of other content words), and the type of the answer
    where the question asks for a time, a number or a name. Words are compared by their first five letters. An entity or
    relation weighs what its words weigh by their rarity, ln(1 + n / df); an answer type weighs the mean of the others;
    then all are scaled to a mean of 1. A question without any content word has no requirement.

    Support of a candidate, read with the title of its document. It *holds* an entity if it has all of its words, a
    relation if it has at least half of their weight. Its *anchor* is there if it holds an entity of the question, or
    bridges to one: a sentence that holds an entity names its document, or it names a document that holds one. A
    question without entities asks no anchor.

    - Entity: 2 if it holds it and a relation, or opens the document that bears the name; 1 if it holds it otherwise, or
      bridges to it.
    - Relation: 2 with an anchor; 1 without.
    - Answer type: 2 if it has something of that type, an anchor and a relation; 1 with the anchor alone.

    Parameters
    ----------
    pool : Pool

    Returns
    -------
    Requirements
        With `model` "rules".
    """
    entities, relations = _parts(pool)
    pooled = whole_bridge_pool(pool)
    core = pooled.bridge.core
    rules = MEASURES[pool.measure]
    stems = list(dict.fromkeys(word[:5] for word in rules.words(pool.query) if rules.is_content_word(word)))
    column = {stem: k for k, stem in enumerate(stems)}
    n = core.size
    held = core.coverage.astype(bool)
    weight = np.where(core.idf > 0, core.idf, math.log1p(n))
    titles = _title_stems(pool, pooled, column)
    with_title = held | titles[core.document]

    def holds(words: _Words, texts: NDArray[np.bool_], share: float) -> NDArray[np.bool_]:
        own = [column[stem] for stem in words.stems]
        total = weight[own].sum()
        enough: NDArray[np.bool_] = texts[:, own] @ weight[own] >= share * total * (1 - 1e-12)
        return enough

    named = [holds(words, with_title, 1.0) for words in entities]
    opens = [core.first & holds(words, titles, 1.0)[core.document] for words in entities]
    bridged = [_bridged(core, mask) for mask in named]
    related = [holds(words, held, 0.5) for words in relations]
    nothing = np.zeros(n, dtype=bool)
    any_related = np.logical_or.reduce(related, axis=0) if related else nothing
    anchored = np.logical_or.reduce([*named, *bridged], axis=0) if entities else ~nothing

    found: list[tuple[str, str, float]] = []
    rows: list[NDArray[np.int8]] = []

    def add(text: str, kind: str, mass: float, partly: NDArray[np.bool_], directly: NDArray[np.bool_]) -> None:
        found.append((text, kind, mass))
        rows.append(np.where(directly, 2, partly).astype(np.int8))

    def mass(words: _Words) -> float:
        return float(weight[[column[stem] for stem in words.stems]].sum())

    for words, mask, first, bridge in zip(entities, named, opens, bridged, strict=True):
        add(words.text, "entity", mass(words), mask | bridge, mask & (any_related | first))
    for words, mask in zip(relations, related, strict=True):
        add(words.text, "relation", mass(words), mask, mask & anchored)
    for text, asked, shape in _ANSWERS if found else ():
        if asked.search(pool.query):
            typed = np.array([shape.search(pool.texts[i]) is not None for i in pooled.candidate], dtype=bool)
            mean = sum(m for _, _, m in found) / len(found)
            add(text, "answer", mean, typed & anchored, typed & anchored & any_related)
            break
    scale = len(found) / total if (total := sum(m for _, _, m in found)) else 1.0
    support = np.zeros((len(found), len(pool)), dtype=np.int8)
    if found and n:
        kept = pooled.kept_as >= 0
        sentence = np.zeros(len(pool), dtype=np.int64)
        sentence[pooled.candidate] = np.arange(n)
        support[:, kept] = np.stack(rows)[:, sentence[pooled.kept_as[kept]]]
    support.setflags(write=False)
    return Requirements(
        tuple(Requirement(text, kind, m * scale) for text, kind, m in found), support, "rules", RULES_VERSION
    )


def _title_stems(pool: Pool, pooled: PooledBridge, column: Mapping[str, int]) -> NDArray[np.bool_]:
    """Which stems of the question stand in the title of each document, shape (documents, stems)."""
    rules = MEASURES[pool.measure]
    held = np.zeros((len(pooled.bridge.core.named), len(column)), dtype=bool)
    for document, title in {(int(pool.document[i]), pool.passages[pool.passage[i]].title) for i in range(len(pool))}:
        for word in rules.words(title or ""):
            if word[:5] in column:
                held[document, column[word[:5]]] = True
    return held


def _bridged(core: Any, named: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Sentences of a document that a sentence of `named` names, and sentences that name a document with such a one."""
    documents = np.zeros(len(core.named), dtype=bool)
    documents[core.document[named]] = True
    through, leads_to = core.through[core.document], core.leads_to
    result: NDArray[np.bool_] = ((through >= 0) & named[through]) | ((leads_to >= 0) & documents[leads_to])
    return result


# --- oracle ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class OracleLabeller:
    """Gold labels: each supporting sentence is a requirement of weight 1. For experiments only; never deploy it.

    A candidate states the requirement (2) if at least half of the sentence's characters stand in it, and mentions it
    (1) if it is of the same document.

    Attributes
    ----------
    facts : collection of (document name, (start, end))
        Where the supporting sentences stand in the texts of the passages of that `doc`.
    """

    facts: Collection[tuple[Any, tuple[int, int]]]

    def __call__(self, pool: Pool) -> Requirements:
        requirements, rows = [], []
        documents = [pool.passages[p].doc for p in pool.passage.tolist()]
        for doc, (start, end) in self.facts:
            same = np.array([own == doc for own in documents], dtype=bool)
            shared = np.minimum(pool.spans[:, 1], end) - np.maximum(pool.spans[:, 0], start)
            stated = same & (2 * shared >= end - start)
            requirements.append(Requirement(f"{doc}: characters {start} to {end}", "relation", 1.0))
            rows.append(np.where(stated, 2, same).astype(np.int8))
        support = np.stack(rows) if rows else np.zeros((0, len(pool)), dtype=np.int8)
        return Requirements(tuple(requirements), support, "oracle", "1")


# --- the cache of labels ---------------------------------------------------------------------------------------------


def candidate_key(title: str | None, text: str) -> str:
    """The name of a candidate in a cache: a digest of what a labeller reads, its title and its text."""
    return hashlib.sha256(f"{title or ''}\n{text}".encode("utf-8", "surrogatepass")).hexdigest()[:20]


def candidate_keys(pool: Pool) -> list[str]:
    """The `candidate_key` of every candidate of a pool."""
    return [candidate_key(pool.passages[p].title, text) for p, text in zip(pool.passage, pool.texts, strict=True)]


@dataclass(frozen=True)
class RequirementRecord:
    """What was said once about one question: a line of a cache.

    Attributes
    ----------
    question : str
        As asked; the record's key.
    requirements : tuple of Requirement, length m
    supports : mapping of str to tuple of int
        By `candidate_key`: m levels 0, 1 or 2.
    selections : mapping of str to tuple of str
        By the name of a selecting policy (``setr``, ``setro``): the candidate keys that it chose, in its order.
    model, prompt_version : str
    """

    question: str
    requirements: tuple[Requirement, ...]
    supports: Mapping[str, tuple[int, ...]]
    selections: Mapping[str, tuple[str, ...]]
    model: str
    prompt_version: str

    def as_dict(self) -> dict[str, Any]:
        """For JSON; `from_dict` reads it back."""
        return {
            "schema_version": 1,
            "question": self.question,
            "model": self.model,
            "prompt_version": self.prompt_version,
            "requirements": [{"text": r.text, "kind": r.kind, "weight": r.weight} for r in self.requirements],
            "supports": {key: list(levels) for key, levels in self.supports.items()},
            "selections": {name: list(keys) for name, keys in self.selections.items()},
        }

    @classmethod
    def from_dict(cls, record: Any) -> RequirementRecord:
        """Read one line of a cache; a ValueError says what it lacks."""
        expected = ("question", "model", "prompt_version", "requirements", "supports")
        if not isinstance(record, dict) or not set(expected) <= record.keys():
            got = sorted(record) if isinstance(record, dict) else f"a {type(record).__name__}"
            raise ValueError(f"expected a requirement record with the fields {', '.join(expected)}, got {got}")
        if record.get("schema_version") != 1:
            raise ValueError(f"schema_version must be 1, got {record.get('schema_version')!r}")
        for name in ("question", "model", "prompt_version"):
            if not isinstance(record[name], str):
                raise ValueError(f"{name} must be a string, got {record[name]!r}")
        try:
            requirements = tuple(Requirement(r["text"], r["kind"], r["weight"]) for r in record["requirements"])
        except (TypeError, KeyError) as error:
            raise ValueError(f"requirements must be objects with text, kind and weight, got {error!r}") from None
        supports = _lists(record["supports"], "supports")
        for key, levels in supports.items():
            if len(levels) != len(requirements) or not all(type(level) is int and 0 <= level <= 2 for level in levels):
                raise ValueError(
                    f"supports[{key!r}] must be {len(requirements)} levels 0, 1 or 2, one a requirement, got {levels}"
                )
        selections = _lists(record.get("selections", {}), "selections")
        for name, keys in selections.items():
            if not all(isinstance(key, str) for key in keys):
                raise ValueError(f"selections[{name!r}] must be candidate keys, got {keys}")
        return cls(
            record["question"],
            requirements,
            {key: tuple(levels) for key, levels in supports.items()},
            {name: tuple(keys) for name, keys in selections.items()},
            record["model"],
            record["prompt_version"],
        )


def _lists(value: Any, name: str) -> dict[str, list[Any]]:
    if not isinstance(value, dict) or not all(isinstance(entries, list) for entries in value.values()):
        raise ValueError(f"{name} must be an object of lists, got {str(value)[:60]}")
    return value


class RequirementCache:
    """Recorded requirements, supports and selections, by question: a labeller that asks nobody.

    Parameters
    ----------
    records : iterable of RequirementRecord
        One a question.
    """

    def __init__(self, records: Iterable[RequirementRecord]) -> None:
        self._records: dict[str, RequirementRecord] = {}
        for record in records:
            if record.question in self._records:
                raise ValueError(f"records must be one a question, got {record.question!r} again")
            self._records[record.question] = record

    @classmethod
    def read(cls, path: str | Path, *, keep_going: bool = False) -> RequirementCache:
        """Read a cache: JSON Lines of `RequirementRecord.as_dict`, plain or gzip.

        Parameters
        ----------
        path : path
        keep_going : bool
            Pass over broken lines, such as the last of a run that was cut off; its question is then not recorded.

        Raises
        ------
        RecordError
            At the first faulty line (a ValueError), with file and line, unless `keep_going`.
        """
        records: list[RequirementRecord] = []
        seen: dict[str, int] = {}
        for line, value in read_records(path):
            try:
                if isinstance(value, RecordError):
                    raise value
                record = RequirementRecord.from_dict(value)
                if record.question in seen:
                    raise ValueError(f"question {record.question!r} stands already in line {seen[record.question]}")
            except ValueError as error:
                fault = error if isinstance(error, RecordError) else RecordError(str(path), line, str(error))
                if not keep_going:
                    raise fault from None
            else:
                seen[record.question] = line
                records.append(record)
        return cls(records)

    def write(self, path: str | Path) -> None:
        """Write all records as JSON Lines, in their order."""
        lines = (json.dumps(record.as_dict(), ensure_ascii=False) + "\n" for record in self._records.values())
        Path(path).write_text("".join(lines), encoding="utf-8", newline="\n")

    def __len__(self) -> int:
        return len(self._records)

    def record(self, question: str) -> RequirementRecord:
        """The record of a question; a ValueError where there is none."""
        try:
            return self._records[question]
        except KeyError:
            raise ValueError(f"the cache has no record of the question {question!r} ({len(self)} recorded)") from None

    def __call__(self, pool: Pool) -> Requirements:
        """The recorded supports of a pool's candidates; labels of further candidates are not looked at.

        Raises
        ------
        ValueError
            If the question, or one of the candidates, was not labelled.
        """
        record = self.record(pool.query)
        rows = []
        for i, key in enumerate(candidate_keys(pool)):
            if pool.blank[i]:
                rows.append((0,) * len(record.requirements))
            elif key in record.supports:
                rows.append(record.supports[key])
            else:
                raise ValueError(
                    f"the record of {pool.query!r} does not fit the pool: candidate {pool.ids[i]!r} has no labels "
                    f"({len(record.supports)} candidates are labelled); label this grain and these texts"
                )
        support = np.array(rows, dtype=np.int8).reshape(len(pool), len(record.requirements)).T
        return Requirements(record.requirements, np.ascontiguousarray(support), record.model, record.prompt_version)


# --- the problem -----------------------------------------------------------------------------------------------------


def evidence_problem(
    pool: Pool,
    requirements: Requirements,
    *,
    items: Sequence[int] | NDArray[np.int64] | None = None,
    relevance: FloatArray | None = None,
    budget: int | None = None,
    max_passages: int = 5,
    weights: EvidenceWeights | None = None,
    penalties: EvidencePenalties | None = None,
) -> EvidenceProblem:
    """The requirement-aware selection problem over the candidates of a pool.

    Relevance is divided by its greatest value; redundancy is the pool's similarity (a cosine); two candidates
    complement each other by the mean of two parts: the share of requirement weight that both together support beyond
    the better one alone, and, where a sentence of one names the document of the other, how unlike they are.

    Parameters
    ----------
    pool : Pool
    requirements : Requirements
        Of all of its candidates.
    items : sequence of int, optional
        Candidates that may be chosen, each once. Default: the first copy of every text that is not blank.
    relevance : array_like, shape (n,), optional
        Of all candidates. Default: the pool's, where scores or embeddings are given; else that of the bridge policy,
        which knows of documents that vouch for each other (`isinglass.measure.bridge.bridge_relevance`).
    budget : int, optional
        Tokens, the counter's fixed cost taken off. None: no limit.
    max_passages, weights, penalties
        Of `EvidenceProblem`.

    Returns
    -------
    EvidenceProblem
        Of the items, in their order.
    """
    if requirements.support.shape[1] != len(pool):
        raise ValueError(
            f"requirements must have a column of support for each of {len(pool)} candidates, "
            f"got shape {requirements.support.shape}"
        )
    if items is None:
        items = np.flatnonzero((pool.first_copy == np.arange(len(pool))) & ~pool.blank & ~pool.beyond_limit)
    chosen = gate.indices("items", items, size=len(pool))
    if relevance is None:
        relevance = bridge_relevance(pool) if pool.is_lexical else pool.relevance
    relevance = gate.vector("relevance", relevance, size=len(pool))[chosen]
    support = requirements.support[:, chosen]
    block = np.ix_(chosen, chosen)
    similarity = pool.similarity[block].astype(np.float64)
    union = complementarity(support, requirements.weights)
    bridge = np.where(_linked(pool)[block], 1 - similarity, 0.0)
    costs = None
    if budget is not None:
        own = pool.costs_within(budget)[chosen]
        # A budget that any K candidates keep is no constraint, and the problem is easier without it.
        costs = own if np.sort(own)[::-1][:max_passages].sum() > budget else None
    return EvidenceProblem(
        relevance / (relevance.max(initial=0.0) or 1.0),
        support,
        requirements.weights,
        redundancy=similarity,
        complementarity=(union + bridge) / 2,
        max_passages=max_passages,
        weights=weights,
        penalties=penalties,
        costs=costs,
        budget=None if costs is None else budget,
    )


def _linked(pool: Pool) -> NDArray[np.bool_]:
    """Whether one of two candidates names the document of the other, shape (n, n), symmetric."""
    pooled = whole_bridge_pool(pool)
    leads_to = np.full(len(pool), -1, dtype=np.int64)
    leads_to[pooled.candidate] = pooled.bridge.core.leads_to
    names = leads_to[:, np.newaxis] == pool.document
    linked: NDArray[np.bool_] = names | names.T
    return linked
