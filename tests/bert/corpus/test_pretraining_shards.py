"""Shards: each equals a run of the release, whichever process makes it."""

import json
import os
import pathlib
import random

import pytest

import create_pretraining_data as program
from bert.records import sidecars
from tests.support import locations, moments, toy_vocabulary

_WORDS = pathlib.Path(locations.VOCAB_FILE).read_text("utf-8").split()[100:]


def _documents(num_documents, seed=1):
    rng = random.Random(seed)
    return [
        [
            " ".join(rng.choices(_WORDS, k=rng.randint(3, 20)))
            for _ in range(rng.randint(1, 12))
        ]
        for _ in range(num_documents)
    ]


def _write_text(path, documents):
    text = "\n\n".join("\n".join(document) for document in documents)
    path.write_text(text + "\n", encoding="utf-8")
    return str(path)


def _run(input_file, output_file, num_workers=1, **values):
    program.run(
        program.Options(
            input_file=str(input_file),
            output_file=str(output_file),
            vocab_file=locations.VOCAB_FILE,
            dupe_factor=2,
            num_workers=num_workers,
            **values,
        )
    )


def _record_bytes(folder):
    """Returns the record files of a folder by name."""
    return {
        path.name: path.read_bytes()
        for path in sorted(folder.iterdir())
        if not path.name.endswith(".meta.json")
    }


def test_hash_of_a_text_knows_where_its_documents_end(tmp_path):
    hashes = set()
    for documents in (
        [["the rain"], ["was long"]],
        [["the rain", "was long"]],
        [["the rain\x0bwas long"]],
        [["the rainwas long"]],
        [["the"], [" rainwas long"]],
    ):
        _run(_write_text(tmp_path / "text", documents), tmp_path / "x")
        hashes.add(sidecars.read_metadata(str(tmp_path / "x")).text_sha256)
    assert len(hashes) == 5


def test_hash_of_a_text_knows_its_titles_and_lone_surrogates(tmp_path):
    hashes = set()
    for line in (
        '{"text": "the rain\\nthe long match ."}',
        '{"title": "the rain", "text": "the rain\\nthe long match ."}',
        '{"text": "the rain\\ud83d\\nthe long match ."}',
    ):
        (tmp_path / "text").write_text(f"{line}\n")
        _run(tmp_path / "text", tmp_path / "x", input_format="jsonl")
        hashes.add(sidecars.read_metadata(str(tmp_path / "x")).text_sha256)
    assert len(hashes) == 3


def test_sidecar_leaves_out_what_changes_no_record(tmp_path, text):
    _run(text, tmp_path / "x", num_workers=1)
    flags = sidecars.read_metadata(str(tmp_path / "x")).flags
    assert {"vocab_file", "dupe_factor", "shard_documents"} <= flags.keys()
    assert not {"num_workers", "runner"} & flags.keys()


@pytest.fixture
def text(tmp_path):
    return _write_text(tmp_path / "text.txt", _documents(11))


def test_a_shard_is_a_run_of_its_documents_with_the_next_seed(tmp_path, text):
    _run(text, tmp_path / "all/x.rec", shard_documents=4, random_seed=70)
    made = _record_bytes(tmp_path / "all")
    assert list(made) == ["x-00000.rec", "x-00001.rec", "x-00002.rec"]
    for number, name in enumerate(made):
        part = _documents(11)[4 * number : 4 * number + 4]
        alone = _write_text(tmp_path / f"{number}.txt", part)
        _run(alone, tmp_path / f"alone/{number}", random_seed=70 + number)
        assert (tmp_path / f"alone/{number}").read_bytes() == made[name]
        flags = sidecars.read_metadata(str(tmp_path / "all" / name)).flags
        assert (flags["random_seed"], flags["shard"]) == (70 + number, number)


def test_workers_change_nothing(tmp_path, text):
    for num_workers in (1, 2):
        _run(
            text, tmp_path / f"{num_workers}/x", num_workers, shard_documents=2
        )
    made = _record_bytes(tmp_path / "1")
    assert len(made) == 6
    assert _record_bytes(tmp_path / "2") == made


def test_a_vocabulary_that_changed_under_its_name_is_read_again(tmp_path):
    (tmp_path / "text").write_text("rain rain\nrain\n")
    made = []
    for words in (["rain", "snow"], ["snow", "rain"]):
        (tmp_path / "vocab").write_text(
            "\n".join([*toy_vocabulary.SPECIAL, *words])
        )
        program.run(
            program.Options(
                input_file=str(tmp_path / "text"),
                output_file=str(tmp_path / "x"),
                vocab_file=str(tmp_path / "vocab"),
                dupe_factor=1,
                dynamic_masking=True,
            )
        )
        made.append((tmp_path / "x").read_bytes())
    assert made[0] != made[1]


def test_the_size_of_a_corpus_is_not_that_of_its_new_shards(tmp_path, caplog):
    text = _write_text(tmp_path / "text", _documents(2))
    _run(text, tmp_path / "x", shard_documents=1)
    (tmp_path / "x-00001").unlink()
    caplog.clear()
    _run(text, tmp_path / "x", shard_documents=1)
    assert "Kept 1 of 2 shards." in caplog.text
    assert "The corpus is one document" not in caplog.text


def test_a_shard_without_a_sentence_has_no_file(tmp_path):
    text = tmp_path / "text"
    text.write_text("the rain\n\nthe long match\n")
    _run(text, tmp_path / "x", shard_documents=1)
    assert (tmp_path / "x-00001").exists()
    text.write_text("the rain\n\n\x01\n")
    _run(text, tmp_path / "x", shard_documents=1)
    assert not list(tmp_path.glob("x-00001*"))


def test_shards_of_one_document_are_warned_of(tmp_path, caplog):
    for number in (2, 3):
        text = _write_text(tmp_path / "text", _documents(number))
        _run(text, tmp_path / f"{number}", shard_documents=1)
        message = f"{number} shards have a single document each"
        assert message in caplog.text
    caplog.clear()
    # A rest.
    _run(text, tmp_path / "y", shard_documents=2)
    assert "single document" not in caplog.text


def _identities(folder):
    # The number alone may be that of a file since deleted.
    states = {path.name: path.stat() for path in folder.iterdir()}
    return {n: (state.st_ino, state.st_mtime_ns) for n, state in states.items()}


def test_finished_shards_are_not_made_again(tmp_path, text, caplog):
    folder = tmp_path / "out"
    _run(text, folder / "x", shard_documents=3)
    made = _record_bytes(folder)
    # Another shard is lost, and one killed between a file and its sidecar.
    (folder / "x-00001").unlink()
    (folder / "x-00002.meta.json").unlink()
    before = _identities(folder)
    caplog.clear()
    _run(text, folder / "x", shard_documents=3)
    assert _record_bytes(folder) == made
    after = _identities(folder)
    kept = {"x-00000", "x-00000.meta.json", "x-00003", "x-00003.meta.json"}
    assert {name for name in before if before[name] == after.get(name)} == kept
    assert "Kept 2 of 4 shards." in caplog.text
    caplog.clear()
    _run(text, folder / "x", shard_documents=3)
    assert "Kept 4 of 4 shards." in caplog.text
    assert " 0 documents" not in caplog.text


@pytest.mark.parametrize("change", ["seed", "text"])
def test_shards_of_other_options_are_made_again(tmp_path, text, change):
    _run(text, tmp_path / "out/x", shard_documents=6)
    before = _record_bytes(tmp_path / "out")
    if change == "text":
        _write_text(pathlib.Path(text), _documents(11, seed=2))
    seed = 2 if change == "seed" else 12345
    _run(text, tmp_path / "out/x", shard_documents=6, random_seed=seed)
    after = _record_bytes(tmp_path / "out")
    assert list(after) == list(before)
    assert all(after[name] != before[name] for name in after)


_WIKI = """<doc id="1" url="u" title="Rain">
Rain

The rain fell on the players all day long . The match was long .
Short .
The players began again after the rain , and it was a long match .

</doc>
"""


def test_other_formats_are_split_into_sentences(tmp_path, caplog):
    (tmp_path / "wiki").write_text(_WIKI)
    text = _WIKI.split("\n\n")[1]
    (tmp_path / "jsonl").write_text(json.dumps({"body": text}) + "\n")
    plain = tmp_path / "plain"
    long, _, last = text.split("\n")[:3]
    first, second = long.split(" . ")
    plain.write_text(f"{first} .\n{second}\n{last}\n")
    _run(plain, tmp_path / "expected")
    expected = (tmp_path / "expected").read_bytes()
    _run(tmp_path / "wiki", tmp_path / "a", input_format="wikiextractor")
    assert (tmp_path / "a").read_bytes() == expected
    assert "paragraphs of fewer than 8 words: 1;" in caplog.text
    assert "1 documents, 3 sentences." in caplog.text
    assert "without a token" not in caplog.text
    _run(
        tmp_path / "jsonl",
        tmp_path / "b",
        input_format="jsonl",
        text_field="body",
        min_paragraph_words=8,
        shard_documents=1,
    )
    assert (tmp_path / "b-00000").read_bytes() == expected


def test_sentences_without_a_token_are_counted(tmp_path, caplog):
    text = tmp_path / "text"
    text.write_bytes(b"the rain\n\x01\n\nfell on\n\n\x02\n")
    _run(text, tmp_path / "out")
    assert "2 documents, 2 sentences." in caplog.text
    assert "such as those of control characters: 2." in caplog.text


def test_reasons_are_told_if_everything_is_left_out(tmp_path, caplog):
    text = tmp_path / "text"
    text.write_text("1.\n")
    with pytest.raises(ValueError, match="at least one sentence"):
        _run(text, tmp_path / "a", input_format="book")
    assert "sentences without a letter: 1" in caplog.text
    text.write_bytes(b"\x01\n")
    with pytest.raises(ValueError, match="at least one sentence"):
        _run(text, tmp_path / "a")
    assert "such as those of control characters: 1." in caplog.text


@pytest.mark.integration
def test_a_run_killed_at_any_moment_resumes_to_the_same_records(tmp_path):
    text = _write_text(tmp_path / "text.txt", _documents(60))
    folder = tmp_path / "out"
    with moments.recorded(folder, tmp_path / "moments") as made:
        _run(text, folder / "x", shard_documents=20)
    wanted = _content(folder)
    assert len(wanted) == 6 and len(made) > 6
    for moment in made:
        kept = _content(moment)
        assert kept.items() <= wanted.items(), moment
        moments.put_back(moment, folder)
        before = {name: (folder / name).stat().st_ino for name in kept}
        _run(text, folder / "x", shard_documents=20)
        assert _content(folder) == wanted
        assert set(os.listdir(folder)) == set(wanted)
        for name, inode in before.items():
            # A shard that is whole is not written again.
            if {name, f"{name}.meta.json"} <= before.keys():
                assert (folder / name).stat().st_ino == inode, moment


def _content(folder):
    """Returns what is under its final name in a folder, if that is there.

    The lock of a killed run, which nothing holds any more, is left out.
    """
    return {
        path.name: path.read_bytes()
        for path in folder.glob("[!.]*")
        if path.suffix != ".lock"
    }


def test_workers_without_shards_are_warned_of(tmp_path, caplog):
    text = _write_text(tmp_path / "in.txt", _documents(3))
    _run(text, tmp_path / "out", num_workers=2)
    assert "--num_workers=2 has no effect" in caplog.text
