"""The interface of a task for texts: asked of a trained model, and exported.

`bert.serving` loads, batches and exports every model by it, and knows no task's
name; `bert.tasks.registry` lists the tasks of this program.
"""

import abc
import dataclasses
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Generic,
    Self,
    TypeAlias,
    TypeVar,
)

import numpy as np

from bert.commands import flags
from bert.files import json_text, messages
from bert.models import description as description_lib
from bert.models import folder as folder_lib
from bert.models import sentence_encoder as sentence_encoder_lib
from bert.tasks import sentence_pairs, task
from modeling import config as config_lib
from vocab import tokenization

if TYPE_CHECKING:
    import keras
    import tensorflow as tf
    from _typeshed import DataclassInstance

    from vocab import graph_tokenizer

ID_NAMES = ("input_ids", "input_mask", "segment_ids")
# Every network answers in it, whatever the precision of its training.
DTYPE = "float32"
_MOST_SHOWN = 10  # Labels of an answer.

# The texts of an example, and its answer, by name, as in JSON.
Example: TypeAlias = json_text.Object
Answer: TypeAlias = json_text.Object
# The outputs of the rows of an example.
Outputs: TypeAlias = Sequence[Mapping[str, np.ndarray]]
Tensors: TypeAlias = "Mapping[str, tf.Tensor]"
# `outputs` as a function of ids, by name.
Compute: TypeAlias = Callable[..., Tensors]
Signatures: TypeAlias = "dict[str, tf.types.experimental.PolymorphicFunction]"
_Options = TypeVar("_Options", bound="DataclassInstance")
# The part of an example that a row is made from; None if nothing needs it.
Source = TypeVar("Source")


@dataclasses.dataclass(frozen=True, kw_only=True)
class ServedModel:
    """A trained model that can answer, without its weights.

    Attributes:
        folder: the model's.
        checkpoint: the prefix or file of its weights.
        variables: the names of its variables.
        config: the sizes.
        tokenizer: of its vocabulary and casing.
        description: what the files of the folder and the weights say.
        layers: the hidden layers of an encoder.
        sentence_encoder: the embedding of a sentence encoder.
    """

    folder: folder_lib.ModelFolder
    checkpoint: str
    variables: Collection[str]
    config: config_lib.BertConfig
    tokenizer: tokenization.FullTokenizer
    description: description_lib.Description
    layers: tuple[int, ...] = (-1,)
    sentence_encoder: sentence_encoder_lib.SentenceEncoder | None = None

    @property
    def max_seq_length(self) -> int:
        """The word pieces of a sequence."""
        stated = self.description.max_seq_length
        return stated or self.config.max_position_embeddings

    def stated(self, options: type[_Options]) -> _Options:
        """Fills options with what the folder states; the rest are defaults.

        Raises:
            ValueError: a value is not one of its flag.
        """
        values = {}
        for field in dataclasses.fields(options):
            value = values[field.name] = self.description.stated(field.name)
            if value is not None and "flag" in field.metadata:
                source = self.folder.source(field.name)
                flags.check_value(options, field.name, value, source)
        if "max_seq_length" in values:
            values["max_seq_length"] = self.max_seq_length
        try:
            return options(**{k: v for k, v in values.items() if v is not None})
        except ValueError as error:
            raise ValueError(f"{self.folder.path}: {error}") from error


@dataclasses.dataclass(frozen=True, kw_only=True)
class Row(Generic[Source]):
    """A row of ids.

    Attributes:
        ids: the inputs of the network by name, `[T]` or `[C, T]` each; `[P]`
            positions of masks.
        source: the part of the example that the row is made from.
    """

    ids: Mapping[str, np.ndarray]
    source: Source

    @classmethod
    def of(cls, record: task.Record, source: Source, *more: str) -> Self:
        """Makes a row of the ids of a record, and of its features `more`."""
        names = (*ID_NAMES, *more)
        ids = {name: np.asarray(record[name], np.int32) for name in names}
        return cls(ids=ids, source=source)

    @property
    def num_tokens(self) -> int:
        """The tokens of the row, or of its longest choice."""
        return int(self.ids["input_mask"].sum(axis=-1).max())


class Asking(abc.ABC, Generic[Source]):
    """Texts asked of a trained model, and the answers.

    Args:
        model: the model.

    Attributes:
        kind: the name of the task in task.json.
        id_rank: the dimensions of ids: 2 for `[R, T]`, 3 for `[R, C, T]`.
        shared_field: the field that may be the same for all examples.

    Raises:
        ValueError: the model cannot answer texts.
    """

    kind: str
    id_rank: ClassVar[int] = 2
    shared_field: ClassVar[str | None] = None

    def __init__(self, model: ServedModel):
        self.model = model

    @classmethod
    def completed(
        cls, description: description_lib.Description, path: str
    ) -> description_lib.Description:
        """Adds what the folder of a Hugging Face model at `path` cannot say."""
        del path
        return description

    @property
    @abc.abstractmethod
    def fields(self) -> tuple[str, ...]:
        """The names of the parts of an example, in order."""

    @property
    def num_needed(self) -> int:
        """The number of fields that an example needs; others may be missing."""
        return len(self.fields)

    @property
    def form(self) -> str:
        """The form of a line, for messages."""
        return sentence_pairs.SEPARATOR.join(self.fields)

    @property
    def limit(self) -> tuple[str, str, int]:
        """The parts that are cut, the entry of their limit, and the limit."""
        return "texts", "max_seq_length", self.model.max_seq_length

    # ------------------------------------------------------------- Network

    @abc.abstractmethod
    def make_network(self, config: config_lib.BertConfig) -> "keras.Model":
        """Creates the network, in `DTYPE`."""

    @abc.abstractmethod
    def outputs(self, network: "keras.Model", rows: Tensors) -> Tensors:
        """Computes the outputs of rows, in predictions and in exports.

        Args:
            network: of `make_network`.
            rows: `Row.ids`, each with a first dimension `R`.
        """

    # ------------------------------------------------------------- Questions

    def parse(self, line: str, shared: str | None = None) -> Example:
        """Reads an example from a line.

        Args:
            line: its fields, separated as in `sentence_pairs`.
            shared: the value of `shared_field`, which the line then lacks.

        Raises:
            ValueError: a field is missing, or there are too many.
        """
        line = line.strip()
        parts = self._split(line) if shared is None else [line, shared]
        if not self.num_needed <= len(parts) <= len(self.fields):
            raise ValueError(
                f"An example of this model is {self.form}; got "
                f"{messages.short(line)}.{self._advice(len(parts))}"
            )
        return dict(zip(self.fields, parts, strict=False))

    def _split(self, line: str) -> list[Any]:
        if sentence_pairs.SEPARATOR not in line:
            return [line]
        return list(sentence_pairs.split_pair(line))

    def _advice(self, num_parts: int) -> str:
        if num_parts <= len(self.fields):
            return ""
        return (
            f" {sentence_pairs.SEPARATOR.strip()} separates two texts; in a "
            ".jsonl file, a text may contain it."
        )

    def check(self, values: Mapping[str, object]) -> Example:
        """Returns the fields of an example from a table or from JSON.

        Raises:
            ValueError: a field is missing, or not text.
        """
        example: Example = {}
        for place, name in enumerate(self.fields):
            if values.get(name) is None:
                if place < self.num_needed:
                    raise ValueError(f"{name!r} is missing.")
                continue
            example[name] = self._checked(name, values[name])
        return example

    def _checked(self, name: str, value: object) -> object:
        if not isinstance(value, str):
            raise ValueError(
                f"{name!r} must be a string; got {messages.short(value)}."
            )
        return value

    @abc.abstractmethod
    def encode(
        self, example: Example, counts: sentence_pairs.TruncationCounts
    ) -> list[Row[Source]]:
        """Makes the rows of an example, and counts what does not fit.

        Raises:
            ValueError: the example does not fit the model.
        """

    @abc.abstractmethod
    def decode(
        self, example: Example, rows: Sequence[Row[Source]], outputs: Outputs
    ) -> Answer:
        """Converts the outputs of the rows of an example to its answer."""

    @abc.abstractmethod
    def lines(self, example: Example, answer: Answer) -> list[str]:
        """Formats an answer for people, the most probable label first."""

    def show(self, example: Example, answer: Answer) -> str:
        """Formats an example and its answer for people."""
        texts = [
            text
            for name, text in example.items()
            if isinstance(text, str) and name != self.shared_field
        ]
        title = sentence_pairs.SEPARATOR.join(texts)
        return "\n".join([title, *self.lines(example, answer), ""])

    # ------------------------------------------------------------- Export

    @abc.abstractmethod
    def signatures(
        self, compute: Compute, tokenizer: "graph_tokenizer.GraphTokenizer"
    ) -> Signatures:
        """Makes the signatures of an export; docs/serving.md lists them.

        Args:
            compute: of `outputs`, traced.
            tokenizer: of the model.

        Raises:
            ValueError: the model is not exported for texts.
        """


def ranked(
    values: Iterable[tuple[str, float]], marked: Collection[str] = ()
) -> list[str]:
    """Formats values with their probabilities, the most probable first."""
    in_order = sorted(values, key=lambda pair: -pair[1])
    rows = []
    for name, number in in_order[:_MOST_SHOWN]:
        mark = "*" if name in marked else " "
        rows.append(f" {mark}{number:.4f}  {name}".rstrip())
    if len(in_order) > _MOST_SHOWN:
        rows.append(f"  and {len(in_order) - _MOST_SHOWN} more")
    return rows


def shortest(value: float | np.floating) -> float:
    """Rounds a float32 to its shortest form: 0.1, not 0.10000000149011612."""
    return float(str(np.float32(value)))
