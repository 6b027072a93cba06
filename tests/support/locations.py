"""Folders of the clone that tests read."""

import pathlib

ROOT = pathlib.Path(__file__).parents[2]
# Outputs of the original: tests/golden/README.md.
GOLDEN = ROOT / "tests" / "golden"
INPUTS = GOLDEN / "inputs"
VOCAB_FILE = str(INPUTS / "vocab.txt")
CONFIG_FILE = str(INPUTS / "bert_config.json")
CHECKPOINT = GOLDEN / "model" / "tiny.ckpt"
# Data sets beside the clone, which only tests marked `shared` read.
SHARED = ROOT.parent / "shared"
DATA = SHARED / "data"
