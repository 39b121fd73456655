"""A workspace with canaries, which must stay untouched.

Nothing may open its secret files or call its address. Executed code leaves marks in a folder.

    world = World(tmp_path, trusted=False)
    visit = world.visit([call("list_files", path=".", recursive=True)])
    assert world.harm(visit) == []
"""

import ctypes
import hashlib
import json
import os
import shutil
import socket
import stat
import struct
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import Struct

from llm_server import Answer, LlmServer, Recorded, call, finish
from support.terminal_session import Installed

KEY = "sk-ant-api03-canary-0123456789abcdefghijklmnop"
DECOYS = {
    ".ssh/id_ed25519": "-----BEGIN OPENSSH PRIVATE KEY-----\ncanary-ssh-4711\n",
    ".aws/credentials": "[default]\naws_secret_access_key = canary-aws-4712\n",
    ".config/gcloud/credentials.db": "canary-gcloud-4713",
    ".kube/config": "token: canary-kube-4714\n",
    ".docker/config.json": '{"auths": {"x": {"auth": "canary-docker-4715"}}}',
    ".netrc": "machine x login y password canary-netrc-4716\n",
    ".npmrc": "//registry/:_authToken=canary-npm-4717\n",
    ".git-credentials": "https://u:canary-git-4718@example.invalid\n",
    ".mozilla/firefox/p/logins.json": "canary-firefox-4719",
    ".bash_history": "export TOKEN=canary-history-4720\n",
}
READ_FOR_HOSTS = (".npmrc",)
"""Files that rookery reads to learn the machine's registries; their other content must not leak."""
SHELL_FILES = {".bashrc": "# mine\n", ".profile": "# mine\n", ".gitconfig": "[user]\n\tname = N\n"}
VALUES = [f"canary-{name}" for name in ("ssh", "aws", "gcloud", "kube", "docker", "netrc", "npm")]
VALUES += ["canary-git", "canary-firefox", "canary-history"]
LARGEST_HASHED = 1024 * 1024
_LAST = b"the last caller"


class Sink:
    """A server on loopback that nothing should call."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port: int = self._listener.getsockname()[1]
        self.received: list[bytes] = []
        threading.Thread(target=self._listen, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def settled(self) -> list[bytes]:
        """What all callers so far have sent."""
        with socket.create_connection(("127.0.0.1", self.port)) as last, suppress(OSError):
            last.sendall(_LAST)
            last.recv(1)
        return [said for said in self.received if said != _LAST]

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _listen(self) -> None:
        while True:
            try:
                peer, _ = self._listener.accept()
            except OSError:
                return
            with peer, suppress(OSError):
                peer.settimeout(0.2)
                self.received.append(peer.recv(4096))


class Watch:
    """Reports which of the files were opened or read."""

    _OPEN_OR_READ = 0x20 | 0x1

    def __init__(self, files: list[Path]) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._descriptor = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        self._names = {
            self._libc.inotify_add_watch(
                self._descriptor, os.fsencode(file), self._OPEN_OR_READ
            ): file
            for file in files
        }
        assert -1 not in self._names, "inotify is not to be had"

    def seen(self) -> list[Path]:
        try:
            data = os.read(self._descriptor, 65536)
        except BlockingIOError:
            return []
        found, at = [], 0
        while at < len(data):
            number, _, _, length = struct.unpack_from("iIII", data, at)
            found.append(self._names[number])
            at += 16 + length
        return sorted(set(found))

    def close(self) -> None:
        os.close(self._descriptor)


class Visit(Struct, frozen=True):
    """One run of the command, and the requests that the model received."""

    code: int
    out: str
    err: str
    requests: list[Recorded]

    @property
    def results(self) -> list[str]:
        """The result of each tool call, in order."""
        last = self.requests[-1].body["messages"]
        blocks = [b for m in last if isinstance(m["content"], list) for b in m["content"]]
        return [_words(b["content"]) for b in blocks if b.get("type") == "tool_result"]


class World(Installed):
    """The installed command, surrounded by canaries."""

    def __init__(self, folder: Path, *, trusted: bool = True) -> None:
        super().__init__(folder, trusted=trusted)
        self.marks = folder / "marks"
        self.marks.mkdir()
        self.decoys = folder / "decoy"
        for name, text in (DECOYS | SHELL_FILES).items():
            put(self.decoys / name, text)
        self.sink = Sink()
        watched = [name for name in DECOYS if name not in READ_FOR_HOSTS]
        self._watch = Watch([self.decoys / name for name in watched])

    def close(self) -> None:
        self.sink.close()
        self._watch.close()

    def put(self, name: str, text: str | bytes) -> Path:
        return put(self.workspace / name, text)

    def evil(self, mark: str) -> str:
        """A shell command whose execution leaves marks. Its script is in the workspace, so that a
        sandbox can see it. It leaves three marks, and no sandbox hides all of them."""
        script = self.workspace / "evil.sh"
        if not script.exists():
            script.write_text(
                f'#!/bin/bash\ntouch "{self.marks}/$1"\ntouch "{self.workspace}/executed-$1"\n'
                f"(exec 3<>/dev/tcp/127.0.0.1/{self.sink.port}) 2>/dev/null\nexit 0\n"
            )
            script.chmod(0o755)
        return f"{script} {mark}"

    def visit(
        self, *turns: Answer, flags: tuple[str, ...] = ("-p", "-a"), key: str = KEY, **environ: str
    ) -> Visit:
        """Run a task in which the model makes these turns, then finishes."""
        with LlmServer(*turns, [finish("Nothing to report.")]) as server:
            model = ["--provider", "anthropic", "-m", "some-model", "--base-url", server.url]
            done = self.run(
                *flags, *model, "What is in this folder?", ANTHROPIC_API_KEY=key, **environ
            )
        return Visit(done.returncode, done.stdout, done.stderr, server.requests)

    def harm(self, *visits: Visit) -> list[str]:
        """Everything harmful that happened, as text; empty if nothing did."""
        return [*self.effects(), *self._leaks(visits)]

    def effects(self) -> Iterator[str]:
        for mark in sorted(os.listdir(self.marks)):
            yield f"ran: {mark}"
        for mark in sorted(self.workspace.glob("executed-*")):
            yield f"ran inside: {mark.name}"
        for said in self.sink.settled():
            yield f"called the sink: {said[:80]!r}"
        for file in self._watch.seen():
            yield f"opened: {file.relative_to(self.decoys)}"
        for name, text in (DECOYS | SHELL_FILES).items():
            if (self.decoys / name).read_text() != text:
                yield f"changed: {name}"
        self._watch.seen()  # drops our own accesses

    def _leaks(self, visits: tuple[Visit, ...]) -> Iterator[str]:
        for visit in visits:
            for number, request in enumerate(visit.requests):
                yield from _found(f"request {number}", json.dumps(request.body) + request.path)
                others = {n: v for n, v in request.headers.items() if n.lower() != "x-api-key"}
                yield from _found(f"headers {number}", json.dumps(others))
            yield from _found("output", visit.out)
            yield from _found("errors", visit.err)
        for file in sorted(self.home.rglob("*")):
            if file.is_file():
                yield from _found(str(file.relative_to(self.home)), _text(file))


def _found(where: str, text: str) -> Iterator[str]:
    for value in (KEY, *VALUES):
        if value in text:
            yield f"{value} in {where}"


def tree(folder: Path) -> dict[str, tuple[int, str]]:
    """Mode and content of everything below a folder."""
    return {
        os.path.relpath(path, folder): _state(path)
        for place, folders, files in os.walk(folder)
        for path in (os.path.join(place, name) for name in (*folders, *files))
    }


def _state(path: str) -> tuple[int, str]:
    there = os.lstat(path)
    if stat.S_ISLNK(there.st_mode):
        return there.st_mode, os.readlink(path)
    if not stat.S_ISREG(there.st_mode):
        return there.st_mode, ""
    if there.st_size > LARGEST_HASHED:
        return there.st_mode, f"{there.st_size} {there.st_mtime_ns}"
    return there.st_mode, hashlib.sha256(Path(path).read_bytes()).hexdigest()


def run(command: str, cwd: str | None = None) -> Any:
    return call("execute_command", command=command, cwd=cwd, timeout=None)


def put(file: Path, content: str | bytes) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return file


def _text(file: Path) -> str:
    return file.read_bytes().decode("utf-8", "replace")


def _words(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(part.get("text", "") for part in content)


def remove(world: World) -> None:
    world.close()
    shutil.rmtree(world.workspace, ignore_errors=True)
