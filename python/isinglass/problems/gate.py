"""The array gate: where a caller's data become plain, contiguous, checked arrays, or an error that names the place.

Every function converts at most once and says what it expected and what it got. Nothing is cast silently: booleans,
strings and objects are not numbers here, and a float is not an integer.
"""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isinglass import _core
from isinglass.problems.device import host_copy, on_device

Floats = NDArray[np.float64]


def number(name: str, value: object, *, low: float | None = None, above: float | None = None) -> float:
    """A finite real number, at least `low` or greater than `above`."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (numbers.Real, np.integer, np.floating)):
        raise ValueError(f"{name} must be a number, got {value!r}")
    try:
        result = float(value)
    except OverflowError:  # an int beyond every double
        result = np.inf
    bound = f" and >= {low:g}" if low is not None else f" and > {above:g}" if above is not None else ""
    if not np.isfinite(result) or (low is not None and result < low) or (above is not None and result <= above):
        raise ValueError(f"{name} must be finite{bound}, got {value!r}")
    return result


def integer(name: str, value: object, *, low: int | None = None, high: int | None = None) -> int:
    """An integer (Python's or NumPy's, no bool, no float) in [low, high]."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
        raise ValueError(f"{name} must be an integer, got {value!r}")
    result = int(value)
    if (low is not None and result < low) or (high is not None and result > high):
        span = f">= {low}" if high is None else f"in [{low}, {high}]"
        raise ValueError(f"{name} must be {span}, got {value!r}")
    return result


def unmasked(name: str, value: object) -> None:
    """Refuses a masked array: what its mask hides would silently count."""
    if type(value) is not np.ndarray and isinstance(value, np.ma.MaskedArray):
        raise TypeError(f"{name} must not be a masked array: fill it first")


def numeric_array(name: str, value: object, *, ndim: int) -> NDArray[Any]:
    """An array of ints or floats with `ndim` axes, not yet converted. One that lies on a device is copied."""
    unmasked(name, value)
    if type(value) is not np.ndarray and on_device(value):
        value = host_copy(name, value, ndim=ndim)
    try:
        array = np.asarray(value)
    except ValueError:
        raise ValueError(f"{name} must be a {ndim}-D array, got rows of different lengths") from None
    if array.dtype.kind == "O":
        for position, entry in np.ndenumerate(array):
            if isinstance(entry, (bool, np.bool_)) or not isinstance(entry, (numbers.Real, np.number)):
                where = ", ".join(map(str, position))
                raise ValueError(f"{name}[{where}] must be a number, got {entry!r}")
        raise ValueError(f"{name} must be an array of int or float, got dtype object: convert it first")
    if array.dtype.kind not in "iuf":
        raise ValueError(f"{name} must be an array of int or float, got dtype {array.dtype}")
    if array.ndim != ndim:
        raise ValueError(f"{name} must be {ndim}-D, got shape {array.shape}")
    return array


def refuse(name: str, bad: NDArray[np.bool_], array: NDArray[Any], expected: str) -> None:
    """Raises for the first entry that `bad` marks."""
    if bad.any():
        position = tuple(int(axis[0]) for axis in np.nonzero(bad))
        where = ", ".join(map(str, position))
        raise ValueError(f"{name}[{where}] must be {expected}, got {array[position]}")


def owned(array: NDArray[Any], given: NDArray[Any]) -> NDArray[Any]:
    """`array`, read-only, and copied if someone could still write to it through `given`, from which it was made."""
    # Empty arrays share no memory, but may be one object.
    shared = array is given or np.may_share_memory(array, given)
    result = array.copy() if array.flags.writeable and shared else array
    result.setflags(write=False)
    return result


def vector(name: str, value: object, *, size: int | None = None, positive: bool = False, hint: str = "") -> Floats:
    """A contiguous float64 vector of entries that are all >= 0 (or > 0), with a finite sum."""
    array = numeric_array(name, value, ndim=1)
    if size is not None and array.size != size:
        raise ValueError(f"{name} must have shape ({size},), got {array.shape}")
    result = np.array(array, dtype=np.float64, order="C")
    if not _core.all_amounts(result, positive):  # only then every entry is looked at, for the message
        with np.errstate(invalid="ignore"):
            bad = ~np.isfinite(array) | (array <= 0 if positive else array < 0)
        refuse(name, bad, array, f"finite and {'> 0' if positive else '>= 0'}{hint}")
        with np.errstate(over="ignore"):
            if not np.isfinite(result.sum()):
                raise ValueError(f"{name} must have a finite sum, got entries up to {result.max():g}")
    result.setflags(write=False)
    return result


def flags(name: str, value: object, *, size: int) -> NDArray[np.bool_]:
    """A vector of booleans."""
    unmasked(name, value)
    array = np.asarray(value)
    if array.dtype != np.bool_ and not (array.size == 0 and size == 0):
        raise ValueError(f"{name} must be an array of bool, got dtype {array.dtype}")
    if array.shape != (size,):
        raise ValueError(f"{name} must have shape ({size},), got {array.shape}")
    result = np.array(array, dtype=np.bool_)
    result.setflags(write=False)
    return result


def indices(name: str, value: object, *, size: int) -> NDArray[np.int64]:
    """Distinct integers in [0, size), in the order given."""
    unmasked(name, value)
    array = np.asarray(value)
    if array.size == 0:
        array = np.zeros(0, dtype=np.int64)
    if array.dtype.kind not in "iu" or array.ndim != 1:
        raise ValueError(f"{name} must be a 1-D array of int, got dtype {array.dtype} and shape {array.shape}")
    refuse(name, (array < 0) | (array >= size), array, f"an index in [0, {size})")
    if np.unique(array).size != array.size:
        seen: set[int] = set()
        for position, entry in enumerate(array.tolist()):
            if entry in seen:
                raise ValueError(f"{name}[{position}] must be distinct from the others, got {entry} again")
            seen.add(entry)
    result = np.array(array, dtype=np.int64, order="C")
    result.setflags(write=False)
    return result
