"""Records of a task's data set, made without a script."""

import types

import tensorflow as tf

from tasks import task
from training import task_data


def setup(folder, text, **options):
    """Returns a `Setup` whose records are made in a folder.

    Args:
        folder: the run's.
        text: `max_seq_length`, `vocab_size`, `vocab_sha256`, `do_lower_case`.
        **options: of the run, beside these.
    """
    text = dict(text)
    return task_data.Setup(
        options=types.SimpleNamespace(
            output_dir=str(folder),
            max_seq_length=text.pop("max_seq_length"),
            **options,
        ),
        config=None,
        vocab_size=text.pop("vocab_size"),
        text=text,
        strategy=tf.distribute.get_strategy(),
    )


def make(path, kind, features, text, made_from, examples, **more):
    """Makes the records of a data set, or finds them.

    Args:
        path: of the records, without the ending `.tf_record`.
        kind: of the records.
        features: of a record.
        text: see `setup`.
        made_from: what they depend on beside text.
        examples: yields the records of each example.
        **more: other attributes of the `DataSet`.
    """
    data_set = task.DataSet(
        split=task.TRAIN,
        name=path.name,
        kind=kind,
        features=features,
        made_from=made_from,
        examples=examples,
        **more,
    )
    return setup(path.parent, text).make_data(data_set)
