"""Twelve questions about an invented archipelago, written for this package: for the demonstration and first steps.

Each has ten short paragraphs, of which two to four are needed; some others are near-duplicates, most are lures. The
file is what `isinglass evaluate` reads. It shows how policies behave and cannot rank them: it is small, and its texts
were revised until policies differed on it.
"""

from importlib.resources import as_file, files

from isinglass.experiments.datasets import Question, read_questions

_FILE = files(__name__) / "questions.jsonl"


def questions() -> tuple[Question, ...]:
    """The sample, in file order."""
    with as_file(_FILE) as path:
        return read_questions(path).questions


def passages(question: Question) -> list[dict[str, str]]:
    """The paragraphs of a question as `isinglass.select` takes them: `id` and `title`, here the same, and `text`."""
    return [{"id": p.title, "title": p.title, "text": p.text} for p in question.paragraphs]
