"""Whether anything has changed in a workspace that a server might load.

A server is believed for what its definition says, and runs outside the sandbox. Which modules
the files that it names load in turn, nobody knows: so whatever has changed since the product
began to work here counts, unless it is plainly no code.
"""

import os
from collections.abc import Iterator
from pathlib import Path, PurePath

from rookery.mcp.config import ServerDefinition, Transport
from rookery.mcp.named_files import DATA, NamedFiles
from rookery.mcp.server_context import Surroundings
from rookery.mcp.server_environment import is_within, starting_folder

_FETCHERS = {"npx", "bunx", "uvx", "pipx", "docker", "podman"}
"""Programs that run what was published, and of the folder they are started in heed only these."""
_MANIFESTS = {"package.json", ".npmrc", "bunfig.toml", "pyproject.toml", "uv.toml"}
_PACKAGES = "node_modules"
_UNSEEN = {".git"}


def changed_code(
    server: ServerDefinition, files: NamedFiles, surroundings: Surroundings
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
