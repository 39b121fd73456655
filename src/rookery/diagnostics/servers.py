"""The language servers of a host, started with the first edit of a file they serve.

Each edit is a job of its servers: they are shown the file before the edit, then after it. What they
report more than before is new. A job that takes too long goes on in the background, and what it
finds comes with a later edit.
"""

from collections.abc import Awaitable, Callable, Collection, Iterator
from functools import partial
from pathlib import Path

import anyio
from msgspec import Struct, field

from rookery.core.settings_sections import LanguageServerSettings
from rookery.diagnostics.language_server import LanguageServer, Start
from rookery.diagnostics.languages import SERVERS, FoundServer, added_servers, find_servers
from rookery.diagnostics.lsp_wire import ServerGone
from rookery.diagnostics.problems import Diagnostic, new_problems

MAX_STARTS = 2
"""How often a server is started."""
MOST_SERVERS = 6
LARGEST_TEXT = 1_000_000
"""Characters of a file that servers are shown."""


class FoundProblems(Struct, kw_only=True):
    """What is new since the last time: in the edited files, and elsewhere by file."""

    new: list[Diagnostic] = field(default_factory=list)
    elsewhere: dict[str, list[Diagnostic]] = field(default_factory=dict)
    solved: int = 0


class _Slot:
    """One server and its work. `known` are the problems of each file that were accounted for;
    None if they could not be found out."""

    def __init__(self, found: FoundServer) -> None:
        self.found = found
        self.server: LanguageServer | None = None
        self.known: dict[str, tuple[Diagnostic, ...] | None] = {}
        self.working = anyio.Lock()
        self.waiting = 0
        self.idle = anyio.Event()
        self.idle.set()
        self.settled = False
        self.given_up = False
        self.begun = anyio.Event()


class LanguageServers:
    def __init__(
        self,
        workspace: Path,
        settings: LanguageServerSettings,
        *,
        start: Start,
        allowed: Callable[[], Awaitable[bool]],
        readable: Callable[[str], bool],
        start_soon: Callable[..., None],
    ) -> None:
        """`allowed` returns whether servers may run here, which is asked before the first one
        starts; `readable` whether the agent may read a file."""
        self._readable = readable
        self._workspace = workspace
        self._settings = settings
        self._start = start
        self._allowed = allowed
        self._start_soon = start_soon
        self._slots: dict[tuple[str, Path], _Slot] = {}
        self._edited: dict[str, object] = {}
        """The task that edited each file since its problems were collected."""
        self.notes: list[str] = []
        """Sentences for the user that were not shown yet."""
        try:
            self._rows = (*added_servers(settings.add), *SERVERS)
        except ValueError as error:
            self._rows = SERVERS
            self.notes.append(f"language_servers.add: {error} It was ignored.")

    def before_edit(self, path: str, text: str | None) -> None:
        """Show the servers a file that is about to be edited; None if it does not exist."""
        for slot in self._slots_for(path):
            if text is None:
                slot.known.setdefault(path, ())
            elif len(text) <= LARGEST_TEXT:
                self._give(slot, partial(self._learn, slot, path, text))

    def after_edit(self, path: str, text: str | None, task: object = None) -> None:
        """Show the servers a file that a task edited; None if it was deleted."""
        self._edited[path] = task
        for slot in self._slots_for(path):
            if text is None or len(text) <= LARGEST_TEXT:
                self._give(slot, partial(self._show, slot, path, text))

    async def wait(self, paths: Collection[str] | None = None) -> None:
        """Wait for the servers, or for those of some files, but not longer than the settings
        say."""
        with anyio.move_on_after(self._settings.seconds):
            for slot in self._slots.values():
                if paths is None or any(map(slot.found.row.serves, paths)):
                    await slot.idle.wait()

    def collect(self, task: object = None) -> FoundProblems:
        """What the servers that have answered found since the last time, except in files that
        another task edited."""
        found = FoundProblems()
        done = [slot for slot in self._slots.values() if not slot.waiting and slot.server]
        for slot in done:
            self._collect(slot, found, task)
        if len(done) == len(self._slots):
            self._edited = {path: own for path, own in self._edited.items() if own is not task}
        return found

    def all_problems(self) -> list[str]:
        """Every problem that is known now."""
        servers = [slot.server for slot in self._slots.values() if slot.server]
        found = {each for server in servers for many in server.problems.values() for each in many}
        found = {each for each in found if self._readable(each.path)}
        return list(map(str, sorted(found, key=lambda each: (each.path, each.line, each.column))))

    def _collect(self, slot: _Slot, found: FoundProblems, task: object) -> None:
        assert slot.server
        for path, now in slot.server.problems.items():
            if self._edited.get(path, task) is not task:
                continue
            before = slot.known.get(path, () if slot.settled or path in self._edited else None)
            slot.known[path] = now
            if before is None or not self._readable(path):
                continue
            new = new_problems(before, now)
            if path in self._edited:
                found.new += new
                found.solved += max(0, len(before) - len(now))
            elif new:
                found.elsewhere.setdefault(path, []).extend(new)
        slot.settled = True

    def _slots_for(self, path: str) -> Iterator[_Slot]:
        if not self._readable(path):
            return
        rows, skip = self._rows, self._settings.skip
        for found in find_servers(path, self._workspace, rows=rows, skip=skip):
            key = found.row.name, found.root
            if key not in self._slots and len(self._slots) < MOST_SERVERS:
                slot = self._slots[key] = _Slot(found)
                self._start_soon(self._keep_running, slot)
            if (known := self._slots.get(key)) and not known.given_up:
                yield known

    async def _keep_running(self, slot: _Slot) -> None:
        if await self._allowed():
            for _ in range(MAX_STARTS):
                slot.known.clear()
                slot.settled = False
                slot.server = LanguageServer(slot.found, self._workspace, self._start)
                slot.begun.set()
                await slot.server.run()
            self.notes.append(
                f"{slot.found.program} ended {MAX_STARTS} times and is not used again in this run. "
                f"{slot.server.failure if slot.server else ''}"
            )
        slot.given_up = True
        slot.server = None
        slot.begun.set()
        slot.idle.set()

    def _give(self, slot: _Slot, job: Callable[[], Awaitable[None]]) -> None:
        slot.waiting += 1
        slot.idle = anyio.Event() if slot.idle.is_set() else slot.idle
        self._start_soon(self._work, slot, job)

    async def _work(self, slot: _Slot, job: Callable[[], Awaitable[None]]) -> None:
        try:
            async with slot.working:
                await job()
        except ServerGone:
            pass  # `_keep_running` starts it again, or says why not
        finally:
            slot.waiting -= 1
            if not slot.waiting:
                slot.idle.set()

    async def _learn(self, slot: _Slot, path: str, text: str) -> None:
        server = await _ready(slot, path)
        if server.shows(path, text):
            return
        answered = await server.show(path, text, saved=False)
        slot.known[path] = server.problems.get(path, ()) if answered else None

    async def _show(self, slot: _Slot, path: str, text: str | None) -> None:
        server = await _ready(slot, path)
        if text is None:
            await server.forget(path)
        else:
            await server.show(path, text)


async def _ready(slot: _Slot, path: str) -> LanguageServer:
    """The server, once it can be used and knows all files but this one. Raises `ServerGone`."""
    await slot.begun.wait()
    if slot.server is None:
        raise ServerGone("It is not used here.")
    await slot.server.ready()
    await slot.server.catch_up(but=path)
    return slot.server


def installed_servers(workspace: Path, settings: LanguageServerSettings) -> list[FoundServer]:
    """The servers that could be started, for any file. Raises `ValueError` with a sentence."""
    rows = (*added_servers(settings.add), *SERVERS)
    names = {f"any{suffix}" for row in rows for suffix in list(row.files)[:1]}
    found = [find_servers(each, workspace, rows=rows, skip=settings.skip) for each in names]
    return [server for many in found for server in many]
