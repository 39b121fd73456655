"""YAML parsed as events only, because the file is not trusted. No objects are constructed.

Aliases, tags and duplicate keys are found in the events and reported, so that nothing is followed,
executed or silently dropped. Every scalar stays text.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from msgspec import Struct

from rookery.core.refusals import Problem
from rookery.governance.intents.file_nodes import KeyedNode, ListNode, MapNode, Node, TextNode
from rookery.governance.scope.scope_verdict import BIDIRECTIONAL

MAX_DEPTH = 12
MAX_FAULTS = 50

_FORBIDDEN = re.compile(
    f"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029{''.join(BIDIRECTIONAL)}]|\r(?!\n)"
)


class YamlFault(Struct, frozen=True, kw_only=True):
    code: str
    message: str
    fix: str
    line: int
    column: int


class _Stop(Exception):
    """Parsing cannot continue."""


def yaml_nodes(text: str) -> tuple[Node | None, tuple[YamlFault, ...]]:
    """Parse text. Returns the root, or None and the faults."""
    if faults := tuple(_controls(text)):
        return None, faults
    builder = _Builder()
    try:
        handlers = builder.handlers
        for event in _events(text):
            if handle := handlers.get(type(event).__name__):
                handle(event)
    except _Stop:
        pass
    except _yaml().YAMLError as error:
        builder.faults.append(_syntax_fault(error, text))
    if builder.faults or builder.root is None:
        nothing = _fault("E109", 1, 1, "the file is empty", "begin with: active_intents: []")
        return None, tuple(builder.faults) or (nothing,)
    return builder.root, ()


def problems_of(file: str, text: str, faults: Sequence[YamlFault]) -> tuple[Problem, ...]:
    """The faults as problems of a file, with the text of their lines."""
    lines = text.split("\n")
    return tuple(
        Problem(
            file=file,
            code=each.code,
            line=each.line,
            column=each.column,
            text=lines[each.line - 1].rstrip("\r") if each.line <= len(lines) else "",
            message=each.message,
            fix=each.fix,
        )
        for each in faults
    )


def _yaml() -> Any:
    import yaml

    return yaml


def _events(text: str) -> Iterator[Any]:
    yaml = _yaml()
    # the C loader, if PyYAML was built with it, is ten times as fast
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return iter(yaml.parse(text, Loader=loader))


def _controls(text: str) -> Iterator[YamlFault]:
    for number, found in enumerate(_FORBIDDEN.finditer(text)):
        if number == MAX_FAULTS:
            return
        line = text.count("\n", 0, found.start()) + 1
        column = found.start() - (text.rfind("\n", 0, found.start()) + 1) + 1
        yield _control_fault(found[0], line, column)


def _control_fault(sign: str, line: int, column: int) -> YamlFault:
    kind = "changes the text direction" if sign in BIDIRECTIONAL else "is a control character"
    message = f"the character U+{ord(sign):04X} {kind} and is not allowed"
    return _fault("E103", line, column, message, "remove it")


def _syntax_fault(error: Any, text: str) -> YamlFault:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or "it cannot be read"
    line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
    if tab := _tab_at(text, line):
        what = "there is a tab here, and YAML is indented with spaces only"
        return _fault("E103", line, tab, what, "write spaces instead of the tab")
    return _fault("E103", line, column, f"this is not valid YAML: {problem}", "correct the line")


def _tab_at(text: str, line: int) -> int:
    """Column of a tab in the line's indentation; 0 if there is none."""
    lines = text.split("\n")
    content = lines[line - 1] if line <= len(lines) else ""
    return content[: len(content) - len(content.lstrip())].find("\t") + 1


def _fault(code: str, line: int, column: int, message: str, fix: str) -> YamlFault:
    return YamlFault(code=code, message=message, fix=fix, line=line, column=column)


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
    def __init__(self) -> None:
        self.root: Node | None = None
        self.faults: list[YamlFault] = []
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
            self._add_fault(_control_fault(bad[0], mark.line + 1, mark.column + 1))
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
            self._fault_at_node("E103", node, "a key must be text", "use a simple key")
            return TextNode("", node.line, node.column, node.start, node.end)
        if node.plain and node.text == "<<":
            self._fault_at_node(
                "E104", node, "merge keys (<<) are not supported", "write the keys out"
            )
        if node.text in inner.keys:
            self._fault_at_node("E106", node, f"the key {node.text} is here twice", "remove one")
        inner.keys.add(node.text)
        return node

    def _fault_at(self, code: str, event: Any, message: str, fix: str) -> None:
        mark = event.start_mark
        self._add_fault(_fault(code, mark.line + 1, mark.column + 1, message, fix))

    def _fault_at_node(self, code: str, node: Node, message: str, fix: str) -> None:
        self._add_fault(_fault(code, node.line, node.column, message, fix))

    def _add_fault(self, fault: YamlFault) -> None:
        self.faults.append(fault)
        if len(self.faults) >= MAX_FAULTS:
            raise _Stop


def _place(event: Any) -> tuple[int, int, int]:
    mark = event.start_mark
    return mark.line + 1, mark.column + 1, mark.index
