"""Renders a row as terminal lines."""

from collections.abc import Iterable, Iterator

from rich.text import Text

from rookery.core.message import Message
from rookery.protocol.codec import followup
from rookery.tui.rows.lines import (
    Piece,
    RowKind,
    ShownRow,
    as_piece,
    clean,
    cut,
    indented,
    kind_of,
    padded,
    text_pieces,
    with_margin,
    wrapped,
)
from rookery.tui.rows.markdown import GrowingMarkdownLines
from rookery.tui.rows.tool_calls import call_pieces, folded, output_pieces
from rookery.tui.short_texts import image_labels
from rookery.tui.theme import Theme

THOUGHT_LINES = 3
"""Last lines of the reasoning that are shown while it streams in."""
USER_LINES = 12
"""Lines of a message of the user that are shown while it is folded."""
NEST = "│ "
PROSE = 110
"""Maximum columns for prose."""


def pieces_of(
    shown: ShownRow, width: int, theme: Theme, words: GrowingMarkdownLines
) -> list[Piece]:
    """The pieces of a row; rows of sub-tasks are nested. `words` is kept with the row while its
    text grows."""
    if not shown.depth:
        return list(_pieces(shown, max(16, width), theme, words))
    nest = Text(NEST * shown.depth, theme.fg(theme.line))
    pieces = _pieces(shown, max(16, width - nest.cell_len), theme, words)
    return list(with_margin(pieces, nest, nest))


def can_unfold(shown: ShownRow) -> bool:
    kind = kind_of(shown)
    if kind is RowKind.USER:
        return (shown.message.text or "").count("\n") > USER_LINES
    return kind in (RowKind.CALL, RowKind.OUTPUT, RowKind.THOUGHT, RowKind.SUMMARY)


def _pieces(
    shown: ShownRow, width: int, theme: Theme, words: GrowingMarkdownLines
) -> Iterable[Piece]:
    message = shown.message
    text = message.text or ""
    prose = min(PROSE, width - 2)
    match kind_of(shown):
        case RowKind.USER:
            return _user_message(shown, width, theme)
        case RowKind.ANSWER:
            margin = Text("  ", theme.fg(theme.line))
            return with_margin(words.pieces(text, prose, theme), margin, margin)
        case RowKind.THOUGHT:
            return _thought(shown, width, theme)
        case RowKind.CALL:
            return call_pieces(shown, width, theme)
        case RowKind.OUTPUT:
            return output_pieces(shown, width, theme)
        case RowKind.TROUBLE:
            error = clean(message.failure or text or "Something went wrong.").strip() + _tries_text(
                shown
            )
            mark = Text("  ✗ ", theme.fg(theme.bad))
            return with_margin(text_pieces(error, width - 4, theme.fg(theme.bad)), mark, _FOUR)
        case RowKind.RESULT:
            mark = Text("✔ ", theme.fg(theme.good, bold=True))
            return with_margin(words.pieces(text, prose, theme), mark, _TWO)
        case RowKind.QUESTION:
            return _question(message, width, theme, words)
        case RowKind.NOTE:
            return _note(shown, width, theme)
        case RowKind.SUMMARY:
            return _summary(shown, width, theme, words)
        case RowKind.HIDDEN:
            return ()


_TWO = Text("  ")
_FOUR = Text("    ")


def _user_message(shown: ShownRow, width: int, theme: Theme) -> Iterator[Piece]:
    """A long message, such as one with a command's output, is folded."""
    message = shown.message
    words = clean(message.text or "").strip("\n")
    ink, muted = theme.fg(theme.text), theme.fg(theme.muted)
    pieces = text_pieces(words, width - 3, ink) if words or not message.images else []
    if can_unfold(shown) and not shown.unfolded:
        pieces = as_piece(folded(pieces, USER_LINES, theme))
    if message.images:
        pieces += as_piece(wrapped(Text(image_labels(message.images), muted), width - 3))
    mark = Text("› ", theme.fg(theme.accent, bold=True))
    for piece in with_margin(pieces, mark, _TWO):
        yield _on_band(piece, width, theme)


def _on_band(piece: Piece, width: int, theme: Theme) -> Piece:
    background = theme.on(theme.text, theme.band)
    return Piece(piece.height, lambda: [padded(line, width, background) for line in piece.draw()])


def _thought(shown: ShownRow, width: int, theme: Theme) -> Iterator[Piece]:
    ink = theme.fg(theme.muted, italic=True)
    text = shown.message.text or ""
    if shown.message.partial:
        yield from as_piece(_thinking_lines(clean(text[-_EXCERPT:]).strip(), width, theme))
    elif not shown.unfolded:
        words = " ".join(clean(text[:_EXCERPT]).split())
        yield from as_piece([cut(Text(f"  Thought: {words}", ink), width)])
    else:
        yield from as_piece([Text("  Thought:", ink)])
        yield from with_margin(text_pieces(clean(text).strip(), width - 4, ink), _FOUR, _FOUR)


_EXCERPT = 4_000
"""Characters of the reasoning that are looked at for a folded row."""


def _thinking_lines(text: str, width: int, theme: Theme) -> Iterator[Text]:
    ink = theme.fg(theme.muted, italic=True)
    yield Text("  Thinking …", ink)
    rows = text.split("\n")[-THOUGHT_LINES:]
    tail = [part for row in rows for part in wrapped(Text(row, ink), width - 4)]
    yield from indented(tail[-THOUGHT_LINES:], _FOUR, _FOUR)


def _question(
    message: Message, width: int, theme: Theme, words: GrowingMarkdownLines
) -> Iterable[Piece]:
    question, offered = followup(message.text or "")
    if offered and message.open:
        return ()  # the question panel shows it
    mark = Text("? ", theme.fg(theme.accent, bold=True))
    return with_margin(words.pieces(question, width - 2, theme), mark, _TWO)


def _tries_text(shown: ShownRow) -> str:
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
        text = reason.rstrip() + _tries_text(shown)
        text += f"\ntrying again in {seconds} s" if seconds else ""
    room = width - 4
    if is_criteria(text):
        pieces = as_piece(draw_criteria(text, room, theme))
    else:
        pieces = text_pieces(text, room, theme.fg(theme.warning))
    return with_margin(pieces, Text("  · ", theme.fg(theme.warning)), _FOUR)


def _summary(
    shown: ShownRow, width: int, theme: Theme, words: GrowingMarkdownLines
) -> Iterator[Piece]:
    summary = shown.message.text or ""
    what = "the older part was summarised" if summary else "the older part is left out"
    line = f"── {what} "
    rule = Text(line + "─" * max(0, width - len(line)), theme.fg(theme.muted))
    yield from as_piece([cut(rule, width)])
    if shown.unfolded and summary:
        yield from with_margin(_no_first_gap(words.pieces(summary, width - 2, theme)), _TWO, _TWO)


def _no_first_gap(pieces: list[Piece]) -> Iterator[Piece]:
    """Remove the gap above the first piece."""
    for at, piece in enumerate(pieces):
        yield piece if at else Piece(piece.height, piece.draw)


_HEAD = "Acceptance criteria of "
_COLOURS = {"✓": "good", "✗": "bad", "?": "warning"}


def is_criteria(note: str) -> bool:
    return note.startswith(_HEAD)


def draw_criteria(note: str, width: int, theme: Theme) -> Iterator[Text]:
    """Each criterion with its mark and colour: met, not met, or only claimed."""
    head, *rows = note.split("\n")
    yield from wrapped(Text(head, theme.fg(theme.text)), width)
    for row in rows:
        mark, _, words = row.strip().partition(" ")
        if mark not in _COLOURS:
            yield from indented(wrapped(Text(row.strip()), width - 2), Text("  "), Text("  "))
            continue
        ink = theme.fg(getattr(theme, _COLOURS[mark]))
        yield from indented(wrapped(Text(words, ink), width - 2), Text(f"{mark} ", ink), Text("  "))
