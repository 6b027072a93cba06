"""Pre-training data: readable records, and warnings about likely faults."""

import unicodedata
from collections.abc import Iterable, Mapping

import numpy as np

from tasks.masked_lm import masked_pairs
from vocab import tokenization

_CONTINUATION = "##"

# In the released cased vocabularies 15 to 29 % of the tokens contain a capital,
# in the uncased ones none.
_CASED_VOCAB_SHARE = 0.01
# A vocabulary with fewer letters that have a case does not show its casing.
_LEAST_LETTERED_TOKENS = 500


def as_text(record: Mapping[str, np.ndarray], tokens: Mapping[int, str]) -> str:
    """Formats the tokens of a record before masking, without padding.

    Tokens to predict are in brackets: `[MASK: word]` is hidden, `[same: word]`
    unchanged, and `[other: word]` shown as another word.

    Args:
        record: `input_ids` and `input_mask` `[T]`; `masked_lm_positions`,
            `masked_lm_ids` and `masked_lm_weights` `[P]`, if masked.
        tokens: tokens by id; unknown ids are shown as numbers.
    """

    def name(index: int) -> str:
        return tokens.get(index, f"[id {index}]")

    none = np.zeros(0, np.int64)
    is_real = record.get("masked_lm_weights", none) > 0
    places, labels = (
        record.get(name, none)[is_real].tolist()
        for name in ("masked_lm_positions", "masked_lm_ids")
    )
    answers = dict(zip(places, labels, strict=True))
    length = int(record["input_mask"].sum())
    parts: list[str] = []
    for place, index in enumerate(record["input_ids"][:length].tolist()):
        text = name(answers.get(place, index))
        is_piece = text.startswith(_CONTINUATION) and text != _CONTINUATION
        # Truncation can make a text begin in the middle of a word.
        if is_piece and parts and parts[-1] not in ("[CLS]", "[SEP]"):
            text = text.removeprefix(_CONTINUATION)
        elif parts:
            parts.append(" ")
        if place in answers:
            shown = name(index)
            mark = "MASK" if shown == "[MASK]" else shown
            text = f"[{'same' if answers[place] == index else mark}: {text}]"
        parts.append(text)
    return "".join(parts)


def prediction_warnings(options: masked_pairs.InstanceOptions) -> list[str]:
    """Checks that the number of predictions allows the requested share."""
    wanted = options.num_to_predict(options.max_seq_length)
    if wanted <= options.max_predictions_per_seq:
        return []
    return [
        f"max_predictions_per_seq={options.max_predictions_per_seq} is too "
        f"small for masked_lm_prob={options.masked_lm_prob}: a full "
        f"sequence of {options.max_seq_length} tokens needs {wanted} "
        "predictions and gets fewer."
    ]


def corpus_warnings(num_documents: int) -> list[str]:
    """Checks that the corpus has several documents."""
    if num_documents != 1:
        return []
    return [
        "The corpus is one document, so random next sentences come from the "
        "same document and that task means little. Put a blank line "
        "between documents."
    ]


def casing_warnings(
    vocab_words: Iterable[str], *, do_lower_case: bool
) -> list[str]:
    """Checks that the vocabulary matches the casing of the text."""
    words = [word for word in vocab_words if not word.startswith(("[", "<"))]
    num_cased = sum(map(_is_cased, words))
    if do_lower_case and num_cased > _CASED_VOCAB_SHARE * len(words):
        return [
            f"do_lower_case is True, but {num_cased} of {len(words)} tokens of "
            "the vocabulary have capitals or accents: it looks cased. Pass "
            "--do_lower_case=False or another vocabulary."
        ]
    num_lettered = sum(word.lower() != word.upper() for word in words)
    is_shown = num_lettered >= _LEAST_LETTERED_TOKENS
    if is_shown and not do_lower_case and not num_cased:
        return [
            "do_lower_case is False, but no token of the vocabulary has a "
            "capital or an accent: it looks uncased, and words with capitals "
            "become [UNK]. Pass --do_lower_case=True or another vocabulary."
        ]
    return []


def _is_cased(word: str) -> bool:
    lowered = unicodedata.normalize("NFD", word.lower())
    return lowered != word or any(map(tokenization.is_combining_mark, lowered))
