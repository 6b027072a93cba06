import types

import pytest

from vocab import model_tokenizer


def _options(tmp_path, **changes):
    path = tmp_path / "vocab.txt"
    path.write_text("[CLS]\n[SEP]\nWord\nword\n")
    defaults = {"do_lower_case": True, "init_checkpoint": None}
    return types.SimpleNamespace(
        vocab_file=str(path), **{**defaults, **changes}
    )


@pytest.mark.parametrize(
    ("do_lower_case", "pieces"), [(True, ["word"]), (False, ["Word"])]
)
def test_text_is_read_in_the_case_of_the_options(
    tmp_path, do_lower_case, pieces
):
    options = _options(tmp_path, do_lower_case=do_lower_case)
    tokenizer = model_tokenizer.open_tokenizer(options, "[CLS]", "[SEP]")
    assert tokenizer.tokenize("Word") == pieces


def test_a_vocabulary_without_a_special_token_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"\[MASK\]"):
        model_tokenizer.open_tokenizer(_options(tmp_path), "[CLS]", "[MASK]")


def test_a_checkpoint_of_the_other_case_is_refused(tmp_path):
    options = _options(
        tmp_path, init_checkpoint="cased_L-12_H-768_A-12/bert_model.ckpt"
    )
    with pytest.raises(ValueError, match="case"):
        model_tokenizer.open_tokenizer(options, "[CLS]")
