"""The flags of run_ner.py for its files and its features."""

import dataclasses
import os
from collections.abc import Mapping

from bert.commands import flags
from bert.files import paths
from bert.tasks.tagging import tag_schemes

_COLUMNS = flags.Heading("Columns of the files")
# File names of CoNLL-2003 and common alternatives, in order of preference.
_NAMES = {
    "train": ("eng.train", "train.txt", "train.conll"),
    "eval": ("eng.testa", "valid.txt", "dev.txt", "dev.conll"),
    "predict": ("eng.testb", "test.txt", "test.conll"),
}
DOCUMENT, SENTENCE = "document", "sentence"
CONTEXTS = (DOCUMENT, SENTENCE)
# Source: Devlin et al. 2019, table 7, "Feature-based approach".
FEATURE_LAYERS = (
    "embeddings",
    "second_to_last",
    "last",
    "sum_last_four",
    "concat_last_four",
    "sum_all",
)
# Defaults set by `--features`; a flag on the command line takes precedence. A
# randomly initialized BiLSTM needs a higher learning rate and more steps than a
# trained encoder. The paper does not report them.
FEATURE_BASED = {"learning_rate": 1e-3, "num_train_epochs": 20.0}


@dataclasses.dataclass(frozen=True, kw_only=True)
class FeatureOptions:
    """The flags of a tagger that reads the layers of a frozen encoder.

    Source: Devlin et al. 2019, §5.3.
    """

    features: str | None = flags.Group.MODEL.optional(
        "Instead of fine-tuning, train a BiLSTM on these hidden layers of "
        "--init_checkpoint, which is frozen. Changes the defaults to "
        + ", ".join(f"--{name}={x}" for name, x in FEATURE_BASED.items())
        + ".",
        choices=FEATURE_LAYERS,
        changes_result=True,
        of_model=True,
    )

    @classmethod
    def presets(cls, chosen: Mapping[str, object]) -> Mapping[str, object]:
        """Returns the defaults that `--features` changes."""
        return FEATURE_BASED if chosen["features"] else {}


@dataclasses.dataclass(frozen=True, kw_only=True)
class TaggingFileOptions:
    """Input files of a run and their format."""

    data_dir: flags.Path | None = flags.Group.FILES.optional(
        "Folder with eng.train, eng.testa and eng.testb of CoNLL-2003, or "
        "train.txt, valid.txt (or dev.txt) and test.txt."
    )
    train_file: flags.Path | None = flags.Group.FILES.optional(
        "Training column file, in place of one in --data_dir."
    )
    eval_file: flags.Path | None = flags.Group.FILES.optional(
        "Dev column file, in place of one in --data_dir."
    )
    predict_file: flags.Path | None = flags.Group.FILES.optional(
        "Column file to tag, in place of one in --data_dir."
    )
    columns: str = _COLUMNS.flag(
        "word:0,tag:-1",
        "Columns of words and tags: 0 is the first, -1 the last. "
        "Files without tags, as in word:0, can only be tagged.",
        of_model=True,
    )
    scheme: str = _COLUMNS.flag(
        tag_schemes.AUTO,
        "Scheme of the tags in the files. iob: letters and types, as in IOB, "
        "IOBES or BILOU; raw: each run of equal tags is one entity; words: "
        "each tag is the label of one word, such as its part of speech; auto: "
        "iob if all tags have letters, else raw if one of them is O, else "
        "words, by the training file. Tags of entities are written in IOB2.",
        choices=tag_schemes.SCHEMES,
        of_model=True,
    )
    context: str = flags.Group.TEXT.flag(
        DOCUMENT,
        "document: each sentence is read with as much of its document as "
        "fits; sentence: each sentence is read alone.",
        choices=CONTEXTS,
        of_model=True,
    )


def find_file(options: TaggingFileOptions, name: str) -> str:
    """Finds the file of "train", "eval" or "predict".

    Raises:
        ValueError: neither its flag nor `data_dir` gives it.
    """
    file_of_flag = getattr(options, f"{name}_file")
    if file_of_flag:
        return file_of_flag
    if not options.data_dir:
        raise ValueError(f"Pass --{name}_file or --data_dir; got neither.")
    for file in _NAMES[name]:
        path = os.path.join(options.data_dir, file)
        if paths.exists(path):
            return path
    raise ValueError(
        f"{options.data_dir} must contain one of {', '.join(_NAMES[name])}; "
        f"found none. Pass --{name}_file if it has another name."
    )
