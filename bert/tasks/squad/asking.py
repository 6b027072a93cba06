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
    import tensorflow as tf

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

    def outputs(self, network: "keras.Model") -> asking.Compute:
        """Returns `start_logits` and `end_logits`, each `[R, T]`."""

        def compute(
            input_ids: "tf.Tensor",
            input_mask: "tf.Tensor",
            segment_ids: "tf.Tensor",
        ) -> "dict[str, tf.Tensor]":
            outputs = network(input_ids, input_mask, segment_ids)
            return {k: outputs[k] for k in ("start_logits", "end_logits")}

        return compute

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
        from bert.tasks.squad import signature

        return signature.make(self, compute, tokenizer)


def _squad_example(example: asking.Example) -> question_files.SquadExample:
    return question_files.SquadExample(
        qas_id="",
        question_text=example["question"],
        doc_tokens=question_files.find_words(example["context"]),
    )
