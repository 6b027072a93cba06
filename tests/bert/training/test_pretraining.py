import math
import re

import numpy as np
import pytest

from bert.models import comparison
from bert.models import folder as folder_lib
from bert.records import reading, schema, sidecars, tfrecords
from bert.training import options as training_options
from bert.training import pretraining
from modeling import config
from tests.support import toy_files, toy_pretraining
from vocab import tokenization

_TOKENS = ["[PAD]", "a", "b"]


def _describe(folder, vocab_file=None, do_train=True, **metadata):
    """Describes a model of records of `_TOKENS`; returns its folder."""
    if vocab_file:
        sidecars.write_metadata(
            str(folder / "records"),
            toy_pretraining.metadata_of(
                vocab_sha256=tokenization.vocab_sha256(_TOKENS),
                flags={"vocab_file": str(vocab_file)},
                **metadata,
            ),
        )
    options = training_options.PretrainingOptions(
        input_file=str(folder / "records"),
        bert_config_file="",
        output_dir=str(folder / "out"),
        do_train=True,
        objective="mlm",
        max_seq_length=10,
        max_predictions_per_seq=2,
    )
    model = folder_lib.ModelFolder.open(options.output_dir, is_folder=True)
    planned = pretraining.planned_model(
        options,
        config.BertConfig(vocab_size=3),
        sidecars.read_metadata(str(folder / "records")),
    )
    comparison.check_run(model, planned)
    if do_train:
        planned.write(model)
    return folder / "out"


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_folder_gets_the_vocabulary_of_its_records(tmp_path, caplog, line_end):
    (tmp_path / "words").write_bytes(
        "".join(f"{token}{line_end}" for token in [*_TOKENS, "a"]).encode()
    )
    folder = _describe(tmp_path, tmp_path / "words")
    assert (folder / "vocab.txt").read_text().split() == [*_TOKENS, "a"]
    assert "vocabulary" not in caplog.text


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "that of the records, .*/words, does not exist"),
        ("[PAD]\nb\na\n", "/words is no longer that of the records"),
        ("", "/words is no longer that of the records"),
    ],
)
def test_folder_without_vocabulary_is_one_warning(
    tmp_path, caplog, content, reason
):
    if content is not None:
        (tmp_path / "words").write_text(content)
    _describe(tmp_path, tmp_path / "words", do_train=False)
    assert not caplog.records
    folder = _describe(tmp_path, tmp_path / "words")
    assert not (folder / "vocab.txt").exists()
    (warning,) = (r for r in caplog.records if r.levelname == "WARNING")
    assert re.search(
        f"/out has no vocabulary, because .*{reason}. Copy .* to .*/vocab.txt",
        warning.message,
    )
    caplog.clear()
    (folder / "vocab.txt").write_text("[PAD]\na\nb\n")
    _describe(tmp_path, tmp_path / "words")
    assert not caplog.records


@pytest.mark.parametrize("do_lower_case", [True, False])
@pytest.mark.parametrize("strip_accents", [None, True, False])
def test_accents_of_records_follow_their_casing_if_nobody_says(
    tmp_path, do_lower_case, strip_accents
):
    (tmp_path / "words").write_text("[PAD]\na\nb\n")
    casing = {"do_lower_case": do_lower_case, "strip_accents": strip_accents}
    folder = _describe(tmp_path, tmp_path / "words", **casing)
    described = toy_files.read_json(folder / "task.json")
    assert described["vocab_sha256"] == tokenization.vocab_sha256(_TOKENS)
    assert described["do_lower_case"] == do_lower_case
    if strip_accents is None:
        strip_accents = do_lower_case
    assert described["strip_accents"] == strip_accents


def test_the_entropy_of_draws_is_corrected_for_their_number():
    # Miller (1955): (K - 1) / 2N more for K values in N draws.
    plain = -(0.75 * math.log(0.75) + 0.25 * math.log(0.25))
    entropy = pretraining.entropy(np.array([3, 0, 1]))
    assert entropy == pytest.approx(plain + 1 / 8)
    assert pretraining.entropy(np.array([5])) == 0.0
    assert pretraining.entropy(np.array([0])) == 0.0


def test_a_batch_must_divide_among_micro_batches(tmp_path):
    sizes = {"train_batch_size": 7, "num_accumulation_steps": 2}
    with pytest.raises(ValueError, match="got 7 and 1 times 2"):
        toy_pretraining.run(tmp_path, **sizes)


def test_baselines_count_the_predicted_words_alone(tmp_path, caplog):
    caplog.set_level("INFO")
    rows = {
        **toy_pretraining.random_examples(2),
        "masked_lm_ids": np.array([[5, 6], [5, 0]]),
        "masked_lm_weights": np.array([[1.0, 1.0], [1.0, 0.0]]),
        "next_sentence_labels": np.array([[0], [0]]),
    }
    path = toy_pretraining.write_records(tmp_path / "records", rows)
    source = reading.RecordSource(
        files=tfrecords.RecordFiles([path]),
        features=schema.pretraining_features(10, 2),
        vocab_size=31,
    )
    pretraining.log_baselines(source)
    # 5 twice and 6 once, with the correction for three draws.
    frequencies = -(2 / 3 * math.log(2 / 3) + 1 / 3 * math.log(1 / 3)) + 1 / 6
    assert (
        f"masked-LM loss {math.log(31):.2f} (uniform guess), "
        f"{frequencies:.2f} (word-piece frequencies); "
        "next-sentence accuracy 100.0% (majority class)."
    ) in caplog.text


def test_records_of_other_programs_name_no_vocabulary(tmp_path, caplog):
    _describe(tmp_path)
    assert "because no .meta.json file of the records names it" in caplog.text
