"""No code from a file is ever run; ruff finds pickles, eval and shells."""

import re

from tests.support import locations

_UNSAFE = re.compile(
    r"\b(?:load_model|model_from_json|model_from_config|torch\.load|joblib"
    r"|enable_unsafe_deserialization|trust_remote_code|marshal|runpy)\b"
    r"|allow_pickle=True|weights_only=False|safe_mode=False|yaml\.\w*load"
)
# Loads tensors alone. The peers read nothing of a user's.
_TENSORS_ONLY = "modeling/huggingface.py"
_PEERS = {"benchmarks/fine_tuning.py", "benchmarks/peers.py"}


def test_no_source_loads_what_may_run():
    found = [
        (name, match[0])
        for path in sorted(locations.ROOT.glob("**/*.py"))
        if not (name := path.relative_to(locations.ROOT).as_posix()).startswith(
            (".", "tests/")
        )
        for match in _UNSAFE.finditer(path.read_text(encoding="utf-8"))
        if name not in _PEERS
    ]
    assert found == [(_TENSORS_ONLY, "torch.load")]
    text = (locations.ROOT / _TENSORS_ONLY).read_text(encoding="utf-8")
    assert re.search(r"torch\.load\([^)]*weights_only=True", text)
