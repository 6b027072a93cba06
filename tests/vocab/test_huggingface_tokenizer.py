"""Tokenizers of Hugging Face's folders: read if they are BERT's."""

import json
import re

import pytest

from vocab import huggingface_tokenizer, tokenization

_SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_TEMPLATE = [
    {"SpecialToken": {"id": "[CLS]", "type_id": 0}},
    {"Sequence": {"id": "A", "type_id": 0}},
    {"SpecialToken": {"id": "[SEP]", "type_id": 0}},
]
# As transformers 5 writes it for a BERT.
_PIPELINE = {
    "version": "1.0",
    "truncation": None,
    "padding": None,
    "added_tokens": [
        {"id": number, "content": token, "special": True}
        for number, token in enumerate(_SPECIAL)
    ],
    "normalizer": {
        "type": "BertNormalizer",
        "clean_text": True,
        "handle_chinese_chars": True,
        "strip_accents": None,
        "lowercase": True,
    },
    "pre_tokenizer": {"type": "BertPreTokenizer"},
    "post_processor": {"type": "TemplateProcessing", "single": _TEMPLATE},
    "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
    "model": {
        "type": "WordPiece",
        "unk_token": "[UNK]",
        "continuing_subword_prefix": "##",
        "max_input_chars_per_word": 100,
        "vocab": {
            token: i for i, token in enumerate([*_SPECIAL, "a", "##b", "é"])
        },
    },
}
_CONFIG = {
    "tokenizer_class": "BertTokenizer",
    "do_lower_case": True,
    "strip_accents": None,
    "tokenize_chinese_chars": True,
    "model_max_length": 512,
    "unk_token": "[UNK]",
    "mask_token": {"content": "[MASK]", "special": True},
    "additional_special_tokens": [],
    "added_tokens_decoder": {
        str(i): {"content": token} for i, token in enumerate(_SPECIAL)
    },
}


def _folder(path, *, config=None, pipeline=None, **files):
    if config is not None:
        files["tokenizer_config"] = config
    if pipeline is not None:
        files["tokenizer"] = pipeline
    for name, values in files.items():
        (path / f"{name}.json").write_text(json.dumps(values))
    return str(path)


def test_what_a_bert_states_is_read(tmp_path):
    stated = huggingface_tokenizer.read(
        _folder(tmp_path, config=_CONFIG, pipeline=_PIPELINE)
    )
    assert (stated.do_lower_case, stated.strip_accents) == (True, None)
    assert stated.max_seq_length == 512
    assert stated.sources == {
        "do_lower_case": "tokenizer_config.json",
        "max_seq_length": "tokenizer_config.json",
    }


@pytest.mark.parametrize("length", [int(1e30), 1e30, 10**9, 0, -1, None, "1"])
def test_a_length_that_is_no_limit_is_not_stated(tmp_path, length):
    """As transformers writes it for a tokenizer without a limit."""
    folder = _folder(tmp_path, config={"model_max_length": length})
    stated = huggingface_tokenizer.read(folder)
    assert stated == huggingface_tokenizer.TokenizerSettings()


@pytest.mark.parametrize(
    ("length", "file"),
    [
        (128, "sentence_bert_config.json"),
        (None, "tokenizer_config.json"),
        (10**30, "tokenizer_config.json"),
    ],
)
def test_the_length_of_a_sentence_encoder_is_before_that_of_the_tokenizer(
    tmp_path, length, file
):
    stated = huggingface_tokenizer.read(
        _folder(
            tmp_path,
            config={"model_max_length": 512},
            sentence_bert_config={"max_seq_length": length},
        )
    )
    assert stated.max_seq_length == (128 if length == 128 else 512)
    assert stated.sources["max_seq_length"] == file


def test_an_empty_list_of_words_that_are_never_split_is_berts(tmp_path):
    config = {**_CONFIG, "never_split": []}
    stated = huggingface_tokenizer.read(_folder(tmp_path, config=config))
    assert stated.do_lower_case is True


def test_a_folder_without_a_tokenizer_states_nothing(tmp_path):
    assert huggingface_tokenizer.read(str(tmp_path)) == (
        huggingface_tokenizer.TokenizerSettings()
    )


def test_the_configuration_is_before_the_pipeline(tmp_path):
    pipeline = json.loads(json.dumps(_PIPELINE))
    pipeline["normalizer"] |= {"lowercase": False, "strip_accents": False}
    stated = huggingface_tokenizer.read(
        _folder(tmp_path, config={"do_lower_case": True}, pipeline=pipeline)
    )
    assert (stated.do_lower_case, stated.strip_accents) == (True, False)
    assert stated.sources == {
        "do_lower_case": "tokenizer_config.json",
        "strip_accents": "tokenizer.json",
    }


def test_the_vocabulary_is_in_the_order_of_its_ids(tmp_path):
    shuffled = dict(reversed(_PIPELINE["model"]["vocab"].items()))
    model = _PIPELINE["model"] | {"vocab": shuffled}
    folder = _folder(tmp_path, pipeline=_PIPELINE | {"model": model})
    want = [*_SPECIAL, "a", "##b", "é"]
    path = f"{folder}/tokenizer.json"
    assert huggingface_tokenizer.vocabulary(path) == want
    # The name that folders had before stands for it, and so does the folder.
    for name in (path, f"{folder}/vocab.txt", folder):
        assert tokenization.read_entries(name) == want
        assert [*tokenization.load_vocab(name)] == want
    with pytest.raises(FileNotFoundError, match=r"words\.txt"):
        tokenization.load_vocab(f"{folder}/words.txt")
    # A file of that name is read as it is.
    (tmp_path / "vocab.txt").write_text("x\n")
    assert tokenization.read_entries(folder) == ["x"]


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"tokenizer_class": "BertJapaneseTokenizer"}, "tokenizer_class is"),
        ({"word_tokenizer_type": "mecab"}, "word_tokenizer_type is 'mecab'"),
        ({"subword_tokenizer_type": "character"}, "subword_tokenizer_type is"),
        ({"tokenize_chinese_chars": False}, "tokenize_chinese_chars is False"),
        ({"do_basic_tokenize": False}, "do_basic_tokenize is False"),
        ({"clean_text": False}, "clean_text is False"),
        ({"never_split": ["<x>"]}, "never_split is ['<x>'], not None"),
        ({"wordpieces_prefix": "@@"}, "wordpieces_prefix is '@@', not '##'"),
        ({"truncation_side": "left"}, "truncation_side is 'left', not 'right'"),
        ({"cls_token": "<s>"}, "cls_token is '<s>', not '[CLS]'"),
        ({"sep_token": "</s>"}, "sep_token is '</s>', not '[SEP]'"),
        ({"pad_token": "<pad>"}, "pad_token is '<pad>', not '[PAD]'"),
        ({"unk_token": "<unk>"}, "unk_token is '<unk>', not '[UNK]'"),
        ({"mask_token": {"content": "<mask>"}}, "mask_token is '<mask>'"),
        ({"additional_special_tokens": ["[E1]"]}, "[E1] are added tokens"),
        ({"extra_special_tokens": {"e": "[E1]"}}, "[E1] are added tokens"),
        ({"added_tokens_decoder": {"9": {"content": "[E1]"}}}, "[E1] are"),
        # Without tokenizer.json, nothing says what the class does.
        ({"tokenizer_class": "PreTrainedTokenizerFast"}, "tokenizer_class is"),
    ],
)
def test_another_tokenizer_than_berts_is_refused_by_its_entry(
    tmp_path, config, message
):
    folder = _folder(tmp_path, config=config)
    with pytest.raises(ValueError, match=re.escape(message)) as error:
        huggingface_tokenizer.read(folder)
    assert str(error.value).startswith(f"{folder}/tokenizer_config.json: ")


@pytest.mark.parametrize(
    ("step", "values", "message"),
    [
        ("model", {"type": "Unigram", "vocab": []}, "model is Unigram, not"),
        ("model", {"type": "BPE", "vocab": {"a": 0}}, "model is BPE, not Word"),
        ("model", {"type": "WordLevel", "vocab": {}}, "model is WordLevel"),
        ("model", {"type": "WordPiece", "unk_token": "<u>"}, "unk_token is"),
        (
            "model",
            {"type": "WordPiece", "continuing_subword_prefix": "@@"},
            "continuing_subword_prefix is '@@'",
        ),
        ("normalizer", {"type": "Lowercase"}, "normalizer is Lowercase, not"),
        ("normalizer", None, "normalizer is None, not BertNormalizer"),
        (
            "normalizer",
            {"type": "BertNormalizer", "handle_chinese_chars": False},
            "handle_chinese_chars is False",
        ),
        (
            "normalizer",
            {"type": "BertNormalizer", "clean_text": False},
            "clean_text is False",
        ),
        (
            "normalizer",
            {
                "type": "Sequence",
                "normalizers": [{"type": "NFC"}, {"type": "BertNormalizer"}],
            },
            "normalizer is Sequence of NFC, BertNormalizer",
        ),
        (
            "pre_tokenizer",
            {"type": "WhitespaceSplit"},
            "pre_tokenizer is WhitespaceSplit, not BertPreTokenizer",
        ),
        (
            "pre_tokenizer",
            {"type": "Sequence", "pretokenizers": [{"type": "Digits"}]},
            "pre_tokenizer is Sequence of Digits",
        ),
        (
            "post_processor",
            {"type": "TemplateProcessing", "single": _TEMPLATE[:2]},
            "post_processor makes [CLS], A of a text",
        ),
        ("added_tokens", [{"id": 9, "content": "<e>"}], "<e> are added tokens"),
    ],
)
def test_another_pipeline_than_berts_is_refused_by_its_step(
    tmp_path, step, values, message
):
    folder = _folder(
        tmp_path, config=_CONFIG, pipeline=_PIPELINE | {step: values}
    )
    with pytest.raises(ValueError, match=re.escape(message)):
        huggingface_tokenizer.read(folder)


@pytest.mark.parametrize("suffix", ["", "Fast"])
@pytest.mark.parametrize(
    "name", ["Bert", "DistilBert", "Electra", "MobileBert", "ConvBert"]
)
def test_classes_that_split_text_as_berts_are_read(tmp_path, name, suffix):
    config = _CONFIG | {"tokenizer_class": f"{name}Tokenizer{suffix}"}
    folder = _folder(tmp_path, config=config)
    assert huggingface_tokenizer.read(folder).do_lower_case is True


def test_the_general_class_does_what_the_pipeline_states(tmp_path):
    config = _CONFIG | {"tokenizer_class": "PreTrainedTokenizerFast"}
    folder = _folder(tmp_path, config=config, pipeline=_PIPELINE)
    assert huggingface_tokenizer.read(folder).do_lower_case is True


def test_added_tokens_of_the_slow_tokenizer_are_refused(tmp_path):
    folder = _folder(tmp_path, added_tokens={"[E1]": 29})
    with pytest.raises(ValueError, match=r"added_tokens\.json: \[E1\] are add"):
        huggingface_tokenizer.read(folder)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ({"type": "Unigram", "vocab": [["a", 0.5]]}, "must be of a model of"),
        ({"type": "BPE", "vocab": {"a": 0}}, "must be of a model of type"),
        ({"type": "WordPiece", "vocab": {"a": 0, "b": 2}}, "ids are 0, 1, 2"),
        ({"type": "WordPiece", "vocab": {"a": 0, "b": 0}}, "ids are 0, 1, 2"),
        ({"type": "WordPiece"}, "must have a vocabulary of word pieces"),
        (None, "must be of a model of type WordPiece"),
    ],
)
def test_a_vocabulary_that_is_not_of_word_pieces_is_refused(
    tmp_path, model, message
):
    folder = _folder(tmp_path, pipeline={"model": model})
    with pytest.raises(ValueError, match=message):
        tokenization.load_vocab(folder)


@pytest.mark.parametrize(
    "files",
    [
        {"pipeline": {"added_tokens": [{"id": 1}]}},
        {"pipeline": {"added_tokens": 7}},
        {"pipeline": {"normalizer": ["NFC"]}},
        {"pipeline": {"post_processor": {"single": [1]}}},
        {"config": {"added_tokens_decoder": [1]}},
        {"config": {"tokenizer_class": ["Bert"]}},
    ],
)
def test_files_of_another_form_are_an_error_of_one_line(tmp_path, files):
    with pytest.raises(ValueError, match="tokenizer"):
        huggingface_tokenizer.read(_folder(tmp_path, **files))
