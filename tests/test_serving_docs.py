"""The HTTP server of docs/serving.md answers as the page says."""

import contextlib
import http.client
import json
import re
import subprocess
import sys
import urllib.error
import urllib.request

import pytest

from tests.support import locations, serving_client, tool_runs

_SERVER = re.compile(r"```python\n(\"\"\"Serves.*?)```", re.DOTALL)


def _post(port, **request):
    """Sends a request; returns the status and the reply."""
    try:
        with urllib.request.urlopen(
            f"http://127.0.0.1:{port}/v1/models/mrpc:predict",
            json.dumps(request).encode(),
        ) as reply:
            return reply.status, _load(reply)
    except urllib.error.HTTPError as error:
        return error.code, _load(error)


def _load(reply):
    """Reads JSON, which has neither NaN nor Infinity."""

    def refuse(name):
        raise ValueError(f"{name} is not JSON")

    return json.load(reply, parse_constant=refuse)


# The server of the page, which prints the port that it was given.
_PRINT_PORT = """
import runpy, socketserver, sys
activate = socketserver.TCPServer.server_activate

def server_activate(server):
    activate(server)
    print("port", server.server_address[1], flush=True)

socketserver.TCPServer.server_activate = server_activate
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@contextlib.contextmanager
def _served(folder, script):
    """Runs the server of the page; yields its port.

    It has TensorFlow (Text) alone: the folder of the script has no module.
    """
    (page,) = _SERVER.findall(
        (locations.ROOT / "docs/serving.md").read_text("utf-8")
    )
    script.write_text(page)
    with subprocess.Popen(
        [sys.executable, "-c", _PRINT_PORT, script, folder, "0"],
        stdout=subprocess.PIPE,
        text=True,
        cwd=script.parent,
    ) as process:
        try:
            lines = (line.split() for line in process.stdout)
            yield next(int(x[1]) for x in lines if x[:1] == ["port"])
        finally:
            process.kill()


def _rows(columns):
    """Converts columns to the rows of TensorFlow Serving's REST interface."""
    return [
        dict(zip(columns, row, strict=True))
        for row in zip(*columns.values(), strict=True)
    ]


def _check_rows(port, texts, wanted):
    """Checks requests with `instances`, of a classifier."""
    status, reply = _post(port, signature_name="pairs", instances=_rows(texts))
    assert (status, reply) == (200, {"predictions": _rows(wanted)})
    # The only input needs no name, in either form.
    alone = ["He said so.", "Über"]
    replies = [
        _post(port, inputs={"text_a": alone}),
        _post(port, inputs=alone),
        _post(port, instances=[{"text_a": text} for text in alone]),
        _post(port, instances=alone),
    ]
    assert [status for status, _ in replies] == [200] * 4
    columns = replies[0][1]["outputs"]
    assert replies[1][1] == {"outputs": columns}
    assert replies[2] == replies[3] == (200, {"predictions": _rows(columns)})
    assert _post(port, instances=[]) == (200, {"predictions": []})
    for wrong, message in (
        ({"instances": alone, "inputs": alone}, "either inputs or instances"),
        ({}, "either inputs or instances"),
        ({"instances": [{"text": "x"}]}, "The inputs are ['text_a'], not"),
        ({"instances": [{"text_a": "x"}, 3]}, ""),
        ({"instances": 3}, ""),
        ({"signature_name": "pairs", "instances": alone}, ""),
        ({"signature_name": "pair", "inputs": alone}, "pair"),
    ):
        status, reply = _post(port, **wrong)
        assert (status, message in reply["error"]) == (400, True), wrong


def _post_bytes(port, body, **headers):
    """Sends bytes as the body of a request; returns the status."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    with contextlib.closing(connection):
        connection.putrequest("POST", "/v1/models/mrpc:predict")
        for name, value in headers.items():
            connection.putheader(name.replace("_", "-"), value)
        connection.endheaders()
        connection.send(body)
        return connection.getresponse().status


@pytest.mark.integration
def test_the_server_of_the_page_answers_over_http(made_once, tmp_path):
    made = made_once(tool_runs.export_golden, "classifier")
    version = made / "served/1"
    texts = {"text_a": ["He said so.", "Über"], "text_b": ["So he said.", ""]}
    (wanted,) = serving_client.ask(version, texts, signature="pairs")
    with _served(version, tmp_path / "serve.py") as port:
        status, reply = _post(port, signature_name="pairs", inputs=texts)
        assert (status, reply["outputs"]) == (200, wanted)
        assert _post(port, inputs={"text": ["x"]})[0] == 400
        status, reply = _post(port, inputs={"text_a": []})
        assert (status, reply["outputs"]["label"]) == (200, [])
        status, reply = _post(port, inputs={"text_a": ["a"]})
        assert (status, reply["outputs"]["label"][0] in "01") == (200, True)
        uneven = {**texts, "text_b": ["alone"]}
        status, reply = _post(port, signature_name="pairs", inputs=uneven)
        assert status == 400
        assert "text_b must have as many texts as text_a" in reply["error"]
        _check_rows(port, texts, wanted)
        names = ("input_ids", "input_mask", "segment_ids")
        ids = {name: [[1]] for name in names}
        assert _post(port, signature_name="ids", inputs=ids)[0] == 200
        rows = _rows(ids)
        status, reply = _post(port, signature_name="ids", instances=rows)
        assert (status, len(reply["predictions"])) == (200, 1)
        for body in (b"{", b"3", b"[]", b"\xff", b"[" * 100_000):
            assert _post_bytes(port, body, content_length=len(body)) == 400
        assert _post_bytes(port, b"") == 400
        ids["input_ids"] = [[2**32 + 1]]
        status, reply = _post(port, signature_name="ids", inputs=ids)
        assert (status, "out of bounds" in reply["error"]) == (400, True)


@pytest.mark.integration
def test_the_server_of_the_page_answers_questions_on_empty_contexts(
    made_once, tmp_path
):
    made = made_once(
        tool_runs.export_golden, "answerer", version_2_with_negative=True
    )
    version = made / "served/1"
    with _served(version, tmp_path / "serve.py") as port:
        inputs = {"question": ["who?", "who?"], "context": ["", " \n"]}
        status, reply = _post(port, inputs=inputs)
    assert status == 200
    assert reply["outputs"]["answer"] == ["", ""]
    assert reply["outputs"]["score"] == [-1e9, -1e9]


@pytest.mark.integration
def test_a_single_output_has_no_name(made_once, tmp_path):
    made = made_once(tool_runs.export_golden, "sentence_encoder", "max")
    version = made / "served/1"
    texts = {"text_a": ["He said so.", "Über"], "text_b": ["So he said.", ""]}
    (wanted,) = serving_client.ask(version, texts, signature="pairs")
    with _served(version, tmp_path / "serve.py") as port:
        named = {"signature_name": "pairs"}
        status, reply = _post(port, inputs=texts, **named)
        assert (status, reply) == (200, {"outputs": wanted["similarity"]})
        status, reply = _post(port, instances=_rows(texts), **named)
        assert (status, reply) == (200, {"predictions": wanted["similarity"]})
