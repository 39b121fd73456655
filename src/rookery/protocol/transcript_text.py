"""Renders a session as text or as Markdown; `transcript_page` renders it as a web page.

All three are made from passages, which come from the same rows every client shows, so undone steps
are not included. Text from a model, tool or file is made harmless in `passages`.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum, auto
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from rookery.core.blocks import Image
from rookery.core.facts import ToolFinished
from rookery.core.message import Message, diff_in, payload_in
from rookery.core.text.terminal_text import Paint, harmless, harmless_line
from rookery.protocol.codec import followup

_BOXES = {"completed": "[x]", "in_progress": "[-]", "pending": "[ ]"}
_BACKTICKS = re.compile(r"`{3,}")


class PassageKind(Enum):
    PROMPT = auto()
    WORDS = auto()
    THOUGHT = auto()
    CALL = auto()
    OUTPUT = auto()
    QUESTION = auto()
    TROUBLE = auto()
    NOTE = auto()
    RESULT = auto()


class TranscriptPassage(Struct, frozen=True, kw_only=True):
    """One message, call or note. `diff` is what a call changes, `below` its further details,
    `result` what the model got for it."""

    kind: PassageKind
    text: str
    diff: str = ""
    below: str = ""
    undone: str = ""
    """Why a call had no effect: rejected, refused, failed and so on; else empty."""
    result: str = ""
    images: tuple[Image, ...] = ()


_KIND_BY_SAY = {
    "user_feedback": PassageKind.PROMPT,
    "reasoning": PassageKind.THOUGHT,
    "text": PassageKind.WORDS,
    "command_output": PassageKind.OUTPUT,
    "browser_action_result": PassageKind.OUTPUT,
    "completion_result": PassageKind.RESULT,
    "error": PassageKind.TROUBLE,
    "note": PassageKind.NOTE,
}


def passages(
    rows: Iterable[Message],
    results: Mapping[str, ToolFinished] | None = None,
    *,
    first: bool = True,
) -> Iterator[TranscriptPassage]:
    """Convert rows to passages, in order and made harmless. The `first` row of a session is its
    prompt. Results of calls are added if they are given."""
    for row in rows:
        for passage in _raw_passages(row, results or {}, first=first):
            yield replace(
                passage,
                text=harmless(passage.text),
                diff=harmless(passage.diff),
                below=harmless(passage.below),
                result=harmless(passage.result),
            )
        first = False


def _raw_passages(
    row: Message, results: Mapping[str, ToolFinished], *, first: bool
) -> Iterator[TranscriptPassage]:
    """The passages with their raw text: text inside JSON has to be decoded before it is cleaned."""
    text = (row.text or "").strip("\n")
    if first and row.say == "text":
        yield TranscriptPassage(kind=PassageKind.PROMPT, text=text, images=row.images)
    elif row.failure:
        yield TranscriptPassage(kind=PassageKind.TROUBLE, text=row.failure)
    elif row.say == "condense_context":
        note = "Earlier messages were summarised for the model."
        yield TranscriptPassage(kind=PassageKind.NOTE, text=note, below=text)
    elif row.say in _KIND_BY_SAY and (text or row.images):
        yield TranscriptPassage(kind=_KIND_BY_SAY[row.say], text=text, images=row.images)
    elif row.type == "ask":
        yield from _ask_passages(row, text, results.get(row.call_id))


def _ask_passages(
    row: Message, text: str, result: ToolFinished | None
) -> Iterator[TranscriptPassage]:
    if row.ask == "followup":
        question, offered = followup(text)
        below = "\n".join(f"- {each}" for each in offered)
        yield TranscriptPassage(kind=PassageKind.QUESTION, text=question, below=below)
    elif row.call_id:
        yield _with_result(_call_passage(row, text), row, result)
    elif row.ask == "api_req_failed":
        yield TranscriptPassage(kind=PassageKind.TROUBLE, text=text)
    elif row.open and text:
        yield TranscriptPassage(kind=PassageKind.QUESTION, text=text)


def _call_passage(row: Message, text: str) -> TranscriptPassage:
    fields = payload_in(text)
    title = harmless_line(row.title) or harmless_line(str(fields.get("tool", text)))
    diff = row.diff or diff_in(fields) or ""
    below = ""
    if row.ask == "command" and text not in title:
        below = text
    elif fields.get("tool") == "updateTodoList":
        below = "\n".join(map(_todo, fields.get("todos", [])))
    elif fields.get("tool") == "newTask":
        below = str(fields.get("content", ""))
    return TranscriptPassage(
        kind=PassageKind.CALL, text=title, diff=diff, below=below, undone=undone(row)
    )


def _with_result(
    passage: TranscriptPassage, row: Message, result: ToolFinished | None
) -> TranscriptPassage:
    """Output of commands has its own row."""
    if result is None or row.ask == "command":
        return passage
    return replace(passage, result=result.text.strip("\n"), images=result.images)


def undone(row: Message) -> str:
    """One word for why a call had no effect."""
    if row.outcome == "denied":
        return "rejected" if row.ask_id else "refused"
    return row.outcome


def _todo(todo: Any) -> str:
    fields = todo if isinstance(todo, dict) else {}
    box = _BOXES.get(str(fields.get("status")), "[ ]")
    return f"- {box} {fields.get('content', '')}"


def as_text(items: Iterable[TranscriptPassage], paint: Paint) -> Iterator[str]:
    """Render each passage as lines of text."""
    for passage in items:
        yield _text_of(passage, paint)


def _text_of(passage: TranscriptPassage, paint: Paint) -> str:
    text, below = passage.text, _indented(passage.below)
    match passage.kind:
        case PassageKind.PROMPT:
            first = "\n".join(paint.bold(paint.cyan(f"> {line}")) for line in text.split("\n"))
        case PassageKind.THOUGHT | PassageKind.OUTPUT:
            first = "\n".join(map(paint.dim, _indented(text).split("\n")))
        case PassageKind.CALL if passage.undone:
            first = paint.red(f"✗ {passage.undone}: {text}")
        case PassageKind.CALL:
            first = f"{paint.cyan('●')} {text}"
        case PassageKind.QUESTION:
            first = f"{paint.yellow('?')} {text}"
        case PassageKind.TROUBLE:
            first = paint.red(f"✗ {text}")
        case PassageKind.NOTE:
            first = paint.yellow(f"note: {text}")
        case PassageKind.RESULT:
            first = f"{paint.green('✔')} {text}"
        case PassageKind.WORDS:
            first = text
    diff = _indented(paint.diff(passage.diff)) if passage.diff else ""
    return "\n".join(filter(None, [first, diff, below, *map(image_text, passage.images)]))


def image_text(image: Image) -> str:
    """A line that stands for an image."""
    size = f"{-(-len(image.data) * 3 // 4096)} KB" if image.data else "left out"
    return f"[{harmless_line(image.media_type)}, {size}]"


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.split("\n")) if text else ""


def as_markdown(items: Iterable[TranscriptPassage]) -> Iterator[str]:
    """Render each passage as a Markdown block; join them with blank lines."""
    for passage in items:
        yield _block_of(passage)


def _block_of(passage: TranscriptPassage) -> str:
    text, below = passage.text, passage.below
    match passage.kind:
        case PassageKind.PROMPT:
            first = _quoted(text)
        case PassageKind.THOUGHT:
            first = f"<details><summary>Reasoning</summary>\n\n{fenced(text)}\n\n</details>"
        case PassageKind.OUTPUT:
            first = fenced(text)
        case PassageKind.CALL:
            became = f" ({passage.undone})" if passage.undone else ""
            first = f"- {_as_code(text)}{became}"
        case PassageKind.QUESTION:
            first = f"**Question:** {text}"
        case PassageKind.TROUBLE:
            first = f"**Failed:** {text}"
        case PassageKind.NOTE:
            first = f"*{text}*"
        case PassageKind.RESULT:
            first = f"## Result\n\n{text}"
        case PassageKind.WORDS:
            first = text
    diff = fenced(passage.diff, "diff") if passage.diff else ""
    more = (
        fenced(below) if passage.kind is PassageKind.CALL and not below.startswith("- ") else below
    )
    shown = map(_as_code, map(image_text, passage.images))
    return "\n\n".join(filter(None, [first, diff, more if below else "", *shown]))


def _quoted(text: str) -> str:
    return "\n".join(f"> {line}".rstrip() for line in text.split("\n"))


def _as_code(text: str) -> str:
    """Inline code, so that nothing in the title is read as Markdown."""
    ticks = "``" if "`" in text else "`"
    return f"{ticks} {text} {ticks}" if "`" in text else f"{ticks}{text}{ticks}"


def fenced(text: str, language: str = "") -> str:
    """A code block with a fence longer than any in the text."""
    longest = max((len(found) for found in _BACKTICKS.findall(text)), default=2)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"
