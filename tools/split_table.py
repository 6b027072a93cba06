r"""Splits a table of labeled texts into train, dev and test files.

Example, which writes reviews/train.csv, reviews/dev.csv and reviews/test.csv:

  python -m tools.split_table --input_file=reviews.csv \
    --label_column=stars --output_dir=reviews

The labels have the same shares in all files, and each occurs in the training
file. The table is TSV, CSV, JSON Lines or Parquet, perhaps compressed, as in
run_classifier.py. The split depends on the table, the fractions and --seed.
Docs: docs/own_data.md.
"""

import csv
import dataclasses
import json
import os
from collections.abc import Mapping, Sequence

from absl import logging

from bert.commands import flags, program
from bert.files import row_files, writing
from bert.tasks import task
from bert.tasks.classification import class_labels, datasets

TRAIN, DEV, TEST = "train", "dev", "test"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """The flags of this tool; see --help."""

    input_file: flags.Path = flags.Group.FILES.required("The table, UTF-8.")
    label_column: str = flags.Group.FILES.required(
        "Column of the label: name, or number from 0 if there is no line of "
        "names."
    )
    output_dir: flags.Path = flags.Group.FILES.required(
        "Folder of the files to write, in the format of the table."
    )
    problem_type: str = flags.Group.FILES.flag(
        task.SINGLE_LABEL,
        "single_label: one label per row; multi_label: any number of labels; "
        "regression: a score.",
        choices=task.PROBLEM_TYPES,
    )
    dev_fraction: float = flags.Group.FILES.non_negative(
        0.1,
        "Fraction of the rows for the dev file; 0 for none.",
        upper_bound=0.9,
    )
    test_fraction: float = flags.Group.FILES.non_negative(
        0.1,
        "Fraction of the rows for the test file; 0 for none.",
        upper_bound=0.9,
    )
    seed: int = flags.Group.FILES.non_negative(
        0, "Another number, another split."
    )

    def __post_init__(self) -> None:
        if not 0 < self.dev_fraction + self.test_fraction < 1:
            raise ValueError(
                "--dev_fraction and --test_fraction must hold out rows and "
                f"leave rows to train on; got {self.dev_fraction:g} and "
                f"{self.test_fraction:g}."
            )


def split(
    row_labels: Sequence[class_labels.Label], options: Options
) -> dict[str, list[int]]:
    """Draws the rows of each file, stratified by label.

    Args:
        row_labels: the label of each row.
        options: the fractions and the seed.

    Returns:
        The places of the rows of each file, in their order.

    Raises:
        ValueError: a file would have no rows.
    """
    rest = list(range(len(row_labels)))
    places: dict[str, list[int]] = {}
    share = 1.0
    for name, fraction in (
        (TEST, options.test_fraction),
        (DEV, options.dev_fraction),
    ):
        if fraction:
            drawn = datasets.held_out(
                [row_labels[place] for place in rest],
                fraction / share,
                seed=options.seed,
                flag=f"--{name}_fraction",
            )
            places[name] = [rest[i] for i in sorted(drawn)]
            rest = [place for i, place in enumerate(rest) if i not in drawn]
            share -= fraction
    if options.problem_type != task.REGRESSION:
        rest += _moved_to_train(row_labels, rest, places)
    return {TRAIN: sorted(rest), **places}


def _moved_to_train(
    row_labels: Sequence[class_labels.Label],
    train: Sequence[int],
    others: Mapping[str, list[int]],
) -> list[int]:
    """Takes rows out of the other files, so that no label is only there."""
    known = {name for place in train for name in _names(row_labels[place])}
    moved = []
    for name, places in others.items():
        for place in list(places):
            if not known.issuperset(_names(row_labels[place])):
                known.update(_names(row_labels[place]))
                places.remove(place)
                moved.append(place)
        if not places:
            raise ValueError(
                f"No row is left for the {name} file: its labels are in no "
                "other row. Is --label_column the column of the labels? For "
                "scores, pass --problem_type=regression."
            )
    return moved


def _names(label: class_labels.Label) -> tuple[str, ...]:
    return label if isinstance(label, tuple) else (str(label),)


def run(options: Options) -> None:
    """Splits a table.

    Raises:
        OSError: a file cannot be read or written.
        ValueError: a row is invalid, or a file would have no rows.
    """
    path, problem_type = options.input_file, options.problem_type
    column = row_files.column_of(options.label_column)
    file_format = row_files.format_of(path)
    names = [
        name
        for name, fraction in (
            (TRAIN, 1),
            (DEV, options.dev_fraction),
            (TEST, options.test_fraction),
        )
        if fraction
    ]
    outputs = {
        name: os.path.join(options.output_dir, name + file_format)
        for name in names
    }
    writing.check_files(outputs.values(), [path])
    rows = list(
        row_files.read_rows(
            path,
            # All columns of Parquet are read.
            () if file_format == row_files.PARQUET else (column,),
            has_header=isinstance(column, str),
            same_width=True,
        )
    )
    if not rows:
        raise ValueError(f"{path}: the file has no rows.")
    scores = class_labels.LabelSet(problem_type=task.REGRESSION)

    def parse(value: object) -> class_labels.Label:
        if problem_type == task.REGRESSION:
            return 0.0 if scores.is_missing(value) else scores.parse(value)
        if class_labels.is_missing(value, problem_type, frozenset()):
            return ()
        class_labels.check_form(value, problem_type)
        names = class_labels.class_names(value, problem_type)
        return tuple(map(row_files.spelling_key, names))

    places = split([row.read(column, parse) for row in rows], options)
    for name, output in outputs.items():
        _write(output, path, file_format, [rows[i] for i in places[name]])
        logging.info("%s: %d rows", output, len(places[name]))


def _write(
    output: str, path: str, file_format: str, rows: Sequence[row_files.Row]
) -> None:
    """Writes rows of a table in its format."""
    if file_format == row_files.PARQUET:
        import pyarrow
        from pyarrow import parquet

        table = pyarrow.Table.from_pylist(
            [row.cells for row in rows], schema=parquet.read_schema(path)
        )
        with writing.whole_file(output, "wb") as binary:
            parquet.write_table(table, binary)
        return
    with writing.whole_file(output) as file:
        header = rows[0].header
        cells = [*([header] if header else []), *(row.cells for row in rows)]
        if file_format == row_files.CSV:
            csv.writer(file, lineterminator="\n").writerows(cells)
        elif file_format == row_files.TSV:
            file.writelines("\t".join(map(str, x)) + "\n" for x in cells)
        else:
            file.writelines(
                json.dumps(row, ensure_ascii=False) + "\n" for row in cells
            )


if __name__ == "__main__":
    program.start(Options, run)
