"""Runs git for worktrees, hardened and without filters, merge drivers and hooks.

The repository is always named explicitly, never discovered: everything in a checkout, including its
`.git` file, may have been written by an agent. `own_index` yields a copy of the index.
"""

import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TypeAlias

from rookery import NAME
from rookery.errors import CommandRejected
from rookery.platform.own_programs import (
    GitAnswer,
    ProgramTimeout,
    disabled_programs,
    git_hardening,
    hardened,
    read_settings,
    run_git,
    sub_command,
    without_git_variables,
)
from rookery.platform.paths import visible
from rookery.platform.plain_runner import NAMED_PROGRAMS
from rookery.platform.worktree_values import Code

_OWN = ("core.quotePath=false", "advice.detachedHead=false", "commit.gpgSign=false")
_DURABLE = ("core.fsync=all", "core.fsyncMethod=fsync", "fastimport.unpackLimit=1")
_FULL = ("No space left on device", "Disk quota exceeded")
_LONGEST, _LONGEST_WRITING = 120.0, 1800.0
"""Time limits in seconds: git would wait for ever on a pipe in place of a file."""
_WRITING = frozenset(("worktree", "merge", "commit", "apply", "update-index", "read-tree"))
_PROTOCOLS = ("https", "ssh")
_FRESH_SECONDS = 60.0
_LONGEST_FETCH = 30.0
_NO_PROGRAMS = ("-c", "credential.helper=", "-c", "core.alternateRefsCommand=true")
_FETCH_OPTIONS = (
    "--no-tags",
    "--no-recurse-submodules",
    "--no-write-fetch-head",
    "--no-auto-maintenance",
    "--upload-pack=git-upload-pack",
)
_LOCKED = (".lock': File exists", "is locked", "Unable to create")


Given: TypeAlias = bytes | Sequence[str]
"""Input of a command: bytes, or paths that it reads with `-z`."""


class InTheWay(CommandRejected):
    """Nothing was done. The message says why; `paths` are the files concerned."""

    def __init__(self, code: Code, text: str, paths: Sequence[str] = ()) -> None:
        super().__init__(visible(text))
        self.code = code
        self.paths = tuple(paths)


class GitCommandFailed(InTheWay):
    """A git command failed. `said` is its error output, `reason` the line that matters."""

    def __init__(self, words: Sequence[str], status: int, said: str) -> None:
        self.said = said
        self.reason = _reason(said) or f"status {status}"
        super().__init__(_code(said), f"git {words[0]} failed: {self.reason}.")


class Git:
    """Git on one checkout: `folder` holds its files, `git_folder` its git data, `common` the
    data of the repository."""

    def __init__(self, program: str, git_folder: Path, folder: Path, common: Path) -> None:
        self.program = program
        self.git_folder = git_folder
        self.folder = folder
        self.common = common

    def at(self, git_folder: Path, folder: Path) -> "Git":
        return Git(self.program, git_folder, folder, self.common)

    def output(self, *words: str, **more: str) -> str:
        """The output of a command, stripped."""
        return self.run(*words, variables=more).text.strip()

    def names(self, *words: str, given: Given = b"", **more: str) -> list[str]:
        return self.run(*words, given=given, variables=more).names

    def add(self, paths: Sequence[str], **more: str) -> None:
        """Put files into the index as they are on disk."""
        words = ("update-index", "--add", "--remove", "--replace", "-z", "--stdin")
        self.run(*words, given=paths, variables=more)

    def succeeds(self, *words: str) -> bool:
        return self.ask(*words).status == 0

    def commit(self, name: str) -> str:
        """The commit a name stands for; empty if there is none."""
        if not name or name.startswith("-"):
            return ""
        return self.ask("rev-parse", "--verify", "-q", f"{name}^{{commit}}").text.strip()

    def run(
        self, *words: str, given: Given = b"", variables: Mapping[str, str] | None = None
    ) -> GitAnswer:
        answer = self.ask(*words, given=given, variables=variables)
        if answer.status:
            raise GitCommandFailed(words, answer.status, answer.errors)
        return answer

    def ask(
        self,
        *words: str,
        given: Given = b"",
        variables: Mapping[str, str] | None = None,
        seconds: float | None = None,
    ) -> GitAnswer:
        """Run git and return its answer for any exit status. Raises `InTheWay` on timeout."""
        what = words[sub_command(("git", *words)) - 1]
        longest = seconds or (_LONGEST_WRITING if what in _WRITING else _LONGEST)
        try:
            return run_git(
                self.program,
                _configured(words),
                folder=self._inside,
                variables={**self.environment, **(variables or {})},
                given=given if isinstance(given, bytes) else _nul_ended(given),
                seconds=longest,
            )
        except ProgramTimeout as error:
            raise InTheWay(
                Code.GIT_FAILED,
                f"git {what} did not finish in {self.folder} within {longest:g} s and was stopped. "
                "Check for files that cannot be read, such as a pipe.",
            ) from error

    def words(self, *words: str, durable: bool = False) -> tuple[str, ...]:
        return hardened((self.program, *_configured(words, durable)), git_hardening()[1])

    @cached_property
    def environment(self) -> dict[str, str]:
        """Environment that clears each program named in the repository's settings and sets the
        user's identity for commits."""
        bare = {
            **self._named,
            **git_hardening()[0],
            "GIT_WORK_TREE": str(self.folder),
            "GIT_LITERAL_PATHSPECS": "1",
            "LC_ALL": "C",
        }
        asked = ("config", "-z", "--name-only", "--get-regexp", NAMED_PROGRAMS)
        keys = run_git(
            self.program, _configured(asked), folder=self.git_folder, variables=bare
        ).names
        return {**bare, **disabled_programs(keys), **self._identity}

    @property
    def _inside(self) -> Path:
        return self.folder if self.folder.is_dir() else self.git_folder

    @property
    def _named(self) -> dict[str, str]:
        """Variables that name the repository. An agent can write to git's folder for its
        worktree, where a file could point git to another repository with settings of its own."""
        own = {"GIT_DIR": str(self.git_folder), "GIT_COMMON_DIR": str(self.common)}
        return {**without_git_variables(), **own}

    @property
    def _identity(self) -> dict[str, str]:
        """The user's name and email from the git settings."""
        asked = ("-z", "--get-regexp", r"^user\.(name|email)$")
        found = read_settings(self.program, asked, folder=self.git_folder, environment=self._named)
        rows = (row.partition("\n") for row in found.split("\0"))
        held = {key: text.strip() for key, _, text in rows}
        usual = {"NAME": ("user.name", NAME), "EMAIL": ("user.email", f"{NAME}@localhost")}
        said: dict[str, str] = {}
        for what, (key, otherwise) in usual.items():
            for who in ("AUTHOR", "COMMITTER"):
                name = f"GIT_{who}_{what}"
                said[name] = os.environ.get(name) or held.get(key) or otherwise
        return said


class Fetching:
    """Fetches branches, at most once a minute each. Without protocols it fetches nothing."""

    def __init__(self, protocols: Sequence[str] = _PROTOCOLS) -> None:
        self.protocols = tuple(protocols)
        self._fetched: dict[tuple[str, str, str], float] = {}

    def fetch(self, git: Git, remote: str, branch: str) -> bool:
        key = (str(git.common), remote, branch)
        if time.monotonic() - self._fetched.get(key, float("-inf")) < _FRESH_SECONDS:
            return True
        if not self.protocols or not self._fetch(git, remote, branch):
            return False
        self._fetched[key] = time.monotonic()
        return True

    def _fetch(self, git: Git, remote: str, branch: str) -> bool:
        allowed = {
            "GIT_ALLOW_PROTOCOL": ":".join(self.protocols),
            "GIT_SSH_COMMAND": "ssh -oBatchMode=yes -oConnectTimeout=10",
        }
        spec = f"+refs/heads/{branch}:refs/remotes/{remote}/{branch}"
        try:
            words = (*_NO_PROGRAMS, "fetch", *_FETCH_OPTIONS, "--", remote, spec)
            return not git.ask(*words, variables=allowed, seconds=_LONGEST_FETCH).status
        except InTheWay:
            return False


@contextmanager
def own_index(git: Git) -> Iterator[dict[str, str]]:
    """A temporary copy of the index, as the variable that selects it."""
    with tempfile.TemporaryDirectory(prefix="worktree-") as folder:
        index = Path(folder) / "index"
        if (git.git_folder / "index").exists():
            shutil.copy2(git.git_folder / "index", index)
        yield {"GIT_INDEX_FILE": str(index)}


def _nul_ended(paths: Sequence[str]) -> bytes:
    return b"".join(os.fsencode(path) + b"\0" for path in paths)


def _configured(words: Sequence[str], durable: bool = False) -> tuple[str, ...]:
    settings = (*_OWN, *(_DURABLE if durable else ()))
    return (*(word for each in settings for word in ("-c", each)), *words)


def _reason(said: str) -> str:
    lines = [line for line in said.strip().splitlines() if line]
    counting = [line for line in lines if line.startswith(("fatal: ", "error: "))] or lines[-1:]
    return counting[0].removeprefix("fatal: ").removeprefix("error: ").rstrip(".") if lines else ""


def _code(said: str) -> Code:
    if any(words in said for words in _FULL):
        return Code.DISK_FULL
    if any(words in said for words in _LOCKED):
        return Code.LOCKED
    return Code.GIT_FAILED
