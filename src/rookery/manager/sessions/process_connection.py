"""The way to the process of a session: a host at its socket, and the events of its tasks."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager, suppress
from pathlib import Path
from typing import cast

from rookery.core.facts import Event
from rookery.errors import CommandRejected
from rookery.manager.sessions.heard_task import FollowedTask
from rookery.protocol.host_interface import Host
from rookery.protocol.remote import remote_host
from rookery.protocol.unix_sockets import unix_channel


@asynccontextmanager
async def host_at(socket: Path) -> AsyncIterator[Host]:
    """The host there. What goes wrong is raised as it is, not in a group."""
    try:
        async with remote_host(await unix_channel(socket)) as host:
            yield host
    except BaseExceptionGroup as group:
        raise _first_in(group) from group


async def events_of(host: Host, task: FollowedTask) -> AsyncGenerator[Event, None]:
    """None if the task is over already, which a refusal means."""
    with suppress(CommandRejected):
        async with aclosing(_closable(host.follow(task.task_id, task.after))) as events:
            async for event in events:
                yield event


def _closable(events: AsyncIterator[Event]) -> AsyncGenerator[Event, None]:
    return cast(AsyncGenerator[Event, None], events)


def _first_in(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
