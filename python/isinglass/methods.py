"""The one table of methods: which problem each solves and which options it takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from isinglass.problems import gate
from isinglass.problems.packing import PackingProblem


@dataclass(frozen=True)
class Option:
    """One option of a method: `check(name, value)` returns the value in its plain form or raises ValueError."""

    name: str
    default: Any
    check: Callable[[str, Any], Any]
    doc: str


@dataclass(frozen=True)
class Method:
    """A way to solve problems of one type; `summary` says what it is and what it promises."""

    name: str
    problem: type
    summary: str
    options: tuple[Option, ...] = ()

    def complete(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The options with defaults filled in.

        Raises
        ------
        TypeError
            For a keyword that the method does not take, with the nearest one that it does.
        ValueError
            For a value out of range.
        """
        known = {option.name: option for option in self.options}
        for name in given:
            if name not in known:
                raise TypeError(unknown_keyword(name, known, f"method {self.name!r}"))
        return {
            name: option.default if given.get(name) is None else option.check(name, given[name])
            for name, option in known.items()
        }


def unknown_keyword(name: str, known: Any, where: str) -> str:
    """The message for a misspelt keyword or name."""
    near = get_close_matches(name, list(known), n=1)
    hint = f"; did you mean {near[0]!r}?" if near else f"; it takes {', '.join(sorted(known)) or 'no options'}"
    return f"{where} has no option {name!r}{hint}"


def count(low: int, high: int | None = None) -> Callable[[str, Any], int]:
    """Checks an integer in [low, high]."""
    return lambda name, value: gate.integer(name, value, low=low, high=high)


def at_least(low: float) -> Callable[[str, Any], float]:
    """Checks a finite number that is at least `low`."""
    return lambda name, value: gate.number(name, value, low=low)


def choice(*allowed: Any) -> Callable[[str, Any], Any]:
    """Checks one of a few values."""

    def check(name: str, value: Any) -> Any:
        if isinstance(value, bool) or value not in allowed:
            raise ValueError(f"{name} must be one of {', '.join(map(repr, allowed))}, got {value!r}")
        return value

    return check


METHODS: dict[tuple[type, str], Method] = {}


def register(method: Method) -> None:
    """Adds a line to the table."""
    METHODS[method.problem, method.name] = method


def find(problem_type: type, name: str) -> Method:
    """The method of that name for that type of problem."""
    try:
        return METHODS[problem_type, name]
    except KeyError:
        known = [method for kind, method in METHODS if kind is problem_type]
        if not known:
            raise TypeError(f"problem must be a PackingProblem or a Qubo, got {problem_type.__name__}") from None
        near = get_close_matches(str(name), known, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"expected one of {', '.join(sorted(known))}"
        raise ValueError(f"{problem_type.__name__} has no method {name!r}: {hint}") from None


register(Method("greedy_plus_max", PackingProblem, "greedy prefix and the best single item beside it, filled up; 1/2"))
register(
    Method("lazy_greedy", PackingProblem, "gain per cost, then the best single item if that alone is better; .405")
)
register(Method("exact", PackingProblem, "enumeration of every feasible set (back end numpy, up to 20 items)"))
