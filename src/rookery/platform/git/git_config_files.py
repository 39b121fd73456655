"""Files of the workspace that git obeys because its settings name them: a folder of hooks, and
settings that are included. They are as good as `.git/hooks` and `.git/config`.

Git is asked only if a file of settings speaks of such a thing; to look settings up runs nothing.
"""

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

from rookery.platform.git.git_folders import common_folder
from rookery.platform.git.git_programs import ask_git
from rookery.platform.processes.own_programs import find_own_program
from rookery.sandbox.confinement import within

_INCLUDED = re.compile(r"include\.path|includeif\..*\.path", re.IGNORECASE | re.DOTALL)
_HOOKS = "core.hookspath"
_SPOKEN_OF = re.compile(rb"hookspath|\[include", re.IGNORECASE)
_LARGEST = 1024 * 1024


class ObeyedByGit:
    """Of one workspace. They are looked up again as soon as a file of settings has changed."""

    def __init__(self, root: Path) -> None:
        self._root = str(root)
        self._settings: tuple[str, ...] = ()
        self._seen: object = None
        self._places: tuple[str, ...] = ()

    def covers(self, path: str) -> bool:
        """Of a path relative to the workspace."""
        return any(within(path, place) for place in self.places())

    def places(self) -> tuple[str, ...]:
        """Relative to the workspace, whether they are there or not."""
        if self._seen is None or self._seen != self._marks():
            listed = self._listed() if self._may_name_any() else []
            files = dict.fromkeys(origin for origin, _, _ in listed)
            self._settings = (*self._known_files(), *files)
            self._places = tuple(dict.fromkeys(self._named(listed)))
            self._seen = self._marks()
        return self._places

    def _may_name_any(self) -> bool:
        if os.path.isfile(os.path.join(self._top, ".git")):
            return True  # of a linked worktree or a module, whose settings are elsewhere
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

    def _marks(self) -> list[tuple[int, int] | None]:
        return [_mark(file) for file in self._settings]

    def _listed(self) -> list[tuple[str, str, str]]:
        """Where each setting stands, its name and its value."""
        program = find_own_program("git", Path(self._root))
        if not program:
            return []
        try:
            words = ("config", "--list", "--show-origin", "--includes", "-z")
            said = ask_git(program, self._root, *words) or ""
        except (OSError, subprocess.SubprocessError):
            return []
        fields = said.split("\0")
        return [
            (os.path.join(self._top, origin.removeprefix("file:")), *_pair(setting))
            for origin, setting in zip(fields[::2], fields[1::2], strict=False)
            if origin.startswith("file:")
        ]

    def _named(self, listed: list[tuple[str, str, str]]) -> Iterator[str]:
        for origin, key, text in listed:
            named = os.path.expanduser(text)
            if key.lower() == _HOOKS:
                yield from self._inside(os.path.join(self._top, named))
            elif _INCLUDED.fullmatch(key):
                yield from self._inside(os.path.join(os.path.dirname(origin), named))

    @property
    def _top(self) -> str:
        """The folder of the repository, which may be above the workspace."""
        folders = (Path(self._root), *Path(self._root).parents)
        return str(next((each for each in folders if os.path.lexists(each / ".git")), self._root))

    def _inside(self, path: str) -> Iterator[str]:
        for each in (os.path.normpath(path), os.path.realpath(path)):
            if within(each, self._root) and each != self._root:
                yield os.path.relpath(each, self._root)


def _may_name(file: str) -> bool:
    try:
        with open(file, "rb") as opened:
            return bool(_SPOKEN_OF.search(opened.read(_LARGEST)))
    except OSError:
        return False


def _pair(setting: str) -> tuple[str, str]:
    key, _, text = setting.partition("\n")
    return key, text


def _mark(file: str) -> tuple[int, int] | None:
    try:
        there = os.stat(file)
    except OSError:
        return None
    return there.st_mtime_ns, there.st_ino
