"""A session to be read from beginning to end: as text, as Markdown, or as a web page.

All are made of passages, and those of the rows that every client shows, so nothing that was undone
is in them. What a model, a tool or a file wrote is made harmless here. The page loads nothing and
runs nothing, and such texts are never markup in it.
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
    """One thing that was said or done. `diff` is what a call changes, `below` what else it is
    about."""

    kind: PassageKind
    text: str
    diff: str = ""
    below: str = ""
    undone: str = ""
    """Of a call that came to nothing: what became of it."""


_SAID = {
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
    """The rows that tell a reader something, in their order; the first is what was asked for."""
    for passage in _told(rows):
        yield TranscriptPassage(
            kind=passage.kind,
            text=harmless(passage.text),
            diff=harmless(passage.diff),
            below=harmless(passage.below),
            undone=passage.undone,
        )


def _told(rows: Iterable[Message]) -> Iterator[TranscriptPassage]:
    """The same as it was written: what stands in JSON is escaped there, and shows its face only
    when it is read."""
    for number, row in enumerate(rows):
        text = (row.text or "").strip("\n")
        if number == 0 and row.say == "text":
            yield TranscriptPassage(kind=PassageKind.PROMPT, text=text)
        elif row.say == "api_req_started":
            if failure := _fields(text).get("streamingFailedMessage"):
                yield TranscriptPassage(kind=PassageKind.TROUBLE, text=str(failure))
        elif row.say == "condense_context":
            told = "Earlier messages were summarised for the model."
            yield TranscriptPassage(kind=PassageKind.NOTE, text=told, below=text)
        elif row.say in _SAID and text:
            yield TranscriptPassage(kind=_SAID[row.say], text=text)
        elif row.type == "ask":
            yield from _asked(row, text)


def _asked(row: Message, text: str) -> Iterator[TranscriptPassage]:
    if row.ask == "followup":
        question, offered = followup(text)
        below = "\n".join(f"- {each}" for each in offered)
        yield TranscriptPassage(kind=PassageKind.QUESTION, text=question, below=below)
    elif row.call_id:
        yield _called(row, text)
    elif row.ask == "api_req_failed":
        yield TranscriptPassage(kind=PassageKind.TROUBLE, text=text)
    elif row.open and text:
        yield TranscriptPassage(kind=PassageKind.QUESTION, text=text)


def _called(row: Message, text: str) -> TranscriptPassage:
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
    """What became of a call that came to nothing, in a word."""
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


def as_text(told: Iterable[TranscriptPassage], paint: Paint) -> Iterator[str]:
    """The passages one by one, each on lines of its own."""
    for passage in told:
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


def as_markdown(told: Iterable[TranscriptPassage]) -> Iterator[str]:
    """The passages as blocks of Markdown, to be joined with an empty line between them."""
    for passage in told:
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
    """A title on one line: whatever stands in it is no Markdown."""
    ticks = "``" if "`" in text else "`"
    return f"{ticks} {text} {ticks}" if "`" in text else f"{ticks}{text}{ticks}"


def fenced(text: str, language: str = "") -> str:
    """A block that nothing in the text can end."""
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
_CALLED = {
    PassageKind.QUESTION: "Question: ",
    PassageKind.TROUBLE: "Failed: ",
    PassageKind.RESULT: "Result: ",
}
_MARKS = {"+": "added", "-": "removed"}


def as_page(title: str, parts: Iterable[str]) -> Iterator[str]:
    """The page, piece by piece; the parts are already HTML."""
    yield '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
    yield f'<meta http-equiv="Content-Security-Policy" content="{escape(_POLICY)}">\n'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
    yield f"<title>{escape(title)}</title>\n<style>\n{_STYLE}</style>\n</head>\n<body>\n<main>\n"
    for part in parts:
        yield f"{part}\n"
    yield "</main>\n</body>\n</html>\n"


def as_heading(text: str, about: str, *, level: int) -> str:
    return f'<h{level}>{escape(text)}</h{level}>\n<p class="about">{escape(about)}</p>'


def as_html(told: Iterable[TranscriptPassage]) -> Iterator[str]:
    """The passages as blocks of HTML."""
    for passage in told:
        inner = "\n".join(filter(None, (_first(passage), _diff(passage.diff), _below(passage))))
        yield f'<section class="passage {passage.kind.name.lower()}">\n{inner}\n</section>'


def _first(passage: TranscriptPassage) -> str:
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
            called = _CALLED.get(kind, "")
            return f"<p>{f'<strong>{called}</strong>' if called else ''}{text}</p>"


def _diff(diff: str) -> str:
    if not diff:
        return ""
    return f"<pre>{''.join(map(_line, diff.split(chr(10))))}</pre>"


def _line(line: str) -> str:
    mark = _MARKS.get(line[:1])
    shown = escape(line)
    return f'<span class="{mark}">{shown}\n</span>' if mark else f"{shown}\n"


def _below(passage: TranscriptPassage) -> str:
    return f"<pre>{escape(passage.below)}</pre>" if passage.below else ""
