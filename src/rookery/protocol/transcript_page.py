"""Renders a session as a web page: one file that loads and runs nothing.

Text from a model, tool or file is always escaped, and a strict policy keeps the page from loading
anything even if that failed. Images are part of the page. Tool calls are folded.
"""

import re
from collections.abc import Iterable, Iterator
from html import escape

from rookery.core.blocks import SHOWN_TYPES, Image
from rookery.protocol.transcript_text import PassageKind, TranscriptPassage, image_text

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action 'none'"
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")
_STYLE = """\
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.15rem; margin-top: 2.5rem; }
h1, h2, p, pre, code, summary { overflow-wrap: anywhere; }
.about { opacity: .75; }
.passage { margin: 1rem 0; } .passage > p { white-space: pre-wrap; margin: 0; }
.prompt { border-left: 3px solid #2563eb; padding-left: .8rem; font-weight: 600; }
.result { border: 1px solid #16803c; border-radius: .4rem; padding: .8rem; }
.trouble, .damage { border-left: 3px solid #c02626; padding-left: .8rem; }
.question { border-left: 3px solid #b45309; padding-left: .8rem; }
.note, .thought { opacity: .8; }
summary { cursor: pointer; }
pre { white-space: pre-wrap; border: 1px solid #8886; border-radius: .4rem; padding: .6rem; }
img { max-width: 100%; }
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
    yield '<meta name="referrer" content="no-referrer">\n'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
    yield f"<title>{escape(title)}</title>\n<style>\n{_STYLE}</style>\n</head>\n<body>\n<main>\n"
    for part in parts:
        yield f"{part}\n"
    yield "</main>\n</body>\n</html>\n"


def as_heading(text: str, about: str, *, level: int) -> str:
    return f'<h{level}>{escape(text)}</h{level}>\n<p class="about">{escape(about)}</p>'


def as_damage(text: str) -> str:
    """A sentence about a part that cannot be read."""
    return f'<section class="passage damage">\n<p>{escape(text)}</p>\n</section>'


def as_html(items: Iterable[TranscriptPassage]) -> Iterator[str]:
    """Render each passage as an HTML block."""
    for passage in items:
        kind = passage.kind.name.lower()
        yield f'<section class="passage {kind}">\n{_inner(passage)}\n</section>'


def _inner(passage: TranscriptPassage) -> str:
    text = escape(passage.text)
    images = "\n".join(map(_image_html, passage.images))
    match passage.kind:
        case PassageKind.CALL:
            became = f" ({escape(passage.undone)})" if passage.undone else ""
            inside = (_diff_html(passage.diff), _pre(passage.below), _pre(passage.result), images)
            return _folded(f"<code>{text}</code>{became}", *inside, opened=bool(passage.diff))
        case PassageKind.OUTPUT:
            return _folded("Output", _pre(passage.text), images)
        case PassageKind.THOUGHT:
            return _folded("Reasoning", _pre(passage.text))
        case kind:
            called = _LABELS.get(kind, "")
            main = f"<p>{f'<strong>{called}</strong>' if called else ''}{text}</p>"
            return _joined(main, _diff_html(passage.diff), _pre(passage.below), images)


def _folded(summary: str, *inside: str, opened: bool = False) -> str:
    """What a reader can unfold; diffs are shown at once."""
    content = _joined(*inside)
    if not content:
        return f"<p>{summary}</p>"
    mark = " open" if opened else ""
    return f"<details{mark}><summary>{summary}</summary>\n{content}\n</details>"


def _joined(*parts: str) -> str:
    return "\n".join(filter(None, parts))


def _pre(text: str) -> str:
    # a parser drops the first line break after the tag
    return f"<pre>\n{escape(text)}</pre>" if text else ""


def _image_html(image: Image) -> str:
    """The image itself if a browser shows its type, else a line about it."""
    named = escape(image_text(image))
    if image.media_type not in SHOWN_TYPES or not _BASE64.fullmatch(image.data):
        return f"<p>{named}</p>"
    return f'<img alt="{named}" src="data:{image.media_type};base64,{image.data}">'


def _diff_html(diff: str) -> str:
    if not diff:
        return ""
    return f"<pre>\n{''.join(map(_diff_line_html, diff.split(chr(10))))}</pre>"


def _diff_line_html(line: str) -> str:
    mark = _MARKS.get(line[:1])
    shown = escape(line)
    return f'<span class="{mark}">{shown}\n</span>' if mark else f"{shown}\n"
