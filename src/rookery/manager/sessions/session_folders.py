"""A session's private folder: how its processes are started, which one runs, where it works.

What is started, and in which folder, is read from here and never from the session list.
"""

import os
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from rookery.core.limits import MIB
from rookery.errors import CommandRejected, StorageError
from rookery.first_use import prepared
from rookery.manager.sessions.session_record import (
    LABEL_LENGTH,
    ParallelMode,
    SessionRecord,
    label_of,
    same_fields,
)
from rookery.manager.sessions.session_states import SessionState
from rookery.platform.disk import private_folder, put, reason, sync_folder
from rookery.platform.user_folders import Places

LARGEST_FILE = 1 * MIB
LOG_TAIL_LINES = 50
"""Lines from the end of a process's log that are kept with its session."""
_LONGEST_TAIL = 64 * 1024
T = TypeVar("T")


class SessionLaunch(Struct, frozen=True, kw_only=True):
    """How the processes of a session are started. `options` are further flags of `serve`."""

    project: str
    workspace: str
    provider: str | None = None
    model: str | None = None
    mode: str | None = None
    auto_approve: bool = True
    intent: str = ""
    """The intent that a new task selects."""
    options: tuple[str, ...] = ()
    env: Mapping[str, str] | None = None
    """Environment variables in addition to those of the manager."""

    def flags(self) -> list[str]:
        named = {"--provider": self.provider, "--model": self.model, "--mode": self.mode}
        given = [word for flag, value in named.items() if value for word in (flag, value)]
        asks = "--yes" if self.auto_approve else "--require-approval"
        return ["-w", self.workspace, asks, *given, *self.options]


class ProcessMark(Struct, frozen=True, kw_only=True):
    """The process of one generation, identified by its PID and start time."""

    generation: int
    pid: int
    born: int
    new_task: bool = True
    """The process was started to open the task, not to resume it."""
    at_rest: bool = False
    """The process was started without resuming work, which waits for the user."""
    after: int = 0
    """Sequence number of the task's last event before the process started."""
    boot: str = ""
    """Boot id of the system, if it has one: PIDs are reused after a reboot."""


class SessionOptions(Struct, frozen=True, kw_only=True):
    """Options of a session to be started. `options` are further flags of `serve`."""

    prompt: str
    workspace: Path
    images: tuple[str, ...] = ()
    label: str = ""
    provider: str | None = None
    model: str | None = None
    mode: str | None = None
    auto_approve: bool = True
    intent: str = ""
    options: tuple[str, ...] = ()
    env: Mapping[str, str] | None = None
    """Environment variables in addition to those of the manager."""
    parallel_mode: ParallelMode | None = None
    worktree_id: str | None = None
    group_id: str = ""


class SessionFolder:
    """The folder of one session, created when the session is started."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.session_id = path.name

    @property
    def socket(self) -> Path:
        return self.path / "socket"

    @property
    def log(self) -> Path:
        return self.path / "log"

    def keep_launch(self, launch: SessionLaunch) -> None:
        self._put("launch.json", launch)

    def keep_mark(self, mark: ProcessMark) -> None:
        self._put("process.json", mark)

    def launch(self) -> SessionLaunch | None:
        return self._read("launch.json", SessionLaunch)

    def mark(self) -> ProcessMark | None:
        return self._read("process.json", ProcessMark)

    def log_tail(self) -> tuple[str, ...]:
        """The last lines that the last process wrote to its log."""
        try:
            with self.log.open("rb") as log:
                log.seek(max(0, log.seek(0, os.SEEK_END) - _LONGEST_TAIL))
                lines = log.read().decode("utf-8", "replace").splitlines()
        except OSError:
            return ()
        return tuple(lines[-LOG_TAIL_LINES:])

    def remove(self) -> None:
        """Remove the folder, `launch.json` last, so that an interrupted removal is found."""
        import shutil

        with suppress(FileNotFoundError):
            for entry in self.path.iterdir():
                if entry.name != "launch.json":
                    entry.unlink(missing_ok=True)
            shutil.rmtree(self.path)
            sync_folder(self.path.parent)

    def _put(self, name: str, content: object) -> None:
        private_folder(self.path)
        try:
            put(self.path / name, [msgspec.json.encode(content)])
        except OSError as error:
            raise StorageError(
                f"{self.path / name} cannot be written ({reason(error)})."
            ) from error

    def _read(self, name: str, kind: type[T]) -> T | None:
        """None if the file does not exist or cannot be decoded."""
        try:
            with (self.path / name).open("rb") as file:
                return msgspec.json.decode(file.read(LARGEST_FILE), type=prepared(kind))
        except (OSError, msgspec.MsgspecError, UnicodeError):
            return None


class SessionFolders:
    """The folders of all sessions of this user, in any project."""

    def __init__(self, places: Places) -> None:
        self._path = places.state / "sessions"

    def of(self, session_id: str) -> SessionFolder:
        if not is_session_id(session_id):
            raise StorageError(f"{session_id!r} is not a session id.")
        return SessionFolder(self._path / session_id)

    def of_project(self, project: str) -> Iterator[tuple[SessionFolder, SessionLaunch]]:
        """The folders of sessions that were started for a project, even if its list is lost."""
        with suppress(FileNotFoundError):
            for path in sorted(self._path.iterdir()):
                folder = SessionFolder(path)
                launch = folder.launch() if is_session_id(path.name) else None
                if launch and launch.project == project:
                    yield folder, launch


def is_session_id(text: str) -> bool:
    try:
        return str(uuid.UUID(text)) == text
    except ValueError:
        return False


def launch_of(options: SessionOptions, project: Path) -> SessionLaunch:
    own = {"project": str(project), "workspace": str(options.workspace.absolute())}
    env = dict(options.env) if options.env else None
    return SessionLaunch(**{**same_fields(options, SessionLaunch), **own, "env": env})


def record_of(options: SessionOptions, session_id: str) -> SessionRecord:
    given = same_fields(options, SessionRecord)
    record = SessionRecord(**{**given, "session_id": session_id})
    return replace(
        record,
        label=(options.label or label_of(options.prompt))[:LABEL_LENGTH],
        renamed=bool(options.label),
        state=SessionState.IDLE,
        start_time=time.time_ns() // 1_000_000,
        workspace=str(options.workspace.absolute()),
    )


class Workspaces:
    def __init__(self, project: Path, places: Places) -> None:
        self._project = project
        self._folders = SessionFolders(places)

    def of(self, session_id: str = "") -> Path:
        """The folder a session works in. Raises `CommandRejected` if the session or its folder
        does not exist; there is no fallback to another folder."""
        if not session_id:
            return self._project
        workspace = Path(self.launch_of(session_id).workspace)
        if not workspace.is_dir():
            raise CommandRejected(
                f"{workspace}, where this session works, does not exist. If it was a "
                "worktree, recreate it first."
            )
        return workspace

    def launch_of(self, session_id: str) -> SessionLaunch:
        """Raises `CommandRejected` if the project has no such session."""
        launch = self._folders.of(session_id).launch()
        if launch is None or launch.project != str(self._project):
            raise CommandRejected(f"No such session: {session_id}.")
        return launch
