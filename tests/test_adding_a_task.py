"""The example of docs/adding_a_task.md is short, and learns."""

import importlib.util
import re

import numpy as np
import pytest

from bert.training import fine_tuning
from modeling import heads
from tests.support import (
    locations,
    programs,
    serving_client,
    tool_runs,
    toy_files,
    toy_sentences,
)

_PAGE = locations.ROOT / "docs" / "adding_a_task.md"
# A word of a text says its rating.
_WORDS = ("awful", "bad", "fine", "good", "great")


def _script(folder):
    """Imports the program of the page."""
    (code,) = re.findall(r"```python\n(.*?)```", _PAGE.read_text(), re.DOTALL)
    assert len([line for line in code.splitlines() if line]) <= 97
    path = folder / "run_rating.py"
    path.write_text(code)
    spec = importlib.util.spec_from_file_location("run_rating", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _write(path, count, seed):
    rng = np.random.default_rng(seed)
    ratings = rng.integers(5, size=count)
    path.write_text(
        "".join(f"{r}\tthe match was {_WORDS[r]}\n" for r in ratings)
    )
    return ratings


@pytest.mark.integration
def test_the_task_of_the_page_learns_and_predicts(tmp_path):
    script = _script(tmp_path)
    assert issubclass(script.BertForRating, heads.BertForSequenceClassification)
    toy_sentences.write_model(tmp_path / "model")
    for split, count in (("train", 400), ("eval", 40)):
        _write(tmp_path / f"{split}.tsv", count, seed=count)
    expected = _write(tmp_path / "predict.tsv", 30, seed=3)
    model, out = tmp_path / "model", tmp_path / "out"
    options = programs.parse(
        script.Options,
        data_dir=tmp_path,
        output_dir=out,
        vocab_file=model / "vocab.txt",
        bert_config_file=model / "bert_config.json",
        max_seq_length=16,
        learning_rate=1e-2,
        num_train_epochs=6,
        train_batch_size=16,
        **programs.STAGES,
    )
    missing = tmp_path / "eval.tsv"
    missing.rename(tmp_path / "other.tsv")
    with pytest.raises(FileNotFoundError, match=r"eval\.tsv"):
        script.Rating(options, None)
    (tmp_path / "other.tsv").rename(missing)
    fine_tuning.run(script.Rating, options)
    found = np.array((out / "predict_ratings.txt").read_text().split(), int)
    assert np.mean(found == expected) > 0.9
    described = toy_files.read_json(out / "task.json")
    assert (described["task"], described["num_ratings"]) == ("rating", 5)
    assert "eval_accuracy" in (out / "eval_results.txt").read_text()
    assert "test_accuracy" in (out / "test_results.txt").read_text()

    # The class of the file answers texts, and exports.
    texts = [f"the match was {word}" for word in _WORDS]
    task_file = str(tmp_path / "run_rating.py")
    ratings = [
        row["rating"]
        for row in tool_runs.answers(out, *texts, task_file=task_file)
    ]
    assert np.mean(np.array(ratings) == np.arange(5)) > 0.7
    served = tool_runs.exported(out, tmp_path / "served", task_file=task_file)
    (got,) = serving_client.ask(served, {"text_a": texts})
    assert got == {"ratings": ratings}

    # Without the file, or with the file of another task, it is named.
    with pytest.raises(ValueError, match=r"task is 'rating'.*Pass --task_file"):
        tool_runs.answers(out, *texts)
    (tmp_path / "other.py").write_text("")
    with pytest.raises(ValueError, match=r"must define the task .* 'rating'"):
        tool_runs.answers(out, *texts, task_file=str(tmp_path / "other.py"))
