"""A remote host reports the same events as a local one."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import anyio
import pytest

from rookery.protocol.channels import channel_on
from rookery.protocol.codec import Host
from rookery.protocol.remote import remote_host
from rookery.protocol.server import serve
from support.protocol_hosts import connected, socket_pair, workplace
from support.protocol_story import SCRIPT, reported

pytestmark = pytest.mark.anyio

Over: TypeAlias = Callable[[Host], AbstractAsyncContextManager[Host]]


@asynccontextmanager
async def over_memory(host: Host) -> AsyncIterator[Host]:
    async with connected(host) as remote:
        yield remote


@asynccontextmanager
async def over_unbuffered_memory(host: Host) -> AsyncIterator[Host]:
    async with connected(host, room=0) as remote:
        yield remote


@asynccontextmanager
async def over_a_socket(host: Host) -> AsyncIterator[Host]:
    async with socket_pair() as (local, far), anyio.create_task_group() as group:
        group.start_soon(partial(serve, host, channel_on(far)))
        async with remote_host(channel_on(local)) as remote:
            yield remote
        group.cancel_scope.cancel()


@asynccontextmanager
async def over_two_connections(host: Host) -> AsyncIterator[Host]:
    async with connected(host) as remote, connected(remote) as further:
        yield further


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The events as the local host reports them."""

    async def report() -> Any:
        async with workplace(tmp_path_factory.mktemp("local"), SCRIPT) as host:
            return await reported(host)

    return anyio.run(report)


@pytest.mark.parametrize(
    "over", [over_memory, over_unbuffered_memory, over_a_socket, over_two_connections]
)
async def test_a_remote_host_reports_the_same_events(local: Any, tmp_path: Path, over: Over):
    async with workplace(tmp_path, SCRIPT) as host, over(host) as remote:
        assert await reported(remote) == local
