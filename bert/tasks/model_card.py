"""Model cards: the README.md of a model in Hugging Face's format.

A card says what the files of a model say: its description, the record of its
training, its scores, and the card that is in its folder already. What none of
them says is left out.
"""

import contextlib
import dataclasses
import json
import os
import shlex
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from bert.files import json_text, paths, run_files
from bert.models import description as description_lib
from bert.models import hub, hub_folders
from bert.tasks.classification import asking
from modeling import config as config_lib

if TYPE_CHECKING:
    import huggingface_hub

FILE = "README.md"

# The hub's tag of each task.
_TAGS = {
    description_lib.PRETRAINING: "fill-mask",
    description_lib.CLASSIFICATION: "text-classification",
    description_lib.QUESTION_ANSWERING: "question-answering",
    description_lib.TAGGING: "token-classification",
    description_lib.MULTIPLE_CHOICE: "multiple-choice",
}
# Examples for transformers 4 and 5, which has no pipeline of questions.
_PIPELINE = """\
from transformers import pipeline

model = pipeline("{tag}", model={name})
print(model({example}))
"""
_QUESTION = """\
from transformers import AutoModelForQuestionAnswering, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained({name})
model = AutoModelForQuestionAnswering.from_pretrained({name})
question, context = "Who wrote it?", "Mary Shelley wrote it in 1818."
inputs = tokenizer(question, context, return_tensors="pt")
outputs = model(**inputs)
start, end = outputs.start_logits.argmax(), outputs.end_logits.argmax()
print(tokenizer.decode(inputs["input_ids"][0, start : end + 1]))
"""
_EXAMPLES = {
    description_lib.PRETRAINING: '"Paris is the [MASK] of France."',
    description_lib.CLASSIFICATION: '"A text to classify."',
    description_lib.TAGGING: '"A sentence with names."',
}
_PAIR = '{"text": "The first text.", "text_pair": "The second text."}'
# Source: the configurations of the hub's data set nyu-mll/glue.
_GLUE = "nyu-mll/glue"
_GLUE_CONFIGS = frozenset(
    ("cola", "sst2", "mrpc", "stsb", "qqp", "mnli", "qnli", "rte", "wnli")
)
# Ours -> those of the hub's page of metrics.
_METRICS = {
    "accuracy": "accuracy",
    "f1": "f1",
    "precision": "precision",
    "recall": "recall",
    "matthews_correlation": "matthews_correlation",
    "pearson": "pearsonr",
    "spearman": "spearmanr",
    "mean_absolute_error": "mae",
    "exact_match": "exact_match",
    "exact": "exact_match",
}
_MISMATCHED = "_mismatched"  # Ends the names of MNLI's second dev set.
_RESULTS = "_results.txt"
_COUNTS = ("global_step", "loss")  # Lines of the results that are no scores.
_DATA_FLAGS = ("task_name", "data_dir", "input_file", "train_file")
# Metadata of the authors, which a converted model keeps.
_OF_AUTHORS = (
    *("license", "license_name", "license_link"),
    *("language", "datasets", "base_model"),
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Score:
    """A line of the results of an evaluation."""

    data: str
    name: str
    value: float | str

    @property
    def metric(self) -> str:
        """The name without those of its data."""
        name = self.name.removeprefix(f"{self.data}_")
        return name.removesuffix(_MISMATCHED)


def model_card(
    name: str,
    description: description_lib.Description,
    folder: str,
    step: int | None,
) -> str:
    """Formats the README.md of a model: metadata in YAML, then text.

    Args:
        name: of the model.
        description: of the model.
        folder: of the model, or of the run that trained it.
        step: of the checkpoint, if it is known. Results of another step are
            left out.
    """
    # Late, for a quick --help.
    import huggingface_hub

    run = _training(folder)
    scores = list(_scores(folder, step))
    metadata = huggingface_hub.ModelCardData(
        **_metadata(name, description, folder, run, scores)
    )
    settings = [
        (key, f"`{json.dumps(value, ensure_ascii=False)}`")
        for key, value in description.to_json().items()
        if key != "vocab_sha256"
    ]
    parts = [
        f"---\n{metadata.to_yaml()}\n---",
        f"# {name}",
        _introduction(description),
        *_usage(name, description),
        *_table(("setting", "value"), settings),
        *_training_section(run),
    ]
    if scores:
        rows = [(score.data, score.name, str(score.value)) for score in scores]
        parts += ["## Scores", *_table(("data", "metric", "value"), rows)]
    return "\n\n".join(parts) + "\n"


# ------------------------------------------------------------------- Metadata


def _metadata(
    name: str,
    description: description_lib.Description,
    folder: str,
    run: json_text.Object,
    scores: Sequence[_Score],
) -> json_text.Object:
    """Returns the arguments of `ModelCardData`."""
    fields = _said_by_authors(folder)
    start = run["flags"].get("init_checkpoint") if run else None
    base = hub_folders.name_of(start or folder)
    if base is not None:
        fields["base_model"] = base
    fields |= {"library_name": "transformers", "tags": ["bert"]}
    if description.task in _TAGS:
        fields["pipeline_tag"] = _TAGS[description.task]
    metrics = [_METRICS.get(score.metric) for score in scores]
    fields["metrics"] = [*dict.fromkeys(filter(None, metrics))] or None
    config = (description.name or "").lower().replace("-", "")
    is_classifier = description.task == description_lib.CLASSIFICATION
    if is_classifier and config in _GLUE_CONFIGS:
        fields.setdefault("language", "en")
        fields.setdefault("datasets", _GLUE)
        if results := list(_eval_results(config, scores)):
            fields |= {"model_name": name, "eval_results": results}
    return fields


def _said_by_authors(folder: str) -> json_text.Object:
    """Reads what an earlier card of the model says."""
    import huggingface_hub
    import yaml

    path = os.path.join(folder, FILE)
    if not os.path.exists(path):
        return {}
    # A damaged card does not end a conversion.
    damages = (OSError, TypeError, ValueError, yaml.YAMLError)
    with contextlib.suppress(*damages):
        card = huggingface_hub.ModelCard.load(path, ignore_metadata_errors=True)
        fields = card.data.to_dict()
        return {n: fields[n] for n in _OF_AUTHORS if fields.get(n)}
    return {}


def _eval_results(
    config: str, scores: Sequence[_Score]
) -> "Iterator[huggingface_hub.EvalResult]":
    """Yields the scores on the dev set of a GLUE task, for the model index."""
    import huggingface_hub

    for score in scores:
        is_number = isinstance(score.value, int | float)
        if (
            score.data != "eval"
            or score.metric not in _METRICS
            or not is_number
        ):
            continue
        split = "validation"
        if config == "mnli":
            is_matched = not score.name.endswith(_MISMATCHED)
            split += "_matched" if is_matched else _MISMATCHED
        yield huggingface_hub.EvalResult(
            task_type="text-classification",
            dataset_type=_GLUE,
            dataset_name=f"GLUE {config.upper()}",
            dataset_config=config,
            dataset_split=split,
            metric_type=_METRICS[score.metric],
            metric_value=score.value,
        )


# ------------------------------------------------------------------- The text


def _introduction(description: description_lib.Description) -> str:
    purpose = (description.task or "").replace("_", " ")
    return f"A BERT model for {purpose}." if purpose else "A BERT model."


def _usage(name: str, description: description_lib.Description) -> list[str]:
    """Returns the section that shows how transformers runs the model."""
    if description.vocab_sha256 is None:  # There is no tokenizer.
        return []
    task = description.task or ""
    if task == description_lib.QUESTION_ANSWERING:
        code = _QUESTION
    elif task in _EXAMPLES:
        code = _PIPELINE
    else:
        return []
    is_pair = task == description_lib.CLASSIFICATION and (
        asking.num_texts(description) == 2
    )
    code = code.format(
        tag=_TAGS[task],
        name=json.dumps(name, ensure_ascii=False),
        example=_PAIR if is_pair else _EXAMPLES.get(task),
    )
    return ["## Usage", f"```python\n{code}```"]


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> list[str]:
    if not rows:
        return []
    cells = [[cell.replace("|", r"\|") for cell in row] for row in rows]
    table = [head, ["---"] * len(head), *cells]
    return ["\n".join(f"| {' | '.join(row)} |" for row in table)]


def _training_section(run: json_text.Object) -> list[str]:
    if not run:
        return []
    used = run["flags"]
    start = used.get("init_checkpoint")
    base = hub_folders.name_of(start) if start else None
    facts = []
    if base:
        facts.append(f"Base model: [{base}](https://huggingface.co/{base})")
    elif start:
        folder = os.path.basename(config_lib.folder_of(start))
        facts.append(f"Base model: `{folder or start}`")
    elif used.get("do_train"):
        facts.append("Base model: none, from scratch")
    data = [
        f"`{name}={_without_folders(str(used[name]))}`"
        for name in _DATA_FLAGS
        if used.get(name)
    ]
    if data:
        facts.append(f"Data: {', '.join(data)}")
    if run.get("commit"):
        facts.append(f"Commit: {run['commit']}")
    section = ["## Training"]
    if facts:
        section.append("\n".join(f"- {fact}" for fact in facts))
    if command := run.get("command"):
        words = [_without_folders(str(word)) for word in command]
        section.append(f"```\n{shlex.join(words)}\n```")
    return section


def _without_folders(word: str) -> str:
    """Returns a word of a command in which paths are their last parts.

    A card is published; the folders of its author are nobody's business.
    """
    flag, equals, value = word.rpartition("=")
    parts = [
        part if hub.is_address(part) else os.path.basename(part.rstrip("/"))
        for part in value.split(",")
    ]
    return f"{flag}{equals}{','.join(parts)}"


# ------------------------------------------------------------------ The run


def _training(folder: str) -> json_text.Object:
    """Returns the start of the latest training that `run.jsonl` records."""
    records = json_text.read_log(os.path.join(folder, run_files.RECORD))
    starts = [
        record for record in records if isinstance(record.get("flags"), dict)
    ]
    trainings = [start for start in starts if start["flags"].get("do_train")]
    return [{}, *starts, *trainings][-1]


def _scores(folder: str, step: int | None) -> Iterator[_Score]:
    """Reads the result files of a checkpoint, such as `eval_results.txt`."""
    for path in paths.matching(folder, f"*{_RESULTS}"):
        results = run_files.read_results(path)
        if results.get("global_step", step) != step:
            continue
        data = os.path.basename(path).removesuffix(_RESULTS)
        for name, value in results.items():
            if name not in _COUNTS:
                yield _Score(data=data, name=name, value=value)
