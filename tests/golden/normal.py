"""What a run printed, without what differs from run to run and without sentences for people.

Field names, codes, order and counts stay. Ids become numbered names of their shape, so that it
still shows which of them are equal. A sentence becomes `<text>`, unless the script says it.
"""

import ast
import json
import re
from collections.abc import Collection, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeAlias

Line: TypeAlias = dict[str, Any]

_SHAPES = (
    ("uuid", re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")),
    ("sha256", re.compile(r"\b[0-9a-f]{64}\b")),
    ("git", re.compile(r"\b[0-9a-f]{40}\b")),
    ("hex", re.compile(r"\b[0-9a-f]{32}\b")),
    ("ulid", re.compile(r"\b[0-9A-HJKMNP-TV-Z]{26}\b")),
    ("row", re.compile(r"\b1[0-9]{12}\b")),
    ("address", re.compile(r"\bhttp://127\.0\.0\.1:[0-9]+")),
)
_ROW_KEYS = ("ts", "id", "messageTs")
_SECONDS = ("seconds", "duration")
_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z")
_TOOK = re.compile(r"\([0-9.]+ m?s\)")
"""How long something took, in a sentence."""
_NAME = re.compile(r"[\w<>/.:,@+=*!#-]*[\w<>/*]|", re.ASCII)
"""A code, a name or a path; it does not end as a sentence does."""
_DIFF = "@@ "
_LONG = 4_000


def words_of(file: Path) -> frozenset[str]:
    """All strings that are written in a Python file."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    found = (node.value for node in ast.walk(tree) if isinstance(node, ast.Constant))
    return frozenset(each for each in found if isinstance(each, str))


class Normaliser:
    """Of one transcript: what is numbered is numbered from its first line on."""

    def __init__(self, *, script: Collection[str], names: Mapping[str, str]) -> None:
        """`script` has the texts to keep, `names` what paths are to be called."""
        self._script = script
        self._names = names
        self._numbers: dict[str, dict[str, int]] = {}
        self._sessions: list[str] = []
        self._session = 0

    def __call__(self, value: Any, key: str = "") -> Any:
        match value:
            case {"<pieces>": _}:
                return value
            case dict():
                if value.get("event") == "session_created":
                    self._begin(value["sessionId"])
                rows = "number" not in value  # a row of the history has the time of its session
                return {
                    name: self(each, name if rows or name != "ts" else "")
                    for name, each in value.items()
                }
            case list():
                return [self(each) for each in value]
            case str():
                return self._text(value, key)
            case int() | float() if not isinstance(value, bool):
                return self._number(value, key)
            case _:
                return value

    def _number(self, value: float, key: str) -> Any:
        if key in _SECONDS:
            return "<seconds>"
        if value < 10**12:
            return value
        return self._named("row", str(value)) if key in _ROW_KEYS else "<ms>"

    def _text(self, text: str, key: str) -> Any:
        if key == "version":
            return "<version>"
        if _TOOK.search(text):
            return "<text>"
        if len(text) > _LONG and text in self._script:
            return {"<long>": sha256(text.encode()).hexdigest(), "characters": len(text)}
        if text.strip() in self._script or text in self._script or text.startswith(_DIFF):
            return self._renamed(text)
        if text[:1] in ("{", "[") and (inner := _parsed(text)) is not None:
            return {"<json>": self(inner)}
        text = _TIME.sub("<time>", self._renamed(text))
        for kind, shape in _SHAPES:
            text = shape.sub(lambda found, kind=kind: self._named(kind, found[0]), text)
        return text if _NAME.fullmatch(text) else "<text>"

    def _renamed(self, text: str) -> str:
        for path, name in self._names.items():
            text = text.replace(path, name)
        return text

    def _begin(self, session: str) -> None:
        if session not in self._sessions:
            self._sessions.append(session)
        self._session = self._sessions.index(session)

    def _named(self, kind: str, value: str) -> str:
        known = self._numbers.setdefault(kind, {})
        if kind == "row":  # rows of two sessions may have the same time
            value = f"{value} of {self._session}"
        return f"<{kind}-{known.setdefault(value, len(known) + 1)}>"


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def without_pieces(lines: list[Line]) -> list[Line]:
    """Without lines that come at no fixed place or in no fixed number: what is shown while it is
    streamed, and the history of sessions. The last line says which fields they have."""
    pieces = [line for line in lines if _is_piece(line)]
    whole = [_with_output(line, pieces) for line in lines if not _is_piece(line)]
    fields: dict[str, set[str]] = {}
    for line in pieces:
        kind = "/".join(str(line[name]) for name in ("type", "subtype") if name in line)
        fields.setdefault(kind, set()).update(_fields(line))
    shapes = {kind: sorted(names) for kind, names in sorted(fields.items())}
    return [*whole, {"<pieces>": shapes}] if shapes else whole


def _is_piece(line: Line) -> bool:
    if line.get("type") in ("assistant", "tool_use", "tool_result"):
        return not line.get("done")
    if line.get("type") == "taskHistoryUpdated":
        return True
    return bool(line.get("clineMessage", line).get("partial"))


def _fields(line: Line) -> set[str]:
    [row] = line.get("taskHistory") or [line.get("clineMessage", line)]
    return set(row)


def _with_output(line: Line, pieces: list[Line]) -> Line:
    """What a command printed is in the pieces only."""
    if line.get("type") != "tool_result":
        return line
    parts = [
        each for each in pieces if (each["type"], each.get("id")) == ("tool_result", line["id"])
    ]
    printed = "".join(each["tool_result"].get("output", "") for each in parts)
    return {**line, "<printed>": printed} if printed else line
