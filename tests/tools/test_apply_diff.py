import json
from pathlib import Path

import pytest

from rookery.engine.ports.actions import Permit
from rookery.errors import BadArguments, Denied
from support.workspace_folder import Workbench, permit_for

pytestmark = pytest.mark.anyio


@pytest.fixture
def bench(tmp_path: Path) -> Workbench:
    return Workbench(tmp_path)


def block(search: str, replace: str) -> str:
    return f"<<<<<<< SEARCH\n{search}\n=======\n{replace}\n>>>>>>> REPLACE\n"


async def test_blocks_are_shown_and_applied(bench: Workbench):
    bench.put("a.txt", b"\xef\xbb\xbfone\r\ntwo\nthree\r\n")
    diff = block("one", "1") + block("three", "3")
    action = await bench.prepare("apply_diff", path="a.txt", diff=diff)
    assert action.payload == {
        "tool": "appliedDiff",
        "path": "a.txt",
        "isOutsideWorkspace": False,
        "diff": diff,
        "content": "@@ -1,3 +1,3 @@\n-one\n+1\n two\n-three\n+3",
        "diffStats": {"added": 2, "removed": 2},
    }
    await action.perform(permit_for(action))
    assert bench.bytes_of("a.txt") == b"\xef\xbb\xbf1\r\ntwo\n3\r\n"


async def test_some_blocks_applied_is_a_success_with_a_note(bench: Workbench):
    bench.put("a.txt", "one\ntwo\n")
    diff = block("one", "1") + block("tow", "2")
    action = await bench.prepare("apply_diff", path="a.txt", diff=diff)
    assert action.reads == ["a.txt"]
    notice = json.loads((await action.perform(permit_for(action))).text)["notice"]
    assert "Only 1 of 2 blocks were applied." in notice
    assert "Block 2 was not applied" in notice
    assert bench.bytes_of("a.txt") == b"1\ntwo\n"


async def test_a_diff_without_a_match_fails_and_names_the_nearest_lines(bench: Workbench):
    bench.put("a.txt", "one\nsecret two\n")
    action = await bench.prepare("apply_diff", path="a.txt", diff=block("secret tow", "2"))
    assert (action.reads, action.changes_things) == (["a.txt"], False)
    with pytest.raises(Denied) as refusal:
        await action.perform(Permit(action.digest))
    assert "two" not in str(refusal.value)
    with pytest.raises(BadArguments, match=r"a\.txt was not changed.*\n.*Nearest: lines 2-2"):
        await action.perform(permit_for(action))


@pytest.mark.parametrize(
    ("diff", "words"),
    [("nonsense", "The diff is malformed"), (block("one", "1"), "No such file: a.txt")],
)
async def test_wrong_use_is_an_error_of_the_model(bench: Workbench, diff: str, words: str):
    with pytest.raises(BadArguments, match=words):
        await bench.prepare("apply_diff", path="a.txt", diff=diff)
