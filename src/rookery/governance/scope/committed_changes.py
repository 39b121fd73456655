"""What git is about to commit, or has committed, and for which intent.

Nothing that a repository's settings name is run. Of a link, where it leads is told too: it must
lie in the scope like the link itself.
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
from rookery.platform.git_runner import GitAnswer, run_git
from rookery.platform.own_programs import find_own_program

TRAILER = re.compile(r"^Intent:[ \t]*(?P<id>[A-Za-z][A-Za-z0-9_.-]{0,63})[ \t]*$", re.I | re.M)
HOST_WRITTEN = ("AGENT.md", "AGENT.archive.md", "intent_map.md", "agent_trace.jsonl", "trace/")
"""What the host itself writes into the governance folder, and people commit with the work."""

_LINK = "120000"
_LARGEST_LINK = 4096
_OPS = {"A": Op.CREATE, "C": Op.CREATE, "D": Op.DELETE}


class GitUnread(RookeryError):
    """Git did not tell what was asked."""


class CommittedFile(Struct, frozen=True):
    """`path` is relative to the repository, and so is `target`, where a link leads."""

    path: str
    op: Op
    target: str = ""


class CommittedChange(Struct, frozen=True, kw_only=True):
    """A commit, or what is about to be one, which has no `revision` yet."""

    revision: str = ""
    subject: str = ""
    intent_ids: tuple[str, ...] = ()
    files: tuple[CommittedFile, ...] = ()


class BranchIntent(Struct, frozen=True):
    """Which intent a branch is for, and where that is written."""

    intent_id: str
    source: str


def intents_named(message: str) -> tuple[str, ...]:
    """The intents that a commit's message says it is made for."""
    return tuple(dict.fromkeys(each["id"] for each in TRAILER.finditer(message)))


class CommittedChanges:
    """Of the repository that a governed folder lies in. Raises `GitUnread` if there is none."""

    def __init__(self, layout: Layout) -> None:
        here = layout.root.resolve()
        top = next((each for each in (here, *here.parents) if (each / ".git").exists()), None)
        program = find_own_program("git", here)
        if top is None or not program:
            raise GitUnread(f"{here} is not in a git repository, or git is not installed.")
        self.top = top
        self._layout = layout
        self._program = program

    def staged(self) -> CommittedChange:
        """What the next commit would change."""
        base = "HEAD" if self._asked("rev-parse", "--verify", "-q", "HEAD") else self._empty_tree()
        said = self._run("diff-index", "--cached", "--raw", "-z", "-M", "--no-abbrev", base)
        return CommittedChange(files=tuple(self._files(said)))

    def branch_intent(self) -> BranchIntent | None:
        """By the branch's description, or else by the last commit."""
        branch = self._asked("symbolic-ref", "--short", "-q", "HEAD").strip()
        told = self._asked("config", f"branch.{branch}.description") if branch else ""
        if found := TRAILER.search(told):
            return BranchIntent(found["id"], "branch trailer")
        last = self._asked("log", "-1", "--format=%B")
        found = TRAILER.search(last)
        return BranchIntent(found["id"], "the last commit's trailer") if found else None

    def commits(self, revisions: str) -> tuple[CommittedChange, ...]:
        """Of a range such as `main..topic`, oldest first."""
        if revisions.startswith("-") or ".." not in revisions:
            raise GitUnread(f"{revisions} is not a range of commits, such as main..HEAD.")
        said = self._run("rev-list", "--reverse", "--topo-order", revisions, "--").decode()
        return tuple(map(self._commit, said.split()))

    def judged(self, change: CommittedChange, rules: ScopeRules) -> tuple[PathFinding, ...]:
        """What a commit does, by scope. What the host writes itself is nobody's change."""
        findings: list[PathFinding] = []
        for file in change.files:
            if not self._written_by_host(file.path):
                findings.append(judge(self._location(file.path), file.op, rules))
                if file.target:
                    findings.append(judge(self._location(file.target), Op.LINK, rules))
        return tuple(findings)

    def only_governance(self, change: CommittedChange) -> bool:
        """Whether a commit is about the rules themselves, for which no intent can be the reason."""
        inside = f"{self._prefix}{GOVERNANCE_FOLDER}/"
        return all(each.path.startswith(inside) for each in change.files)

    @property
    def _prefix(self) -> str:
        below = self._layout.root.resolve().relative_to(self.top).as_posix()
        return "" if below == "." else f"{below}/"

    def _written_by_host(self, path: str) -> bool:
        inside = f"{self._prefix}{GOVERNANCE_FOLDER}/"
        name = path.removeprefix(inside)
        return path.startswith(inside) and any(
            name == each or (each.endswith("/") and name.startswith(each)) for each in HOST_WRITTEN
        )

    def _location(self, path: str) -> Location:
        """Git keeps no files behind links, so a path's name is where it is."""
        if path.startswith(("/", "../")) or path == "..":
            return Location(named=path, real=path, outside=Outside.LINK)
        named = unicodedata.normalize("NFC", path)
        governed = named.startswith(self._prefix)
        shown = named.removeprefix(self._prefix) if governed else named
        return Location(named=shown, real=shown, governed=governed)

    def _commit(self, revision: str) -> CommittedChange:
        subject, _, body = (
            self._run("log", "-1", "--format=%s%x00%B", revision)
            .decode("utf-8", "replace")
            .partition("\0")
        )
        parents = self._run("rev-list", "--parents", "-n", "1", revision).split()[1:]
        # of a merge, only what none of its parents has is its own
        way = ["-c"] if len(parents) > 1 else ["--root", "-M"]
        said = self._run(
            "diff-tree", "--no-commit-id", "-r", "--raw", "-z", "--no-abbrev", *way, revision
        )
        return CommittedChange(
            revision=revision,
            subject=subject,
            intent_ids=intents_named(body),
            files=tuple(self._files(said)),
        )

    def _files(self, raw: bytes) -> Iterator[CommittedFile]:
        """Rows of modes, objects and a status, each with one path or, for a rename, two."""
        words = iter(os.fsdecode(raw).split("\0"))
        for about in words:
            if not about.startswith(":"):
                continue
            parts = about.lstrip(":").split(" ")
            status, parents = parts[-1], len(about) - len(about.lstrip(":"))
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
        said = os.fsdecode(self._run("cat-file", "blob", blob)[:_LARGEST_LINK])
        if said.startswith("/"):
            return said
        return posixpath.normpath(posixpath.join(posixpath.dirname(path), said))

    def _empty_tree(self) -> str:
        return self._run("hash-object", "-t", "tree", "--stdin").decode().strip()

    def _asked(self, *words: str) -> str:
        """What git answers; nothing if it has no answer."""
        answer = self._answer(words)
        return answer.out.decode("utf-8", "replace") if not answer.status else ""

    def _run(self, *words: str) -> bytes:
        answer = self._answer(words)
        if answer.status:
            raise GitUnread(f"git {words[0]} failed: {answer.last_error}")
        return answer.out

    def _answer(self, words: Sequence[str]) -> GitAnswer:
        """A commit hook is run with git's variables. Of these only the index counts, for what is
        committed may be in one of its own."""
        index = os.environ.get("GIT_INDEX_FILE")
        variables = {"GIT_INDEX_FILE": str(self.top / index)} if index else {}
        top = str(self.top)
        try:
            return run_git(self._program, words, folder=top, root=top, variables=variables)
        except OSError as error:
            raise GitUnread(f"git cannot be run ({error.strerror}).") from error
