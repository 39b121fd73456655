"""Renders a session as text, as Markdown or as a web page.

All three are made from passages, which come from the same rows every client shows, so undone steps
are not included. Text from a model, tool or file is made harmless in `passages`. The page loads and
runs nothing, and such text is always escaped in it.
"""

import json
import re
from collections.abc import Iterable, Iterator
from enum import Enum, auto
from html import escape
from typing import Any

from msgspec import Struct

from rookery.core.message import Message, diff_in
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
    """One message, call or note. `diff` is what a call changes, `below` its further details."""

    kind: PassageKind
    text: str
    diff: str = ""
    below: str = ""
    undone: str = ""
    """Why a call had no effect: rejected, refused, failed and so on; else empty."""


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


def passages(rows: Iterable[Message]) -> Iterator[TranscriptPassage]:
    """Convert rows to passages, in order and made harmless; the first is the prompt."""
    for passage in _raw_passages(rows):
        yield TranscriptPassage(
            kind=passage.kind,
            text=harmless(passage.text),
            diff=harmless(passage.diff),
            below=harmless(passage.below),
            undone=passage.undone,
        )


def _raw_passages(rows: Iterable[Message]) -> Iterator[TranscriptPassage]:
    """The passages with their raw text: text inside JSON has to be decoded before it is cleaned."""
    for number, row in enumerate(rows):
        text = (row.text or "").strip("\n")
        if number == 0 and row.say == "text":
            yield TranscriptPassage(kind=PassageKind.PROMPT, text=text)
        elif row.say == "api_req_started":
            if failure := _fields(text).get("streamingFailedMessage"):
                yield TranscriptPassage(kind=PassageKind.TROUBLE, text=str(failure))
        elif row.say == "condense_context":
            note = "Earlier messages were summarised for the model."
            yield TranscriptPassage(kind=PassageKind.NOTE, text=note, below=text)
        elif row.say in _KIND_BY_SAY and text:
            yield TranscriptPassage(kind=_KIND_BY_SAY[row.say], text=text)
        elif row.type == "ask":
            yield from _ask_passages(row, text)


def _ask_passages(row: Message, text: str) -> Iterator[TranscriptPassage]:
    if row.ask == "followup":
        question, offered = followup(text)
        below = "\n".join(f"- {each}" for each in offered)
        yield TranscriptPassage(kind=PassageKind.QUESTION, text=question, below=below)
    elif row.call_id:
        yield _call_passage(row, text)
    elif row.ask == "api_req_failed":
        yield TranscriptPassage(kind=PassageKind.TROUBLE, text=text)
    elif row.open and text:
        yield TranscriptPassage(kind=PassageKind.QUESTION, text=text)


def _call_passage(row: Message, text: str) -> TranscriptPassage:
    fields = _fields(text)
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


def undone(row: Message) -> str:
    """One word for why a call had no effect."""
    if row.outcome == "denied":
        return "rejected" if row.ask_id else "refused"
    return row.outcome


def _todo(todo: Any) -> str:
    fields = todo if isinstance(todo, dict) else {}
    box = _BOXES.get(str(fields.get("status")), "[ ]")
    return f"- {box} {fields.get('content', '')}"


def _fields(text: str) -> dict[str, Any]:
    try:
        fields = json.loads(text)
    except ValueError:
        return {}
    return fields if isinstance(fields, dict) else {}


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
    return "\n".join(filter(None, [first, diff, below]))


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
    return "\n\n".join(filter(None, [first, diff, more if below else ""]))


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


_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_STYLE = """\
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.15rem; margin-top: 2.5rem; }
h1, h2, p, pre, code { overflow-wrap: anywhere; }
.about { opacity: .75; }
.passage { margin: 1rem 0; } .passage > p { white-space: pre-wrap; margin: 0; }
.prompt { border-left: 3px solid #2563eb; padding-left: .8rem; font-weight: 600; }
.result { border: 1px solid #16803c; border-radius: .4rem; padding: .8rem; }
.trouble { border-left: 3px solid #c02626; padding-left: .8rem; }
.question { border-left: 3px solid #b45309; padding-left: .8rem; }
.note, .thought { opacity: .8; }
pre { white-space: pre-wrap; border: 1px solid #8886; border-radius: .4rem; padding: .6rem; }
.added { background: #16803c33; } .removed { background: #c0262633; }
.added, .removed { display: block; }
"""
_LABELS = {
    PassageKind.QUESTION: "Question: ",
    PassageKind.TROUBLE: "Failed: ",
    PassageKind.RESULT: "Result: ",
}
_MARKS = {"+": "added", "-": "removed"}


def as_page(title: str, parts: Iterable[str]) -> Iterator[str]:
    """The web page in pieces; `parts` are HTML already."""
    yield '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
    yield f'<meta http-equiv="Content-Security-Policy" content="{escape(_POLICY)}">\n'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
    yield f"<title>{escape(title)}</title>\n<style>\n{_STYLE}</style>\n</head>\n<body>\n<main>\n"
    for part in parts:
        yield f"{part}\n"
    yield "</main>\n</body>\n</html>\n"


def as_heading(text: str, about: str, *, level: int) -> str:
    return f'<h{level}>{escape(text)}</h{level}>\n<p class="about">{escape(about)}</p>'


def as_html(items: Iterable[TranscriptPassage]) -> Iterator[str]:
    """Render each passage as an HTML block."""
    for passage in items:
        inner = "\n".join(
            filter(None, (_main_html(passage), _diff_html(passage.diff), _details_html(passage)))
        )
        yield f'<section class="passage {passage.kind.name.lower()}">\n{inner}\n</section>'


def _main_html(passage: TranscriptPassage) -> str:
    text = escape(passage.text)
    match passage.kind:
        case PassageKind.CALL:
            became = f" ({passage.undone})" if passage.undone else ""
            return f"<p><code>{text}</code>{became}</p>"
        case PassageKind.OUTPUT:
            return f"<pre>{text}</pre>"
        case PassageKind.THOUGHT:
            return f"<details><summary>Reasoning</summary>\n<pre>{text}</pre>\n</details>"
        case kind:
            called = _LABELS.get(kind, "")
            return f"<p>{f'<strong>{called}</strong>' if called else ''}{text}</p>"


def _diff_html(diff: str) -> str:
    if not diff:
        return ""
    return f"<pre>{''.join(map(_diff_line_html, diff.split(chr(10))))}</pre>"


def _diff_line_html(line: str) -> str:
    mark = _MARKS.get(line[:1])
    shown = escape(line)
    return f'<span class="{mark}">{shown}\n</span>' if mark else f"{shown}\n"


def _details_html(passage: TranscriptPassage) -> str:
    return f"<pre>{escape(passage.below)}</pre>" if passage.below else ""
