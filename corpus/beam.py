"""Creation of the shards of a corpus with Apache Beam, on any of its runners.

The records are those of `pretraining_shards.make_shard` for every runner. Beam
is needed only here, and imported only when used: requirements-beam.txt.
"""

import functools
import json
import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from corpus import formats, pretraining_shards
from files import paths, writing

if TYPE_CHECKING:
    import apache_beam as beam

# Namespaces of the counters.
_COUNTS = "create_pretraining_data"
_DROPPED = "create_pretraining_data_dropped"


def make_shards(
    text: pretraining_shards.Text,
    recipe: pretraining_shards.Recipe,
    runner: str,
    arguments: Sequence[str],
) -> pretraining_shards.Report:
    """Creates all shards, and waits until they are complete.

    One worker reads the text and splits it into hidden files next to the
    records, which are removed as records are completed.

    Args:
        text: the input, readable by all workers.
        recipe: settings of the records.
        runner: name of a Beam runner, such as "DirectRunner".
        arguments: options of the runner, such as "--direct_num_workers=2".

    Returns:
        The total counts, without paths.

    Raises:
        ValueError: Beam is not installed or has no such runner, or the text is
            not sharded.
    """
    if not text.shard_documents:
        raise ValueError(
            "Apache Beam creates shards in parallel: split the text with "
            "--shard_documents."
        )
    pipeline = _new_pipeline(runner, arguments)
    import apache_beam as beam

    _ = (
        pipeline
        | "Text" >> beam.Create([text])
        | "Cut" >> beam.FlatMap(functools.partial(_cut, recipe))
        | "Spread shards" >> beam.Reshuffle()
        | "Make" >> beam.Map(functools.partial(_make, recipe))
    )
    result = pipeline.run()
    result.wait_until_finish()
    return _report(result)


def _new_pipeline(runner: str, arguments: Sequence[str]) -> "beam.Pipeline":
    try:
        import apache_beam as beam
        from apache_beam.options import pipeline_options
    except ImportError as error:
        raise ValueError(
            "--runner needs Apache Beam: pip install -r requirements-beam.txt"
        ) from error
    options = pipeline_options.PipelineOptions(list(arguments), runner=runner)
    try:
        return beam.Pipeline(options=options)
    except ValueError as error:
        raise ValueError(f"--runner={runner}: {error}") from error


def _cut(
    recipe: pretraining_shards.Recipe, text: pretraining_shards.Text
) -> Iterator[tuple[int, str]]:
    """Writes the text of each missing shard to a file.

    Runners may keep all data between two steps in memory, so only the names
    of these files are passed.

    Yields:
        The number of the shard, and its file.
    """
    for number, documents in pretraining_shards.read_shards(text):
        part = _part_of(recipe, number)
        shard = list(documents)
        held = pretraining_shards.find_shard(recipe, number, shard)
        if held is None:
            with writing.whole_file(part) as file:
                file.writelines(f"{json.dumps(vars(each))}\n" for each in shard)
            yield number, part
        else:
            _count(held)
            paths.remove(part)  # Left over if a run was killed.


def _part_of(recipe: pretraining_shards.Recipe, number: int) -> str:
    folder, name = os.path.split(recipe.store.paths_of(number)[0])
    return os.path.join(folder, f".{name}.text")


def remove_parts(recipe: pretraining_shards.Recipe, num_shards: int) -> None:
    """Removes the text of completed shards that a killed run left."""
    for number in range(num_shards):
        paths.remove(_part_of(recipe, number))


def _read_part(part: str) -> list[formats.Document]:
    with paths.open_to_read(part) as file:
        return [
            formats.Document(**json.loads(line))
            for line in file.read().splitlines()
        ]


def _make(recipe: pretraining_shards.Recipe, shard: tuple[int, str]) -> int:
    """Creates a shard; returns its number."""
    number, part = shard
    if not paths.exists(part):
        return number  # The runner repeated a completed task.
    documents = _read_part(part)
    _count(pretraining_shards.make_shard(recipe, (number, documents)))
    paths.remove(part)
    return number


def _count(report: pretraining_shards.Report) -> None:
    """Adds the counts of a shard to the metrics of the runner."""
    from apache_beam import metrics

    for namespace, counts in (
        (_COUNTS, report.counts),
        (_DROPPED, report.dropped),
    ):
        for name, value in counts.items():
            metrics.Metrics.counter(namespace, name).inc(value)


def _report(result) -> pretraining_shards.Report:
    """Returns the total counts of the workers."""
    report = pretraining_shards.Report()
    namespaces = {_COUNTS: report.counts, _DROPPED: report.dropped}
    # Each step that counts has its own counters.
    for counter in result.metrics().query()["counters"]:
        metric = counter.key.metric
        if metric.namespace in namespaces:
            number = counter.committed or counter.attempted or 0
            namespaces[metric.namespace][metric.name] += number
    return report
