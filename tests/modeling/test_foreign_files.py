"""Files of other programs given as checkpoints are named as what they are."""

import json
import shutil
import zipfile

import numpy as np
import pytest

from modeling import checkpoints
from tests.support import golden_models

_READ = r"Checkpoints of the original .* are read, .*model\.safetensors"
_LFS = (
    b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 4400\n"
)


@pytest.fixture(autouse=True)
def _in_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def _zip(name, *parts):
    with zipfile.ZipFile(name, "w") as file:
        for part in parts:
            file.writestr(part, b"x" * 100)


def _refusal(name):
    with pytest.raises(ValueError) as caught:
        checkpoints.find(name)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("name", "parts", "kind"),
    [
        ("ckpt_1563.pt", ["archive/data.pkl"], "a zip file of PyTorch"),
        (
            "lightning.ckpt",
            ["a/version", "a/data.pkl"],
            "a zip file of PyTorch",
        ),
        ("bert.keras", ["config.json"], "a zip file of Keras"),
        (
            "bert",
            ["metadata.json", "config.json", "model.weights.h5"],
            "a zip file of Keras",
        ),
        ("bert.npz", ["kernel.npy"], "a zip file of NumPy"),
        (
            "uncased_L-2.zip",
            ["L-2/bert_config.json", "L-2/bert_model.ckpt.index"],
            "a zip file that contains a model; extract it",
        ),
        (
            "hub.zip",
            ["config.json", "pytorch_model.bin"],
            "a zip file that contains a model; extract it",
        ),
        ("other.zip", ["text"], "a zip file, as PyTorch and Keras write"),
    ],
)
def test_a_zip_file_is_named_by_its_parts(name, parts, kind):
    _zip(name, *parts)
    message = _refusal(name)
    assert message.startswith(
        f"{name!r} is {kind}. Checkpoints of the original"
    )


@pytest.mark.parametrize(
    ("name", "start", "kind"),
    [
        ("bert.weights.h5", b"\x89HDF\r\n\x1a\n", "an HDF5 file"),
        ("weights", b"\x89HDF\r\n\x1a\n", "an HDF5 file"),
        ("old.pth", b"\x80\x02\x8a\nl", "a pickle, as PyTorch writes"),
        ("training_args.bin", b"", "a PyTorch file"),
        ("model.pt", b"PK\x03\x04cut", "a zip file, as PyTorch and Keras"),
        ("flax_model.msgpack", b"\x83", "a Flax file"),
        ("model.onnx", b"\x08\x08", "an ONNX file"),
        ("MODEL.ONNX", b"\x08\x08", "an ONNX file"),
        ("bert", b"GGUF\x03", "a GGUF file"),
        ("bert.tflite", b"\x1c\0\0\0TFL3", "a LiteRT"),
        ("x.safetensors", b'\x50\0\0\0\0\0\0\0{"a":', "a safetensors file"),
        ("saved_model.pb", b"\x08\x01", "a graph of TensorFlow"),
        ("w.npy", b"\x93NUMPY", "a NumPy file"),
        ("bert.tar.gz", b"\x1f\x8b\x08", "a gzip file; if a model is in it"),
        ("bert_config.json", b'{\n  "hidden_size": 2', "a JSON file"),
        ("model.ckpt", _LFS, "a pointer of Git LFS in place of the file"),
        ("model.bin", b"\n<!DOCTYPE html>", "a web page in place of the file"),
        ("model.pt", b"<html>", "a web page in place of the file"),
    ],
)
def test_a_file_is_named_by_its_first_bytes_or_its_ending(name, start, kind):
    with open(name, "wb") as file:
        file.write(start + bytes(200))
    message = _refusal(name)
    assert message.startswith(f"{name!r} is {kind}")
    assert "Checkpoints of the original" in message


@pytest.mark.parametrize(
    ("names", "kind"),
    [
        (["assets/x", "saved_model.pb", "variables/y"], "a SavedModel"),
        (["tfhub_module.pb"], "a SavedModel"),
        (["flax_model.msgpack"], r"a folder with flax_model.msgpack \(a Flax"),
        (
            ["a.onnx", "b.gguf", "c.gguf"],
            r"a folder with .*b.gguf \(a GGUF.*, a.onnx \(an ONNX file\)",
        ),
    ],
)
def test_a_folder_of_another_program_is_named_by_its_files(
    tmp_path, names, kind
):
    for name in names:
        (tmp_path / "m" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "m" / name).touch()
    with pytest.raises(FileNotFoundError, match=rf"^'m' is {kind}.*{_READ}"):
        checkpoints.find("m")


def test_a_pointer_of_git_lfs_is_named_in_every_format(tmp_path):
    for name in ("model.safetensors", "pytorch_model.bin", "tf_model.h5"):
        (tmp_path / name).write_bytes(_LFS)
        for path in (name, "."):
            with pytest.raises(
                ValueError, match=f"{name}' is a pointer of Git"
            ):
                checkpoints.find(path)
        (tmp_path / name).unlink()
    model = golden_models.bert(tmp_path / "model [1]")
    (data,) = model.glob("*.data-*")
    data.write_bytes(_LFS)
    with pytest.raises(ValueError, match=r"data-00000-of-00001' is a pointer"):
        checkpoints.find(str(model))
    shutil.rmtree(model)
    shard = "model-00001-of-00001.safetensors"
    index = {"weight_map": {"bert.pooler.dense.bias": shard}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    (tmp_path / shard).write_bytes(_LFS)
    with pytest.raises(ValueError, match=f"{shard}' is a pointer of Git LFS"):
        checkpoints.read(".")


def test_a_web_page_is_named_in_place_of_weights(tmp_path):
    (tmp_path / "model.safetensors").write_bytes(b"\n<!DOCTYPE html>")
    with pytest.raises(ValueError, match=r"safetensors' is a web page in plac"):
        checkpoints.find(".")


def test_a_checkpoint_beside_files_of_other_programs_is_read(tmp_path):
    prefix = str(tmp_path / "x.ckpt")
    checkpoints.save(prefix, {"a": np.zeros(3)})
    for name in ("model.onnx", "saved_model.pb", "x.ckpt.bin", "y [1].pt"):
        (tmp_path / name).touch()
    assert checkpoints.find(str(tmp_path)) == prefix
    assert checkpoints.find(prefix) == prefix


@pytest.mark.parametrize(
    ("inside", "passed"),
    [
        (["checkpoint-500", "checkpoint-1000"], "m/checkpoint-1000"),
        (["refs", "blobs", "snapshots/0123abc"], "m/snapshots/0123abc"),
        (["models--lab--tiny-bert"], "hf://lab/tiny-bert"),
        (["0_Transformer", "1_Pooling"], "m/0_Transformer"),
        (["0_BERT", "1_Pooling"], "m/0_BERT"),
    ],
)
def test_a_folder_around_models_names_the_path_to_pass(
    tmp_path, inside, passed
):
    for name in inside:
        (tmp_path / "m" / name).mkdir(parents=True)
    with pytest.raises(
        FileNotFoundError, match=rf"^'m' is .* Pass {passed}\.$"
    ):
        checkpoints.find("m")


def test_folders_with_checkpoints_in_a_folder_are_named(tmp_path):
    for name in ("a [1]/x.ckpt.index", "b/model.safetensors", "c/readme.txt"):
        (tmp_path / "m" / name).parent.mkdir(parents=True)
        (tmp_path / "m" / name).touch()
    with pytest.raises(FileNotFoundError, match=r"in it: m/a \[1\], m/b\.$"):
        checkpoints.find("m")


@pytest.mark.parametrize(
    "name",
    ["model.ckpt-7.data-00000-of-00001", "model-00002-of-00003.safetensors"],
)
def test_a_part_of_a_checkpoint_without_its_index_is_named(tmp_path, name):
    (tmp_path / name).touch()
    with pytest.raises(FileNotFoundError, match=f"with {name}, a part .*index"):
        checkpoints.find(".")


@pytest.mark.parametrize(
    "name", ["model.fp16.safetensors", "pytorch_model.fp16.bin"]
)
def test_a_variant_of_the_weights_is_named(tmp_path, name):
    (tmp_path / name).touch()
    with pytest.raises(FileNotFoundError, match=f"a variant of .*{name}"):
        checkpoints.find(".")
