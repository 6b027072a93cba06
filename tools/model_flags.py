"""The flags of tools that put text through a model."""

from absl import flags

from commands import flag_groups


def define_flags(values: flags.FlagValues) -> None:
    """Defines which model, and how it reads text."""
    _define_model_flags(values)
    _define_text_flags(values)


@flag_groups.under(flag_groups.Group.MODEL)
def _define_model_flags(values: flags.FlagValues) -> None:
    for name, about in (
        ("bert_config_file", "JSON file with the sizes of the model."),
        ("init_checkpoint", "Checkpoint: prefix, .index file or folder."),
    ):
        flags.DEFINE_string(
            name, None, about, required=True, flag_values=values
        )


@flag_groups.under(flag_groups.Group.TEXT)
def _define_text_flags(values: flags.FlagValues) -> None:
    flags.DEFINE_string(
        "vocab_file", None, "Vocabulary the model was trained with.",
        required=True, flag_values=values)  # fmt: skip
    flags.DEFINE_bool(
        "do_lower_case", True,
        "Lower-case and strip accents: what the model was trained with.",
        flag_values=values)  # fmt: skip
