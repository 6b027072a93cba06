"""Signatures of an exported model that answers questions: texts, ids."""

import tensorflow as tf

from bert.tasks import asking, signatures, token_rows
from bert.tasks.squad import asking as squad
from bert.tasks.squad import span_search
from vocab import graph_tokenizer


def make(
    model: squad.QuestionAnswering,
    compute: asking.Compute,
    tokenizer: graph_tokenizer.GraphTokenizer,
) -> asking.Signatures:
    """Makes the signatures; see `asking.Asking.signatures`."""
    longest = model.answers.max_answer_length
    most_query = model.windows.max_query_length

    @signatures.text_signature(
        question=signatures.TEXTS, context=signatures.TEXTS
    )
    def answer(question: tf.Tensor, context: tf.Tensor) -> signatures.Tensors:
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
            compute(**rows), windows, num_pieces, longest
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

    return {
        signatures.DEFAULT: answer,
        signatures.IDS: signatures.of_ids(compute, model),
    }
