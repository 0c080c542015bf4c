"""From raw scores of any range to relevance."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from isinglass.measure.passages import finite_array


def calibrate(scores: Any, how: str = "sigmoid") -> NDArray[np.float64]:
    """Map raw scores to relevance in [0, 1], keeping their order.

    Parameters
    ----------
    scores : array_like of float, shape (n,)
        Scores of a retriever or reranker, of any sign. Finite.
    how : {"sigmoid", "minmax", "rank"}
        ``sigmoid``: 1 / (1 + exp(-score)), for logits of a cross-encoder; scores of different queries stay
        comparable. ``minmax``: the lowest score becomes 0, the highest 1 (all become 1 where all are equal).
        ``rank``: the best becomes 1, then by equal steps down to 1 / n; equal scores share their mean.

    Returns
    -------
    ndarray of float64, shape (n,)

    Raises
    ------
    ValueError
        If a score is not finite or `how` is unknown.
    """
    raw = finite_array("scores", scores, ndim=1) if np.size(scores) else np.zeros(0)
    match how:
        case "sigmoid":
            # exp of a non-positive number only: no overflow at either end.
            small = np.exp(-np.abs(raw))
            return np.where(raw >= 0, 1 / (1 + small), small / (1 + small))
        case "minmax":
            if not len(raw) or raw.min() == raw.max():
                return np.ones(len(raw))
            # The span of two finite numbers need not be finite; that of their halves is.
            half = raw / 2 if np.abs(raw).max() > np.finfo(float).max / 2 else raw
            scaled: NDArray[np.float64] = (half - half.min()) / (half.max() - half.min())
            return scaled
        case "rank":
            _, group, size = np.unique(raw, return_inverse=True, return_counts=True)
            share: NDArray[np.float64] = (np.cumsum(size) - (size - 1) / 2)[group] / max(len(raw), 1)
            return share
        case _:
            raise ValueError(f"how must be 'sigmoid', 'minmax' or 'rank', got {how!r}")
