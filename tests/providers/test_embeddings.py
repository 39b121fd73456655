"""Vectors from a server, and from one that does not behave."""

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from rookery.core.limits import FailureKind
from rookery.errors import ProviderError
from rookery.providers.embeddings import LONGEST_WAIT, EndpointEmbedder, address_of_embeddings

Reply = tuple[int, bytes]


class Server:
    """Answers every request with the next reply; the last one is kept."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, str, Any]] = []
        self.replies: list[Callable[[Any], Reply]] = [vectors]
        self.headers: dict[str, str] = {}
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                key = self.headers.get("authorization", "")
                server.requests.append((self.path, key, body))
                reply = server.replies.pop(0) if len(server.replies) > 1 else server.replies[0]
                status, said = reply(body)
                self.send_response(status)
                for name, content in server.headers.items():
                    self.send_header(name, content)
                self.send_header("content-length", str(len(said)))
                self.end_headers()
                self.wfile.write(said)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.base_url = f"http://127.0.0.1:{self._http.server_address[1]}/v1"
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,))
        self._thread.start()

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


def vectors(body: Any) -> Reply:
    """In another order than requested."""
    data = [
        {"index": n, "embedding": [float(len(text)), 1]} for n, text in enumerate(body["input"])
    ]
    return 200, json.dumps({"object": "list", "data": data[::-1]}).encode()


def answers(status: int, said: object) -> Callable[[Any], Reply]:
    return lambda body: (status, said if isinstance(said, bytes) else json.dumps(said).encode())


BUSY = answers(503, {"error": {"message": "try later"}})


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.close()


@pytest.fixture
def waits() -> list[float]:
    return []


@pytest.fixture
def embedder(server: Server, waits: list[float]) -> Iterator[EndpointEmbedder]:
    made = EndpointEmbedder(
        "openai", "small", base_url=server.base_url, key="k-secret", wait=waits.append
    )
    yield made
    made.close()


def test_vectors_come_in_the_order_of_their_texts(server: Server, embedder: EndpointEmbedder):
    assert embedder.embed(["a", "bcd"]) == [[1.0, 1.0], [3.0, 1.0]]
    assert embedder.name == "openai/small"
    assert server.requests == [
        ("/v1/embeddings", "Bearer k-secret", {"model": "small", "input": ["a", "bcd"]})
    ]


def test_a_busy_server_is_tried_three_times(
    server: Server, embedder: EndpointEmbedder, waits: list[float]
):
    server.replies = [BUSY, BUSY, vectors]
    assert embedder.embed(["a"]) == [[1.0, 1.0]]
    assert waits == [0.5, 1.0]
    server.replies = [BUSY]
    with pytest.raises(ProviderError) as failed:
        embedder.embed(["a"])
    assert failed.value.kind is FailureKind.BUSY
    assert len(server.requests) == 6


def test_a_requested_wait_is_limited(
    server: Server, embedder: EndpointEmbedder, waits: list[float]
):
    server.headers = {"retry-after": "900"}
    server.replies = [BUSY, vectors]
    embedder.embed(["a"])
    assert waits == [LONGEST_WAIT]


def test_a_rejected_key_is_not_retried(server: Server, embedder: EndpointEmbedder):
    server.replies = [answers(401, {"error": {"message": "wrong key k-secret"}})]
    with pytest.raises(ProviderError) as failed:
        embedder.embed(["a"])
    assert failed.value.kind is FailureKind.BAD_KEY
    assert "k-secret" not in str(failed.value)
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "said",
    [
        b"<html>a portal</html>",
        b"\xff",
        {"data": []},
        {"data": [{"index": 0, "embedding": [1]}, {"index": 0, "embedding": [1]}]},
        {"data": [{"index": 0, "embedding": [1]}, {"index": 1, "embedding": [1, 2]}]},
        {"data": [{"index": 0, "embedding": ["x"]}, {"index": 1, "embedding": [1]}]},
    ],
)
def test_a_response_without_vectors_is_refused(
    server: Server, embedder: EndpointEmbedder, said: object
):
    server.replies = [answers(200, said)]
    with pytest.raises(ProviderError, match="has no embeddings"):
        embedder.embed(["a", "b"])


def test_an_unreachable_server_is_retried_and_reported_as_offline(waits: list[float]):
    embedder = EndpointEmbedder("ollama", "small", base_url="http://127.0.0.1:9", wait=waits.append)
    with pytest.raises(ProviderError) as failed:
        embedder.embed(["a"])
    embedder.close()
    assert failed.value.kind is FailureKind.OFFLINE
    assert len(waits) == 2


def test_a_redirect_is_not_followed(server: Server, embedder: EndpointEmbedder):
    server.headers = {"location": "http://127.0.0.1:9/"}
    server.replies = [answers(302, b"")]
    with pytest.raises(ProviderError):
        embedder.embed(["a"])


def test_gemini_makes_embeddings_at_the_address_of_chat_completions():
    assert address_of_embeddings("gemini").endswith("/v1beta/openai")
    assert address_of_embeddings("openai") == "https://api.openai.com/v1"
    assert address_of_embeddings("nobody") == ""
