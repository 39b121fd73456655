"""The one way from the browser to the world: a proxy of ours, on this machine only.

Redirects, sockets and workers all come through here, whichever part of the browser they are of.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial

import anyio
from anyio.abc import SocketAttribute

from rookery.browser.reach import Errand, Reach
from rookery.platform.http_proxy import Dialled, OutOfReach, Request, attend, connect


@asynccontextmanager
async def proxy(reach: Reach, tell: Callable[[str], None]) -> AsyncIterator[str]:
    """The address of a proxy that is there until the context is left. `tell` hears in a sentence
    what was refused."""
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=0)
    port = listener.extra(SocketAttribute.local_port)

    async def dial(request: Request) -> Dialled:
        try:
            addresses = await reach.addresses(request.host, request.port)
        except Errand:
            raise
        except OutOfReach as reason:
            tell(f"A request to {request.host}:{request.port} was refused. {reason}")
            raise
        world = await connect(addresses, request.port)
        return Dialled(world, b"" if request.is_tunnel else request.head())

    failure: Exception | None = None
    async with listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, partial(attend, dial=dial))
        try:
            yield f"http://127.0.0.1:{port}"
        except Exception as error:
            failure = error  # a task group would make a group of it
        finally:
            group.cancel_scope.cancel()
    if failure:
        raise failure
