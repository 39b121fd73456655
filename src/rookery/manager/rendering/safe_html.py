"""Renders text and source code as safe HTML.

All HTML that leaves the server goes through `sanitised`. Nothing is hidden: invisible characters,
and those that reorder text, are spelled out with the class `unseen`. Code has the classes of
pygments, styled under `.code`; only languages tested with long and hostile input are highlighted.
"""

import re
import time
from collections.abc import Iterator
from functools import cache
from html import escape
from io import StringIO
from typing import TYPE_CHECKING, Any

from rookery.core.limits import KIB
from rookery.core.text.characters import EMOJI, INVISIBLE, whole

if TYPE_CHECKING:
    import nh3
    from pygments.lexer import Lexer

_CONTROLS = r"\x00-\x08\x0b-\x1f\x7f"
_INVISIBLE = "".join(f"{chr(first)}-{chr(last)}" for first, last in INVISIBLE)
_JOINED = rf"(?<![{EMOJI}\ufe0f])\u200d|\u200d(?![{EMOJI}])"
"""A zero-width joiner that is not between two emoji."""
_MADE_EMOJI = (
    r"#*0-9\u00a9\u00ae\u203c\u2049\u2122\u2139\u24c2\u25aa-\u25fe\u2934\u2935\u3030\u303d\u3297\u3299"
    r"\U0001f000-\U0001f2ff"
)
_EMOJI_ONLY = rf"(?<![{EMOJI}{_MADE_EMOJI}])\ufe0f"
"""A variation selector that does not follow a character it can turn into an emoji."""
_UNSEEN = re.compile(
    rf"(?:((?!\u200d)[{_CONTROLS}\x80-\x9f{_INVISIBLE}])\1*)|{_JOINED}|{_EMOJI_ONLY}"
)
MOST_MARKS = 8
LONGEST_RUN = 500
"""Characters without a space after which a line may break; browsers freeze at very long ones."""
_LONG_RUN = re.compile(rf"(\S{{{LONGEST_RUN}}})")
_UNSEEN_IN_ASCII = re.compile(rf"([{_CONTROLS}])\1*")
_MARKS = (
    "\u0300-\u034e\u0350-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f"
)
_HEAP_OF_MARKS = re.compile(rf"([{_MARKS}]{{{MOST_MARKS}}})([{_MARKS}]+)")
"""Too many combining marks on one letter: browsers freeze, and they cover other text."""
TAGS = frozenset(
    (
        *("a", "code", "em", "s", "span", "strong", "br", "wbr"),
        *("blockquote", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "li", "ol", "p", "pre", "ul"),
        *("table", "tbody", "td", "th", "thead", "tr"),
    )
)
ATTRIBUTES = {"a": frozenset(("href",)), "ol": frozenset(("start",))}
SCHEMES = frozenset(("http", "https", "mailto"))
ALIGNMENTS = frozenset(("left", "center", "right"))
OUR_CLASSES = frozenset(("host", "picture", "unseen"))
"""Classes of a span: the host of a link, an image that is not shown, an invisible character."""
CODE = "code"
"""Class of highlighted code."""
LANGUAGES: dict[str, str] = {
    "bash": "sh bash zsh ksh bashrc zshrc profile",
    "c": "c h",
    "clojure": "clj cljs cljc edn",
    "cmake": "cmake",
    "cpp": "cpp cc cxx hpp hh hxx ino",
    "csharp": "cs",
    "css": "css",
    "dart": "dart",
    "diff": "diff patch",
    "docker": "dockerfile",
    "elixir": "ex exs",
    "erlang": "erl hrl",
    "fsharp": "fs fsx fsi",
    "go": "go",
    "graphql": "graphql gql",
    "groovy": "groovy gradle",
    "haskell": "hs",
    "hcl": "hcl tf tfvars",
    "html": "html htm xhtml vue svelte",
    "ini": "ini cfg conf properties editorconfig gitconfig",
    "java": "java",
    "javascript": "js mjs cjs jsx",
    "json": "json jsonl webmanifest ipynb",
    "julia": "jl",
    "kotlin": "kt kts",
    "lua": "lua",
    "make": "mk makefile gnumakefile",
    "nginx": "nginx",
    "nim": "nim",
    "objective-c": "m mm",
    "ocaml": "ml mli",
    "perl": "pl pm",
    "php": "php",
    "powershell": "ps1 psm1",
    "protobuf": "proto",
    "python": "py pyi pyw",
    "r": "r",
    "ruby": "rb rake gemfile rakefile",
    "rust": "rs",
    "scala": "scala sc",
    "scss": "scss",
    "sql": "sql",
    "swift": "swift",
    "toml": "toml",
    "tsx": "tsx",
    "typescript": "ts mts cts",
    "xml": "xml xsd xsl svg plist csproj",
    "yaml": "yaml yml",
    "zig": "zig",
}
_SPOKEN = {
    "c++": "cpp",
    "c#": "csharp",
    "console": "bash",
    "dockerfile": "docker",
    "golang": "go",
    "js": "javascript",
    "jsonc": "json",
    "json5": "json",
    "makefile": "make",
    "node": "javascript",
    "objc": "objective-c",
    "py": "python",
    "python3": "python",
    "shell": "bash",
    "terraform": "hcl",
}
_BY_ENDING = {ending: name for name, endings in LANGUAGES.items() for ending in endings.split()}
MOST_HIGHLIGHTED = 32 * KIB
"""Characters; longer texts are not highlighted."""
SECONDS_TO_HIGHLIGHT = 0.3
"""CPU time; texts that take longer are not highlighted. The longest source takes a third."""
LONGEST_LINE = 2_000
"""Characters; texts with a longer line are not highlighted."""
_RETURN = "␍"
"""Shown for a carriage return that does not end a line."""
_LONE_RETURN = re.compile(r"\r(?!\n)")


class _TooSlow(Exception):
    pass


def sanitised(html: str) -> str:
    return _cleaner().clean(html)


@cache
def classes() -> dict[str, frozenset[str]]:
    """Allowed classes of each tag."""
    from pygments.token import STANDARD_TYPES

    return {
        "span": OUR_CLASSES | frozenset(filter(None, STANDARD_TYPES.values())),
        "pre": frozenset((CODE,)),
        "code": frozenset(f"language-{name}" for name in LANGUAGES),
        "td": ALIGNMENTS,
        "th": ALIGNMENTS,
    }


def marked(html: str) -> str:
    """Spell out invisible characters in the text of HTML whose tags contain none."""
    if html.isascii():
        return _UNSEEN_IN_ASCII.sub(_spelled, html)
    return _HEAP_OF_MARKS.sub(_counted, _UNSEEN.sub(_spelled, html))


def plain(text: str) -> str:
    """Escape text as HTML."""
    parts = _LONG_RUN.split(text) if len(text) > LONGEST_RUN else [text]
    # every second part is a separator, kept by split
    said = (marked(escape(part)) + "<wbr>" * (place % 2) for place, part in enumerate(parts))
    return "".join(said)


def lines_of(path: str, text: str) -> tuple[str, ...]:
    """Each line of a file as sanitised HTML, without its line end (LF or CRLF). A text that ends
    with one has an empty last line."""
    html = sanitised("\n".join(_lines(language_of(path), text)))
    return tuple(html.split("\n"))


def highlighted(language: str, text: str) -> str:
    """Highlight text in a language given by name. The result must still be sanitised."""
    return "\n".join(_lines(language_named(language), text))


def language_named(name: str) -> str | None:
    """The language with this name or alias."""
    said = name.strip().lower()
    if said in LANGUAGES:
        return said
    return _SPOKEN.get(said) or _BY_ENDING.get(said)


def language_of(path: str) -> str | None:
    """The language of a file, by its name."""
    name = path.rpartition("/")[2].lower()
    return _BY_ENDING.get(name.rpartition(".")[2])


def _spelled(found: re.Match[str]) -> str:
    times = f" ×{len(found[0])}" if len(found[0]) > 1 else ""
    return f'<span class="unseen">U+{ord(found[0][0]):04X}{times}</span>'


def _counted(found: re.Match[str]) -> str:
    return f'{found[1]}<span class="unseen">{len(found[2])} more marks</span>'


@cache
def _cleaner() -> "nh3.Cleaner":
    import nh3

    return nh3.Cleaner(
        tags=set(TAGS),
        attributes={tag: set(names) for tag, names in ATTRIBUTES.items()},
        allowed_classes={tag: set(names) for tag, names in classes().items()},
        url_schemes=set(SCHEMES),
        link_rel="noopener noreferrer",
        set_tag_attribute_values={"a": {"target": "_blank"}},
        strip_comments=True,
    )


def _lines(language: str | None, text: str) -> list[str]:
    lines = _LONE_RETURN.sub(_RETURN, whole(text)).replace("\r\n", "\n").split("\n")
    if language is None or len(text) > MOST_HIGHLIGHTED or max(map(len, lines)) > LONGEST_LINE:
        return [plain(line) for line in lines]
    return _highlight(language, lines)


def _highlight(language: str, lines: list[str]) -> list[str]:
    from pygments.formatters import HtmlFormatter

    html = StringIO()
    try:
        HtmlFormatter(nowrap=True).format(_tokens(language, "\n".join(lines)), html)
    except _TooSlow:
        return [plain(line) for line in lines]
    done = html.getvalue().split("\n")
    # the formatter adds a final line feed; other differences mean the lexer changed the text
    done = done[: len(lines)]
    return [marked(line) for line in done] if len(done) == len(lines) else list(map(plain, lines))


def _tokens(language: str, text: str) -> Iterator[tuple[Any, str]]:
    """Tokens within the time limit, because lexers need quadratic time for some texts."""
    end = time.thread_time() + SECONDS_TO_HIGHLIGHT
    for token in _lexer(language).get_tokens(text):
        if time.thread_time() > end:
            raise _TooSlow
        yield token


@cache
def _lexer(language: str) -> "Lexer":
    from pygments.lexers import get_lexer_by_name

    return get_lexer_by_name(language, stripnl=False, ensurenl=False)
