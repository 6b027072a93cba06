"""A server on loopback with the addresses of Hugging Face's hub."""

import dataclasses
import hashlib
import http.server
import json
import re
import urllib.parse
from collections.abc import Mapping

from tests.support import web_server

_API = re.compile(r"/api/models/(?P<name>.+?)/(revision|tree)/(?P<at>[^/]+)")
_FILE = re.compile(r"/(?P<name>.+?)/resolve/(?P<at>[^/]+)/(?P<file>.+)")


@dataclasses.dataclass
class Hub:
    """The models of a server, and the requests that it got.

    Attributes:
        models: files by name and content, by (model, commit).
        revisions: commits by (model, revision).
        gated: names of models of which only the files need a token.
        private: names of models that need a token.
        forbidden: names of models that no token opens.
        tokens: the tokens that are accepted.
        damaged: paths whose files are cut.
        requests: "METHOD path" in order.
        headers: of the last request; names in any case.
        address: of the server.
    """

    models: dict = dataclasses.field(default_factory=dict)
    revisions: dict = dataclasses.field(default_factory=dict)
    gated: set = dataclasses.field(default_factory=set)
    private: set = dataclasses.field(default_factory=set)
    forbidden: set = dataclasses.field(default_factory=set)
    tokens: set = dataclasses.field(default_factory=set)
    damaged: set = dataclasses.field(default_factory=set)
    requests: list = dataclasses.field(default_factory=list)
    headers: Mapping = dataclasses.field(default_factory=dict)
    address: str = ""

    def publish(self, name, files, revision="main"):
        """Adds a commit of a model; returns its hash."""
        content = repr((name, sorted(files.items()))).encode()
        commit = hashlib.sha1(content).hexdigest()
        self.models[name, commit] = dict(files)
        self.revisions[name, revision] = commit
        self.revisions[name, commit] = commit
        return commit

    def fetched(self):
        """Returns the files of the GET requests, in order."""
        matches = (
            _FILE.fullmatch(r.removeprefix("GET ")) for r in self.requests
        )
        return [match["file"] for match in matches if match]


class _Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        """Says nothing."""

    def do_HEAD(self):
        self._answer()

    def do_GET(self):
        self._answer()

    def _answer(self):
        hub, path = self.server.site, self.path.partition("?")[0]
        hub.requests.append(f"{self.command} {path}")
        hub.headers = self.headers
        match = _API.fullmatch(path) or _FILE.fullmatch(path)
        refusal = self._refusal(match)
        if refusal:
            self._refuse(*refusal)
            return
        place = match.groupdict()
        commit = hub.revisions[place["name"], urllib.parse.unquote(place["at"])]
        files = hub.models[place["name"], commit]
        if "file" not in place:
            self._send(json.dumps(_listing(match[2], commit, files)).encode())
            return
        content = files[place["file"]]
        headers = {
            "X-Repo-Commit": commit,
            "ETag": f'"{hashlib.sha256(content).hexdigest()}"',
        }
        if self.command == "GET" and path in hub.damaged:
            content = content[: len(content) // 2]
        self._send(content, headers)

    def _refusal(self, match):
        """Returns the status, the code and the message of a refusal, or ()."""
        hub = self.server.site
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        place = match.groupdict() if match else {"name": "", "at": ""}
        name, revision = place["name"], urllib.parse.unquote(place["at"])
        commit, refusal = hub.revisions.get((name, revision)), ()
        if token and token not in hub.tokens:
            refusal = 401, "", "Invalid credentials in Authorization header"
        elif name in hub.forbidden:
            refusal = 403, "", "The token has no permission to read"
        elif name not in {model for model, _ in hub.models} or (
            name in hub.private and not token
        ):
            # The hub hides from strangers which models there are.
            refusal = 404 if token else 401, "RepoNotFound", ""
        elif commit is None:
            refusal = 404, "RevisionNotFound", ""
        elif "file" in place:
            if name in hub.gated and not token:
                refusal = 401, "GatedRepo", ""
            elif place["file"] not in hub.models[name, commit]:
                refusal = 404, "EntryNotFound", ""
        return refusal

    def _send(self, content, headers=None):
        self.send_response(200)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content)

    def _refuse(self, status, code, message):
        self.send_response(status)
        if code:
            self.send_header("X-Error-Code", code)
        if message:
            self.send_header("X-Error-Message", message)
        self.send_header("Content-Length", "0")
        self.end_headers()


def _listing(kind, commit, files):
    if kind == "revision":
        siblings = [{"rfilename": name} for name in files]
        return {"id": "x", "sha": commit, "siblings": siblings}
    return [
        {
            "type": "file",
            "path": name,
            "size": len(content),
            "oid": hashlib.sha1(content).hexdigest(),
        }
        for name, content in files.items()
    ]


def running():
    """Runs a server for as long as a block; yields its `Hub`."""
    return web_server.serving(_Handler, Hub())


def use(monkeypatch, address, home, *, offline=False):
    """Sets huggingface_hub, which read its variables, to a server and cache."""
    from huggingface_hub import constants

    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    url = f"{address}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
    for name, value in {
        "ENDPOINT": address,
        "HUGGINGFACE_CO_URL_TEMPLATE": url,
        "HF_HOME": str(home),
        "HF_HUB_CACHE": str(home / "hub"),
        "HF_TOKEN_PATH": str(home / "token"),
        "HF_STORED_TOKENS_PATH": str(home / "stored_tokens"),
        "AGENT_HARNESSES_PATH": str(home / "harnesses.json"),
        "HF_HUB_OFFLINE": offline,
    }.items():
        monkeypatch.setattr(constants, name, value)
