"""What is wrong when a checkpoint does not fit a model, in words."""

import re
from collections.abc import Collection, Mapping, Sequence

_LAYER = re.compile(r"bert/encoder/layer_(\d+)/")
_MOST_NAMES_SHOWN = 8
_FLOATS = r"float(16|32|64)|bfloat16"

# Which field of the config is the length of which axis; the first pattern
# found in a name counts.
_HYPER_PARAMETERS = (
    (r"/word_embeddings$", ("vocab_size", "hidden_size")),
    (r"/token_type_embeddings$", ("type_vocab_size", "hidden_size")),
    (r"/position_embeddings$", ("max_position_embeddings", "hidden_size")),
    (r"/intermediate/dense/kernel$", ("hidden_size", "intermediate_size")),
    (r"/intermediate/dense/bias$", ("intermediate_size",)),
    (r"layer_\d+/output/dense/kernel$", ("intermediate_size", "hidden_size")),
    (r"^cls/predictions/output_bias$", ("vocab_size",)),
    (r"^output_weights$", ("num_labels", "hidden_size")),
    (r"^output_bias$", ("num_labels",)),
    (r"output_weights$", ("outputs of the head", "hidden_size")),
    (r"output_bias$", ("outputs of the head",)),
    (r"", ("hidden_size", "hidden_size")),
)


def check_names(
    prefix: str,
    variables: Collection[str],
    held: Collection[str],
    new: Sequence[str],
) -> None:
    """Checks that a checkpoint holds what a model needs of it.

    Args:
        prefix: of the checkpoint, for messages.
        variables: names in the model.
        held: names in the checkpoint.
        new: regular expressions; what one matches wholly may be absent.

    Raises:
        ValueError: no name is common, or one is absent that is not new.
    """
    if not set(variables) & set(held):
        raise ValueError(
            f"Checkpoint {prefix!r} holds no variable of the model. It holds "
            f"{listed(sorted(held))}; the model has "
            f"{listed(sorted(variables))}."
        )
    absent = [
        name
        for name in variables
        if name not in held
        and not any(re.fullmatch(pattern, name) for pattern in new)
    ]
    if absent:
        layers = _num_layers(variables), _num_layers(held)
        raise ValueError(
            f"Checkpoint {prefix!r} must hold every variable that is not new "
            f"(new: {', '.join(new) or 'none'}); it lacks {len(absent)}: "
            f"{', '.join(absent)}."
            + (
                f" num_hidden_layers is {layers[0]} in the model and "
                f"{layers[1]} in the checkpoint."
                if layers[0] > layers[1]
                else ""
            )
        )


def check_shapes(
    prefix: str,
    wanted: Mapping[str, tuple[int, ...]],
    held: Mapping[str, tuple[int, ...]],
) -> None:
    """Checks the shapes of what a model and a checkpoint have in common.

    Args:
        prefix: of the checkpoint, for messages.
        wanted: shapes by name in the model.
        held: shapes by name in the checkpoint.

    Raises:
        ValueError: some differ; says which fields of the config explain it.
    """
    wrong, causes = [], {}
    for name, want in wanted.items():
        got = held.get(name)
        if got is None or got == want:
            continue
        wrong.append(f"{name} {list(want)} (checkpoint: {list(got)})")
        for field, ours, theirs in zip(_axes_of(name), want, got, strict=False):
            if ours != theirs:
                causes[field] = (
                    f"{field} is {ours} in the model and {theirs} in the "
                    "checkpoint"
                )
    if wrong:
        raise ValueError(
            f"Checkpoint {prefix!r} is of a model of another size: "
            f"{'; '.join(causes.values()) or 'other axes'}. "
            f"Variables: {listed(wrong)}."
        )


def check_types(prefix: str, held: Mapping[str, str]) -> None:
    """Checks that the weights of a checkpoint are floating-point numbers.

    Args:
        prefix: of the checkpoint, for messages.
        held: types by name, of what a model takes from it.

    Raises:
        ValueError: some are not: as numbers they would be wrong, without the
            scales of whatever quantized them.
    """
    wrong = [
        f"{name} ({dtype})"
        for name, dtype in held.items()
        if not re.fullmatch(_FLOATS, dtype)
    ]
    if wrong:
        raise ValueError(
            f"Checkpoint {prefix!r} must hold floating-point weights; these "
            f"are not: {listed(wrong)}. Quantized weights cannot be read; "
            "convert the model that they were made from."
        )


def _axes_of(name: str) -> tuple[str, ...]:
    return next(
        fields
        for pattern, fields in _HYPER_PARAMETERS
        if re.search(pattern, name)
    )


def _num_layers(names: Collection[str]) -> int:
    found = (_LAYER.match(name) for name in names)
    return 1 + max((int(match[1]) for match in found if match), default=-1)


def listed(names: Sequence[str]) -> str:
    """Joins names; those after the first eight are only counted."""
    shown = ", ".join(names[:_MOST_NAMES_SHOWN])
    rest = len(names) - _MOST_NAMES_SHOWN
    return f"{shown} and {rest} more" if rest > 0 else shown
