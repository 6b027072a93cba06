"""The shards of a corpus made by Apache Beam, on any of its runners.

The records are those of `pretraining_shards.make_shard`, whoever runs it. Beam
is needed only here, and imported only then: requirements-beam.txt.
"""

import functools
from collections.abc import Iterable, Sequence

from corpus import preparation, pretraining_shards

_NAMESPACE = "create_pretraining_data"
_DROPPED = "dropped_"


def make_shards(
    text: pretraining_shards.Text,
    recipe: pretraining_shards.Recipe,
    runner: str,
    arguments: Sequence[str],
) -> pretraining_shards.Report:
    """Makes all shards, and waits until they are there.

    With `shard_documents` one worker reads the text and cuts it; with
    `shard_by_file` each file is read where its records are made, which is the
    way for text that one machine cannot read.

    Args:
        text: what is read, from where all workers can read it.
        recipe: what is made of it.
        runner: a name that Beam knows, such as "DirectRunner".
        arguments: options of the runner, such as "--direct_num_workers=2".

    Returns:
        The sum of what became of the shards; without the names of files.

    Raises:
        ValueError: Beam is not installed, or the text is not to be cut.
    """
    if not text.is_sharded:
        raise ValueError(
            "Apache Beam makes shards side by side: cut the text with "
            "--shard_documents or --shard_by_file."
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
        | "Text" >> beam.Create(_parts(text))
        | "Spread files" >> beam.Reshuffle()
        | "Cut" >> beam.FlatMap(_shards)
        | "Spread shards" >> beam.Reshuffle()
        | "Make" >> beam.Map(functools.partial(_make_and_count, recipe))
    )
    result = pipeline.run()
    result.wait_until_finish()
    return _report(result)


def _parts(
    text: pretraining_shards.Text,
) -> list[tuple[int, pretraining_shards.Text]]:
    """Cuts a text as far as can be done without reading it."""
    if not text.shard_by_file:
        return [(0, text)]
    return [(number, text.only(path)) for number, path in enumerate(text.paths)]


def _shards(
    part: tuple[int, pretraining_shards.Text],
) -> Iterable[tuple[int, list[pretraining_shards.Document]]]:
    first, text = part
    for number, documents in pretraining_shards.read_shards(text):
        yield first + number, list(documents)


def _make_and_count(
    recipe: pretraining_shards.Recipe,
    shard: tuple[int, list[pretraining_shards.Document]],
) -> int:
    """Makes a shard; returns its number."""
    from apache_beam import metrics

    report = pretraining_shards.make_shard(recipe, shard)
    counts = report.counts() | {
        _DROPPED + name: value for name, value in vars(report.dropped).items()
    }
    for name, value in counts.items():
        metrics.Metrics.counter(_NAMESPACE, name).inc(value)
    return shard[0]


def _report(result) -> pretraining_shards.Report:
    """Sums what the workers counted."""
    counts = {
        counter.key.metric.name: counter.committed or counter.attempted
        for counter in result.metrics().query()["counters"]
        if counter.key.metric.namespace == _NAMESPACE
    }
    dropped = {
        name.removeprefix(_DROPPED): counts.pop(name)
        for name in list(counts)
        if name.startswith(_DROPPED)
    }
    return pretraining_shards.Report(
        dropped=preparation.Counts(**dropped), **counts
    )
