"""What git would run besides itself: hooks, and programs in the repository's settings.

They are shown when a git command is approved, because it runs outside the sandbox. Reading settings
runs nothing. Programs in the user's own settings are not listed.

`named_by_settings` finds the workspace files that settings name, for `ObeyedByGit`.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from rookery.first_use import lazy_pattern
from rookery.platform.git_folders import first_line, separate_folder
from rookery.platform.paths import within
from rookery.platform.user_folders import find_own_program

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


def named_by_settings(root: str, top: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The files that hold git's settings, and the paths in the workspace that these name."""
    files = _NamedFiles(root, top)
    listed = files.listed()
    origins = dict.fromkeys(origin for origin, _, _ in listed)
    return tuple(origins), tuple(dict.fromkeys(files.named(listed)))


class _NamedFiles(Struct):
    """The files in a workspace that settings of git name. `top` is the top folder of the
    repository, which may be above the workspace."""

    root: str
    top: str

    def listed(self) -> list[tuple[str, str, str]]:
        """The file, name and value of each setting."""
        program = find_own_program("git", Path(self.root))
        if not program:
            return []
        try:
            words = ("--list", "--show-origin", "--includes", "-z")
            output = _read_settings(program, self.root, words)
        except OSError:
            return []
        return [
            (os.path.join(self.top, origin.removeprefix("file:")), *_pair(setting))
            for origin, setting in _pairs(output)
            if origin.startswith("file:")
        ]

    def named(self, listed: list[tuple[str, str, str]]) -> Iterator[str]:
        for origin, key, text in listed:
            named = os.path.expanduser(text)
            if key.lower() == _HOOKS_PATH:
                yield from self._inside(os.path.join(self.top, named))
            elif _INCLUDED.fullmatch(key):
                yield from self._inside(os.path.join(os.path.dirname(origin), named))
            elif _RUN_BY_GIT.fullmatch(key):
                yield from self._scripts(text)

    def _scripts(self, line: str) -> Iterator[str]:
        """Files that a shell line may name. Git runs it in the top folder."""
        for word in filter(None, _BETWEEN_WORDS.split(line)):
            path = os.path.join(self.top, os.path.expanduser(word))
            if "/" in word or os.path.isfile(path):
                yield from self._inside(path)

    def _inside(self, path: str) -> Iterator[str]:
        for each in (os.path.normpath(path), os.path.realpath(path)):
            if within(each, self.root) and each != self.root:
                yield os.path.relpath(each, self.root)


def _pair(setting: str) -> tuple[str, str]:
    key, _, text = setting.partition("\n")
    return key, text
