"""Writes tf_model.h5 and pytorch_model.bin, with their outputs.

Run where transformers 4, tf-keras and torch are installed:

  TF_USE_LEGACY_KERAS=1 python write_transformers.py FOLDER
"""

import json
import pathlib
import sys

import numpy as np
import torch
import transformers

_SIZES = {
    "vocab_size": 31,
    "hidden_size": 12,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 14,
    "max_position_embeddings": 16,
    "type_vocab_size": 2,
}
_POSITIONS = np.array([[1, 4], [0, 2], [3, 5]])
# Of each class: its outputs as they are called here, and its labels.
_CLASSES = {
    "BertModel": (
        {
            "last_hidden_state": "sequence_output",
            "pooler_output": "pooled_output",
        },
        2,
    ),
    "BertForPreTraining": (
        {
            "prediction_logits": "masked_lm_logits",
            "seq_relationship_logits": "next_sentence_logits",
        },
        2,
    ),
    "BertForSequenceClassification": ({"logits": "logits"}, 3),
    "BertForTokenClassification": ({"logits": "logits"}, 5),
    "BertForQuestionAnswering": (
        {"start_logits": "start_logits", "end_logits": "end_logits"},
        2,
    ),
    "BertForMultipleChoice": ({"logits": "logits"}, 2),
}


def _inputs(shape):
    rng = np.random.default_rng(3)
    ids = rng.integers(1, _SIZES["vocab_size"], shape)
    mask = np.ones(shape, np.int64)
    mask[1, ..., -3:] = 0
    segments = np.zeros(shape, np.int64)
    segments[..., 4:] = 1
    return {
        "input_ids": ids,
        "attention_mask": mask,
        "token_type_ids": segments,
    }


def _case(place, class_name, inputs, outputs):
    names, num_labels = _CLASSES[class_name]
    case = {"class": class_name, "num_labels": num_labels}
    (place / "case.json").write_text(json.dumps(case))
    got = {}
    for theirs, ours in names.items():
        value = np.asarray(outputs[theirs])
        if ours == "masked_lm_logits":
            value = np.take_along_axis(value, _POSITIONS[..., None], axis=1)
        got[f"out/{ours}"] = value
    np.savez_compressed(
        place / "case.npz",
        input_ids=inputs["input_ids"],
        input_mask=inputs["attention_mask"],
        segment_ids=inputs["token_type_ids"],
        masked_lm_positions=_POSITIONS,
        **got,
    )


def _noise(number, shape):
    return np.random.default_rng(number).normal(0, 0.2, shape)


def _write(folder, class_name, act, max_shard_size="1GB"):
    shape = (3, 4, 7) if class_name == "BertForMultipleChoice" else (3, 7)
    inputs = _inputs(shape)
    config = transformers.BertConfig(
        **_SIZES, hidden_act=act, num_labels=_CLASSES[class_name][1]
    )
    name = class_name + ("_parts" if max_shard_size != "1GB" else "")

    model = getattr(transformers, f"TF{class_name}")(config)
    model.build()
    for number, variable in enumerate(model.variables):
        variable.assign_add(_noise(number, variable.shape).astype(np.float32))
    place = pathlib.Path(folder) / "h5" / name
    model.save_pretrained(place, max_shard_size=max_shard_size)
    _case(place, class_name, inputs, model(inputs))

    model = getattr(transformers, class_name)(config).eval()
    with torch.no_grad():
        for number, parameter in enumerate(model.parameters()):
            parameter.add_(torch.tensor(_noise(number, parameter.shape)))
        outputs = model(**{k: torch.tensor(v) for k, v in inputs.items()})
    place = pathlib.Path(folder) / "bin" / name
    model.save_pretrained(
        place, max_shard_size=max_shard_size, safe_serialization=False
    )
    _case(place, class_name, inputs, outputs)


def main(folder):
    for number, class_name in enumerate(_CLASSES):
        _write(folder, class_name, ("gelu", "gelu_new")[number % 2])
    _write(folder, "BertForPreTraining", "gelu", "3KB")


if __name__ == "__main__":
    main(sys.argv[1])
