"""Writes tf_model.h5 and pytorch_model.bin, with their outputs.

Run where transformers 4, tf-keras and torch are installed:

  TF_USE_LEGACY_KERAS=1 python -m tests.foreign.write_transformers FOLDER
"""

import pathlib
import sys

import numpy as np
import torch
import transformers

from tests.foreign import cases

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


_NAMES = {
    "input_ids": "input_ids",
    "input_mask": "attention_mask",
    "segment_ids": "token_type_ids",
}


def _case(place, class_name, given, outputs):
    names, num_labels = _CLASSES[class_name]
    got = {}
    for theirs, ours in names.items():
        value = np.asarray(outputs[theirs])
        if ours == "masked_lm_logits":
            places = cases.POSITIONS[..., None]
            value = np.take_along_axis(value, places, axis=1)
        got[ours] = value
    cases.write(place, class_name, given, got, num_labels)


def _write(folder, class_name, act):
    shape = (3, 4, 7) if class_name == "BertForMultipleChoice" else (3, 7)
    given = cases.inputs(shape)
    inputs = {_NAMES[k]: v.astype(np.int64) for k, v in given.items()}
    config = transformers.BertConfig(
        **cases.SIZES, hidden_act=act, num_labels=_CLASSES[class_name][1]
    )
    model = getattr(transformers, f"TF{class_name}")(config)
    model.build()
    for number, variable in enumerate(model.variables):
        variable.assign_add(cases.noise(number, variable.shape))
    place = pathlib.Path(folder) / "h5" / class_name
    model.save_pretrained(place)
    _case(place, class_name, given, model(inputs))

    model = getattr(transformers, class_name)(config).eval()
    with torch.no_grad():
        for number, parameter in enumerate(model.parameters()):
            parameter.add_(torch.tensor(cases.noise(number, parameter.shape)))
        outputs = model(**{k: torch.tensor(v) for k, v in inputs.items()})
    place = pathlib.Path(folder) / "bin" / class_name
    model.save_pretrained(place, safe_serialization=False)
    _case(place, class_name, given, outputs)


def main(folder):
    for number, class_name in enumerate(_CLASSES):
        _write(folder, class_name, ("gelu", "gelu_new")[number % 2])


if __name__ == "__main__":
    main(sys.argv[1])
