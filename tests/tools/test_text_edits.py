"""The tools that replace a piece of text: edit, search_replace and edit_file, which is lenient."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rookery.core.text.literal_edits import Miscounted, Missing, replace_loosely, replace_text, runs
from rookery.errors import BadArguments
from support.timeouts import patience
from support.workspace_folder import Workbench, permit_for

pytestmark = pytest.mark.anyio

TOOLS = ("edit", "search_replace", "edit_file")


@pytest.fixture
def bench(tmp_path: Path) -> Workbench:
    return Workbench(tmp_path)


async def replaced(bench: Workbench, tool: str, old: str, new: str, **more: object) -> bytes:
    await bench.run(tool, file_path="a.txt", old_string=old, new_string=new, **more)
    return bench.bytes_of("a.txt")


# what stays to the byte is in edits/test_edit_corpus.py
REPLACED = {
    "part of a line": (b"one two\n", "two", "2", b"one 2\n"),
    "lines": (b"a\nb\nc\n", "a\nb", "x\ny\nz", b"x\ny\nz\nc\n"),
    "CRLF": (b"a\r\nb\r\n", "a\nb", "x\ny\nz", b"x\r\ny\r\nz\r\n"),
    "mixed": (b"a\r\nb\nc\r\n", "a\nb\nc", "a\nB\nc", b"a\r\nB\nc\r\n"),
    "CRLF said for LF": (b"a\nb\n", "a\r\nb", "x\r\ny", b"x\ny\n"),
    "literal": (b"cost\n", "cost", r"$1 \1 $& $$ $`", b"$1 \\1 $& $$ $`\n"),
    "no expression": (b"a.c abc\n", "a.c", "x", b"x abc\n"),
    "no UTF-8": (b"caf\xe9 a\n", "a\n", "b\n", b"caf\xe9 b\n"),
    "blanks stay": (b"a  \nb\t\n", "b", "  c", b"a  \n  c\t\n"),
    "a line end goes": (b"a\n\nb\n", "a\n\nb", "a\nb", b"a\nb\n"),
    "to nothing": (b"a\nb", "b", "", b"a\n"),
}
LOOSELY = {
    "literal": (b"f(a,  b)\n", "f(a, b)", "$1 \\1", b"$1 \\1\n"),
    "blanks, CRLF": (b"if  x:\r\n\ty\r\n", "if x:\n    y", "if z:\n    y", b"if z:\r\n    y\r\n"),
    "a quoted line end is any blank": (b"a b  c\n", "a\nb c", "d", b"d\n"),
    "two line ends for one": (b"a\n\nb\n", "a\nb", "c", b"c\n"),
    "words only": (b"f(a,\n  b)\n", "f(a, b)", "g()", b"g()\n"),
    "parts of words": (b"x = [1,\n 2]\n", "[1, 2", "[2, 1", b"x = [2, 1]\n"),
    "the next line keeps its indentation": (b"a  b\n    c\n", "a b\n", "d\n", b"d\n    c\n"),
    "a line goes": (b"x\n\ta b\n\n\ny\n", "  a  b\n", "", b"x\n\n\ny\n"),
    "same blanks around": (b"x  \n\n a\n", "\n\na", "\n\nb", b"x  \n\n b\n"),
    "lines before go": (b"x  \n\n\n a\n", "\n\na", "b", b"x  \nb\n"),
    "mark": (b"\xef\xbb\xbfa  b", "a b", "c", b"\xef\xbb\xbfc"),
    "no UTF-8": (b"caf\xe9 a\tb\n", "a b", "c", b"caf\xe9 c\n"),
    "bare CR": (b"a\r  b\rc", "a\nb", "x\ny", b"x\ry\rc"),
}


@pytest.mark.parametrize("tool", TOOLS)
async def test_a_piece_of_text_is_replaced(bench: Workbench, tool: str):
    for name, (before, old, new, after) in REPLACED.items():
        bench.put("a.txt", before)
        assert await replaced(bench, tool, old, new) == after, name


async def test_text_is_replaced_though_quoted_loosely(bench: Workbench):
    for name, (before, old, new, after) in LOOSELY.items():
        bench.put("a.txt", before)
        assert await replaced(bench, "edit_file", old, new) == after, name


async def test_every_occurrence_is_replaced_if_wanted(bench: Workbench):
    bench.put("a.txt", b"x\r\nx\ny x\r\n")
    assert await replaced(bench, "edit", "x", "z", replace_all=True) == b"z\r\nz\ny z\r\n"


COUNTED = {
    "literal": ("x y x\n", "x", 2, "z y z\n"),
    "blanks": ("a  b, a\tb\n", "a b", 2, "z, z\n"),
    "words": ("a b, a\n b\n", "a b", 2, "z, z\n"),
    "the literal one": ("a b, a  b\n", "a b", 1, "z, a  b\n"),
    "the one on a line": ("a  b, a\n b\n", "a b", 1, "z, a\n b\n"),
    "any blank for a line end": ("a\n b  c, a b\n c\n", "a\nb c", 1, "z, a b\n c\n"),
    "side by side": ("aaaa\n", "aa", 2, "zz\n"),
}


async def test_every_matching_method_counts_its_own_matches(bench: Workbench):
    for name, (before, old, expected, after) in COUNTED.items():
        bench.put("a.txt", before)
        more = {"expected_replacements": expected}
        assert await replaced(bench, "edit_file", old, "z", **more) == after.encode(), name


MISSED = [
    ("edit", "x\ny\nx\n", "x", 1, r"more than once, at lines 1, 3\. .*replace_all"),
    ("edit", "aaa\n", "aa", 1, "more than once, at lines 1, 1"),
    ("edit", "def f(a, b):\n    pass\n", "def f(a,b):", 1, r"9\d % alike; only spacing differs"),
    ("edit", "a = 1  \nb\n", "a = 1\nb", 1, "only whitespace at the end of lines differs"),
    ("edit", "\tone\n\ttwo\n", "one\ntwo", 1, r"only indentation differs.*\n1 file:   \\tone"),
    ("edit", "say “hi”\n", 'say "hi"', 1, "only typographic characters differ"),
    ("edit", "a\n", "zebra", 1, "Nothing in the file resembles it"),
    ("edit", "", "a", 1, "Nothing in the file resembles it"),
    ("search_replace", "x\ny\nx\n", "x", 1, r"once, at lines 1, 3\. Quote more lines around it\.$"),
    ("search_replace", "a  b\n", "a b", 1, "only spacing differs"),
    ("search_replace", "a\n", "zebra", 1, "Nothing in the file resembles it"),
    ("edit_file", "x\ny\nx\n", "x", 1, "the text once, but found it 2 times, at lines 1, 3"),
    ("edit_file", "x\n", "x", 2, "find the text 2 times, but found it once, at lines 1"),
    ("edit_file", "aaa\n", "aa", 1, "found it 2 times"),
    ("edit_file", "a  b\nc\na\tb\n", "a b", 1, "found it 2 times, at lines 1, 3"),
    ("edit_file", "a  a  a\n", "a a", 1, "found it 2 times"),
    ("edit_file", "x\n" * 50, "x", 3, r"50 times, at lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10\."),
    ("edit_file", "def f(a):\n", "def f(b):", 1, r"not in the file\.\nNearest: lines 1-1"),
    ("edit_file", "a\n", " \n ", 1, "Nothing in the file resembles it"),
]


@pytest.mark.parametrize(("tool", "before", "old", "count", "words"), MISSED)
async def test_a_miss_is_an_error_that_shows_the_nearest_text(
    bench: Workbench, tool: str, before: str, old: str, count: int, words: str
):
    bench.put("a.txt", before)
    arguments: dict[str, object] = {"file_path": "a.txt", "old_string": old, "new_string": "new"}
    if tool == "edit_file":
        arguments["expected_replacements"] = count
    action = await bench.prepare(tool, **arguments)
    assert (action.reads, action.changes_things) == (["a.txt"], False)
    with pytest.raises(BadArguments, match=words):
        await action.perform(permit_for(action))
    assert bench.bytes_of("a.txt") == before.encode()


@pytest.mark.parametrize(
    ("tools", "old", "new", "words"),
    [
        (("edit", "search_replace"), "", "x", "old_string is empty"),
        (("edit", "search_replace"), "x", "x", "are the same"),
        (("edit_file",), "x\r\ny", "x\ny", "are the same"),
        (TOOLS, "x", "y", "No such file: a.txt"),
    ],
)
async def test_wrong_use_is_an_error_of_the_model(
    bench: Workbench, tools: tuple[str, ...], old: str, new: str, words: str
):
    for tool in tools:
        with pytest.raises(BadArguments, match=words):
            await replaced(bench, tool, old, new)


async def test_at_least_one_replacement_is_expected(bench: Workbench):
    with pytest.raises(msgspec.ValidationError):
        await replaced(bench, "edit_file", "a", "b", expected_replacements=0)


@pytest.mark.parametrize("tool", TOOLS)
async def test_a_change_of_nothing_needs_no_approval(bench: Workbench, tool: str):
    bench.put("a.txt", "a b\n" if tool == "edit_file" else "a\r\nb\r\n")
    old, new = ("a  b", "a b") if tool == "edit_file" else ("a\nb", "a\r\nb")
    action = await bench.prepare(tool, file_path="a.txt", old_string=old, new_string=new)
    assert not action.changes_things
    assert "No changes needed" in (await action.perform(permit_for(action))).text


@pytest.mark.parametrize("tool", TOOLS)
async def test_the_change_is_shown_and_an_absolute_path_inside_will_do(bench: Workbench, tool: str):
    file = bench.put("src/a.txt", "one\n")
    for path in (str(file), "./src/a.txt"):
        action = await bench.prepare(tool, file_path=path, old_string="one", new_string="1\n2")
        assert action.title == "Edit src/a.txt"
        assert action.payload == {
            "tool": "appliedDiff",
            "path": "src/a.txt",
            "isOutsideWorkspace": False,
            "content": "@@ -1 +1,2 @@\n-one\n+1\n+2",
            "diff": "@@ -1 +1,2 @@\n-one\n+1\n+2",
            "diffStats": {"added": 2, "removed": 1},
        }
        assert [change.path for change in action.changes] == ["src/a.txt"]
    await action.perform(permit_for(action))
    assert file.read_bytes() == b"1\n2\n"


async def test_text_that_the_encoding_lacks_is_refused(bench: Workbench):
    bench.put("a.txt", "a".encode("utf-16"))
    with pytest.raises(BadArguments, match="cannot represent"):
        await replaced(bench, "edit", "a", "\ud800")


async def test_an_empty_old_string_creates_the_file(bench: Workbench):
    arguments = {"file_path": "src/a.txt", "old_string": "", "new_string": "one\n"}
    action = await bench.prepare("edit_file", **arguments)
    assert action.payload == {
        "tool": "newFileCreated",
        "path": "src/a.txt",
        "isOutsideWorkspace": False,
        "content": "@@ -0,0 +1 @@\n+one",
        "diff": "@@ -0,0 +1 @@\n+one",
        "diffStats": {"added": 1, "removed": 0},
    }
    done = json.loads((await action.perform(permit_for(action))).text)
    assert (done["path"], done["operation"]) == ("src/a.txt", "created")
    assert bench.bytes_of("src/a.txt") == b"one\n"


@pytest.mark.parametrize("content", [b"", b"x"])
async def test_an_empty_old_string_does_not_replace_an_existing_file(
    bench: Workbench, content: bytes
):
    bench.put("a.txt", content)
    with pytest.raises(BadArguments, match="already exists"):
        await replaced(bench, "edit_file", "", "new")
    assert bench.bytes_of("a.txt") == content


def test_repetition_does_not_cost_more_than_reading():
    with patience():
        assert isinstance(replace_loosely("a " * 200_000, "a\n" * 60_000 + "b", "x", 1), Missing)
        assert isinstance(replace_loosely("a " * 100_000, "a\n" * 30_000, "x", 1), Missing)
        assert isinstance(replace_loosely(" " * 900_000, "a" + " " * 300_000, "x", 1), Missing)
        assert isinstance(replace_loosely("a\n" * 100_000, "a  a", "x", 1), Miscounted)


texts = st.text(st.sampled_from("ab\r\n \t\u00e4\u20ac"), max_size=12)
CODECS = ["utf-8", "utf-8-sig", "utf-16", "utf-32"]


@given(texts, texts, texts, st.sampled_from(CODECS))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_no_byte_outside_the_piece_changes(
    bench: Workbench, above: str, new: str, below: str, codec: str
):
    bench.put("a.txt", f"{above}<here>{below}".encode(codec))
    even = new.replace("\r\n", "\n")
    after = (await replaced(bench, "edit", "<here>", f"[{new}]")).decode(codec, "strict")
    head, tail = f"{above}[", f"]{below}"
    assert after.startswith(head)
    assert after.endswith(tail)
    middle = after[len(head) : len(after) - len(tail)]
    assert middle in {even.replace("\n", end) for end in ("\n", "\r\n", "\r")}


@given(texts, st.text(st.sampled_from("ab\n"), min_size=1, max_size=3), texts)
def test_replacing_everywhere_is_what_python_does_with_plain_line_ends(
    text: str, old: str, new: str
):
    text, new = text.replace("\r", ""), new.replace("\r", "")
    found = replace_text(text, old, new, True)
    assert found == text.replace(old, new) if old in text else not isinstance(found, str)


blanks = st.text(st.sampled_from(" \t"), min_size=1, max_size=3)
words = st.text(st.sampled_from("ab(,"), min_size=1, max_size=3)


@given(st.lists(words, min_size=2, max_size=5), st.data(), st.text("ab \n\r\t", max_size=8))
def test_blanks_of_any_kind_are_tolerated_and_nothing_else_changes(
    said: list[str], data: st.DataObject, around: str
):
    def spaced() -> str:
        gaps = [data.draw(blanks) for _ in said]
        return "".join(f"{gap}{word}" for gap, word in zip(gaps, said, strict=True)).strip()

    there, quoted = spaced(), spaced()
    text = f"{around}<{there}>{around}"
    assert replace_loosely(text, f"<{quoted}>", "<new>", 1) == f"{around}<new>{around}"


@given(st.text("ab \n\t", max_size=30), st.text("ab \n", min_size=1, max_size=5))
def test_loose_matching_replaces_exactly_the_quoted_words(text: str, old: str):
    found = replace_loosely(text, old, "\0", 1)
    if isinstance(found, str):
        head, tail = found.split("\0")
        assert text.startswith(head)
        assert text.endswith(tail)
        assert text[len(head) : len(text) - len(tail)].split() == old.split()


@given(st.text("ab \n\t", max_size=30), st.text("ab \n", min_size=1, max_size=5), st.integers(2, 4))
def test_as_many_are_replaced_as_expected(text: str, old: str, expected: int):
    found = replace_loosely(text, old, "\0", expected)
    if isinstance(found, str):
        assert found.count("\0") == expected
        assert found.replace("\0", old).split() == text.split() or len(old.split()) != 1


items = st.lists(st.sampled_from("ab"), max_size=20)
pieces = st.lists(st.sampled_from("ab"), min_size=1, max_size=6)


@given(items, pieces, st.integers(0, 5))
def test_every_place_of_a_sequence_is_found(within: list[str], wanted: list[str], start: int):
    places = range(start, len(within) - len(wanted) + 1)
    found = [at for at in places if within[at : at + len(wanted)] == wanted]
    assert list(runs(within, wanted, start)) == found


OLD_AND_NEW = {"file_path": "a.txt", "old_string": "two\n", "new_string": "2\n"}


def diff(search: str) -> str:
    return f"<<<<<<< SEARCH\n{search}\n=======\n2\n>>>>>>> REPLACE"


def patch(*rows: str) -> str:
    return "\n".join(["*** Begin Patch", "*** Update File: a.txt", *rows, "*** End Patch", ""])


CASES: list[tuple[str, dict[str, Any], tuple[str, ...]]] = [
    ("edit", OLD_AND_NEW, ("two\n",)),
    ("edit_file", OLD_AND_NEW, ("two\n",)),
    ("search_replace", OLD_AND_NEW, ("two\n",)),
    ("apply_diff", {"path": "a.txt", "diff": diff("two")}, ("two\n",)),
    ("apply_patch", {"patch": patch("@@", " one", "-two", "+2")}, ("one\ntwo\n",)),
    ("edit_file", {**OLD_AND_NEW, "old_string": "two  \n"}, ()),
    ("apply_diff", {"path": "a.txt", "diff": diff("  two")}, ()),
    ("apply_diff", {"path": "a.txt", "diff": f"{diff('two')}\n{diff('four')}"}, ()),
    ("apply_patch", {"patch": patch("@@", "-  two", "+2")}, ()),
    ("apply_patch", {"patch": patch("*** Move to: b.txt", "@@", "-two", "+2")}, ()),
    ("write_to_file", {"path": "a.txt", "content": "2\n"}, ()),
]


@pytest.mark.parametrize(("tool", "arguments", "pieces"), CASES)
async def test_an_edit_names_the_text_that_it_found_exactly(
    tmp_path: Path, tool: str, arguments: dict[str, Any], pieces: tuple[str, ...]
):
    bench = Workbench(tmp_path)
    bench.put("a.txt", b"one\ntwo\nthree\n")
    action = await bench.prepare(tool, **arguments)
    assert action.changes
    assert action.searched.get("a.txt", ()) == pieces
