"""Questions asked of a model, each with its paragraph."""

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from absl import logging

from bert.models import description as description_lib
from bert.tasks import asking, sentence_pairs
from bert.tasks.squad import answer_ranking, question_files, window_features
from modeling import config as config_lib

if TYPE_CHECKING:
    import keras

    from vocab import graph_tokenizer

_Window = window_features.SquadFeatures


class QuestionAnswering(asking.Asking[_Window]):
    """A question and a paragraph; the answer is a part of the paragraph."""

    kind = description_lib.QUESTION_ANSWERING
    fields = ("question", "context")
    shared_field = "context"

    def __init__(self, model: asking.ServedModel):
        super().__init__(model)
        threshold = model.description.null_score_diff_threshold
        if isinstance(threshold, str):
            raise ValueError(
                f"{model.folder.path}: the null_score_diff_threshold of "
                f"{threshold} is not known before run_squad.py --do_predict "
                "--do_eval chose it."
            )
        # The null odds above which there is no answer, in version 2.
        self.threshold = 0.0 if threshold is None else float(threshold)
        self.windows = model.stated(window_features.WindowOptions)
        self.answers = model.stated(answer_ranking.AnswerOptions)
        model.config.check_segments([1])

    @classmethod
    def completed(
        cls, description: description_lib.Description, path: str
    ) -> description_lib.Description:
        """Adds that every question has an answer, if no file says it.

        Source: transformers' question-answering pipeline, whose
        `handle_impossible_answer` is False unless the caller says otherwise.
        """
        if description.version_2_with_negative is not None:
            return description
        logging.warning(
            "%s does not say whether questions may have no answer. Every "
            "question is answered, as by transformers; write "
            '"version_2_with_negative": true to its %s for a model of SQuAD '
            "2.0.",
            path,
            description_lib.FILE,
        )
        return dataclasses.replace(description, version_2_with_negative=False)

    @property
    def limit(self) -> tuple[str, str, int]:
        return "questions", "max_query_length", self.windows.max_query_length

    def make_network(self, config: config_lib.BertConfig) -> "keras.Model":
        from modeling import heads

        return heads.BertForQuestionAnswering(config, dtype=asking.DTYPE)

    def outputs(
        self, network: "keras.Model", rows: asking.Tensors
    ) -> asking.Tensors:
        """Returns `start_logits` and `end_logits`, each `[R, T]`."""
        outputs = network(**rows)
        return {name: outputs[name] for name in ("start_logits", "end_logits")}

    def encode(
        self,
        example: asking.Example,
        counts: sentence_pairs.TruncationCounts,
    ) -> list[asking.Row[_Window]]:
        (windows,) = window_features.convert_examples_to_features(
            [_squad_example(example)],
            self.model.tokenizer,
            self.windows,
            counts=counts,
        )
        return [asking.Row.of(window.record(), window) for window in windows]

    def decode(
        self,
        example: asking.Example,
        rows: Sequence[asking.Row[_Window]],
        outputs: asking.Outputs,
    ) -> asking.Answer:
        if not rows:
            # Differs: the release answers "empty"; exported models answer "".
            answer = {"answer": "", "probability": 1.0}
            if self.answers.version_2_with_negative:
                answer["null_odds"] = answer_ranking.NO_ANSWER_ODDS
            return answer
        windows = [row.source for row in rows]
        logits = {
            window.unique_id: np.stack(
                [output["start_logits"], output["end_logits"]]
            )
            for window, output in zip(windows, outputs, strict=True)
        }
        (ranked,) = answer_ranking.rank_answers(
            [_squad_example(example)],
            [windows],
            logits,
            self.answers,
            self.model.tokenizer.basic_tokenizer,
            without_padding=True,
        )
        text = ranked.prediction(self.threshold)
        # If "no answer" wins, "" may not be in the list.
        shares = {
            candidate.text: candidate.probability for candidate in ranked.nbest
        }
        answer = {"answer": text, "probability": shares.get(text, 0.0)}
        if ranked.null_odds is not None:
            answer["null_odds"] = ranked.null_odds
        return answer

    def lines(
        self, example: asking.Example, answer: asking.Answer
    ) -> list[str]:
        text = answer["answer"] or "(no answer)"
        return asking.ranked([(text, answer["probability"])])

    def signatures(
        self,
        compute: asking.Compute,
        tokenizer: "graph_tokenizer.GraphTokenizer",
    ) -> asking.Signatures:
        import tensorflow as tf

        from bert.tasks import signatures, token_rows
        from bert.tasks.squad import span_search
        from vocab import graph_tokenizer

        longest = self.answers.max_answer_length
        most_query = self.windows.max_query_length

        @signatures.text_signature(
            question=signatures.TEXTS, context=signatures.TEXTS
        )
        def answer(question: tf.Tensor, context: tf.Tensor) -> asking.Tensors:
            context = graph_tokenizer.drop_invalid_utf8(context)
            query = tokenizer.tokenize(question)[:, :most_query]
            pieces = tokenizer.tokenize_with_offsets(context)
            num_pieces = pieces["ids"].row_lengths()
            windows = span_search.cut_windows(
                query.row_lengths(), num_pieces, self.windows
            )
            rows = token_rows.join(
                tf.gather(query, windows.question),
                token_rows.slices(
                    pieces["ids"],
                    windows.question,
                    windows.starts,
                    windows.lengths,
                ),
                tokenizer,
            )
            spans = span_search.best_spans(
                compute(**rows), windows, num_pieces, longest
            )
            is_answered, more = spans.is_found, {}
            if self.answers.version_2_with_negative:
                is_answered &= spans.null_odds <= self.threshold
                more = {"null_odds": tf.cast(spans.null_odds, tf.float32)}
            return {
                **span_search.texts(context, pieces, spans, is_answered),
                "score": tf.cast(spans.score, tf.float32),
                **more,
            }

        return {
            signatures.DEFAULT: answer,
            signatures.IDS: signatures.of_ids(compute, self),
        }


def _squad_example(example: asking.Example) -> question_files.SquadExample:
    return question_files.SquadExample(
        qas_id="",
        question_text=example["question"],
        doc_tokens=question_files.find_words(example["context"]),
    )
