"""The server: connections, routing and scripted answers."""

import itertools
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from io import BufferedReader
from types import TracebackType
from typing import Any, Self, TypeAlias

from msgspec import Struct

from llm_server import http
from llm_server.chat_wire import CHAT
from llm_server.composed import compose
from llm_server.converse_wire import CONVERSE
from llm_server.gemini_wire import GEMINI
from llm_server.messages_wire import MESSAGES
from llm_server.parts import Answer, Problem, Status, gates_in
from llm_server.reply import Closed, Reply
from llm_server.responses_wire import RESPONSES
from llm_server.wire import CREATED, MODEL, Wire

ROUTES = {
    "/messages": MESSAGES,
    "/chat/completions": CHAT,
    "/responses": RESPONSES,
    ":streamGenerateContent": GEMINI,
    "/converse-stream": CONVERSE,
    ":streamRawPredict": MESSAGES,
}


Page: TypeAlias = Status | Callable[[dict[str, Any]], Status]


class Recorded(Struct, frozen=True):
    """A request as it came. `at` is in milliseconds since the epoch; `connection` tells apart
    the connections it came on; `raw` is the body before it was read as JSON."""

    method: str
    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    at: int
    connection: int = 0
    raw: bytes = b""


class LlmServer:
    """A scripted model that speaks the wire format of each vendor. It plays its answers one after
    the other, whatever the requests contain."""

    def __init__(
        self, *answers: Answer, port: int = 0, pages: Mapping[str, Page] | None = None
    ) -> None:
        """`pages` are what else is answered, by path: a response, or a function of the body."""
        self._answers: Sequence[Answer] = answers
        self._pages = pages
        self._port = port
        self._turns = itertools.count()
        self._news = threading.Condition()
        self._closing = threading.Event()
        self._peers: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self.requests: list[Recorded] = []
        self.lookups: list[Recorded] = []
        """Requests for facts about models."""
        self.departures = 0
        self.exhausted = False

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def wait_for_request(self, count: int = 1, timeout: float = 60) -> Recorded:
        """The request that makes it `count`, once it has come."""
        self._wait(lambda: len(self.requests) >= count, f"{count} requests", timeout)
        return self.requests[count - 1]

    def wait_for_departure(self, count: int = 1, timeout: float = 60) -> None:
        """Return once `count` clients have left before their answer was complete."""
        self._wait(lambda: self.departures >= count, f"{count} departures", timeout)

    def __enter__(self) -> Self:
        self._listener = socket.create_server(("127.0.0.1", self._port), backlog=128)
        self._port = self._listener.getsockname()[1]
        self._door = threading.Thread(target=self._admit, name="llm-server")
        self._door.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._closing.set()
        for gate in gates_in(self._answers):
            gate.open()
        # The last connection wakes the accept loop, which then sees that it must close.
        with suppress(OSError):
            socket.create_connection(self._listener.getsockname()).close()
        self._door.join()
        self._listener.close()
        with self._news:
            for peer in self._peers:
                with suppress(OSError):
                    peer.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()

    def _admit(self) -> None:
        for number in itertools.count():
            peer, _ = self._listener.accept()
            if self._closing.is_set():
                peer.close()
                return
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._news:
                self._peers.add(peer)
            thread = threading.Thread(
                target=self._serve, args=(peer, number), name=f"llm-server-{number}"
            )
            thread.start()
            self._threads.append(thread)

    def _serve(self, peer: socket.socket, number: int) -> None:
        source = peer.makefile("rb")
        try:
            while request := _next_request(source):
                self._answer(peer, request, number)
        except Closed:
            pass
        except OSError:
            if not self._closing.is_set():
                self._tell(departed=1)
        finally:
            source.close()
            with self._news:
                self._peers.discard(peer)
            peer.close()

    def _answer(self, peer: socket.socket, request: http.Request, number: int) -> None:
        self._tell(recorded=_recorded(request, number))
        wire = _route(request)
        reply = Reply(peer, wire or CHAT, request.body, self._closing)
        if self._pages is not None and wire is None:
            page = self._pages.get(request.path.split("?")[0], Status(404))
            reply.status(page if isinstance(page, Status) else page(request.body))
        elif request.method == "GET" and request.path.split("?")[0].endswith("/models"):
            reply.status(Status(200, MODELS))
        elif wire is None or request.method != "POST":
            reply.status(Status(404, Problem(f"No route {request.method} {request.path}.")))
        else:
            self._play(reply, self._position(request.body))

    def _position(self, body: dict[str, Any]) -> int:
        """Of the answer to a request; `support.scripted_model` goes by what the request holds."""
        return next(self._turns)

    def _play(self, reply: Reply, position: int) -> None:
        if position >= len(self._answers):
            self.exhausted = True
            missing = f"The script has {len(self._answers)} answers and was asked for one more."
            reply.status(Status(400, Problem(missing, code="script_exhausted")))
            return
        match self._answers[position]:
            case Status() as status:
                reply.status(status)
            case Sequence() as parts:
                reply.answer(compose(parts, position), position)
            case inline:
                reply.answer(compose([inline], position), position)

    def _tell(self, *, recorded: Recorded | None = None, departed: int = 0) -> None:
        with self._news:
            if recorded:
                looks_up = recorded.method == "GET" or recorded.path.startswith("/api/")
                (self.lookups if looks_up else self.requests).append(recorded)
            self.departures += departed
            self._news.notify_all()

    def _wait(self, happened: Callable[[], bool], what: str, timeout: float) -> None:
        with self._news:
            if not self._news.wait_for(happened, timeout):
                raise TimeoutError(
                    f"Waited {timeout} s for {what}; "
                    f"{len(self.requests)} requests and {self.departures} departures came."
                )


@contextmanager
def nobody_home() -> Iterator[str]:
    """A URL where connections are refused, for as long as the context is open."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{bound.getsockname()[1]}"


def _next_request(source: BufferedReader) -> http.Request | None:
    """None as well when the client resets a connection it no longer needs."""
    try:
        return http.read_request(source)
    except OSError:
        return None


def _route(request: http.Request) -> Wire | None:
    path = request.path.split("?")[0]
    return next((wire for end, wire in ROUTES.items() if path.endswith(end)), None)


def _recorded(request: http.Request, connection: int) -> Recorded:
    at = time.time_ns() // 1_000_000
    return Recorded(
        request.method, request.path, request.headers, request.body, at, connection, request.raw
    )


MODELS = {
    "object": "list",
    "data": [
        {
            "id": MODEL,
            "object": "model",
            "type": "model",
            "display_name": "Scripted 1",
            "created": CREATED,
            "created_at": "2026-01-01T00:00:00Z",
            "owned_by": "rookery",
        }
    ],
    "has_more": False,
    "first_id": MODEL,
    "last_id": MODEL,
}
