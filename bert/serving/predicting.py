"""Predictions of a trained model for texts, as the scripts make them.

There are no files of records, and nothing is compiled, so that the first
prediction only waits for the weights.
"""

import contextlib
import dataclasses
import itertools
import os
import re
from collections.abc import (
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from typing import TypeAlias

import keras
import numpy as np
import tensorflow as tf

from bert.files import json_text, messages, run_files
from bert.models import description as description_lib
from bert.serving import embeddings, models
from bert.tasks import swag, task
from bert.tasks.classification import predictions, sentence_pairs
from bert.tasks.squad import answer_ranking, question_files, window_features
from bert.tasks.tagging import conll, entities, ner, tagger_labels

_MASK = "[MASK]"
_WHITE_SPACE = re.compile("[ \t\n\r\f\v]+")  # Exported models split at it.
_POSITIONS = "masked_lm_positions"
_MOST_SHOWN = 10  # Labels of an answer.
_NUM_CANDIDATES = 5  # Words that a mask may stand for.
_NUMBERS_SHOWN = 5  # Elements of an embedding.
_OF_ONE_TEXT_OR_TWO = (description_lib.CLASSIFICATION, models.EMBEDDING)

Example: TypeAlias = json_text.Object
Answer: TypeAlias = json_text.Object
_Window: TypeAlias = window_features.SquadFeatures | ner.Window
_Outputs = Sequence[Mapping[str, np.ndarray]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Row:
    """A row of ids.

    Attributes:
        ids: the inputs of the network by name, `[T]` or `[C, T]` each; `[P]`
            positions of masks.
        source: the window of the task that the row is made from, if any.
    """

    ids: Mapping[str, np.ndarray]
    source: _Window | None = None

    @property
    def num_tokens(self) -> int:
        """The tokens of the row, or of its longest choice."""
        return int(self.ids["input_mask"].sum(axis=-1).max())


@dataclasses.dataclass(frozen=True, kw_only=True)
class Encoded:
    """An example, by the names of its parts, and its rows."""

    example: Example
    rows: Sequence[Row]


def _row(record: task.Record, source: _Window | None = None) -> Row:
    names = (*models.ID_NAMES, _POSITIONS)
    return Row(
        ids={k: np.asarray(record[k], np.int32) for k in names if k in record},
        source=source,
    )


# --------------------------------------------------------------------- Tasks


def _encode_texts(
    example: Example,
    model: models.Model,
    counts: sentence_pairs.TruncationCounts,
) -> list[Row]:
    tokenize = model.tokenizer.tokenize
    pair = tokenize(example["text_a"]), tokenize(example.get("text_b", ""))
    rows = sentence_pairs.encode(
        [pair], model.truncation, model.tokenizer, counts
    )
    return [_row(row) for row in rows]


def _decode_labels(
    encoded: Encoded, outputs: _Outputs, model: models.Model
) -> Answer:
    values = [np.ravel(value) for o in outputs for value in o.values()]
    pooled = predictions.pool_windows(np.stack(values), [len(values)])
    return next(predictions.named_answers(model.label_set, pooled))


def _show_labels(example: Example, answer: Answer) -> list[str]:
    if "score" in answer:
        return _ranked([("", answer["score"])])
    return _ranked(answer["probabilities"].items(), answer.get("labels", ()))


def _encode_sentences(
    example: Example,
    model: models.Model,
    counts: sentence_pairs.TruncationCounts,
) -> list[Row]:
    # Each text has a row of its own.
    texts = [model.tokenizer.tokenize(text) for text in example.values()]
    rows = sentence_pairs.encode(
        [(text, []) for text in texts],
        model.truncation,
        model.tokenizer,
        counts,
    )
    return [_row(row) for row in rows]


def _decode_embeddings(
    encoded: Encoded, outputs: _Outputs, model: models.Model
) -> Answer:
    first, *second = (output["embedding"] for output in outputs)
    if not second:
        return {"embedding": list(map(predictions.shortest, first))}
    similarity = embeddings.similarity(first, second[0], model.similarity)
    return {"similarity": predictions.shortest(similarity.numpy())}


def _show_embeddings(example: Example, answer: Answer) -> list[str]:
    if "similarity" in answer:
        return _ranked([("", answer["similarity"])])
    numbers = answer["embedding"]
    first = " ".join(f"{number:.4f}" for number in numbers[:_NUMBERS_SHOWN])
    return [f"  {len(numbers)} numbers: {first} ..."]


def _encode_choices(
    example: Example,
    model: models.Model,
    counts: sentence_pairs.TruncationCounts,
) -> list[Row]:
    record = swag.example_record(
        swag.Example(**example), model.truncation, model.tokenizer, counts
    )
    return [_row(record)]


def _decode_choice(
    encoded: Encoded, outputs: _Outputs, model: models.Model
) -> Answer:
    probabilities = outputs[0]["probabilities"]
    best = int(np.argmax(probabilities))
    return {
        "choice": best,
        "ending": encoded.example["endings"][best],
        "probabilities": list(map(predictions.shortest, probabilities)),
    }


def _show_choice(example: Example, answer: Answer) -> list[str]:
    shares = zip(example["endings"], answer["probabilities"], strict=True)
    return _ranked(shares)


def _squad_example(example: Example) -> question_files.SquadExample:
    return question_files.SquadExample(
        qas_id="",
        question_text=example["question"],
        doc_tokens=question_files.find_words(example["context"]),
    )


def _encode_question(
    example: Example,
    model: models.Model,
    counts: sentence_pairs.TruncationCounts,
) -> list[Row]:
    (windows,) = window_features.convert_examples_to_features(
        [_squad_example(example)],
        model.tokenizer,
        model.windows,
        counts=counts,
    )
    return [_row(window.record(), window) for window in windows]


def _decode_answer(
    encoded: Encoded, outputs: _Outputs, model: models.Model
) -> Answer:
    windows = [
        row.source
        for row in encoded.rows
        if isinstance(row.source, window_features.SquadFeatures)
    ]
    logits = {
        window.unique_id: np.stack(
            [output["start_logits"], output["end_logits"]]
        )
        for window, output in zip(windows, outputs, strict=True)
    }
    (ranked,) = answer_ranking.rank_answers(
        [_squad_example(encoded.example)],
        [windows],
        logits,
        model.answers,
        model.tokenizer.basic_tokenizer,
        without_padding=not _keeps_padding(model),
    )
    text = ranked.prediction(model.threshold)
    # If "no answer" wins, "" may not be in the list.
    shares = {
        candidate.text: candidate.probability for candidate in ranked.nbest
    }
    if not windows:
        # Differs: the release answers "empty"; exported models answer "".
        text, shares = "", {"": 1.0}
    answer = {"answer": text, "probability": shares.get(text, 0.0)}
    if ranked.null_odds is not None:
        answer["null_odds"] = ranked.null_odds
    return answer


def _show_answer(example: Example, answer: Answer) -> list[str]:
    return _ranked([(answer["answer"] or "(no answer)", answer["probability"])])


def _keeps_padding(model: models.Model) -> bool:
    # As released: padding competes for the best places.
    is_answering = model.task == description_lib.QUESTION_ANSWERING
    return is_answering and not model.description.packing


def _words(example: Example) -> tuple[str, ...]:
    return tuple(filter(None, _WHITE_SPACE.split(example["text"])))


def _encode_words(
    example: Example,
    model: models.Model,
    counts: sentence_pairs.TruncationCounts,
) -> list[Row]:
    words, length = _words(example), model.max_seq_length
    if not words:
        return []
    (windows,) = ner.make_windows(
        [conll.Sentence(words=words, tags=None, lines=(), document=0)],
        [[0] * len(words)],
        model.tokenizer,
        length,
    )
    return [_row(window.record(length), window) for window in windows]


def _decode_tags(
    encoded: Encoded, outputs: _Outputs, model: models.Model
) -> Answer:
    words, names = _words(encoded.example), model.label_set.names
    tags = [
        names[number]
        for row, output in zip(encoded.rows, outputs, strict=True)
        if isinstance(row.source, ner.Window)
        for number in output["probabilities"][
            list(row.source.positions)
        ].argmax(axis=-1)
    ]
    labels = tagger_labels.of_model(
        names, os.path.dirname(model.checkpoint), model.description.scheme
    )
    answer: Answer = {"words": list(words), "tags": tags}
    if labels.have_entities:
        answer["entities"] = [
            {
                "type": entity.kind,
                "text": " ".join(words[entity.start : entity.end]),
                "start": entity.start,
                "end": entity.end,
            }
            for entity in entities.find_entities(labels.decode(tags))
        ]
    return answer


def _show_tags(example: Example, answer: Answer) -> list[str]:
    if "entities" not in answer:
        pairs = zip(answer["tags"], answer["words"], strict=True)
        return [f"  {tag}  {word}" for tag, word in pairs]
    rows = [
        f"  {entity['type']}  {entity['text']}" for entity in answer["entities"]
    ]
    return [row.rstrip() for row in rows] or ["  (no entity)"]


def _encode_masks(
    example: Example,
    model: models.Model,
    counts: sentence_pairs.TruncationCounts,
) -> list[Row]:
    def tokenize(part: str) -> list[str]:
        tokens = []
        for between in part.split(_MASK):
            tokens += [_MASK, *model.tokenizer.tokenize(between)]
        return tokens[1:]

    model.tokenizer.require_tokens(_MASK)
    tokens, segment_ids = sentence_pairs.tokenize_pair(
        example["text"], tokenize, model.max_seq_length
    )
    positions = [i for i, token in enumerate(tokens) if token == _MASK]
    if not positions:
        raise ValueError(
            f"The text must have a {_MASK}; got "
            f"{messages.short(example['text'])}."
        )
    record = {
        "input_ids": model.tokenizer.convert_tokens_to_ids(tokens),
        "input_mask": [1] * len(tokens),
        "segment_ids": segment_ids,
        _POSITIONS: positions,
    }
    return [_row(record)]


def _decode_words(
    encoded: Encoded, outputs: _Outputs, model: models.Model
) -> Answer:
    (row,), (output,) = encoded.rows, outputs
    names, masks = model.tokenizer.inv_vocab, []
    for place in range(len(row.ids[_POSITIONS])):
        ids = output["ids"][place].tolist()
        shares = map(predictions.shortest, output["probabilities"][place])
        masks.append(
            [
                {"token": names.get(i, f"[id {i}]"), "probability": share}
                for i, share in zip(ids, shares, strict=True)
            ]
        )
    return {"masks": masks}


def _show_words(example: Example, answer: Answer) -> list[str]:
    rows = []
    for place, candidates in enumerate(answer["masks"], start=1):
        rows.append(f"  [MASK] {place}")
        rows += [
            f"    {candidate['probability']:8.4f}  {candidate['token']}"
            for candidate in candidates
        ]
    return rows


def _ranked(
    values: Iterable[tuple[str, float]], marked: Collection[str] = ()
) -> list[str]:
    """Formats values with their probabilities, the most probable first."""
    ranked = sorted(values, key=lambda pair: -pair[1])
    rows = []
    for name, number in ranked[:_MOST_SHOWN]:
        mark = "*" if name in marked else " "
        rows.append(f" {mark}{number:.4f}  {name}".rstrip())
    if len(ranked) > _MOST_SHOWN:
        rows.append(f"  and {len(ranked) - _MOST_SHOWN} more")
    return rows


@dataclasses.dataclass(frozen=True)
class _Task:
    fields: tuple[str, ...]  # The parts of an example, in order.
    encode: Callable[
        [Example, models.Model, sentence_pairs.TruncationCounts], list[Row]
    ]
    decode: Callable[[Encoded, _Outputs, models.Model], Answer]
    show: Callable[[Example, Answer], list[str]]  # The lines of a table.


_TASKS = {
    description_lib.CLASSIFICATION: _Task(
        ("text_a", "text_b"), _encode_texts, _decode_labels, _show_labels
    ),
    models.EMBEDDING: _Task(
        ("text_a", "text_b"),
        _encode_sentences,
        _decode_embeddings,
        _show_embeddings,
    ),
    description_lib.MULTIPLE_CHOICE: _Task(
        ("first", "second", "endings"),
        _encode_choices,
        _decode_choice,
        _show_choice,
    ),
    description_lib.QUESTION_ANSWERING: _Task(
        ("question", "context"), _encode_question, _decode_answer, _show_answer
    ),
    description_lib.TAGGING: _Task(
        ("text",), _encode_words, _decode_tags, _show_tags
    ),
    description_lib.PRETRAINING: _Task(
        ("text",), _encode_masks, _decode_words, _show_words
    ),
}


def form(task: str) -> str:
    """Returns the form of a line, for messages."""
    more = (
        f"{sentence_pairs.SEPARATOR}..."
        if task == description_lib.MULTIPLE_CHOICE
        else ""
    )
    return sentence_pairs.SEPARATOR.join(_TASKS[task].fields) + more


def example(task: str, line: str, context: str | None = None) -> Example:
    """Reads an example.

    Args:
        task: of the model.
        line: its parts, separated as in `sentence_pairs`: the last ` ||| `
            separates two texts, each one the choices.
        context: the paragraph of a question; the line is the question alone.

    Raises:
        ValueError: a part is missing.
    """
    names, line = _TASKS[task].fields, line.strip()
    parts: list[str | list[str]] = [line]
    if context is not None:
        parts = [line, context]
    elif task == description_lib.MULTIPLE_CHOICE:
        first, *others = line.split(sentence_pairs.SEPARATOR)
        parts = [first, *others[:1], others[1:]]
        if len(others) < 3:  # There are two endings or more.
            parts = []
    elif len(names) > 1 and sentence_pairs.SEPARATOR in line:
        parts = list(sentence_pairs.split_pair(line))
    is_short = task in _OF_ONE_TEXT_OR_TWO and len(parts) == 1
    if len(parts) != len(names) and not is_short:
        raise ValueError(
            f"An example of this model is {form(task)}; got "
            f"{messages.short(line)}."
        )
    return dict(zip(names, parts, strict=False))


def show(task: str, example: Example, answer: Answer) -> str:
    """Formats an answer for people, the most probable label first.

    Args:
        task: of the model.
        example: the example.
        answer: of `Predictor`.
    """
    texts = [
        text
        for name, text in example.items()
        if isinstance(text, str) and name != "context"
    ]
    shown = _TASKS[task].show(example, answer)
    return "\n".join([sentence_pairs.SEPARATOR.join(texts), *shown, ""])


# ------------------------------------------------------------------ Prediction


class Predictor:
    """Predicts with a trained model.

    Args:
        model: of `models.read`; its weights are loaded.
        batch_size: rows per batch.
    """

    def __init__(self, model: models.Model, batch_size: int):
        network = models.load(model)
        self._model = model
        self._batch_size = batch_size
        self._counts = sentence_pairs.TruncationCounts()
        self._compute: Callable[..., Mapping[str, tf.Tensor]]
        if model.task == description_lib.PRETRAINING:
            self._compute = _masked_words(network)
        else:
            self._compute = models.outputs_of(model, network)

    def encode(self, example: Example) -> Encoded:
        """Makes the rows of an example.

        Raises:
            ValueError: the example does not fit the model.
        """
        encode = _TASKS[self._model.task].encode
        rows = encode(example, self._model, self._counts)
        for row in rows:
            self._model.config.check_segments(row.ids["segment_ids"].flat)
        return Encoded(example=example, rows=rows)

    def log_truncation(self) -> None:
        """Warns of the texts that were too long for the model, if any."""
        if self._model.task == description_lib.QUESTION_ANSWERING:
            length, name = self._model.windows.max_query_length, "questions"
            flag = "max_query_length"
        else:
            length, name = self._model.max_seq_length, "texts"
            flag = "max_seq_length"
        place = f"{flag} in the model's {run_files.TASK}"
        self._counts.log(name, length, place)

    def predict(self, examples: Sequence[Encoded]) -> list[Answer]:
        """Returns the answers to examples, in order, as in JSON."""
        decode = _TASKS[self._model.task].decode
        with _op_by_op():
            outputs = iter(self._run([row for e in examples for row in e.rows]))
            return [
                decode(
                    e, list(itertools.islice(outputs, len(e.rows))), self._model
                )
                for e in examples
            ]

    def _run(self, rows: Sequence[Row]) -> list[dict[str, np.ndarray]]:
        outputs_of: list[dict[str, np.ndarray]] = [{} for _ in rows]
        for batch in self._batches(rows):
            inputs = {
                name: _stacked([rows[index].ids[name] for index in batch])
                for name in rows[batch[0]].ids
            }
            if not _keeps_padding(self._model):
                length = max(rows[index].num_tokens for index in batch)
                for name in models.ID_NAMES:
                    inputs[name] = inputs[name][..., :length]
            outputs = self._compute(*map(tf.constant, inputs.values()))
            for name, values in outputs.items():
                for index, value in zip(batch, values.numpy(), strict=True):
                    outputs_of[index][name] = value
        return outputs_of

    def _batches(self, rows: Sequence[Row]) -> Iterator[list[int]]:
        # The rows of a batch have similar lengths.
        def choices(index: int) -> tuple[int, ...]:
            return rows[index].ids["input_ids"].shape[:-1]

        order = sorted(
            range(len(rows)), key=lambda i: (choices(i), rows[i].num_tokens)
        )
        for _, group in itertools.groupby(order, choices):
            # `itertools.batched` is of Python 3.12.
            while batch := list(itertools.islice(group, self._batch_size)):
                yield batch


def _masked_words(
    network: keras.Model,
) -> Callable[..., Mapping[str, tf.Tensor]]:
    """Returns a function of the best words at `[R, P]` masks, best first."""

    def compute(*inputs: tf.Tensor) -> dict[str, tf.Tensor]:
        logits = network(*inputs)["masked_lm_logits"]  # [R, P, V]
        most = min(_NUM_CANDIDATES, logits.shape[-1])
        # `top_k` puts the first in the vocabulary of equal ones first.
        values, ids = tf.math.top_k(tf.nn.softmax(logits), most)
        return {"ids": ids, "probabilities": values}

    return compute


def _stacked(values: Sequence[np.ndarray]) -> np.ndarray:
    longest = max(value.shape[-1] for value in values)
    shape = (len(values), *values[0].shape[:-1], longest)
    stacked = np.zeros(shape, np.int32)  # Padded with 0, as released.
    for row, value in zip(stacked, values, strict=True):
        row[..., : value.shape[-1]] = value
    return stacked


@contextlib.contextmanager
def _op_by_op() -> Iterator[None]:
    # Compilation takes seconds for each length of a row.
    before = tf.config.functions_run_eagerly()
    tf.config.run_functions_eagerly(True)
    try:
        yield
    finally:
        tf.config.run_functions_eagerly(before)
