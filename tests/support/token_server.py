"""A server on loopback that gives out access tokens: Google's token endpoint and its metadata."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs

from msgspec import Struct


class TokenRequest(Struct, frozen=True):
    method: str
    path: str
    headers: dict[str, str]
    form: dict[str, str]


class TokenServer:
    """Answers request number n with `token-n`, valid for `seconds`; or always with `refusal`."""

    def __init__(self, *, seconds: int = 3600, refusal: tuple[int, Any] | None = None) -> None:
        self.requests: list[TokenRequest] = []
        self._seconds = seconds
        self._refusal = refusal

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self._server.server_address[1]}"

    @property
    def token_uri(self) -> str:
        return f"http://{self.host}/token"

    def __enter__(self) -> Self:
        answer = self._answer

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                answer(self)

            def do_GET(self) -> None:
                answer(self)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.01}
        )
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _answer(self, came: BaseHTTPRequestHandler) -> None:
        raw = came.rfile.read(int(came.headers.get("content-length", "0"))).decode()
        form = {name: values[0] for name, values in parse_qs(raw).items()}
        headers = {name.lower(): text for name, text in came.headers.items()}
        self.requests.append(TokenRequest(came.command, came.path, headers, form))
        token = {"access_token": f"token-{len(self.requests)}", "token_type": "Bearer"}
        code, said = self._refusal or (200, {**token, "expires_in": self._seconds})
        body = json.dumps(said).encode()
        came.send_response(code)
        came.send_header("content-type", "application/json")
        came.send_header("content-length", str(len(body)))
        came.end_headers()
        came.wfile.write(body)
