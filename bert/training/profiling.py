"""Profiles of training steps for TensorBoard."""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Self

import tensorflow as tf
from absl import logging


class Profile:
    """A profile of some steps of a run, which an earlier end cuts short.

    Args:
        folder: the run's, which gets the profile.
        first_and_last: the steps to profile, from 1; None for no profile.
    """

    def __init__(self, folder: str, first_and_last: Sequence[int] | None):
        self._folder = folder
        self._first, self._last = first_and_last or (0, -1)
        self._is_running = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    @contextlib.contextmanager
    def of(self, step: int) -> Iterator[None]:
        """Profiles the step that its scope makes, if it is one of those.

        Args:
            step: its number, from 1.
        """
        if not self._first <= step <= self._last:
            yield
            return
        if not self._is_running:
            tf.profiler.experimental.start(self._folder)
            self._is_running = True
        with tf.profiler.experimental.Trace("train", step_num=step, _r=1):
            yield
        if step == self._last:
            self._stop()

    def _stop(self) -> None:
        if not self._is_running:
            return
        tf.test.experimental.sync_devices()  # The host is ahead of a GPU.
        tf.profiler.experimental.stop()
        self._is_running = False
        logging.info(
            "The profile is in %s: tensorboard --logdir=%s (it needs the "
            "package xprof).",
            self._folder,
            self._folder,
        )
