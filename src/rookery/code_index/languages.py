"""Which languages are understood, by which grammar, and what in them is a definition.

A grammar is a package of its own that need not be there. The patterns are those of its nodes;
one that a version of the grammar does not know is passed over. Nothing is imported here but
names: the process that parses reads this table too.
"""

from collections.abc import Mapping
from pathlib import PurePosixPath

from msgspec import Struct

MARKDOWN = frozenset({".md", ".markdown", ".mdx"})


class Grammar(Struct, frozen=True):
    """`function` is what makes the grammar, `patterns` what its definitions look like."""

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
    """By its name; empty if it is of none that is known here."""
    return _LANGUAGES.get(PurePosixPath(path).suffix.lower(), "")


def is_markdown(path: str) -> bool:
    return PurePosixPath(path).suffix.lower() in MARKDOWN
