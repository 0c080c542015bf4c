"""Readers of question files: layouts, the traps of real data on records written here, and broken files."""

import gzip
import json

import pytest
from isinglass.diagnosis import diagnose
from isinglass.experiments.datasets import oddities, read_questions
from isinglass.records import RecordError


def own(**changes):
    record = {
        "id": "q1",
        "question": "Which river feeds Blue Lake?",
        "answers": ["Grey Burn"],
        "paragraphs": [
            {"title": "Blue Lake", "sentences": ["Blue Lake lies in the hills.", "It is fed by Grey Burn."]},
            {"title": "Old Mill", "sentences": ["Old Mill is a ruin."]},
        ],
        "gold": ["Blue Lake"],
        "gold_idx": [0],
        "supporting_facts": [["Blue Lake", 1]],
        "type": "bridge",
        "level": None,
    }
    return record | changes


def hotpot(**changes):
    record = {
        "_id": "h1",
        "question": "Which river feeds Blue Lake?",
        "answer": "Grey Burn",
        "context": [
            ["Blue Lake", ["Blue Lake lies in the hills.", " It is fed by Grey Burn."]],
            ["Old Mill", ["Old Mill is a ruin."]],
        ],
        "supporting_facts": [["Blue Lake", 1], ["Blue Lake", 0], ["Grey Burn", 0]],
        "type": "bridge",
        "level": "hard",
    }
    return record | changes


def musique(**changes):
    record = {
        "id": "2hop__1_2",
        "question": "Which river feeds the lake under Old Mill?",
        "answer": "Grey Burn",
        "answer_aliases": ["The Grey Burn"],
        "answerable": True,
        "paragraphs": [
            {"idx": 0, "title": "Blue Lake", "paragraph_text": "It lies in the hills.", "is_supporting": False},
            {"idx": 1, "title": "Blue Lake", "paragraph_text": "Grey Burn feeds it.", "is_supporting": True},
            {"idx": 2, "title": "Old Mill", "paragraph_text": "A ruin above Blue Lake.", "is_supporting": True},
        ],
        "question_decomposition": [],
    }
    return record | changes


def write(path, *records):
    path.write_text("".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records), encoding="utf-8")
    return path


def read_one(tmp_path, record):
    questions, skipped = read_questions(write(tmp_path / "q.jsonl", record))
    assert not skipped
    (question,) = questions
    return question


# Layouts


def test_own_schema(tmp_path):
    question = read_one(tmp_path, own())
    assert (question.id, question.question, question.answers) == ("q1", "Which river feeds Blue Lake?", ("Grey Burn",))
    assert [paragraph.title for paragraph in question.paragraphs] == ["Blue Lake", "Old Mill"]
    assert question.paragraphs[0].text == "Blue Lake lies in the hills. It is fed by Grey Burn."
    assert (question.gold, question.gold_idx) == (("Blue Lake",), (0,))
    assert question.supporting_facts == (("Blue Lake", 1),)
    assert (question.type, question.level) == ("bridge", None)
    assert question.documents == ("Blue Lake", "Old Mill")
    assert question.gold_documents == ("Blue Lake",)


def test_official_hotpotqa_and_2wiki(tmp_path):
    path = tmp_path / "dev.json"
    path.write_text(json.dumps([hotpot(), hotpot(_id="h2", evidences=[["Blue Lake", "fed by", "Grey Burn"]])]))
    questions, _ = read_questions(path)
    assert [question.id for question in questions] == ["h1", "h2"]
    question = questions[0]
    assert question.answers == ("Grey Burn",)
    assert question.gold == ("Blue Lake", "Grey Burn")
    assert question.gold_idx == (0,)
    assert question.level == "hard"


def test_official_musique(tmp_path):
    question = read_one(tmp_path, musique())
    assert question.answers == ("Grey Burn", "The Grey Burn")
    assert question.gold == ("Blue Lake", "Old Mill")
    assert question.gold_idx == (1, 2)
    assert question.supporting_facts is None
    assert question.paragraphs[1].text == "Grey Burn feeds it."


def test_layouts_may_be_mixed_and_lists_may_hold_any(tmp_path):
    path = tmp_path / "mixed.json"
    path.write_text(json.dumps([own(), hotpot(), musique()], indent=1))
    questions, _ = read_questions(path)
    assert [question.id for question in questions] == ["q1", "h1", "2hop__1_2"]


def test_gzip_is_told_by_content(tmp_path):
    path = tmp_path / "questions"
    path.write_bytes(gzip.compress(json.dumps(own()).encode() + b"\n"))
    assert read_questions(path).questions[0].id == "q1"


def test_limit_reads_the_first(tmp_path):
    path = write(tmp_path / "q.jsonl", own(), own(id="q2"), own(id="q3"))
    path.write_text(path.read_text() + "broken\n")
    assert [question.id for question in read_questions(path, limit=2).questions] == ["q1", "q2"]
    assert read_questions(path, limit=0).questions == ()
    with pytest.raises(ValueError, match="limit must be >= 0, got -1"):
        read_questions(path, limit=-1)


# Traps of real data


def test_leading_blanks_of_sentences_are_the_only_separator(tmp_path):
    context = [["Blue Lake", ["One.", " Two.", "”Three.", " Four."]], ["Old Mill", ["Alone."]]]
    question = read_one(tmp_path, hotpot(context=context))
    assert question.paragraphs[0].text == "One. Two.”Three. Four."


def test_sentences_without_blanks_are_joined_by_one(tmp_path):
    context = [["Blue Lake", ["One.", "Two."]]]
    assert read_one(tmp_path, hotpot(context=context)).paragraphs[0].text == "One. Two."


def test_empty_sentences_keep_their_index(tmp_path):
    context = [["Blue Lake", ["", "One.", "", " Two."]]]
    question = read_one(tmp_path, hotpot(context=context, supporting_facts=[["Blue Lake", 3]]))
    assert question.paragraphs[0].sentences == ("", "One.", "", " Two.")
    assert question.paragraphs[0].text == "One. Two."
    assert question.paragraphs[0].sentences[question.supporting_facts[0][1]] == " Two."


def test_html_entities_stay_in_titles_on_both_sides(tmp_path):
    title = "Mill &amp; &quot;Lake&quot;"
    question = read_one(tmp_path, hotpot(context=[[title, ["One."]]], supporting_facts=[[title, 0]]))
    assert question.documents == question.gold_documents == (title,)
    assert question.gold_idx == (0,)


def test_few_paragraphs_and_none_at_all(tmp_path):
    question = read_one(tmp_path, hotpot(context=[]))
    assert question.paragraphs == question.gold_idx == ()
    assert question.gold_documents == ("Blue Lake", "Grey Burn")


def test_repeated_titles_are_one_document_where_facts_name_titles(tmp_path):
    context = [["Blue Lake", ["One."]], ["Old Mill", ["Two."]], ["Blue Lake", ["Three."]]]
    question = read_one(tmp_path, hotpot(context=context, supporting_facts=[["Blue Lake", 0]]))
    assert question.documents == ("Blue Lake", "Old Mill", "Blue Lake")
    assert question.gold_idx == (0, 2)
    assert question.gold_documents == ("Blue Lake",)


def test_repeated_titles_are_many_documents_where_paragraphs_are_labelled(tmp_path):
    question = read_one(tmp_path, musique())
    assert question.documents == ("2hop__1_2::0", "2hop__1_2::1", "2hop__1_2::2")
    assert question.gold_documents == ("2hop__1_2::1", "2hop__1_2::2")


def test_a_missing_gold_title_stays_gold(tmp_path):
    by_title = read_one(tmp_path, own(gold=["Blue Lake", "Nowhere"]))
    assert by_title.gold_documents == ("Blue Lake", "Nowhere")
    by_paragraph = read_one(tmp_path, own(gold=["Blue Lake", "Nowhere"], supporting_facts=None))
    assert by_paragraph.gold_documents == ("q1::0", "Nowhere")


def test_supporting_facts_past_the_end_are_kept_verbatim(tmp_path):
    question = read_one(tmp_path, hotpot(supporting_facts=[["Blue Lake", 99]]))
    assert question.supporting_facts == (("Blue Lake", 99),)


def test_yes_no_answers_and_other_scripts_are_read_as_they_are(tmp_path):
    sentences = ["مطعم 北京 Café", "Cafe\u0301 – “q”", "a\u2028b\u2029c\u0085d \ufffd"]
    question = read_one(tmp_path, own(answers=["yes"], paragraphs=[{"title": "Blue Lake", "sentences": sentences}]))
    assert question.paragraphs[0].sentences == tuple(sentences)
    assert question.answers == ("yes",)


# Broken files


def fault(path):
    with pytest.raises(RecordError) as caught:
        read_questions(path)
    return caught.value


def test_a_half_written_line_names_file_line_and_expectation(tmp_path):
    path = write(tmp_path / "q.jsonl", own(), own(id="q2"))
    path.write_text(path.read_text()[:-40])
    error = fault(path)
    assert (error.file, error.line) == (str(path), 2)
    assert "expected one whole JSON object a line, got one that ends early" in error.reason
    assert str(error) == f"{path}, line 2: {error.reason}"


def test_keep_going_reads_the_rest_and_says_what_it_passed_over(tmp_path):
    path = tmp_path / "q.jsonl"
    lines = [
        json.dumps(own()).encode(),
        b'{"id": "q2", "question": oops}',
        b"",
        json.dumps(own(id="q3")).encode(),
        b'{"id": "\xff"}',
        b"[1, 2]",
        b'"text"',
        b"[" * 100_000,
        b'{"id": "\\ud800", "answers": []}',
        json.dumps(own(id="q4")).encode(),
    ]
    path.write_bytes(b"\n".join(lines))
    questions, skipped = read_questions(path, keep_going=True)
    assert [question.id for question in questions] == ["q1", "q3", "q4"]
    assert [error.line for error in skipped] == [2, 5, 6, 7, 8, 9]
    assert "got a broken one" in skipped[0].reason
    assert "expected UTF-8, got byte 0xff" in skipped[1].reason
    assert skipped[2].reason == "expected a JSON object, got [1, 2]"
    assert skipped[3].reason == "expected a JSON object, got 'text'"


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("[\n{},\n{", 2, "expected the fields"),
        ('[\n\n{"a": ', 3, "record 1: expected a whole JSON object"),
        ("[1 2]", 1, "expected a JSON object"),
        ("[", 1, "record 1: expected a whole JSON object"),
    ],
)
def test_a_broken_list_names_the_line(tmp_path, text, line, reason):
    path = tmp_path / "q.json"
    path.write_text(text)
    error = fault(path)
    assert error.line == line
    assert reason in error.reason


def test_a_half_written_list_still_gives_what_stands_before(tmp_path):
    path = tmp_path / "q.json"
    text = json.dumps([hotpot(), hotpot(_id="h2"), hotpot(_id="h3")], indent=1)
    for cut in (len(text) - 30, text.rindex("}") + 1):
        path.write_text(text[:cut])
        questions, skipped = read_questions(path, keep_going=True)
        assert [question.id for question in questions][:2] == ["h1", "h2"]
        assert len(skipped) == 1
    path.write_text(text + "]")
    assert len(read_questions(path, keep_going=True).questions) == 3
    assert "expected nothing after the list" in fault(path).reason


def test_a_cut_gzip_stream_gives_what_stands_before(tmp_path):
    path = tmp_path / "q.jsonl.gz"
    lines = b"".join(json.dumps(own(id=f"q{i}")).encode() + b"\n" for i in range(3000))
    path.write_bytes(gzip.compress(lines)[:-500])
    questions, skipped = read_questions(path, keep_going=True)
    assert 0 < len(questions) < 3000
    assert "expected a whole gzip stream" in skipped[-1].reason
    assert skipped[-1].line == len(questions) + 1


def test_byte_order_mark_blank_lines_and_windows_line_ends(tmp_path):
    path = tmp_path / "q.jsonl"
    path.write_bytes(b"\xef\xbb\xbf\r\n" + json.dumps(own()).encode() + b"\r\n\r\n")
    assert len(read_questions(path).questions) == 1


def test_an_empty_file_has_no_questions(tmp_path):
    path = tmp_path / "q.jsonl"
    path.write_text("")
    assert read_questions(path) == ((), ())
    path.write_text("[ ]")
    assert read_questions(path) == ((), ())


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nowhere\.jsonl"):
        read_questions(tmp_path / "nowhere.jsonl")


@pytest.mark.parametrize("one_line", [False, True])
def test_a_repeated_id_names_both_lines(tmp_path, one_line):
    path = tmp_path / "q.json"
    if one_line:
        path.write_text(json.dumps([own(), own()]))
    else:
        write(path, own(), own())
    assert "id must be unique in the file, got 'q1' as in line 1" in fault(path).reason


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        ({"id": "q1", "title": "t"}, r"expected the fields 'answers' and 'paragraphs' .* got \['id', 'title'\]"),
        (own(id=5), "id must be a string, got 5"),
        (own(question=None), "question must be a string, got None"),
        (own(answers=[]), "answers must hold at least one answer, got none"),
        (own(answers="Grey Burn"), "answers must be a list, got 'Grey Burn'"),
        (own(answers=["a", None]), r"answers\[1\] must be a string, got None"),
        (own(paragraphs={}), "paragraphs must be a list, got {}"),
        (own(paragraphs=["text"]), r"paragraphs\[0\] must be a JSON object, got 'text'"),
        (own(paragraphs=[{"title": "t"}]), r"expected the field paragraphs\[0\]\.sentences, got \['title'\]"),
        (
            own(paragraphs=[{"title": "t", "sentences": "One."}]),
            r"paragraphs\[0\]\.sentences must be a list, got 'One\.'",
        ),
        (own(gold_idx=[2]), r"gold_idx\[0\] must be a paragraph position in 0\.\.1, got 2"),
        (own(gold_idx=[True]), r"gold_idx\[0\] must be a paragraph position in 0\.\.1, got True"),
        (own(gold_idx=[0, 1]), "gold must name the title of each gold paragraph, 'Old Mill' of gold_idx 1 is missing"),
        (own(supporting_facts=[["Blue Lake"]]), r"supporting_facts\[0\] must be \[title, sentence index\]"),
        (own(type=3), "type must be a string, got 3"),
        (
            {key: value for key, value in own().items() if key != "gold"},
            "expected the field gold, got",
        ),
        (hotpot(context=[["Blue Lake"]]), r"context\[0\] must be \[title, sentences\], got \['Blue Lake'\]"),
        (
            {key: value for key, value in hotpot().items() if key != "answer"},
            "expected the field answer, got",
        ),
        (musique(answerable=False), "expected an answerable question, got one marked unanswerable"),
        (
            musique(paragraphs=[{"title": "t", "paragraph_text": "x", "is_supporting": 1}]),
            r"paragraphs\[0\]\.is_supporting must be true or false, got 1",
        ),
    ],
)
def test_a_wrong_field_is_named(tmp_path, record, reason):
    path = write(tmp_path / "q.jsonl", record)
    with pytest.raises(RecordError, match=reason) as caught:
        read_questions(path)
    assert caught.value.line == 1


# Real data


def test_official_layouts_read_as_our_schema_does(data, tmp_path):
    for name in ("hotpotqa_dev", "2wiki_dev", "musique_dev"):
        path = data / "qa" / f"{name}.jsonl.gz"
        with gzip.open(path, "rt", encoding="utf-8") as stream:
            records = [json.loads(line) for line in stream]
        official = tmp_path / f"{name}.json"
        to_official = musique_record if name == "musique_dev" else hotpot_record
        official.write_text(json.dumps([to_official(record) for record in records]), encoding="utf-8")
        ours, theirs = read_questions(path).questions, read_questions(official).questions
        assert len(ours) == len(theirs) == len(records)
        for one, other in zip(ours, theirs):
            for field in ("id", "question", "answers", "documents"):
                assert getattr(one, field) == getattr(other, field)
            assert set(one.gold_documents) == set(other.gold_documents)
            assert [p.text for p in one.paragraphs] == [p.text for p in other.paragraphs]


def hotpot_record(record):
    return {
        "_id": record["id"],
        "question": record["question"],
        "answer": record["answers"][0],
        "context": [[paragraph["title"], paragraph["sentences"]] for paragraph in record["paragraphs"]],
        "supporting_facts": record["supporting_facts"],
        "type": record["type"],
        "level": record["level"],
    }


def musique_record(record):
    return {
        "id": record["id"],
        "question": record["question"],
        "answer": record["answers"][0],
        "answer_aliases": record["answers"][1:],
        "answerable": True,
        "paragraphs": [
            {
                "idx": i,
                "title": paragraph["title"],
                "paragraph_text": " ".join(paragraph["sentences"]),
                "is_supporting": i in record["gold_idx"],
            }
            for i, paragraph in enumerate(record["paragraphs"])
        ],
    }


def test_oddities_are_counted_not_repaired(tmp_path):
    odd = own(
        paragraphs=[{"title": "A &amp; B", "sentences": ["One.", "", " Two."]}] * 2,
        gold=["A &amp; B", "Nowhere"],
        gold_idx=[0, 1],
        supporting_facts=[["A &amp; B", 3], ["Nowhere", 0]],
        answers=["The"],
    )
    bare = own(id="bare", paragraphs=[], gold=[], gold_idx=[], supporting_facts=[], answers=["no", "x"])
    questions = read_questions(write(tmp_path / "q.jsonl", odd, bare)).questions
    assert oddities(questions) == {
        "gold_not_in_paragraphs": 1,
        "supporting_facts_out_of_range": 1,
        "empty_sentences": 1,
        "repeated_titles": 1,
        "answers_not_spans": 1,
        "without_paragraphs": 1,
    }


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        ("hotpotqa_dev", {"gold_not_in_paragraphs": 0, "supporting_facts_out_of_range": 0}),
        ("hotpotqa_fullwiki", {"without_paragraphs": 1}),
        ("2wiki_dev", {"gold_not_in_paragraphs": 0}),
        ("musique_dev", {"supporting_facts_out_of_range": 0, "empty_sentences": 0}),
        ("covidqa", {"answers_not_spans": 0, "gold_not_in_paragraphs": 0}),
        ("expertqa", {"answers_not_spans": 0, "gold_not_in_paragraphs": 0}),
    ],
)
def test_oddities_of_the_real_files(data, part, expected):
    questions = read_questions(data / "qa" / f"{part}.jsonl.gz").questions
    found = oddities(questions)
    assert {name: found[name] for name in expected} == expected
    if part == "hotpotqa_fullwiki":  # first-stage retrieval: most questions miss a gold paragraph
        assert found["gold_not_in_paragraphs"] > len(questions) / 2
    if part == "musique_dev":
        assert found["repeated_titles"] > len(questions) / 2
    if part == "covidqa":  # a few answers cross a cut of the article
        assert 0 < sum(len(question.gold_idx) > 1 for question in questions) <= 6
    if part == "hotpotqa_dev":
        assert found["empty_sentences"] > 0
        assert found["answers_not_spans"] == 958 - 899
    if part == "2wiki_dev":
        assert found["supporting_facts_out_of_range"] > 0
        assert found["answers_not_spans"] == 442 - 405


def test_answers_that_stand_nowhere_word_for_word_leave_it_to_the_gold_documents(data):
    questions = read_questions(data / "qa" / "2wiki_dev.jsonl.gz").questions
    texts = [[{"text": p.text, "title": p.title} for p in question.paragraphs] for question in questions]
    rows = diagnose([one[:0] for one in texts], questions, texts)
    nowhere = [row for row in rows if row.answer_in_retrieved is False]
    assert 0 < len(nowhere) < len(rows) / 4
    assert {row.failure for row in nowhere} == {"lost_in_packing"}  # every gold document was there, and none was packed
