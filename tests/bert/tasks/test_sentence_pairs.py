"""Truncation of sentences, against the release's features and by hand."""

import dataclasses

import hypothesis
import pytest
from hypothesis import strategies as st

from bert.tasks import sentence_pairs, task
from bert.tasks.classification import class_labels, glue, text_examples
from tests.bert.tasks.classification import reading
from tests.support import locations, toy_files
from vocab import tokenization

_GOLDEN = locations.GOLDEN / "classifier"
_FEATURES = toy_files.read_json(_GOLDEN / "features.json.gz")
_TRUNCATIONS = toy_files.read_json(_GOLDEN / "truncate_seq_pair.json")
_SPLITS = {"train": task.TRAIN, "dev": task.EVAL, "test": task.PREDICT}


class _Words:
    """A tokenizer whose tokens are words, numbered as they come."""

    def __init__(self):
        self.ids = {"[CLS]": 101, "[SEP]": 102}

    def tokenize(self, text):
        return text.split()

    def convert_tokens_to_ids(self, tokens):
        return [self.ids.setdefault(t, 1 + len(self.ids)) for t in tokens]


def _read(task_name, split_name):
    info = glue.find_dataset(task_name)
    split = info.splits[_SPLITS[split_name]][0]
    folder = str(locations.INPUTS / task_name)
    examples = reading.read_split(
        info, split, folder, with_labels=split_name != "test"
    )
    return info, examples


def _truncation(length, **others):
    return sentence_pairs.Truncation(max_seq_length=length, **others)


def _words(prefix, count):
    return [f"{prefix}{i}" for i in range(count)]


# ---------------------------------------------------- The release's outputs


@pytest.mark.parametrize("task_name", _FEATURES["examples"])
@pytest.mark.parametrize("split_name", _SPLITS)
def test_examples_are_those_of_the_release(task_name, split_name):
    expected = _FEATURES["examples"][task_name][split_name]
    if isinstance(expected, str):
        # Differs: the release cannot read XNLI's test set; no file here.
        with pytest.raises(FileNotFoundError, match=r"xnli\.test\.tsv"):
            _read(task_name, split_name)
        return
    info, examples = _read(task_name, split_name)
    fields = ("text_a", "text_b", "label")  # Of the release.
    # Its guids are in its logs alone.
    assert [
        {name: getattr(example, name) for name in fields}
        for example in examples
    ] == [{name: wanted[name] for name in fields} for wanted in expected]
    labels_of_release = _FEATURES["examples"][task_name]["labels"]
    assert list(info.label_set.names) == labels_of_release


@pytest.mark.parametrize("name", _FEATURES["features"])
def test_features_are_those_of_the_release(name):
    task_name, split_name, length, casing = name.split("/")
    lower = casing == "lower"
    vocab = "vocab.txt" if lower else "vocab_cased.txt"
    tokenizer = tokenization.FullTokenizer(
        str(locations.INPUTS / vocab), do_lower_case=lower
    )
    info, examples = _read(task_name, split_name)
    truncation = _truncation(int(length.removeprefix("seq")))
    converted = text_examples.records(
        examples, info.label_set, truncation, tokenizer, name
    )
    rows = [row for rows in converted for row in rows]
    expected = _FEATURES["features"][name]
    assert len(rows) == len(expected)
    for row, wanted in zip(rows, expected, strict=True):
        (label_id,) = row.pop("label_ids")
        assert row.pop("is_real_example") == [1] == [wanted["is_real_example"]]
        assert {**row, "label_id": label_id, "is_real_example": True} == wanted


@pytest.mark.parametrize("case", _TRUNCATIONS)
def test_pair_truncation_is_that_of_the_release(case):
    lengths = sentence_pairs.truncated_lengths(
        case["len_a"], case["len_b"], case["max_length"]
    )
    assert _words("a", lengths[0]) == case["a"]
    assert _words("b", lengths[1]) == case["b"]


# ------------------------------------------------------------------ By hand


def test_pair_whose_second_text_is_cut_away_is_a_single_sentence():
    fitted = sentence_pairs.fit(["x"], ["y"], _truncation(4))
    assert fitted == [(["x"], [])]


@pytest.mark.parametrize("length", [1, 126])
def test_text_that_fits_is_the_same_under_every_rule(length):
    tokens = _words("t", length)
    for rule in sentence_pairs.LONG_TEXT:
        truncation = _truncation(128, long_text=rule)
        assert sentence_pairs.fit(tokens, [], truncation) == [(tokens, [])]


def test_head_tail_keeps_128_first_and_382_last_of_510():
    tokens = _words("t", 1000)
    truncation = _truncation(512, long_text=sentence_pairs.HEAD_TAIL)
    ((kept, _),) = sentence_pairs.fit(tokens, [], truncation)
    assert kept == tokens[:128] + tokens[-382:]


def test_windows_move_over_the_longer_text_beside_the_shorter():
    truncation = _truncation(10, long_text=sentence_pairs.WINDOWS)
    short, long = _words("s", 2), _words("l", 9)
    fitted = sentence_pairs.fit(short, long, truncation)
    assert fitted == [
        (short, long[0:5]),
        (short, long[2:7]),
        (short, long[4:9]),
    ]
    assert sentence_pairs.fit(long, short, truncation) == [
        (part_b, part_a) for part_a, part_b in fitted
    ]


@hypothesis.given(
    st.integers(0, 60),
    st.integers(0, 60),
    st.integers(4, 40),
)
def test_windows_fit_and_lose_no_token_of_the_longer_text(len_a, len_b, length):
    truncation = _truncation(length, long_text=sentence_pairs.WINDOWS)
    tokens = {"a": _words("a", len_a), "b": _words("b", len_b)}
    fitted = sentence_pairs.fit(tokens["a"], tokens["b"], truncation)
    for part_a, part_b in fitted:
        assert len(sentence_pairs.join(part_a, part_b)[0]) <= length
    read = {token for pair in fitted for part in pair for token in part}
    longer = "a" if len_a > len_b else "b"
    assert set(tokens[longer]) <= read
    if len_a + len_b <= length - 3:
        assert fitted == [(tokens["a"], tokens["b"])]


@hypothesis.given(
    st.integers(0, 40),
    st.integers(0, 40),
    st.integers(4, 30),
    st.sampled_from(sentence_pairs.LONG_TEXT),
)
def test_pieces_in_no_sequence_are_counted_as_dropped(
    len_a, len_b, length, long_text
):
    truncation = _truncation(length, long_text=long_text)
    pair = (_words("a", len_a), _words("b", len_b))
    counts = sentence_pairs.TruncationCounts()
    sentence_pairs.encode([pair], truncation, _Words(), counts)
    fitted = sentence_pairs.fit(*pair, truncation)
    read = {token for parts in fitted for part in parts for token in part}
    assert counts.num_pieces == len_a + len_b
    assert counts.num_dropped == len_a + len_b - len(read)
    assert counts.num_cut == (counts.num_dropped > 0)


def test_each_window_carries_the_label_of_its_text():
    examples = [
        text_examples.InputExample(text_a="a b c d", label="no"),
        text_examples.InputExample(text_a="a", label="yes"),
    ]
    truncation = _truncation(4, long_text=sentence_pairs.WINDOWS)
    rows = list(
        text_examples.records(
            examples,
            class_labels.LabelSet(names=("no", "yes")),
            truncation,
            _Words(),
            "train.tsv",
        )
    )
    assert [[row["label_ids"] for row in group] for group in rows] == [
        [[0], [0], [0]],
        [[1]],
    ]
    first = rows[0][0]["input_ids"][1]
    assert rows[1][0]["input_ids"] == [101, first, 102, 0]


@pytest.mark.parametrize("long_text", sentence_pairs.LONG_TEXT)
def test_cut_texts_are_counted_with_what_they_lose(caplog, long_text):
    examples = [
        text_examples.InputExample(text_a=text_a, text_b=text_b)
        for text_a, text_b in (
            ("a b", None),
            ("a b c d e f", None),
            ("a b c", "d"),
        )
    ]
    rows = text_examples.records(
        [dataclasses.replace(example, label="no") for example in examples],
        class_labels.LabelSet(names=("no", "yes")),
        _truncation(6, long_text=long_text),
        _Words(),
        "dev.tsv",
    )
    assert len(list(rows)) == 3
    if long_text == sentence_pairs.WINDOWS:
        assert not caplog.text
        return
    # Of 2, 6 and 4 pieces, 4 and 3 are kept.
    assert caplog.messages == [
        "dev.tsv: 2 of 3 examples are longer than 6 word pieces and are cut: 3 "
        "of 12 pieces (25.0%) are dropped. See --max_seq_length and --long_text"
    ]


def test_more_padding_changes_nothing_before_it():
    tokenizer = _Words()
    (short,), (long,) = (
        sentence_pairs.encode([(["u", "v"], ["w"])], _truncation(n), tokenizer)
        for n in (7, 11)
    )
    for name in ("input_ids", "input_mask", "segment_ids"):
        assert long[name] == short[name] + [0] * 4


@pytest.mark.parametrize(
    ("problem_type", "label", "expected"),
    [
        ("single_label", "z", [2]),
        ("regression", 1.5, [1.5]),
        ("multi_label", ("y", "z"), [0.0, 1.0, 1.0]),
    ],
)
def test_record_has_the_names_of_the_release(problem_type, label, expected):
    names = () if problem_type == "regression" else ("x", "y", "z")
    label_set = class_labels.LabelSet(problem_type=problem_type, names=names)
    example = text_examples.InputExample(text_a="u", label=label)
    ((record,),) = text_examples.records(
        [example], label_set, _truncation(4), _Words(), "train.tsv"
    )
    assert record == {
        "input_ids": [101, 3, 102, 0],
        "input_mask": [1, 1, 1, 0],
        "segment_ids": [0, 0, 0, 0],
        "label_ids": expected,
        "is_real_example": [1],
    }


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"max_seq_length": 2}, "max_seq_length must be at least 3.*got 2"),
        (
            {"max_seq_length": 3, "long_text": "windows"},
            "max_seq_length must be at least 4.*got 3",
        ),
    ],
)
def test_truncation_refuses_values_out_of_range(values, message):
    with pytest.raises(ValueError, match=message):
        sentence_pairs.Truncation(**values)


@pytest.mark.parametrize(
    ("line", "texts"),
    [
        ("one", ("one", "")),
        ("a ||| b", ("a", "b")),
        ("  a ||| b \t", ("a", "b")),
        ("a ||| b ||| c", ("a ||| b", "c")),
        ("a ||| ||| c", ("a |||", "c")),
        ("a|||b", ("a|||b", "")),
        ("a ||| ", ("a |||", "")),
        (" ||| b", ("||| b", "")),
        ("a  |||  b", ("a ", " b")),
        ("a\t|||\tb", ("a\t|||\tb", "")),
        ("", ("", "")),
    ],
)
def test_last_separator_between_spaces_parts_a_line(line, texts):
    assert sentence_pairs.split_pair(line) == texts


def test_a_text_may_fill_a_sequence_but_not_exceed_it():
    tokens, segment_ids = sentence_pairs.tokenize_pair(
        " a b ||| c\n", str.split, 6
    )
    assert tokens == ["[CLS]", "a", "b", "[SEP]", "c", "[SEP]"]
    assert segment_ids == [0, 0, 0, 0, 1, 1]
    with pytest.raises(ValueError, match=r"at most 5 word pieces .* got 6: "):
        sentence_pairs.tokenize_pair("a b ||| c", str.split, 5)
