"""Question answering on raw text: the answer as a part of the paragraph."""

import dataclasses

import tensorflow as tf

from modeling import heads
from serving import (
    answer_search,
    answer_texts,
    graph_tokenizer,
    normalization,
    run_folder,
    settings,
    signatures,
)

NBEST = "nbest"


def servable(
    model: heads.BertForQuestionAnswering,
    tokenizer: graph_tokenizer.GraphTokenizer,
    options: settings.Reading,
) -> signatures.Servable:
    """Makes the signatures of a model that answers questions.

    `serving_default` takes `question` and `context`, each `[B]` string, and
    gives for each question

    - `answer` `[B]` string, as `run_squad.py` writes it: its words separated
      by one space; "" for "no answer";
    - `start`, `end` `[B]` int32: the answer is `context[start:end]` except for
      white space between its words. They count code points of the context,
      not bytes, after bytes that are not UTF-8 are dropped; -1 if the answer
      is not in the context;
    - `score` `[B]` float32, the sum of its two logits, and `probability`
      `[B]` float32, its share among the n best;
    - `null_odds` `[B]` float32, in version 2.

    `nbest` takes the same and gives `answers`, `starts`, `ends`,
    `probabilities`, `start_logits`, `end_logits`, each `[B, n]`, the best
    first, and `num_answers` `[B]`; after the last they have "", -1 and 0.
    `ids` gives `start_logits` and `end_logits` `[B, T]`.

    Args:
        model: in float32.
        tokenizer: of the model's vocabulary.
        options: of windows and answers.
    """
    finder = _Answerer(model, tokenizer, options)
    longest = model.config.max_position_embeddings
    names = ("question", "context")
    return signatures.Servable(
        task=run_folder.ANSWER,
        signatures={
            signatures.DEFAULT: signatures.of_texts(finder.answer, *names),
            NBEST: signatures.of_texts(finder.nbest, *names),
            signatures.IDS: signatures.of_ids(finder.net, longest),
        },
        variables=finder.net.variables,
        details={
            **dataclasses.asdict(options.windows),
            **dataclasses.asdict(options.answers),
            "null_score_diff_threshold": options.threshold,
        },
    )


class _Answerer:
    """Answers B questions at once; computes all their windows together."""

    def __init__(
        self,
        model,
        tokenizer: graph_tokenizer.GraphTokenizer,
        options: settings.Reading,
    ):
        self.net = signatures.Network(model, dict)
        self._tokenizer = tokenizer
        self._options = options
        self._vocab_size = model.config.vocab_size
        # Version 2 may add "no answer" to the list.
        self._most = options.answers.n_best_size + (
            options.threshold is not None
        )
        self._ranked = tf.function(
            self._rank,
            input_signature=[tf.TensorSpec([None], tf.string)] * 2,
            autograph=False,  # No Python here depends on a tensor.
        )

    def answer(self, question, context):
        """Returns the outputs of `serving_default`."""
        ranked = self._ranked(question, context)
        chosen = ranked["chosen"]  # [B]
        best = {
            name: tf.gather(ranked[source], chosen, batch_dims=1)
            for name, source in (
                ("answer", "answers"),
                ("start", "starts"),
                ("end", "ends"),
                ("score", "scores"),
                ("probability", "probabilities"),
            )
        }
        if self._options.threshold is not None:
            best["null_odds"] = ranked["null_odds"]
        return best

    def nbest(self, question, context):
        """Returns the outputs of `nbest`."""
        ranked = dict(self._ranked(question, context))
        for name in ("chosen", "scores", "null_odds"):
            del ranked[name]
        return ranked

    def _rank(self, question, context):
        options, tokenizer = self._options, self._tokenizer
        query = tokenizer.tokenize(question)[
            :, : options.windows.max_query_length
        ]
        paragraphs = answer_texts.read(
            normalization.drop_invalid_utf8(context), tokenizer
        )
        windows = answer_search.cut_windows(
            query.row_lengths(), paragraphs.ids.row_lengths(), options.windows
        )
        rows = answer_search.window_rows(
            query,
            paragraphs.ids,
            windows,
            tokenizer.special,
            options.windows.max_seq_length,
        )
        outputs = self.net(rows)
        logits = tf.stack(
            [outputs["start_logits"], outputs["end_logits"]], axis=1
        )  # [R, 2, T]
        # Scores are added as float64, as released.
        logits = tf.cast(logits, tf.float64)
        tokens = tokenizer.tokens(self._vocab_size)

        def of_question(number):
            paragraph = paragraphs[number]
            here = slice(
                windows.row_splits[number], windows.row_splits[number + 1]
            )
            spans = answer_search.ranked_spans(
                logits[here],
                (windows.starts[here], windows.lengths[here]),
                query.row_lengths()[number] + 2,  # [CLS] and [SEP].
                options.answers,
            )
            answers, null_odds = answer_search.rank(
                spans,
                answer_search.null_logits(logits[here]),
                options.answers,
                lambda pieces: answer_texts.find(
                    paragraph, pieces, tokenizer, tokens
                ),
            )
            return self._listed(answers, null_odds)

        return tf.map_fn(
            of_question,
            tf.range(tf.size(question)),
            fn_output_signature=self._listed_types(),
        )

    def _listed(self, answers: answer_search.Answers, null_odds):
        """Extends the answers to one question to the most that are possible."""
        missing = self._most - tf.size(answers.texts)

        def filled(values, filler):
            values = tf.concat([values, tf.fill([missing], filler)], axis=0)
            return tf.ensure_shape(values, [self._most])

        def number(values):
            return filled(tf.cast(values, tf.float32), 0.0)

        scores = tf.reduce_sum(answers.logits, axis=1)  # [n]
        return {
            "answers": filled(answers.texts, ""),
            "starts": filled(answers.places[:, 0], -1),
            "ends": filled(answers.places[:, 1], -1),
            "scores": number(scores),
            "probabilities": number(tf.nn.softmax(scores)),
            "start_logits": number(answers.logits[:, 0]),
            "end_logits": number(answers.logits[:, 1]),
            "num_answers": tf.size(answers.texts),
            "chosen": answer_search.decide(
                answers, null_odds, self._options.threshold
            ),
            "null_odds": tf.cast(null_odds, tf.float32),
        }

    def _listed_types(self):
        lists = {"answers": tf.string, "starts": tf.int32, "ends": tf.int32}
        numbers = ("scores", "probabilities", "start_logits", "end_logits")
        lists |= dict.fromkeys(numbers, tf.float32)
        types = {k: tf.TensorSpec([self._most], t) for k, t in lists.items()}
        return {
            **types,
            "num_answers": tf.TensorSpec([], tf.int32),
            "chosen": tf.TensorSpec([], tf.int64),
            "null_odds": tf.TensorSpec([], tf.float32),
        }
