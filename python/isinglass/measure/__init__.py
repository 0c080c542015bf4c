"""From texts to arrays: words, tokens, candidates, relevance, similarity and coverage of a pool of passages."""

from isinglass.measure.calibration import calibrate
from isinglass.measure.passages import Passage, as_passages
from isinglass.measure.pool import Pool, prepare
from isinglass.measure.text import count_ascii_words, count_words, sentences, words

__all__ = [
    "Passage",
    "Pool",
    "as_passages",
    "calibrate",
    "count_ascii_words",
    "count_words",
    "prepare",
    "sentences",
    "words",
]
