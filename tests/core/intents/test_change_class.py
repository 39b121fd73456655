import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rookery.governance.ledger.change_class import ChangeKind, MutationClass, change_class

CODE = '''def total(items, rate=1):
    """Adds up."""
    # slowly
    result = 0
    for item in items:
        result += item * rate
    return result
'''


def kind(path: str, before: str | bytes | None, after: str | bytes | None) -> str:
    found = change_class(path, _bytes(before), _bytes(after))
    return found.kind if found else ""


def _bytes(text: str | bytes | None) -> bytes | None:
    return text.encode() if isinstance(text, str) else text


NESTED = "def f():\n    a = 1\n    def g():\n        nonlocal a\n        a = 2\n    return g\n"
LISTED = "def f(g):\n    some = g()\n    return [each for each in some]\n"
CLASS = "def f():\n    x = 1\n    class A:\n        x = 2\n        def m(self): return x\n"
ROWS = [
    ("equal", "a.py", CODE, CODE, ""),
    (
        "22.116 format",
        "a.py",
        CODE,
        CODE.replace("result += item * rate", "result+=item*rate"),
        "format",
    ),
    ("line ends", "a.py", CODE, CODE.replace("\n", "\r\n"), "format"),
    ("comment", "a.py", CODE, CODE.replace("# slowly", "# fast"), "comment"),
    ("docstring", "a.py", CODE, CODE.replace("Adds up.", "Sums."), "comment"),
    ("rename", "a.py", CODE, CODE.replace("result", "sum_"), "rename"),
    ("rename loop", "a.py", CODE, CODE.replace("item ", "each "), "rename"),
    ("rename half", "a.py", CODE, CODE.replace("return result", "return sum_"), "code"),
    ("parameter", "a.py", CODE, CODE.replace("rate", "factor"), "code"),
    ("top-level name", "a.py", CODE, CODE.replace("total", "added"), "code"),
    ("22.116 branch", "a.py", CODE, CODE + "if total: pass\n", "code"),
    ("in a text", "a.py", 'x = "a b"\n', 'x = "a  b"\n', "code"),
    ("blank at a line's end in a text", "a.py", 'x = """a \n"""\n', 'x = """a\n"""\n', "code"),
    (
        "nested rename",
        "a.py",
        NESTED,
        NESTED.replace("a ", "b ").replace("nonlocal a", "nonlocal b"),
        "rename",
    ),
    ("global instead", "a.py", "def f():\n    a = b\n", "def f():\n    b = b\n", "code"),
    ("comprehension", "a.py", "x = [a for a in y]\n", "x = [b for b in y]\n", "rename"),
    ("comprehension source", "a.py", "x = [a for a in a]\n", "x = [b for b in b]\n", "code"),
    ("local source", "a.py", LISTED, LISTED.replace("some", "many"), "rename"),
    ("seen past a class", "a.py", CLASS, CLASS.replace("x = 1", "y = 1"), "code"),
    ("default value", "a.py", "def f(p=x):\n    x = 1\n", "def f(p=y):\n    y = 1\n", "code"),
    ("class names", "a.py", "class A:\n    a = 1\n", "class A:\n    b = 1\n", "code"),
    (
        "locals",
        "a.py",
        "def f():\n    a = 1\n    return locals()\n",
        "def f():\n    b = 1\n    return locals()\n",
        "code",
    ),
    (
        "global",
        "a.py",
        "def f():\n    global a\n    a = 1\n",
        "def f():\n    global b\n    b = 1\n",
        "code",
    ),
    (
        "import",
        "a.py",
        "def f():\n    import os\n    os.x\n",
        "def f():\n    import re\n    re.x\n",
        "code",
    ),
    (
        "except",
        "a.py",
        "def f():\n    try: g()\n    except E as e: h(e)\n",
        "def f():\n    try: g()\n    except E as x: h(x)\n",
        "rename",
    ),
    (
        "match",
        "a.py",
        "def f(v):\n    match v:\n        case [a, *b]: g(a, b)\n",
        "def f(v):\n    match v:\n        case [c, *d]: g(c, d)\n",
        "rename",
    ),
    ("broken", "a.py", CODE, "def (", "unparsed"),
    ("deep", "a.py", CODE, "x = " + "(" * 500 + ")" * 500, "unparsed"),
    ("new", "a.py", None, CODE, "create"),
    ("deleted", "a.py", CODE, None, "delete"),
    ("binary", "a.png", b"\x00\x01", b"\x00\x02", "binary"),
    ("no text", "a.py", b"\xff\xfe", b"x = 1", "binary"),
    ("docs", "a.md", "one", "two", "docs"),
    ("docs format", "a.md", "one  \n", "one\n", "format"),
    ("config", "a.yaml", "a:\n  b: 1", "a:\nb: 1", "config"),
    ("settings", "Makefile", "a:\n\tb", "a:\n\tc", "config"),
    ("js format", "a.js", "if(a){b()}", "if (a) {\n  b()\n}\n", "format"),
    ("js comment", "a.js", "a() // one", "a() // two", "comment"),
    ("js comment added", "a.js", "a()", "/* why */ a()", "comment"),
    ("js text", "a.js", "a('x y')", "a('x  y')", "code"),
    ("js code", "a.js", "a()", "b()", "code"),
    ("js address", "a.js", 'a("http://x")', 'a("http://y")', "code"),
    ("go", "a.go", "a /* x", "a /* y", "comment"),
    ("unknown", "a.zzz", "a  b", "a b\n", "format"),
    ("unknown joined", "a.zzz", "a b", "ab", "code"),
    ("indented", "a.nim", "if x:\n  a\n  b", "if x:\n  a\nb", "code"),
    ("huge", "a.py", "x = 1\n" * 200_000, "x = 2\n" * 200_000, "unparsed"),
]


@pytest.mark.parametrize(
    ("path", "before", "after", "expected"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS]
)
def test_16_what_a_change_was(path: str, before, after, expected: str):
    assert kind(path, before, after) == expected


def test_16_a_move_keeps_the_meaning():
    moved = change_class("b.py", b"x", b"x", moved=True)
    assert moved
    assert moved.kind is ChangeKind.MOVE
    assert change_class("b.py", b"x", b"x") is None


@pytest.mark.parametrize("each", ChangeKind)
def test_16_two_classes(each: ChangeKind):
    from rookery.governance.ledger.change_class import ChangeClass

    kept = each in ("format", "comment", "rename", "move")
    expected = MutationClass.AST_REFACTOR if kept else MutationClass.INTENT_EVOLUTION
    assert ChangeClass(each).mutation_class is expected


def test_21_two_versions_of_a_thousand_lines(capsys: pytest.CaptureFixture[str]):
    old = "".join(CODE.replace("total", f"total_{n}") for n in range(150))
    started = time.perf_counter()
    assert kind("a.py", old, old.replace("result", "sum_")) == "rename"
    with capsys.disabled():
        lines, took = old.count("\n"), time.perf_counter() - started
        print(f"\nchange class of two versions with {lines} lines: {took * 1000:.0f} ms")


@given(
    st.text(max_size=60), st.text(max_size=60), st.sampled_from(["a.py", "a.js", "a.zz", "a.md"])
)
def test_16_any_two_texts_can_be_compared(old: str, new: str, path: str):
    before, after = (text.encode("utf-8", "replace") for text in (old, new))
    assert (change_class(path, before, after) is None) == (before == after)


@pytest.mark.parametrize("text", ["/*" * 100_000, '"' * 200_000, "`" * 100_000, "'\\" * 90_000])
def test_hostile_texts_take_no_time(text: str):
    started = time.perf_counter()
    assert kind("a.js", text, text + " x") in ("code", "comment", "format")
    assert time.perf_counter() - started < 20
