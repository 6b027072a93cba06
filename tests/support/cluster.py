"""Workers of one run, on this machine."""

import json
import socket

# Their ports stay bound, so that no other process is given one of them, for as
# long as this process lives. TensorFlow binds them beside it.
_RESERVED: list[socket.socket] = []


def environments(num_workers: int) -> list[dict[str, str]]:
    """Lists the variables that make each process one of so many workers."""
    if num_workers == 1:
        return [{}]
    addresses = [f"localhost:{_reserved()}" for _ in range(num_workers)]
    return [
        {
            "TF_GRPC_REUSE_PORT": "1",
            "TF_CONFIG": json.dumps(
                {
                    "cluster": {"worker": addresses},
                    "task": {"type": "worker", "index": index},
                }
            ),
        }
        for index in range(num_workers)
    ]


def _reserved() -> int:
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    held.bind(("localhost", 0))
    _RESERVED.append(held)
    return held.getsockname()[1]
