r"""Asks a trained model: classes, scores, choices, answers or tags for texts.

For example:

  python -m tools.predict --model=mrpc "It rained. ||| There was rain."
  python -m tools.predict --model=squad --context_file=paragraph.txt
  python -m tools.predict --model=ner --input_file=lines.txt --format=json

`--model` is the --output_dir of run_classifier.py, run_swag.py, run_squad.py or
run_ner.py, which says how its model reads text and what it answers. ` ||| `
separates the two texts of a pair; a question and its paragraph; the two texts
before and each of the endings to choose from. White space separates words to
tag. Without texts, they are read from standard input, at a terminal one at a
time.
"""

import dataclasses
import itertools
import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import IO, TYPE_CHECKING, Any, BinaryIO

from absl import logging

from commands import flags, program
from files import lines, paths

if TYPE_CHECKING:
    from serving import predicting

ARGUMENTS = "[TEXT ...]"
_SEPARATOR = re.compile(r"\s*\|\|\|\s*")
_PROMPT = "> "
_TEXT, _JSON = "text", "json"
# Batches that are read together, so that rows of like length share one.
_BATCHES = 32
_MOST_SHOWN = 10


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """The flags of this tool; see --help."""

    model: str = flags.Group.FILES.required(
        "Folder of a run: its --output_dir, or that of one of its trials."
    )
    input_file: str | None = flags.Group.FILES.flag(
        None, "File with an example a line; - for standard input."
    )
    context_file: str | None = flags.Group.FILES.flag(
        None, "Questions: the paragraph that all of them are about."
    )
    format: str = flags.Group.FILES.flag(
        _TEXT,
        "What is printed: text for people, or a JSON object a line.",
        choices=(_TEXT, _JSON),
    )
    use_best_checkpoint: bool = flags.Group.MODEL.flag(
        False, "Take that in best/ instead of the latest."
    )
    batch_size: int = flags.Group.SPEED.flag(
        32, "Texts that the model reads at once.", lower_bound=1
    )


def run(
    options: Options,
    texts: Sequence[str],
    standard_input: BinaryIO,
    standard_output: IO[str],
) -> None:
    """Reads examples, answers them and writes the answers.

    Raises:
        OSError: a file cannot be read.
        ValueError: the folder holds no model that answers texts, or an example
            is not one of it; names where it comes from.
    """
    if texts and options.input_file:
        raise ValueError("Give texts or --input_file; got both.")
    for path in (options.input_file, options.context_file):
        if path is not None and path != "-":
            paths.check_readable(path)
    for number, text in enumerate(texts, start=1):
        lines.check_text(text, f"text {number}")
    task, predictor = _open(options)
    read = _reader(options, task)
    asks = not texts and options.input_file in (None, "-")

    def answer(examples) -> None:
        for example, found in zip(
            examples, predictor.predict(examples), strict=True
        ):
            standard_output.write(shown(example, found, options.format))
        standard_output.flush()

    if asks and standard_input.isatty():
        _ask(read, answer, standard_output)
        return
    found = _lines(options.input_file or "-", standard_input)
    if texts:
        found = ((f"text {i}", text) for i, text in enumerate(texts, start=1))
    examples = (read(text, where) for where, text in found)
    # Of standard input no more is waited for than a batch.
    size = options.batch_size * (1 if asks else _BATCHES)
    while batch := list(itertools.islice(examples, size)):
        answer(batch)


def _open(options: Options) -> tuple[str, "predicting.Predictor"]:
    """Loads the model; returns what it does, and it."""
    from serving import predicting, run_folder
    from serving import settings as settings_lib

    folder = options.model
    found = run_folder.read(folder)
    weights = run_folder.weights_of_run(
        folder, best=options.use_best_checkpoint
    )
    task = run_folder.task_of(weights, found)
    if task not in predicting.FIELDS:
        raise ValueError(
            f"{weights.checkpoint} was pre-trained, and answers nothing of "
            "texts yet. tools.predict_masked fills its masks, and "
            "extract_features.py writes its vectors."
        )
    for name in ("bert_config_file", "vocab_file"):
        if name not in found:
            raise ValueError(f"{folder} does not hold the {name} of its run.")
    settings = settings_lib.find(task, weights, found)
    return task, predicting.Predictor(task, settings, options.batch_size)


def _reader(options: Options, task: str) -> Callable[[str, str], Any]:
    """Returns a function from a line, and where it is from, to an example."""
    from serving import predicting

    context: list[str] = []
    if options.context_file is not None:
        if task != "answer":
            raise ValueError(
                "--context_file is for models that answer questions; this one "
                f"is to {task}."
            )
        context = ["\n".join(lines.read_lines(options.context_file))]

    def read(line: str, where: str) -> Any:
        parts = [*_SEPARATOR.split(line.strip()), *context]
        try:
            return predicting.example(task, parts)
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from error

    return read


def _lines(name: str, standard_input: BinaryIO) -> Iterator[tuple[str, str]]:
    """Yields where each line comes from, and the line."""
    if name == "-":
        name = "standard input"
        found = lines.decoded(standard_input, name)
    else:
        found = lines.read_lines(name)
    for number, line in enumerate(found, start=1):
        yield f"{name}, line {number}", line


def _ask(read, answer, standard_output: IO[str]) -> None:
    """Answers what is typed at a prompt, where a wrong line ends nothing."""
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
            answer([read(line, "the line")])
        except ValueError as error:
            standard_output.write(f"{error}\n")


def shown(example: Any, answer: dict[str, Any], form: str) -> str:
    """Writes an example and its answer, for people or as a line of JSON."""
    if form == _JSON:
        return json.dumps({**example, **answer}, ensure_ascii=False) + "\n"
    parts = [
        text
        for name, text in example.items()
        if isinstance(text, str) and name != "context"
    ]
    return f"{' ||| '.join(parts)}\n{''.join(_table(example, answer))}\n"


def _table(example, answer: dict[str, Any]) -> Iterator[str]:
    """Yields the lines of an answer, the most probable first."""
    if "entities" in answer:
        rows = [(each["type"], each["text"]) for each in answer["entities"]]
        yield from (f"  {kind}  {text}\n" for kind, text in rows)
        return
    held = answer.get("probabilities", {})
    if "score" in answer:
        held = {"": answer["score"]}
    elif "answer" in answer:
        held = {answer["answer"] or "(no answer)": answer["probability"]}
    elif "endings" in example:
        held = dict(zip(example["endings"], held, strict=True))
    ranked = sorted(held.items(), key=lambda pair: -pair[1])
    for name, number in ranked[:_MOST_SHOWN]:
        mark = "*" if name in answer.get("labels", ()) else " "
        yield f" {mark}{number:.4f}  {name}".rstrip() + "\n"
    if len(ranked) > _MOST_SHOWN:
        yield f"  and {len(ranked) - _MOST_SHOWN} more\n"


def main(options: Options, texts: list[str]) -> None:
    """Runs the tool on the standard streams."""
    logging.set_verbosity(logging.WARNING)
    run(options, texts, sys.stdin.buffer, sys.stdout)


if __name__ == "__main__":
    program.start(Options, main, arguments=ARGUMENTS)
