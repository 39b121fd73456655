from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rookery.core.text.literal_edits import replace_text
from rookery.errors import BadArguments
from support.workspace_folder import Workbench, permit_for

pytestmark = pytest.mark.anyio


@pytest.fixture
def bench(tmp_path: Path) -> Workbench:
    return Workbench(tmp_path)


async def edit(bench: Workbench, old: str, new: str, **more: object) -> bytes:
    await bench.run("edit", file_path="a.txt", old_string=old, new_string=new, **more)
    return bench.bytes_of("a.txt")


@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        pytest.param(b"one two\n", "two", "2", b"one 2\n", id="part of a line"),
        pytest.param(b"a\nb\nc\n", "a\nb", "x\ny\nz", b"x\ny\nz\nc\n", id="lines"),
        pytest.param(b"a\r\nb\r\n", "a\nb", "x\ny\nz", b"x\r\ny\r\nz\r\n", id="C15 CRLF"),
        pytest.param(b"a\r\nb\nc\r\n", "a\nb\nc", "a\nB\nc", b"a\r\nB\nc\r\n", id="mixed"),
        pytest.param(b"a\nb\n", "a\r\nb", "x\r\ny", b"x\ny\n", id="CRLF said for LF"),
        pytest.param(b"cost\n", "cost", r"$1 \1 $& $$", b"$1 \\1 $& $$\n", id="C15 literal"),
        pytest.param(b"a.c abc\n", "a.c", "x", b"x abc\n", id="no expression"),
        pytest.param(b"\xef\xbb\xbfa\n", "a", "b", b"\xef\xbb\xbfb\n", id="mark"),
        pytest.param(b"caf\xe9 a\n", "a\n", "b\n", b"caf\xe9 b\n", id="no UTF-8"),
        pytest.param(b"a  \nb\t\n", "b", "  c", b"a  \n  c\t\n", id="blanks stay"),
        pytest.param(b"a\n\nb\n", "a\n\nb", "a\nb", b"a\nb\n", id="a line end goes"),
    ],
)
async def test_a_piece_of_text_is_replaced(
    bench: Workbench, before: bytes, old: str, new: str, after: bytes
):
    bench.put("a.txt", before)
    assert await edit(bench, old, new) == after


async def test_every_occurrence_is_replaced_if_wanted(bench: Workbench):
    bench.put("a.txt", b"x\r\nx\ny x\r\n")
    assert await edit(bench, "x", "z", replace_all=True) == b"z\r\nz\ny z\r\n"


@pytest.mark.parametrize(
    ("before", "old", "words"),
    [
        ("x\ny\nx\n", "x", r"more than once, at lines 1, 3\. .*replace_all"),
        ("aaa\n", "aa", "more than once, at lines 1, 1"),
        (
            "def f(a, b):\n    pass\n",
            "def f(a,b):",
            r"9\d % alike; only spacing differs",
        ),
        ("a = 1  \nb\n", "a = 1\nb", "only whitespace at the end of lines differs"),
        ("\tone\n\ttwo\n", "one\ntwo", r"only indentation differs.*\n1 file:   \\tone"),
        ("say “hi”\n", 'say "hi"', "only typographic characters differ"),
        ("a\n", "zebra", "Nothing in the file resembles it"),
        ("", "a", "Nothing in the file resembles it"),
    ],
)
async def test_a_miss_is_a_mistake_and_explained(
    bench: Workbench, before: str, old: str, words: str
):
    bench.put("a.txt", before)
    with pytest.raises(BadArguments, match=words):
        await edit(bench, old, "new")
    assert bench.bytes_of("a.txt") == before.encode()


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("", "x", "old_string is empty"),
        ("x", "x", "are the same"),
        ("x", "y", "No such file: a.txt"),
    ],
)
async def test_wrong_use_is_a_mistake(bench: Workbench, old: str, new: str, words: str):
    with pytest.raises(BadArguments, match=words):
        await edit(bench, old, new)


async def test_a_change_of_nothing_needs_no_approval(bench: Workbench):
    bench.put("a.txt", "a\r\nb\r\n")
    arguments = {"file_path": "a.txt", "old_string": "a\nb", "new_string": "a\r\nb"}
    action = await bench.prepare("edit", **arguments)
    assert not action.changes_things
    assert "No changes needed" in (await action.perform(permit_for(action))).text


async def test_the_change_is_shown(bench: Workbench):
    bench.put("src/a.txt", "one\n")
    action = await bench.prepare(
        "edit", file_path="./src/a.txt", old_string="one", new_string="1\n2"
    )
    assert action.title == "Edit src/a.txt"
    assert action.payload == {
        "tool": "appliedDiff",
        "path": "src/a.txt",
        "isOutsideWorkspace": False,
        "content": "@@ -1 +1,2 @@\n-one\n+1\n+2",
        "diff": "@@ -1 +1,2 @@\n-one\n+1\n+2",
        "diffStats": {"added": 2, "removed": 1},
    }


async def test_text_that_the_encoding_lacks_is_refused(bench: Workbench):
    bench.put("a.txt", "a".encode("utf-16"))
    with pytest.raises(BadArguments, match="cannot represent"):
        await edit(bench, "a", "\ud800")


texts = st.text(st.sampled_from("ab\r\n \t\u00e4\u20ac"), max_size=12)
CODECS = ["utf-8", "utf-8-sig", "utf-16", "utf-32"]


@given(texts, texts, texts, st.sampled_from(CODECS))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_no_byte_outside_the_piece_changes(
    bench: Workbench, above: str, new: str, below: str, codec: str
):
    bench.put("a.txt", f"{above}<here>{below}".encode(codec))
    even = new.replace("\r\n", "\n")
    after = (await edit(bench, "<here>", f"[{new}]")).decode(codec, "strict")
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
    replaced = replace_text(text, old, new, True)
    assert replaced == text.replace(old, new) if old in text else not isinstance(replaced, str)
