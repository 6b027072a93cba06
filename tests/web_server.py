"""A web server on loopback with byte ranges and scripted failures."""

import contextlib
import hashlib
import http.server
import re
import threading


class Site:
    """What a server gives out, and what it was asked.

    Attributes:
        files: content by path, such as "/a/b.zip".
        requests: (path, the Range header or None) in order.
        cut_after: bytes of a body after which the connection is closed, for
            the requests to come, in turn; None for a whole body.
        statuses: answers to the requests to come, in turn, before all else.
        knows_ranges: whether Range is heeded.
        sends: which of "etag", "date" and "length" come with a file.
    """

    def __init__(self):
        self.files = {}
        self.requests = []
        self.cut_after = []
        self.statuses = []
        self.knows_ranges = True
        self.sends = {"etag", "date", "length"}
        self.address = ""

    def etag(self, path):
        return f'"{hashlib.sha256(self.files[path]).hexdigest()[:16]}"'


class _Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        """Says nothing."""

    def do_GET(self):
        site = self.server.site
        asked = self.headers.get("Range")
        site.requests.append((self.path, asked))
        status = site.statuses.pop(0) if site.statuses else 200
        if status in (301, 302):
            self.send_response(status)
            self.send_header("Location", site.address + "/moved")
            self.end_headers()
            return
        if status != 200 or self.path not in site.files:
            self.send_error(status if status != 200 else 404)
            return
        self._send_file(site, asked)

    def _send_file(self, site, asked):
        content = site.files[self.path]
        start = 0
        match = re.fullmatch(r"bytes=(\d+)-", asked or "")
        fresh = self.headers.get("If-Range") in (
            site.etag(self.path),
            "Mon, 02 Jan 2006 15:04:05 GMT",
        )
        if match and site.knows_ranges and fresh:
            start = int(match[1])
            if start >= len(content):
                self.send_response(416)
                self.send_header("Content-Range", f"bytes */{len(content)}")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            self.send_response(206)
            self.send_header(
                "Content-Range",
                f"bytes {start}-{len(content) - 1}/{len(content)}",
            )
        else:
            self.send_response(200)
        if "etag" in site.sends:
            self.send_header("ETag", site.etag(self.path))
        if "date" in site.sends:
            self.send_header("Last-Modified", "Mon, 02 Jan 2006 15:04:05 GMT")
        if "length" in site.sends:
            self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        cut = site.cut_after.pop(0) if site.cut_after else None
        body = content[start:] if cut is None else content[start : start + cut]
        self.wfile.write(body)


@contextlib.contextmanager
def running():
    """Runs a server for as long as the block; yields its `Site`."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.site = Site()
    server.site.address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server.site
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
