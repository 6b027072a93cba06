"""Scripts accept the commands of every table."""

import importlib
import pathlib

import pytest

from commands import flags as flags_lib
from paper import jobs, tables
from tests import documented_commands as documented

_ROOT = pathlib.Path(__file__).parents[2]
_FOLDERS = jobs.Folders("my data", "my runs")
_TABLES = [(name, scale) for name in tables.NAMES for scale in tables.SCALES]


def _make(name, scale, models=tables.MODELS, more_flags=None):
    return tables.make(name, tables.read_scale(scale, more_flags), models)


def _parse(job):
    """Parses a command as its script would; returns its options."""
    values = documented.defined(job.program)
    program, *given = jobs.arguments(job, _FOLDERS)
    if program == "-m":
        program, *given = given
    left = values([program, *given])
    assert left == [program]
    return flags_lib.read(documented.module(job.program).Options, values)


def test_every_table_and_figure_is_there():
    assert set(tables.NAMES) == {
        *(f"table-{number}" for number in range(1, 9)),
        "figure-5",
    }


@pytest.mark.parametrize(("name", "scale"), _TABLES)
def test_every_command_is_accepted_by_its_script(name, scale):
    table = _make(name, scale)
    for job in table.jobs():
        options = _parse(job)
        if job.program in ("run_squad.py", "run_pretraining.py"):
            assert options.output_dir == _FOLDERS.output(job)
        if job.program == "run_pretraining.py":
            parser = importlib.import_module("training.phases")
            phases = parser.parse(options)
            assert phases[-1].end == options.num_train_steps
        for needed in job.needs:
            # What a command needs is what another writes.
            folder = _FOLDERS.output(needed)
            assert any(
                folder in argument for argument in jobs.arguments(job, _FOLDERS)
            )


@pytest.mark.parametrize(("name", "scale"), _TABLES)
def test_files_of_the_checkout_that_commands_name_exist(name, scale):
    for job in _make(name, scale).jobs():
        for flag, value in job.flags.items():
            if isinstance(value, str) and flag.endswith("_file"):
                assert (_ROOT / value).is_file(), value


@pytest.mark.parametrize(("name", "scale"), _TABLES)
def test_jobs_come_after_what_they_need_and_have_names_of_their_own(
    name, scale
):
    ordered = _make(name, scale).jobs()
    folders = [job.folder for job in ordered]
    assert len(set(folders)) == len(folders)
    assert len({job.name for job in ordered}) == len(ordered)
    for place, job in enumerate(ordered):
        assert {needed.folder for needed in job.needs} <= set(folders[:place])
        assert job.seconds > 0


@pytest.mark.parametrize(("name", "scale"), _TABLES)
def test_every_number_and_expectation_of_a_scale_is_in_its_table(name, scale):
    content = tables.read_scale(scale).content[name]
    paper = content.get("paper", {})
    table = _make(name, scale)
    assert len(table.expected) == sum(
        len(claim["rows"]) * len(claim["columns"])
        for claim in content["claims"]
    )
    assert set(paper) | set(content.get("references", {})) <= set(table.rows)
    assert {cell.paper for _, _, cell in table.cells()} - {None} == {
        number for numbers in paper.values() for number in numbers
    }


def test_tables_share_what_they_pre_train():
    def pretrained(name, scale):
        return {
            job.folder
            for job in _make(name, scale).jobs()
            if job.program == "run_pretraining.py"
        }

    for scale in tables.SCALES:
        assert len(pretrained("table-5", scale)) == 3
        assert len(pretrained("table-8", scale)) == 6
        assert len(pretrained("figure-5", scale)) == 2
        assert pretrained("figure-5", scale) <= pretrained("table-5", scale)
        for name in ("table-6", "table-8"):
            shared = pretrained(name, scale) & pretrained("table-5", scale)
            assert len(shared) == 1


def test_left_to_right_models_stay_so_when_they_are_fine_tuned():
    table = _make("table-5", "full")
    for row, _, cell in table.cells():
        for job in cell.jobs:
            given = job.flags
            is_left_to_right = row in ("LTR & no NSP", "+ BiLSTM")
            assert (given.get("attention") == "causal") == is_left_to_right
            assert given.get("bilstm_head", False) == (row == "+ BiLSTM")


def test_the_model_chooses_rows():
    both = _make("table-1", "full")
    base = _make("table-1", "full", models=("base",))
    assert list(both.rows) == ["base", "large"]
    assert base.rows == {"base": both.rows["base"]}
    with pytest.raises(ValueError, match="--model is for table-1"):
        _make("table-5", "full", models=("base",))


def test_more_flags_reach_every_script_that_trains():
    more = {"precision": "mixed_bfloat16"}
    for name, scale in _TABLES:
        plain = _make(name, scale).jobs()
        changed = _make(name, scale, more_flags=more).jobs()
        assert len(changed) == len(plain)
        for job in changed:
            trains = job.flags.get("do_train", False)
            assert (more.items() <= job.flags.items()) == trains


def test_more_flags_do_not_reach_scripts_that_refuse_them():
    more = {"packing": True, "recompute": True}

    def passed(job):
        return more.keys() & job.flags.keys()

    for job in _make("table-8", "small", more_flags=more).jobs():
        if job.program == "run_pretraining.py":
            assert passed(job) == {"recompute"}
        elif "do_train" in job.flags:
            is_fine_tuned = "features" not in job.flags
            assert passed(job) == (set(more) if is_fine_tuned else set())


# Source: the tables of the paper, read a second time from its text.
@pytest.mark.parametrize(
    ("name", "row", "column", "number"),
    [
        ("table-1", "large", "CoLA", 60.5),
        ("table-1", "base", "RTE", 66.4),
        ("table-2", "base", "F1", 88.5),
        ("table-2", "large + TriviaQA", "EM", 84.2),
        ("table-3", "large", "F1", 81.9),
        ("table-4", "large", "dev", 86.6),
        ("table-5", "+ BiLSTM", "SQuAD", 84.9),
        ("table-5", "LTR & no NSP", "MRPC", 77.5),
        ("table-6", "L-6 H-768 A-3", "perplexity", 5.24),
        ("table-6", "L-24 H-1024 A-16", "SST-2", 93.7),
        ("table-7", "concat last four", "dev F1", 96.1),
        ("table-7", "fine-tuned, base", "test F1", 92.4),
        ("table-8", "100/0/0", "NER features", 94.0),
        ("figure-5", "LTR 30k", "MNLI-m", 79.4),
    ],
)
def test_numbers_are_the_papers(name, row, column, number):
    table = _make(name, "full")
    assert table.rows[row][column].paper == number


def test_the_manual_has_the_estimates():
    text = (_ROOT / "docs" / "reproducing_the_paper.md").read_text(
        encoding="utf-8"
    )
    every = {}

    def hours(found):
        pretraining = sum(
            job.seconds for job in found if job.program == "run_pretraining.py"
        )
        total = sum(job.seconds for job in found)
        return f"| {jobs.hours(pretraining)} | {jobs.hours(total)} |"

    for name in tables.NAMES:
        found = _make(name, "small").jobs()
        every |= {job.folder: job for job in found}
        title = name.replace("-", " ").capitalize()
        assert f"| {title} {hours(found)}" in text
    assert f"| all of them {hours(every.values())}" in text
