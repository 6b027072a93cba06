"""Writes presets of keras-hub, with their outputs.

Run where keras-hub 0.32 is installed:

  KERAS_BACKEND=tensorflow python -m tests.foreign.write_keras_hub FOLDER
"""

import pathlib
import sys

import keras_hub
import numpy as np

from tests.foreign import cases

_VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + [
    f"w{number}" for number in range(26)
]


_NAMES = {
    "input_ids": "token_ids",
    "input_mask": "padding_mask",
    "segment_ids": "segment_ids",
}


def _backbone():
    return keras_hub.models.BertBackbone(
        vocabulary_size=len(_VOCABULARY),
        num_layers=cases.SIZES["num_hidden_layers"],
        num_heads=cases.SIZES["num_attention_heads"],
        hidden_dim=cases.SIZES["hidden_size"],
        intermediate_dim=cases.SIZES["intermediate_size"],
        max_sequence_length=cases.SIZES["max_position_embeddings"],
    )


def _inputs():
    return {_NAMES[k]: v for k, v in cases.inputs().items()}


def _randomize(model):
    for number, variable in enumerate(model.trainable_variables):
        noise = cases.noise(number, variable.shape)
        variable.assign(np.asarray(variable) + noise)


def _write(folder, name, model_class, model, outputs, num_labels=2):
    place = pathlib.Path(folder) / name
    model.save_to_preset(str(place))
    cases.write(place, model_class, cases.inputs(), outputs, num_labels)


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
