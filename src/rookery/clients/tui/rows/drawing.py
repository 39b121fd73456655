"""Rows as lines of a terminal."""

import json
from collections.abc import Iterator

from rich.text import Text
from textual.strip import Strip

from rookery.clients.questions import followup
from rookery.clients.tui.look import Look
from rookery.clients.tui.rows.calls import drawn_call, drawn_output
from rookery.clients.tui.rows.criteria import drawn_criteria, tells_criteria
from rookery.clients.tui.rows.families import Family, Shown, family_of
from rookery.clients.tui.rows.lines import clean, cut, indented, padded, strip_of, wrapped
from rookery.clients.tui.rows.markdown import markdown, markdown_strips
from rookery.clients.tui.rows.picture_line import nameless
from rookery.core.message import Message

THOUGHT_LINES = 3
"""Of what is being thought, so that one sees that it goes on."""
NEST = "│ "
PROSE = 110
"""Columns that sentences take at most: longer lines are hard to read."""


def drawn(shown: Shown, width: int, look: Look) -> list[Strip]:
    """The lines of a row. Rows of a task that works for another stand behind a rule."""
    nest = Text(NEST * shown.depth, look.ink(look.line))
    room = max(16, width - nest.cell_len)
    if family_of(shown) is Family.ANSWER:
        margin = Text(f"{nest.plain}  ", nest.style)
        words = shown.message.text or ""
        return markdown_strips(words, min(PROSE, room - 2), look, margin)
    return [strip_of(line) for line in indented(_lines(shown, room, look), nest, nest)]


def can_unfold(shown: Shown) -> bool:
    kind = family_of(shown)
    return kind in (Family.CALL, Family.OUTPUT, Family.THOUGHT, Family.SUMMARY)


def _lines(shown: Shown, width: int, look: Look) -> Iterator[Text]:
    message = shown.message
    prose = min(PROSE, width - 2)
    match family_of(shown):
        case Family.USER:
            yield from _said_by_user(message, width, look)
        case Family.THOUGHT:
            yield from _thought(shown, width, look)
        case Family.CALL:
            yield from drawn_call(shown, width, look)
        case Family.OUTPUT:
            yield from drawn_output(shown, width, look)
        case Family.TROUBLE:
            words = Text(clean(_trouble(message)).strip(), look.ink(look.bad))
            words.append(_tried(shown))
            yield from indented(wrapped(words, width - 4), Text("  ✗ ", look.ink(look.bad)), _FOUR)
        case Family.RESULT:
            mark = Text("✔ ", look.ink(look.good, bold=True))
            yield from indented(markdown(message.text or "", prose, look), mark, Text("  "))
        case Family.QUESTION:
            yield from _question(message, width, look)
        case Family.NOTE:
            yield from _note(shown, width, look)
        case Family.SUMMARY:
            yield from _summary(shown, width, look)
        case Family.HIDDEN | Family.ANSWER:
            return


_FOUR = Text("    ")


def _behind(margin: Text, lines: list[Text]) -> Iterator[Text]:
    return indented(lines, margin, margin)


def _said_by_user(message: Message, width: int, look: Look) -> Iterator[Text]:
    words = Text(clean(message.text or "").strip("\n"), look.ink(look.words))
    if message.images:
        words.append(("\n" if words else "") + nameless(message.images), look.ink(look.quiet))
    ground = look.on(look.words, look.band)
    mark = Text("› ", look.ink(look.accent, bold=True))
    for line in indented(wrapped(words, width - 3), mark, Text("  ")):
        yield padded(line, width, ground)


def _thought(shown: Shown, width: int, look: Look) -> Iterator[Text]:
    text = clean(shown.message.text or "").strip()
    ink = look.ink(look.quiet, italic=True)
    rows = text.split("\n")
    if shown.message.partial:
        yield Text("  Thinking …", ink)
        tail = [
            part for row in rows[-THOUGHT_LINES:] for part in wrapped(Text(row, ink), width - 4)
        ]
        yield from indented(tail[-THOUGHT_LINES:], _FOUR, _FOUR)
        return
    if not shown.unfolded:
        yield cut(Text(f"  Thought: {' '.join(text.split())}", ink), width)
        return
    yield Text("  Thought:", ink)
    lines = [part for row in rows for part in wrapped(Text(row, ink), width - 4)]
    yield from indented(lines, _FOUR, _FOUR)


def _trouble(message: Message) -> str:
    if message.say != "api_req_started":
        return message.text or "Something went wrong."
    try:
        return str(json.loads(message.text or "")["streamingFailedMessage"])
    except (ValueError, KeyError, TypeError):
        return "The request failed."


def _question(message: Message, width: int, look: Look) -> Iterator[Text]:
    question, offered = followup(message.text or "")
    if offered and message.open:
        return  # it is shown where it is answered
    mark = Text("? ", look.ink(look.accent, bold=True))
    yield from indented(markdown(question, width - 2, look), mark, Text("  "))


def _tried(shown: Shown) -> str:
    return f" (tried {shown.tries} times)" if shown.tries > 1 else ""


def _note(shown: Shown, width: int, look: Look) -> Iterator[Text]:
    message = shown.message
    text = clean(message.text or "").strip()
    if message.ask == "resume_task":
        text = text or "Stopped."
    if not text:
        return
    if message.say == "api_req_retry_delayed":
        reason, _, timer = text.partition("<retry_timer>")
        seconds = timer.partition("</retry_timer>")[0]
        text = reason.rstrip() + _tried(shown)
        text += f"\ntrying again in {seconds} s" if seconds else ""
    words = Text(text, look.ink(look.careful))
    room = width - 4
    lines = drawn_criteria(text, room, look) if tells_criteria(text) else wrapped(words, room)
    yield from indented(lines, Text("  · ", look.ink(look.careful)), _FOUR)


def _summary(shown: Shown, width: int, look: Look) -> Iterator[Text]:
    summary = shown.message.text or ""
    words = "the older part was summarised" if summary else "the older part is left out"
    line = f"── {words} "
    yield cut(Text(line + "─" * max(0, width - len(line)), look.ink(look.quiet)), width)
    if shown.unfolded and summary:
        yield from _behind(Text("  "), markdown(summary, width - 2, look))
