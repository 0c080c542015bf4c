"""The QUBO model: what goes in, what it means, what comes out; judged by plain sums over all states."""

from __future__ import annotations

import itertools
import pickle
import time
import tracemalloc
from fractions import Fraction

import dimod
import isinglass as ig
import numpy as np
import pyqubo
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp


def all_states(n: int) -> np.ndarray:
    return np.array(list(itertools.product([0, 1], repeat=n)), dtype=np.int8).reshape(2**n, n)


def plain_energies(Q: np.ndarray, offset: float, X: np.ndarray) -> np.ndarray:
    """The definition, entry by entry: every entry of Q once."""
    n = len(Q)
    return np.array([sum(float(Q[i, j]) * x[i] * x[j] for i in range(n) for j in range(n)) + offset for x in X])


def ising_energies(h: np.ndarray, J: np.ndarray, offset: float, S: np.ndarray) -> np.ndarray:
    n = len(h)
    return np.array(
        [sum(h[i] * s[i] + sum(J[i, j] * s[i] * s[j] for j in range(n)) for i in range(n)) + offset for s in S]
    )


integers = st.integers(0, 8).flatmap(lambda n: hnp.arrays(np.int64, (n, n), elements=st.integers(-6, 6)))


@settings(deadline=None)
@given(integers, st.integers(-9, 9))
def test_every_entry_counts_once(Q, offset):
    X = all_states(len(Q))
    assert np.array_equal(ig.Qubo(Q, offset).energies(X), plain_energies(Q, offset, X))


@settings(deadline=None)
@given(integers, st.integers(-9, 9))
def test_ising_and_back_on_all_states(Q, offset):
    Q[: len(Q) // 3] = 0
    qubo, X = ig.Qubo(Q, offset), all_states(len(Q))
    h, J, constant = qubo.to_ising()
    assert np.array_equal(np.tril(J), np.zeros_like(J))
    assert np.array_equal(ising_energies(h, J, constant, 2 * X - 1), qubo.energies(X))
    assert ig.Qubo.from_ising(h, J, constant) == qubo


@settings(deadline=None)
@given(integers, st.integers(-9, 9))
def test_from_ising_on_all_states(J, offset):
    np.fill_diagonal(J, 0)
    n, h = len(J), np.arange(len(J)) - 2
    X = all_states(n)
    expected = ising_energies(h, J, offset, 2 * X - 1)
    assert np.array_equal(ig.Qubo.from_ising(h, J, offset).energies(X), expected)
    named = ig.Qubo.from_ising(
        {f"s{i}": int(h[i]) for i in range(n)},
        {(f"s{i}", f"s{j}"): int(J[i, j]) for i in range(n) for j in range(n) if i != j},
        offset,
    )
    numbered = ig.Qubo.from_ising(dict(enumerate(h.tolist())), {(0, 0): 0} if n else {}, labels=range(n))
    assert numbered == ig.Qubo.from_ising(h, np.zeros((n, n)))
    assert named.labels == tuple(f"s{i}" for i in range(n))
    assert np.array_equal(named.energies(X), expected)


@pytest.mark.parametrize("n", [5, 300])
@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", ">i4", ">f8"])
def test_any_numeric_dtype_gives_the_same_model(n, dtype):
    Q = np.random.default_rng(1).integers(0, 100, (n, n))  # int8 sums would wrap at 127
    assert ig.Qubo(Q.astype(dtype)) == ig.Qubo(Q.astype(float))


@pytest.mark.parametrize("n", [6, 300, 401])
def test_strided_readonly_and_mapped_inputs_are_only_read(n, tmp_path):
    rng = np.random.default_rng(2)
    wide = rng.normal(size=(2 * n, 3 * n))
    view = wide[::2, ::-3].T[::-1]
    plain = np.ascontiguousarray(view)
    expected = ig.Qubo(plain)
    before = wide.copy()
    assert ig.Qubo(view) == expected
    assert ig.Qubo(np.asfortranarray(plain)) == expected
    assert ig.Qubo(plain.tolist()) == expected
    assert np.array_equal(wide, before)
    np.save(tmp_path / "q.npy", plain)
    assert ig.Qubo(np.load(tmp_path / "q.npy", mmap_mode="r")) == expected
    assert ig.Qubo(plain.astype(plain.dtype.newbyteorder())) == expected
    unaligned = np.frombuffer(b"-" + plain.tobytes(), dtype=np.uint8)[1:].view(np.float64).reshape(n, n)
    assert not unaligned.flags.aligned
    assert ig.Qubo(unaligned) == expected
    plain.flags.writeable = False
    assert ig.Qubo(plain) == expected


def test_later_changes_of_the_input_do_not_reach_the_model():
    Q = np.triu(np.ones((4, 4)))
    qubo = ig.Qubo(Q)
    Q[:] = 7
    assert qubo.energy([1, 1, 0, 0]) == 3


def test_an_array_offset_is_never_changed():
    offset = np.array(1.0)
    Q = np.array([[1.0, 2.0], [0.0, -3.0]])
    Q.flags.writeable = False
    qubo = ig.Qubo(Q, offset)
    assert [qubo.energy([1, 1]), qubo.energy([1, 1])] == [1.0, 1.0]
    assert offset == 1.0


@pytest.mark.parametrize("n", [7, 300, 700])
def test_matrix_sparse_entries_and_mapping_agree(n):
    rng = np.random.default_rng(n)
    Q = np.where(rng.random((n, n)) < 0.05, rng.integers(-9, 10, (n, n)), 0)
    i, j = np.nonzero(Q)
    order = rng.permutation(i.size)
    i, j = i[order], j[order]
    expected = ig.Qubo(Q)
    declared = range(n)
    assert ig.Qubo(sp.coo_array(Q)) == expected
    assert ig.Qubo(sp.csc_matrix(Q)) == expected
    assert ig.Qubo({(int(a), int(b)): int(Q[a, b]) for a, b in zip(i, j)}, labels=declared) == expected
    assert ig.Qubo.from_entries(i, j, Q[i, j], n) == expected
    twice = ig.Qubo.from_entries(np.r_[i, j], np.r_[j, i], np.r_[Q[i, j], Q[i, j]] / 2, n)
    assert twice == expected
    X = rng.integers(0, 2, (20, n))
    assert np.array_equal(expected.energies(X), np.einsum("ri,ij,rj->r", X, Q, X).astype(float))


@pytest.mark.parametrize(("n", "density"), [(256, 0.01), (257, 0.01), (257, 0.5), (300, 0.2), (300, 0.3)])
def test_the_stored_form_follows_the_values_alone(n, density):
    rng = np.random.default_rng(3)
    U = np.triu(np.where(rng.random((n, n)) < density, rng.normal(size=(n, n)), 0.0))
    from_matrix, from_sparse = ig.Qubo(U), ig.Qubo(sp.coo_array(U))
    assert (from_matrix.dense is None) == (from_sparse.dense is None) == (n > 256 and from_matrix.density < 0.25)
    assert (from_matrix.dense is None) != (from_matrix.rows is None)
    assert from_matrix == from_sparse
    assert np.array_equal(from_matrix.to_numpy(), U)
    assert np.array_equal(from_matrix.linear, U.diagonal())
    i, j, w = from_matrix.couplings()
    assert np.array_equal(np.transpose((i, j)), np.argwhere(np.triu(U, 1)))
    assert np.array_equal(w, U[i, j])
    assert from_matrix.num_interactions == w.size
    assert from_matrix.density == w.size / (n * (n - 1) / 2)


def test_rows_hold_both_directions_sorted():
    n = 300
    rng = np.random.default_rng(4)
    U = np.triu(np.where(rng.random((n, n)) < 0.1, rng.normal(size=(n, n)), 0.0))
    rows = ig.Qubo(U).rows
    S = np.triu(U, 1) + np.triu(U, 1).T
    for i in range(n):
        part = slice(rows.row_start[i], rows.row_start[i + 1])
        assert np.array_equal(rows.neighbour[part], np.flatnonzero(S[i]))
        assert np.array_equal(rows.coupling[part], S[i, np.flatnonzero(S[i])])
    assert (rows.row_start.dtype, rows.neighbour.dtype, rows.coupling.dtype) == (np.int64, np.int32, np.float64)


@pytest.mark.parametrize("n", [0, 1, 2, 3])
@pytest.mark.parametrize("zero", [True, False])
def test_tiny_and_all_zero_models(n, zero):
    qubo = ig.Qubo(np.zeros((n, n)) if zero else -np.eye(n), offset=2)
    X = all_states(n)
    assert (len(qubo), qubo.labels, qubo.density) == (n, tuple(range(n)), 0.0)
    assert np.array_equal(qubo.energies(X), 2.0 - (not zero) * X.sum(axis=1))
    assert qubo.energies(np.zeros((0, n))).shape == (0,)
    assert ig.Qubo.from_ising(*qubo.to_ising()) == qubo
    assert "num_variables" in repr(qubo)


# --- labels ----------------------------------------------------------------------------------------------------------


def test_both_orders_of_a_key_are_added():
    qubo = ig.Qubo({(0, 1): 2, (1, 0): -2, (0, 0): -1})
    assert qubo.energies([[1, 0], [1, 1], [0, 1]]).tolist() == [-1, -1, 0]
    assert qubo.num_interactions == 0
    assert ig.Qubo({("a", "b"): 1, ("b", "a"): 2}).energy([1, 1]) == 3


def test_labels_are_sorted_by_value_not_by_insertion():
    terms = {("b", "b"): -1, ("a", "c"): 4, ("c", "c"): -2, ("a", "a"): -3}
    qubo = ig.Qubo(terms)
    assert qubo.labels == ("a", "b", "c")
    assert ig.Qubo(dict(reversed(terms.items()))) == qubo
    assert qubo.energy([1, 1, 0]) == -4


def test_given_labels_fix_the_order_and_declare_variables_without_terms():
    qubo = ig.Qubo({("a", "b"): 5, ("b", "b"): -1}, labels=["b", "a", "idle", "c"])
    assert qubo.labels == ("b", "a", "idle", "c")
    assert qubo.energies(all_states(4)).shape == (16,)
    assert qubo.energy([1, 0, 1, 1]) == -1
    five = ig.Qubo({(1, 3): 1.5}, labels=range(5))
    assert len(five) == 5
    assert ig.Qubo(np.eye(2), labels=["p", "q"]).labels == ("p", "q")


def test_labels_that_do_not_compare_follow_the_stated_rule():
    labels = ["b", 10, "a", 2, (1, "x"), (1, 2), None]
    for order in itertools.islice(itertools.permutations(labels), 0, 5040, 97):
        qubo = ig.Qubo({(label, label): 1 for label in order})
        assert qubo.labels == (None, 2, 10, "a", "b", (1, "x"), (1, 2))
    partial = [frozenset({1}), frozenset({2}), frozenset({1, 2})]  # ordered by inclusion only
    orders = {ig.Qubo({(s, s): 1 for s in order}).labels for order in itertools.permutations(partial)}
    assert len(orders) == 1


def test_a_mapping_of_positions_equals_its_matrix():
    Q = np.array([[1.0, 2.0], [0.0, 3.0]])
    assert ig.Qubo({(0, 0): 1, (0, 1): 2, (1, 1): 3}) == ig.Qubo(Q)
    assert ig.Qubo(Q, labels=["a", "b"]) != ig.Qubo(Q)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (({("a", "b"): 1}, 0, ["a"]), r"Q has a label that `labels` lacks: 'b'"),
        (({("a", "b"): 1}, 0, ["a", "b", "a"]), r"labels must be distinct, got 'a' twice"),
        ((np.eye(2), 0, ["a"]), r"labels must name 2 variables, got 1"),
        ((np.eye(2), 0, [[], {}]), r"labels must be hashable"),
        (({"ab": 1},), r"keys of Q must be pairs \(i, j\), got 'ab'"),
        (({(1, 2, 3): 1},), r"keys of Q must be pairs \(i, j\), got \(1, 2, 3\)"),
        (({("a", "b"): float("nan")},), r"Q\['a', 'b'\] must be finite, got nan"),
        (({("a", "b"): 1.0, ("a", "a"): Fraction(1, 3)},), r"Q\['a', 'a'\] must be a number, got Fraction\(1, 3\)"),
        (({("a", "b"): "1"},), r"Q\['a', 'b'\] must be a number, got '1'"),
        (({("a", "b"): None},), r"Q\['a', 'b'\] must be a number, got None"),
        (({(0, 1): 1j},), r"Q\[0, 1\] must be a number, got 1j"),
        (({(0, 1): 2**53 + 1},), r"Q\[0, 1\] must be an integer that float64 holds, got 9007199254740993"),
        (({(0, 1): 2**1100},), r"Q\[0, 1\] must be an integer that float64 holds"),
        (({(0, 1): 1e308, (1, 0): 1e308},), r"sum of repeated entries must be finite"),
        ((np.zeros((3, 4)),), r"Q must be square, shape \(n, n\), got shape \(3, 4\)"),
        ((np.zeros(4),), r"Q must be square"),
        (([[1, 2], [3]],), r"Q must be a square matrix of numbers"),
        ((np.array([[0, 0, 0], [0, 0, 0], [0, np.nan, 0]]),), r"Q\[2, 1\] must be finite, got nan"),
        ((np.array([[0, np.inf], [-np.inf, 0]]),), r"Q\[0, 1\] must be finite, got inf"),
        ((np.array([[0, 1e308], [1e308, 0]]),), r"Q\[0, 1\] \+ Q\[1, 0\] must be finite"),
        ((np.array([[0, Fraction(1, 3)], [0, 0]], dtype=object),), r"dtype object"),
        ((np.array([[1, 2], [3, 4]], dtype=object),), r"dtype object"),
        ((np.array([["a", 1], [2, 3]], dtype=object),), r"Q\[0, 0\] must be a number, got 'a'"),
        ((np.eye(2) * 1j,), r"complex128"),
        ((np.eye(2, dtype=bool),), r"dtype bool"),
        ((np.array([[0, 0], [-(2**53) - 1, 0]]),), r"Q\[1, 0\] must be an integer that float64 holds"),
        ((np.array([[2**64 - 1]], dtype=np.uint64),), r"Q\[0, 0\] must be an integer that float64 holds"),
        ((np.eye(2, dtype=np.longdouble),), r"float64 cannot hold"),
        (
            (np.array([[0, 2**53 + 1], [0, 0]]),),
            r"Q\[0, 1\] must be an integer that float64 holds, got 9007199254740993",
        ),
        ((sp.coo_array(np.array([[0, np.nan], [0, 0]])),), r"Q\[0, 1\] must be finite, got nan"),
        ((sp.coo_array(np.zeros((2, 3))),), r"Q must be square"),
        ((np.eye(2), float("inf")), r"offset must be finite, got inf"),
        ((np.eye(2), "3"), r"offset must be a number, got '3'"),
        ((np.eye(2), np.array([1.0, 2.0])), r"offset must be a number"),
    ],
)
def test_bad_input_is_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        ig.Qubo(*arguments)


@pytest.mark.parametrize("nothing", [None, "text", 3, ig.Qubo(np.eye(2)), np.ma.masked_array(np.eye(2))])
def test_what_is_no_matrix_is_a_type_error(nothing):
    with pytest.raises(TypeError, match="Q "):
        ig.Qubo(nothing)


@pytest.mark.parametrize("n", [200, 400])
def test_a_fault_is_found_in_any_block(n):
    for i, j in [(0, n - 1), (n - 1, 0), (n // 2, n // 2), (n - 1, n - 2)]:
        Q = np.zeros((n, n))
        Q[i, j] = np.nan
        with pytest.raises(ValueError, match=rf"Q\[{i}, {j}\] must be finite, got nan"):
            ig.Qubo(Q)


def test_large_integers_that_float64_holds_are_kept():
    Q = np.array([[2**60, -(2**62)], [0, 2**53]])
    assert ig.Qubo(Q).to_numpy().tolist() == Q.tolist()
    assert ig.Qubo({(0, 1): 2**100}).energy([1, 1]) == 2.0**100


def test_from_entries_refuses_what_does_not_fit():
    with pytest.raises(ValueError, match=r"columns\[1\] must be an index in \[0, 3\), got 3"):
        ig.Qubo.from_entries([0, 1], [1, 3], [1, 1], 3)
    with pytest.raises(ValueError, match=r"rows must be an array of int"):
        ig.Qubo.from_entries([0.5], [1], [1], 3)
    with pytest.raises(ValueError, match=r"columns must have the shape \(m,\) of values"):
        ig.Qubo.from_entries([0, 1], [1], [1, 1], 3)
    with pytest.raises(ValueError, match=r"values\[0\] must be finite"):
        ig.Qubo.from_entries([0], [1], [np.nan], 3)
    with pytest.raises(ValueError, match="number of variables must be an integer"):
        ig.Qubo.from_entries([0], [1], [1], 3.0)


def test_from_ising_refuses_what_does_not_fit():
    with pytest.raises(ValueError, match=r"J\[1, 1\] must be 0"):
        ig.Qubo.from_ising([0, 0], np.eye(2) * [[0], [1]])
    with pytest.raises(ValueError, match=r"h must have shape \(2,\)"):
        ig.Qubo.from_ising([0, 0, 0], np.zeros((2, 2)))
    with pytest.raises(ValueError, match=r"h\[1\] must be finite"):
        ig.Qubo.from_ising([0, np.nan], np.zeros((2, 2)))
    with pytest.raises(ValueError, match=r"h has a label that `labels` lacks: 'c'"):
        ig.Qubo.from_ising({"c": 1}, {("a", "b"): 1}, labels=["a", "b"])
    with pytest.raises(TypeError, match="both be mappings or both arrays"):
        ig.Qubo.from_ising([0, 0], {(0, 1): 1})


# --- the maximum cut -------------------------------------------------------------------------------------------------


def test_max_cut_energy_is_minus_the_cut():
    rng = np.random.default_rng(5)
    n, m = 7, 15
    i = rng.integers(0, n, m)
    j = (i + rng.integers(1, n, m)) % n
    w = rng.integers(-4, 5, m)
    qubo, X = ig.Qubo.from_max_cut(i, j, w, n), all_states(n)
    assert qubo.sense == "maximise"
    assert np.array_equal(-qubo.energies(X), [w[x[i] != x[j]].sum() for x in X])
    with pytest.raises(ValueError, match="edge 0 must join two vertices, got 3 twice"):
        ig.Qubo.from_max_cut([3], [3], [1], 5)


# --- energies --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "density"), [(40, 1.0), (300, 1.0), (300, 0.05)])
def test_an_energy_has_the_same_bits_whatever_stands_beside_it(n, density):
    rng = np.random.default_rng(6)
    Q = np.where(rng.random((n, n)) < density, rng.normal(size=(n, n)), 0.0)
    qubo = ig.Qubo(Q, offset=0.1)
    X = rng.integers(0, 2, (50, n))
    together = qubo.energies(X)
    assert np.array_equal(together, [qubo.energy(x) for x in X])
    assert np.array_equal(together[::-3], qubo.energies(X[::-3]))
    assert np.array_equal(together, qubo.energies(np.asfortranarray(X)))
    assert np.allclose(together, np.einsum("ri,ij,rj->r", X, Q, X) + 0.1, rtol=1e-12, atol=1e-9)


@pytest.mark.parametrize("kind", [bool, np.int8, np.uint8, np.int64, np.float32, np.float64])
def test_states_of_any_type(kind):
    assert ig.Qubo(np.ones((2, 2))).energies(np.array([[0, 1], [1, 1]], dtype=kind)).tolist() == [1, 4]


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ([[0, 2]], r"X\[0, 1\] must be 0 or 1, got"),
        ([[0, 1], [-1, 1]], r"X\[1, 0\] must be 0 or 1, got"),
        ([[0, np.nan]], r"X\[0, 1\] must be 0 or 1, got"),
        ([[0, 1, 0]], r"X must have shape \(r, 2\), got \(1, 3\)"),
        ([0, 1], r"X must have shape \(r, 2\), got \(2,\)"),
        ([["0", "1"]], r"X\[0, 0\] must be 0 or 1, got 0"),
    ],
)
def test_bad_states_are_named(X, message):
    with pytest.raises(ValueError, match=message):
        ig.Qubo(np.eye(2)).energies(X)
    with pytest.raises(ValueError, match=r"x must have shape \(2,\)"):
        ig.Qubo(np.eye(2)).energy([1])


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
def test_scale_does_not_matter(scale):
    qubo = ig.Qubo(np.diag(np.full(40, -scale)))
    assert qubo.energy(np.ones(40)) == pytest.approx(-40 * scale, rel=1e-15)


def test_an_offset_survives_every_way_in_and_out():
    Q, X = np.array([[1.0, -2.0], [0.0, 3.0]]), all_states(2)
    plain = ig.Qubo(Q).energies(X)
    terms = {(i, j): Q[i, j] for i in range(2) for j in range(i, 2)}
    h, J, constant = ig.Qubo(Q).to_ising()
    bqm = ig.Qubo(Q, 12345.5).to_bqm()
    for qubo in (
        ig.Qubo(Q, 12345.5),
        ig.Qubo(terms, 12345.5),
        ig.Qubo(sp.csr_array(Q), 12345.5),
        ig.Qubo.from_entries([0, 0, 1], [0, 1, 1], [1, -2, 3], 2, 12345.5),
        ig.Qubo.from_ising(h, J, constant + 12345.5),
        ig.Qubo.from_bqm(bqm),
        ig.Qubo.from_bqm(bqm.change_vartype("SPIN", inplace=False)),
        pickle.loads(pickle.dumps(ig.Qubo(Q, 12345.5))),
    ):
        assert np.array_equal(qubo.energies(X), plain + 12345.5)


# --- frozen ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [3, 300])
def test_frozen(n):
    qubo = ig.Qubo(sp.csr_array(sp.identity(n)), offset=1)
    with pytest.raises(AttributeError, match="frozen"):
        qubo.offset = 2
    with pytest.raises(AttributeError, match="frozen"):
        del qubo.linear
    for array in (qubo.linear, qubo.to_numpy(), *qubo.to_ising()[:2], *(qubo.rows or ())):
        assert not array.flags.writeable
    again = pickle.loads(pickle.dumps(qubo))
    assert again == qubo
    assert hash(again) == hash(qubo)
    assert not again.linear.flags.writeable


def test_equality():
    Q = np.triu(np.ones((3, 3)))
    assert ig.Qubo(Q) == ig.Qubo(Q + np.triu(Q, 1).T - np.triu(Q, 1).T)
    assert ig.Qubo(Q) != ig.Qubo(Q, offset=1)
    assert ig.Qubo(Q) != ig.Qubo(2 * Q)
    assert ig.Qubo(np.zeros((1, 1))) == ig.Qubo(-np.zeros((1, 1)))
    assert hash(ig.Qubo(np.zeros((1, 1)))) == hash(ig.Qubo(-np.zeros((1, 1))))
    assert ig.Qubo(Q) != "text"


def test_matrix_export_is_upper_triangular_and_exact():
    U = np.triu(np.random.default_rng(7).normal(size=(30, 30)))
    assert np.array_equal(ig.Qubo(U).to_numpy(), U)
    assert np.array_equal(ig.Qubo(U.T).to_numpy(), U)


# --- dimod and pyqubo ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("vartype", ["BINARY", "SPIN"])
def test_dimod_and_back(vartype):
    rng = np.random.default_rng(8)
    for n in range(7):
        Q = rng.integers(-5, 6, (n, n)).astype(float)
        qubo = ig.Qubo(Q, offset=2.5, labels=[f"v{n - i}" for i in range(n)])
        bqm = qubo.to_bqm(vartype)
        X = all_states(n)
        assert bqm.vartype.name == vartype
        assert tuple(bqm.variables) == qubo.labels
        states = X if vartype == "BINARY" else 2 * X - 1
        assert np.array_equal(bqm.energies((states, list(qubo.labels))), qubo.energies(X))
        assert ig.Qubo.from_bqm(bqm) == qubo


def test_dimod_exact_solver_finds_our_energies():
    Q = np.random.default_rng(9).integers(-9, 10, (8, 8))
    qubo = ig.Qubo(Q, offset=-3)
    found = dimod.ExactSolver().sample(qubo.to_bqm())
    states = found.record.sample[:, [list(found.variables).index(label) for label in qubo.labels]]
    assert np.array_equal(qubo.energies(states), found.record.energy)
    assert found.first.energy == qubo.energies(all_states(8)).min()


def test_a_bqm_keeps_its_own_order_and_its_idle_variables():
    bqm = dimod.BinaryQuadraticModel("BINARY", offset=0.5)
    for label, bias in (("b", 1.0), ("a", -1.0), ("idle", 0.0)):
        bqm.add_linear(label, bias)
    bqm.add_quadratic("a", "b", 2.0)
    qubo = ig.Qubo.from_bqm(bqm)
    assert qubo.labels == ("b", "a", "idle")
    assert qubo.energy([0, 1, 1]) == -0.5
    object_bqm = dimod.BinaryQuadraticModel({"a": 1}, {}, 2, "SPIN", dtype=object)
    assert ig.Qubo.from_bqm(object_bqm).energies([[0], [1]]).tolist() == [1, 3]
    with pytest.raises(TypeError, match="expected a dimod BinaryQuadraticModel, got dict"):
        ig.Qubo.from_bqm({})
    with pytest.raises(ValueError, match="vartype must be 'BINARY' or 'SPIN', got 'spin'"):
        qubo.to_bqm("spin")


def test_pyqubo():
    a, b, c = pyqubo.Spin("a"), pyqubo.Binary("b"), pyqubo.Binary("c")
    model = ((a + 2 * b - pyqubo.Placeholder("P") * c) ** 2 + 1).compile()
    qubo = ig.Qubo.from_pyqubo(model, feed_dict={"P": 3.0})
    assert qubo.labels == ("a", "b", "c")
    X = all_states(3)
    assert qubo.energies(X).tolist() == [float(((2 * x - 1) + 2 * y - 3 * z) ** 2 + 1) for x, y, z in X]
    with pytest.raises(TypeError, match="expected a compiled pyqubo model"):
        ig.Qubo.from_pyqubo(a)


# --- size ------------------------------------------------------------------------------------------------------------


def test_a_dense_request_beyond_the_machine_is_refused_before_it_is_allocated():
    huge = ig.Qubo.from_entries([0], [1_999_999], [1.0], 2_000_000)
    assert huge.num_interactions == 1
    for request in (huge.to_numpy, huge.to_ising):
        with pytest.raises(MemoryError, match="2000000 variables needs 32,000,000,000,000 bytes"):
            request()
    claimed = np.broadcast_to(np.float32(0), (2_000_000, 2_000_000))
    with pytest.raises(MemoryError, match="32,000,000,000,000 bytes"):
        ig.Qubo(claimed)


def test_building_takes_one_packed_copy(tmp_path):
    n = 1500
    Q = np.random.default_rng(10).normal(size=(n, n)).astype(np.float32)
    np.save(tmp_path / "q.npy", Q)
    mapped = np.load(tmp_path / "q.npy", mmap_mode="r")
    tracemalloc.start()
    qubo = ig.Qubo(mapped)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1.05 * 8 * n * n
    assert qubo == ig.Qubo(Q)


def test_large_inputs_are_read_in_one_pass():
    rng = np.random.default_rng(11)
    Q = rng.normal(size=(2500, 2500))
    pairs = rng.integers(0, 5000, (100_000, 2)).tolist()
    terms = {(f"v{a}", f"v{b}"): 1.0 for a, b in pairs}
    # Ten times what either takes alone on the machine it was written on: a loop over entries takes far longer.
    for build, limit in ((lambda: ig.Qubo(Q), 0.3), (lambda: ig.Qubo(terms), 0.8)):
        best = min(_seconds(build) for _ in range(3))
        assert best < limit


def _seconds(call) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start
