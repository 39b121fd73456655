"""Edit tools declare what they looked for, if they found exactly that."""

from pathlib import Path
from typing import Any

import pytest

from support.workspace_folder import Workbench

pytestmark = pytest.mark.anyio

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
