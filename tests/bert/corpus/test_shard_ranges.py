"""Runs: each worker reads its shards as a reader of the complete text does."""

import itertools
import random
import re

import pytest

from bert.corpus import formats, pretraining_shards, shard_ranges


def _text(paths, shard_documents, rules=None):
    return pretraining_shards.InputText(
        paths=tuple(map(str, paths)),
        rules=rules,
        shard_documents=shard_documents,
    )


def _plan(text):
    # Without the processes of `count_documents`.
    counts = [shard_ranges.count_file(text.rules, path) for path in text.paths]
    return shard_ranges.divide(text, counts)


def _read(runs):
    return list(
        itertools.chain.from_iterable(map(shard_ranges.read_shards, runs))
    )


def _write(folder, *contents):
    paths = [folder / f"{number}.txt" for number in range(len(contents))]
    for path, content in zip(paths, contents, strict=True):
        path.write_bytes(content)
    return paths


@pytest.mark.parametrize("seed", range(40))
def test_runs_are_the_shards_of_one_reader(tmp_path, seed):
    # Documents that begin in one file and end in another, files without a
    # line, of blank lines, without a blank line, with carriage returns.
    rng = random.Random(seed)
    ends = (b"\n", b"\n", b"\r\n", b" \n")
    contents = [
        b"".join(
            rng.choice([b"", b"", b"a", b"b c", b"d"]) + rng.choice(ends)
            for _ in range(rng.choice([0, 1, 2, 7, 30]))
        )
        + rng.choice([b"", b"rest", b"\r"])
        for _ in range(6)
    ]
    text = _text(_write(tmp_path, *contents), 1 + seed % 5)
    runs = _plan(text)
    wanted = list(pretraining_shards.read_shards(text))
    assert _read(runs) == wanted
    assert sum(run.num_shards for run in runs) == len(wanted)


def test_a_document_over_three_files_is_read_by_one_run(tmp_path):
    paths = _write(tmp_path, b"a\n\nb\n", b"c\n", b"", b"d\n\ne\n")
    text = _text(paths, 1)
    first, second, third = _plan(text)
    assert first.text.paths == text.paths[:1]
    assert second.text.paths == text.paths
    assert third.text.paths == text.paths[3:]
    assert (first.num_skipped, second.num_skipped) == (0, 1)
    assert third.num_skipped == 1
    documents = [shard[0].lines for _, shard in _read([first, second, third])]
    assert documents == [["a"], ["b", "c", "d"], ["e"]]


def test_a_file_of_blank_lines_ends_a_document_and_an_empty_one_does_not(
    tmp_path,
):
    contents = {b"": [["a", "b"]], b"\n": [["a"], ["b"]]}
    for between, wanted in contents.items():
        text = _text(_write(tmp_path, b"a\n", between, b"b\n"), 5)
        ((_, shard),) = _read(_plan(text))
        assert [document.lines for document in shard] == wanted


@pytest.mark.parametrize(
    ("num_shards", "sizes"),
    [(1, [1]), (16, [1] * 16), (17, [2] * 8 + [1]), (64, [4] * 16)],
)
def test_a_file_has_at_most_sixteen_runs(tmp_path, num_shards, sizes):
    # The last shard is a rest.
    text = _text(_write(tmp_path, b"a\n\n" * (3 * num_shards - 1)), 3)
    runs = _plan(text)
    assert [run.num_shards for run in runs] == sizes
    assert [number for number, _ in _read(runs)] == list(range(num_shards))
    assert runs[-1].num_documents == 3 * sizes[-1] - 1


def test_small_files_share_a_run(tmp_path):
    text = _text(_write(tmp_path, *[b"a\n\nb\n\n"] * 7), 4)
    runs = _plan(text)
    places = [(len(run.text.paths), run.num_skipped) for run in runs]
    # The next file tells that a document has ended.
    assert places == [(3, 0), (3, 0), (3, 0), (1, 0)]
    assert runs[1].text.paths == text.paths[2:5]


def test_documents_of_other_formats_end_with_their_file(tmp_path):
    lines = b'{"text": "a"}\n{"text": "b"}\n{"text": "c"}\n'
    text = _text(
        _write(tmp_path, lines, lines), 2, formats.Rules(input_format="jsonl")
    )
    runs = _plan(text)
    assert _read(runs) == list(pretraining_shards.read_shards(text))
    assert [run.num_skipped for run in runs] == [0, 2, 1]


def test_text_without_a_document_has_no_run(tmp_path):
    assert _plan(_text(_write(tmp_path, b"\n \n", b""), 2)) == []


def test_a_text_that_has_changed_is_refused(tmp_path):
    path, *_ = _write(tmp_path, b"a\n\nb\n\nc\n")
    (run,) = _plan(_text([path], 5))
    path.write_bytes(b"a\n\nb\n")
    message = f"Shard 0 must have 3 documents; got 2. {re.escape(str(path))}"
    with pytest.raises(ValueError, match=message):
        list(shard_ranges.read_shards(run))


def test_files_are_counted_in_their_order(tmp_path):
    paths = _write(tmp_path, b"a\n\nb\n", b"\nc\n\n", b"")
    counts = shard_ranges.count_documents(_text(paths, 2))
    assert counts == [
        shard_ranges.FileCount(
            num_documents=2, starts_open=True, ends_open=True
        ),
        shard_ranges.FileCount(num_documents=1),
        shard_ranges.FileCount(num_documents=0, is_empty=True),
    ]


def test_errors_of_a_file_name_it(tmp_path):
    paths = _write(tmp_path, b"a\n", b"b\n\xe9\n")
    with pytest.raises(ValueError, match=r"1\.txt, line 2: not UTF-8"):
        shard_ranges.count_documents(_text(paths, 2))
    with pytest.raises(ValueError, match="/dev/null must be a regular file"):
        shard_ranges.count_documents(_text(["/dev/null"], 2))
