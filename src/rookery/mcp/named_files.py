"""The files of a workspace that a server runs, as far as its command line names them.

A server is believed for what its definition says, and runs outside the sandbox. A command inside
it may rewrite the very script that the definition names. So the script must still be what it was.
"""

import hashlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePath

from rookery import NAME
from rookery.core.limits import MIB
from rookery.errors import ToolError
from rookery.mcp.config import ServerDefinition, Transport
from rookery.mcp.pins import Pins
from rookery.mcp.server_context import Surroundings
from rookery.mcp.server_environment import environment_for, programs_for, starting_folder
from rookery.mcp.visible_text import visible_line

LARGEST = 64 * MIB
"""Of what is larger, its times must do."""
DATA = {".csv", ".db", ".duckdb", ".log", ".md", ".sqlite", ".sqlite3", ".tsv", ".txt", ".xlsx"}
"""Endings of files that nobody runs, and that a server itself may change."""


class ChangedFiles(ToolError):
    """A server would be started from files that are not what they were."""


class NamedFiles:
    """Those of one server. They have to be what they were when it was last started here, or else
    what they were when they were first looked at."""

    def __init__(self, server: ServerDefinition, pins: Pins, surroundings: Surroundings) -> None:
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
                f"The MCP server {name} is not started, because {visible_line(file, 200)}, which "
                "it runs outside the sandbox, is not what it was. If it is as it should be, the "
                f"user runs: {NAME} mcp test {name}"
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


def _named(server: ServerDefinition, root: str, surroundings: Surroundings) -> Iterator[str]:
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
        return f"not read: {error.strerror}"
