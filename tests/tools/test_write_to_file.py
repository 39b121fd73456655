import json
from hashlib import sha256
from pathlib import Path

import pytest

from rookery.core.facts import Change
from rookery.errors import BadArguments
from support.workspace_folder import Workbench, permit_for

pytestmark = pytest.mark.anyio


@pytest.fixture
def bench(tmp_path: Path) -> Workbench:
    return Workbench(tmp_path)


async def test_a_new_file_is_declared_then_written(bench: Workbench):
    action = await bench.prepare("write_to_file", path="src/new.py", content="a\nb\n")
    after = sha256(b"a\nb\n").hexdigest()
    assert action.changes == [Change(path="src/new.py", before="", after=after)]
    assert action.title == "Create src/new.py"
    assert action.payload == {
        "tool": "newFileCreated",
        "path": "src/new.py",
        "isOutsideWorkspace": False,
        "content": "@@ -0,0 +1,2 @@\n+a\n+b",
        "diffStats": {"added": 2, "removed": 0},
    }
    assert not (bench.root / "src").exists()
    outcome = await action.perform(permit_for(action))
    assert bench.bytes_of("src/new.py") == b"a\nb\n"
    assert json.loads(outcome.text) == {
        "path": "src/new.py",
        "operation": "created",
        "notice": "The file is as you specified it; there is no need to read it again.",
    }


async def test_a_file_is_replaced_and_its_diff_shown(bench: Workbench):
    bench.put("a.txt", "one\ntwo\nthree\n")
    action = await bench.prepare("write_to_file", path="a.txt", content="one\n2\nthree\n")
    assert action.diff == "@@ -1,3 +1,3 @@\n one\n-two\n+2\n three"
    assert action.payload["tool"] == "editedExistingFile"
    assert action.payload["diffStats"] == {"added": 1, "removed": 1}
    assert json.loads((await action.perform(permit_for(action))).text)["operation"] == "modified"


FENCED = "```python\nx\n```"
WRITTEN = {
    "empty": ("a.py", "", ""),
    "both fences": ("a.py", FENCED, "x\n"),
    "one fence": ("a.py", "```python\nx\n", "```python\nx\n"),
    "Markdown": ("a.md", FENCED, FENCED),
    "text": ("a.txt", FENCED, FENCED),
    "no extension": ("NOTES", FENCED, FENCED),
    "no tag": ("a.py", "```a b\nx\n```", "```a b\nx\n```"),
    "two": ("a.py", "```\nx\n```\n```\ny\n```", "```\nx\n```\n```\ny\n```"),
    "entities": ("a.html", "&lt;b&gt;\n", "&lt;b&gt;\n"),
    "no final newline": ("a.py", "x", "x"),
}


async def test_content_is_cleaned_up_before_writing(bench: Workbench):
    for name, (path, content, written) in WRITTEN.items():
        outcome = await bench.run("write_to_file", path=path, content=content)
        assert bench.bytes_of(path).decode() == written, name
        reported = "Only the ``` lines around the content were left out." in outcome.text
        assert reported == (name == "both fences"), name
        (bench.root / path).unlink()


# the other encodings and line ends are in edits/test_edit_corpus.py
KEPT = {
    "CRLF, one more": (b"a\r\nb\r\n", "a\nc\nd\n", b"a\r\nc\r\nd\r\n"),
    "emptied": (b"a\r\nb\r\n", "", b""),
    "said so": (b"a\nb\n", "a\r\nb\r\n", b"a\r\nb\r\n"),
    "mark said too": (b"\xef\xbb\xbfa\n", "\ufeffb\n", b"\xef\xbb\xbfb\n"),
}


async def test_encoding_and_line_ends_stay(bench: Workbench):
    for name, (old, content, written) in KEPT.items():
        bench.put("a.txt", old)
        await bench.run("write_to_file", path="a.txt", content=content)
        assert bench.bytes_of("a.txt") == written, name


OMISSIONS = (
    "// ... rest of the file unchanged",
    "# ... existing code ...",
    "    # rest of code remains the same",
    "<!-- rest of the document here -->",
    "/* ... remaining methods ... */",
    "[... previous content omitted ...]",
    "// existing implementation stays as is",
    "... (rest of file)",
)
NO_OMISSIONS = (
    "# ... and so on",
    "the rest of the file stays unchanged",
    "print('... existing code ...')",
    "# keeps the existing order",
    "...",
    "# already there: ... rest of file",
)


async def test_an_omission_is_refused_and_a_line_that_leaves_nothing_out_is_written(
    bench: Workbench,
):
    bench.put("a.py", "# already there: ... rest of file\n" + "x\n" * 50)
    for line in OMISSIONS:
        with pytest.raises(BadArguments, match="left out"):
            await bench.prepare("write_to_file", path="a.py", content=f"x\n{line}\n")
    for line in NO_OMISSIONS:
        bench.put("a.py", "# already there: ... rest of file\n")
        await bench.run("write_to_file", path="a.py", content=f"x\n{line}\n")
        assert bench.bytes_of("a.py").decode() == f"x\n{line}\n"


async def test_the_same_content_needs_no_change(bench: Workbench):
    bench.put("a.txt", "a\r\n")
    action = await bench.prepare("write_to_file", path="a.txt", content="a\n")
    assert not action.changes_things
    assert "No changes needed" in (await action.perform(permit_for(action))).text


async def test_a_file_outside_the_workspace_is_named_by_its_full_path(bench: Workbench):
    action = await bench.prepare("write_to_file", path="../x.txt", content="x")
    assert [change.path for change in action.changes] == [f"{bench.root.resolve().parent}/x.txt"]


async def test_a_file_that_is_replaced_whole_is_named_as_such(bench: Workbench):
    bench.put("a.txt", "a\n")
    replaced = await bench.prepare("write_to_file", path="a.txt", content="b\n")
    created = await bench.prepare("write_to_file", path="b.txt", content="b\n")
    edited = await bench.prepare("edit", file_path="a.txt", old_string="a", new_string="b")
    assert [list(action.whole) for action in (replaced, created, edited)] == [["a.txt"], [], []]


async def test_changes_without_visible_lines_are_described_in_words(bench: Workbench):
    bench.put("a.txt", "a\n")
    action = await bench.prepare("write_to_file", path="a.txt", content="a\r\n")
    assert action.diff == "(Only line ends change.)"
    action = await bench.prepare("write_to_file", path="new.txt", content="")
    assert action.diff == "(An empty file.)"


async def test_the_diff_of_a_large_file_shows_its_changes_as_one_block(bench: Workbench):
    old = [f"{n}\n" for n in range(15_000)]
    new = [*old[:100], "new\n", *old[101:109], "newer\n", *old[110:]]
    bench.put("a.txt", "".join(old))
    action = await bench.prepare("write_to_file", path="a.txt", content="".join(new))
    rows = action.diff.split("\n")
    assert rows[:5] == ["@@ -98,16 +98,16 @@", " 97", " 98", " 99", "-100"]
    assert rows[-4:] == ["+newer", " 110", " 111", " 112"]
    assert action.payload["diffStats"] == {"added": 10, "removed": 10}
