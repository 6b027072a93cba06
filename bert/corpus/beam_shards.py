"""Creation of the shards of pre-training data with Apache Beam.

Beam is imported only when it is used: requirements/beam.txt.
"""

import contextlib
import functools
import os
import pathlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from absl import logging

from bert.corpus import pretraining_shards, shard_runs
from bert.files import messages

if TYPE_CHECKING:
    from apache_beam import runners
    from apache_beam.options import pipeline_options

_ROOT = str(pathlib.Path(__file__).parents[2])
# Namespaces of Beam's counters.
_COUNTS = "create_pretraining_data"
_DROPPED = "create_pretraining_data_dropped"
# Beam has no short name for this runner.
_DASK = "apache_beam.runners.dask.dask_runner.DaskRunner"


def make_shards(
    text: pretraining_shards.Text,
    recipe: pretraining_shards.Recipe,
    runner: str,
    arguments: Sequence[str],
) -> pretraining_shards.Report:
    """Creates all shards with Apache Beam, and waits until they are complete.

    The records are those of `pretraining_shards.make_shard` for every runner.
    This machine counts the documents; workers read the files.

    Args:
        text: the input, readable by this machine and all workers.
        recipe: settings of the records.
        runner: name of a Beam runner, such as "DirectRunner".
        arguments: options of the runner, such as "--direct_num_workers=2".

    Returns:
        The total counts, without paths. If the runner has no counters, they
        are the "shards" and "documents" of the text, and the "instances" that
        the sidecars state.

    Raises:
        OSError: a file cannot be read, or the cluster cannot be reached.
        RuntimeError: the runner failed.
        ValueError: Beam or the runner is not installed, the text is not
            sharded, or a file is not in its format.
    """
    if not text.shard_documents:
        raise ValueError(
            "Apache Beam creates shards in parallel: split the text with "
            "--shard_documents."
        )
    try:
        import apache_beam as beam

        pipeline = beam.Pipeline(options=_options(runner, arguments))
    except ImportError as error:
        raise ValueError(
            f"--runner={runner} needs a package that is not installed "
            f"({error}): pip install -r requirements/beam.txt"
        ) from error
    # Workers that Beam starts on this machine have another sys.path.
    places = (_ROOT, os.environ.get("PYTHONPATH"))
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, places))
    counts = shard_runs.count_documents(text)
    runs = shard_runs.divide(text, counts)
    logging.info(
        "Counted %d documents: %d shards.",
        sum(run.num_documents for run in runs),
        sum(run.num_shards for run in runs),
    )
    _ = (
        pipeline
        | "Runs" >> beam.Create(runs)
        | "Spread runs" >> beam.Reshuffle()
        | "Make" >> beam.Map(functools.partial(_make_counted, recipe))
    )
    with _explained(runner):
        result = pipeline.run()
        result.wait_until_finish()
    try:
        return _counted(result)
    except NotImplementedError:
        logging.info("%s has no counters; the sidecars are counted.", runner)
        return _stored(runs, recipe.store)


def _options(
    runner: str, arguments: Sequence[str]
) -> "pipeline_options.PipelineOptions":
    from apache_beam.options import pipeline_options

    if runner.lower() in ("dask", "daskrunner"):
        runner = _DASK
    if runner == _DASK and not any(
        "partition" in argument for argument in arguments
    ):
        # By default, 128 runs would be a single task.
        arguments = [*arguments, "--dask_partition_size=1"]
    return pipeline_options.PipelineOptions(list(arguments), runner=runner)


@contextlib.contextmanager
def _explained(runner: str) -> Iterator[None]:
    """Converts the errors of a runner, which may be of any type."""
    try:
        yield
    except (OSError, ValueError):
        raise  # Of a file; Dask's workers return such an error as it is.
    except Exception as error:
        lines = str(error).strip().splitlines() or [repr(error)]
        # The last line of a worker's traceback has the error.
        cause = lines[-1] if "Traceback" in str(error) else " ".join(lines)
        if "DEADLINE_EXCEEDED" in str(error):
            cause = (
                "no answer within --job_server_timeout, which is for the "
                "complete job"
            )
        raise RuntimeError(
            f"{runner} failed: {messages.truncate(cause)} All workers, and "
            "Dask's scheduler, need the same packages, and this repository in "
            "their PYTHONPATH. Run the same command again to resume; "
            "--traceback shows more."
        ) from error


def _make_counted(
    recipe: pretraining_shards.Recipe, run: shard_runs.Run
) -> int:
    """Creates the shards of a run; adds their counts to the runner's."""
    from apache_beam import metrics

    for shard in shard_runs.read_shards(run):
        report = pretraining_shards.make_shard(recipe, shard)
        for namespace, counts in (
            (_COUNTS, report.counts),
            (_DROPPED, report.dropped),
        ):
            for name, value in counts.items():
                metrics.Metrics.counter(namespace, name).inc(value)
    return run.first_shard


def _counted(
    result: "runners.runner.PipelineResult",
) -> pretraining_shards.Report:
    """Returns the total counts of the workers.

    Raises:
        NotImplementedError: the runner has no counters.
    """
    report = pretraining_shards.Report()
    namespaces = {_COUNTS: report.counts, _DROPPED: report.dropped}
    # Each step that counts has its own counters.
    for counter in result.metrics().query()["counters"]:
        metric = counter.key.metric
        if metric.namespace in namespaces:
            number = counter.committed or counter.attempted or 0
            namespaces[metric.namespace][metric.name] += number
    return report


def _stored(
    runs: Sequence[shard_runs.Run], store: pretraining_shards.Store
) -> pretraining_shards.Report:
    """Returns the counts of complete shards."""
    report = pretraining_shards.Report()
    for run in runs:
        report.counts.update(shards=run.num_shards, documents=run.num_documents)
        for shard in range(run.first_shard, run.first_shard + run.num_shards):
            report.counts["instances"] += store.num_records(shard)
    return report
