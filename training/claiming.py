"""The folders of a model: marked as its own, by the chief."""

from collections.abc import Mapping

from training import (
    checkpointing,
    model_folder,
    preparation,
    workers,
)


def claim(
    setup: preparation.Setup,
    folder: str,
    labels: Mapping[str, object] | None,
) -> None:
    """Marks the folder of a model, and that of the whole run.

    Args:
        setup: what the run stands on.
        folder: of the model.
        labels: what the outputs mean, as labels.json holds it; None where
            there is nothing to say.

    Raises:
        OSError: a folder cannot be written to.
        ValueError: a folder holds another model, or `init_checkpoint` reads
            text in another way; or the chief says so.
    """
    workers.run_on_chief(
        setup.strategy, folder, lambda: _claim(setup, folder, labels)
    )


def _claim(setup, folder, labels) -> None:
    config, whole = setup.config.to_dict(), setup.options
    if whole.init_checkpoint:
        origin = model_folder.of_checkpoint(whole.init_checkpoint)
        model_folder.check_text(origin, setup.text)
    for place in dict.fromkeys((folder, whole.output_dir)):
        if labels is None:
            checkpointing.claim(place, config)
            model_folder.claim_text(place, whole.vocab_file, setup.text)
            continue
        model_folder.claim(
            place,
            model_folder.Description(
                config=config,
                vocab_file=whole.vocab_file,
                text=setup.text,
                labels=labels,
            ),
        )
