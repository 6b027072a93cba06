r"""Predicts classes, scores, choices, answers, tags or masked words of texts.

For example:

  python -m tools.predict --model=mrpc "It rained. ||| There was rain."
  python -m tools.predict --model=squad --context_file=paragraph.txt
  python -m tools.predict --model=ner --input_file=lines.txt --format=json
  python -m tools.predict --model=$BERT "The capital of France is [MASK]."

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
from collections.abc import Iterable, Iterator, Sequence
from typing import IO, TYPE_CHECKING, Any, BinaryIO

from absl import logging

from commands import flags, program
from files import lines, paths
from training import flags as training_flags

if TYPE_CHECKING:
    from serving import predicting

ARGUMENTS = "[TEXT ...]"
_TEXT, _JSON = "text", "json"
# Batches that are sorted by length together.
_BATCHES, _BATCH_SIZE = 32, 32
_MOST_SHOWN = 10


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(training_flags.RunOptions):
    """The flags of this tool; see --help."""

    model: flags.Path = flags.Group.FILES.required(
        "Folder of the model: the --output_dir of a run, that of one of its "
        "trials, or of a released or Hugging Face model."
    )
    input_file: flags.Path | None = flags.Group.FILES.optional(
        "File with one example per line; - for standard input."
    )
    context_file: flags.Path | None = flags.Group.FILES.optional(
        "For questions: file with the paragraph of all of them."
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
            fit the model; the message names its origin.
    """
    if texts and options.input_file:
        raise ValueError("Give texts or --input_file; got both.")
    for path in (options.input_file, options.context_file):
        if path is not None and path != "-":
            paths.check_readable(path)
    session = _Session(options)
    is_stream = not texts and options.input_file in (None, "-")
    if is_stream and standard_input.isatty():
        sys.stderr.write(f"Type {session.form}. Ctrl-D exits.\n")
        for line in lines.decoded(standard_input, "input"):
            try:
                session.answer([session.read(line)], standard_output)
            except ValueError as error:  # A wrong line ends nothing.
                standard_output.write(f"{error}\n")
        return
    name, read = "standard input", lines.decoded(standard_input, "input")
    if options.input_file not in (None, "-"):
        name, read = options.input_file, lines.read_lines(options.input_file)
    found = ((f"{name}, line {i}", line) for i, line in enumerate(read, 1))
    if texts:
        found = ((f"text {i}", text) for i, text in enumerate(texts, start=1))
    examples = _examples(session, found)
    # From standard input, answers do not wait for more than a batch.
    size = _BATCH_SIZE * (1 if is_stream else _BATCHES)
    while batch := list(itertools.islice(examples, size)):
        session.answer(batch, standard_output)


class _Session:
    """A model that answers lines of text."""

    def __init__(self, options: Options):
        from serving import models, predicting
        from training import model_folder

        model = models.read(options.model, best=options.use_best_checkpoint)
        self.task, self.format = model.task, options.format
        self.form = predicting.form(model.task)  # Of a line.
        self.context: str | None = None  # The paragraph of all questions.
        if options.context_file is not None:
            if model.task != model_folder.QUESTION_ANSWERING:
                raise ValueError(
                    "--context_file requires a model that answers questions; "
                    f"the task of this one is {model.task}."
                )
            self.form = "question"
            self.context = "\n".join(lines.read_lines(options.context_file))
        self.predictor = predicting.Predictor(model, _BATCH_SIZE)

    def read(self, line: str) -> "predicting.Encoded | None":
        from serving import predicting

        if not line.strip():
            return None
        return self.predictor.encode(
            predicting.example(self.task, line, self.context)
        )

    def answer(
        self, examples: "Sequence[predicting.Encoded | None]", output: IO[str]
    ) -> None:
        known = [each for each in examples if each is not None]
        answers = iter(self.predictor.predict(known))
        for each in examples:
            text = ""
            if each is not None and self.format == _JSON:
                found = {**each.example, **next(answers)}
                text = json.dumps(found, ensure_ascii=False)
            elif each is not None:
                text = table(each.example, next(answers))
            output.write(f"{text}\n")
        output.flush()


def _examples(session: _Session, found) -> Iterator[Any]:
    for where, text in found:
        try:
            yield session.read(text)
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from error


def table(example: Any, answer: dict[str, Any]) -> str:
    """Formats an answer for people, the most probable label first.

    Args:
        example: of `predicting.example`.
        answer: of `predicting.Predictor`.
    """
    texts = [
        text
        for name, text in example.items()
        if isinstance(text, str) and name != "context"
    ]
    rows = [" ||| ".join(texts)]
    values: Iterable[tuple[str, float]]
    if "masks" in answer:
        for place, candidates in enumerate(answer["masks"], start=1):
            rows.append(f"  [MASK] {place}")
            rows += [
                f"    {each['probability']:8.4f}  {each['token']}"
                for each in candidates
            ]
        return "\n".join([*rows, ""])
    if "entities" in answer:
        found = [(each["type"], each["text"]) for each in answer["entities"]]
        found = found or [("(no entity)", "")]
        rows += [f"  {kind}  {text}".rstrip() for kind, text in found]
        return "\n".join([*rows, ""])
    if "score" in answer:
        values = [("", answer["score"])]
    elif "answer" in answer:
        values = [(answer["answer"] or "(no answer)", answer["probability"])]
    elif "endings" in example:
        values = zip(example["endings"], answer["probabilities"], strict=True)
    else:
        values = answer["probabilities"].items()
    ranked = sorted(values, key=lambda pair: -pair[1])
    for name, number in ranked[:_MOST_SHOWN]:
        mark = "*" if name in answer.get("labels", ()) else " "
        rows.append(f" {mark}{number:.4f}  {name}".rstrip())
    if len(ranked) > _MOST_SHOWN:
        rows.append(f"  and {len(ranked) - _MOST_SHOWN} more")
    return "\n".join([*rows, ""])


def main(options: Options, texts: list[str]) -> None:
    """Runs the tool on the standard streams."""
    logging.set_verbosity(logging.WARNING)
    run(options, texts, sys.stdin.buffer, sys.stdout)


if __name__ == "__main__":
    program.start(Options, main, arguments=ARGUMENTS)
