import dataclasses
import hashlib
import json

import pytest

from bert.records import sidecars
from tests.support import locations
from tests.support import toy_pretraining as toy
from vocab import tokenization

_METADATA = toy.metadata_of(flags={"random_seed": 12345, "input_file": "a.txt"})


def test_vocab_hash_is_that_of_a_plain_file():
    path = locations.GOLDEN / "inputs/vocab.txt"
    tokens = path.read_text("utf-8").splitlines()
    expected = hashlib.sha256(path.read_bytes()).hexdigest()
    assert tokenization.vocab_sha256(tokens) == expected
    assert tokenization.vocab_sha256(tokens[::-1]) != expected


def test_metadata_round_trip(tmp_path):
    path = str(tmp_path / "x")
    assert sidecars.read_metadata(path) is None
    sidecars.write_metadata(path, _METADATA)
    assert sidecars.read_metadata(path) == _METADATA
    # What has a default may be left out.
    without = dataclasses.replace(
        _METADATA, max_predictions_per_seq=None, flags={}
    )
    values = dataclasses.asdict(without)
    del values["flags"], values["max_predictions_per_seq"]
    (tmp_path / "x.meta.json").write_text(json.dumps(values))
    assert sidecars.read_metadata(path) == without


def _changed(**changes):
    return json.dumps(dataclasses.asdict(_METADATA) | changes)


@pytest.mark.parametrize("text", ["{", "[]", "{}", _changed(color="red")])
def test_a_broken_sidecar_is_named(tmp_path, text):
    (tmp_path / "x.meta.json").write_text(text)
    with pytest.raises(ValueError, match=r"x\.meta\.json does not describe"):
        sidecars.read_metadata(str(tmp_path / "x"))
