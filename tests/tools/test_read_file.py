import base64
from pathlib import Path

import pytest

from rookery.core.blocks import Image
from rookery.core.limits import Limits
from rookery.engine.ports import Permit
from rookery.errors import Denied, ToolError
from workbench import Workbench

pytestmark = pytest.mark.anyio

PICTURE = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"
CODE = """\
import os

# first
# second
def outer():
    x = 1

    def inner():
        y = 2
        return y

    return inner

def other():
    pass
"""


@pytest.fixture
def bench(tmp_path: Path) -> Workbench:
    return Workbench(tmp_path)


async def read(bench: Workbench, **arguments: object) -> str:
    return (await bench.run("read_file", path="a.txt", **arguments)).text


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        pytest.param("one\ntwo\n", "1 | one\n2 | two", id="C12 no line after the last"),
        pytest.param("one\ntwo", "1 | one\n2 | two", id="no final newline"),
        pytest.param("", "(The file is empty.)", id="C12 empty"),
        pytest.param("\n", "1 | ", id="one empty line"),
        pytest.param("one\r\ntwo\r\n", "1 | one\n2 | two", id="CRLF"),
        pytest.param("one\rtwo\r", "1 | one\n2 | two", id="bare CR"),
        pytest.param(b"\xef\xbb\xbfone", "1 | one", id="mark"),
        pytest.param("one".encode("utf-16"), "1 | one", id="UTF-16"),
        pytest.param(b"caf\xe9", "1 | caf\ufffd", id="no UTF-8"),
        pytest.param("x\n" * 10, "\n".join(f"{n:>2} | x" for n in range(1, 11)), id="aligned"),
        pytest.param("a\u2028b\x0cc\n", "1 | a\u2028b\x0cc", id="only line ends end lines"),
    ],
)
async def test_lines_are_numbered(bench: Workbench, content: str | bytes, shown: str):
    bench.put("a.txt", content)
    assert await read(bench) == f"File: a.txt\n{shown}"


async def test_a_slice_says_how_to_go_on(bench: Workbench):
    bench.put("a.txt", "".join(f"{n}\n" for n in range(1, 11)))
    assert await read(bench, offset=3, limit=2) == (
        "File: a.txt\n(Lines 3-4 of 10. To go on: offset=5.)\n3 | 3\n4 | 4"
    )
    assert await read(bench, offset=9, limit=5) == "File: a.txt\n 9 | 9\n10 | 10"


@pytest.mark.parametrize("lines", [2000, 2001, 200_000])
async def test_7_at_most_2000_lines_are_shown(bench: Workbench, lines: int):
    bench.put("a.txt", "x\n" * lines)
    rows = (await read(bench, limit=10**9)).split("\n")
    assert rows[-1] == "2000 | x"
    assert (f"(Lines 1-2000 of {lines}. To go on: offset=2001.)" in rows) is (lines > 2000)


@pytest.mark.parametrize(("length", "cut"), [(2000, False), (2001, True), (200_000, True)])
async def test_7_a_long_line_is_cut(bench: Workbench, length: int, cut: bool):
    bench.put("a.txt", "x" * length)
    expected = "x" * 1997 + "..." if cut else "x" * 2000
    assert await read(bench) == f"File: a.txt\n1 | {expected}"


async def test_7_a_long_text_is_cut_at_its_size(tmp_path: Path):
    bench = Workbench(tmp_path, Limits(read_bytes=100))
    bench.put("a.txt", "0123456789\n" * 50)
    rows = (await read(bench)).split("\n")
    assert rows[1] == "(Lines 1-6 of 50. To go on: offset=7.)"
    assert rows[-1] == " 6 | 0123456789"


async def test_only_the_beginning_of_a_huge_file_is_read(tmp_path: Path):
    bench = Workbench(tmp_path, Limits(edit_bytes=100))
    bench.put("a.txt", "0123456789\n" * 50)
    assert "of 550 bytes are read" in await read(bench)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"offset": 0}, "offset is 0, but counts from 1"),
        ({"limit": 0}, "limit is 0"),
        ({"offset": 4}, "Line 4 is past the end of a.txt, which has 3 lines"),
        ({"mode": "indentation", "indentation": {"anchor_line": 0}}, "anchor_line is 0"),
        ({"mode": "indentation", "indentation": {"anchor_line": 9}}, "Line 9 is past the end"),
    ],
)
async def test_c12_lines_that_are_not_there_are_an_error(
    bench: Workbench, arguments: dict[str, object], words: str
):
    bench.put("a.txt", "1\n2\n3\n")
    with pytest.raises(ToolError, match=words):
        await read(bench, **arguments)


@pytest.mark.parametrize(
    ("anchor", "around", "lines"),
    [
        pytest.param(9, {}, (3, 15), id="the whole outer block with its comments"),
        pytest.param(9, {"include_header": False}, (5, 15), id="without comments"),
        pytest.param(9, {"max_levels": 1}, (8, 12), id="one level outwards"),
        pytest.param(9, {"max_levels": 1, "include_siblings": True}, (6, 12), id="siblings"),
        pytest.param(9, {"max_lines": 1}, (9, 9), id="the line alone"),
        pytest.param(9, {"max_lines": 3}, (8, 10), id="at most three lines"),
    ],
)
async def test_4_3_the_block_around_a_line(
    bench: Workbench, anchor: int, around: dict[str, object], lines: tuple[int, int]
):
    bench.put("a.txt", CODE)
    indentation = {"anchor_line": anchor, **around}
    rows = (await read(bench, mode="indentation", indentation=indentation)).split("\n")
    numbers = [int(row.split("|")[0]) for row in rows if "|" in row]
    assert (numbers[0], numbers[-1]) == lines
    whole = f"(Lines {lines[0]}-{lines[1]} of 15, the whole block.)" in rows
    assert whole is ("max_lines" not in around)


async def test_images_are_shown_to_models_that_see(tmp_path: Path):
    bench = Workbench(tmp_path, Limits(image_bytes=1024), sees_images=True)
    bench.put("a.txt", PICTURE)
    outcome = await bench.run("read_file", path="a.txt")
    data = base64.b64encode(PICTURE).decode()
    assert outcome.images == (Image(media_type="image/png", data=data),)
    bench.put("a.txt", PICTURE + b"x" * 1024)
    assert "too large to be shown" in await read(bench)


async def test_what_cannot_be_shown_is_described(bench: Workbench):
    bench.put("a.txt", PICTURE)
    assert await read(bench) == "File: a.txt\n(Image, 0 KB; this model cannot see images.)"
    bench.put("a.txt", b"PK\3\4\0\0")
    assert await read(bench) == "File: a.txt\n(Not a text file: .txt, 6 bytes. Not shown.)"


async def test_a_folder_and_a_missing_file_are_errors(bench: Workbench):
    with pytest.raises(ToolError, match=r"There is no file a\.txt"):
        await read(bench)
    (bench.root / "a.txt").mkdir()
    with pytest.raises(ToolError, match=r"is a folder\. list_files"):
        await read(bench)


async def test_s10_nothing_is_read_without_a_permit(bench: Workbench):
    action = await bench.prepare("read_file", path="./missing.txt", offset=3)
    assert action.reads == ["missing.txt"]
    assert not action.changes_things
    assert action.payload == {
        "tool": "readFile",
        "path": "missing.txt",
        "isOutsideWorkspace": False,
        "content": "missing.txt",
        "reason": "up to 2000 lines from line 3",
        "startLine": 3,
    }
    with pytest.raises(Denied):
        await action.perform(Permit(action.digest))
