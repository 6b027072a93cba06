"""Writes checkpoints of the TensorFlow Model Garden, with their outputs.

Run where tf-models-official 2.20 is installed:

  TF_USE_LEGACY_KERAS=1 python -m tests.foreign.write_model_garden FOLDER
"""

import json
import pathlib
import sys

import tensorflow as tf
from official.modeling import tf_utils
from official.nlp.modeling import layers, models, networks

from tests.foreign import cases

_CONFIG = {
    **cases.SIZES,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1,
    "initializer_range": 0.02,
}
_NAMES = {
    "input_ids": "input_word_ids",
    "input_mask": "input_mask",
    "segment_ids": "input_type_ids",
}


def _sizes(inner):
    return {
        "vocab_size": _CONFIG["vocab_size"],
        "hidden_size": _CONFIG["hidden_size"],
        "num_layers": _CONFIG["num_hidden_layers"],
        "num_attention_heads": _CONFIG["num_attention_heads"],
        "max_sequence_length": _CONFIG["max_position_embeddings"],
        "type_vocab_size": _CONFIG["type_vocab_size"],
        inner: _CONFIG["intermediate_size"],
    }


def _encoder():
    return networks.BertEncoderV2(**_sizes("inner_dim"))


def _inputs():
    return {_NAMES[k]: tf.constant(v) for k, v in cases.inputs().items()}


def _randomize(model):
    for number, variable in enumerate(model.variables):
        variable.assign_add(cases.noise(number, variable.shape))


def _write(folder, name, model_class, items, outputs, num_labels=2):
    place = pathlib.Path(folder) / name
    place.mkdir(parents=True)
    tf.train.Checkpoint(**items).write(str(place / "bert_model.ckpt"))
    (place / "bert_config.json").write_text(json.dumps(_CONFIG))
    cases.write(place, model_class, cases.inputs(), outputs, num_labels)


def _encoder_outputs(encoder):
    outputs = encoder(_inputs())
    return {
        "sequence_output": outputs["sequence_output"],
        "pooled_output": outputs["pooled_output"],
    }


def main(folder):
    encoder = _encoder()
    encoder(_inputs())
    _randomize(encoder)
    _write(
        folder,
        "encoder",
        "BertModel",
        {"encoder": encoder},
        _encoder_outputs(encoder),
    )

    old = networks.BertEncoder(**_sizes("intermediate_size"), dict_outputs=True)
    _randomize(old)
    _write(
        folder,
        "functional_encoder",
        "BertModel",
        {"model": old},
        _encoder_outputs(old),
    )

    encoder = _encoder()
    pretrainer = models.BertPretrainerV2(
        encoder,
        mlm_activation=tf_utils.get_activation("gelu"),
        classification_heads=[
            layers.ClassificationHead(
                inner_dim=_CONFIG["hidden_size"],
                num_classes=2,
                name="next_sentence",
            )
        ],
    )
    inputs = {**_inputs(), "masked_lm_positions": tf.constant(cases.POSITIONS)}
    pretrainer(inputs)
    _randomize(pretrainer)
    outputs = pretrainer(inputs)
    optimizer = tf.keras.optimizers.Adam()
    optimizer.build(pretrainer.trainable_variables)
    _write(
        folder,
        "pretrainer",
        "BertForPreTraining",
        {
            "model": pretrainer,
            "optimizer": optimizer,
            "global_step": optimizer.iterations,
        },
        {
            "masked_lm_logits": outputs["mlm_logits"],
            "next_sentence_logits": outputs["next_sentence"],
        },
    )

    classifier = models.BertClassifier(_encoder(), num_classes=3)
    _randomize(classifier)
    _write(
        folder,
        "classifier",
        "BertForSequenceClassification",
        {"model": classifier},
        {"logits": classifier(_inputs())},
        num_labels=3,
    )

    labeler = models.BertSpanLabeler(_encoder())
    _randomize(labeler)
    start, end = labeler(_inputs())
    _write(
        folder,
        "span_labeler",
        "BertForQuestionAnswering",
        {"model": labeler},
        {"start_logits": start, "end_logits": end},
    )

    tagger = models.BertTokenClassifier(_encoder(), num_classes=5)
    _randomize(tagger)
    _write(
        folder,
        "tagger",
        "BertForTokenClassification",
        {"model": tagger},
        {"logits": tagger(_inputs())["logits"]},
        num_labels=5,
    )


if __name__ == "__main__":
    main(sys.argv[1])
