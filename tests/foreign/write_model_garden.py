"""Writes checkpoints of the TensorFlow Model Garden, with their outputs.

Run where tf-models-official 2.20 is installed:

  TF_USE_LEGACY_KERAS=1 python write_model_garden.py FOLDER
"""

import json
import pathlib
import sys

import numpy as np
import tensorflow as tf
from official.modeling import tf_utils
from official.nlp.modeling import layers, models, networks

_CONFIG = {
    "vocab_size": 31,
    "hidden_size": 12,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 14,
    "max_position_embeddings": 16,
    "type_vocab_size": 2,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1,
    "initializer_range": 0.02,
}
_POSITIONS = np.array([[1, 4], [0, 2], [3, 5]])


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
    rng = np.random.default_rng(3)
    ids = rng.integers(1, _CONFIG["vocab_size"], (3, 7))
    mask = np.ones((3, 7), np.int64)
    mask[1, -3:] = 0
    segments = np.zeros((3, 7), np.int64)
    segments[:, 4:] = 1
    return {
        "input_word_ids": tf.constant(ids, tf.int32),
        "input_mask": tf.constant(mask, tf.int32),
        "input_type_ids": tf.constant(segments, tf.int32),
    }


def _randomize(model):
    for number, variable in enumerate(model.variables):
        rng = np.random.default_rng(number)
        noise = rng.normal(0, 0.2, variable.shape)
        variable.assign_add(noise.astype(np.float32))


def _write(folder, name, model_class, items, outputs, num_labels=2):
    place = pathlib.Path(folder) / name
    place.mkdir(parents=True)
    tf.train.Checkpoint(**items).write(str(place / "bert_model.ckpt"))
    (place / "bert_config.json").write_text(json.dumps(_CONFIG))
    case = {"class": model_class, "num_labels": num_labels}
    (place / "case.json").write_text(json.dumps(case))
    inputs = _inputs()
    np.savez_compressed(
        place / "case.npz",
        input_ids=inputs["input_word_ids"],
        input_mask=inputs["input_mask"],
        segment_ids=inputs["input_type_ids"],
        masked_lm_positions=_POSITIONS,
        **{f"out/{key}": np.asarray(value) for key, value in outputs.items()},
    )


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
    inputs = {**_inputs(), "masked_lm_positions": tf.constant(_POSITIONS)}
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
