"""Servers that are programs: where they start, and which files of the workspace they run.

A workspace was written by strangers, and so were the modules and packages in it that a program
takes before others: `python -m server` imports from the folder it is started in, and `npx` runs
the copy in `node_modules` there. The user's own servers therefore start in an empty folder, by
programs that are not the workspace's, unless their definitions say otherwise.

A server runs outside the sandbox, so a command inside it could rewrite the script that a definition
names. Named files must still be what they were, and any other change since the start that may be
code counts too, because nobody knows which modules those files load.
"""

import hashlib
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePath

from msgspec import Struct

from rookery import NAME
from rookery.core.limits import MIB
from rookery.errors import ToolError
from rookery.mcp.agreements import Pins
from rookery.mcp.config import ServerDefinition, Transport
from rookery.mcp.results import ServerFailure, visible_line

_FETCHERS = {"npx", "bunx", "uvx", "pipx", "docker", "podman"}
"""Programs that run what was published, and of the folder they are started in heed only these."""
_MANIFESTS = {"package.json", ".npmrc", "bunfig.toml", "pyproject.toml", "uv.toml"}
_PACKAGES = "node_modules"
_UNSEEN = {".git"}
LARGEST = 64 * MIB
"""Of what is larger, its times must do."""
DATA = {".csv", ".db", ".duckdb", ".log", ".md", ".sqlite", ".sqlite3", ".tsv", ".txt", ".xlsx"}
"""Endings of files that nobody runs, and that a server itself may change."""
LIST_SECONDS = 5.0
A_TICK = 20_000_000
"""Nanoseconds by which a file's time may lag behind the clock."""
PASSED_ON = ("PATH", "HOME", "LANG", "TERM", "TMPDIR", "USER")
EMPTY_FOLDER = "mcp-empty"
"""Lies beside the user's file, above which no stranger puts anything."""
READ_ONLY = 0o500


class ServerTimeouts(Struct, frozen=True, kw_only=True):
    """How long is waited, in seconds."""

    start: float = 30.0
    listing: float = LIST_SECONDS


class ServerEnvironment(Struct, frozen=True, kw_only=True):
    workspace: Path
    empty: Path
    """A folder with nothing in it, nor anything of a stranger's above it."""
    environ: Mapping[str, str]
    patience: ServerTimeouts = ServerTimeouts()
    since: int = 0
    """When the product began to work here, in nanoseconds since the epoch."""


class ChangedFiles(ToolError):
    """A server would be started from files that are not what they were."""


class NamedFiles:
    """Those of one server. They have to be what they were when it was last started here, or else
    what they were when they were first looked at."""

    def __init__(
        self, server: ServerDefinition, pins: Pins, surroundings: ServerEnvironment
    ) -> None:
        self._server = server
        self._pins = pins
        self._root = os.path.realpath(surroundings.workspace)
        self._surroundings = surroundings
        self._first: Mapping[str, str] = {}

    @property
    def any_there(self) -> bool:
        """Whether the server runs a file of the workspace by its name."""
        return any(self._now().values())

    def look(self) -> None:
        self._first = self._now()

    def insist(self) -> None:
        """Raises `ChangedFiles` if one is not what it was."""
        now = self._now()
        before = self._known() or self._first
        changed = [each for each in sorted({*before, *now}) if before.get(each) != now.get(each)]
        if changed:
            name, file = self._server.name, os.path.relpath(changed[0], self._root)
            raise ChangedFiles(
                f"The MCP server {name} is not started, because "
                f"{visible_line(file, 200)}, which it runs outside the sandbox, has "
                f"changed. To accept the change, the user runs: {NAME} mcp test {name}"
            )
        self._pins.started(self._server, now)

    def believe(self) -> None:
        """As they are now, it may be started from them."""
        self._pins.started(self._server, self._now())

    def _known(self) -> dict[str, str]:
        """The same definition may stand in several workspaces."""
        files = self._pins.files_of(self._server)
        return {file: digest for file, digest in files.items() if _is_in(file, self._root)}

    def _now(self) -> dict[str, str]:
        if self._server.transport is not Transport.STDIO:
            return {}
        named = dict.fromkeys(_named(self._server, self._root, self._surroundings))
        return {file: _digest(file, self._root) for file in named}


def starting_folder(server: ServerDefinition, workspace: Path, empty: Path) -> Path:
    """What a relative `cwd` is relative to is the workspace."""
    if server.source == "project" or server.cwd:
        return workspace / os.path.expanduser(server.cwd)
    return empty


def make_empty(folder: Path) -> None:
    """Raises `Failure` if there cannot be such a folder, or it is not empty."""
    try:
        folder.mkdir(mode=READ_ONLY, parents=True, exist_ok=True)
        found = next(folder.iterdir(), None)
    except OSError as error:
        raise ServerFailure(
            f"{folder} cannot be used to start it in ({error.strerror})."
        ) from error
    if found:
        raise ServerFailure(
            f"{folder} must be empty, because servers start in it: remove {found.name}."
        )


def environment_for(
    server: ServerDefinition, folder: Path, workspace: Path, environ: Mapping[str, str]
) -> dict[str, str]:
    given = {name: environ[name] for name in PASSED_ON if name in environ}
    if server.source == "user":
        given["PATH"] = path_without(workspace, given.get("PATH", os.defpath))
        if "-m" in server.args and is_within(folder, workspace):
            given["PYTHONSAFEPATH"] = "1"  # or a module of the workspace may be the one that runs
    return given | dict(server.env)


def path_without(workspace: Path, path: str) -> str:
    """The folders of a PATH that do not lie in the workspace."""
    folders = [each for each in path.split(os.pathsep) if os.path.isabs(each)]
    return os.pathsep.join(each for each in folders if not is_within(each, workspace))


def programs_for(
    server: ServerDefinition, folder: Path, workspace: Path, environment: Mapping[str, str]
) -> list[str]:
    """Where the program may be, the first that is there being meant. One that a PATH leads to
    is none of the workspace, unless the definition itself leads there."""
    command = server.command
    if os.sep in command:
        return [os.path.join(folder, os.path.expanduser(command))]
    path = environment.get("PATH", os.defpath)
    folders = [each for each in path.split(os.pathsep) if os.path.isabs(each)]
    found = [os.path.join(each, command) for each in folders]
    if server.source == "project" or "PATH" in dict(server.env):
        return found
    return [each for each in found if not is_within(each, workspace)]


def is_within(place: str | Path, folder: Path) -> bool:
    """Whether it lies there, wherever links lead."""
    return PurePath(os.path.realpath(place)).is_relative_to(os.path.realpath(folder))


def changed_code(
    server: ServerDefinition, files: NamedFiles, surroundings: ServerEnvironment
) -> str | None:
    """A file that has changed and that the server might load when it is started; None if there
    is none. The whole workspace is looked at, which takes a while."""
    root = surroundings.workspace
    folder = starting_folder(server, root, surroundings.empty)
    names_any = files.any_there
    starts_there = folder != surroundings.empty and is_within(folder, root)
    if server.transport is not Transport.STDIO or not (names_any or starts_there):
        return None
    fetched = PurePath(server.command).name in _FETCHERS and not names_any
    found = _changed(root, surroundings.since)
    return next((each for each in found if not fetched or _is_heeded(each)), None)


def now() -> int:
    return time.time_ns() - A_TICK


def _is_heeded(file: str) -> bool:
    path = PurePath(file)
    return _PACKAGES in path.parts or path.name in _MANIFESTS


def _changed(root: Path, since: int) -> Iterator[str]:
    """Files by their paths in the workspace. No link is followed."""
    for folder, names, files in os.walk(root):
        names[:] = [name for name in names if name not in _UNSEEN]
        links = [name for name in names if os.path.islink(os.path.join(folder, name))]
        for name in (*files, *links):
            path = os.path.join(folder, name)
            if PurePath(name).suffix.lower() not in DATA and _time_of(path) > since:
                yield os.path.relpath(path, root)


def _time_of(path: str) -> int:
    """The change time, which no program sets as it likes."""
    try:
        return os.lstat(path).st_ctime_ns
    except OSError:
        return 0  # it is gone


def _named(server: ServerDefinition, root: str, surroundings: ServerEnvironment) -> Iterator[str]:
    """Files in the workspace, or where some would be, by paths without links before their end."""
    workspace = Path(root)
    folder = starting_folder(server, workspace, surroundings.empty)
    environment = environment_for(server, folder, workspace, surroundings.environ)
    programs = programs_for(server, folder, workspace, environment)
    for word in (*programs, *_operands(server.args)):
        top, name = os.path.split(os.path.join(folder, word))
        file = os.path.join(os.path.realpath(top), name)
        inside = _is_in(file, root) or _is_in(os.path.realpath(file), root)
        like_a_path = os.sep in word or "." in word or os.path.isfile(file)
        if inside and like_a_path and PurePath(name).suffix.lower() not in DATA:
            yield file


def _operands(args: tuple[str, ...]) -> Iterator[str]:
    for word in args:
        operand = word.partition("=")[2] if word.startswith("-") else word
        if operand and "\0" not in operand and "://" not in operand:
            yield operand


def _is_in(file: str, root: str) -> bool:
    return PurePath(file).is_relative_to(root)


def _digest(file: str, root: str) -> str:
    """Of what is in a file; of a link that leads out of the workspace, of where it leads to."""
    real = os.path.realpath(file)
    if not os.path.isfile(real):
        return ""
    if not _is_in(real, root):
        return f"to {real}"
    try:
        with open(real, "rb") as stream:
            there = os.fstat(stream.fileno())
            if there.st_size > LARGEST:
                return f"of {there.st_ino} {there.st_size} {there.st_mtime_ns} {there.st_ctime_ns}"
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        return f"cannot be read: {error.strerror}"
