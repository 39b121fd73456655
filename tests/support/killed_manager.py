"""A project whose manager, the real command, is killed and restarted."""

import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

import anyio

from rookery.manager.manager_socket import RemoteManager, remote_manager, socket_of
from rookery.manager.sessions.session_folders import ProcessMark, SessionFolders
from rookery.protocol.channels import unix_channel
from support.manager_project import Project
from support.text_process import Started, start_text
from support.worktree_requests import with_repository

SCENES = 60
"""More than any session reaches."""
WORDS = " ".join(["word"] * 30)


class Ground:
    """A repository, scripts for its sessions, and its managers."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self.project = with_repository(Project(folder))
        self.folder = folder
        self.path = self.project.path
        self.places = self.project.places
        self.home = self.project.environ["ROOKERY_HOME"]
        self.managers: list[int] = []

    def script(self, name: str, *, pause: float, commands: bool = False) -> str:
        """A scripted model that writes files, one after the other, without end. Each file
        contains its own name."""
        scenes = (
            _scene(f"{name}-{number}.txt", number, pause=pause, commands=commands)
            for number in range(SCENES)
        )
        file = self.folder / f"{name}.yaml"
        file.write_text("".join(scenes), encoding="utf-8")
        return f"scripted/{file}"

    @contextmanager
    def manager(self, **environ: str) -> Iterator[Started]:
        """Start a manager without waiting until it is ready; it is killed at the end."""
        process = start_text(
            ["manager", "--no-open", "--json"], {**self.project.environ, **environ}, self.path
        )
        self.managers.append(process.pid)
        with process:
            try:
                yield process
            finally:
                process.kill()
        self.managers.remove(process.pid)

    @asynccontextmanager
    async def visited(self, process: Started) -> AsyncIterator[RemoteManager]:
        """Connect to a started manager once it is ready. Raises `EOFError` if it ends before."""
        assert process.stdout
        if not await anyio.to_thread.run_sync(process.stdout.readline):
            assert process.stderr
            raise EOFError(f"the manager has ended: {process.stderr.read()}")
        channel = await unix_channel(socket_of(self.places, self.path))
        async with remote_manager(channel) as remote:
            yield remote

    def marks(self) -> dict[str, ProcessMark]:
        """The last process of each session that had one."""
        found = SessionFolders(self.places).of_project(str(self.path.resolve()))
        marks = ((folder.session_id, folder.mark()) for folder, _ in found)
        return {session_id: mark for session_id, mark in marks if mark}

    def folders(self) -> set[str]:
        """Ids of the sessions that have a folder."""
        found = SessionFolders(self.places).of_project(str(self.path.resolve()))
        return {folder.session_id for folder, _ in found}

    def processes(self) -> dict[int, tuple[int, str]]:
        """All processes of this project except its managers: the process session and command
        line of each."""
        found = {}
        for entry in Path("/proc").iterdir():
            if not entry.name.isdecimal() or int(entry.name) in (os.getpid(), *self.managers):
                continue
            with suppress(OSError):
                command = (entry / "cmdline").read_bytes()
                environ = (entry / "environ").read_bytes()
                at = os.fsencode(os.readlink(entry / "cwd"))
                ours = os.fsencode(self.folder)
                said = (entry / "stat").read_bytes().rpartition(b")")[2].split()
                if said[0] != b"Z" and (ours in command or ours in environ or ours in at):
                    line = command.replace(b"\0", b" ").decode(errors="replace")
                    found[int(entry.name)] = (int(said[3]), line)
        return found

    def clear(self) -> None:
        for pid in self.processes():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@contextmanager
def ground_in(folder: Path) -> Iterator[Ground]:
    """A project in a folder; its processes are killed at the end."""
    ground = Ground(folder)
    try:
        yield ground
    finally:
        ground.clear()


def _scene(file: str, number: int, *, pause: float, commands: bool) -> str:
    if number % 3 == 2:
        call = "{tool: attempt_completion, arguments: {result: Done.}}"
    elif commands:
        call = (
            "{tool: execute_command, arguments: "
            f'{{command: "sleep 0.1 && printf %s {file} > {file}"}}}}'
        )
    else:
        call = f"{{tool: write_to_file, arguments: {{path: {file}, content: {file}}}}}"
    return f"- say: {WORDS}\n  pause: {pause}\n  calls:\n  - {call}\n"
