"""What a caller hands in: passages as strings, dicts or objects, checked once at the door."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isinglass.problems import gate

_FIELDS = ("text", "title", "id", "doc", "start", "end", "score", "embedding")


@dataclass(frozen=True, eq=False)
class Passage:
    """One retrieved passage.

    Parameters
    ----------
    text : str
        What may reach the reader. May be empty; an empty passage is never selected.
    title : str, optional
        Title of the document, shown by ``render="titled"``.
    id : str or int, optional
        Name of the passage in records and traces; its position in the input when absent.
    doc : hashable, optional
        The document that the passage was cut from. Passages with the same `doc` are one document; a passage
        without one is a document of its own.
    start, end : int, optional
        Where the passage stands in its document, in characters, `end` excluded. `start` alone means
        ``end = start + len(text)``.
    score : float, optional
        Relevance given by the caller, finite and >= 0. All passages have one, or none. `bridge` does not read it.
    embedding : array_like of float, shape (d,), optional
        Vector of the passage. All passages have one, or none.
    """

    text: str
    title: str | None = None
    id: str | int | None = None
    doc: Hashable = None
    start: int | None = None
    end: int | None = None
    score: float | None = None
    embedding: Any = None


def as_passages(passages: Iterable[Any]) -> tuple[Passage, ...]:
    """Check `passages` and return them as `Passage` objects, in the order given.

    Parameters
    ----------
    passages : iterable of str, mapping or object
        Mappings and objects need `text`; the other fields of `Passage` are optional, and any further key or
        attribute is left alone (positions in the result lead back to the caller's own objects).

    Returns
    -------
    tuple of Passage

    Raises
    ------
    TypeError
        If `passages` is one string or one mapping instead of a sequence of passages.
    ValueError
        If a field has the wrong type or range, or if only some passages have a score or an embedding.
    """
    if isinstance(passages, (str, bytes, Mapping)) or not isinstance(passages, Iterable):
        raise TypeError(f"passages must be a sequence of passages, got {type(passages).__name__}")
    checked = tuple(as_passage(given, f"passages[{i}]") for i, given in enumerate(passages))
    for field in ("score", "embedding"):
        missing = [i for i, passage in enumerate(checked) if getattr(passage, field) is None]
        if missing and len(missing) < len(checked):
            raise ValueError(
                f"passages[{missing[0]}].{field} is missing while others have one "
                f"({len(missing)} of {len(checked)} missing): give all of them or none"
            )
    return checked


def as_passage(given: Any, where: str) -> Passage:
    """Check one passage; `where` is what faults call it. See `as_passages`."""
    if isinstance(given, str):
        return Passage(given)
    if isinstance(given, Mapping):
        fields = {name: given[name] for name in _FIELDS if name in given}
    else:
        fields = {name: getattr(given, name) for name in _FIELDS if hasattr(given, name)}
    if "text" not in fields:
        raise ValueError(f"{where} must be a string or have `text`, got {type(given).__name__} without it")
    if not isinstance(fields["text"], str):
        raise ValueError(f"{where}.text must be a string, got {fields['text']!r}")
    if not isinstance(fields.get("title"), (str, type(None))):
        raise ValueError(f"{where}.title must be a string, got {fields['title']!r}")
    if isinstance(fields.get("id"), bool) or not isinstance(fields.get("id"), (str, Integral, type(None))):
        raise ValueError(f"{where}.id must be a string or an integer, got {fields['id']!r}")
    if not isinstance(fields.get("doc"), Hashable):
        raise ValueError(f"{where}.doc must be hashable, got {type(fields['doc']).__name__}")
    return Passage(**(fields | _offsets(fields, where) | _numbers(fields, where)))


def _offsets(fields: dict[str, Any], where: str) -> dict[str, int | None]:
    start, end = fields.get("start"), fields.get("end")
    if start is None:
        if end is not None:
            raise ValueError(f"{where}.start must be given with end, got end={end!r} alone")
        return {"start": None, "end": None}
    start = gate.integer(f"{where}.start", start, low=0)
    end = start + len(fields["text"]) if end is None else gate.integer(f"{where}.end", end, low=start)
    return {"start": start, "end": end}


def _numbers(fields: dict[str, Any], where: str) -> dict[str, Any]:
    score, embedding = fields.get("score"), fields.get("embedding")
    if score is not None:
        score = gate.number(f"{where}.score", score)
        if score < 0:
            raise ValueError(
                f"{where}.score must be >= 0, got {score!r}: map raw scores by isinglass.measure.calibrate"
            )
    if embedding is not None:
        embedding = finite_array(f"{where}.embedding", embedding, ndim=1)
    return {"score": score, "embedding": embedding}


def finite_array(name: str, value: Any, *, ndim: int) -> NDArray[np.float64]:
    """`value` as a float64 array of finite numbers with `ndim` axes, or a ValueError that names the first bad entry."""
    gate.unmasked(name, value)
    try:
        array = np.asarray(value)
    except ValueError:
        raise ValueError(f"{name} must have rows of equal length") from None
    array = gate.numeric_array(name, array, ndim=ndim)
    gate.refuse(name, ~np.isfinite(array), array, "finite")
    return np.ascontiguousarray(array, dtype=np.float64)
