"""The lines of a diff as HTML: highlighted, sanitised, and with nothing hidden."""

from rookery.manager.rendering.safe_html import lines_of
from rookery.manager.review.file_diffs import TextDiff
from rookery.manager.review.file_sides import ChangedLine
from rookery.manager.shown_rows import DiffLine

NO_END = '<span class="unseen">no newline at the end</span>'
RETURN = '<span class="unseen">CR</span>'


def diff_lines(diff: TextDiff) -> tuple[DiffLine, ...]:
    if not diff.lines:
        return ()
    old = _coloured(diff.file.old_path or diff.file.path, diff.old)
    new = _coloured(diff.file.path, diff.new)
    ends_differ = (b"\r\n" in diff.old) != (b"\r\n" in diff.new)
    return tuple(_line(line, old, new, ends_differ=ends_differ) for line in diff.lines)


def _coloured(path: str, text: bytes) -> tuple[str, ...]:
    return lines_of(path, text.decode("utf-8", "replace"))


def _line(
    line: ChangedLine, old: tuple[str, ...], new: tuple[str, ...], *, ends_differ: bool
) -> DiffLine:
    if line.kind == "gap":
        lines = "line" if line.left_out == 1 else "lines"
        return DiffLine(
            kind="gap", old=line.old, new=line.new, html=f"{line.left_out} {lines} left out"
        )
    html = new[line.new - 1] if line.new else old[(line.old or 1) - 1]
    return DiffLine(
        kind=line.kind, old=line.old, new=line.new, html=html + _end(line, ends_differ=ends_differ)
    )


def _end(line: ChangedLine, *, ends_differ: bool) -> str:
    """What the end of a line is, where two lines might differ in nothing else."""
    if not line.data.endswith(b"\n"):
        return NO_END
    shows = ends_differ and line.kind != "same" and line.data.endswith(b"\r\n")
    return RETURN if shows else ""
