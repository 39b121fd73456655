"""The process that parses code for the index and for outlines.

Grammars are native code and the text is untrusted, so a crash, a loop or excessive memory may cost
only this process and one file. It prints the languages it knows as a line of JSON, then answers
each request, a line of JSON followed by the text, with a line of JSON. It can open neither files
nor connections, and exits at the end of its input. It is run by its path, and imported only for its
table of languages.

Each grammar is an optional package. Patterns that its version does not know are skipped.
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
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from msgspec import Struct

if TYPE_CHECKING:
    from tree_sitter import Node, Parser, Query

MARKDOWN = frozenset({".md", ".markdown", ".mdx"})


class Grammar(Struct, frozen=True):
    """A grammar: `function` of `module` returns it, `patterns` match its definitions."""

    module: str
    patterns: tuple[str, ...]
    function: str = "language"


_C = (
    "(function_definition) @d",
    "(struct_specifier body: (_)) @d",
    "(union_specifier body: (_)) @d",
    "(enum_specifier body: (_)) @d",
)
_FUNCTION_VALUE = "(variable_declarator value: [(arrow_function) (function_expression)])"
_JAVASCRIPT = (
    "(function_declaration) @d",
    "(generator_function_declaration) @d",
    "(class_declaration) @d",
    "(method_definition) @d",
    f"(lexical_declaration {_FUNCTION_VALUE}) @d",
    f"(variable_declaration {_FUNCTION_VALUE}) @d",
)
_TYPESCRIPT = (
    *_JAVASCRIPT,
    "(abstract_class_declaration) @d",
    "(interface_declaration) @d",
    "(type_alias_declaration) @d",
    "(enum_declaration) @d",
    "(internal_module) @d",
)


def _nodes(names: str) -> tuple[str, ...]:
    return tuple(f"({name}) @d" for name in names.split())


GRAMMARS: Mapping[str, Grammar] = {
    "bash": Grammar("tree_sitter_bash", _nodes("function_definition")),
    "c": Grammar("tree_sitter_c", _C),
    "c-sharp": Grammar(
        "tree_sitter_c_sharp",
        _nodes(
            "namespace_declaration class_declaration interface_declaration struct_declaration "
            "enum_declaration record_declaration method_declaration constructor_declaration "
            "property_declaration delegate_declaration"
        ),
    ),
    "cpp": Grammar(
        "tree_sitter_cpp", (*_C, "(class_specifier body: (_)) @d", "(namespace_definition) @d")
    ),
    "go": Grammar(
        "tree_sitter_go", _nodes("function_declaration method_declaration type_declaration")
    ),
    "java": Grammar(
        "tree_sitter_java",
        _nodes(
            "class_declaration interface_declaration enum_declaration record_declaration "
            "annotation_type_declaration method_declaration constructor_declaration"
        ),
    ),
    "javascript": Grammar("tree_sitter_javascript", _JAVASCRIPT),
    "php": Grammar(
        "tree_sitter_php",
        _nodes(
            "function_definition class_declaration interface_declaration trait_declaration "
            "enum_declaration method_declaration"
        ),
        function="language_php",
    ),
    "python": Grammar("tree_sitter_python", _nodes("function_definition class_definition")),
    "ruby": Grammar("tree_sitter_ruby", _nodes("method singleton_method class module")),
    "rust": Grammar(
        "tree_sitter_rust",
        _nodes(
            "function_item struct_item enum_item union_item trait_item impl_item mod_item "
            "type_item macro_definition"
        ),
    ),
    "tsx": Grammar("tree_sitter_typescript", _TYPESCRIPT, function="language_tsx"),
    "typescript": Grammar("tree_sitter_typescript", _TYPESCRIPT, function="language_typescript"),
}

_SUFFIXES = {
    "bash": ".sh .bash .zsh",
    "c": ".c .h",
    "c-sharp": ".cs",
    "cpp": ".cc .cpp .cxx .hh .hpp .hxx .ino",
    "go": ".go",
    "java": ".java",
    "javascript": ".js .jsx .mjs .cjs",
    "php": ".php",
    "python": ".py .pyi .pyw",
    "ruby": ".rb .rake",
    "rust": ".rs",
    "tsx": ".tsx",
    "typescript": ".ts .mts .cts",
}
_LANGUAGES = {
    suffix: language for language, suffixes in _SUFFIXES.items() for suffix in suffixes.split()
}


def language_of(path: str) -> str:
    """Language of a file by its suffix; empty if unknown."""
    return _LANGUAGES.get(PurePosixPath(path).suffix.lower(), "")


def is_markdown(path: str) -> bool:
    return PurePosixPath(path).suffix.lower() in MARKDOWN


DEEPEST = 8
"""Definitions nested deeper than this count as part of the enclosing one."""
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
    known = _load_grammars()
    _limit(resource.RLIMIT_NOFILE, 3)
    _send({"languages": sorted(known)})
    for line in sys.stdin.buffer:
        request = json.loads(line)
        data = sys.stdin.buffer.read(request["size"])
        # only a killing signal interrupts a parser; this one counts CPU time
        signal.setitimer(signal.ITIMER_PROF, bounds["seconds"])
        answer = _parse(known, request["language"], data)
        signal.setitimer(signal.ITIMER_PROF, 0)
        _send(answer)


def _send(answer: Mapping[str, Any]) -> None:
    sys.stdout.buffer.write(json.dumps(answer).encode() + b"\n")
    sys.stdout.buffer.flush()


def _limit(what: int, most: int) -> None:
    hard = resource.getrlimit(what)[1]
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(what, (most, most))


def _load_grammars() -> "dict[str, tuple[Parser, list[Query]]]":
    """Load all installed grammars now, because later no file can be opened."""
    try:
        from tree_sitter import Language, Parser
    except ImportError:
        return {}
    known: dict[str, tuple[Parser, list[Query]]] = {}
    for name, grammar in GRAMMARS.items():
        try:
            language = Language(getattr(import_module(grammar.module), grammar.function)())
        except (ImportError, AttributeError, ValueError):
            continue  # not installed, or built for another tree-sitter
        known[name] = Parser(language), queries(language, grammar.patterns)
    return known


def queries(language: Any, patterns: tuple[str, ...]) -> "list[Query]":
    """One query for all patterns, or one for each that this grammar version knows."""
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
    """Line numbers of byte offsets. Nodes have them too, but tree-sitter 0.26.0 frees those
    values too early and crashes."""

    def __init__(self, data: bytes) -> None:
        self._ends = [found.start() for found in re.finditer(b"\n", data)]

    def at(self, byte: int) -> int:
        return bisect_left(self._ends, byte) + 1


def _parse(
    known: "Mapping[str, tuple[Parser, list[Query]]]", language: str, data: bytes
) -> dict[str, Any]:
    parser, patterns = known[language]
    root, lines = parser.parse(data).root_node, Lines(data)
    return {
        "definitions": list(_definitions(_definition_nodes(root, patterns), data, lines)),
        "statements": sorted(_statements(root, lines)),
    }


def _definition_nodes(root: "Node", patterns: "list[Query]") -> "list[Node]":
    from tree_sitter import QueryCursor

    nodes = [node for query in patterns for node in QueryCursor(query).captures(root).get("d", [])]
    return sorted(nodes, key=lambda node: (node.start_byte, -node.end_byte))[:MOST_DEFINITIONS]


def _definitions(
    nodes: "list[Node]", data: bytes, lines: Lines
) -> Iterator[tuple[str, str, int, int, int]]:
    """Name, kind, first line, last line and depth of each definition."""
    around: list[int] = []
    for node in nodes:
        while around and around[-1] <= node.start_byte:
            around.pop()
        depth = len(around)
        around.append(node.end_byte)
        if depth < DEEPEST:
            first, last = lines.at(_outermost(node).start_byte), lines.at(node.end_byte - 1)
            yield _name(node, data), _kind(node), first, last, depth


def _outermost(node: "Node") -> "Node":
    while node.parent is not None and node.parent.type in _WRAPPERS:
        node = node.parent
    return node


def _kind(node: "Node") -> str:
    word = node.type.partition("_")[0]
    return _KINDS.get(word, word)


def _name(node: "Node", data: bytes) -> str:
    """Name of a definition: the innermost node the grammar marks as a name or declarator."""
    for _ in range(DEEPEST):
        inner = next(filter(None, map(node.child_by_field_name, _NAMED_BY)), None)
        inner = inner or _declarator(node)
        if inner is None:
            break
        node = inner
    name = data[node.start_byte : node.end_byte][:LONGEST_NAME].decode("utf-8", "replace")
    return name.partition("\n")[0].strip()


def _declarator(node: "Node") -> "Node | None":
    parts = (part for part in node.named_children if part.type.endswith(("declarator", "_spec")))
    return next(parts, None)


def _statements(root: "Node", lines: Lines) -> set[int]:
    """Lines at which the children of large nodes begin."""
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
    main(json.loads(sys.argv[1]))
