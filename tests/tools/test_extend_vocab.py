import shutil

import numpy as np
import pytest

from modeling import checkpoints
from modeling import config as config_lib
from tests.support import toy_config, toy_files, toy_vocabulary
from tools import extend_vocab
from vocab import tokenization

_ENTRIES = [
    *("[PAD]", "[unused0]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"),
    *("[unused1]", "un", "##able", "##ed"),
]


@pytest.fixture
def options(tmp_path):
    toy_files.write_lines(tmp_path / "vocab.txt", _ENTRIES)
    (tmp_path / "text.txt").write_text("Unable unableed.\n" * 3 + "uned\n")

    def make(**changes):
        values = {
            "vocab_file": str(tmp_path / "vocab.txt"),
            "output_file": str(tmp_path / "more.txt"),
            "input_file": str(tmp_path / "text.txt"),
            "min_count": 2,
        }
        return extend_vocab.Options(**{**values, **changes})

    return make


def test_words_of_a_text_come_in(options, tmp_path, caplog):
    caplog.set_level("INFO")
    extend_vocab.run(options())
    entries = (tmp_path / "more.txt").read_text().splitlines()
    assert (entries[1], entries[6]) == ("unableed", "unable")
    assert len(entries) == len(_ENTRIES)
    assert "with 2 new words: unableed, unable. 0 [unused]" in caplog.text
    # Or of a list of words, which are one piece from then on.
    (tmp_path / "words.txt").write_text("uned\n", encoding="utf-8-sig")
    extend_vocab.run(
        options(input_file=str(tmp_path / "words.txt"), min_count=1)
    )
    entries = (tmp_path / "more.txt").read_text().splitlines()
    assert (entries[1], entries[6]) == ("uned", "[unused1]")
    extended = tokenization.FullTokenizer(str(tmp_path / "more.txt"))
    assert extended.tokenize("Uned unable") == ["uned", "un", "##able"]


def test_words_may_have_digits_but_not_digits_alone(options, tmp_path):
    (tmp_path / "text.txt").write_text("1234567 " * 9 + "b12 " * 3)
    extend_vocab.run(options())
    entries = (tmp_path / "more.txt").read_text().splitlines()
    assert (entries[1], entries[6]) == ("b12", "[unused1]")


def test_only_as_many_words_as_there_is_room_for_are_named(
    options, tmp_path, caplog
):
    caplog.set_level("INFO")
    (tmp_path / "text.txt").write_text("unableed " * 9 + "unable uned " * 3)
    extend_vocab.run(options())
    assert "with 2 new words: unableed, unable. 0 [unused]" in caplog.text
    extend_vocab.run(options(num_words=1))
    assert "with 1 new words: unableed. 1 [unused]" in caplog.text


def test_the_words_of_a_cased_vocabulary_keep_their_capitals(options, tmp_path):
    (tmp_path / "text.txt").write_text("Uned Uned Uned")
    extend_vocab.run(options(do_lower_case=False))
    assert (tmp_path / "more.txt").read_text().splitlines()[1] == "Uned"


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


def _extend(options, folder, **changes):
    target = folder / "start/bert_model.ckpt"
    extend_vocab.run(
        options(
            init_checkpoint=str(folder),
            output_checkpoint=str(target),
            **changes,
        )
    )
    return target


def test_new_words_begin_as_the_mean_of_their_pieces(options, tmp_path):
    table = _model(tmp_path)
    written = checkpoints.read(str(_extend(options, tmp_path)))
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


def test_the_folder_of_the_model_describes_it(options, tmp_path):
    _model(tmp_path)
    tokens = tokenization.load_vocab(str(tmp_path / "vocab.txt"))
    task = {
        "task": "pretraining",
        "do_lower_case": True,
        "vocab_sha256": tokenization.vocab_sha256(tokens),
    }
    toy_files.write_json(tmp_path / "task.json", task)
    start = _extend(options, tmp_path).parent
    config = config_lib.BertConfig.from_checkpoint(str(tmp_path))
    assert config_lib.BertConfig.from_checkpoint(str(start)) == config
    vocab_file = start / "vocab.txt"
    assert vocab_file.read_text() == (tmp_path / "more.txt").read_text()
    vocab = tokenization.load_vocab(str(vocab_file))
    task["vocab_sha256"] = tokenization.vocab_sha256(vocab)
    assert toy_files.read_json(start / "task.json") == task
    with pytest.raises(FileExistsError, match="must be in a new folder"):
        _extend(options, tmp_path)
    shutil.rmtree(start)
    _extend(options, tmp_path, output_file=str(vocab_file))
    assert vocab_file.read_text() == (tmp_path / "more.txt").read_text()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "task.json",
            '{"strip_accents": false}',
            "strip_accents is False there and True here",
        ),
        ("vocab.txt", "a\nb\n", "must be that of the model"),
    ],
)
def test_another_model_is_refused(options, tmp_path, name, content, message):
    folder = tmp_path / "model"
    _model(folder)
    (folder / name).write_text(content)
    with pytest.raises(ValueError, match=message):
        _extend(options, folder, strip_accents=True)


def test_the_casing_is_that_of_the_model(options, tmp_path):
    folder = tmp_path / "model"
    _model(folder)
    task = {"do_lower_case": True, "strip_accents": False}
    toy_files.write_json(folder / "task.json", task)
    (tmp_path / "text.txt").write_text("häuser " * 30, encoding="utf-8")
    _extend(options, folder, input_file=str(tmp_path / "text.txt"))
    added = (tmp_path / "more.txt").read_text("utf-8").splitlines()
    assert "häuser" in added and "hauser" not in added


def test_the_vocabulary_must_be_the_models(options, tmp_path):
    _model(tmp_path)
    toy_config.write(tmp_path / "bert_config.json", vocab_size=9)
    with pytest.raises(ValueError, match=r"has 10 entries, but the model's"):
        _extend(options, tmp_path)
    assert not (tmp_path / "more.txt").exists()
    assert not (tmp_path / "start").exists()


def test_the_copy_of_a_model_is_in_a_folder_of_its_own(options, tmp_path):
    _model(tmp_path)
    with pytest.raises(FileExistsError, match=r"; got copy\.ckpt\."):
        extend_vocab.run(
            options(
                init_checkpoint=str(tmp_path), output_checkpoint="copy.ckpt"
            )
        )
    assert not (tmp_path / "more.txt").exists()


def test_a_model_and_its_copy_go_together(options):
    with pytest.raises(ValueError, match="--output_checkpoint together"):
        options(init_checkpoint="x")


# ------------------------------------------------------ Choosing and placing

_LONGER = [
    *("[PAD]", "[unused0]", "[UNK]", "[unused1]", "un", "##able", "##ed"),
    *("able", "a", "##b", "[unused2]", "[unusedx]"),
]


@pytest.fixture
def tokenizer(tmp_path):
    return toy_vocabulary.tokenizer(tmp_path, _LONGER)


def test_words_that_save_most_come_first(tokenizer):
    counts = {
        "unable": 5,  # un ##able: saves 1 each.
        "unableed": 4,  # un ##able ##ed: saves 2 each.
        "xyz": 2,  # unknown: counts as three letters.
        "able": 100,  # an entry already.
        "ab": 1,  # too rare.
        "12": 50,  # no letter.
    }
    chosen = extend_vocab.choose_words(
        counts, tokenizer.wordpiece_tokenizer, num_words=9, min_count=2
    )
    assert chosen == ["unableed", "xyz", "unable"]
    first = extend_vocab.choose_words(
        counts, tokenizer.wordpiece_tokenizer, num_words=1, min_count=2
    )
    assert first == chosen[:1]
    # A longer word is [UNK] whatever the vocabulary has.
    longest = "a" * 200
    chosen = extend_vocab.choose_words(
        {longest: 2, f"{longest}a": 2},
        tokenizer.wordpiece_tokenizer,
        num_words=9,
        min_count=2,
    )
    assert chosen == [longest]
    # Equals come by the alphabet.
    chosen = extend_vocab.choose_words(
        {"uned": 2, "abed": 1, "unb": 2},
        tokenizer.wordpiece_tokenizer,
        num_words=9,
        min_count=1,
    )
    assert chosen == ["abed", "unb", "uned"]
