"""Files of sentence-transformers: the embedding of a text, from hidden states.

`modules.json` lists the modules of a model in their order, each with a folder.
The first is the network; the configuration of the second, the pooling, is
mostly `1_Pooling/config.json`. A model whose embeddings this project does not
reproduce is refused: they would be wrong in silence.

Source: sentence-transformers 2 to 5: its file formats.
"""

import dataclasses
import os
from typing import Self

from bert.files import json_text, paths

MODULES = "modules.json"
SETTINGS = "config_sentence_transformers.json"
_CONFIG = "config.json"
_TEXTS = "sentence_bert_config.json"

MEAN, MAX, CLS = "mean", "max", "cls"
COSINE, DOT = "cosine", "dot"
_POOLINGS = (MEAN, MAX, CLS)
_SIMILARITIES = (COSINE, DOT)
_NETWORK, _POOLING, _NORMALIZE = "Transformer", "Pooling", "Normalize"
_SUPPORTED = ([_NETWORK, _POOLING], [_NETWORK, _POOLING, _NORMALIZE])
# Releases before 5.4 have an entry for each pooling.
_ENTRY = "pooling_mode_"
_POOLING_OF_ENTRY = {
    f"{_ENTRY}mean_tokens": MEAN,
    f"{_ENTRY}max_tokens": MAX,
    f"{_ENTRY}cls_token": CLS,
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class SentenceEncoder:
    """The embedding of a text, and the similarity of two embeddings.

    Attributes:
        pooling: of the last hidden states of all tokens, [CLS] and [SEP]
            included: `mean` or `max`; or `cls` for that of [CLS].
        normalize: whether an embedding has the length 1.
        similarity: of two embeddings, `cosine` or `dot`.
    """

    pooling: str
    normalize: bool
    similarity: str

    @classmethod
    def read(cls, folder: str, *, do_lower_case: bool | None) -> Self | None:
        """Reads the files in the folder of a model.

        Args:
            folder: of the model.
            do_lower_case: whether its tokenizer lower-cases texts.

        Returns:
            None if the folder has no `modules.json`.

        Raises:
            OSError: a file cannot be opened.
            ValueError: a file has another form than sentence-transformers
                writes; or a module, or a setting, is not supported. The
                message names the file and the entry.
        """
        path = os.path.join(folder, MODULES)
        if not paths.exists(path):
            return None
        modules = _modules(path)
        names = [name for name, _ in modules]
        if names not in _SUPPORTED:
            raise _NotSupportedError(
                path, f"the modules are {', '.join(names) or 'none'}"
            )
        if modules[0][1]:
            raise _NotSupportedError(path, f"the network is in {modules[0][1]}")
        _check_texts(folder, do_lower_case=do_lower_case)
        return cls(
            pooling=_pooling(os.path.join(folder, modules[1][1], _CONFIG)),
            normalize=_NORMALIZE in names,
            similarity=_similarity(os.path.join(folder, SETTINGS)),
        )


class _NotSupportedError(ValueError):
    """An embedding that this project does not reproduce."""

    def __init__(self, path: str, difference: str):
        super().__init__(
            f"{path}: {difference}. Embeddings of such a model are not "
            "supported; tools.export_model --layers exports its hidden states."
        )


def _modules(path: str) -> list[tuple[str, str]]:
    """Lists the class and the folder of each module."""
    modules = json_text.read(path)
    try:
        # Only the last part of a type is the same in all releases.
        return [
            (module["type"].rpartition(".")[-1], module["path"])
            for module in modules
        ]
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(
            f"{path} must be a list of modules with 'type' and 'path', as "
            f"sentence-transformers writes it ({error})."
        ) from error


def _pooling(path: str) -> str:
    config = json_text.read_object(path)
    poolings = config.get("pooling_mode") or []
    if not isinstance(poolings, list):
        poolings = [poolings]
    # Several are joined; none is the mean.
    poolings = poolings or [
        _POOLING_OF_ENTRY.get(entry, entry)
        for entry, value in config.items()
        if entry.startswith(_ENTRY) and value
    ]
    poolings = poolings or [MEAN]
    if len(poolings) != 1 or poolings[0] not in _POOLINGS:
        shown = " and ".join(map(str, poolings))
        raise _NotSupportedError(path, f"the pooling is {shown:.60}")
    return poolings[0]


def _similarity(path: str) -> str:
    settings = json_text.read_object(path) if paths.exists(path) else {}
    prompt = settings.get("default_prompt_name")
    if prompt is not None:
        raise _NotSupportedError(
            path, f"default_prompt_name is {prompt!r:.60}, before every text"
        )
    similarity = settings.get("similarity_fn_name") or COSINE
    if similarity not in _SIMILARITIES:
        raise _NotSupportedError(
            path, f"similarity_fn_name is {similarity!r:.60}"
        )
    return similarity


def _check_texts(folder: str, *, do_lower_case: bool | None) -> None:
    path = os.path.join(folder, _TEXTS)
    settings = json_text.read_object(path) if paths.exists(path) else {}
    if settings.get("do_lower_case") and not do_lower_case:
        raise _NotSupportedError(
            path, "do_lower_case is true, and the tokenizer keeps case"
        )
