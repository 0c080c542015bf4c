"""Stand-ins for arrays of CuPy, PyTorch and Numba: memory of an emulated device is the host's."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from numpy.typing import NDArray

# NumPy offers the capsules of DLPack 1, and booleans in them.
SPEAKS_DLPACK_1 = np.lib.NumpyVersion(np.__version__) >= "2.1.0"


class ByInterface:
    """An array with `__cuda_array_interface__`."""

    def __init__(self, array: NDArray[Any], **changes: Any) -> None:
        self.array = array
        self.__cuda_array_interface__ = {
            "shape": array.shape,
            "typestr": array.dtype.str,
            "data": (array.ctypes.data, True),
            "strides": array.strides,
            "version": 3,
            **changes,
        }


class ByDlpack:
    """An array that offers itself by DLPack alone, and says that it is on a CUDA device."""

    def __init__(self, array: NDArray[Any], device_type: int = 2) -> None:
        self.array, self.device_type = array, device_type
        self.asked: dict[str, Any] = {}

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device_type, 0

    def __dlpack__(self, *, stream: Any = None, max_version: Any = None, **more: Any) -> Any:
        self.asked = {"stream": stream, "max_version": max_version, **more}
        return self.array.__dlpack__(max_version=max_version) if SPEAKS_DLPACK_1 else self.array.__dlpack__()


class ByOldDlpack(ByDlpack):
    """From before there was `max_version`."""

    def __dlpack__(self, *, stream: Any = None) -> Any:  # type: ignore[override]
        self.asked = {"stream": stream}
        return self.array.__dlpack__()


GIVEN = {"interface": ByInterface, "dlpack": ByDlpack, "old dlpack": ByOldDlpack}


def change_tensor(capsule: Any, **changes: int) -> Any:
    """Writes what another producer would into the tensor of a capsule of the old kind."""
    from isinglass.problems import device

    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    tensor = device._Tensor.from_address(get(capsule, b"dltensor"))
    for name, value in changes.items():
        setattr(tensor, name, value)
    return capsule
