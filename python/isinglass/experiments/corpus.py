"""Documents under one name each: a question's own paragraphs, or those of a whole file."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from isinglass.experiments.datasets import Paragraph, Question


@dataclass(frozen=True, slots=True)
class Document:
    """A text that can be retrieved.

    Attributes
    ----------
    name : str
        As in `Question.documents`; two texts may share it, where a data set repeats a title.
    title, text : str
    hits : tuple of str
        The texts by which it was retrieved; none where that was the document's own.
    sentences : tuple of (int, int)
        Where each sentence of the file stands in `text`, by its number there.
    """

    name: str
    title: str
    text: str
    hits: tuple[str, ...] = ()
    sentences: tuple[tuple[int, int], ...] = field(default=(), compare=False)


class Corpus:
    """The distinct documents of some questions, in file order.

    Parameters
    ----------
    questions : iterable of Question
    merge_titles : bool
        The rule of the published tables: paragraphs of one name are one document, which has the place of the first
        and the text of the last, each sentence stripped, joined by one space. Otherwise texts stay as they stood, and
        only equal texts of one name are one document.

    Attributes
    ----------
    documents : tuple of Document
    """

    def __init__(self, questions: Iterable[Question], *, merge_titles: bool) -> None:
        documents: dict[tuple[str, ...], Document] = {}
        keys: dict[str, list[tuple[str, ...]]] = {}
        for question in questions:
            for i, (name, paragraph) in enumerate(zip(question.documents, question.paragraphs)):
                text = stripped_text(paragraph) if merge_titles else paragraph.text
                key = (name,) if merge_titles else (name, text)
                documents[key] = Document(name, paragraph.title, text, sentences=sentence_spans(paragraph, text))
                for alias in {name, f"{question.id}::{i}", paragraph.title}:
                    keys.setdefault(alias, []).append(key)
        self.documents = tuple(documents.values())
        position = {key: i for i, key in enumerate(documents)}
        self._named = {alias: tuple(dict.fromkeys(position[key] for key in held)) for alias, held in keys.items()}

    def find(self, name: str) -> tuple[Document, ...]:
        """The documents that `name` means in a run: a document's name, `id::paragraph index`, or a title.

        Raises
        ------
        KeyError
            If nothing bears the name.
        ValueError
            If it is a title that several documents bear.
        """
        found = tuple(self.documents[i] for i in self._named[name])
        if len(names := {document.name for document in found}) > 1:
            raise ValueError(
                f"expected a document's name, got the title {name!r} of {len(names)} documents: "
                f"name one of {', '.join(sorted(names)[:5])}"
            )
        return found

    def __contains__(self, name: str) -> bool:
        return name in self._named


def stripped_text(paragraph: Paragraph) -> str:
    """The text of a paragraph as the published tables have it: each sentence stripped, joined by one space."""
    return " ".join(sentence.strip() for sentence in paragraph.sentences)


def sentence_spans(paragraph: Paragraph, text: str) -> tuple[tuple[int, int], ...]:
    """Where each sentence of a paragraph stands in `text`, which joins them by white space."""
    spans = []
    at = 0
    for sentence in paragraph.sentences:
        stripped = sentence.strip()
        start = text.index(stripped, at)
        at = start + len(stripped)
        spans.append((start, at))
    return tuple(spans)
