import threading

import anyio
import anyio.from_thread
import pytest

from rookery.tools.file_changes import in_thread

pytestmark = pytest.mark.anyio


async def test_cancelled_work_is_not_waited_for():
    begun, enough, ended = anyio.Event(), threading.Event(), list[bool]()

    def work() -> None:
        anyio.from_thread.run_sync(begun.set)
        ended.append(enough.wait(60))

    async with anyio.create_task_group() as group:
        group.start_soon(in_thread, work)
        await begun.wait()
        group.cancel_scope.cancel()
    assert ended == []
    enough.set()
