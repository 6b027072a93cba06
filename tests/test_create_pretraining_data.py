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
from tests.support import (
    golden_models,
    locations,
    programs,
    toy_files,
    toy_vocabulary,
)
from vocab import tokenization

_CASES = toy_files.read_json(locations.GOLDEN / "pretraining/cases.json")
_TEXT = "the players began .\nthe match was long .\n\nrain .\nmore rain .\n"


def _options(**values):
    return programs.parse(create_pretraining_data.Options, **values)


@pytest.fixture(autouse=True)
def _text(tmp_path):
    (tmp_path / "text.txt").write_text(_TEXT, encoding="utf-8")


def _run(folder, **values):
    """Makes the records `x` of the text; returns what their sidecar says."""
    named = {
        "input_file": folder / "text.txt",
        "output_file": folder / "x",
        "vocab_file": locations.VOCAB_FILE,
        **values,
    }
    create_pretraining_data.run(_options(**named))
    return sidecars.read_metadata(str(folder / "x"))


def _read(path, features):
    """Returns the stored records of a file, and their arrays by name."""
    files = tfrecords.RecordFiles([str(path)])
    stored = files.read(range(len(files)))
    return stored, reading.parse(tf.constant(stored), features)


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
    _run(tmp_path, input_file=inputs, output_file=",".join(output), **values)
    length = values["max_seq_length"]
    predictions = values["max_predictions_per_seq"]
    for number, path in enumerate(output):
        stored, parsed = _read(
            path, schema.pretraining_features(length, predictions)
        )
        assert len(stored) == expected["records"][number]
        digest = hashlib.sha256(b"".join(map(_hash, stored))).hexdigest()
        assert digest == expected["sha256_of_records"][number]
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
    assert toy_files.names(tmp_path / "out") == {
        f"{number}{end}"
        for number in range(num_files)
        for end in ("", ".meta.json")
    }


def test_sidecar_has_the_vocabulary_and_the_flags_as_values(tmp_path):
    names = [str(tmp_path / name) for name in ("x", "y")]
    metadata = _run(tmp_path, output_file=", ".join(names))
    content = pathlib.Path(locations.VOCAB_FILE).read_bytes()
    assert metadata.vocab_size == 1200
    assert metadata.vocab_sha256 == hashlib.sha256(content).hexdigest()
    assert metadata.flags["output_file"] == names
    assert metadata.flags["masking"] == [80, 10, 10]
    assert not {"dynamic_masking", "mask_id"} & metadata.flags.keys()


def test_the_log_has_the_share_of_random_next_sentences(tmp_path, caplog):
    caplog.set_level("INFO")
    text = locations.INPUTS / "text_a.txt"
    _run(
        tmp_path, input_file=text, max_seq_length=32, max_predictions_per_seq=5
    )
    stored, parsed = _read(tmp_path / "x", schema.pretraining_features(32, 5))
    share = 100 * parsed["next_sentence_labels"].numpy().mean()
    message = f"Created {len(stored)} instances, {share:.1f} % with a random"
    assert message in caplog.text


# As released, random replacements are drawn from all lines, so the model needs
# an embedding for each, unlike for reading text.
@pytest.mark.parametrize("place", [-2, None])
def test_a_repeated_line_of_the_vocabulary_has_an_embedding(tmp_path, place):
    lines = toy_files.read_lines(locations.VOCAB_FILE)
    # The same for a blank line.
    lines.append(lines[place] if place else "")
    vocab = toy_files.write_lines(tmp_path / "vocab.txt", lines)
    assert _run(tmp_path, vocab_file=vocab).vocab_size == 1201


@pytest.mark.parametrize("token", ["[UNK]", "[CLS]", "[SEP]", "[MASK]"])
def test_the_vocabulary_has_all_special_tokens(tmp_path, token):
    entries = pathlib.Path(locations.VOCAB_FILE).read_text("utf-8")
    path = toy_files.write(tmp_path / "vocab.txt", entries.replace(token, "x"))
    with pytest.raises(ValueError, match=re.escape(token)):
        _run(tmp_path, vocab_file=path)


def test_the_vocabulary_may_be_that_of_a_model(tmp_path):
    model = golden_models.bert(tmp_path / "model", do_lower_case=False)
    metadata = _run(tmp_path, vocab_file=model)
    assert metadata.vocab_size == 1200
    assert metadata.do_lower_case is False


def test_markup_read_as_sentences_is_a_warning(tmp_path, caplog):
    _run(tmp_path)
    assert "Pass --input_format" not in caplog.text
    (tmp_path / "text.txt").write_text('{"text": "rain ."}\n')
    _run(tmp_path)
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


def test_pairs_that_are_masked_in_training_are_made_once_by_default():
    named = dict.fromkeys(("input_file", "output_file", "vocab_file"), "x")
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
        ("a b c d .\n", {}, "The corpus is one document"),
        (
            _TEXT,
            {"max_predictions_per_seq": 18},
            "max_predictions_per_seq=18 is too small",
        ),
        (_TEXT, {"do_lower_case": False}, "_case is False, but no entry"),
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
    (tmp_path / "text.txt").write_text(content, encoding="utf-8")
    _run(tmp_path, **values)
    assert message in caplog.text


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "at least one sentence; got none in .*text.txt"),
        (b" \n\t\n", "at least one sentence; got none in .*text.txt"),
        (b"good\nb\xe9te\n", "text.txt, line 2: not UTF-8"),
    ],
)
def test_unusable_text_is_named(tmp_path, content, message):
    (tmp_path / "text.txt").write_bytes(content)
    with pytest.raises(ValueError, match=message):
        _run(tmp_path)
    assert toy_files.names(tmp_path) == {"text.txt"}
    # Earlier records stay.
    (tmp_path / "x").write_bytes(b"records")
    with pytest.raises(ValueError, match=message):
        _run(tmp_path)
    assert (tmp_path / "x").read_bytes() == b"records"


_UNMASKED = {
    "max_seq_length": 16,
    "max_predictions_per_seq": 3,
    "dynamic_masking": True,
}


@pytest.mark.parametrize("do_whole_word_mask", [False, True])
def test_pairs_to_be_masked_in_training_are_written_as_they_are(
    tmp_path, do_whole_word_mask
):
    words = {"do_whole_word_mask": do_whole_word_mask}
    metadata = _run(tmp_path, **words, **_UNMASKED)
    features = schema.unmasked_features(16, **words)
    stored, parsed = _read(tmp_path / "x", features)
    names = {feature.name for feature in features}
    assert set(tf.train.Example.FromString(stored[0]).features.feature) == names
    vocab = tokenization.FullTokenizer(locations.VOCAB_FILE).vocab
    assert not np.any(parsed["input_ids"] == vocab["[MASK]"])
    if do_whole_word_mask:
        tokens = np.array(list(vocab))[parsed["input_ids"]]
        starts = ~np.char.startswith(tokens, "##") * parsed["input_mask"]
        np.testing.assert_array_equal(parsed["word_starts"], starts)
        assert 0 in starts[parsed["input_mask"].numpy() > 0]
    assert metadata.max_predictions_per_seq == 3
    assert metadata.flags["dynamic_masking"] is True
    assert metadata.flags["dupe_factor"] == 1
    assert metadata.flags["mask_id"] == vocab["[MASK]"]
    assert len(stored) <= 4


def test_unmasked_pairs_may_be_made_several_times(tmp_path):
    text = locations.INPUTS / "text_a.txt"
    once, thrice = [], []
    for made, count in ((once, 1), (thrice, 3)):
        _run(tmp_path, input_file=text, dupe_factor=count, **_UNMASKED)
        files = tfrecords.RecordFiles([str(tmp_path / "x")])
        made.extend(files.read(range(len(files))))
    assert 2.5 * len(once) < len(thrice) < 3.5 * len(once)
    assert len(set(thrice)) > 2 * len(once)


def test_padding_is_id_0_whatever_stands_there(tmp_path):
    # In this vocabulary [PAD] has id 2.
    _run(tmp_path)
    _, parsed = _read(tmp_path / "x", schema.pretraining_features(128, 20))
    length = int(np.sum(parsed["input_mask"][0]))
    assert length < 128
    assert not np.any(parsed["input_ids"][0, length:])


@pytest.mark.parametrize(
    ("strip_accents", "token"), [(None, "cafe"), (False, "caf\xe9")]
)
def test_accents_are_kept_in_records_if_wanted(tmp_path, strip_accents, token):
    entries = [*toy_vocabulary.SPECIAL, "cafe", "caf\xe9"]
    toy_files.write_lines(tmp_path / "vocab", entries)
    toy_files.write_lines(tmp_path / "text.txt", ["Caf\xe9"] * 2)
    metadata = _run(
        tmp_path,
        vocab_file=tmp_path / "vocab",
        strip_accents=strip_accents,
        **_UNMASKED,
    )
    _, parsed = _read(
        tmp_path / "x", schema.unmasked_features(16, do_whole_word_mask=False)
    )
    shown = {entries[i] for i in parsed["input_ids"].numpy().ravel()}
    assert shown - {*entries[:5]} == {token}
    assert metadata.strip_accents is (strip_accents is None)


def test_the_program_runs_without_tensorflow_and_logs(tmp_path):
    (tmp_path / "tensorflow.py").write_text("raise RuntimeError")
    done = programs.python(
        "create_pretraining_data.py",
        f"--input_file={tmp_path}/text.txt",
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
