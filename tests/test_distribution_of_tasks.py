"""Fine-tuning in two processes, against the same in one."""

import functools
import json

import numpy as np
import pytest

from modeling import checkpoints
from tests.support import (
    cluster,
    locations,
    toy_config,
    toy_files,
    toy_sentences,
    toy_squad,
    toy_swag,
    toy_tagging,
    warm,
)

# Float32 sums of other orders, through the steps of Adam.
_TOLERANCE = 2e-5
_COMMON = {
    "do_train": True,
    "do_eval": True,
    "do_predict": True,
    "num_train_epochs": 1,
    "train_batch_size": 8,
    "num_accumulation_steps": 2,
    "learning_rate": 1e-3,
    "packing": True,
    "eval_every_epoch": True,
}


def _classifier(folder):
    train = toy_sentences.sentences(80, seed=1)
    toy_sentences.write_data(folder / "data", train)
    named = toy_sentences.flags_of(folder)
    return "run_classifier.py", named


def _trials(folder):
    script, named = _classifier(folder)
    return script, {
        **named,
        "num_trials": 2,
        # With the first, the loss is not finite.
        "learning_rates": "1e30,1e-3",
    }


def _squad(folder):
    named = toy_squad.flags_of(folder)
    sizes = {**toy_config.NO_DROPOUT, "max_position_embeddings": 40}
    toy_squad.write_config(folder / "bert_config.json", **sizes)
    # Long paragraphs between short ones, so that devices get batches of
    # different lengths.
    for name, seed in (("train", 1), ("dev", 2)):
        questions = toy_squad.dataset(21, seed=seed)
        for paragraph in questions["data"][0]["paragraphs"][::5]:
            paragraph["context"] += " word1 word2" * 8
        toy_files.write_json(folder / f"{name}.json", questions)
    return "run_squad.py", {
        **named,
        "max_seq_length": 40,
        "n_best_size": 300,  # All of them, so that none is cut off by a tie.
        # What a bias that all places share does to a softmax is nothing; its
        # gradient is a rounding error, which Adam makes into steps.
        "learning_rate": 1e-4,
    }


def _swag(folder):
    return "run_swag.py", toy_swag.flags_of(folder)


def _tagger(folder):
    named = toy_tagging.files_of(folder)
    config = toy_files.read_json(folder / "bert_config.json")
    toy_files.write_json(
        folder / "bert_config.json", {**config, **toy_config.NO_DROPOUT}
    )
    return "run_ner.py", named


def _feature_tagger(folder):
    script, named = _tagger(folder)
    return script, {**named, "features": "last"}


def _start(folder, make, num_workers, *, common=_COMMON, **changes):
    """Makes the files and starts the processes of a run."""
    folder.mkdir(parents=True)
    script, named = make(folder)
    named = {**common, **named, **changes}
    command = [f"--{k}={v}" for k, v in named.items()]
    return [
        warm.start(
            [
                *("-m", "tests.support.watched_program"),
                *(folder / f"list-{number}", script, *command),
            ],
            folder / f"log-{number}",
            environment=environment,
        )
        for number, environment in enumerate(cluster.environments(num_workers))
    ]


def _finish(folder, make, num_workers, **changes):
    started = _start(folder, make, num_workers, **changes)
    for number, process in enumerate(started):
        log = folder / f"log-{number}"
        assert process.wait() == 0, log.read_text()[-3000:]


def _numbers_and_words(text):
    """Splits a text; numbers, also in JSON, apart from what is none."""
    numbers, words = [], []
    for word in text.replace(",", " ").split():
        try:
            numbers.append(float(word))
        except ValueError:
            words.append(word)
    return np.array(numbers), words


def _sorted_answers(text):
    """Sorts the answers to each question: equally good ones have no order."""
    answers = {
        name: sorted(each, key=lambda answer: answer["text"])
        for name, each in json.loads(text).items()
    }
    return json.dumps(answers, indent=1)


def _written(folder, number):
    """Lists the final names in the run's folder that a process wrote."""
    lines = (folder / f"list-{number}").read_text().splitlines()
    out = str(folder / "out")
    return {x.removeprefix(out) for x in lines if x.startswith(out)}


def _check_same_answers(folder, other):
    names = {
        str(path.relative_to(other / "out"))
        for ending in ("txt", "tsv", "json", "csv")
        for path in (other / "out").rglob(f"*.{ending}")
        if ".state." not in path.name
    }
    assert names
    for name in names:
        texts = ((each / "out" / name).read_text() for each in (folder, other))
        if name == "nbest_predictions.json":
            texts = map(_sorted_answers, texts)
        found, wanted = map(_numbers_and_words, texts)
        assert found[1] == wanted[1], name
        np.testing.assert_allclose(
            found[0], wanted[0], rtol=0, atol=1e-4, err_msg=name
        )


def _check_same_weights(folder, other):
    prefixes = [
        path.relative_to(other / "out").with_suffix("")
        for path in (other / "out").rglob("*.index")
    ]
    assert prefixes
    for prefix in prefixes:
        found, wanted = (
            checkpoints.read(str(each / "out" / prefix))
            for each in (folder, other)
        )
        assert found.keys() == wanted.keys()
        for name, value in wanted.items():
            np.testing.assert_allclose(
                *(found[name], value),
                rtol=0,
                atol=_TOLERANCE,
                err_msg=f"{prefix} {name}",
            )


@pytest.fixture(scope="module")
def one(tmp_path_factory):
    """Returns the folder of a run on one device, which is made once."""

    @functools.cache
    def finished(make):
        folder = tmp_path_factory.mktemp("one") / "run"
        _finish(folder, make, 1)
        return folder

    return finished


@pytest.mark.integration
@pytest.mark.parametrize(
    "make",
    [
        _classifier,
        _squad,
        _tagger,
        *(
            # The same work, shared out in the same way.
            pytest.param(make, marks=pytest.mark.slow)
            for make in (_trials, _swag, _feature_tagger)
        ),
    ],
)
def test_two_workers_answer_as_one_does_and_one_of_them_writes(
    tmp_path, one, make
):
    two = tmp_path / "two"
    _finish(two, make, 2)
    _check_same_weights(two, one(make))
    _check_same_answers(two, one(make))
    assert _written(two, 0)
    assert _written(two, 1) == set()
    last = (two / "out/run.jsonl").read_text().splitlines()[-1]
    assert json.loads(last)["outcome"] == "finished"
    ours, theirs = (
        sorted(
            path.name
            for path in (folder / "out").rglob("*")
            if "tfevents" not in path.name
        )
        for folder in (two, one(make))
    )
    assert ours == theirs


def _features(folder):
    text = folder / "text.txt"
    text.write_text("the players began .\nrain ||| rain\n\nthe match\n" * 5)
    golden = locations.GOLDEN
    return "extract_features.py", {
        "input_file": text,
        "output_file": folder / "out/features.jsonl",
        "vocab_file": golden / "inputs/vocab.txt",
        "bert_config_file": golden / "inputs/bert_config.json",
        "init_checkpoint": golden / "model/tiny.ckpt",
        "layers": "-1,-2",
        "batch_size": 4,
    }


@pytest.mark.integration
def test_two_workers_extract_what_one_does_and_one_of_them_writes(tmp_path):
    for name, number in (("one", 1), ("two", 2)):
        _finish(tmp_path / name, _features, number, common={})
    assert _written(tmp_path / "two", 0)
    assert _written(tmp_path / "two", 1) == set()
    found, wanted = (
        [
            json.loads(line)
            for line in (tmp_path / name / "out/features.jsonl").open()
        ]
        for name in ("two", "one")
    )
    assert len(found) == len(wanted) == 20
    for ours, theirs in zip(found, wanted, strict=True):
        assert ours["linex_index"] == theirs["linex_index"]
        for mine, other in zip(
            ours["features"], theirs["features"], strict=True
        ):
            assert mine["token"] == other["token"]
            for layer, same in zip(
                mine["layers"], other["layers"], strict=True
            ):
                np.testing.assert_allclose(
                    layer["values"], same["values"], rtol=0, atol=_TOLERANCE
                )


@pytest.mark.integration
@pytest.mark.parametrize("make", [_classifier, _squad])
def test_two_devices_answer_as_one_does(tmp_path, one, make):
    # As above, each packs, or cuts the padding of, its own rows of a batch.
    _finish(tmp_path / "two", make, 1, num_cpu_devices=2)
    _check_same_weights(tmp_path / "two", one(make))
    _check_same_answers(tmp_path / "two", one(make))


@pytest.mark.integration
def test_workers_without_a_shared_folder_miss_its_records(tmp_path):
    script, named = _classifier(tmp_path)
    processes = []
    for number, environment in enumerate(cluster.environments(2)):
        given = {**_COMMON, **named, "output_dir": tmp_path / f"out-{number}"}
        command = [script, *(f"--{k}={v}" for k, v in given.items())]
        log = tmp_path / f"log-{number}"
        processes.append(warm.start(command, log, environment=environment))
    for process in processes:
        assert process.wait() != 0
    # The chief, which has made the records, lost the other one.
    text = (tmp_path / "log-1").read_text()
    assert "out-1/train.tf_record: No such file or directory." in text
