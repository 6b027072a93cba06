"""Tools that are killed at random moments, and run again."""

import contextlib
import json
import multiprocessing
import os
import pathlib
import random
import shutil
import signal
import time

import numpy as np
import pytest

from modeling import checkpoints, heads
from tests.support import locations, toy_config, web_server
from tools import convert_checkpoint, download, export_model, learn_vocab

_GOLDEN = locations.GOLDEN
_VOCABULARY = str(_GOLDEN / "inputs/vocab.txt")
# Enough to write that kills come while it is written.
_CONFIG = toy_config.config(
    vocab_size=1200,
    hidden_size=384,
    num_hidden_layers=3,
    intermediate_size=1536,
)
_SIGNALS = (signal.SIGTERM, signal.SIGKILL)

# Children begin with everything imported, so that kills hit the work.
_CONTEXT = multiprocessing.get_context("forkserver")


@pytest.fixture(scope="module", autouse=True)
def _preloaded():
    _CONTEXT.set_forkserver_preload(
        ["tensorflow", "tools.convert_checkpoint", "modeling.checkpoints"]
    )


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
    (folder / "bert_config.json").write_text(json.dumps(_CONFIG.to_dict()))
    (folder / "vocab.txt").write_bytes(pathlib.Path(_VOCABULARY).read_bytes())
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


def _run(work, arguments, kill_after=None, number=None):
    """Runs in a process of its own; returns its code and its seconds."""
    process = _CONTEXT.Process(target=work, args=arguments)
    start = time.monotonic()
    process.start()
    if kill_after is not None:
        process.join(kill_after)
        # It may end by itself between the question and the signal.
        with contextlib.suppress(ProcessLookupError):
            if process.is_alive():
                os.kill(process.pid, number)
    process.join()
    return process.exitcode, time.monotonic() - start


def _check_kills(work, arguments, expected, folder, num_kills):
    """Kills the work so many times, then lets it end.

    Args:
        work: is called with `arguments`, and writes to `folder`.
        arguments: of it.
        expected: what an unbroken run writes, by name.
        folder: where.
        num_kills: how often it is killed; runs that end before are done again.
    """
    code, seconds = _run(work, arguments)
    assert code == 0
    assert _content(folder) == expected
    rng, kills = random.Random(num_kills), 0
    while kills < num_kills:
        if _content(folder) == expected:
            for path in sorted(folder.rglob("*"), reverse=True):
                path.rmdir() if path.is_dir() else path.unlink()
        number = rng.choice(_SIGNALS)
        code, _ = _run(work, arguments, rng.uniform(0, seconds), number)
        assert code in (0, -number), code
        kills += code == -number
        for name, content in _content(folder).items():
            assert content == expected[name], f"{name} after {kills} kills"
    if _content(folder) != expected:
        assert _run(work, arguments)[0] == 0
    assert _content(folder) == expected
    left = [path.name for path in folder.rglob(".*")]
    assert len(left) <= 1, left  # That of a run killed after its last file.


@pytest.mark.integration
@pytest.mark.parametrize("output_format", ["release", "huggingface"])
def test_conversion(tmp_path, model, output_format):
    def options(folder):
        return convert_checkpoint.Options(
            input=str(model),
            output=str(tmp_path / folder / "out"),
            output_format=output_format,
        )

    (tmp_path / "unbroken").mkdir()
    convert_checkpoint.convert(options("unbroken"))
    expected = _content(tmp_path / "unbroken")
    assert expected
    _check_kills(
        *(convert_checkpoint.convert, (options("killed"),)),
        expected,
        tmp_path / "killed",
        20,
    )


@pytest.mark.integration
def test_export(tmp_path, model):
    served = tmp_path / "served"

    options = export_model.Options(model_dir=str(model), export_dir=str(served))
    code, seconds = _run(export_model.run, (options,))
    assert code == 0
    whole = _names_of(served / "1")
    assert "saved_model.pb" in whole
    rng, kills, version = random.Random(1), 0, 2
    while kills < 6:
        number = rng.choice(_SIGNALS)
        moment = rng.uniform(0.3 * seconds, seconds)
        code, _ = _run(export_model.run, (options,), moment, number)
        assert code in (0, -number), code
        kills += code == -number
        # A version is there, and whole, or is not there.
        if (served / str(version)).exists():
            assert _names_of(served / str(version)) == whole
            version += 1
    assert _run(export_model.run, (options,))[0] == 0
    assert _names_of(served / str(version)) == whole
    assert {path.name for path in served.iterdir()} == {
        str(number) for number in range(1, version + 1)
    }


def _names_of(folder):
    return {
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.is_file()
    }


def _download(address, name, folder):
    """Downloads an archive, in a process of its own."""
    download.ITEMS["bert_tiny"] = download.Item(
        folder=name, about="", urls=(f"{address}/x.zip",)
    )
    download.run(download.Options(output_dir=folder), ["bert_tiny"])


@pytest.mark.integration
def test_download(tmp_path, monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    name, made = "uncased_L-2_H-128_A-2", tmp_path / "made"
    made.mkdir()
    for number in range(3):
        (made / f"{number}.data").write_bytes(bytes([number]) * 5_000_000)
    shutil.make_archive(str(tmp_path / name), "zip", made)
    with web_server.running() as site:
        site.files["/x.zip"] = (tmp_path / f"{name}.zip").read_bytes()
        monkeypatch.setitem(download.ITEMS, "bert_tiny", None)
        work = tmp_path / "killed"
        arguments = (site.address, name, str(work))
        _download(site.address, name, str(tmp_path / "unbroken"))
        _check_kills(
            _download, arguments, _content(tmp_path / "unbroken"), work, 8
        )


@pytest.mark.integration
def test_vocabulary_learning(tmp_path):
    text = tmp_path / "text.txt"
    rng = random.Random(2)
    letters = "abcdefghijklmnop"
    words = ["".join(rng.choices(letters, k=7)) for _ in range(4000)]
    text.write_text(
        "".join(" ".join(rng.choices(words, k=12)) + "\n" for _ in range(4000))
    )

    def options(folder):
        return learn_vocab.Options(
            input_file=str(text),
            output_file=str(tmp_path / folder / "vocab.txt"),
            vocab_size=3000,
            num_workers=1,
        )

    learn_vocab.run(options("unbroken"))
    _check_kills(
        *(learn_vocab.run, (options("killed"),)),
        _content(tmp_path / "unbroken"),
        tmp_path / "killed",
        8,
    )
