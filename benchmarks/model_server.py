"""The scripted model as a separate process, so that it shares no interpreter with a client.

    python benchmarks/model_server.py CASE …

Every answer is encoded before the first request, and sent with one write: no client waits for the
server. The requests of a run go to `/CASE/RUN/chat/completions` and get the answers of the case in
order. A case `AGENT@TURNS` is the work of another agent, which asks on a route of its own. A line
`CASE/RUN` on standard input is answered with the times and sizes of its requests, and the first
request.
"""

import json
import socket
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "tests"))

from cases import CASES

from llm_server import Answer, http
from llm_server.chat_wire import CHAT
from llm_server.composed import compose
from llm_server.messages_wire import MESSAGES
from llm_server.parts import SseEvent
from llm_server.responses_wire import RESPONSES
from llm_server.wire import Wire, frames

HEAD = http.head(
    200, {"content-type": "text/event-stream; charset=utf-8", "transfer-encoding": "chunked"}
)
ROUTES = {"/chat/completions": CHAT, "/responses": RESPONSES, "/v1/messages": MESSAGES}
NOTHING = b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n"


class Record:
    """The requests of one run."""

    def __init__(self) -> None:
        self.arrivals: list[float] = []
        self.sizes: list[int] = []
        self.first = ""

    def record(self, request: http.Request) -> int:
        """Record a request and return its number, counted from 0."""
        self.arrivals.append(time.monotonic())
        self.sizes.append(len(request.raw))
        self.first = self.first or request.raw.decode()
        return len(self.arrivals) - 1


def encode_case(case: Sequence[Answer], wire: Wire = CHAT) -> list[bytes]:
    return [HEAD + b"".join(_chunks(answer, place, wire)) for place, answer in enumerate(case)]


def _chunks(answer: Answer, place: int, wire: Wire) -> Iterator[bytes]:
    """One HTTP chunk per event, as providers send them."""
    assert isinstance(answer, Sequence)
    request = {"model": "bench", "stream_options": {"include_usage": True}}
    for frame in frames(wire.stream(request, place), compose(answer, place)):
        assert isinstance(frame, SseEvent)
        named = b"event: %b\n" % frame.name.encode() if frame.name else b""
        yield http.chunk(b"%bdata: %b\n\n" % (named, frame.data.encode()))
    yield http.LAST_CHUNK


def serve(peer: socket.socket, answers: dict[str, list[bytes]], seen: dict[str, Record]) -> None:
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with peer, peer.makefile("rb") as source:
        while request := http.read_request(source):
            path = request.path.partition("?")[0]
            route = next((each for each in ROUTES if path.endswith(each)), "")
            if not route:
                peer.sendall(NOTHING)
                continue
            run = path.removesuffix(route).strip("/")
            place = seen[run].record(request)
            peer.sendall(answers[run.split("/")[0]][place])


def _encoded(name: str) -> list[bytes]:
    agent, _, turns = name.partition("@")
    if not turns:
        return encode_case(CASES[name])
    from peers import PEERS, WIRES, work

    return encode_case(work(PEERS[agent], int(turns)), WIRES[PEERS[agent].wire])


def main() -> None:
    answers = {name: _encoded(name) for name in sys.argv[1:]}
    seen: dict[str, Record] = defaultdict(Record)
    listener = socket.create_server(("127.0.0.1", 0))

    def admit() -> None:
        while True:
            peer, _ = listener.accept()
            threading.Thread(target=serve, args=(peer, answers, seen), daemon=True).start()

    threading.Thread(target=admit, daemon=True).start()
    print(f"http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
    for line in sys.stdin:
        print(json.dumps(vars(seen[line.strip()])), flush=True)


if __name__ == "__main__":
    main()
