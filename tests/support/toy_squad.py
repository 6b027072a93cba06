"""A small question answering run, of which the tests make variations."""

import random

import run_squad
from bert.tasks.squad import question_files
from tests.support import programs, toy_config, toy_files, toy_vocabulary

_FILLERS = [f"word{number}" for number in range(12)]
_PLACES = ["paris", "lima", "oslo", "cairo"]
_QUESTION = "which place ?"


def dataset(num_questions, *, unanswerable_every=0, seed=1, name="q"):
    """Asks for the place that is named among other words.

    Args:
        num_questions: one for each paragraph.
        unanswerable_every: of so many paragraphs one names no place, as in
            SQuAD 2.0; 0 for SQuAD 1.1.
        seed: of the words.
        name: what the ids begin with.
    """
    rng = random.Random(seed)
    paragraphs = []
    for number in range(num_questions):
        words = rng.choices(_FILLERS, k=rng.randint(4, 9))
        answers = [{"text": rng.choice(_PLACES), "answer_start": 0}]
        place = rng.randrange(len(words))
        if unanswerable_every and number % unanswerable_every == 0:
            answers = []
        else:
            words[place] = answers[0]["text"]
            answers[0]["answer_start"] = len("".join(words[:place])) + place
        question = {
            "id": f"{name}{number}",
            "question": _QUESTION,
            "answers": answers,
        }
        if unanswerable_every:
            question["is_impossible"] = not answers
        paragraphs.append({"context": " ".join(words), "qas": [question]})
    version = "v2.0" if unanswerable_every else "1.1"
    return {
        "version": version,
        "data": [{"title": "toy", "paragraphs": paragraphs}],
    }


def read_examples(path, *, is_training, version_2_with_negative):
    """Reads the examples of a file, in its order."""
    version = {"version_2_with_negative": version_2_with_negative}
    if is_training:
        shuffled = question_files.read_training_examples(path, **version)
        order = list(range(len(shuffled)))
        random.Random(12345).shuffle(order)
        return [shuffled[order.index(place)] for place in range(len(order))]
    return question_files.read_questions(path, **version)[0]


def write_vocab(path) -> str:
    """Writes the vocabulary of the toy questions."""
    words = [*toy_vocabulary.SPECIAL, *_QUESTION.split(), *_PLACES, *_FILLERS]
    toy_files.write_lines(path, words)
    return str(path)


def write_config(path, **changes) -> str:
    """Writes the sizes of a network for the toy questions."""
    sizes = {"vocab_size": 24, "max_position_embeddings": 20, **changes}
    return toy_config.write(path, **sizes)


def flags_of(folder, **changes) -> dict[str, object]:
    """Names the flags of a run on toy questions in a folder, made if missing.

    Args:
        folder: holds `vocab.txt`, `bert_config.json`, `train.json`,
            `dev.json` and, as `output_dir`, `out`.
        **changes: flags that differ from those of the toy run.
    """
    folder.mkdir(parents=True, exist_ok=True)
    every = 3 if changes.get("version_2_with_negative") else 0
    files = {
        "vocab.txt": write_vocab,
        "bert_config.json": write_config,
        "train.json": lambda path: toy_files.write_json(
            path, dataset(40, unanswerable_every=every)
        ),
        "dev.json": lambda path: toy_files.write_json(
            path, dataset(9, unanswerable_every=every, seed=2, name="d")
        ),
    }
    for name, write in files.items():
        if not (folder / name).exists():
            write(folder / name)
    return {
        "bert_config_file": str(folder / "bert_config.json"),
        "vocab_file": str(folder / "vocab.txt"),
        "output_dir": str(folder / "out"),
        "train_file": str(folder / "train.json"),
        "predict_file": str(folder / "dev.json"),
        "max_seq_length": 12,
        "max_query_length": 4,
        "doc_stride": 3,
        "max_answer_length": 4,
        "train_batch_size": 4,
        "num_train_epochs": 2,
        "learning_rate": 0.01,
        "log_every_steps": 1,
        "save_checkpoints_steps": 7,
        **changes,
    }


_TOY = programs.Toy(run_squad, flags_of)
parse, run, resume = _TOY.parse, _TOY.run, _TOY.resume
results, losses = programs.eval_results, programs.losses
