"""Arrays that lie on a CUDA device: those of any library taken where they are, and ours offered to any."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

_CUDA, _CUDA_MANAGED = 2, 13  # kDLCUDA, kDLCUDAManaged
_LEGACY_STREAM = 1
_READ_ONLY = 1  # DLPACK_FLAG_BITMASK_READ_ONLY
NUMBERS = tuple(np.dtype(one).type for one in "bhiqBHIQfd")
_KINDS = {0: "i", 1: "u", 2: "f"}  # DLDataTypeCode of what NumPy has, too
_OTHER_KINDS = {3: "opaque", 4: "bfloat", 5: "complex", 6: "bool"}


class _Tensor(ctypes.Structure):
    """A DLPack tensor (dlpack.h, DLTensor)."""

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


class _VersionedTensor(ctypes.Structure):
    """DLManagedTensorVersioned. The older DLManagedTensor begins with the tensor itself."""

    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    )


class DeviceArray:
    """An array in C order on a CUDA device, with what keeps its memory.

    Other libraries take it without a copy, by `__cuda_array_interface__` or DLPack: ``cupy.asarray(array)``,
    ``torch.from_dlpack(array)``. Its memory lives as long as anything made of it. What fills one of ours has ended
    before it is handed out, so no stream has to wait; one taken from another library is as ready as that left it.

    Attributes
    ----------
    shape : tuple of int
    dtype : numpy.dtype
    device : int
        Number of the device.
    """

    def __init__(
        self, owner: object, pointer: int, shape: tuple[int, ...], dtype: np.dtype[Any], *, readonly: bool = False
    ) -> None:
        self.owner, self.pointer, self.shape, self.dtype, self.readonly = owner, pointer, shape, dtype, readonly

    @classmethod
    def copy_of(cls, array: ArrayLike, device: int = 0) -> DeviceArray:
        """A copy on a device, for those who have no other library for it: embeddings that many questions look at.

        Parameters
        ----------
        array : array_like of int or float
        device : int

        Raises
        ------
        ValueError
            If it is not of integers or floats of at most 64 bits, or the device is not there.
        BackendError
            Where no device can be used.
        MemoryError
            If there is no room.
        """
        if isinstance(array, np.ma.MaskedArray):
            raise TypeError("array must not be a masked array: fill it first")
        plain = np.asarray(array, order="C")
        if plain.dtype not in NUMBERS:
            raise ValueError(f"array must be of int or float of at most 64 bits, got dtype {plain.dtype}")
        if isinstance(device, (bool, np.bool_)) or not isinstance(device, (int, np.integer)):
            raise ValueError(f"device must be an integer, got {device!r}")
        memory = native().to_device(plain, int(device))
        return cls(memory, memory.pointer, plain.shape, plain.dtype)

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return f"DeviceArray(shape={self.shape}, dtype={self.dtype}, of {type(self.owner).__name__})"

    @property
    def device(self) -> int:
        number: int = native().device_of(self.pointer)
        if number < 0:
            raise ValueError(f"an array on a device must have its memory there, got memory of the host: {self!r}")
        return number

    def to_host(self) -> NDArray[Any]:
        """A copy on the host, read-only."""
        found = np.empty(self.shape, self.dtype)
        if found.size:
            native().to_host(found, self.pointer, self.device)
        found.setflags(write=False)
        return found

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.pointer if 0 not in self.shape else 0, self.readonly),
            "strides": None,
            "version": 3,
            "stream": None,
        }

    def __dlpack_device__(self) -> tuple[int, int]:
        return _CUDA, self.device

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> object:
        if copy or dl_device not in (None, self.__dlpack_device__()):
            raise BufferError(f"an array on a device is offered there, without a copy, got {dl_device=} and {copy=}")
        versioned = max_version is not None and max_version[0] >= 1
        if self.readonly and not versioned:
            raise BufferError(f"a read-only array goes by DLPack 1 or newer, got {max_version=}")
        code = "iuf".index(self.dtype.kind)
        parts = (self.owner, self.pointer, self.shape, code, 8 * self.dtype.itemsize, self.device, self.readonly)
        return native().dlpack(*parts, versioned)

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise ValueError("the array lies on a CUDA device: solve with backend='cuda', or give a copy of it: to_host()")

    def __reduce__(self) -> Any:
        raise TypeError("an array on a CUDA device stays in its process: give a copy on the host")


class _Said(NamedTuple):
    """What an array says of itself."""

    owner: object
    pointer: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any] | str  # or the name of a type that NumPy lacks
    strides: tuple[int, ...] | None  # bytes
    readonly: bool


def on_device(value: object) -> bool:
    """Whether a value is an array that offers itself by `__cuda_array_interface__`, or by DLPack from a CUDA device."""
    if hasattr(value, "__cuda_array_interface__"):
        return True
    where = getattr(value, "__dlpack_device__", None)
    return where is not None and not isinstance(value, np.ndarray) and where()[0] in (_CUDA, _CUDA_MANAGED)


def native() -> Any:
    """The native module of the CUDA back end, which alone reads what lies on a device."""
    from isinglass.backends import BackendError, cuda  # they know problems, so not at import

    if not (state := cuda.availability()).available:
        raise BackendError(f"arrays on a CUDA device need one that is available: {state.reason}")
    return cuda.native()


def one_device(arrays: Iterable[DeviceArray]) -> int | None:
    """The device that holds all of the arrays, None of none."""
    number: int | None = None
    for array in arrays:
        if 0 in array.shape:
            continue
        if number is None:
            number = array.device
        elif array.device != number:
            raise ValueError(f"arrays must lie on one device, got some on cuda:{number} and {array!r} on another")
    return number


def host_copy(name: str, value: Any, *, ndim: int) -> NDArray[Any]:
    """A copy on the host of the array of int or float that lies there."""
    return device_array(name, value, ndim=ndim, dtypes=NUMBERS).to_host()


def device_array(name: str, value: Any, *, ndim: int | None, dtypes: Sequence[type] = (np.float32,)) -> DeviceArray:
    """The array that lies there.

    Notes
    -----
    Its memory is read when a back end solves, after all work that is under way on its device, on whatever stream: so
    the stream that the array names need not be kept, and may be gone by then. Which device that is, is asked of the
    driver, since `__cuda_array_interface__` does not say.

    Raises
    ------
    ValueError
        If it has another number of axes or another type, or is not in C order.
    TypeError
        If it is masked.
    BufferError
        If it comes by a version of DLPack that is not known.
    """
    said = _by_interface(name, value) if hasattr(value, "__cuda_array_interface__") else _by_dlpack(name, value)
    if ndim is not None and len(said.shape) != ndim:
        raise ValueError(f"{name} must be a {ndim}-D array, got {len(said.shape)}-D")
    if isinstance(said.dtype, str) or said.dtype not in [np.dtype(one) for one in dtypes]:
        names = [np.dtype(one).name for one in dtypes]
        wanted = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"
        raise ValueError(f"{name} on a device must be {wanted}, got {said.dtype}")
    if 0 not in said.shape:
        step, along = said.dtype.itemsize, []
        for side in reversed(said.shape):
            along.append(step)
            step *= side
        in_order = tuple(reversed(along))
        # Along an axis of one entry nobody steps: libraries write there what they like.
        if said.strides and any(s != t for s, t, side in zip(said.strides, in_order, said.shape) if side > 1):
            raise ValueError(
                f"{name} on a device must be in C order, got strides {said.strides} for shape {said.shape}"
            )
        if said.pointer == 0:
            raise ValueError(f"{name} must have memory on a device, got a null pointer: was it freed?")
    return DeviceArray(said.owner, said.pointer, said.shape, said.dtype, readonly=said.readonly)


def _by_interface(name: str, value: Any) -> _Said:
    said = value.__cuda_array_interface__
    if said.get("mask") is not None:
        raise TypeError(f"{name} must not be a masked array: fill it first")
    dtype = np.dtype(said["typestr"])
    strides = said.get("strides")
    return _Said(
        value,
        said["data"][0],
        tuple(said["shape"]),
        said["typestr"] if dtype.kind == "V" or not dtype.isnative else dtype,
        None if strides is None else tuple(strides),
        bool(said["data"][1]),
    )


def _by_dlpack(name: str, value: Any) -> _Said:
    try:
        capsule = value.__dlpack__(stream=_LEGACY_STREAM, max_version=(1, 0))
    except TypeError:  # written before `max_version` was
        capsule = value.__dlpack__(stream=_LEGACY_STREAM)
    api = ctypes.pythonapi
    get_name, get = api.PyCapsule_GetName, api.PyCapsule_GetPointer
    get_name.restype, get_name.argtypes = ctypes.c_char_p, (ctypes.py_object,)
    get.restype, get.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    # The capsule keeps its name, so that its own destructor gives the tensor back when we let go of it.
    kind = get_name(capsule)
    if kind == b"dltensor_versioned":
        managed = _VersionedTensor.from_address(get(capsule, kind))
        if managed.major != 1:
            raise BufferError(f"{name} must come by DLPack 1 or older, got version {managed.major}.{managed.minor}")
        tensor, readonly = managed.tensor, bool(managed.flags & _READ_ONLY)
    elif kind == b"dltensor":
        tensor, readonly = _Tensor.from_address(get(capsule, kind)), False
    else:
        raise BufferError(f"{name} must come in a new DLPack capsule, got one named {kind!r}: was it consumed before?")
    dtype: np.dtype[Any] | str
    if (
        tensor.code in _KINDS
        and tensor.bits in (8, 16, 32, 64)
        and tensor.lanes == 1
        and (tensor.code, tensor.bits) != (2, 8)
    ):
        dtype = np.dtype(f"{_KINDS[tensor.code]}{tensor.bits // 8}")
    else:
        kind_name = {**_OTHER_KINDS, 0: "int", 1: "uint", 2: "float"}.get(tensor.code, f"type {tensor.code} of ")
        dtype = f"{kind_name}{tensor.bits}" + (f" in lanes of {tensor.lanes}" if tensor.lanes != 1 else "")
    bytes_of_entry = tensor.bits * tensor.lanes // 8
    return _Said(
        capsule,
        (tensor.data or 0) + (tensor.byte_offset if tensor.data else 0),
        tuple(tensor.shape[: tensor.ndim]),
        dtype,
        tuple(bytes_of_entry * step for step in tensor.strides[: tensor.ndim]) if tensor.strides else None,
        readonly,
    )
