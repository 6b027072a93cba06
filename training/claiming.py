"""The folders of a fine-tuned model: marked as its own, by the chief."""

from collections.abc import Mapping

from training import (
    checkpointing,
    failures,
    model_folder,
    preparation,
    workers,
)


@failures.of_workers()
def claim(
    setup: preparation.Setup,
    folder: str,
    labels: Mapping[str, object] | None,
) -> None:
    """Marks the folder of a model, and that of the whole run.

    The chief does, while other workers wait: what they load depends on what
    lies there.

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
    meeting = workers.Meeting(setup.strategy)
    fault = None
    if meeting.is_chief:
        try:
            _claim(setup, folder, labels)
        except (OSError, ValueError) as error:
            fault = error  # Not before the others know of it.
    if meeting.largest(int(fault is not None)):
        chief = workers.cluster().names[0]
        raise fault or ValueError(
            f"{chief} does not go on with {folder}: see what it says."
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
