"""What became of the lines of a text, line by line and byte by byte.

Git compares, because it is quick and never gives up. It is given two files of ours in a folder of
ours: no repository, no attributes and no settings have a say, and what is compared is what was
read.
"""

import re
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from rookery.manager.shown_rows import LineKind
from rookery.manager.worktrees.worktree_git import GitFailed, without_git_variables
from rookery.platform.git.git_hardening import git_hardening, hardened

MOST_CONTEXT = 10_000_000
_WORDS = (
    *("diff", "--no-index", "--text", "--no-color", "--no-prefix", "--histogram"),
    *("--src-prefix=", "--dst-prefix=", "--inter-hunk-context=0"),
)
_HUNK = re.compile(rb"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_KINDS: dict[int, LineKind] = {ord(" "): "same", ord("-"): "removed", ord("+"): "added"}
_DIFFERENT = 1


class ChangedLine(Struct, frozen=True):
    """`data` is the line with its end, where it has one. Of a gap the numbers are those of the
    first line that is left out, and `left_out` says how many are."""

    kind: LineKind
    old: int | None
    new: int | None
    data: bytes = b""
    left_out: int = 0


def line_changes(
    program: str, old: bytes, new: bytes, *, context: int = 3
) -> tuple[ChangedLine, ...]:
    """Nothing if the two are the same. `program` is the git to ask."""
    if old == new:
        return ()
    said = _compared(program, old, new, max(0, min(context, MOST_CONTEXT)))
    return tuple(_with_gaps(list(_lines(said)), _count(old)))


def _compared(program: str, old: bytes, new: bytes, context: int) -> bytes:
    with tempfile.TemporaryDirectory(prefix="review-") as folder:
        (Path(folder) / "old").write_bytes(old)
        (Path(folder) / "new").write_bytes(new)
        variables, options = git_hardening()
        words = hardened((program, *_WORDS, f"-U{context}", "--", "old", "new"), options)
        alone = {"GIT_CEILING_DIRECTORIES": str(Path(folder).parent), "LC_ALL": "C"}
        done = subprocess.run(
            words,
            capture_output=True,
            check=False,
            cwd=folder,
            env={**without_git_variables(), **variables, **alone},
        )
    if done.returncode != _DIFFERENT:
        raise GitFailed(("diff",), done.returncode, done.stderr.decode("utf-8", "replace"))
    return done.stdout


def _lines(said: bytes) -> Iterator[ChangedLine]:
    """The lines of all hunks. Only the counts in a hunk's head say where it ends: a line can look
    like anything."""
    rows = said.split(b"\n")
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
    """The number of the first line, and how many there are. Of none, git names the one before."""
    many = 1 if count is None else int(count)
    return int(first) + (many == 0), many


def _with_gaps(lines: Sequence[ChangedLine], total: int) -> Iterator[ChangedLine]:
    """With what is left out before, between and behind, of `total` old lines."""
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
