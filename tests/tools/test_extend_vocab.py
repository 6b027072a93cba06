import json
import shutil

import numpy as np
import pytest

from modeling import checkpoints
from modeling import config as config_lib
from tests.support import programs, toy_config, toy_files, toy_vocabulary
from tools import extend_vocab
from vocab import tokenization

_ENTRIES = [
    *("[PAD]", "[unused0]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"),
    *("[unused1]", "un", "##able", "##ed"),
]


@pytest.fixture
def extend(tmp_path):
    """Extends the vocabulary by a text; returns the new entries."""
    toy_files.write_lines(tmp_path / "vocab.txt", _ENTRIES)
    (tmp_path / "text.txt").write_text("Unable unableed.\n" * 3 + "uned\n")

    def run(**changes):
        named = {
            "vocab_file": tmp_path / "vocab.txt",
            "output_file": tmp_path / "more.txt",
            "input_file": tmp_path / "text.txt",
            "min_count": 2,
            **changes,
        }
        extend_vocab.run(programs.parse(extend_vocab.Options, **named))
        return toy_files.read_lines(named["output_file"])

    return run


def test_words_of_a_text_come_in(extend, tmp_path, caplog):
    caplog.set_level("INFO")
    entries = extend()
    assert (entries[1], entries[6]) == ("unableed", "unable")
    assert len(entries) == len(_ENTRIES)
    assert "with 2 new words: unableed, unable. 0 [unused]" in caplog.text
    # Or of a list of words, which are one piece from then on.
    (tmp_path / "words.txt").write_text("uned\n", encoding="utf-8-sig")
    entries = extend(input_file=tmp_path / "words.txt", min_count=1)
    assert (entries[1], entries[6]) == ("uned", "[unused1]")
    extended = tokenization.FullTokenizer(str(tmp_path / "more.txt"))
    assert extended.tokenize("Uned unable") == ["uned", "un", "##able"]


def test_words_may_have_digits_but_not_digits_alone(extend, tmp_path):
    (tmp_path / "text.txt").write_text("1234567 " * 9 + "b12 " * 3)
    entries = extend()
    assert (entries[1], entries[6]) == ("b12", "[unused1]")


def test_only_as_many_words_as_there_is_room_for_are_named(
    extend, tmp_path, caplog
):
    caplog.set_level("INFO")
    (tmp_path / "text.txt").write_text("unableed " * 9 + "unable uned " * 3)
    extend()
    assert "with 2 new words: unableed, unable. 0 [unused]" in caplog.text
    extend(num_words=1)
    assert "with 1 new words: unableed. 1 [unused]" in caplog.text


def test_the_words_of_a_cased_vocabulary_keep_their_capitals(extend, tmp_path):
    (tmp_path / "text.txt").write_text("Uned Uned Uned")
    assert extend(do_lower_case=False)[1] == "Uned"


def _model(folder, **changes):
    """Writes a model of the vocabulary; returns its table."""
    table = np.random.default_rng(0).normal(size=(10, 12)).astype(np.float32)
    variables = {
        "bert/embeddings/word_embeddings": table,
        "bert/embeddings/word_embeddings/adam_m": table,
        "cls/predictions/output_bias": np.arange(10, dtype=np.float32),
        "bert/pooler/dense/bias": np.ones(2, np.float32),
        "global_step": np.int64(7),
    }
    checkpoints.save(str(folder / "bert_model.ckpt"), variables | changes)
    toy_config.write(folder / "bert_config.json", vocab_size=10)
    toy_files.write_lines(folder / "vocab.txt", _ENTRIES)
    return table


def _of_model(folder):
    """Names the flags that extend the model in a folder, too."""
    target = folder / "start/bert_model.ckpt"
    return {"init_checkpoint": folder, "output_checkpoint": target}


def test_new_words_begin_as_the_mean_of_their_pieces(extend, tmp_path):
    table = _model(tmp_path)
    extend(**_of_model(tmp_path))
    written = checkpoints.read(str(tmp_path / "start/bert_model.ckpt"))
    assert set(written) == {
        "bert/embeddings/word_embeddings",
        "cls/predictions/output_bias",
        "bert/pooler/dense/bias",
    }
    changed = written["bert/embeddings/word_embeddings"]
    np.testing.assert_allclose(changed[1], table[[7, 8, 9]].mean(axis=0))
    np.testing.assert_allclose(changed[6], table[[7, 8]].mean(axis=0))
    others = [0, 2, 3, 4, 5, 7, 8, 9]
    np.testing.assert_array_equal(changed[others], table[others])
    new_bias = written["cls/predictions/output_bias"]
    np.testing.assert_allclose(new_bias[[1, 6]], [8.0, 7.5])


def test_the_folder_of_the_model_describes_it(extend, tmp_path):
    _model(tmp_path)
    tokens = tokenization.load_vocab(str(tmp_path / "vocab.txt"))
    task = {
        "task": "pretraining",
        "do_lower_case": True,
        "vocab_sha256": tokenization.vocab_sha256(tokens),
    }
    toy_files.write_json(tmp_path / "task.json", task)
    flags, start = _of_model(tmp_path), tmp_path / "start"
    extend(**flags)
    config = config_lib.BertConfig.from_checkpoint(str(tmp_path))
    assert config_lib.BertConfig.from_checkpoint(str(start)) == config
    vocab_file = start / "vocab.txt"
    assert vocab_file.read_text() == (tmp_path / "more.txt").read_text()
    vocab = tokenization.load_vocab(str(vocab_file))
    task["vocab_sha256"] = tokenization.vocab_sha256(vocab)
    assert toy_files.read_json(start / "task.json") == task
    with pytest.raises(FileExistsError, match="must be in a new folder"):
        extend(**flags)
    shutil.rmtree(start)
    entries = extend(**flags, output_file=vocab_file)
    assert entries == toy_files.read_lines(tmp_path / "more.txt")


@pytest.mark.parametrize(
    ("name", "content", "flags", "message"),
    [
        (
            "task.json",
            '{"strip_accents": false}',
            {"strip_accents": True},
            "strip_accents is False there and True here",
        ),
        ("vocab.txt", "a\nb\n", {}, "must be that of the model"),
        (
            "bert_config.json",
            json.dumps(toy_config.sizes(vocab_size=9)),
            {},
            "has 10 entries, but the model's",
        ),
        ("a", "", {"output_checkpoint": "copy.ckpt"}, r"; got copy\.ckpt\."),
        ("a", "", {"output_checkpoint": None}, "--output_checkpoint together"),
    ],
)
def test_what_does_not_fit_the_model_is_refused(
    extend, tmp_path, name, content, flags, message
):
    folder = tmp_path / "model"
    _model(folder)
    (folder / name).write_text(content)
    with pytest.raises((ValueError, FileExistsError), match=message):
        extend(**{**_of_model(folder), **flags})
    assert not (tmp_path / "more.txt").exists()
    assert not (folder / "start").exists()


def test_the_casing_is_that_of_the_model(extend, tmp_path):
    folder = tmp_path / "model"
    _model(folder)
    task = {"do_lower_case": True, "strip_accents": False}
    toy_files.write_json(folder / "task.json", task)
    (tmp_path / "text.txt").write_text("häuser " * 30, encoding="utf-8")
    added = extend(**_of_model(folder))
    assert "häuser" in added and "hauser" not in added


# ------------------------------------------------------ Choosing and placing

_LONGER = [
    *("[PAD]", "[unused0]", "[UNK]", "[unused1]", "un", "##able", "##ed"),
    *("able", "a", "##b", "[unused2]", "[unusedx]"),
]


@pytest.fixture
def tokenizer(tmp_path):
    return toy_vocabulary.tokenizer(tmp_path, _LONGER)


def test_words_that_save_most_come_first(tokenizer):
    def choose(counts, num_words=9, min_count=2):
        pieces = tokenizer.wordpiece_tokenizer
        return extend_vocab.choose_words(
            counts, pieces, num_words=num_words, min_count=min_count
        )

    counts = {
        "unable": 5,  # un ##able: saves 1 each.
        "unableed": 4,  # un ##able ##ed: saves 2 each.
        "xyz": 2,  # unknown: counts as three letters.
        "able": 100,  # an entry already.
        "ab": 1,  # too rare.
        "12": 50,  # no letter.
    }
    assert choose(counts) == ["unableed", "xyz", "unable"]
    assert choose(counts, num_words=1) == ["unableed"]
    # A longer word is [UNK] whatever the vocabulary has.
    longest = "a" * 200
    assert choose({longest: 2, f"{longest}a": 2}) == [longest]
    # Equals come by the alphabet.
    equal = choose({"uned": 2, "abed": 1, "unb": 2}, min_count=1)
    assert equal == ["abed", "unb", "uned"]
