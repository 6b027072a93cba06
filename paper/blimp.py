r"""Scores a pre-trained model on BLiMP, without fine-tuning.

  python -m paper.blimp --model=FOLDER --data_dir=data/blimp --output_dir=out

BLiMP (Warstadt et al. 2020, https://github.com/alexwarstadt/blimp) has 67,000
pairs of an acceptable and an unacceptable sentence. A model is right about a
pair if the acceptable one has the higher score of `tools.score_text`. The
folder `data/` of BLiMP's repository is --data_dir.

--output_dir gets `eval_results.txt`, with the share of right pairs in all
and by field, and `blimp.tsv`, with every paradigm and the standard errors.
"""

import dataclasses
import math
import os
import time
from collections.abc import Sequence

from absl import logging

from bert.commands import flags, program
from bert.files import (
    json_text,
    lines,
    paths,
    run_files,
    tensorflow_start,
    writing,
)

TABLE = "blimp.tsv"
_ALL, _FIELD, _PARADIGM = "all", "field", "paradigm"
_KEYS = ("sentence_good", "sentence_bad", "field", "UID")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """The flags of this program."""

    model: flags.Path = flags.Group.FILES.required(
        "Folder of the pre-trained model."
    )
    data_dir: flags.Path = flags.Group.FILES.required(
        "Folder with BLiMP's files, UID.jsonl."
    )
    output_dir: flags.Path = flags.Group.FILES.required(
        "Folder for the results."
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Pair:
    """A minimal pair: two sentences, the paradigm and its field."""

    good: str
    bad: str
    paradigm: str
    field: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Share:
    """The share of right pairs of a group.

    Attributes:
        level: "all", "field" or "paradigm".
        name: of the group.
        num_pairs, num_right: of the group.
    """

    level: str
    name: str
    num_pairs: int
    num_right: int

    @property
    def value(self) -> float:
        return self.num_right / self.num_pairs

    @property
    def standard_error(self) -> float:
        """The standard error of a share of independent pairs."""
        return math.sqrt(self.value * (1 - self.value) / self.num_pairs)


def read(folder: str) -> list[Pair]:
    """Reads the pairs of all files of a folder, in the order of their names.

    Raises:
        OSError: there is no file.
        ValueError: a line is not a pair; the message names it.
    """
    files = paths.matching(folder, "*.jsonl")
    if not files:
        raise FileNotFoundError(
            f"{folder} has no *.jsonl file. Pass the folder data/ of "
            "https://github.com/alexwarstadt/blimp."
        )
    pairs = []
    for path in files:
        for number, line in enumerate(lines.read_lines(path), start=1):
            where = f"{path}, line {number}"
            record = json_text.parse(line, where)
            good, bad, field, paradigm = (
                json_text.field(record, key, str, where) for key in _KEYS
            )
            # One of BLiMP's files writes "syntax/semantics".
            field = field.replace("/", "_")
            pairs.append(
                Pair(good=good, bad=bad, field=field, paradigm=paradigm)
            )
    return pairs


def shares(pairs: Sequence[Pair], is_right: Sequence[bool]) -> list[Share]:
    """Returns the shares in all, of each field and of each paradigm."""
    counts: dict[tuple[str, str], list[bool]] = {(_ALL, _ALL): []}
    for level in (_FIELD, _PARADIGM):
        for name in sorted({getattr(pair, level) for pair in pairs}):
            counts[level, name] = []
    for pair, right in zip(pairs, is_right, strict=True):
        counts[_ALL, _ALL].append(right)
        counts[_FIELD, pair.field].append(right)
        counts[_PARADIGM, pair.paradigm].append(right)
    return [
        Share(
            level=level,
            name=name,
            num_pairs=len(rights),
            num_right=sum(rights),
        )
        for (level, name), rights in counts.items()
    ]


def run(options: Options) -> None:
    """Scores the pairs and writes the shares.

    Raises:
        OSError: a file cannot be read or written.
        ValueError: the model gives words no probabilities, or the data are not
            BLiMP's.
    """
    tensorflow_start.load()
    from bert.serving import sentence_scores

    pairs = read(options.data_dir)
    start = time.monotonic()
    scorer = sentence_scores.Scorer(options.model)
    scores = scorer.score(
        [
            scorer.encode(text)
            for pair in pairs
            for text in (pair.good, pair.bad)
        ]
    )
    is_right = [
        good.score > bad.score
        for good, bad in zip(scores[::2], scores[1::2], strict=True)
    ]
    table = shares(pairs, is_right)
    total = table[0]
    logging.info(
        "BLiMP: %.1f ± %.1f%% of %s pairs, in %.0f s",
        100 * total.value,
        100 * total.standard_error,
        f"{total.num_pairs:,}",
        time.monotonic() - start,
    )
    with writing.whole_file(os.path.join(options.output_dir, TABLE)) as file:
        file.write("level\tname\tpairs\tshare\tstandard_error\n")
        for share in table:
            file.write(
                f"{share.level}\t{share.name}\t{share.num_pairs}\t"
                f"{share.value:.4f}\t{share.standard_error:.4f}\n"
            )
    results = {
        "eval_blimp": total.value,
        "eval_blimp_error": total.standard_error,
    }
    results |= {
        f"eval_blimp_{share.name}": share.value
        for share in table
        if share.level == _FIELD
    }
    run_files.write_results(
        os.path.join(options.output_dir, "eval_results.txt"), results
    )


if __name__ == "__main__":
    program.start(Options, run)
