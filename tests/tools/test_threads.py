import threading
from pathlib import Path

import anyio
import pytest

from rookery.core.limits import Limits
from rookery.tools.threads import beside
from workbench import Workbench

pytestmark = pytest.mark.anyio


async def test_nobody_waits_for_work_that_is_no_longer_wanted():
    begun, enough, ended = anyio.Event(), threading.Event(), list[bool]()

    def work() -> None:
        anyio.from_thread.run_sync(begun.set)
        ended.append(enough.wait(60))

    async with anyio.create_task_group() as group:
        group.start_soon(beside, work)
        await begun.wait()
        group.cancel_scope.cancel()
    assert ended == []
    enough.set()


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("write_to_file", {"path": "a.txt", "content": "b\n" * 1_000_000}),
        ("edit", {"file_path": "a.txt", "old_string": "x", "new_string": "y"}),
        (
            "apply_diff",
            {
                "path": "a.txt",
                "diff": "<<<<<<< SEARCH\nx\n=======\ny\n>>>>>>> REPLACE\n",
            },
        ),
    ],
)
async def test_a_change_of_a_large_file_is_worked_out_beside_the_loop(
    tmp_path: Path, tool: str, arguments: dict[str, str]
):
    """Every step of the work is short against the whole: the loop runs between them."""
    bench = Workbench(tmp_path, Limits())
    bench.put("a.txt", "a\r\n" * 1_000_000 + "x\n")
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            await anyio.sleep(0)
            turns += 1

    async with anyio.create_task_group() as group:
        group.start_soon(count)
        await bench.prepare(tool, **arguments)
        group.cancel_scope.cancel()
    assert turns > 20
