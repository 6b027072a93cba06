"""Examples of one file of a data set, for tests."""

from tasks.classification import datasets, sentence_pairs


def read_split(info, split, data_dir, *, with_labels):
    """Reads the examples of a file; None if it is absent and may be."""
    truncation = sentence_pairs.Truncation(max_seq_length=128)
    files = datasets.find_files(info, [split], str(data_dir), truncation)
    return files[0].examples(with_labels=with_labels) if files else None
