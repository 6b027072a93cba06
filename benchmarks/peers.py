"""Contenders of other projects: Hugging Face on PyTorch, and keras-hub."""

import contextlib
import importlib
import pathlib

from benchmarks import contenders

_MAX_NORM = 1.0


def hugging_face(job: contenders.Job):
    """Builds a model with random weights, and random rows; or a tokenizer."""
    if job.kind == "tokenization":
        return _tokenization(job)
    import torch
    import transformers

    torch.manual_seed(1)
    sizes = {**job.sizes, "hidden_act": "gelu_new"}
    config = transformers.BertConfig(**sizes, num_labels=contenders.NUM_LABELS)
    kind = (
        transformers.BertForPreTraining
        if job.kind == "pretraining"
        else transformers.BertForSequenceClassification
    )
    model = kind(config)

    def precision():
        if job.precision == "float32":
            return contextlib.nullcontext()
        return torch.autocast("cpu", torch.bfloat16)

    if job.kind == "prediction":
        return _prediction(model, precision, job)
    return _training(model, precision, job)


def _training(model, precision, job):
    import torch

    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    rows = _rows(job)

    def step():
        with precision():
            loss = model(**rows).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), _MAX_NORM)
        optimizer.step()
        optimizer.zero_grad()

    return step


def _rows(job):
    import torch

    rows = {
        name: torch.from_numpy(values).long()
        for name, values in job.rows().items()
    }
    words = rows["input_ids"]
    inputs = {"input_ids": words, "attention_mask": rows["input_mask"]}
    if job.kind != "pretraining":
        return {**inputs, "labels": rows["label_ids"][:, 0]}
    labels = words.clone()
    # The loss ignores -100.
    labels[:, job.max_predictions_per_seq :] = -100
    pairs = rows["next_sentence_labels"][:, 0]
    return {**inputs, "labels": labels, "next_sentence_label": pairs}


def _prediction(model, precision, job):
    import torch

    model.eval()
    batches = []
    for lengths in job.batches():
        mask = torch.arange(max(lengths))[None] < torch.tensor(lengths)[:, None]
        batches.append((mask.long() * 2, mask.long()))

    def predict():
        with torch.inference_mode(), precision():
            for words, mask in batches:
                logits = model(input_ids=words, attention_mask=mask).logits
                logits.float().numpy()

    return predict


def _tokenization(job):
    import tokenizers

    tokenizer = tokenizers.BertWordPieceTokenizer(
        job.vocab_file, lowercase=True
    )
    texts = pathlib.Path(job.text_file).read_text(encoding="utf-8").split("\n")
    return lambda: tokenizer.encode_batch(texts, add_special_tokens=False)


def keras_hub(job: contenders.Job):
    """Builds a `BertMaskedLM` with random weights, and random rows.

    It has no next sentence prediction, and no other job is compared with it.
    """
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
