"""A thread that nothing waits for.

The loop's own pool is joined when the program ends. A function that never returns, such as a
lookup at a name server that is away, would keep it from ending.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from threading import Thread
from typing import TypeVar

T = TypeVar("T")


async def in_own_thread(work: Callable[[], T]) -> T:
    """Run it in a thread of its own. A cancelled call, and the end of the program, leave it."""
    loop, context = asyncio.get_running_loop(), copy_context()
    done: asyncio.Future[tuple[T, None] | tuple[None, BaseException]] = loop.create_future()

    def settle(end: tuple[T, None] | tuple[None, BaseException]) -> None:
        if not done.cancelled():
            done.set_result(end)

    def run() -> None:
        end: tuple[T, None] | tuple[None, BaseException]
        try:
            end = context.run(work), None
        except BaseException as error:  # it is raised where the call is awaited
            end = None, error
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(settle, end)

    Thread(target=run, name="own", daemon=True).start()
    result, failure = await done
    if failure is not None:
        raise failure if isinstance(failure, Exception) else RuntimeError(type(failure).__name__)
    return result  # type: ignore[return-value]
