"""What the commands print: tables, progress and JSON."""

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table on standard output: names to the left, figures to the right.

    A line break in a column's name makes two lines of it. On a terminal where rich is installed (extra `app`) rich
    draws the table; otherwise it is aligned text, one line a row.
    """
    if sys.stdout.isatty():
        try:
            from rich import box
            from rich.console import Console
            from rich.table import Table
        except ImportError:
            pass
        else:
            # Without frames, so that eleven columns of figures stand whole on a terminal of 80.
            table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, show_edge=False, padding=0)
            for i, column in enumerate(columns):
                table.add_column(column, justify="left" if i == 0 else "right", no_wrap=True, vertical="bottom")
            for row in rows:
                table.add_row(*row)
            Console().print(table)
            return
    names = [column.split("\n") for column in columns]
    height = max(map(len, names))
    header = list(zip(*([""] * (height - len(name)) + name for name in names)))
    widths = [max(map(len, cells)) for cells in zip(*header, *rows)]
    print(title)
    for line in (*header, ["-" * width for width in widths], *rows):
        cells = [cell.rjust(width) for cell, width in zip(line, widths)]
        print(" ".join((line[0].ljust(widths[0]), *cells[1:])).rstrip())


class Progress:
    """A counter on standard error, rewritten in place; silent where that is no terminal."""

    def __init__(self, unit: str) -> None:
        self._unit = unit
        self._shown = ""
        self._active = sys.stderr.isatty()

    def __call__(self, done: int, total: int) -> None:
        """Show that `done` of `total` are done."""
        text = f"{done}/{total} {self._unit}"
        if self._active and text != self._shown:
            self._shown = text
            print(f"\r{text}", end="", file=sys.stderr, flush=True)

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *_: object) -> None:
        if self._shown:
            print(f"\r{' ' * len(self._shown)}\r", end="", file=sys.stderr, flush=True)


def note(text: str) -> None:
    """Say something beside the result, on standard error."""
    print(text, file=sys.stderr)


def drop_output() -> None:
    """Send what is still to be printed nowhere, so that Python does not fail on it when it ends."""
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())


def print_json(value: Any) -> None:
    """Print `value` as JSON on standard output."""
    print(_json(value))


def write_json(path: str | Path, value: Any) -> None:
    """Write `value` as JSON to `path`."""
    Path(path).write_text(_json(value) + "\n", encoding="utf-8")


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, indent=2)
