"""Arrays that lie on a CUDA device, of any library: taken where they are, never copied to the host."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

_CUDA = 2  # kDLCUDA


class _Tensor(ctypes.Structure):
    """The head of a DLPack tensor (dlpack.h, DLTensor): what `DLManagedTensor` begins with."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class DeviceArray:
    """A float32 matrix in C order on a CUDA device, with what owns it."""

    dtype = np.dtype(np.float32)

    def __init__(self, owner: object, pointer: int, shape: tuple[int, ...]) -> None:
        self.owner, self.pointer, self.shape = owner, pointer, shape

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return f"DeviceArray(shape={self.shape}, of {type(self.owner).__name__})"

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise ValueError("the array lies on a CUDA device: solve with backend='cuda', or give a copy of it")

    def __reduce__(self) -> Any:
        raise TypeError("an array on a CUDA device stays in its process: give a copy on the host")


def on_device(value: object) -> bool:
    """Whether a value is an array that offers itself by `__cuda_array_interface__`, or by DLPack from a CUDA device."""
    if hasattr(value, "__cuda_array_interface__"):
        return True
    where = getattr(value, "__dlpack_device__", None)
    return where is not None and not isinstance(value, np.ndarray) and where()[0] == _CUDA


def device_matrix(name: str, value: Any) -> DeviceArray:
    """The matrix that lies there.

    Raises
    ------
    ValueError
        If it is not a 2-D float32 array in C order.
    """
    if hasattr(value, "__cuda_array_interface__"):
        said = value.__cuda_array_interface__
        kind, shape, pointer = said["typestr"], tuple(said["shape"]), said["data"][0]
        strides, owner = said.get("strides"), value
    else:
        owner = value.__dlpack__()  # the capsule keeps the memory
        get = ctypes.pythonapi.PyCapsule_GetPointer
        get.restype, get.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
        tensor = _Tensor.from_address(get(owner, b"dltensor"))
        kind = "<f4" if (tensor.code, tensor.bits, tensor.lanes) == (2, 32, 1) else f"DLPack type {tensor.code}"
        shape = tuple(tensor.shape[: tensor.ndim])
        strides = tuple(4 * step for step in tensor.strides[: tensor.ndim]) if tensor.strides else None
        pointer = (tensor.data or 0) + tensor.byte_offset
    if len(shape) != 2:
        raise ValueError(f"{name} must be a 2-D array, got {len(shape)}-D")
    if kind != "<f4":
        raise ValueError(f"{name} on a device must be float32, got {kind}")
    if strides not in (None, (4 * shape[1], 4)) and 0 not in shape:
        raise ValueError(f"{name} on a device must be in C order, got strides {strides} for shape {shape}")
    return DeviceArray(owner, pointer, shape)
