"""Creation of the shards of a corpus with Apache Beam, on any of its runners.

The records are those of `pretraining_shards.make_shard` for every runner. Beam
is needed only here, and imported only when used: requirements-beam.txt.
"""

import functools
from collections.abc import Sequence

from corpus import pretraining_shards

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

    One worker reads the text and passes the documents of each shard on.

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
    try:
        import apache_beam as beam
        from apache_beam.options import pipeline_options
    except ImportError as error:
        raise ValueError(
            "--runner needs Apache Beam: pip install -r requirements-beam.txt"
        ) from error
    options = pipeline_options.PipelineOptions(list(arguments), runner=runner)
    pipeline = beam.Pipeline(options=options)
    _ = (
        pipeline
        | "Text" >> beam.Create([text])
        | "Cut" >> beam.FlatMap(pretraining_shards.read_shards)
        | "Spread shards" >> beam.Reshuffle()
        | "Make" >> beam.Map(functools.partial(_make, recipe))
    )
    result = pipeline.run()
    result.wait_until_finish()
    return _report(result)


def _make(
    recipe: pretraining_shards.Recipe, shard: pretraining_shards.Shard
) -> int:
    """Creates a shard, and adds its counts to the metrics of the runner."""
    from apache_beam import metrics

    report = pretraining_shards.make_shard(recipe, shard)
    for namespace, counts in (
        (_COUNTS, report.counts),
        (_DROPPED, report.dropped),
    ):
        for name, value in counts.items():
            metrics.Metrics.counter(namespace, name).inc(value)
    return shard[0]


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
