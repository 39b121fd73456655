"""Shells for the user in the folders of sessions, on pseudo-terminals that the page shows.

A shell is the user's own: it runs without sandbox and approvals, and the agent neither sees nor
uses it. It belongs to one connection of an authenticated client, runs under a warden, and ends with
the connection or the manager. A client acknowledges what it has shown; a shell that writes faster
has to wait.
"""

import os
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

import anyio
from msgspec import Struct

from rookery.core.limits import KIB
from rookery.errors import CommandRejected, ToolError
from rookery.manager.handlers.worktree_access import WorktreeAccess
from rookery.manager.worktrees.project_scripts import close_process, end_process, wait_for_output
from rookery.platform.guarded_process import GuardedProcess, start_guarded
from rookery.platform.paths import within_any
from rookery.platform.user_folders import find_own_program
from rookery.platform.wardens import Wardens
from rookery.platform.worktree_values import Worktree, environment_of
from rookery.protocol.codec import answer_to_json
from rookery.protocol.relay import Outlet

GRACE = 0.5
"""Seconds between SIGTERM, which shells ignore, and SIGKILL."""
MOST_UNSEEN = 256 * KIB
"""Output that a client may still have to show before the shell waits."""
MOST_INPUT = 256 * KIB
"""Input that the shell has not read yet."""
LARGEST_SIZE = 1000
_VARIABLES = {"TERM": "xterm-256color", "COLORTERM": "truecolor"}


class TerminalSize(Struct, frozen=True, kw_only=True):
    columns: int
    rows: int

    def __post_init__(self) -> None:
        if not (1 <= self.columns <= LARGEST_SIZE and 1 <= self.rows <= LARGEST_SIZE):
            raise CommandRejected(f"A terminal has 1 to {LARGEST_SIZE} columns and rows.")


class ShellTerminal:
    def __init__(self, process: GuardedProcess, other_pids: Callable[[], Collection[int]]) -> None:
        self._process = process
        self._other_pids = other_pids
        self._input = bytearray()
        self._unseen = 0
        self._typed = anyio.Event()
        self._shown = anyio.Event()

    def type(self, data: bytes) -> None:
        """Pass input to the shell, in order."""
        if len(self._input) + len(data) > MOST_INPUT:
            raise CommandRejected("The shell does not read its input. Nothing was typed.")
        self._input += data
        self._typed.set()

    def resize(self, size: TerminalSize) -> None:
        if not self._process.gone:
            self._process.resize(size.rows, size.columns)

    def acknowledge(self, count: int) -> None:
        """Count `count` bytes as shown by the client."""
        self._unseen = max(0, self._unseen - max(0, count))
        self._shown.set()

    async def relay(self, outlet: Outlet) -> None:
        """Send the output until the shell ends, or end it if the client leaves."""
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._write_input)
                await self._send_output(outlet)
                group.cancel_scope.cancel()
        finally:
            with anyio.CancelScope(shield=True):
                await end_process(self._process, GRACE)
                close_process(self._process, {*self._other_pids()})
        outlet.end()

    async def _send_output(self, outlet: Outlet) -> None:
        process = self._process
        while process.output_open:
            while self._unseen >= MOST_UNSEEN:
                self._shown = anyio.Event()
                await self._shown.wait()
            await outlet.room()
            if not process.gone:
                await wait_for_output(process)
            if data := process.read():
                self._unseen += len(data)
                outlet.notify("terminal", b',"data":' + answer_to_json(data))
            elif process.gone:
                return

    async def _write_input(self) -> None:
        while True:
            await self._typed.wait()
            self._typed = anyio.Event()
            while self._input:
                await anyio.wait_writable(self._process.terminal)
                del self._input[: self._process.write(bytes(self._input))]


class Terminals:
    def __init__(
        self,
        access: WorktreeAccess,
        environ: Mapping[str, str],
        other_pids: Callable[[], Collection[int]],
    ) -> None:
        self._access = access
        self._environ = environ
        self._other_pids = other_pids

    async def open(self, session_id: str, size: TerminalSize) -> ShellTerminal:
        """Start a shell where the session works. Raises `CommandRejected`."""
        self._access.require_trust("no shell is started in it")
        if problem := self._access.supervisor.read_only:
            raise CommandRejected(problem)
        worktree = await self._access.of_session(session_id)
        folder = self._access.folder_of(session_id)
        if not folder.is_dir():
            raise CommandRejected(f"{folder} does not exist, so no shell was started.")
        try:
            process = start_guarded(
                Wardens(),
                [self._shell(folder)],
                grace=GRACE,
                folder=folder,
                environment=self._environment(worktree),
                terminal=True,
            )
        except ToolError as error:
            raise CommandRejected(f"The shell did not start. {error}") from error
        terminal = ShellTerminal(process, self._other_pids)
        terminal.resize(size)
        return terminal

    def _shell(self, folder: Path) -> str:
        """The user's shell, unless the project holds it."""
        shell = self._environ.get("SHELL", "")
        inside = within_any(os.path.realpath(shell), [str(self._access.project), str(folder)])
        if os.path.isabs(shell) and os.access(shell, os.X_OK) and not inside:
            return shell
        return find_own_program("bash", self._access.project) or "/bin/sh"

    def _environment(self, worktree: Worktree | None) -> dict[str, str]:
        project = str(self._access.project)
        ours = environment_of(worktree, project) if worktree else {}
        return {**self._environ, **_VARIABLES, **ours}
