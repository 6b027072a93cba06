"""Programs that write to a full disk."""

import contextlib
import resource

import pytest

import create_pretraining_data
from modeling import checkpoints
from tests.support import locations, toy_files
from tools import convert_checkpoint


@contextlib.contextmanager
def _room_for_files_of(num_bytes):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("output_format", ["release", "huggingface"])
def test_conversion_leaves_no_folder(tmp_path, output_format):
    options = convert_checkpoint.Options(
        input=str(locations.CHECKPOINT),
        output=str(tmp_path / "out"),
        output_format=output_format,
        bert_config_file=locations.CONFIG_FILE,
        # The model has output layers of several tasks.
        task="pretraining",
    )
    # Room for the configuration, not for the 300 KB of the weights.
    with (
        _room_for_files_of(20_000),
        pytest.raises(OSError, match=r"too large|Free disk"),
    ):
        convert_checkpoint.convert(options)
    assert not list(tmp_path.iterdir())
    convert_checkpoint.convert(options)
    assert checkpoints.list_variables(options.output)


def test_data_creation_names_the_file_and_goes_on_later(tmp_path):
    words = (locations.INPUTS / "vocab.txt").read_text().split()[200:260]
    text = tmp_path / "text.txt"
    text.write_text(f"{' '.join(words)}\n" * 40 + "\n" + "rain\n" * 3)
    options = create_pretraining_data.Options(
        input_file=str(text),
        output_file=str(tmp_path / "out/records"),
        vocab_file=locations.VOCAB_FILE,
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
    assert "records-00001.meta.json" in toy_files.names(tmp_path / "out")
