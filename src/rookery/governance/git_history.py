"""What git knows of a workspace: commits, their changes judged by scope, and notes.

Git always runs through `run_git`, so that a repository's settings cannot make it run other
programs. The target of a symlink is judged as well as the link itself.
"""

import os
import posixpath
import re
import unicodedata
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

from msgspec import Struct

from rookery.core.modes import GOVERNANCE_FOLDER
from rookery.errors import SettingsError, StorageError
from rookery.governance.layout import Layout
from rookery.governance.ledger.ledger_reader import format_time
from rookery.governance.ledger.records import LineRange, line_change, plain_lines
from rookery.governance.scope.scope_verdict import (
    Location,
    Op,
    Outside,
    PathFinding,
    ScopeRules,
    judge,
)
from rookery.platform.git_folders import repository_of
from rookery.platform.own_programs import ProgramTimeout, read_settings, run_git
from rookery.platform.user_folders import find_own_program

LARGEST_FILE = 4 * 1024 * 1024
_HEADER = re.compile(r"([0-9a-f]{40,64}) (\d+) (\d+)")
_IDENTITY = {
    "GIT_AUTHOR_NAME": "rookery",
    "GIT_AUTHOR_EMAIL": "rookery@localhost",
    "GIT_COMMITTER_NAME": "rookery",
    "GIT_COMMITTER_EMAIL": "rookery@localhost",
}
"""Author and committer of notes, unless the environment sets others."""


class CommitOfLine(Struct, frozen=True, kw_only=True):
    """The commit that last changed a line, and the line's position in it."""

    revision: str
    author: str
    day: str
    path: str
    """Path of the file in that commit."""
    line: int


class HistoryUnreadable(StorageError):
    """There is no repository, or git failed, timed out or could not be run."""


class NoSuchCommit(HistoryUnreadable):
    """The repository has no commit of that name."""


class Commit(Struct, frozen=True, kw_only=True):
    revision: str
    parent_time: str
    """Empty for the first commit."""


class GitHistory:
    """The git repository that contains a folder."""

    def __init__(self, folder: Path, top: Path, program: str) -> None:
        self.top = top
        self._program = program
        inside = folder.relative_to(top).as_posix()
        self.prefix = "" if inside == "." else f"{inside}/"
        """How paths of the folder start, relative to the repository."""

    def commit(self, name: str) -> Commit:
        """Raises NoSuchCommit."""
        if name.startswith("-"):
            raise NoSuchCommit(f"{name} is not a commit.")
        try:
            revision = self._output("rev-parse", "--verify", "-q", f"{name}^{{commit}}").strip()
        except HistoryUnreadable as error:
            raise NoSuchCommit(f"No such commit: {name}.") from error
        parents = self._output("rev-list", "--parents", "-n", "1", revision).split()[1:]
        time = self._output("log", "-1", "--format=%cI", parents[0]).strip() if parents else ""
        return Commit(
            revision=revision,
            parent_time=format_time(datetime.fromisoformat(time)) if time else "",
        )

    def changed_files(self, commit: Commit) -> Iterator[tuple[str, str, str]]:
        """Yield the text files a commit added or changed, except very large ones: the path
        relative to the workspace, and the text before and after."""
        options = ("--root", "--no-commit-id", "-r", "-z", "--no-renames", "--diff-filter=AM")
        fields = self.run("diff-tree", *options, commit.revision).split(b"\0")
        for about, name in zip(fields[::2], fields[1::2], strict=False):
            _, mode, old, new, _ = about.decode().lstrip(":").split(" ", 4)
            path = os.fsdecode(name)
            if not path.startswith(self.prefix) or not mode.startswith("100"):
                continue
            before, after = self._text(old), self._text(new)
            if after is not None:
                yield path.removeprefix(self.prefix), before or "", after

    def lines_of(self, path: str, text: str) -> dict[int, CommitOfLine]:
        """The commits of the lines that are the same in HEAD, by line number from 1."""
        try:
            output = self.run("blame", "--line-porcelain", "HEAD", "--", self.prefix + path)
        except HistoryUnreadable:  # nothing is committed yet, or not this file
            return {}
        committed = list(_parse_blame(output.decode("utf-8", "replace"), self.prefix))
        change = line_change("".join(f"{line}\n" for line, _ in committed), text)
        kept = _unchanged(change.removed, len(committed))
        here = _unchanged(change.written, len(plain_lines(text)))
        return {at + 1: committed[old][1] for old, at in zip(kept, here, strict=False)}

    def notes(self, ref: str) -> dict[str, str]:
        """Object ids of the notes, by commit."""
        try:
            output = self._output("notes", f"--ref={ref}", "list")
        except HistoryUnreadable:
            return {}
        pairs = (line.split() for line in output.splitlines())
        return {commit: note for note, commit in pairs}

    def note_text(self, name: str) -> bytes:
        return self.run("cat-file", "blob", name)

    def refs(self, most: int) -> list[str]:
        """Names of branches, tags and stashes, newest first."""
        return self._output(
            "for-each-ref", f"--count={most}", "--sort=-committerdate", "--format=%(refname)"
        ).split()

    def paths(self, seconds: float) -> list[str]:
        """All paths in branches, tags, stashes, reflogs and the index, relative to the top
        folder. Raises HistoryUnreadable, also if it takes longer than `seconds`."""
        kinds = ("--all", "--reflog", "--indexed-objects")
        rows = self.run("rev-list", "--objects", *kinds, seconds=seconds).split(b"\n")
        return [os.fsdecode(path) for row in rows if (path := row.partition(b" ")[2])]

    def blobs_at(self, revision: str, *paths: str) -> list[str]:
        """Object ids of the files under these paths in a revision; empty if it has none."""
        paths = tuple(f"{self.prefix}{path}" for path in paths)
        try:
            rows = self._output("ls-tree", "-r", "--full-tree", revision, "--", *paths)
        except HistoryUnreadable:  # a tag of a non-commit, or no commit yet
            return []
        return [fields[2] for row in rows.splitlines() if (fields := row.split())[1] == "blob"]

    def add_note(self, ref: str, revision: str, text: bytes) -> None:
        """Write a note, replacing an existing one."""
        self.run("notes", f"--ref={ref}", "add", "-f", "-F", "-", revision, given=text)

    @property
    def hooks_folder(self) -> Path:
        """The repository's hooks folder. Reading the settings runs no program."""
        common = Path(self._output("rev-parse", "--git-common-dir").strip())
        args = ("--type=path", "core.hooksPath")
        chosen = read_settings(self._program, args, folder=self.top).strip()
        return self.top / chosen if chosen else self.top / common / "hooks"

    def _text(self, blob: str) -> str | None:
        """Content of a blob; None if it is binary or too large."""
        if not blob.strip("0"):
            return None
        if int(self._output("cat-file", "-s", blob)) > LARGEST_FILE:
            return None
        data = self.run("cat-file", "blob", blob)
        return None if b"\0" in data else data.decode("utf-8", "replace")

    def _output(self, *args: str) -> str:
        return self.run(*args).decode("utf-8", "replace")

    def run(
        self,
        *args: str,
        given: bytes = b"",
        seconds: float | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> bytes:
        """The output of git. Raises HistoryUnreadable."""
        identity = {name: os.environ.get(name) or default for name, default in _IDENTITY.items()}
        try:
            answer = run_git(
                self._program,
                ("-c", "core.quotePath=false", *args),
                folder=self.top,
                root=str(self.top),
                variables={**identity, **(variables or {})},
                given=given,
                seconds=seconds,
            )
        except ProgramTimeout as error:
            raise HistoryUnreadable(f"git {args[0]} timed out.") from error
        except OSError as error:
            raise HistoryUnreadable(f"git cannot be run ({error.strerror}).") from error
        if answer.status:
            raise HistoryUnreadable(f"git {args[0]} failed: {answer.last_error}.")
        return answer.out


def history_of(folder: Path) -> GitHistory | None:
    """None if the folder is not in a repository or git is not installed."""
    here = folder.resolve()
    top = repository_of(here)
    program = find_own_program("git", here) if top else ""
    return GitHistory(here, top, program) if top and program else None


def require_history(folder: Path) -> GitHistory:
    """Raises HistoryUnreadable if there is none."""
    if found := history_of(folder):
        return found
    raise HistoryUnreadable(f"{folder} is not in a git repository, or git is not installed.")


def _parse_blame(output: str, inside: str) -> Iterator[tuple[str, CommitOfLine]]:
    fields: dict[str, str] = {}
    revision, line = "", 0
    for row in output.split("\n"):
        if row.startswith("\t"):
            day = datetime.fromtimestamp(int(fields.get("author-time", "0")), UTC)
            yield (
                row[1:].removesuffix("\r"),
                CommitOfLine(
                    revision=revision,
                    author=fields.get("author", "unknown"),
                    day=f"{day:%Y-%m-%d}",
                    path=fields.get("filename", "").removeprefix(inside),
                    line=line,
                ),
            )
            fields = {}
        elif not fields and (header := _HEADER.match(row)):
            revision, line = header[1], int(header[2])
            fields["header"] = row
        else:
            name, _, rest = row.partition(" ")
            fields[name] = rest


def _unchanged(ranges: tuple[LineRange, ...], count: int) -> list[int]:
    changed = {at for each in ranges for at in range(each.start - 1, each.end)}
    return [at for at in range(count) if at not in changed]


TRAILER = re.compile(r"^Intent:[ \t]*(?P<id>[A-Za-z][A-Za-z0-9_.-]{0,63})[ \t]*$", re.I | re.M)
HOST_WRITTEN = ("AGENT.md", "AGENT.archive.md", "intent_map.md", "agent_trace.jsonl", "trace/")
"""Files that rookery itself writes into the governance folder and users commit with their work."""

_LINK = "120000"
_LARGEST_LINK = 4096
_OPS = {"A": Op.CREATE, "C": Op.CREATE, "D": Op.DELETE}


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


def trailer_intents(message: str) -> tuple[str, ...]:
    """Ids from the `Intent:` trailers of a commit message."""
    return tuple(dict.fromkeys(each["id"] for each in TRAILER.finditer(message)))


class CommittedChanges:
    """Changes in the repository around the governance root. Raises HistoryUnreadable."""

    def __init__(self, layout: Layout) -> None:
        self._history = require_history(layout.root)

    def staged(self) -> CommittedChange:
        """The staged changes."""
        head = self._try_run("rev-parse", "--verify", "-q", "HEAD")
        empty_tree = ("hash-object", "-t", "tree", "--stdin")
        base = "HEAD" if head else self._run(*empty_tree).decode().strip()
        output = self._run("diff-index", "--cached", "--raw", "-z", "-M", "--no-abbrev", base)
        return CommittedChange(files=tuple(self._files(output)))

    def branch_intent(self) -> tuple[str, str] | None:
        """The intent in the `Intent:` trailer of the branch description, or else of the last
        commit, and where it was found."""
        branch = self._try_run("symbolic-ref", "--short", "-q", "HEAD").strip()
        description = self._try_run("config", f"branch.{branch}.description") if branch else ""
        if found := TRAILER.search(description):
            return found["id"], "branch trailer"
        found = TRAILER.search(self._try_run("log", "-1", "--format=%B"))
        return (found["id"], "the last commit's trailer") if found else None

    def commits(self, revisions: str) -> tuple[CommittedChange, ...]:
        """Read the commits of a range such as `main..topic`, oldest first."""
        if revisions.startswith("-") or ".." not in revisions:
            raise SettingsError(f"{revisions} is not a range of commits, such as main..HEAD.")
        for name in filter(None, re.split(r"\.{2,3}", revisions)):
            self._history.commit(name)
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
        inside = f"{self._history.prefix}{GOVERNANCE_FOLDER}/"
        return all(each.path.startswith(inside) for each in change.files)

    def _is_host_written(self, path: str) -> bool:
        inside = f"{self._history.prefix}{GOVERNANCE_FOLDER}/"
        name = path.removeprefix(inside)
        return path.startswith(inside) and any(
            name == each or (each.endswith("/") and name.startswith(each)) for each in HOST_WRITTEN
        )

    def _location(self, path: str) -> Location:
        """Locate a path by its text alone: git tracks no files behind symlinks."""
        if path.startswith(("/", "../")) or path == "..":
            return Location(named=path, real=path, outside=Outside.LINK)
        named = unicodedata.normalize("NFC", path)
        governed = named.startswith(self._history.prefix)
        relative = named.removeprefix(self._history.prefix) if governed else named
        return Location(named=relative, real=relative, governed=governed)

    def _commit(self, revision: str) -> CommittedChange:
        text = self._run("log", "-1", "--format=%s%x00%B", revision).decode("utf-8", "replace")
        subject, _, body = text.partition("\0")
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

    def _try_run(self, *words: str) -> str:
        """Return git's output, or an empty string if git fails."""
        try:
            return self._run(*words).decode("utf-8", "replace")
        except HistoryUnreadable:
            return ""

    def _run(self, *words: str) -> bytes:
        """Run git. Of git's variables only GIT_INDEX_FILE is passed on, because a commit hook
        may run with an index of its own."""
        index = os.environ.get("GIT_INDEX_FILE")
        variables = {"GIT_INDEX_FILE": str(self._history.top / index)} if index else {}
        return self._history.run(*words, variables=variables)
