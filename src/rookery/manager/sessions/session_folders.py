"""A session's private folder: how its processes are started, which one runs, where it works.

What decides what is started, and in which folder, is read from here and never from the list.
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
from rookery.manager.sessions.session_record import (
    LABEL_LENGTH,
    ParallelMode,
    SessionRecord,
    label_of,
    same_fields,
)
from rookery.platform.disk import private_folder, put, reason, sync_folder
from rookery.platform.user_folders import Places

LARGEST_FILE = 1 * MIB
COMPLAINTS = 50
"""Lines of a process's last words that are kept with its session."""
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
    """What a new task works for from the beginning."""
    options: tuple[str, ...] = ()
    env: Mapping[str, str] | None = None
    """Variables that its processes have beside those of the manager."""

    def flags(self) -> list[str]:
        named = {"--provider": self.provider, "--model": self.model, "--mode": self.mode}
        given = [word for flag, said in named.items() if said for word in (flag, said)]
        asks = "--yes" if self.auto_approve else "--require-approval"
        return ["-w", self.workspace, asks, *given, *self.options]


class ProcessMark(Struct, frozen=True, kw_only=True):
    """The process of one generation, known by its number and the moment it began."""

    generation: int
    pid: int
    born: int
    new_task: bool = True
    """It was started to begin the session, not to go on with it."""
    at_rest: bool = False
    """It was started to be at hand, and is not to go on before the user wants it."""
    after: int = 0
    """The last event of its session's task that was there before it."""
    boot: str = ""
    """Of the system it began in, where that has a name: the next one gives numbers out again."""


class SessionOptions(Struct, frozen=True, kw_only=True):
    """A session to be started in a folder. `options` are further flags of `serve`."""

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
    """Variables that its processes have beside those of the manager."""
    parallel_mode: ParallelMode | None = None
    worktree_id: str | None = None
    group_id: str = ""
    git_url: str | None = None


class SessionFolder:
    """The folder of one session. It is made when the session is started."""

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

    def complaints(self) -> tuple[str, ...]:
        """The last lines that its last process has written."""
        try:
            with self.log.open("rb") as log:
                log.seek(max(0, log.seek(0, os.SEEK_END) - _LONGEST_TAIL))
                lines = log.read().decode("utf-8", "replace").splitlines()
        except OSError:
            return ()
        return tuple(lines[-COMPLAINTS:])

    def remove(self) -> None:
        """What names the session goes last, so that whatever is left can be found again."""
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
        """None if there is none, or none that can be understood."""
        try:
            with (self.path / name).open("rb") as file:
                return msgspec.json.decode(file.read(LARGEST_FILE), type=kind)
        except (OSError, msgspec.MsgspecError, UnicodeError):
            return None


class SessionFolders:
    """Those of all sessions of this user, of whatever project."""

    def __init__(self, places: Places) -> None:
        self._path = places.state / "sessions"

    def of(self, session_id: str) -> SessionFolder:
        if not is_session_id(session_id):
            raise StorageError(f"{session_id!r} is not a session id.")
        return SessionFolder(self._path / session_id)

    def of_project(self, project: str) -> Iterator[tuple[SessionFolder, SessionLaunch]]:
        """Those that were started for a project, whatever became of its list."""
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


def launch_of(wish: SessionOptions, project: Path) -> SessionLaunch:
    own = {"project": str(project), "workspace": str(wish.workspace.absolute())}
    env = dict(wish.env) if wish.env else None
    return SessionLaunch(**{**same_fields(wish, SessionLaunch), **own, "env": env})


def record_of(wish: SessionOptions, session_id: str) -> SessionRecord:
    wished = same_fields(wish, SessionRecord)
    record = SessionRecord(**{**wished, "session_id": session_id})
    return replace(
        record,
        label=(wish.label or label_of(wish.prompt))[:LABEL_LENGTH],
        renamed=bool(wish.label),
        start_time=time.time_ns() // 1_000_000,
        workspace=str(wish.workspace.absolute()),
    )


class Workspaces:
    def __init__(self, project: Path, places: Places) -> None:
        self._project = project
        self._folders = SessionFolders(places)

    def of(self, session_id: str = "") -> Path:
        """Raises `CommandRejected` if there is no such session, or its folder is gone: nothing is
        ever looked up elsewhere instead."""
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
        """How the processes of a session are started. Raises `CommandRejected` if there is none
        of the project."""
        launch = self._folders.of(session_id).launch()
        if launch is None or launch.project != str(self._project):
            raise CommandRejected(f"No such session: {session_id}.")
        return launch
