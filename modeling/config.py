"""Model configurations: `bert_config.json`, and those of checkpoints."""

import contextlib
import dataclasses
import logging
import os
from collections.abc import Iterable
from typing import Self

from bert.files import json_text, messages, paths
from modeling import checkpoint_files, huggingface_config, name_tables

# The file in the folder of a checkpoint.
FILE = "bert_config.json"
# "gelu" is the tanh form, as released. "gelu_exact" is a name of this project
# alone, so that the release rejects it instead of computing the tanh form.
ACTIVATIONS = ("gelu", "gelu_exact", "linear", "relu", "tanh")

# Source: run_classifier.py of the release, where it is a constant.
CLASSIFIER_DROPOUT_PROB = 0.1

# The standard logger keeps `modeling` free of absl, which shows its messages
# too.
_logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, kw_only=True)
class BertConfig:
    """Sizes, activation and dropout of a BERT network.

    Source: names and defaults of the release's `BertConfig`. The last field is
    an addition: `bert_config.json` contains it only if it is not the default.

    Args:
        vocab_size: entries of the vocabulary, V.
        hidden_size: width of every layer, D; a multiple of
            `num_attention_heads`.
        num_hidden_layers: Transformer layers.
        num_attention_heads: attention heads of a layer, N.
        intermediate_size: width inside the feed-forward part, F.
        hidden_act: "gelu" (tanh form), "gelu_exact" (erf form), "relu",
            "tanh", "linear" (also "" or None), in any case.
        hidden_dropout_prob: share of the embeddings and block outputs dropped
            in training, in [0, 1).
        attention_probs_dropout_prob: the same for attention probabilities.
        max_position_embeddings: longest sequence the model can read.
        type_vocab_size: kinds of segment.
        initializer_range: standard deviation of the initial weights' normal
            distribution, before its truncation at twice that.
        classifier_dropout_prob: share of a classifier's input dropped in
            training; Hugging Face models may use another value than 0.1.

    Raises:
        ValueError: a value is outside its range.
    """

    vocab_size: int
    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    hidden_act: str | None = "gelu"
    hidden_dropout_prob: float = 0.1
    attention_probs_dropout_prob: float = 0.1
    max_position_embeddings: int = 512
    type_vocab_size: int = 16  # As released; published models have 2.
    initializer_range: float = 0.02
    classifier_dropout_prob: float = CLASSIFIER_DROPOUT_PROB

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            name, value = field.name, getattr(self, field.name)
            if field.type is int and (type(value) is not int or value < 1):
                raise ValueError(
                    f"{name} must be a positive integer; got {value!r:.60}."
                )
            if name.endswith("_prob") and not (
                json_text.is_number(value) and 0 <= value < 1
            ):
                raise ValueError(
                    f"{name} must be in [0, 1); got {value!r:.60}."
                )
        if self.hidden_size % self.num_attention_heads:
            raise ValueError(
                "hidden_size must be a multiple of num_attention_heads; "
                f"got {self.hidden_size} and {self.num_attention_heads}."
            )
        spread = self.initializer_range
        if not json_text.is_number(spread) or spread < 0:
            raise ValueError(
                "initializer_range must be finite and >= 0; "
                f"got {spread!r:.60}."
            )
        activation(self.hidden_act)

    @classmethod
    def from_dict(cls, values: json_text.Object, origin: str = "") -> Self:
        """Builds a config from the keys of a `bert_config.json`.

        Differs: the release fills a missing key with its default and keeps
        unknown keys, so that a model of the wrong size may train unnoticed.
        Here every field is required, and unknown keys cause a warning.

        Args:
            values: all fields by name; `classifier_dropout_prob` may be
                omitted if it is the default.
            origin: their file, for messages.

        Raises:
            ValueError: fields are missing (all are named) or wrong, or a key
                of another network has a value that is not implemented.
        """
        huggingface_config.check(values, origin or "The model config")
        return cls._from_fields(values, origin)

    @classmethod
    def _from_fields(cls, values: json_text.Object, origin: str) -> Self:
        where = f" in {origin}" if origin else ""
        names = [field.name for field in dataclasses.fields(cls)]
        missing = [
            name
            for name in names
            if name not in values and name != "classifier_dropout_prob"
        ]
        if missing:
            raise ValueError(
                f"The model config{where} must contain {', '.join(missing)}; "
                f"got {', '.join(sorted(values)) or 'nothing':.300}."
            )
        # Released multilingual and Chinese configs contain unused keys.
        unknown = sorted(
            name
            for name in set(values) - {*names, "directionality"}
            if not name.startswith("pooler_")
        )
        if unknown:
            listed = ", ".join(unknown)
            _logger.warning(
                "Unused keys of the model config%s: %s.", where, listed
            )
        try:
            return cls(**{n: values[n] for n in names if n in values})
        except ValueError as error:
            raise ValueError(f"The model config{where}: {error}") from error

    @classmethod
    def from_json_file(
        cls, path: str, *, is_release: bool | None = None
    ) -> Self:
        """Reads a `bert_config.json`, or Hugging Face's `config.json`.

        The same words mean two networks: `gelu` has another form in Hugging
        Face's, and another default of the classifier's dropout. A file has
        Hugging Face's meaning by its marks (`model_type`, `architectures`,
        `transformers_version`), or as the `config.json` of Hugging Face's
        weights. TensorFlow's weights are always of the release's network.

        Args:
            path: of the file, local or remote.
            is_release: whether the weights of the network are TensorFlow's; by
                default, those in the folder of the file decide.

        Raises:
            OSError: the file cannot be opened.
            ValueError: it is not a JSON object with every field, or the
                network is not BERT.
        """
        values = json_text.read_object(path)
        huggingface_config.check(values, path)
        is_marked = huggingface_config.is_marked(values)
        if is_marked or os.path.basename(path) == huggingface_config.CONFIG:
            if is_release is None:
                is_release = checkpoint_files.has_release_weights(
                    os.path.dirname(path)
                )
            if is_marked or is_release is False:
                values = huggingface_config.to_release(
                    values, path, is_release=bool(is_release)
                )
        return cls._from_fields(values, path)

    @classmethod
    def from_checkpoint(cls, checkpoint: str) -> Self:
        """Reads the configuration of a checkpoint's folder.

        Args:
            checkpoint: any path that `checkpoints.find` accepts, or a
                folder with a configuration alone.

        Raises:
            FileNotFoundError: the folder has no configuration.
            ValueError: it is broken, or not of BERT.
        """
        folder = folder_of(checkpoint)
        is_release = None
        if folder != checkpoint:
            is_release = not checkpoint_files.is_huggingface(checkpoint)
        for name in (FILE, huggingface_config.CONFIG):
            if paths.exists(path := os.path.join(folder, name)):
                return cls.from_json_file(path, is_release=is_release)
        raise FileNotFoundError(
            f"There must be a {FILE}, or Hugging Face's "
            f"{huggingface_config.CONFIG}, in {folder or os.curdir!r}."
        )

    def check_checkpoint(
        self, checkpoint: str, num_attention_heads: int | None = None
    ) -> None:
        """Compares a model with the configuration in its checkpoint's folder.

        Logs a warning of another activation or fewer layers, which the shapes
        of the variables do not show.

        Args:
            checkpoint: as for `from_checkpoint`.
            num_attention_heads: stored in the checkpoint itself, if any.

        Raises:
            ValueError: the number of attention heads differs, which changes
                the computation with the same weights.
        """
        stored = None
        with contextlib.suppress(FileNotFoundError):
            stored = BertConfig.from_checkpoint(checkpoint)
        heads = num_attention_heads or (stored and stored.num_attention_heads)
        if heads not in (None, self.num_attention_heads):
            raise ValueError(
                "num_attention_heads must be that of the checkpoint; it is "
                f"{self.num_attention_heads} in the model and {heads} in "
                f"{checkpoint}. Pass a configuration with {heads}."
            )
        if stored is None:
            return
        ours, theirs = (
            {
                "hidden_act": activation(config.hidden_act),
                "num_hidden_layers": config.num_hidden_layers,
            }
            for config in (self, stored)
        )
        for change in messages.changes(theirs, ours).values():
            _logger.warning("%s: %s in the model.", checkpoint, change)

    def check_length(self, max_seq_length: int) -> None:
        """Checks that the model has a position for every word piece.

        Raises:
            ValueError: it has fewer.
        """
        longest = self.max_position_embeddings
        if max_seq_length > longest:
            raise ValueError(
                f"Cannot use sequence length {max_seq_length} because the BERT "
                f"model was only trained up to sequence length {longest} "
                "(max_position_embeddings). Pass --max_seq_length="
                f"{longest} or less."
            )

    def check_segments(self, segment_ids: Iterable[int]) -> None:
        """Checks that the model has an embedding for every segment id.

        Raises:
            ValueError: it has fewer.
        """
        if max(segment_ids, default=0) >= self.type_vocab_size:
            raise ValueError(
                "A pair of texts, or a question about a paragraph, needs a "
                "model of 2 types of segment; the type_vocab_size of this one "
                f"is {self.type_vocab_size}."
            )

    def check_frozen_layers(self, num_layers: int) -> None:
        """Checks that the model has the layers that are not trained.

        Raises:
            ValueError: it has fewer.
        """
        if num_layers > self.num_hidden_layers:
            raise ValueError(
                f"--freeze_layers must be at most {self.num_hidden_layers}, "
                f"the number of layers of the model; got {num_layers}."
            )

    def check_vocab_size(self, vocab_size: int, vocab_file: str) -> None:
        """Checks that the model has an embedding for every vocabulary entry.

        Logs a warning if it has more.

        Args:
            vocab_size: the largest id of the vocabulary, plus 1.
            vocab_file: the vocabulary's file, for the message.

        Raises:
            ValueError: the model has fewer.
        """
        if vocab_size > self.vocab_size:
            raise ValueError(
                f"{vocab_file} has {vocab_size} entries, but the model's "
                f"vocab_size is {self.vocab_size}. Use the vocabulary that "
                "belongs to this configuration."
            )
        if vocab_size < self.vocab_size:
            _logger.warning(
                "%s has %d entries; the model's vocab_size is %d. Is it the "
                "model's own vocabulary?",
                vocab_file,
                vocab_size,
                self.vocab_size,
            )

    def encoder_shapes(self) -> dict[str, tuple[int, ...]]:
        """Returns the shapes of an encoder's variables, by release name."""
        shapes = {}
        for variable in name_tables.encoder(self.num_hidden_layers):
            name = variable.release
            rank = 2 if name.endswith(("kernel", "_embeddings")) else 1
            fields = name_tables.axes_of(name)[:rank]
            shapes[name] = tuple(getattr(self, field) for field in fields)
        return shapes

    def to_dict(self) -> json_text.Object:
        """Returns the fields of a `bert_config.json` by name."""
        values = dataclasses.asdict(self)
        if self.classifier_dropout_prob == CLASSIFIER_DROPOUT_PROB:
            del values["classifier_dropout_prob"]
        return values


def folder_of(checkpoint: str) -> str:
    """Returns the folder of a checkpoint, given as a folder, prefix or file."""
    if paths.is_folder(checkpoint):
        return checkpoint
    return os.path.dirname(checkpoint)


def activation(hidden_act: str | None) -> str:
    """Returns the member of `ACTIVATIONS` of a name.

    Raises:
        ValueError: the name is unknown.
    """
    hidden_act = str(
        "linear" if hidden_act in (None, "") else hidden_act
    ).lower()
    messages.check_choice("hidden_act", hidden_act, ACTIVATIONS)
    return hidden_act
