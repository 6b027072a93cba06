"""A web server on loopback."""

import contextlib
import http.server
import threading


class Site:
    """What a server gives out, and what it was asked.

    Attributes:
        files: content by path, such as "/a/b.zip"; with the query, if any.
        requests: the paths in order.
        headers: of the last request.
        address: of the server.
    """

    def __init__(self):
        self.files = {}
        self.requests = []
        self.headers = {}
        self.address = ""


class _Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        """Says nothing."""

    def do_GET(self):
        site = self.server.site
        site.requests.append(self.path)
        site.headers = dict(self.headers)
        if self.path not in site.files:
            self.send_error(404)
            return
        content = site.files[self.path]
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


@contextlib.contextmanager
def serving(handler, site):
    """Runs a server for as long as the block.

    Args:
        handler: the class that answers requests.
        site: its `server.site`, which gets the `address` of the server.
    """
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.site = site
    site.address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield site
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def running():
    """Runs a server of files for as long as a block; yields its `Site`."""
    return serving(_Handler, Site())
