"""Error messages of programs before TensorFlow is imported.

All commands go through one process in which TensorFlow cannot be imported.
"""

import json

import pytest

from tests.support import documented_commands as documented
from tests.support import (
    locations,
    programs,
    toy_config,
    toy_files,
    toy_sentences,
    toy_squad,
    toy_swag,
)

_DRIVER = """
import json, sys

sys.modules["tensorflow"] = None
from tests.support import programs

told = [programs.refusal(*command) for command in json.load(sys.stdin)]
json.dump(told, sys.stdout)
"""
_MODEL = "--vocab_file=vocab.txt --bert_config_file=config.json "
_RUN = f"{_MODEL} --output_dir=out "
_LENGTH = "--max_seq_length=32 "
_MRPC = f"run_classifier --task_name=MRPC --data_dir=MRPC {_RUN} "
_CUSTOM = (
    f"run_classifier --task_name=custom --do_train {_RUN} --data_dir=reviews "
    f"{_LENGTH} "
)
_SQUAD = f"run_squad --max_query_length=8 {_RUN} {_LENGTH} "
_PRETRAIN = (
    "run_pretraining --bert_config_file=config.json --output_dir=out "
    f"{_LENGTH} "
)
_EXTRACT = (
    f"extract_features --layers=-1 {_MODEL} {_LENGTH} "
    "--input_file=text.txt --output_file=vectors --init_checkpoint=weights "
)
_CREATE = (
    "create_pretraining_data --vocab_file=vocab.txt --input_file=text.txt "
    "--output_file=records "
)
# Of each command: more flags, and words of the message.
_TABLES = {
    # Values of flags; what fine-tuning is asked for.
    _MRPC: """
--output_dir=              | --output_dir must be given.
--do_train=yes             | --do_train=yes: ('Non-boolean argument
--train_batch_size=-1      | -1 is not a positive integer
--learning_rate=fast       | flag --learning_rate=fast: could not convert
--learning_rates=1e-5,fast | could not convert string to float: 'fast'
--optimizer=adam           | value should be one of <adamw|lamb>
                           | `do_train`, `do_eval` or `do_predict` must be True
--do_train                 | up to sequence length 32 (max_position_embeddings)
--max_seq_length=32 --do_eval | There is nothing to evaluate: out holds no
""",
    f"{_MRPC} {_LENGTH} --do_train": """
--init_checkpoint=cased --strip_accents=True | strip_accents is False there
--output_dir=text.txt      | text.txt must be a folder to write in; it is a
--data_dir=nothing         | No train.tsv of MRPC in 'nothing'
--task_name=MPRC           | The task must be one of CoLA, SST-2, MRPC
--task_name=custm          | XNLI, custom; got 'custm'. Did you mean custom?
--vocab_file=folder        | folder: Is a directory.
--bert_config_file=nothing | file or directory.
--bert_config_file=empty   | empty: must be JSON (Expecting value: line 1
""",
    _CUSTOM: """
                           | text_a_column must name the column of the text
--text_a_column=words --label_column=label | the columns are 'text'
""",
    f"{_CUSTOM} --text_a_column=text --label_column=label": """
--early_stopping_patience=1 | needs --eval_every_epoch or
--use_best_checkpoint      | needs evaluations during training
--eval_every_epoch --eval_every_steps=1 | one of --eval_every_epoch and
--num_trials=2             | pass --do_eval too
--freeze_layers=2          | at most 1, the number of layers
--class_weights=1,2,3      | --class_weights must be balanced, or a positive
--class_weights=balanced --problem_type=regression | got regression
""",
    # The other tasks.
    _SQUAD: """
                           | one of `do_train`, `do_eval` or `do_predict`
--do_train                 | --train_file must be given
--do_predict --init_checkpoint=weights | --predict_file must be given
--do_eval --init_checkpoint=weights | --predict_file must be given
--do_train --train_file=nothing.json | nothing.json: No such file or directory
""",
    f"{_SQUAD} --do_train --train_file=train.json": """
--eval_every_steps=2       | --predict_file must be given
--doc_stride=0             | doc_stride
--init_checkpoint=cased_L-12_H-768_A-12/bert_model.ckpt | --do_lower_case=False
--max_seq_length=64        | up to sequence length 32
--do_predict --predict_file=nothing | nothing: No such file or
""",
    f"{_SQUAD} --do_predict --predict_file=train.json": """
--max_seq_length=11        | must be greater than max_query_length + 3
""",
    f"run_swag {_RUN} {_LENGTH}": """
--do_train --data_dir=nothing | File not found: nothing/train.csv. Pass --data
""",
    f"run_ner {_RUN} {_LENGTH} --do_train": """
                           | Pass --train_file or --data_dir; got neither.
--train_file=text.txt --columns=wrd:0 | --columns must give the columns of
--features=last --init_checkpoint=x --bilstm_head | a BiLSTM of its own
--packing --use_tpu | --packing creates batches of different
""",
    # Pre-training, and vectors.
    _PRETRAIN: """
--do_train                 | --input_file must
--input_file=empty         | one of `do_train` or `do_eval` must be True.
--do_train --input_file=nothing | No file matches 'nothing'.
--do_train --input_file=empty --output_dir=text.txt | a folder to write in; it
--do_train --input_file=empty --max_seq_length=33 | up to sequence length 32
--do_eval --input_file=empty | There is nothing to evaluate
--do_train --input_file=empty --num_train_steps=-3 | positive
--do_train --input_file=empty --packing --use_tpu | needs a fixed shape
""",
    _EXTRACT: """
--init_checkpoint=nothing  | There is no checkpoint at 'nothing'
--layers=-9                | it has no layer -9. Choose others
--max_seq_length=33        | trained up to sequence length 32
--bert_config_file=small.json | entries, but the model's vocab_size is 9
--input_file=nowhere       | No such file or directory.
--output_file=folder       | name of a file to write; it is a folder.
""",
    # Text and vocabularies.
    _CREATE: """
--output_file=folder       | it is a folder.
--input_file=folder        | folder is a folder; name its files
--output_file=text.txt     | must not be written: it is the input text.txt.
--output_file=x,./x        | ./x must not be written: it is the output x.
--output_file=,            | output_file must name one or more files
--masking=80,10            | masking must be
--min_paragraph_words=3    | is for formats that are
--runner=x --num_workers=2 | num_workers has no effect with runner
--masked_lm_prob=15        | not a number in the range [0.0, 1.0]
""",
    "tools.prepare_corpus --input_format=book --output_file=text.txt": """
                           | --input_file must be given.
--input_file=./text.txt    | text.txt must not be written: it is the input
""",
    "tools.learn_vocab --input_file=text.txt --output_file=folder": """
                           | it is a folder.
""",
    "tools.predict --model=nowhere": """
--input_file=nothing       | No such file or directory.
""",
    f"tools.plot_attention {_MODEL} --text=a --init_checkpoint=weights": """
--output_file=folder       | it is a folder.
""",
    "tools.download mrpc": """
--output_dir=gs://a/b      | must be a local folder; got gs://a/b.
""",
    "tools.export_model --export_dir=served --model_dir=nowhere": """
""",
    "paper.reproduce --scale=small": """
                           | --table and --figure; got neither.
""",
}
_REFUSALS = {
    f"{command} {more.strip()}": words.strip()
    for command, table in _TABLES.items()
    for more, _, words in (row.partition("|") for row in table.split("\n"))
    if words
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder of files for the commands."""
    folder = tmp_path_factory.mktemp("refusals")
    toy_sentences.write_model(folder)
    (folder / "bert_config.json").rename(folder / "config.json")
    reviews = [("good match", "yes"), ("bad match", "no")]
    toy_sentences.write_data(folder / "reviews", reviews)
    toy_files.write_json(folder / "train.json", toy_squad.dataset(3))
    toy_config.write(
        folder / "small.json", vocab_size=9, max_position_embeddings=32
    )
    for name in ("folder", "swag", "MRPC", "cased", "cased_L-12_H-768_A-12"):
        (folder / name).mkdir()
    # Checkpoints that no command gets to read.
    for name in ("weights", "cased/x", "cased_L-12_H-768_A-12/bert_model.ckpt"):
        (folder / f"{name}.index").touch()
        (folder / f"{name}.data-00000-of-00001").touch()
    (folder / "cased/task.json").write_text(
        '{"do_lower_case": false, "strip_accents": false}'
    )
    toy_swag.write(folder / "swag/train.csv", toy_swag.copying(3, 1))
    for name in ("train.tsv", "dev.tsv"):
        golden = locations.INPUTS / "MRPC" / name
        (folder / "MRPC" / name).write_bytes(golden.read_bytes())
    for name in (
        *("empty", "predictions.json"),
        "swag/predictions.csv",
    ):
        (folder / name).write_text("")
    (folder / "text.txt").write_text("a b .\nc d .\n\ne f .\n")
    return folder


@pytest.fixture(scope="module")
def told(folder):
    """Returns what each command was told."""
    before = sorted(folder.rglob("*"))
    commands = [command.split() for command in _REFUSALS]
    done = programs.python(
        "-c",
        _DRIVER,
        cwd=folder,
        env={"PYTHONPATH": str(documented.ROOT)},
        input=json.dumps([(name, rest) for name, *rest in commands]),
    )
    assert done.returncode == 0, done.stderr
    # Whatever was refused has left no file behind.
    assert sorted(folder.rglob("*")) == before
    return dict(zip(_REFUSALS, json.loads(done.stdout), strict=True))


# An error of each kind: of the system, of our own, of absl, of arguments.
_WRONG = {
    f"{_MRPC} {_LENGTH} --do_train --vocab_file=none": "none: No such file or",
    f"{_CREATE} --runner=x --num_workers=2": "num_workers has no effect with",
    "run_squad --do_trian": "Unknown command line flag 'do_trian'. Did",
    "run_ner --do_eval False": "takes only flags, written as --NAME=VALUE; got",
}


@pytest.mark.parametrize("command", _WRONG)
def test_a_wrong_command_ends_in_one_line(folder, command):
    path = {"PYTHONPATH": str(documented.ROOT)}
    done = programs.python("-m", *command.split(), cwd=folder, env=path)
    name = command.split()[0].rpartition(".")[2]
    assert done.stderr.startswith(f"{name}: {_WRONG[command]}")
    assert (done.stderr.count("\n"), done.returncode) == (1, 1)


@pytest.mark.parametrize("command", _REFUSALS)
def test_refuses_at_once(told, command):
    assert _REFUSALS[command] in (told[command] or "nothing was refused")
