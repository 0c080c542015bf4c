"""The statistics of an experiment, judged by scipy and statsmodels, and by small cases worked by hand."""

import sys

import numpy as np
import pytest
import scipy.stats
import statsmodels.api as sm
from isinglass.cli import main
from isinglass.experiments.rows import Rows, check_name
from isinglass.experiments.statistics import (
    bootstrap_mean,
    bootstrap_means,
    budget_sweep,
    conditional_means,
    contrast,
    decomposition,
    explained_by,
    intervention_table,
    iso_quality_saving,
    ols,
    paired_bootstrap,
    partial_correlation,
    pearson,
    pearson_table,
    reader_ladder,
)


@pytest.fixture(scope="module")
def sample():
    rng = np.random.default_rng(3)
    clusters = rng.integers(0, 60, size=300)
    shared = rng.normal(size=60)[clusters]
    x = shared + rng.normal(size=300)
    z = 0.5 * x + rng.normal(size=300)
    y = 0.7 * x - 0.2 * z + shared + rng.normal(size=300)
    return x, y, z, clusters


def test_bootstrap_of_a_mean_against_scipy(sample):
    x = sample[0]
    ours = bootstrap_mean(x)
    theirs = scipy.stats.bootstrap((x,), np.mean, n_resamples=10_000, method="percentile", rng=1).confidence_interval
    assert ours.estimate == pytest.approx(x.mean())
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=0.01)
    assert (ours.n, ours.clusters) == (300, 300)


def test_paired_bootstrap_is_of_the_differences(sample):
    x, y, *_ = sample
    assert paired_bootstrap(x, y) == bootstrap_mean(x - y)
    shifted = paired_bootstrap(x + 5, x)
    assert (shifted.estimate, shifted.low, shifted.high) == pytest.approx((5, 5, 5))
    assert shifted.p == pytest.approx(2 / 10_001)
    same = paired_bootstrap(x, x)
    assert (same.low, same.high, same.p) == (0.0, 0.0, 1.0)


def test_a_fair_coin_has_a_p_near_one_half_of_the_normal():
    values = np.repeat([1.0, -1.0], [60, 40])
    found = bootstrap_mean(values)
    z = values.mean() / (values.std() / 10)
    assert found.p == pytest.approx(2 * scipy.stats.norm.sf(z), abs=0.02)


def test_cluster_bootstrap_draws_whole_clusters(sample):
    x, _, _, clusters = sample
    ours = bootstrap_mean(x, clusters, seed=5)
    rng = np.random.default_rng(8)
    names = np.unique(clusters)
    drawn = []
    for _ in range(4000):  # written out plainly
        rows = np.concatenate([np.flatnonzero(clusters == c) for c in rng.choice(names, size=len(names))])
        drawn.append(x[rows].mean())
    assert (ours.low, ours.high) == pytest.approx(np.quantile(drawn, [0.025, 0.975]), abs=0.02)
    assert ours.clusters == len(names)
    assert ours.high - ours.low > 1.2 * (bootstrap_mean(x).high - bootstrap_mean(x).low)


def test_copies_of_seeds_do_not_narrow_an_interval():
    values = np.random.default_rng(0).normal(size=80)
    once = bootstrap_mean(values, np.arange(80))
    thrice = bootstrap_mean(np.tile(values, 3), np.tile(np.arange(80), 3))
    assert (thrice.low, thrice.high) == pytest.approx((once.low, once.high))
    assert (thrice.n, thrice.clusters) == (240, 80)


def test_draws_do_not_depend_on_how_they_are_cut(sample, monkeypatch):
    x = sample[0]
    whole = bootstrap_mean(x, draws=500, seed=9)
    monkeypatch.setattr("isinglass.experiments.statistics._CHUNK", 1000)
    cut = bootstrap_mean(x, draws=500, seed=9)
    assert cut == whole


def test_undefined_values_are_left_out_and_counted():
    assert bootstrap_mean([1.0, np.nan, 3.0]).estimate == 2.0
    assert bootstrap_mean([1.0, np.nan, 3.0]).n == 2
    nothing = bootstrap_mean([np.nan])
    assert np.isnan(nothing.estimate)
    assert nothing.n == 0
    assert paired_bootstrap([1, np.nan, 2], [0, 1, np.nan]).n == 1


def test_bad_input_of_the_bootstrap():
    with pytest.raises(ValueError, match="expected 2 values in b, got 1"):
        paired_bootstrap([1, 2], [1])
    with pytest.raises(ValueError, match=r"clusters must have shape \(2,\), got \(3,\)"):
        bootstrap_mean([1, 2], [0, 1, 2])
    with pytest.raises(ValueError, match="must be finite or nan, got inf at 1"):
        bootstrap_mean([1, np.inf])
    with pytest.raises(ValueError, match=r"level must be in \(0, 1\), got 95"):
        bootstrap_mean([1, 2], level=95)


def test_pearson_against_scipy(sample):
    x, y, _, clusters = sample
    ours = pearson(x, y)
    theirs = scipy.stats.pearsonr(x, y)
    assert ours.estimate == pytest.approx(theirs.statistic)
    fisher = theirs.confidence_interval()
    assert (ours.low, ours.high) == pytest.approx((fisher.low, fisher.high), abs=0.03)
    assert pearson(x, y, clusters).estimate == pytest.approx(theirs.statistic)
    assert pearson([1, 2, np.nan, 4], [2, 4, 7, 8]).estimate == pytest.approx(1.0)


def test_a_constant_has_no_correlation():
    constant = pearson([0.1] * 5, [1, 2, 3, 4, 5])
    assert np.isnan(constant.estimate)
    assert np.isnan(constant.low)


def test_ols_against_statsmodels(sample):
    x, y, z, clusters = sample
    ours = ols(y, {"x": x, "z": z}, clusters)
    theirs = sm.OLS(y, sm.add_constant(np.column_stack([x, z]))).fit(
        cov_type="cluster", cov_kwds={"groups": clusters, "use_correction": True, "df_correction": True}
    )
    spread = np.array([x.std(), z.std()])
    np.testing.assert_allclose(ours.coefficients, theirs.params[1:], rtol=1e-10)
    np.testing.assert_allclose(ours.betas, theirs.params[1:] * spread, rtol=1e-10)
    np.testing.assert_allclose(ours.errors, theirs.bse[1:] * spread, rtol=1e-10)
    np.testing.assert_allclose(ours.p, theirs.pvalues[1:], rtol=1e-8, atol=1e-300)
    assert ours.r2 == pytest.approx(theirs.rsquared)
    assert (ours.n, ours.clusters) == (300, len(np.unique(clusters)))


def test_ols_refuses_what_it_cannot_tell_apart(sample):
    x, y, *_ = sample
    with pytest.raises(ValueError, match="predictors must be independent and not constant: x, twice have rank 1"):
        ols(y, {"x": x, "twice": 2 * x})
    with pytest.raises(ValueError, match="must be independent and not constant: one"):
        ols(y, {"one": np.ones(300)})
    with pytest.raises(ValueError, match="expected more than 2 complete rows in two clusters or more, got 2 rows in 2"):
        ols([1, 2, np.nan], {"x": [1, 2, 3]})


def test_partial_correlation_against_residuals_of_statsmodels(sample):
    x, y, z, _ = sample
    given = sm.add_constant(z)
    left = [sm.OLS(w, given).fit().resid for w in (x, y)]
    assert partial_correlation(x, y, [z]) == pytest.approx(scipy.stats.pearsonr(*left).statistic)
    assert np.isnan(partial_correlation(2 * z + 1, y, [z]))


def table(**columns):
    return Rows(columns)


def test_explained_by_is_two_fits_on_the_same_rows(sample):
    x, y, z, clusters = sample
    aic = np.where(np.arange(300) < 20, np.nan, z > 0)
    rows = table(question=[f"q{c}" for c in clusters], **{"recall@5": x, "answer_in_context": aic, "f1": y})
    found = explained_by(rows)
    assert found.without.n == found.with_it.n == 280
    assert found.delta_r2 == pytest.approx(found.with_it.r2 - found.without.r2)
    # Squared partial correlation is the share of what was left that is explained now.
    assert found.partial_r**2 == pytest.approx(found.delta_r2 / (1 - found.without.r2))
    assert found.with_it.names == ("recall@5", "answer_in_context")
    assert pearson_table(rows, ["recall@5"], ["f1"])["recall@5"]["f1"].clusters == len(np.unique(clusters))


QUESTIONS = ["a", "b", "c", "d"]


def policy_rows(policy, aic, f1, tokens=100, budget=160, dataset="one", **more):
    return [
        {"dataset": dataset, "question": q, "policy": policy, "budget": budget, "answer_in_context": a, "f1": f}
        | {"tokens": tokens, "all_gold@5": float(q != "d"), "em": float(f == 1)}
        | more
        for q, a, f in zip(QUESTIONS, aic, f1)
    ]


def test_decomposition_adds_up():
    rows = Rows.of(
        policy_rows("submodular", [1, 1, 0, 0], [1.0, 0.5, 0.25, 0.0])
        + policy_rows("focused", [0, 1, 1, 0], [0.0, 0.5, 1.0, 0.0])
    )
    parts = decomposition(rows.where(policy="submodular"), rows.where(policy="focused"))
    assert parts["entered"] == (1, 1.0, 0.25)
    assert parts["left"] == (1, -0.75, -0.1875)
    assert parts["both"] == (1, 0.0, 0.0)
    assert parts["neither"] == (1, 0.0, 0.0)
    total = contrast(rows.where(policy="submodular"), rows.where(policy="focused"), "f1")
    assert sum(part.contribution for part in parts.values()) == pytest.approx(total.estimate) == 0.0625


def test_conditional_means_among_what_was_retrieved():
    rows = Rows.of(policy_rows("submodular", [1, 1, 0, 1], [1.0, 0.5, 0.25, 0.9]))
    found = conditional_means(rows)
    assert (found.n, found.share) == (3, pytest.approx(1 / 3))
    assert found.when_true == {"f1": 0.75, "em": 0.5}
    assert found.when_false == {"f1": 0.25, "em": 0.0}
    assert conditional_means(rows, among=None).n == 4


def test_contrasts_pair_rows_by_question_whatever_their_order():
    a = Rows({"question": ["x", "y", "z"], "f1": [1.0, 0.0, 0.5]})
    b = Rows({"question": ["z", "x", "w"], "f1": [0.25, 0.5, 9.0]})
    assert contrast(a, b, "f1").estimate == pytest.approx((0.5 + 0.25) / 2)
    with pytest.raises(ValueError, match=r"one row a question in the first table, got \('x',\) twice"):
        contrast(Rows({"question": ["x", "x"], "f1": [1, 2]}), b, "f1")


def test_pooled_seeds_are_drawn_by_question():
    rows = []
    for seed in (42, 13, 7):
        rows += [row | {"seed": seed} for row in policy_rows("submodular", [1, 1, 0, 0], [1, 0.5, 0.2, 0])]
        rows += [row | {"seed": seed} for row in policy_rows("focused", [1, 0, 0, 0], [1, 0.1, 0.1, 0])]
    found = intervention_table(Rows.of(rows), "submodular", "focused")["one"]
    assert found["f1"].estimate == pytest.approx(0.125)
    assert found["answer_in_context"].estimate == 0.25
    assert (found["f1"].n, found["f1"].clusters) == (12, 4)
    assert "gold_doc_coverage" not in found


def test_sweeps_ladders_and_the_saving_at_equal_quality():
    rows = []
    for budget, gain in ((96, -0.5), (160, 0.0), (224, 0.1)):
        rows += policy_rows("submodular", [1] * 4, [0.5 + gain] * 4, tokens=budget - 10, budget=budget, reader="small")
        rows += policy_rows("focused", [1] * 4, [0.5] * 4, tokens=budget, budget=budget, reader="small")
    table = Rows.of(rows)
    sweep = budget_sweep(table, "submodular", "focused", "f1")
    assert {budget: interval.estimate for budget, interval in sweep.items()} == pytest.approx(
        {96: -0.5, 160: 0, 224: 0.1}
    )
    saving = iso_quality_saving(table, "submodular", "focused", 224)
    assert (saving.budget, saving.tokens, saving.baseline_tokens) == (160, 150.0, 224.0)
    assert saving.saved == pytest.approx(1 - 150 / 224)
    never = iso_quality_saving(table.where(budget=[96]), "submodular", "focused", 96)
    assert (never.budget, never.saved) == (None, None)
    ladder = reader_ladder(table.where(budget=224), "submodular", "focused")
    assert ladder["small"].estimate == pytest.approx(0.1)


@pytest.mark.parametrize("name", ["rows.csv", "rows.parquet"])
def test_tables_are_read_as_they_were_written(tmp_path, name):
    rows = Rows.of(
        [
            {"question": "1", "policy": "focused", "f1": 0.1 + 0.2, "em": None, "budget": 160},
            {"question": "2", "policy": 'a,\n"b"', "f1": 1.0, "budget": 96},
        ]
    )
    rows.write(tmp_path / name)
    again = Rows.read(tmp_path / name)
    assert list(again.columns) == list(rows.columns)
    for column, values in rows.columns.items():
        assert again[column].dtype == values.dtype
        np.testing.assert_array_equal(again[column], values)


@pytest.mark.parametrize(
    ("name", "content", "fault"),
    [
        ("rows.csv", b"", "expected a line with the names of columns, got an empty file"),
        ("rows.csv", b"question,f1\n1,0.5\n2\n", "line 3: expected 2 cells, one a column, got 1"),
        ("rows.csv", b"question,f1\n1,0.5,7\n", "line 2: expected 2 cells, one a column, got 3"),
        ("rows.csv", b"question,f1\n\xff,0.5\n", "expected CSV in UTF-8"),
        ("rows.csv", b"question,f1\n%s,0.5\n" % (b"q" * 200_000), "line 2: expected CSV, got field larger"),
        ("rows.parquet", b"PAR1", "expected a table in Parquet"),
    ],
)
def test_tables_that_are_none_are_refused_by_name_and_line(tmp_path, name, content, fault):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=f"{name}.*{fault}"):
        Rows.read(tmp_path / name)


@pytest.mark.parametrize("name", ["missing.csv", "missing.parquet"])
def test_a_table_that_is_not_there_is_told_with_the_reason(tmp_path, capsys, name):
    assert main(["report", str(tmp_path / name), "-o", str(tmp_path / "report.html")]) == 2
    assert f"{name}: No such file or directory" in capsys.readouterr().err


def test_tables_refuse_what_is_not_there():
    with pytest.raises(ValueError, match="columns must have one length"):
        Rows({"a": [1], "b": [1, 2]})
    with pytest.raises(KeyError, match="expected a column of"):
        Rows({"a": [1]})["c"]


def test_a_table_has_the_intervals_of_its_columns():
    rng = np.random.default_rng(3)
    table = rng.random((40, 3))
    clusters = np.repeat(np.arange(20), 2)
    for of, found in ((None, bootstrap_means(table)), (clusters, bootstrap_means(table, clusters))):
        for j in range(3):
            np.testing.assert_allclose(found[j], bootstrap_mean(table[:, j], of), rtol=1e-12)
    table[::4, 1] = np.nan
    table[:, 2] = np.nan
    holes = bootstrap_means(table, draws=20_000)
    alone = bootstrap_mean(table[:, 1], draws=20_000)
    assert (holes[1].estimate, holes[1].n, holes[1].clusters) == (pytest.approx(alone.estimate), 30, 30)
    np.testing.assert_allclose(holes[1][1:3], alone[1:3], atol=0.01)
    assert np.isnan(holes[2].estimate)
    assert holes[2].n == 0
    assert bootstrap_means(np.zeros((0, 2)))[1].n == 0
    with pytest.raises(ValueError, match="table must be 2-D, got 1-D"):
        bootstrap_means([1.0])


def test_tables_that_could_not_be_written_are_told_before(tmp_path, monkeypatch, capsys):
    with pytest.raises(ValueError, match=r"a table must be a \.parquet or \.csv file, got 'rows\.xlsx'"):
        check_name("rows.xlsx")
    with pytest.raises(ValueError, match="must be a"):
        Rows({"a": [1]}).write(tmp_path / "rows")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert main(["evaluate", "missing.jsonl", "--rows", str(tmp_path / "rows.parquet")]) == 2
    assert "Parquet needs pyarrow" in capsys.readouterr().err
