import dataclasses
import json

import pytest

from bert.records import sidecars
from tests.support import toy_files
from tests.support import toy_pretraining as toy

_METADATA = toy.metadata_of(flags={"random_seed": 12345, "input_file": "a.txt"})


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
    toy_files.write_json(tmp_path / "x.meta.json", values)
    assert sidecars.read_metadata(path) == without


def _changed(**changes):
    return json.dumps(dataclasses.asdict(_METADATA) | changes)


@pytest.mark.parametrize("text", ["{", "[]", "{}", _changed(color="red")])
def test_a_broken_sidecar_is_named(tmp_path, text):
    (tmp_path / "x.meta.json").write_text(text)
    with pytest.raises(ValueError, match=r"x\.meta\.json does not describe"):
        sidecars.read_metadata(str(tmp_path / "x"))
