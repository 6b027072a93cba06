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

from bert.corpus import pretraining_shards, shard_ranges
from bert.files import messages

if TYPE_CHECKING:
    from apache_beam.options import pipeline_options

_ROOT = str(pathlib.Path(__file__).parents[2])
# Beam has no short name for this runner.
_DASK = "apache_beam.runners.dask.dask_runner.DaskRunner"


def make_shards(
    text: pretraining_shards.InputText,
    settings: pretraining_shards.ShardSettings,
    runner: str,
    arguments: Sequence[str],
) -> pretraining_shards.ShardCounts:
    """Creates all shards with Apache Beam, and waits until they are complete.

    The records are those of `pretraining_shards.make_shard` for every runner.
    This machine counts the documents; workers read the files.

    Args:
        text: the input, readable by this machine and all workers.
        settings: settings of the records.
        runner: name of a Beam runner, such as "DirectRunner".
        arguments: options of the runner, such as "--direct_num_workers=2".

    Returns:
        The "shards" and "documents" of the text, and the "instances" that the
        sidecars state: not every runner has counters.

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
    counts = shard_ranges.count_documents(text)
    ranges = shard_ranges.divide(text, counts)
    logging.info(
        "Counted %d documents: %d shards.",
        sum(part.num_documents for part in ranges),
        sum(part.num_shards for part in ranges),
    )
    _ = (
        pipeline
        | "Ranges" >> beam.Create(ranges)
        | "Spread ranges" >> beam.Reshuffle()
        | "Make" >> beam.Map(functools.partial(_make, settings))
    )
    with _explained(runner):
        pipeline.run().wait_until_finish()
    total = pretraining_shards.ShardCounts()
    for part in ranges:
        first, num_shards = part.first_shard, part.num_shards
        total.counts.update(shards=num_shards, documents=part.num_documents)
        for shard in range(first, first + num_shards):
            total.counts["instances"] += settings.store.num_records(shard)
    return total


def _options(
    runner: str, arguments: Sequence[str]
) -> "pipeline_options.PipelineOptions":
    from apache_beam.options import pipeline_options

    if runner.lower() in ("dask", "daskrunner"):
        runner = _DASK
    if runner == _DASK and not any(
        "partition" in argument for argument in arguments
    ):
        # By default, 128 ranges would be a single task.
        arguments = [*arguments, "--dask_partition_size=1"]
    return pipeline_options.PipelineOptions(list(arguments), runner=runner)


@contextlib.contextmanager
def _explained(runner: str) -> Iterator[None]:
    """Converts the errors of a runner, which may be of any type."""
    try:
        yield
    except (OSError, ValueError):
        raise  # Dask's workers return the error of a file as it is.
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


def _make(
    settings: pretraining_shards.ShardSettings, part: shard_ranges.ShardRange
) -> None:
    """Creates the shards of a range."""
    for shard in shard_ranges.read_shards(part):
        pretraining_shards.make_shard(settings, shard)
