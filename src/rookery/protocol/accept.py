"""Lets in whoever comes to a listener."""

import errno
from collections.abc import Callable, Coroutine
from typing import Any

import anyio
from anyio.abc import SocketListener, SocketStream, TaskGroup

SECONDS_UNTIL_ROOM = 0.2
NO_ROOM = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.ECONNABORTED)
"""Why a caller cannot be let in now, although others may later."""


async def let_in(
    listener: SocketListener,
    group: TaskGroup,
    welcome: Callable[[SocketStream], Coroutine[Any, Any, None]],
) -> None:
    """Everybody who comes. While there is no room for more, they wait at the door."""
    while True:
        try:
            stream = await listener.accept()
        except (OSError, anyio.BrokenResourceError) as error:
            if getattr(error.__cause__ or error, "errno", 0) not in NO_ROOM:
                raise
            await anyio.sleep(SECONDS_UNTIL_ROOM)
        else:
            group.start_soon(welcome, stream)
