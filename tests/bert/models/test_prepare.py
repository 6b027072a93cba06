"""The border of a command: the models that its flags name."""

import dataclasses

import pytest

from bert.commands import flags
from bert.models import folder as folder_lib
from bert.models import prepare
from bert.training import options as training_options
from tests.bert.models import toy_folders
from vocab import tokenization


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Run:
    output_dir: str
    init_checkpoint: str | None = None
    bert_config_file: str | None = None
    do_train: bool = False
    use_best_checkpoint: bool = False
    do_lower_case: bool = flags.Group.TEXT.flag(True, "")
    strip_accents: bool | None = flags.Group.TEXT.optional("")
    max_seq_length: int = flags.Group.TEXT.flag(512, "", of_model=True)
    context: str = flags.Group.TEXT.flag("document", "", of_model=True)


def _prepare(folder, start=None, *, trial_folders=(), best_trial=None, **named):
    config = folder.parent / "any_config.json"
    toy_folders.put(config.parent, config.name, toy_folders.CONFIG.to_dict())
    named = {"bert_config_file": str(config), "max_seq_length": 9, **named}
    options = _Run(
        output_dir=str(folder), init_checkpoint=start and str(start), **named
    )
    return prepare.prepare(
        options,
        {"max_seq_length"},
        task="tagging",
        trial_folders=trial_folders,
        best_trial=best_trial,
    )


def test_the_model_of_a_command_is_its_own_else_that_it_starts_from(tmp_path):
    run, start = tmp_path / "run", tmp_path / "start"
    toy_folders.trained(start)
    prepared = _prepare(run, start)
    assert (prepared.run.path, prepared.run.checkpoint) == (str(run), None)
    assert prepared.predicts_with == prepared.init
    toy_folders.trained(run)
    prepared = _prepare(run, f"{start}/model.ckpt-3")
    assert prepared.predicts_with == prepared.run
    assert prepared.init.path == str(start)


def test_a_stray_checkpoint_is_not_that_of_the_run(tmp_path):
    start = toy_folders.trained(tmp_path / "start")
    (tmp_path / "run").mkdir()
    (tmp_path / "run/x.index").touch()
    assert _prepare(tmp_path / "run", tmp_path / "start").predicts_with == start


def test_the_best_weights_answer_if_wanted(tmp_path):
    run, best = tmp_path / "run", {"use_best_checkpoint": True}
    toy_folders.trained(run)
    with pytest.raises(ValueError, match="is nothing to evaluate") as error:
        _prepare(tmp_path / "none")
    assert str(tmp_path / "none") in str(error.value)
    assert _prepare(run, **best).predicts_with is None
    of_best = toy_folders.trained(run / "best")
    prepared = _prepare(run, **best)
    assert prepared.predicts_with == of_best
    assert prepared.options.context == "sentence"
    # Training resumes from the latest weights all the same.
    toy_folders.trained(run, do_lower_case=True)
    prepared = _prepare(run, do_train=True, **best)
    assert prepared.options.do_lower_case is True


def test_several_trials_are_evaluated_as_they_were_trained(tmp_path):
    folders = [str(tmp_path / f"run/trial-{name}") for name in "ab"]
    trial = toy_folders.trained(tmp_path / "run/trial-b")
    prepared = _prepare(tmp_path / "run", trial_folders=folders)
    assert prepared.predicts_with == trial
    assert [folder.path for folder in prepared.trials] == folders


def test_the_best_weights_of_trials_answer_if_wanted(tmp_path):
    run = tmp_path / "run"
    named = {
        "trial_folders": [str(run / f"trial-{name}") for name in "ab"],
        "use_best_checkpoint": True,
    }
    start = toy_folders.trained(tmp_path / "start")
    toy_folders.trained(run / "trial-a")
    toy_folders.trained(run / "best")
    assert _prepare(run, tmp_path / "start", **named).predicts_with == start
    best = toy_folders.trained(run / "trial-b/best")
    assert _prepare(run, tmp_path / "start", **named).predicts_with == best


def test_the_best_trial_is_read_unless_the_folder_has_its_own_model(
    tmp_path, caplog
):
    best = toy_folders.trained(tmp_path / "run/trial-b")
    prepared = _prepare(tmp_path / "run", best_trial=best.path)
    assert prepared.run == prepared.predicts_with == best
    assert prepared.options.output_dir == best.path
    toy_folders.trained(tmp_path / "run")
    assert "of its own" not in caplog.text
    prepared = _prepare(tmp_path / "run", best_trial=best.path)
    assert prepared.run.path == str(tmp_path / "run")
    assert f"{tmp_path / 'run'} has a checkpoint of its own" in caplog.text
    assert f"pass --output_dir={best.path}." in caplog.text


def test_weights_that_are_needed_must_exist(tmp_path):
    run = tmp_path / "run"
    assert _prepare(run, do_train=True).predicts_with is None
    with pytest.raises(FileNotFoundError, match="no checkpoint at"):
        _prepare(run, tmp_path / "absent", do_train=True)
    torch = tmp_path / "model.pt"
    torch.write_bytes(b"PK\3\4")
    with pytest.raises(ValueError, match=r"model\.pt"):
        _prepare(run, torch, do_train=True)
    # They are not read if the run has its own.
    toy_folders.trained(run)
    _prepare(run, tmp_path / "absent/x", do_train=True)


@pytest.mark.parametrize(
    ("task", "given", "length", "context"),
    [
        ("tagging", (), 128, "sentence"),
        (None, (), 128, "sentence"),
        # The network has 160 positions.
        ("classification", (), 160, "document"),
    ],
)
def test_a_model_of_another_task_decides_the_casing_alone(
    tmp_path, task, given, length, context
):
    toy_folders.trained(tmp_path)
    run = _Run(output_dir=str(tmp_path))
    options = prepare.prepare(run, given, task=task).options
    assert not options.do_lower_case
    assert (options.max_seq_length, options.context) == (length, context)
    training = dataclasses.replace(run, do_train=True)
    options = prepare.prepare(training, given, task=task).options
    assert (options.max_seq_length, options.context) == (160, "document")


def test_a_model_that_does_not_say_its_task_decides_the_flags(tmp_path):
    toy_folders.trained(tmp_path, task=None)
    run = _Run(output_dir=str(tmp_path))
    options = prepare.prepare(run, (), task="classification").options
    assert (options.max_seq_length, options.context) == (128, "sentence")


def test_a_length_that_the_network_does_not_have_is_refused(tmp_path):
    with pytest.raises(ValueError, match="max_position_embeddings"):
        _prepare(tmp_path / "run", do_train=True, max_seq_length=161)


@pytest.mark.parametrize("start", ["run", "run/", "run/model.ckpt-3", "link"])
def test_a_model_is_not_trained_in_the_folder_that_it_starts_from(
    tmp_path, start
):
    toy_folders.trained(tmp_path / "run")
    (tmp_path / "link").symlink_to(tmp_path / "run")
    path = f"{tmp_path}/{start}"
    with pytest.raises(ValueError, match="is the folder of --init_checkpoint"):
        _prepare(tmp_path / "run", path, do_train=True)
    # As released, it may be named twice to predict.
    _prepare(tmp_path / "run", path)


@pytest.mark.parametrize("name", ["run [v2]", r"a\b"])
def test_folders_whose_checkpoints_cannot_be_read_are_refused(tmp_path, name):
    start = toy_folders.trained(tmp_path / "start")
    with pytest.raises(ValueError, match=r"must not contain \[ or a backslash"):
        _prepare(tmp_path / name, start.path, do_train=True)
    # An evaluation of other weights writes no checkpoint there.
    _prepare(tmp_path / name, start.path)


_PLANNED = folder_lib.PlannedModel(
    config=toy_folders.CONFIG, description=toy_folders.TAGGER
)


@pytest.mark.parametrize("do_train", [False, True])
def test_weights_of_another_text_are_refused_unless_the_run_has_its_own(
    tmp_path, do_train
):
    toy_folders.trained(tmp_path / "start", do_lower_case=True)
    run = tmp_path / "run"
    run.mkdir()
    # A stray checkpoint does not hide the other start.
    (run / "x.index").touch()
    prepared = _prepare(run, tmp_path / "start", do_train=do_train)
    with pytest.raises(ValueError, match="do_lower_case is True there and"):
        prepared.check(_PLANNED)
    toy_folders.trained(run)
    prepared = _prepare(run, tmp_path / "start", do_train=do_train)
    prepared.check(_PLANNED)


def test_the_output_layer_of_a_start_matters_only_if_it_answers(tmp_path):
    start, run = tmp_path / "start", tmp_path / "run"
    toy_folders.trained(start, labels=("O",))
    _prepare(run, start, do_train=True).check(_PLANNED)
    with pytest.raises(ValueError, match=r"does not fit: labels .* output lay"):
        _prepare(run, start).check(_PLANNED)
    trial = str(run / "trial-a")
    toy_folders.trained(run / "trial-a")
    _prepare(run, start, trial_folders=[trial]).check(_PLANNED)


def test_each_folder_of_a_grid_is_compared(tmp_path):
    folders = [str(tmp_path / f"run/trial-{name}") for name in "ab"]
    toy_folders.trained(tmp_path / "run/trial-a")
    toy_folders.trained(tmp_path / "run/trial-b", labels=("O",))
    named = {"trial_folders": folders, "do_train": True}
    with pytest.raises(ValueError, match=r"in .*trial-b is another one: label"):
        _prepare(tmp_path / "run", **named).check(_PLANNED)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Options(training_options.ModelOptions):
    pass


def test_a_program_that_applies_a_model_reads_text_as_the_model_does(tmp_path):
    entries = ["[UNK]", "[CLS]", "[SEP]", "b"]
    toy_folders.put_entries(tmp_path / "vocab.txt", entries)
    toy_folders.trained(tmp_path)

    def read(*given, **values):
        return prepare.open_model(
            _Options(init_checkpoint=str(tmp_path), **values), given
        )

    prepared = read()
    assert prepared.run.path == str(tmp_path)
    assert prepared.config == toy_folders.CONFIG
    options = prepared.options
    assert options.vocab_file == str(tmp_path / "vocab.txt")
    assert (options.do_lower_case, options.strip_accents) == (False, False)
    tokenizer = prepared.read_tokenizer()
    assert tokenizer.vocab_sha256 == tokenization.vocab_sha256(entries)
    other = toy_folders.put_entries(tmp_path / "other.txt", entries[::-1])
    with pytest.raises(ValueError, match=r"must be that of the model: .*other"):
        read(vocab_file=other)
    with pytest.raises(ValueError, match="do_lower_case is False there and Tr"):
        read("do_lower_case")
    with pytest.raises(ValueError, match="strip_accents is False there and Tr"):
        read("strip_accents", strip_accents=True)
    toy_folders.trained(tmp_path, attention="causal")
    with pytest.raises(ValueError, match="attention is 'causal' there and 'bi"):
        read()
    (tmp_path / "model.ckpt-3.index").unlink()
    with pytest.raises(FileNotFoundError, match="no checkpoint at"):
        read()
