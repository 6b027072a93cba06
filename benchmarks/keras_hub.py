"""keras-hub as a contender: `BertMaskedLM`, trained by `train_on_batch`.

It has no next sentence prediction, and no other job is compared with it.
"""

import importlib

from benchmarks import contenders


def prepare(job: contenders.Job):
    """Builds a model with random weights, and random rows."""
    import keras

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
    rows = job.rows()
    inputs = {
        "token_ids": rows["input_ids"],
        "padding_mask": rows["input_mask"],
        "segment_ids": rows["segment_ids"],
        "mask_positions": rows["masked_lm_positions"],
    }
    labels, weights = rows["masked_lm_ids"], rows["masked_lm_weights"]

    def step():
        float(model.train_on_batch(inputs, labels, sample_weight=weights))

    return step
