"""Hugging Face's `config.json` and `tokenizer_config.json` for BERT."""

from collections.abc import Mapping, Sequence

from bert.files import json_text, messages

CONFIG = "config.json"
TOKENIZER = "tokenizer_config.json"
# Keys that the library adds to every config.
_MARKS = frozenset({"model_type", "architectures", "transformers_version"})

_MODEL_TYPE = "bert"
# Hugging Face's name -> ours. Their "gelu" is the exact form; ours is the
# release's tanh form. Of several names of one form the first is written.
_ACTIVATIONS = {
    "gelu_new": "gelu",
    "gelu_accurate": "gelu",
    "gelu_fast": "gelu",
    "gelu_python_tanh": "gelu",
    "gelu_pytorch_tanh": "gelu",
    "gelu": "gelu_exact",
    "gelu_python": "gelu_exact",
    "relu": "relu",
    "tanh": "tanh",
    "linear": "linear",
}
_DEFAULT_ACTIVATION = "gelu"
_EPSILON = 1e-12  # Source: the release.
# Options that change the computation, and their required values.
_FIXED = {
    "layer_norm_eps": _EPSILON,
    "position_embedding_type": "absolute",
    "is_decoder": False,
    "add_cross_attention": False,
    "tie_word_embeddings": True,
    "pruned_heads": {},
    "auto_map": {},  # A network of the folder's own code.
    "quantization_config": {},
    # The release's multilingual and Chinese models state these.
    "directionality": "bidi",
    "pooler_type": "first_token_transform",
}
_FIELDS = (
    "vocab_size",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "max_position_embeddings",
    "type_vocab_size",
    "initializer_range",
    "hidden_dropout_prob",
    "attention_probs_dropout_prob",
)
_CLASSIFIER_DROPOUT_PROB = 0.1  # Source: run_classifier.py of the release.
_PLACEHOLDER = "LABEL_{}"  # Hugging Face's name of an unnamed label.
_SENTENCES = "BertForSequenceClassification"
_SPECIAL_TOKENS = ("CLS", "MASK", "PAD", "SEP", "UNK")
# Ours -> theirs.
_PROBLEM_TYPES = {
    "single_label": "single_label_classification",
    "multi_label": "multi_label_classification",
    "regression": "regression",
}


# Ours -> the class of PyTorch, as sentence-transformers' CrossEncoder names it.
_SCORE_ACTIVATIONS = {
    "identity": "torch.nn.modules.linear.Identity",
    "sigmoid": "torch.nn.modules.activation.Sigmoid",
}


def check(values: Mapping[str, object], path: str) -> None:
    """Checks that this project implements the network of a config.

    Args:
        values: the parsed config, of either format.
        path: its file, for messages.

    Raises:
        ValueError: the network is another one, which the message names.
    """
    check_no_preset(values, path)
    classes = values.get("architectures")
    classes = [*map(str, classes)] if isinstance(classes, list) else []
    # The first configs had no model_type.
    kind = values.get("model_type", _MODEL_TYPE)
    is_bert = "model_type" in values or all(
        name.startswith("Bert") for name in classes
    )
    if kind != _MODEL_TYPE or not is_bert:
        raise ValueError(
            f"{path}: model_type must be {_MODEL_TYPE!r}; this folder is of "
            f"model_type {kind!r:.60} ({', '.join(classes):.200})."
        )
    fixed = {**_FIXED, "embedding_size": values.get("hidden_size")}
    for name, want in fixed.items():
        if values.get(name) is not None and values[name] != want:
            raise ValueError(
                f"{path}: {name} must be {want!r:.60}, as in BERT; got "
                f"{values[name]!r:.60}."
            )


def check_no_preset(values: Mapping[str, object], path: str) -> None:
    """Checks that a config is not that of a preset of keras-hub.

    Raises:
        ValueError: it is; the message says what to do.
    """
    name = str(values.get("registered_name"))
    if name.startswith(("keras_hub>", "keras_nlp>")):
        raise ValueError(
            f"{path} is of a preset of keras-hub ({name:.60}), whose files are "
            "not read. docs/keras.md shows how to copy its weights into a "
            "model of this project, and where those of released models are."
        )


def is_marked(values: Mapping[str, object]) -> bool:
    """Returns whether a config has a key that Hugging Face's library adds."""
    return not _MARKS.isdisjoint(values)


def to_release(
    values: json_text.Object, path: str, *, is_release: bool
) -> dict[str, object]:
    """Returns the fields of a `bert_config.json` for a Hugging Face config.

    Args:
        values: the parsed file, which `check` has passed.
        path: its path, for messages.
        is_release: whether the network is the release's, with the tanh form of
            `gelu` and its constant dropout of classifiers. Otherwise it is
            Hugging Face's, whose `gelu` is exact.

    Raises:
        ValueError: the activation is unknown.
    """
    act = values.get("hidden_act", _DEFAULT_ACTIVATION)
    messages.check_choice(f"{path}: hidden_act", act, _ACTIVATIONS)
    fields = {name: values[name] for name in _FIELDS if name in values}
    if is_release:
        is_gelu = _ACTIVATIONS[act].startswith("gelu")
        return {**fields, "hidden_act": "gelu" if is_gelu else act}
    # Hugging Face's default is the dropout of hidden layers.
    dropout = values.get("classifier_dropout")
    if dropout is None:
        dropout = values.get("hidden_dropout_prob")
    return {
        **fields,
        "hidden_act": _ACTIVATIONS[act],
        "classifier_dropout_prob": dropout,
    }


def from_release(
    config: json_text.Object,
    architectures: Sequence[str],
    labels: json_text.Object,
    pad_token_id: int,
) -> dict[str, object]:
    """Returns the fields of a `config.json`.

    Args:
        config: fields of a `bert_config.json`.
        architectures: Hugging Face's classes; the first is the default.
        labels: `problem_type`, `labels` and `activation` of the output layer,
            if known.
        pad_token_id: id of [PAD].

    Raises:
        ValueError: the activation has no name there.
    """
    act = (config["hidden_act"] or "linear").lower()
    values = {
        "architectures": list(architectures),
        "model_type": _MODEL_TYPE,
        **{name: config[name] for name in _FIELDS},
        "hidden_act": next(
            t for t, ours in _ACTIVATIONS.items() if ours == act
        ),
        "layer_norm_eps": _EPSILON,
        "position_embedding_type": "absolute",
        "classifier_dropout": config.get(
            "classifier_dropout_prob", _CLASSIFIER_DROPOUT_PROB
        ),
        "pad_token_id": pad_token_id,
    }
    if activation := labels.get("activation"):
        messages.check_choice("activation", activation, _SCORE_ACTIVATIONS)
        name = _SCORE_ACTIVATIONS[activation]
        values["sentence_transformers"] = {"activation_fn": name}
    if names := labels.get("labels"):
        values["id2label"] = {str(i): name for i, name in enumerate(names)}
        values["label2id"] = {name: i for i, name in enumerate(names)}
    problem = _PROBLEM_TYPES.get(labels.get("problem_type", ""))
    if problem and _SENTENCES in architectures:
        values["problem_type"] = problem
    return values


def label_names(num_labels: int, names: Sequence[str]) -> list[str]:
    """Returns the names of a classifier's outputs.

    Args:
        num_labels: of its output layer.
        names: of the labels. If their number differs, Hugging Face's
            placeholders are returned.
    """
    if len(names) == num_labels:
        return list(names)
    return [_PLACEHOLDER.format(i) for i in range(num_labels)]


def labels_of(
    values: json_text.Object, path: str = CONFIG
) -> dict[str, object]:
    """Reads the labels and the problem type of a `config.json`.

    Args:
        values: the parsed config.
        path: its file, for messages.

    Returns:
        `problem_type`, `labels` and `activation`, each if the config states it;
        Hugging Face's placeholders are no names. The activation is that of a
        CrossEncoder of sentence-transformers, `identity` or `sigmoid` or
        another class in lower case.

    Raises:
        ValueError: the outputs are not numbered 0, 1, 2, ..., or the problem
            type is unknown.
    """
    names = values.get("id2label") or {}
    activation = _score_activation(values)
    stated: dict[str, object] = {}
    if activation:
        stated["activation"] = activation
    try:
        ordered = [str(names[str(number)]) for number in range(len(names))]
    except (KeyError, TypeError) as error:
        raise ValueError(
            f"{path}: id2label must name the outputs by number, from 0; got "
            f"{names!r:.60}."
        ) from error
    theirs = {name: ours for ours, name in _PROBLEM_TYPES.items()}
    problem = values.get("problem_type")
    if problem is not None:
        messages.check_choice(f"{path}: problem_type", problem, theirs)
        problem = theirs[problem]
    # A single output of a text is a score in transformers.
    is_score = values.get("architectures") == [_SENTENCES]
    if problem is None and len(ordered) == 1 and is_score:
        problem = "regression"
    has_names = ordered != label_names(len(ordered), ())
    if problem == "regression":
        # The names of several scores are kept, although they are not answered.
        names = ordered if len(ordered) > 1 and has_names else []
        return {"problem_type": problem, "labels": names, **stated}
    if not has_names:
        return stated | ({"problem_type": problem} if problem else {})
    problem = problem or "single_label"
    return {"problem_type": problem, "labels": ordered, **stated}


def _score_activation(values: json_text.Object) -> str | None:
    """Reads the activation of a CrossEncoder; None if none is stated.

    Source: sentence-transformers 5, and 1 to 3.
    """
    settings = values.get("sentence_transformers")
    name = values.get("sbert_ce_default_activation_function")
    if isinstance(settings, dict):
        name = settings.get("activation_fn", name)
    return str(name).rpartition(".")[-1].lower() if name else None


def tokenizer(
    *, do_lower_case: bool, strip_accents: bool, model_max_length: int
) -> dict[str, object]:
    """Returns the fields of a `tokenizer_config.json`."""
    return {
        "do_lower_case": do_lower_case,
        "model_max_length": model_max_length,
        "tokenizer_class": "BertTokenizer",
        "tokenize_chinese_chars": True,
        # None means that of the casing.
        "strip_accents": None
        if strip_accents == do_lower_case
        else strip_accents,
        **{f"{n.lower()}_token": f"[{n}]" for n in _SPECIAL_TOKENS},
    }
