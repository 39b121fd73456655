"""Source text as small models need it: top-level sections, and what is wrong with a new version.

The guards cost no tokens. They refuse a file that did not change, no longer parses, or lost
definitions: all of these were reported as success by models.
"""

import ast
import json
import re
import tomllib
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from pathlib import PurePosixPath

from msgspec import Struct

SCRIPT = frozenset((".js", ".mjs", ".cjs", ".ts", ".jsx", ".tsx"))
_DEFINITION = re.compile(
    r"^(?:export\s+(?:default\s+)?)?(?:async\s+)?"
    r"(?:def|class|function\*?|const|let|var|interface|type|enum)\s+([A-Za-z_$][\w$]*)",
    re.MULTILINE,
)
_EXPORTED = re.compile(r"^(?:module\.)?exports\.([A-Za-z_$][\w$]*)\s*=", re.MULTILINE)
_OMISSION = re.compile(
    r"^[ \t]*+(?:#|//|/\*|<!--)?[ \t]*+(?:\.\.\.|…)?[ \t]*+\(?(?:the )?"
    r"(?:rest|remaining|existing|other|previous)\b[^\n]{0,40}"
    r"\b(?:unchanged|the same|code|here|as before|functions?|methods?|lines)\b",
    re.IGNORECASE | re.MULTILINE,
)
_CONTINUES = re.compile(r"[\s)\]}]|else\b|elif\b|except\b|finally\b|catch\b")
_ATTACHED = re.compile(r"@|#|//|/\*")
_SETTINGS = re.compile(r"\.(?:ya?ml|json|toml|ini|cfg|conf|env|properties)")
_KEY = re.compile(r"^[ \t-]*[\"']?([\w.-]+)[\"']?[ \t]*[:=]", re.MULTILINE)
_EXPORTS = re.compile(r"module\.exports\b|export \{")
_LAST = re.compile(r"module\.exports\b|export (?:\{|default\b)|if __name__\b")
_DEFINES = re.compile(r"(?:@|export |async |def |class |function\b)")
_BRACKETS = {")": "(", "]": "[", "}": "{"}
_ESCAPES = 200
"""In one string. Without a bound, quotes that are all escaped cost quadratic time."""
_NEITHER_TEXT_NOR_COMMENT = re.compile(
    r"//[^\n]*|/\*.*?(?:\*/|\Z)"
    rf"|'[^'\\\n]*+(?:\\.[^'\\\n]*+){{0,{_ESCAPES}}}+'"
    rf"|\"[^\"\\\n]*+(?:\\.[^\"\\\n]*+){{0,{_ESCAPES}}}+\""
    rf"|`[^`\\]*+(?:\\.[^`\\]*+){{0,{_ESCAPES}}}+`",
    re.DOTALL,
)


class Section(Struct, frozen=True):
    """Lines of a file that belong together, such as a function with its decorators."""

    heading: str
    start: int
    end: int
    """Lines from 0, the last one excluded."""


def sections(text: str) -> list[Section]:
    """The top-level sections of a file, in order; together they are the whole file."""
    lines = text.splitlines()
    starts: list[int] = []
    attached = False
    for number, line in enumerate(lines):
        if not line or _CONTINUES.match(line):
            continue
        if not attached:
            starts.append(number)
        attached = bool(_ATTACHED.match(line))
    ends = [*starts[1:], len(lines)][: len(starts)]
    return [
        Section(_heading(lines, start, end), start, end)
        for start, end in zip(starts, ends, strict=True)
    ]


def _heading(lines: list[str], start: int, end: int) -> str:
    own = (line for line in lines[start:end] if line and not _ATTACHED.match(line))
    return next(own, lines[start]).strip()[:80]


def section_text(text: str, section: Section) -> str:
    return "\n".join(text.splitlines()[section.start : section.end]).strip("\n") + "\n"


def replace_section(text: str, section: Section | None, new: str) -> str:
    """The file with one section rewritten, or with new code at its end."""
    if section is None:
        return f"{text.rstrip()}\n\n\n{new.strip()}\n"
    lines = text.splitlines()
    old = lines[section.start : section.end]
    blank = len(old) - len("\n".join(old).rstrip().split("\n"))
    changed = [*lines[: section.start], *new.strip("\n").split("\n"), *[""] * blank]
    return "\n".join([*changed, *lines[section.end :]]).rstrip("\n") + "\n"


def names(path: str, text: str) -> set[str]:
    """The names that a source file defines at its top level; empty for other files."""
    suffix = PurePosixPath(path).suffix
    if suffix == ".py":
        tree = _parsed(text)
        return {name for node in tree.body for name in _bound(node)} if tree else set()
    if suffix in SCRIPT:
        return set(_DEFINITION.findall(text)) | set(_EXPORTED.findall(text))
    return set()


def _bound(node: ast.stmt) -> list[str]:
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return [node.name]
        case ast.Assign(targets=targets):
            return [target.id for target in targets if isinstance(target, ast.Name)]
        case ast.AnnAssign(target=ast.Name(id=name)):
            return [name]
        case _:
            return []


def fault(path: str, old: str | None, new: str, *, task: str) -> str:
    """What is wrong with the new text of a file, as one line of fact; empty if nothing is."""
    if not new.strip():
        return f"{path} is empty."
    if old is not None and new.split() == old.split():
        return f"{path} is unchanged."
    if _OMISSION.search(new) and not (old and _OMISSION.search(old)):
        return f"{path} leaves out code."
    if problem := _broken(path, new):
        return problem if old is None or not _broken(path, old) else ""
    lost = names(path, old or "") - names(path, new) or _lost_keys(path, old or "", new)
    unrelated = sorted(name for name in lost if not _words(name) & _words(task))
    return f"{path} lost {unrelated[0]}." if unrelated else ""


def copied(path: str, new: str, others: Mapping[str, str], *, task: str) -> str:
    """Whether a new file repeats a file that the task does not mention, as one line of fact."""
    for other, text in others.items():
        if other != path and new.split() == text.split() and other not in task:
            return f"{path} is a copy of {other}."
    return ""


def _lost_keys(path: str, old: str, new: str) -> set[str]:
    """Keys of a settings file that occur less often than before."""
    if not _SETTINGS.fullmatch(PurePosixPath(path).suffix):
        return set()
    return set(Counter(_KEY.findall(old)) - Counter(_KEY.findall(new)))


def _words(text: str) -> set[str]:
    return set(re.findall(r"[\w$]+", text))


def _broken(path: str, text: str) -> str:
    """Why a file cannot be parsed; empty if it can, or if the format is not known."""
    suffix = PurePosixPath(path).suffix
    if suffix in SCRIPT:
        return "" if _balanced(text) else f"{path} has unbalanced brackets."
    check = _CHECKS.get(suffix)
    if check is None:
        return ""
    try:
        with warnings.catch_warnings(action="ignore"):
            check(text)
    except SyntaxError as error:
        return f"{path} line {error.lineno}: {error.msg}."
    except (ValueError, RecursionError) as error:
        return f"{path}: {error}."
    return ""


_CHECKS: dict[str, Callable[[str], object]] = {
    ".py": ast.parse,
    ".json": json.loads,
    ".toml": tomllib.loads,
}


def _parsed(text: str) -> ast.Module | None:
    try:
        with warnings.catch_warnings(action="ignore"):
            return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return None


def _balanced(text: str) -> bool:
    """Whether brackets match, strings and comments aside."""
    opened: list[str] = []
    for character in _NEITHER_TEXT_NOR_COMMENT.sub("", text):
        if character in "([{":
            opened.append(character)
        elif character in _BRACKETS and (not opened or opened.pop() != _BRACKETS[character]):
            return False
    return not opened


def without_fence(text: str, path: str) -> str:
    """The text of a file from an answer that began behind an opened fence, or repeats it."""
    lines = text.split("\n")
    opening = next((n for n, line in enumerate(lines[:4]) if line.startswith("```")), None)
    before = [line for line in lines[: opening or 0] if line.strip()]
    if opening is not None and all(path and path in line for line in before):
        lines = lines[opening + 1 :]
    closing = next((n for n, line in enumerate(lines) if line.startswith("```")), len(lines))
    if PurePosixPath(path).suffix in (".md", ".rst"):
        closing = len(lines) - 1 if lines and lines[-1].startswith("```") else len(lines)
    return "\n".join(lines[:closing]).strip("\n") + "\n"


def repaired(path: str, old: str, new: str, *, task: str, focused: bool) -> str:
    """The new text of a file with what the model lost put back. If `focused`, definitions that
    the task does not name are restored too, as far as it names any."""
    before, after = _definitions(path, old), _definitions(path, new)
    said = _words(task)
    text = new
    if focused and said & set(before):
        for name in sorted(after, key=lambda name: -after[name].start):
            if name in before and name not in said:
                text = replace_section(text, after[name], section_text(old, before[name]))
    for name, section in before.items():
        if name not in after and name not in said:
            text = _inserted(text, section_text(old, section))
    exports = [part for part in sections(old) if _EXPORTS.match(part.heading)]
    if exports and not any(_EXPORTS.match(part.heading) for part in sections(text)):
        text = f"{text.rstrip()}\n\n{section_text(old, exports[-1])}"
    return text


def _definitions(path: str, text: str) -> dict[str, Section]:
    """The sections of a source file that define one name."""
    found: dict[str, Section] = {}
    for section in sections(text):
        defined = names(path, section_text(text, section))
        if len(defined) == 1:
            found.setdefault(defined.pop(), section)
    return found


def _inserted(text: str, section: str) -> str:
    """The text with a section in it: a definition before what ends the file, else before all."""
    parts = sections(text)
    ending = (part.start for part in parts if _LAST.match(part.heading))
    first = (part.start for part in parts if _DEFINES.match(part.heading))
    lines = text.splitlines()
    place = next(ending if _DEFINES.match(section) else first, len(lines))
    return (
        "\n".join([*lines[:place], "", *section.splitlines(), "", *lines[place:]]).rstrip() + "\n"
    )


def mentions(text: str, words: Collection[str]) -> int:
    """How many of the words a text contains."""
    return len(_words(text) & set(words))
