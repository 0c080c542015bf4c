"""Question files: our own schema and the official files of HotpotQA, 2WikiMultiHopQA and MuSiQue."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from isinglass.diagnosis.normalisation import is_span, official_tokens
from isinglass.records import RecordError, read_records

_LAYOUTS = (
    "'answers' and 'paragraphs' (isinglass), 'answer' and 'context' (HotpotQA, 2WikiMultiHopQA) "
    "or 'answer' and 'paragraphs' (MuSiQue)"
)


@dataclass(frozen=True, slots=True)
class Paragraph:
    """One paragraph of a question.

    Attributes
    ----------
    title : str
        As in the file; HTML entities, which gold titles spell the same way, stay.
    sentences : tuple of str
        As in the file, empty ones included, so that sentence indices hold. MuSiQue's own files have no sentences:
        their paragraph is one.
    text : str
        The sentences joined as they stood in the source.
    """

    title: str
    sentences: tuple[str, ...]
    text: str


@dataclass(frozen=True, slots=True)
class Question:
    """One question with its paragraphs, answers and gold evidence.

    Attributes
    ----------
    id, question : str
    answers : tuple of str
        The main gold answer, then aliases. At least one.
    paragraphs : tuple of Paragraph
        In file order. Titles may repeat; there may be none.
    gold : tuple of str
        Distinct titles of the gold paragraphs, those that `paragraphs` lacks included.
    gold_idx : tuple of int
        Positions of the gold paragraphs that are present.
    supporting_facts : tuple of (str, int), or None
        (title, sentence index), verbatim: some point past the end of their paragraph in 2WikiMultiHopQA.
        None where the data set labels paragraphs, not sentences.
    type, level : str or None
        The data set's own labels.
    """

    id: str
    question: str
    answers: tuple[str, ...]
    paragraphs: tuple[Paragraph, ...]
    gold: tuple[str, ...]
    gold_idx: tuple[int, ...]
    supporting_facts: tuple[tuple[str, int], ...] | None
    type: str | None
    level: str | None

    @property
    def documents(self) -> tuple[str, ...]:
        """The document that each paragraph belongs to.

        A data set whose supporting facts name titles means a title by a document, so paragraphs of one title share it.
        One that labels paragraphs (MuSiQue) repeats titles freely: there a paragraph is a document, `id::position`.
        """
        if self.supporting_facts is not None:
            return tuple(paragraph.title for paragraph in self.paragraphs)
        return tuple(f"{self.id}::{i}" for i in range(len(self.paragraphs)))

    @property
    def gold_documents(self) -> tuple[str, ...]:
        """The gold documents, under the names of `documents`; a gold title without a paragraph stands for itself."""
        if self.supporting_facts is not None:
            return self.gold
        present = {paragraph.title for paragraph in self.paragraphs}
        return (
            *(f"{self.id}::{i}" for i in self.gold_idx),
            *(title for title in self.gold if title not in present),
        )


class Questions(NamedTuple):
    """What a file held: the usable questions in file order, and the faults that `keep_going` passed over."""

    questions: tuple[Question, ...]
    skipped: tuple[RecordError, ...]


def read_questions(path: str | Path, *, keep_going: bool = False, limit: int | None = None) -> Questions:
    """Read a question file; the layout of each record is told by its fields.

    Parameters
    ----------
    path : str or Path
        JSON Lines or one JSON list, UTF-8, plain or gzip (told by content). Records follow the isinglass schema or the
        official HotpotQA, 2WikiMultiHopQA or MuSiQue files.
    keep_going : bool
        Collect faulty records in `skipped` instead of stopping at the first.
    limit : int, optional
        Read only this many usable questions, from the start.

    Returns
    -------
    Questions

    Raises
    ------
    RecordError
        At the first faulty record (a ValueError), with file, line and what was expected.
    OSError
        If the file cannot be opened.

    References
    ----------
    Z. Yang et al. (2018), "HotpotQA". X. Ho et al. (2020), "Constructing A Multi-hop QA Dataset" (2WikiMultiHopQA).
    H. Trivedi et al. (2022), "MuSiQue".
    """
    if limit is not None and limit < 0:
        raise ValueError(f"limit must be >= 0, got {limit}")
    questions: list[Question] = []
    skipped: list[RecordError] = []
    lines: dict[str, int] = {}
    for line, record in read_records(path):
        if limit is not None and len(questions) >= limit:
            break
        try:
            if isinstance(record, RecordError):
                raise record
            question = _question(record)
            if question.id in lines:
                raise ValueError(f"id must be unique in the file, got {question.id!r} as in line {lines[question.id]}")
            lines[question.id] = line
            questions.append(question)
        except ValueError as error:
            fault = error if isinstance(error, RecordError) else RecordError(str(path), line, str(error))
            if not keep_going:
                raise fault from None
            skipped.append(fault)
    return Questions(tuple(questions), tuple(skipped))


def oddities(questions: Iterable[Question]) -> dict[str, int]:
    """How many questions have what a reader of their results should know; nothing of it is repaired.

    Returns
    -------
    dict of str to int
        ``gold_not_in_paragraphs`` (counted as not retrieved), ``supporting_facts_out_of_range``, ``empty_sentences``,
        ``repeated_titles``, ``answers_not_spans`` (yes/no, or nothing after normalisation: answer_in_context is not
        defined), ``without_paragraphs``.
    """
    counts = dict.fromkeys(
        (
            "gold_not_in_paragraphs",
            "supporting_facts_out_of_range",
            "empty_sentences",
            "repeated_titles",
            "answers_not_spans",
            "without_paragraphs",
        ),
        0,
    )
    for question in questions:
        titles = [paragraph.title for paragraph in question.paragraphs]
        longest = dict.fromkeys(titles, 0)
        for paragraph in question.paragraphs:
            longest[paragraph.title] = max(longest[paragraph.title], len(paragraph.sentences))
        facts = question.supporting_facts or ()
        counts["gold_not_in_paragraphs"] += not set(question.gold) <= set(titles)
        counts["supporting_facts_out_of_range"] += any(not 0 <= i < longest.get(t, i + 1) for t, i in facts)
        counts["empty_sentences"] += any(not text.strip() for p in question.paragraphs for text in p.sentences)
        counts["repeated_titles"] += len(set(titles)) < len(titles)
        counts["answers_not_spans"] += not any(is_span(official_tokens(answer)) for answer in question.answers)
        counts["without_paragraphs"] += not titles
    return counts


def _question(record: Any) -> Question:
    if not isinstance(record, dict):
        raise ValueError(f"expected a JSON object, got {_shown(record)}")
    if "answers" in record and "paragraphs" in record:
        return _own_layout(record)
    if "context" in record:
        return _hotpot_layout(record)
    if "answer" in record and "paragraphs" in record:
        return _musique_layout(record)
    raise ValueError(f"expected the fields {_LAYOUTS}, got {sorted(record)}")


def _own_layout(record: dict[str, Any]) -> Question:
    paragraphs = _paragraphs(
        [
            (
                _string(_field(paragraph, "title", f"paragraphs[{i}]"), f"paragraphs[{i}].title"),
                _strings(_field(paragraph, "sentences", f"paragraphs[{i}]"), f"paragraphs[{i}].sentences"),
            )
            for i, paragraph in enumerate(_list(record["paragraphs"], "paragraphs"))
        ]
    )
    facts = record.get("supporting_facts")
    gold = _strings(_field(record, "gold"), "gold")
    gold_idx = _positions(_field(record, "gold_idx"), "gold_idx", len(paragraphs))
    for i in gold_idx:
        if (title := paragraphs[i].title) not in gold:
            raise ValueError(f"gold must name the title of each gold paragraph, {title!r} of gold_idx {i} is missing")
    return _checked(
        record,
        answers=_strings(record["answers"], "answers"),
        paragraphs=paragraphs,
        gold=gold,
        gold_idx=gold_idx,
        supporting_facts=None if facts is None else _facts(facts),
    )


def _hotpot_layout(record: dict[str, Any]) -> Question:
    context = _list(record["context"], "context")
    paragraphs = []
    for i, paragraph in enumerate(context):
        if not (isinstance(paragraph, list) and len(paragraph) == 2):
            raise ValueError(f"context[{i}] must be [title, sentences], got {_shown(paragraph)}")
        title, sentences = paragraph
        paragraphs.append((_string(title, f"context[{i}][0]"), _strings(sentences, f"context[{i}][1]")))
    facts = _facts(_field(record, "supporting_facts"))
    gold = tuple(dict.fromkeys(title for title, _ in facts))
    return _checked(
        record,
        answers=(_string(_field(record, "answer"), "answer"),),
        paragraphs=_paragraphs(paragraphs),
        gold=gold,
        gold_idx=tuple(i for i, (title, _) in enumerate(paragraphs) if title in gold),
        supporting_facts=facts,
    )


def _musique_layout(record: dict[str, Any]) -> Question:
    if record.get("answerable") is False:
        raise ValueError("expected an answerable question, got one marked unanswerable: its gold answer is in no text")
    paragraphs: list[tuple[str, tuple[str, ...]]] = []
    gold_idx: list[int] = []
    for i, paragraph in enumerate(_list(record["paragraphs"], "paragraphs")):
        where = f"paragraphs[{i}]"
        title = _string(_field(paragraph, "title", where), f"{where}.title")
        paragraphs.append((title, (_string(_field(paragraph, "paragraph_text", where), f"{where}.paragraph_text"),)))
        supporting = _field(paragraph, "is_supporting", where)
        if not isinstance(supporting, bool):
            raise ValueError(f"{where}.is_supporting must be true or false, got {_shown(supporting)}")
        if supporting:
            gold_idx.append(i)
    return _checked(
        record,
        answers=(
            _string(record["answer"], "answer"),
            *_strings(record.get("answer_aliases", []), "answer_aliases"),
        ),
        paragraphs=_paragraphs(paragraphs),
        gold=tuple(dict.fromkeys(paragraphs[i][0] for i in gold_idx)),
        gold_idx=tuple(gold_idx),
        supporting_facts=None,
    )


def _checked(record: dict[str, Any], *, answers: tuple[str, ...], **fields: Any) -> Question:
    if not answers:
        raise ValueError("answers must hold at least one answer, got none")
    name = "_id" if "_id" in record else "id"
    return Question(
        id=_string(_field(record, name), name),
        question=_string(_field(record, "question"), "question"),
        answers=answers,
        type=_optional_string(record.get("type"), "type"),
        level=_optional_string(record.get("level"), "level"),
        **fields,
    )


def _paragraphs(titled: list[tuple[str, tuple[str, ...]]]) -> tuple[Paragraph, ...]:
    # HotpotQA keeps the blank before a sentence, so sentences are joined by nothing (some borders have none); the other
    # sets strip it. One paragraph may not tell (a single sentence); the record does.
    keeps_blanks = any(sentence[:1].isspace() for _, sentences in titled for sentence in sentences[1:])
    separator = "" if keeps_blanks else " "
    return tuple(Paragraph(title, sentences, separator.join(sentences)) for title, sentences in titled)


def _field(record: Any, name: str, where: str = "") -> Any:
    if not isinstance(record, dict):
        raise ValueError(f"{where or 'record'} must be a JSON object, got {_shown(record)}")
    if name not in record:
        raise ValueError(f"expected the field {f'{where}.' if where else ''}{name}, got {sorted(record)}")
    return record[name]


def _string(value: Any, name: str) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{name} must be a string, got {_shown(value)}")
    return value


def _optional_string(value: Any, name: str) -> str | None:
    return None if value is None else _string(value, name)


def _list(value: Any, name: str) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError(f"{name} must be a list, got {_shown(value)}")
    return value


def _strings(value: Any, name: str) -> tuple[str, ...]:
    return tuple(_string(item, f"{name}[{i}]") for i, item in enumerate(_list(value, name)))


def _positions(value: Any, name: str, size: int) -> tuple[int, ...]:
    for i, position in enumerate(_list(value, name)):
        if type(position) is not int or not 0 <= position < size:
            raise ValueError(f"{name}[{i}] must be a paragraph position in 0..{size - 1}, got {_shown(position)}")
    return tuple(value)


def _facts(value: Any) -> tuple[tuple[str, int], ...]:
    for i, fact in enumerate(_list(value, "supporting_facts")):
        if not (isinstance(fact, list) and len(fact) == 2 and isinstance(fact[0], str) and type(fact[1]) is int):
            raise ValueError(f"supporting_facts[{i}] must be [title, sentence index], got {_shown(fact)}")
    return tuple((title, sentence) for title, sentence in value)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
