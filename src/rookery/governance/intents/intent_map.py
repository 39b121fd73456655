"""The intent map: where each intent lives in the code, as Markdown.

Everything is sorted, so that the same ledger gives the same text.
"""

import ast
from collections.abc import Mapping, Sequence

from msgspec import Struct

from rookery.governance.intents.activity import Activity, FileActivity
from rookery.governance.intents.intent import Intent
from rookery.governance.ledger.line_ranges import LineRange

TITLE = "# Intent map"
SHORT_HASH = 12
MOST_SYMBOLS = 12


class MapFile(Struct, frozen=True, kw_only=True):
    path: str
    symbols: tuple[str, ...] = ()
    last_change: str = ""
    after: str = ""
    changes: int = 0


class MapEntry(Struct, frozen=True, kw_only=True):
    intent: Intent
    files: tuple[MapFile, ...] = ()


def map_text(entries: Sequence[MapEntry]) -> str:
    """The intents in the order of their ids."""
    return "\n\n".join([TITLE, *map(_section, sorted(entries, key=_by_id))]) + "\n"


def map_entries(
    intents: Sequence[Intent],
    activities: Mapping[str, Activity],
    texts: Mapping[str, str],
) -> tuple[MapEntry, ...]:
    """`texts` are the present contents of files, where there are any; names are looked for in
    them."""
    return tuple(
        MapEntry(
            intent=intent,
            files=tuple(
                _file(each, texts.get(each.path, ""))
                for _, each in sorted(activities[intent.id].files.items())
            )
            if intent.id in activities
            else (),
        )
        for intent in sorted(intents, key=lambda each: each.id)
    )


def symbols(path: str, text: str, ranges: Sequence[LineRange]) -> tuple[str, ...]:
    """The innermost functions and classes that the lines belong to, in the file's order."""
    if not path.endswith((".py", ".pyi")):
        return ()
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    touched = {line for each in ranges for line in range(each.start, min(each.end, 100_000) + 1)}
    names: dict[str, None] = {}
    _collect(tree, "", touched, names)
    return tuple(names)


def _collect(node: ast.AST, above: str, touched: set[int], names: dict[str, None]) -> None:
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        own = set(range(child.lineno, (child.end_lineno or child.lineno) + 1)) & touched
        if not own:
            continue
        name = f"{above}{child.name}"
        inner: dict[str, None] = {}
        _collect(child, f"{name}.", touched, inner)
        names.update(inner or {name: None})


def _file(own: FileActivity, text: str) -> MapFile:
    return MapFile(
        path=own.path,
        symbols=symbols(own.path, text, own.ranges),
        last_change=own.last_change,
        after=own.after,
        changes=own.changes,
    )


def _by_id(entry: MapEntry) -> str:
    return entry.intent.id


def _section(entry: MapEntry) -> str:
    intent = entry.intent
    lines = [
        f"## {intent.id} {_words(intent.name)}",
        "",
        f"{intent.status}, revision {intent.revision}",
        "",
        *(map(_row, entry.files) if entry.files else ["No recorded change."]),
    ]
    if intent.depends_on:
        lines += ["", f"depends on: {', '.join(sorted(intent.depends_on))}"]
    return "\n".join(lines)


def _row(file: MapFile) -> str:
    named = ", ".join(f"`{each}`" for each in file.symbols[:MOST_SYMBOLS])
    more = len(file.symbols) - MOST_SYMBOLS
    named += f" and {more} more" if more > 0 else ""
    times = "1 change" if file.changes == 1 else f"{file.changes} changes"
    told = [file.last_change[:10], file.after[:SHORT_HASH], times]
    about = ", ".join(each for each in told if each)
    return f"- `{_words(file.path)}`{f': {named}' if named else ''} ({about})"


def _words(text: str) -> str:
    """On one line, without anything that moves a cursor."""
    plain = "".join(sign if sign.isprintable() else " " for sign in text)
    return " ".join(plain.split()).replace("`", "'")
