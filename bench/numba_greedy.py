"""The fair peer of packing: what a good engineer writes in an afternoon with numba.

P1's lazy greedy on the same four terms, compiled with fast-math so that LLVM may vectorise the sums, float32
similarity, one linear scan for the largest stale density a pick. No certificate, no best single item, integer costs.
"""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(fastmath=True)
def _gain(j, similarity, headroom, relevance, terms_of, covered, group, mass, c_rel, c_cov, c_rep, c_div):
    row = similarity[j]
    represented = 0.0
    for i in range(row.size):
        represented += min(np.float64(row[i]), headroom[i])
    new = 0
    for t in range(covered.size):
        if terms_of[j, t] and not covered[t]:
            new += 1
    before = mass[group[j]]
    spread = np.sqrt(before + relevance[j]) - np.sqrt(before)
    return c_rel * relevance[j] + c_cov * new + c_rep * represented + c_div * spread


@njit(fastmath=True)
def lazy_greedy(similarity, cap, relevance, terms_of, group, num_groups, costs, budget, weights):
    """Items in order of choice and the value reached. `cap` = saturation times the row sums of `similarity`."""
    n = relevance.size
    total = relevance.sum()
    c_rel = weights[0] / total
    c_cov = weights[1] / terms_of.shape[1]
    c_rep = weights[2] / cap.sum()
    c_div = weights[3] / np.sqrt(total)
    headroom = cap.copy()
    covered = np.zeros(terms_of.shape[1], dtype=np.bool_)
    mass = np.zeros(num_groups)
    gain = np.empty(n)
    fresh = np.zeros(n, dtype=np.int64)
    open_ = np.ones(n, dtype=np.bool_)
    chosen = np.empty(n, dtype=np.int64)
    picks = 0
    left = budget
    value = 0.0
    for j in range(n):
        gain[j] = _gain(j, similarity, headroom, relevance, terms_of, covered, group, mass, c_rel, c_cov, c_rep, c_div)
    while True:
        while True:
            best = -1
            best_density = 0.0
            for j in range(n):
                if open_[j]:
                    if costs[j] > left:
                        open_[j] = False
                    elif gain[j] / costs[j] > best_density:
                        best = j
                        best_density = gain[j] / costs[j]
            if best < 0 or fresh[best] == picks:
                break
            gain[best] = _gain(
                best, similarity, headroom, relevance, terms_of, covered, group, mass, c_rel, c_cov, c_rep, c_div
            )
            fresh[best] = picks
        if best < 0:
            return chosen[:picks], value
        chosen[picks] = best
        picks += 1
        value += gain[best]
        left -= costs[best]
        open_[best] = False
        row = similarity[best]
        for i in range(n):
            headroom[i] = max(0.0, headroom[i] - row[i])
        for t in range(covered.size):
            covered[t] = covered[t] or terms_of[best, t]
        mass[group[best]] += relevance[best]
