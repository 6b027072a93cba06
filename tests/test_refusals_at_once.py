"""Error messages of programs before TensorFlow is imported.

All commands go through one process in which TensorFlow cannot be imported.
"""

import json

import pytest

from tests import documented_commands as documented
from tests import programs, toy_config, toy_sentences, toy_squad, toy_swag

_DRIVER = """
import json, sys

sys.modules["tensorflow"] = None
from tests import programs

told = [programs.refusal(*command) for command in json.load(sys.stdin)]
json.dump(told, sys.stdout)
"""
_MODEL = "--vocab_file=vocab.txt --bert_config_file=config.json "
_RUN = f"{_MODEL} --output_dir=out "
_MRPC = f"run_classifier --task_name=MRPC --data_dir=MRPC {_RUN} "
_CUSTOM = (
    f"run_classifier --task_name=custom --do_train {_RUN} --data_dir=reviews "
)
_LABELLED = (
    f"{_CUSTOM} --max_seq_length=32 --text_a_column=text --label_column=label"
)
_SQUAD = f"run_squad --max_seq_length=32 --max_query_length=8 {_RUN} "
_TRAIN_SQUAD = f"{_SQUAD} --do_train --train_file=train.json"
_ASK_SQUAD = f"{_SQUAD} --do_predict --predict_file=train.json"
_SWAG = f"run_swag --max_seq_length=32 {_RUN} "
_NER = f"run_ner --max_seq_length=32 {_RUN} "
_PRETRAIN = (
    "run_pretraining --bert_config_file=config.json --output_dir=out "
    "--max_seq_length=32 "
)
_EXTRACT = (
    f"extract_features --max_seq_length=32 --layers=-1 {_MODEL} "
    "--input_file=text.txt --output_file=vectors --init_checkpoint=nothing "
)
_CREATE = (
    "create_pretraining_data --vocab_file=vocab.txt --input_file=text.txt "
    "--output_file=records "
)
_PREPARE = "tools.prepare_corpus --input_format=book --output_file=made.txt "
_MASKED = f"tools.predict_masked {_MODEL} --text=[MASK] "

_REFUSALS = {
    # What a shell, or a slip, makes of a flag.
    f"{_MRPC} --output_dir=": (
        "--output_dir must not be empty. Is its value a shell variable"
    ),
    f"{_MRPC} --do_train=yes": "--do_train must be true or false; got yes.",
    f"{_MRPC} --train_batch_size=-1": (
        "--train_batch_size must be a positive integer; got -1."
    ),
    f"{_MRPC} --learning_rate=fast": (
        "--learning_rate must be a number; got fast."
    ),
    f"{_MRPC} --learning_rate=nan": "--learning_rate must be a number; got nan",
    f"{_MRPC} --learning_rates=1e-5,x": "different positive numbers, separated",
    f"{_MRPC} --train_batch_sizes=16,1.5": "different positive whole numbers",
    f"{_MRPC} --num_trials=2.5": "--num_trials must be a whole number; got 2.5",
    f"{_MRPC} --optimizer=adam": (
        "--optimizer must be one of adamw, lamb; got adam."
    ),
    f"{_MRPC} --warmup_proportion=10": (
        "--warmup_proportion must be a number in the range [0.0, 1.0]; got 10."
    ),
    f"{_PRETRAIN} --do_train": "--input_file must be given, or --phases",
    # What fine-tuning is asked for.
    _MRPC: "At least one of `do_train`, `do_eval` or `do_predict` must be True",
    f"{_MRPC} --do_train": (
        "only trained up to sequence length 32 (max_position_embeddings). "
        "Pass --max_seq_length=32 or less."
    ),
    f"{_MRPC} --max_seq_length=32 --do_eval": (
        "There is nothing to evaluate: out holds no checkpoint and "
        "--init_checkpoint is not given."
    ),
    f"{_MRPC} --max_seq_length=32 --do_train --init_checkpoint=nothing": (
        "There is no checkpoint 'nothing': it must be a prefix"
    ),
    f"{_MRPC} --max_seq_length=32 --do_train --output_dir=text.txt": (
        "text.txt must be a folder to write in; it is a file."
    ),
    f"{_MRPC} --max_seq_length=32 --do_train --output_dir=text.txt/out": (
        "text.txt must be a folder to write in; it is a file, so "
        "text.txt/out cannot be created."
    ),
    f"{_MRPC} --max_seq_length=32 --do_train --window_stride=4": (
        "--window_stride is for --long_text=windows; got --long_text=head."
    ),
    f"{_MRPC} --max_seq_length=32 --do_train --write_submission=x.tsv": (
        "--write_submission must name a file that ends in .zip; got 'x.tsv'."
    ),
    f"{_MRPC} --max_seq_length=32 --do_train --write_submission=empty.zip": (
        "empty.zip: not a zip file"
    ),
    f"{_MRPC} --max_seq_length=32 --do_train --data_dir=nothing": (
        "No train.tsv of MRPC in 'nothing'"
    ),
    f"{_MRPC} --max_seq_length=32 --do_train --task_name=MPRC": (
        "The task must be one of CoLA, SST-2, MRPC"
    ),
    f"{_MRPC} --max_seq_length=32 --do_train --task_name=custm": (
        "XNLI, custom; got 'custm'. Did you mean custom?"
    ),
    f"{_MRPC} --max_seq_length=32 --do_train --vocab_file=folder": (
        "folder: Is a directory (--vocab_file=folder)."
    ),
    f"{_MRPC} --max_seq_length=32 --do_train --bert_config_file=nothing": (
        "nothing: No such file or directory (--bert_config_file=nothing)."
    ),
    f"{_MRPC} --max_seq_length=32 --do_train --bert_config_file=empty": (
        "empty, line 1, column 1: must be JSON"
    ),
    f"{_CUSTOM} --max_seq_length=32": (
        "text_a_column must name the column of the text"
    ),
    f"{_CUSTOM} --max_seq_length=32 --text_a_column=words "
    "--label_column=label": "no column named 'words'; the columns are 'text'",
    f"{_LABELLED} --early_stopping_patience=1": "needs --eval_every_epoch or",
    f"{_LABELLED} --eval_every_epoch --eval_every_steps=1": (
        "one of --eval_every_epoch and"
    ),
    f"{_LABELLED} --num_train_epochs=inf": "of epochs must be finite",
    f"{_LABELLED} --do_eval --train_epochs=2,inf": "of epochs must be finite",
    f"{_LABELLED} --num_trials=2": "pass --do_eval too",
    f"{_LABELLED} --num_folds=2": "pass --do_eval too.",
    f"{_LABELLED} --do_eval --dev_fraction=0.1 --num_folds=2": (
        "one of --dev_fraction and --num_folds"
    ),
    f"{_LABELLED} --freeze_layers=2": "at most 1, the number of layers",
    f"{_LABELLED} --class_weights=1,2,3": (
        "--class_weights must be balanced, or a positive number for each"
    ),
    f"{_LABELLED} --class_weights=balanced --problem_type=regression": (
        "--class_weights is for labels; got regression"
    ),
    f"{_LABELLED} --tune_thresholds": (
        "--tune_thresholds tunes on evaluated data: pass --do_eval too."
    ),
    f"{_LABELLED} --nodo_train --do_eval --label_names=no,yes "
    "--tune_thresholds": (
        "--tune_thresholds is for --problem_type=multi_label; got"
    ),
    f"{_LABELLED} --nodo_train --do_predict --label_names=no,yes "
    "--write_submission=x.zip": "--write_submission is for",
    # The other tasks.
    _SQUAD: "At least one of `do_train`, `do_predict` or `do_eval`",
    **{
        f"{_SQUAD} --{action}": (
            f"If `{action}` is True, then `{file}` must be specified"
        )
        for action, file in (
            ("do_train", "train_file"),
            ("do_predict", "predict_file"),
            ("do_eval", "predict_file"),
        )
    },
    f"{_TRAIN_SQUAD} --do_eval --predict_file=train.json": (
        "--do_eval scores the output of --do_predict"
    ),
    f"{_TRAIN_SQUAD} --eval_every_steps=2": (
        "score the answers to --predict_file"
    ),
    f"{_TRAIN_SQUAD} --ensemble=a.npz": (
        "it requires --do_predict without --do_train"
    ),
    f"{_TRAIN_SQUAD} --doc_stride=0": "doc_stride",
    f"{_TRAIN_SQUAD} --init_checkpoint=cased_L-12_H-768_A-12/bert_model.ckpt": (
        "Pass --do_lower_case=False"
    ),
    f"{_ASK_SQUAD} --predictions_file=a.json": (
        "require --do_eval without --do_predict"
    ),
    f"{_ASK_SQUAD} --null_score_diff_threshold=auto": (
        "auto requires --version_2_with_negative"
    ),
    f"{_ASK_SQUAD} --nodo_predict --do_eval --version_2_with_negative "
    "--null_score_diff_threshold=auto": (
        "pass --do_predict --ensemble=nbest_predictions.json"
    ),
    f"{_ASK_SQUAD} --max_seq_length=11": (
        "max_seq_length must be greater than max_query_length + 3"
    ),
    f"{_SQUAD} --do_train --train_file=nothing.json": (
        "No file matches 'nothing.json'."
    ),
    f"{_SQUAD} --do_train --train_file=train.json --max_seq_length=64": (
        "up to sequence length 32"
    ),
    f"{_SQUAD} --do_predict --predict_file=nothing --do_train "
    "--train_file=train.json": (
        "nothing: No such file or directory (--predict_file=nothing)."
    ),
    f"{_SWAG} --do_train --data_dir=nothing": (
        "File not found: nothing/train.csv. Pass --data_dir, and --train_file"
    ),
    f"{_SWAG} --do_train --data_dir=swag --label_names=a,b": (
        "Each of the 4 ending columns must have one label name; got a, b."
    ),
    f"{_NER} --do_train": "Pass --train_file or --data_dir; got neither.",
    f"{_NER} --do_train --train_file=text.txt --columns=wrd:0": (
        "--columns must give the columns of word and tag"
    ),
    f"{_NER} --bucket_by_length --distribution_strategy=tpu --do_train": (
        "--bucket_by_length creates batches of different lengths; a TPU"
    ),
    f"{_NER} --bucket_by_length --use_tpu --do_train": (
        "--bucket_by_length creates batches of different lengths; a TPU"
    ),
    f"{_NER} --dynamic_padding --use_tpu --do_train": (
        "--dynamic_padding creates batches of different lengths; a TPU"
    ),
    # Pre-training, and vectors.
    f"{_PRETRAIN} --input_file=empty": (
        "At least one of `do_train` or `do_eval` must be True."
    ),
    f"{_PRETRAIN} --do_train --input_file=nothing": (
        "No file matches 'nothing'."
    ),
    f"{_PRETRAIN} --do_train --input_file=empty --max_seq_length=33": (
        "up to sequence length 32"
    ),
    f"{_PRETRAIN} --do_eval --input_file=empty": "There is nothing to evaluate",
    f"{_PRETRAIN} --do_train --phases=stps=5": (
        "Each of --phases must be key=value pairs"
    ),
    _EXTRACT: "There is no checkpoint 'nothing'",
    f"{_EXTRACT} --layers=-9": "it has no layer -9. Choose others",
    f"{_EXTRACT} --max_seq_length=33": "trained up to sequence length 32",
    f"{_EXTRACT} --align=word --pooling=mean": "pass one of them",
    f"{_EXTRACT} --dtype=float16": "JSON lines hold",
    f"{_EXTRACT} --bert_config_file=small.json": (
        "entries, but the model's vocab_size is 9"
    ),
    f"{_EXTRACT} --input_file=nowhere": (
        "nowhere: No such file or directory (--input_file=nowhere)."
    ),
    f"{_EXTRACT} --output_file=folder": (
        "folder must be the name of a file to write; it is a folder."
    ),
    # Text and vocabularies.
    f"{_CREATE} --output_file=folder": "it is a folder.",
    f"{_CREATE} --input_file=folder": (
        "folder: Is a directory (--input_file=folder)."
    ),
    f"{_CREATE} --output_file=text.txt": (
        "text.txt must not be written: it is the input text.txt."
    ),
    f"{_CREATE} --output_file=x,./x": (
        "Outputs must be different files; x and ./x are the same file."
    ),
    f"{_SQUAD} --do_predict --output_dir=. --predict_file=predictions.json": (
        "predictions.json must not be written: it is the input"
    ),
    f"{_SWAG} --do_eval --output_dir=. "
    "--data_dir=. --eval_file=./predictions.json": (
        "predictions.json must not be written: it is the input"
    ),
    f"{_PRETRAIN} --do_train --input_file=*.json --output_dir=.": (
        "predictions.json must not be written: it is the input"
    ),
    f"{_CREATE} --input_format=book --encoding=utf-99": (
        "encoding must be one that Python supports; got 'utf-99'."
    ),
    f"{_CREATE} --output_file=,": "output_file must name one or more files",
    f"{_CREATE} --masking=80,10": "masking must be ",
    f"{_CREATE} --min_paragraph_words=3": "is for formats that are",
    f"{_CREATE} --shard_documents=1 --shard_by_file": "pass one of them",
    f"{_CREATE} --masked_lm_prob=15": "must be from 0 to 1; got 15.0.",
    _PREPARE: "--input_format=book needs --input_file.",
    f"{_PREPARE} --input_file=text.txt --output_file=./text.txt": (
        "./text.txt must not be written: it is the input text.txt."
    ),
    "tools.learn_vocab --input_file=text.txt --output_file=folder": (
        "it is a folder."
    ),
    "tools.export_model --export_dir=served": (
        "Pass the folder of a run, --model_dir, or a checkpoint"
    ),
    _MASKED + "--init_checkpoint=nothing": "There is no checkpoint 'nothing'",
    _MASKED + "--init_checkpoint=nothing --input_file=nowhere": (
        "nowhere: No such file or directory (--input_file=nowhere)."
    ),
    "tools.plot_attention --text=a --output_file=folder "
    f"--init_checkpoint=nothing {_MODEL}": "it is a folder.",
    "paper.squad_part --input_file=text.txt --output_file=part.json": (
        "text.txt, line 1, column 1: must be JSON"
    ),
    "paper.reproduce --scale=small": "--table and --figure; got neither.",
}


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """Returns what each command was told."""
    folder = tmp_path_factory.mktemp("refusals")
    toy_sentences.write_model(folder)
    (folder / "bert_config.json").rename(folder / "config.json")
    reviews = [("good match", "yes"), ("bad match", "no")]
    toy_sentences.write_data(folder / "reviews", reviews)
    toy_squad.write_json(folder / "train.json", toy_squad.dataset(3))
    toy_config.write(folder / "small.json", vocab_size=9)
    for name in ("folder", "swag", "MRPC"):
        (folder / name).mkdir()
    toy_swag.write(folder / "swag/train.csv", toy_swag.copying(3, 1))
    for name in ("train.tsv", "dev.tsv"):
        golden = toy_sentences.GOLDEN / "inputs/MRPC" / name
        (folder / "MRPC" / name).write_bytes(golden.read_bytes())
    for name in ("empty", "predictions.json", "empty.zip"):
        (folder / name).write_text("")
    (folder / "text.txt").write_text("a b .\nc d .\n\ne f .\n")
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


@pytest.mark.parametrize("command", _REFUSALS)
def test_refuses_at_once(told, command):
    assert _REFUSALS[command] in (told[command] or "nothing was refused")
