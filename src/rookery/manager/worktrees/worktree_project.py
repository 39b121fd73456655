"""A project with its repository, and the places in it that worktrees are kept in."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

from rookery import NAME, PROJECT_FOLDER
from rookery.manager.worktrees.worktree_git import Git, InTheWay
from rookery.manager.worktrees.worktree_values import Code
from rookery.platform.git.git_folders import common_folder, is_folder
from rookery.platform.processes.own_programs import find_own_program

OWN_FOLDER = ".roo"
WORKTREES = "worktrees"
SETUP_SCRIPT, RUN_SCRIPT = "setup-script", "run-script"
REMOVING, DELETING = ".removing-", ".deleting-"
"""How the folders are called of which a removal has begun; of the second kind all is kept."""
WAIT = 120.0
"""Seconds after which somebody who works on the same repository is not waited for any longer."""
_PAUSE = 0.05


class Project:
    """Its folder is the top of a checkout: the first one, or a worktree itself."""

    def __init__(self, folder: Path) -> None:
        """Raises `InTheWay` if there is no git, no repository or no commit."""
        self.folder = folder.resolve()
        own = self.folder / ".git"
        self.program = find_own_program("git", self.folder)
        if not self.program:
            raise InTheWay(Code.GIT_NOT_FOUND, "There is no git to be found; install it.")
        found = str(own) if is_folder(str(own)) else common_folder(str(self.folder))
        if not found:
            raise InTheWay(
                Code.NOT_GIT_REPO, f"{self.folder} is not the top of a git repository; open that."
            )
        self.common = Path(found)
        own_part = own if is_folder(str(own)) else _named_by(own)
        self.git = Git(self.program, own_part, self.folder, self.common)

    @property
    def place(self) -> Path:
        return self.folder / OWN_FOLDER / WORKTREES

    def demand_commits(self) -> None:
        if not self.git.commit("HEAD") and not self.branches:
            raise InTheWay(Code.NO_COMMITS, f"{self.folder} has no commit yet; make the first one.")

    @property
    def branches(self) -> list[str]:
        said = self.git.said("for-each-ref", "--format=%(refname:lstrip=2)", "refs/heads")
        return said.splitlines()

    @property
    def remotes(self) -> list[str]:
        return self.git.said("remote").splitlines()

    @property
    def current_branch(self) -> str:
        """Empty if a commit is checked out rather than a branch."""
        return self.git.ask("symbolic-ref", "-q", "--short", "HEAD").text.strip()

    @contextmanager
    def alone(self, *, wait: float = WAIT) -> Iterator[None]:
        """One writer for each repository; the lock dies with whoever holds it."""
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(self.common / f"{NAME}-worktrees.lock", flags, 0o600)
        try:
            _take(descriptor, time.monotonic() + wait)
            yield
        finally:
            os.close(descriptor)

    def make_place(self) -> None:
        """The folder for worktrees, which git does not see: neither here nor in a worktree."""
        for folder in (self.place.parent, self.place):
            if folder.is_symlink():
                raise InTheWay(
                    Code.OUTSIDE, f"{folder} is a link; put a folder in its place.", [str(folder)]
                )
            folder.mkdir(exist_ok=True)
        files = (SETUP_SCRIPT, RUN_SCRIPT)
        own = [f"/{folder}/{name}*" for folder in (OWN_FOLDER, PROJECT_FOLDER) for name in files]
        self._exclude(f"/{OWN_FOLDER}/{WORKTREES}/", *own)

    def _exclude(self, *patterns: str) -> None:
        file = self.common / "info" / "exclude"
        file.parent.mkdir(exist_ok=True)
        there = file.read_bytes() if file.exists() else b""
        lines = there.splitlines()
        missing = [each for each in patterns if each.encode() not in lines]
        if missing:
            gap = b"" if there.endswith(b"\n") or not there else b"\n"
            with file.open("ab") as opened:
                opened.write(gap + "".join(f"{each}\n" for each in missing).encode())

    @cached_property
    def object_format(self) -> str:
        return self.git.said("rev-parse", "--show-object-format")


def _named_by(file: Path) -> Path:
    """Where a `.git` file leads; `common_folder` has found that it leads back."""
    said = file.read_text(encoding="utf-8").splitlines()[0].removeprefix("gitdir:").strip()
    return (file.parent / said).resolve()


def _take(descriptor: int, until: float) -> None:
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() >= until:
                raise InTheWay(
                    Code.LOCKED, "Somebody else works on the worktrees of this project; wait."
                ) from None
        time.sleep(_PAUSE)
