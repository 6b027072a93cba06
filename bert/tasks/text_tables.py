"""Tables of texts: their columns are the fields of examples."""

from collections.abc import Iterator, Mapping

from bert.files import row_files

_JSON = (".json", ".json.gz", ".ndjson")


def is_table(path: str) -> bool:
    """Returns whether the ending of a name states a table.

    Raises:
        ValueError: the file is JSON without lines.
    """
    name = path.lower()
    if name.endswith(_JSON):
        raise ValueError(
            f"{path}: JSON is read as JSON Lines, one object a line; name such "
            "a file .jsonl."
        )
    return name.endswith(row_files.ENDINGS)


def read(
    path: str, columns: Mapping[str, str], optional: Mapping[str, str]
) -> Iterator[tuple[str, dict[str, object] | ValueError]]:
    """Yields the place of each row, and its values by field, or its error.

    Args:
        path: the file.
        columns: for each field its column: a name, or a number from 0.
        optional: the same for fields that a file may lack.

    Raises:
        OSError: the file cannot be opened.
        ValueError: it lacks a column, or a row is invalid.
    """
    keys, others = (
        {field: row_files.column_of(flag) for field, flag in flags.items()}
        for flags in (columns, optional)
    )
    try:
        for row in row_files.read_rows(
            path,
            [*keys.values()],
            has_header=any(isinstance(key, str) for key in keys.values()),
            same_width=True,
            optional=[key for key in others.values() if isinstance(key, str)],
        ):
            try:
                values = {field: row.cell(key) for field, key in keys.items()}
            except row_files.ColumnError as error:
                yield row.place, _advised(error)
                continue
            values |= {
                field: row.cell(key)
                for field, key in others.items()
                if row.has(key)
            }
            yield row.place, values
    except row_files.ColumnError as error:
        raise _advised(error) from error


def _advised(error: ValueError) -> ValueError:
    return ValueError(
        "--text_a_column, and --text_b_column for a second text, must name "
        f"columns of the table. {error}"
    )
