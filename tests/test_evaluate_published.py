"""`isinglass evaluate --measure p1 --run ...` prints the published packers' tables to the digit."""

import csv
import json
from pathlib import Path

import pytest
from isinglass.cli import main

with (Path(__file__).parent / "data" / "p1_tables.tsv").open(newline="") as file:
    ROWS = tuple(csv.DictReader(file, delimiter="\t"))

# recall and all_gold at 1, 2 and 5 of the stored runs.
RETRIEVED = {
    ("hotpotqa_dev", "pooled"): (["0.3660", "0.5010", "0.6700"], ["0.0000", "0.1800", "0.4220"]),
    ("2wiki_dev", "own"): (["0.3388", "0.5232", "0.7460"], ["0.0000", "0.1855", "0.4593"]),
    ("musique_dev", "pooled"): (["0.1702", "0.2485", "0.3333"], ["0.0000", "0.0182", "0.0547"]),
}


@pytest.mark.parametrize(("part", "pool"), RETRIEVED)
def test_the_command_prints_the_published_table(data, capsys, part, pool):
    rows = [row for row in ROWS if (row["part"], row["pool"], row["budget"]) == (part, pool, "160")]
    policies = [row["policy"] for row in rows]
    run = data / "runs" / f"{part}_{pool}_bm25.jsonl"
    options = ["--policies", ",".join(policies), "--budget", "160", "--measure", "p1", "--run", str(run), "--json"]
    assert main(["evaluate", str(data / "qa" / f"{part}.jsonl.gz"), *options]) == 0
    report = json.loads(capsys.readouterr().out)
    assert len(policies) == 4
    assert report["questions"] == int(rows[0]["questions"])
    assert report["skipped"] == 0
    for row in rows:
        measures = report["policies"][row["policy"]]
        recall, all_gold = RETRIEVED[part, pool]
        assert [f"{measures[f'recall@{k}']:.4f}" for k in (1, 2, 5)] == recall
        assert [f"{measures[f'all_gold@{k}']:.4f}" for k in (1, 2, 5)] == all_gold
        for name, published in list(row.items())[6:]:
            measure, _, column = name.partition(".")
            value = measures[measure][column] if column else measures[measure]
            assert f"{value:.{len(published.partition('.')[2])}f}" == published, (row["policy"], name)
