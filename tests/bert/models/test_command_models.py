"""The models that the flags of a command name."""

import dataclasses

import pytest

from bert.models import command_models, describing
from bert.training import options as training_options
from tests.bert.models import toy_folders


def _open(folder, start=None, **options):
    return command_models.CommandModels.open(
        str(folder), start and str(start), **options
    )


def test_the_model_of_a_command_is_its_own_else_that_it_starts_from(tmp_path):
    run, start = tmp_path / "run", tmp_path / "start"
    toy_folders.trained(start)
    models = _open(run, start)
    assert (models.run.path, models.run.checkpoint) == (str(run), None)
    assert models.origin == models.answering == models.start
    toy_folders.trained(run)
    models = _open(run, f"{start}/model.ckpt-3")
    assert models.origin == models.answering == models.run
    assert models.start.path == str(start)


def test_a_stray_checkpoint_is_not_that_of_the_run(tmp_path):
    start = toy_folders.trained(tmp_path / "start")
    (tmp_path / "run").mkdir()
    (tmp_path / "run/x.index").touch()
    models = _open(tmp_path / "run", tmp_path / "start")
    assert models.origin == models.answering == start


def test_the_best_weights_answer_if_wanted(tmp_path):
    toy_folders.trained(tmp_path)
    assert _open(tmp_path, uses_best=True).answering is None
    best = toy_folders.trained(tmp_path / "best", context="document")
    assert _open(tmp_path, uses_best=True).answering == best
    # Training resumes from the latest weights all the same.
    assert _open(tmp_path, uses_best=True).origin.path == str(tmp_path)


def test_several_trials_are_evaluated_as_they_were_trained(tmp_path):
    folders = [str(tmp_path / f"trial-{name}") for name in "ab"]
    assert _open(tmp_path, trial_folders=folders).answering is None
    trial = toy_folders.trained(tmp_path / "trial-b")
    assert _open(tmp_path, trial_folders=folders).answering == trial


def test_the_best_weights_of_trials_answer_if_wanted(tmp_path):
    folders = [str(tmp_path / f"trial-{name}") for name in "ab"]
    options = {"trial_folders": folders, "uses_best": True}
    toy_folders.trained(tmp_path / "trial-a")
    toy_folders.trained(tmp_path / "best")
    assert _open(tmp_path, **options).answering is None
    best = toy_folders.trained(tmp_path / "trial-b/best")
    assert _open(tmp_path, **options).answering == best


def test_the_best_trial_is_read_unless_the_folder_has_its_own_model(tmp_path):
    best = toy_folders.trained(tmp_path / "trial-b")
    models = _open(tmp_path, best_trial=best.path)
    assert models.run == best
    assert models.answering.path == best.path
    toy_folders.trained(tmp_path)
    models = _open(tmp_path, best_trial=best.path)
    assert models.run.path == str(tmp_path)


def test_weights_that_are_needed_must_exist(tmp_path):
    with pytest.raises(ValueError, match="is nothing to evaluate"):
        _open(tmp_path).check_weights(is_training=False)
    _open(tmp_path).check_weights(is_training=True)
    with pytest.raises(FileNotFoundError, match="no checkpoint at"):
        _open(tmp_path, "absent").check_weights(is_training=True)
    (tmp_path / "other").mkdir()
    torch = tmp_path / "other/model.pt"
    torch.write_bytes(b"PK\3\4")
    with pytest.raises(ValueError, match=r"model\.pt"):
        _open(tmp_path, torch).check_weights(is_training=True)
    # They are not read if the run has its own.
    toy_folders.trained(tmp_path)
    _open(tmp_path, "absent").check_weights(is_training=True)


_PLANNED = describing.PlannedModel(
    config=toy_folders.CONFIG, description=toy_folders.TAGGER
)


def test_weights_of_another_text_are_refused_unless_the_run_has_its_own(
    tmp_path,
):
    toy_folders.trained(tmp_path / "start", do_lower_case=True)
    run = tmp_path / "run"
    run.mkdir()
    # A stray checkpoint does not hide the other start.
    (run / "x.index").touch()
    for is_training in (True, False):
        with pytest.raises(ValueError, match="do_lower_case is True there and"):
            _open(run, tmp_path / "start").check_start(
                _PLANNED, is_training=is_training
            )
    _open(run).check_start(_PLANNED, is_training=True)
    toy_folders.trained(run)
    _open(run, tmp_path / "start").check_start(_PLANNED, is_training=True)


def test_the_output_layer_of_a_start_matters_only_if_it_answers(tmp_path):
    start = tmp_path / "start"
    toy_folders.trained(start, labels=("O",))
    models = _open(tmp_path / "run", start)
    models.check_start(_PLANNED, is_training=True)
    with pytest.raises(ValueError, match=r"The output layer of .* is another"):
        models.check_start(_PLANNED, is_training=False)
    folders = [str(tmp_path / "trial-a")]
    toy_folders.trained(tmp_path / "trial-a")
    models = _open(tmp_path / "run", start, trial_folders=folders)
    models.check_start(_PLANNED, is_training=False)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Options(training_options.ModelOptions):
    pass


def test_a_pretrained_model_is_read_with_its_own_text(tmp_path):
    toy_folders.put_entries(tmp_path / "vocab.txt", ["a", "b"])
    toy_folders.trained(tmp_path)
    options, model = command_models.open_pretrained(
        _Options(init_checkpoint=str(tmp_path)), ()
    )
    assert model.path == str(tmp_path)
    assert options.vocab_file == str(tmp_path / "vocab.txt")
    assert (options.do_lower_case, options.strip_accents) == (False, False)
    other = toy_folders.put_entries(tmp_path / "other.txt", ["b", "a"])
    with pytest.raises(ValueError, match=r"must be that of the model: .*other"):
        command_models.open_pretrained(
            _Options(init_checkpoint=str(tmp_path), vocab_file=other), ()
        )
    with pytest.raises(ValueError, match="do_lower_case is False there and Tr"):
        command_models.open_pretrained(
            _Options(init_checkpoint=str(tmp_path)), {"do_lower_case"}
        )
    with pytest.raises(ValueError, match="strip_accents is False there and Tr"):
        command_models.open_pretrained(
            _Options(init_checkpoint=str(tmp_path), strip_accents=True),
            {"strip_accents"},
        )
    toy_folders.trained(tmp_path, attention="causal")
    with pytest.raises(ValueError, match="attention is 'causal' there and 'bi"):
        command_models.open_pretrained(
            _Options(init_checkpoint=str(tmp_path)), ()
        )


@pytest.mark.parametrize("start", ["run", "run/", "run/model.ckpt-3", "link"])
def test_a_model_is_not_trained_in_the_folder_that_it_starts_from(
    tmp_path, start
):
    toy_folders.trained(tmp_path / "run")
    (tmp_path / "link").symlink_to(tmp_path / "run")
    models = _open(tmp_path / "run", f"{tmp_path}/{start}")
    with pytest.raises(ValueError, match="is the folder of --init_checkpoint"):
        models.check_weights(is_training=True)
    # As released, it may be named twice to predict.
    models.check_weights(is_training=False)
