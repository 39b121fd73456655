"""Sections of source files, and the guards against bad rewrites."""

from itertools import pairwise
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rookery.guided.code_text import (
    copied,
    fault,
    names,
    repaired,
    replace_section,
    section_text,
    sections,
    without_fence,
)
from support.each_row import each_row

CALC = (
    "LIMIT = 3\n\n\ndef add(a, b):\n    return a - b\n\n\n"
    "@cache\ndef mul(a, b):\n    return a * b\n"
)
SCRIPT = "const a = 1;\n\nfunction add(x) {\n  return x;\n}\n\nmodule.exports = { add };\n"

FAULTS = [
    # path, old, new, task, what is wrong
    ("a.py", CALC, CALC, "fix", "a.py is unchanged."),
    ("a.py", CALC, CALC.replace("\n", "\n\n"), "fix", "a.py is unchanged."),
    ("a.py", CALC, CALC.replace("a - b", "a + b"), "fix", ""),
    ("a.py", CALC, "", "fix", "a.py is empty."),
    ("a.py", CALC, "def add(a, b:\n", "fix", "a.py line 1: '(' was never closed."),
    ("a.py", CALC, "def add(a, b):\n    return a + b\n", "fix", "a.py lost LIMIT."),
    ("a.py", CALC, "LIMIT = 4\n\ndef add(a, b):\n    return a\n", "remove mul", ""),
    ("a.py", CALC, CALC + "# rest of the code unchanged\n", "fix", "a.py leaves out code."),
    ("a.py", CALC, CALC + "# remaining functions as before\n", "fix", "a.py leaves out code."),
    ("a.py", "def f(:\n", "def g(:\n", "fix", ""),
    ("new.py", None, "def f(:\n", "add", "new.py line 1: invalid syntax."),
    ("a.json", "{}", '{"a": 1,}', "set", "a.json: Expecting property"),
    ("a.toml", "a = 1\n", "a = \n", "set", "a.toml: Invalid value"),
    ("a.js", SCRIPT, SCRIPT.replace("}\n", "", 1), "fix", "a.js has unbalanced brackets."),
    ("a.js", SCRIPT, SCRIPT.replace("return x", "return '(' + x // )"), "fix", ""),
    ("a.js", SCRIPT, "module.exports = {};\n", "fix", "a.js lost a."),
    ("a.txt", "one\n", "two\n", "change", ""),
    ("a.yaml", "web:\n  n: 2\n  port: 1\n", "web:\n  n: 5\n", "n is 5", "a.yaml lost port."),
    ("a.yaml", "web:\n  n: 2\n  port: 1\n", "web:\n  n: 5\n", "n is 5, remove port", ""),
    ("a.json", '{\n "a": 1,\n "b": 2\n}', '{\n "b": 3\n}', "set b to 3", "a.json lost a."),
]  # fmt: skip


@each_row(
    ("task", "wrong"),
    [
        ("I need a script fizz.js.", "fizz.js is a copy of hello.js."),
        ("Copy hello.js to fizz.js.", ""),
    ],
)
def test_a_new_file_that_repeats_another_is_refused_unless_the_task_names_it(task: str, wrong: str):
    assert copied("fizz.js", SCRIPT + "\n", {"hello.js": SCRIPT}, task=task) == wrong


@each_row(("path", "old", "new", "task", "wrong"), FAULTS)
def test_a_bad_rewrite_is_refused_in_one_line(
    path: str, old: str | None, new: str, task: str, wrong: str
):
    found = fault(path, old, new, task=task)
    assert found.startswith(wrong) if wrong else not found
    assert "\n" not in found


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("a.py", "x = 1\n" + "\n" * 1_000 + "y = 2\n"),
        ("a.py", "x = 1\n" + " " * 4_000 + "# y\n"),
        ("a.js", "'\\" * 40_000),
        ("a.js", "`\\" * 40_000),
        ("a.js", "/* " * 40_000),
    ],
    ids=["blank lines", "spaces", "quotes", "templates", "comments"],
)
def test_odd_text_is_judged_at_once(path: str, text: str):
    before = process_time()
    fault(path, "x = 1\n", text, task="fix")
    assert process_time() - before < 2


def test_a_section_is_a_definition_with_its_decorators():
    assert [part.heading for part in sections(CALC)] == [
        "LIMIT = 3",
        "def add(a, b):",
        "def mul(a, b):",
    ]
    assert section_text(CALC, sections(CALC)[2]) == "@cache\ndef mul(a, b):\n    return a * b\n"
    assert [part.heading for part in sections(SCRIPT)][1] == "function add(x) {"


def test_a_rewritten_section_leaves_the_rest_alone():
    new = replace_section(CALC, sections(CALC)[1], "def add(a, b):\n    return a + b\n")
    assert new == CALC.replace("a - b", "a + b")


def test_new_code_goes_to_the_end():
    assert replace_section("a = 1\n", None, "b = 2\n") == "a = 1\n\n\nb = 2\n"


@given(st.text(alphabet="ab@#(){}\n  d", max_size=60))
def test_sections_cover_every_line_once(text: str):
    parts = sections(text)
    for before, after in pairwise(parts):
        assert before.end == after.start
    assert not parts or parts[-1].end == len(text.splitlines())
    for part in parts:
        same = replace_section(text, part, section_text(text, part))
        assert same.split() == text.split()


def test_names_are_those_of_the_top_level():
    assert names("a.py", CALC) == {"LIMIT", "add", "mul"}
    assert names("a.js", SCRIPT + "exports.late = 1;\n") == {"a", "add", "late"}
    assert names("a.py", "def f(:\n") == set()
    assert names("a.txt", "def f(): pass") == set()


@each_row(
    "answer",
    [
        "a = 1\n",
        "a = 1\n```",
        "a = 1\n```\nI set it to 1.",
        "a.py\n```python\na = 1\n```",
        "```python\na = 1\n```\n",
        "\n```\na = 1",
    ],
)
def test_the_file_is_found_in_the_answer(answer: str):
    assert without_fence(answer, "a.py") == "a = 1\n"


def test_a_document_may_hold_fences():
    text = "# Use\n```sh\nmake\n```\nDone.\n"
    assert without_fence(text, "README.md") == text


FIXED = CALC.replace("a - b", "a + b")
WITHOUT_MUL = "LIMIT = 3\n\n\ndef add(a, b):\n    return a\n"
REPAIRS = [
    # new text, task, focused, repaired
    ("def add(a, b):\n    return a + b\n", "fix add", True, FIXED),
    (FIXED.replace("a * b", "0"), "fix add", True, FIXED),
    (CALC.replace("a * b", "0"), "fix add", False, CALC.replace("a * b", "0")),
    (CALC.replace("a * b", "0"), "fix it", True, CALC.replace("a * b", "0")),
    (WITHOUT_MUL, "remove mul", False, WITHOUT_MUL),
]  # fmt: skip


@each_row(("new", "task", "focused", "wanted"), REPAIRS)
def test_code_the_model_dropped_is_restored(new: str, task: str, focused: bool, wanted: str):
    found = repaired("a.py", CALC, new, task=task, focused=focused)
    assert found.split() == wanted.split()
    assert not fault("a.py", CALC, found, task=task) or found == CALC


def test_dropped_exports_are_restored():
    new = repaired(
        "a.js", SCRIPT, "function add(x) {\n  return x + 1;\n}\n", task="add", focused=True
    )
    assert new.startswith("const a = 1;") or "const a = 1;" in new
    assert new.rstrip().endswith("module.exports = { add };")
