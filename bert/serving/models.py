"""Trained models that answer: their descriptions, and their networks."""

import dataclasses
import os
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, TypeVar

import keras
import tensorflow as tf
from absl import logging

from bert.files import run_files
from bert.models import description as description_lib
from bert.models import folder as folder_lib
from bert.models import needs
from bert.models import sentence_encoder as sentence_encoder_lib
from bert.serving import embeddings
from bert.tasks import task as task_lib
from bert.tasks import text_vectors
from bert.tasks.classification import class_labels, sentence_pairs
from bert.tasks.squad import answer_ranking, window_features
from modeling import bert, checkpoints, foreign_files, heads, huggingface
from modeling import config as config_lib
from vocab import tokenization

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_Options = TypeVar("_Options", bound="DataclassInstance")
EMBEDDING = "embedding"  # A sentence encoder, or the encoder of any model.

ID_NAMES = ("input_ids", "input_mask", "segment_ids")
# Independent of the policy and of the precision in training.
_DTYPE = "float32"
_MASKED_LM = "cls/predictions/output_bias"
_CAUSAL = "causal"
_POOLER = "bert/pooler/dense/kernel"
_OF_PAIRS = (
    description_lib.QUESTION_ANSWERING,
    description_lib.MULTIPLE_CHOICE,
)
# Tasks that read all positions of the network.
_OF_ALL_POSITIONS = (description_lib.PRETRAINING, EMBEDDING)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Model:
    """A trained model that can answer.

    Attributes:
        task: one of `description.TASKS`, or `EMBEDDING`.
        folder: the model's.
        checkpoint: the prefix or file of its weights.
        variables: the names of its variables.
        config: the sizes.
        tokenizer: of its vocabulary and casing.
        description: what the files of the folder and the weights say.
        layers: the hidden layers of an encoder.
        sentence_encoder: the embedding of a sentence encoder.
    """

    task: str
    folder: folder_lib.ModelFolder
    checkpoint: str
    variables: Collection[str]
    config: config_lib.BertConfig
    tokenizer: tokenization.FullTokenizer
    description: description_lib.Description
    layers: tuple[int, ...] = (-1,)
    sentence_encoder: sentence_encoder_lib.SentenceEncoder | None = None

    @property
    def max_seq_length(self) -> int:
        """The word pieces of a sequence."""
        positions = self.config.max_position_embeddings
        if self.task == description_lib.PRETRAINING:
            return positions  # Masks are filled at all positions.
        length = self.description.max_seq_length
        if length is None:
            if self.task not in _OF_ALL_POSITIONS:
                raise ValueError(f"{self.folder.path} states no length.")
            return positions
        return length

    @property
    def truncation(self) -> sentence_pairs.Truncation:
        """The rule for long texts."""
        return self._filled(sentence_pairs.Truncation)

    @property
    def label_set(self) -> class_labels.LabelSet:
        """The labels of a classifier or a tagger."""
        return class_labels.LabelSet(
            problem_type=self.problem_type, names=self.description.labels or ()
        )

    @property
    def problem_type(self) -> str:
        """The kind of the outputs, one of `task.PROBLEM_TYPES`."""
        # That of a classifier is known; taggers have one label for each word.
        return self.description.problem_type or task_lib.SINGLE_LABEL

    @property
    def windows(self) -> window_features.WindowOptions:
        """How paragraphs are split."""
        return self._filled(window_features.WindowOptions)

    @property
    def answers(self) -> answer_ranking.AnswerOptions:
        """How answers are searched."""
        return self._filled(answer_ranking.AnswerOptions)

    @property
    def threshold(self) -> float:
        """The null odds above which there is no answer, in version 2."""
        threshold = self.description.null_score_diff_threshold
        return 0.0 if threshold is None else float(threshold)

    @property
    def similarity(self) -> str:
        """The similarity of two embeddings: cosine if no file states one."""
        encoder = self.sentence_encoder
        return encoder.similarity if encoder else sentence_encoder_lib.COSINE

    def _filled(self, make: type[_Options]) -> _Options:
        # A value that is not described is the default of the release.
        values = {
            field.name: self.description.stated(field.name)
            for field in dataclasses.fields(make)
        }
        for field in dataclasses.fields(make):
            value = values[field.name]
            if value is not None and "flag" in field.metadata:
                self.folder.check_flag(make, field.name, value)
        if "max_seq_length" in values:
            values["max_seq_length"] = self.max_seq_length
        try:
            return make(**{n: v for n, v in values.items() if v is not None})
        except ValueError as error:
            raise ValueError(f"{self.folder.path}: {error}") from error


def read(
    folder: str, *, best: bool = False, layers: tuple[int, ...] | None = None
) -> Model:
    """Reads a trained model, without its weights.

    Args:
        folder: see `ModelFolder.open`.
        best: the best checkpoint of the run instead of the latest.
        layers: to return these hidden layers, whatever the model's task.

    Raises:
        OSError: a file cannot be read.
        ValueError: there is no model, or several; the folder does not state
            what predicting needs; or the model is not supported.
    """
    if best:
        folder = os.path.join(folder, run_files.BEST)
    model = folder_lib.ModelFolder.open(folder)
    if model.checkpoint is None:
        formats = foreign_files.formats_in(model.path)
        state = f"is {formats}" if formats else "contains no checkpoint"
        raise ValueError(
            f"{folder} {state}. "
            "Pass the --output_dir of a run that was trained, the folder of "
            "one of its trials, or of a released or Hugging Face model."
        )
    with checkpoints.opened(model.checkpoint) as source:
        shown = needs.shown_by_weights(source.variables, source.architectures)
        variables, kind = dict(source.variables), source.kind
    description = model.description.completed(shown)
    if kind == huggingface.Reader.kind:
        description = _answering_as_transformers(model, description)
    sentence_encoder = None
    # A model that was fine-tuned for another task answers it.
    if layers is None and description.task in (
        None,
        description_lib.PRETRAINING,
    ):
        sentence_encoder = model.sentence_encoder
    is_encoder = layers is not None or sentence_encoder is not None
    task = EMBEDDING if is_encoder else description.task
    needs.check_answerable(
        model, description, variables, embeds=task == EMBEDDING
    )
    _check_served(model.path, task, description)
    config, vocab_file = needs.files(model)
    tokenizer = tokenization.FullTokenizer(
        vocab_file,
        bool(description.do_lower_case),
        description.strip_accents,
    )
    tokenizer.require_tokens("[UNK]", "[CLS]", "[SEP]")
    config.check_vocab_size(tokenizer.vocab_size, tokenizer.vocab_file)
    if layers is not None:
        text_vectors.check_layers(layers, config.num_hidden_layers)
    answering = Model(
        task=task or description_lib.PRETRAINING,
        folder=model,
        checkpoint=model.checkpoint,
        variables=variables.keys(),
        config=config,
        tokenizer=tokenizer,
        description=description,
        layers=layers or (-1,),
        sentence_encoder=sentence_encoder,
    )
    config.check_length(answering.max_seq_length)
    if answering.task in _OF_PAIRS:
        config.check_segments([1])
    if answering.task == description_lib.QUESTION_ANSWERING:
        # The values of task.json, which answers need later, are checked now.
        _ = answering.windows, answering.answers
    elif answering.task != description_lib.PRETRAINING:
        _ = answering.truncation
    return answering


def _answering_as_transformers(
    model: folder_lib.ModelFolder, description: description_lib.Description
) -> description_lib.Description:
    """Completes what folders of Hugging Face cannot say about questions.

    Source: transformers' question-answering pipeline, whose
    `handle_impossible_answer` is False unless the caller says otherwise.
    """
    if (
        description.task != description_lib.QUESTION_ANSWERING
        or description.version_2_with_negative is not None
    ):
        return description
    logging.warning(
        "%s does not say whether questions may have no answer. Every question "
        'is answered, as by transformers; write "version_2_with_negative": '
        "true to its %s for a model of SQuAD 2.0.",
        model.path,
        description_lib.FILE,
    )
    return dataclasses.replace(description, version_2_with_negative=False)


def _check_served(
    folder: str, task: str | None, description: description_lib.Description
) -> None:
    """Checks that the network and the settings of a model are served."""
    if description.attention == _CAUSAL:
        raise ValueError(f"{folder}: left-to-right attention is not served.")
    if task != EMBEDDING and (description.bilstm_head or description.features):
        raise ValueError(
            f"{folder}: a BiLSTM below the output layer is not served; "
            "tools.export_model --layers exports its encoder."
        )
    if description.null_score_diff_threshold == "auto":
        raise ValueError(
            f"{folder}: the null_score_diff_threshold of auto is not known "
            "before run_squad.py --do_predict --do_eval chose it."
        )


# -------------------------------------------------------------------- Networks


def load(model: Model) -> keras.Model:
    """Loads the network of a model: one of `heads`, or a `bert.BertModel`.

    Raises:
        ValueError: the checkpoint lacks a weight, or has one that is not
            finite.
    """
    # Zeros, because drawing weights, which are replaced, takes seconds.
    config = dataclasses.replace(model.config, initializer_range=0.0)
    make = {
        description_lib.CLASSIFICATION: heads.BertForSequenceClassification,
        description_lib.TAGGING: heads.BertForTokenClassification,
        description_lib.QUESTION_ANSWERING: heads.BertForQuestionAnswering,
        description_lib.MULTIPLE_CHOICE: heads.BertForMultipleChoice,
        description_lib.PRETRAINING: heads.BertForPreTraining,
        EMBEDDING: bert.BertModel,
    }[model.task]
    options: dict[str, object] = {}
    if model.task in description_lib.WITH_LABELS:
        options = {"num_labels": model.label_set.num_outputs}
    if model.task == description_lib.PRETRAINING:
        options = {"objective": "mlm"}  # It reads single texts too.
        if _MASKED_LM not in model.variables:
            raise ValueError(
                f"{model.checkpoint} has no output layer for masked words. "
                "extract_features.py writes its vectors."
            )
    network = make(config, dtype=_DTYPE, **options)
    report = checkpoints.load(
        network, model.checkpoint, new=network.optional_variables
    )
    logging.info("%s: %s", model.checkpoint, report)
    checkpoints.check_finite(network, model.checkpoint)
    return network


def outputs_of(
    model: Model, network: keras.Model
) -> Callable[..., Mapping[str, tf.Tensor]]:
    """Returns the network as a function of ids.

    Its arguments are `ID_NAMES`, each `[R, T]` int32 (`[R, C, T]` for C
    choices). Its outputs are, each float32:

    - of a classifier: `probabilities` `[R, K]`, or `score` `[R]`;
    - of a tagger: `probabilities` `[R, T, K]`; of choices: `[R, C]`;
    - of questions: `start_logits` and `end_logits`, each `[R, T]`;
    - of a sentence encoder: `embedding` `[R, D]`;
    - of another encoder: `sequence_output` `[R, T, D]`, the chosen `layers`
      `[R, T, L, D]` and, if the model has it, `pooled_output` `[R, D]`.

    Args:
        model: of `read`, not pre-trained.
        network: of `load`.
    """
    activation = {
        task_lib.SINGLE_LABEL: tf.nn.softmax,
        task_lib.MULTI_LABEL: tf.nn.sigmoid,
    }.get(model.problem_type)

    def compute(
        input_ids: tf.Tensor, input_mask: tf.Tensor, segment_ids: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        outputs = network(input_ids, input_mask, segment_ids)
        if model.task == description_lib.QUESTION_ANSWERING:
            return {k: outputs[k] for k in ("start_logits", "end_logits")}
        if model.sentence_encoder is not None:
            hidden = outputs["sequence_output"]
            embedding = embeddings.embed(
                hidden, input_mask, model.sentence_encoder
            )
            return {"embedding": embedding}
        if model.task == EMBEDDING:
            every = outputs["all_encoder_layers"]
            vectors = {
                "sequence_output": outputs["sequence_output"],
                "layers": tf.stack([every[i] for i in model.layers], axis=2),
            }
            if _POOLER in model.variables:
                vectors["pooled_output"] = outputs["pooled_output"]
            return vectors
        if activation is None:
            return {"score": outputs["logits"][:, 0]}
        return {"probabilities": activation(outputs["logits"])}

    return compute
