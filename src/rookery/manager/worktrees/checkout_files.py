"""The files of a checkout, compared with its commit byte by byte.

Index flags and attributes are ignored: a file is unchanged only if its bytes are the commit's, so
no git flag and no conversion can hide a change. New worktrees get copies of some ignored files:
`.env` files, and what the project lists in `.worktreeinclude`.
"""

import fnmatch
import hashlib
import os
import secrets
import stat
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct

from rookery.platform.git_folders import OWN_FOLDER, regular_content
from rookery.platform.worktree_git import Git, InTheWay
from rookery.platform.worktree_project import Project, git_of
from rookery.platform.worktree_values import Code, Worktree

INCLUDE_FILE = ".worktreeinclude"
_ENVIRONMENT = (".env", ".env.*")
LINK, PLAIN, PROGRAM, MODULE = "120000", "100644", "100755", "160000"
_CHUNK = 1024 * 1024


class FileInCheckout(Struct, frozen=True):
    """A file or link on disk; `seen` changes whenever the file does."""

    mode: str
    seen: tuple[int, int, int, int]


class Stored(Struct, frozen=True):
    """A file as stored by git."""

    mode: str
    id: str


class Contents(Struct, frozen=True, kw_only=True):
    files: Mapping[str, FileInCheckout]
    nested: tuple[str, ...]
    """Folders with a repository of their own."""
    unreadable: tuple[str, ...]


def contents_of(folder: Path) -> Contents:
    files: dict[str, FileInCheckout] = {}
    nested: list[str] = []
    unreadable: list[str] = []
    waiting = [""]
    while waiting:
        inside = waiting.pop()
        try:
            with os.scandir(folder / inside) as found:
                entries = sorted(found, key=lambda entry: entry.name)
        except OSError:
            unreadable.append(f"{inside}/")
            continue
        for entry in entries:
            path = f"{inside}/{entry.name}" if inside else entry.name
            there = entry.stat(follow_symlinks=False)
            if entry.name == ".git":
                nested += [inside] if inside else []
            elif stat.S_ISDIR(there.st_mode):
                waiting.append(path)
            elif found_file := _file(there):
                files[path] = found_file
    return Contents(files=files, nested=tuple(nested), unreadable=tuple(unreadable))


def contents_at(folder: Path, paths: Iterable[str]) -> Contents:
    """Like `contents_of`, only for these paths."""
    files: dict[str, FileInCheckout] = {}
    for path in paths:
        try:
            there = os.lstat(folder / path)
        except (FileNotFoundError, NotADirectoryError):
            continue
        if found := _file(there):
            files[path] = found
    return Contents(files=files, nested=(), unreadable=())


def changed_files(
    folder: Path,
    contents: Contents,
    committed: Mapping[str, Stored],
    wanted: Callable[[str], bool],
    algorithm: str,
) -> dict[str, Stored]:
    """The wanted files whose bytes or mode differ from the commit, as git would store them."""
    changed: dict[str, Stored] = {}
    for path, found in contents.files.items():
        if path not in committed and not wanted(path):
            continue
        try:
            now = Stored(found.mode, id_of(folder / path, found.mode, algorithm))
        except OSError as error:
            raise InTheWay(
                Code.NOT_KEPT, f"{path} cannot be read ({error.strerror}); fix that first.", [path]
            ) from error
        if committed.get(path) != now:
            changed[path] = now
    return changed


def id_of(path: Path, mode: str, algorithm: str) -> str:
    """Git's object id of a file's bytes, without conversions."""
    digest = hashlib.new(algorithm, usedforsecurity=False)
    if mode == LINK:
        target = os.fsencode(os.readlink(path))
        digest.update(b"blob %d\0" % len(target) + target)
        return digest.hexdigest()
    with open_plain(path) as file:
        digest.update(b"blob %d\0" % os.fstat(file.fileno()).st_size)
        while data := file.read(_CHUNK):
            digest.update(data)
    return digest.hexdigest()


def open_plain(path: Path) -> BinaryIO:
    """Open without following a link or blocking on a pipe."""
    return open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb")


def tree_of(git: Git, commit: str) -> dict[str, Stored]:
    """All files of a commit or tree."""
    if not commit:
        return {}
    lines = git.names("ls-tree", "-r", "-z", "--full-tree", commit)
    split = (line.split("\t", 1) for line in lines)
    return {path: Stored(about.split()[0], about.split()[2]) for about, path in split}


def index_of(git: Git) -> dict[int, dict[str, Stored]]:
    """The index by stage: 0, and 1 to 3 for conflicts."""
    staged: dict[int, dict[str, Stored]] = {}
    for line in git.names("ls-files", "-s", "-z"):
        about, path = line.split("\t", 1)
        mode, known, stage = about.split()
        staged.setdefault(int(stage), {})[path] = Stored(mode, known)
    return staged


def included_files(project: Project, git: Git) -> list[str]:
    """The ignored files to copy that exist in a checkout."""
    listed = project.folder / INCLUDE_FILE
    found: set[str] = set()
    if regular_content(str(listed), 1) is not None:
        others = ("ls-files", "-o", "-i", "-z")
        named = git.names(*others, f"--exclude-from={listed}")
        found = {*named} & {*git.names(*others, "--exclude-standard")}
    environment = [
        name
        for name in os.listdir(git.folder)
        if any(fnmatch.fnmatchcase(name, pattern) for pattern in _ENVIRONMENT)
    ]
    tracked = git.names("ls-files", "-z", "--", *environment) if environment else []
    found |= {*environment} - {*tracked}
    return sorted(
        path for path in found if not path.endswith("/") and not path.startswith(f"{OWN_FOLDER}/")
    )


def copy_included(project: Project, worktree: Worktree) -> list[str]:
    """Copy included files without overwriting any, and return those copied: regular files that
    the worktree did not have."""
    target = git_of(project, worktree).folder
    paths = included_files(project, project.git)
    return [path for path in paths if _copy_file(project.folder / path, target, path)]


def _copy_file(source: Path, root: Path, path: str) -> bool:
    if not _make_parents(root, path):
        return False
    try:
        opened = open_plain(source)
    except OSError:
        return False  # a link, or not readable
    with opened as file:
        there = os.fstat(file.fileno())
        return stat.S_ISREG(there.st_mode) and _write_copy(file, root / path, there.st_mode & 0o777)


def _write_copy(file: BinaryIO, target: Path, mode: int) -> bool:
    unfinished = target.with_name(f".copy-{secrets.token_hex(8)}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        with open(os.open(unfinished, flags, mode), "wb") as to:
            while data := file.read(_CHUNK):
                to.write(data)
        os.link(unfinished, target)  # unlike a rename, never replaces a file
    except FileExistsError:
        return False
    finally:
        unfinished.unlink(missing_ok=True)
    return True


def _make_parents(root: Path, path: str) -> bool:
    """Create the folders above a file; False if something else is there, such as a link."""
    at = root
    for name in Path(path).parts[:-1]:
        at = at / name
        if at.is_symlink() or (at.exists() and not at.is_dir()):
            return False
        at.mkdir(exist_ok=True)
    return True


def _file(there: os.stat_result) -> FileInCheckout | None:
    """None for sockets, pipes and devices."""
    if stat.S_ISLNK(there.st_mode):
        mode = LINK
    elif stat.S_ISREG(there.st_mode):
        mode = PROGRAM if there.st_mode & stat.S_IXUSR else PLAIN
    else:
        return None
    seen = (there.st_ino, there.st_size, there.st_mtime_ns, there.st_ctime_ns)
    return FileInCheckout(mode, seen)
