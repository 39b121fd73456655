"""A project with worktrees, and a search for content that must not be lost.

Run as a program, it does one operation, so that a test can kill it at any point:
`worktree_folders.py remove PROJECT NAME`.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple, TypeVar

from msgspec.structs import replace

from rookery.manager.review.checkout_changes import KnownStats, checkout_of, stats_since
from rookery.manager.review.file_diffs import changes_of, diff_of
from rookery.manager.review.reviews import revert, revert_to
from rookery.manager.worktrees import apply, checkout_files, create, keep, merge, remove, reuse
from rookery.platform import worktree_project
from rookery.platform.worktree_git import Fetching, InTheWay
from rookery.platform.worktree_project import on_project
from rookery.platform.worktree_values import (
    BranchFate,
    Code,
    Created,
    RemovalPlan,
    Worktree,
)
from support.repositories import copy_of, new_template

T = TypeVar("T")
Bytes = set[tuple[str, bytes]]

PROJECT_FILES = {
    "a.txt": b"one\ntwo\nthree\nfour\nfive\n",
    "b.txt": b"bee\n",
    "crlf.txt": b"first\nsecond\n",
    "src/deep/c.py": b"print('c')\n",
    "run.sh": b"#!/bin/sh\n",
    "picture.bin": bytes(range(256)),
    ".gitattributes": b"crlf.txt text\n",
    ".gitignore": b"*.log\n/packages/\n.env*\n/cache/\n",
    ".worktreeinclude": b"cache/kept.db\n*.key\n",
}


def git(folder: Path, *words: str, given: bytes | None = None) -> bytes:
    identity = ("-c", "user.name=a", "-c", "user.email=b@c", "-c", "protocol.file.allow=always")
    done = subprocess.run(
        ["git", *identity, *words], cwd=folder, input=given, check=True, capture_output=True
    )
    return done.stdout


def result(kind: type[T], said: object) -> T:
    """The result of an operation that worked."""
    assert isinstance(said, kind), said
    return said


def code_of(said: object) -> Code:
    """The code of a refusal, after checking that its text is one sentence."""
    assert isinstance(said, InTheWay), said
    assert str(said).endswith(".")
    assert "\n" not in str(said)
    return said.code


def put(folder: Path, files: dict[str, bytes]) -> None:
    for path, data in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)


def _make_project(folder: Path) -> None:
    git(folder, "init", "-q", "-b", "main", "--template=")
    for name in ("hooks", "info"):  # without git's samples
        (folder / ".git" / name).mkdir()
    put(folder, PROJECT_FILES)
    (folder / "run.sh").chmod(0o755)
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "first")


class Operations:
    """The operations in some modules as methods, which return refusals. They may fetch from the
    local file system only."""

    def __init__(self, folder: Path, *modules: object) -> None:
        self._folder = folder
        self._fetching = Fetching(("file",))
        self._modules = modules

    def __getattr__(self, name: str) -> Callable[..., Any]:
        operation = next(getattr(each, name) for each in self._modules if hasattr(each, name))

        def answer(*given: Any, **named: Any) -> Any:
            try:
                return on_project(self._folder, self._fetching, operation, *given, **named)
            except InTheWay as error:
                return error

        return answer


def operations(folder: Path) -> Operations:
    return Operations(
        folder, apply, checkout_files, create, keep, merge, remove, reuse, worktree_project
    )


def review_operations(folder: Path) -> Operations:
    known: KnownStats = {}

    def on_checkout(operation: Callable[..., Any]) -> Callable[..., Any]:
        return lambda project, worktree, *given, **named: operation(
            checkout_of(project, worktree), *given, **named
        )

    reviews = {"changes": changes_of, "diff": diff_of, "revert": revert, "revert_to": revert_to}
    return Operations(
        folder,
        SimpleNamespace(
            **{name: on_checkout(each) for name, each in reviews.items()},
            stats=lambda project, worktree: stats_since(project, known, worktree),
        ),
    )


class WorktreeBench:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.handler = operations(folder)

    @classmethod
    def new(cls, folder: Path) -> "WorktreeBench":
        return cls(copy_of(_make_project, folder).resolve())

    @property
    def place(self) -> Path:
        return self.folder / ".roo" / "worktrees"

    def made(self, branch: str = "agent/work") -> Worktree:
        created = self.handler.create(branch, label="Work")
        assert isinstance(created, Created), created
        return created.worktree

    def begun(self, begin: "Callable[[WorktreeBench], Worktree]" = made) -> Worktree:
        """Apply `begin` to a new project. The result is created once and copied; worktrees store
        absolute paths, so those are replaced."""
        made = _begun(begin)
        assert files_in(self.folder) == set(PROJECT_FILES.items()), "nothing was done to it before"
        shutil.rmtree(self.folder)
        shutil.copytree(made.folder, self.folder, symlinks=True)
        old, new = os.fsencode(made.folder), os.fsencode(self.folder)
        for note in (
            *(self.folder / ".git/worktrees").glob("*/gitdir"),
            *(self.folder / ".git/worktrees").glob("*/rookery-worktree.json"),
            *self.place.glob("*/.git"),
        ):
            note.write_bytes(note.read_bytes().replace(old, new))
        path = self.folder / Path(made.worktree.path).relative_to(made.folder)
        return replace(made.worktree, path=str(path))

    def found(self, name: str) -> Worktree:
        listed = self.handler.all_listed()
        return next(each.worktree for each in listed if Path(each.worktree.path).name == name)

    def planned(self, worktree: Worktree) -> RemovalPlan:
        plan = self.handler.plan_removal(worktree)
        assert isinstance(plan, RemovalPlan), plan
        return plan

    def treasure(self, folder: Path) -> Bytes:
        """All content of a checkout that must be kept: files outside of package folders, and
        staged content. Links count as their targets."""
        files = {each for each in files_in(folder) if not each[0].startswith("packages/")}
        files = {each for each in files if not _is_cache(each[0])}
        staged = git(folder, "ls-files", "-s", "-z").split(b"\0")[:-1]
        rows = (row.split(b"\t", 1) for row in staged)
        return files | {
            (os.fsdecode(path), self._blob(about.split()[1].decode()))
            for about, path in rows
            if not about.startswith(b"160000")
        }

    def held(self) -> Bytes:
        """All content that can be recovered: from the project, from current and removed
        worktrees, and from references."""
        found = files_in(self.folder)
        for each in self.place.iterdir() if self.place.is_dir() else ():
            found |= files_in(each)
            found |= self._staged_in(each)
        for admin in (self.folder / ".git" / "worktrees").glob("*"):
            found |= self._indexed(admin)
        named = git(self.folder, "rev-list", "--all", "--objects").splitlines()  # fails if empty
        for line in named:
            found |= self._committed(line.decode()) if b" " not in line else set()
        return found

    def _committed(self, commit: str) -> Bytes:
        if commit not in _commits:
            rows = git(self.folder, "ls-tree", "-r", "-z", "--full-tree", commit).split(b"\0")[:-1]
            split = (row.split(b"\t", 1) for row in rows)
            _commits[commit] = {
                (os.fsdecode(path), self._blob(about.split()[2].decode()))
                for about, path in split
                if b" commit " not in about
            }
        return _commits[commit]

    def _staged_in(self, folder: Path) -> Bytes:
        return set() if not (folder / ".git").exists() else self._index_of(folder)

    def _index_of(self, folder: Path) -> Bytes:
        named = (folder / ".git").read_text().removeprefix("gitdir:").strip()
        return self._indexed(Path(named)) if Path(named).is_dir() else set()

    def _indexed(self, admin: Path) -> Bytes:
        if not all((admin / name).exists() for name in ("HEAD", "commondir", "index")):
            return set()  # git was killed while it removed the worktree
        rows = git(self.folder, f"--git-dir={admin}", "ls-files", "-s", "-z").split(b"\0")[:-1]
        split = (row.split(b"\t", 1) for row in rows)
        return {(os.fsdecode(path), self._blob(about.split()[1].decode())) for about, path in split}

    def _blob(self, known: str) -> bytes:
        if known not in _blobs:
            _blobs[known] = git(self.folder, "cat-file", "blob", known)
        return _blobs[known]


_blobs: dict[str, bytes] = {}
_commits: dict[str, Bytes] = {}
"""Content of commits, which is the same in all projects."""


class _Begun(NamedTuple):
    folder: Path
    worktree: Worktree


@cache
def _begun(begin: Callable[[WorktreeBench], Worktree]) -> _Begun:
    bench = WorktreeBench.new(new_template())
    return _Begun(bench.folder, begin(bench))


def files_in(folder: Path) -> Bytes:
    found: Bytes = set()
    for top, folders, names in os.walk(folder):
        folders[:] = [each for each in folders if each not in (".git", ".roo")]
        links = [each for each in folders if os.path.islink(os.path.join(top, each))]
        for name in (*names, *links):
            path = Path(top) / name
            shown = str(path.relative_to(folder))
            if shown == ".git" or shown.startswith(".roo/"):
                continue
            if path.is_symlink():
                found.add((shown, os.fsencode(os.readlink(path))))
            elif path.is_file():
                found.add((shown, path.read_bytes()))
    return found


def _is_cache(path: str) -> bool:
    return path.startswith("cache/") and path != "cache/kept.db"


def main(operation: str, project: str, name: str) -> None:
    bench = WorktreeBench(Path(project))
    if operation == "create":
        said: object = bench.handler.create(name)
    elif operation == "recover":
        said = bench.handler.recover()
    elif operation == "remove":
        said = bench.handler.remove(bench.planned(bench.found(name)))
    elif operation == "drop":
        said = bench.handler.remove(bench.planned(bench.found(name)), BranchFate.DELETE)
    else:
        said = getattr(bench.handler, operation)(bench.found(name))
    print(json.dumps(str(said)))


if __name__ == "__main__":
    main(*sys.argv[1:])
