"""Load test of a server of an exported model.

  python -m benchmarks.serving --input_file=dev.txt --server_pid=PID \
    --url=http://localhost:8501/v1/models/mrpc:predict

It sends one text or pair ("text ||| text") of the file a request, from several
clients at once, and a bad request, which must be refused, after every 20. It
prints a line for each number of clients: requests per second, latency, and
processor time and memory of the server (docs/serving.md).
"""

import argparse
import http.client
import itertools
import json
import os
import pathlib
import sys
import threading
import time
import urllib.parse

import numpy as np

_BAD_EVERY = 20
_BAD = (
    b"",
    b"{",
    b"[" * 100_000,
    b'{"instances": 3}',
    b'{"inputs": {"text": ["no such input"]}}',
    b'{"signature_name": "none", "instances": ["text"]}',
)
_OK, _BAD_REQUEST = 200, 400


def _body(line: str) -> bytes:
    texts = [text.strip() for text in line.split("|||")]
    row = dict(zip(("text_a", "text_b"), texts, strict=False))
    name = "pairs" if len(texts) > 1 else "serving_default"
    request = {"signature_name": name, "instances": [row]}
    return json.dumps(request).encode()


class _Load:
    """Requests of several clients to one server."""

    def __init__(self, url: str, bodies: list[bytes], num_requests: int):
        self._url = urllib.parse.urlsplit(url)
        self._bodies = bodies
        self._numbers = iter(range(num_requests))
        self._lock = threading.Lock()
        self.seconds: list[float] = []  # The time of each good request.
        self.wrong: list[str] = []  # Replies of another status than expected.

    def run(self, num_clients: int) -> float:
        """Sends the requests; returns the seconds."""
        clients = [
            threading.Thread(target=self._client) for _ in range(num_clients)
        ]
        start = time.perf_counter()
        for client in clients:
            client.start()
        for client in clients:
            client.join()
        return time.perf_counter() - start

    def _client(self) -> None:
        while True:
            with self._lock:
                number = next(self._numbers, None)
            if number is None:
                return
            self.seconds.append(
                self._send(self._bodies[number % len(self._bodies)], _OK)
            )
            if number % _BAD_EVERY == 0:
                bad = _BAD[number // _BAD_EVERY % len(_BAD)]
                self._send(bad, _BAD_REQUEST)

    def _send(self, body: bytes, expected: int) -> float:
        start = time.perf_counter()
        connection = http.client.HTTPConnection(self._url.netloc, timeout=600)
        try:
            connection.request("POST", self._url.path, body)
            reply = connection.getresponse()
            status, text = reply.status, reply.read()
        except (OSError, http.client.HTTPException) as error:
            status, text = 0, repr(error).encode()
        finally:
            connection.close()
        if status != expected:
            self.wrong.append(f"{status}: {text[:100]!r} to {body[:60]!r}")
        return time.perf_counter() - start


def _used(pid: int) -> tuple[float, float]:
    """Returns the processor time (s) and the memory (MB) of a process."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().split(")")[1].split()
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    kilobytes = status.partition("VmRSS:")[2].split()[0]
    ticks = int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK"), int(kilobytes) / 1000


def main() -> None:
    """Measures, and prints the lines."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", required=True)
    parser.add_argument("--input_file", required=True)
    parser.add_argument("--server_pid", type=int, required=True)
    parser.add_argument("--num_requests", type=int, default=10_000)
    parser.add_argument("--clients", default="1,4,16")
    options = parser.parse_args()
    lines = pathlib.Path(options.input_file).read_text("utf-8").splitlines()
    bodies = [_body(line) for line in lines if line.strip()]
    first = _Load(options.url, bodies, 20)  # Prepares the graphs.
    first.run(1)
    if first.wrong:
        sys.exit(f"{options.url}: {first.wrong[0]}")
    _, memory = _used(options.server_pid)
    sys.stdout.write(f"memory at the start {memory:.0f} MB\n")
    for num_clients in map(int, options.clients.split(",")):
        load = _Load(options.url, bodies, options.num_requests)
        before, _ = _used(options.server_pid)
        seconds = load.run(num_clients)
        after, memory = _used(options.server_pid)
        p50, p99 = np.percentile(load.seconds, [50, 99]) * 1000
        per_request = (after - before) / options.num_requests * 1000
        sys.stdout.write(
            f"{num_clients} clients: {options.num_requests / seconds:.1f} "
            f"requests/s, p50 {p50:.0f} ms, p99 {p99:.0f} ms, "
            f"{per_request:.1f} ms of processor time each, {memory:.0f} MB, "
            f"{len(load.wrong)} wrong replies\n"
        )
        for line in itertools.islice(load.wrong, 5):
            sys.stdout.write(f"  {line}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
