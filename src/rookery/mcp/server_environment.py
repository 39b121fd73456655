"""Where a server that is a program is started, and what it is given of the environment.

A workspace was written by strangers, and so were the modules and packages in it that a program
takes before others: `python -m server` imports from the folder it is started in, and `npx` runs
the copy in `node_modules` there. The user's own servers are therefore started in a folder in
which there is nothing, by programs that are not the workspace's, unless their definitions say
otherwise. A project's servers are what a trusted project says, and start in it.
"""

import os
from collections.abc import Mapping
from pathlib import Path, PurePath

from rookery.mcp.config import ServerDefinition
from rookery.mcp.failure import Failure

PASSED_ON = ("PATH", "HOME", "LANG", "TERM", "TMPDIR", "USER")
EMPTY_FOLDER = "mcp-empty"
"""Lies beside the user's file, above which no stranger puts anything."""
READ_ONLY = 0o500


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
        raise Failure(f"{folder} cannot be used to start it in ({error.strerror}).") from error
    if found:
        raise Failure(f"{folder} must be empty, for servers start in it: remove {found.name}.")


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
