"""Writing of checkpoints in the release's format."""

import os

import numpy as np

from modeling import release_format


def test_no_index_is_beside_data_of_another_checkpoint(tmp_path, monkeypatch):
    prefix = str(tmp_path / "c")
    release_format.write(prefix, {"a": np.zeros(3)})
    names, replace = [], os.replace

    def watch(source, target):
        # A process that dies here leaves no index of the earlier data.
        assert not os.path.exists(f"{prefix}.index")
        names.append(os.path.basename(target))
        replace(source, target)

    monkeypatch.setattr(os, "replace", watch)
    release_format.write(prefix, {"b": np.ones(5)})
    assert names == ["c.data-00000-of-00001", "c.index"]
