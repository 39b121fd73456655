from pathlib import Path

import pytest

from rookery.errors import BadArguments, ToolError
from support.workspace_folder import Workbench, permit_for

pytestmark = pytest.mark.anyio


@pytest.fixture
def bench(tmp_path: Path) -> Workbench:
    return Workbench(tmp_path)


async def replaced(bench: Workbench, old: str, new: str) -> bytes:
    await bench.run("search_replace", file_path="a.txt", old_string=old, new_string=new)
    return bench.bytes_of("a.txt")


@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        pytest.param(b"one two\n", "two", "2", b"one 2\n", id="part of a line"),
        pytest.param(b"a\r\nb\r\n", "a\nb", "x\ny\nz", b"x\r\ny\r\nz\r\n", id="C15 CRLF"),
        pytest.param(b"cost\n", "cost", r"$1 \1 $& $$", b"$1 \\1 $& $$\n", id="C15 literal $"),
        pytest.param(b"a.c abc\n", "a.c", "$`", b"$` abc\n", id="no expression"),
        pytest.param(b"a\nb", "b", "", b"a\n", id="to nothing"),
    ],
)
async def test_the_one_place_is_replaced(
    bench: Workbench, before: bytes, old: str, new: str, after: bytes
):
    bench.put("a.txt", before)
    assert await replaced(bench, old, new) == after


@pytest.mark.parametrize(
    ("before", "old", "words"),
    [
        ("x\ny\nx\n", "x", r"more than once, at lines 1, 3\. Quote more lines around it\.$"),
        ("a  b\n", "a b", "only spacing differs"),
        ("a\n", "zebra", "Nothing in the file resembles it"),
    ],
)
async def test_a_miss_is_a_mistake_and_explained_by_a_reading(
    bench: Workbench, before: str, old: str, words: str
):
    bench.put("a.txt", before)
    action = await bench.prepare(
        "search_replace", file_path="a.txt", old_string=old, new_string="new"
    )
    assert (action.reads, action.changes_things) == (["a.txt"], False)
    with pytest.raises(BadArguments, match=words):
        await action.perform(permit_for(action))
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
        await replaced(bench, old, new)


async def test_an_absolute_path_inside_will_do(bench: Workbench):
    file = bench.put("src/a.txt", "one\n")
    arguments = {"file_path": str(file), "old_string": "one", "new_string": "two"}
    action = await bench.prepare("search_replace", **arguments)
    assert [change.path for change in action.changes] == ["src/a.txt"]
    await action.perform(permit_for(action))
    assert file.read_bytes() == b"two\n"


async def test_a_change_of_nothing_needs_no_approval(bench: Workbench):
    bench.put("a.txt", "a\r\nb\r\n")
    arguments = {"file_path": "a.txt", "old_string": "a\nb", "new_string": "a\r\nb"}
    action = await bench.prepare("search_replace", **arguments)
    assert not action.changes_things
    assert "No changes needed" in (await action.perform(permit_for(action))).text


async def test_an_omission_is_refused(bench: Workbench):
    bench.put("a.txt", "one\ntwo\n")
    with pytest.raises(ToolError, match="left out"):
        await replaced(bench, "one\ntwo", "1\n# ... rest of the code unchanged ...")
