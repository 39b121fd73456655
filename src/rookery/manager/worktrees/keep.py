"""Finds work that a checkout would lose, and saves it under a git reference beforehand.

Saved work is a commit whose tree is the checkout byte by byte. Its parents are the checked-out
commit; the index, if it differs; the sides of conflicts, if any; and every commit that only this
checkout refers to.
"""

import os
import re
import secrets
import subprocess
import tempfile
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import IO

from msgspec import Struct
from msgspec.structs import replace

from rookery import NAME, faults
from rookery.manager.worktrees.checkout_files import (
    LINK,
    MODULE,
    Contents,
    Stored,
    changed_files,
    contents_at,
    contents_of,
    id_of,
    included_files,
    index_of,
    open_plain,
    tree_of,
)
from rookery.platform.git_folders import entries, is_folder, regular_content
from rookery.platform.worktree_git import Git, GitCommandFailed, InTheWay
from rookery.platform.worktree_project import Project
from rookery.platform.worktree_values import KEEP_REFS, Code, KeptWork

_IGNORED = "!! "

_ID = re.compile(rb"\b[0-9a-f]{40}(?:[0-9a-f]{24})?\b")
_HEADS = ("MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "REBASE_HEAD", "ORIG_HEAD")
_STEPS = ("orig-head", "onto", "stopped-sha", "autostash", "amend")
_ELSEWHERE = ("--stdin", "--not", "--branches", "--tags", "--remotes", f"--glob={KEEP_REFS}*")
_LARGEST = 16 * 1024 * 1024
STAGED = "What was staged"
_COMMITTER = f"{NAME} <{NAME}@localhost>"


class Uncommitted(Struct, frozen=True, kw_only=True):
    """Everything in a checkout that is not in its commit."""

    head: str
    """The commit; empty if there is none yet."""
    committed: Mapping[str, Stored]
    changed: Mapping[str, Stored]
    gone: tuple[str, ...]
    staged: Mapping[str, Stored]
    conflicts: Mapping[int, Mapping[str, Stored]]
    commits: tuple[str, ...]
    """Commits that nothing else refers to."""

    @property
    def stages_something(self) -> bool:
        return dict(self.staged) != dict(self.committed)

    @property
    def paths(self) -> tuple[str, ...]:
        staged = {path for path, held in self.staged.items() if self.committed.get(path) != held}
        unstaged = self.committed.keys() - self.staged.keys() if self.stages_something else set()
        sides = {path for side in self.conflicts.values() for path in side}
        return tuple(sorted({*self.changed, *self.gone, *staged, *unstaged, *sides}))

    def __bool__(self) -> bool:
        return bool(self.paths or self.commits)


class WorkSurvey(Struct, frozen=True, kw_only=True):
    work: Uncommitted
    left_out: tuple[str, ...]
    """Folders that are ignored as a whole, such as those of installed packages."""
    contents: Contents


def survey(project: Project, git: Git) -> WorkSurvey:
    """Find the uncommitted work of a worktree, whose folder may have been renamed. Raises
    `InTheWay` if something can be neither saved nor ignored."""
    contents = contents_of(git.folder)
    if contents.nested:
        raise InTheWay(
            Code.NOT_KEPT,
            f"{contents.nested[0]} is a nested repository; move it out of the worktree first.",
            contents.nested,
        )
    if contents.unreadable:
        raise InTheWay(
            Code.NOT_KEPT,
            f"{contents.unreadable[0]} cannot be read; give yourself access to it first.",
            contents.unreadable,
        )
    ignored = _ignored(git)
    folders = tuple(path for path in ignored if path.endswith("/"))
    wanted = _wanted(project, git, ignored)
    work = uncommitted(project, git, contents, wanted)
    return WorkSurvey(work=work, left_out=folders, contents=contents)


def uncommitted(
    project: Project, git: Git, contents: Contents, wanted: Callable[[str], bool]
) -> Uncommitted:
    head = git.commit("HEAD")
    committed = tree_of(git, head)
    index = index_of(git)
    algorithm = project.object_format
    return Uncommitted(
        head=head,
        committed=committed,
        changed=changed_files(git.folder, contents, committed, wanted, algorithm),
        gone=tuple(
            path
            for path, held in committed.items()
            if path not in contents.files and held.mode != MODULE
        ),
        staged=index.pop(0, {}) if index else committed,
        conflicts=index,
        commits=lone_commits(git),
    )


def work_without_files(project: Project, git: Git) -> Uncommitted:
    """What git still has of a worktree whose folder is gone."""
    none = Contents(files={}, nested=(), unreadable=())
    found = uncommitted(project, git, none, lambda _: False)
    return replace(found, changed={}, gone=())


def keep_files(
    project: Project,
    paths: Collection[str],
    about: str,
    *,
    git: Git | None = None,
    name: str = "project",
) -> KeptWork | None:
    """Save files that are about to be overwritten, unless they are committed as they are."""
    git = git or project.git
    found = uncommitted(project, git, contents_at(git.folder, paths), {*paths}.__contains__)
    others = {path: held for path, held in found.committed.items() if path not in paths}
    work = replace(
        found,
        gone=tuple(path for path in found.gone if path in paths),
        staged=others | {path: held for path, held in found.staged.items() if path in paths},
        commits=(),
    )
    return keep(git, name, about, work) if work else None


def keep(git: Git, name: str, about: str, work: Uncommitted) -> KeptWork:
    """Save work under a new reference. It is on disk, and verified, when this returns."""
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    ref = f"{KEEP_REFS}{name}-{stamp}-{secrets.token_hex(3)}"
    _import(git, lambda to: _write_commands(to, git, ref, about, work))
    commit = git.commit(ref)
    held = tree_of(git, commit)
    lacking = [path for path, now in work.changed.items() if held.get(path) != now]
    if not commit or lacking:
        raise InTheWay(
            Code.CHANGED, "Files changed while they were saved; stop what writes there.", lacking
        )
    faults.kp("worktree.kept")
    return KeptWork(ref=ref, commit=commit, about=about)


def keeps(project: Project) -> tuple[KeptWork, ...]:
    """All saved work, oldest first."""
    form = "--format=%(refname)%00%(objectname)%00%(subject)"
    lines = project.git.output("for-each-ref", "--sort=creatordate", form, KEEP_REFS).splitlines()
    rows = (line.split("\0") for line in lines)
    return tuple(KeptWork(ref=ref, commit=commit, about=about) for ref, commit, about in rows)


def lone_commits(git: Git) -> tuple[str, ...]:
    """Commits this checkout refers to, as in an unfinished rebase, that are in no branch."""
    said = b"\n".join(_admin_files(git.git_folder))
    known = dict.fromkeys(found.decode() for found in _ID.findall(said))
    asked = "".join(f"{each}\n" for each in known).encode()
    checked = git.run("cat-file", "--batch-check", given=asked).text.splitlines()
    commits = [line.split()[0] for line in checked if line.split()[1:2] == ["commit"]]
    if not commits:
        return ()
    asked = "".join(f"{each}\n" for each in commits).encode()
    lines = git.run("rev-list", "--parents", *_ELSEWHERE, given=asked).text.splitlines()
    lone = {line.split()[0]: line.split()[1:] for line in lines}
    followed = {parent for parents in lone.values() for parent in parents}
    return tuple(each for each in lone if each not in followed)


def _ignored(git: Git) -> list[str]:
    words = ("--porcelain", "-z", "--no-renames", "--ignored=matching", "--untracked-files=all")
    lines = git.names("status", *words)
    return [line.removeprefix(_IGNORED) for line in lines if line.startswith(_IGNORED)]


def _wanted(project: Project, git: Git, ignored: Collection[str]) -> Callable[[str], bool]:
    """Return a test whether to save an uncommitted file: not in folders ignored as a whole,
    unless it was copied there, and not if the project has an identical copy."""
    folders = tuple(path for path in ignored if path.endswith("/"))
    included = {*included_files(project, git)}
    single = {path for path in ignored if not path.endswith("/")} | included

    def wanted(path: str) -> bool:
        if path.startswith(folders) and path not in included:
            return False
        return path not in single or not _is_identical(project, git.folder, path)

    return wanted


def _is_identical(project: Project, folder: Path, path: str) -> bool:
    mine, other = folder / path, project.folder / path
    if mine.is_symlink() or other.is_symlink() or not other.is_file() or not mine.is_file():
        return False
    if any((project.folder / parent).is_symlink() for parent in Path(path).parents):
        return False
    if os.stat(mine).st_size != os.stat(other).st_size:
        return False
    ids = {id_of(each, "", project.object_format) for each in (mine, other)}
    return len(ids) == 1


def _admin_files(admin: Path) -> list[bytes]:
    steps = [f"{way}/{step}" for way in ("rebase-merge", "rebase-apply") for step in _STEPS]
    named = [str(admin / name) for name in (*_HEADS, "HEAD", "logs/HEAD", *steps)]
    return [regular_content(each, _LARGEST) or b"" for each in (*named, *_refs(str(admin)))]


def _refs(admin: str) -> list[str]:
    """References of this worktree only; those of the main checkout are shared."""
    found, waiting = list[str](), [f"{admin}/refs"] if os.path.exists(f"{admin}/commondir") else []
    while waiting:
        for each in entries(waiting.pop()):
            (waiting if is_folder(each) else found).append(each)
    return found


def _import(git: Git, write: Callable[[IO[bytes]], None]) -> None:
    words = ("fast-import", "--quiet", "--done", "--date-format=raw")
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            git.words(*words, durable=True),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            cwd=git.git_folder,
            env=git.environment,
        )
        assert process.stdin
        try:
            with process.stdin as to:
                write(to)
        except BrokenPipeError:
            pass  # its error output says why
        except BaseException:
            process.kill()
            process.wait()
            raise
        if process.wait():
            errors.seek(0)
            raise GitCommandFailed(
                words, process.returncode, errors.read().decode("utf-8", "replace")
            )


def _write_commands(to: IO[bytes], git: Git, ref: str, about: str, work: Uncommitted) -> None:
    more: list[str] = []
    if work.stages_something:
        _commit(to, ref, ":1", STAGED, [work.head])
        _difference(to, work.committed, work.staged)
        more.append(":1")
    if work.conflicts:
        _commit(to, ref, ":2", "The sides of what was in conflict", [])
        to.write(b"deleteall\n")
        for stage, side in work.conflicts.items():
            for path, held in side.items():
                _line(to, held, f"{stage}/{path}")
        more.append(":2")
    _commit(to, ref, ":3", about, [work.head, *more, *work.commits])
    for path in (*work.gone, *(path for path in work.changed if path in work.committed)):
        to.write(b"D " + _quoted(path) + b"\n")
    for path, held in work.changed.items():
        to.write(b"M %s inline %s\n" % (held.mode.encode(), _quoted(path)))
        _data(to, git.folder / path, held.mode)
    to.write(b"done\n")


def _commit(to: IO[bytes], ref: str, mark: str, about: str, parents: Sequence[str]) -> None:
    said = about.encode("utf-8", "surrogateescape")
    when = int(time.time())
    head = f"commit {ref}\nmark {mark}\ncommitter {_COMMITTER} {when} +0000\ndata {len(said)}\n"
    to.write(head.encode() + said + b"\n")
    known = list(dict.fromkeys(filter(None, parents)))
    for at, parent in enumerate(known):
        to.write(f"{'merge' if at else 'from'} {parent}\n".encode())
    if not known:
        to.write(b"deleteall\n")


def _difference(to: IO[bytes], old: Mapping[str, Stored], new: Mapping[str, Stored]) -> None:
    for path in old.keys() - new.keys():
        to.write(b"D " + _quoted(path) + b"\n")
    for path, held in new.items():
        if old.get(path) != held:
            _line(to, held, path)


def _line(to: IO[bytes], held: Stored, path: str) -> None:
    to.write(f"M {held.mode} {held.id} ".encode() + _quoted(path) + b"\n")


def _data(to: IO[bytes], path: Path, mode: str) -> None:
    if mode == LINK:
        target = os.fsencode(os.readlink(path))
        to.write(b"data %d\n%s\n" % (len(target), target))
        return
    with open_plain(path) as file:
        left = os.fstat(file.fileno()).st_size
        to.write(b"data %d\n" % left)
        while left:
            data = file.read(min(left, 1024 * 1024))
            if not data:
                raise InTheWay(
                    Code.CHANGED, f"{path} was truncated while it was saved.", [str(path)]
                )
            to.write(data)
            left -= len(data)
    to.write(b"\n")


def _quoted(path: str) -> bytes:
    data = os.fsencode(path).replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n")
    return b'"' + data + b'"'
