"""Where server programs start, and which files of the workspace they run.

A workspace may contain modules and packages that a program prefers to others: `python -m server`
imports from the current folder, and `npx` runs the copy in its `node_modules`. So the user's own
servers start in an empty folder, and with programs from outside the workspace, unless their
definitions say otherwise.

A server runs outside the sandbox, but a command inside it could change the script that a definition
names. Named files must therefore be unchanged, and other changes during this run count too if they
may be code, because it is unknown which modules the named files load.
"""

import hashlib
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePath

from msgspec import Struct

from rookery import NAME
from rookery.core.limits import MIB
from rookery.errors import ToolError
from rookery.mcp.agreements import Pins
from rookery.mcp.config import ServerDefinition, Transport
from rookery.mcp.results import ServerFailure, visible_line
from rookery.mcp.server_requests import Answering
from rookery.mcp.server_sign_in import TokenKeeper
from rookery.platform.paths import leads_into, path_outside, within
from rookery.platform.piped_process import PipedProcess

_FETCHERS = {"npx", "bunx", "uvx", "pipx", "docker", "podman"}
"""Programs that run published packages; of the current folder they use only the manifests below."""
_MANIFESTS = {"package.json", ".npmrc", "bunfig.toml", "pyproject.toml", "uv.toml"}
_PACKAGES = "node_modules"
_SKIPPED = {".git"}
LARGEST = 64 * MIB
"""Larger files are compared by size and times."""
DATA = {".csv", ".db", ".duckdb", ".log", ".md", ".sqlite", ".sqlite3", ".tsv", ".txt", ".xlsx"}
"""Suffixes of files that are not code, and that a server may change itself."""
LIST_SECONDS = 5.0
CLOCK_LAG = 20_000_000
"""Nanoseconds by which a file's time may lag behind the clock."""
PASSED_ON = ("PATH", "HOME", "LANG", "TERM", "TMPDIR", "USER")
EMPTY_FOLDER = "mcp-empty"
"""Next to the user's file, so that no parent folder is writable by others."""
READ_ONLY = 0o500


class ServerTimeouts(Struct, frozen=True, kw_only=True):
    """In seconds."""

    start: float = 30.0
    listing: float = LIST_SECONDS


class ServerEnvironment(Struct, frozen=True, kw_only=True):
    workspace: Path
    empty: Path
    """An empty folder, with no files of others in its parent folders."""
    environ: Mapping[str, str]
    tokens: TokenKeeper
    timeouts: ServerTimeouts = ServerTimeouts()
    since: int = 0
    """When the hub was opened, in nanoseconds since the epoch."""
    answering: Answering = Answering()


class ChangedFiles(ToolError):
    """A server would be started from files that have changed."""


class NamedFiles:
    """The workspace files in one server's definition. They must be as at the last start in this
    workspace, or else as when they were first looked at."""

    def __init__(self, server: ServerDefinition, pins: Pins, context: ServerEnvironment) -> None:
        self._server = server
        self._pins = pins
        self._root = os.path.realpath(context.workspace)
        self._context = context
        self._first: Mapping[str, str] = {}

    def look(self) -> None:
        self._first = self._now()

    def check(self) -> None:
        """Raises `ChangedFiles` if one has changed."""
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

    def accept(self) -> None:
        self._pins.started(self._server, self._now())

    def changed_code(self) -> str | None:
        """A changed file that the server might load when it starts; None if there is none. Walks
        the whole workspace, which takes a while."""
        root, folder = self._context.workspace, start_of(self._server, self._context).folder
        names_any = any(self._now().values())
        starts_there = folder != self._context.empty and leads_into(folder, root)
        if self._server.transport is not Transport.STDIO or not (names_any or starts_there):
            return None
        fetched = PurePath(self._server.command).name in _FETCHERS and not names_any
        found = _changed(root, self._context.since)
        return next((each for each in found if not fetched or _is_loaded(each)), None)

    def _known(self) -> dict[str, str]:
        """Recorded digests of this workspace: other workspaces may have the same definition."""
        files = self._pins.files_of(self._server)
        return {file: digest for file, digest in files.items() if within(file, self._root)}

    def _now(self) -> dict[str, str]:
        if self._server.transport is not Transport.STDIO:
            return {}
        named = dict.fromkeys(_named(self._server, self._root, self._context))
        return {file: _digest(file, self._root) for file in named}


def make_empty(folder: Path) -> None:
    """Raises `ServerFailure` if the folder cannot be created, or is not empty."""
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


class ServerStart(Struct, frozen=True):
    """How a program is started. The first of the `programs` that exists is used."""

    folder: Path
    environment: Mapping[str, str]
    programs: Sequence[str]


def start_of(server: ServerDefinition, context: ServerEnvironment) -> ServerStart:
    """A relative `cwd` is relative to the workspace. Folders and programs of the workspace are left
    out of a PATH search for the user's own servers, unless their definitions set PATH."""
    workspace, mine = context.workspace, server.source == "user"
    here = not mine or bool(server.cwd)
    folder = workspace / os.path.expanduser(server.cwd) if here else context.empty
    given = {name: context.environ[name] for name in PASSED_ON if name in context.environ}
    if mine:
        given["PATH"] = path_outside(workspace, given.get("PATH", os.defpath))
        if "-m" in server.args and leads_into(folder, workspace):
            given["PYTHONSAFEPATH"] = "1"  # keeps modules of the workspace out
    own = dict(server.env)
    environment = given | own
    if os.sep in server.command:
        programs = [os.path.join(folder, os.path.expanduser(server.command))]
    else:
        folders = environment.get("PATH", os.defpath).split(os.pathsep)
        programs = [os.path.join(each, server.command) for each in folders if os.path.isabs(each)]
        if mine and "PATH" not in own:
            programs = [each for each in programs if not leads_into(each, workspace)]
    return ServerStart(folder, environment, programs)


def now() -> int:
    return time.time_ns() - CLOCK_LAG


def _is_loaded(file: str) -> bool:
    path = PurePath(file)
    return _PACKAGES in path.parts or path.name in _MANIFESTS


def _changed(root: Path, since: int) -> Iterator[str]:
    """Paths of changed files in the workspace. Links are not followed."""
    for folder, names, files in os.walk(root):
        names[:] = [name for name in names if name not in _SKIPPED]
        links = [name for name in names if os.path.islink(os.path.join(folder, name))]
        for name in (*files, *links):
            path = os.path.join(folder, name)
            if PurePath(name).suffix.lower() not in DATA and _time_of(path) > since:
                yield os.path.relpath(path, root)


def _time_of(path: str) -> int:
    """The change time, because programs can set the modification time."""
    try:
        return os.lstat(path).st_ctime_ns
    except OSError:
        return 0  # removed meanwhile


def _named(server: ServerDefinition, root: str, context: ServerEnvironment) -> Iterator[str]:
    """Workspace paths in the definition, existing or not, with links resolved except the last
    component."""
    start = start_of(server, context)
    for word in (*start.programs, *_operands(server.args)):
        top, name = os.path.split(os.path.join(start.folder, word))
        file = os.path.join(os.path.realpath(top), name)
        inside = within(file, root) or within(os.path.realpath(file), root)
        like_a_path = os.sep in word or "." in word or os.path.isfile(file)
        if inside and like_a_path and PurePath(name).suffix.lower() not in DATA:
            yield file


def _operands(args: tuple[str, ...]) -> Iterator[str]:
    for word in args:
        operand = word.partition("=")[2] if word.startswith("-") else word
        if operand and "\0" not in operand and "://" not in operand:
            yield operand


def _digest(file: str, root: str) -> str:
    """Digest of the content, or the target of a link out of the workspace."""
    real = os.path.realpath(file)
    if not os.path.isfile(real):
        return ""
    if not within(real, root):
        return f"to {real}"
    try:
        with open(real, "rb") as stream:
            there = os.fstat(stream.fileno())
            if there.st_size > LARGEST:
                return f"of {there.st_ino} {there.st_size} {there.st_mtime_ns} {there.st_ctime_ns}"
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        return f"cannot be read: {error.strerror}"


class ServerProcess(PipedProcess):
    def __init__(self, server: ServerDefinition, context: ServerEnvironment) -> None:
        """Raises `ServerFailure` if it cannot be started."""
        self.server = server
        start = start_of(server, context)
        if start.folder == context.empty:
            make_empty(start.folder)
        argv = [_program(server.command, start), *server.args]
        try:
            super().__init__(argv, folder=start.folder, environment=start.environment)
        except OSError as error:
            raise ServerFailure(f"It could not be started ({error.strerror}).") from error


def _program(command: str, start: ServerStart) -> str:
    """The absolute path of the program. Raises `ServerFailure` if there is none."""
    if not start.folder.is_dir():
        raise ServerFailure(f"No such folder to start it in: {start.folder}.")
    for program in start.programs:
        if os.path.isfile(program) and os.access(program, os.X_OK):
            return program
    raise ServerFailure(f"No such program: {command}. Install it, or correct the command.")
