"""Predictions of a trained model for texts, as the scripts make them.

There are no files of records, and nothing is compiled, so that the first answer
only waits for the weights.
"""

import contextlib
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from files import messages
from serving import networks, run_folder, signatures
from tasks import swag
from tasks.classification import predictions, sentence_pairs
from tasks.squad import squad_answers, squad_examples, squad_features
from tasks.tagging import conll, entities, ner

# The parts of an example, in order.
_LABELED = ("text_a", "text_b")
FIELDS = {
    run_folder.CLASSIFY: _LABELED,
    run_folder.SCORE: _LABELED,
    run_folder.CHOOSE: ("first", "second", "endings"),
    run_folder.ANSWER: ("question", "context"),
    run_folder.TAG: ("text",),
}
_WHITE_SPACE = re.compile("[ \t\n\r\f\v]+")  # As in exported models.

Example = Mapping[str, Any]
# The ids of one row, `[T]` or `[C, T]` each.
_Row = Mapping[str, np.ndarray]
_Outputs = Sequence[Mapping[str, np.ndarray]]
# The rows of an example, and a function from their outputs to the answer.
_Encoded = tuple[list[_Row], Callable[[_Outputs], dict[str, Any]]]


def form(task: str) -> str:
    """Returns the form of an example, for messages."""
    more = " ||| ..." if task == run_folder.CHOOSE else ""
    return " ||| ".join(FIELDS[task]) + more


def example(task: str, parts: Sequence[str]) -> Example:
    """Returns the parts of an example by name.

    Args:
        task: one of `FIELDS`.
        parts: in order; those from the third on are the endings of a choice.

    Raises:
        ValueError: there are too few or too many.
    """
    names, values = FIELDS[task], list[Any](parts)
    if task == run_folder.CHOOSE:  # Of two endings or more.
        values = [*parts[:2], parts[2:]] if len(parts) > 3 else []
    least = 1 if names == _LABELED else len(names)
    if not least <= len(values) <= len(names):
        raise ValueError(
            f"An example of this model is {form(task)}; got "
            f"{messages.short(' ||| '.join(parts))}."
        )
    return dict(zip(names, values, strict=False))


class Predictor:
    """Predicts with the model of a run.

    Args:
        task: one of `FIELDS`.
        settings: of the model; its weights are loaded.
        batch_size: rows per batch.
    """

    def __init__(
        self, task: str, settings: run_folder.Settings, batch_size: int
    ):
        self._model = networks.load(task, settings)
        self._settings = settings
        self._batch_size = batch_size
        # As in the script: padding competes for the best places of an answer.
        self._keeps_padding = (
            task == run_folder.ANSWER and not settings.answering.removes_padding
        )
        self._encode: Callable[..., _Encoded] = {
            run_folder.CHOOSE: _choice,
            run_folder.ANSWER: _answer,
            run_folder.TAG: _tags,
        }.get(task, _labels)
        self._compute = networks.outputs_of(task, self._model, settings)

    def predict(self, examples: Iterable[Example]) -> list[dict[str, Any]]:
        """Returns the answers to examples, in order, as in JSON."""
        encoded = [
            self._encode(each, self._settings, self._model) for each in examples
        ]
        with _op_by_op():
            outputs = iter(
                self._run([row for rows, _ in encoded for row in rows])
            )
            return [
                decode(list(itertools.islice(outputs, len(rows))))
                for rows, decode in encoded
            ]

    def _run(self, rows: Sequence[_Row]) -> list[dict[str, np.ndarray]]:
        """Runs the network on rows, in batches of similar lengths."""
        found: list[dict[str, np.ndarray]] = [{} for _ in rows]
        for batch in self._batches(rows):
            length = None
            if not self._keeps_padding:
                length = max(_length(rows[index]) for index in batch)
            ids = [
                np.stack([rows[index][name] for index in batch])[..., :length]
                for name in signatures.ID_NAMES
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
    """Disables compilation, which takes seconds for each length of a row."""
    before = tf.config.functions_run_eagerly()
    tf.config.run_functions_eagerly(True)
    try:
        yield
    finally:
        tf.config.run_functions_eagerly(before)


def _length(row: _Row) -> int:
    """Counts the tokens of a row, or of its longest choice."""
    return int(row["input_mask"].sum(axis=-1).max())


def _row(record: Mapping[str, Any]) -> _Row:
    return {
        name: np.asarray(record[name], np.int32) for name in signatures.ID_NAMES
    }


def _labels(example, settings: run_folder.Settings, model) -> _Encoded:
    texts = sentence_pairs.InputExample(guid="", **example)
    records = sentence_pairs.example_records(
        texts, 0, settings.truncation, settings.tokenizer
    )

    def decode(outputs):
        values = [np.ravel(value) for o in outputs for value in o.values()]
        pooled = predictions.pool_windows(np.stack(values), [len(values)])
        return next(predictions.named_answers(settings.known_labels, pooled))

    return [_row(record) for record in records], decode


def _choice(example, settings: run_folder.Settings, model) -> _Encoded:
    record = swag.example_record(
        swag.Example(**example), settings.truncation, settings.tokenizer
    )

    def decode(outputs):
        probabilities = outputs[0]["probabilities"]
        best = int(np.argmax(probabilities))
        return {
            "choice": best,
            "ending": example["endings"][best],
            "probabilities": list(map(predictions.shortest, probabilities)),
        }

    return [_row(record)], decode


def _answer(example, settings: run_folder.Settings, model) -> _Encoded:
    reading = settings.answering
    question = squad_examples.SquadExample(
        qas_id="",
        question_text=example["question"],
        doc_tokens=squad_examples.find_words(example["context"]),
    )
    windows = list(
        squad_features.convert_examples_to_features(
            [question], settings.tokenizer, reading.windows, num_workers=1
        )
    )

    def decode(outputs):
        logits = {
            window.unique_id: np.stack(
                [scores["start_logits"], scores["end_logits"]]
            )
            for window, scores in zip(windows, outputs, strict=True)
        }
        (ranked,) = squad_answers.rank_answers(
            [question],
            windows,
            logits,
            reading.answers,
            settings.tokenizer.basic_tokenizer,
            without_padding=reading.removes_padding,
        )
        text = ranked.prediction(reading.threshold or 0.0)
        # If "no answer" wins, "" may not be in the list.
        shares = {each.text: each.probability for each in ranked.nbest}
        found = {"answer": text, "probability": shares.get(text, 0.0)}
        if ranked.null_odds is not None:
            found["null_odds"] = ranked.null_odds
        return found

    return [_row(each.record()) for each in windows], decode


def _tags(example, settings: run_folder.Settings, model) -> _Encoded:
    """Predicts a tag for each word, in IOB2, and the entities."""
    words = tuple(filter(None, _WHITE_SPACE.split(example["text"])))
    names = settings.known_labels.names
    length = settings.truncation.max_seq_length
    windows: Sequence[ner.Window] = []
    if words:
        (windows,) = ner.make_windows(
            [conll.Sentence(words=words, tags=None, lines=(), document=0)],
            [[0] * len(words)],
            settings.tokenizer,
            ner.WindowOptions(max_seq_length=length, context=ner.SENTENCE),
        )

    def decode(outputs):
        found = [
            value[list(window.positions)]
            for window, of_row in zip(windows, outputs, strict=True)
            for value in of_row.values()
        ]
        tags = []
        if found:
            values = np.concatenate(found)  # [words, K]
            tags = [names[number] for number in values.argmax(axis=-1)]
        marked = [
            {
                "type": entity.kind,
                "text": " ".join(words[entity.start : entity.end]),
                "start": entity.start,
                "end": entity.end,
            }
            for entity in entities.find_entities(tags)
        ]
        return {"words": list(words), "tags": tags, "entities": marked}

    return [_row(each.record(length)) for each in windows], decode
