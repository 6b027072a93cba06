"""Words from operations against the definition, which other tests pin."""

import json
import pathlib
import random

import pytest
import tensorflow as tf

from serving import basic_ops, text_ops
from vocab import tokenization

_GOLDEN = pathlib.Path(__file__).parents[1] / "golden"
_CODE_POINTS = [*range(0xD800), *range(0xE000, 0x110000)]
_TELLING = (
    "aA \t\n\r\x00\x0b\x1c\x85\xad\u0301\u0338\u03a3\u03c3\u0130'?#[]$"
    "\u2028\u200d\u3000\ufffd\u4e00\uf900\uac00\u1100\u0f77\u226e\U0002a6df"
    "\ue000\U0010fffd\U000f0000\u1b44\U00016ff0\u0334\u0900\U0001d15f\u202f"
)


def _differences(texts, do_lower_case):
    basic = tokenization.BasicTokenizer(do_lower_case)
    got = basic_ops.basic_text(
        text_ops.decoded(tf.constant([text.encode() for text in texts])),
        do_lower_case=do_lower_case,
    )
    return [
        text
        for text, words in zip(texts, got.numpy().tolist(), strict=True)
        if words.decode() != " ".join(basic.tokenize(text))
    ]


@pytest.mark.parametrize("do_lower_case", [True, False])
def test_words_are_those_of_the_definition(do_lower_case):
    lines = (_GOLDEN / "tokenization.jsonl").read_text("utf-8").splitlines()
    texts = [json.loads(line)["text"] for line in lines]
    texts = [t for t in texts if not any(0xD800 <= ord(c) < 0xE000 for c in t)]
    rng = random.Random(3)
    texts += ["".join(rng.choices(_TELLING, k=9)) for _ in range(300)]
    texts += [f"a{chr(code)}b" for code in _CODE_POINTS[::701]]
    assert _differences(texts, do_lower_case) == []


@pytest.mark.slow
@pytest.mark.parametrize("context", ["{}", "a{}b", "x {} y"])
@pytest.mark.parametrize("do_lower_case", [True, False])
def test_every_code_point(context, do_lower_case):
    texts = [context.format(chr(code)) for code in _CODE_POINTS]
    assert _differences(texts, do_lower_case) == []


@pytest.mark.slow
@pytest.mark.parametrize("do_lower_case", [True, False])
def test_random_strings(do_lower_case):
    rng = random.Random(4)
    texts = ["".join(rng.choices(_TELLING, k=12)) for _ in range(50_000)]
    texts += [
        "".join(map(chr, rng.choices(_CODE_POINTS, k=8))) for _ in range(50_000)
    ]
    assert _differences(texts, do_lower_case) == []


def test_no_text_and_empty_texts():
    for texts in ([], [""], ["", " "]):
        got = basic_ops.basic_text(
            tf.constant(texts, tf.string, [len(texts)]), do_lower_case=True
        )
        assert got.numpy().tolist() == [b""] * len(texts)
