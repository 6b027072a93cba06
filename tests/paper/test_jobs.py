"""Commands as data: names, order, and how they are written."""

import dataclasses
import shlex

from paper import jobs

_FOLDERS = jobs.Folders("the data", "runs")


def _job(name="a task", **flags):
    return jobs.Job(name=name, program="run_classifier.py", flags=flags)


def test_a_folder_is_named_by_the_command_and_by_what_it_reads():
    first = _job(learning_rate=1e-4)
    same = _job(learning_rate=1e-4)
    other = _job(learning_rate=2e-4)
    assert first.folder == same.folder != other.folder
    assert first.folder.startswith("a-task-")
    after_first = _job(init_checkpoint=jobs.Output(job=first))
    after_other = _job(init_checkpoint=jobs.Output(job=other))
    assert after_first.folder != after_other.folder
    assert after_first.needs == [first]


def test_a_folder_does_not_depend_on_where_things_lie_nor_on_the_cost():
    job = _job(data_dir=jobs.Given(path="glue/MRPC"))
    dear = dataclasses.replace(job, seconds=1000.0)
    assert job.folder == dear.folder
    assert job == dear
    assert len({job, dear}) == 1


def test_arguments_name_places():
    before = _job("before", learning_rate=1e-4)
    job = _job(
        data_dir=jobs.Given(path="glue/MRPC"),
        output_dir=jobs.Output(),
        init_checkpoint=jobs.Output(job=before, path="model.ckpt-7"),
        input_file=("a", jobs.Given(path="b*")),
        do_train=True,
        learning_rate=3e-5,
    )
    own = f"runs/jobs/{job.folder}/out"
    assert jobs.arguments(job, _FOLDERS) == [
        "run_classifier.py",
        "--data_dir=the data/glue/MRPC",
        f"--output_dir={own}",
        f"--init_checkpoint=runs/jobs/{before.folder}/out/model.ckpt-7",
        "--input_file=a,the data/b*",
        "--do_train",
        "--learning_rate=3e-05",
    ]
    assert [given.path for given in job.given] == ["glue/MRPC", "b*"]


def test_the_shown_command_is_the_one_that_runs():
    phase = {"steps": 3, "input_file": jobs.Given(path="x*.tfrecord")}
    job = _job(phases=(phase, phase), data_dir=jobs.Given(path="it's"))
    typed = jobs.command(job, _FOLDERS).replace("\\\n", " ")
    assert shlex.split(typed) == ["python", *jobs.arguments(job, _FOLDERS)]
    assert jobs.arguments(job, _FOLDERS)[1] == (
        "--phases=steps=3 input_file='the data/x*.tfrecord'; "
        "steps=3 input_file='the data/x*.tfrecord'"
    )


def test_phases_name_what_they_need():
    before = _job("before")
    records = jobs.Output(job=before, path="records")
    job = _job(phases=({"input_file": records},))
    assert job.needs == [before]


def test_modules_are_run_as_modules():
    job = jobs.Job(name="x", program="tools.learn_vocab", flags={})
    assert jobs.command(job, _FOLDERS) == "python -m tools.learn_vocab"


def test_jobs_in_order_are_each_once_and_after_what_they_need():
    root = _job("root")
    left = _job("left", a=jobs.Output(job=root))
    right = _job("right", b=jobs.Output(job=root))
    top = _job("top", c=(jobs.Output(job=right), jobs.Output(job=left)))
    assert jobs.in_order([top, left]) == [root, right, left, top]
