import base64
import json
import os
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rookery.core.blocks import Image
from rookery.core.facts import Ending, Seen
from rookery.core.limits import Limits
from rookery.engine.ports.actions import Outcome, Permit
from rookery.errors import BadArguments, Denied, ToolError
from rookery.workspace.files import sha
from support import sample_documents as samples
from support.workspace_folder import Workbench

pytestmark = pytest.mark.anyio

TORTURE = bool(os.environ.get("ROOKERY_TORTURE"))


def png(width: int, height: int, size: int = 0) -> bytes:
    header = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", width, height)
    return header.ljust(size, b"\n")


PICTURE = png(8, 6)
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


async def test_a_slice_says_how_to_continue(bench: Workbench):
    bench.put("a.txt", "".join(f"{n}\n" for n in range(1, 11)))
    assert await read(bench, offset=3, limit=2) == (
        "File: a.txt\n(Lines 3-4 of 10. To continue: offset=5.)\n3 | 3\n4 | 4"
    )
    assert await read(bench, offset=9, limit=5) == "File: a.txt\n 9 | 9\n10 | 10"


@pytest.mark.parametrize("lines", [2000, 2001, 200_000])
async def test_at_most_2000_lines_are_shown(bench: Workbench, lines: int):
    bench.put("a.txt", "x\n" * lines)
    rows = (await read(bench, limit=10**9)).split("\n")
    assert rows[-1] == "2000 | x"
    assert (f"(Lines 1-2000 of {lines}. To continue: offset=2001.)" in rows) is (lines > 2000)


@pytest.mark.parametrize(("length", "cut"), [(2000, False), (2001, True), (200_000, True)])
async def test_a_long_line_is_cut(bench: Workbench, length: int, cut: bool):
    bench.put("a.txt", "x" * length)
    expected = "x" * 1997 + "..." if cut else "x" * 2000
    assert await read(bench) == f"File: a.txt\n1 | {expected}"


async def test_a_long_text_is_cut_at_its_size(tmp_path: Path):
    bench = Workbench(tmp_path, Limits(read_bytes=100))
    bench.put("a.txt", "0123456789\n" * 50)
    rows = (await read(bench)).split("\n")
    assert rows[1] == "(Lines 1-6 of 50. To continue: offset=7.)"
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
async def test_missing_lines_are_an_error(
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
async def test_the_block_around_a_line(
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
    assert outcome == Outcome(
        text="File: a.txt\n(Image, PNG, 8x6, 1 KB.)",
        images=(Image(media_type="image/png", data=data),),
    )
    bench.put("a.txt", PICTURE + b"x" * 1024)
    assert "too large to be shown" in await read(bench)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        pytest.param(png(8_000, 5_000), "", id="40 megapixels"),
        pytest.param(png(8_001, 5_000), "the limit is 40 megapixels", id="7 one row more"),
        pytest.param(png(800_000, 5_000), "the limit is 40 megapixels", id="7 100 times"),
        pytest.param(png(1, 1, 5 * 2**20), "", id="5 MiB"),
        pytest.param(png(1, 1, 5 * 2**20 + 1), "the limit is 5 MiB", id="7 a byte more"),
        pytest.param(png(1, 1, 11 * 2**20), "more than 10.0 MB; too large", id="7 far more"),
        pytest.param(PICTURE[:16] + b"\0", "header is damaged", id="no size"),
        pytest.param(
            b"BM" + bytes(12) + struct.pack("<Iii", 40, 800, 600) + bytes(1_468_006),
            "(Image, BMP, 1.4 MB; models do not accept this type.)",
            id="a kind that no model is sent",
        ),
    ],
)
async def test_which_images_are_shown(tmp_path: Path, data: bytes, words: str):
    bench = Workbench(tmp_path, sees_images=True)
    bench.put("a.txt", data)
    outcome = await bench.run("read_file", path="a.txt")
    assert bool(outcome.images) is (words == "")
    assert words in outcome.text
    assert outcome.seen == ()


async def test_an_svg_is_text(tmp_path: Path):
    bench = Workbench(tmp_path, sees_images=True)
    bench.put("a.svg", "<svg/>")
    outcome = await bench.run("read_file", path="a.svg")
    assert (outcome.text, outcome.images) == ("File: a.svg\n1 | <svg/>", ())


async def test_one_call_shows_20_mib_of_images(tmp_path: Path):
    bench = Workbench(tmp_path, sees_images=True)
    for number in range(5):
        bench.put(f"{number}.png", png(1, 1, 5 * 2**20))
    outcome = await bench.run("read_file", files=[{"path": f"{n}.png"} for n in range(5)])
    assert len(outcome.images) == 4
    assert outcome.text.count("one call shows 20 MiB of images") == 1


async def test_unsupported_images_and_binary_files_are_described(bench: Workbench):
    bench.put("a.txt", PICTURE)
    assert (
        await read(bench)
        == "File: a.txt\n(Image, PNG, 8x6, 1 KB; this model does not accept images.)"
    )
    bench.put("a.txt", b"PK\3\4\0\0")
    assert await read(bench) == "File: a.txt\n(Not a text file: .txt, 6 bytes. Not shown.)"


NOTEBOOK = json.dumps({"cells": [{"cell_type": "code", "source": "a\nb"}]})


@pytest.mark.parametrize(
    ("name", "content", "shown"),
    [
        pytest.param("a.docx", samples.word_document(), "4 | bird | price", id="docx"),
        pytest.param("a.ipynb", NOTEBOOK, "3 | b", id="C12 notebook"),
        pytest.param("a.ipynb", '{"cells": 1}', '1 | {"cells": 1}', id="no notebook"),
        pytest.param("a.docx", "just words", "1 | just words", id="docx that is text"),
        pytest.param("a.xlsx", samples.word_document(), "7 | The end.", id="docx by another name"),
    ],
)
async def test_documents_are_read_by_lines(
    bench: Workbench, name: str, content: bytes | str, shown: str
):
    bench.put(name, content)
    outcome = await bench.run("read_file", path=name)
    assert shown in outcome.text.split("\n")
    assert bool(outcome.seen) is ("| {" in shown or "just" in shown)


async def test_a_slice_of_a_document(bench: Workbench):
    bench.put("a.docx", samples.word_document())
    outcome = await bench.run("read_file", path="a.docx", offset=2, limit=1)
    assert outcome.text == "File: a.docx\n(Lines 2-2 of 7. To continue: offset=3.)\n2 | ## Of birds"
    with pytest.raises(ToolError, match=r"Line 8 is past the end of a\.docx, which has 7 lines"):
        await bench.run("read_file", path="a.docx", offset=8)


@pytest.mark.parametrize(
    ("name", "content", "size", "words"),
    [
        (
            "a.docx",
            samples.archive({"a": "b"}),
            0,
            "Not a text file: .docx, 103 bytes. It is a zip",
        ),
        ("a.pdf", samples.pdf("x"), 50 * 2**20 + 1, "It is larger than 50 MiB."),
    ],
)
async def test_a_document_that_is_not_read_says_why(
    bench: Workbench, name: str, content: bytes, size: int, words: str
):
    bench.put(name, content.ljust(size, b"\n"))
    assert words in (await bench.run("read_file", path=name)).text


@settings(
    max_examples=3000 if TORTURE else 20,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    name=st.sampled_from(["a.pdf", "a.docx", "a.xlsx", "a.ipynb", "a.png", "a"]),
    mark=st.sampled_from([b"", b"%PDF-", b"PK\3\4", b'{"cells":', b"\x89PNG\r\n\x1a\n", b"\0"]),
    rest=st.binary(max_size=300),
)
def test_no_file_is_too_strange_to_be_read(tmp_path: Path, name: str, mark: bytes, rest: bytes):
    import anyio

    bench = Workbench(tmp_path, sees_images=True)
    bench.put(name, mark + rest)

    async def read_it() -> Outcome:
        with anyio.fail_after(60):
            return await bench.run("read_file", path=name)

    assert anyio.run(read_it).text.startswith(f"File: {name}\n")


async def test_a_folder_and_a_missing_file_are_errors(bench: Workbench):
    with pytest.raises(ToolError, match=r"No such file: a\.txt"):
        await read(bench)
    (bench.root / "a.txt").mkdir()
    with pytest.raises(ToolError, match=r"is a folder\. Use list_files"):
        await read(bench)


async def test_nothing_is_read_without_a_permit(bench: Workbench):
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


TEN = "".join(f"{n}\n" for n in range(1, 11))


async def together(bench: Workbench, *files: dict[str, Any]) -> Outcome:
    return await bench.run("read_file", files=list(files))


@pytest.mark.parametrize(
    ("ranges", "shown"),
    [
        pytest.param(
            ["2-3"], "(Lines 2-3 of 10. To continue: offset=4.)\n2 | 2\n3 | 3", id="string"
        ),
        pytest.param([[9, 10]], " 9 | 9\n10 | 10", id="pair"),
        pytest.param([{"start": 9, "end": 99}], " 9 | 9\n10 | 10", id="object"),
        pytest.param([{"start": "9"}], " 9 | 9\n10 | 10", id="no end"),
        pytest.param(
            ["5-5", "1-2"], "(Lines 1-2, 5-5 of 10.)\n1 | 1\n2 | 2\n...\n5 | 5", id="several"
        ),
        pytest.param(["1-2", [2, 4]], "(Lines 1-4 of 10. To continue", id="overlapping"),
        pytest.param(["1-1", "20-30"], "(Line 20 is past the end.)\n(Lines 1-1 of", id="past"),
        pytest.param(["20-30"], "Line 20 is past the end of a, which has 10 lines.", id="all past"),
        pytest.param(["0-3"], "Lines 0-3 are invalid: lines count from 1.", id="from 0"),
        pytest.param(["3-1"], "Lines 3-1 are invalid", id="backwards"),
    ],
)
async def test_line_ranges_come_in_many_shapes(bench: Workbench, ranges: list[Any], shown: str):
    bench.put("a", TEN)
    bench.put("b", "b")
    outcome = await together(bench, {"path": "a", "line_ranges": ranges}, {"path": "b"})
    first, second = outcome.text.split("\n---\n")
    assert first.startswith(f"File: a\n{shown}")
    assert second == "File: b\n1 | b"


@pytest.mark.parametrize("said", ["a-b", "", "x", 3, [1], [1, 2, 3], {"end": 3}, [True, 2], "-5"])
async def test_an_invalid_range_is_an_error_of_the_model(bench: Workbench, said: Any):
    with pytest.raises(BadArguments, match="a range is like"):
        await bench.prepare("read_file", files=[{"path": "a", "line_ranges": [said]}])


async def test_one_bad_file_does_not_spoil_the_others(bench: Workbench):
    bench.put("a", "1")
    bench.put("b", b"\0")
    files = [{"path": path} for path in ("gone", "a", "b", "", "bad\0path")]
    outcome = await together(bench, *files)
    sections = outcome.text.split("\n---\n")
    assert sections[0] == "File: gone\nNo such file: gone. Use list_files to see what exists."
    assert sections[1:3] == [
        "File: a\n1 | 1",
        "File: b\n(Not a text file: no extension, 1 bytes. Not shown.)",
    ]
    assert len(sections) == 5
    assert (outcome.ending, outcome.seen) == (Ending.DONE, (Seen("a", sha(b"1")),))


async def test_if_every_file_is_bad_the_call_has_failed(bench: Workbench):
    assert (await together(bench, {"path": "a"}, {"path": "b"})).ending is Ending.FAILED
    with pytest.raises(ToolError, match="File: bad"):
        await together(bench, {"path": "bad\0path"})


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "either path or files"),
        ({"path": "", "files": []}, "either path or files"),
        ({"path": "a", "files": [{"path": "b"}]}, "either path or files"),
        ({"files": [{"path": "b"}], "offset": 3}, "used with path"),
        ({"files": [{"path": "b"}] * 21}, "one call reads up to 20"),
        ({"files": [{"path": "b"}] * 2000}, "one call reads up to 20"),
    ],
)
async def test_a_malformed_call_is_an_error_of_the_model(
    bench: Workbench, arguments: dict[str, Any], words: str
):
    with pytest.raises(BadArguments, match=words):
        await bench.prepare("read_file", **arguments)


async def test_the_gate_judges_every_file_of_a_batch(bench: Workbench):
    outside = bench.root.parent / "outside.txt"
    outside.write_text("far\n")
    bench.put("a", "1\n2\n")
    action = await bench.prepare(
        "read_file",
        files=[{"path": "./a", "line_ranges": ["1-1"]}, {"path": str(outside)}, {"path": "b"}],
    )
    assert action.title == f"Read a, {outside}, b"
    assert action.reads == ["a", str(outside), "b"]
    assert action.payload == {
        "tool": "readFile",
        "isOutsideWorkspace": True,
        "batchFiles": [
            {
                "path": "a",
                "lineSnippet": "lines 1-1",
                "isOutsideWorkspace": False,
                "key": "a (1-1)",
                "content": "a",
            },
            {
                "path": str(outside),
                "lineSnippet": "",
                "isOutsideWorkspace": True,
                "key": str(outside),
                "content": str(outside),
            },
            {
                "path": "b",
                "lineSnippet": "",
                "isOutsideWorkspace": False,
                "key": "b",
                "content": "b",
            },
        ],
    }
    with pytest.raises(Denied):
        await action.perform(Permit(action.digest, reads=frozenset(["a"])))


async def test_the_question_about_a_batch_names_every_file(bench: Workbench):
    names = [f"f{number}" for number in range(7)]
    action = await bench.prepare("read_file", files=[{"path": name} for name in names])
    assert action.title == "Read f0, f1, f2 and 4 more"
    assert action.notes == [f"reads {name}" for name in names]


async def test_a_file_outside_the_workspace_is_marked(bench: Workbench):
    outside = bench.root.parent / "outside.txt"
    outside.write_text("far\n")
    action = await bench.prepare("read_file", path="../outside.txt")
    assert action.payload["isOutsideWorkspace"] is True
    assert action.reads == [str(outside)]


async def test_a_batch_shows_as_much_as_one_file_may(tmp_path: Path):
    bench = Workbench(tmp_path, Limits(read_bytes=100))
    for name in "abc":
        bench.put(name, "0123456789\n" * 6)
    first, second, third = (await together(bench, *({"path": name} for name in "abc"))).text.split(
        "\n---\n"
    )
    assert first.count("0123") == 6
    assert second.startswith("File: b\n(Lines 1-1 of 6. To continue: offset=2.)")
    assert third == "File: c\n(Not shown: this call shows enough already. Read it by itself.)"


async def test_a_file_that_is_named_twice_is_shown_once(bench: Workbench):
    bench.put("a", TEN)
    ranges = [["1-5"], ["6-10"]]
    outcome = await together(bench, *({"path": "a", "line_ranges": each} for each in ranges))
    assert outcome.text.count("File: a") == 1
    assert outcome.seen == (Seen("a", sha(TEN.encode())),)


@pytest.mark.parametrize(
    ("arguments", "whole"),
    [
        pytest.param({}, True, id="all"),
        pytest.param({"limit": 10}, True, id="just all"),
        pytest.param({"limit": 9}, False, id="not the end"),
        pytest.param({"offset": 2}, False, id="not the beginning"),
        pytest.param({"mode": "indentation", "offset": 3}, False, id="a block"),
        pytest.param(
            {"mode": "indentation", "indentation": {"include_siblings": True}},
            True,
            id="a block that is all",
        ),
    ],
)
async def test_the_outcome_records_whether_a_file_was_read_completely(
    bench: Workbench, arguments: dict[str, Any], whole: bool
):
    bench.put("a.txt", TEN)
    outcome = await bench.run("read_file", path="a.txt", **arguments)
    assert outcome.seen == (Seen("a.txt", sha(TEN.encode()), whole),)


@pytest.mark.parametrize(
    ("content", "limits", "seen"),
    [
        pytest.param("", Limits(), [True], id="empty"),
        pytest.param("x" * 2001, Limits(), [False], id="a line is cut"),
        pytest.param("x\n" * 2001, Limits(), [False], id="too many lines"),
        pytest.param("x\n" * 9, Limits(read_bytes=20), [False], id="too long"),
        pytest.param("x\n" * 9, Limits(edit_bytes=10), [], id="not read to its end"),
        pytest.param(b"\0", Limits(), [], id="not text"),
    ],
)
async def test_a_cut_file_does_not_count_as_read_completely(
    tmp_path: Path, content: str | bytes, limits: Limits, seen: list[bool]
):
    bench = Workbench(tmp_path, limits)
    bench.put("a.txt", content)
    outcome = await bench.run("read_file", path="a.txt")
    assert [each.whole for each in outcome.seen] == seen


@pytest.fixture
def guarded(bench: Workbench) -> Workbench:
    bench.put(".rookeryignore", "*.key\n")
    for name in ("a.txt", "b.txt", "my.key", ".ssh/id_rsa"):
        bench.put(name, f"in {name}\n")
    return bench


async def test_a_hidden_file_is_left_out_of_a_batch_without_a_question(
    guarded: Workbench,
):
    files = [{"path": "a.txt"}, {"path": "my.key"}, {"path": "b.txt"}]
    action = await guarded.prepare("read_file", files=files)
    assert (action.title, list(action.reads)) == ("Read a.txt, b.txt", ["a.txt", "b.txt"])
    outcome = await guarded.run("read_file", files=files)
    first, refused, last = outcome.text.split("\n---\n")
    assert (first, last) == ("File: a.txt\n1 | in a.txt", "File: b.txt\n1 | in b.txt")
    assert refused.startswith("File: my.key\nmy.key is hidden from you by the user;")
    assert (outcome.ending, [seen.path for seen in outcome.seen]) == (
        Ending.DONE,
        ["a.txt", "b.txt"],
    )


async def test_a_batch_of_hidden_files_only_is_denied(guarded: Workbench):
    with pytest.raises(Denied, match=r"my\.key is hidden from you"):
        await guarded.prepare("read_file", files=[{"path": "my.key"}, {"path": "./my.key"}])
