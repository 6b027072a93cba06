r"""Predicts labels, choices, answers, tags, masks or embeddings of texts.

For example:

  python -m tools.predict --model=mrpc "It rained. ||| There was rain."
  python -m tools.predict --model=squad --context_file=paragraph.txt
  python -m tools.predict --model=ner --input_file=lines.txt --format=json
  python -m tools.predict --model=reviews --input_file=test.csv \
    --text_a_column=review
  python -m tools.predict --model=$BERT "The capital of France is [MASK]."
  python -m tools.predict --model=$ENCODER "It rained. ||| There was rain."

`--model` is the --output_dir of a script, or the folder of a released or
Hugging Face model. ` ||| ` separates the two texts of a pair; a question and
its paragraph; or the two texts and the endings of a choice. Words to tag are
separated by white space. Without texts, the tool reads lines from standard
input; in a terminal, it answers each. A blank line gives a blank line.
"""

import dataclasses
import itertools
import json
import sys
from collections.abc import Iterator, Sequence
from typing import IO, TYPE_CHECKING, BinaryIO, TypeAlias

from absl import logging

from bert.commands import flags, program
from bert.files import lines, paths, tensorflow_start
from bert.models import hub
from bert.tasks import text_tables
from bert.training import options as training_options

if TYPE_CHECKING:
    from bert.serving import predicting

# An encoded line; None if it is blank, and its error if it is wrong.
_Example: TypeAlias = "predicting.EncodedExample | ValueError | None"

ARGUMENTS = "[TEXT ...]"
_TEXT, _JSON = "text", "json"
# Batches that are sorted by length together.
_BATCHES, _BATCH_SIZE = 32, 32


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(training_options.RunOptions):
    """The flags of this tool; see --help."""

    model: flags.Path = flags.Group.FILES.required(
        "Folder of the model: the --output_dir of a run, that of one of its "
        "trials, or of a released or Hugging Face model; or "
        "hf://ORGANISATION/NAME."
    )
    input_file: flags.Path | None = flags.Group.FILES.optional(
        "File with one example per line, or a table: .csv, .tsv, .jsonl or "
        ".parquet; - for lines of standard input."
    )
    text_a_column: str | None = flags.Group.FILES.optional(
        "Column of the text, or first field, of a table: its name, or its "
        "number from 0. By default that of the field's name, as in the output "
        "of --format=json."
    )
    text_b_column: str | None = flags.Group.FILES.optional(
        "Column of the second text, or field, of a table."
    )
    context_file: flags.Path | None = flags.Group.FILES.optional(
        "For questions: file with the paragraph of all of them."
    )
    task_file: flags.Path | None = flags.Group.MODEL.optional(
        "For a model of your own task: the Python file with its class."
    )
    format: str = flags.Group.FILES.flag(
        _TEXT,
        "Output: text for people, or one JSON object per line.",
        choices=(_TEXT, _JSON),
    )


def run(
    options: Options,
    texts: Sequence[str],
    standard_input: BinaryIO,
    standard_output: IO[str],
) -> None:
    """Reads examples and writes the predictions.

    Raises:
        OSError: a file cannot be read.
        ValueError: the folder has no model for texts, or an example does not
            fit the model. The message names its origin; examples before it, and
            in JSON all others, are answered.
    """
    if texts and options.input_file:
        raise ValueError("Give texts or --input_file; got both.")
    for path in (options.input_file, options.context_file):
        if path is not None and path != "-":
            paths.check_readable(path)
    is_table = text_tables.is_table(options.input_file or "")
    if not is_table and (options.text_a_column or options.text_b_column):
        raise ValueError(
            "--text_a_column and --text_b_column name columns of a table; the "
            "name of --input_file must end in .csv, .tsv, .jsonl or .parquet."
        )
    hub.check_path(options.model)
    session = _Session(options)
    is_stream = not texts and options.input_file in (None, "-")
    try:
        if is_stream and standard_input.isatty():
            sys.stderr.write(f"Type {session.form}. Ctrl-D exits.\n")
            for _, line in lines.to_answer((), None, standard_input):
                session.answer([session.read(line)], standard_output)
            return
        # Lines of standard input are answered after each batch.
        size = _BATCH_SIZE * (1 if is_stream else _BATCHES)
        examples = (
            session.read(line, where)
            for where, line in (
                session.rows(options)
                if is_table
                else lines.to_answer(texts, options.input_file, standard_input)
            )
        )
        _answer_all(session, examples, size, standard_output)
    finally:
        session.predictor.log_truncation()


def _answer_all(
    session: "_Session",
    examples: "Iterator[_Example]",
    size: int,
    output: IO[str],
) -> None:
    """Answers examples in batches; a wrong one ends text, but not JSON.

    Raises:
        ValueError: an example is wrong; those before it are answered.
    """
    num_examples = 0
    wrong: list[ValueError] = []
    while batch := list(itertools.islice(examples, size)):
        for place, example in enumerate(batch):
            if isinstance(example, ValueError):
                wrong.append(example)
                if session.format == _TEXT:
                    session.answer(batch[:place], output)
                    raise example
        session.answer(batch, output)
        num_examples += len(batch)
    if wrong:
        raise ValueError(
            f"{len(wrong):,} of {num_examples:,} lines have no answer. The "
            f"first: {wrong[0]}"
        )


class _Session:
    """A model that answers lines of text."""

    def __init__(self, options: Options):
        tensorflow_start.load()
        from bert.serving import loading, predicting

        self.model = loading.read(
            options.model,
            best=options.use_best_checkpoint,
            task_file=options.task_file,
        )
        self.format, self.form = options.format, self.model.form
        self.context: str | None = None  # The paragraph of all questions.
        if options.context_file is not None:
            if self.model.shared_field is None:
                raise ValueError(
                    "--context_file requires a model that answers questions; "
                    f"the task of this one is {self.model.kind}."
                )
            self.form = self.model.fields[0]
            self.context = "\n".join(lines.read_lines(options.context_file))
        self.predictor = predicting.Predictor(self.model, _BATCH_SIZE)

    def rows(
        self, options: Options
    ) -> Iterator[tuple[str, dict[str, object] | ValueError]]:
        """Yields the rows of a table, by field, after their origin."""
        fields = [
            field
            for field in self.model.fields
            if self.context is None or field != self.model.shared_field
        ]
        named = {field: field for field in fields[: self.model.num_needed]}
        others = {field: field for field in fields[self.model.num_needed :]}
        given = (options.text_a_column, options.text_b_column)
        for field, column in itertools.zip_longest(fields, given):
            if column is not None:
                if field is None:
                    raise ValueError(
                        f"The fields of this model are {self.form}; it has no "
                        f"second one for {column!r}."
                    )
                named[field] = column
                others.pop(field, None)
        path = flags.needed(options.input_file, "input_file")
        for place, values in text_tables.read(path, named, others):
            if self.context is not None and isinstance(values, dict):
                values[self.model.fields[-1]] = self.context
            yield place, values

    def read(
        self,
        line: str | dict[str, object] | ValueError,
        where: str | None = None,
    ) -> "_Example":
        """Encodes an example; returns None if it is blank, or its error."""
        if isinstance(line, ValueError):
            return line
        try:
            if isinstance(line, dict):
                return self.predictor.encode(self.model.check(line))
            if not line.strip():
                return None
            return self.predictor.encode(self.model.parse(line, self.context))
        except ValueError as error:
            return ValueError(f"{where}: {error}") if where else error

    def answer(self, examples: "Sequence[_Example]", output: IO[str]) -> None:
        """Writes the answers to examples, and the errors of wrong ones."""
        from bert.serving import predicting

        encoded = [
            example
            for example in examples
            if isinstance(example, predicting.EncodedExample)
        ]
        answers = iter(self.predictor.predict(encoded))
        for example in examples:
            text = ""
            if isinstance(example, ValueError):
                text = str(example)
                if self.format == _JSON:
                    text = json.dumps({"error": text}, ensure_ascii=False)
            elif example is not None and self.format == _JSON:
                answer = {**example.example, **next(answers)}
                text = json.dumps(answer, ensure_ascii=False)
            elif example is not None:
                text = self.model.show(example.example, next(answers))
            output.write(f"{text}\n")
        output.flush()


def main(options: Options, texts: list[str]) -> None:
    """Runs the tool on the standard streams."""
    logging.set_verbosity(logging.WARNING)
    run(options, texts, sys.stdin.buffer, sys.stdout)


if __name__ == "__main__":
    program.start(Options, main, arguments=ARGUMENTS)
