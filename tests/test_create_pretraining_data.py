"""create_pretraining_data.py from flags to files."""

import hashlib
import json
import os
import pathlib
import re

import numpy as np
import pytest
import tensorflow as tf

import create_pretraining_data
from bert.records import reading, schema, sidecars, tfrecords
from tests.support import locations, programs, toy_files, toy_vocabulary
from vocab import tokenization

_CASES = toy_files.read_json(locations.GOLDEN / "pretraining/cases.json")
_TEXT = "the players began .\nthe match was long .\n\nrain .\nmore rain .\n"


def _options(**values):
    return programs.parse(create_pretraining_data.Options, **values)


def _run(**values):
    create_pretraining_data.run(_options(**values))


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text(_TEXT, encoding="utf-8")
    return str(path)


def _hash(record):
    """Hashes one stored record as tests/golden/README.md says."""
    feature = tf.train.Example.FromString(record).features.feature
    values = {
        name: list(
            value.int64_list.value
            if value.HasField("int64_list")
            else value.float_list.value
        )
        for name, value in feature.items()
    }
    line = json.dumps(values, sort_keys=True, separators=(",", ":")) + "\n"
    return line.encode()


@pytest.mark.parametrize("case", sorted(_CASES))
def test_records_are_the_release_s(tmp_path, case):
    expected = _CASES[case]
    values = dict(expected["flags"])
    inputs = ",".join(
        str(locations.GOLDEN / path) for path in values.pop("input_file")
    )
    values["vocab_file"] = str(locations.GOLDEN / values["vocab_file"])
    num_files = len(expected["records"])
    output = [str(tmp_path / f"out/{number}") for number in range(num_files)]
    _run(input_file=inputs, output_file=",".join(output), **values)
    length = values["max_seq_length"]
    predictions = values["max_predictions_per_seq"]
    for number, path in enumerate(output):
        files = tfrecords.RecordFiles([path])
        stored = files.read(range(len(files)))
        assert len(stored) == expected["records"][number]
        digest = hashlib.sha256(b"".join(map(_hash, stored))).hexdigest()
        assert digest == expected["sha256_of_records"][number]
        parsed = reading.parse(
            tf.constant(stored),
            schema.pretraining_features(length, predictions),
        )
        with np.load(locations.GOLDEN / f"pretraining/{case}.npz") as arrays:
            prefix = f"file{number}/" if num_files > 1 else ""
            for name, value in parsed.items():
                np.testing.assert_array_equal(value, arrays[prefix + name])
        metadata = sidecars.read_metadata(path)
        assert metadata.kind == "pretraining"
        assert metadata.max_seq_length == length
        assert metadata.max_predictions_per_seq == predictions
        assert metadata.do_lower_case == values["do_lower_case"]
        assert metadata.num_records == len(stored)
        assert metadata.flags["random_seed"] == values["random_seed"]
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names == {
        name
        for number in range(num_files)
        for name in (f"{number}", f"{number}.meta.json")
    }


def test_sidecar_has_the_vocabulary_and_the_flags_as_values(tmp_path, text):
    names = [str(tmp_path / name) for name in "ab"]
    _run(
        input_file=text,
        output_file=f"{names[0]}, {names[1]}",
        vocab_file=locations.VOCAB_FILE,
    )
    metadata = sidecars.read_metadata(names[0])
    content = pathlib.Path(locations.VOCAB_FILE).read_bytes()
    assert metadata.vocab_size == 1200
    assert metadata.vocab_sha256 == hashlib.sha256(content).hexdigest()
    assert metadata.flags["output_file"] == names
    assert metadata.flags["masking"] == [80, 10, 10]
    assert not {"dynamic_masking", "mask_id"} & metadata.flags.keys()


def test_the_log_has_the_share_of_random_next_sentences(tmp_path, caplog):
    caplog.set_level("INFO")
    _run(
        input_file=locations.INPUTS / "text_a.txt",
        output_file=tmp_path / "x",
        vocab_file=locations.VOCAB_FILE,
        max_seq_length=32,
        max_predictions_per_seq=5,
    )
    files = tfrecords.RecordFiles([str(tmp_path / "x")])
    parsed = reading.parse(
        tf.constant(files.read(range(len(files)))),
        schema.pretraining_features(32, 5),
    )
    share = 100 * parsed["next_sentence_labels"].numpy().mean()
    assert (
        f"Created {len(files)} instances, {share:.1f} % with a random next"
        in caplog.text
    )


# As released, random replacements are drawn from all lines, so the model needs
# an embedding for each, unlike for reading text.
@pytest.mark.parametrize("place", [-2, None])
def test_a_repeated_line_of_the_vocabulary_has_an_embedding(
    tmp_path, text, place
):
    lines = toy_files.read_lines(locations.VOCAB_FILE)
    # The same for a blank line.
    lines.append(lines[place] if place else "")
    vocab = toy_files.write_lines(tmp_path / "vocab.txt", lines)
    _run(input_file=text, output_file=tmp_path / "x", vocab_file=vocab)
    assert sidecars.read_metadata(str(tmp_path / "x")).vocab_size == 1201


@pytest.mark.parametrize("token", ["[UNK]", "[CLS]", "[SEP]", "[MASK]"])
def test_the_vocabulary_has_all_special_tokens(tmp_path, text, token):
    entries = pathlib.Path(locations.VOCAB_FILE).read_text("utf-8")
    (tmp_path / "vocab.txt").write_text(entries.replace(token, "x"), "utf-8")
    with pytest.raises(ValueError, match=re.escape(token)):
        _run(
            input_file=text,
            output_file=tmp_path / "x",
            vocab_file=tmp_path / "vocab.txt",
        )


def test_the_vocabulary_may_be_that_of_a_model(tmp_path, text):
    model = tmp_path / "model"
    model.mkdir()
    (model / "vocab.txt").write_bytes(
        pathlib.Path(locations.VOCAB_FILE).read_bytes()
    )
    (model / "task.json").write_text('{"do_lower_case": false}')
    _run(input_file=text, output_file=tmp_path / "x", vocab_file=model)
    metadata = sidecars.read_metadata(str(tmp_path / "x"))
    assert metadata.vocab_size == 1200
    assert metadata.do_lower_case is False


def test_markup_read_as_sentences_is_a_warning(tmp_path, text, caplog):
    _run(
        input_file=text,
        output_file=tmp_path / "x",
        vocab_file=locations.VOCAB_FILE,
    )
    assert "Pass --input_format" not in caplog.text
    (tmp_path / "text.txt").write_text('{"text": "rain ."}\n')
    _run(
        input_file=text,
        output_file=tmp_path / "x",
        vocab_file=locations.VOCAB_FILE,
    )
    assert "Pass --input_format=jsonl." in caplog.text


# Flags that the release does not have; all are off.
_NEW_FLAGS = {
    "masking": "80,10,10",
    "dynamic_masking": False,
    "input_format": "text",
    "language": "en",
    "text_field": "text",
    "min_paragraph_words": None,
    "shard_documents": 0,
    "num_workers": 0,
    "runner": None,
}


def test_pairs_that_are_masked_in_training_are_made_once_by_default(text):
    named = {
        "input_file": text,
        "output_file": "x",
        "vocab_file": locations.VOCAB_FILE,
    }
    for masks, factor in ((False, 10), (True, 1)):
        options = _options(**named, dynamic_masking=masks)
        assert options.dupe_factor == factor
        options = _options(**named, dynamic_masking=masks, dupe_factor=3)
        assert options.dupe_factor == 3


def test_flags_and_defaults_are_the_release_s():
    defined = programs.defined(create_pretraining_data.Options)
    defaults = {name: defined[name].default for name in defined}
    assert defaults == _NEW_FLAGS | {
        "input_file": None,
        "output_file": None,
        "vocab_file": None,
        "do_lower_case": True,
        "strip_accents": None,
        "do_whole_word_mask": False,
        "max_seq_length": 128,
        "max_predictions_per_seq": 20,
        "random_seed": 12345,
        "dupe_factor": 10,
        "masked_lm_prob": 0.15,
        "short_seq_prob": 0.1,
    }


@pytest.mark.parametrize(
    ("content", "values", "message"),
    [
        (
            "a b c d .\n",
            {},
            "The corpus is one document",
        ),
        (
            _TEXT,
            {"max_predictions_per_seq": 18},
            "max_predictions_per_seq=18 is too small",
        ),
        (
            _TEXT,
            {"do_lower_case": False},
            "_case is False, but no entry",
        ),
        (
            _TEXT,
            {"vocab_file": locations.INPUTS / "vocab_cased.txt"},
            "do_lower_case is True, but entries of the vocabulary",
        ),
    ],
)
def test_doubtful_input_is_warned_of(
    tmp_path, caplog, content, values, message
):
    path = tmp_path / "text"
    path.write_text(content, encoding="utf-8")
    values = {"vocab_file": locations.VOCAB_FILE} | values
    _run(input_file=path, output_file=tmp_path / "out", **values)
    assert message in caplog.text


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "at least one sentence; got none in .*bad"),
        (b" \n\t\n", "at least one sentence; got none in .*bad"),
        (b"good\nb\xe9te\n", "bad, line 2: not UTF-8"),
    ],
)
def test_unusable_text_is_named(tmp_path, content, message):
    path = tmp_path / "bad"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message):
        _run(
            input_file=path,
            output_file=tmp_path / "o",
            vocab_file=locations.VOCAB_FILE,
        )
    assert [left.name for left in tmp_path.iterdir()] == ["bad"]


@pytest.mark.parametrize("do_whole_word_mask", [False, True])
def test_pairs_to_be_masked_in_training_are_written_as_they_are(
    tmp_path, text, do_whole_word_mask
):
    _run(
        input_file=text,
        output_file=tmp_path / "x",
        vocab_file=locations.VOCAB_FILE,
        max_seq_length=16,
        max_predictions_per_seq=3,
        do_whole_word_mask=do_whole_word_mask,
        dynamic_masking=True,
    )
    features = schema.unmasked_features(
        16, do_whole_word_mask=do_whole_word_mask
    )
    files = tfrecords.RecordFiles([str(tmp_path / "x")])
    stored = files.read(range(len(files)))
    names = {feature.name for feature in features}
    assert set(tf.train.Example.FromString(stored[0]).features.feature) == names
    parsed = reading.parse(tf.constant(stored), features)
    vocab = tokenization.FullTokenizer(locations.VOCAB_FILE).vocab
    assert not np.any(parsed["input_ids"] == vocab["[MASK]"])
    if do_whole_word_mask:
        tokens = np.array(list(vocab))[parsed["input_ids"]]
        starts = ~np.char.startswith(tokens, "##") * parsed["input_mask"]
        np.testing.assert_array_equal(parsed["word_starts"], starts)
        assert 0 in starts[parsed["input_mask"].numpy() > 0]
    metadata = sidecars.read_metadata(str(tmp_path / "x"))
    assert metadata.max_predictions_per_seq == 3
    assert metadata.flags["dynamic_masking"] is True
    assert metadata.flags["dupe_factor"] == 1
    assert metadata.flags["mask_id"] == vocab["[MASK]"]
    assert len(files) <= 4


def test_unmasked_pairs_may_be_made_several_times(tmp_path):
    text = locations.INPUTS / "text_a.txt"
    for name, count in (("a", 1), ("b", 3)):
        _run(
            input_file=text,
            output_file=tmp_path / name,
            vocab_file=locations.VOCAB_FILE,
            max_seq_length=16,
            max_predictions_per_seq=3,
            dynamic_masking=True,
            dupe_factor=count,
        )
    once, thrice = (
        tfrecords.RecordFiles([str(tmp_path / name)]) for name in "ab"
    )
    assert 2.5 * len(once) < len(thrice) < 3.5 * len(once)
    different = set(thrice.read(range(len(thrice))))
    assert len(different) > 2 * len(once)


def test_padding_is_id_0_whatever_stands_there(tmp_path, text):
    # In this vocabulary [PAD] has id 2.
    _run(
        input_file=text,
        output_file=tmp_path / "x",
        vocab_file=locations.VOCAB_FILE,
    )
    stored = tfrecords.RecordFiles([str(tmp_path / "x")]).read([0])
    parsed = reading.parse(
        tf.constant(stored), schema.pretraining_features(128, 20)
    )
    length = int(np.sum(parsed["input_mask"]))
    assert length < 128
    assert not np.any(parsed["input_ids"][0, length:])


@pytest.mark.parametrize(
    ("strip_accents", "token"), [(None, "cafe"), (False, "caf\xe9")]
)
def test_accents_are_kept_in_records_if_wanted(tmp_path, strip_accents, token):
    entries = [*toy_vocabulary.SPECIAL, "cafe", "caf\xe9"]
    (tmp_path / "vocab").write_text("\n".join(entries), encoding="utf-8")
    (tmp_path / "text").write_text("Caf\xe9\nCaf\xe9\n", encoding="utf-8")
    _run(
        input_file=tmp_path / "text",
        output_file=tmp_path / "x",
        vocab_file=tmp_path / "vocab",
        max_seq_length=16,
        max_predictions_per_seq=3,
        dynamic_masking=True,
        strip_accents=strip_accents,
    )
    files = tfrecords.RecordFiles([str(tmp_path / "x")])
    features = schema.unmasked_features(16, do_whole_word_mask=False)
    parsed = reading.parse(tf.constant(files.read([0])), features)
    shown = {entries[i] for i in parsed["input_ids"].numpy().ravel()}
    assert shown - {*entries[:5]} == {token}
    metadata = sidecars.read_metadata(str(tmp_path / "x"))
    assert metadata.strip_accents is (strip_accents is None)


def test_the_program_runs_without_tensorflow_and_logs(tmp_path, text):
    (tmp_path / "tensorflow.py").write_text("raise RuntimeError")
    done = programs.python(
        "create_pretraining_data.py",
        f"--input_file={text}",
        f"--output_file={tmp_path}/new/a,{tmp_path}/new/b",
        f"--vocab_file={locations.VOCAB_FILE}",
        "--max_seq_length=16",
        "--max_predictions_per_seq=3",
        "--dupe_factor=30",
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
    )
    assert done.returncode == 0, done.stderr
    assert "Read 1 files: 2 documents, 4 sentences." in done.stderr
    files = [tfrecords.RecordFiles([f"{tmp_path}/new/{n}"]) for n in "ab"]
    count = len(files[0]) + len(files[1])
    assert f"Created {count} instances" in done.stderr
    for name, file in zip("ab", files, strict=True):
        assert f"Wrote {len(file)} records to {tmp_path}/new/{name}" in (
            done.stderr
        )
