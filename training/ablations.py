"""Fine-tuning of models that are not BERT: what their runs have of their own.

Source: Devlin et al. 2019, §5.1. A left-to-right model has the variables of
BERT, so nothing in its weights tells them apart; what lies beside a checkpoint
of this project does.
"""

import itertools
from collections.abc import Mapping
from typing import Any

from modeling import checkpoints, heads
from modeling import config as config_lib
from training import checkpointing, objectives
from training import flags as training_flags

_LEFT_TO_RIGHT = "ltr"
_OBJECTIVE = "objective"
_ATTENTION, _BILSTM = "attention", "bilstm_head"
# New where an encoder is given: the output layer, and the BiLSTM if any.
HEAD = (*objectives.CLASSIFICATION_HEAD, "bilstm/.*")
SPAN_HEAD = (*objectives.SPAN_HEAD, *HEAD)
NONE = {"causal": False, "bilstm_head": False}


def of_options(options: Any) -> dict[str, bool]:
    """Returns the arguments of `BertWithHead` that a run asks for."""
    return {
        "causal": _attention(options) == training_flags.CAUSAL,
        "bilstm_head": getattr(options, _BILSTM, False),
    }


def sequence_classification(
    config: config_lib.BertConfig, options: Any, num_outputs: int
) -> heads.BertForSequenceClassification:
    """Makes the classifier that the options ask for: BERT's, or another."""
    return heads.BertForSequenceClassification(
        config, num_labels=num_outputs, **of_options(options)
    )


def token_classification(
    config: config_lib.BertConfig, options: Any, num_outputs: int
) -> heads.BertForTokenClassification:
    """Makes the tagger that the options ask for: BERT's, or another."""
    return heads.BertForTokenClassification(
        config, num_labels=num_outputs, **of_options(options)
    )


def question_answering(
    config: config_lib.BertConfig, options: Any
) -> heads.BertForQuestionAnswering:
    """Makes the span model that the options ask for: BERT's, or another."""
    return heads.BertForQuestionAnswering(config, **of_options(options))


def identity(options: Any) -> dict[str, object]:
    """Names what a run must share with the one that it goes on with.

    Nothing for BERT, as in the runs of before.
    """
    ablation = of_options(options)
    if ablation == NONE:
        return {}
    return {
        _ATTENTION: _attention(options),
        _BILSTM: ablation[_BILSTM],
    }


def check_checkpoints(options: Any) -> None:
    """Checks that checkpoints were trained with the attention of the flags.

    Looks at the one in `output_dir`, and at `init_checkpoint`; of what was
    made elsewhere nothing is known, and nothing checked.

    Args:
        options: of a run: `output_dir`, `init_checkpoint` and, where the script
            has it, `attention` or `objective`.

    Raises:
        ValueError: a checkpoint's attention is another.
    """
    now = _attention(options)
    # A run goes on from the latest checkpoint that can be read.
    found = list(
        itertools.islice(checkpointing.readable_states(options.output_dir), 1)
    )
    origin = _find(options.init_checkpoint)
    if origin is not None:
        found.append((origin, checkpointing.load_state(origin) or {}))
    for prefix, state in found:
        trained = attention_of(state.get("identity", {}))
        if trained is not None and trained != now:
            raise ValueError(
                f"{prefix} was trained with {trained} attention, and this run "
                f"has {now}. A model that was trained from left to right stays "
                f"so ({_flag_of(options)}), others do not become so; choose "
                "the flag or the checkpoint that fits."
            )


def attention_of(saved: Mapping[str, object]) -> str | None:
    """Says with which attention a checkpoint was trained; None if unknown.

    Args:
        saved: the identity of the run that wrote it.
    """
    if checkpoints.is_causal(saved):
        return training_flags.CAUSAL
    # Fine-tuned: only what is not BERT is written down.
    return training_flags.BIDIRECTIONAL if saved else None


def check_bert(path: str) -> None:
    """Checks that a checkpoint is of a model that looks in both directions.

    For programs that know no other. Of what was made elsewhere nothing is
    known, and nothing checked.

    Args:
        path: a prefix, one of its files, or a folder.

    Raises:
        ValueError: it was trained from left to right.
    """
    prefix = _find(path)
    if prefix is None:
        return
    state = checkpointing.load_state(prefix) or {}
    if checkpoints.is_causal(state.get("identity", {})):
        raise ValueError(
            f"{prefix} was trained from left to right (--objective=ltr, "
            "--attention=causal): each word saw only those before it. This "
            "program reads text in both directions, where such a model means "
            "nothing. Only the fine-tuning scripts that have --attention take "
            "it."
        )


def _find(path: str | None) -> str | None:
    """Finds a checkpoint; where there is none, whoever reads it says so."""
    try:
        return checkpoints.resolve(path) if path else None
    except (FileNotFoundError, ValueError):
        return None


def _attention(options: Any) -> str:
    """Says with which attention a run computes; pre-training has a flag too."""
    if getattr(options, _OBJECTIVE, None) == _LEFT_TO_RIGHT:
        return training_flags.CAUSAL
    return getattr(options, _ATTENTION, training_flags.BIDIRECTIONAL)


def _flag_of(options: Any) -> str:
    if hasattr(options, _OBJECTIVE):
        return f"--objective={_LEFT_TO_RIGHT}"
    return f"--attention={training_flags.CAUSAL}"
