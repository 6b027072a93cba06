"""The load test counts replies, refusals and the server's resources."""

import http.server
import json
import os
import sys
import threading

import pytest

from benchmarks import serving


class _Server(http.server.BaseHTTPRequestHandler):
    """Answers rows, and refuses all other bodies as told."""

    refusal = 400

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        try:
            (row,) = json.loads(body)["instances"]
            status = 200 if {*row} <= {"text_a", "text_b"} else self.refusal
        except (KeyError, TypeError, ValueError, RecursionError):
            status = self.refusal
        self.send_response(status)
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *args):
        pass


@pytest.fixture
def url():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Server)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/v1/models/mrpc:predict"
    server.shutdown()
    server.server_close()


def test_the_program_prints_a_line_for_each_number_of_clients(
    url, tmp_path, monkeypatch, capsys
):
    path = tmp_path / "texts"
    path.write_text("good ||| bad\n\nso so\n")
    arguments = [
        *("serving", f"--url={url}", f"--input_file={path}"),
        *(f"--server_pid={os.getpid()}", "--num_requests=25"),
        "--clients=1,2",
    ]
    monkeypatch.setattr(sys, "argv", arguments)
    serving.main()
    start, *lines = capsys.readouterr().out.splitlines()
    assert start.startswith("memory at the start ")
    assert [line.split(" requests/s")[0][:11] for line in lines] == [
        "1 clients: ",
        "2 clients: ",
    ]
    assert all(line.endswith(" MB, 0 wrong replies") for line in lines)


def test_a_server_that_is_missing_ends_the_program(tmp_path, monkeypatch):
    path = tmp_path / "texts"
    path.write_text("good\n")
    url = "http://127.0.0.1:9/v1/models/mrpc:predict"
    arguments = [f"--url={url}", f"--input_file={path}", "--server_pid=1"]
    monkeypatch.setattr(sys, "argv", ["serving", *arguments])
    with pytest.raises(SystemExit, match=r"mrpc:predict: 0: .*refused"):
        serving.main()
