"""The table of an experiment: one row a question, policy, budget and whatever else was varied."""

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from isinglass.records import RecordError

Array = npt.NDArray[Any]

PAIRED = ("dataset", "seed", "question")
"""Columns that say which question of which sample a row is of; those that a table has."""


TEXTS = ("dataset", "question", "policy", "retriever", "reader", "failure", "config", "bucket")
"""Columns of texts, even where all of them look like numbers."""


class Rows:
    """Columns of equal length: texts as objects, numbers as float64 with nan where a measure is not defined.

    Parameters
    ----------
    columns : mapping of str to array_like, shape (n,)

    Raises
    ------
    ValueError
        If columns differ in length.
    """

    def __init__(self, columns: Mapping[str, Any]) -> None:
        self.columns: dict[str, Array] = {name: _column(values) for name, values in columns.items()}
        lengths = {name: len(values) for name, values in self.columns.items()}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"columns must have one length, got {lengths}")

    @classmethod
    def of(cls, records: Iterable[Mapping[str, Any]]) -> "Rows":
        """From one mapping a row; what a row lacks is not defined there."""
        listed = list(records)
        names = dict.fromkeys(name for record in listed for name in record)
        return cls({name: [record.get(name) for record in listed] for name in names})

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def __getitem__(self, name: str) -> Array:
        if name not in self.columns:
            raise KeyError(f"expected a column of {sorted(self.columns)}, got {name!r}")
        return self.columns[name]

    def __contains__(self, name: str) -> bool:
        return name in self.columns

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for i in range(len(self)):
            yield {name: values[i] for name, values in self.columns.items()}

    def where(self, **equal: Any) -> "Rows":
        """The rows whose columns equal these values; a list, tuple or set means any of its values."""
        kept = np.ones(len(self), dtype=bool)
        for name, value in equal.items():
            wanted = value if isinstance(value, (list, tuple, set, frozenset)) else (value,)
            kept &= np.isin(self[name], np.array(list(wanted), dtype=self[name].dtype))
        return self.take(kept)

    def take(self, which: Array) -> "Rows":
        """The rows of a mask or of positions."""
        taken = object.__new__(Rows)  # columns of one length each: nothing is left to check
        taken.columns = {name: values[which] for name, values in self.columns.items()}
        for values in taken.columns.values():
            values.setflags(write=False)
        return taken

    def distinct(self, name: str) -> list[Any]:
        """The values of a column, each once, by first appearance."""
        return list(dict.fromkeys(self[name].tolist()))

    def keys(self, names: Sequence[str] = PAIRED) -> Array:
        """One number a row: equal exactly where these columns are, of those that there are; shape (n,)."""
        held = [self[name].tolist() for name in names if name in self]
        numbers: dict[tuple[Any, ...], int] = {}
        return np.array([numbers.setdefault(key, len(numbers)) for key in zip(*held)], dtype=np.int64)

    def pairs(self, other: "Rows") -> tuple["Rows", "Rows"]:
        """The rows of both that are of one question of one sample, in the order of this table.

        Raises
        ------
        ValueError
            If a question stands twice in one of the tables.
        """
        names = [name for name in PAIRED if name in self and name in other]
        mine, others = (list(zip(*(rows[name].tolist() for name in names))) for rows in (self, other))
        for which, keys in (("first", mine), ("second", others)):
            if len(set(keys)) < len(keys):
                twice = next(key for i, key in enumerate(keys) if key in keys[:i])
                raise ValueError(f"expected one row a question in the {which} table, got {twice} twice")
        place = {key: i for i, key in enumerate(others)}
        common = [(i, place[key]) for i, key in enumerate(mine) if key in place]
        left, right = np.array(common, dtype=np.int64).reshape(-1, 2).T
        return self.take(left), other.take(right)

    def write(self, path: str | Path) -> None:
        """Write Parquet (extra `eval`) or CSV, where nothing stands for not defined; see `check_name`."""
        check_name(path)
        if Path(path).suffix == ".parquet":
            arrow, parquet = _pyarrow()
            table = arrow.table({name: arrow.array(values, from_pandas=True) for name, values in self.columns.items()})
            parquet.write_table(table, str(path))
            return
        with open(path, "w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(self.columns)
            writer.writerows(map(_cells, zip(*self.columns.values())))

    @classmethod
    def read(cls, path: str | Path) -> "Rows":
        """What `write` wrote. A column of CSV is of numbers where all of its cells are and it is none of `TEXTS`.

        Raises
        ------
        RecordError
            For a file that is no such table, with the line of CSV at fault (a ValueError).
        OSError
            If the file cannot be opened.
        """
        if Path(path).suffix == ".parquet":
            return cls(_parquet_columns(path))
        names, cells = _csv_cells(path)
        columns = zip(*cells) if cells else ([] for _ in names)
        return cls({name: column if name in TEXTS else _parsed(column) for name, column in zip(names, columns)})


def check_name(path: str | Path) -> None:
    """Say before the work what would keep a table from being written after it.

    Raises
    ------
    ValueError
        For a name that ends in neither ``.parquet`` nor ``.csv``.
    ImportError
        For Parquet without pyarrow (extra `eval`).
    """
    if (ending := Path(path).suffix) not in (".parquet", ".csv"):
        raise ValueError(f"a table must be a .parquet or .csv file, got {str(path)!r}")
    if ending == ".parquet":
        _pyarrow()


def _column(values: Any) -> Array:
    listed = values.tolist() if isinstance(values, np.ndarray) else list(values)
    if any(isinstance(value, str) for value in listed):
        column = np.empty(len(listed), dtype=object)
        column[:] = listed
    else:
        column = np.array([np.nan if value is None else value for value in listed], dtype=np.float64)
    column.setflags(write=False)
    return column


def _cells(row: Sequence[Any]) -> list[Any]:
    return ["" if isinstance(value, float) and np.isnan(value) else _short(value) for value in row]


def _short(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _parquet_columns(path: str | Path) -> dict[str, list[Any]]:
    arrow, parquet = _pyarrow()
    with open(path, "rb") as file:
        try:
            columns: dict[str, list[Any]] = parquet.read_table(file).to_pydict()
        except arrow.ArrowInvalid as error:
            raise RecordError(
                str(path), 0, f"expected a table in Parquet, got another file or a part of one ({error})"
            ) from None
    return columns


def _csv_cells(path: str | Path) -> tuple[list[str], list[list[str]]]:
    """The names of the columns, and the cells of every row: as many, or a run that was cut short would lose columns."""
    with open(path, encoding="utf-8", newline="") as file:
        reader = csv.reader(file)
        cells: list[list[str]] = []
        try:
            names = next(reader, [])
            for row in reader:
                if len(row) != len(names):
                    reason = f"expected {len(names)} cells, one a column, got {len(row)}"
                    raise RecordError(str(path), reader.line_num, reason)
                cells.append(row)
        except UnicodeDecodeError as error:
            raise RecordError(str(path), 0, f"expected CSV in UTF-8, got {error}") from None
        except csv.Error as error:
            raise RecordError(str(path), reader.line_num, f"expected CSV, got {error}") from None
    if not names:
        raise RecordError(str(path), 0, "expected a line with the names of columns, got an empty file")
    return names, cells


def _parsed(cells: Sequence[str]) -> list[Any]:
    try:
        return [float(cell) if cell else None for cell in cells]
    except ValueError:
        return list(cells)


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError("Parquet needs pyarrow: pip install 'isinglass[eval]' (or name a .csv file)") from error
    return pyarrow, pyarrow.parquet
