"""What a person has agreed to or allowed of servers, from one run to the next.

A project's file may be written by anybody: a pull, a command, a model. A server runs outside the
sandbox, so it starts only as somebody has seen it: all of its definition counts, with its variables
filled in. The user's own servers need no agreement. `Pins` notes what was seen of any server. None
of this is a cache: nothing is dropped, and what cannot be read counts as changed.
"""

import hashlib
import os
import stat
from collections.abc import Collection, Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from rookery import NAME
from rookery.core.limits import MIB
from rookery.errors import ToolError
from rookery.mcp.catalogue import ToolOffer
from rookery.mcp.config import Parsed, ServerDefinition, ServerProblem, merged, parse
from rookery.mcp.presence import PROJECT_FILES
from rookery.mcp.variables import Source
from rookery.platform.disk import put

LARGEST_FILE = MIB


class ConfigFiles:
    """The user's file and those of the project, whose servers are only known by name until it
    is `trusted`. `environ` is what `${env:NAME}` may name."""

    def __init__(
        self, user_file: Path, workspace: Path, *, environ: Mapping[str, str], trusted: bool
    ) -> None:
        self._user_file = user_file
        self._trusted = trusted
        self._variables = {**environ, "workspaceFolder": str(workspace)}
        self._user_mark: tuple[int, ...] | None = None
        files = [workspace / name for name in PROJECT_FILES]
        self._unchanged = {file: _mark(file) for file in files}
        self._projects = tuple(self._one(file, "project") for file in files)

    def changed(self) -> bool:
        """Whether there is something to be read that was not read yet."""
        return self._user_mark != _mark(self._user_file)

    def read(self) -> Parsed:
        self._user_mark = _mark(self._user_file)
        user = self._one(self._user_file, "user")
        if self._trusted:
            return merged(user, self._projects)
        mine = {server.name for server in user.servers}
        return merged(user, [_without(mine, project) for project in self._projects])

    def believes(self, server: ServerDefinition) -> bool:
        """Whether it is the user's own, or a trusted project's just as it was first read."""
        if server.source == "user":
            return True
        return self._trusted and any(server in project.servers for project in self._projects)

    def news(self) -> list[str]:
        """Which files of the project no longer say what was read, each told once."""
        if not self._trusted:
            return []
        changed = [file for file, mark in self._unchanged.items() if mark != _mark(file)]
        for file in changed:
            del self._unchanged[file]
        again = f"its servers are used after {NAME} is restarted."
        return [f"{file} has changed; {again}" for file in changed]

    def _one(self, file: Path, source: Source) -> Parsed:
        try:
            data = _data(file)
        except OSError as error:
            reason = error.strerror or str(error)
            return Parsed(problems=(ServerProblem("", f"{file} cannot be read ({reason})"),))
        if data is None:
            return Parsed()
        parsed = parse(data, source, self._variables)
        whole = [
            ServerProblem("", f"{file}: {each.text}") for each in parsed.problems if not each.server
        ]
        return Parsed(
            servers=parsed.servers,
            tightened=parsed.tightened,
            problems=(*whole, *(each for each in parsed.problems if each.server)),
            doubts=parsed.doubts,
        )


def _without(names: Collection[str], project: Parsed) -> Parsed:
    """The project's own servers, without what it says of others or of itself."""
    return Parsed(servers=tuple(each for each in project.servers if each.name not in names))


def _data(file: Path) -> bytes | None:
    try:
        fd = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    with open(fd, "rb") as stream:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError("it is not a regular file")
        data = stream.read(LARGEST_FILE + 1)
    if len(data) > LARGEST_FILE:
        raise OSError(f"it is larger than {LARGEST_FILE // MIB} MiB")
    return data


def _mark(file: Path) -> tuple[int, ...]:
    try:
        status = file.stat()
    except OSError:
        return ()
    return (status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size)


PINS_FILE = "mcp-pins.json"
AGREEMENTS_FILE = "mcp-agreed.json"
FIELDS = {
    "transport": "type",
    "command": "command",
    "args": "args",
    "cwd": "cwd",
    "env": "env",
    "url": "url",
    "headers": "headers",
    "disabled_tools": "disabledTools",
    "always_allow": "alwaysAllow",
}
"""What is pinned, and what it is called in the file."""


class Agreements:
    """Of one workspace. Each field of a definition is kept as its digest: it may hold a secret."""

    def __init__(self, file: Path, workspace: Path) -> None:
        self._file = file
        self._workspace = os.path.realpath(workspace)

    def missing(self, server: ServerDefinition) -> str:
        """Why somebody has to agree first, in a sentence; empty if nobody has to."""
        if server.source == "user":
            return ""
        agreed = self._read().get(self._workspace, {}).get(server.name)
        if agreed is None:
            return "You have not approved this project's definition of the server yet."
        now = _digests(server)
        changed = [name for field, name in FIELDS.items() if agreed.get(field) != now[field]]
        if not changed:
            return ""
        return (
            "This project's definition of the server changed since you approved it: "
            f"{', '.join(changed)}."
        )

    def knows(self, server: ServerDefinition) -> bool:
        """Whether somebody has agreed to a server of this name, however it was defined."""
        return server.name in self._read().get(self._workspace, {})

    def agree(self, *servers: ServerDefinition) -> None:
        """A person has seen these definitions, and agrees. Raises `ToolError` if that cannot be
        kept."""
        wanted = [each for each in servers if self.missing(each)]
        if not wanted:
            return
        everything = self._read()
        here = everything.setdefault(self._workspace, {})
        here.update({each.name: _digests(each) for each in wanted})
        try:
            self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            put(self._file, [msgspec.json.encode(everything)], durable=False)
        except OSError as error:
            raise self._unusable(error.strerror or str(error)) from error

    def _read(self) -> dict[str, dict[str, dict[str, str]]]:
        try:
            data = self._file.read_bytes()
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise self._unusable(error.strerror or str(error)) from error
        try:
            return msgspec.json.decode(data, type=dict[str, dict[str, dict[str, str]]])
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
            raise self._unusable("it is damaged") from error

    def _unusable(self, reason: str) -> ToolError:
        return ToolError(
            f"Project MCP servers cannot be used. {NAME} keeps the definitions you approved in "
            f"{self._file}, which cannot be used ({reason}). Repair or remove it."
        )


class Pinned(Struct, frozen=True, kw_only=True):
    """One server's."""

    tools: Mapping[str, str]
    """The digests of tools as they were when they were first seen, or last allowed."""
    files: Mapping[str, str]
    """Of workspaces, from which it was started, with their hashes."""


_NOTHING = Pinned(tools={}, files={})


class Pins:
    """By the digest of what is started or called."""

    def __init__(self, file: Path) -> None:
        self._file = file

    @cached_property
    def _known(self) -> dict[str, Pinned]:
        return self._read()

    def has_seen(self, server: ServerDefinition) -> bool:
        """Whether it is known what the server's tools were."""
        return bool(self._of(server).tools)

    def see(self, server: ServerDefinition, tools: Iterable[ToolOffer]) -> None:
        """The first tools ever seen of a server are taken as they are."""
        if not self.has_seen(server):
            digests = {tool.name: tool.digest for tool in tools}
            self._keep(server, replace(self._of(server), tools=digests))

    def changed(self, server: ServerDefinition, tool: ToolOffer) -> bool:
        """Whether the tool is not what it was when it was first seen or last allowed."""
        return self.has_seen(server) and self._of(server).tools.get(tool.name) != tool.digest

    def allow(self, server: ServerDefinition, tool: ToolOffer) -> None:
        """Somebody was asked about the tool as it is now, and allowed it."""
        if self.changed(server, tool):
            before = self._of(server)
            after = {**before.tools, tool.name: tool.digest}
            self._keep(server, replace(before, tools=after))

    def files_of(self, server: ServerDefinition) -> Mapping[str, str]:
        """What it was last started from, in whichever workspace and by whichever process."""
        return self._read().get(server.digest, _NOTHING).files

    def started(self, server: ServerDefinition, files: Mapping[str, str]) -> None:
        before = self.files_of(server)
        after = {**before, **files}
        if after != before:
            self._keep(server, replace(self._of(server), files=after))

    def _of(self, server: ServerDefinition) -> Pinned:
        return self._known.get(server.digest, _NOTHING)

    def _read(self) -> dict[str, Pinned]:
        try:
            data = self._file.read_bytes()
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise self._unusable(error.strerror or str(error)) from error
        try:
            return msgspec.json.decode(data, type=dict[str, Pinned])
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
            raise self._unusable("it is damaged") from error

    def _keep(self, server: ServerDefinition, news: Pinned) -> None:
        self._known[server.digest] = news
        everything = {**self._read(), server.digest: news}
        try:
            self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            put(self._file, [msgspec.json.encode(everything)], durable=False)
        except OSError as error:
            raise self._unusable(error.strerror or str(error)) from error

    def _unusable(self, reason: str) -> ToolError:
        return ToolError(
            f"No MCP server can be used: {self._file}, which stores your approvals, "
            f"cannot be used ({reason}). Repair it, or remove it to start over."
        )


def agree_to_project(
    user_file: Path, workspace: Path, environ: Mapping[str, str], *, only_new: bool = False
) -> None:
    """A person trusts the folder as it is now, and so the servers that it defines now; `only_new`
    leaves out those that somebody has agreed to otherwise."""
    files = ConfigFiles(user_file, workspace, environ=environ, trusted=True)
    servers = [each for each in files.read().servers if each.source == "project"]
    agreements = Agreements(user_file.with_name(AGREEMENTS_FILE), workspace)
    agreements.agree(*(each for each in servers if not (only_new and agreements.knows(each))))


def how_to_agree(server: str) -> str:
    return f"To approve it, run: {NAME} mcp test {server}"


def _digests(server: ServerDefinition) -> dict[str, str]:
    return {field: _digest(getattr(server, field)) for field in FIELDS}


def _digest(said: Any) -> str:
    plain = sorted(said) if isinstance(said, frozenset) else said
    return hashlib.sha256(msgspec.json.encode(plain)).hexdigest()
