"""Fine-tuning with Hugging Face's Trainer, for `benchmarks.fine_tuning`.

  python -m benchmarks.fine_tuning_peer JOB.json

It requires torch, transformers and accelerate, and no module of this project.
The job specifies data, weights and hyperparameters; outputs for the dev set are
written to `logits.npy` or `predictions.json` in its `output_dir`.
"""

import collections
import json
import pathlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

# Source: the defaults of run_qa.py, Hugging Face's example, and of the release.
_MAX_WINDOW, _OVERLAP = 384, 128
_N_BEST, _MAX_ANSWER_PIECES = 20, 30


def main(path: str) -> None:
    """Runs the job of a file."""
    import transformers

    job = json.loads(pathlib.Path(path).read_text())
    transformers.set_seed(job["seed"])
    if job["kind"] == "squad":
        _squad(job)
    else:
        _classify(job)


def trainer(
    job: Mapping[str, Any], model: Any, train: Sequence[Any], **others: Any
) -> Any:
    """Returns the Trainer of a model.

    Args:
        job: the hyperparameters.
        model: of transformers.
        train: the rows, with labels.
        **others: arguments that replace the defaults here.
    """
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(job["model"])
    arguments = {
        "output_dir": job["output_dir"],
        "use_cpu": True,
        "seed": job["seed"],
        "num_train_epochs": job["num_train_epochs"],
        "per_device_train_batch_size": job["batch_size"],
        "per_device_eval_batch_size": job["batch_size"],
        "learning_rate": job["learning_rate"],
        "lr_scheduler_type": "linear",
        "warmup_steps": job["warmup_proportion"],
        "optim": "adamw_torch",
        "adam_beta1": 0.9,
        "adam_beta2": 0.999,
        "adam_epsilon": 1e-6,
        "weight_decay": 0.01,
        "max_grad_norm": 1.0,
        "bf16": job.get("is_bfloat16", False),
        "save_strategy": "no",
        "report_to": "none",
        "logging_steps": 100,
    }
    return transformers.Trainer(
        model=model,
        args=transformers.TrainingArguments(**{**arguments, **others}),
        train_dataset=train,
        processing_class=tokenizer,
        data_collator=transformers.DataCollatorWithPadding(tokenizer),
    )


def _classify(job: dict[str, Any]) -> None:
    """Trains a classifier, or a regression model if it has one output."""
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(job["model"])
    num_labels = job["num_labels"]
    model = transformers.AutoModelForSequenceClassification.from_pretrained(
        job["model"],
        num_labels=num_labels,
        problem_type="regression"
        if num_labels == 1
        else "single_label_classification",
    )

    def features(examples: list[list[Any]]) -> list[dict[str, Any]]:
        encoded = [
            tokenizer(
                text_a,
                text_b,
                truncation=True,
                max_length=job["max_seq_length"],
            )
            for text_a, text_b, _ in examples
        ]
        return [
            {**inputs, "labels": label}
            for inputs, (_, _, label) in zip(encoded, examples, strict=True)
        ]

    running = trainer(job, model, features(job["train"]))
    running.train()
    running.save_model()
    outputs = running.predict(features(job["dev"]))
    np.save(f"{job['output_dir']}/logits.npy", outputs.predictions)


def _squad(job: dict[str, Any]) -> None:
    """Trains on one SQuAD file and predicts the answers of another."""
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(job["model"])
    model = transformers.AutoModelForQuestionAnswering.from_pretrained(
        job["model"]
    )
    train = [
        window
        for question in _questions(job["train_file"])
        for window in _windows(question, tokenizer, is_training=True)
    ]
    running = trainer(job, model, train)
    running.train()
    running.save_model()
    questions = list(_questions(job["predict_file"]))
    windows = [
        (question, window)
        for question in questions
        for window in _windows(question, tokenizer, is_training=False)
    ]
    inputs = [
        {name: window[name] for name in tokenizer.model_input_names}
        for _, window in windows
    ]
    starts, ends = running.predict(inputs).predictions
    found: dict[str, list] = collections.defaultdict(list)
    for (question, window), start, end in zip(
        windows, starts, ends, strict=True
    ):
        found[question["id"]] += _candidates(window, start, end)
    answers = {
        question["id"]: _answer(question, found[question["id"]])
        for question in questions
    }
    path = pathlib.Path(job["output_dir"], "predictions.json")
    path.write_text(json.dumps(answers))


def _questions(path: str) -> Iterator[dict[str, Any]]:
    for article in json.loads(pathlib.Path(path).read_text())["data"]:
        for paragraph in article["paragraphs"]:
            for question in paragraph["qas"]:
                yield {**question, "context": paragraph["context"]}


def _windows(
    question: dict[str, Any], tokenizer: Any, *, is_training: bool
) -> Iterator[dict[str, Any]]:
    """Splits a context into windows, as run_qa.py does.

    In training, the answer of a window without the complete answer is [CLS].
    """
    encoded = tokenizer(
        question["question"].lstrip(),
        question["context"],
        truncation="only_second",
        max_length=_MAX_WINDOW,
        stride=_OVERLAP,
        return_overflowing_tokens=True,
        return_offsets_mapping=True,
    )
    for number, offsets in enumerate(encoded["offset_mapping"]):
        window = {
            name: encoded[name][number] for name in tokenizer.model_input_names
        }
        is_context = [each == 1 for each in encoded.sequence_ids(number)]
        if not is_training:
            window["offsets"] = [
                offset if inside else None
                for offset, inside in zip(offsets, is_context, strict=True)
            ]
            yield window
            continue
        answer = question["answers"][0]
        first = answer["answer_start"]
        last = first + len(answer["text"])
        starts = [
            place
            for place, (start, _) in enumerate(offsets)
            if is_context[place] and start <= first
        ]
        ends = [
            place
            for place, (_, end) in enumerate(offsets)
            if is_context[place] and end >= last
        ]
        is_inside = starts and ends
        window["start_positions"] = starts[-1] if is_inside else 0
        window["end_positions"] = ends[0] if is_inside else 0
        yield window


def _candidates(
    window: dict[str, Any], start: np.ndarray, end: np.ndarray
) -> Iterator[tuple[float, int, int]]:
    """Yields the scores and characters of a window's best answers."""
    offsets = window["offsets"]
    for first in np.argsort(start)[: -_N_BEST - 1 : -1]:
        for last in np.argsort(end)[: -_N_BEST - 1 : -1]:
            if (
                max(first, last) < len(offsets)
                and offsets[first]
                and offsets[last]
                and 0 <= last - first < _MAX_ANSWER_PIECES
            ):
                score = float(start[first] + end[last])
                yield score, offsets[first][0], offsets[last][1]


def _answer(
    question: dict[str, Any], candidates: list[tuple[float, int, int]]
) -> str:
    if not candidates:
        return "empty"
    _, first, last = max(candidates)
    return question["context"][first:last]


if __name__ == "__main__":
    main(*sys.argv[1:])
