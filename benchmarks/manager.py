"""Measure the Agent Manager: `python benchmarks/manager.py`.

The list has a hundred sessions, and ten of them stream, each from its own process, from a model
that sends timestamps as words. Clients follow the list and all ten sessions over the WebSocket, as
a page does, and compare each timestamp with the clock. Processor time and memory are those of the
manager's process, as the system reports them. A bare reader connects to the model directly, in the
same process as the clients: its delays come from the machine, not from the manager.
"""

import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path
from statistics import median, quantiles
from typing import TYPE_CHECKING, Any

import anyio
import httpx2
from msgspec import Struct, field

sys.path.append(str(Path(__file__).parent))
sys.path.append(str(Path(__file__).parents[1] / "tests"))

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection

LISTED, STREAMING = 100, 10
CHUNKS_PER_SECOND = 50
CLIENTS = (0, 1, 3)
SECONDS = 10.0
"""Seconds to follow with each number of clients."""
MESSAGES = 10_000
OPENINGS = 5
STARTS = 5
WORDS_A_PARAGRAPH = 40
MOST_DELAY, MOST_OPENING = 0.1, 0.5
PATIENCE = 60
STAMP = re.compile(rb"@(\d+)")
WORDS = re.compile(rb'"append":"([^"]*)"')
HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
    b"transfer-encoding: chunked\r\n\r\n"
)


# the model, a process of its own


def serve_model() -> None:
    """Serve a model that streams timestamps, one word after the other, forever."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as door:
        print(f"http://127.0.0.1:{door.getsockname()[1]}", flush=True)
        while True:
            peer, _ = door.accept()
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=_stream_words, args=(peer,), daemon=True).start()


def _stream_words(peer: socket.socket) -> None:
    with peer, suppress(OSError):
        _read_request(peer)
        peer.sendall(HEAD)
        began = time.monotonic()
        for number in range(1_000_000):
            time.sleep(max(0.0, began + number / CHUNKS_PER_SECOND - time.monotonic()))
            end = "\n\n" if number % WORDS_A_PARAGRAPH == WORDS_A_PARAGRAPH - 1 else " "
            data = json.dumps(_chunk(f"@{time.monotonic_ns()}{end}"))
            event = f"data: {data}\n\n".encode()
            peer.sendall(b"%x\r\n%s\r\n" % (len(event), event))


def _chunk(text: str) -> dict[str, Any]:
    return {
        "id": "c",
        "object": "chat.completion.chunk",
        "created": 0,
        "model": "bench",
        "choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}],
    }


def _read_request(peer: socket.socket) -> None:
    held = b""
    while b"\r\n\r\n" not in held:
        held += peer.recv(1 << 16)
    head, _, body = held.partition(b"\r\n\r\n")
    length = re.search(rb"(?i)content-length: *(\d+)", head)
    wanted = int(length[1]) if length else 0
    while len(body) < wanted:
        body += peer.recv(1 << 16)


@contextmanager
def model_process() -> Iterator[str]:
    with subprocess.Popen(
        [sys.executable, __file__, "model"], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout
            yield process.stdout.readline().strip()
        finally:
            process.kill()


# the manager, and what it manages


class Project:
    """A folder with listed sessions, one of which has a long history."""

    def __init__(self, folder: Path, model: str) -> None:
        from runs import OF_OTHERS

        from rookery.permissions.trust import TrustStore
        from rookery.platform.user_folders import find_places

        self.path = folder / "project"
        self.path.mkdir()
        usual = {name: os.environ[name] for name in os.environ if not name.startswith(OF_OTHERS)}
        self.environ = {
            **usual,
            "ROOKERY_HOME": str(folder / "home"),
            "ROOKERY_BASE_URL": model,
            "ROOKERY_MANAGER_RUNNING_LIMIT": str(2 * STREAMING),
        }
        self.places = find_places(self.environ)
        self.long = str(uuid.uuid4())
        TrustStore(self.places.trust_file).trust(self.path)
        self._store_sessions()
        self._store_long_past()

    def _store_sessions(self) -> None:
        from rookery.manager.sessions.session_record import SessionRecord
        from rookery.manager.sessions.session_states import SessionState, SessionStatus
        from rookery.manager.sessions.session_store import SessionStore, manager_folder

        store = SessionStore(self.path, manager_folder(self.places, self.path))
        for number in range(LISTED - STREAMING):
            record = SessionRecord(
                session_id=self.long if number == 0 else str(uuid.uuid4()),
                label=f"Session {number}",
                prompt=f"Do what is to be done, number {number}",
                start_time=1_700_000_000_000 + number,
                workspace=str(self.path),
                status=SessionStatus.DONE,
                state=SessionState.COMPLETED,
                generation=1,
                announced=True,
            )
            store.put(record)
        store.close()

    def _store_long_past(self) -> None:
        from rookery.core.facts import Event
        from rookery.storage.sessions import TaskStore
        from support.tui_long_session import long_past

        journal = TaskStore(self.places).create(self.long)
        for seq, fact in enumerate(long_past(MESSAGES, "the very last words"), 1):
            journal.write(Event(seq, 0, 1_700_000_000_000 + seq, fact))
        journal.close()

    @contextmanager
    def managed(self) -> Iterator["Manager"]:
        from runs import ROOKERY

        began = time.monotonic()
        with subprocess.Popen(
            [*ROOKERY, "manager", "--no-open", "--json"],
            cwd=self.path,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            try:
                assert process.stdout
                where = json.loads(process.stdout.readline())
                httpx2.get(where["url"], trust_env=False).raise_for_status()
                yield Manager(process.pid, where, time.monotonic() - began)
            finally:
                process.terminate()


class Manager:
    def __init__(self, pid: int, where: dict[str, str], started_in: float) -> None:
        self.pid = pid
        self.started_in = started_in
        self.url = where["url"]
        self._launch_url = where["launch_url"]
        self._token = ""

    @property
    def token(self) -> str:
        if not self._token:
            url, code = self._launch_url.split("#launch=")
            response = httpx2.post(f"{url}api/launch", json={"code": code}, trust_env=False)
            self._token = str(response.json()["token"])
        return self._token

    def do(self, kind: str, **fields: object) -> Any:
        response = httpx2.post(
            f"{self.url}api/do",
            json={"kind": kind, **fields},
            headers={"Authorization": f"Bearer {self.token}"},
            timeout=PATIENCE,
            trust_env=False,
        )
        response.raise_for_status()
        return response.json()

    def cpu(self) -> float:
        """Processor seconds used so far."""
        used = Path(f"/proc/{self.pid}/stat").read_bytes().rpartition(b")")[2].split()
        return (int(used[11]) + int(used[12])) / os.sysconf("SC_CLK_TCK")

    def memory(self) -> float:
        """Resident memory in MiB."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        found = re.search(r"VmRSS:\s+(\d+) kB", status)
        return int(found[1]) / 1024 if found else 0.0

    @asynccontextmanager
    async def visited(self) -> "AsyncIterator[Client]":
        from websockets.asyncio.client import connect

        address = self.url.replace("http:", "ws:") + "ws"
        async with connect(address, proxy=None, max_size=None) as channel:
            client = Client(channel)
            await client.call("initialize", protocol=1, token=self.token)
            yield client


class Client(Struct):
    """A client that follows sessions, as a page does."""

    channel: "ClientConnection"
    received: int = 0
    delays: list[float] = field(default_factory=list)

    async def call(self, method: str, **params: object) -> None:
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        await self.channel.send(json.dumps(message))

    async def follow(self, session_ids: list[str]) -> None:
        await self.call("follow_list")
        for session_id in session_ids:
            await self.call("follow_session", session_id=session_id)

    async def listen(self) -> None:
        """Read forever. Only raw words are timed, not the rendered rows that repeat them later."""
        async for message in self.channel:
            data = message.encode() if isinstance(message, str) else message
            now = time.monotonic_ns()
            self.received += len(data)
            for words in WORDS.findall(data):
                self.delays += [(now - int(stamp)) / 1e9 for stamp in STAMP.findall(words)]


async def read_event(model: str, delays: list[float]) -> None:
    """Read from the model directly, forever."""
    host, _, port = model.removeprefix("http://").partition(":")
    async with await anyio.connect_tcp(host, int(port)) as peer:
        await peer.send(b"POST / HTTP/1.1\r\ncontent-length: 0\r\n\r\n")
        async for data in peer:
            now = time.monotonic_ns()
            delays += [(now - int(stamp)) / 1e9 for stamp in STAMP.findall(data)]


# what is measured


class Followed(Struct, frozen=True):
    clients: int
    tokens: float
    cpu: float
    memory: float
    received: float
    delays: list[float]
    bare: list[float]


async def follow(manager: Manager, session_ids: list[str], clients: int, model: str) -> Followed:
    bare: list[float] = []
    async with AsyncExitStack() as stack:
        there = [await stack.enter_async_context(manager.visited()) for _ in range(clients)]
        group = await stack.enter_async_context(anyio.create_task_group())
        for client in there:
            await client.follow(session_ids)
            group.start_soon(client.listen)
        group.start_soon(read_event, model, bare)
        await anyio.sleep(2.0)  # let the initial state arrive
        for client in there:
            client.received, client.delays = 0, []
        bare.clear()
        cpu, began = manager.cpu(), time.monotonic()
        await anyio.sleep(SECONDS)
        tokens = (time.monotonic() - began) * CHUNKS_PER_SECOND * STREAMING
        found = Followed(
            clients=clients,
            tokens=tokens,
            cpu=manager.cpu() - cpu,
            memory=manager.memory(),
            received=sum(client.received for client in there),
            delays=[delay for client in there for delay in client.delays],
            bare=bare,
        )
        group.cancel_scope.cancel()
    return found


async def opening(manager: Manager, session_id: str) -> tuple[float, float]:
    """Seconds until the last byte of the window, and until it is rendered completely."""
    async with manager.visited() as client:
        await client.channel.recv()
        began = time.monotonic()
        await client.call("follow_session", session_id=session_id)
        shown = looks = 0.0
        with anyio.move_on_after(1.0) as quiet:
            async for message in client.channel:
                quiet.deadline = anyio.current_time() + 1.0
                looks = time.monotonic() - began
                if '"parts"' in str(message) and not shown:
                    shown = looks
    return shown, looks


def start_streams(manager: Manager) -> list[str]:
    found = [
        manager.do("start_sessions", prompt=f"Tell the time, {number}", model="openai/bench")
        for number in range(STREAMING)
    ]
    session_ids = [session_id for each in found for session_id in each["session_ids"]]
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        rows = manager.do("list_sessions")["sessions"]
        if sum(row["state"] == "streaming" for row in rows) == STREAMING:
            return session_ids
        time.sleep(0.2)
    raise TimeoutError("The sessions do not stream.")


FOLLOWED = (
    *("clients", "CPU per 1000 tokens", "of a core", "bytes per token and client"),
    *("word to client p50", "p95", "wanted", "", "to a bare reader p50", "p95", "memory"),
)


def followed_row(found: Followed) -> list[str]:
    return [
        str(found.clients),
        f"{found.cpu / found.tokens * 1_000 * 1_000:.0f} ms",
        f"{found.cpu / SECONDS:.0%}",
        f"{found.received / len(found.delays):.0f}" if found.delays else "",
        *_delay_cells(found.delays, wanted=True),
        *_delay_cells(found.bare, wanted=False),
        f"{found.memory:.0f} MiB",
    ]


def _delay_cells(delays: list[float], *, wanted: bool) -> list[str]:
    if not delays:
        return ["", "", "", ""]
    cut = quantiles(delays, n=100)
    cells = [f"{cut[49] * 1_000:.0f} ms", f"{cut[94] * 1_000:.0f} ms"]
    if not wanted:
        return cells
    return [*cells, f"{MOST_DELAY * 1_000:.0f} ms", "ok" if cut[94] < MOST_DELAY else "over"]


async def measure(project: Project, model: str) -> None:
    from run import table

    starts = []
    for _ in range(STARTS):
        with project.managed() as manager:
            starts.append(manager.started_in)
    with project.managed() as manager:
        first = await opening(manager, project.long)
        later = [await opening(manager, project.long) for _ in range(OPENINGS)]
        rows = [
            ["page served, since the command began", f"{median(starts) * 1_000:.0f} ms", "", ""],
            _opening_row(f"{MESSAGES} messages opened, first", [first[0]]),
            _opening_row("… again", [shown for shown, _ in later]),
            ["… until it looks as it should", f"{first[1] * 1_000:.0f} ms", "", ""],
        ]
        print(table([("what", "manager", "wanted", ""), *rows]))
        session_ids = start_streams(manager)
        try:
            found = [await follow(manager, session_ids, clients, model) for clients in CLIENTS]
        finally:
            manager.do("stop_all")
    print(
        f"\n{LISTED} sessions on the list, of which {STREAMING} stream {CHUNKS_PER_SECOND} tokens "
        "a second each; each client follows the list and all ten:\n"
    )
    print(table([FOLLOWED, *map(followed_row, found)]))


def _opening_row(what: str, seconds: list[float]) -> list[str]:
    verdict = "ok" if median(seconds) < MOST_OPENING else "over"
    return [what, f"{median(seconds) * 1_000:.0f} ms", f"{MOST_OPENING * 1_000:.0f} ms", verdict]


def main() -> None:
    from run import machine

    print(f"{machine()}\n")
    with tempfile.TemporaryDirectory() as folder, model_process() as model:
        anyio.run(measure, Project(Path(folder), model), model)


if __name__ == "__main__":
    serve_model() if sys.argv[1:] == ["model"] else main()
