"""How a run begins: afresh, from other weights, or where it stopped."""

import dataclasses
from collections.abc import Mapping, Sequence

from absl import logging

from modeling import checkpoints
from training import checkpointing, objectives, optimization, steps


@dataclasses.dataclass(frozen=True, kw_only=True)
class StartOptions:
    """What a training run begins with.

    Attributes:
        output_dir: a checkpoint here goes before `init_checkpoint`.
        init_checkpoint: other weights to start from, or None.
        new_variables: patterns of variables that `init_checkpoint` need not
            hold, such as the output layer of a task.
        schedule: the learning rate.
        adam: the optimizer's hyper-parameters.
        scale_loss: whether float16 gradients need scaling.
        seed: of the run.
        identity: what a run must share with the one it resumes to be its exact
            continuation, by flag; a difference in `objective` is refused.
    """

    output_dir: str
    init_checkpoint: str | None
    new_variables: Sequence[str] = ()
    schedule: optimization.Schedule
    adam: optimization.AdamOptions = dataclasses.field(
        default_factory=optimization.AdamOptions
    )
    scale_loss: bool = False
    seed: int
    identity: Mapping[str, object]


def start(
    objective: objectives.Objective, options: StartOptions
) -> tuple[steps.TrainState, int]:
    """Makes the optimizer and loads what there is to load.

    Call it in the scope of the distribution strategy.

    Returns:
        The state of the run and the first step to make.
    """
    checkpointing.remove_partial_files(options.output_dir)
    state = steps.TrainState(
        objective=objective,
        optimizer=optimization.AdamWeightDecayOptimizer(
            checkpointing.weights(objective.model), options.adam
        ),
        schedule=options.schedule,
        loss_scale=steps.LossScale(active=options.scale_loss),
        seed=options.seed,
    )
    prefix = checkpointing.latest(options.output_dir)
    if prefix is not None:
        return state, _resume(state, prefix, options)
    if options.init_checkpoint:
        load_weights(
            objective, options.init_checkpoint, new=options.new_variables
        )
    else:
        logging.info("Fresh run: the weights are random, nothing is loaded.")
    return state, 0


def load_weights(
    objective: objectives.Objective, path: str, *, new: Sequence[str] = ()
) -> None:
    """Loads the weights of a checkpoint, and says what was not loaded."""
    report = checkpoints.load(objective.model, path, new=new)
    logging.info("Initialised from %s: %s", path, report)


def _resume(state: steps.TrainState, prefix: str, options: StartOptions) -> int:
    saved = checkpointing.load_state(prefix)
    if saved is not None:
        _compare(prefix, saved["identity"], options.identity)
    checkpoints.load(state.objective.model, prefix)
    checkpointing.load_slots(prefix, state.optimizer.slots())
    if saved is not None:
        state.loss_scale.restore(saved["loss_scale"])
    step = checkpointing.load_step(prefix)
    logging.info("Resumed from %s at step %d.", prefix, step)
    if options.init_checkpoint:
        logging.info(
            "--init_checkpoint=%s is not read: a checkpoint in --output_dir "
            "goes before it.",
            options.init_checkpoint,
        )
    return step


def _compare(
    prefix: str, saved: Mapping[str, object], now: Mapping[str, object]
) -> None:
    differing = [name for name in now if saved.get(name) != now[name]]
    described = ", ".join(
        f"{name} was {saved.get(name)!r} and is {now[name]!r}"
        for name in differing
    )
    if "objective" in differing:
        raise ValueError(
            f"{prefix} belongs to another run: {described}. Choose another "
            "--output_dir, or pass it as --init_checkpoint."
        )
    if differing:
        logging.warning(
            "Going on from %s with other settings: %s. The result will not be "
            "that of an unbroken run.",
            prefix,
            described,
        )
