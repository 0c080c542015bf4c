"""What an experiment shows, with its uncertainty: intervals, correlations, regressions, contrasts.

Questions are the sampling unit. Rows of one question (other policies, other seeds) are a cluster: they are drawn
together, and errors are summed within it. Everything here is arrays in, numbers out; `Rows` only finds the arrays.

References
----------
B. Efron and R. Tibshirani (1993), "An Introduction to the Bootstrap". A. C. Cameron and D. L. Miller (2015), "A
Practitioner's Guide to Cluster-Robust Inference". A. N. Bala (2026), "A Diagnostic for Budget-Constrained Multi-Hop RAG
and When Submodular Evidence Packing Improves It".
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from math import erfc, sqrt
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from isinglass.experiments.rows import Rows
from isinglass.problems import gate

Floats = npt.NDArray[np.float64]

DRAWS = 10_000
_CHUNK = 2**22  # entries of a block of draws: 32 MiB
_KEPT = 2**25  # entries of draws that are kept for the next measure, a byte each


class Interval(NamedTuple):
    """An estimate with its bootstrap interval.

    Attributes
    ----------
    estimate, low, high : float
        nan where the data do not define it.
    p : float
        Two-sided: twice the smaller share of draws at or beyond 0, the data themselves counted as one, at most 1.
    n : int
        Rows used.
    clusters : int
        Distinct units drawn.
    """

    estimate: float
    low: float
    high: float
    p: float
    n: int
    clusters: int


def bootstrap_mean(
    values: Any, clusters: Any = None, *, draws: int = DRAWS, seed: int = 0, level: float = 0.95
) -> Interval:
    """Mean with a percentile interval; nan values are left out.

    Parameters
    ----------
    values : array_like of float, shape (n,)
    clusters : array_like, shape (n,), optional
        The unit that is drawn, with all of its rows; default: each row.
    draws, seed : int
    level : float
        Of the interval, in (0, 1).

    Returns
    -------
    Interval
    """
    given = _floats("values", values)
    kept = ~np.isnan(given)
    of = _numbered(clusters, len(given))[kept]
    return _bootstrap([given[kept], np.ones(kept.sum())], of, lambda sums: sums[0] / sums[1], draws, seed, level)


def paired_bootstrap(
    a: Any, b: Any, clusters: Any = None, *, draws: int = DRAWS, seed: int = 0, level: float = 0.95
) -> Interval:
    """Mean of ``a - b`` over the same questions; pairs with a nan are left out. Parameters as for `bootstrap_mean`."""
    first, second = _floats("a", a), _floats("b", b)
    if len(first) != len(second):
        raise ValueError(f"a and b must be of the same questions: expected {len(first)} values in b, got {len(second)}")
    return bootstrap_mean(first - second, clusters, draws=draws, seed=seed, level=level)


def bootstrap_means(
    table: Any, clusters: Any = None, *, draws: int = DRAWS, seed: int = 0, level: float = 0.95
) -> list[Interval]:
    """`bootstrap_mean` of every column of a table, with the same draws for all: a page of intervals in one go.

    Parameters
    ----------
    table : array_like of float, shape (n, m)
        nan where a value is not defined. A draw that leaves a column none is passed over.
    clusters, draws, seed, level
        As for `bootstrap_mean`. Of columns without nan the intervals are the same, bit for bit.

    Returns
    -------
    list of Interval, length m
    """
    values = np.asarray(table, dtype=np.float64)
    if values.ndim != 2:
        raise ValueError(f"table must be 2-D, got {values.ndim}-D")
    draws, level = _checked(draws, level)
    known = ~np.isnan(values)
    n, m = values.shape
    of = _numbered(clusters, n)
    groups = int(of.max()) + 1 if n else 0
    if not groups:
        return [_undefined(0, 0)] * m
    sums, counts = np.zeros((2, groups, m))
    np.add.at(sums, of, np.where(known, values, 0.0))
    np.add.at(counts, of, known)
    with np.errstate(invalid="ignore"):
        estimates = sums.sum(axis=0) / counts.sum(axis=0)
        drawn = np.concatenate([(times @ sums) / (times @ counts) for times in _draws(groups, draws, seed)])
    return [
        _interval(float(estimates[j]), drawn[:, j], level, int(known[:, j].sum()), int((counts[:, j] > 0).sum()))
        for j in range(m)
    ]


def pearson(
    x: Any, y: Any, clusters: Any = None, *, draws: int = DRAWS, seed: int = 0, level: float = 0.95
) -> Interval:
    """Pearson's r with a cluster bootstrap interval; rows with a nan are left out.

    `estimate` is nan where a side is constant: the correlation is not defined then, not 0. So it is in draws that leave
    one constant, which the interval passes over.
    """
    (given_x, given_y), of = _complete([_floats("x", x), _floats("y", y)], clusters)

    def r(sums: Floats) -> Floats:
        n, sx, sy, sxx, syy, sxy = sums
        spread = np.maximum(n * sxx - sx * sx, 0.0) * np.maximum(n * syy - sy * sy, 0.0)
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(spread > 0, (n * sxy - sx * sy) / np.sqrt(spread), np.nan)

    # About the mean, so that a constant column is exactly 0 and sums of squares do not cancel.
    u, v = given_x - _mean(given_x), given_y - _mean(given_y)
    return _bootstrap([np.ones(len(u)), u, v, u * u, v * v, u * v], of, r, draws, seed, level)


def pearson_table(
    rows: Rows,
    features: Sequence[str],
    outcomes: Sequence[str] = ("f1", "em"),
    *,
    clusters: Sequence[str] = ("dataset", "question"),
    draws: int = DRAWS,
    seed: int = 0,
) -> dict[str, dict[str, Interval]]:
    """Pearson's r of each feature with each outcome, as ``table[feature][outcome]``."""
    of = rows.keys(clusters)
    return {
        feature: {outcome: pearson(rows[feature], rows[outcome], of, draws=draws, seed=seed) for outcome in outcomes}
        for feature in features
    }


class Regression(NamedTuple):
    """A least-squares fit with an intercept.

    Attributes
    ----------
    names : tuple of str
        Of the predictors.
    coefficients : ndarray, shape (k,)
        Without the intercept.
    betas : ndarray, shape (k,)
        Change of the outcome, in its own unit, by one population standard deviation of the predictor.
    errors : ndarray, shape (k,)
        Standard errors of the betas: sandwich, clustered, with the factor G/(G-1) (N-1)/(N-K); K counts the intercept.
    p : ndarray, shape (k,)
        Two-sided, by the normal distribution.
    r2 : float
    n, clusters : int
    """

    names: tuple[str, ...]
    coefficients: Floats
    betas: Floats
    errors: Floats
    p: Floats
    r2: float
    n: int
    clusters: int


def ols(outcome: Any, predictors: Mapping[str, Any], clusters: Any = None) -> Regression:
    """Least squares of an outcome on named predictors, rows with a nan left out.

    Parameters
    ----------
    outcome : array_like of float, shape (n,)
    predictors : mapping of str to array_like of float, shape (n,)
    clusters : array_like, shape (n,), optional
        Default: each row.

    Returns
    -------
    Regression

    Raises
    ------
    ValueError
        If predictors determine each other or are constant, or there are too few rows or clusters.
    """
    names = tuple(predictors)
    (y, *columns), of = _complete(
        [_floats("outcome", outcome), *(_floats(name, predictors[name]) for name in names)], clusters
    )
    X = np.column_stack([np.ones(len(y)), *columns])
    n, k = X.shape
    groups = int(of.max()) + 1 if n else 0
    if n <= k or groups < 2:
        raise ValueError(f"expected more than {k} complete rows in two clusters or more, got {n} rows in {groups}")
    if (rank := np.linalg.matrix_rank(X)) < k:
        raise ValueError(f"predictors must be independent and not constant: {', '.join(names)} have rank {rank - 1}")
    inverse = np.linalg.inv(X.T @ X)
    b = inverse @ (X.T @ y)
    residuals = y - X @ b
    scores = np.zeros((groups, k))
    np.add.at(scores, of, X * residuals[:, None])
    factor = groups / (groups - 1) * (n - 1) / (n - k)
    errors = np.sqrt(np.diag(factor * inverse @ (scores.T @ scores) @ inverse))[1:]
    spread = X[:, 1:].std(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        z = b[1:] / errors  # nan where an outcome never changes
    total = ((y - y.mean()) ** 2).sum()
    return Regression(
        names=names,
        coefficients=b[1:],
        betas=b[1:] * spread,
        errors=errors * spread,
        p=np.array([erfc(abs(one) / sqrt(2)) for one in z]),
        r2=float(1 - (residuals**2).sum() / total) if total else float("nan"),
        n=n,
        clusters=groups,
    )


class Explained(NamedTuple):
    """What a predictor explains beyond others: both fits are on the same rows.

    Attributes
    ----------
    without, with_it : Regression
    delta_r2, partial_r : float
    """

    without: Regression
    with_it: Regression
    delta_r2: float
    partial_r: float


def explained_by(
    rows: Rows,
    added: str = "answer_in_context",
    base: Sequence[str] = ("recall@5",),
    outcome: str = "f1",
    *,
    clusters: Sequence[str] = ("dataset", "seed", "question"),
) -> Explained:
    """The outcome on `base`, with and without `added`: R2, its change, betas, and the partial correlation."""
    complete = rows.take(~np.isnan(np.column_stack([rows[name] for name in (outcome, added, *base)])).any(axis=1))
    of = complete.keys(clusters)
    without = ols(complete[outcome], {name: complete[name] for name in base}, of)
    with_it = ols(complete[outcome], {name: complete[name] for name in (*base, added)}, of)
    partial = partial_correlation(complete[added], complete[outcome], [complete[name] for name in base])
    return Explained(without, with_it, with_it.r2 - without.r2, partial)


def partial_correlation(x: Any, y: Any, given: Sequence[Any]) -> float:
    """Pearson's r of what is left of `x` and `y` after both are regressed on `given`; nan where nothing is left."""
    (u, v, *columns), _ = _complete([_floats("x", x), _floats("y", y), *(_floats("given", z) for z in given)], None)
    if len(u) < 2:
        return float("nan")
    Z = np.column_stack([np.ones(len(u)), *columns])
    left = [w - Z @ np.linalg.lstsq(Z, w, rcond=None)[0] for w in (u, v)]
    scale = [float(np.linalg.norm(w)) for w in left]
    # What rounding leaves of a column that `given` determines is no variation.
    if any(s <= 1e-12 * max(1.0, float(np.linalg.norm(w))) for s, w in zip(scale, (u, v))):
        return float("nan")
    return float(left[0] @ left[1] / (scale[0] * scale[1]))


class ConditionalMeans(NamedTuple):
    """An outcome by whether something holds, over the rows where all gold was retrieved.

    Attributes
    ----------
    n : int
        Rows in all.
    share : float
        Of them, where it does not hold: of `answer_in_context`, the share that loses the answer in packing.
    when_true, when_false : dict of str to float
        Mean of each outcome; nan where there is no such row.
    """

    n: int
    share: float
    when_true: dict[str, float]
    when_false: dict[str, float]


def conditional_means(
    rows: Rows,
    outcomes: Sequence[str] = ("f1", "em"),
    *,
    by: str = "answer_in_context",
    among: str | None = "all_gold@5",
) -> ConditionalMeans:
    """Means of outcomes by a feature, among rows where `among` is 1 (None: all rows)."""
    kept = ~np.isnan(rows[by]) & (True if among is None else rows[among] == 1)
    chosen = rows.take(kept)
    holds = chosen[by] > 0
    return ConditionalMeans(
        n=len(chosen),
        share=_mean(~holds),
        when_true={name: _mean(chosen[name][holds]) for name in outcomes},
        when_false={name: _mean(chosen[name][~holds]) for name in outcomes},
    )


class Transition(NamedTuple):
    """Questions where a feature changed in one way between two policies.

    Attributes
    ----------
    n : int
    mean : float
        Mean change of the outcome on them; nan without any.
    contribution : float
        Their part of the mean change over all questions: the contributions add up to it.
    """

    n: int
    mean: float
    contribution: float


def decomposition(a: Rows, b: Rows, outcome: str = "f1", *, by: str = "answer_in_context") -> dict[str, Transition]:
    """Where the mean of ``outcome(a) - outcome(b)`` comes from, by what became of a feature.

    Returns
    -------
    dict of str to Transition
        ``entered`` (only `a` has it), ``left`` (only `b` has it), ``both``, ``neither``.
    """
    first, second = a.pairs(b)
    change = first[outcome] - second[outcome]
    known = ~np.isnan(change) & ~np.isnan(first[by]) & ~np.isnan(second[by])
    has, had = first[by] > 0, second[by] > 0
    ways = {"entered": has & ~had, "left": ~has & had, "both": has & had, "neither": ~has & ~had}
    total = int(known.sum())
    parts = {}
    for name, mask in ways.items():
        values = change[mask & known]
        parts[name] = Transition(len(values), _mean(values), float(values.sum()) / total if total else float("nan"))
    return parts


def contrast(a: Rows, b: Rows, measure: str, *, draws: int = DRAWS, seed: int = 0, level: float = 0.95) -> Interval:
    """Mean of ``measure(a) - measure(b)`` over the questions of both; clusters are questions, whatever their seeds."""
    first, second = a.pairs(b)
    of = first.keys(("dataset", "question"))
    return paired_bootstrap(first[measure], second[measure], of, draws=draws, seed=seed, level=level)


def intervention_table(
    rows: Rows,
    policy: str,
    baseline: str,
    measures: Sequence[str] = ("gold_doc_coverage", "answer_in_context", "f1"),
    **options: Any,
) -> dict[str, dict[str, Interval]]:
    """What one policy changes against another, by data set: ``table[dataset][measure]``; measures that are there."""
    table = {}
    for dataset in rows.distinct("dataset"):
        of_one = rows.where(dataset=dataset)
        a, b = of_one.where(policy=policy), of_one.where(policy=baseline)
        table[dataset] = {name: contrast(a, b, name, **options) for name in measures if name in rows}
    return table


def budget_sweep(rows: Rows, policy: str, baseline: str, measure: str, **options: Any) -> dict[int, Interval]:
    """The contrast of two policies at each budget."""
    return _by(rows, "budget", policy, baseline, measure, options)


def reader_ladder(rows: Rows, policy: str, baseline: str, measure: str = "f1", **options: Any) -> dict[Any, Interval]:
    """The contrast of two policies for each reader, in the order of the column `reader`."""
    return _by(rows, "reader", policy, baseline, measure, options)


def _by(
    rows: Rows, column: str, policy: str, baseline: str, measure: str, options: dict[str, Any]
) -> dict[Any, Interval]:
    table = {}
    for value in rows.distinct(column):
        of_one = rows.where(**{column: value})
        table[whole(value)] = contrast(of_one.where(policy=policy), of_one.where(policy=baseline), measure, **options)
    return table


class IsoQuality(NamedTuple):
    """The smallest budget at which a policy is not worse than another at its own.

    Attributes
    ----------
    budget : int or None
        None where it is worse at every budget.
    difference : Interval or None
        Of the quality there.
    tokens, baseline_tokens, saved : float or None
        Mean tokens of both, and what is saved as a share.
    """

    budget: int | None
    difference: Interval | None
    tokens: float | None
    baseline_tokens: float
    saved: float | None


def iso_quality_saving(
    rows: Rows, policy: str, baseline: str, baseline_budget: int, measure: str = "f1", **options: Any
) -> IsoQuality:
    """Tokens that a policy saves at equal quality.

    Equal means that the interval of the difference does not lie below 0: the data do not show a loss. That is no proof
    of equality, the less so the fewer the questions.
    """
    reference = rows.where(policy=baseline, budget=baseline_budget)
    spent = _mean(reference["tokens"])
    for budget in sorted(rows.where(policy=policy).distinct("budget")):
        candidate = rows.where(policy=policy, budget=budget)
        difference = contrast(candidate, reference, measure, **options)
        if difference.high >= 0:
            tokens = _mean(candidate["tokens"])
            return IsoQuality(whole(budget), difference, tokens, spent, 1 - tokens / spent if spent else 0.0)
    return IsoQuality(None, None, None, spent, None)


def _bootstrap(
    columns: Sequence[Floats],
    clusters: npt.NDArray[np.int64],
    statistic: Callable[[Floats], Floats],
    draws: int,
    seed: int,
    level: float,
) -> Interval:
    """Bootstrap of a function of column sums: clusters are drawn as often as there are, with replacement.

    `statistic` takes the sums (columns,) or (columns, draws).
    """
    draws, level = _checked(draws, level)
    n = len(clusters)
    if n == 0:
        return _undefined(0, 0)
    _, of = np.unique(clusters, return_inverse=True)
    sums: Floats = np.stack([np.bincount(of, weights=column) for column in columns], axis=1).astype(np.float64)
    groups = len(sums)
    drawn = np.concatenate([statistic((times @ sums).T) for times in _draws(groups, draws, seed)])
    return _interval(float(statistic(sums.sum(axis=0))), drawn, level, n, groups)


def _checked(draws: int, level: float) -> tuple[int, float]:
    if not 0 < level < 1:
        raise ValueError(f"level must be in (0, 1), got {level!r}")
    return gate.integer("draws", draws, low=1), level


def _interval(estimate: float, drawn: Floats, level: float, n: int, groups: int) -> Interval:
    drawn = drawn[~np.isnan(drawn)]
    if np.isnan(estimate) or not len(drawn):
        return _undefined(n, groups)
    low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2])
    beyond = min(int((drawn <= 0).sum()), int((drawn >= 0).sum()))
    return Interval(estimate, float(low), float(high), min(1.0, 2 * (beyond + 1) / (len(drawn) + 1)), n, groups)


def _draws(groups: int, draws: int, seed: int) -> Iterable[npt.NDArray[np.integer[Any]]]:
    """How often each cluster is in each draw, in blocks of shape (some draws, groups)."""
    # Measures of the same questions are drawn alike, one after another.
    return _kept_draws(groups, draws, seed) if groups * draws <= _KEPT else _drawn(groups, draws, seed)


@lru_cache(maxsize=2)
def _kept_draws(groups: int, draws: int, seed: int) -> tuple[npt.NDArray[np.integer[Any]], ...]:
    return tuple(times.astype(np.min_scalar_type(int(times.max()))) for times in _drawn(groups, draws, seed))


def _drawn(groups: int, draws: int, seed: int) -> Iterator[npt.NDArray[np.int64]]:
    rng = np.random.default_rng(seed)
    step = max(1, _CHUNK // groups)
    for start in range(0, draws, step):
        count = min(step, draws - start)
        which = rng.integers(groups, size=(count, groups))
        which += np.arange(count)[:, None] * groups
        yield np.bincount(which.ravel(), minlength=count * groups).reshape(count, groups)


def _undefined(n: int, clusters: int) -> Interval:
    return Interval(float("nan"), float("nan"), float("nan"), float("nan"), n, clusters)


def _complete(columns: Sequence[Floats], clusters: Any) -> tuple[list[Floats], npt.NDArray[np.int64]]:
    """The rows without a nan, and their clusters numbered from 0."""
    lengths = {len(column) for column in columns}
    if len(lengths) > 1:
        raise ValueError(f"columns must have one length, got {sorted(lengths)}")
    kept = ~np.isnan(np.stack(columns)).any(axis=0)
    of = _numbered(clusters, len(columns[0]))[kept]
    return [column[kept] for column in columns], np.unique(of, return_inverse=True)[1]


def _numbered(clusters: Any, n: int) -> npt.NDArray[np.int64]:
    if clusters is None:
        return np.arange(n)
    given = np.asarray(clusters)
    if given.shape != (n,):
        raise ValueError(f"clusters must have shape ({n},), got {given.shape}")
    numbers: npt.NDArray[np.int64] = np.unique(given, return_inverse=True)[1]
    return numbers


def _floats(name: str, values: Any) -> Floats:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1:
        raise ValueError(f"{name} must be 1-D, got {array.ndim}-D")
    if np.isinf(array).any():
        raise ValueError(f"{name} must be finite or nan, got inf at {int(np.isinf(array).argmax())}")
    return array


def _mean(values: npt.NDArray[Any]) -> float:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else float("nan")


def whole(value: Any) -> Any:
    """A number of a column without its empty fraction, as keys and titles have it; anything else as it is."""
    return int(value) if isinstance(value, float) and value.is_integer() else value
