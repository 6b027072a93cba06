"""Errors that end a run but not the other runs of its grid."""


class FailedRunError(RuntimeError):
    """A run has no result, because of its settings rather than its input."""


class NonFiniteLossError(FailedRunError):
    """The loss of a step was infinite or not a number."""


class NonFiniteOutputError(FailedRunError):
    """An output of the trained model was infinite or not a number."""


class OutOfMemoryError(FailedRunError):
    """A step exceeded the available memory."""
