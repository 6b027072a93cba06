"""Tools that are killed at any moment, and run again."""

import random
import shutil
import signal

import numpy as np
import pytest

from modeling import checkpoints, heads
from tests.support import (
    locations,
    moments,
    toy_config,
    toy_files,
    warm,
    web_server,
)
from tools import convert_checkpoint, download, export_model, learn_vocab

pytestmark = pytest.mark.integration

_CONFIG = toy_config.config(vocab_size=1200)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """Names a checkpoint with moments, and what lies beside it."""
    folder = tmp_path_factory.mktemp("model")
    network = heads.BertForPreTraining(_CONFIG)
    rng = np.random.default_rng(1)
    values = {"global_step": np.int64(7)}
    for name, variable in checkpoints.variables_by_name(network).items():
        for part in ("", "/adam_m", "/adam_v"):
            shape = tuple(variable.shape)
            values[name + part] = rng.standard_normal(shape, np.float32)
    checkpoints.save(str(folder / "bert_model.ckpt"), values)
    toy_files.write_json(folder / "bert_config.json", _CONFIG.to_dict())
    (folder / "vocab.txt").write_bytes(
        (locations.INPUTS / "vocab.txt").read_bytes()
    )
    return folder


def _content(folder):
    """Reads all files of a folder that have their final names."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
        and not any(
            part.startswith(".") for part in path.relative_to(folder).parts
        )
    }


def _check_kills(work, folder, copies):
    """Kills work at every moment, each time lets it begin again.

    Args:
        work: is called with nothing, and writes to `folder`.
        folder: where.
        copies: a folder for copies.
    """
    with moments.recorded(folder, copies) as made:
        work()
    expected = _content(folder)
    assert expected and len(made) > 1
    for moment in made:
        for name, content in _content(moment).items():
            assert content == expected[name], f"{name} at {moment.name}"
        moments.put_back(moment, folder)
        work()
        assert _content(folder) == expected
        left = [path.name for path in folder.rglob(".*")]
        assert len(left) <= 1, left  # That of a kill after the last file.


def _options(model, out, output_format):
    return convert_checkpoint.Options(
        input=str(model), output=str(out), output_format=output_format
    )


@pytest.mark.parametrize("output_format", ["release", "huggingface"])
def test_conversion(tmp_path, model, output_format):
    folder = tmp_path / "killed"
    folder.mkdir()
    options = _options(model, folder / "out", output_format)
    _check_kills(
        lambda: convert_checkpoint.convert(options), folder, tmp_path / "copies"
    )


def test_a_true_kill_leaves_what_a_moment_has(tmp_path, model):
    """What the copies stand for: a process that the system ends."""
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    whole.mkdir()
    killed.mkdir()
    options = _options(model, whole / "out", "huggingface")
    with moments.recorded(whole, tmp_path / "copies") as made:
        convert_checkpoint.convert(options)
    process = warm.start(
        [
            *("-m", "tests.support.killed_program", "config.json"),
            *("tools/convert_checkpoint.py", f"--input={model}"),
            *(f"--output={killed / 'out'}", "--output_format=huggingface"),
        ],
        tmp_path / "log",
    )
    assert process.wait() == -signal.SIGKILL, (tmp_path / "log").read_text()
    assert _content(killed) in [_content(moment) for moment in made]


def test_export(tmp_path, model):
    served = tmp_path / "served"
    options = export_model.Options(model_dir=str(model), export_dir=str(served))
    with moments.recorded(served, tmp_path / "copies") as made:
        export_model.run(options)
    whole = _content(served).keys()
    assert "1/saved_model.pb" in whole
    # A version is there, and whole, or is not there.
    for moment in made:
        assert _content(moment).keys() in (whole, set())
    moments.put_back(made[-1], served)
    export_model.run(options)
    (version,) = (path.name for path in served.glob("[!.]*"))
    assert {f"{version}/{x.partition('/')[2]}" for x in whole} == {
        *_content(served)
    }


def test_download(tmp_path, monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    name, made = "uncased_L-2_H-128_A-2", tmp_path / "made"
    made.mkdir()
    for number in range(3):
        (made / f"{number}.data").write_bytes(bytes([number]) * 50_000)
    shutil.make_archive(str(tmp_path / name), "zip", made)
    folder = tmp_path / "killed"
    folder.mkdir()
    with web_server.running() as site:
        site.files["/x.zip"] = (tmp_path / f"{name}.zip").read_bytes()
        item = download.Item(
            folder=name, about="", urls=(f"{site.address}/x.zip",)
        )
        # The table has addresses of other servers.
        monkeypatch.setitem(download.ITEMS, "bert_tiny", item)
        options = download.Options(output_dir=str(folder))
        _check_kills(
            lambda: download.run(options, ["bert_tiny"]),
            folder,
            tmp_path / "copies",
        )


def test_vocabulary_learning(tmp_path):
    rng = random.Random(2)
    words = ["".join(rng.choices("abcdefghij", k=5)) for _ in range(300)]
    text, folder = tmp_path / "text.txt", tmp_path / "killed"
    text.write_text("".join(f"{word} {word[::-1]}\n" for word in words))
    folder.mkdir()
    options = learn_vocab.Options(
        input_file=str(text),
        output_file=str(folder / "vocab.txt"),
        vocab_size=300,
        num_workers=1,
    )
    _check_kills(lambda: learn_vocab.run(options), folder, tmp_path / "copies")
