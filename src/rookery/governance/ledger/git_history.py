"""What git knows of a workspace: the commit of a line, the changes of a commit, and notes.

Git always runs through `run_git`, so that a repository's settings cannot make it run other
programs.
"""

import os
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from msgspec import Struct

from rookery.errors import StorageError
from rookery.governance.ledger.ledger_reader import format_time
from rookery.governance.ledger.records import LineRange, line_change, plain_lines
from rookery.platform.own_programs import ProgramTimeout, find_own_program, read_settings, run_git

LARGEST_FILE = 4 * 1024 * 1024
_HEADER = re.compile(r"([0-9a-f]{40,64}) (\d+) (\d+)")
_IDENTITY = ("AUTHOR", "COMMITTER")


class CommitOfLine(Struct, frozen=True, kw_only=True):
    """The commit that last changed a line, and the line's position in it."""

    revision: str
    author: str
    day: str
    path: str
    """Path of the file in that commit."""
    line: int


class HistoryUnreadable(StorageError):
    """Git failed, timed out or could not be run."""


class Commit(Struct, frozen=True, kw_only=True):
    revision: str
    parent: str
    """Empty for the first commit."""
    parent_time: str


class CommitChange(Struct, frozen=True, kw_only=True):
    """A file that a commit added or changed. The path is relative to the workspace."""

    path: str
    before: str
    after: str


class GitHistory:
    """The git repository that contains a folder."""

    def __init__(self, folder: Path, top: Path, program: str) -> None:
        self.top = top
        self._program = program
        inside = folder.relative_to(top).as_posix()
        self._prefix = "" if inside == "." else inside

    def commit(self, name: str) -> Commit:
        """Raises HistoryUnreadable if there is no such commit."""
        if name.startswith("-"):
            raise HistoryUnreadable(f"{name} is not a commit.")
        try:
            revision = self._output("rev-parse", "--verify", "-q", f"{name}^{{commit}}").strip()
        except HistoryUnreadable as error:
            raise HistoryUnreadable(f"No such commit: {name}.") from error
        parents = self._output("rev-list", "--parents", "-n", "1", revision).split()[1:]
        time = self._output("log", "-1", "--format=%cI", parents[0]).strip() if parents else ""
        return Commit(
            revision=revision,
            parent=parents[0] if parents else "",
            parent_time=format_time(datetime.fromisoformat(time)) if time else "",
        )

    def changed_files(self, commit: Commit) -> Iterator[CommitChange]:
        """Yield the text files a commit added or changed, except very large ones."""
        options = ("--root", "--no-commit-id", "-r", "-z", "--no-renames", "--diff-filter=AM")
        fields = self._run("diff-tree", *options, commit.revision).split(b"\0")
        for about, name in zip(fields[::2], fields[1::2], strict=False):
            _, mode, old, new, _ = about.decode().lstrip(":").split(" ", 4)
            path = os.fsdecode(name)
            if not path.startswith(self._inside) or not mode.startswith("100"):
                continue
            before, after = self._text(old), self._text(new)
            if after is not None:
                shown = path.removeprefix(self._inside)
                yield CommitChange(path=shown, before=before or "", after=after)

    def lines_of(self, path: str, text: str) -> dict[int, CommitOfLine]:
        """The commits of the lines that are the same in HEAD, by line number from 1."""
        try:
            output = self._run("blame", "--line-porcelain", "HEAD", "--", self._inside + path)
        except HistoryUnreadable:  # nothing is committed yet, or not this file
            return {}
        committed = list(_parse_blame(output.decode("utf-8", "replace"), self._inside))
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
        return self._run("cat-file", "blob", name)

    def refs(self, most: int) -> list[str]:
        """Names of branches, tags and stashes, newest first."""
        return self._output(
            "for-each-ref", f"--count={most}", "--sort=-committerdate", "--format=%(refname)"
        ).split()

    def paths(self, seconds: float) -> list[str]:
        """All paths in branches, tags, stashes, reflogs and the index, relative to the top
        folder. Raises HistoryUnreadable, also if it takes longer than `seconds`."""
        kinds = ("--all", "--reflog", "--indexed-objects")
        rows = self._run("rev-list", "--objects", *kinds, seconds=seconds).split(b"\n")
        return [os.fsdecode(path) for row in rows if (path := row.partition(b" ")[2])]

    def blobs_at(self, revision: str, *paths: str) -> list[str]:
        """Object ids of the files under these paths in a revision; empty if it has none."""
        paths = tuple(f"{self._inside}{path}" for path in paths)
        try:
            rows = self._output("ls-tree", "-r", "--full-tree", revision, "--", *paths)
        except HistoryUnreadable:  # a tag of a non-commit, or no commit yet
            return []
        return [fields[2] for row in rows.splitlines() if (fields := row.split())[1] == "blob"]

    def add_note(self, ref: str, revision: str, text: bytes) -> None:
        """Write a note, replacing an existing one."""
        self._run("notes", f"--ref={ref}", "add", "-f", "-F", "-", revision, given=text)

    @property
    def hooks_folder(self) -> Path:
        """The repository's hooks folder. Reading the settings runs no program."""
        common = Path(self._output("rev-parse", "--git-common-dir").strip())
        args = ("--type=path", "core.hooksPath")
        chosen = read_settings(self._program, args, folder=self.top).strip()
        return self.top / chosen if chosen else self.top / common / "hooks"

    @property
    def _inside(self) -> str:
        return f"{self._prefix}/" if self._prefix else ""

    def _text(self, blob: str) -> str | None:
        """Content of a blob; None if it is binary or too large."""
        if not blob.strip("0"):
            return None
        if int(self._output("cat-file", "-s", blob)) > LARGEST_FILE:
            return None
        data = self._run("cat-file", "blob", blob)
        return None if b"\0" in data else data.decode("utf-8", "replace")

    def _output(self, *args: str) -> str:
        return self._run(*args).decode("utf-8", "replace")

    def _run(self, *args: str, given: bytes = b"", seconds: float | None = None) -> bytes:
        try:
            answer = run_git(
                self._program,
                ("-c", "core.quotePath=false", *args),
                folder=self.top,
                root=str(self.top),
                variables=_identity(),
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
    top = next((each for each in (here, *here.parents) if (each / ".git").exists()), None)
    program = find_own_program("git", here) if top else ""
    return GitHistory(here, top, program) if top and program else None


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


def _identity() -> dict[str, str]:
    """Author and committer of notes: rookery, unless the environment sets others."""
    defaults = {"NAME": "rookery", "EMAIL": "rookery@localhost"}
    return {
        variable: os.environ.get(variable) or default
        for role in _IDENTITY
        for name, default in defaults.items()
        for variable in (f"GIT_{role}_{name}",)
    }
