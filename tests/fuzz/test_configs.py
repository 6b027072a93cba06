"""Damaged configurations, sidecars and other files of a trained model."""

import dataclasses
import json

from bert.files import json_text
from bert.records import sidecars
from modeling import config as config_lib
from modeling import huggingface_config
from tests.fuzz import mutations
from tests.support import toy_config, toy_pretraining

_CONFIG = toy_config.config()
_THEIRS = huggingface_config.from_release(
    _CONFIG.to_dict(),
    ["BertForSequenceClassification"],
    {"problem_type": "single_label", "labels": ["no", "yes"]},
    0,
)
_SIDECAR = dataclasses.asdict(
    toy_pretraining.metadata_of(flags={"dupe_factor": 2})
)
_REPORTS = (
    b'{"step": 10, "loss": 7.5, "examples_per_second": 3.5}\n'
    b'{"step": 20, "eval_loss": 7.25}\n{"step": 20, "loss": 7.0}\n'
)


def test_model_configs_hold_what_the_file_says_or_an_error(check):
    def is_right(config, content):
        values = json.loads(content)
        return repr(config.to_dict()) == repr(
            {name: values[name] for name in config.to_dict()}
        )

    check(
        config_lib.BertConfig.from_json_file,
        "bert_config.json",
        mutations.of_json(6, _CONFIG.to_dict()),
        is_right,
    )


def test_hugging_face_configs_hold_what_the_file_says_or_an_error(check):
    def read(path):
        config = config_lib.BertConfig.from_json_file(path)
        values = json_text.read_object(path)
        return config, huggingface_config.labels_of(values, path)

    def is_right(found, content):
        config, labels = found
        values = json.loads(content)
        return config.hidden_size == values["hidden_size"] and all(
            isinstance(name, str) for name in labels.get("labels", ())
        )

    check(
        read,
        "config.json",
        mutations.of_json(6, _THEIRS),
        is_right,
    )


def test_sidecars_hold_what_the_file_says_or_an_error(check):
    ending = len(".meta.json")

    def is_right(found, content):
        held = dataclasses.asdict(found)
        values = json.loads(content)
        return all(repr(held[name]) == repr(values[name]) for name in values)

    check(
        lambda path: sidecars.read_metadata(path[:-ending]),
        "x.tfrecord.meta.json",
        mutations.of_json(6, _SIDECAR),
        is_right,
    )


def test_objects_are_those_of_the_file_or_an_error(check):
    good = {"identity": {"objective": "tags", "max_seq_length": 8}, "best": 1}
    check(
        json_text.read_object,
        "state.json",
        mutations.of_json(6, good),
        lambda found, content: (
            repr(found) == repr(json.loads(content.decode("utf-8-sig")))
        ),
    )
