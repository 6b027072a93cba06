"""Hugging Face transformers on PyTorch, and tokenizers, as a contender."""

import contextlib
import functools
import pathlib

from benchmarks import contenders

_MAX_NORM = 1.0


def prepare(job: contenders.Job):
    """Builds a model with random weights, and random rows; or a tokenizer."""
    if job.kind == "tokenization":
        return _tokenization(job)
    import torch
    import transformers

    torch.manual_seed(1)
    sizes = {**job.sizes, "hidden_act": "gelu_new"}
    config = transformers.BertConfig(**sizes, num_labels=2)
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

    shape = (job.batch_size, job.max_seq_length)
    words = torch.randint(1, job.sizes["vocab_size"], shape)
    rows = {"input_ids": words, "attention_mask": torch.ones_like(words)}
    if job.kind == "pretraining":
        labels = words.clone()
        # -100 is what it ignores.
        labels[:, job.max_predictions_per_seq :] = -100
        pairs = torch.randint(0, 2, shape[:1])
        return {**rows, "labels": labels, "next_sentence_label": pairs}
    return {**rows, "labels": torch.randint(0, 2, shape[:1])}


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
    return functools.partial(
        contenders.processor_seconds,
        lambda: tokenizer.encode_batch(texts, add_special_tokens=False),
    )


if __name__ == "__main__":
    contenders.serve(prepare)
