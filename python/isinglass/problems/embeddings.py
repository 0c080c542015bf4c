"""Embeddings: rows whose cosines are similarities, on the host or on a CUDA device."""

from __future__ import annotations

from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isinglass import _core
from isinglass.problems import device, gate
from isinglass.problems.device import DeviceArray

_LARGEST = float(np.finfo(np.float32).max)
_SMALLEST = float(np.finfo(np.float32).tiny)


def embedding_rows(name: str, value: Any, n: int | None = None) -> NDArray[Any] | DeviceArray:
    """Embeddings as they are given, checked: (n, d), finite and within float32. Those on a device must be float32, and
    are looked at where they are used."""
    array: NDArray[Any] | DeviceArray
    there = device.on_device(value)
    array = device.device_array(name, value, ndim=2) if there else gate.numeric_array(name, value, ndim=2)
    if n is not None and array.shape[0] != n:
        raise ValueError(f"{name} must have {n} rows, got shape {array.shape}")
    if array.shape[0] and not array.shape[1]:
        raise ValueError(f"{name} must have at least one column, got shape {array.shape}")
    return array if isinstance(array, DeviceArray) else _checked(name, array)


def _checked(name: str, array: NDArray[Any]) -> NDArray[Any]:
    plain = array.dtype == np.float32 and array.flags.c_contiguous
    if array.size and not (plain and _core.all_finite(array)):
        # NaN passes through both; only where something is wrong every entry is looked at.
        extent = max(-float(array.min()), float(array.max()))
        if not isfinite(extent):
            gate.refuse(name, ~np.isfinite(array), array, "finite")
        if extent > _LARGEST:
            gate.refuse(name, np.abs(array) > _LARGEST, array, "within float32")
        if array.dtype.kind == "f" and array.dtype.itemsize > 4:
            largest = np.maximum(array.max(axis=1), -array.min(axis=1))
            if (vanishing := (largest > 0) & (largest < _SMALLEST)).any():
                row = int(np.argmax(vanishing))
                raise ValueError(
                    f"{name}[{row}] must be zero or have an entry of at least {_SMALLEST:.3g} (float32), got "
                    f"{largest[row]:.3g} as its largest: scale the rows first, cosines stay the same"
                )
    return gate.owned(array, array)


def cosines(rows: ArrayLike, others: ArrayLike, *, on_device: bool = False) -> NDArray[np.float32] | DeviceArray:
    """max(0, cosine) of every row of one matrix with every row of another.

    Parameters
    ----------
    rows : array_like of float, shape (n, d)
        Finite. A float32 array on a CUDA device (CuPy, PyTorch, Numba: by `__cuda_array_interface__` or DLPack) is read
        where it lies.
    others : array_like of float, shape (m, d)
        Likewise.
    on_device : bool
        Leave what was found on the device, which then works it out wherever the arrays lie.

    Returns
    -------
    ndarray or DeviceArray of float32, shape (n, m)
        Each summed over the dimensions in their order by fused multiply-adds: the same bits for any number of threads,
        every instruction set and device, and those of `PackingProblem(embeddings=)`. 0 for a row of zeros.

    Raises
    ------
    ValueError
        For shapes that do not fit, rows that are not finite, or an array on a device that is not float32 in C order.
    BackendError
        If a device is asked for and there is none, or the arrays lie on two.
    """
    if not isinstance(on_device, (bool, np.bool_)):
        raise ValueError(f"on_device must be True or False, got {on_device!r}")
    mine, theirs = embedding_rows("rows", rows), embedding_rows("others", others)
    if mine.shape[1] != theirs.shape[1]:
        raise ValueError(f"others must have {mine.shape[1]} columns, as rows have, got shape {theirs.shape}")
    there = [array for array in (mine, theirs) if isinstance(array, DeviceArray)]
    if not there and not on_device:
        return _frozen(_core.cosines(_plain(mine), _plain(theirs), _core.available_cores()))
    number = device.one_device(there) or 0
    (n, d), m = mine.shape, theirs.shape[0]
    native = device.native()
    found = native.cosines(_plain(mine), _at(mine), n, _plain(theirs), _at(theirs), m, d, number, on_device)
    return DeviceArray(found, found.pointer, (n, m), np.dtype(np.float32)) if on_device else _frozen(found)


def _plain(rows: NDArray[Any] | DeviceArray) -> Any:
    return None if isinstance(rows, DeviceArray) else np.ascontiguousarray(rows, dtype=np.float32)


def _at(rows: NDArray[Any] | DeviceArray) -> int:
    return rows.pointer if isinstance(rows, DeviceArray) else 0


def _frozen(found: NDArray[np.float32]) -> NDArray[np.float32]:
    found.setflags(write=False)
    return found
