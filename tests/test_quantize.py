"""Quantisation: integers that fit, bounds that hold on every state, and a certificate that claims no more."""

from __future__ import annotations

import itertools

import isinglass as ig
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

BITS = [8, 16, 32, "auto"]
PROFILES = ["dwave", "da16", "cim8"]


def all_states(n: int) -> np.ndarray:
    return np.array(list(itertools.product([0, 1], repeat=n)), dtype=np.int8).reshape(2**n, n)


def integer_energies(quantized: ig.Quantized, X: np.ndarray) -> np.ndarray:
    """Energies of the bare integers, in Python integers."""
    a, i, j, w = (array.tolist() for array in quantized.coefficients)
    S = (2 * X.astype(int) - 1 if quantized.vartype == "SPIN" else X.astype(int)).tolist()
    return np.array(
        [sum(map(int.__mul__, a, s)) + sum(c * s[p] * s[q] for p, q, c in zip(i, j, w)) for s in S], dtype=object
    )


def check_on_all_states(quantized: ig.Quantized, X: np.ndarray) -> None:
    original, rounded = quantized.original.energies(X), quantized.qubo.energies(X)
    scale = max(1e-300, float(np.abs(original).max()))
    assert (np.abs(original - rounded) <= quantized.max_error + 1e-13 * scale).all()
    integers = integer_energies(quantized, X)
    steps = (integers - integers[0]).astype(float)
    rounding = 1e-12 * scale * quantized.scale
    assert np.allclose((rounded - rounded[0]) * quantized.scale, steps, rtol=1e-9, atol=1e-6 + rounding)
    best = int(integers.min())
    for x, energy, value in zip(X, original, integers):
        gap = (value - best) / quantized.scale
        excess = energy - original.min()
        assert excess <= quantized.error_bound(x, gap=gap) + 1e-13 * scale
        assert quantized.error_bound(x) <= quantized.eps
        if value == best:
            assert excess <= quantized.eps + 1e-13 * scale
    top = 2 ** (quantized.energy_bits - 1)
    assert all(-top <= value < top for value in integers)


reals = st.integers(0, 6).flatmap(
    lambda n: hnp.arrays(np.float64, (n, n), elements=st.floats(-50, 50, allow_subnormal=False, width=32))
)


@settings(deadline=None, max_examples=60)
@given(reals, st.sampled_from([*BITS, *PROFILES]))
def test_bounds_hold_on_every_state(Q, how):
    qubo = ig.Qubo(Q, offset=3.25)
    quantized = ig.quantize(qubo, how) if how in BITS else ig.quantize(qubo, profile=how)
    check_on_all_states(quantized, all_states(len(Q)))


@pytest.mark.parametrize("how", [*BITS, *PROFILES])
@pytest.mark.parametrize("spread", [0, 3, 9])
def test_bounds_hold_on_random_models(how, spread):
    rng = np.random.default_rng(spread)
    for n in (1, 2, 7, 9):
        qubo = ig.Qubo(rng.normal(size=(n, n)) * 10.0 ** rng.uniform(-spread, spread, (n, n)))
        check_on_all_states(ig.quantize(qubo, how) if how in BITS else ig.quantize(qubo, profile=how), all_states(n))


@pytest.mark.parametrize("how", [8, 16, "cim8", "dwave"])
def test_bounds_for_few_ones_hold_and_are_tighter(how):
    n, k = 9, 3
    qubo = ig.Qubo(np.random.default_rng(1).normal(size=(n, n)))
    few = ig.quantize(qubo, how, max_ones=k) if how in BITS else ig.quantize(qubo, profile=how, max_ones=k)
    everything = ig.quantize(qubo, how) if how in BITS else ig.quantize(qubo, profile=how)
    X = all_states(n)
    X = X[X.sum(axis=1) <= k]
    original, rounded = qubo.energies(X), few.qubo.energies(X)
    assert (np.abs(original - rounded) <= few.max_error).all()
    chosen = X[rounded.argmin()]
    assert original[rounded.argmin()] - original.min() <= few.error_bound(chosen) <= few.eps
    assert few.eps < everything.eps
    if how in BITS:
        # The closed form: k (k + 1) / 2 entries, each off by half a unit at most, on either side.
        assert few.eps <= k * (k + 1) / (2 * few.scale) * (1 + 1e-6)


@pytest.mark.parametrize(
    ("entries", "scale", "integers"),
    [
        ([3, -12, 6], 1 / 3, [1, -4, 2]),
        ([1, 0, -127], 1, [1, 0, -127]),
        ([0.5, 0.125, -2], 8, [4, 1, -16]),
        ([0.1, 0.3, -0.7], 10, [1, 3, -7]),
        ([0.05, 1.2, -0.6], 20, [1, 24, -12]),
        ([1 / 3, 2 / 3, 1], 3, [1, 2, 3]),
        ([22 / 160, 1, 6 / 160], 80, [11, 80, 3]),
        ([3e-9, -5e-9, 1e-9], 1e9, [3, -5, 1]),
        ([3e9, -5e9, 1e9], 1e-9, [3, -5, 1]),
        ([np.pi, np.pi, -np.pi], 1 / np.pi, [1, 1, -1]),
        ([0, 0, 0], 1, [0, 0, 0]),
        ([5e-324, 0, 0], None, None),
    ],
)
def test_an_exact_scale_is_found_where_there_is_one(entries, scale, integers):
    a, b, w = entries
    quantized = ig.quantize(ig.Qubo([[a, w], [0, b]]))
    if scale is None:
        assert quantized.max_error <= 5e-324 * 4
        return
    assert (quantized.certificate, quantized.bits) == ("exact", 8)
    assert quantized.scale == pytest.approx(scale, rel=1e-12)
    found = [*quantized.coefficients.linear.tolist(), *(quantized.coefficients.couplings.tolist() or [0])]
    assert found == integers
    assert quantized.eps <= 1e-14 * max(map(abs, entries))
    assert quantized.qubo == quantized.original
    assert quantized.coefficients.linear.dtype == quantized.coefficients.couplings.dtype == np.int8


@settings(deadline=None, max_examples=150)
@given(
    hnp.arrays(np.int64, (5, 5), elements=st.integers(-5000, 5000)),
    st.sampled_from([1, 10, 20, 100, 8, 3, 7, 12, 1000, 160, 1e-9, 1e9, 1 / 3, np.pi, 1e12, 2.0**40]),
)
def test_the_native_search_runs_at_the_same_scale(counts, divisor):
    for Q in (counts / divisor, np.triu(counts) / divisor):
        qubo = ig.Qubo(Q)
        quantized, core = ig.quantize(qubo), qubo.core()
        assert quantized.scale == core.scale
        assert (quantized.certificate == "exact") == core.exact
        rounding = 1e-13 * np.abs(Q).sum()
        if core.exact:
            assert core.max_error <= rounding


def test_the_native_search_runs_at_the_same_scale_on_arbitrary_numbers():
    rng = np.random.default_rng(7)
    for n in (1, 2, 3, 10, 40, 300):
        for spread in (0, 5):
            qubo = ig.Qubo(rng.normal(size=(n, n)) * 10.0 ** rng.uniform(-spread, spread, (n, n)))
            quantized, core = ig.quantize(qubo), qubo.core()
            assert (quantized.scale, quantized.certificate == "exact") == (core.scale, core.exact)
            assert core.exact == (n == 1)


def test_integers_and_dyadics_have_no_error_at_all():
    rng = np.random.default_rng(2)
    quantized = ig.quantize(ig.Qubo(rng.integers(-1000, 1000, (40, 40)) / 64))
    assert (quantized.certificate, quantized.bits, quantized.scale) == ("exact", 16, 64)
    assert quantized.eps == quantized.max_error == 0
    assert quantized.error_bound(np.ones(40)) == 0


@pytest.mark.parametrize(("largest", "bits"), [(127, 8), (128, 16), (32767, 16), (32768, 32), (2**30, 32)])
def test_auto_takes_the_narrowest_exact_width(largest, bits):
    quantized = ig.quantize(ig.Qubo([[1, largest], [0, 1]]))
    assert (quantized.bits, quantized.certificate, quantized.scale) == (bits, "exact", 1)
    assert quantized.coefficients.couplings.dtype == {8: np.int8, 16: np.int16, 32: np.int32}[bits]


@pytest.mark.parametrize("how", [8, 16, 32])
def test_the_scale_is_the_largest_that_fits(how):
    Q = np.random.default_rng(3).normal(size=(6, 6))
    quantized = ig.quantize(ig.Qubo(Q), how)
    largest = max(np.abs(quantized.coefficients.linear).max(), np.abs(quantized.coefficients.couplings).max())
    assert quantized.certificate == "certified"
    if how < 32:
        assert largest == 2 ** (how - 1) - 1
    else:
        assert quantized.field_bits == 32
        assert largest > 2**26


def test_sums_beyond_float64_are_refused_and_subnormals_are_rounded():
    beyond = ig.Qubo([[1e308, 1e308], [0, 1e308]])
    for use in (ig.quantize, lambda qubo: qubo.energies([[1, 1]])):
        with pytest.raises(OverflowError, match="finite sum, got one beyond float64"):
            use(beyond)
    tiny = ig.Qubo(np.full((3, 3), 5e-324))
    assert tiny.energy([1, 1, 1]) == 9 * 5e-324
    assert ig.quantize(tiny).max_error < 1e-321
    assert ig.quantize(ig.Qubo(np.diag([1e308] * 3))).certificate == "exact"


def test_rounding_is_half_to_even():
    # 127 sets the scale to 1, since 0.1 and the others share no granule that fits.
    quantized = ig.quantize(ig.Qubo(np.diag([127.0, 0.5, 1.5, 2.5, -0.5, -1.5, 0.1])), 8)
    assert quantized.scale == 1
    assert quantized.coefficients.linear.tolist() == [127, 0, 2, 2, 0, -2, 0]
    assert quantized.zeroed == 3


def test_accumulators_come_from_the_rows():
    n = 10
    for weight, bits in ((3000, 16), (4000, 32)):
        upper = np.triu(np.full((n, n), weight))
        upper[0, 0] += 1  # the granule is 1
        assert ig.quantize(ig.Qubo(upper)).field_bits == bits
    # The signs count: no state reaches both ends.
    mixed = np.triu(np.full((n, n), 4000), 1)
    mixed[:, n // 2 :] *= -1
    mixed[0, 1] += 1
    quantized = ig.quantize(ig.Qubo(mixed))
    fields = [mixed[i] @ x + mixed[:, i] @ x for x in all_states(n) for i in range(n)]
    assert quantized.field_bits == (16 if max(map(abs, fields)) < 2**15 else 32)


def test_a_field_beyond_32_bits_lowers_the_scale_and_never_wraps():
    n = 64
    quantized = ig.quantize(ig.Qubo(np.triu(np.full((n, n), 2.0**30 - 1)) + np.eye(n)))
    fields = quantized.coefficients.linear.astype(object)
    for i, j, w in zip(*(a.tolist() for a in quantized.coefficients[1:])):
        fields[i] += w
        fields[j] += w
    assert max(abs(field) for field in fields) < 2**31
    assert quantized.field_bits == 32
    assert quantized.certificate == "certified"


def test_one_huge_coupling_is_told():
    Q = np.diag(-np.linspace(1, 2, 40) * np.pi)
    Q[0, 1] = 1e6
    narrow, wide = ig.quantize(ig.Qubo(Q), 8), ig.quantize(ig.Qubo(Q))
    assert narrow.zeroed == 40
    assert wide.zeroed == 0
    assert wide.certificate == "certified"
    assert wide.eps < 1e-1 < narrow.eps


def test_profiles_state_their_ranges_and_their_loss():
    qubo = ig.Qubo(np.random.default_rng(5).normal(size=(20, 20)) * 100)
    dwave, da16, cim8 = (ig.quantize(qubo, profile=name) for name in PROFILES)
    assert (dwave.vartype, da16.vartype, cim8.vartype) == ("SPIN", "BINARY", "SPIN")
    assert np.abs(dwave.coefficients.couplings).max() <= 32
    assert np.abs(dwave.coefficients.linear).max() <= 128
    assert dwave.certificate == "uncertified"
    assert cim8.coefficients.couplings.dtype == cim8.coefficients.linear.dtype == np.int8
    assert (da16.coefficients.couplings.dtype, da16.coefficients.linear.dtype) == (np.int16, np.int32)
    assert np.abs(da16.coefficients.couplings).max() == 32767
    assert da16.certificate == "certified"
    assert da16.eps < 1 < cim8.eps
    assert dwave.eps > 1
    for quantized, name in zip((dwave, da16, cim8), PROFILES):
        assert f"profile={name!r}" in repr(quantized)
        assert quantized.certificate in repr(quantized)


def test_the_asymmetric_range_is_used_whole():
    spins = ig.Qubo.from_ising([-128.1, 0.3], [[0, 100.7], [0, 0]])
    assert ig.quantize(spins, profile="cim8").coefficients.linear.min() == -128
    spins = ig.Qubo.from_ising([128.1, 0.3], [[0, 3.7], [0, 0]])
    assert ig.quantize(spins, profile="cim8").coefficients.linear.max() == 127


def test_an_analog_machine_gets_its_whole_range():
    spins = ig.Qubo.from_ising([0, 0], [[0, 1], [0, 0]])
    assert ig.quantize(spins, profile="dwave").coefficients.couplings.tolist() == [32]


@pytest.mark.parametrize("how", [*BITS, *PROFILES])
@pytest.mark.parametrize("n", [0, 1, 2])
def test_nothing_to_round(how, n):
    qubo = ig.Qubo(np.zeros((n, n)), offset=1)
    quantized = ig.quantize(qubo, how) if how in BITS else ig.quantize(qubo, profile=how)
    assert quantized.eps == quantized.max_error == quantized.zeroed == 0
    assert quantized.qubo == qubo
    assert quantized.certificate == ("uncertified" if how == "dwave" else "exact")


@pytest.mark.parametrize("n", [20, 300])
def test_labels_offset_and_frozen(n):
    Q = np.triu(np.random.default_rng(6).normal(size=(n, n)), n - 3)
    qubo = ig.Qubo(Q, 2.5, labels=[f"v{k}" for k in range(n)])
    quantized = ig.quantize(qubo, 16)
    assert quantized.qubo.labels == qubo.labels
    assert quantized.qubo.energy(np.zeros(n)) == 2.5
    for array in quantized.coefficients:
        assert not array.flags.writeable
    with pytest.raises(AttributeError):
        quantized.scale = 1


@pytest.mark.parametrize(
    ("keywords", "error", "message"),
    [
        ({"bits": 12}, ValueError, "bits must be 8, 16, 32 or 'auto', got 12"),
        ({"bits": True}, ValueError, "bits must be 8, 16, 32 or 'auto', got True"),
        ({"profile": "abacus"}, ValueError, "profile must be one of dwave, da16, cim8, got 'abacus'"),
        ({"bits": 8, "profile": "da16"}, ValueError, "give bits or profile, not both"),
        ({"max_ones": -1}, ValueError, "max_ones must be >= 0, got -1"),
    ],
)
def test_bad_arguments(keywords, error, message):
    with pytest.raises(error, match=message):
        ig.quantize(ig.Qubo(np.eye(2)), **keywords)
    with pytest.raises(TypeError, match="qubo must be a Qubo, got ndarray"):
        ig.quantize(np.eye(2))
    with pytest.raises(ValueError, match="gap must be"):
        ig.quantize(ig.Qubo(np.eye(2))).error_bound([0, 1], gap=-1)
