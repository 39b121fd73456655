"""The two sides of a changed file, and the diff of their lines.

A side is read from git or from the checkout, up to the size that is shown. Git diffs two temporary
files in a folder of our own, so no repository, attributes or settings affect the result.
"""

import errno
import os
import re
import stat
import tempfile
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path

from msgspec import Struct

from rookery.checkpoints.file_versions import NOT_A_FOLDER, Content, content_of, status_of
from rookery.core.blocks import image_facts
from rookery.core.facts import FileVersion
from rookery.core.limits import KIB, MIB
from rookery.manager.review.checkout_changes import Checkout, RawChange
from rookery.manager.shown_rows import LineKind
from rookery.manager.worktrees.checkout_files import LINK, PLAIN, PROGRAM
from rookery.platform.descriptors import opened_folder
from rookery.platform.own_programs import run_git
from rookery.platform.worktree_git import Git, GitCommandFailed

MOST_CONTEXT = 10_000_000
_WORDS = (
    *("diff", "--no-index", "--text", "--no-color", "--no-prefix", "--histogram"),
    *("--src-prefix=", "--dst-prefix=", "--inter-hunk-context=0"),
)
_HUNK = re.compile(rb"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_KINDS: dict[int, LineKind] = {ord(" "): "same", ord("-"): "removed", ord("+"): "added"}
_DIFFERENT = 1
LARGEST_SHOWN = 1 * MIB
PICTURES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""Image types that a page can show without running anything."""
_LOOKED_THROUGH = 8 * KIB


class Side(Struct, frozen=True):
    """One side of a change. `data` is None if it is missing or too large. `known_by` identifies
    the content."""

    mode: str
    size: int
    known_by: str
    data: bytes | None = None

    @property
    def is_there(self) -> bool:
        return bool(self.mode)

    @property
    def is_binary(self) -> bool:
        return self.mode != LINK and b"\0" in (self.data or b"")[:_LOOKED_THROUGH]

    @property
    def picture(self) -> str:
        """Media type of an image that can be shown; empty otherwise."""
        facts = image_facts(self.data) if self.data and self.mode != LINK else None
        return facts.media_type if facts and facts.media_type in PICTURES else ""


class HeldFile(Struct, frozen=True):
    """Content and mode of a file or link."""

    data: bytes
    mode: int = stat.S_IFREG | 0o644

    @property
    def side(self) -> Side:
        known = sha256(b"%o " % self.mode + self.data).hexdigest()
        return Side(_mode(self.mode), len(self.data), known, self.data)


class ChangedLine(Struct, frozen=True):
    """A line of a diff, with its line end if it has one. For a gap, the numbers are those of the
    first line left out, and `left_out` is how many are."""

    kind: LineKind
    old: int | None
    new: int | None
    data: bytes = b""
    left_out: int = 0


NOTHING = Side("", 0, "")


def held_file(data: bytes | None, version: FileVersion | None) -> HeldFile | None:
    if data is None:
        return None
    return HeldFile(data, version.mode) if version else HeldFile(data)


def old_side(git: Git, change: RawChange, *, read: bool = True) -> Side:
    if not change.old_mode:
        return NOTHING
    return _stored(git, change.old_mode, change.old_id, read=read and not change.is_module)


def new_side(checkout: Checkout, change: RawChange, *, read: bool = True) -> Side:
    """The new side: with `read` its bytes, otherwise only its times."""
    if not change.new_mode:
        return NOTHING
    if change.new_id:
        return _stored(
            checkout.git, change.new_mode, change.new_id, read=read and not change.is_module
        )
    side = side_at(checkout, change.path, read=read)
    return side if side.is_there else Side(change.new_mode, 0, "gone")


def side_at(checkout: Checkout, path: str, *, read: bool) -> Side:
    """A file on disk, without following links in any part of the path."""
    *folders, name = path.split("/")
    try:
        with opened_folder(checkout.git.folder, folders) as folder:
            status = None if folder is None else status_of(folder, name)
            if folder is None or status is None:
                return NOTHING
            found = _content(folder, name, status) if read else None
    except OSError as error:
        if error.errno in (*NOT_A_FOLDER, errno.ENOENT):
            return NOTHING
        raise
    mode = _mode(status.st_mode)
    if found is None:
        return Side(mode, status.st_size, _moment(status))
    return Side(mode, len(found.data), sha256(found.data).hexdigest(), found.data)


def line_changes(
    program: str, old: bytes, new: bytes, *, context: int = 3
) -> tuple[ChangedLine, ...]:
    """Diff two texts with git (`program`); empty if they are equal."""
    if old == new:
        return ()
    output = _run_diff(program, old, new, max(0, min(context, MOST_CONTEXT)))
    return tuple(_with_gaps(list(_lines(output)), _count(old)))


def _run_diff(program: str, old: bytes, new: bytes, context: int) -> bytes:
    with tempfile.TemporaryDirectory(prefix="review-") as folder:
        (Path(folder) / "old").write_bytes(old)
        (Path(folder) / "new").write_bytes(new)
        words = (*_WORDS, f"-U{context}", "--", "old", "new")
        alone = {"GIT_CEILING_DIRECTORIES": str(Path(folder).parent), "LC_ALL": "C"}
        answer = run_git(program, words, folder=folder, variables=alone)
    if answer.status != _DIFFERENT:
        raise GitCommandFailed(("diff",), answer.status, answer.errors)
    return answer.out


def _lines(output: bytes) -> Iterator[ChangedLine]:
    """Parse the hunks. Only the counts in a header tell where its hunk ends."""
    rows = output.split(b"\n")
    at = 0
    while at < len(rows):
        head = _HUNK.match(rows[at])
        at += 1
        if not head:
            continue
        old, old_left = _range(head[1], head[2])
        new, new_left = _range(head[3], head[4])
        while old_left or new_left:
            kind = _KINDS[rows[at][0]]
            unended = at + 1 < len(rows) and rows[at + 1].startswith(b"\\")
            data = rows[at][1:] + (b"" if unended else b"\n")
            yield ChangedLine(
                kind, None if kind == "added" else old, None if kind == "removed" else new, data
            )
            old, old_left = (old, old_left) if kind == "added" else (old + 1, old_left - 1)
            new, new_left = (new, new_left) if kind == "removed" else (new + 1, new_left - 1)
            at += 2 if unended else 1


def _range(first: bytes, count: bytes | None) -> tuple[int, int]:
    """First line and number of lines. For an empty range git gives the line before."""
    many = 1 if count is None else int(count)
    return int(first) + (many == 0), many


def _with_gaps(lines: Sequence[ChangedLine], total: int) -> Iterator[ChangedLine]:
    """Insert gaps before, between and after the hunks; `total` is the number of old lines."""
    old = new = 1
    for line in lines:
        next_old, next_new = line.old or old, line.new or new
        skipped = max(next_old - old, next_new - new)
        if skipped:
            yield ChangedLine("gap", old, new, left_out=skipped)
            old, new = old + skipped, new + skipped
        yield line
        old += line.kind != "added"
        new += line.kind != "removed"
    if total >= old:
        yield ChangedLine("gap", old, new, left_out=total - old + 1)


def _count(text: bytes) -> int:
    return text.count(b"\n") + (bool(text) and not text.endswith(b"\n"))


def _content(folder: int, name: str, status: os.stat_result) -> Content | None:
    try:
        return content_of(folder, name, status, LARGEST_SHOWN)
    except PermissionError:  # it differs, but cannot be read
        return None


def _stored(git: Git, mode: str, known: str, *, read: bool) -> Side:
    if not read or not known:
        return Side(mode, 0, known)
    size = int(git.output("cat-file", "-s", known))
    data = git.run("cat-file", "blob", known).out if size <= LARGEST_SHOWN else None
    return Side(mode, size, known, data)


def _mode(mode: int) -> str:
    if stat.S_ISLNK(mode):
        return LINK
    return PROGRAM if mode & stat.S_IXUSR else PLAIN


def _moment(status: os.stat_result) -> str:
    signs = (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    return "-".join(map(str, signs))
