"""Lines of text, read as the release reads them."""

from collections.abc import Iterator

from files import paths


def read_lines(path: str) -> Iterator[str]:
    """Yields the lines of a UTF-8 file, without their line ends.

    As released (`tf.gfile.GFile.readline`): lines end at "\\n" and nowhere
    else (not at U+2028, U+0085 or a form feed), and every "\\r" is dropped,
    which joins what stood around it.

    Raises:
        OSError: the file cannot be opened.
        ValueError: a line is not UTF-8; names the file and the line.
    """
    with paths.open_to_read(path) as file:
        for number, line in enumerate(_raw_lines(file), start=1):
            try:
                yield line.replace(b"\r", b"").decode("utf-8")
            except UnicodeDecodeError as error:
                raise ValueError(
                    f"{path}, line {number}: not UTF-8 "
                    f"(byte {line[error.start]:#04x}). Convert the file first, "
                    "for example with iconv."
                ) from error


def _raw_lines(file) -> Iterator[bytes]:
    # Remote files have a `readline` that decodes and drops; iterate bytes.
    rest = b""
    while chunk := file.read(1 << 20):
        lines = (rest + chunk).split(b"\n")
        rest = lines.pop()
        yield from lines
    # As released: carriage returns alone do not make a last line.
    if rest.replace(b"\r", b""):
        yield rest
