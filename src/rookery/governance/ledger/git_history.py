"""What version control knows of a workspace: who committed a line, what a commit changed, and
notes on commits. Git is run without anything that a repository's settings could make it run."""

import os
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from msgspec import Struct

from rookery.errors import StorageError
from rookery.governance.ledger.ledger_reader import written
from rookery.governance.ledger.records import LineRange, line_change, plain_lines
from rookery.platform.git_runner import read_settings, run_git
from rookery.platform.own_programs import ProgramTimeout, find_own_program

LARGEST_FILE = 4 * 1024 * 1024
_HEADER = re.compile(r"([0-9a-f]{40,64}) (\d+) (\d+)")
_IDENTITY = ("AUTHOR", "COMMITTER")


class CommitOfLine(Struct, frozen=True, kw_only=True):
    """What version control says of a line."""

    revision: str
    author: str
    day: str
    path: str
    """Where the line was in that commit."""
    line: int


class HistoryUnreadable(StorageError):
    """Git could not do what it was asked to."""


class Commit(Struct, frozen=True, kw_only=True):
    revision: str
    parent: str
    """Empty for the first one."""
    parent_time: str


class CommitChange(Struct, frozen=True, kw_only=True):
    """A file that a commit made or changed. Its path is the workspace's."""

    path: str
    before: str
    after: str


class GitHistory:
    """Of the repository that a folder lies in."""

    def __init__(self, folder: Path, top: Path, program: str) -> None:
        self.top = top
        self._program = program
        inside = folder.relative_to(top).as_posix()
        self._prefix = "" if inside == "." else inside

    def commit(self, name: str) -> Commit:
        """Raises HistoryUnreadable if there is none of that name."""
        if name.startswith("-"):
            raise HistoryUnreadable(f"{name} is not a commit.")
        try:
            revision = self._said("rev-parse", "--verify", "-q", f"{name}^{{commit}}").strip()
        except HistoryUnreadable as error:
            raise HistoryUnreadable(f"No such commit: {name}.") from error
        parents = self._said("rev-list", "--parents", "-n", "1", revision).split()[1:]
        time = self._said("log", "-1", "--format=%cI", parents[0]).strip() if parents else ""
        return Commit(
            revision=revision,
            parent=parents[0] if parents else "",
            parent_time=written(datetime.fromisoformat(time)) if time else "",
        )

    def changed_files(self, commit: Commit) -> Iterator[CommitChange]:
        """Text files only; what is larger than any source is left out."""
        options = ("--root", "--no-commit-id", "-r", "-z", "--no-renames", "--diff-filter=AM")
        words = self._run("diff-tree", *options, commit.revision).split(b"\0")
        for about, name in zip(words[::2], words[1::2], strict=False):
            _, mode, old, new, _ = about.decode().lstrip(":").split(" ", 4)
            path = os.fsdecode(name)
            if not path.startswith(self._inside) or not mode.startswith("100"):
                continue
            before, after = self._text(old), self._text(new)
            if after is not None:
                shown = path.removeprefix(self._inside)
                yield CommitChange(path=shown, before=before or "", after=after)

    def lines_of(self, path: str, text: str) -> dict[int, CommitOfLine]:
        """Who committed the lines of a file that are still as HEAD has them; lines from 1."""
        try:
            said = self._run("blame", "--line-porcelain", "HEAD", "--", self._inside + path)
        except HistoryUnreadable:  # nothing is committed yet, or not this file
            return {}
        committed = list(_blamed(said.decode("utf-8", "replace"), self._inside))
        change = line_change("".join(f"{line}\n" for line, _ in committed), text)
        kept = _outside(change.removed, len(committed))
        here = _outside(change.written, len(plain_lines(text)))
        return {at + 1: committed[old][1] for old, at in zip(kept, here, strict=False)}

    def notes(self, ref: str) -> dict[str, str]:
        """The objects that hold notes, by their commits."""
        try:
            said = self._said("notes", f"--ref={ref}", "list")
        except HistoryUnreadable:
            return {}
        pairs = (line.split() for line in said.splitlines())
        return {commit: note for note, commit in pairs}

    def note_text(self, name: str) -> bytes:
        return self._run("cat-file", "blob", name)

    def refs(self, most: int) -> list[str]:
        """Branches, tags and stashes, the newest first."""
        return self._said(
            "for-each-ref", f"--count={most}", "--sort=-committerdate", "--format=%(refname)"
        ).split()

    def paths(self, seconds: float) -> list[str]:
        """All that branches, tags, stashes, reflogs and the index hold, from the top folder.
        Raises HistoryUnreadable, also if it takes longer."""
        kinds = ("--all", "--reflog", "--indexed-objects")
        rows = self._run("rev-list", "--objects", *kinds, seconds=seconds).split(b"\n")
        return [os.fsdecode(path) for row in rows if (path := row.partition(b" ")[2])]

    def blobs_at(self, revision: str, *paths: str) -> list[str]:
        """The files at these paths of the folder, as a revision has them; none if it has none."""
        paths = tuple(f"{self._inside}{path}" for path in paths)
        try:
            rows = self._said("ls-tree", "-r", "--full-tree", revision, "--", *paths)
        except HistoryUnreadable:  # a tag of something else, or a repository without a commit
            return []
        return [words[2] for row in rows.splitlines() if (words := row.split())[1] == "blob"]

    def add_note(self, ref: str, revision: str, text: bytes) -> None:
        """In the place of the one that is there."""
        self._run("notes", f"--ref={ref}", "add", "-f", "-F", "-", revision, given=text)

    @property
    def hooks_folder(self) -> Path:
        """Where the repository's hooks are, as its settings and the user's say. Reading them
        runs nothing."""
        common = Path(self._said("rev-parse", "--git-common-dir").strip())
        words = ("--type=path", "core.hooksPath")
        chosen = read_settings(self._program, words, folder=self.top).strip()
        return self.top / chosen if chosen else self.top / common / "hooks"

    @property
    def _inside(self) -> str:
        return f"{self._prefix}/" if self._prefix else ""

    def _text(self, blob: str) -> str | None:
        """None for what is no text, or too much of it."""
        if not blob.strip("0"):
            return None
        if int(self._said("cat-file", "-s", blob)) > LARGEST_FILE:
            return None
        held = self._run("cat-file", "blob", blob)
        return None if b"\0" in held else held.decode("utf-8", "replace")

    def _said(self, *words: str) -> str:
        return self._run(*words).decode("utf-8", "replace")

    def _run(self, *words: str, given: bytes = b"", seconds: float | None = None) -> bytes:
        try:
            answer = run_git(
                self._program,
                ("-c", "core.quotePath=false", *words),
                folder=self.top,
                root=str(self.top),
                variables=_identity(),
                given=given,
                seconds=seconds,
            )
        except ProgramTimeout as error:
            raise HistoryUnreadable(f"git {words[0]} timed out.") from error
        except OSError as error:
            raise HistoryUnreadable(f"git cannot be run ({error.strerror}).") from error
        if answer.status:
            raise HistoryUnreadable(f"git {words[0]} failed: {answer.last_error}.")
        return answer.out


def history_of(folder: Path) -> GitHistory | None:
    """None if the folder lies in no repository, or there is no git."""
    here = folder.resolve()
    top = next((each for each in (here, *here.parents) if (each / ".git").exists()), None)
    program = find_own_program("git", here) if top else ""
    return GitHistory(here, top, program) if top and program else None


def _blamed(said: str, inside: str) -> Iterator[tuple[str, CommitOfLine]]:
    told: dict[str, str] = {}
    revision, line = "", 0
    for row in said.split("\n"):
        if row.startswith("\t"):
            day = datetime.fromtimestamp(int(told.get("author-time", "0")), UTC)
            yield (
                row[1:].removesuffix("\r"),
                CommitOfLine(
                    revision=revision,
                    author=told.get("author", "unknown"),
                    day=f"{day:%Y-%m-%d}",
                    path=told.get("filename", "").removeprefix(inside),
                    line=line,
                ),
            )
            told = {}
        elif not told and (header := _HEADER.match(row)):
            revision, line = header[1], int(header[2])
            told["header"] = row
        else:
            name, _, rest = row.partition(" ")
            told[name] = rest


def _outside(ranges: tuple[LineRange, ...], count: int) -> list[int]:
    changed = {at for each in ranges for at in range(each.start - 1, each.end)}
    return [at for at in range(count) if at not in changed]


def _identity() -> dict[str, str]:
    """Notes are commits, and have somebody who made them: the product, unless the user is named
    in the environment."""
    named = {"NAME": "rookery", "EMAIL": "rookery@localhost"}
    return {
        variable: os.environ.get(variable) or held
        for who in _IDENTITY
        for what, held in named.items()
        for variable in (f"GIT_{who}_{what}",)
    }
