"""Which parts of git's own folders a command may write: commits, but no programs.

`git commit` writes objects, refs, logs and the index. Hooks, configuration and attributes name
programs that git runs later, also outside the sandbox. Links on the way to them are not followed.

`ObeyedByGit` finds workspace files that git obeys because settings name them: a hooks folder,
included settings, and scripts of filters and drivers. They need the same protection as `.git/hooks`
and `.git/config`.
"""

import os
import re
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from rookery import NAME
from rookery.first_use import lazy_pattern
from rookery.platform.paths import within

PROGRAMS = ("hooks", "config", "config.worktree", "info/attributes", "commondir", "gitdir")
"""Parts of a git folder that must not be changed or created."""
NOTE_OF_WORKTREE = f"{NAME}-worktree.json"
"""The manager's file about a linked worktree, in its folder of the repository."""
OWN_FOLDER, WORKTREES, AGENT_PREFIX = ".roo", "worktrees", "agent"
"""Where worktrees are in a project, and how the branches of agents begin."""
_LEADING_ELSEWHERE = ("commondir", "objects/info/alternates", "objects/info/http-alternates")
"""Files of a git folder that make git read another one."""
_MODULE_DEPTH = 6
_ELSEWHERE = lazy_pattern(rb"(?:^|[\]\s])worktree\s*=|\[include", re.IGNORECASE)
_LARGEST_CONFIG = 1024 * 1024
_MOST_BYTES = 4096
_BRANCH = lazy_pattern(r"ref: refs/heads/(?P<name>[^\s\x00-\x1f~^:?*\[\\]{1,200})")
_COMMIT = lazy_pattern(r"[0-9a-f]{40,64}")


def repository_of(place: Path) -> Path | None:
    """The root of the repository that contains a folder."""
    return next((each for each in (place, *place.parents) if (each / ".git").exists()), None)


def git_folders(named: Iterable[str]) -> tuple[str, ...]:
    """The folders, and the git folders of modules and linked worktrees inside them."""
    found = dict.fromkeys(filter(None, named))
    for folder in tuple(found):
        found.update(dict.fromkeys(inner_git_folders(folder)))
    return tuple(found)


def inner_git_folders(folder: str) -> Iterator[str]:
    yield from filter(is_folder, entries(os.path.join(folder, "worktrees")))
    yield from _modules(os.path.join(folder, "modules"), _MODULE_DEPTH)


def git_programs(folder: str) -> list[str]:
    """The paths in a git folder that must not change, whether they exist or not."""
    return [os.path.join(folder, part) for part in PROGRAMS]


def links_inside(folder: str) -> Iterator[str]:
    """Entries where git expects inner folders that are neither a folder nor a file."""
    yield from _links(os.path.join(folder, "worktrees"), 1)
    yield from _links(os.path.join(folder, "modules"), _MODULE_DEPTH)


def _links(path: str, deep: int) -> Iterator[str]:
    if is_folder(path):
        for entry in entries(path) if deep else ():
            yield from _links(entry, deep - 1)
    elif os.path.lexists(path) and not stat.S_ISREG(os.lstat(path).st_mode):
        yield path


def _modules(folder: str, deep: int) -> Iterator[str]:
    """A module is named by its path, so its folder may be several levels deep."""
    for entry in filter(is_folder, entries(folder) if deep else ()):
        if os.path.lexists(os.path.join(entry, "HEAD")):
            yield entry
            yield from inner_git_folders(entry)
        else:
            yield from _modules(entry, deep - 1)


def common_folder(root: str) -> str:
    """The repository of a linked worktree; empty if the workspace is none.

    A `.git` file can name any folder. It is trusted only if that folder names the workspace in
    return, which someone who can only write here could not arrange.
    """
    own = folder_named_by(os.path.join(root, ".git"))
    if not own:
        return ""
    back = os.path.realpath(first_line(os.path.join(own, "gitdir")))
    common = os.path.realpath(os.path.join(own, first_line(os.path.join(own, "commondir"))))
    linked = back == os.path.join(root, ".git") and os.path.dirname(own) == f"{common}/worktrees"
    parts = ("HEAD", "objects", "refs")
    if linked and all(os.path.lexists(os.path.join(common, part)) for part in parts):
        return common
    return ""


def git_branch(workspace: Path) -> str:
    """Describe the branch a folder is on; empty if it is not a repository. It does not run git,
    which would read configuration that may not be trusted. A repository outside the folder is
    read only if it lists the folder as its worktree."""
    root = os.path.realpath(workspace)
    git = os.path.join(root, ".git")
    folder = separate_folder(git) or git
    if not within(folder, root) and not common_folder(root):
        return ""
    text = regular_content(os.path.join(folder, "HEAD"), _MOST_BYTES) or b""
    head = text.decode("utf-8", "replace").strip()
    if branch := _BRANCH.fullmatch(head):
        return f"branch {branch['name']}"
    return f"no branch, at {head[:12]}" if _COMMIT.fullmatch(head) else ""


def separate_folder(git: str) -> str:
    """The folder that a `.git` file or link leads to; empty if there is none."""
    if is_folder(git):
        return ""
    led_to = os.path.realpath(git) if os.path.islink(git) else folder_named_by(git)
    return led_to if is_folder(led_to) else ""


def folder_named_by(git: str) -> str:
    """The real path of the folder that a `.git` file names; empty if it names none. It can be any
    folder, and need not exist."""
    named = first_line(git).removeprefix("gitdir:").strip()
    return os.path.realpath(os.path.join(os.path.dirname(git), named)) if named else ""


def committing_parts(root: str, common: str) -> list[str]:
    """The parts of the repository that a commit in a linked worktree writes. The rest is not the
    worktree's: settings, hooks, other worktrees."""
    parts = [os.path.join(common, part) for part in ("objects", "refs", "logs")]
    return [*parts, folder_named_by(os.path.join(root, ".git"))]


def own_repository(root: str) -> bool:
    """Whether git, run in the workspace, reads only the workspace's own repository.

    A linked worktree counts if its repository names it in return.
    """
    git = os.path.join(root, ".git")
    if not is_folder(git):
        git = common_folder(os.path.realpath(root))
    return bool(git) and not leads_elsewhere(git)


def repository_config(root: str) -> str:
    """The settings of the workspace's own repository; empty if it has none."""
    git = os.path.join(root, ".git")
    if not is_folder(git):
        git = common_folder(os.path.realpath(root))
    text = regular_content(os.path.join(git, "config"), _LARGEST_CONFIG) if git else b""
    return (text or b"").decode("utf-8", "replace")


def leads_elsewhere(git: str) -> bool:
    """Whether a git folder makes git read others, by a file, a link or its settings."""
    stores = [os.path.join(git, part) for part in ("objects", "objects/pack", "objects/info")]
    looked_at = [*entries(git), *(entry for store in stores for entry in entries(store))]
    return (
        any(os.path.lexists(os.path.join(git, part)) for part in _LEADING_ELSEWHERE)
        or any(os.path.islink(path) for path in looked_at)
        or any(
            _config_leads_away(os.path.join(git, name)) for name in ("config", "config.worktree")
        )
    )


def _config_leads_away(config: str) -> bool:
    """Whether the settings name a work tree, include another file, or cannot be read."""
    if not os.path.lexists(config):
        return False
    text = regular_content(config, _LARGEST_CONFIG + 1)
    return text is None or len(text) > _LARGEST_CONFIG or bool(_ELSEWHERE.search(text))


def regular_content(file: str, most: int) -> bytes | None:
    """The start of a regular file, else None. Does not block on a pipe or follow a link."""
    try:
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
        with open(os.open(file, flags), "rb") as opened:
            if not stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
                return None
            return opened.read(most)
    except OSError:
        return None


def is_worktree_of_agent(path: str) -> bool:
    """Whether a folder has the place and the name of a worktree that was made for an agent."""
    *_, own, worktrees, name = ("", "", *path.split("/"))
    return (own, worktrees) == (OWN_FOLDER, WORKTREES) and name.startswith(f"{AGENT_PREFIX}-")


def is_folder(path: str) -> bool:
    """Whether the path is a folder, and not a link to one."""
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return False


def entries(folder: str) -> list[str]:
    """The paths in a folder; empty for a link."""
    try:
        names = sorted(os.listdir(folder)) if is_folder(folder) else []
    except OSError:
        return []
    return [os.path.join(folder, name) for name in names]


def first_line(file: str) -> str:
    """The first line of a regular file; empty if there is none."""
    text = (regular_content(file, _MOST_BYTES) or b"").decode("utf-8", "surrogateescape")
    return text.split("\n", 1)[0]


_MAY_NAME_PROGRAMS = lazy_pattern(
    rb"hookspath|fsmonitor|\[\s*(?:include|filter|merge|diff|alias|credential|gpg|trailer)"
    rb"|command|proxy|askpass|editor|tool|pack|vcs|update",
    re.IGNORECASE,
)


class ObeyedByGit:
    """The files git obeys in one workspace. Looked up again when a settings file has changed."""

    def __init__(self, root: Path) -> None:
        self._root = str(root)
        self._settings: tuple[str, ...] = ()
        self._read_versions: object = None
        self._places: tuple[str, ...] = ()

    def covers(self, path: str) -> bool:
        """Whether git obeys a path, which is relative to the workspace."""
        return any(within(path, place) for place in self.places())

    def places(self) -> tuple[str, ...]:
        """Relative to the workspace; they need not exist."""
        if self._read_versions is None or self._read_versions != self._versions():
            files, places = self._named() if self._may_name_any() else ((), ())
            self._settings, self._places = (*self._known_files(), *files), places
            self._read_versions = self._versions()
        return self._places

    def _named(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        from rookery.platform.git_programs import named_by_settings

        return named_by_settings(self._root, self._top)

    def _may_name_any(self) -> bool:
        if os.path.isfile(os.path.join(self._top, ".git")):
            return True  # a linked worktree or a module, whose settings are elsewhere
        return any(map(_may_name, self._known_files()))

    def _known_files(self) -> tuple[str, ...]:
        folder = common_folder(self._top) or os.path.join(self._top, ".git")
        if not os.path.isdir(folder):
            return ()
        own = (os.path.join(folder, name) for name in ("config", "config.worktree"))
        home = os.path.expanduser("~")
        others = os.environ.get("XDG_CONFIG_HOME") or os.path.join(home, ".config")
        users = (os.path.join(home, ".gitconfig"), os.path.join(others, "git", "config"))
        return (*own, *users, "/etc/gitconfig")

    def _versions(self) -> list[tuple[int, int] | None]:
        return [_version(file) for file in self._settings]

    @property
    def _top(self) -> str:
        """The top folder of the repository, which may be above the workspace."""
        folders = (Path(self._root), *Path(self._root).parents)
        return str(next((each for each in folders if os.path.lexists(each / ".git")), self._root))


def _may_name(file: str) -> bool:
    try:
        with open(file, "rb") as opened:
            return bool(_MAY_NAME_PROGRAMS.search(opened.read(_LARGEST_CONFIG)))
    except OSError:
        return False


def _version(file: str) -> tuple[int, int] | None:
    try:
        there = os.stat(file)
    except OSError:
        return None
    return there.st_mtime_ns, there.st_ino
