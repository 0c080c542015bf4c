"""Where answers stand: the places agree with the measure that says whether they do."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from isinglass.diagnosis import answer_spans, answers_in_contexts

WORDS = [
    "the",
    "The–end",
    "a",
    "Hague",
    "hague.",
    '"Hague"',
    "U.S.",
    "us",
    "O'Brien",
    "obrien",
    "no",
    "ΟΔΟΣ",
    "🌊",
    ",",
]
SPACES = st.sampled_from([" ", "  ", "\n", "\t", "\u2003", "\x1c"])


@pytest.mark.parametrize(
    ("text", "answers", "found"),
    [
        ("He lived in The Hague, near Leiden.", ["the Hague", "Leiden"], ["Hague", "Leiden"]),
        ("A U.S. ship", ["US"], ["U.S"]),
        ("Jean-Luc and Jean Luc", ["jeanluc"], ["Jean-Luc"]),
        ("new York New York New", ["New York New"], ["new York New York New"]),
        ("🌊 wave 🌊 at sea", ["wave at"], []),
        ("nothing to know", ["no"], []),
        ("north", ["or"], []),
        ("", ["x"], []),
    ],
)
def test_places(text, answers, found):
    assert [text[start:end] for start, end in answer_spans(text, answers)] == found


@given(st.lists(st.tuples(st.sampled_from(WORDS), SPACES), max_size=8), st.lists(st.sampled_from(WORDS), max_size=3))
def test_there_is_a_place_exactly_where_the_measure_finds_an_answer(pieces, answer):
    text = "".join(word + space for word, space in pieces)
    answers = [" ".join(answer)]
    found = answers_in_contexts([[text]], [answers]).defined[0]
    assert bool(answer_spans(text, answers)) == (found == 1)


def test_a_bare_string_is_refused():
    with pytest.raises(TypeError, match="bare string"):
        answer_spans("text", "text")
