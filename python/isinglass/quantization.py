"""Quantisation of a QUBO to machine integers, and what it can cost: exact, certified, or not."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isinglass.problems import gate
from isinglass.problems.gate import Floats
from isinglass.problems.qubo import Indices, Qubo

# Of the native search: its thresholds are floats, and this is the largest below 2**31.
_FIELD_LIMIT = (1 << 31) - 128
# A coefficient that a double could not state exactly (0.3) may be this many units in the last place off its fraction.
_ULPS = 2.0
_EXACT = 1 << 53
# Relative allowance for the float64 sums in a bound.
_SUM_SLACK = 1e-9


class Coefficients(NamedTuple):
    """The integers: one bias for each variable, one coupling for each pair ``rows[k] < columns[k]``."""

    linear: NDArray[np.signedinteger[Any]]  # (n,)
    rows: Indices  # (m,)
    columns: Indices  # (m,)
    couplings: NDArray[np.signedinteger[Any]]  # (m,)


class _Range(NamedTuple):
    low: int
    high: int

    @property
    def bits(self) -> int:
        return max(self.high.bit_length(), (-1 - self.low).bit_length()) + 1


class _Machine(NamedTuple):
    vartype: Literal["BINARY", "SPIN"]
    couplings: _Range
    biases: _Range
    analog: bool


def _symmetric(bits: int) -> _Range:
    return _Range(1 - (1 << (bits - 1)), (1 << (bits - 1)) - 1)


# dwave: J in [-1, 1] and h in [-4, 4] in steps of 1/32, about the size of an annealer's control errors; being analog,
# it keeps no coefficient exactly. da16: Aramon et al. 2019. cim8: the matrix range of coherent Ising machine services.
_PROFILES = {
    "dwave": _Machine("SPIN", _Range(-32, 32), _Range(-128, 128), analog=True),
    "da16": _Machine("BINARY", _symmetric(16), _symmetric(26), analog=False),
    "cim8": _Machine("SPIN", _Range(-128, 127), _Range(-128, 127), analog=False),
}


@dataclass(frozen=True, eq=False)
class Quantized:
    """Integer coefficients of a QUBO, and how far their minimiser can be from the optimum.

    Attributes
    ----------
    original : Qubo
        The model as the caller gave it; energies are always taken from it.
    bits : int
        Width that holds every coefficient (with a profile: the width of its couplings).
    profile : str or None
    vartype : {"BINARY", "SPIN"}
        Of the coefficients: a machine of spins takes the Ising form of the model.
    scale : float
        A coefficient is ``round(scale * w)``, ties to even; no coefficient is ever cut off.
    coefficients : Coefficients
    field_bits, energy_bits : int
        16, 32 or 64: the accumulators that no state can overflow, for the cost of one flip and for an energy.
    max_error : float
        For every state x: ``|original.energy(x) - qubo.energy(x)| <= max_error``.
    eps : float
        A minimiser of the quantised model is at most this far above the optimum of the original.
    certificate : {"exact", "certified", "uncertified"}
        "exact": every coefficient is its integer divided by the scale (to two units in the last place, where no double
        states the fraction). "certified": `eps` is proved. "uncertified": the machine is analog and keeps no
        coefficient exactly, so that `max_error` and `eps` are of the rounding alone.
    zeroed : int
        Coefficients other than 0 that became 0.

    Notes
    -----
    With W upper triangular, Q = round(s W) and R = W - Q / s: |R| <= 1/(2s), and a minimiser x of Q has
    W(x) - W* <= R(x) - min R. The minimum is bounded by rows: x'Rx >= sum_i min(0, R_ii + 1/2 sum_j min(0, R_ij)), of
    which only the lowest `max_ones` rows and the lowest `max_ones` - 1 couplings of a row count where at most
    `max_ones` variables are 1; over spins also by sum |R|.
    """

    original: Qubo
    bits: int
    profile: str | None
    vartype: Literal["BINARY", "SPIN"]
    scale: float
    coefficients: Coefficients
    field_bits: int
    energy_bits: int
    max_error: float
    eps: float
    certificate: Literal["exact", "certified", "uncertified"]
    zeroed: int
    _residual: Qubo
    _lowest: float
    _values: tuple[Floats, Floats]

    def __repr__(self) -> str:
        name = f"profile={self.profile!r}" if self.profile else f"bits={self.bits}"
        return (
            f"Quantized({name}, scale={self.scale:.6g}, certificate={self.certificate!r}, eps={self.eps:.3g}, "
            f"zeroed={self.zeroed})"
        )

    @cached_property
    def qubo(self) -> Qubo:
        """The model that the integers state, in the units of the original: ``coefficients / scale``."""
        _, i, j, _ = self.coefficients
        return _model(self.original, self.vartype, self._values[0], i, j, self._values[1], keep_offset=True)

    def error_bound(self, sample: ArrayLike, gap: float = 0.0) -> float:
        """How far one sample is at most above the optimum of the original: tighter than `eps`.

        Parameters
        ----------
        sample : array_like of shape (n,)
            A minimiser of the quantised model, values 0 or 1.
        gap : float, default 0.0
            What is known of a sample that is only the best found: its quantised energy is at most this far above the
            least one, in the units of the original.
        """
        excess = self._residual.energy(sample) - self._lowest
        return gate.number("gap", gap, low=0) + min(self.eps, max(0.0, excess * (1 + _SUM_SLACK)))


def quantize(
    qubo: Qubo,
    bits: Literal[8, 16, 32, "auto"] = "auto",
    profile: Literal["dwave", "da16", "cim8"] | None = None,
    *,
    max_ones: int | None = None,
) -> Quantized:
    """Round a QUBO to integers of a given width, or of a machine's, and say what that can cost.

    Parameters
    ----------
    qubo : Qubo
    bits : {8, 16, 32, "auto"}
        Width of all coefficients. "auto": the narrowest that is exact; else 32. When all coefficients are multiples of
        one granule (integers, dyadic or decimal fractions) whose multiples fit, the scale is exact; else it is the
        largest that fits. No flip cost leaves 32 bits.
    profile : {"dwave", "da16", "cim8"}, optional
        A machine's range instead: "dwave" (spins, J in [-1, 1], h in [-4, 4], steps of 1/32, analog: always scaled to
        the whole range), "da16" (16-bit couplings, 26-bit biases), "cim8" (spins, all in [-128, 127]).
    max_ones : int, optional
        Bounds for the states with at most so many ones (a selection of k); default: all states.

    Returns
    -------
    Quantized

    References
    ----------
    M. Aramon et al., 2019, "Physics-inspired optimization for quadratic unconstrained problems using a Digital
    Annealer" (the widths of `da16`).
    """
    if not isinstance(qubo, Qubo):
        raise TypeError(f"qubo must be a Qubo, got {type(qubo).__name__}")
    if profile is not None and profile not in _PROFILES:
        raise ValueError(f"profile must be one of {', '.join(_PROFILES)}, got {profile!r}")
    if profile is not None and bits != "auto":
        raise ValueError(f"give bits or profile, not both: got bits={bits!r} and profile={profile!r}")
    if isinstance(bits, bool) or bits not in (8, 16, 32, "auto"):
        raise ValueError(f"bits must be 8, 16, 32 or 'auto', got {bits!r}")
    most = len(qubo) if max_ones is None else gate.integer("max_ones", max_ones, low=0)
    width = _symmetric(32 if bits == "auto" else bits)
    machine = _PROFILES[profile] if profile else _Machine("BINARY", width, width, analog=False)
    field_limit = math.inf if profile else _FIELD_LIMIT

    if machine.vartype == "SPIN":
        linear, i, j, couplings, _ = qubo.spin_terms()
    else:
        linear, (i, j, couplings) = qubo.linear, qubo.couplings()
    low, high = _field_range(machine.vartype, linear, i, j, couplings)
    largest = max(high, -low)
    if not math.isfinite(largest):
        raise OverflowError("the coefficients of each variable must have a finite sum, got one beyond float64")

    def fits(scale: float) -> bool:
        ranges = ((linear, machine.biases), (couplings, machine.couplings))
        extremes = [(float(w.min(initial=0.0)), float(w.max(initial=0.0)), span) for w, span in ranges]
        return largest * scale <= field_limit and all(
            span.low <= round(least * scale) and round(most * scale) <= span.high for least, most, span in extremes
        )

    exact = None if machine.analog else _exact_scale(np.concatenate((linear, couplings)))
    is_exact = exact is not None and fits(exact[0] / exact[1])
    if exact is not None and is_exact:
        numerator, denominator = exact
    else:
        # The native search, where it must round, leaves room in its fields for the rounding.
        most_scale = math.inf if profile else qubo.core().scale
        numerator, denominator = _largest_scale(linear, couplings, machine, most_scale), 1.0
    scale = numerator / denominator

    def rounded(w: Floats) -> Floats:
        return np.rint(w / denominator * numerator)

    rounded_parts = q_linear, q_couplings = rounded(linear), rounded(couplings)
    values = (q_linear * denominator / numerator, q_couplings * denominator / numerator)
    residual_linear, residual_couplings = linear - values[0], couplings - values[1]
    residual = _model(qubo, machine.vartype, residual_linear, i, j, residual_couplings, keep_offset=False)
    lowest, highest = _energy_range(residual, most)
    if machine.vartype == "SPIN":
        either = float(np.abs(residual_linear).sum() + np.abs(residual_couplings).sum())
        lowest, highest = max(lowest, -either), min(highest, either)
    # A residual is the difference of two rounded numbers: allow for both.
    allowance = 0.0
    if residual_linear.any() or residual_couplings.any():
        allowance = float(np.spacing(np.abs(linear)).sum() + np.spacing(np.abs(couplings)).sum())
    lowest, highest = min(0.0, lowest) - allowance, max(0.0, highest) + allowance
    max_error = max(highest, -lowest) * (1 + _SUM_SLACK)
    eps = (highest - lowest) * (1 + _SUM_SLACK)

    q_low, q_high = _field_range(machine.vartype, q_linear, i, j, q_couplings)
    total = float(np.abs(q_linear).sum() + np.abs(q_couplings).sum())
    bits_used = machine.couplings.bits if profile else 32 if bits == "auto" else bits
    if bits == "auto" and not profile and is_exact:
        largest_integer = max(float(np.abs(q_linear).max(initial=0)), float(np.abs(q_couplings).max(initial=0)))
        bits_used = next(b for b in (8, 16, 32) if largest_integer <= _symmetric(b).high)
    coefficients = Coefficients(
        q_linear.astype(_integer_type(machine.biases.bits if profile else bits_used)),
        i,
        j,
        q_couplings.astype(_integer_type(bits_used)),
    )
    for array in coefficients:
        array.flags.writeable = False
    return Quantized(
        original=qubo,
        bits=bits_used,
        profile=profile,
        vartype=machine.vartype,
        scale=scale,
        coefficients=coefficients,
        field_bits=_accumulator(max(q_high, -q_low)),
        energy_bits=_accumulator(total),
        max_error=max_error,
        eps=eps,
        certificate="uncertified" if machine.analog else "exact" if is_exact else "certified",
        zeroed=int(sum(np.count_nonzero(w) for w in (linear, couplings)) - sum(map(np.count_nonzero, rounded_parts))),
        _residual=residual,
        _lowest=lowest,
        _values=values,
    )


def _model(
    qubo: Qubo, vartype: str, linear: Floats, i: Indices, j: Indices, couplings: Floats, *, keep_offset: bool
) -> Qubo:
    if vartype == "SPIN":
        offset = qubo.spin_terms()[4] if keep_offset else 0.0
        return Qubo.from_spin_terms(linear, i, j, couplings, offset, qubo.labels)
    own = np.arange(len(qubo))
    offset = qubo.offset if keep_offset else 0.0
    entries = (np.r_[own, i], np.r_[own, j], np.r_[linear, couplings])
    return Qubo.from_entries(*entries, len(qubo), offset, qubo.labels)


# --- the scale -------------------------------------------------------------------------------------------------------


def _largest_scale(linear: Floats, couplings: Floats, machine: _Machine, most: float) -> float:
    scales = [most]
    for w, span in ((linear, machine.biases), (couplings, machine.couplings)):
        if (top := float(w.max(initial=0.0))) > 0:
            scales.append(span.high / top)
        if (bottom := float(w.min(initial=0.0))) < 0:
            scales.append(span.low / bottom)
    # Numbers so small that their scale overflows are multiples of a granule anyway, or rounded to 0 within max_error.
    return min(*scales, np.finfo(np.float64).max)


def _exact_scale(values: Floats) -> tuple[float, float] | None:
    """Numerator and denominator of the smallest scale at which all values are integers, or None."""
    values = np.abs(values[values != 0])
    if values.size == 0:
        return 1.0, 1.0
    return _dyadic_scale(values) or _rational_scale(values)


def _dyadic_scale(values: Floats) -> tuple[float, float] | None:
    # Every double is an odd integer times a power of two: count all in the least of these powers.
    mantissa, exponent = np.frexp(values)
    whole = np.ldexp(mantissa, 53).astype(np.int64)
    trailing = np.frexp((whole & -whole).astype(np.float64))[1] - 1
    least = int((exponent - 53 + trailing).min())
    if int(exponent.max()) - least > 62:
        return None
    counts = np.ldexp(values, -least).astype(np.int64)
    divisor = int(np.gcd.reduce(counts))
    granule = math.ldexp(float(divisor), least)
    return (1.0, granule) if int(counts.max()) // divisor <= _FIELD_LIMIT and 1 / granule < math.inf else None


def _rational_scale(values: Floats) -> tuple[float, float] | None:
    """For fractions that no double states, such as 0.1: the least common denominator of the simplest ones nearby."""
    denominator = 1
    tolerance = _ULPS * np.spacing(values)
    largest = float(values.max())
    while denominator < _EXACT and round(denominator * largest) <= _FIELD_LIMIT:
        counts = np.rint(values * denominator)
        off = (np.abs(values - counts / denominator) > tolerance) | (counts == 0)
        if not off.any():
            return float(denominator), float(np.gcd.reduce(counts.astype(np.int64)))
        simplest = _simplest_denominator(float(values[int(np.argmax(off))]))
        if simplest is None or denominator % simplest == 0:
            return None
        denominator = math.lcm(denominator, simplest)
    return None


def _simplest_denominator(value: float) -> int | None:
    """Of the first convergent of the continued fraction within one unit in the last place, in at most 53 bits."""
    a, b = value.as_integer_ratio()
    if max(a, b) >= 1 << 126:
        return None
    p0, q0, p1, q1 = 0, 1, 1, 0
    while b:
        whole, rest = divmod(a, b)
        p0, q0, p1, q1 = p1, q1, whole * p1 + p0, whole * q1 + q0
        if max(p1, q1) >= _EXACT:
            return None
        if abs(value - p1 / q1) <= math.ulp(value):
            return q1
        a, b = b, rest
    return None


# --- ranges ----------------------------------------------------------------------------------------------------------


def _field_range(vartype: str, linear: Floats, i: Indices, j: Indices, couplings: Floats) -> tuple[float, float]:
    """Least and greatest value that the local field of any variable takes in any state."""
    n = linear.size
    if n == 0:
        return 0.0, 0.0
    if vartype == "SPIN":
        reach = float((np.abs(linear) + _over_pairs(i, j, np.abs(couplings), n)).max())
        return -reach, reach
    with np.errstate(over="ignore"):
        low = linear + _over_pairs(i, j, np.minimum(couplings, 0), n)
        high = linear + _over_pairs(i, j, np.maximum(couplings, 0), n)
    return min(0.0, float(low.min())), max(0.0, float(high.max()))


def _over_pairs(i: Indices, j: Indices, values: Floats, n: int) -> Floats:
    both: Floats = np.bincount(np.r_[i, j], weights=np.r_[values, values], minlength=n).astype(np.float64)
    return both


def _energy_range(qubo: Qubo, most: int) -> tuple[float, float]:
    """Bounds of the energy over the states with at most `most` ones."""
    i, j, w = qubo.couplings()
    low = -_greatest(-qubo.linear, i, j, -w, most)
    return low + qubo.offset, _greatest(qubo.linear, i, j, w, most) + qubo.offset


def _greatest(linear: Floats, i: Indices, j: Indices, w: Floats, most: int) -> float:
    """sum_i max(0, bias + half its positive couplings) over the `most` greatest rows and most - 1 couplings of each."""
    n = linear.size
    if most == 0 or n == 0:
        return 0.0
    row, value = np.r_[i, j], np.maximum(np.r_[w, w], 0) / 2
    if most < n:
        order = np.lexsort((-value, row))
        row, value = row[order], value[order]
        rank = np.arange(row.size) - np.searchsorted(row, row)
        row, value = row[rank < most - 1], value[rank < most - 1]
    rows = np.maximum(0, linear + np.bincount(row, weights=value, minlength=n))
    return float(np.sort(rows)[::-1][:most].sum())


def _accumulator(largest: float) -> int:
    for bits in (16, 32, 64):
        if largest <= (1 << (bits - 1)) - 1:
            return bits
    raise ValueError(f"the sums of the integers must fit 64 bits, got {largest:.3g}")


def _integer_type(bits: int) -> type[np.signedinteger[Any]]:
    return np.int8 if bits <= 8 else np.int16 if bits <= 16 else np.int32
