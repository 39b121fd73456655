"""Which program a name means: one that nobody could have put there for us to run."""

import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path

MOST_LINKS = 40
_PROCESSES = "/proc"
_TEMPORARY = ("/tmp", "/var/tmp", "/dev/shm", "/run/user")


def temporary_folders() -> tuple[str, ...]:
    """Where anybody may write, and where nothing is expected to last."""
    import tempfile

    named = dict.fromkeys((tempfile.gettempdir(), *_TEMPORARY))
    return tuple(os.path.realpath(folder) for folder in named)


def find_program(
    name: str,
    path_variable: str,
    root: Path,
    *,
    temporary: Sequence[str] | None = None,
    writable: Sequence[str] = (),
) -> str | None:
    """The absolute program of this name, found in none of the folders that are relative, in
    the workspace, for temporary files, or `writable` for commands in the sandbox."""
    if not name or "/" in name:
        return None
    unsafe = (
        str(root),
        *(temporary_folders() if temporary is None else temporary),
        *(os.path.realpath(folder) for folder in writable),
    )
    for folder in _safe_folders(path_variable, unsafe):
        program = os.path.join(folder, name)
        if not os.path.isfile(program) or not os.access(program, os.X_OK):
            continue
        return None if within(os.path.realpath(program), *unsafe) else program
    return None


def is_shadowed(
    name: str,
    path_variable: str,
    root: Path,
    *,
    temporary: Sequence[str],
    writable: Sequence[str] = (),
) -> bool:
    """Whether a shell would rather find another program of the name, in an unsafe folder."""
    unsafe = (str(root), *temporary, *(os.path.realpath(folder) for folder in writable))
    safe = _safe_folders(path_variable, unsafe)
    for folder in path_variable.split(os.pathsep):
        program = os.path.join(os.path.join(str(root), folder), name)
        if os.path.isfile(program) and os.access(program, os.X_OK):
            return folder not in safe
    return False


def missing_program(
    name: str,
    path_variable: str,
    root: Path,
    *,
    temporary: Sequence[str],
    writable: Sequence[str] = (),
) -> str | None:
    """Where a program would be that is in no folder of the path: in a safe one of them."""
    unsafe = (str(root), *temporary, *(os.path.realpath(folder) for folder in writable))
    safe = _safe_folders(path_variable, unsafe)
    folders = (os.path.join(str(root), folder) for folder in path_variable.split(os.pathsep))
    if not safe or "/" in name or any(os.path.lexists(os.path.join(at, name)) for at in folders):
        return None
    return os.path.join(safe[0], name)


def all_safe(
    path_variable: str, root: Path, *, temporary: Sequence[str], writable: Sequence[str] = ()
) -> bool:
    """Whether nobody could have put a program where one is looked for by its name."""
    unsafe = (str(root), *temporary, *(os.path.realpath(folder) for folder in writable))
    return len(_safe_folders(path_variable, unsafe)) == len(path_variable.split(os.pathsep))


def starts_others(program: str) -> bool:
    """Whether it starts programs by their names: a script does, and tar to unpack."""
    if os.path.basename(program) == "tar":
        return True
    try:
        with open(program, "rb") as file:
            return file.read(2) == b"#!"
    except OSError:
        return True


@cache
def _safe_folders(path_variable: str, unsafe: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(
        folder
        for folder in path_variable.split(os.pathsep)
        if os.path.isabs(folder) and not within(os.path.realpath(folder), *unsafe)
    )


def leads_through_a_process(path: str) -> bool:
    """Whether an absolute path goes through /proc on its way: there `self`, and the folders and
    files that it has open, are others for each process."""
    waiting = [part for part in reversed(path.split("/")) if part not in {"", "."}]
    at, links = "/", 0
    while waiting:
        part = waiting.pop()
        if part == "..":
            at = os.path.dirname(at)
            continue
        at = os.path.join(at, part)
        if within(at, _PROCESSES):
            return True
        try:
            target = os.readlink(at)
        except (OSError, ValueError):
            continue  # it is no link
        links += 1
        if links > MOST_LINKS:
            return True
        at = "/" if os.path.isabs(target) else os.path.dirname(at)
        waiting += [piece for piece in reversed(target.split("/")) if piece not in {"", "."}]
    return False


def resolved(path: str | Path) -> str:
    """Where a path really leads. What cannot be found out may lead anywhere."""
    try:
        return os.path.realpath(path)
    except (OSError, ValueError):
        return "/"


def within(path: str, *folders: str) -> bool:
    return any(path == folder or path.startswith(folder.rstrip("/") + "/") for folder in folders)
