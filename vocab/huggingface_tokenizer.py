"""Hugging Face's files of a tokenizer: what they state, if it is BERT's.

A folder of transformers has `tokenizer_config.json`, and the vocabulary in
`tokenizer.json`, `vocab.txt` or both. A tokenizer whose word pieces this
project does not reproduce is refused: its ids would be wrong in silence.

Source: transformers 4 and 5, tokenizers 0.22: their file formats.
"""

import dataclasses
import os
from collections.abc import Iterator, Mapping

from bert.files import json_text, messages, paths

CONFIG = "tokenizer_config.json"
PIPELINE = "tokenizer.json"
_ADDED_TOKENS = "added_tokens.json"
_SENTENCE_TRANSFORMERS = "sentence_bert_config.json"

_SPECIAL_TOKENS = {
    "unk_token": "[UNK]",
    "sep_token": "[SEP]",
    "pad_token": "[PAD]",
    "cls_token": "[CLS]",
    "mask_token": "[MASK]",
}
# Classes that split text as BERT's.
_CLASSES = {
    f"{name}Tokenizer{suffix}"
    for name in ("Bert", "DistilBert", "Electra", "MobileBert", "ConvBert")
    for suffix in ("", "Fast")
}
# Classes that do what tokenizer.json states.
_GENERAL_CLASSES = {"PreTrainedTokenizerFast", "TokenizersBackend"}
# Options that change the word pieces, and their values in BERT's tokenizer.
_FIXED: Mapping[str, object] = {
    "tokenize_chinese_chars": True,
    "do_basic_tokenize": True,
    "clean_text": True,
    "never_split": None,
    "word_tokenizer_type": "basic",
    "subword_tokenizer_type": "wordpiece",
    "wordpieces_prefix": "##",
    "truncation_side": "right",
}
# The first files name no type.
_WORD_PIECE = (None, "WordPiece")
# Source: transformers writes 10^30 for a tokenizer without a limit.
_NO_LIMIT = 10**9


@dataclasses.dataclass(frozen=True, kw_only=True)
class TokenizerSettings:
    """What the files of a tokenizer state; None: nothing.

    Attributes:
        do_lower_case, strip_accents: see `tokenization.BasicTokenizer`.
        max_seq_length: the longest sequence, in word pieces.
        sources: the file that states a value, by attribute.
    """

    do_lower_case: bool | None = None
    strip_accents: bool | None = None
    max_seq_length: int | None = None
    sources: Mapping[str, str] = dataclasses.field(default_factory=dict)


class _NotBertsError(ValueError):
    """A tokenizer differs from BERT's."""

    def __init__(self, path: str, difference: str):
        super().__init__(
            f"{path}: {difference}. The tokenizer of this model is not BERT's, "
            "and the word pieces would be others than those it was trained "
            "with. This tokenization is not supported."
        )


def read(folder: str) -> TokenizerSettings:
    """Reads what the files of a folder state about its tokenizer.

    Raises:
        OSError: a file cannot be opened.
        ValueError: a file is not a JSON object, or the tokenizer is another
            one than BERT's; the message names the file and the entry.
    """
    config = _read_json(folder, CONFIG)
    pipeline = _read_json(folder, PIPELINE)
    try:
        _check_config(folder, config, has_pipeline=bool(pipeline))
        _check_pipeline(os.path.join(folder, PIPELINE), pipeline)
        _check_added_tokens(folder, config, pipeline)
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(
            f"{CONFIG} or {PIPELINE} in {folder} has not the form that "
            f"transformers writes ({error})."
        ) from error
    normalizer = pipeline.get("normalizer") or {}
    casing: dict[str, bool] = {}
    sources: dict[str, str] = {}
    # The program of transformers prefers the entries of the configuration.
    for name, key in (
        ("do_lower_case", "lowercase"),
        ("strip_accents", "strip_accents"),
    ):
        for file, value in (
            (CONFIG, config.get(name)),
            (PIPELINE, normalizer.get(key)),
        ):
            if isinstance(value, bool) and name not in casing:
                casing[name], sources[name] = value, file
    max_seq_length = None
    sentence_model = _read_json(folder, _SENTENCE_TRANSFORMERS)
    for file, length in (
        (_SENTENCE_TRANSFORMERS, sentence_model.get("max_seq_length")),
        (CONFIG, config.get("model_max_length")),
    ):
        if json_text.is_number(length) and 0 < length < _NO_LIMIT:
            max_seq_length = int(length)
            sources["max_seq_length"] = file
            break
    return TokenizerSettings(
        **casing, max_seq_length=max_seq_length, sources=sources
    )


def _read_json(folder: str, name: str) -> json_text.Object:
    path = os.path.join(folder, name)
    return json_text.read_object(path) if paths.exists(path) else {}


def _check_config(
    folder: str, config: Mapping[str, object], *, has_pipeline: bool
) -> None:
    path = os.path.join(folder, CONFIG)
    name = config.get("tokenizer_class")
    classes = _CLASSES | (_GENERAL_CLASSES if has_pipeline else set())
    if name is not None and name not in classes:
        raise _NotBertsError(path, f"tokenizer_class is {name!r:.60}")
    for option, value in _FIXED.items():
        if config.get(option) not in (None, value, []):
            raise _NotBertsError(
                path, f"{option} is {config[option]!r:.60}, not {value!r}"
            )
    for option, token in _SPECIAL_TOKENS.items():
        stated = config.get(option)
        if isinstance(stated, Mapping):
            stated = stated.get("content")
        if stated not in (None, token):
            raise _NotBertsError(
                path, f"{option} is {stated!r:.60}, not {token!r}"
            )


def _check_pipeline(path: str, pipeline: json_text.Object) -> None:
    """Checks the steps of a `tokenizer.json`; a missing one is not checked."""
    for step, kind, fixed in (
        (
            "normalizer",
            "BertNormalizer",
            {"clean_text": True, "handle_chinese_chars": True},
        ),
        ("pre_tokenizer", "BertPreTokenizer", {}),
        (
            "model",
            "WordPiece",
            {"unk_token": "[UNK]", "continuing_subword_prefix": "##"},
        ),
    ):
        if step not in pipeline:
            continue
        values = pipeline[step] or {"type": None}
        if not isinstance(values, Mapping):
            raise _NotBertsError(path, f"{step} is {values!r:.60}")
        stated = values.get("type", kind)
        if stated != kind:
            parts = values.get("normalizers") or values.get("pretokenizers")
            names = [str(part.get("type")) for part in parts or ()]
            shown = f"{stated} of {', '.join(names)}" if names else stated
            raise _NotBertsError(path, f"{step} is {shown}, not {kind}")
        for option, value in fixed.items():
            if values.get(option, value) != value:
                raise _NotBertsError(
                    path, f"{option} is {values[option]!r:.60}, not {value!r}"
                )
    template = (pipeline.get("post_processor") or {}).get("single")
    if template is not None:
        tokens = [
            (part.get("SpecialToken") or part.get("Sequence") or {}).get("id")
            for part in template
        ]
        if tokens != ["[CLS]", "A", "[SEP]"]:
            sequence = ", ".join(map(str, tokens))
            raise _NotBertsError(
                path, f"post_processor makes {sequence} of a text"
            )


def _check_added_tokens(
    folder: str, config: json_text.Object, pipeline: json_text.Object
) -> None:
    for file, tokens in _added_tokens(folder, config, pipeline):
        added = sorted({*tokens} - {*_SPECIAL_TOKENS.values()})
        if added:
            raise _NotBertsError(
                os.path.join(folder, file),
                f"{messages.names(added)} are added tokens, which stay whole "
                "in a text",
            )


def _added_tokens(
    folder: str, config: json_text.Object, pipeline: json_text.Object
) -> Iterator[tuple[str, list[str]]]:
    """Yields the tokens that each file adds to the vocabulary."""
    yield PIPELINE, [_content(t) for t in pipeline.get("added_tokens") or ()]
    decoder = config.get("added_tokens_decoder") or {}
    yield CONFIG, [_content(token) for token in decoder.values()]
    for option in ("additional_special_tokens", "extra_special_tokens"):
        tokens = config.get(option) or ()
        if isinstance(tokens, Mapping):
            tokens = tokens.values()
        yield CONFIG, [_content(token) for token in tokens]
    yield _ADDED_TOKENS, [*_read_json(folder, _ADDED_TOKENS)]


def _content(token: object) -> str:
    return str(token["content"] if isinstance(token, Mapping) else token)


def vocabulary(path: str) -> list[str]:
    """Reads the entries of a `tokenizer.json`, in the order of their ids.

    Raises:
        OSError: the file cannot be opened.
        ValueError: it has no vocabulary of word pieces, or its ids are not
            those of consecutive lines.
    """
    pipeline = json_text.read_object(path)
    model = pipeline.get("model")
    if not isinstance(model, dict) or model.get("type") not in _WORD_PIECE:
        raise ValueError(
            f"{path}: the vocabulary must be of a model of type WordPiece."
        )
    ids = model.get("vocab")
    if not isinstance(ids, dict) or {*ids.values()} != {*range(len(ids))}:
        raise ValueError(
            f"{path} must have a vocabulary of word pieces, whose ids are 0, "
            "1, 2, ..."
        )
    return sorted(ids, key=ids.__getitem__)
