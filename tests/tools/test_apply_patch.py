import json
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rookery.engine.ports.actions import Permit
from rookery.errors import BadArguments, Denied, ToolError
from rookery.workspace.files import WorkspaceFiles
from support.workspace_folder import Workbench, permit_for

pytestmark = pytest.mark.anyio


@pytest.fixture
def bench(tmp_path: Path) -> Workbench:
    return Workbench(tmp_path)


def patch(*rows: str) -> str:
    return "\n".join(["*** Begin Patch", *rows, "*** End Patch"])


SEVERAL = patch(
    "*** Update File: a.txt",
    "@@",
    "-one",
    "+1",
    "*** Add File: sub/new.txt",
    "+fresh",
    "*** Delete File: old.txt",
    "*** Update File: from.txt",
    "*** Move to: sub/to.txt",
    "-x",
    "+y",
)


def put_several(bench: Workbench) -> None:
    bench.put("a.txt", b"one\r\ntwo\r\n")
    bench.put("old.txt", "gone\n")
    bench.put("from.txt", "x\nz\n")


def tree(root: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file() and not path.is_symlink()
    }


async def test_the_whole_patch_is_shown_and_every_changed_file_is_reported(
    bench: Workbench,
):
    put_several(bench)
    action = await bench.prepare("apply_patch", patch=SEVERAL)
    assert [(c.path, bool(c.before), bool(c.after)) for c in action.changes] == [
        ("a.txt", True, True),
        ("sub/new.txt", False, True),
        ("old.txt", True, False),
        ("sub/to.txt", False, True),
        ("from.txt", True, False),
    ]
    assert action.title == (
        "Edit a.txt, create sub/new.txt, delete old.txt, move from.txt to sub/to.txt"
    )
    assert action.diff == (
        "*** edit a.txt\n@@ -1,2 +1,2 @@\n-one\n+1\n two\n"
        "*** create sub/new.txt\n@@ -0,0 +1 @@\n+fresh\n"
        "*** delete old.txt\n@@ -1 +0,0 @@\n-gone\n"
        "*** move from.txt to sub/to.txt\n@@ -1,2 +1,2 @@\n-x\n+y\n z"
    )
    payload = dict(action.payload)
    batch = payload.pop("batchDiffs")
    assert payload == {
        "tool": "appliedDiff",
        "path": "a.txt",
        "isOutsideWorkspace": False,
        "content": action.diff,
        "diff": action.diff,
        "diffStats": {"added": 3, "removed": 3},
    }
    assert [each["path"] for each in batch] == ["a.txt", "sub/new.txt", "old.txt", "sub/to.txt"]
    outcome = await action.perform(permit_for(action))
    assert tree(bench.root) == {
        "a.txt": b"1\r\ntwo\r\n",
        "sub/new.txt": b"fresh\n",
        "sub/to.txt": b"y\nz\n",
    }
    assert json.loads(outcome.text)["files"] == [
        {"path": "a.txt", "operation": "modified"},
        {"path": "sub/new.txt", "operation": "created"},
        {"path": "old.txt", "operation": "deleted"},
        {"path": "sub/to.txt", "operation": "moved", "from": "from.txt"},
    ]


async def test_one_file_is_shown_as_by_any_other_tool(bench: Workbench):
    bench.put("a.txt", "one\n")
    action = await bench.prepare(
        "apply_patch", patch=patch("*** Update File: ./a.txt", "-one", "+1")
    )
    assert action.title == "Edit a.txt"
    assert action.payload == {
        "tool": "appliedDiff",
        "path": "a.txt",
        "isOutsideWorkspace": False,
        "content": "@@ -1 +1 @@\n-one\n+1",
        "diff": "@@ -1 +1 @@\n-one\n+1",
        "diffStats": {"added": 1, "removed": 1},
    }


@pytest.mark.parametrize(
    ("rows", "shown"),
    [
        (["*** Update File: a.txt", "*** Move to: b.txt"], "(Its lines stay as they are.)"),
        (["*** Add File: b.txt"], "(It has no lines.)"),
    ],
)
async def test_changes_without_a_diff_are_described_in_words(
    bench: Workbench, rows: list[str], shown: str
):
    bench.put("a.txt", "one\n")
    assert (await bench.prepare("apply_patch", patch=patch(*rows))).diff == shown


async def test_of_many_files_the_first_are_named(bench: Workbench):
    rows = [row for n in range(9) for row in (f"*** Add File: {n}.txt", "+x")]
    action = await bench.prepare("apply_patch", patch=patch(*rows))
    assert action.title.endswith("create 3.txt, and 5 more files")


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        pytest.param(["*** Add File: a.txt", "+x"], "a.txt already exists", id="add"),
        pytest.param(["*** Delete File: no.txt"], "No such file: no.txt", id="delete"),
        pytest.param(["*** Update File: no.txt", "+x"], "No such file: no.txt", id="update"),
        pytest.param(["*** Update File: a.txt", "*** Move to: sub/c.txt"],
                     "sub/c.txt already exists",
                     id="move onto another"),
        pytest.param(["*** Update File: a.txt", "*** Move to: ./a.txt"], "names a.txt 2 times",
                     id="move onto itself"),
        pytest.param(["*** Update File: a.txt", "-one", "*** Delete File: x/../a.txt"],
                     "names a.txt 2 times", id="twice"),
        pytest.param(["*** Update File: a.txt", "one"], "malformed at line 6: 'one' begins with",
                     id="malformed"),
        pytest.param(["*** Add File: A.txt", "+x"], "Did you mean a.txt", id="almost the name"),
        pytest.param(["*** Delete File: sub"], "is a folder", id="a folder"),
        pytest.param(["*** Delete File: link.txt"], "Name a.txt itself", id="a link deleted"),
        pytest.param(["*** Update File: link.txt", "*** Move to: c.txt"], "Name a.txt itself",
                     id="a link moved"),
        pytest.param(["*** Update File: a.txt", "-one", "+# ... rest of the file unchanged ..."],
                     "left out", id="omission"),
        pytest.param(["*** Add File: c.txt", "+# ... existing code ..."], "left out",
                     id="omission in a new file"),
    ],
)  # fmt: skip
async def test_a_patch_that_cannot_be_applied_changes_nothing(
    bench: Workbench, rows: list[str], words: str
):
    bench.put("a.txt", "one\n")
    bench.put("b.txt", "two\n")
    bench.put("sub/c.txt", "three\n")
    (bench.root / "link.txt").symlink_to("a.txt")
    before = tree(bench.root)
    with pytest.raises(ToolError, match=words):
        await bench.run("apply_patch", patch=patch("*** Update File: b.txt", "-two", "+2", *rows))
    assert tree(bench.root) == before


async def test_a_hunk_that_does_not_fit_is_explained_by_a_reading(bench: Workbench):
    bench.put("a.txt", "one\n")
    bench.put("b.txt", "secret two\n")
    rows = ["*** Update File: a.txt", "-one", "*** Update File: b.txt", "-secret tow"]
    action = await bench.prepare("apply_patch", patch=patch(*rows))
    assert (action.reads, action.changes_things) == (["b.txt"], False)
    with pytest.raises(Denied) as refusal:
        await action.perform(Permit(action.digest))
    assert "two" not in str(refusal.value)
    with pytest.raises(
        BadArguments, match=r"b\.txt was not changed\. The hunk at line 5.*\n"
    ) as at:
        await action.perform(permit_for(action))
    assert "1 file:   secret two" in str(at.value)
    assert "Nothing of the patch was applied." in str(at.value)
    assert bench.bytes_of("a.txt") == b"one\n"


async def test_all_or_nothing_also_if_a_file_changes_after_the_question(bench: Workbench):
    put_several(bench)
    action = await bench.prepare("apply_patch", patch=SEVERAL)
    bench.put("from.txt", "somebody else's\n")
    before = tree(bench.root)
    with pytest.raises(ToolError):
        await action.perform(permit_for(action))
    assert tree(bench.root) == before


async def test_a_permit_for_part_of_a_patch_is_refused(bench: Workbench):
    put_several(bench)
    before = tree(bench.root)
    action = await bench.prepare("apply_patch", patch=SEVERAL)
    some = Permit(action.digest, changes=frozenset(action.changes[:-1]))
    with pytest.raises(Denied):
        await action.perform(some)
    assert tree(bench.root) == before


async def test_a_change_of_nothing_needs_no_approval(bench: Workbench):
    bench.put("a.txt", "one\n")
    action = await bench.prepare("apply_patch", patch=patch("*** Update File: a.txt", " one"))
    assert not action.changes_things
    assert "No changes needed: a.txt" in (await action.perform(permit_for(action))).text


async def test_an_unchanged_file_is_reported_too(bench: Workbench):
    bench.put("a.txt", "one\n")
    rows = ["*** Update File: a.txt", " one", "*** Add File: b.txt"]
    outcome = await bench.run("apply_patch", patch=patch(*rows))
    assert json.loads(outcome.text)["files"] == [
        {"path": "a.txt", "operation": "unchanged"},
        {"path": "b.txt", "operation": "created"},
    ]
    assert bench.bytes_of("b.txt") == b""


async def test_a_binary_file_can_be_deleted(bench: Workbench):
    bench.put("logo.png", b"\x89PNG\0\0")
    action = await bench.prepare("apply_patch", patch=patch("*** Delete File: logo.png"))
    assert "not a text file" in action.diff
    await action.perform(permit_for(action))
    assert tree(bench.root) == {}


async def test_a_file_that_may_not_be_opened_may_not_be_deleted(bench: Workbench):
    bench.put(".netrc", "machine x\n")
    bench.files = WorkspaceFiles(bench.root, bench.limits, home=bench.root)
    with pytest.raises(Denied, match="credentials"):
        await bench.prepare("apply_patch", patch=patch("*** Delete File: .netrc"))


@pytest.mark.parametrize("mode", [0o755, 0o600])
async def test_a_moved_file_keeps_bytes_encoding_and_mode(bench: Workbench, mode: int):
    content = "\ufeffone\r\ntwo".encode("utf-16-le")
    bench.put("a.txt", content).chmod(mode)
    rows = ["*** Update File: a.txt", "*** Move to: b.txt", "-two", "+2"]
    await bench.run("apply_patch", patch=patch(*rows))
    assert tree(bench.root) == {"b.txt": "\ufeffone\r\n2".encode("utf-16-le")}
    assert os.stat(bench.root / "b.txt").st_mode & 0o7777 == mode


words = st.sampled_from(
    ["*** Add File: a.txt", "*** Delete File: b.txt", "*** Update File: b.txt", "@@", "-x", "+x",
     "*** Move to: c.txt", " x", "*** Update File: sub", "*** Add File: ..", "", "*** End of File"]
)  # fmt: skip


@given(st.lists(words | st.text(max_size=6), max_size=8))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_random_patches_are_applied_or_refused_with_a_message(
    bench: Workbench, rows: list[str]
):
    bench.put("b.txt", "x\n")
    before = tree(bench.root)
    refusal = ""
    try:
        await bench.run("apply_patch", patch=patch(*rows))
    except ToolError as error:
        refusal = str(error)
    after = tree(bench.root)
    assert not refusal or after == before
    for path in after:
        (bench.root / path).unlink()
