"""What git would run besides itself: hooks, and programs in the repository's settings.

They are shown when a git command is approved, because it runs outside the sandbox. Reading settings
runs nothing. Programs in the user's own settings are not listed.

`ObeyedByGit` finds workspace files that git obeys because settings name them: a hooks folder,
included settings, and scripts of filters and drivers. They need the same protection as `.git/hooks`
and `.git/config`.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from rookery.lazy_pattern import lazy_pattern
from rookery.platform.git_folders import common_folder, first_line, separate_folder
from rookery.platform.own_programs import find_own_program
from rookery.platform.paths import within

SECONDS = 5.0
MOST_NAMED = 12
LONGEST = 80
UNKNOWN = "cannot tell which hooks and programs git runs here"

_COMMITTING = "pre-commit pre-merge-commit prepare-commit-msg commit-msg post-commit"
_ALWAYS = "reference-transaction post-index-change"
_HOOKS = {
    "add": "",
    "commit": f"{_COMMITTING} post-rewrite",
    "merge": f"{_COMMITTING} post-merge",
    "pull": f"{_COMMITTING} post-merge pre-rebase post-checkout post-rewrite",
    "fetch": "",
    "rebase": f"{_COMMITTING} pre-rebase post-checkout post-rewrite",
    "cherry-pick": _COMMITTING,
    "revert": _COMMITTING,
    "checkout": "post-checkout",
    "switch": "post-checkout",
    "worktree": "post-checkout",
    "bisect": "post-checkout",
    "push": "pre-push",
    "gc": "pre-auto-gc",
    "am": f"applypatch-msg pre-applypatch post-applypatch {_COMMITTING} post-rewrite",
    **dict.fromkeys(("stash", "reset", "restore", "rm", "mv", "tag", "branch", "config"), ""),
}
"""Hooks by command; other commands may run any hook."""
_NETWORK = "push pull fetch clone ls-remote submodule remote lfs"
_MERGING = "merge rebase pull cherry-pick revert stash am apply checkout switch"
_SETTINGS = (
    (r"filter\..*\.(?:clean|smudge|process)", ""),
    (r"core\.fsmonitor", ""),
    (r"merge\..*\.driver", _MERGING),
    (r"core\.(?:sshcommand|gitproxy|askpass)|credential\..*|remote\..*\.(?:uploadpack|receivepack|vcs)",
     _NETWORK),
    (r"(?:core|sequence)\.editor", "commit rebase merge tag revert cherry-pick notes branch"),
    (r"gpg\.(?:.*\.)?program", "commit tag merge rebase cherry-pick revert am pull push"),
    (r"submodule\..*\.update", "submodule pull checkout switch clone"),
    (r"trailer\..*\.(?:cmd|command)", "commit rebase am interpret-trailers"),
    (r"(?:merge|diff)tool\..*\.cmd", "mergetool difftool"),
    (r"diff\.external|diff\..*\.(?:command|textconv)", "diff log show blame stash"),
)  # fmt: skip
_REBASE_EXEC = lazy_pattern(r"\s*(?:exec|x)\s+(.+)")

_INCLUDED = lazy_pattern(r"include\.path|includeif\..*\.path", re.IGNORECASE | re.DOTALL)
_HOOKS_PATH = "core.hookspath"
_RUN_BY_GIT = lazy_pattern(
    "|".join((*(pattern for pattern, _ in _SETTINGS), r"alias\..*")), re.IGNORECASE | re.DOTALL
)
_BETWEEN_WORDS = lazy_pattern(r"[\s\"'`;&|<>(){}=!]+")
_MAY_NAME_PROGRAMS = lazy_pattern(
    rb"hookspath|fsmonitor|\[\s*(?:include|filter|merge|diff|alias|credential|gpg|trailer)"
    rb"|command|proxy|askpass|editor|tool|pack|vcs|update",
    re.IGNORECASE,
)
_LARGEST = 1024 * 1024


class _Repository(Struct, frozen=True):
    git: str
    hooks: str
    settings: Mapping[str, str]


def git_programs(root: Path, folder: str, words: Sequence[str]) -> list[str]:
    """What a git command runs in a folder, in a few words each; `words` start with `git`."""
    command = words[1] if len(words) > 1 else ""
    program = find_own_program("git", root)
    if not program or not os.path.isdir(folder):
        return []
    try:
        repository = _repository(program, folder)
    except (OSError, ValueError):
        return [UNKNOWN]
    if repository is None:
        return []
    found = [*_rebase_commands(repository, words), *_hooks(repository, command)]
    found += _settings(repository, command)
    more = len(found) - MOST_NAMED
    return [*found[:MOST_NAMED], *([f"runs {more} more programs"] if more > 0 else [])]


def _repository(program: str, folder: str) -> _Repository | None:
    found = _git_folder(os.path.realpath(folder))
    if found is None:
        return None
    git, top = found
    settings: dict[str, str] = {}
    hooks = ""
    words = ("--list", "--show-scope", "--includes", "-z")
    for scope, setting in _pairs(_read_settings(program, folder, words)):
        key, text = _pair(setting)
        if key.lower() == _HOOKS_PATH:
            hooks = os.path.expanduser(text)
        if scope in {"local", "worktree"}:
            settings[key] = text
    top = os.path.join(git, settings.get("core.worktree", top))
    common = os.path.join(git, first_line(os.path.join(git, "commondir")))
    hooks = os.path.join(top, hooks) if hooks else os.path.join(common, "hooks")
    return _Repository(git, os.path.normpath(hooks), settings)


def _git_folder(folder: str) -> tuple[str, str] | None:
    """The git folder of the repository that contains a folder, and its top folder."""
    for each in (folder, *map(str, Path(folder).parents)):
        git = os.path.join(each, ".git")
        if os.path.isdir(git):
            return git, each
        if led_to := separate_folder(git):
            return led_to, each
        if all(os.path.lexists(os.path.join(each, part)) for part in ("HEAD", "objects", "refs")):
            return each, each
    return None


def _read_settings(program: str, folder: str, words: Sequence[str]) -> str:
    from rookery.platform.guarded_process import command_environment
    from rookery.platform.own_programs import read_settings

    environment = command_environment(os.environ, confined=False)
    return read_settings(program, words, folder=folder, environment=environment, seconds=SECONDS)


def _pairs(output: str) -> Iterator[tuple[str, str]]:
    fields = output.split("\0")
    return zip(fields[::2], fields[1::2], strict=False)


def _hooks(repository: _Repository, command: str) -> Iterator[str]:
    known = _HOOKS.get(command)
    wanted = None if known is None else {*known.split(), *_ALWAYS.split()}
    try:
        names = sorted(os.listdir(repository.hooks))
    except OSError:
        return
    for name in names:
        path = os.path.join(repository.hooks, name)
        if name.endswith(".sample") or not (os.path.isfile(path) and os.access(path, os.X_OK)):
            continue
        if wanted is None or name in wanted:
            yield f"runs the git hook {name}: {path}"


def _settings(repository: _Repository, command: str) -> Iterator[str]:
    for key, text in repository.settings.items():
        if key.lower() == f"alias.{command}".lower():
            yield f"git {command} is an alias: {_short(text)}"
        for pattern, commands in _SETTINGS:
            fits = not commands or command in commands.split() or command not in _HOOKS
            if fits and re.fullmatch(pattern, key, re.I) and text not in {"", "true", "false"}:
                yield f"git runs what {key} says: {_short(text)}"


def _rebase_commands(repository: _Repository, words: Sequence[str]) -> Iterator[str]:
    """Commands that a rebase in progress has still to run."""
    if words[1:2] != ["rebase"] or {"--abort", "--quit", "--show-current-patch"} & set(words):
        return
    todo = Path(repository.git, "rebase-merge", "git-rebase-todo")
    try:
        text = todo.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return
    for line in text.splitlines():
        if found := _REBASE_EXEC.match(line):
            yield f"the rebase runs: {_short(found[1])}"


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 1]}…"


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
            listed = self._listed() if self._may_name_any() else []
            files = dict.fromkeys(origin for origin, _, _ in listed)
            self._settings = (*self._known_files(), *files)
            self._places = tuple(dict.fromkeys(self._named(listed)))
            self._read_versions = self._versions()
        return self._places

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

    def _listed(self) -> list[tuple[str, str, str]]:
        """The file, name and value of each setting."""
        program = find_own_program("git", Path(self._root))
        if not program:
            return []
        try:
            words = ("--list", "--show-origin", "--includes", "-z")
            output = _read_settings(program, self._root, words)
        except OSError:
            return []
        return [
            (os.path.join(self._top, origin.removeprefix("file:")), *_pair(setting))
            for origin, setting in _pairs(output)
            if origin.startswith("file:")
        ]

    def _named(self, listed: list[tuple[str, str, str]]) -> Iterator[str]:
        for origin, key, text in listed:
            named = os.path.expanduser(text)
            if key.lower() == _HOOKS_PATH:
                yield from self._inside(os.path.join(self._top, named))
            elif _INCLUDED.fullmatch(key):
                yield from self._inside(os.path.join(os.path.dirname(origin), named))
            elif _RUN_BY_GIT.fullmatch(key):
                yield from self._scripts(text)

    def _scripts(self, line: str) -> Iterator[str]:
        """Files that a shell line may name. Git runs it in the top folder."""
        for word in filter(None, _BETWEEN_WORDS.split(line)):
            path = os.path.join(self._top, os.path.expanduser(word))
            if "/" in word or os.path.isfile(path):
                yield from self._inside(path)

    @property
    def _top(self) -> str:
        """The top folder of the repository, which may be above the workspace."""
        folders = (Path(self._root), *Path(self._root).parents)
        return str(next((each for each in folders if os.path.lexists(each / ".git")), self._root))

    def _inside(self, path: str) -> Iterator[str]:
        for each in (os.path.normpath(path), os.path.realpath(path)):
            if within(each, self._root) and each != self._root:
                yield os.path.relpath(each, self._root)


def _may_name(file: str) -> bool:
    try:
        with open(file, "rb") as opened:
            return bool(_MAY_NAME_PROGRAMS.search(opened.read(_LARGEST)))
    except OSError:
        return False


def _pair(setting: str) -> tuple[str, str]:
    key, _, text = setting.partition("\n")
    return key, text


def _version(file: str) -> tuple[int, int] | None:
    try:
        there = os.stat(file)
    except OSError:
        return None
    return there.st_mtime_ns, there.st_ino
