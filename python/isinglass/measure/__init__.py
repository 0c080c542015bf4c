"""From texts to arrays: words, tokens, candidates, relevance, similarity and coverage of a pool of passages."""

from isinglass.measure.bridge import (
    Bridge,
    BridgeWeights,
    bridge_relevance,
    pick_many,
    prepare_bridge,
    prepare_bridges,
)
from isinglass.measure.calibration import calibrate
from isinglass.measure.passages import Passage, as_passages
from isinglass.measure.pool import Pool, prepare
from isinglass.measure.text import count_ascii_words, count_words, sentences, words
from isinglass.problems.embeddings import cosines

__all__ = [
    "Bridge",
    "BridgeWeights",
    "Passage",
    "Pool",
    "as_passages",
    "bridge_relevance",
    "calibrate",
    "cosines",
    "count_ascii_words",
    "count_words",
    "pick_many",
    "prepare",
    "prepare_bridge",
    "prepare_bridges",
    "sentences",
    "words",
]
