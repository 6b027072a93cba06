import json

import numpy as np
import pytest

from modeling import checkpoints
from modeling import config as config_lib
from tests import toy_config, toy_vocabulary
from tools import extend_vocab
from training import records
from vocab import tokenization

_ENTRIES = [
    *("[PAD]", "[unused0]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"),
    *("[unused1]", "un", "##able", "##ed"),
]


@pytest.fixture
def options(tmp_path):
    (tmp_path / "vocab.txt").write_text("\n".join(_ENTRIES) + "\n")
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


def test_given_words_come_in(options, tmp_path, caplog):
    (tmp_path / "words.txt").write_text("uned\n", encoding="utf-8-sig")
    caplog.set_level("INFO")
    extend_vocab.run(
        options(
            input_file=None,
            words_file=str(tmp_path / "words.txt"),
        )
    )
    entries = (tmp_path / "more.txt").read_text().splitlines()
    assert entries[1] == "uned"
    assert entries[6] == "[unused1]"
    assert "with 1 new words: uned. 1 [unused] entries are" in caplog.text
    # Or those of a text.
    extend_vocab.run(options())
    entries = (tmp_path / "more.txt").read_text().splitlines()
    assert (entries[1], entries[6]) == ("unableed", "unable")
    assert len(entries) == len(_ENTRIES)


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
    (folder / "vocab.txt").write_text("\n".join(_ENTRIES) + "\n")
    return table


def _extend(options, folder, target="start/bert_model.ckpt"):
    target = folder / target
    extend_vocab.run(
        options(init_checkpoint=str(folder), output_checkpoint=str(target))
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
    task = {"task": "pretraining", "do_lower_case": True, "vocab_sha256": "x"}
    (tmp_path / "task.json").write_text(json.dumps(task))
    start = _extend(options, tmp_path).parent
    config = config_lib.BertConfig.find(str(tmp_path))
    assert config_lib.BertConfig.find(str(start)) == config
    vocab_file = start / "vocab.txt"
    assert vocab_file.read_text() == (tmp_path / "more.txt").read_text()
    vocab = tokenization.load_vocab(str(vocab_file))
    task["vocab_sha256"] = records.vocab_sha256(vocab)
    assert json.loads((start / "task.json").read_text()) == task
    with pytest.raises(FileExistsError, match="must be in a new folder"):
        _extend(options, tmp_path)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("task.json", '{"do_lower_case": false}', "do_lower_case is False th"),
        ("vocab.txt", "a\nb\n", "must be that of the model"),
    ],
)
def test_another_model_is_refused(options, tmp_path, name, content, message):
    folder = tmp_path / "model"
    _model(folder)
    (folder / name).write_text(content)
    with pytest.raises(ValueError, match=message):
        _extend(options, folder)


def test_the_vocabulary_must_be_the_models(options, tmp_path):
    _model(tmp_path)
    toy_config.write(tmp_path / "bert_config.json", vocab_size=9)
    with pytest.raises(ValueError, match=r"has 10 entries, but the model's"):
        _extend(options, tmp_path)
    assert not (tmp_path / "more.txt").exists()
    assert not (tmp_path / "start").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"input_file": None}, "Pass one of --input_file and --words_file"),
        ({"init_checkpoint": "x"}, "--output_checkpoint together"),
        ({"min_count": 99}, "There is no word to add"),
    ],
)
def test_invalid_options_are_refused(options, changes, message):
    with pytest.raises(ValueError, match=message):
        extend_vocab.run(options(**changes))


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
    # Equals come by the alphabet.
    chosen = extend_vocab.choose_words(
        {"uned": 2, "abed": 1, "unb": 2},
        tokenizer.wordpiece_tokenizer,
        num_words=9,
        min_count=1,
    )
    assert chosen == ["abed", "unb", "uned"]


def test_words_take_free_places_and_no_id_changes(tokenizer, tmp_path):
    assert extend_vocab.free_places(_LONGER) == [1, 3, 10]
    filled = extend_vocab.fill(_LONGER, ["unableed", "words"])
    assert filled == [_LONGER[0], "unableed", _LONGER[2], "words", *_LONGER[4:]]
    with pytest.raises(ValueError, match="each of 4 words; it has 3"):
        extend_vocab.fill(_LONGER, ["a1", "a2", "a3", "a4"])
    # A word that is put in is one piece.
    path = tmp_path / "more.txt"
    path.write_text("\n".join(filled) + "\n")
    extended = tokenization.FullTokenizer(str(path))
    assert tokenizer.tokenize("Unableed") == ["un", "##able", "##ed"]
    assert extended.tokenize("Unableed unable") == ["unableed", "un", "##able"]


def test_given_words_are_taken_once_and_in_order(tokenizer):
    words = [" new ", "", "able", "word", "new"]
    assert extend_vocab.check_words(words, tokenizer) == ["new", "word"]


@pytest.mark.parametrize("word", ["covid-19", "Upper", "two words", "é"])
def test_a_given_word_must_be_one_to_the_tokenizer(tokenizer, word):
    with pytest.raises(ValueError, match="must be one word as the tokenizer"):
        extend_vocab.check_words([word], tokenizer)
