"""Programs that write to a full disk."""

import contextlib
import pathlib
import resource

import numpy as np
import pytest

import create_pretraining_data
from modeling import checkpoints
from tools import convert_checkpoint

_GOLDEN = pathlib.Path(__file__).parents[1] / "golden"


@contextlib.contextmanager
def _room_for_files_of(num_bytes):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def _content(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize(
    ("output_format", "name", "weights"),
    [
        ("release", "x.ckpt", "x.ckpt"),
        ("keras", "x.weights.h5", "x.weights.h5"),
        ("huggingface", "", "release_variables.safetensors"),
    ],
)
def test_conversion_names_the_file_and_leaves_what_was_there(
    tmp_path, output_format, name, weights
):
    options = convert_checkpoint.Options(
        input=str(_GOLDEN / "model/tiny.ckpt"),
        output=str(tmp_path / "out" / name),
        output_format=output_format,
        bert_config_file=str(_GOLDEN / "inputs/bert_config.json"),
        overwrite=True,
    )
    # Room for the configuration, not for the 300 KB of the weights.
    with (
        _room_for_files_of(20_000),
        pytest.raises(OSError, match=r"too large|Free disk") as caught,
    ):
        convert_checkpoint.convert(options)
    assert str(tmp_path / "out" / weights) in str(caught.value)
    assert set(_content(tmp_path / "out")) <= {
        "bert_config.json",
        "config.json",
    }
    convert_checkpoint.convert(options)
    found, wanted = (
        checkpoints.read(path) for path in (options.output, options.input)
    )
    np.testing.assert_equal(found, wanted)
    if output_format == "huggingface":
        return  # There, old weights go before new ones come.
    before = _content(tmp_path / "out")
    with (
        _room_for_files_of(20_000),
        pytest.raises(OSError, match=r"too large|Free disk"),
    ):
        convert_checkpoint.convert(options)
    assert _content(tmp_path / "out") == before


def test_data_creation_names_the_file_and_goes_on_later(tmp_path):
    words = (_GOLDEN / "inputs/vocab.txt").read_text().split()[200:260]
    text = tmp_path / "text.txt"
    text.write_text(f"{' '.join(words)}\n" * 40 + "\n" + "rain\n" * 3)
    options = create_pretraining_data.Options(
        input_file=str(text),
        output_file=str(tmp_path / "out/records"),
        vocab_file=str(_GOLDEN / "inputs/vocab.txt"),
        dupe_factor=1,
        num_workers=1,
        shard_documents=1,
    )
    with (
        _room_for_files_of(4_000),
        pytest.raises(OSError, match="File too large") as caught,
    ):
        create_pretraining_data.run(options)
    assert str(tmp_path / "out/records-00000") in str(caught.value)
    assert not list((tmp_path / "out").iterdir())
    create_pretraining_data.run(options)
    assert "records-00001.meta.json" in _content(tmp_path / "out")
