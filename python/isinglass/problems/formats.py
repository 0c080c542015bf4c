"""Readers and writers of the text files in which the field keeps its QUBO, Ising and maximum-cut instances.

- `qbsolv` (`.qubo`): `p qubo 0 n diagonals couplers`, then `i j w`, counted from 0; minimise, each entry once;
  lines that start with `c` are comments.
- `sparse` (`.sparse`, Biq Mac): `n m`, then `i j w`, i <= j, counted from 1; minimise x'Qx with Q symmetric, of which
  the upper triangle is listed, so that entries with i < j count twice.
- `maxcut` (`.mc`, `.rud`, `.rudy`, `.edges`): `n m`, then edges `i j w`, or all `i j` with weight 1, counted from 1;
  maximise the cut.
- `tri` (`.tri`): `n`, then one line for each vertex k: the signs of the edges to k+1, k+2 ... n; maximise the cut.
- `qplib` (`.qplib`): QPLIB text of class QBB (quadratic objective, binary variables, no constraints); each listed
  quadratic entry counts once and by half; sense as the file says.
- `coo` (`.coo`): `n m`, then `i j w`, i <= j, counted from 0; minimise, each entry once.
- `ising` (`.ising`): `n m`, then `i i h` and `i j J` over spins -1/+1; minimise h s + J s s; counted from 0, or from 1
  where n occurs and 0 does not.

Any of them may be compressed (`.gz`). Lines that start with `#` are comments in `sparse`, `maxcut`, `coo` and `ising`.
A file to be maximised comes back negated, with `sense` "maximise": its objective is `-energy`; it is written back in
its own sense. Labels are the positions 0 .. n-1 (the names of a QPLIB file, where it has them).

References
----------
A. Wiegele, 2007, "Biq Mac library"; M. Booth et al., 2017, "Partitioning optimization problems for hybrid
classical/quantum execution" (qbsolv); G. Rinaldi, 1998, "rudy" (graphs); F. Furini et al., 2019, "QPLIB: a library of
quadratic programming instances".
"""

from __future__ import annotations

import gzip
import itertools
import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple, NoReturn

import numpy as np

from isinglass.problems.gate import Floats
from isinglass.problems.qubo import Indices, Qubo

_INTEGER = re.compile(r"[+-]?\d{1,18}")
_EXACT = 1 << 53


def read_qubo(path: str | os.PathLike[str], format: str | None = None) -> Qubo:
    """Read a QUBO, Ising or maximum-cut file.

    Parameters
    ----------
    path : path-like
        The file, compressed by gzip or not.
    format : {"qbsolv", "sparse", "maxcut", "tri", "qplib", "coo", "ising"}, optional
        Default: by the suffix of the name (`.gz` put aside); see the table of this module.

    Returns
    -------
    Qubo
        `sense` is "maximise" where the file is to be maximised: the coefficients are then negated.

    Raises
    ------
    ValueError
        If the format is unknown, or the file is malformed: with its name, the line and the reason.
    """
    source = _Text(Path(path))
    return _FORMATS[_format_of(source.path, format)].read(source)


def write_qubo(
    qubo: Qubo, path: str | os.PathLike[str], format: str | None = None, *, drop_offset: bool = False
) -> None:
    """Write a QUBO file that `read_qubo` reads back; compressed where the name ends in `.gz`.

    Parameters
    ----------
    qubo : Qubo
        Its variables are written as positions; the formats have no place for labels.
    path : path-like
    format : str, optional
        As for `read_qubo`.
    drop_offset : bool, default False
        Only `qplib` has a place for a constant. Elsewhere a constant other than 0 is an error, unless this allows to
        leave it out.

    Raises
    ------
    ValueError
        If the format cannot state this model: a constant, or something other than a cut for `maxcut` and `tri`.
    """
    target = Path(path)
    text = _FORMATS[_format_of(target, format)].write(qubo, drop_offset)
    data = text.encode()
    target.write_bytes(gzip.compress(data, compresslevel=6, mtime=0) if target.suffix == ".gz" else data)


def _format_of(path: Path, format: str | None) -> str:
    if format is not None:
        if format not in _FORMATS:
            raise ValueError(f"format must be one of {', '.join(_FORMATS)}, got {format!r}")
        return format
    suffix = (path.with_suffix("") if path.suffix == ".gz" else path).suffix
    for name, entry in _FORMATS.items():
        if suffix in entry.suffixes:
            return name
    known = ", ".join(suffix for entry in _FORMATS.values() for suffix in entry.suffixes)
    raise ValueError(f"{path.name}: cannot tell the format from the suffix {suffix!r} (known: {known}): give format=")


class _Text:
    """The lines of a file, and the one way to refuse one of them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        data = path.read_bytes()
        try:
            if data[:2] == b"\x1f\x8b":
                data = gzip.decompress(data)
            self.lines = data.decode().splitlines()
        except (OSError, EOFError) as error:
            raise ValueError(f"{path.name}: not a whole gzip file: {error}") from None
        except UnicodeDecodeError as error:
            raise ValueError(f"{path.name}: not text: {error}") from None

    def refuse(self, line: int, reason: str) -> NoReturn:
        """Raise for the line at this position (counted from 0)."""
        raise ValueError(f"{self.path.name}, line {line + 1}: {reason}")

    def content(self, comment: str = "#") -> list[int]:
        """Positions of the lines that are neither blank nor comments."""
        return [k for k, line in enumerate(self.lines) if line.strip() and not line.lstrip().startswith(comment)]

    def integers(self, line: int, expected: str, count: int) -> list[int]:
        """The one line's non-negative integers."""
        fields = self.lines[line].split() if line < len(self.lines) else []
        if len(fields) != count or not all(_INTEGER.fullmatch(field) for field in fields):
            got = repr(self.lines[line]) if line < len(self.lines) else "the end of the file"
            self.refuse(line, f"expected {expected}, got {got}")
        values = [int(field) for field in fields]
        if min(values) < 0:
            self.refuse(line, f"expected {expected}, none negative, got {self.lines[line]!r}")
        return values

    def entries(self, at: list[int], base: int, n: int, columns: int = 3) -> tuple[Indices, Indices, Floats]:
        """The lines `i j w` (or `i j`: w = 1) at these positions, indices counted from `base` in the file."""
        kinds = [("i", np.int64), ("j", np.int64), ("w", np.float64)][:columns]
        if not at:
            return np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0)
        try:
            table = np.loadtxt([self.lines[k] for k in at], dtype=kinds, comments=None, ndmin=1)
        except ValueError as error:
            self._explain(at, columns, str(error))
        i, j = table["i"] - base, table["j"] - base
        w: Floats = np.array(table["w"]) if columns == 3 else np.ones(len(at))
        for index in (i, j):
            if (bad := np.flatnonzero((index < 0) | (index >= n))).size:
                k = bad[0]
                self.refuse(at[k], f"expected an index in {base} .. {n - 1 + base}, got {index[k] + base}")
        if (bad := np.flatnonzero(~np.isfinite(w))).size:
            self.refuse(at[bad[0]], f"expected a finite number, got {w[bad[0]]}")
        return i, j, w

    def _explain(self, at: list[int], columns: int, reason: str) -> NoReturn:
        layout = ("i j", "i j w")[columns - 2]
        for k in at:
            fields = self.lines[k].split()
            if len(fields) != columns or not all(_INTEGER.fullmatch(field) for field in fields[:2]):
                self.refuse(k, f"expected '{layout}' with integers i and j, got {self.lines[k]!r}")
            try:
                float(fields[-1])
            except ValueError:
                self.refuse(k, f"expected a number, got {fields[-1]!r}")
        raise ValueError(f"{self.path.name}: {reason}")

    def refuse_repeats(self, at: list[int], i: Indices, j: Indices, n: int) -> None:
        pair = np.minimum(i, j) * n + np.maximum(i, j)
        order = np.argsort(pair, kind="stable")
        if (twice := np.flatnonzero(pair[order][1:] == pair[order][:-1])).size:
            k = int(order[twice + 1].min())
            first = int(np.flatnonzero(pair == pair[k])[0])
            self.refuse(at[k], f"the pair was given on line {at[first] + 1} already: {self.lines[at[k]]!r}")


# --- lists of entries ------------------------------------------------------------------------------------------------


def _entry_list(source: _Text, base: int, ordered: bool, columns: int = 3) -> tuple[int, Indices, Indices, Floats]:
    content = source.content()
    if not content:
        source.refuse(0, "expected 'n m' (variables, entries), got an empty file")
    n, m = source.integers(content[0], "'n m' (variables, entries)", 2)
    body = content[1:]
    if len(body) != m:
        source.refuse(content[0], f"the header announces {m} entries, the file has {len(body)}")
    i, j, w = source.entries(body, base, n, columns)
    if ordered and (bad := np.flatnonzero(i > j)).size:
        source.refuse(body[bad[0]], f"expected i <= j (each pair once), got {source.lines[body[bad[0]]]!r}")
    source.refuse_repeats(body, i, j, n)
    return n, i, j, w


def _read_coo(source: _Text) -> Qubo:
    n, i, j, w = _entry_list(source, base=0, ordered=True)
    return Qubo.from_entries(i, j, w, n)


def _read_sparse(source: _Text) -> Qubo:
    n, i, j, w = _entry_list(source, base=1, ordered=True)
    return Qubo.from_entries(i, j, np.where(i == j, w, 2 * w), n)


def _read_ising(source: _Text) -> Qubo:
    # No convention settles where these files count from: the number n itself can only be the last of 1 .. n.
    numbers = [field for k in source.content()[1:] for field in source.lines[k].split()[:2]]
    size = source.lines[source.content()[0]].split()[:1] if source.content() else []
    from_one = size and size[0] in numbers and "0" not in numbers
    n, i, j, w = _entry_list(source, base=1 if from_one else 0, ordered=False)
    own = i == j
    h = np.bincount(i[own], weights=w[own], minlength=n)
    return Qubo.from_spin_terms(h, i[~own], j[~own], w[~own])


def _read_maxcut(source: _Text) -> Qubo:
    content = source.content()
    weighted = len(content) < 2 or len(source.lines[content[1]].split()) != 2
    n, i, j, w = _entry_list(source, base=1, ordered=False, columns=3 if weighted else 2)
    if (loop := np.flatnonzero(i == j)).size:
        source.refuse(content[1 + loop[0]], f"expected two different vertices, got {i[loop[0]] + 1} twice")
    return Qubo.from_max_cut(i, j, w, n)


def _read_qbsolv(source: _Text) -> Qubo:
    content = source.content(comment="c")
    fields = source.lines[content[0]].split() if content else []
    line = content[0] if content else 0
    expected = "'p qubo 0 n diagonals couplers'"
    if len(fields) != 6 or fields[:2] != ["p", "qubo"] or not all(_INTEGER.fullmatch(field) for field in fields[3:]):
        source.refuse(line, f"expected {expected}, got {source.lines[line] if content else ''!r}")
    n, diagonals, couplers = map(int, fields[3:])
    body = content[1:]
    i, j, w = source.entries(body, 0, n)
    if (found := (int((i == j).sum()), int((i != j).sum()))) != (diagonals, couplers):
        source.refuse(
            line,
            f"the header announces {diagonals} diagonals and {couplers} couplers, the file has "
            f"{found[0]} and {found[1]}",
        )
    source.refuse_repeats(body, i, j, n)
    return Qubo.from_entries(i, j, w, n)


def _read_tri(source: _Text) -> Qubo:
    (n,) = source.integers(0, "'n' (vertices)", 1)
    rows = source.lines[1:]
    while len(rows) > n and not rows[-1].strip():
        rows = rows[:-1]
    if len(rows) not in (n, max(0, n - 1)):
        source.refuse(len(source.lines) - 1, f"expected {n} rows of signs, got {len(rows)}")
    for k, row in enumerate(rows):
        if len(row) != n - 1 - k or row.strip("+-"):
            wrong = row.strip("+-")[:1]
            source.refuse(
                1 + k,
                f"expected {n - 1 - k} signs + or -, got {len(row)} characters"
                + (f", one of them {wrong!r}" if wrong else ""),
            )
    signs = np.frombuffer("".join(rows).encode(), dtype=np.uint8)
    i, j = np.triu_indices(n, 1)
    return Qubo.from_max_cut(i, j, np.where(signs == ord("+"), 1.0, -1.0), n)


def _values_of(qubo: Qubo) -> tuple[Indices, Indices, Floats]:
    """Biases other than 0 and couplings as entries, sorted by row, then column."""
    own = np.flatnonzero(qubo.linear)
    i, j, w = qubo.couplings()
    i, j, w = np.r_[own, i], np.r_[own, j], np.r_[qubo.linear[own], w]
    order = np.lexsort((j, i))
    return i[order], j[order], w[order]


def _written(value: float) -> str:
    return str(int(value)) if value.is_integer() and abs(value) < _EXACT else repr(value)


def _lines(i: Indices, j: Indices, w: Floats, base: int) -> Iterable[str]:
    return (f"{a} {b} {_written(c)}" for a, b, c in zip((i + base).tolist(), (j + base).tolist(), w.tolist()))


def _entry_text(n: int, i: Indices, j: Indices, w: Floats, base: int) -> str:
    return "\n".join([f"{n} {w.size}", *_lines(i, j, w, base), ""])


def _refuse_offset(offset: float, format: str, drop_offset: bool) -> None:
    if offset != 0 and not drop_offset:
        raise ValueError(
            f"format {format!r} has no place for the constant {offset!r}: write format 'qplib', or allow drop_offset"
        )


def _write_coo(qubo: Qubo, drop_offset: bool) -> str:
    _refuse_offset(qubo.offset, "coo", drop_offset)
    return _entry_text(len(qubo), *_values_of(qubo), base=0)


def _write_sparse(qubo: Qubo, drop_offset: bool) -> str:
    _refuse_offset(qubo.offset, "sparse", drop_offset)
    i, j, w = _values_of(qubo)
    return _entry_text(len(qubo), i, j, np.where(i == j, w, w / 2), base=1)


def _write_ising(qubo: Qubo, drop_offset: bool) -> str:
    h, i, j, w, offset = qubo.spin_terms()
    _refuse_offset(offset, "ising", drop_offset)
    own = np.flatnonzero(h)
    return _entry_text(len(qubo), np.r_[own, i], np.r_[own, j], np.r_[h[own], w], base=0)


def _write_qbsolv(qubo: Qubo, drop_offset: bool) -> str:
    _refuse_offset(qubo.offset, "qbsolv", drop_offset)
    own = np.flatnonzero(qubo.linear)
    i, j, w = qubo.couplings()
    header = f"p qubo 0 {len(qubo)} {own.size} {w.size}"
    return "\n".join([header, *_lines(own, own, qubo.linear[own], 0), *_lines(i, j, w, 0), ""])


def _cut(qubo: Qubo, format: str, drop_offset: bool) -> tuple[Indices, Indices, Floats]:
    _refuse_offset(qubo.offset, format, drop_offset)
    i, j, w = qubo.couplings()
    if not np.array_equal(Qubo.from_max_cut(i, j, w / 2, len(qubo)).linear, qubo.linear):
        raise ValueError(f"format {format!r} states maximum cuts only, and this model is none (see Qubo.from_max_cut)")
    return i, j, w / 2


def _write_maxcut(qubo: Qubo, drop_offset: bool) -> str:
    return _entry_text(len(qubo), *_cut(qubo, "maxcut", drop_offset), base=1)


def _write_tri(qubo: Qubo, drop_offset: bool) -> str:
    n = len(qubo)
    i, _, w = _cut(qubo, "tri", drop_offset)
    if w.size != n * (n - 1) // 2 or (np.abs(w) != 1).any():
        raise ValueError("format 'tri' states complete graphs with weights +1 and -1 only")
    signs = "".join(np.where(w > 0, "+", "-").tolist())
    starts = np.searchsorted(i, np.arange(n + 1)).tolist()
    return "\n".join([str(n), *(signs[a:b] for a, b in itertools.pairwise(starts)), ""])


# --- QPLIB -----------------------------------------------------------------------------------------------------------


class _Cursor:
    """Walks the lines of a QPLIB file, which are values followed by remarks."""

    def __init__(self, source: _Text) -> None:
        self.source, self.line = source, -1
        self.content = iter(source.content(comment="#"))

    def fields(self, expected: str) -> list[str]:
        self.line = next(self.content, len(self.source.lines))
        if self.line == len(self.source.lines):
            self.source.refuse(self.line, f"expected {expected}, got the end of the file")
        return self.source.lines[self.line].split("#")[0].split()

    def word(self, expected: str) -> str:
        fields = self.fields(expected)
        if not fields:
            self.source.refuse(self.line, f"expected {expected}, got {self.source.lines[self.line]!r}")
        return fields[0]

    def count(self, expected: str) -> int:
        word = self.word(expected)
        if not _INTEGER.fullmatch(word) or int(word) < 0:
            self.source.refuse(self.line, f"expected {expected}, got {word!r}")
        return int(word)

    def number(self, expected: str) -> float:
        word = self.word(expected)
        try:
            return float(word)
        except ValueError:
            self.source.refuse(self.line, f"expected {expected}, got {word!r}")

    def take(self, count: int, expected: str) -> list[int]:
        at = [next(self.content, -1) for _ in range(count)]
        if at and at[-1] < 0:
            self.source.refuse(len(self.source.lines), f"expected {count} lines of {expected}, got the end of the file")
        self.line = at[-1] if at else self.line
        return at


def _read_qplib(source: _Text) -> Qubo:
    cursor = _Cursor(source)
    cursor.word("the name of the instance")
    if (kind := cursor.word("the class QBB").upper()) != "QBB":
        source.refuse(cursor.line, f"expected the class QBB (quadratic objective, binary, no constraints), got {kind}")
    if (sense := cursor.word("minimize or maximize").lower()) not in ("minimize", "maximize"):
        source.refuse(cursor.line, f"expected minimize or maximize, got {sense!r}")
    n = cursor.count("the number of variables")
    at = cursor.take(cursor.count("the number of quadratic terms"), "'i j v'")
    i, j, v = source.entries(at, 1, n)
    source.refuse_repeats(at, i, j, n)
    linear = np.full(n, cursor.number("the default linear coefficient"))
    _fill(cursor, linear, "linear coefficients")
    constant = cursor.number("the constant of the objective")
    cursor.number("the value for infinity")
    for section in ("starting values", "dual values of bounds"):
        default = np.full(n, cursor.number(f"the default of {section}"))
        _fill(cursor, default, section)
    names = [f"x{k + 1}" for k in range(n)]
    renamed = cursor.take(cursor.count("the number of variable names"), "'i name'")
    for line in renamed:
        fields = source.lines[line].split()
        if len(fields) != 2 or not _INTEGER.fullmatch(fields[0]) or not 1 <= int(fields[0]) <= n:
            source.refuse(line, f"expected 'i name' with i in 1 .. {n}, got {source.lines[line]!r}")
        names[int(fields[0]) - 1] = fields[1]
    own = np.arange(n)
    return Qubo.from_entries(
        np.r_[own, i],
        np.r_[own, j],
        np.r_[linear, v / 2],
        n,
        constant,
        names if renamed else None,
        sense="minimise" if sense == "minimize" else "maximise",
    )


def _fill(cursor: _Cursor, values: Floats, section: str) -> None:
    """Overwrite the defaults by the lines `i value` that a section lists."""
    for line in cursor.take(cursor.count(f"the number of non-default {section}"), f"'i value' ({section})"):
        fields = cursor.source.lines[line].split()
        try:
            k, value = int(fields[0]), float(fields[1])
        except (ValueError, IndexError):
            cursor.source.refuse(line, f"expected 'i value' ({section}), got {cursor.source.lines[line]!r}")
        if not 1 <= k <= values.size or not np.isfinite(value):
            cursor.source.refuse(
                line, f"expected i in 1 .. {values.size} and a finite value, got {cursor.source.lines[line]!r}"
            )
        values[k - 1] = value


def _write_qplib(qubo: Qubo, drop_offset: bool) -> str:
    sign = 1.0 if qubo.sense == "minimise" else -1.0
    i, j, w = qubo.couplings()
    own = np.flatnonzero(qubo.linear)
    named = [] if qubo.labels == tuple(range(len(qubo))) else [f"{k + 1} {v}" for k, v in enumerate(qubo.labels)]
    return "\n".join(
        [
            "isinglass",
            "QBB",
            "minimize" if sign > 0 else "maximize",
            f"{len(qubo)} # number of variables",
            f"{w.size} # number of quadratic terms in objective",
            *_lines(j, i, sign * 2 * w, 1),
            "0 # default value for linear coefficients in objective",
            f"{own.size} # number of non-default linear coefficients in objective",
            *(f"{k + 1} {_written(sign * b)}" for k, b in zip(own.tolist(), qubo.linear[own].tolist())),
            f"{_written(sign * qubo.offset)} # objective constant",
            "1.79769313486232E+308 # value for infinity",
            "0 # default variable primal value in starting point",
            "0 # number of non-default variable primal values in starting point",
            "0 # default variable bound dual value in starting point",
            "0 # number of non-default variable bound dual values in starting point",
            f"{len(named)} # number of non-default variable names",
            *named,
            "0 # number of non-default constraint names",
            "",
        ]
    )


class _Format(NamedTuple):
    suffixes: tuple[str, ...]
    read: Callable[[_Text], Qubo]
    write: Callable[[Qubo, bool], str]


_FORMATS = {
    "qbsolv": _Format((".qubo",), _read_qbsolv, _write_qbsolv),
    "sparse": _Format((".sparse",), _read_sparse, _write_sparse),
    "maxcut": _Format((".mc", ".rud", ".rudy", ".edges"), _read_maxcut, _write_maxcut),
    "tri": _Format((".tri",), _read_tri, _write_tri),
    "qplib": _Format((".qplib",), _read_qplib, _write_qplib),
    "coo": _Format((".coo",), _read_coo, _write_coo),
    "ising": _Format((".ising",), _read_ising, _write_ising),
}
