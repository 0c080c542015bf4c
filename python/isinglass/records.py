"""JSON records from files, plain or gzip, one a line or in one list; every fault with its place."""

import gzip
import json
import re
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any, cast

_GZIP_MAGIC = b"\x1f\x8b"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_JSON_SPACE = re.compile(r"[ \t\r\n]*")


class RecordError(ValueError):
    """A record that cannot be used, with the place and what was expected there.

    Attributes
    ----------
    file : str
    line : int
        1-based; 0 where the fault is the file's as a whole.
    reason : str
        What was expected and what was found.
    """

    def __init__(self, file: str, line: int, reason: str) -> None:
        super().__init__(file, line, reason)
        self.file, self.line, self.reason = file, line, reason

    def __str__(self) -> str:
        return f"{self.file}, line {self.line}: {self.reason}" if self.line else f"{self.file}: {self.reason}"


def skipped_fields(faults: Sequence[RecordError]) -> dict[str, Any]:
    """What a report says of the records that were passed over: how many, and each with its place and reason."""
    records = [{"file": fault.file, "line": fault.line, "reason": fault.reason} for fault in faults]
    return {"skipped": len(records), "skipped_records": records}


def read_records(path: str | Path) -> Iterator[tuple[int, Any]]:
    """Yield (line, value) for every JSON value of a JSON Lines file or JSON list.

    A `RecordError` stands in place of a broken value. The lines after a broken one are still read; in a JSON list
    nothing after the fault can be.
    """
    with open(path, "rb") as stream:
        yield from stream_records(stream, str(path))


def stream_records(stream: IO[bytes], path: str) -> Iterator[tuple[int, Any]]:
    """As `read_records`, from an open seekable stream; `path` is its name in faults."""
    zipped = stream.read(2) == _GZIP_MAGIC
    stream.seek(0)
    if zipped:
        stream = cast("IO[bytes]", gzip.GzipFile(fileobj=stream))
    line = 0
    started = False
    try:
        for line, content in enumerate(stream, 1):
            if line == 1:
                content = content.removeprefix(_BYTE_ORDER_MARK)
            if not content.strip():
                continue
            if not started and content.lstrip().startswith(b"["):
                yield from _list_elements(content + stream.read(), path, line)
                return
            started = True
            yield line, _parse_line(content, path, line)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        yield line + 1, RecordError(path, line + 1, f"expected a whole gzip stream, got one that breaks here ({error})")


def _parse_line(content: bytes, path: str, line: int) -> Any:
    try:
        value = json.loads(content.decode("utf-8"))
        _refuse_lone_surrogates(content, value)
        return value
    except json.JSONDecodeError as error:
        half_written = error.pos >= len(error.doc.rstrip()) or error.msg.startswith("Unterminated string")
        found = "one that ends early" if half_written else "a broken one"
        return RecordError(
            path, line, f"expected one whole JSON object a line, got {found} ({error.msg}, column {error.colno})"
        )
    except UnicodeDecodeError as error:
        return RecordError(path, line, f"expected UTF-8, got byte 0x{content[error.start]:02x} at byte {error.start}")
    except (UnicodeEncodeError, RecursionError) as error:
        return RecordError(path, line, f"expected Unicode text in plain nesting, got {error}")


def _list_elements(content: bytes, path: str, line: int) -> Iterator[tuple[int, Any]]:
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        line += content.count(b"\n", 0, error.start)
        yield line, RecordError(path, line, f"expected UTF-8, got byte 0x{content[error.start]:02x}")
        return
    decoder = json.JSONDecoder()
    at = _skip_space(text, text.index("[") + 1)
    counted, number = 0, 0
    while True:
        line, counted = line + text.count("\n", counted, at), at
        if text.startswith("]", at) and number == 0:
            at += 1
            break
        number += 1
        try:
            value, at = decoder.raw_decode(text, at)
            _refuse_lone_surrogates(content, value)
        except (json.JSONDecodeError, RecursionError, UnicodeEncodeError) as error:
            yield (
                line,
                RecordError(
                    path,
                    line,
                    f"record {number}: expected a whole JSON object, got {error}; the rest of the list is lost",
                ),
            )
            return
        yield line, value
        at = _skip_space(text, at)
        if text.startswith(",", at):
            at = _skip_space(text, at + 1)
        elif text.startswith("]", at):
            at += 1
            break
        else:
            line += text.count("\n", counted, at)
            found = repr(text[at : at + 20]) if at < len(text) else "the end of the file"
            yield line, RecordError(path, line, f"after record {number}: expected ',' or ']', got {found}")
            return
    if (at := _skip_space(text, at)) < len(text):
        line += text.count("\n", counted, at)
        yield line, RecordError(path, line, f"expected nothing after the list, got {text[at : at + 20]!r}")


def _skip_space(text: str, at: int) -> int:
    return cast("re.Match[str]", _JSON_SPACE.match(text, at)).end()


def _refuse_lone_surrogates(content: bytes, value: Any) -> None:
    # Such a string is no text: it cannot be written as UTF-8. They only come from escapes, so most files skip the test.
    if b"\\ud" in content or b"\\uD" in content:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
