from pathlib import Path

import pytest

from rookery.engine.ports.actions import Permit
from rookery.errors import Denied
from support.workspace_folder import Workbench

pytestmark = pytest.mark.anyio


@pytest.fixture
def bench(tmp_path: Path) -> Workbench:
    bench = Workbench(tmp_path)
    bench.put("src/a.py", "import os\n")
    return bench


async def test_a_folder_is_listed_only_with_a_permit(bench: Workbench):
    action = await bench.prepare("list_files", path="./src", recursive=True)
    assert (action.reads, action.changes_things) == (["src"], False)
    assert action.payload == {
        "tool": "listFilesRecursive",
        "path": "src",
        "isOutsideWorkspace": False,
    }
    with pytest.raises(Denied):
        await action.perform(Permit(action.digest))
    assert (await bench.run("list_files", path=".")).text == "src/"


async def test_files_are_searched_only_with_a_permit(bench: Workbench):
    arguments = {"path": ".", "regex": "^import", "file_pattern": "*.py"}
    action = await bench.prepare("search_files", **arguments)
    assert (action.reads, action.changes_things) == (["."], False)
    assert action.payload == {
        "tool": "searchFiles",
        "path": ".",
        "regex": "^import",
        "filePattern": "*.py",
        "isOutsideWorkspace": False,
    }
    with pytest.raises(Denied):
        await action.perform(Permit(action.digest))
    found = (await bench.run("search_files", **arguments)).text
    assert found == "Found 1 match.\n\n# src/a.py\n  1 | import os"


@pytest.mark.parametrize("tool", ["list_files", "search_files"])
async def test_a_folder_outside_the_workspace_is_named_by_its_full_path(
    bench: Workbench, tool: str
):
    more = {"regex": "x"} if tool == "search_files" else {}
    action = await bench.prepare(tool, path="..", **more)
    assert action.reads == [str(bench.root.resolve().parent)]
    with pytest.raises(Denied):
        await action.perform(Permit(action.digest, reads=frozenset([".."])))
