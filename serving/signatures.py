"""Signatures of exported models, which take raw text or ids, by task.

docs/serving.md lists their inputs and outputs. The ids of texts are ragged
tensors, `[N, (tokens)]` int32.
"""

from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from models import description as description_lib
from serving import answers, graph_tokenizer, models
from tasks import task as task_lib
from tasks.classification import predictions, sentence_pairs

DEFAULT, PAIRS, IDS = "serving_default", "pairs", "ids"
_TEXTS, _LISTS = [None], [None, None]  # Shapes.

Signatures = dict[str, Any]
# The inputs of a network by name, each `[R, T]` int32.
_Rows = dict[str, tf.Tensor]
_Network = Callable[..., Mapping[str, tf.Tensor]]
_Tokenizer = graph_tokenizer.GraphTokenizer


def make(model: models.Model, network: Any) -> Signatures:
    """Makes the signatures of a model.

    Args:
        model: of `models.read`.
        network: of `models.load`.

    Raises:
        ValueError: its task has none, or texts to embed are split into
            windows.
    """
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
        models.EMBEDDING: _embedder,
    }
    return makers[model.task](model, compute, tokenizer)


def id_specs(model: models.Model) -> list[tf.TensorSpec]:
    """Returns the specs of ids: `[R, T]`, or `[R, C, T]` for choices."""
    rank = 3 if model.task == description_lib.MULTIPLE_CHOICE else 2
    return [
        tf.TensorSpec([None] * rank, tf.int32, name=name)
        for name in models.ID_NAMES
    ]


def of_texts(**shapes: list[None]) -> Callable[[Callable], Any]:
    """Makes a decorator that makes a signature of a function of texts.

    Args:
        **shapes: the names of the inputs, `[B]` or `[B, C]` string.
    """

    def decorate(compute):
        def run(*values):
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


def of_ids(
    compute: Callable[[_Rows], Mapping[str, tf.Tensor]], model: models.Model
) -> Any:
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

    def run(*ids):
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


def _of_one_or_two(
    compute: Callable[..., Mapping[str, tf.Tensor]], tokenizer: _Tokenizer
) -> Signatures:
    """Makes the signatures of a text, and of a pair, of their tokens."""

    @of_texts(text_a=_TEXTS)
    def single(text_a):
        tokens = tokenizer.tokenize(text_a)
        return compute(tokens, tokens[:, :0])

    @of_texts(text_a=_TEXTS, text_b=_TEXTS)
    def pairs(text_a, text_b):
        return compute(tokenizer.tokenize(text_a), tokenizer.tokenize(text_b))

    return {DEFAULT: single, PAIRS: pairs}


# ------------------------------------------------------------ Rows of tokens


def _repeated(token: int, counts: tf.Tensor) -> tf.RaggedTensor:
    # Counts `[R]` -> `[R, (tokens)]`.
    values = tf.fill([tf.reduce_sum(counts)], token)
    return tf.RaggedTensor.from_row_lengths(values, counts, validate=False)


def _slices(
    tokens: tf.RaggedTensor,
    rows: tf.Tensor,
    starts: tf.Tensor,
    lengths: tf.Tensor,
) -> tf.RaggedTensor:
    # `[R, (tokens)]`, possibly several slices of one row of `[N, (tokens)]`: of
    # each its row, its first token there and its length, `[R]` int64.
    first = tf.gather(tokens.row_starts(), rows) + starts  # [R]
    places = tf.ragged.range(first, first + lengths)  # [R, (tokens)]
    return places.with_values(tf.gather(tokens.values, places.values))


def _joined(
    tokens_a: tf.RaggedTensor, tokens_b: tf.RaggedTensor, tokenizer: _Tokenizer
) -> _Rows:
    """Makes rows of [CLS] A [SEP] B [SEP], as long as the longest.

    Without B there is no second part. `input_mask` is 1 for a token, 0 for
    padding; `segment_ids` is 1 for the second text and its [SEP].
    """
    begin, end = map(tokenizer.id_of, ("[CLS]", "[SEP]"))
    len_a, len_b = tokens_a.row_lengths(), tokens_b.row_lengths()
    once = tf.ones_like(len_a)
    ids = tf.concat(
        [
            _repeated(begin, once),
            tokens_a,
            _repeated(end, once),
            tokens_b,
            _repeated(end, tf.minimum(len_b, 1)),
        ],
        axis=1,
    )
    dense = ids.to_tensor()  # [R, longest]
    # At least one position, so that a batch without rows has a first one too.
    missing = tf.maximum(1 - tf.shape(dense)[1], 0)
    dense = tf.pad(dense, [[0, 0], [0, missing]])  # [R, T]
    places = tf.range(tf.shape(dense, out_type=tf.int64)[1])  # [T]
    is_token = places < ids.row_lengths()[:, tf.newaxis]  # [R, T]
    is_second = is_token & (places >= len_a[:, tf.newaxis] + 2)
    return {
        "input_ids": dense,
        "input_mask": tf.cast(is_token, tf.int32),
        "segment_ids": tf.cast(is_second, tf.int32),
    }


def fit(
    tokens_a: tf.RaggedTensor,
    tokens_b: tf.RaggedTensor,
    truncation: sentence_pairs.Truncation,
    tokenizer: _Tokenizer,
) -> tuple[_Rows, tf.Tensor]:
    """Makes rows of texts, truncated or split as `sentence_pairs.fit` does.

    Args:
        tokens_a: `[N, (tokens)]` int32.
        tokens_b: `[N, (tokens)]` int32; empty for a single text.
        truncation: the rule.
        tokenizer: has the ids of [CLS] and [SEP].

    Returns:
        The `R` rows; and `[R]` int64, ascending, the text or pair of each.
    """
    len_a, len_b = tokens_a.row_lengths(), tokens_b.row_lengths()
    num_special = 2 + tf.minimum(len_b, 1)
    budget = truncation.max_seq_length - num_special  # [N]
    if truncation.long_text == sentence_pairs.WINDOWS:
        return _windows(tokens_a, tokens_b, budget, tokenizer)
    # As in `sentence_pairs.truncated_lengths`: a text shorter than half of the
    # budget stays complete; two longer ones get half each, A the odd token.
    half = (budget + 1) // 2
    kept_a = tf.minimum(len_a, tf.maximum(budget - len_b, half))
    kept_b = tf.minimum(len_b, budget - kept_a)
    is_head = truncation.long_text == sentence_pairs.HEAD
    keep = _head if is_head else _head_tail
    rows = _joined(keep(tokens_a, kept_a), keep(tokens_b, kept_b), tokenizer)
    return rows, tf.range(tokens_a.nrows())


def _head(tokens, lengths):
    rows = tf.range(tokens.nrows())
    return _slices(tokens, rows, tf.zeros_like(lengths), lengths)


def _head_tail(tokens, lengths):
    count = tokens.row_lengths()
    head = tf.where(
        count > lengths,
        lengths * sentence_pairs.HEAD_TOKENS // sentence_pairs.HEAD_TAIL_TOKENS,
        lengths,
    )
    tail = lengths - head
    last = _slices(tokens, tf.range(tokens.nrows()), count - tail, tail)
    return tf.concat([_head(tokens, head), last], axis=1)


def _windows(tokens_a, tokens_b, budget, tokenizer):
    # A window moves over the longer text, with the complete shorter one.
    len_a, len_b = tokens_a.row_lengths(), tokens_b.row_lengths()
    longer, shorter = tf.maximum(len_a, len_b), tf.minimum(len_a, len_b)
    fixed = tf.minimum(shorter, tf.maximum(budget // 2, budget - longer))
    size = budget - fixed
    step = tf.maximum(size // 2, 1)
    counts = -(-tf.maximum(longer - size + step, 1) // step)
    order = tf.ragged.range(counts)  # [N, (windows)]
    text = order.value_rowids()  # [R]
    starts = order.values * tf.gather(step, text)
    slid = tf.minimum(tf.gather(size, text), tf.gather(longer, text) - starts)
    slides_a = tf.gather(len_a > len_b, text)
    fixed, zero = tf.gather(fixed, text), tf.zeros_like(starts)

    def part(tokens, slides):
        first = tf.where(slides, starts, zero)
        return _slices(tokens, text, first, tf.where(slides, slid, fixed))

    parts = part(tokens_a, slides_a), part(tokens_b, ~slides_a)
    return _joined(*parts, tokenizer), text


# ------------------------------------------------------------------ By task


def _classifier(
    model: models.Model, network: _Network, tokenizer: _Tokenizer
) -> Signatures:
    truncation = model.truncation
    names = tf.constant(model.label_set.names, tf.string)  # [K]

    def answer(outputs):
        if "score" in outputs:
            return outputs
        probabilities = outputs["probabilities"]
        if model.problem_type == task_lib.MULTI_LABEL:
            is_chosen = probabilities >= predictions.THRESHOLD
            return {"probabilities": probabilities, "is_chosen": is_chosen}
        label = tf.gather(names, tf.argmax(probabilities, axis=-1))
        return {"label": label, "probabilities": probabilities}

    def of_tokens(tokens_a, tokens_b):
        rows, text = fit(tokens_a, tokens_b, truncation, tokenizer)
        outputs = network(**rows)
        if truncation.long_text == sentence_pairs.WINDOWS:
            # The mean of each text's windows; every text has one.
            outputs = {
                name: tf.math.segment_mean(value, text)
                for name, value in outputs.items()
            }
        return answer(outputs)

    ids = of_ids(lambda rows: answer(network(**rows)), model)
    return {**_of_one_or_two(of_tokens, tokenizer), IDS: ids}


def _chooser(
    model: models.Model, network: _Network, tokenizer: _Tokenizer
) -> Signatures:
    # The texts of a choice are `first`, and `second` with an ending; the longer
    # one of a longer choice is truncated.
    truncation = sentence_pairs.Truncation(max_seq_length=model.max_seq_length)

    def answer(rows):
        probabilities = network(**rows)["probabilities"]  # [B, C]
        best = tf.argmax(probabilities, axis=-1, output_type=tf.int32)
        return {"choice": best, "probabilities": probabilities}

    @of_texts(first=_TEXTS, second=_TEXTS, endings=_LISTS)
    def choices(first, second, endings):
        count = tf.shape(endings)[1]
        row = tf.repeat(tf.range(tf.size(first)), count)  # [B * C]
        tokens_a, begun = (
            tf.gather(tokenizer.tokenize(text), row) for text in (first, second)
        )
        # The same pieces as of both texts with a space between them.
        ended = tokenizer.tokenize(tf.reshape(endings, [-1]))
        tokens_b = tf.concat([begun, ended], axis=1)
        rows, _ = fit(tokens_a, tokens_b, truncation, tokenizer)
        shape = [-1, count, tf.shape(rows["input_ids"])[1]]
        found = answer({k: tf.reshape(v, shape) for k, v in rows.items()})
        ending = tf.gather(endings, found["choice"], batch_dims=1)
        return {**found, "ending": ending}

    return {DEFAULT: choices, IDS: of_ids(answer, model)}


def _answerer(
    model: models.Model, network: _Network, tokenizer: _Tokenizer
) -> Signatures:
    longest = model.answers.max_answer_length
    most_query = model.windows.max_query_length

    @of_texts(question=_TEXTS, context=_TEXTS)
    def answer(question, context):
        context = graph_tokenizer.drop_invalid_utf8(context)
        query = tokenizer.tokenize(question)[:, :most_query]
        pieces = tokenizer.tokenize_with_offsets(context)
        num_pieces = pieces["ids"].row_lengths()
        windows = answers.cut_windows(
            query.row_lengths(), num_pieces, model.windows
        )
        rows = _joined(
            tf.gather(query, windows.question),
            _slices(
                pieces["ids"], windows.question, windows.starts, windows.lengths
            ),
            tokenizer,
        )
        spans = answers.best_spans(
            network(**rows), windows, num_pieces, longest
        )
        is_answered, more = spans.is_found, {}
        if model.answers.version_2_with_negative:
            is_answered &= spans.null_odds <= model.threshold
            more = {"null_odds": tf.cast(spans.null_odds, tf.float32)}
        return {
            **answers.texts(context, pieces, spans, is_answered),
            "score": tf.cast(spans.score, tf.float32),
            **more,
        }

    ids = of_ids(lambda rows: network(**rows), model)
    return {DEFAULT: answer, IDS: ids}


def _tagger(
    model: models.Model, network: _Network, tokenizer: _Tokenizer
) -> Signatures:
    names = tf.constant(model.label_set.names)  # [K]
    unknown = tokenizer.id_of("[UNK]")

    def best(probabilities):
        return {
            "tags": tf.gather(names, tf.argmax(probabilities, axis=-1)),
            "probabilities": tf.reduce_max(probabilities, axis=-1),
        }

    @of_texts(text=_TEXTS)
    def tags(text):
        # Of ASCII white space; invalid bytes alone are no word.
        words = tf.strings.split(graph_tokenizer.drop_invalid_utf8(text))
        pieces = tokenizer.tokenize(words.values)  # [W, (pieces)]
        is_empty = tf.cast(pieces.row_lengths() == 0, tf.int64)
        pieces = tf.concat([pieces, _repeated(unknown, is_empty)], axis=1)
        tokens = words.with_values(pieces).merge_dims(1, 2)  # [B, (tokens)]
        rows = _joined(tokens, tokens[:, :0], tokenizer)
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
        found = best(tf.gather_nd(network(**rows)["probabilities"], place))
        return {
            "words": words.to_tensor(),
            **{k: words.with_values(v).to_tensor() for k, v in found.items()},
        }

    ids = of_ids(lambda rows: best(network(**rows)["probabilities"]), model)
    return {DEFAULT: tags, IDS: ids}


def _embedder(
    model: models.Model, network: _Network, tokenizer: _Tokenizer
) -> Signatures:
    truncation = model.truncation
    if truncation.long_text == sentence_pairs.WINDOWS:
        raise ValueError(
            "A text must have one row to be embedded; the long_text of this "
            "model is windows, which makes several."
        )
    known = model.tokenizer.inv_vocab
    names = tf.constant(
        [known.get(i, f"[id {i}]") for i in range(model.config.vocab_size)]
    )

    def answer(rows):
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

    def of_tokens(tokens_a, tokens_b):
        rows, _ = fit(tokens_a, tokens_b, truncation, tokenizer)
        tokens = tf.gather(names, rows["input_ids"])
        tokens = tf.where(rows["input_mask"] > 0, tokens, "")
        return {"tokens": tokens, **answer(rows)}

    ids = of_ids(answer, model)
    return {**_of_one_or_two(of_tokens, tokenizer), IDS: ids}
