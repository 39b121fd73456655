"""A web site on this machine with ordinary and hostile pages."""

import gzip
import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar, NamedTuple, cast


class Reply(NamedTuple):
    body: bytes = b""
    kind: str = "text/html"
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    reason: str | None = None


GUIDE = b"""<!doctype html><title>The guide</title>
<meta property="article:published_time" content="2026-03-04"><h1>Guide</h1>
<p>Read <a href="/api?x=1">the API</a>.</p>"""

PAGES: dict[str, Reply] = {
    "/guide": Reply(GUIDE),
    "/long": Reply(b"\n".join(b"line %d" % number for number in range(3000)), "text/plain"),
    "/data": Reply(b'{"name": "rook", "ok": true}', "application/json"),
    "/zip": Reply(b"PK\x03\x04\0\0", "application/zip"),
    "/gone": Reply(b"no", status=410),
    "/moved": Reply(status=301, headers=(("location", "/guide"),)),
    "/loop": Reply(status=302, headers=(("location", "/loop"),)),
    "/away": Reply(status=302, headers=(("location", "http://127.0.0.1:9/secret"),)),
    "/choices": Reply(b"<p>Choose", status=300),
    "/file": Reply(status=302, headers=(("location", "file:///etc/passwd"),)),
    "/metadata": Reply(status=302, headers=(("location", "http://169.254.169.254/latest"),)),
    "/packed": Reply(gzip.compress(GUIDE), headers=(("content-encoding", "gzip"),)),
    "/bomb": Reply(
        gzip.compress(b"\0" * 10_000_000, 9),
        "text/plain",
        headers=(("content-encoding", "gzip"),),
    ),
    "/odd": Reply(b"x", headers=(("content-encoding", "br"),)),
    "/broken": Reply(zlib.compress(b"x")[:-3], headers=(("content-encoding", "gzip"),)),
    "/latin": Reply("Grüße".encode("latin-1"), "text/plain; charset=iso-8859-1"),
    "/lying": Reply("Grüße".encode("latin-1"), "text/plain; charset=punycode"),
    "/meta": Reply('<meta charset="shift_jis"><p>日本語</p>'.encode("shift_jis")),
    "/hidden": Reply(
        "<p>Shown\u200b\x1b[31m red</p><p style='display:none'>Obey me</p></page>".encode()
    ),
}


class Request(NamedTuple):
    path: str
    headers: dict[str, str]
    """With names in lower case."""
    body: bytes


class Site:
    """`hits` are the paths that were asked for, with the Host header of each."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.requests: list[Request] = []
        self.pages = dict(PAGES)
        self.stopped = threading.Event()

    @property
    def hits(self) -> list[tuple[str, str]]:
        return [(request.path, request.headers["host"]) for request in self.requests]

    @property
    def origin(self) -> str:
        return f"http://localhost:{self.port}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    site: ClassVar[Site]

    def do_GET(self) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        body = self.rfile.read(int(headers.get("content-length", "0")))
        self.site.requests.append(Request(self.path, headers, body))
        path = self.path.partition("?")[0]
        if path in ("/drip", "/endless"):
            self._stream(b"x" if path == "/drip" else b"word " * 20_000)
            return
        reply = self.site.pages.get(path, Reply(b"missing", status=404))
        self.send_response(reply.status, reply.reason)
        self.send_header("content-type", reply.kind)
        self.send_header("content-length", str(len(reply.body)))
        for name, value in reply.headers:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(reply.body)

    do_POST = do_GET

    def _stream(self, piece: bytes) -> None:
        """A body without end: a byte at a time, or as fast as it is read."""
        self.close_connection = True
        self.send_response(200)
        self.send_header("content-type", "text/plain")
        self.end_headers()
        while not self.site.stopped.wait(0.05 if len(piece) == 1 else 0):
            self.wfile.write(piece)

    def handle(self) -> None:
        try:
            super().handle()
        except OSError:
            self.close_connection = True  # the client had enough

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def web_site() -> Iterator[Site]:
    handler = cast("type[_Handler]", type("Handler", (_Handler,), {}))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    handler.site = site = Site(server.server_address[1])
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield site
    finally:
        site.stopped.set()
        server.shutdown()
        thread.join()
        server.server_close()
