"""Passages from files: lines of text, JSON Lines, or one JSON list."""

import gzip
import io
import re
import sys
import zlib
from pathlib import Path
from typing import Any, NamedTuple

from isinglass.measure.passages import as_passage
from isinglass.records import RecordError, stream_records

FORMATS = ("auto", "text", "json")

_JSON_START = re.compile(rb'\s*(?:\{|\[\s*(?:["{\]]|$))')


class Passages(NamedTuple):
    """What a file held: usable passages (strings or dicts) in order, and the faults that `keep_going` passed over."""

    passages: list[Any]
    skipped: list[RecordError]


def read_passages(path: str | Path, form: str = "auto", *, keep_going: bool = False) -> Passages:
    """Read passages for `isinglass.select`.

    Parameters
    ----------
    path : str or Path
        UTF-8, plain or gzip; "-" reads standard input.
    form : {"auto", "text", "json"}
        "text": every line that is not blank is a passage. "json": JSON Lines or one JSON list, of strings or of objects
        with `text` (and optionally title, id, doc, start, end, score, embedding). "auto" goes by the name's ending
        (.txt, .json, .jsonl), else by the first character.
    keep_going : bool
        Pass over faulty records of JSON, and list them in `skipped`.

    Returns
    -------
    Passages

    Raises
    ------
    RecordError
        At the first fault without `keep_going` (a ValueError), with file, line and what was expected; always at one of
        the whole file (its compression, text that is not UTF-8).
    OSError
        If the file cannot be opened.
    """
    if form not in FORMATS:
        raise ValueError(f"form must be one of {', '.join(map(repr, FORMATS))}, got {form!r}")
    name = "standard input" if str(path) == "-" else str(path)
    content = sys.stdin.buffer.read() if str(path) == "-" else Path(path).read_bytes()
    if content.startswith(b"\x1f\x8b"):
        try:
            content = gzip.decompress(content)
        except (EOFError, OSError, zlib.error) as error:
            raise RecordError(name, 0, f"expected a whole gzip stream, got one that breaks ({error})") from None
    content = content.removeprefix(b"\xef\xbb\xbf")
    if form == "json" or (form == "auto" and _looks_like_json(name, content)):
        read = Passages([], [])
        for line, value in stream_records(io.BytesIO(content), name):
            try:
                if isinstance(value, RecordError):
                    raise value
                if not isinstance(value, (str, dict)):
                    raise ValueError(f"expected a passage, a string or an object with text, got {value!r}")
                as_passage(value, "passage")
                read.passages.append(value)
            except ValueError as error:
                fault = error if isinstance(error, RecordError) else RecordError(name, line, str(error))
                if not keep_going:
                    raise fault from None
                read.skipped.append(fault)
        return read
    try:
        lines = content.decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise RecordError(name, line, f"expected UTF-8, got byte 0x{content[error.start]:02x}") from None
    return Passages([stripped for line in lines if (stripped := line.strip())], [])


def _looks_like_json(name: str, content: bytes) -> bool:
    ending = Path(name.removesuffix(".gz")).suffix.lower()
    if ending in (".json", ".jsonl"):
        return True
    return ending != ".txt" and _JSON_START.match(content) is not None
