"""Words, token counters and sentence cuts, for any script."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from numbers import Integral
from typing import Any

Span = tuple[int, int]

_ASCII_WORD = re.compile(r"[A-Za-z0-9]+")

# Scripts written without spaces between words, and Hangul: every character is a word of its own (with the marks that
# follow it), since a whole line taken as one word would neither be counted nor ever match another.
_UNSPACED = (
    "\u0e00-\u0eff"  # Thai, Lao
    "\u1000-\u109f\ua9e0-\ua9ff\uaa60-\uaa7f"  # Myanmar
    "\u1100-\u11ff\u3130-\u318f\ua960-\ua97f\uac00-\ud7ff"  # Hangul
    "\u1780-\u17ff"  # Khmer
    "\u2e80-\u2fdf\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Han
    "\u3040-\u30ff\u31f0-\u31ff\uff66-\uff9f"  # Hiragana, Katakana
    "\u3100-\u312f\u31a0-\u31bf"  # Bopomofo
)
# Latin, Greek and Cyrillic letters with the usual punctuation: no marks and no unspaced script, so a plain rule finds
# the same words several times faster.
_OTHER_THAN_SPACED = re.compile("[\u0300-\u036f\u0483-\u200f\u2028-\U0010ffff]")
_SPACED_WORD = re.compile(r"[^\W_]+")
_UNSPACED_CHARACTER = re.compile(f"[{_UNSPACED}]")


@cache
def combining_marks() -> str:
    """Every character that continues a word without being a letter: `\\w` of `re` lacks them, and without them Indic
    words fall apart. The joiners stand inside words too."""
    codes = (*range(0x300, 0x20000), *range(0xE0100, 0xE01F0))
    return "".join(c for c in map(chr, codes) if unicodedata.category(c)[0] == "M") + "\u200c\u200d"


@cache
def _unicode_word() -> re.Pattern[str]:
    marks = combining_marks()
    letter = rf"[^\W_{_UNSPACED}]"
    return re.compile(rf"[{_UNSPACED}](?<=\w)[{marks}]*|{letter}[^\W_{_UNSPACED}{marks}]*(?:[{marks}]+{letter}*)*")


def words(text: str) -> list[str]:
    """Words of `text`, in order, folded for comparison.

    A word is a run of letters, digits and their combining marks, after Unicode normalisation (NFC) and case folding.
    In scripts written without spaces (Han, Kana, Thai, Lao, Khmer, Myanmar) and in Hangul each character is one word.
    """
    if text.isascii():
        return _ASCII_WORD.findall(text.lower())
    text = unicodedata.normalize("NFC", text).casefold()
    return (_SPACED_WORD if _OTHER_THAN_SPACED.search(text) is None else _unicode_word()).findall(text)


def ascii_words(text: str) -> list[str]:
    """Runs of ``[A-Za-z0-9]``, in lower case: the tokens of Bala (2026)."""
    found = _ASCII_WORD.findall(text)
    return [word.lower() for word in found]


def count_words(text: str) -> int:
    """Number of `words`: the default counter. Not a model's tokens; give `count_tokens` for those."""
    return len(words(text))


def count_ascii_words(text: str) -> int:
    """Number of `ascii_words`: the counter of Bala (2026)."""
    return len(_ASCII_WORD.findall(text))


_STOP_WORDS = (
    "a an the and or of to in on for with by is are was were be been being what which who whom whose where when why "
    "how did does do that this these those as at from it its their his her he she they them same"
)
STOP_WORDS = frozenset(_STOP_WORDS.split())


def is_content_word(word: str) -> bool:
    """Whether a word says what a text is about: longer than two characters, numeric, or of an unspaced script, and
    no stop word."""
    long_enough = len(word) > 2 or word.isdigit() or _UNSPACED_CHARACTER.match(word) is not None
    return long_enough and word not in STOP_WORDS


def is_ascii_content_word(word: str) -> bool:
    """The content terms of Bala (2026): tokens longer than two characters that are no stop word."""
    return len(word) > 2 and word not in STOP_WORDS


@dataclass(frozen=True)
class Counter:
    """A token counter with a name and checked answers.

    Parameters
    ----------
    count : callable
        Text to a non-negative integer.
    name : str
        Recorded in results, so that a budget always says in which tokens it was kept.
    """

    count: Callable[[str], int]
    name: str

    @classmethod
    def of(cls, count_tokens: Callable[[str], int]) -> Counter:
        """A caller's function, under its own name."""
        if not callable(count_tokens):
            raise TypeError(f"count_tokens must be callable, got {type(count_tokens).__name__}")
        name = getattr(count_tokens, "__qualname__", None) or type(count_tokens).__qualname__
        module = getattr(count_tokens, "__module__", None) or type(count_tokens).__module__
        return cls(count_tokens, f"{module}.{name}")

    def __call__(self, text: str) -> int:
        """Tokens of `text`.

        Raises
        ------
        ValueError
            If the counter's answer is not a non-negative integer.
        """
        tokens: Any = self.count(text)
        if isinstance(tokens, bool) or not isinstance(tokens, Integral) or tokens < 0:
            raise ValueError(
                f"count_tokens ({self.name}) must return an integer >= 0, got {tokens!r} for {_shortened(text)!r}"
            )
        return int(tokens)


def _shortened(text: str) -> str:
    return text if len(text) <= 40 else text[:40] + "..."


# Sentence cuts. Both return spans (start, end) into the text, without the white space around sentences.

_CLOSING = "\"'\u2019\u201d\u00bb)]}\u300d\u300f\uff09\u3011\u3009\u300b"
_OPENING = "\"'\u2018\u201c\u00ab([{\u300c\u300e\uff08\u3010\u3008\u300a\u00bf\u00a1"
# Full stops that need no white space after them: East Asian, Indic, Arabic, Ethiopic, Khmer, Myanmar, Tibetan.
_WIDE_STOPS = "\u3002\uff01\uff1f\uff61\u0964\u0965\u061f\u06d4\u1362\u1367\u17d4\u104b\u0f0d"
_GAP = re.compile(rf"(?:[{_WIDE_STOPS}]|\uff0e(?!\d))+[{re.escape(_CLOSING)}]*\s*|\s+")
_BLANK_LINE = re.compile(r"\n[^\S\n]*\n|\u2029")

_TITLES = "mr mrs ms mx dr prof rev hon st ste mt ft gen col maj capt cmdr lt sgt cpl gov sen rep pres sr jr"
_ABBREVIATED = "vs cf approx ca viz al jan feb mar apr jun jul aug sep sept oct nov dec"
_ABBREVIATIONS = frozenset((_TITLES + " " + _ABBREVIATED).split())
_BEFORE_NUMBER = frozenset({"no", "nos", "vol", "vols", "fig", "figs", "p", "pp", "ch", "sec", "art", "op"})


def sentences(text: str) -> list[Span]:
    """Sentences of `text` as spans.

    A sentence ends at white space after ``.``, ``!``, ``?`` or an ellipsis and any closing quotes or brackets, at a
    full stop of a script that puts none (East Asian, Indic, Arabic and others), and at a blank line; but not after an
    initial or a common abbreviation, nor before a small letter.

    Returns
    -------
    list of (int, int)
        Start and end of each sentence, end excluded, without surrounding white space.
    """
    spans = []
    begin = 0
    for gap in _GAP.finditer(text):
        stop, after = gap.start() + len(gap.group().rstrip()), gap.end()
        wide = stop > gap.start()
        if wide or _BLANK_LINE.search(gap.group()) or (_ends_sentence(text, stop, after) and after < len(text)):
            spans.append((begin, stop))
            begin = after
    spans.append((begin, len(text)))
    return [span for span in (_stripped(text, *span) for span in spans) if span[0] < span[1]]


def _ends_sentence(text: str, stop: int, after: int) -> bool:
    """Whether the white space text[stop:after] follows the end of a sentence."""
    while stop and text[stop - 1] in _CLOSING:
        stop -= 1
    if not stop or text[stop - 1] not in ".!?\u2026":
        return False
    while after < len(text) and text[after] in _OPENING:
        after += 1
    following = text[after : after + 1]
    if following.islower():
        return False
    if text[stop - 1] != ".":
        return True
    begin = stop - 1
    while begin and text[begin - 1].isalpha():
        begin -= 1
    word = text[begin : stop - 1]
    if len(word) == 1 and (begin == 0 or not text[begin - 1].isalnum()):
        return False
    return word.lower() not in _ABBREVIATIONS and not (word.lower() in _BEFORE_NUMBER and following.isdigit())


_PUBLISHED_GAP = re.compile(r"(?<=[.!?])\s+")


def published_sentences(text: str) -> list[Span]:
    """Sentences as the code of Bala (2026) cuts them: at every run of white space after ``.``, ``!`` or ``?``."""
    spans = []
    begin = 0
    for gap in _PUBLISHED_GAP.finditer(text):
        spans.append((begin, gap.start()))
        begin = gap.end()
    spans.append((begin, len(text)))
    return [span for span in (_stripped(text, *span) for span in spans) if span[0] < span[1]]


def _stripped(text: str, start: int, end: int) -> Span:
    inner = text[start:end]
    start += len(inner) - len(inner.lstrip())
    return start, max(start, start + len(inner.strip()))
