"""Question answering on raw text: the answer as a part of the paragraph.

The rules are those of `tasks.squad.squad_answers`. Characters are code
points of the paragraph; its words are separated by the white space of SQuAD.
"""

import dataclasses

import tensorflow as tf

from modeling import heads
from serving import (
    answer_search,
    graph_tokenizer,
    networks,
    normalization,
    run_folder,
    signatures,
    token_rows,
)
from tasks import task as task_lib
from tasks.squad import squad_examples

NBEST = "nbest"


def servable(
    model: heads.BertForQuestionAnswering,
    tokenizer: graph_tokenizer.GraphTokenizer,
    options: run_folder.Reading,
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
        options: run_folder.Reading,
    ):
        self.net = networks.Network(model, dict)
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
        ranked = self._ranked(question, context)
        others = ("chosen", "scores", "null_odds")
        return {k: v for k, v in ranked.items() if k not in others}

    def _rank(self, question, context):
        options, tokenizer = self._options, self._tokenizer
        query = tokenizer.tokenize(question)[
            :, : options.windows.max_query_length
        ]
        paragraphs = _read_paragraphs(
            normalization.drop_invalid_utf8(context), tokenizer
        )
        windows = answer_search.cut_windows(
            query.row_lengths(), paragraphs.ids.row_lengths(), options.windows
        )
        part = token_rows.slices(
            paragraphs.ids, windows.question, windows.starts, windows.lengths
        )
        # As in the script, padding competes for the best positions, unless the
        # script removed it.
        rows = token_rows.joined(
            tf.gather(query, windows.question),
            part,
            tokenizer,
            options.windows.max_seq_length,
        )
        outputs = self.net(rows)
        logits = tf.stack(
            [outputs["start_logits"], outputs["end_logits"]], axis=1
        )  # [R, 2, T]
        if options.removes_padding:
            is_token = rows.input_mask[:, tf.newaxis] > 0  # [R, 1, T]
            logits = tf.where(is_token, logits, task_lib.PADDING_LOGIT)
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
                options.answers,
                lambda pieces: _find_text(paragraph, pieces, tokenizer, tokens),
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


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Paragraphs:
    """B paragraphs, with their words and pieces.

    Indexing gives one of them, without the first axis.

    Attributes:
        text: `[B]` string, valid UTF-8.
        word_characters: `[B, (n)]` int32, ascending, the characters that are
            not space.
        word_of: `[B, (n)]` int32, ascending, the word of each of those.
        ids: `[B, (pieces)]` int32.
        starts: `[B, (pieces)]` int32, the first character of each piece.
        ends: `[B, (pieces)]` int32.
    """

    text: tf.Tensor
    word_characters: tf.RaggedTensor
    word_of: tf.RaggedTensor
    ids: tf.RaggedTensor
    starts: tf.RaggedTensor
    ends: tf.RaggedTensor

    def __getitem__(self, index: tf.Tensor) -> "_Paragraphs":
        return _Paragraphs(
            **{name: values[index] for name, values in vars(self).items()}
        )


def _read_paragraphs(
    text: tf.Tensor, tokenizer: graph_tokenizer.GraphTokenizer
) -> _Paragraphs:
    """Finds the words and pieces of `[B]` valid texts."""
    chars = tf.strings.unicode_decode(text, "UTF-8")  # [B, (characters)]
    spaces = list(map(ord, squad_examples.WHITE_SPACE))
    is_space = tf.reduce_any(chars.values[:, tf.newaxis] == spaces, axis=1)
    # A word begins after a space and at the beginning of a text.
    after_space = tf.concat([[True], is_space[:-1]], 0)[: tf.size(is_space)]
    at_beginning = tf.ragged.range(chars.row_lengths()).values == 0
    begins = ~is_space & (after_space | at_beginning)
    number = tf.cumsum(tf.cast(begins, tf.int32))
    places = tf.ragged.range(tf.cast(chars.row_lengths(), tf.int32))
    is_kept = chars.with_values(~is_space)
    return _Paragraphs(
        text=text,
        word_characters=tf.ragged.boolean_mask(
            places.with_row_splits_dtype(tf.int64), is_kept
        ),
        word_of=tf.ragged.boolean_mask(chars.with_values(number), is_kept),
        **tokenizer.tokenize_with_offsets(text),
    )


def _find_text(
    paragraph: _Paragraphs,
    pieces: tf.Tensor,
    tokenizer: graph_tokenizer.GraphTokenizer,
    tokens: tf.Tensor,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Finds the text of an answer, as `squad_answers.final_text` does.

    Args:
        paragraph: one of them.
        pieces: `[2]` int64, the first and the last piece of the answer.
        tokenizer: of the pieces.
        tokens: `[V]` string, the tokens by id.

    Returns:
        The text, `[]` string, its words separated by one space; and `[2]`
        int32, its first character and the one after its last.
    """
    begin, end = _whole_words(paragraph, pieces)
    orig_text = _text(paragraph, begin, end)
    words = tokenizer.words(orig_text[tf.newaxis])[0]
    tok_text = tf.strings.reduce_join(words, separator=" ")
    ids = paragraph.ids[pieces[0] : pieces[1] + 1]
    pred_text = tf.strings.reduce_join(tf.gather(tokens, ids), separator=" ")
    for marker in (" ##", "##"):
        pred_text = tf.strings.regex_replace(pred_text, marker, "")
    # The part before the first of perhaps several occurrences.
    parts = tf.strings.split(tok_text, pred_text, maxsplit=1)
    num_characters = end - begin
    is_found = (tf.size(parts) > 1) & (_num_visible(tok_text) == num_characters)
    # As released: if tokens and text cannot be compared character by
    # character, the whole words are the answer.
    shift = tf.where(is_found, _num_visible(parts[0]), 0)
    count = tf.where(is_found, _num_visible(pred_text), num_characters)
    begin += shift
    end = begin + count
    return _text(paragraph, begin, end), _characters(paragraph, begin, end)


def _whole_words(paragraph: _Paragraphs, pieces):
    """Finds the words of pieces: `[begin, end)` of word_characters."""
    bounds = tf.gather(paragraph.starts, pieces)  # [2] characters
    at = tf.searchsorted(paragraph.word_characters, bounds)
    words = tf.gather(paragraph.word_of, at)  # [2]
    begin = tf.searchsorted(paragraph.word_of, words[:1], "left")[0]
    end = tf.searchsorted(paragraph.word_of, words[1:], "right")[0]
    return begin, end


def _characters(paragraph: _Paragraphs, begin, end):
    """Returns first character and end of `[begin, end)` of word_characters."""
    characters = paragraph.word_characters
    return tf.stack([characters[begin], characters[end - 1] + 1])


def _text(paragraph: _Paragraphs, begin, end):
    """Returns the text of `[begin, end)`, with one space between words."""
    start, stop = tf.unstack(_characters(paragraph, begin, end))
    text = tf.strings.substr(
        paragraph.text, start, stop - start, unit="UTF8_CHAR"
    )
    spaces = f"[{squad_examples.WHITE_SPACE}]+"
    return tf.strings.regex_replace(text, spaces, " ")


def _num_visible(text):
    """Counts the characters that are not spaces: `[]` int32."""
    return tf.strings.length(
        tf.strings.regex_replace(text, " ", ""), unit="UTF8_CHAR"
    )
