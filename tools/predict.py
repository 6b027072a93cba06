r"""Predicts classes, scores, choices, answers or tags for texts.

For example:

  python -m tools.predict --model=mrpc "It rained. ||| There was rain."
  python -m tools.predict --model=squad --context_file=paragraph.txt
  python -m tools.predict --model=ner --input_file=lines.txt --format=json

`--model` is the --output_dir of run_classifier.py, run_swag.py, run_squad.py or
run_ner.py. ` ||| ` separates the two texts of a pair; a question and its
paragraph; or the two texts and the endings of a choice. Words to tag are
separated by white space. Without texts, the tool reads lines from standard
input; in a terminal, it prompts for them.
"""

import dataclasses
import itertools
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import IO, TYPE_CHECKING, Any, BinaryIO

from absl import logging

from commands import flags, program
from files import lines, messages, paths
from training import flags as training_flags

if TYPE_CHECKING:
    from serving import predicting

ARGUMENTS = "[TEXT ...]"
_SEPARATOR = re.compile(r"\s*\|\|\|\s*")
_PROMPT = "> "
_TEXT, _JSON = "text", "json"
# Batches that are sorted by length together.
_BATCHES = 32
_MOST_SHOWN = 10


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(training_flags.RunOptions):
    """The flags of this tool; see --help."""

    model: str = flags.Group.FILES.required(
        "Folder of a run: its --output_dir, or that of one of its trials."
    )
    input_file: str | None = flags.Group.FILES.optional(
        "File with one example per line; - for standard input."
    )
    context_file: str | None = flags.Group.FILES.optional(
        "For questions: file with the paragraph of all of them."
    )
    format: str = flags.Group.FILES.flag(
        _TEXT,
        "Output: text for people, or one JSON object per line.",
        choices=(_TEXT, _JSON),
    )
    batch_size: int = flags.Group.SPEED.count(32, "Rows per batch.")


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
    for number, text in enumerate(texts, start=1):
        lines.check_text(text, f"text {number}")
    task, predictor = _open(options)
    form, read = _reader(options, task)
    is_stream = not texts and options.input_file in (None, "-")
    is_prompt = is_stream and standard_input.isatty()

    def answer(examples) -> None:
        for example, found in zip(
            examples, predictor.predict(examples), strict=True
        ):
            if options.format == _JSON:
                text = json.dumps({**example, **found}, ensure_ascii=False)
            else:
                # The terminal already shows a text that was typed.
                text = table(example, found, has_texts=not is_prompt)
            standard_output.write(f"{text}\n")
        standard_output.flush()

    if is_prompt:
        sys.stderr.write(f"Type {form}. Ctrl-D exits.\n")
        _prompt(read, answer, standard_output)
        return
    found = lines.numbered(options.input_file or "-", standard_input)
    if texts:
        found = ((f"text {i}", text) for i, text in enumerate(texts, start=1))
    examples = _examples(read, found)
    # From standard input, answers do not wait for more than a batch.
    size = options.batch_size * (1 if is_stream else _BATCHES)
    while batch := list(itertools.islice(examples, size)):
        answer(batch)


def _open(options: Options) -> tuple[str, "predicting.Predictor"]:
    """Loads the model; returns its task too."""
    from serving import predicting, run_folder

    found = run_folder.find(options.model, best=options.use_best_checkpoint)
    task = found.task
    if task not in predicting.FIELDS:
        raise ValueError(
            f"{found.checkpoint} was pre-trained, not fine-tuned. "
            "tools.predict_masked predicts its masked words, and "
            "extract_features.py writes its vectors."
        )
    for name in ("bert_config_file", "vocab_file"):
        if name not in found.values:
            raise ValueError(f"{options.model} does not contain its {name}.")
    settings = run_folder.settings_of(task, found, {})
    return task, predicting.Predictor(task, settings, options.batch_size)


def _reader(options: Options, task: str) -> tuple[str, Callable[[str], Any]]:
    """Returns the form of a line, and a function from a line to an example."""
    from serving import predicting

    form, context = predicting.form(task), []
    if options.context_file is not None:
        if task != "answer":
            raise ValueError(
                "--context_file requires a model that answers questions; the "
                f"task of this one is {task}."
            )
        form = predicting.FIELDS[task][0]
        context = ["\n".join(lines.read_lines(options.context_file))]

    def read(line: str) -> Any:
        parts = _SEPARATOR.split(line.strip())
        if context and len(parts) > 1:
            raise ValueError(
                f"With --context_file, an example is {form}; got "
                f"{messages.short(line)}."
            )
        return predicting.example(task, [*parts, *context])

    return form, read


def _examples(read, found) -> Iterator[Any]:
    """Yields examples; names the origin of one that is refused."""
    for where, text in found:
        try:
            yield read(text)
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from error


def _prompt(read, answer, standard_output: IO[str]) -> None:
    """Answers lines typed at a prompt; an invalid one does not end it."""
    import readline  # noqa: F401  # `input` has it edit and repeat lines.

    while True:
        try:
            line = input(_PROMPT)
        except EOFError:
            standard_output.write("\n")
            return
        if not line.strip():
            continue
        try:
            answer([read(line)])
        except ValueError as error:
            standard_output.write(f"{error}\n")


def table(example: Any, answer: dict[str, Any], *, has_texts: bool) -> str:
    """Formats an answer for people, the most probable label first.

    Args:
        example: of `predicting.example`.
        answer: of `predicting.Predictor`.
        has_texts: whether the texts precede it.
    """
    texts = [
        text
        for name, text in example.items()
        if isinstance(text, str) and name != "context"
    ]
    rows = [" ||| ".join(texts)] if has_texts else []
    if "entities" in answer:
        found = [(each["type"], each["text"]) for each in answer["entities"]]
        found = found or [("(no entity)", "")]
        rows += [f"  {kind}  {text}".rstrip() for kind, text in found]
        return "\n".join([*rows, ""])
    values: Iterable[tuple[str, float]]
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
