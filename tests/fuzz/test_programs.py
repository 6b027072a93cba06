"""Whole programs given one damaged file among good ones.

Each goes as far as records are made, or a checkpoint is read and written
again: it then has made what the definition makes of these files, or sound
records, or has named the file.
"""

import itertools
import json
import pathlib
import random
import re
import shutil

import numpy as np
import pytest
import tensorflow as tf

import create_pretraining_data
import run_classifier
import run_ner
import run_squad
from bert.records import reading, schema, tfrecords
from bert.tasks.pretraining import encoded_corpus
from bert.training import run
from modeling import checkpoints
from tests.fuzz import harness, mutations
from tests.support import (
    definition,
    plain_masked_pairs,
    toy_files,
    toy_pretraining,
    toy_sentences,
    toy_squad,
    toy_tagging,
)
from tools import convert_checkpoint
from vocab import tokenization

_INSTANCES = {
    "max_seq_length": 16,
    "max_predictions_per_seq": 3,
    "dupe_factor": 2,
}
_TEXT = "the match was long .\na good town .\n\nrain , rain .\nbad match .\n"


@pytest.fixture(params=harness.suites(15, 500))
def num_cases(request):
    """Of each program and file; a case takes up to a tenth of a second."""
    return request.param


# The ids and the label of each record that a model would have learnt from.
_seen: list[tuple] = []


def _look_at_records(setup, options, folder, init):
    """Looks at the records that a model would learn from."""
    source = setup.records
    assert len(source.files)
    for start in range(0, len(source.files), 16):
        rows = range(start, min(start + 16, len(source.files)))
        # Checks ids and shapes.
        names = [source.files.name(row) for row in rows]
        batch = source.parse(
            tf.constant(source.files.read(rows)), tf.constant(names)
        )
        values = {name: value.numpy() for name, value in batch.items()}
        label = next(
            values[n] for n in ("label_ids", "start_positions") if n in values
        )
        for ids, mask, each in zip(
            values["input_ids"], values["input_mask"], label, strict=True
        ):
            _seen.append((tuple(ids[mask > 0].tolist()), each.tolist()))


@pytest.fixture(autouse=True)
def _no_model(monkeypatch):
    """Looks at the records where a program would train, in each of its runs."""
    monkeypatch.setattr(run, "run", _look_at_records)


@pytest.fixture
def check(tmp_path, num_cases):
    """Runs a program on damaged versions of one of its files.

    Some must be refused, and some read. The arguments are the program, without
    arguments of its own; the name of the file, good before and after; and
    whether a result
    is right, given what the program returned and the bytes.
    """

    def check(run, name, is_right=lambda result, content: True):
        outcome = _read_all(run, tmp_path, name, num_cases, is_right)
        assert outcome.num_refused
        # Of a table or a text, some damage is harmless.
        assert outcome.num_read or not name.endswith(("tsv", "txt"))

    return check


def _read_all(run, folder, name, num_cases, is_right):
    path = folder / name
    good = path.read_bytes()
    words = mutations.TEXT_WORDS
    if b"\0" in good:
        words = mutations.BINARY_WORDS
    cases = mutations.endless(3, [good], words)
    if path.suffix == ".json":
        parsed = mutations.endless_json(3, [json.loads(good)])
        cases = mutations.alternate(cases, parsed)
    cases = itertools.islice(cases, num_cases)
    try:
        run()
        # Where two files contradict each other, either may be named.
        named = f"{folder}/"
        return harness.read_all(lambda _: run(), path, cases, is_right, named)
    finally:
        path.write_bytes(good)


def _fresh(folder):
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.parametrize("name", ["text.txt", "vocab.txt"])
def test_create_pretraining_data(check, tmp_path, name):
    vocab, text = tmp_path / "vocab.txt", tmp_path / "text.txt"
    vocab.write_text("\n".join((*toy_sentences.WORDS, "rain", ",", ".")))
    text.write_text(_TEXT)
    options = create_pretraining_data.Options(
        input_file=str(text),
        output_file=str(tmp_path / "out/records"),
        vocab_file=str(vocab),
        **_INSTANCES,
    )
    features = schema.pretraining_features(16, 3)

    def run():
        _fresh(tmp_path / "out")
        create_pretraining_data.run(options)
        files = tfrecords.RecordFiles(options.output_files)
        return reading.parse(
            tf.constant(files.read(range(len(files)))), features
        )

    def is_right(found, _):
        wanted = _defined(options)
        return all(
            np.array_equal(value, [row[key] for row in wanted])
            for key, value in found.items()
        )

    check(run, name, is_right)


def _defined(options):
    """Makes the records by the plain definition."""
    tokenizer = tokenization.FullTokenizer(options.vocab_file)
    documents = plain_masked_pairs.tokenize_documents(
        encoded_corpus.read_documents([options.input_file]),
        tokenizer.tokenize,
    )
    rng = random.Random(options.random_seed)
    instances = plain_masked_pairs.create_training_instances(
        documents, list(tokenizer.vocab), options, rng
    )
    return [
        plain_masked_pairs.instance_features(
            each, tokenizer.convert_tokens_to_ids, options
        )
        for each in instances
    ]


@pytest.mark.parametrize(
    "name", ["data/train.tsv", "model/vocab.txt", "model/bert_config.json"]
)
def test_run_classifier(check, tmp_path, name):
    train = toy_sentences.sentences(30, seed=1)
    toy_sentences.write_data(tmp_path / "data", train)
    options = toy_sentences.parse(
        toy_sentences.flags_of(tmp_path, do_train=True)
    )
    program = _script(run_classifier, options, tmp_path / name)
    check(program, name, lambda found, _: _are_sentences(found, tmp_path))


@pytest.mark.parametrize(
    "name", ["train.json", "vocab.txt", "bert_config.json"]
)
def test_run_squad(check, tmp_path, name):
    named = toy_squad.flags_of(tmp_path, do_train=True)
    toy_files.write_json(tmp_path / "train.json", toy_squad.dataset(5))
    options = toy_squad.parse(named)
    program = _script(run_squad, options, tmp_path / name)
    good = program()

    def is_right(found, _):
        # What the files of questions mean, tests/fuzz/test_json_files.py says.
        return name != "bert_config.json" or found == good

    check(program, name, is_right)


@pytest.mark.parametrize("name", ["train.txt", "vocab.txt", "bert_config.json"])
def test_run_ner(check, tmp_path, name):
    toy_tagging.write_all(tmp_path, num_sentences=9)
    options = toy_tagging.parse(
        toy_tagging.flags_of(tmp_path, do_train=True, init_checkpoint=None)
    )
    program = _script(run_ner, options, tmp_path / name)
    check(program, name, lambda found, _: _are_tagged(found, tmp_path))


def _lines(path):
    text = path.read_bytes().decode("utf-8").removeprefix("\ufeff")
    return text.replace("\r", "").split("\n")


def _ids(texts, vocab_file, *, do_lower_case):
    """Makes the ids of texts by the plain definition."""
    vocab = tokenization.load_vocab(str(vocab_file))
    for text in texts:
        tokens = definition.tokenize(text, vocab, do_lower_case=do_lower_case)
        yield tuple(vocab[x] for x in ("[CLS]", *tokens, "[SEP]"))


def _are_sentences(found, folder):
    """Tells whether records are those of the rows, each with its own label."""
    header, *rows = (x.split("\t") for x in _lines(folder / "data/train.tsv"))
    while rows and not "".join(rows[-1]).strip(" "):
        rows.pop()
    text, label = header.index("text"), header.index("label")
    ids = _ids(
        (row[text] for row in rows),
        folder / "model/vocab.txt",
        do_lower_case=True,
    )
    wanted = [x if len(x) <= 24 else (*x[:23], x[-1]) for x in ids]
    pairs = {
        (str(each), row[label].strip())
        for (_, each), row in zip(found, rows, strict=True)
    }
    return [x for x, _ in found] == wanted and (
        len(pairs) == len({x for x, _ in pairs}) == len({x for _, x in pairs})
    )


def _are_tagged(found, folder):
    """Tells whether a record has words of the lines, and each line is in one.

    A record holds a sentence and, where there is room, those around it.
    """
    lines = [line.strip(" \t") for line in _lines(folder / "train.txt")]
    rows = [re.split("[ \t]+", x) for x in lines if x]
    words = [row[0] for row in rows if "-DOCSTART-" not in row]
    pieces = _ids(words, folder / "vocab.txt", do_lower_case=False)
    ids = [each[1:-1] for each in pieces]
    text = _spelled(x for each in ids for x in each)
    held = [_spelled(each[1:-1]) for each, _ in found]
    return all(each in text for each in held) and (
        max(map(len, lines)) > 1000  # Too long for a record.
        or all(any(_spelled(x) in record for record in held) for x in ids)
    )


def _spelled(ids):
    return "".join(f" {x} " for x in ids)


def _script(script, options, path):
    out = pathlib.Path(options.output_dir)

    def run():
        _fresh(out)
        _seen.clear()
        try:
            script.run(options)
        except ValueError as error:
            # Names a flag and an entry of the configuration instead.
            if "(max_position_embeddings)" not in str(error):
                raise
            raise ValueError(f"{path}: {error}") from error
        return [*_seen]

    return run


_EXTRA = re.compile("layer_[23]/")


@pytest.mark.parametrize("output_format", ["release", "huggingface"])
@pytest.mark.parametrize(
    "name",
    ["tiny.ckpt.index", "tiny.ckpt.data-00000-of-00001", "bert_config.json"],
)
def test_convert_checkpoint(check, tmp_path, name, output_format):
    for path in (toy_pretraining.GOLDEN / "model").glob("tiny.ckpt*"):
        shutil.copy(path, tmp_path)
    shutil.copy(toy_pretraining.CONFIG, tmp_path)
    out = tmp_path / "out"
    options = convert_checkpoint.Options(
        input=str(tmp_path / "tiny.ckpt"),
        output=str(out),
        output_format=output_format,
        # The model has output layers of several tasks.
        task="pretraining",
    )
    wanted = checkpoints.read(options.input)
    if output_format == "huggingface":  # Two layers, by the configuration.
        wanted = {k: v for k, v in wanted.items() if not _EXTRA.search(k)}

    def run():
        shutil.rmtree(out, ignore_errors=True)
        convert_checkpoint.convert(options)
        return checkpoints.read(options.output)

    def is_right(found, _):
        return found.keys() == wanted.keys() and all(
            np.array_equal(found[key], value) for key, value in wanted.items()
        )

    check(run, name, is_right)
