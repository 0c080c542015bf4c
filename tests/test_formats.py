"""File formats: conventions on hand-made files and on the published instances; malformed files name line and reason."""

from __future__ import annotations

import csv
import gzip
import hashlib
import itertools

import isinglass as ig
import numpy as np
import pytest
from isinglass.problems.formats import read_qubo, write_qubo


def all_states(n: int) -> np.ndarray:
    return np.array(list(itertools.product([0, 1], repeat=n)), dtype=np.int8).reshape(2**n, n)


def written(tmp_path, name, text):
    path = tmp_path / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return path


# Three variables, and what each convention makes of them at x = (1, 1, 0) and (1, 1, 1).
HAND_MADE = {
    "a.qubo": ("c a remark\np qubo 0 3 2 2\n0 0 -1\n2 2 4\n0 1 3\n2 1 -5\n", "minimise", [2, 1]),
    "a.sparse": ("3 4\n1 1 -1\n1 2 3\n2 3 -5\n3 3 4\n", "minimise", [5, -1]),
    "a.coo": ("# offset of another story\n3 4\n0 0 -1\n0 1 3\n1 2 -5\n2 2 4\n\n", "minimise", [2, 1]),
    "a.ising": ("3 4\n0 0 -1\n0 1 3\n2 1 -5\n2 2 4\n", "minimise", [3 + 5 - 1 - 4, 3 - 5 - 1 + 4]),
    "b.ising": ("3 4\n1 1 -1\n1 2 3\n3 2 -5\n3 3 4\n", "minimise", [3 + 5 - 1 - 4, 3 - 5 - 1 + 4]),
    "a.mc": ("3 2 \n1 2 3\n3 2 -5\n", "maximise", [5, 0]),
    "a.rud": ("3 2\n1 2\n2 3\n", "maximise", [-1, 0]),
    "a.tri": ("3\n+-\n+\n\n", "maximise", [0, 0]),
    "a.qplib": (
        "name\nQBB\nmaximize\n3 # variables\n2 # terms\n2 1 6.0\n3 3 8.0\n0.5 # default\n1\n1 -2.0\n7.0 # constant\n"
        "1e308 # infinity\n0.0\n1\n2 1.0\n0.0\n0\n1\n2 middle\n0\n",
        "maximise",
        [-(3 - 2 + 0.5 + 7), -(3 + 4 - 2 + 0.5 + 0.5 + 7)],
    ),
}


@pytest.mark.parametrize("name", HAND_MADE)
@pytest.mark.parametrize("compressed", ["", ".gz"])
def test_conventions(name, compressed, tmp_path):
    text, sense, energies = HAND_MADE[name]
    qubo = read_qubo(written(tmp_path, name + compressed, text))
    assert qubo.sense == sense
    assert qubo.energies([[1, 1, 0], [1, 1, 1]]).tolist() == energies


def test_qplib_names_become_labels(tmp_path):
    assert read_qubo(written(tmp_path, "a.qplib", HAND_MADE["a.qplib"][0])).labels == ("x1", "middle", "x3")


@pytest.mark.parametrize("name", HAND_MADE)
def test_written_files_read_back_the_same(name, tmp_path):
    qubo = read_qubo(written(tmp_path, name, HAND_MADE[name][0]))
    again = tmp_path / ("again" + name + ".gz")
    write_qubo(qubo, again)
    assert read_qubo(again) == qubo
    assert read_qubo(again).sense == qubo.sense
    first = again.read_bytes()
    write_qubo(qubo, again)
    assert again.read_bytes() == first


@pytest.mark.parametrize("format", ["qbsolv", "sparse", "coo", "qplib"])
def test_floats_survive_exactly(format, tmp_path):
    Q = np.triu(np.random.default_rng(1).normal(size=(20, 20)) * 10.0 ** np.arange(-10, 10))
    qubo = ig.Qubo(Q)
    write_qubo(qubo, tmp_path / "q", format)
    assert read_qubo(tmp_path / "q", format) == qubo


@pytest.mark.parametrize("n", [0, 1, 2])
@pytest.mark.parametrize("format", ["qbsolv", "sparse", "coo", "qplib", "ising", "maxcut"])
def test_empty_and_tiny_files(n, format, tmp_path):
    qubo = ig.Qubo(np.zeros((n, n)))
    write_qubo(qubo, tmp_path / "q", format)
    assert read_qubo(tmp_path / "q", format) == qubo


def test_ising_keeps_a_model_up_to_the_constant_it_has_no_place_for(tmp_path):
    qubo = ig.Qubo(np.random.default_rng(2).integers(-9, 10, (6, 6)) * 4)
    with pytest.raises(ValueError, match="format 'ising' has no place for the constant"):
        write_qubo(qubo, tmp_path / "q.ising")
    write_qubo(qubo, tmp_path / "q.ising", drop_offset=True)
    difference = read_qubo(tmp_path / "q.ising").energies(all_states(6)) - qubo.energies(all_states(6))
    assert np.ptp(difference) == 0


def test_writers_refuse_what_the_format_cannot_state(tmp_path):
    with pytest.raises(ValueError, match=r"format 'coo' has no place for the constant 2.5"):
        write_qubo(ig.Qubo(np.eye(2), 2.5), tmp_path / "q.coo")
    write_qubo(ig.Qubo(np.eye(2), 2.5), tmp_path / "q.qplib")
    assert read_qubo(tmp_path / "q.qplib").offset == 2.5
    for name in ("q.mc", "q.tri"):
        with pytest.raises(ValueError, match="states maximum cuts only"):
            write_qubo(ig.Qubo(np.eye(2)), tmp_path / name)
    with pytest.raises(ValueError, match=r"complete graphs with weights \+1 and -1"):
        write_qubo(ig.Qubo.from_max_cut([0], [1], [2.0], 3), tmp_path / "q.tri")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("q.coo", "", r"q.coo, line 1: expected 'n m' \(variables, entries\), got an empty file"),
        ("q.coo", "3\n", r"q.coo, line 1: expected 'n m' \(variables, entries\), got '3'"),
        ("q.coo", "3 x\n", r"q.coo, line 1: expected 'n m'"),
        ("q.coo", "-3 0\n", r"q.coo, line 1: .*none negative"),
        ("q.coo", "3 2\n0 0 1\n", r"q.coo, line 1: the header announces 2 entries, the file has 1"),
        ("q.coo", "# c\n3 1\n\n0 0\n", r"q.coo, line 4: expected 'i j w' with integers i and j, got '0 0'"),
        ("q.coo", "3 2\n0 0 1\n0 1.5 2\n", r"q.coo, line 3: expected 'i j w' with integers"),
        ("q.coo", "3 2\n0 0 1\n0 1.0 2\n", r"q.coo, line 3: expected 'i j w' with integers"),
        ("q.coo", "3 1\n0 0 one\n", r"q.coo, line 2: expected a number, got 'one'"),
        ("q.coo", "3 1\n0 0 nan\n", r"q.coo, line 2: expected a finite number, got nan"),
        ("q.coo", "3 1\n0 0 1e999\n", r"q.coo, line 2: expected a finite number, got inf"),
        ("q.coo", "3 1\n0 3 1\n", r"q.coo, line 2: expected an index in 0 .. 2, got 3"),
        ("q.coo", "3 1\n0 99999999999999999999 1\n", r"q.coo, line 2: expected 'i j w' with integers"),
        ("q.coo", "3 1\n2 1 1\n", r"q.coo, line 2: expected i <= j \(each pair once\), got '2 1 1'"),
        ("q.coo", "3 3\n0 1 1\n0 0 1\n0 1 2\n", r"q.coo, line 4: the pair was given on line 2 already: '0 1 2'"),
        ("q.sparse", "3 1\n0 1 1\n", r"q.sparse, line 2: expected an index in 1 .. 3, got 0"),
        ("q.mc", "3 1\n2 2 1\n", r"q.mc, line 2: expected two different vertices, got 2 twice"),
        ("q.mc", "3 2\n1 2 1\n2 1 1\n", r"q.mc, line 3: the pair was given on line 2 already"),
        ("q.mc", "3 2\n1 2\n2 3 1\n", r"q.mc, line 3: expected 'i j' with integers"),
        ("q.qubo", "p qubo 0 3 1\n", r"q.qubo, line 1: expected 'p qubo 0 n diagonals couplers'"),
        ("q.qubo", "c\n", r"q.qubo, line 1: expected 'p qubo"),
        (
            "q.qubo",
            "p qubo 0 3 1 1\n0 1 2\n1 2 3\n",
            r"line 1: .* announces 1 diagonals and 1 couplers, the file",
        ),
        ("q.tri", "3\n+-\n", r"q.tri, line 2: expected 3 rows of signs, got 1"),
        ("q.tri", "3\n+-\n*\n", r"q.tri, line 3: expected 1 signs \+ or -, got 1 characters, one of them '\*'"),
        ("q.tri", "3\n+-+\n+\n", r"q.tri, line 2: expected 2 signs \+ or -, got 3 characters"),
        ("q.ising", "2 1\n0 1\n", r"q.ising, line 2: expected 'i j w'"),
        ("q.qplib", "n\nQCB\nminimize\n", r"q.qplib, line 2: expected the class QBB .*, got QCB"),
        ("q.qplib", "n\nQBB\nsmallest\n", r"q.qplib, line 3: expected minimize or maximize, got 'smallest'"),
        ("q.qplib", "n\nQBB\nminimize\nthree\n", r"q.qplib, line 4: expected the number of variables, got 'three'"),
        ("q.qplib", "n\nQBB\nminimize\n3\n1\n1 1 2\n", r"q.qplib, line 7: .*default linear .*end of the file"),
        ("q.qplib", "n\nQBB\nminimize\n3\n2\n1 1 2\n", r"q.qplib, line 7: expected 2 lines of 'i j v', got the end"),
        ("q.qplib", "n\nQBB\nminimize\n3\n0\n0\n1\n4 1\n", r"q.qplib, line 8: expected i in 1 .. 3 and a finite value"),
        (
            "q.qplib",
            "n\nQBB\nminimize\n3\n0\n0\n1\nx\n",
            r"line 8: expected 'i value' \(linear coefficients\)",
        ),
    ],
)
def test_a_malformed_file_names_line_and_reason(name, text, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        read_qubo(written(tmp_path, name, text))


def test_what_is_no_such_file(tmp_path):
    (tmp_path / "cut.coo.gz").write_bytes(gzip.compress(b"3 0\n")[:-6])
    with pytest.raises(ValueError, match=r"cut.coo.gz: not a whole gzip file"):
        read_qubo(tmp_path / "cut.coo.gz")
    (tmp_path / "binary.coo").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match=r"binary.coo: not text"):
        read_qubo(tmp_path / "binary.coo")
    with pytest.raises(ValueError, match=r"q.txt: cannot tell the format from the suffix '.txt' .*give format="):
        read_qubo(written(tmp_path, "q.txt", "3 0\n"))
    with pytest.raises(ValueError, match=r"format must be one of qbsolv, sparse, .*, got 'csv'"):
        read_qubo(tmp_path / "q.txt", format="csv")
    with pytest.raises(FileNotFoundError):
        read_qubo(tmp_path / "absent.coo")


# --- published instances ---------------------------------------------------------------------------------------------


def known(data):
    with (data / "qubo" / "best_known.tsv").open() as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    return [row for row in rows if (data / "qubo" / row["file"]).is_file()]


def test_every_published_instance_reads_with_its_size_and_sense(data):
    rows = known(data)
    assert len(rows) > 140
    for row in rows:
        qubo = read_qubo(data / "qubo" / row["file"])
        assert len(qubo) == int(row["n"]), row["instance"]
        assert qubo.sense[:3] == row["sense"], row["instance"]
        entries = qubo.num_interactions + (0 if qubo.sense == "maximise" else np.count_nonzero(qubo.linear))
        if row["family"] in ("bqp", "gka", "be"):
            assert entries == int(row["nonzeros"]), row["instance"]


@pytest.mark.parametrize(("qplib", "sparse"), [("QPLIB_5922", "bqp500.2"), ("QPLIB_5881", "be120.3.1")])
def test_one_instance_under_two_names(data, qplib, sparse):
    to_maximise = read_qubo(data / "qubo" / f"{qplib}.qplib")
    assert to_maximise.sense == "maximise"
    assert to_maximise == read_qubo(data / "qubo" / f"{sparse}.sparse")


def test_k2000_is_the_published_graph_byte_for_byte(data, tmp_path):
    qubo = read_qubo(data / "qubo" / "K2000.tri.gz")
    i, j, w = qubo.couplings()
    order = np.lexsort((-j, i))
    lines = (f"{a} {b} {c}" for a, b, c in zip(i[order] + 1, j[order] + 1, (w[order] / 2).astype(int)))
    text = "2000 1999000 \n" + "\n".join(lines) + "\n"
    published = "9ed615e5e18726914f12740b7f9bedb6b69676477ed5958fac42c8ab0c252ba7"
    assert hashlib.sha256(text.encode()).hexdigest() == published
    assert read_qubo(written(tmp_path, "WK2000_1.rud", text)) == qubo
    write_qubo(qubo, tmp_path / "again.tri")
    original = gzip.decompress((data / "qubo" / "K2000.tri.gz").read_bytes()).decode()
    assert (tmp_path / "again.tri").read_text().rstrip("\n") == original.rstrip("\n")


def test_rag_like_files(data):
    with (data / "rag" / "best_known.tsv").open() as file:
        for row in csv.DictReader(file, delimiter="\t"):
            qubo = read_qubo(data / "rag" / f"{row['instance']}.coo")
            assert len(qubo) == int(row["n"])
            assert qubo.offset == 0
