"""Rows as lines of a terminal."""

import json
from collections.abc import Iterable, Iterator

from rich.text import Text
from textual.strip import Strip

from rookery.core.message import Message
from rookery.protocol.codec import followup
from rookery.tui.rows.lines import (
    Family,
    Piece,
    ShownRow,
    all_lines,
    behind,
    clean,
    cut,
    family_of,
    indented,
    padded,
    single,
    strip_of,
    text_pieces,
    wrapped,
)
from rookery.tui.rows.markdown import GrowingMarkdownLines
from rookery.tui.rows.tool_calls import call_pieces, output_pieces
from rookery.tui.short_texts import nameless
from rookery.tui.theme import Theme

THOUGHT_LINES = 3
"""Of what is being thought, so that one sees that it goes on."""
NEST = "│ "
PROSE = 110
"""Columns that sentences take at most: longer lines are hard to read."""


def drawn(shown: ShownRow, width: int, theme: Theme) -> list[Strip]:
    """All lines of a row."""
    pieces = pieces_of(shown, width, theme, GrowingMarkdownLines())
    return [strip_of(line) for line in all_lines(pieces)]


def pieces_of(
    shown: ShownRow, width: int, theme: Theme, words: GrowingMarkdownLines
) -> list[Piece]:
    """A row in pieces. Rows of a task that works for another stand behind a rule. `words` is kept
    with the row while its text grows."""
    if not shown.depth:
        return list(_pieces(shown, max(16, width), theme, words))
    nest = Text(NEST * shown.depth, theme.ink(theme.line))
    return list(behind(_pieces(shown, max(16, width - nest.cell_len), theme, words), nest, nest))


def can_unfold(shown: ShownRow) -> bool:
    kind = family_of(shown)
    return kind in (Family.CALL, Family.OUTPUT, Family.THOUGHT, Family.SUMMARY)


def _pieces(
    shown: ShownRow, width: int, theme: Theme, words: GrowingMarkdownLines
) -> Iterable[Piece]:
    message = shown.message
    text = message.text or ""
    prose = min(PROSE, width - 2)
    match family_of(shown):
        case Family.USER:
            return _said_by_user(message, width, theme)
        case Family.ANSWER:
            margin = Text("  ", theme.ink(theme.line))
            return behind(words.pieces(text, prose, theme), margin, margin)
        case Family.THOUGHT:
            return _thought(shown, width, theme)
        case Family.CALL:
            return call_pieces(shown, width, theme)
        case Family.OUTPUT:
            return output_pieces(shown, width, theme)
        case Family.TROUBLE:
            told = clean(_trouble(message)).strip() + _tried(shown)
            mark = Text("  ✗ ", theme.ink(theme.bad))
            return behind(text_pieces(told, width - 4, theme.ink(theme.bad)), mark, _FOUR)
        case Family.RESULT:
            mark = Text("✔ ", theme.ink(theme.good, bold=True))
            return behind(words.pieces(text, prose, theme), mark, _TWO)
        case Family.QUESTION:
            return _question(message, width, theme, words)
        case Family.NOTE:
            return _note(shown, width, theme)
        case Family.SUMMARY:
            return _summary(shown, width, theme, words)
        case Family.HIDDEN:
            return ()


_TWO = Text("  ")
_FOUR = Text("    ")


def _said_by_user(message: Message, width: int, theme: Theme) -> Iterator[Piece]:
    words = clean(message.text or "").strip("\n")
    ink, quiet = theme.ink(theme.words), theme.ink(theme.quiet)
    pieces = text_pieces(words, width - 3, ink) if words or not message.images else []
    if message.images:
        pieces += single(wrapped(Text(nameless(message.images), quiet), width - 3))
    mark = Text("› ", theme.ink(theme.accent, bold=True))
    for piece in behind(pieces, mark, _TWO):
        yield _on_band(piece, width, theme)


def _on_band(piece: Piece, width: int, theme: Theme) -> Piece:
    ground = theme.on(theme.words, theme.band)
    return Piece(piece.height, lambda: [padded(line, width, ground) for line in piece.draw()])


def _thought(shown: ShownRow, width: int, theme: Theme) -> Iterator[Piece]:
    ink = theme.ink(theme.quiet, italic=True)
    text = shown.message.text or ""
    if shown.message.partial:
        yield from single(_being_thought(clean(text[-_LATEST:]).strip(), width, theme))
    elif not shown.unfolded:
        words = " ".join(clean(text[:_LATEST]).split())
        yield from single([cut(Text(f"  Thought: {words}", ink), width)])
    else:
        yield from single([Text("  Thought:", ink)])
        yield from behind(text_pieces(clean(text).strip(), width - 4, ink), _FOUR, _FOUR)


_LATEST = 4_000
"""Characters of a thought that one line, or the last three, can need."""


def _being_thought(text: str, width: int, theme: Theme) -> Iterator[Text]:
    ink = theme.ink(theme.quiet, italic=True)
    yield Text("  Thinking …", ink)
    rows = text.split("\n")[-THOUGHT_LINES:]
    tail = [part for row in rows for part in wrapped(Text(row, ink), width - 4)]
    yield from indented(tail[-THOUGHT_LINES:], _FOUR, _FOUR)


def _trouble(message: Message) -> str:
    if message.say != "api_req_started":
        return message.text or "Something went wrong."
    try:
        return str(json.loads(message.text or "")["streamingFailedMessage"])
    except (ValueError, KeyError, TypeError):
        return "The request failed."


def _question(
    message: Message, width: int, theme: Theme, words: GrowingMarkdownLines
) -> Iterable[Piece]:
    question, offered = followup(message.text or "")
    if offered and message.open:
        return ()  # it is shown where it is answered
    mark = Text("? ", theme.ink(theme.accent, bold=True))
    return behind(words.pieces(question, width - 2, theme), mark, _TWO)


def _tried(shown: ShownRow) -> str:
    return f" (tried {shown.tries} times)" if shown.tries > 1 else ""


def _note(shown: ShownRow, width: int, theme: Theme) -> Iterable[Piece]:
    message = shown.message
    text = clean(message.text or "").strip()
    if message.ask == "resume_task":
        text = text or "Stopped."
    if not text:
        return ()
    if message.say == "api_req_retry_delayed":
        reason, _, timer = text.partition("<retry_timer>")
        seconds = timer.partition("</retry_timer>")[0]
        text = reason.rstrip() + _tried(shown)
        text += f"\ntrying again in {seconds} s" if seconds else ""
    room = width - 4
    if tells_criteria(text):
        pieces = single(drawn_criteria(text, room, theme))
    else:
        pieces = text_pieces(text, room, theme.ink(theme.careful))
    return behind(pieces, Text("  · ", theme.ink(theme.careful)), _FOUR)


def _summary(
    shown: ShownRow, width: int, theme: Theme, words: GrowingMarkdownLines
) -> Iterator[Piece]:
    summary = shown.message.text or ""
    what = "the older part was summarised" if summary else "the older part is left out"
    line = f"── {what} "
    rule = Text(line + "─" * max(0, width - len(line)), theme.ink(theme.quiet))
    yield from single([cut(rule, width)])
    if shown.unfolded and summary:
        yield from behind(_first_close(words.pieces(summary, width - 2, theme)), _TWO, _TWO)


def _first_close(pieces: list[Piece]) -> Iterator[Piece]:
    """Without a blank line above the first."""
    for at, piece in enumerate(pieces):
        yield piece if at else Piece(piece.height, piece.draw)


_HEAD = "Acceptance criteria of "
_INKS = {"✓": "good", "✗": "bad", "?": "careful"}


def tells_criteria(note: str) -> bool:
    return note.startswith(_HEAD)


def drawn_criteria(note: str, width: int, theme: Theme) -> Iterator[Text]:
    """Each behind its mark, in the colour of that: met, not met, or only claimed."""
    head, *rows = note.split("\n")
    yield from wrapped(Text(head, theme.ink(theme.words)), width)
    for row in rows:
        mark, _, words = row.strip().partition(" ")
        if mark not in _INKS:
            yield from indented(wrapped(Text(row.strip()), width - 2), Text("  "), Text("  "))
            continue
        ink = theme.ink(getattr(theme, _INKS[mark]))
        yield from indented(wrapped(Text(words, ink), width - 2), Text(f"{mark} ", ink), Text("  "))
