"""Event files of TensorBoard.

Importing this module does not import TensorFlow.
"""

import time
from typing import TYPE_CHECKING

from tensorboard.compat.proto import event_pb2
from tensorboard.plugins.scalar import summary_v2
from tensorboard.summary.writer import event_file_writer

if TYPE_CHECKING:
    from google.protobuf import message


class EventWriter:
    """A writer of scalars for TensorBoard.

    Args:
        folder: receives the event file.
        first_step: events of later steps that earlier event files in the folder
            have are discarded by TensorBoard, because these steps are repeated.
    """

    def __init__(self, folder: str, first_step: int):
        self._writer = event_file_writer.EventFileWriter(folder)
        start = event_pb2.SessionLog(status=event_pb2.SessionLog.START)
        self._add(first_step + 1, session_log=start)
        self._writer.flush()

    def scalar(self, name: str, value: float, step: int) -> None:
        """Adds a value of a step."""
        self._add(step, summary=summary_v2.scalar_pb(name, value))

    def flush(self) -> None:
        """Writes the values that were added to the file."""
        self._writer.flush()

    def close(self) -> None:
        """Writes all values; none can be added afterwards."""
        self._writer.close()

    def _add(self, step: int, **content: "message.Message") -> None:
        event = event_pb2.Event(wall_time=time.time(), step=step, **content)
        self._writer.add_event(event)
