"""Folders of the clone that tests read."""

import pathlib

ROOT = pathlib.Path(__file__).parents[2]
# Outputs of the original: tests/golden/README.md.
GOLDEN = ROOT / "tests" / "golden"
# Data sets beside the clone, which only tests marked `shared` read.
SHARED = ROOT.parent / "shared"
