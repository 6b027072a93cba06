"""Flags that are not given, from the folder of a model."""

import dataclasses

import pytest

from bert.commands import flags
from bert.models import flag_defaults
from bert.models import folder as folder_lib
from tests.bert.models import toy_folders


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Options:
    vocab_file: str | None = flags.Group.TEXT.optional("")
    bert_config_file: str | None = flags.Group.MODEL.optional("")
    do_lower_case: bool = flags.Group.TEXT.flag(True, "")
    strip_accents: bool | None = flags.Group.TEXT.optional("")
    max_seq_length: int = flags.Group.TEXT.flag(512, "", of_model=True)
    context: str = flags.Group.TEXT.flag("document", "", of_model=True)
    scale: int = flags.Group.TEXT.flag(5, "", of_model=True)
    choices: tuple[str, ...] = flags.Group.TEXT.flag((), "", of_model=True)
    batch_size: int = flags.Group.SPEED.positive(8, "")


_FILES = {"vocab_file": "v.txt", "bert_config_file": "c.json"}


def _fill(model, given=(), *, only_text=False, **values):
    return flag_defaults.fill(
        _Options(**(_FILES | values)), model, given, only_text=only_text
    )


def test_a_run_without_training_follows_the_folder(tmp_path, caplog):
    caplog.set_level("INFO")
    model = toy_folders.trained(tmp_path)
    options = _fill(model)
    assert options == _Options(
        **_FILES,
        do_lower_case=False,
        strip_accents=False,
        max_seq_length=128,
        context="sentence",
    )
    assert (
        f"Flags not given, from {tmp_path}: --do_lower_case=False (task.json), "
        "--strip_accents=False (task.json), --max_seq_length=128 (task.json), "
        "--context=sentence (task.json)"
    ) in caplog.text


def test_a_list_is_followed_as_that_of_its_flag(tmp_path, caplog):
    model = toy_folders.trained(tmp_path, flags={"choices": ["a", "b"]})
    assert _fill(model).choices == ("a", "b")
    same = _fill(model, {"choices"}, choices=("a", "b"))
    assert same.choices == ("a", "b")
    assert not [r for r in caplog.records if r.levelname == "WARNING"]


def test_a_training_follows_the_text_alone(tmp_path):
    options = _fill(toy_folders.trained(tmp_path), only_text=True)
    assert options == _Options(
        **_FILES, do_lower_case=False, strip_accents=False, max_seq_length=160
    )


def test_a_training_is_no_longer_than_the_network(tmp_path):
    # 160 positions, and a default of 512.
    model = toy_folders.trained(tmp_path)
    for given, values, want in (
        ((), {}, 160),
        (("max_seq_length",), {}, 512),
        ((), {"max_seq_length": 200}, 200),
        ((), {"max_seq_length": 64}, 64),
    ):
        options = _fill(model, given, only_text=True, **values)
        assert options.max_seq_length == want


def test_a_training_is_as_short_as_its_flag_says_in_a_longer_network(tmp_path):
    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Short(_Options):
        max_seq_length: int = flags.Group.TEXT.flag(128, "", of_model=True)

    # 160 positions.
    model = toy_folders.trained(tmp_path)
    options = flag_defaults.fill(Short(**_FILES), model, (), only_text=True)
    assert options.max_seq_length == 128


def test_the_files_of_the_folder_are_used(tmp_path, caplog):
    caplog.set_level("INFO")
    toy_folders.put_entries(tmp_path / "vocab.txt", ["[PAD]"])
    model = toy_folders.trained(tmp_path)
    options = _fill(model, vocab_file=None, bert_config_file=None)
    assert options.vocab_file == str(tmp_path / "vocab.txt")
    assert options.bert_config_file == str(tmp_path / "bert_config.json")
    assert f"--vocab_file={tmp_path / 'vocab.txt'} (vocab.txt)" in caplog.text


def test_files_that_nobody_has_are_asked_for_by_name(tmp_path):
    with pytest.raises(
        ValueError, match=r"^--vocab_file, --bert_config_file must be given\.$"
    ):
        _fill(None, vocab_file=None, bert_config_file=None)
    model = toy_folders.trained(tmp_path)
    with pytest.raises(
        ValueError,
        match=r"^--vocab_file must be given, because .* has no vocab\.txt\.",
    ):
        _fill(model, vocab_file=None, bert_config_file=None)


def test_given_flags_that_differ_are_named_with_both_values(tmp_path, caplog):
    model = toy_folders.trained(tmp_path)
    options = _fill(model, {"context"}, max_seq_length=64)
    assert (options.context, options.max_seq_length) == ("document", 64)
    for message in (
        "--max_seq_length=64 is not the value of the model in",
        "which is 128.",
        "--context=document is not the value",
    ):
        assert message in caplog.text


def test_a_casing_that_differs_is_left_to_the_check_of_the_weights(
    tmp_path, caplog
):
    model = toy_folders.trained(tmp_path)
    given = {"do_lower_case", "strip_accents"}
    options = _fill(model, given, strip_accents=True)
    assert (options.do_lower_case, options.strip_accents) == (True, True)
    assert "is not the value" not in caplog.text


def test_a_shorter_length_than_the_limit_of_another_program_is_no_contradiction(
    tmp_path, caplog
):
    toy_folders.put(tmp_path, "tokenizer_config.json", {"model_max_length": 64})
    model = folder_lib.ModelFolder.open(str(tmp_path))
    assert _fill(model).max_seq_length == 64
    assert _fill(model, {"max_seq_length"}, max_seq_length=32) == _Options(
        **_FILES, max_seq_length=32
    )
    assert "is not the value" not in caplog.text


def test_the_accents_of_a_folder_belong_to_its_casing(tmp_path):
    model = toy_folders.trained(
        tmp_path, do_lower_case=True, strip_accents=False
    )
    assert _fill(model).strip_accents is False
    assert _fill(model, {"do_lower_case"}).strip_accents is False
    cased = _fill(model, {"do_lower_case"}, do_lower_case=False)
    assert (cased.do_lower_case, cased.strip_accents) == (False, None)
    # Other entries do not depend on the casing.
    assert (cased.max_seq_length, cased.context) == (128, "sentence")


def test_only_flags_of_the_model_are_followed_and_of_their_type(tmp_path):
    own = {"batch_size": 1, "scale": 7}
    assert _fill(
        toy_folders.trained(tmp_path, flags=own | {"context": "sentence"})
    ) == _Options(
        **_FILES,
        do_lower_case=False,
        strip_accents=False,
        max_seq_length=128,
        context="sentence",
        scale=7,
    )
    model = toy_folders.trained(tmp_path, flags={"scale": "7"})
    with pytest.raises(
        ValueError, match=r"task\.json: 'scale' must be a value of --scale; go"
    ):
        _fill(model)


def test_a_new_model_has_the_flags_of_the_command():
    assert _fill(None) == _Options(**_FILES)
    empty = folder_lib.ModelFolder.open("nowhere")
    assert _fill(empty) == _Options(**_FILES)


def test_a_vocabulary_may_be_named_by_its_model(tmp_path):
    toy_folders.put_entries(tmp_path / "vocab.txt", ["[PAD]"])
    toy_folders.trained(tmp_path)
    options = _Options(**_FILES | {"vocab_file": str(tmp_path)})
    assert flag_defaults.fill_vocabulary(options, ()) == _Options(
        vocab_file=str(tmp_path / "vocab.txt"),
        bert_config_file="c.json",
        do_lower_case=False,
        strip_accents=False,
        max_seq_length=160,
    )
    # A file is what it always was: its casing is that of the flags.
    options = _Options(**_FILES | {"vocab_file": f"{tmp_path}/vocab.txt"})
    assert flag_defaults.fill_vocabulary(options, ()) == options


def test_a_command_without_a_model_is_told_how_to_name_one():
    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Named(_Options):
        init_checkpoint: str | None = None

    with pytest.raises(
        ValueError, match=r"pass --init_checkpoint=FOLDER or hf://ORGANISATION"
    ):
        flag_defaults.fill(Named(), None, (), only_text=True)
