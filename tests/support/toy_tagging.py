"""Made sentences with entities, which the tests of run_ner.py learn from."""

import random

import keras

import run_ner
from modeling import bert, checkpoints
from modeling import config as config_lib
from tests.support import programs, toy_config, toy_files, toy_vocabulary

_FIRST = ("Ann", "Bob", "Carla", "Dev", "Eve", "Finn")
_LAST = ("Moss", "Hart", "Stone", "Rivers", "Wood")
_PLACES = ("Oslo", "Lima", "Kyoto", "York", "New York", "Rio")
_FIRMS = ("Moss Works", "Stone Bank", "York Rail", "Hart", "Acme")
_FRAMES = (
    "{PER} lives in {LOC} .",
    "{PER} of {ORG} met {PER} in {LOC} .",
    "the shares of {ORG} fell .",
    "in {LOC} , {PER} left {ORG} .",
    "it rained in {LOC} and {LOC} .",
    "{ORG} hired {PER} .",
    "nobody was there .",
)
# "Rivers" is in two pieces, so that words and pieces are not the same.
_PIECES = ("Riv", "##ers")


def sentence(rng: random.Random) -> list[tuple[str, str]]:
    """Makes a sentence: words with their tags in IOB2."""
    names = {
        "PER": lambda: f"{rng.choice(_FIRST)} {rng.choice(_LAST)}",
        "LOC": lambda: rng.choice(_PLACES),
        "ORG": lambda: rng.choice(_FIRMS),
    }
    rows = []
    for part in rng.choice(_FRAMES).split(" "):
        kind = part.strip("{}")
        if kind == part:
            rows.append((part, "O"))
            continue
        for place, word in enumerate(names[kind]().split(" ")):
            rows.append((word, f"{'I' if place else 'B'}-{kind}"))
    return rows


def write_file(path, num_sentences: int, seed: int) -> str:
    """Writes sentences as CoNLL-2003 is distributed, three to a document."""
    rng = random.Random(seed)
    lines = []
    for number in range(num_sentences):
        if number % 3 == 0:
            lines.append("-DOCSTART- -X- -X- O\n\n")
        lines += [f"{word} X X {tag}\n" for word, tag in sentence(rng)]
        lines.append("\n")
    path.write_text("".join(lines))
    return str(path)


def bilou(text: str) -> str:
    """Writes the tags of a file in BILOU instead of IOB2."""
    lines = text.split("\n")
    converted = []
    for line, after in zip(lines, [*lines[1:], ""], strict=True):
        start, _, tag = line.rpartition(" ")
        if tag[:1] in ("B", "I") and not after.rpartition(" ")[2].startswith(
            "I"
        ):
            letter = {"B": "U", "I": "L"}[tag[0]]
            line = f"{start} {letter}{tag[1:]}"  # noqa: PLW2901
        converted.append(line)
    return "\n".join(converted)


def write_model(folder, num_layers: int = 2) -> None:
    """Writes a vocabulary, a configuration and random weights."""
    texts = (*_FIRST, *_LAST, *_PLACES, *_FIRMS, *_FRAMES)
    words = {w for text in texts for w in text.split() if "{" not in w}
    words -= {"Rivers"}
    tokens = [*toy_vocabulary.SPECIAL, *_PIECES]
    tokens += sorted(words)
    toy_files.write_lines(folder / "vocab.txt", tokens)
    config = toy_config.sizes(
        vocab_size=len(tokens),
        hidden_size=24,
        num_hidden_layers=num_layers,
        num_attention_heads=2,
        intermediate_size=40,
        max_position_embeddings=40,
        # Larger than the paper's, for a model that was never trained.
        initializer_range=0.2,
    )
    toy_files.write_json(folder / "bert_config.json", config)
    keras.utils.set_random_seed(3)
    model = bert.BertModel(config_lib.BertConfig.from_dict(config))
    checkpoints.save(
        str(folder / "bert.ckpt"),
        {
            name: variable.value
            for name, variable in checkpoints.variables_by_name(model).items()
        },
    )


def write_all(folder, num_sentences: int = 240, num_layers: int = 2) -> None:
    """Writes a model, and files to train on and to test with."""
    folder.mkdir(parents=True, exist_ok=True)
    write_model(folder, num_layers)
    write_file(folder / "train.txt", num_sentences, seed=1)
    write_file(folder / "valid.txt", 40, seed=2)
    write_file(folder / "test.txt", 40, seed=3)


def files_of(folder) -> dict[str, object]:
    """Names the flags of a run on the files of a folder, made if missing."""
    if not (folder / "bert_config.json").exists():
        write_all(folder, num_sentences=60)
    return {
        "data_dir": folder,
        "vocab_file": folder / "vocab.txt",
        "bert_config_file": folder / "bert_config.json",
        "init_checkpoint": folder / "bert.ckpt",
        "output_dir": folder / "out",
        "max_seq_length": 40,
    }


def flags_of(folder, **changes) -> dict[str, object]:
    """Names the flags of a small run on the files in a folder."""
    return {
        **files_of(folder),
        "train_batch_size": 16,
        "eval_batch_size": 16,
        "predict_batch_size": 16,
        "learning_rate": 3e-3,
        "save_checkpoints_steps": 50,
        **changes,
    }


_TOY = programs.Toy(run_ner, flags_of)
parse, run, resume = _TOY.parse, _TOY.run, _TOY.resume
