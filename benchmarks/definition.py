"""The reference implementation of pre-training data as a contender.

It applies the rules of the release one by one to strings and lists, and writes
its records with protobuf.
"""

import functools
import random
import tempfile

from benchmarks import contenders, plain_tokenization
from tasks.masked_lm import encoded_corpus, masked_pairs
from training import record_files
from vocab import tokenization

_SEED = 12345


def prepare(job: contenders.Job):
    """Returns the work, which includes reading, as in the program."""
    return functools.partial(
        contenders.processor_seconds, functools.partial(_create, job)
    )


def _create(job: contenders.Job) -> None:
    import tensorflow as tf

    options = masked_pairs.InstanceOptions()
    vocab = tokenization.load_vocab(job.vocab_file)
    instances = masked_pairs.create_training_instances(
        masked_pairs.tokenize_documents(
            encoded_corpus.read_documents([job.text_file]),
            functools.partial(
                plain_tokenization.tokenize, vocab=vocab, do_lower_case=True
            ),
        ),
        list(vocab),
        options,
        random.Random(_SEED),
    )
    with tempfile.TemporaryFile() as file:
        for instance in instances:
            features = masked_pairs.instance_features(
                instance,
                lambda tokens: [vocab[token] for token in tokens],
                options,
            )
            message = tf.train.Example()
            for name, values in features.items():
                stored = message.features.feature[name]
                is_float = isinstance(values[0], float)
                numbers = stored.float_list if is_float else stored.int64_list
                numbers.value.extend(values)
            file.write(record_files.frame(message.SerializeToString()))
