"""Models for export: their signatures, by task."""

from typing import Any

from serving import (
    answerer,
    chooser,
    classifier,
    embedder,
    graph_tokenizer,
    mask_filler,
    run_folder,
    signatures,
    tagger,
)
from serving import settings as settings_lib


def servable(
    task: str, model: Any, settings: settings_lib.Settings
) -> signatures.Servable:
    """Makes the signatures of a model.

    Args:
        task: one of `run_folder.TASKS`.
        model: of `networks.load`.
        settings: of the model.

    Raises:
        ValueError: the settings lack a value that the task requires.
    """
    tokenizer = graph_tokenizer.GraphTokenizer(
        settings.vocab_file, settings.do_lower_case
    )
    length = settings.packing.max_seq_length
    if task == run_folder.ANSWER:
        answering = settings_lib.given(settings.answering, "answering")
        return answerer.servable(model, tokenizer, answering)
    if task == run_folder.CHOOSE:
        return chooser.servable(model, tokenizer, length)
    if task == run_folder.EMBED:
        return embedder.servable(
            model,
            tokenizer,
            settings.packing,
            settings.layers,
            has_pooler=settings.weights.has_pooler,
        )
    if task == run_folder.FILL_MASK:
        return mask_filler.servable(model, tokenizer, length, settings.top_k)
    label_set = settings_lib.given(settings.label_set, "label_set")
    if task == run_folder.TAG:
        return tagger.servable(model, tokenizer, label_set.names, length)
    return classifier.servable(model, tokenizer, label_set, settings.packing)
