"""Work that takes a while, beside the loop."""

from collections.abc import Callable
from typing import TypeVar

import anyio.to_thread

T = TypeVar("T")


async def beside(work: Callable[[], T]) -> T:
    """The result of something that changes nothing. If it is no longer wanted, whoever waits for
    it goes on at once, and it comes to its end unheard."""
    return await anyio.to_thread.run_sync(work, abandon_on_cancel=True)
