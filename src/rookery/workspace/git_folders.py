"""Which parts of git's own folders a command may write: commits yes, programs no.

`git commit` writes objects, refs, logs and the index. Hooks, configuration and attributes name
programs that git runs later, outside the sandbox too.
"""

import os
from collections.abc import Iterable, Iterator

PROGRAMS = ("hooks", "config", "config.worktree", "info/attributes", "commondir", "gitdir")
"""Parts of a git folder that must stay as they are, and must not appear."""
_MODULE_DEPTH = 6


def git_folders(named: Iterable[str]) -> tuple[str, ...]:
    """The folders, and those inside them: of modules and of linked worktrees."""
    found = dict.fromkeys(filter(None, named))
    for folder in tuple(found):
        found.update(dict.fromkeys(inner_git_folders(folder)))
    return tuple(found)


def inner_git_folders(folder: str) -> Iterator[str]:
    yield from _entries(os.path.join(folder, "worktrees"))
    yield from _modules(os.path.join(folder, "modules"), _MODULE_DEPTH)


def git_programs(folder: str) -> list[str]:
    """What must stay as it is inside a git folder, whether it is there or not."""
    return [os.path.join(folder, part) for part in PROGRAMS]


def _modules(folder: str, deep: int) -> Iterator[str]:
    """A module is called by its path, so its folder may lie some folders deep."""
    for entry in _entries(folder) if deep else ():
        if os.path.lexists(os.path.join(entry, "HEAD")):
            yield entry
            yield from inner_git_folders(entry)
        else:
            yield from _modules(entry, deep - 1)


def common_folder(root: str) -> str:
    """Where the repository of a linked worktree lies; empty if the workspace is none.

    A `.git` file can name any folder. Only one that names the workspace in return is believed:
    nobody who can merely write here can have made it.
    """
    own = _line(os.path.join(root, ".git")).removeprefix("gitdir:").strip()
    if not own:
        return ""
    own = os.path.realpath(os.path.join(root, own))
    back = os.path.realpath(_line(os.path.join(own, "gitdir")))
    common = os.path.realpath(os.path.join(own, _line(os.path.join(own, "commondir"))))
    linked = back == os.path.join(root, ".git") and os.path.dirname(own) == f"{common}/worktrees"
    parts = ("HEAD", "objects", "refs")
    if linked and all(os.path.lexists(os.path.join(common, part)) for part in parts):
        return common
    return ""


def _line(file: str) -> str:
    try:
        with open(file, encoding="utf-8", errors="surrogateescape") as lines:
            return lines.readline(4096).rstrip("\n")
    except OSError:
        return ""


def _entries(folder: str) -> list[str]:
    try:
        return [os.path.join(folder, name) for name in sorted(os.listdir(folder))]
    except OSError:
        return []
