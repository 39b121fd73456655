"""YAML parsed as events only, because the file is not trusted. No objects are constructed.

Aliases, tags and duplicate keys are found in the events and reported, so that nothing is followed,
executed or silently dropped. Every scalar stays text.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any

from rookery.core.refusals import Problem
from rookery.governance.intents.file_nodes import KeyedNode, ListNode, MapNode, Node, TextNode
from rookery.governance.scope.scope_verdict import BIDIRECTIONAL

MAX_DEPTH = 12
MAX_FAULTS = 50

_FORBIDDEN = re.compile(
    f"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029{''.join(BIDIRECTIONAL)}]|\r(?!\n)"
)


class _Stop(Exception):
    """Parsing cannot continue."""


def yaml_nodes(text: str, file: str = "") -> tuple[Node | None, tuple[Problem, ...]]:
    """Parse the text of a file. Returns the root, or None and the problems."""
    lines = text.split("\n")
    builder = _Builder(file, lines)
    with suppress(_Stop):  # an error of syntax may be the last problem that is noted
        try:
            _check_characters(text, builder)
            handlers = builder.handlers
            for event in _events(text) if not builder.problems else ():
                if handle := handlers.get(type(event).__name__):
                    handle(event)
        except _yaml().YAMLError as error:
            _note_syntax_error(error, lines, builder)
    if not builder.problems and builder.root is None:
        builder.note("E109", 1, 1, "the file is empty", "begin with: active_intents: []")
    return (None, tuple(builder.problems)) if builder.problems else (builder.root, ())


def _yaml() -> Any:
    import yaml

    return yaml


def _events(text: str) -> Iterator[Any]:
    yaml = _yaml()
    # the C loader, if PyYAML was built with it, is ten times as fast
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return iter(yaml.parse(text, Loader=loader))


def _check_characters(text: str, builder: "_Builder") -> None:
    for found in _FORBIDDEN.finditer(text):
        line = text.count("\n", 0, found.start()) + 1
        column = found.start() - (text.rfind("\n", 0, found.start()) + 1) + 1
        builder.note_character(found[0], line, column)


def _note_syntax_error(error: Any, lines: Sequence[str], builder: "_Builder") -> None:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or "it cannot be read"
    line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
    content = lines[line - 1] if line <= len(lines) else ""
    if tab := content[: len(content) - len(content.lstrip())].find("\t") + 1:
        what = "there is a tab here, and YAML is indented with spaces only"
        builder.note("E103", line, tab, what, "write spaces instead of the tab")
    else:
        builder.note("E103", line, column, f"this is not valid YAML: {problem}", "correct the line")


class _OpenNode:
    """A list or mapping that is being parsed."""

    def __init__(self, event: Any) -> None:
        self.event = event
        self.is_map = type(event).__name__ == "MappingStartEvent"
        self.entries: list[KeyedNode] = []
        self.items: list[Node] = []
        self.keys: set[str] = set()
        self.key: TextNode | None = None


class _Builder:
    def __init__(self, file: str, lines: Sequence[str]) -> None:
        self._file = file
        self._lines = lines
        self.root: Node | None = None
        self.problems: list[Problem] = []
        self._open: list[_OpenNode] = []
        self._documents = 0
        self.handlers: dict[str, Callable[[Any], None]] = {
            "ScalarEvent": self._scalar,
            "SequenceStartEvent": self._begin,
            "MappingStartEvent": self._begin,
            "SequenceEndEvent": self._end,
            "MappingEndEvent": self._end,
            "AliasEvent": self._alias,
            "DocumentStartEvent": self._document,
        }

    def _scalar(self, event: Any) -> None:
        if event.anchor is not None or event.tag is not None:
            self._check(event)
        text, mark, style = event.value, event.start_mark, event.style
        # only double-quoted text has escapes; all other text was checked before parsing
        if style == '"' and (bad := _FORBIDDEN.search(text)):
            self.note_character(bad[0], mark.line + 1, mark.column + 1)
        end = event.end_mark.index
        self._add(TextNode(text, mark.line + 1, mark.column + 1, mark.index, end, not style))

    def _alias(self, event: Any) -> None:
        self._fault_at("E104", event, "references (*) are not supported", "write it out again")
        self._add(TextNode("", *_place(event), event.end_mark.index))

    def _document(self, event: Any) -> None:
        self._documents += 1
        if self._documents > 1:
            self._fault_at("E107", event, "a second document begins", "remove the --- line")
            raise _Stop

    def _check(self, event: Any) -> None:
        if event.anchor is not None:
            self._fault_at(
                "E104", event, "anchors (&) are not supported", "write it out where it is used"
            )
        if event.tag is not None:
            self._fault_at(
                "E105", event, "tags (!) are not supported", "remove the tag, or quote the text"
            )

    def _begin(self, event: Any) -> None:
        self._check(event)
        if len(self._open) == MAX_DEPTH:
            message = f"this is nested more than {MAX_DEPTH} levels deep"
            self._fault_at("E108", event, message, "make it flatter")
            raise _Stop
        self._open.append(_OpenNode(event))

    def _end(self, event: Any) -> None:
        done = self._open.pop()
        place = (*_place(done.event), event.end_mark.index, bool(done.event.flow_style))
        if done.is_map:
            self._add(MapNode(tuple(done.entries), *place))
        else:
            self._add(ListNode(tuple(done.items), *place))

    def _add(self, node: Node) -> None:
        if not self._open:
            self.root = node
            return
        inner = self._open[-1]
        if not inner.is_map:
            inner.items.append(node)
        elif inner.key is None:
            inner.key = self._key(inner, node)
        else:
            inner.entries.append(KeyedNode(inner.key, node))
            inner.key = None

    def _key(self, inner: _OpenNode, node: Node) -> TextNode:
        if not isinstance(node, TextNode):
            self.note("E103", node.line, node.column, "a key must be text", "use a simple key")
            return TextNode("", node.line, node.column, node.start, node.end)
        if node.plain and node.text == "<<":
            what = "merge keys (<<) are not supported"
            self.note("E104", node.line, node.column, what, "write the keys out")
        if node.text in inner.keys:
            self.note(
                "E106", node.line, node.column, f"the key {node.text} is here twice", "remove one"
            )
        inner.keys.add(node.text)
        return node

    def note_character(self, char: str, line: int, column: int) -> None:
        kind = "changes the text direction" if char in BIDIRECTIONAL else "is a control character"
        message = f"the character U+{ord(char):04X} {kind} and is not allowed"
        self.note("E103", line, column, message, "remove it")

    def _fault_at(self, code: str, event: Any, message: str, fix: str) -> None:
        line, column, _ = _place(event)
        self.note(code, line, column, message, fix)

    def note(self, code: str, line: int, column: int, message: str, fix: str) -> None:
        """Note a problem. Raises `_Stop` if there are too many."""
        text = self._lines[line - 1].rstrip("\r") if line <= len(self._lines) else ""
        self.problems.append(
            Problem(
                file=self._file,
                code=code,
                line=line,
                column=column,
                text=text,
                message=message,
                fix=fix,
            )
        )
        if len(self.problems) >= MAX_FAULTS:
            raise _Stop


def _place(event: Any) -> tuple[int, int, int]:
    mark = event.start_mark
    return mark.line + 1, mark.column + 1, mark.index
