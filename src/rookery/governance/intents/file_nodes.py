"""A YAML file as a tree of text nodes with positions, and `NodeReader`, which converts them.

The tree is unconverted: `no` is the text "no". Lines and columns count from 1; `start` and `end`
are offsets in the file's text, so that an edit can keep the rest. `NodeReader` always returns a
usable value and records what was wrong.
"""

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import datetime
from typing import TypeAlias

from msgspec import Struct

from rookery.core.refusals import Problem

_TIME = re.compile(
    r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:[Zz]|[+-]\d\d:\d\d)", re.ASCII
)
_NUMBER = re.compile(r"[+-]?\d{1,15}", re.ASCII)
MOST_ALTERNATIVES = 20_000
"""Most patterns that the braces of one file may expand to."""
Fault = Callable[[str], str]
"""Returns what is wrong with a text; empty if it is valid."""


class TextNode(Struct, frozen=True):
    """`plain` if the text was not quoted, so that it may mean null."""

    text: str
    line: int
    column: int
    start: int
    end: int
    plain: bool = True

    @property
    def is_null(self) -> bool:
        return self.plain and self.text in ("", "~", "null")


class ListNode(Struct, frozen=True):
    items: "tuple[Node, ...]"
    line: int
    column: int
    start: int
    end: int
    flow: bool = False


class KeyedNode(Struct, frozen=True):
    key: TextNode
    value: "Node"


class MapNode(Struct, frozen=True):
    entries: tuple[KeyedNode, ...]
    line: int
    column: int
    start: int
    end: int
    flow: bool = False

    def get(self, key: str) -> "Node | None":
        found = self.entry(key)
        return found.value if found else None

    def entry(self, key: str) -> KeyedNode | None:
        for each in self.entries:
            if each.key.text == key:
                return each
        return None


Node: TypeAlias = TextNode | ListNode | MapNode


class WorkLimit:
    """A counter that limits expensive work on untrusted files."""

    def __init__(self, left: int) -> None:
        self._left = left

    def take(self, amount: int) -> bool:
        self._left -= amount
        return self._left >= 0


class NodeReader:
    """Converts the nodes of a file, or of one intent in it, to values and collects the problems."""

    def __init__(self, file: str, lines: Sequence[str], intent_id: str = "") -> None:
        self.file = file
        self.lines = lines
        self.intent_id = intent_id
        self.problems: list[Problem] = []
        self.alternatives = WorkLimit(MOST_ALTERNATIVES)

    def for_intent(self, intent_id: str) -> "NodeReader":
        """A reader for one intent that shares the problems and limits of this one."""
        other = NodeReader(self.file, self.lines, intent_id)
        other.problems, other.alternatives = self.problems, self.alternatives
        return other

    def note(self, code: str, node: Node, path: str, message: str, fix: str = "") -> None:
        line = self.lines[node.line - 1] if node.line <= len(self.lines) else ""
        self.problems.append(
            Problem(
                file=self.file,
                line=node.line,
                column=node.column,
                code=code,
                intent_id=self.intent_id,
                path=path,
                text=line.rstrip("\r"),
                message=message,
                fix=fix,
            )
        )

    def text(self, node: Node | None, path: str, *, longest: int = 4000) -> str:
        if node is None:
            return ""
        if not isinstance(node, TextNode):
            self.note("E207", node, path, "this must be text", "write one text")
            return ""
        if node.is_null:
            return ""
        if len(node.text) > longest:
            self.note(
                "E208",
                node,
                path,
                f"this has {len(node.text)} characters",
                f"use at most {longest}",
            )
        return node.text

    def one_line(self, node: Node | None, path: str, *, longest: int) -> str:
        text = self.text(node, path, longest=longest).strip()
        if node is not None and "\n" in text:
            self.note("E207", node, path, "this must be one line", "write it on one line")
        return text

    def number(self, node: Node | None, path: str, *, least: int, code: str = "E207") -> int | None:
        text = self.text(node, path).strip()
        if node is None or (isinstance(node, TextNode) and node.is_null):
            return None
        if not _NUMBER.fullmatch(text) or int(text) < least:
            if isinstance(node, TextNode):
                self.note(
                    code, node, path, f"this must be a whole number from {least}", f"e.g. {least}"
                )
            return None
        return int(text)

    def time(self, node: Node | None, path: str) -> datetime | None:
        text = self.text(node, path).strip()
        if not text or node is None:
            return None
        try:
            if not _TIME.fullmatch(text):
                raise ValueError(text)
            return datetime.fromisoformat(text.upper().replace(" ", "T"))
        except ValueError:
            self.note(
                "E213", node, path, "this is not a time", 'write it like "2026-03-31T00:00:00Z"'
            )
            return None

    def items(self, node: Node | None, path: str, *, most: int = 1000) -> Sequence[Node]:
        if node is None or (isinstance(node, TextNode) and node.is_null):
            return ()
        if not isinstance(node, ListNode):
            self.note(
                "E207", node, path, "this must be a list", "put a dash in front of each entry"
            )
            return ()
        if len(node.items) > most:
            self.note(
                "E208", node, path, f"this has {len(node.items)} entries", f"use at most {most}"
            )
        return node.items[:most]

    def entries(
        self, node: Node | None, path: str, *, most: int = 1000
    ) -> Iterator[tuple[Node, str]]:
        """The items of a list, each with its path."""
        for at, each in enumerate(self.items(node, path, most=most)):
            yield each, f"{path}[{at}]"

    def texts(self, node: Node | None, path: str) -> tuple[str, ...]:
        return tuple(self.text(each, its_path) for each, its_path in self.entries(node, path))

    def fields(self, node: Node | None, path: str, known: Collection[str]) -> MapNode | None:
        """A mapping. Unknown keys are reported and stay in the file."""
        if node is None or (isinstance(node, TextNode) and node.is_null):
            return None
        if not isinstance(node, MapNode):
            self.note("E207", node, path, "this must have keys", f"e.g. {next(iter(known))}: …")
            return None
        self.unknown_keys(node, path, known)
        return node

    def unknown_keys(self, node: MapNode, path: str, known: Collection[str]) -> None:
        for entry in node.entries:
            key = entry.key.text
            if key not in known and not key.startswith("x-"):
                where = f"{path}.{key}" if path else key
                what = f'"{key}" is not a known key and has no effect'
                self.note("W301", entry.key, where, what, _suggestion(key, known))

    def choice(self, node: Node | None, path: str, choices: Sequence[str]) -> str:
        """One of the choices; the first if there is no value."""
        text = self.text(node, path).strip()
        if node is None or (isinstance(node, TextNode) and node.is_null):
            return choices[0]
        if text not in choices:
            if isinstance(node, TextNode):
                self.note("E207", node, path, "unknown value", f"one of {', '.join(choices)}")
            return choices[0]
        return text


def text_end(node: Node) -> int:
    """Where a node's content ends, without the blank lines and comments after a block."""
    match node:
        case ListNode(items=items, flow=False) if items:
            return text_end(items[-1])
        case MapNode(entries=entries, flow=False) if entries:
            return text_end(entries[-1].value)
        case _:
            return node.end


def _suggestion(key: str, known: Collection[str]) -> str:
    from difflib import get_close_matches

    [near] = get_close_matches(key, sorted(known), n=1) or [""]
    return f"did you mean {near}?" if near else ""
