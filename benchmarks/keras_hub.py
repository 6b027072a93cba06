"""keras-hub as a contender: `BertMaskedLM`, trained by `train_on_batch`.

It has no next-sentence prediction, and no other job is compared with it.
"""

import importlib

from benchmarks import contenders


def prepare(job: contenders.Job):
    """Builds a model with random weights, and random rows."""
    if job.kind != "pretraining":
        raise ImportError("compared in pre-training alone")
    import keras
    import numpy as np

    library = importlib.import_module("keras_hub")
    keras.config.set_dtype_policy(job.precision)
    sizes = job.sizes
    backbone = library.models.BertBackbone(
        vocabulary_size=sizes["vocab_size"],
        num_layers=sizes["num_hidden_layers"],
        num_heads=sizes["num_attention_heads"],
        hidden_dim=sizes["hidden_size"],
        intermediate_dim=sizes["intermediate_size"],
        dropout=sizes["hidden_dropout_prob"],
        max_sequence_length=sizes["max_position_embeddings"],
    )
    model = library.models.BertMaskedLM(backbone, preprocessor=None)
    model.compile(
        optimizer=keras.optimizers.AdamW(1e-4, global_clipnorm=1.0),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        weighted_metrics=[],
    )
    rng = np.random.default_rng(1)
    shape = (job.batch_size, job.max_seq_length)
    picked = (job.batch_size, job.max_predictions_per_seq)
    rows = {
        "token_ids": rng.integers(1, sizes["vocab_size"], shape),
        "padding_mask": np.ones(shape),
        "segment_ids": np.zeros(shape),
        "mask_positions": rng.integers(1, shape[1], picked),
    }
    rows = {name: values.astype(np.int32) for name, values in rows.items()}
    labels = rng.integers(1, sizes["vocab_size"], picked).astype(np.int32)
    weights = np.ones(picked, np.float32)

    def step():
        float(model.train_on_batch(rows, labels, sample_weight=weights))

    return step


if __name__ == "__main__":
    contenders.serve(prepare)
