"""A project with a home of its own, and supervisors of it: here, or in a process to be killed."""

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
from rookery.manager.cli.host_dependencies import ProjectDependencies
from rookery.manager.sessions.conversation import Timings
from rookery.manager.sessions.session_folders import SessionFolders, SessionOptions
from rookery.manager.sessions.session_process import lives
from rookery.manager.sessions.session_store import manager_folder
from rookery.manager.sessions.session_summary import ShownSession
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
"""Asks for leave to write, if it has to ask."""
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
"""Has another task ask for leave to write."""
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
"""No process is taken for one that does not heed, however busy the machine is."""
IMPATIENT = replace(PATIENT, cancel=0.5, end=0.5, silence=0.2, unresponsive=0.5, last_words=1)
"""With processes that do not."""


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

    def wish(self, script: str, prompt: str = "Do it", **more: Any) -> SessionOptions:
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
        """Whatever was left running is ended, if nothing has gone wrong before."""
        opened = self.opened(limit=limit, timings=timings)
        with anyio.fail_after(PATIENCE):
            async with opened as supervisor:
                yield Watched(supervisor)
                await supervisor.stop_all()

    @contextmanager
    def hosted(
        self, *wishes: SessionOptions, acts: dict[str, list[str]] | None = None, **environ: str
    ) -> Iterator["Hosted"]:
        """A process that supervises, starts sessions and acts when one comes to a state; it is
        killed in the end."""
        wanted = [_spelled(wish) for wish in wishes]
        given = {"project": str(self.path), "wishes": wanted, "acts": acts or {}}
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
        """Those that serve sessions of this project, or that they have left."""
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

    def is_left_quiet(self) -> bool:
        """Whether its processes end by themselves. Those that do not are killed."""
        deadline = time.monotonic() + PATIENCE / 3
        while left := self.processes():
            if time.monotonic() > deadline:
                for pid in left:
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                return False
            time.sleep(0.01)
        return True

    async def quiet(self) -> None:
        """Once there is no process any more."""
        with anyio.fail_after(PATIENCE):
            while self.processes() or self._is_served():  # noqa: ASYNC110 (nobody's children)
                await anyio.sleep(0.01)

    def _is_served(self) -> bool:
        """Also by a process that is about to be gone and has no command line any more."""
        found = SessionFolders(self.places).of_project(str(self.path.resolve()))
        return any(mark and lives(mark) for mark in (folder.mark() for folder, _ in found))

    def input_of(self, pid: int) -> str:
        return str(Path(f"/proc/{pid}/fd/0").readlink())

    def environ_of(self, pid: int) -> list[str]:
        """Empty for a moment while the process is started, so that is waited for."""
        deadline = time.monotonic() + PATIENCE
        while not (given := Path(f"/proc/{pid}/environ").read_text()):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        return given.split("\0")


class Watched:
    """A supervisor that can be waited for."""

    def __init__(self, supervisor: Supervisor) -> None:
        self.supervisor = supervisor

    async def until(self, session_id: str, fits: Callable[[ShownSession], bool]) -> ShownSession:
        async for _ in self.supervisor.changes():
            shown = self.supervisor.session(session_id)
            if shown and fits(shown):
                return shown
        raise AssertionError("changes never end")

    async def at(self, session_id: str, state: str) -> ShownSession:
        return await self.until(session_id, lambda shown: shown.session.state == state)

    async def asked(self, session_id: str) -> int:
        """When something is asked that waits for the user."""
        shown = await self.until(session_id, lambda shown: shown.session.pending_ask is not None)
        assert shown.session.pending_ask
        return shown.session.pending_ask.ts

    async def result(self, session_id: str, text: str) -> ShownSession:
        """Completed with that."""
        return await self.until(
            session_id,
            lambda shown: (
                (shown.session.state, shown.session.completion_text) == ("completed", text)
            ),
        )

    def state(self, session_id: str) -> str:
        shown = self.supervisor.session(session_id)
        assert shown
        return shown.session.state


class Hosted:
    def __init__(self, process: Started) -> None:
        self.process = process

    def hear(self, wanted: str) -> str:
        """What it says after a word, once it says it."""
        assert self.process.stdout
        for line in self.process.stdout:
            word, _, rest = line.strip().partition(" ")
            if word == wanted:
                return rest
        raise AssertionError(f"It has ended without saying {wanted}.")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE)

    def died(self) -> bool:
        return self.process.wait(PATIENCE) == -signal.SIGKILL


def _spelled(wish: SessionOptions) -> dict[str, Any]:
    names = ("prompt", "workspace", "provider", "model", "auto_approve")
    return {name: getattr(wish, name) for name in names} | {"workspace": str(wish.workspace)}


def kill(pid: int | None, number: signal.Signals = signal.SIGKILL) -> None:
    assert pid
    os.kill(pid, number)
