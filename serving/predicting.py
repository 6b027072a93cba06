"""Answers of a trained model to texts: rows of ids, batches, and back.

It is what the scripts do with `--do_predict`, for texts as they come and
without files of records; nothing is compiled, so that the first answer needs
no more than the weights.
"""

import contextlib
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import tensorflow as tf

from files import messages
from serving import networks, run_folder
from serving import settings as settings_lib
from tasks import swag
from tasks.classification import predictions, sentence_pairs
from tasks.squad import squad_answers, squad_examples, squad_features
from tasks.tagging import conll, entities, ner

# The parts of an example, in the order in which people write them.
_LABELLED = ("text_a", "text_b")
FIELDS = {
    run_folder.CLASSIFY: _LABELLED,
    run_folder.SCORE: _LABELLED,
    run_folder.CHOOSE: ("first", "second", "endings"),
    run_folder.ANSWER: ("question", "context"),
    run_folder.TAG: ("text",),
}
_MAY_BE_ABSENT = ("text_b", "second")
_WHITE_SPACE = re.compile("[ \t\n\r\f\v]+")  # As exported models part words.

Example = Mapping[str, Any]
# The ids of one row, `[T]` or `[C, T]` each.
_Row = Mapping[str, np.ndarray]
_Outputs = Sequence[Mapping[str, np.ndarray]]


def example(task: str, parts: Sequence[str]) -> Example:
    """Names the parts of an example.

    Args:
        task: one of `FIELDS`.
        parts: as people write them, in order.

    Raises:
        ValueError: there are too few or too many.
    """
    names = FIELDS[task]
    if task == run_folder.CHOOSE:
        first, second = [*parts, "", ""][:2]
        named = {"first": first, "second": second, "endings": parts[2:]}
        return checked(task, named)
    if len(parts) > len(names):
        raise ValueError(
            f"An example of this model is {' ||| '.join(names)}; got "
            f"{len(parts)} parts: {messages.short(' ||| '.join(parts))}."
        )
    return checked(task, dict(zip(names, parts, strict=False)))


def checked(task: str, fields: Any) -> Example:
    """Checks an example whose parts have names.

    Raises:
        ValueError: a part is missing, unknown or no text.
    """
    names = FIELDS[task]
    needed = [name for name in names if name not in _MAY_BE_ABSENT]
    if not isinstance(fields, dict) or not (
        set(needed) <= set(fields) <= set(names)
    ):
        raise ValueError(
            f"An example of this model has {', '.join(names)}; got "
            f"{messages.short(fields)}."
        )
    for name, value in fields.items():
        texts = value if name == "endings" else [value]
        if not isinstance(texts, Sequence) or not all(
            isinstance(text, str) for text in texts
        ):
            raise ValueError(f"{name} must be text; got {value!r:.60}.")
    if len(fields.get("endings", "..")) < 2:
        raise ValueError(
            "There must be at least two endings: first ||| second ||| ending "
            f"||| ending; got {messages.short(fields)}."
        )
    return fields


class _Kind(Protocol):
    """Text to rows, and outputs to an answer, for one task."""

    def encode(self, example: Example) -> tuple[list[_Row], Any]:
        """Makes the rows of an example, and what `decode` needs beside."""

    def decode(
        self, example: Example, kept: Any, outputs: _Outputs
    ) -> dict[str, Any]:
        """Makes the answer of the outputs for its rows, as JSON has it."""


class Predictor:
    """Answers with the model of a run.

    Args:
        task: one of `FIELDS`.
        settings: of the model, which is loaded.
        batch_size: rows that are read at once.
    """

    def __init__(
        self, task: str, settings: settings_lib.Settings, batch_size: int
    ):
        model = networks.load(task, settings)
        kinds: dict[str, Callable[..., _Kind]] = {
            run_folder.CHOOSE: _Choice,
            run_folder.ANSWER: _Answer,
            run_folder.TAG: _Tags,
        }
        self._kind = kinds.get(task, _Labels)(settings, model)
        self._batch_size = batch_size
        self._compute: Callable[..., Mapping[str, tf.Tensor]]
        if isinstance(model, networks.FeatureTagger):
            self._compute = lambda *ids: {"vectors": model(*ids)}
        else:
            self._compute = networks.outputs_of(task, model, settings)

    def predict(self, examples: Iterable[Example]) -> list[dict[str, Any]]:
        """Answers examples, in order, as JSON has it."""
        encoded = [(each, *self._kind.encode(each)) for each in examples]
        with _op_by_op():
            outputs = iter(self._run([row for _, r, _ in encoded for row in r]))
            return [
                self._kind.decode(
                    each, kept, list(itertools.islice(outputs, len(rows)))
                )
                for each, rows, kept in encoded
            ]

    def _run(self, rows: Sequence[_Row]) -> list[dict[str, np.ndarray]]:
        """Runs the network on rows, those of like length together."""
        found: list[dict[str, np.ndarray]] = [{} for _ in rows]
        for batch in self._batches(rows):
            length = max(_length(rows[index]) for index in batch)
            ids = [
                np.stack([rows[index][name] for index in batch])[..., :length]
                for name in networks.INPUTS
            ]
            outputs = self._compute(*map(tf.constant, ids))
            for name, values in outputs.items():
                for index, value in zip(batch, values.numpy(), strict=True):
                    found[index][name] = value
        return found

    def _batches(self, rows: Sequence[_Row]) -> Iterator[list[int]]:
        def choices(index):
            return rows[index]["input_ids"].shape[:-1]

        order = sorted(
            range(len(rows)), key=lambda i: (choices(i), _length(rows[i]))
        )
        for _, group in itertools.groupby(order, choices):
            # `itertools.batched` is of Python 3.12.
            while batch := list(itertools.islice(group, self._batch_size)):
                yield batch


@contextlib.contextmanager
def _op_by_op() -> Iterator[None]:
    """Compiles nothing: that takes seconds for each length of a row."""
    before = tf.config.functions_run_eagerly()
    tf.config.run_functions_eagerly(True)
    try:
        yield
    finally:
        tf.config.run_functions_eagerly(before)


def _length(row: _Row) -> int:
    """Counts the tokens of a row, of its longest choice."""
    return int(row["input_mask"].sum(axis=-1).max())


def _row(record: Mapping[str, Any]) -> _Row:
    return {
        name: np.asarray(record[name], np.int32) for name in networks.INPUTS
    }


class _Labels:
    """A label, several labels or a score."""

    def __init__(self, settings: settings_lib.Settings, model: Any):
        del model
        self._settings = settings
        self._labels = settings_lib.given(settings.label_set, "label_set")

    def encode(self, example: Example) -> tuple[list[_Row], Any]:
        records = sentence_pairs.example_records(
            sentence_pairs.InputExample(guid="", **example),
            0,
            self._settings.packing,
            self._settings.tokenizer,
        )
        return [_row(record) for record in records], None

    def decode(self, example, kept, outputs) -> dict[str, Any]:
        values = [np.ravel(value) for o in outputs for value in o.values()]
        pooled = predictions.pool_windows(np.stack(values), [len(values)])
        return next(predictions.named_answers(self._labels, pooled))


class _Choice:
    """One of several endings."""

    def __init__(self, settings: settings_lib.Settings, model: Any):
        del model
        self._settings = settings

    def encode(self, example: Example) -> tuple[list[_Row], Any]:
        asked = swag.Example(
            first=example["first"],
            second=example.get("second", ""),
            endings=tuple(example["endings"]),
        )
        record, _ = swag.example_record(
            asked, self._settings.packing, self._settings.tokenizer
        )
        return [_row(record)], None

    def decode(self, example, kept, outputs) -> dict[str, Any]:
        (of_row,) = outputs
        return chosen(example, of_row["probabilities"])


def chosen(example: Example, probabilities: np.ndarray) -> dict[str, Any]:
    """Makes the answer of `[C]` probabilities of endings."""
    best = int(np.argmax(probabilities))
    return {
        "choice": best,
        "ending": example["endings"][best],
        "probabilities": list(map(predictions.shortest, probabilities)),
    }


class _Answer:
    """A part of a paragraph."""

    def __init__(self, settings: settings_lib.Settings, model: Any):
        del model
        self._reading = settings_lib.given(settings.answering, "answering")
        self._tokenizer = settings.tokenizer

    def encode(self, example: Example) -> tuple[list[_Row], Any]:
        asked = squad_examples.SquadExample(
            qas_id="",
            question_text=example["question"],
            doc_tokens=squad_examples.find_words(example["context"]).words,
        )
        windows = list(
            squad_features.convert_examples_to_features(
                [asked], self._tokenizer, self._reading.windows, num_workers=1
            )
        )
        rows = [_row(window.record()) for window in windows]
        return rows, (asked, windows)

    def decode(self, example, kept, outputs) -> dict[str, Any]:
        asked, windows = kept
        length = self._reading.windows.max_seq_length
        values = np.full((len(windows), 2, length), -1e9, np.float32)
        for row, scores in zip(values, outputs, strict=True):
            for side, name in enumerate(("start_logits", "end_logits")):
                row[side, : len(scores[name])] = scores[name]
        logits = squad_answers.Logits(
            unique_ids=np.array([w.unique_id for w in windows], np.int64),
            values=values,
        )
        (ranked,) = squad_answers.rank_answers(
            [asked],
            windows,
            logits,
            self._reading.answers,
            self._tokenizer.basic_tokenizer,
        )
        text = ranked.prediction(self._reading.threshold or 0.0)
        found = {
            "answer": text,
            "probability": next(
                (c.probability for c in ranked.nbest if c.text == text), 0.0
            ),
        }
        if ranked.null_odds is not None:
            found["null_odds"] = ranked.null_odds
        return found


class _Tags:
    """A tag for each word."""

    def __init__(self, settings: settings_lib.Settings, model: Any):
        self._model = model
        self._tokenizer = settings.tokenizer
        self._names = settings_lib.given(settings.label_set, "labels").names
        self._options = ner.WindowOptions(
            max_seq_length=settings.packing.max_seq_length,
            context=ner.SENTENCE,
        )

    def encode(self, example: Example) -> tuple[list[_Row], Any]:
        words = tuple(filter(None, _WHITE_SPACE.split(example["text"])))
        if not words:
            return [], ((), [])
        sentence = conll.Sentence(words=words, tags=None, lines=(), document=0)
        (windows,) = ner.make_windows(
            [sentence], [[0] * len(words)], self._tokenizer, self._options
        )
        length = self._options.max_seq_length
        rows = [_row(window.record(length)) for window in windows]
        return rows, (words, windows)

    def decode(self, example, kept, outputs) -> dict[str, Any]:
        words, windows = kept
        found = [
            value[list(window.positions)]
            for window, of_row in zip(windows, outputs, strict=True)
            for value in of_row.values()
        ]
        if not found:
            return tagged((), ())
        values = np.concatenate(found)  # [words, K], or [words, L * D]
        if isinstance(self._model, networks.FeatureTagger):
            values = self._model.tagger(
                values[np.newaxis], np.ones((1, len(words)), np.int32)
            )["logits"].numpy()[0]
        best = values.argmax(axis=-1)
        return tagged(words, [self._names[number] for number in best])


def tagged(words: Sequence[str], tags: Sequence[str]) -> dict[str, Any]:
    """Makes the answer of the tags of words, in IOB2."""
    return {
        "words": list(words),
        "tags": list(tags),
        "entities": [
            {
                "type": entity.kind,
                "text": " ".join(words[entity.start : entity.end]),
                "start": entity.start,
                "end": entity.end,
            }
            for entity in entities.find_entities(tags)
        ],
    }
