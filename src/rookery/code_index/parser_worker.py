"""The process that parses code for the index and for outlines.

Grammars are programs made for friendly text, and the text is anybody's: what makes one of them
crash, loop or swell costs this process, and one file. It says which languages it knows in a
line of JSON, and then answers each request, a line of JSON and the text, with another. It can
open neither files nor connections, and ends when nobody sends any more. It is run by its path;
nothing else imports it but its tests.
"""

import json
import re
import resource
import signal
import sys
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tree_sitter import Node, Parser, Query

DEEPEST = 8
"""What is defined deeper than this counts as a part of what it is in."""
MOST_DEFINITIONS = 20_000
LONGEST_NAME = 200
_LARGE = 1000
_MOST_NODES = 20_000
_WRAPPERS = {
    *("decorated_definition", "export_statement", "ambient_declaration", "template_declaration"),
}
_KINDS = {
    "abstract": "class",
    "annotation": "annotation",
    "generator": "function",
    "internal": "namespace",
    "lexical": "function",
    "singleton": "method",
    "variable": "function",
}
_NAMED_BY = ("name", "declarator", "type")


def main(bounds: Mapping[str, Any]) -> None:
    _limit(resource.RLIMIT_CORE, 0)
    with suppress(ValueError):  # not every system limits the address space
        _limit(resource.RLIMIT_AS, int(bounds["memory_bytes"]))
    known = _known()
    _limit(resource.RLIMIT_NOFILE, 3)
    _say({"languages": sorted(known)})
    for line in sys.stdin.buffer:
        request = json.loads(line)
        data = sys.stdin.buffer.read(request["size"])
        # nothing interrupts a parser but a signal that kills; it counts the time it works
        signal.setitimer(signal.ITIMER_PROF, bounds["seconds"])
        answer = _parsed(known, request["language"], data)
        signal.setitimer(signal.ITIMER_PROF, 0)
        _say(answer)


def _say(answer: Mapping[str, Any]) -> None:
    sys.stdout.buffer.write(json.dumps(answer).encode() + b"\n")
    sys.stdout.buffer.flush()


def _limit(what: int, most: int) -> None:
    hard = resource.getrlimit(what)[1]
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(what, (most, most))


def _known() -> "dict[str, tuple[Parser, list[Query]]]":
    """All grammars that are installed: later no file can be opened."""
    from rookery.code_index.languages import GRAMMARS

    try:
        from tree_sitter import Language, Parser
    except ImportError:
        return {}
    known: dict[str, tuple[Parser, list[Query]]] = {}
    for name, grammar in GRAMMARS.items():
        try:
            language = Language(getattr(import_module(grammar.module), grammar.function)())
        except (ImportError, AttributeError, ValueError):
            continue  # not installed, or made for another version of the parser
        known[name] = Parser(language), queries(language, grammar.patterns)
    return known


def queries(language: Any, patterns: tuple[str, ...]) -> "list[Query]":
    """One for all patterns, or those of them that this version of the grammar understands."""
    from tree_sitter import Query, QueryError

    try:
        return [Query(language, "\n".join(patterns))]
    except QueryError:
        usable: list[Query] = []
        for pattern in patterns:
            try:
                usable.append(Query(language, pattern))
            except QueryError:
                continue
        return usable


class Lines:
    """Which line a byte is in. Nodes know that too, but tree-sitter 0.26.0 frees the numbers it
    gives away for it, and then crashes."""

    def __init__(self, data: bytes) -> None:
        self._ends = [found.start() for found in re.finditer(b"\n", data)]

    def at(self, byte: int) -> int:
        return bisect_left(self._ends, byte) + 1


def _parsed(
    known: "Mapping[str, tuple[Parser, list[Query]]]", language: str, data: bytes
) -> dict[str, Any]:
    parser, patterns = known[language]
    root, lines = parser.parse(data).root_node, Lines(data)
    return {
        "definitions": list(_definitions(_found(root, patterns), data, lines)),
        "statements": sorted(_statements(root, lines)),
    }


def _found(root: "Node", patterns: "list[Query]") -> "list[Node]":
    from tree_sitter import QueryCursor

    nodes = [node for query in patterns for node in QueryCursor(query).captures(root).get("d", [])]
    return sorted(nodes, key=lambda node: (node.start_byte, -node.end_byte))[:MOST_DEFINITIONS]


def _definitions(
    nodes: "list[Node]", data: bytes, lines: Lines
) -> Iterator[tuple[str, str, int, int, int]]:
    """Name, kind, first and last line, and depth of each."""
    around: list[int] = []
    for node in nodes:
        while around and around[-1] <= node.start_byte:
            around.pop()
        depth = len(around)
        around.append(node.end_byte)
        if depth < DEEPEST:
            first, last = lines.at(_wrapped(node).start_byte), lines.at(node.end_byte - 1)
            yield _name(node, data), _kind(node), first, last, depth


def _wrapped(node: "Node") -> "Node":
    while node.parent is not None and node.parent.type in _WRAPPERS:
        node = node.parent
    return node


def _kind(node: "Node") -> str:
    word = node.type.partition("_")[0]
    return _KINDS.get(word, word)


def _name(node: "Node", data: bytes) -> str:
    """What the grammar says is the name, at the end of whatever is declared around it."""
    for _ in range(DEEPEST):
        inner = next(filter(None, map(node.child_by_field_name, _NAMED_BY)), None)
        inner = inner or _declared(node)
        if inner is None:
            break
        node = inner
    name = data[node.start_byte : node.end_byte][:LONGEST_NAME].decode("utf-8", "replace")
    return name.partition("\n")[0].strip()


def _declared(node: "Node") -> "Node | None":
    parts = (part for part in node.named_children if part.type.endswith(("declarator", "_spec")))
    return next(parts, None)


def _statements(root: "Node", lines: Lines) -> set[int]:
    """The lines at which the parts of large nodes begin."""
    found: set[int] = set()
    waiting, seen = [root], 0
    while waiting and seen < _MOST_NODES:
        node = waiting.pop()
        if node.end_byte - node.start_byte > _LARGE:
            parts = node.named_children
            seen += len(parts)
            found.update(lines.at(part.start_byte) for part in parts)
            waiting.extend(parts)
    return found


if __name__ == "__main__":
    sys.path.append(str(Path(__file__).parents[2]))
    main(json.loads(sys.argv[1]))
