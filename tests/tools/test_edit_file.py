import json
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rookery.core.text.literal_edits import Miscounted, Missing, replace_loosely
from rookery.errors import BadArguments
from support.timeouts import patience
from support.workspace_folder import Workbench, permit_for

pytestmark = pytest.mark.anyio


@pytest.fixture
def bench(tmp_path: Path) -> Workbench:
    return Workbench(tmp_path)


async def edit(bench: Workbench, old: str, new: str, **more: object) -> bytes:
    await bench.run("edit_file", file_path="a.txt", old_string=old, new_string=new, **more)
    return bench.bytes_of("a.txt")


@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        pytest.param(b"one two\n", "two", "2", b"one 2\n", id="literal"),
        pytest.param(b"a\r\nb\r\n", "a\nb", "x\ny\nz", b"x\r\ny\r\nz\r\n", id="C15 CRLF"),
        pytest.param(b"cost\n", "cost", r"$1 \1 $& $$", b"$1 \\1 $& $$\n", id="C15 literal"),
        pytest.param(b"f(a,  b)\n", "f(a, b)", "$1 \\1", b"$1 \\1\n", id="loose and literal"),
        pytest.param(b"if  x:\r\n\ty\r\n", "if x:\n    y", "if z:\n    y",
                     b"if z:\r\n    y\r\n", id="blanks, CRLF"),
        pytest.param(b"a b  c\n", "a\nb c", "d", b"d\n", id="a quoted line end is any blank"),
        pytest.param(b"a\n\nb\n", "a\nb", "c", b"c\n", id="two line ends for one"),
        pytest.param(b"f(a,\n  b)\n", "f(a, b)", "g()", b"g()\n", id="words only"),
        pytest.param(b"x = [1,\n 2]\n", "[1, 2", "[2, 1", b"x = [2, 1]\n", id="parts of words"),
        pytest.param(b"a  b\n    c\n", "a b\n", "d\n", b"d\n    c\n",
                     id="the next line keeps its indentation"),
        pytest.param(b"x\n\ta b\n\n\ny\n", "  a  b\n", "", b"x\n\n\ny\n", id="a line goes"),
        pytest.param(b"x  \n\n a\n", "\n\na", "\n\nb", b"x  \n\n b\n", id="same blanks around"),
        pytest.param(b"x  \n\n\n a\n", "\n\na", "b", b"x  \nb\n", id="lines before go"),
        pytest.param(b"\xef\xbb\xbfa  b", "a b", "c", b"\xef\xbb\xbfc", id="mark"),
        pytest.param(b"caf\xe9 a\tb\n", "a b", "c", b"caf\xe9 c\n", id="no UTF-8"),
        pytest.param(b"a\r  b\rc", "a\nb", "x\ny", b"x\ry\rc", id="bare CR"),
    ],
)  # fmt: skip
async def test_text_is_replaced_though_quoted_loosely(
    bench: Workbench, before: bytes, old: str, new: str, after: bytes
):
    bench.put("a.txt", before)
    assert await edit(bench, old, new) == after


@pytest.mark.parametrize(
    ("before", "old", "expected", "after"),
    [
        pytest.param("x y x\n", "x", 2, "z y z\n", id="literal"),
        pytest.param("a  b, a\tb\n", "a b", 2, "z, z\n", id="blanks"),
        pytest.param("a b, a\n b\n", "a b", 2, "z, z\n", id="words"),
        pytest.param("a b, a  b\n", "a b", 1, "z, a  b\n", id="the literal one"),
        pytest.param("a  b, a\n b\n", "a b", 1, "z, a\n b\n", id="the one on a line"),
        pytest.param(
            "a\n b  c, a b\n c\n", "a\nb c", 1, "z, a b\n c\n", id="any blank for a line end"
        ),
        pytest.param("aaaa\n", "aa", 2, "zz\n", id="side by side"),
    ],
)
async def test_every_way_has_its_own_count(
    bench: Workbench, before: str, old: str, expected: int, after: str
):
    bench.put("a.txt", before)
    assert await edit(bench, old, "z", expected_replacements=expected) == after.encode()


@pytest.mark.parametrize(
    ("before", "old", "expected", "words"),
    [
        ("x\ny\nx\n", "x", 1, "find the text once, but found it 2 times, at lines 1, 3"),
        ("x\n", "x", 2, "find the text 2 times, but found it once, at lines 1"),
        ("aaa\n", "aa", 1, "found it 2 times"),
        ("a  b\nc\na\tb\n", "a b", 1, "found it 2 times, at lines 1, 3"),
        ("a  a  a\n", "a a", 1, "found it 2 times"),
        ("x\n" * 50, "x", 3, r"found it 50 times, at lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10\."),
        ("def f(a):\n", "def f(b):", 1, r"not in the file\.\nNearest: lines 1-1"),
        ("a\n", " \n ", 1, "Nothing in the file resembles it"),
    ],
)
async def test_a_miss_is_a_mistake_and_explained_by_a_reading(
    bench: Workbench, before: str, old: str, expected: int, words: str
):
    bench.put("a.txt", before)
    action = await bench.prepare(
        "edit_file",
        file_path="a.txt",
        old_string=old,
        new_string="new",
        expected_replacements=expected,
    )
    assert (action.reads, action.changes_things) == (["a.txt"], False)
    with pytest.raises(BadArguments, match=words):
        await action.perform(permit_for(action))
    assert bench.bytes_of("a.txt") == before.encode()


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
async def test_but_never_one_that_is_there(bench: Workbench, content: bytes):
    bench.put("a.txt", content)
    with pytest.raises(BadArguments, match="already exists"):
        await edit(bench, "", "new")
    assert bench.bytes_of("a.txt") == content


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("x\r\ny", "x\ny", "are the same"),
        ("x", "y", "No such file: a.txt"),
    ],
)
async def test_wrong_use_is_a_mistake(bench: Workbench, old: str, new: str, words: str):
    with pytest.raises(BadArguments, match=words):
        await edit(bench, old, new)


async def test_at_least_one_replacement_is_expected(bench: Workbench):
    with pytest.raises(msgspec.ValidationError):
        await edit(bench, "a", "b", expected_replacements=0)


async def test_an_absolute_path_inside_will_do(bench: Workbench):
    file = bench.put("src/a.txt", "a  b\n")
    await bench.run("edit_file", file_path=str(file), old_string="a b", new_string="c")
    assert file.read_bytes() == b"c\n"


async def test_a_change_of_nothing_needs_no_approval(bench: Workbench):
    bench.put("a.txt", "a b\n")
    arguments = {"file_path": "a.txt", "old_string": "a  b", "new_string": "a b"}
    action = await bench.prepare("edit_file", **arguments)
    assert not action.changes_things
    assert "No changes needed" in (await action.perform(permit_for(action))).text


async def test_an_omission_is_refused(bench: Workbench):
    bench.put("a.txt", "one\ntwo\n")
    with pytest.raises(BadArguments, match="left out"):
        await edit(bench, "one\ntwo", "1\n# ... existing code ...")


def test_repetition_does_not_cost_more_than_reading():
    with patience():
        assert isinstance(replace_loosely("a " * 200_000, "a\n" * 60_000 + "b", "x", 1), Missing)
        assert isinstance(replace_loosely("a " * 100_000, "a\n" * 30_000, "x", 1), Missing)
        assert isinstance(replace_loosely(" " * 900_000, "a" + " " * 300_000, "x", 1), Missing)
        assert isinstance(replace_loosely("a\n" * 100_000, "a  a", "x", 1), Miscounted)


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
def test_what_is_replaced_are_the_quoted_words(text: str, old: str):
    replaced = replace_loosely(text, old, "\0", 1)
    if isinstance(replaced, str):
        head, tail = replaced.split("\0")
        assert text.startswith(head)
        assert text.endswith(tail)
        assert text[len(head) : len(text) - len(tail)].split() == old.split()


@given(st.text("ab \n\t", max_size=30), st.text("ab \n", min_size=1, max_size=5), st.integers(2, 4))
def test_as_many_are_replaced_as_expected(text: str, old: str, expected: int):
    replaced = replace_loosely(text, old, "\0", expected)
    if isinstance(replaced, str):
        assert replaced.count("\0") == expected
        assert replaced.replace("\0", old).split() == text.split() or len(old.split()) != 1
