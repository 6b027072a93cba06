"""Properties of readers: what is written comes back, or an error says why."""

import dataclasses
import itertools
import json
import pathlib
import typing

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies
from hypothesis.extra import numpy as numpy_strategies

from bert.files import row_files
from bert.models import description as description_lib
from bert.models import folder as folder_lib
from bert.records import framing, offsets, tfrecords
from bert.tasks.squad import question_files
from bert.tasks.tagging import entities, tag_schemes, tagger_labels
from modeling import checkpoints
from tests.fuzz import harness
from vocab import huggingface_tokenizer, tokenization


@pytest.fixture(params=harness.suites(50, 2_000))
def holds(request):
    """Checks a property on examples of a strategy, always the same ones."""

    def check(claim, **arguments):
        harness.examples(request.param)(hypothesis.given(**arguments)(claim))()

    return check


_records = strategies.lists(strategies.binary(max_size=40), max_size=12)


def test_records_of_several_files_are_read_in_any_order(holds, tmp_path):
    def claim(files, data):
        paths = []
        for number, records in enumerate(files):
            path = tmp_path / f"{number}.tfrecord"
            path.write_bytes(b"".join(map(framing.frame, records)))
            paths.append(str(path))
        records = [record for records in files for record in records]
        opened = tfrecords.RecordFiles(paths, may_be_empty=True)
        assert len(opened) == len(records)
        if not records:
            with pytest.raises(ValueError, match="There are no records"):
                tfrecords.RecordFiles(paths)
            return
        places = strategies.integers(0, len(records) - 1)
        order = data.draw(strategies.lists(places, max_size=20))
        assert opened.read(order) == [records[place] for place in order]

    holds(
        claim,
        files=strategies.lists(_records, min_size=1, max_size=4),
        data=strategies.data(),
    )


def test_an_index_says_what_a_scan_finds_or_is_not_used(
    holds, tmp_path, monkeypatch
):
    # Files of few records have no index.
    monkeypatch.setattr(offsets, "LEAST_RECORDS", 1)
    path = str(tmp_path / "x.tfrecord")

    def claim(records, others):
        frames = [*map(framing.frame, records)]
        pathlib.Path(path).write_bytes(b"".join(frames))
        expected = [0, *itertools.accumulate(map(len, frames))]
        offsets.remove(path)
        assert offsets.read(path).tolist() == expected
        offsets.write(path, [*map(len, frames)])
        assert offsets.read(path).tolist() == expected
        # The index of other records, of which the lengths say which they are.
        offsets.write(path, [*map(len, map(framing.frame, others))])
        if sum(map(len, others)) != sum(map(len, records)):
            assert offsets.read(path).tolist() == expected

    records = strategies.lists(strategies.binary(max_size=9), min_size=1)
    holds(claim, records=records, others=records)


def test_tsv_comes_back_whatever_it_holds(holds, tmp_path):
    path = tmp_path / "rows.tsv"
    cell = strategies.text(
        strategies.characters(codec="utf-8", exclude_characters="\0\t\n\r")
    )

    def claim(rows):
        text = "".join("\t".join(row) + "\n" for row in rows)
        path.write_bytes(text.encode())
        read = row_files.read_rows(str(path), has_header=False)
        # The signature of UTF-8 is no text, and the end has no blank rows.
        first = text.removeprefix("\ufeff").split("\n")[:-1]
        while first and not first[-1].strip(" "):
            first.pop()
        assert [row.cells for row in read] == [r.split("\t") for r in first]

    holds(claim, rows=strategies.lists(strategies.lists(cell, min_size=1)))


def test_a_nul_in_a_table_is_named_with_its_line(holds, tmp_path):
    def claim(kind, number):
        path = tmp_path / f"rows.{kind}"
        lines = ['["a", "b"]'] * number + ['["\0", "b"]', '["c", "d"]']
        path.write_text("".join(f"{line}\n" for line in lines))
        message = rf"rows.{kind}, line {number + 1}: contains a NUL byte"
        with pytest.raises(ValueError, match=message):
            list(row_files.read_rows(str(path), has_header=False))

    holds(
        claim,
        kind=strategies.sampled_from(["tsv", "csv", "jsonl"]),
        number=strategies.integers(0, 5),
    )


_words = strategies.lists(
    strategies.text("abÄß東.,'\"\\", min_size=1, max_size=5),
    min_size=1,
    max_size=9,
)
_space = strategies.sampled_from([" ", "  ", "\n", "\t", "\u202f"])


@strategies.composite
def _paragraphs(draw):
    """Draws paragraphs of SQuAD whose answers are runs of their words."""
    paragraphs = []
    numbers = itertools.count()
    for _ in range(draw(strategies.integers(1, 3))):
        words = draw(_words)
        starts, context = [], ""
        for word in words:
            starts.append(len(context))
            context += word + draw(_space)
        questions = []
        for _ in range(draw(strategies.integers(0, 3))):
            first = draw(strategies.integers(0, len(words) - 1))
            last = draw(strategies.integers(first, len(words) - 1))
            text = context[starts[first] : starts[last] + len(words[last])]
            answer = {"text": text, "answer_start": starts[first]}
            questions.append(
                {
                    "id": f"q{next(numbers)}",
                    "question": draw(strategies.text(max_size=9)),
                    "answers": [answer],
                    "first": first,
                    "last": last,
                }
            )
        paragraphs.append({"context": context, "qas": questions})
    return paragraphs


def test_squad_questions_and_answers_come_back(holds, tmp_path):
    path = tmp_path / "squad.json"

    def claim(paragraphs):
        path.write_text(json.dumps({"data": [{"paragraphs": paragraphs}]}))
        questions = [
            (paragraph, question)
            for paragraph in paragraphs
            for question in paragraph["qas"]
        ]
        if not questions:
            with pytest.raises(ValueError, match="at least one question"):
                question_files.read_questions(
                    str(path), version_2_with_negative=False
                )
            return
        examples, gold = question_files.read_questions(
            str(path), version_2_with_negative=False, with_gold=True
        )
        assert [(e.qas_id, e.question_text) for e in examples] == [
            (question["id"], question["question"]) for _, question in questions
        ]
        assert gold == {
            question["id"]: (question["answers"][0]["text"],)
            for _, question in questions
        }
        trained = question_files.read_training_examples(
            str(path), version_2_with_negative=False
        )
        places = {e.qas_id: (e.start_position, e.end_position) for e in trained}
        assert places == {
            question["id"]: (question["first"], question["last"])
            for _, question in questions
        }

    holds(claim, paragraphs=_paragraphs())


def test_an_answer_that_is_not_at_its_offset_is_left_out(holds, tmp_path):
    path = tmp_path / "squad.json"

    def claim(paragraphs):
        for paragraph in paragraphs:
            for question in paragraph["qas"]:
                question["answers"][0]["text"] = "z"  # No word has it.
        path.write_text(json.dumps({"data": [{"paragraphs": paragraphs}]}))
        with pytest.raises(ValueError, match=r"squad.json: .* question"):
            question_files.read_training_examples(
                str(path), version_2_with_negative=False
            )

    holds(claim, paragraphs=_paragraphs())


_entries = strategies.lists(
    strategies.text(
        strategies.characters(codec="utf-8", exclude_characters="\r\n"),
        min_size=1,
        max_size=6,
    ).filter(lambda entry: entry == entry.strip()),
    unique=True,
    max_size=12,
)


def test_a_vocabulary_has_the_same_ids_in_both_files(holds, tmp_path):
    text, pipeline = tmp_path / "vocab.txt", tmp_path / "tokenizer.json"

    def claim(entries, data):
        text.write_bytes("".join(f"{entry}\n" for entry in entries).encode())
        ids = {entry: number for number, entry in enumerate(entries)}
        shuffled = dict(data.draw(strategies.permutations([*ids.items()])))
        model = {"type": "WordPiece", "vocab": shuffled}
        pipeline.write_text(json.dumps({"model": model}))
        for path in map(str, (text, pipeline)):
            assert tokenization.load_vocab(path) == ids
            assert tokenization.read_entries(path) == entries
        copy = str(tmp_path / "copy.txt")
        folder_lib.write_vocabulary(str(pipeline), copy)
        assert tokenization.load_vocab(copy) == ids

    holds(claim, entries=_entries, data=strategies.data())


def test_ids_of_a_vocabulary_that_are_not_0_1_2_are_an_error(holds, tmp_path):
    path = tmp_path / "tokenizer.json"

    def claim(ids):
        model = {"type": "WordPiece", "vocab": ids}
        path.write_text(json.dumps({"model": model}))
        if sorted(ids.values()) == [*range(len(ids))]:
            assert len(huggingface_tokenizer.vocabulary(str(path))) == len(ids)
            return
        with pytest.raises(ValueError, match="whose ids are 0, 1, 2"):
            huggingface_tokenizer.vocabulary(str(path))

    entry = strategies.text("abc#", max_size=3)
    holds(
        claim,
        ids=strategies.dictionaries(entry, strategies.integers(-1, 5)),
    )


_names = strategies.lists(
    strategies.text("ab_0/", min_size=1, max_size=8),
    min_size=1,
    max_size=5,
    unique=True,
)
_arrays = numpy_strategies.arrays(
    strategies.sampled_from([np.float32, np.float16, np.int64]),
    numpy_strategies.array_shapes(min_dims=0, max_dims=3, max_side=3),
)


def test_checkpoints_of_any_names_and_shapes_come_back(holds, tmp_path):
    prefix = str(tmp_path / "model.ckpt")

    def claim(names, data):
        tensors = {name: data.draw(_arrays) for name in names}
        checkpoints.save(prefix, tensors)
        assert checkpoints.list_variables(prefix) == {
            name: (value.shape, value.dtype.name)
            for name, value in tensors.items()
        }
        stored = checkpoints.read(prefix)
        assert stored.keys() == tensors.keys()
        for name, value in tensors.items():
            np.testing.assert_array_equal(stored[name], value)
            assert stored[name].dtype == value.dtype

    holds(claim, names=_names, data=strategies.data())


def test_a_variable_of_another_shape_or_none_is_named(holds, tmp_path):
    prefix = str(tmp_path / "model.ckpt")
    shape = numpy_strategies.array_shapes(max_dims=2, max_side=2)

    def claim(stored, wanted):
        checkpoints.save(
            prefix, {n: np.zeros(s, np.float32) for n, s in stored.items()}
        )
        wrong = [n for n in wanted if stored.get(n) != wanted[n]]
        with checkpoints.opened(prefix) as source:
            if not wrong:
                checkpoints.check(source, wanted, ())
                return
            absent = [name for name in wanted if name not in stored]
            with pytest.raises(ValueError, match=r"model\.ckpt") as error:
                checkpoints.check(source, wanted, ())
            for name in absent or wrong:
                assert name in str(error.value)

    sizes = strategies.dictionaries(
        strategies.sampled_from(["aa", "bb", "cc"]), shape, min_size=1
    )
    holds(claim, stored=sizes, wanted=sizes)


_tags = strategies.lists(
    strategies.sampled_from(["O", "B-X", "I-X", "B-Y", "I-Y"]), min_size=1
)


def test_tags_that_a_model_learns_are_those_it_answers(holds):
    """For labels of the schemes that published models have."""
    forms = {
        "IOB2": "OBI",
        "IOBES": "OBIES",
        "BILOU": "OBILU",
        "BMES": "OBMES",
    }

    def claim(form, tags):
        iob2 = tag_schemes.to_iob2(tags)
        names = tuple(
            tag_schemes.join(letter, kind if letter != "O" else "")
            for letter in forms[form]
            for kind in ("X", "Y")
            if letter != "O" or kind == "X"
        )
        model = tagger_labels.of_model(names, form)
        ids = model.encode(iob2)
        assert model.decode([names[number] for number in ids]) == iob2

    holds(claim, form=strategies.sampled_from([*forms]), tags=_tags)


def test_entities_are_those_that_the_tags_were_made_of(holds):
    def claim(lengths):
        tags: list[str] = []
        expected = []
        for kind, length, gap in lengths:
            expected.append(
                entities.Entity(
                    start=len(tags), end=len(tags) + length, kind=kind
                )
            )
            tags += [f"B-{kind}", *[f"I-{kind}"] * (length - 1), *["O"] * gap]
        assert [*entities.find_entities(tags)] == expected
        counts = entities.score([tags], [tags]).overall
        assert (
            counts.correct == counts.predicted == counts.gold == len(expected)
        )

    part = strategies.tuples(
        strategies.sampled_from("XY"),
        strategies.integers(1, 3),
        strategies.integers(0, 2),
    )
    holds(claim, lengths=strategies.lists(part))


_VALUES = {
    str: strategies.text(),
    bool: strategies.booleans(),
    int: strategies.integers(0, 2**40),
    float: strategies.floats(allow_nan=False, width=32),
    tuple: strategies.lists(strategies.text()).map(tuple),
}


def _kinds(name):
    """Lists the types of an entry of a description, the first one first."""
    hint = typing.get_type_hints(description_lib.Description)[name]
    return [
        typing.get_origin(part) or part
        for part in typing.get_args(hint)
        if part is not type(None)
    ]


_ENTRIES = [
    field.name
    for field in dataclasses.fields(description_lib.Description)
    if field.name != "flags"
]
_descriptions = strategies.builds(
    description_lib.Description,
    **{name: strategies.none() | _VALUES[_kinds(name)[0]] for name in _ENTRIES},
    flags=strategies.dictionaries(
        strategies.text("xyz", min_size=1),
        strategies.booleans() | strategies.integers() | strategies.text(),
        max_size=3,
    ),
)


def test_a_description_comes_back_from_its_file(holds, tmp_path):
    path = tmp_path / "task.json"

    def claim(description):
        path.write_text(json.dumps(description.to_json(), allow_nan=False))
        values = json.loads(path.read_text())
        assert description_lib.Description.from_json(values) == description

    holds(claim, description=_descriptions)
