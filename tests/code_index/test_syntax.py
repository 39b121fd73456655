"""Languages are recognised, and a text that breaks its parser does not affect the next one."""

import os
import random
from collections.abc import Iterator
from importlib import import_module

import pytest
from tree_sitter import Language, Query

from rookery.code_index.parser_worker import GRAMMARS, language_of
from rookery.code_index.syntax import SyntaxReader
from support.each_row import each_row

TORTURE = bool(os.environ.get("ROOKERY_TORTURE"))
ROUNDS = 2_000 if TORTURE else 60

SAMPLES = {
    "a.py": ("@dec\nclass A:\n    async def f(self): ...\n\ndef g(): ...\n", "A f g"),
    "a.js": ("function f() {}\nclass A { m() {} }\nconst g = () => 1;\n", "f A m g"),
    "a.ts": ("export interface I { a: string }\ntype T = number;\nenum E { A }\n", "I T E"),
    "a.tsx": ("export const C = () => <div/>;\nfunction D() { return <p/>; }\n", "C D"),
    "a.go": ("package a\nfunc F() {}\ntype T struct{}\nfunc (t T) M() {}\n", "F T M"),
    "a.rs": ("fn f() {}\nstruct S;\nimpl S { fn m(&self) {} }\ntrait T {}\n", "f S S m T"),
    "a.java": ("class A { A() {} void m() {} }\ninterface I {}\n", "A A m I"),
    "a.c": ("int *f(int a) { return 0; }\nstruct s { int a; };\n", "f s"),
    "a.cpp": ("namespace n { class A { void m() {} }; }\nint A::f() { return 1; }\n", "n A m f"),
    "a.cs": ("namespace N { class A { int P { get; } void M() {} } }\n", "N A P M"),
    "a.rb": ("module M\n class A\n  def f; end\n  def self.g; end\n end\nend\n", "M A f g"),
    "a.php": ("<?php function f() {} class A { function m() {} }\n", "f A m"),
    "a.sh": ("f() { echo 1; }\nfunction g { echo 2; }\n", "f g"),
    "a.md": ("# One\n\n## Two\n", "One Two"),
    "a.txt": ("def f(): ...\n", ""),
}
HOSTILE = {
    "parentheses.py": "(" * 100_000,
    "brackets.js": "[" * 200_000,
    "blocks.c": "{" * 200_000,
    "templates.cpp": "a<" * 200_000,
    "substitutions.sh": "é$(" * 30_000,
    "methods.rb": "def a\n" * 100_000,
    "functions.rs": "fn f(){" * 20_000,
    "one line.ts": "a" * 1_000_000,
}


@pytest.fixture(scope="module")
def syntax() -> Iterator[SyntaxReader]:
    reader = SyntaxReader()
    yield reader
    reader.close()


def names(syntax: SyntaxReader, path: str, text: str) -> str:
    return " ".join(each.name for each in syntax.read(path, text).definitions)


@each_row("path", SAMPLES)
def test_definitions_are_found_in_every_language(syntax: SyntaxReader, path: str):
    text, expected = SAMPLES[path]
    assert names(syntax, path, text) == expected


@each_row("name", GRAMMARS)
def test_the_installed_grammar_understands_every_pattern(name: str):
    grammar = GRAMMARS[name]
    language = Language(getattr(import_module(grammar.module), grammar.function)())
    for pattern in grammar.patterns:
        Query(language, pattern)


def test_definitions_know_their_lines_depth_kind_and_first_line(syntax: SyntaxReader):
    text = (
        "\n" * 300
        + "@dec\n@other(\n  1)\nclass A:\n    x = 1\n\n    def f(self):\n        pass\n\n"
    )
    found = syntax.read("a.py", text).definitions
    rows = [(each.start, each.end, each.depth, each.kind, each.first_line) for each in found]
    assert rows == [(301, 308, 0, "class", "class A:"), (307, 308, 1, "function", "def f(self):")]


@each_row(("end", "rows"), [("\r\n", (1, 3)), ("\r", (1, 3))])
def test_lines_are_counted_as_read_file_counts_them(
    syntax: SyntaxReader, end: str, rows: tuple[int, int]
):
    found = syntax.read("a.py", end.join(["def f():", "    pass", "def g(): ..."])).definitions
    assert tuple(each.start for each in found) == rows


def test_a_large_ordinary_file_is_read_without_a_crash(syntax: SyntaxReader):
    before = syntax.crashes
    text = "".join(f"def f{n}(a):\n    '''Words.'''\n    return a + {n}\n\n" for n in range(8_000))
    assert len(syntax.read("a.py", text).definitions) == 8_000
    assert syntax.crashes == before


def test_a_hostile_text_costs_no_more_than_its_own_syntax():
    reader = SyntaxReader({"memory_bytes": 1 << 30, "seconds": 0.3})
    try:
        for path, text in list(HOSTILE.items())[:: 1 if TORTURE else 3]:
            reader.read(path, text)
            assert names(reader, "a.py", "def f(): ...\n") == "f", path
    finally:
        reader.close()


def test_a_parser_that_is_killed_is_replaced(syntax: SyntaxReader):
    assert names(syntax, "a.py", "def f(): ...\n") == "f"
    before = syntax.crashes
    assert syntax._worker is not None
    syntax._worker._process.kill()
    syntax._worker._process.wait()
    assert names(syntax, "a.py", "def f(): ...\n") == ""
    assert names(syntax, "a.py", "def f(): ...\n") == "f"
    assert syntax.crashes == before + 1


def test_text_that_was_spoilt_at_random_is_read(syntax: SyntaxReader):
    chance = random.Random(7)
    paths = [path for path in SAMPLES if language_of(path)]
    alphabet = "(){}[]<>\"'`$#\\\n\r\0\x0c é\u2028\U0001f600" + "".join(
        t for t, _ in SAMPLES.values()
    )
    crashes = syntax.crashes
    for _ in range(ROUNDS):
        path = chance.choice(paths)
        text = "".join(chance.choices(alphabet, k=chance.randint(0, 3_000)))
        found = syntax.read(path, SAMPLES[path][0] + text)
        assert all(1 <= each.start <= each.end for each in found.definitions)
    assert names(syntax, "a.py", "def f(): ...\n") == "f"
    assert syntax.crashes - crashes <= ROUNDS // 20


def test_without_grammars_there_is_simply_no_syntax():
    reader = SyntaxReader({"memory_bytes": 1 << 10, "seconds": 1.0})
    try:
        assert names(reader, "a.py", "def f(): ...\n") == ""
    finally:
        reader.close()
