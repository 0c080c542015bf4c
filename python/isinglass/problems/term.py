"""A term of the packing objective that the caller wrote, as compiled code."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from isinglass.problems import gate

# double gain(int64_t item, const int64_t *selected, int64_t size, const void *data)
_GAIN = ctypes.CFUNCTYPE(
    ctypes.c_double, ctypes.c_int64, ctypes.POINTER(ctypes.c_int64), ctypes.c_int64, ctypes.c_void_p
)
_FUNCTION: Any = _GAIN.__base__  # of every function of ctypes
_POINTER: Any = ctypes.POINTER(ctypes.c_int64).__base__  # of every pointer of ctypes
_SHAPE = "double gain(int64 item, int64 *selected, int64 size, void *data)"
_MOST_SELECTED = 12  # items in the sets that `check` draws
_CLOSE = 1e-9  # relative: what rounding may change in a gain


def _compiled(function: Callable[..., Any]) -> Any:
    try:
        from numba import cfunc, types
    except ImportError:
        raise ImportError("a term in Python needs numba to compile it: pip install 'isinglass[numba]'") from None
    return cfunc(types.float64(types.int64, types.CPointer(types.int64), types.int64, types.voidptr))(function)


class Term:
    """What adding an item to a set is worth, computed by a function of the caller's.

    It joins the objective of a `PackingProblem` with a weight of its own and no normaliser. What is declared of it
    decides what can be done: laziness needs `submodular`; a certificate needs `submodular` and `monotone`, and rests on
    that word. Without them a result is "feasible", with no bound, and no worst-case factor is known.

    Parameters
    ----------
    function : callable, numba.CFunc, ctypes function or int
        ``double gain(int64 item, const int64 *selected, int64 size, const void *data)``: the value of the set with
        `item` less its value without, `item` not being among the `size` items of `selected`, whose order means
        nothing. Called from several threads, without the GIL. A Python function is compiled by numba (extra `numba`;
        ``numba.carray(selected, size)`` makes arrays of pointers); an int is the address of such a function, which the
        caller keeps alive. A ctypes callback into Python works, slowly. An error inside cannot be seen here: give NaN,
        which is refused.
    data : ndarray, optional
        C-contiguous; `function` gets the address of its first byte. Copied, if someone could still write to it.
    weight : float
        Finite and >= 0; 0 leaves the term out.
    submodular : bool
        Whether no gain grows as the set does.
    monotone : bool
        Whether no gain is negative.
    name : str
        In `PackingProblem.terms` and in messages.
    check : int
        Random sets on which every problem made with the term tests, at once, what is declared (`verify`). For
        debugging: it finds most false declarations, and proves none.

    Raises
    ------
    TypeError
        If `function` is none of these, or has another signature.
    ImportError
        For a Python function without numba.
    """

    def __init__(
        self,
        function: Any,
        data: NDArray[Any] | None = None,
        *,
        weight: float = 1.0,
        submodular: bool = False,
        monotone: bool = False,
        name: str = "user",
        check: int = 0,
    ) -> None:
        for label, value in (("submodular", submodular), ("monotone", monotone)):
            if not isinstance(value, (bool, np.bool_)):
                raise ValueError(f"{label} must be True or False, got {value!r}")
        if not isinstance(name, str) or not name:
            raise ValueError(f"name must be a text, got {name!r}")
        if data is not None and (
            not isinstance(data, np.ndarray) or not data.flags.c_contiguous or data.dtype.hasobject
        ):
            raise ValueError(f"data must be a C-contiguous array of numbers, got {type(data).__name__}")
        fields = self.__dict__
        fields["function"] = function
        fields["data"] = None if data is None else gate.owned(data.view(), data)
        fields["weight"] = gate.number("weight", weight, low=0)
        fields["submodular"], fields["monotone"] = bool(submodular), bool(monotone)
        fields["name"] = name
        fields["check"] = gate.integer("check", check, low=0)
        fields["_call"] = _callable(function)
        fields["address"] = ctypes.cast(self.__dict__["_call"], ctypes.c_void_p).value
        fields["data_address"] = 0 if data is None else self.data.ctypes.data

    function: Any
    data: Any
    weight: float
    submodular: bool
    monotone: bool
    name: str
    check: int
    address: int
    data_address: int

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"Term is frozen: cannot set {name!r}")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"Term is frozen: cannot delete {name!r}")

    def __repr__(self) -> str:
        declared = [label for label in ("submodular", "monotone") if getattr(self, label)]
        return f"Term({self.name!r}, weight={self.weight:g}, {' and '.join(declared) or 'nothing declared'})"

    def __reduce__(self) -> Any:
        if not isinstance(self.function, type(_callable)):
            raise TypeError(f"{self!r} cannot be pickled: an address means nothing elsewhere; make it of a function")
        keywords = {key: getattr(self, key) for key in ("weight", "submodular", "monotone", "name", "check")}
        return _rebuilt, (self.function, self.data, keywords)

    def gain(self, item: int, selected: Sequence[int]) -> float:
        """What adding `item` to `selected` is worth, without the weight."""
        item = gate.integer("item", item, low=0)
        chosen = np.array([gate.integer(f"selected[{k}]", other, low=0) for k, other in enumerate(selected)], np.int64)
        pointer = chosen.ctypes.data_as(ctypes.POINTER(ctypes.c_int64))
        value = float(self.__dict__["_call"](item, pointer, chosen.size, self.data_address))
        if not np.isfinite(value):
            where = f"for item {item} beside {chosen.size} others"
            raise ValueError(f"terms must give finite gains, got {value} of {self.name!r} {where}")
        return value

    def value(self, selection: Sequence[int]) -> float:
        """The value of a set without the weight: its gains, items ascending."""
        items = sorted(gate.integer(f"selection[{k}]", item, low=0) for k, item in enumerate(selection))
        return float(sum(self.gain(item, items[:k]) for k, item in enumerate(items)))

    def verify(self, n: int, samples: int = 1000, seed: int = 0) -> None:
        """Tests on random sets of n items that gains belong to one function of sets, and what is declared of it.

        Raises
        ------
        ValueError
            With the item and the sets that contradict.
        """
        rng = np.random.default_rng(seed)
        for _ in range(samples if n >= 2 else 0):
            drawn = rng.permutation(n)[: int(rng.integers(2, min(n, _MOST_SELECTED) + 1))].tolist()
            a, b, *larger = drawn
            smaller = larger[: int(rng.integers(0, len(larger) + 1))]
            self._verify(a, b, smaller, larger)

    def _verify(self, a: int, b: int, smaller: list[int], larger: list[int]) -> None:
        alone, beside = self.gain(a, smaller), self.gain(a, larger)
        other, after = self.gain(b, larger), self.gain(a, [*larger, b])
        slack = _CLOSE * max(1.0, abs(alone), abs(beside), abs(other))
        if abs(beside - self.gain(a, larger[::-1])) > slack:
            raise ValueError(f"term {self.name!r}: item {a} gains other amounts beside {larger} in another order")
        if abs(other + after - beside - self.gain(b, [*larger, a])) > 2 * slack:
            raise ValueError(f"term {self.name!r} is no function of sets: {larger} with {a} and {b} has two values")
        if self.monotone and min(alone, beside, other, after) < -slack:
            worst = min(alone, beside, other, after)
            raise ValueError(f"term {self.name!r} is not monotone: a gain is {worst:g} among {a}, {b} and {larger}")
        if self.submodular and beside > alone + slack:
            raise ValueError(
                f"term {self.name!r} is not submodular: item {a} gains {alone:g} beside {smaller}, {beside:g} beside"
                f" {larger}"
            )


def _callable(function: Any) -> Any:
    """A ctypes function of the right signature."""
    if isinstance(function, int) and not isinstance(function, bool):
        if function <= 0:
            raise TypeError(f"function must be the address of {_SHAPE}, got {function}")
        return _GAIN(function)
    if isinstance(function, type(_callable)):
        function = _compiled(function)
    made: Any = getattr(function, "ctypes", function)
    if not isinstance(made, _FUNCTION):
        raise TypeError(f"function must be a function, a numba cfunc or an address, got {type(function).__name__}")
    arguments: Any = made.argtypes or ()
    if (
        made.restype is not ctypes.c_double
        or len(arguments) != 4
        or {arguments[0], arguments[2]} != {ctypes.c_int64}
        or not all(issubclass(kind, (ctypes.c_void_p, _POINTER)) for kind in (arguments[1], arguments[3]))
    ):
        raise TypeError(f"function must be {_SHAPE}, got {made.restype} of {arguments}")
    kept = _GAIN(ctypes.cast(made, ctypes.c_void_p).value or 0)
    kept.keeps = function  # type: ignore[attr-defined] # the code lives as long as its owner
    return kept


def _rebuilt(function: Any, data: Any, keywords: dict[str, Any]) -> Term:
    return Term(function, data, **keywords)
