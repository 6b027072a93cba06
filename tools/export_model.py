"""Exports a trained model for raw text as a SavedModel.

For example:

  python -m tools.export_model --model_dir=mrpc --export_dir=served/mrpc

`--model_dir` is the folder of a training run, which states the task, casing,
lengths and labels. docs/serving.md lists the inputs and outputs of the models.
A model that was not fine-tuned, or any other with --layers, is exported as an
encoder; one of sentence-transformers with the embedding that it states.
"""

import dataclasses
import os

from absl import logging

from bert.commands import flags, program
from bert.files import paths, tensorflow_start
from bert.models import hub
from bert.tasks import registry
from bert.tasks.embedding import text_vectors
from bert.training import options as training_options

_TEXT, _IDS, _IDS_AND_LABEL = "text", "ids", "ids_and_label"
_SAVED_MODEL, _LITERT, _LITERT_INT8 = "saved_model", "litert", "litert_int8"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(training_options.RunOptions):
    """The flags of this tool; see --help."""

    model_dir: flags.Path = flags.Group.FILES.required(
        "Folder of the model: the --output_dir of a run, that of one of its "
        "trials, or of a released or Hugging Face model; or "
        "hf://ORGANISATION/NAME."
    )
    export_dir: flags.Path = flags.Group.FILES.required(
        "Folder for the model, which is written to EXPORT_DIR/VERSION: 1, or "
        "the next number. Servers use the last part of EXPORT_DIR as the "
        "model's name, and the highest version."
    )
    format: str = flags.Group.FILES.flag(
        _SAVED_MODEL,
        "A SavedModel with text as its input; or only the network, with ids as "
        "its input, for LiteRT, also with matrices of 8-bit integers.",
        choices=(_SAVED_MODEL, _LITERT, _LITERT_INT8),
    )
    task_file: flags.Path | None = flags.Group.MODEL.optional(
        "For a model of your own task: the Python file with its class."
    )
    default_signature: str = flags.Group.FILES.flag(
        _TEXT,
        "Input of serving_default: text; or, for clients of the original "
        "program's exports, input_ids, input_mask and segment_ids, also with "
        "label_ids, which has no effect. Its output is then the original's, "
        "and the signature `text` takes text.",
        choices=(_TEXT, _IDS, _IDS_AND_LABEL),
    )
    layers: str | None = flags.Group.MODEL.optional(
        "Export the encoder, with these hidden layers, comma-separated; -1 for "
        "the highest."
    )

    def __post_init__(self) -> None:
        if self.format != _SAVED_MODEL and self.default_signature != _TEXT:
            raise ValueError(
                "--default_signature chooses the signature of a SavedModel; a "
                f"model of --format={self.format} only takes ids."
            )


def run(options: Options) -> str:
    """Writes the model; returns the folder of its version.

    Raises:
        OSError: a file cannot be read or written.
        ValueError: the folder has no model, or does not describe it; a flag
            has no effect.
    """
    hub.check_path(options.model_dir)
    tensorflow_start.load()
    from bert.serving import exporting, loading
    from bert.tasks import signatures

    versions = [
        int(name)
        for name in map(
            os.path.basename, paths.matching(options.export_dir, "*")
        )
        if name.isdecimal()
    ]
    target = os.path.join(options.export_dir, str(max(versions, default=0) + 1))
    exporting.check_new(target)
    layers = None
    if options.layers is not None:
        layers = tuple(text_vectors.parse_layers(options.layers))
    answering = loading.read(
        options.model_dir,
        best=options.use_best_checkpoint,
        layers=layers,
        task_file=options.task_file,
    )
    model = answering.model
    if answering.kind == registry.PRETRAINED.kind:
        answering = registry.ENCODER(model)
    logging.info("Task of %s: %s.", model.checkpoint, answering.kind)
    logging.info(
        "A sequence has at most %d word pieces, the max_seq_length of %s.",
        model.max_seq_length,
        options.model_dir,
    )
    network = loading.load(answering)
    described = {
        **model.description.to_json(),
        "task": answering.kind,
        "max_seq_length": model.max_seq_length,
        "checkpoint": os.path.basename(model.checkpoint),
    }
    if model.sentence_encoder is not None:
        described |= dataclasses.asdict(model.sentence_encoder)
    elif answering.kind == registry.ENCODER.kind:
        described["layers"] = list(model.layers)
    if options.format == _SAVED_MODEL:
        functions = exporting.make_signatures(answering, network)
        if options.default_signature != _TEXT:
            functions = {
                _TEXT: functions[signatures.DEFAULT],
                **functions,
                signatures.DEFAULT: signatures.of_release(
                    functions[signatures.IDS],
                    takes_label=options.default_signature == _IDS_AND_LABEL,
                ),
            }
        exporting.write_saved_model(
            functions,
            network,
            target,
            model.tokenizer.vocab_file,
            described,
        )
    else:
        exporting.write_litert(
            answering,
            network,
            target,
            described,
            quantize=options.format == _LITERT_INT8,
        )
    logging.info("Wrote %s", target)
    return target


if __name__ == "__main__":
    program.start(Options, run)
