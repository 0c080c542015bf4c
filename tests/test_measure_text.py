"""Words, counters, sentence cuts: every script, every length, linear time."""

from __future__ import annotations

import time

import numpy as np
import pytest
from isinglass.measure import calibrate, count_ascii_words, count_words, sentences, words
from isinglass.measure.lexical import Vocabulary
from isinglass.measure.text import Counter, ascii_words, published_sentences


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The cat's 2nd hat_rack!", ["the", "cat", "s", "2nd", "hat", "rack"]),
        ("Cafe\u0301 = café", ["café", "café"]),
        ("Straße STRASSE", ["strasse", "strasse"]),
        (
            "Привет, мир",
            ["привет", "мир"],
        ),
        ("東京は2020", ["東", "京", "は", "2020"]),
        ("한국어", ["한", "국", "어"]),
        ("हिन्दी है", ["हिन्दी", "है"]),
        ("ที่นี่", ["ที่", "นี่"]),
        ("مرحبا بك", ["مرحبا", "بك"]),
        ("", []),
        ("... \u2014 !", []),
        ("\U0001f600", []),
    ],
)
def test_words_of_any_script(text: str, expected: list[str]) -> None:
    assert words(text) == expected
    assert count_words(text) == len(expected)


@pytest.mark.parametrize("seed", range(40))
def test_texts_are_numbered_by_the_same_words(seed: int) -> None:
    """The native words are those of `words` and `ascii_words`, over characters of every kind."""
    rng = np.random.default_rng(seed)
    blocks = [(0x20, 0x7F), (0x80, 0x600), (0x600, 0x1100), (0x1100, 0x3100), (0x3100, 0x20000), (0x20000, 0x110000)]
    alphabet = [chr(rng.integers(*blocks[i])) for i in rng.choice(len(blocks), 60, p=[0.3, 0.25, 0.15, 0.1, 0.1, 0.1])]
    alphabet += list(" .a\u0301\u200d\u00df\u0130\ud800\u212a_'")
    texts = ["".join(rng.choice(alphabet, size=40)) for _ in range(50)] + ["", "plain ASCII, 2nd Text"]
    for ascii_only, rule in ((False, words), (True, ascii_words)):
        vocabulary = Vocabulary(ascii_only)
        encoded = vocabulary.encode(texts)
        number = vocabulary.number
        assert list(number.values()) == list(range(len(number)))
        assert encoded == [[number[word] for word in rule(text)] for text in texts]
        assert list(number) == list(dict.fromkeys(word for text in texts for word in rule(text)))


def test_published_tokens_are_ascii_runs() -> None:
    assert ascii_words("Café No_1, 東京 K\u212a") == ["caf", "no", "1", "k"]
    assert count_ascii_words("Café No_1") == 3


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One. Two! Three? Four", ["One.", "Two!", "Three?", "Four"]),
        ('He said "yes." Then left.', ['He said "yes."', "Then left."]),
        ('He said "yes." and left.', ['He said "yes." and left.']),
        ("J. R. R. Tolkien wrote. He slept.", ["J. R. R. Tolkien wrote.", "He slept."]),
        ("Dr. Lee met Mrs. Roe (in Jan. 1952). They spoke.", ["Dr. Lee met Mrs. Roe (in Jan. 1952).", "They spoke."]),
        ("See No. 5 there. He said no. Then 5 left.", ["See No. 5 there.", "He said no.", "Then 5 left."]),
        ("Pi is 3.14 today. Wait... what? Yes… Good", ["Pi is 3.14 today.", "Wait... what?", "Yes…", "Good"]),
        (
            "東京。大阪！「奈良。」京都",
            ["東京。", "大阪！", "「奈良。」", "京都"],
        ),
        ("एक। दो।", ["एक।", "दो।"]),
        ("Heading\n\nBody text\nwraps here. End", ["Heading", "Body text\nwraps here.", "End"]),
        ("  padded.  ", ["padded."]),
        ("", []),
        (" \n\n ", []),
    ],
)
def test_sentences(text: str, expected: list[str]) -> None:
    assert [text[a:b] for a, b in sentences(text)] == expected


def test_published_cut_knows_no_abbreviation() -> None:
    text = "Born c. 1952 in Rome.  He  left.Now? "
    assert [text[a:b] for a, b in published_sentences(text)] == ["Born c.", "1952 in Rome.", "He  left.Now?"]


@pytest.mark.parametrize(
    "text",
    [
        "." * 100_000,
        ". " * 50_000,
        ")" * 100_000 + " ",
        '.") ' * 30_000,
        "a" * 100_000,
        "\n" * 100_000,
        "。" * 100_000,
        "e\u0301" * 50_000,
    ],
    ids=lambda text: ascii(text[:4]),
)
def test_long_texts_take_linear_time(text: str) -> None:
    begin = time.process_time()
    sentences(text)
    published_sentences(text)
    count_words(text)
    assert time.process_time() - begin < 2


@pytest.mark.parametrize("answer", [-1, 2.0, True, None, "3", float("nan"), np.float64(2), np.bool_(True)], ids=repr)
def test_counter_refuses_what_is_no_count(answer: object) -> None:
    with pytest.raises(ValueError, match="must return an integer >= 0, got"):
        Counter.of(lambda text: answer)("some text")  # type: ignore[arg-type, return-value]


def test_counter_takes_numpy_integers_and_has_a_name() -> None:
    counter = Counter.of(lambda text: np.int32(len(text)))  # type: ignore[arg-type, return-value]
    assert counter("abc") == 3
    assert type(counter("abc")) is int
    assert Counter.of(len).name == "builtins.len"
    with pytest.raises(TypeError, match="count_tokens must be callable, got int"):
        Counter.of(3)  # type: ignore[arg-type]


def test_calibrate() -> None:
    raw = [-4.0, 0.0, 2.0, 2.0]
    assert calibrate(raw) == pytest.approx([1 / (1 + np.exp(4)), 0.5, 1 / (1 + np.exp(-2)), 1 / (1 + np.exp(-2))])
    assert calibrate(raw, "minmax").tolist() == [0, 4 / 6, 1, 1]
    assert calibrate(raw, "rank").tolist() == [1 / 4, 2 / 4, 3.5 / 4, 3.5 / 4]
    assert calibrate([3, 3], "minmax").tolist() == [1, 1]
    assert calibrate([]).shape == (0,)


@pytest.mark.parametrize("how", ["sigmoid", "minmax", "rank"])
def test_calibrate_extreme_scores(how: str) -> None:
    scores = calibrate([-1.7e308, -800.0, 0.0, 5e-324, 800.0, 1.7e308], how)
    assert np.isfinite(scores).all()
    assert (np.diff(scores) >= 0).all()
    assert scores.min() >= 0
    assert scores.max() <= 1


def test_calibrate_refuses() -> None:
    with pytest.raises(ValueError, match=r"scores\[1\] must be finite, got nan"):
        calibrate([1.0, float("nan")])
    with pytest.raises(ValueError, match="how must be"):
        calibrate([1.0], "softmax")


def test_the_plain_rule_of_words_is_asked_only_where_it_is_the_full_one() -> None:
    from isinglass.measure import text

    outside = [c for c in map(chr, range(0x110000)) if text._OTHER_THAN_SPACED.search(c) is None]
    assert len(outside) > 1000
    for c in outside:
        if "\ud800" <= c <= "\udfff":
            continue
        for sample in (c, f"a{c}b", f"é{c}"):
            assert text._SPACED_WORD.findall(sample) == text._unicode_word().findall(sample), repr(c)
