"""Scripts accept the commands of every table, and numbers are the paper's."""

import dataclasses
import pathlib

import pytest

from commands import flags as flags_lib
from paper import recipes, running, scales, tables
from tests import documented_commands as documented

_ROOT = pathlib.Path(__file__).parents[2]
_FOLDERS = running.Folders("my data", "my runs")
_SCALES = {"full": scales.full(), "small": scales.small()}
_TABLES = [(name, scale) for name in tables.ALL for scale in _SCALES]


def _make(name, scale="full", **options):
    return tables.ALL[name](_SCALES[scale], **options)


def _cell(table, row, column):
    (cell,) = (
        cell
        for cell in table.cells
        if (cell.row, cell.column.name) == (row, column)
    )
    return cell


def _parse(command):
    """Parses a command as its script would; returns its options."""
    values = documented.defined(command.program)
    program, *given = command.argv(_FOLDERS)
    if program == "-m":
        program, *given = given
    assert values([program, *given]) == [program]
    return flags_lib.read(documented.module(command.program).Options, values)


@pytest.mark.parametrize(("name", "scale"), _TABLES)
def test_every_command_is_accepted_by_its_script(name, scale):
    commands = _make(name, scale).commands()
    assert len({command.name for command in commands}) == len(commands)
    for place, command in enumerate(commands):
        options = _parse(command)
        if "output_dir" in command.flags:
            assert options.output_dir == command.output(_FOLDERS)
        for needed in command.needs():
            assert needed.id in {other.id for other in commands[:place]}
        for flag, value in command.flags.items():
            if isinstance(value, str) and flag.endswith("_file"):
                assert (_ROOT / value).is_file(), value


@pytest.mark.parametrize(("name", "scale"), _TABLES)
def test_every_claim_is_about_cells_of_its_table(name, scale):
    table = _make(name, scale)
    assert table.claims
    for claim in table.claims:
        for column in claim.columns:
            assert _cell(table, claim.better, column)
            assert _cell(table, claim.worse, column)
    if scale == "small":
        assert {cell.paper for cell in table.cells} == {None}


@pytest.mark.parametrize("scale", _SCALES)
def test_tables_share_what_they_pre_train(scale):
    def pretrained(name):
        return {
            command.folder
            for command in _make(name, scale).commands()
            if command.program == "run_pretraining.py"
        }

    assert [len(pretrained(f"table-{n}")) for n in (5, 8)] == [3, 6]
    assert pretrained("figure-5") < pretrained("table-5")
    for name in ("table-6", "table-8"):
        assert len(pretrained(name) & pretrained("table-5")) == 1


def test_phases_of_a_pre_training_follow_each_other_in_one_folder():
    last = recipes.pretrain(_SCALES["full"], "L-12 H-768 A-12")
    first = last.resumes
    assert first.folder == last.folder
    assert first.id != last.id
    assert first.flags["stop_at_step"] == 900_000
    assert first.flags["num_train_steps"] == 1_000_000
    assert last.flags["num_train_steps"] == 1_000_000
    assert [first.flags["max_seq_length"], last.flags["max_seq_length"]] == [
        128,
        512,
    ]


def test_left_to_right_models_stay_so_when_they_are_fine_tuned():
    for cell in _make("table-5").cells:
        (command,) = cell.commands
        is_left_to_right = cell.row in ("LTR & no NSP", "+ BiLSTM")
        causal = command.flags.get("attention") == "causal"
        assert causal == is_left_to_right
        bilstm = command.flags.get("bilstm_head", False)
        assert bilstm == (cell.row == "+ BiLSTM")


def test_training_flags_reach_every_script_that_trains():
    more = {"precision": "mixed_bfloat16", "packing": True, "recompute": True}
    changed = dataclasses.replace(_SCALES["small"], training_flags=more)
    for command in tables.table_8(changed).commands():
        _parse(command)
        trains = "do_train" in command.flags
        assert (more.items() <= command.flags.items()) == trains


def test_what_selects_a_run_is_not_a_second_score_nor_a_test_score():
    found = {
        (name, cell.column.name): cell.column.selected_by
        for name in ("table-1", "table-2", "table-7")
        for cell in _make(name).cells
        if cell.column.selected_by
    }
    assert found == {
        ("table-1", "MNLI-mm"): "eval_accuracy",
        ("table-1", "STS-B"): "eval_pearson",
        ("table-2", "EM"): "f1",
        ("table-7", "test F1"): "eval_f1",
    }
