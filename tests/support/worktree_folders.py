"""A project with worktrees, and a search for bytes that must not be lost.

Run as a program it does one operation, so that a test can have it killed at any point:
`worktree_folders.py remove PROJECT NAME`.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

from rookery.manager.worktrees.create import Fetching
from rookery.manager.worktrees.operations import WorktreeOperations
from rookery.manager.worktrees.worktree_values import (
    BranchFate,
    Created,
    Obstacle,
    RemovalPlan,
    Worktree,
)
from support.repositories import copy_of

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


def put(folder: Path, files: dict[str, bytes]) -> None:
    for path, data in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)


def _make_project(folder: Path) -> None:
    git(folder, "init", "-q", "-b", "main", "--template=")
    for name in ("hooks", "info"):  # without the samples that git puts there
        (folder / ".git" / name).mkdir()
    put(folder, PROJECT_FILES)
    (folder / "run.sh").chmod(0o755)
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "first")


class WorktreeBench:
    """`desk` asks no network but the local file system."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.desk = WorktreeOperations(folder, fetching=Fetching(("file",)))

    @classmethod
    def new(cls, folder: Path) -> "WorktreeBench":
        return cls(copy_of(_make_project, folder).resolve())

    @property
    def place(self) -> Path:
        return self.folder / ".roo" / "worktrees"

    def made(self, branch: str = "agent/work") -> Worktree:
        created = self.desk.create(branch, label="Work")
        assert isinstance(created, Created), created
        return created.worktree

    def found(self, name: str) -> Worktree:
        listed = self.desk.listed()
        assert not isinstance(listed, Obstacle)
        return next(each.worktree for each in listed if Path(each.worktree.path).name == name)

    def planned(self, worktree: Worktree) -> RemovalPlan:
        plan = self.desk.plan_removal(worktree)
        assert isinstance(plan, RemovalPlan), plan
        return plan

    def treasure(self, folder: Path) -> Bytes:
        """Everything of worth in a checkout: its files, but for folders of packages, and what is
        staged. Links count as where they lead."""
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
        """Everything that can be found again: in the project, where worktrees are or were, and
        under references."""
        found = files_in(self.folder)
        for each in self.place.iterdir() if self.place.is_dir() else ():
            found |= files_in(each)
            found |= self._staged_in(each)
        for admin in (self.folder / ".git" / "worktrees").glob("*"):
            found |= self._indexed(admin)
        commits = git(self.folder, "rev-list", "--all").decode().split()
        for commit in commits:
            found |= self._committed(commit)
        return found

    def _committed(self, commit: str) -> Bytes:
        rows = git(self.folder, "ls-tree", "-r", "-z", "--full-tree", commit).split(b"\0")[:-1]
        split = (row.split(b"\t", 1) for row in rows)
        return {
            (os.fsdecode(path), self._blob(about.split()[2].decode()))
            for about, path in split
            if b" commit " not in about
        }

    def _staged_in(self, folder: Path) -> Bytes:
        return set() if not (folder / ".git").exists() else self._index_of(folder)

    def _index_of(self, folder: Path) -> Bytes:
        named = (folder / ".git").read_text().removeprefix("gitdir:").strip()
        return self._indexed(Path(named)) if Path(named).is_dir() else set()

    def _indexed(self, admin: Path) -> Bytes:
        if not all((admin / name).exists() for name in ("HEAD", "commondir", "index")):
            return set()  # git was killed while it forgot the worktree
        rows = git(self.folder, f"--git-dir={admin}", "ls-files", "-s", "-z").split(b"\0")[:-1]
        split = (row.split(b"\t", 1) for row in rows)
        return {(os.fsdecode(path), self._blob(about.split()[1].decode())) for about, path in split}

    def _blob(self, known: str) -> bytes:
        if known not in _blobs:
            _blobs[known] = git(self.folder, "cat-file", "blob", known)
        return _blobs[known]


_blobs: dict[str, bytes] = {}


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
        said: object = bench.desk.create(name)
    elif operation == "recover":
        said = bench.desk.recover()
    elif operation == "remove":
        said = bench.desk.remove(bench.planned(bench.found(name)))
    elif operation == "drop":
        said = bench.desk.remove(bench.planned(bench.found(name)), BranchFate.DELETE)
    else:
        said = getattr(bench.desk, operation)(bench.found(name))
    print(json.dumps(str(said)))


if __name__ == "__main__":
    main(*sys.argv[1:])
