"""The plain featurisation of questions, and logits to rank answers from.

One process, the whole paragraph tokenized again for every question: for tests.
"""

import itertools
from collections.abc import Iterator, Sequence

from bert.tasks.squad import question_files, window_features
from vocab import tokenization


def plain_features(
    examples: Sequence[question_files.SquadExample],
    tokenizer: tokenization.FullTokenizer,
    options: window_features.WindowOptions,
) -> Iterator[dict]:
    """Yields the windows to predict by the same rules, without any saving.

    The maps hold the tokens of the paragraph only.
    """
    unique_ids = itertools.count(1000000000)
    for index, example in enumerate(examples):
        query = tokenizer.tokenize(example.question_text)
        query = query[: options.max_query_length]
        pieces, words = [], []
        for number, word in enumerate(example.doc_tokens):
            for piece in tokenizer.tokenize(word):
                pieces.append(piece)
                words.append(number)
        spans = window_features.document_spans(
            len(pieces),
            options.max_seq_length - len(query) - 3,
            options.doc_stride,
        )
        offset = len(query) + 2
        for span_index, (start, length) in enumerate(spans):
            here = range(start, start + length)
            tokens = ["[CLS]", *query, "[SEP]"]
            tokens += [pieces[position] for position in here] + ["[SEP]"]
            padding = [0] * (options.max_seq_length - len(tokens))
            yield {
                "unique_id": next(unique_ids),
                "example_index": index,
                "doc_span_index": span_index,
                "tokens": tokens,
                "token_to_orig_map": {
                    p - start + offset: words[p] for p in here
                },
                "token_is_max_context": {
                    p - start + offset: _has_most_context(spans, span_index, p)
                    for p in here
                },
                "input_ids": tokenizer.convert_tokens_to_ids(tokens) + padding,
                "input_mask": [1] * len(tokens) + padding,
                "segment_ids": [0] * offset + [1] * (length + 1) + padding,
            }


def _has_most_context(
    spans: Sequence[tuple[int, int]], span_index: int, position: int
) -> bool:
    scores = [
        min(position - start, start + length - 1 - position) + 0.01 * length
        if start <= position < start + length
        else -1
        for start, length in spans
    ]
    return scores.index(max(scores)) == span_index
