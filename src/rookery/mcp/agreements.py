"""Configuration files of MCP servers, and the user's approvals, stored across runs.

Anything can write a project's file: a pull, a command, a model. A server runs outside the sandbox,
so it starts only with a definition that the user has approved, variables included. The user's own
servers need no approval. `Pins` records the tools and files of every server. These files are not a
cache: no entry expires, and one that cannot be read counts as changed.
"""

import hashlib
import os
import stat
from collections.abc import Collection, Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from rookery import NAME
from rookery.core.limits import MIB
from rookery.errors import ToolError
from rookery.first_use import prepared
from rookery.mcp.catalogue import ToolOffer
from rookery.mcp.config import (
    OAuthOptions,
    Parsed,
    ServerDefinition,
    ServerProblem,
    merged,
    parse,
    with_given,
)
from rookery.mcp.variables import Source
from rookery.platform.disk import put
from rookery.platform.user_folders import OTHER_AGENTS_MCP_FILE, PROJECT_MCP_FILES

LARGEST_FILE = MIB


class ConfigFiles:
    """The user's file and the project's. Of a project that is not `trusted`, only the names of
    its servers are used. `environ` is what `${env:NAME}` can refer to, without our API keys.
    `other_agents` includes the file that other agents share. Project files are read only once."""

    def __init__(
        self,
        user_file: Path,
        workspace: Path,
        *,
        environ: Mapping[str, str],
        trusted: bool,
        other_agents: bool = True,
        given: bytes = b"",
    ) -> None:
        """`given` are more servers of the user, from a client instead of a file."""
        self.user_file = user_file
        self.workspace = workspace
        self.environ = environ
        self.trusted = trusted
        self._variables = {**environ, "workspaceFolder": str(workspace)}
        self._user_mark: tuple[int, ...] | None = None
        others = () if other_agents else (OTHER_AGENTS_MCP_FILE,)
        files = [workspace / name for name in PROJECT_MCP_FILES if name not in others]
        self._unchanged = {file: _mark(file) for file in files}
        self._projects = tuple(self._one(file, "project") for file in files)
        self._given = parse(given, "user", self._variables) if given else Parsed()

    def changed(self) -> bool:
        """Whether the user's file has changed since it was read."""
        return self._user_mark != _mark(self.user_file)

    def read(self) -> Parsed:
        self._user_mark = _mark(self.user_file)
        user = with_given(self._one(self.user_file, "user"), self._given)
        if self.trusted:
            return merged(user, self._projects)
        mine = {server.name for server in user.servers}
        return merged(user, [_without(mine, project) for project in self._projects])

    def trusts(self, server: ServerDefinition) -> bool:
        """Whether it is the user's own server, or a trusted project's, unchanged since the first
        read."""
        if server.source == "user":
            return True
        return self.trusted and any(server in project.servers for project in self._projects)

    def news(self) -> list[str]:
        """Project files that have changed since they were read; each is reported once."""
        if not self.trusted:
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
        return replace(
            parsed,
            servers=tuple(replace(each, file=str(file)) for each in parsed.servers),
            problems=(*whole, *(each for each in parsed.problems if each.server)),
        )


def _without(names: Collection[str], project: Parsed) -> Parsed:
    """The project's own servers, without its changes to others and its problems."""
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
    "oauth": "oauth",
    "disabled_tools": "disabledTools",
    "always_allow": "alwaysAllow",
}
"""The approved fields of a definition, and their names in the file."""


T = TypeVar("T")


class _Record(Generic[T]):
    """A JSON file of the type `dict[str, T]`. `unusable` says what does not work without it."""

    def __init__(self, file: Path, kind: type[T], unusable: str) -> None:
        self._file = file
        self._kind = kind
        self._unusable = unusable

    def read(self) -> dict[str, T]:
        try:
            kind = dict[str, self._kind]  # type: ignore[name-defined]
            return msgspec.json.decode(self._file.read_bytes(), type=prepared(kind))
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise self._error(error.strerror or str(error)) from error
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
            raise self._error("it is damaged") from error

    def write(self, everything: Mapping[str, T]) -> None:
        try:
            self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            put(self._file, [msgspec.json.encode(everything)], durable=False)
        except OSError as error:
            raise self._error(error.strerror or str(error)) from error

    def _error(self, reason: str) -> ToolError:
        return ToolError(
            f"{self._unusable} cannot be used: {self._file}, which stores your approvals, cannot "
            f"be used ({reason}). Repair it, or remove it to start over."
        )


class Agreements:
    """Approvals of one workspace. Fields are stored as digests, because they may hold secrets."""

    def __init__(self, file: Path, workspace: Path) -> None:
        self._record = _Record(file, dict[str, dict[str, str]], "MCP servers of projects")
        self._workspace = os.path.realpath(workspace)

    def missing(self, server: ServerDefinition) -> str:
        """Why the user must approve the server, as a sentence; empty if it is approved."""
        if server.source == "user":
            return ""
        agreed = self._record.read().get(self._workspace, {}).get(server.name)
        if agreed is None:
            return "You have not approved this project's definition of the server yet."
        now, agreed = _digests(server), {**_ADDED_LATER, **agreed}
        changed = [name for field, name in FIELDS.items() if agreed.get(field) != now[field]]
        if not changed:
            return ""
        return (
            "This project's definition of the server changed since you approved it: "
            f"{', '.join(changed)}."
        )

    def knows(self, server: ServerDefinition) -> bool:
        """Whether a server of this name was approved, with any definition."""
        return server.name in self._record.read().get(self._workspace, {})

    def agree(self, *servers: ServerDefinition) -> None:
        """Store the user's approval. Raises `ToolError` if it cannot be written."""
        wanted = [each for each in servers if self.missing(each)]
        if not wanted:
            return
        everything = self._record.read()
        here = everything.setdefault(self._workspace, {})
        here.update({each.name: _digests(each) for each in wanted})
        self._record.write(everything)


class Pinned(Struct, frozen=True, kw_only=True):
    """What is recorded of one server."""

    tools: Mapping[str, str]
    """Digests of the tools as they were when first seen, or last approved."""
    files: Mapping[str, str]
    """Digests of the workspace files it was started from, by path."""


_EMPTY = Pinned(tools={}, files={})


class Pins:
    """Records of all servers, by the digest of the program or URL."""

    def __init__(self, file: Path) -> None:
        self._record = _Record(file, Pinned, "MCP servers")

    @cached_property
    def _known(self) -> dict[str, Pinned]:
        return self._record.read()

    def has_seen(self, server: ServerDefinition) -> bool:
        """Whether the server's tools are recorded."""
        return bool(self._of(server).tools)

    def see(self, server: ServerDefinition, tools: Iterable[ToolOffer]) -> None:
        """Record the tools of a server that is seen for the first time."""
        if not self.has_seen(server):
            digests = {tool.name: tool.digest for tool in tools}
            self._keep(server, replace(self._of(server), tools=digests))

    def changed(self, server: ServerDefinition, tool: ToolOffer) -> bool:
        """Whether the tool differs from when it was first seen or last approved."""
        return self.has_seen(server) and self._of(server).tools.get(tool.name) != tool.digest

    def allow(self, server: ServerDefinition, tool: ToolOffer) -> None:
        """Record the tool's current description as approved by the user."""
        if self.changed(server, tool):
            before = self._of(server)
            after = {**before.tools, tool.name: tool.digest}
            self._keep(server, replace(before, tools=after))

    def files_of(self, server: ServerDefinition) -> Mapping[str, str]:
        """The files it was last started from, read again because other processes write them too."""
        return self._record.read().get(server.digest, _EMPTY).files

    def started(self, server: ServerDefinition, files: Mapping[str, str]) -> None:
        before = self.files_of(server)
        after = {**before, **files}
        if after != before:
            self._keep(server, replace(self._of(server), files=after))

    def _of(self, server: ServerDefinition) -> Pinned:
        return self._known.get(server.digest, _EMPTY)

    def _keep(self, server: ServerDefinition, news: Pinned) -> None:
        self._known[server.digest] = news
        self._record.write({**self._record.read(), server.digest: news})


def agree_to_project(
    user_file: Path, workspace: Path, environ: Mapping[str, str], *, only_new: bool = False
) -> None:
    """Approve the servers that the project defines now, because the user trusts the folder;
    `only_new` skips those that were approved with another definition."""
    files = ConfigFiles(user_file, workspace, environ=environ, trusted=True)
    servers = [each for each in files.read().servers if each.source == "project"]
    agreements = Agreements(user_file.with_name(AGREEMENTS_FILE), workspace)
    agreements.agree(*(each for each in servers if not (only_new and agreements.knows(each))))


def how_to_agree(server: str) -> str:
    return f"To approve it, run: {NAME} mcp test {server}"


def _digest(value: Any) -> str:
    plain = sorted(value) if isinstance(value, frozenset) else value
    return hashlib.sha256(msgspec.json.encode(plain)).hexdigest()


_ADDED_LATER = {"oauth": _digest(OAuthOptions())}
"""Fields that older approvals lack, with the value that they had."""


def _digests(server: ServerDefinition) -> dict[str, str]:
    return {field: _digest(getattr(server, field)) for field in FIELDS}
