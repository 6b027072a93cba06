"""Converts models to the original's or Hugging Face's format; describes them.

For example:

  python -m tools.convert_checkpoint \\
    --input=uncased_L-12_H-768_A-12/bert_model.ckpt \\
    --output=bert-base-uncased --output_format=huggingface

The output is a new folder with the weights, the configuration, the vocabulary
and task.json. The format of the input is detected. A folder that the original
program trained does not say what its labels are: state it once, and every
program can use the output:

  python -m tools.convert_checkpoint --input=mrpc_output --output=mrpc \\
    --output_format=release --bert_config_file=$BERT/bert_config.json \\
    --vocab_file=$BERT/vocab.txt --task_name=MRPC --max_seq_length=128
"""

import dataclasses
import os
from collections.abc import Mapping, Sequence

import numpy as np
from absl import logging

from bert.commands import flags, program
from bert.files import messages, paths, writing
from bert.models import comparison
from bert.models import description as description_lib
from bert.models import folder as folder_lib
from bert.tasks import model_card, needs
from bert.tasks import task as task_lib
from bert.tasks.classification import glue
from bert.training import options as training_options
from modeling import checkpoints, huggingface, huggingface_config, name_tables
from modeling import config as config_lib
from vocab import casing, tokenization

_WEIGHTS = "bert_model.ckpt"  # Source: the names of the released files.
_BILSTM = "bilstm/"
_OUTPUTS = "output_bias"
_RELEASE = "release"
_QUESTIONS = flags.Heading("Question answering, if not the defaults")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """The flags of `tools.convert_checkpoint`; see --help."""

    input: flags.Path = flags.Group.FILES.required(
        "Checkpoint: prefix, .index file, Hugging Face folder, or a folder "
        "with one of them."
    )
    output: flags.Path = flags.Group.FILES.required("New folder for the model.")
    output_format: str = flags.Group.FILES.required(
        "Format of the output.", choices=(_RELEASE, "huggingface")
    )
    bert_config_file: flags.Path | None = flags.Group.MODEL.optional(
        "JSON file with the sizes of the model; by default that next to the "
        "input."
    )
    strip_optimizer: bool = flags.Group.MODEL.boolean(
        "Omit the moments of the optimizer and the step; Hugging Face's format "
        "has neither."
    )
    vocab_file: flags.Path | None = flags.Group.TEXT.optional(
        "Vocabulary of the model; by default the vocab.txt next to the input."
    )
    do_lower_case: bool | None = flags.Group.TEXT.optional(
        "Whether the model reads lower-cased text; by default taken from the "
        "files next to the input or from the vocabulary."
    )
    task: str | None = flags.Group.MODEL.optional(
        "What the model was trained for, if the files next to the input do "
        "not say it.",
        choices=description_lib.TASKS,
    )
    task_name: str | None = flags.Group.MODEL.optional(
        "Name of the data of a classifier. A task of GLUE, or XNLI, has known "
        "labels."
    )
    labels: tuple[str, ...] | None = flags.Group.MODEL.optional(
        "Labels of a classifier or tagger, comma-separated, in the order of "
        "the outputs: that of get_labels in the original."
    )
    problem_type: str | None = flags.Group.MODEL.optional(
        "Kind of the outputs of a classifier: one label of a text, any number "
        "of labels, or a score.",
        choices=task_lib.PROBLEM_TYPES,
    )
    strip_accents: bool | None = flags.Group.TEXT.optional(
        "Whether the model reads text without accents; by default as "
        "--do_lower_case, or taken from the files next to the input."
    )
    max_seq_length: int | None = flags.Group.TEXT.optional(
        "Longest sequence in word pieces with which the model was trained."
    )
    version_2_with_negative: bool | None = flags.Group.MODEL.optional(
        "Whether a question answering model leaves questions unanswered (SQuAD "
        "2.0)."
    )
    doc_stride: int | None = _QUESTIONS.optional(
        "Word pieces between the starts of consecutive windows.", lower_bound=1
    )
    max_query_length: int | None = _QUESTIONS.optional(
        "Maximum word pieces of a question.", lower_bound=1
    )
    n_best_size: int | None = _QUESTIONS.optional(
        "Candidate starts and ends per window.", lower_bound=1
    )
    max_answer_length: int | None = _QUESTIONS.optional(
        "Maximum word pieces of an answer.", lower_bound=1
    )
    null_score_diff_threshold: float | None = _QUESTIONS.optional(
        "Difference of logits above which there is no answer."
    )


def convert(options: Options) -> None:
    """Reads a model and writes it into a new folder.

    Raises:
        OSError: a file is missing, or cannot be read or written.
        ValueError: the input is broken, unsupported, or contradicts its
            configuration, vocabulary or description; it is of another network;
            the description lacks an entry; or the output is not a new local
            folder.
    """
    if paths.is_remote(options.output) or os.path.lexists(options.output):
        raise ValueError(
            f"--output must be a new local folder; got {options.output}."
        )
    model = folder_lib.ModelFolder.open(options.input)
    # A file of another program is named before a configuration is missing.
    checkpoint = checkpoints.find(model.checkpoint or options.input)
    if options.bert_config_file is None:
        config = config_lib.BertConfig.from_checkpoint(model.path)
    else:
        config = model.read_config(options.bert_config_file)
    vocab_file = options.vocab_file or model.vocab_file
    entries = None
    if vocab_file is not None:
        entries = tokenization.read_entries(vocab_file)
        comparison.check_vocabulary(model, vocab_file)
        config.check_vocab_size(len(entries), vocab_file)
    with checkpoints.opened(checkpoint) as source:
        config.check_checkpoint(source.origin, source.num_attention_heads)
        checkpoints.check(source, config.encoder_shapes(), [name_tables.POOLER])
        description = _describe(options, model, source, entries)
        checkpoints.check_places(
            source,
            [n for n in source.variables if not n.startswith(_BILSTM)],
            # The output layer of a task of one's own has names of its own.
            uses_outputs=description.task in description_lib.TASKS,
        )
        step = checkpoints.step_of(source)
        variables = {
            name: source.read(name)
            for name in source.variables
            if not options.strip_optimizer
            or not checkpoints.is_training_state(name, source.variables)
        }
    for name, value in variables.items():
        if value.dtype.name in ("float16", "bfloat16"):
            variables[name] = value.astype(np.float32)
    with writing.whole_folder(options.output) as folder:
        os.makedirs(folder)
        if options.output_format == _RELEASE:
            checkpoints.save(os.path.join(folder, _WEIGHTS), variables)
            # The name is that of an `output_dir`, so that scripts can use the
            # folder as one.
            with writing.whole_file(os.path.join(folder, "checkpoint")) as out:
                out.write(f'model_checkpoint_path: "{_WEIGHTS}"\n')
        else:
            _write_huggingface(folder, variables, config, description, entries)
            name = os.path.basename(os.path.abspath(options.output))
            card = model_card.model_card(name, description, model.path, step)
            with writing.whole_file(
                os.path.join(folder, model_card.FILE)
            ) as out:
                out.write(card)
        folder_lib.write(folder, config, description, vocab_file)
    logging.info(
        "Wrote %s: %d variables of %s (%s format).",
        options.output,
        len(variables),
        source.origin,
        source.kind,
    )


# -------------------------------------------------------------- The description


def _describe(
    options: Options,
    model: folder_lib.ModelFolder,
    source: checkpoints.Source,
    entries: Sequence[str] | None,
) -> description_lib.Description:
    """Joins what the flags, the folder and the weights of the input say."""
    by_files = model.description
    if entries is not None:
        vocab = tokenization.vocabulary_of(entries)
        by_files = dataclasses.replace(
            by_files, vocab_sha256=tokenization.vocab_sha256(vocab)
        )
        if by_files.do_lower_case is None:
            # The vocabulary of a flag shows its casing as that of a folder.
            shown = casing.from_entries(entries)
            if shown.do_lower_case is not None:
                logging.info(
                    "do_lower_case is %s, as the entries of the vocabulary "
                    "show; --do_lower_case states it.",
                    shown.do_lower_case,
                )
            by_files = dataclasses.replace(
                by_files, **dataclasses.asdict(shown)
            )
    by_flags = _said_by_flags(options)
    changes = messages.changes(by_files.to_json(), by_flags.to_json())
    for change in changes.values():
        logging.warning("%s, as the flags say.", change)
    description = by_flags.completed(by_files).completed(
        needs.inferred_from_weights(source.variables, source.architectures)
    )
    strips_accents = description.strip_accents
    changes_casing = options.do_lower_case not in (None, by_files.do_lower_case)
    if changes_casing and options.strip_accents is None:
        strips_accents = None  # The rule of the folder is that of its casing.
    if strips_accents is None:
        # Accents follow the casing, as in every program.
        strips_accents = description.do_lower_case
    description = dataclasses.replace(description, strip_accents=strips_accents)
    _check_description(options, source, description, entries)
    return description


def _said_by_flags(options: Options) -> description_lib.Description:
    description = description_lib.Description(
        task=options.task,
        name=options.task_name,
        problem_type=options.problem_type,
        labels=options.labels,
        max_seq_length=options.max_seq_length,
        version_2_with_negative=options.version_2_with_negative,
        flags={
            "doc_stride": options.doc_stride,
            "max_query_length": options.max_query_length,
            "n_best_size": options.n_best_size,
            "max_answer_length": options.max_answer_length,
        },
        null_score_diff_threshold=options.null_score_diff_threshold,
        do_lower_case=options.do_lower_case,
        strip_accents=options.strip_accents,
    )
    if options.task_name is None:
        return description
    by_name = description_lib.Description(task=description_lib.CLASSIFICATION)
    if options.labels is None:
        info = glue.find_dataset(options.task_name)
        description = dataclasses.replace(description, name=info.name)
        by_name = dataclasses.replace(
            by_name,
            problem_type=info.label_set.problem_type,
            labels=info.label_set.names,
        )
    return description.completed(by_name)


def _check_description(
    options: Options,
    source: checkpoints.Source,
    description: description_lib.Description,
    entries: Sequence[str] | None,
) -> None:
    """Asks for entries that neither the folder nor a flag says, by name."""
    num_outputs = 0
    if _OUTPUTS in source.variables:
        (num_outputs,) = source.variables[_OUTPUTS][0]
    if num_outputs and description.labels:
        needs.check_labels(description.labels, num_outputs, source.origin)
    # Hugging Face's folders need no more than they have.
    if (
        options.output_format != _RELEASE
        or source.kind == huggingface.Reader.kind
    ):
        return
    missing = [
        f"--{name}"
        for name in needs.missing_entries(
            description, has_outputs=num_outputs > 0
        )
        # No text is read without a vocabulary.
        if name != "do_lower_case" or entries is not None
    ]
    if missing:
        raise ValueError(
            f"{source.origin} does not say what it was trained for. Pass "
            f"{', '.join(missing)} of its training, for task.json; a "
            "--task_name of GLUE implies --task, --labels and --problem_type."
        )


# ---------------------------------------------------------------- The output


def _write_huggingface(
    folder: str,
    variables: Mapping[str, np.ndarray],
    config: config_lib.BertConfig,
    description: description_lib.Description,
    entries: Sequence[str] | None,
) -> None:
    """Writes weights, `config.json` and `tokenizer_config.json`."""
    if description.attention == training_options.CAUSAL or any(
        name.startswith(_BILSTM) for name in variables
    ):
        raise ValueError(
            "Hugging Face's BERT supports neither models trained from left to "
            "right nor a BiLSTM (--bilstm_head)."
        )
    if description.task not in (None, *description_lib.TASKS):
        raise ValueError(
            f"Hugging Face's BERT has no class for the task "
            f"{description.task!r}, whose output layer would be lost. "
            "--output_format=release keeps it."
        )
    is_tagger = description.task == description_lib.TAGGING
    hint = name_tables.TOKEN_CLASSIFICATION if is_tagger else None
    architectures = name_tables.architectures(variables, hint)
    weights = {
        name: value
        for name, value in variables.items()
        if not checkpoints.is_training_state(name, variables)
    }
    others = huggingface.write(
        folder, weights, config.num_hidden_layers, architectures
    )
    if others:
        logging.warning(
            "%d variables are not written, because Hugging Face's model has "
            "none of these names: %s.",
            len(others),
            messages.names(others),
        )
    pad_token_id = 0
    if entries is not None:
        pad_token_id = entries.index("[PAD]") if "[PAD]" in entries else 0
        if description.do_lower_case is None:
            raise ValueError(
                "It is unknown whether the model reads lower-cased text: pass "
                "--do_lower_case or --nodo_lower_case."
            )
        writing.write_json(
            os.path.join(folder, huggingface_config.TOKENIZER),
            huggingface_config.tokenizer(
                do_lower_case=description.do_lower_case,
                strip_accents=bool(description.strip_accents),
                model_max_length=config.max_position_embeddings,
            ),
        )
    labels = description.to_json()
    if _OUTPUTS in weights:
        labels["labels"] = _label_names(
            len(weights[_OUTPUTS]), description.labels or ()
        )
    writing.write_json(
        os.path.join(folder, huggingface_config.CONFIG),
        huggingface_config.from_release(
            config.to_dict(), architectures, labels, pad_token_id
        ),
    )


def _label_names(num_labels: int, names: Sequence[str]) -> list[str]:
    if num_labels > 1 and not names:
        logging.warning(
            "The names of the %d labels are unknown: they are written as "
            "LABEL_0, LABEL_1, ... Pass --labels to name them.",
            num_labels,
        )
    return huggingface_config.label_names(num_labels, names)


if __name__ == "__main__":
    program.start(Options, convert)
