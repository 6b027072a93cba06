"""Scripts accept the commands of every table, and numbers are the paper's."""

import dataclasses
import pathlib
import re

import pytest

from bert.commands import flags as flags_lib
from bert.tasks.classification import glue
from paper import plans, report, running, scales, tables
from tests.support import documented_commands as documented
from tests.support import locations
from tools import download

_FOLDERS = running.Folders("my data", "my runs")
_TABLES = [(name, scale) for name in tables.ALL for scale in scales.ALL]


def _make(name, scale="full"):
    return tables.make(name, plans.Plan(scales.ALL[scale]))


def _cell(table, row, column):
    (cell,) = (
        cell
        for cell in table.cells
        if (cell.row, cell.column.name) == (row, column)
    )
    return cell


def _flags(command):
    """Returns the flags of a command, `True` for those without a value."""
    parted = [word[2:].partition("=") for word in command.words]
    return {name: value if sign else True for name, sign, value in parted}


def _parse(command):
    """Parses a command as its script would; returns its options."""
    program, *given = command.argv(_FOLDERS)
    if program == "-m":
        program, *given = given
    values = documented.defined(program)
    assert values([program, *given]) == [program]
    return flags_lib.read(documented.module(program).Options, values)


@pytest.mark.parametrize(("name", "scale"), _TABLES)
def test_every_command_is_accepted_by_its_script(name, scale):
    commands = _make(name, scale).commands
    assert len({command.name for command in commands}) == len(commands)
    made = set()
    for command in commands:
        _parse(command)
        text = " ".join(command.words)
        for path in re.findall(r"=((?:modeling|paper)/\S+)", text):
            assert (locations.ROOT / path).is_file(), path
        # It reads the output of those before it.
        assert set(re.findall(r"\$WORK/([^/]+)/out", text)) <= made
        made.add(command.folder)


@pytest.mark.parametrize(("name", "scale"), _TABLES)
def test_every_claim_is_about_cells_of_its_table(name, scale):
    table = _make(name, scale)
    assert table.claims
    for claim in table.claims:
        for column in claim.columns:
            assert _cell(table, claim.better, column)
            assert _cell(table, claim.worse, column)
    for cell in table.cells:
        assert cell.is_of_the_paper == (scale == "full")
        if scale == "small":
            assert cell.column.is_mean
            assert cell.dev is None


def test_the_numbers_of_the_paper_rank_as_it_claims():
    for name in tables.ALL:
        table = _make(name)
        for claim in table.claims:
            for column in claim.columns:
                better, worse = (
                    _cell(table, row, column)
                    for row in (claim.better, claim.worse)
                )
                if worse.paper is None:  # Of SQuAD 2.0.
                    assert (name, worse.row) == ("table-3", "base")
                elif better.paper is None:  # The paper's ensembles are LARGE.
                    assert better.row == "MultiBERTs, ensemble"
                elif better.column.metric.endswith("_loss"):
                    assert better.paper < worse.paper, (claim, column)
                else:
                    assert better.paper > worse.paper, (claim, column)


def test_the_scores_of_glue_have_the_averages_of_the_paper():
    cells = [
        cell
        for cell in _make("table-1").cells
        if cell.column.name not in ("WNLI", "leaderboard")
    ]
    systems = dict.fromkeys(cell.row for cell in cells)
    assert len(systems) == 5
    for system in systems:
        *scores, average = [c.paper for c in cells if c.row == system]
        assert len(scores) == 9
        # The paper averages scores before they are rounded. One score that is
        # off by 1 moves the average by 0.11.
        assert abs(sum(scores) / 9 - average) < 0.06


def test_the_margins_that_the_paper_states_are_those_of_its_tables():
    def paper(table, row, column):
        return _cell(_make(table), row, column).paper

    average = ("table-1", "OpenAI GPT", "average")
    for (better, worse), margin in {
        # Section 4.1, and the abstract for MultiNLI and the leaderboard.
        (
            ("table-1", "large", "leaderboard"),
            ("table-1", "OpenAI GPT", "leaderboard"),
        ): 7.7,
        (("table-1", "base", "average"), average): 4.5,
        (("table-1", "large", "average"), average): 7.0,
        (
            ("table-1", "large", "MNLI-m"),
            ("table-1", "OpenAI GPT", "MNLI-m"),
        ): 4.6,
        # Section 4.2.
        (
            ("table-2", "large + TriviaQA, ensemble", "test F1"),
            (
                *("table-2", "nlnet, ensemble, first of the leaderboard"),
                "test F1",
            ),
        ): 1.5,
        # Section 4.3.
        (
            ("table-3", "large", "test F1"),
            ("table-3", "MIR-MRC (F-Net), first of the leaderboard", "test F1"),
        ): 5.1,
        # Section 4.4.
        (
            ("table-4", "large", "test"),
            ("table-4", "ESIM+ELMo", "test"),
        ): 27.1,
        (
            ("table-4", "large", "test"),
            ("table-4", "OpenAI GPT", "test"),
        ): 8.3,
        # Section 5.3.
        (
            ("table-7", "fine-tuned, base", "dev F1"),
            ("table-7", "concat last four", "dev F1"),
        ): 0.3,
    }.items():
        assert round(paper(*better) - paper(*worse), 1) == margin


def test_scores_of_the_test_set_stand_in_its_columns():
    found = {
        cell.column.name: cell.paper
        for cell in _make("table-3").cells
        if cell.row == "SLQA+, published"
    }
    assert found == {"test EM": 71.4, "test F1": 74.4}


@pytest.mark.parametrize("name", tables.OF_SIZES)
def test_systems_that_are_not_trained_here_have_a_dash(name, tmp_path):
    table = _make(name)
    others = [cell for cell in table.cells if not cell.commands]
    assert others and all(cell.paper is not None for cell in others)
    folders = running.Folders("data", str(tmp_path))
    path = report.write(name, "full", table, folders)
    lines = pathlib.Path(path).read_text(encoding="utf-8").splitlines()
    for cell in others:
        start = f"| {cell.row} | {cell.column.name} | {cell.paper:.1f} "
        (line,) = (line for line in lines if line.startswith(start))
        assert line.endswith("| – | – | – | – | – |")
    small = _make(name, "small").cells
    assert all(cell.commands for cell in small)


def test_hyperparameters_are_those_that_the_paper_states():
    def of(task):
        names = ("train_batch_size", "num_train_epochs")
        rates = [v for k, v in task.flags.items() if "learning_rate" in k]
        return [*(task.flags[name] for name in names), *rates]

    plan = plans.Plan(scales.FULL)
    # Sections 4.1 to 4.4; of pre-training see tests/test_paper_page.py.
    assert of(plan.glue("RTE")) == [32, 3, (5e-5, 4e-5, 3e-5, 2e-5)]
    assert of(plan.squad("1.1")) == [32, 3, 5e-5]
    assert of(plan.squad("2.0")) == [48, 2, 5e-5]
    assert of(plan.swag()) == [16, 3, 2e-5]
    # The share of predictions that they allow is at least the paper's.
    for scale in scales.ALL.values():
        for phase in scale.phases:
            wanted = round(0.15 * phase.max_seq_length)
            assert abs(phase.max_predictions_per_seq - wanted) <= 1
        assert scale.figure_steps[-1] == sum(p.num_steps for p in scale.phases)
        assert not any(s % scale.keep_every for s in scale.figure_steps)
    for row in ("MLM", "LTR"):
        cells = [c for c in _make("figure-5").cells if c.row.startswith(row)]
        assert len(cells) == len(scales.FULL.figure_steps)


def test_small_models_are_ranked_beside_those_of_the_paper():
    table = _make("table-5", "small")
    assert _cell(table, "MLM + NSP", "SQuAD").paper == 88.5
    assert table.notes[-1].startswith("BASE is L-4 H-128, LARGE is L-4 H-256;")
    assert "BASE is" not in " ".join(_make("table-5").notes)
    # Other sizes and other steps than the paper's have no numbers.
    for name in ("table-6", "figure-5"):
        assert {cell.paper for cell in _make(name, "small").cells} == {None}


@pytest.mark.parametrize("scale", scales.ALL)
def test_tables_share_what_they_pre_train(scale):
    def pretrained(name):
        return {
            command.folder
            for command in _make(name, scale).commands
            if command.words[0] == "run_pretraining.py"
        }

    assert [len(pretrained(f"table-{n}")) for n in (5, 8)] == [3, 6]
    assert pretrained("figure-5") < pretrained("table-5")
    for name in ("table-6", "table-8"):
        assert len(pretrained(name) & pretrained("table-5")) == 1


def test_phases_of_a_pre_training_follow_each_other_in_one_folder():
    plan = plans.Plan(scales.FULL)
    (last,) = plan.pretrained("L-12 H-768 A-12").commands
    first = plan.commands[-2]
    assert first.folder == last.folder
    assert first.marker(_FOLDERS) != last.marker(_FOLDERS)
    names = ("stop_at_step", "num_train_steps", "max_seq_length")
    assert [
        [_flags(command).get(name) for name in names]
        for command in (first, last)
    ] == [["900000", "1000000", "128"], [None, "1000000", "512"]]


def test_a_change_of_the_last_phase_is_another_pre_training():
    first, last = scales.SMALL.phases
    changed = last._replace(batch_size=32)
    folders = {
        plans.Plan(dataclasses.replace(scales.SMALL, phases=(first, each)))
        .pretrained("L-4 H-128")
        .commands[0]
        .folder
        for each in (last, changed)
    }
    assert len(folders) == 2


@pytest.mark.parametrize("scale", scales.ALL)
def test_table_1_predicts_all_that_glue_s_server_needs(scale):
    predicted = {}
    for command in _make("table-1", scale).commands:
        if command.words[0] == "run_classifier.py":
            options = _parse(command)
            assert options.do_predict
            size = next(word for word in command.words if "checkpoint=" in word)
            predicted.setdefault(size, set()).add(options.task_name)
    needed = {
        info.name
        for info in glue.DATASETS.values()
        if any(split.submission for split in info.splits["predict"])
    }
    assert len(needed) == 9
    assert [*predicted.values()] == [needed] * 2


def test_left_to_right_models_stay_so_when_they_are_fine_tuned():
    for cell in _make("table-5").cells:
        (command,) = cell.commands
        is_left_to_right = cell.row in ("LTR & no NSP", "+ BiLSTM")
        given = _flags(command)
        assert (given.get("attention") == "causal") == is_left_to_right
        assert ("bilstm_head" in given) == (cell.row == "+ BiLSTM")


def test_training_flags_reach_every_script_that_trains():
    more = {"precision": "mixed_bfloat16", "packing": True, "recompute": True}
    changed = dataclasses.replace(scales.SMALL, training_flags=more)
    for command in tables.make("table-8", plans.Plan(changed)).commands:
        _parse(command)
        given = _flags(command)
        assert (more.items() <= given.items()) == ("do_train" in given)


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


@pytest.mark.parametrize("scale", scales.ALL)
def test_the_last_phase_is_evaluated_on_held_out_text(scale):
    plan = plans.Plan(scales.ALL[scale])
    plan.pretrained(scales.ALL[scale].sizes[scales.BASE])
    outputs = {command.output: command for command in plan.commands}
    *others, last = (
        _flags(command)
        for command in plan.commands
        if command.words[0] == "run_pretraining.py"
    )
    for given in others:
        assert not {"do_eval", "eval_input_file"} & given.keys()
    assert (last["do_eval"], last["max_eval_steps"]) == (True, "0")
    held_out, trained_on = (
        _flags(outputs[last[name].removesuffix("/records*.tfrecord")])
        for name in ("eval_input_file", "input_file")
    )
    # One masking of each text, in one file.
    assert held_out["dupe_factor"] == "1"
    assert "shard_documents" not in held_out
    assert "shard_documents" in trained_on
    assert int(trained_on["dupe_factor"]) == scales.ALL[scale].dupe_factor
    for given, file in ((held_out, "held_out.txt"), (trained_on, "text-*.txt")):
        names = {
            path.rpartition("/")[2] for path in given["input_file"].split(",")
        }
        assert names == {file}


def test_the_commands_of_a_task_have_a_seed_each():
    plan = plans.Plan(scales.SMALL)
    model = plan.pretrained("L-4 H-128")
    commands = plan.fine_tune(model, plan.squad("1.1", num_seeds=3))
    seeds = [_flags(command)["random_seed"] for command in commands]
    assert seeds == ["12345", "12346", "12347"]
    assert len({command.words for command in commands}) == 3


@pytest.mark.parametrize("casing", ["cased", "uncased"])
def test_a_released_model_is_read_in_its_casing(casing):
    for model in plans.Plan(scales.FULL).models(casing).values():
        lowers = "true" if casing == "uncased" else "false"
        assert model.flags["do_lower_case"] == lowers
        for name in ("bert_config_file", "vocab_file", "init_checkpoint"):
            assert f"/{casing}_L-" in model.flags[name]


def test_squad_begins_with_the_weights_of_triviaqa():
    plan = plans.Plan(scales.FULL)
    model = plan.models()[scales.BASE]
    after = plan.after_triviaqa(model)
    converted, trained = plan.commands
    assert after.flags == model.flags | {"init_checkpoint": trained.output}
    given = _flags(trained)
    assert given["train_file"] == f"{converted.output}/train.json"
    assert given["init_checkpoint"] == model.flags["init_checkpoint"]


@pytest.mark.parametrize("scale", scales.ALL)
def test_the_checkpoints_of_figure_5_are_kept(scale):
    kept, read = {}, []
    for command in _make("figure-5", scale).commands:
        given = _flags(command)
        if command.words[0] == "run_pretraining.py":
            kept[command.output] = int(given["keep_checkpoint_every_n_steps"])
        folder, _, step = given.get("init_checkpoint", "").partition("/model.")
        if step:
            read.append((folder, int(step.removeprefix("ckpt-"))))
    assert len(kept) == 2
    assert {folder for folder, _ in read} == kept.keys()
    assert not any(step % kept[folder] for folder, step in read)


@pytest.mark.parametrize("scale", scales.ALL)
def test_a_phase_of_pre_training_has_the_numbers_of_its_scale(scale):
    plan = plans.Plan(scales.ALL[scale])
    plan.pretrained(plan.scale.sizes[scales.BASE])
    made = [
        _flags(command)
        for command in plan.commands
        if command.words[0] == "run_pretraining.py"
    ]
    outputs = {command.output: _flags(command) for command in plan.commands}
    for phase, given in zip(plan.scale.phases, made, strict=True):
        records = outputs[given["input_file"].partition("/records*")[0]]
        for flags in (given, records):
            assert flags["max_seq_length"] == str(phase.max_seq_length)
            assert flags["max_predictions_per_seq"] == str(
                phase.max_predictions_per_seq
            )
        assert given["train_batch_size"] == str(phase.batch_size)
        assert given["num_warmup_steps"] == str(plan.scale.num_warmup_steps)
        assert float(given["learning_rate"]) == plan.scale.learning_rate


def test_an_ensemble_combines_the_answers_of_its_members():
    plan = plans.Plan(scales.FULL)
    task = plan.squad("1.1", num_seeds=3)
    members = plan.fine_tune(plan.models()[scales.LARGE], task)
    assert all("do_predict" in _flags(member) for member in members)
    given = _flags(plan.ensemble(task, members))
    assert given["predict_file"] == "$DATA/squad/dev-v1.1.json"
    assert given["ensemble"].split(",") == [
        f"{member.output}/nbest_predictions.json" for member in members
    ]


@pytest.mark.parametrize("scale", scales.ALL)
def test_an_ensemble_of_table_2_has_the_members_of_its_scale(scale):
    numbers = {
        len(_flags(command)["ensemble"].split(","))
        for command in _make("table-2", scale).commands
        if "ensemble" in _flags(command)
    }
    assert numbers == {scales.ALL[scale].num_members}


@pytest.mark.parametrize(("name", "scale"), _TABLES)
def test_a_test_score_is_of_a_command_that_predicts(name, scale):
    for cell in _make(name, scale).cells:
        if cell.column.metric.startswith("test_"):
            for command in cell.commands:
                assert "do_predict" in _flags(command)


def test_features_have_settings_of_their_own():
    plan = plans.Plan(scales.FULL)
    tuned, features = plan.ner(), plan.ner(features="last")
    assert tuned.flags["learning_rates"] == (5e-5, 3e-5, 2e-5)
    assert (features.flags["learning_rates"], features.flags["features"]) == (
        1e-3,
        "last",
    )
    assert features.flags["num_train_epochs"] == 20


@pytest.mark.parametrize("scale", scales.ALL)
@pytest.mark.parametrize("name", ["table-5", "table-6", "table-8", "figure-5"])
def test_blimp_scores_each_pre_trained_model_at_small_scale(name, scale):
    table = _make(name, scale)
    cells = [cell for cell in table.cells if cell.column.name == "BLiMP"]
    if scale == "full":
        assert not cells
        return
    rows = list(dict.fromkeys(cell.row for cell in table.cells))
    assert [cell.row for cell in cells] == [
        row for row in rows if row != "+ BiLSTM"
    ]
    folders = {command.output for command in table.commands}
    for cell in cells:
        (command,) = cell.commands
        given = _flags(command)
        assert command.words[:2] == ("-m", "paper.blimp")
        assert given["data_dir"] == "$DATA/blimp"
        assert given["model"].partition("/model.ckpt")[0] in folders
        assert cell.paper is None


def test_an_ensemble_of_multiberts_has_seven_pre_trainings():
    plan = plans.Plan(scales.FULL)
    table = tables.make("table-2", plan)
    single = _cell(table, "MultiBERTs", "F1")
    assert single.pretrainings == tuple(range(7))
    starts = [_flags(command)["init_checkpoint"] for command in single.commands]
    assert starts == [f"$DATA/multiberts_{i}/bert.ckpt" for i in range(7)]
    (command,) = _cell(table, "MultiBERTs, ensemble", "F1").commands
    assert _flags(command)["ensemble"].split(",") == [
        f"{member.output}/nbest_predictions.json" for member in single.commands
    ]
    alone = tables.make("table-2", plans.Plan(scales.FULL, ("large",)))
    assert not any("MultiBERTs" in cell.row for cell in alone.cells)


def test_published_steps_of_figure_5_need_no_pre_training():
    table = _make("figure-5")
    cells = [c for c in table.cells if c.row.startswith("MultiBERTs ")]
    assert [c.row.split()[1] for c in cells] == [
        f"{step}00000" for step in (1, 2, 4, 6, 8, 10)
    ]
    for cell in cells:
        assert cell.pretrainings == tuple(range(5))
        for seed, command in enumerate(cell.commands):
            step = int(cell.row.split()[1]) // 1000
            name = f"multiberts_{seed}_step_{step}k"
            start = _flags(command)["init_checkpoint"]
            assert start == f"$DATA/{name}/bert.ckpt"
            assert name in download.ITEMS
