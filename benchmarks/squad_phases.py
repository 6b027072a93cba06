"""Seconds and memory of each phase of SQuAD around the network.

  python -m benchmarks.squad_phases --predict_file=dev-v1.1.json \\
    --vocab_file=vocab.txt [--version_2_with_negative]

Reads, featurises, ranks answers from random logits, writes and scores. For
comparison it featurises the same questions plainly: in one process, the whole
paragraph tokenized again for every question.
"""

import collections
import itertools
import json
import resource
import tempfile
import time
from collections.abc import Iterator, Sequence

import numpy as np
from absl import flags, logging

from commands import flag_groups, program
from tasks.squad import (
    squad,
    squad_answers,
    squad_features,
    squad_files,
    squad_metrics,
    squad_search,
    squad_windows,
)
from vocab import tokenization

_SEED = 12345


def plain_features(
    examples: Sequence[squad.SquadExample],
    tokenizer: tokenization.FullTokenizer,
    options: squad_windows.WindowOptions,
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
        spans = squad_windows.document_spans(
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


def random_logits(
    features: Sequence[squad_features.SquadFeatures], seed: int = _SEED
) -> list[squad_search.WindowLogits]:
    """Draws normal logits for every window."""
    rng = np.random.default_rng(seed)
    logits = [
        rng.normal(0, 3, (2, len(feature.input_ids))).astype(np.float32)
        for feature in features
    ]
    return [
        squad_search.WindowLogits(
            unique_id=feature.unique_id, start_logits=start, end_logits=end
        )
        for feature, (start, end) in zip(features, logits, strict=True)
    ]


class _Clock:
    """Logs seconds and the highest memory so far at the end of each phase."""

    def __init__(self):
        self.seconds = {}
        self._start = time.perf_counter()

    def end(self, phase: str) -> None:
        now = time.perf_counter()
        self.seconds[phase] = now - self._start
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        logging.info(
            "%-28s %7.2f s, peak %5.0f MB", phase, self.seconds[phase], peak
        )
        self._start = time.perf_counter()


@flag_groups.under(flag_groups.Group.MEASUREMENT)
def define_flags(values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines the flags of this benchmark."""
    flags.DEFINE_string(
        "predict_file", None, "A SQuAD file with answers.",
        required=True, flag_values=values)  # fmt: skip
    flags.DEFINE_string(
        "vocab_file", None, "An uncased vocabulary.",
        required=True, flag_values=values)  # fmt: skip
    flags.DEFINE_bool(
        "version_2_with_negative", False, "The file is of SQuAD 2.0.",
        flag_values=values)  # fmt: skip
    flags.DEFINE_integer(
        "num_workers", 0, "Processes that tokenize; 0 for one per core.",
        flag_values=values)  # fmt: skip


def measure(
    path: str, vocab_file: str, *, version_2: bool, num_workers: int
) -> dict[str, float]:
    """Runs every phase once.

    Returns:
        Seconds of each phase, by its name.
    """
    options = squad_windows.WindowOptions()
    clock = _Clock()
    examples = squad.read_examples(
        path, is_training=False, version_2_with_negative=version_2
    )
    clock.end("read")
    # Each run has a tokenizer of its own: tokenizers remember words.
    tokenizer = tokenization.FullTokenizer(vocab_file)
    clock.end("vocabulary")
    features = list(
        squad_features.convert_examples_to_features(
            examples, tokenizer, options, num_workers=num_workers
        )
    )
    clock.end("featurise")
    results = random_logits(features)
    clock.end("draw logits")
    answers = squad_answers.rank_answers(
        examples,
        features,
        results,
        squad_search.AnswerOptions(version_2_with_negative=version_2),
        tokenizer.basic_tokenizer,
    )
    clock.end("rank answers")
    with tempfile.TemporaryDirectory() as folder:
        squad_answers.write_answers(folder, answers)
    clock.end("write answers")
    scores = _score(path, answers, version_2=version_2)
    clock.end("score")
    logging.info("%d questions, %d windows", len(examples), len(features))
    logging.info("%s", json.dumps(scores))
    plain = plain_features(
        examples, tokenization.FullTokenizer(vocab_file), options
    )
    collections.deque(plain, maxlen=0)  # Kept, they would take gigabytes.
    clock.end("featurise plainly")
    ratio = clock.seconds["featurise plainly"] / clock.seconds["featurise"]
    logging.info("featurising is %.1f times as fast as plainly", ratio)
    return clock.seconds


def _score(
    path: str,
    answers: Sequence[squad_answers.RankedAnswers],
    *,
    version_2: bool,
) -> dict[str, float]:
    gold = squad_metrics.gold_answers(squad_files.read_dataset(path))
    texts = squad_answers.predictions(answers)
    if not version_2:
        return squad_metrics.evaluate_v1(gold, texts)
    odds = {answer.qas_id: answer.null_odds for answer in answers}
    return squad_metrics.evaluate_v2(gold, texts, odds)


def main(_: list[str]) -> None:
    """Measures what the flags say."""
    values = flags.FLAGS
    measure(
        values.predict_file,
        values.vocab_file,
        version_2=values.version_2_with_negative,
        num_workers=values.num_workers,
    )


if __name__ == "__main__":
    program.start(define_flags, main)
