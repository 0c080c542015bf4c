"""The trace: one JSON line a question, from the retrieved list to the text that the reader saw.

Lines hold ids, hashes, places, counts and reasons, and no text unless it is asked for. `schema()` describes them.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from isinglass.records import RecordError, read_records

SCHEMA_VERSION = 1


@dataclass(frozen=True)
class Trace:
    """Where the lines of a trace go, and what they say beyond the selection itself.

    Parameters
    ----------
    path : path
        Each line is added under a lock, by one write in append mode, which threads and processes can share on a local
        file system. A crash loses at most the last line; the next line then starts a new one.
    query_id : str or callable, optional
        Name of the question, or a function from its text to one.
    bucket : str or callable, optional
        What the question counts under in reports ("short text", "multi-hop"), or a function from its text to that.
    text : bool
        Also write the question, the titles, the candidates and the context. Off by default: traces outlive the right to
        a text.
    dataset : str, optional
        What the question is from; ids are distinct within it.
    variant : str, optional
        What the caller calls the policy with the options it is given, where they are not the default ones.
    answers : sequence of str, optional
        Gold answers, written with the texts only.
    gold : sequence of str or int, optional
        Ids of the gold documents.
    """

    path: str | os.PathLike[str]
    query_id: str | Callable[[str], str] | None = None
    bucket: str | Callable[[str], str] | None = None
    text: bool = False
    dataset: str | None = None
    variant: str | None = None
    answers: Sequence[str] | None = None
    gold: Sequence[Hashable] | None = None

    @classmethod
    def of(cls, given: Trace | str | os.PathLike[str]) -> Trace:
        """A trace as given, or one to a path."""
        return given if isinstance(given, Trace) else cls(given)

    def write(self, query: str, record: dict[str, Any]) -> None:
        """Add one line.

        Parameters
        ----------
        query : str
            The question, from which `query_id` and `bucket` may be made.
        record : dict
            The rest of the line, plain JSON values or arrays.

        Raises
        ------
        OSError
            If the file cannot be opened, or takes only part of the line.
        """
        line = {
            "schema_version": SCHEMA_VERSION,
            "query_id": self.query_id(query) if callable(self.query_id) else self.query_id,
            "bucket": self.bucket(query) if callable(self.bucket) else self.bucket,
        } | record
        known = {
            "dataset": self.dataset,
            "variant": self.variant,
            "gold": self.gold,
            "answers": self.answers if self.text else None,
        }
        line |= {name: value for name, value in known.items() if value is not None}
        append_line(self.path, json.dumps(line, default=plain))


def append_line(path: str | os.PathLike[str], line: str) -> None:
    """Add a line to a file, whole or not at all; see `Trace` for what may share the file."""
    content = line.encode("utf-8", "surrogatepass") + b"\n"
    file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o666)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)  # else the end that is looked at may be the middle of another's line
        size = os.fstat(file).st_size
        if size and os.pread(file, 1, size - 1) != b"\n":
            content = b"\n" + content  # what a crash left is a line of its own
        if (written := os.write(file, content)) != len(content):
            raise OSError(f"{os.fspath(path)}: expected to write {len(content)} bytes, wrote {written}")
    finally:
        os.close(file)


def text_hash(text: str) -> str:
    """SHA-256 of a text in UTF-8, in hexadecimal: the version that traces name a source by."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def plain(value: Any) -> Any:
    """What `json` cannot write: arrays and numbers of NumPy as lists and numbers, anything else by its repr."""
    return value.tolist() if hasattr(value, "tolist") else repr(value)


def read_trace(path: str | Path) -> Iterator[dict[str, Any]]:
    """The lines of a trace, in file order; one that a crash cut short is passed over.

    Raises
    ------
    RecordError
        At a whole line of another schema version (a ValueError), with its place.
    OSError
        If the file cannot be opened.
    """
    for line, record in read_records(path):
        if isinstance(record, RecordError):
            continue
        version = record.get("schema_version") if isinstance(record, dict) else None
        if version != SCHEMA_VERSION:
            raise RecordError(str(path), line, f"expected schema_version {SCHEMA_VERSION}, got {version!r}")
        yield record


@cache
def schema() -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of a line."""
    loaded: dict[str, Any] = json.loads(resources.files(__package__).joinpath("trace.schema.json").read_text("utf-8"))
    return loaded
