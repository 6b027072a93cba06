"""Files in, one vocabulary out, plain errors."""

import os

import pytest

from tests.support import programs
from tools import learn_vocab
from vocab import tokenization


def _run(**named):
    learn_vocab.run(programs.parse(learn_vocab.Options, **named))


@pytest.fixture
def corpus(tmp_path):
    (tmp_path / "one.txt").write_text("The tide turns.\nTides turn.\n")
    (tmp_path / "two.txt").write_text("A quay, Caf\xe9 quays.", "utf-8")
    return str(tmp_path / "*.txt")


def test_vocabulary_is_written_and_cuts_its_own_text(corpus, tmp_path, caplog):
    output = tmp_path / "made" / "vocab"
    _run(
        input_file=corpus,
        output_file=output,
        vocab_size=150,
        do_lower_case=False,
        num_workers=2,
    )
    assert "Wrote 150 entries" in caplog.text
    tokenizer = tokenization.FullTokenizer(str(output), do_lower_case=False)
    assert len(tokenizer.vocab) == 150
    pieces = tokenizer.tokenize("The tide turns. A quay, Caf\xe9 quays.")
    assert "[UNK]" not in pieces
    assert {"T", "##\xe9"} <= set(tokenizer.vocab)


def test_entries_are_left_unused_for_words_to_come(corpus, tmp_path):
    for number in (99, 120):
        _run(
            input_file=corpus,
            output_file=tmp_path / "vocab",
            vocab_size=51 + number,
            num_unused=number,
            do_lower_case=True,
            num_workers=1,
        )
        entries = (tmp_path / "vocab").read_text("utf-8").splitlines()
        assert len(entries) == 51 + number
        unused = [entry for entry in entries if "unused" in entry]
        assert unused == [f"[unused{place}]" for place in range(number)]


def test_accents_are_kept_if_wanted(corpus, tmp_path):
    entries = {}
    for strip in (True, False):
        output = tmp_path / f"made-{strip}"
        _run(
            input_file=corpus,
            output_file=output,
            vocab_size=150,
            do_lower_case=True,
            strip_accents=strip,
            num_workers=1,
        )
        entries[strip] = {*output.read_text("utf-8").splitlines()}
    assert "caf\xe9" in entries[False] and "cafe" not in entries[False]
    assert "cafe" in entries[True] and "caf\xe9" not in entries[True]


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("--vocab_size=110", "vocab_size must be at least"),
        ("--input_file=/none/*.txt", "No file matches '/none/*.txt'"),
    ],
)
def test_refusals_leave_the_earlier_file(corpus, tmp_path, argument, message):
    output = tmp_path / "vocab"
    output.write_text("earlier\n")
    given = f"--input_file={corpus}", f"--output_file={output}"
    given += "--num_workers=1", argument
    assert programs.refusal("tools.learn_vocab", given).startswith(message)
    assert output.read_text() == "earlier\n"
    assert sorted(os.listdir(tmp_path)) == ["one.txt", "two.txt", "vocab"]
