"""Writes presets of keras-hub, with their outputs.

Run where keras-hub 0.32 is installed:

  KERAS_BACKEND=tensorflow python write_keras_hub.py FOLDER
"""

import json
import pathlib
import sys

import keras_hub
import numpy as np

_VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + [
    f"w{number}" for number in range(26)
]


def _backbone():
    return keras_hub.models.BertBackbone(
        vocabulary_size=len(_VOCABULARY),
        num_layers=2,
        num_heads=3,
        hidden_dim=12,
        intermediate_dim=14,
        max_sequence_length=16,
    )


def _inputs():
    rng = np.random.default_rng(3)
    mask = np.ones((3, 7), np.int32)
    mask[1, -3:] = 0
    segments = np.zeros((3, 7), np.int32)
    segments[:, 4:] = 1
    return {
        "token_ids": rng.integers(1, len(_VOCABULARY), (3, 7)).astype("int32"),
        "padding_mask": mask,
        "segment_ids": segments,
    }


def _randomize(model):
    for number, variable in enumerate(model.trainable_variables):
        rng = np.random.default_rng(number)
        noise = rng.normal(0, 0.2, variable.shape).astype(np.float32)
        variable.assign(np.asarray(variable) + noise)


def _write(folder, name, model_class, model, outputs, num_labels=2):
    place = pathlib.Path(folder) / name
    model.save_to_preset(str(place))
    case = {"class": model_class, "num_labels": num_labels}
    (place / "case.json").write_text(json.dumps(case))
    inputs = _inputs()
    np.savez_compressed(
        place / "case.npz",
        input_ids=inputs["token_ids"],
        input_mask=inputs["padding_mask"],
        segment_ids=inputs["segment_ids"],
        **{f"out/{key}": np.asarray(value) for key, value in outputs.items()},
    )


def main(folder):
    backbone = _backbone()
    _randomize(backbone)
    outputs = backbone(_inputs())
    _write(folder, "backbone", "BertModel", backbone, outputs)

    backbone = _backbone()
    tokenizer = keras_hub.models.BertTokenizer(_VOCABULARY, lowercase=True)
    classifier = keras_hub.models.BertTextClassifier(
        backbone,
        num_classes=3,
        preprocessor=keras_hub.models.BertTextClassifierPreprocessor(
            tokenizer, sequence_length=7
        ),
    )
    _randomize(classifier)
    _write(
        folder,
        "classifier",
        "BertForSequenceClassification",
        classifier,
        {"logits": classifier(_inputs())},
        num_labels=3,
    )

    backbone = _backbone()
    masked_lm = keras_hub.models.BertMaskedLM(backbone)
    _randomize(masked_lm)
    outputs = backbone(_inputs())
    _write(folder, "masked_lm", "BertModel", masked_lm, outputs)


if __name__ == "__main__":
    main(sys.argv[1])
