"""A session as a web page of its own: it loads nothing, runs nothing, and holds nothing but text.

Whatever a model, a tool or a file wrote is text in it, never markup.
"""

from collections.abc import Iterable, Iterator
from html import escape

from rookery.plain.transcript_text import Kind, Passage

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
    Kind.QUESTION: "Question: ",
    Kind.TROUBLE: "Failed: ",
    Kind.RESULT: "Result: ",
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


def as_html(told: Iterable[Passage]) -> Iterator[str]:
    """The passages as blocks of HTML."""
    for passage in told:
        inner = "\n".join(filter(None, (_first(passage), _diff(passage.diff), _below(passage))))
        yield f'<section class="passage {passage.kind.name.lower()}">\n{inner}\n</section>'


def _first(passage: Passage) -> str:
    text = escape(passage.text)
    match passage.kind:
        case Kind.CALL:
            became = f" ({passage.undone})" if passage.undone else ""
            return f"<p><code>{text}</code>{became}</p>"
        case Kind.OUTPUT:
            return f"<pre>{text}</pre>"
        case Kind.THOUGHT:
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


def _below(passage: Passage) -> str:
    return f"<pre>{escape(passage.below)}</pre>" if passage.below else ""
