"""Virtual time passes at once, but waits for work outside the loop."""

import time
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

from support.virtual_clock import VIRTUAL_TIME

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return VIRTUAL_TIME


async def test_a_day_is_over_at_once_and_in_its_order():
    begun, order = anyio.current_time(), []

    async def after(hours: int) -> None:
        await anyio.sleep(hours * 3600)
        order.append(hours)

    async with anyio.create_task_group() as group:
        for hours in (24, 3, 12):
            group.start_soon(after, hours)
    assert order == [3, 12, 24]
    assert anyio.current_time() - begun == pytest.approx(24 * 3600)


async def test_no_time_passes_while_work_is_done():
    begun = anyio.current_time()
    for _ in range(100):
        await anyio.lowlevel.checkpoint()
    assert anyio.current_time() == begun


async def test_what_a_thread_does_is_not_overtaken():
    with anyio.fail_after(60):
        await anyio.to_thread.run_sync(time.sleep, 0.05)


async def test_what_a_process_does_is_not_overtaken():
    with anyio.fail_after(60):
        done = await anyio.run_process(["sh", "-c", "sleep 0.05; echo done"])
    assert done.stdout == b"done\n"
