"""Signatures of exported models, which take raw text or ids, by task.

docs/serving.md lists their inputs and outputs.
"""

from collections.abc import Callable, Mapping
from typing import TypeAlias

import keras
import tensorflow as tf

from bert.files import run_files
from bert.models import description as description_lib
from bert.serving import (
    embeddings,
    graph_tokenizer,
    models,
    span_search,
    token_rows,
)
from bert.tasks import task as task_lib
from bert.tasks.classification import predictions, sentence_pairs

DEFAULT, PAIRS, IDS = "serving_default", "pairs", "ids"
_TEXTS, _LISTS = [None], [None, None]  # Shapes.

Signature: TypeAlias = tf.types.experimental.PolymorphicFunction
Signatures = dict[str, Signature]
_Tensors = Mapping[str, tf.Tensor]
_Network = Callable[..., _Tensors]
_Tokenizer = graph_tokenizer.GraphTokenizer


def make(model: models.Model, network: keras.Model) -> Signatures:
    """Makes the signatures of a model.

    Args:
        model: of `models.read`.
        network: of `models.load`.

    Raises:
        ValueError: the model splits long texts into windows, which is not
            supported.
    """
    if model.description.long_text == sentence_pairs.WINDOWS:
        raise ValueError(
            "A SavedModel of --long_text=windows is not supported; "
            "tools.predict averages over the windows of a text. With "
            f"long_text head in {run_files.TASK}, the export cuts long texts."
        )
    basic = model.tokenizer.basic_tokenizer
    tokenizer = graph_tokenizer.GraphTokenizer(
        model.tokenizer.vocab_file, basic.do_lower_case, basic.strip_accents
    )
    # Traced once for all signatures, and outside of what training compiles, so
    # that plain operations are exported.
    compute = tf.function(
        models.outputs_of(model, network),
        input_signature=id_specs(model),
        autograph=False,
    )
    makers: dict[str, Callable[..., Signatures]] = {
        description_lib.CLASSIFICATION: _classifier,
        description_lib.MULTIPLE_CHOICE: _chooser,
        description_lib.QUESTION_ANSWERING: _answerer,
        description_lib.TAGGING: _tagger,
        models.EMBEDDING: (
            _sentence_encoder if model.sentence_encoder else _encoder
        ),
    }
    return makers[model.task](model, compute, tokenizer)


def id_specs(model: models.Model) -> list[tf.TensorSpec]:
    """Returns the specs of ids: `[R, T]`, or `[R, C, T]` for choices."""
    rank = 3 if model.task == description_lib.MULTIPLE_CHOICE else 2
    return [
        tf.TensorSpec([None] * rank, tf.int32, name=name)
        for name in models.ID_NAMES
    ]


def text_signature(**shapes: list[None]) -> Callable[[_Network], Signature]:
    """Makes a decorator that makes a signature of a function of texts.

    Args:
        **shapes: the names of the inputs, `[B]` or `[B, C]` string.
    """

    def decorate(compute: _Network) -> Signature:
        def run(*values: tf.Tensor) -> _Tensors:
            # A loaded signature accepts any shape, so it is checked here.
            checked = [
                tf.ensure_shape(value, shape)
                for value, shape in zip(values, shapes.values(), strict=True)
            ]
            first, *others = shapes
            for name, value in zip(others, checked[1:], strict=True):
                tf.debugging.assert_equal(
                    tf.shape(value)[0],
                    tf.shape(checked[0])[0],
                    f"{name} must have as many texts as {first}",
                )
            return compute(*checked)

        specs = [
            tf.TensorSpec(shape, tf.string, name=name)
            for name, shape in shapes.items()
        ]
        return tf.function(run, input_signature=specs, autograph=False)

    return decorate


def id_signature(
    compute: Callable[[token_rows.Rows], _Tensors],
    model: models.Model,
) -> Signature:
    """Makes a signature of rows that the client made, `[B, T]` int32.

    It raises an error if the shapes differ, T is too large, or a number is not
    an id: gathering counts negative ones from the end.

    Args:
        compute: a function of the rows.
        model: has the limits; of choices, the rows are `[B, C, T]`.
    """
    longest = model.config.max_position_embeddings
    sizes = {
        "input_ids": model.config.vocab_size,
        "input_mask": 2,
        "segment_ids": model.config.type_vocab_size,
    }

    def run(*ids: tf.Tensor) -> _Tensors:
        shape = tf.shape(ids[0])
        for name, values in zip(models.ID_NAMES, ids, strict=True):
            tf.debugging.assert_equal(
                tf.shape(values),
                shape,
                f"{name} must have the shape of input_ids",
            )
            tf.debugging.assert_equal(
                tf.reduce_all((values >= 0) & (values < sizes[name])),
                True,
                f"{name} must be from 0 to {sizes[name] - 1}",
            )
        tf.debugging.assert_less_equal(
            shape[-1],
            longest,
            f"A sequence must have at most {longest} tokens",
        )
        return compute(dict(zip(models.ID_NAMES, ids, strict=True)))

    return tf.function(run, input_signature=id_specs(model), autograph=False)


def _text_and_pair(
    compute: _Network, tokenizer: _Tokenizer, num_segments: int
) -> Signatures:
    """Makes the signatures of a text, and of a pair, of their tokens.

    A network with one type of segment has no signature of pairs.
    """

    @text_signature(text_a=_TEXTS)
    def single(text_a: tf.Tensor) -> _Tensors:
        tokens = tokenizer.tokenize(text_a)
        return compute(tokens, tokens[:, :0])

    @text_signature(text_a=_TEXTS, text_b=_TEXTS)
    def pairs(text_a: tf.Tensor, text_b: tf.Tensor) -> _Tensors:
        return compute(tokenizer.tokenize(text_a), tokenizer.tokenize(text_b))

    if num_segments < 2:
        return {DEFAULT: single}
    return {DEFAULT: single, PAIRS: pairs}


def _classifier(
    model: models.Model, network: _Network, tokenizer: _Tokenizer
) -> Signatures:
    truncation = model.truncation
    names = tf.constant(model.label_set.names, tf.string)  # [K]

    def answer(outputs: _Tensors) -> _Tensors:
        if "score" in outputs:
            return outputs
        probabilities = outputs["probabilities"]
        if model.problem_type == task_lib.MULTI_LABEL:
            is_chosen = probabilities >= predictions.THRESHOLD
            return {"probabilities": probabilities, "is_chosen": is_chosen}
        label = tf.gather(names, tf.argmax(probabilities, axis=-1))
        return {"label": label, "probabilities": probabilities}

    def of_tokens(
        tokens_a: tf.RaggedTensor, tokens_b: tf.RaggedTensor
    ) -> _Tensors:
        rows = token_rows.fit(tokens_a, tokens_b, truncation, tokenizer)
        return answer(network(**rows))

    ids = id_signature(lambda rows: answer(network(**rows)), model)
    texts = _text_and_pair(of_tokens, tokenizer, model.config.type_vocab_size)
    return {**texts, IDS: ids}


def _chooser(
    model: models.Model, network: _Network, tokenizer: _Tokenizer
) -> Signatures:
    # The texts of a choice are `first`, and `second` with an ending; the longer
    # one of a longer choice is truncated.
    truncation = sentence_pairs.Truncation(max_seq_length=model.max_seq_length)

    def answer(rows: token_rows.Rows) -> dict[str, tf.Tensor]:
        probabilities = network(**rows)["probabilities"]  # [B, C]
        best = tf.argmax(probabilities, axis=-1, output_type=tf.int32)
        return {"choice": best, "probabilities": probabilities}

    @text_signature(first=_TEXTS, second=_TEXTS, endings=_LISTS)
    def choices(
        first: tf.Tensor, second: tf.Tensor, endings: tf.Tensor
    ) -> _Tensors:
        count = tf.shape(endings)[1]
        row = tf.repeat(tf.range(tf.size(first)), count)  # [B * C]
        tokens_a, begun = (
            tf.gather(tokenizer.tokenize(text), row) for text in (first, second)
        )
        # The same pieces as of both texts with a space between them.
        ended = tokenizer.tokenize(tf.reshape(endings, [-1]))
        tokens_b = tf.concat([begun, ended], axis=1)
        rows = token_rows.fit(tokens_a, tokens_b, truncation, tokenizer)
        shape = [-1, count, tf.shape(rows["input_ids"])[1]]
        chosen = answer({k: tf.reshape(v, shape) for k, v in rows.items()})
        ending = tf.gather(endings, chosen["choice"], batch_dims=1)
        return {**chosen, "ending": ending}

    return {DEFAULT: choices, IDS: id_signature(answer, model)}


def _answerer(
    model: models.Model, network: _Network, tokenizer: _Tokenizer
) -> Signatures:
    longest = model.answers.max_answer_length
    most_query = model.windows.max_query_length

    @text_signature(question=_TEXTS, context=_TEXTS)
    def answer(question: tf.Tensor, context: tf.Tensor) -> _Tensors:
        context = graph_tokenizer.drop_invalid_utf8(context)
        query = tokenizer.tokenize(question)[:, :most_query]
        pieces = tokenizer.tokenize_with_offsets(context)
        num_pieces = pieces["ids"].row_lengths()
        windows = span_search.cut_windows(
            query.row_lengths(), num_pieces, model.windows
        )
        rows = token_rows.join(
            tf.gather(query, windows.question),
            token_rows.slices(
                pieces["ids"], windows.question, windows.starts, windows.lengths
            ),
            tokenizer,
        )
        spans = span_search.best_spans(
            network(**rows), windows, num_pieces, longest
        )
        is_answered, more = spans.is_found, {}
        if model.answers.version_2_with_negative:
            is_answered &= spans.null_odds <= model.threshold
            more = {"null_odds": tf.cast(spans.null_odds, tf.float32)}
        return {
            **span_search.texts(context, pieces, spans, is_answered),
            "score": tf.cast(spans.score, tf.float32),
            **more,
        }

    ids = id_signature(lambda rows: network(**rows), model)
    return {DEFAULT: answer, IDS: ids}


def _tagger(
    model: models.Model, network: _Network, tokenizer: _Tokenizer
) -> Signatures:
    names = tf.constant(model.label_set.names)  # [K]
    unknown = tokenizer.id_of("[UNK]")

    def best(probabilities: tf.Tensor) -> dict[str, tf.Tensor]:
        return {
            "tags": tf.gather(names, tf.argmax(probabilities, axis=-1)),
            "probabilities": tf.reduce_max(probabilities, axis=-1),
        }

    @text_signature(text=_TEXTS)
    def tags(text: tf.Tensor) -> _Tensors:
        # Only ASCII white space splits; invalid bytes alone are no word.
        words = tf.strings.split(graph_tokenizer.drop_invalid_utf8(text))
        pieces = tokenizer.tokenize(words.values)  # [W, (pieces)]
        is_empty = tf.cast(pieces.row_lengths() == 0, tf.int64)
        pieces = tf.concat(
            [pieces, token_rows.repeat(unknown, is_empty)], axis=1
        )
        tokens = words.with_values(pieces).merge_dims(1, 2)  # [B, (tokens)]
        rows = token_rows.join(tokens, tokens[:, :0], tokenizer)
        tf.debugging.assert_less_equal(
            tf.shape(rows["input_ids"])[1],
            model.max_seq_length,
            f"A sentence must have at most {model.max_seq_length} word pieces "
            "with [CLS] and [SEP]",
        )
        sentence = words.value_rowids()  # [W]
        # The label of a word is that of its first piece, after [CLS].
        first = pieces.row_starts() - tf.gather(tokens.row_starts(), sentence)
        place = tf.stack([sentence, 1 + first], axis=1)
        labels = best(tf.gather_nd(network(**rows)["probabilities"], place))
        return {
            "words": words.to_tensor(),
            **{k: words.with_values(v).to_tensor() for k, v in labels.items()},
        }

    ids = id_signature(
        lambda rows: best(network(**rows)["probabilities"]), model
    )
    return {DEFAULT: tags, IDS: ids}


def _sentence_encoder(
    model: models.Model, network: _Network, tokenizer: _Tokenizer
) -> Signatures:
    truncation = model.truncation

    def embed(texts: tf.Tensor) -> _Tensors:
        tokens = tokenizer.tokenize(texts)
        rows = token_rows.fit(tokens, tokens[:, :0], truncation, tokenizer)
        return network(**rows)

    @text_signature(text_a=_TEXTS)
    def single(text_a: tf.Tensor) -> _Tensors:
        return embed(text_a)

    @text_signature(text_a=_TEXTS, text_b=_TEXTS)
    def pairs(text_a: tf.Tensor, text_b: tf.Tensor) -> _Tensors:
        first, second = (embed(text)["embedding"] for text in (text_a, text_b))
        similarity = embeddings.similarity(first, second, model.similarity)
        return {"similarity": similarity}

    ids = id_signature(lambda rows: network(**rows), model)
    return {DEFAULT: single, PAIRS: pairs, IDS: ids}


def _encoder(
    model: models.Model, network: _Network, tokenizer: _Tokenizer
) -> Signatures:
    truncation = model.truncation
    tokens_by_id = model.tokenizer.inv_vocab
    names = tf.constant(
        [
            tokens_by_id.get(i, f"[id {i}]")
            for i in range(model.config.vocab_size)
        ]
    )

    def answer(rows: token_rows.Rows) -> dict[str, tf.Tensor]:
        outputs = dict(network(**rows))
        is_token = tf.cast(rows["input_mask"] > 0, tf.float32)
        is_token = is_token[..., tf.newaxis]  # [B, T, 1]
        # Values at padding are 0.
        layers = outputs["layers"] * is_token[..., tf.newaxis]
        sums = tf.reduce_sum(layers, axis=1)  # [B, L, D]
        counts = tf.reduce_sum(is_token, axis=1)[..., tf.newaxis]  # [B, 1, 1]
        return {
            **outputs,
            "input_mask": rows["input_mask"],
            "layers": layers,  # [B, T, L, D]
            "sequence_output": outputs["sequence_output"] * is_token,
            "mean": tf.math.divide_no_nan(sums, counts),
        }

    def of_tokens(
        tokens_a: tf.RaggedTensor, tokens_b: tf.RaggedTensor
    ) -> _Tensors:
        rows = token_rows.fit(tokens_a, tokens_b, truncation, tokenizer)
        tokens = tf.gather(names, rows["input_ids"])
        tokens = tf.where(rows["input_mask"] > 0, tokens, "")
        return {"tokens": tokens, **answer(rows)}

    ids = id_signature(answer, model)
    texts = _text_and_pair(of_tokens, tokenizer, model.config.type_vocab_size)
    return {**texts, IDS: ids}
