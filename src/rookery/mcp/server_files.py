"""The files that configure servers.

The user's is read again whenever it has changed. Those of the project are read once: whatever
writes them later may be the very agent whose commands are confined, while servers are not."""

import os
import stat
from collections.abc import Collection, Mapping
from pathlib import Path

from rookery import NAME
from rookery.core.limits import MIB
from rookery.mcp.config import Parsed, Problem, ServerDefinition, merged, parse
from rookery.mcp.presence import PROJECT_FILES
from rookery.mcp.variables import Source

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
        again = f"its servers count when {NAME} is started anew."
        return [f"{file} has changed; {again}" for file in changed]

    def _one(self, file: Path, source: Source) -> Parsed:
        try:
            data = _data(file)
        except OSError as error:
            reason = error.strerror or str(error)
            return Parsed(problems=(Problem("", f"{file} cannot be read ({reason})"),))
        if data is None:
            return Parsed()
        parsed = parse(data, source, self._variables)
        whole = [Problem("", f"{file}: {each.text}") for each in parsed.problems if not each.server]
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
            raise OSError("it is no regular file")
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
