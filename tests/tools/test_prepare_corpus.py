"""The tool from raw text to the input of create_pretraining_data.py."""

import tarfile

import pytest

from bert.corpus import formats
from tests.support import locations, programs
from tools import prepare_corpus

_CORPORA = locations.DATA / "corpora"


def _options(tmp_path, text, **others):
    path = tmp_path / "in.txt"
    path.write_bytes(text.encode())
    return prepare_corpus.Options(
        **{
            "input_format": "book",
            "input_file": str(path),
            "output_file": str(tmp_path / "out.txt"),
            "num_workers": 1,
        }
        | others
    )


def test_book_becomes_sentences_and_own_output_passes_through(tmp_path):
    prepare_corpus.run(_options(tmp_path, "It was\nlate. He left.\n"))
    assert (tmp_path / "out.txt").read_text() == "It was late.\nHe left.\n\n"
    text = "One here.\nTwo. Three.\n\nFour.\n\n"
    prepare_corpus.run(_options(tmp_path, text, input_format="text"))
    assert (tmp_path / "out.txt").read_text() == text
    options = _options(tmp_path, "")
    (tmp_path / "in.txt").write_bytes(b"One.\nna\xefve.\n")
    with pytest.raises(ValueError, match=r"line 2: not UTF-8"):
        prepare_corpus.run(options)


def test_a_run_writes_as_many_files_as_asked_for(tmp_path):
    text = "".join(f"Document {number} is here.\n\n" for number in range(9))
    options = _options(tmp_path, text, input_format="text", num_output_files=3)
    prepare_corpus.run(options)
    made = [x for x in tmp_path.iterdir() if x.name.startswith("out")]
    assert len(made) == 3
    # Each has some, and together they have every document once.
    parts = [path.read_text().split("\n\n")[:-1] for path in made]
    assert all(parts)
    documents = sorted(document.strip() for part in parts for document in part)
    assert documents == [f"Document {number} is here." for number in range(9)]


def test_markup_read_as_sentences_is_a_warning(tmp_path, caplog):
    text = '<doc id="1" title="A">\nA\n\nOne here.\n</doc>\n'
    prepare_corpus.run(_options(tmp_path, text, input_format="text"))
    assert "Pass --input_format=wikiextractor." in caplog.text
    caplog.clear()
    prepare_corpus.run(_options(tmp_path, text, input_format="book"))
    assert "Pass" not in caplog.text


@pytest.mark.parametrize(
    ("others", "message"),
    [
        ({"holdout_every": 1}, "must be 0 or 2 or more; got 1"),
        ({"holdout_every": 5}, "go together; got 5 and None"),
        ({"holdout_file": "x"}, "go together; got 0 and 'x'"),
        ({"min_paragraph_words": 9}, "0 documents are too few"),
    ],
)
def test_wrong_options_are_errors_and_nothing_is_written(
    tmp_path, others, message
):
    with pytest.raises(ValueError, match=message):
        prepare_corpus.run(_options(tmp_path, "One.\n", **others))
    assert [path.name for path in tmp_path.iterdir()] == ["in.txt"]


def test_reasons_are_told_if_everything_is_left_out(tmp_path, caplog):
    options = _options(tmp_path, "1.\n", input_format="book")
    with pytest.raises(ValueError, match="0 documents are too few"):
        prepare_corpus.run(options)
    assert "Left out: documents without text after cleaning: 1; " in caplog.text


def test_command_line_tells_its_counts_and_succeeds(tmp_path):
    (tmp_path / "in.1.txt").write_text("One here. 2.\n")
    (tmp_path / "in.2.txt").write_text("3.\n")
    done = programs.python(
        "-m", "tools.prepare_corpus", "--input_format=book",
        f"--input_file={tmp_path}/in.*.txt",
        f"--output_file={tmp_path}/out.txt", "--num_workers=1",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "sentences without a letter: 2.\n" in done.stderr
    assert "Wrote 1 of 2 documents" in done.stderr


@pytest.mark.shared
def test_real_corpora_do_not_depend_on_the_number_of_workers(tmp_path):
    archive = _CORPORA / "100_english_novels.tar.xz"
    if not archive.exists():
        pytest.skip("corpora absent")
    with tarfile.open(archive) as file:
        file.extractall(tmp_path / "novels", filter="data")
    outputs = []
    for num_workers in (1, 2):
        output = tmp_path / f"novels{num_workers}.txt"
        prepare_corpus.run(
            prepare_corpus.Options(
                input_format="book",
                input_file=f"{tmp_path}/novels/*/[!.]*.txt",
                output_file=str(output),
                num_workers=num_workers,
            )
        )
        outputs.append(output.read_bytes())
        assert outputs[-1].count(b"\n\n") == 100
        # 14.2 million words as counted when the novels were collected.
        num_words = len(outputs[-1].split())
        assert num_words == pytest.approx(14.2e6, rel=0.01)
    assert outputs[0] == outputs[1]


@pytest.mark.shared
def test_real_articles_are_all_read(tmp_path):
    path = _CORPORA / "enwiki-2015-200MB.wikiextractor.txt.xz"
    if not path.exists():
        pytest.skip("corpora absent")
    documents = formats.read_documents(
        [str(path)], formats.Rules(input_format="wikiextractor")
    )
    assert sum(1 for _ in documents) == 12694
