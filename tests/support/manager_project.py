"""A project with its own home, and supervisors of it: in this process, or in one that can be
killed."""

import json
import os
import signal
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
from msgspec.structs import replace

from rookery.core.facts import Event
from rookery.manager.cli.sessions_common import ProjectDependencies
from rookery.manager.sessions.conversation import Timings
from rookery.manager.sessions.session_folders import SessionFolders, SessionOptions
from rookery.manager.sessions.session_process import is_alive
from rookery.manager.sessions.session_store import manager_folder
from rookery.manager.sessions.session_summary import SessionSummary
from rookery.manager.sessions.supervisor import Supervisor, open_supervisor
from rookery.permissions.trust import TrustStore
from rookery.platform.user_folders import find_places
from rookery.storage.sessions import TaskStore
from support.text_process import Started, start_text

PATIENCE = 90
HOSTING = Path(__file__).with_name("manager_process.py")
WRITES = """\
- say: I will write it.
  calls:
  - {tool: write_to_file, arguments: {path: made.txt, content: "one\\n"}}
- say: Written.
  calls:
  - {tool: attempt_completion, arguments: {result: "Done."}}
- say: More.
  calls:
  - {tool: attempt_completion, arguments: {result: "Done again."}}
- say: Still more.
  calls:
  - {tool: attempt_completion, arguments: {result: "Done a third time."}}
"""
"""A model that asks for approval of a write, unless that is automatic."""
HANDS_ON = """\
part one:
  - calls:
      - {tool: write_to_file, arguments: {path: made.txt, content: "one\\n"}}
  - calls:
      - {tool: attempt_completion, arguments: {result: Part one is done.}}
"":
  - calls:
      - {tool: new_task, arguments: {mode: code, message: Do part one.}}
  - calls:
      - {tool: attempt_completion, arguments: {result: Done.}}
"""
"""A model whose sub-task asks for approval of a write."""
SPEAKS_LONG = f"""\
- say: {" ".join(["word"] * 2000)}
  pause: 0.05
- say: Over.
  calls:
  - {{tool: attempt_completion, arguments: {{result: "Done."}}}}
"""
PATIENT = Timings(
    creation=60,
    cancel=60,
    end=60,
    silence=60,
    unresponsive=60,
    last_words=60,
    answer=60,
    adoption=60,
)
"""Timeouts that no process exceeds, even on a busy machine."""
IMPATIENT = replace(PATIENT, cancel=0.5, end=0.5, silence=0.2, unresponsive=0.5, last_words=1)
"""Timeouts for processes that do not respond."""


class Project:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "work"
        self.path.mkdir()
        self.environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder / "decoy"),
            "ROOKERY_HOME": str(folder / "home"),
            "LANG": "C.UTF-8",
        }
        self.places = find_places(self.environ)
        self.tasks = TaskStore(self.places)
        TrustStore(self.places.trust_file).trust(self.path)

    @property
    def file(self) -> Path:
        return manager_folder(self.places, self.path) / "agent-manager.json"

    def start_options(self, script: str, prompt: str = "Do it", **more: Any) -> SessionOptions:
        file = self.folder / f"{len(list(self.folder.glob('*.yaml')))}.yaml"
        file.write_text(script, encoding="utf-8")
        given: dict[str, Any] = {"auto_approve": False, "workspace": self.path, **more}
        return SessionOptions(prompt=prompt, provider="scripted", model=str(file), **given)

    @property
    def dependencies(self) -> ProjectDependencies:
        return ProjectDependencies(self.path, self.places, self.environ)

    def opened(self, **more: Any) -> AbstractAsyncContextManager[Supervisor]:
        return open_supervisor(self.path, self.places, self.environ, self.tasks, **more)

    @asynccontextmanager
    async def supervised(
        self, *, limit: int = 5, timings: Timings = PATIENT
    ) -> AsyncIterator["Watched"]:
        """Open a supervisor; sessions that still run are ended, unless the test failed."""
        opened = self.opened(limit=limit, timings=timings)
        with anyio.fail_after(PATIENCE):
            async with opened as supervisor:
                yield Watched(supervisor)
                await supervisor.stop_all()

    @contextmanager
    def hosted(
        self, *sessions: SessionOptions, acts: dict[str, list[str]] | None = None, **environ: str
    ) -> Iterator["Hosted"]:
        """Start a process that supervises, starts sessions and acts on their states; it is
        killed at the end."""
        wanted = [_spelled(options) for options in sessions]
        given = {"project": str(self.path), "sessions": wanted, "acts": acts or {}}
        with start_text(
            [], {**self.environ, **environ}, self.folder, program=HOSTING, given=json.dumps(given)
        ) as process:
            try:
                yield Hosted(process)
            finally:
                process.kill()

    def log(self, session_id: str) -> list[Event]:
        return list(self.tasks.read(session_id)) if self.tasks.exists(session_id) else []

    def processes(self) -> dict[int, str]:
        """Processes that serve sessions of this project, or were left by them."""
        found = {}
        for entry in Path("/proc").iterdir():
            if entry.name.isdecimal() and int(entry.name) != os.getpid():
                try:
                    words = (entry / "cmdline").read_bytes()
                except OSError:
                    continue
                line = words.replace(b"\0", b" ").decode(errors="replace")
                if str(self.folder) in line:
                    found[int(entry.name)] = line
        return found

    def orphans(self) -> list[int]:
        """Processes in its folders that serve no session: after a kill, git and scripts of the
        killed process, which may still write for a moment."""
        found, sessions = [], self.processes()
        for entry in Path("/proc").iterdir():
            if entry.name.isdecimal() and int(entry.name) not in (os.getpid(), *sessions):
                with suppress(OSError):
                    if (entry / "cwd").readlink().is_relative_to(self.folder):
                        found.append(int(entry.name))
        return found

    def is_left_quiet(self) -> bool:
        """Whether all its processes end by themselves; kills those that do not."""
        deadline = time.monotonic() + PATIENCE
        while left := self.processes():
            if time.monotonic() > deadline:
                for pid in left:
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                return False
            time.sleep(0.01)
        return True

    async def quiet(self) -> None:
        """Wait until no process is left."""
        with anyio.fail_after(PATIENCE):
            while self.processes() or self._is_served():  # noqa: ASYNC110 (orphans send no event)
                await anyio.sleep(0.01)

    def _is_served(self) -> bool:
        """Whether a session has a process, even one that is exiting and has no command line any
        more."""
        found = SessionFolders(self.places).of_project(str(self.path.resolve()))
        return any(mark and is_alive(mark) for mark in (folder.mark() for folder, _ in found))

    def input_of(self, pid: int) -> str:
        return str(Path(f"/proc/{pid}/fd/0").readlink())

    def environ_of(self, pid: int) -> list[str]:
        """Waits until it is not empty, as it is for a moment while a process starts."""
        deadline = time.monotonic() + PATIENCE
        while not (given := Path(f"/proc/{pid}/environ").read_text()):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        return given.split("\0")


class Watched:
    """A supervisor whose changes can be awaited."""

    def __init__(self, supervisor: Supervisor) -> None:
        self.supervisor = supervisor

    async def until(
        self, session_id: str, fits: Callable[[SessionSummary], bool]
    ) -> SessionSummary:
        async for _ in self.supervisor.changes():
            shown = self.supervisor.session(session_id)
            if shown and fits(shown):
                return shown
        raise AssertionError("changes never end")

    async def at(self, session_id: str, state: str) -> SessionSummary:
        return await self.until(session_id, lambda shown: shown.record.state == state)

    async def asked(self, session_id: str) -> int:
        """Wait for a question to the user, and return its time."""
        shown = await self.until(session_id, lambda shown: shown.record.pending_ask is not None)
        assert shown.record.pending_ask
        return shown.record.pending_ask.ts

    async def result(self, session_id: str, text: str) -> SessionSummary:
        """Wait until the session is completed with that text."""
        return await self.until(
            session_id,
            lambda shown: (shown.record.state, shown.record.completion_text) == ("completed", text),
        )

    def state(self, session_id: str) -> str:
        shown = self.supervisor.session(session_id)
        assert shown
        return shown.record.state


class Hosted:
    def __init__(self, process: Started) -> None:
        self.process = process

    def wait_for_line(self, wanted: str) -> str:
        """Wait for a line that starts with this word, and return the rest of it."""
        assert self.process.stdout
        for line in self.process.stdout:
            word, _, rest = line.strip().partition(" ")
            if word == wanted:
                return rest
        raise AssertionError(f"It has ended without saying {wanted}.")

    def come_to(self, *states: str) -> list[str]:
        """Wait until its sessions are in these states, and return their ids."""
        assert self.process.stdout
        ids: list[str] = []
        at: dict[str, str] = {}
        for line in self.process.stdout:
            word, _, session_id = line.strip().partition(" ")
            if word == "started":
                ids.append(session_id)
            else:
                at[session_id] = word
            if len(ids) == len(states) and [at.get(each) for each in ids] == list(states):
                return ids
        raise AssertionError(f"It has ended at {at}, before {states}.")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE)

    def died(self) -> bool:
        return self.process.wait(PATIENCE) == -signal.SIGKILL


def _spelled(options: SessionOptions) -> dict[str, Any]:
    names = ("prompt", "workspace", "provider", "model", "auto_approve")
    return {name: getattr(options, name) for name in names} | {"workspace": str(options.workspace)}


def kill(pid: int | None, number: signal.Signals = signal.SIGKILL) -> None:
    assert pid
    os.kill(pid, number)
