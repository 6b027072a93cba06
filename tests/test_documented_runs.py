"""The commands of the manual run, in the order of each page, on tiny data."""

import ast
import dataclasses
import json
import lzma
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys

import pytest

from tests.support import documented_commands as documented
from tests.support import golden_models, locations, toy_swag

_LINKED = ("modeling", "recipes", "tests", "vocab")
# What makes the run of each program small: flags that come after the page's.
_SMALL = {
    "create_pretraining_data.py": "--dupe_factor=1",
    "extract_features.py": "--layers=-1,-2",
    "paper.reproduce": "",
    "run_classifier.py": "--num_train_epochs=1 --max_seq_length=16 "
    "--train_batch_size=4",
    "run_ner.py": "--num_train_epochs=1 --max_seq_length=32 --num_trials=2 "
    "--learning_rates=5e-5 --train_batch_size=4",
    "run_pretraining.py": "--num_train_steps=10 --num_warmup_steps=1 "
    "--train_batch_size=8 --eval_batch_size=2 --max_eval_steps=2",
    "run_squad.py": "--num_train_epochs=1 --train_batch_size=8 "
    "--max_seq_length=64 --max_query_length=16",
    "run_swag.py": "--num_train_epochs=1 --max_seq_length=16 "
    "--train_batch_size=4",
    "tools.convert_checkpoint": "",
    "tools.download": "",
    "tools.evaluate_squad": "",
    "tools.export_model": "",
    "tools.extend_vocab": "--min_count=1",
    "tools.inspect_data": "",
    "tools.learn_vocab": "--vocab_size=1200 --min_character_count=1",
    "tools.plot_attention": "",
    "tools.predict": "",
    "tools.prepare_corpus": "",
    "tools.score_text": "",
    "tools.split_table": "",
}
# Commands with these words are not run, and why.
_NOT_RUN = {
    "tools.download --output_dir=data": "needs the network",
    "tools.convert_checkpoint --input=hf://google-bert/bert-base-uncased": (
        "needs the network"
    ),
    "create_pretraining_data.py --runner=DaskRunner": "needs a cluster; "
    "tests/bert/corpus/test_beam_shards.py starts one where Dask is installed",
    "dask": "starts the cluster",
    "benchmarks.published_scores": "needs the weights and the sets; "
    "tests/benchmarks/test_published_scores.py runs its parts",
    "paper.blimp": "needs the pairs; tests/paper/test_blimp.py runs it on four",
    "paper.reproduce --model=base": "needs a GPU and the data sets",
    "benchmarks.speed": "takes minutes and a quiet machine",
    "benchmarks.accelerator": "measures for minutes; "
    "tests/benchmarks/test_accelerator.py runs it with tiny sizes",
    "hf": "needs the network",
    "tools.prepare_corpus --input_format=parquet": "reads what needs the "
    "network; tests/bert/corpus/test_formats.py reads Parquet",
    "./run_tests.sh": "runs this test",
    "pytest": "runs tests of its own",
    "pip": "needs the network",
    "./quickstart.sh": "takes minutes and the network",
    "docker": "needs a server",
    "curl": "needs a server",
    "--model=rating_output": "needs the task of the page; "
    "tests/test_adding_a_task.py writes and asks it",
    "--model_dir=rating_output": "needs the task of the page; "
    "tests/test_adding_a_task.py writes and exports it",
}
# Run all the same, although words of theirs stand above.
_RUN = ("paper.reproduce --dry_run",)
# What a page names by the flags above, and how it is called with them.
_RENAMED = {
    "-bs32-ep3-": "-bs4-ep1-",
    "--holdout_every=1000 ": "--holdout_every=20 ",  # Of 120 documents.
    # A model of the hub, which needs the network.
    "hf://dccuchile/bert-base-spanish-wwm-cased": "bert",
}
# A program whose commands a page repeats, and the values that change.
_REPEATED = {
    "docs/own_domain.md": (
        "create_pretraining_data.py",
        {"128": "512", "=20": "=77"},
    ),
}
# Commands that a page relies on: their page, and an argument of theirs.
_BEFORE = {
    "docs/inspection.md": (("docs/pretraining.md", "--output_dir=model"),),
    "docs/serving.md": (
        ("README.md", "--output_dir=mrpc"),
        ("docs/own_data.md", "--output_dir=reviews_model"),
    ),
}


def _has(command, words):
    program, arguments = documented.parted(command)
    return set(words.split()) <= {program, *arguments}


def _reason_not_to_run(command):
    """Says why a command is not run; None where it is."""
    if documented.AND_SO_ON in command.words:
        return "is a part of a command"
    if any(_has(command, words) for words in _RUN):
        return None
    return next(
        (why for words, why in _NOT_RUN.items() if _has(command, words)), None
    )


def _whole_commands(page):
    return [c for c in documented.commands_of_page(page) if c.is_whole]


def _commands_to_run(page):
    return [c for c in _whole_commands(page) if not _reason_not_to_run(c)]


_MIGRATION = "docs/migrating_from_tf1.md"
_PAGES = [
    page
    for page in documented.PAGES
    if _commands_to_run(page) and page != _MIGRATION
]


def test_of_every_command_it_is_said_how_it_runs_or_why_not():
    unknown = [
        command.where
        for page in documented.PAGES
        for command in _commands_to_run(page)
        if documented.parted(command)[0] not in _SMALL
    ]
    assert unknown == []


def test_what_is_not_run_is_in_the_manual():
    commands = [c for page in documented.PAGES for c in _whole_commands(page)]
    for words in (*_NOT_RUN, *_RUN, *_SMALL):
        assert any(_has(command, words) for command in commands), words


def _sentences(count, seed):
    """Draws sentences of words of the golden vocabulary."""
    rng = random.Random(seed)
    entries = (locations.INPUTS / "vocab.txt").read_text().split()
    words = [word for word in entries if word.isalpha() and len(word) > 3]
    words.append("mediastinoscopy")  # In no vocabulary.
    return [" ".join(rng.sample(words, 12)) + " ." for _ in range(count)]


def _documents(count, seed):
    """Returns lists of four sentences."""
    lines = _sentences(4 * count, seed)
    return [lines[start : start + 4] for start in range(0, 4 * count, 4)]


def _write_text(folder):
    """Writes raw text in every form that pages name, and plain text."""
    (folder / "extracted/AA").mkdir(parents=True)
    marked = "".join(
        f'<doc id="{number}" title="t">\nt\n\n{" ".join(lines)}\n</doc>\n'
        for number, lines in enumerate(_documents(130, 1))
    )
    (folder / "extracted/AA/wiki_00").write_text(marked)
    with lzma.open(
        folder / "enwiki-2015-200MB.wikiextractor.txt.xz", "wt"
    ) as file:
        file.write(marked)
    (folder / "100_english_novels").mkdir()
    for number, lines in enumerate(_documents(25, 2)):
        path = folder / f"100_english_novels/{number}.txt"
        path.write_text("\n\n".join(lines))
    (folder / "papers").mkdir()
    (folder / "papers/a.jsonl").write_text(
        "".join(
            json.dumps({"text": " ".join(lines)}) + "\n"
            for lines in _documents(120, 3)
        )
    )
    plain = "\n\n".join("\n".join(lines) for lines in _documents(40, 4))
    (folder / "text").mkdir()
    for name in ("wiki.txt", "wiki.heldout.txt", "text/a.txt", "sw.txt"):
        (folder / name).write_text(f"{plain}\n")
    (folder / "sentences.txt").write_text("\n".join(_sentences(5, 5)) + "\n")


def _write_tasks(folder):
    """Writes the data sets."""
    from tests.support import toy_tagging

    data = folder / "data"
    for target in (data / "glue", folder / "glue"):
        shutil.copytree(locations.INPUTS / "MRPC", target / "MRPC")
    (data / "glue/RTE").mkdir()
    for seed, name in enumerate(("train", "dev", "test")):
        pairs = zip(_sentences(12, seed), _sentences(12, seed + 3), strict=True)
        labels = ("entailment", "not_entailment")
        rows = [
            f"{number}\t{first}\t{second}\t{labels[number % 2]}"
            for number, (first, second) in enumerate(pairs)
        ]
        (data / "glue/RTE" / f"{name}.tsv").write_text(
            "\n".join(["index\tsentence1\tsentence2\tlabel", *rows]) + "\n"
        )
    shutil.copytree(locations.INPUTS / "squad", data / "squad")
    for target in (data / "swag", folder / "swag_data"):
        target.mkdir()
        for name, seed in (("train", 1), ("val", 2), ("test", 3)):
            toy_swag.write(target / f"{name}.csv", toy_swag.copying(16, seed))
    (folder / "swag").symlink_to(data / "swag")
    (folder / "conll2003").mkdir()
    for seed, name in enumerate(("eng.train", "eng.testa", "eng.testb")):
        toy_tagging.write_file(folder / "conll2003" / name, 20, seed)
    (folder / "reviews").mkdir()
    for seed, name in enumerate(("train", "dev", "test")):
        _write_texts(folder / f"reviews/{name}.csv", "review,stars", 40, seed)
    _write_texts(folder / "reviews.csv", "review,stars", 80, 3)
    _write_texts(folder / "texts.csv", "text,label", 80, 4)
    _write_texts(folder / "new.csv", "text,label", 5, 5)


def _write_texts(path, names, count, seed):
    rows = [f"{text},{len(text) % 2}" for text in _sentences(count, seed)]
    path.write_text("\n".join([names, *rows]) + "\n")


def _write_models(folder):
    """Writes $BERT, a cased one, and the sizes of a model to train."""
    from tests.support import toy_tagging

    bert = folder / "bert"
    bert.mkdir()
    for path in (locations.GOLDEN / "model").glob("tiny.ckpt.*"):
        name = path.name.replace("tiny.ckpt", "bert_model.ckpt")
        shutil.copy(path, bert / name)
    shutil.copy(locations.INPUTS / "vocab.txt", bert)
    shutil.copy(locations.INPUTS / "bert_config.json", bert)
    # The recorded model has a head for questions, too.
    (bert / "task.json").write_text(
        json.dumps({"task": "pretraining", "do_lower_case": True})
    )
    for name in ("uncased_L-12_H-768_A-12", "uncased_L-4_H-256_A-4"):
        shutil.copytree(bert, folder / "data" / name)
    shutil.copy(bert / "vocab.txt", folder)
    sizes = json.loads((bert / "bert_config.json").read_text())
    (folder / "bert_config.json").write_text(
        json.dumps(sizes | {"max_position_embeddings": 512})
    )
    (folder / "cased").mkdir()
    toy_tagging.write_model(folder / "cased")
    for path in (folder / "cased").iterdir():
        name = path.name.replace("bert.ckpt", "bert_model.ckpt")
        path.rename(path.with_name(name))
    (folder / "mrpc_output").mkdir()  # Of the original program.
    for path in (locations.GOLDEN / "classifier").glob("mrpc.ckpt-24.*"):
        shutil.copy(path, folder / "mrpc_output")
    (folder / "old_output").symlink_to("mrpc_output")
    released = json.loads(
        (locations.GOLDEN / "classifier/mrpc_results.json").read_text("utf-8")
    )
    (folder / "mrpc_output/test_results.tsv").write_text(
        released["predict"]["test_results_tsv"]
    )
    (folder / "old_data").mkdir()  # Of a fork: no header, other columns.
    lines = (locations.INPUTS / "MRPC/test.tsv").read_text("utf-8").split("\n")
    cells = [line.split("\t") for line in lines[1:] if line]
    (folder / "old_data/test.tsv").write_text(
        "".join(f"{row[1]}\t{row[3]}\t{row[4]}\n" for row in cells)
    )
    for name in ("model_a", "model_b"):
        (folder / name).symlink_to("model")
    _run(
        folder,
        "python -m tools.convert_checkpoint --output_format=huggingface "
        "--input=bert/bert_model.ckpt --output=data/all-MiniLM-L6-v2",
        "bert",
    )
    encoder = golden_models.sentence_encoder(folder / "encoder")
    for name in ("modules.json", "1_Pooling"):
        (encoder / name).rename(folder / "data/all-MiniLM-L6-v2" / name)


def _write_quickstart(folder):
    """Writes the files of ./quickstart.sh that pages use."""
    made = folder / "quickstart"
    shutil.copytree(folder / "bert", made / "model")
    for name in ("vocab.txt", "bert_config.json"):
        shutil.copy(made / "model" / name, made)
    (made / "task").mkdir()
    rows = [f"{text}\t{len(text) % 2}" for text in _sentences(40, 6)]
    (made / "task/train.tsv").write_text("\n".join(["text\tlabel", *rows]))


def _run(folder, text, bert):
    """Runs a command as a shell does; returns what it prints."""
    python = pathlib.Path(sys.executable).parent
    done = subprocess.run(
        ["bash", "-c", text],
        cwd=folder,
        env=os.environ
        | {
            "BERT": bert,
            "MODEL": "data/all-MiniLM-L6-v2",
            "PATH": f"{python}:{os.environ['PATH']}",
            "TF_CPP_MIN_LOG_LEVEL": "2",
            # Links in the folder are not this checkout.
            "PYTHONPATH": str(documented.ROOT),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """Makes a folder with all that pages name and do not make."""
    folder = tmp_path_factory.mktemp("manual") / "world"
    folder.mkdir()
    _write_text(folder)
    _write_tasks(folder)
    for path in documented.ROOT.iterdir():
        # Commands name scripts, and files of the checkout, from its root.
        if path.suffix == ".py" or path.name in _LINKED:
            (folder / path.name).symlink_to(path)
    _write_models(folder)
    _write_quickstart(folder)
    _write_records(folder, "wiki", 128, 20)
    _write_records(folder, "heldout", 128, 20)
    return folder


def _write_records(folder, name, length, predictions):
    command = (
        f"python create_pretraining_data.py --input_file=wiki.txt "
        f"--vocab_file=vocab.txt --output_file={name}.tfrecord "
        f"--max_seq_length={length} --max_predictions_per_seq={predictions}"
    )
    _run(folder, command, "bert")


def _run_documented(folder, command):
    program, _ = documented.parted(command)
    bert = "cased" if program == "run_ner.py" else "bert"
    text = f"{command.text} {_SMALL.get(program, '')}"
    for named, called in _RENAMED.items():
        text = text.replace(named, called)
    if "pretraining_phase" in text:
        # Both phases at a small size, whatever their recipes say.
        text += " --bert_config_file=bert_config.json"
    if "pretraining_phase1" in text:
        text += " --stop_at_step=5"
    _run(folder, text, bert)


@pytest.mark.slow
@pytest.mark.parametrize("page", _PAGES)
def test_commands_run_in_the_order_of_the_page(page, world, tmp_path):
    folder = tmp_path / "page"
    shutil.copytree(world, folder, symlinks=True)
    if page == "docs/pretraining.md":
        _write_records(folder, "wiki128", 128, 20)
        _write_records(folder, "wiki512", 512, 77)
    for other, words in _BEFORE.get(page, ()):
        before = [c for c in _commands_to_run(other) if _has(c, words)]
        _run_documented(folder, before[0])
    repeated, values = _REPEATED.get(page, (None, {}))
    for command in _commands_to_run(page):
        _run_documented(folder, command)
        if documented.parted(command)[0] == repeated:
            text = command.text
            for old, new in values.items():
                text = text.replace(old, new)
            _run_documented(folder, dataclasses.replace(command, text=text))


@pytest.mark.slow
def test_the_recipes_run(world, tmp_path):
    folder = tmp_path / "recipes_run"
    shutil.copytree(world, folder, symlinks=True)
    shutil.copytree(folder / "bert", folder / "start")
    for name, length, predictions in (
        ("field", 128, 20),
        ("field.heldout", 128, 20),
        ("records128/a", 128, 20),
        ("heldout128", 128, 20),
        ("records512/a", 512, 77),
        ("heldout512", 512, 77),
    ):
        (folder / name).parent.mkdir(exist_ok=True)
        _write_records(folder, name, length, predictions)
    for recipe in documented.RECIPES:
        for command in documented.commands_of_recipe(recipe):
            if not _reason_not_to_run(command):
                _run_documented(folder, command)


@pytest.mark.slow
def test_the_migration_page_predicts_as_the_original(world, tmp_path):
    folder = tmp_path / "migration"
    shutil.copytree(world, folder, symlinks=True)
    for command in _commands_to_run(_MIGRATION):
        # The recorded run had this length.
        text = command.text.replace("max_seq_length=128", "max_seq_length=64")
        _run(folder, text, "bert")
    page = (documented.ROOT / _MIGRATION).read_text("utf-8")
    compare, ask = re.findall(r"^```python\n(.*?)^```$", page, re.M | re.S)
    # Source: tests/golden/README.md, "Tolerances".
    assert float(_run(folder, f"python - <<'END'\n{compare}END", "")) < 1e-5
    # An id of the small vocabulary.
    ask = ask.replace("2009", "209")
    reply = ast.literal_eval(_run(folder, f"python - <<'END'\n{ask}END", ""))
    ((first, second),) = reply["predictions"]
    assert first + second == pytest.approx(1, abs=1e-6)
