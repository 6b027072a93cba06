r"""Asks a trained model: classes, scores, choices, answers or tags for texts.

For example:

  python -m tools.predict --model=mrpc "It rained. ||| There was rain."
  python -m tools.predict --model=squad --context_file=paragraph.txt
  python -m tools.predict --model=ner --input_file=lines.txt --format=json

`--model` is the --output_dir of run_classifier.py, run_swag.py, run_squad.py or
run_ner.py, which says how its model reads text and what it answers; or a
version that tools.export_model wrote. ` ||| ` parts what belongs together: the
texts of a pair; a question and its paragraph; what comes before (two texts) and
the endings to choose from. Words to tag are parted by white space. Without
texts, they are read from standard input, at a terminal one at a time.
"""

import dataclasses
import itertools
import json
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import IO, Any, Protocol

from absl import logging

from commands import flags, program
from files import json_text, lines, paths

_SEPARATOR = re.compile(r"\s*\|\|\|\s*")
_PROMPT = "> "
_TEXT, _JSON = "text", "json"
_JSON_LINES = ".jsonl"
_EXPORTED = "model.json"
# Batches that are read together, so that rows of like length share one.
_BATCHES = 32
_MOST_SHOWN = 10


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """The flags of this tool; see --help."""

    model: str = flags.Group.FILES.required(
        "Folder of a run: its --output_dir, or that of one of its trials; or "
        "a version of an exported model."
    )
    input_file: str | None = flags.Group.FILES.flag(
        None,
        "File with an example a line; .jsonl for objects of the parts by "
        "name; - for standard input.",
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


class _Predictor(Protocol):
    """Either of `predicting.Predictor` and `saved.SavedPredictor`."""

    def predict(self, examples: Iterable[Any]) -> list[dict[str, Any]]: ...


def run(
    options: Options,
    texts: Sequence[str],
    standard_input: IO[bytes],
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
        if path not in (None, "-"):
            paths.check_readable(path)
    for number, text in enumerate(texts, start=1):
        lines.check_text(text, f"text {number}")
    task, predictor = _open(options)
    read = _Reader(options, task).read
    asks = not texts and options.input_file in (None, "-")
    if asks and standard_input.isatty():
        found: Iterable[tuple[str, str]] = _ask(standard_output)
        _answer_one_by_one(found, read, predictor, options, standard_output)
        return
    if texts:
        found = ((f"text {i}", t) for i, t in enumerate(texts, start=1))
    else:
        found = _lines(options.input_file or "-", standard_input)
    examples = _read_all(found, read)
    # Of standard input no more is waited for than a batch.
    size = options.batch_size * (1 if asks else _BATCHES)
    while batch := list(itertools.islice(examples, size)):
        for example, answer in zip(
            batch, predictor.predict(batch), strict=True
        ):
            standard_output.write(shown(example, answer, options.format))
        standard_output.flush()


def _open(options: Options) -> tuple[str, _Predictor]:
    """Loads the model; returns what it does, and it."""
    folder = options.model
    if paths.exists(os.path.join(folder, _EXPORTED)):
        from serving import saved

        model = saved.SavedPredictor(folder, options.batch_size)
        return model.task, model
    from serving import predicting, run_folder
    from serving import settings as settings_lib

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
    for name in ("bert_config.json", "vocab.txt"):
        if not paths.exists(os.path.join(folder, name)):
            raise ValueError(f"{folder} must hold {name}; it does not.")
    settings = settings_lib.find(task, weights, found)
    return task, predicting.Predictor(task, settings, options.batch_size)


class _Reader:
    """Turns lines into examples of a task."""

    def __init__(self, options: Options, task: str):
        self._task = task
        self._is_json = (options.input_file or "").endswith(_JSON_LINES)
        self._context: str | None = None
        if options.context_file is not None:
            if task != "answer":
                raise ValueError(
                    "--context_file is for models that answer questions; this "
                    f"one is to {task}."
                )
            self._context = "\n".join(lines.read_lines(options.context_file))

    def read(self, line: str, where: str) -> Any:
        """Reads an example.

        Raises:
            ValueError: it is not one of the task; names where it is from.
        """
        from serving import predicting

        try:
            if self._is_json:
                fields = json_text.parse_line(line, where)
                if self._context is not None and isinstance(fields, dict):
                    fields = {"context": self._context, **fields}
                return predicting.checked(self._task, fields)
            parts = _SEPARATOR.split(line.strip())
            if self._context is not None:
                parts.append(self._context)
            return predicting.example(self._task, parts)
        except ValueError as error:
            if str(error).startswith(where):
                raise
            raise ValueError(f"{where}: {error}") from error


def _read_all(found, read) -> Iterator[Any]:
    for where, line in found:
        yield read(line, where)


def _lines(name: str, standard_input: IO[bytes]) -> Iterator[tuple[str, str]]:
    """Yields where each line comes from, and the line."""
    is_file = name != "-"
    place = name if is_file else "standard input"
    found = (
        lines.read_lines(name)
        if is_file
        else lines.decoded(standard_input, place)
    )
    for number, line in enumerate(found, start=1):
        yield f"{place}, line {number}", line


def _ask(standard_output: IO[str]) -> Iterator[tuple[str, str]]:
    """Yields what is typed at the prompt, until its end."""
    import readline  # noqa: F401  # `input` has it edit and repeat lines.

    while True:
        try:
            line = input(_PROMPT)
        except EOFError:
            standard_output.write("\n")
            return
        if line.strip():
            yield "", line


def _answer_one_by_one(found, read, predictor, options, output) -> None:
    """Answers at a prompt, where a wrong line ends nothing."""
    for where, line in found:
        try:
            example = read(line, where)
        except ValueError as error:
            output.write(f"{str(error).removeprefix(': ')}\n")
            continue
        (answer,) = predictor.predict([example])
        output.write(shown(example, answer, options.format))
        output.flush()


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
    if "score" in answer and "answer" not in answer:
        yield f"  {answer['score']:.4f}\n"
    elif "answer" in answer:
        text = answer["answer"] or "(no answer)"
        yield f"  {answer['probability']:.4f}  {text}\n"
    elif "entities" in answer:
        for entity in answer["entities"]:
            yield f"  {entity['type']}  {entity['text']}\n"
        if not answer["entities"]:
            yield "  (nothing)\n"
    else:
        held = answer["probabilities"]
        if "endings" in example:
            pairs = list(zip(example["endings"], held, strict=True))
        else:
            pairs = list(held.items())
        chosen = set(answer.get("labels", ()))
        pairs.sort(key=lambda pair: -pair[1])
        for name, probability in pairs[:_MOST_SHOWN]:
            mark = "*" if name in chosen else " "
            yield f" {mark}{probability:.4f}  {name}\n"
        if len(pairs) > _MOST_SHOWN:
            yield f"  and {len(pairs) - _MOST_SHOWN} more\n"


def main(options: Options, texts: list[str]) -> None:
    """Runs the tool on the standard streams."""
    logging.set_verbosity(logging.WARNING)
    run(options, texts, sys.stdin.buffer, sys.stdout)


if __name__ == "__main__":
    program.start(Options, main, arguments="[TEXT ...]")
