"""Staged and committed changes, read from git and judged by scope.

Git runs without any program that the repository's settings name. The target of a symlink is judged
as well as the link itself.
"""

import os
import posixpath
import re
import unicodedata
from collections.abc import Iterator, Sequence

from msgspec import Struct

from rookery.core.modes import GOVERNANCE_FOLDER
from rookery.errors import RookeryError
from rookery.governance.layout import Layout
from rookery.governance.scope.scope_verdict import (
    Location,
    Op,
    Outside,
    PathFinding,
    ScopeRules,
    judge,
)
from rookery.platform.own_programs import GitAnswer, find_own_program, run_git

TRAILER = re.compile(r"^Intent:[ \t]*(?P<id>[A-Za-z][A-Za-z0-9_.-]{0,63})[ \t]*$", re.I | re.M)
HOST_WRITTEN = ("AGENT.md", "AGENT.archive.md", "intent_map.md", "agent_trace.jsonl", "trace/")
"""Files that rookery itself writes into the governance folder and users commit with their work."""

_LINK = "120000"
_LARGEST_LINK = 4096
_OPS = {"A": Op.CREATE, "C": Op.CREATE, "D": Op.DELETE}


class GitFailed(RookeryError):
    """Raised if git cannot be run or fails."""


class CommittedFile(Struct, frozen=True):
    """`path`, and `target` for a symlink, are relative to the repository."""

    path: str
    op: Op
    target: str = ""


class CommittedChange(Struct, frozen=True, kw_only=True):
    """A commit, or the staged changes, which have no `revision`."""

    revision: str = ""
    subject: str = ""
    intent_ids: tuple[str, ...] = ()
    files: tuple[CommittedFile, ...] = ()


class BranchIntent(Struct, frozen=True):
    """The intent of a branch, and where it was found."""

    intent_id: str
    source: str


def trailer_intents(message: str) -> tuple[str, ...]:
    """Ids from the `Intent:` trailers of a commit message."""
    return tuple(dict.fromkeys(each["id"] for each in TRAILER.finditer(message)))


class CommittedChanges:
    """Changes in the repository around the governance root. Raises `GitFailed` if there is none."""

    def __init__(self, layout: Layout) -> None:
        here = layout.root.resolve()
        top = next((each for each in (here, *here.parents) if (each / ".git").exists()), None)
        program = find_own_program("git", here)
        if top is None or not program:
            raise GitFailed(f"{here} is not in a git repository, or git is not installed.")
        self.top = top
        self._layout = layout
        self._program = program

    def staged(self) -> CommittedChange:
        """The staged changes."""
        head = self._try_run("rev-parse", "--verify", "-q", "HEAD")
        base = "HEAD" if head else self._empty_tree()
        output = self._run("diff-index", "--cached", "--raw", "-z", "-M", "--no-abbrev", base)
        return CommittedChange(files=tuple(self._files(output)))

    def branch_intent(self) -> BranchIntent | None:
        """Find the `Intent:` trailer of the branch description, or else of the last commit."""
        branch = self._try_run("symbolic-ref", "--short", "-q", "HEAD").strip()
        description = self._try_run("config", f"branch.{branch}.description") if branch else ""
        if found := TRAILER.search(description):
            return BranchIntent(found["id"], "branch trailer")
        last = self._try_run("log", "-1", "--format=%B")
        found = TRAILER.search(last)
        return BranchIntent(found["id"], "the last commit's trailer") if found else None

    def commits(self, revisions: str) -> tuple[CommittedChange, ...]:
        """Read the commits of a range such as `main..topic`, oldest first."""
        if revisions.startswith("-") or ".." not in revisions:
            raise GitFailed(f"{revisions} is not a range of commits, such as main..HEAD.")
        output = self._run("rev-list", "--reverse", "--topo-order", revisions, "--").decode()
        return tuple(map(self._commit, output.split()))

    def judge_change(self, change: CommittedChange, rules: ScopeRules) -> tuple[PathFinding, ...]:
        """Judge each file of a commit. Files that rookery writes itself are skipped."""
        findings: list[PathFinding] = []
        for file in change.files:
            if not self._is_host_written(file.path):
                findings.append(judge(self._location(file.path), file.op, rules))
                if file.target:
                    findings.append(judge(self._location(file.target), Op.LINK, rules))
        return tuple(findings)

    def is_governance_only(self, change: CommittedChange) -> bool:
        """Whether a commit changes nothing outside the governance folder, so needs no intent."""
        inside = f"{self._prefix}{GOVERNANCE_FOLDER}/"
        return all(each.path.startswith(inside) for each in change.files)

    @property
    def _prefix(self) -> str:
        below = self._layout.root.resolve().relative_to(self.top).as_posix()
        return "" if below == "." else f"{below}/"

    def _is_host_written(self, path: str) -> bool:
        inside = f"{self._prefix}{GOVERNANCE_FOLDER}/"
        name = path.removeprefix(inside)
        return path.startswith(inside) and any(
            name == each or (each.endswith("/") and name.startswith(each)) for each in HOST_WRITTEN
        )

    def _location(self, path: str) -> Location:
        """Locate a path by its text alone: git tracks no files behind symlinks."""
        if path.startswith(("/", "../")) or path == "..":
            return Location(named=path, real=path, outside=Outside.LINK)
        named = unicodedata.normalize("NFC", path)
        governed = named.startswith(self._prefix)
        relative = named.removeprefix(self._prefix) if governed else named
        return Location(named=relative, real=relative, governed=governed)

    def _commit(self, revision: str) -> CommittedChange:
        subject, _, body = (
            self._run("log", "-1", "--format=%s%x00%B", revision)
            .decode("utf-8", "replace")
            .partition("\0")
        )
        parents = self._run("rev-list", "--parents", "-n", "1", revision).split()[1:]
        # a merge's own changes are those that differ from all of its parents
        options = ["-c"] if len(parents) > 1 else ["--root", "-M"]
        output = self._run(
            "diff-tree", "--no-commit-id", "-r", "--raw", "-z", "--no-abbrev", *options, revision
        )
        return CommittedChange(
            revision=revision,
            subject=subject,
            intent_ids=trailer_intents(body),
            files=tuple(self._files(output)),
        )

    def _files(self, raw: bytes) -> Iterator[CommittedFile]:
        """Parse the raw diff: modes, blobs and a status, then one path, or two for a rename."""
        words = iter(os.fsdecode(raw).split("\0"))
        for header in words:
            if not header.startswith(":"):
                continue
            parts = header.lstrip(":").split(" ")
            status, parents = parts[-1], len(header) - len(header.lstrip(":"))
            mode, blob = parts[parents], parts[2 * parents + 1]
            path = next(words, "")
            if status[:1] == "R":
                yield CommittedFile(path, Op.RENAME)
            if status[:1] in ("R", "C"):
                path = next(words, "")
            op = Op.CREATE if status[:1] == "R" else _OPS.get(status[:1], Op.MODIFY)
            links = mode == _LINK and op is not Op.DELETE
            yield CommittedFile(path, op, self._target(path, blob) if links else "")

    def _target(self, path: str, blob: str) -> str:
        target = os.fsdecode(self._run("cat-file", "blob", blob)[:_LARGEST_LINK])
        if target.startswith("/"):
            return target
        return posixpath.normpath(posixpath.join(posixpath.dirname(path), target))

    def _empty_tree(self) -> str:
        return self._run("hash-object", "-t", "tree", "--stdin").decode().strip()

    def _try_run(self, *words: str) -> str:
        """Return git's output, or an empty string if git fails."""
        answer = self._git(words)
        return answer.out.decode("utf-8", "replace") if not answer.status else ""

    def _run(self, *words: str) -> bytes:
        answer = self._git(words)
        if answer.status:
            raise GitFailed(f"git {words[0]} failed: {answer.last_error}")
        return answer.out

    def _git(self, words: Sequence[str]) -> GitAnswer:
        """Run git. Of git's variables only GIT_INDEX_FILE is passed on, because a commit hook
        may run with an index of its own."""
        index = os.environ.get("GIT_INDEX_FILE")
        variables = {"GIT_INDEX_FILE": str(self.top / index)} if index else {}
        top = str(self.top)
        try:
            return run_git(self._program, words, folder=top, root=top, variables=variables)
        except OSError as error:
            raise GitFailed(f"git cannot be run ({error.strerror}).") from error
