"""Renders tool calls: a title line, and below it a diff, to-do list or result."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any

from msgspec import Struct
from rich.text import Text

from rookery.core.message import Message, diff_in, payload_in
from rookery.core.replies import new_problems
from rookery.core.text.terminal_text import counted, harmless_line
from rookery.tui.rows.lines import (
    Piece,
    ShownRow,
    all_lines,
    as_piece,
    chunks,
    clean,
    cut,
    indented,
    padded,
    text_pieces,
    with_margin,
    wrapped,
)
from rookery.tui.theme import Theme

_HUNK = re.compile(r"@@ -(\d{1,9})(?:,\d+)? \+(\d{1,9})(?:,\d+)? @@(.*)")
_RAW = ""
PIECE_LINES = 60
MOST_PROBLEMS = 6
"""Lines about new problems in a folded row."""


class ScreenDiffLine(Struct, frozen=True):
    """A line of a diff: sign, line number and text. Without a sign, the text is the whole line."""

    sign: str
    number: int | None
    words: str
    continues: bool = False
    """Whether it continues a long line."""


def diff_lines(diff: str) -> Iterator[ScreenDiffLine]:
    """Parse a unified diff. A hunk header becomes a line with the sign `@` and its section
    heading."""
    old = new = 0
    for row in diff.removesuffix("\n").split("\n") if diff else ():
        if head := _HUNK.fullmatch(row):
            old, new = int(head[1]), int(head[2])
            yield ScreenDiffLine("@", None, head[3].strip())
            continue
        sign, words = row[:1], row[1:]
        match sign:
            case "+":
                yield ScreenDiffLine("+", new or None, words)
                new += 1
            case "-":
                yield ScreenDiffLine("-", old or None, words)
                old += 1
            case " " | "":
                yield ScreenDiffLine(" ", new or None, words)
                old, new = old + 1, new + 1
            case _:
                yield ScreenDiffLine(_RAW, None, row)


def diff_pieces(diff: str, width: int, theme: Theme) -> list[Piece]:
    """The diff; changed lines are filled to the full width."""
    rows = list(diff_lines(clean(diff)))
    gutter = len(str(max((row.number or 0 for row in rows), default=0)))
    if rows and rows[0].sign == "@" and not rows[0].words:
        del rows[0]
    shown = [part for row in rows for part in _cut_line(row)]
    room = max(1, width - gutter - 3)
    pieces: list[Piece] = []
    begin = size = 0
    for at, row in enumerate(shown, 1):
        size += 1 + len(row.words) // room
        if size >= PIECE_LINES or at == len(shown):
            pieces.append(Piece(size, partial(_draw_rows, shown[begin:at], gutter, width, theme)))
            begin, size = at, 0
    return pieces


def _cut_line(row: ScreenDiffLine) -> Iterator[ScreenDiffLine]:
    """Split a too long line; only the first part has the number."""
    for at, part in enumerate(chunks(row.words)):
        yield ScreenDiffLine(row.sign, row.number, part, continues=at > 0)


def _draw_rows(rows: Sequence[ScreenDiffLine], gutter: int, width: int, theme: Theme) -> list[Text]:
    return [line for row in rows for line in _draw_line(row, gutter, width, theme)]


def _draw_line(row: ScreenDiffLine, gutter: int, width: int, theme: Theme) -> Iterator[Text]:
    if row.sign == "@":
        mark = Text(f"{'⋮':>{gutter}}{' ' if row.words else ''}", theme.fg(theme.muted))
        heading = wrapped(Text(row.words, theme.fg(theme.text)), width - mark.cell_len)
        yield from indented(heading, mark, Text(" " * mark.cell_len))
        return
    if row.sign == _RAW:
        yield from wrapped(Text(row.words, theme.fg(theme.text)), width)
        return
    number = "" if row.number is None else str(row.number)
    ink, background = {
        "+": (theme.good, theme.added),
        "-": (theme.bad, theme.removed),
    }.get(row.sign, (theme.muted, ""))
    margin = f"{number:>{gutter}} {row.sign} "
    words = Text(row.words, theme.fg(theme.text if background else theme.muted))
    for at, part in enumerate(wrapped(words, width - len(margin))):
        head = margin if at == 0 and not row.continues else " " * len(margin)
        line = Text.assemble((head, theme.fg(ink)), part)
        yield padded(line, width, theme.on(theme.text, background)) if background else line


HUNK_LINES = 8
HUNKS = 2
COMMAND_LINES = 10
COMMAND_LINE_LINES = 6
"""Lines that one long output line takes while it is folded."""
SHORT_COMMAND = 5
MARGIN = "  "
_QUIET_RESULTS = {"updateTodoList", "switchMode"}
"""Tools whose result adds nothing to the title."""


def call_pieces(shown: ShownRow, width: int, theme: Theme) -> Iterator[Piece]:
    message = shown.message
    payload = payload_of(message)
    mark, ink = _mark(shown, theme)
    tail = _tail(shown, payload, theme)
    head = Text(f"{mark} ", theme.fg(ink))
    if message.ask == "command":
        yield from _command(shown, head, tail, width, theme)
    else:
        title = Text.assemble(head, _title(shown, payload, theme))
        yield from as_piece([_with_tail(title, tail, width)])
    if message.open:
        return  # the question panel shows what it would do
    margin = Text(MARGIN)
    yield from with_margin(_body(shown, payload, width - len(MARGIN), theme), margin, margin)


def payload_of(message: Message) -> Mapping[str, Any]:
    return parse_payload(message.text or "") if message.ask != "command" else {}


@lru_cache(maxsize=256)
def parse_payload(text: str) -> Mapping[str, Any]:
    """The JSON payload that describes the call."""
    payload = payload_in(text)
    return payload if isinstance(payload.get("tool", ""), str) else {}


def is_edit(payload: Mapping[str, Any]) -> bool:
    return diff_in(payload) is not None


def _mark(shown: ShownRow, theme: Theme) -> tuple[str, str]:
    match shown.ended:
        case "done":
            return ("●", theme.bad) if shown.exit_code else ("●", theme.good)
        case "":
            return ("○", theme.muted) if shown.message.open else ("●", theme.accent)
        case "skipped":
            return "○", theme.muted
        case _:
            return "✗", theme.bad


def _command(shown: ShownRow, head: Text, tail: Text, width: int, theme: Theme) -> Iterator[Piece]:
    """The command line: the first line while it is being asked about, later in full."""
    text = clean(shown.message.text or "").strip()
    prompt = Text.assemble(head, ("$ ", theme.fg(theme.muted)))
    if shown.message.open:
        first = Text.assemble(prompt, (text.partition("\n")[0], theme.fg(theme.text)))
        yield from as_piece([_with_tail(first, tail, width)])
        return
    beside = tail.cell_len + 2 if tail else 0
    room = max(8, width - prompt.cell_len - beside)
    pieces = text_pieces(text, room, theme.fg(theme.text))
    if not shown.unfolded:
        pieces = as_piece(folded(pieces, SHORT_COMMAND, theme))
    pieces = list(with_margin(pieces, prompt, Text(" " * prompt.cell_len)))
    yield Piece(pieces[0].height, lambda: _first_with_tail(pieces[0], tail, width))
    yield from pieces[1:]


def _first_with_tail(piece: Piece, tail: Text, width: int) -> Iterator[Text]:
    first, *rest = piece.draw()
    yield _with_tail(first, tail, width)
    yield from rest


def _title(shown: ShownRow, payload: Mapping[str, Any], theme: Theme) -> Text:
    title = harmless_line(shown.message.title) or _fallback_title(payload)
    verb, _, rest = title.partition(" ")
    return Text.assemble((verb, theme.fg(theme.text, bold=True)), f" {rest}" if rest else "")


def _fallback_title(payload: Mapping[str, Any]) -> str:
    """Title of a call whose arguments are still streaming in."""
    name = str(payload.get("tool") or payload.get("toolName") or "a call")
    about = payload.get("path") or payload.get("file_path") or payload.get("query") or ""
    return harmless_line(f"{name} {about}").strip()


def _tail(shown: ShownRow, payload: Mapping[str, Any], theme: Theme) -> Text:
    """What follows the title: sizes, badges, how the call ended."""
    parts: list[Text] = []
    if stats := payload.get("diffStats"):
        parts.append(_stats(stats, theme))
    if payload.get("isOutsideWorkspace"):
        parts.append(Text("outside the workspace", theme.fg(theme.warning)))
    if payload.get("isProtected"):
        parts.append(Text("protected", theme.fg(theme.warning)))
    if payload.get("tool") == "updateTodoList":
        parts.append(Text(_todo_count(payload), theme.fg(theme.muted)))
    elif size := _result_size(shown, payload):
        parts.append(Text(size, theme.fg(theme.muted)))
    if shown.ended == "denied":
        parts.append(Text("skipped", theme.fg(theme.bad)))
    if shown.exit_code:
        parts.append(Text(f"exit {shown.exit_code}", theme.fg(theme.bad)))
    return Text("  ").join(parts)


def _stats(stats: Any, theme: Theme) -> Text:
    try:
        added, removed = int(stats["added"]), int(stats["removed"])
    except (KeyError, TypeError, ValueError):
        return Text()
    return Text.assemble(
        (f"+{added}", theme.fg(theme.good)), " ", (f"−{removed}", theme.fg(theme.bad))
    )


def _todo_count(payload: Mapping[str, Any]) -> str:
    listed = payload.get("todos")
    todos = [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
    done = sum(each.get("status") == "completed" for each in todos)
    return f"{done} of {len(todos)} done"


def _result_size(shown: ShownRow, payload: Mapping[str, Any]) -> str:
    """Number of lines that can be unfolded; of a file that was read, its lines."""
    if shown.ended != "done" or not _has_result(shown, payload):
        return ""
    lines = shown.result.rstrip("\n").split("\n")
    heading = payload.get("tool") == "readFile" and lines[0].startswith("File: ")
    return counted(len(lines) - heading, "line")


def _has_result(shown: ShownRow, payload: Mapping[str, Any]) -> bool:
    is_quiet = is_edit(payload) or payload.get("tool") in _QUIET_RESULTS
    shown_elsewhere = shown.message.ask == "command" or is_quiet
    return bool(shown.result.strip()) and not shown_elsewhere


def _with_tail(head: Text, tail: Text, width: int) -> Text:
    if not tail:
        return cut(head, width)
    room = width - tail.cell_len - 2
    return cut(Text.assemble(cut(head, max(8, room)), "  ", tail), width)


def _body(shown: ShownRow, payload: Mapping[str, Any], width: int, theme: Theme) -> Iterable[Piece]:
    message = shown.message
    if is_edit(payload):
        diff = message.diff or diff_in(payload) or ""
        edit = diff_pieces(diff, width, theme) if shown.unfolded else _edit(diff, width, theme)
        return [*edit, *_problems(shown, width, theme)]
    if payload.get("tool") == "updateTodoList":
        return as_piece(_todos(payload.get("todos"), width, theme))
    if shown.unfolded and _has_result(shown, payload):
        return text_pieces(clean(shown.result).rstrip("\n"), width, theme.fg(theme.muted))
    return ()


def _problems(shown: ShownRow, width: int, theme: Theme) -> list[Piece]:
    """What the edit broke."""
    if not (words := new_problems(shown.result)):
        return []
    pieces = text_pieces(clean(words), width, theme.fg(theme.warning))
    return pieces if shown.unfolded else as_piece(folded(pieces, MOST_PROBLEMS, theme))


def _edit(diff: str, width: int, theme: Theme) -> list[Piece]:
    beginning = _excerpt(diff)
    lines = all_lines(diff_pieces(beginning, width, theme))
    hidden = diff.rstrip("\n").count("\n") - beginning.count("\n")
    if hidden > 0:
        lines.append(Text(f"… {counted(hidden, 'more line')}", theme.fg(theme.muted)))
    return as_piece(lines)


def _excerpt(diff: str) -> str:
    """A few lines of the first hunks."""
    kept: list[str] = []
    hunks = lines = 0
    for row in diff.rstrip("\n").split("\n"):
        if row.startswith("@@"):
            hunks, lines = hunks + 1, 0
        if hunks > HUNKS:
            break
        if lines <= HUNK_LINES:
            kept.append(row)
        lines += 1
    return "\n".join(kept)


_BOXES = {"completed": "☑", "in_progress": "◐"}


def _todos(todos: Any, width: int, theme: Theme) -> Iterator[Text]:
    for todo in todos if isinstance(todos, list) else ():
        if not isinstance(todo, dict):
            continue
        status = str(todo.get("status"))
        ink = {"completed": theme.muted, "in_progress": theme.accent}.get(status, theme.text)
        words = harmless_line(str(todo.get("content", "")))
        yield cut(Text(f"{_BOXES.get(status, '☐')} {words}", theme.fg(ink)), width)


def output_pieces(shown: ShownRow, width: int, theme: Theme) -> Iterator[Piece]:
    """The last lines of a command's output, or all of it if unfolded."""
    bar = Text("  ▏ ", theme.fg(theme.line))
    text = clean(shown.message.text or "").strip("\n")
    if not text.strip():
        return
    muted = theme.fg(theme.muted)
    if shown.unfolded:
        yield from with_margin(text_pieces(text, width - 4, muted), bar, bar)
        return
    rows = text.split("\n")
    hidden = max(0, len(rows) - COMMAND_LINES)
    lines = [part for row in rows[hidden:] for part in _shortened(row, width - 4, theme)]
    if hidden:
        more = Text(f"… {counted(hidden, 'line')} above", theme.fg(theme.muted, italic=True))
        lines.insert(0, more)
    yield from as_piece(indented(lines, bar, bar))


def _shortened(row: str, width: int, theme: Theme) -> list[Text]:
    room = width * (COMMAND_LINE_LINES + 1)
    lines = wrapped(Text(row[:room], theme.fg(theme.muted)), width)
    if len(lines) <= COMMAND_LINE_LINES:
        return lines
    last = cut(Text.assemble(lines[COMMAND_LINE_LINES - 1], " …"), width)
    return [*lines[: COMMAND_LINE_LINES - 1], last]


def folded(pieces: Sequence[Piece], most: int, theme: Theme) -> Iterator[Text]:
    """The first lines, and the number of hidden ones."""
    lines = list(pieces[0].draw())
    yield from lines[:most]
    hidden = len(lines) - most + sum(piece.height for piece in pieces[1:])
    if hidden > 0:
        yield Text(f"… {counted(hidden, 'more line')}", theme.fg(theme.muted, italic=True))
