"""Views of long sessions that begin late, for clients."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import cast

from rookery.core.facts import Event, Rewound
from rookery.core.folds.view import View, see, view_from
from rookery.core.queries import AskViewStart, ViewStart
from rookery.errors import CommandRejected
from rookery.protocol.codec import Host


async def start_of(host: Host, task_id: str, upto: int | None = None) -> ViewStart:
    """Where to begin to show an open task: at its first event if the host is too old to know."""
    try:
        return await host.query(AskViewStart(task_id=task_id, upto=upto))
    except CommandRejected:
        return ViewStart()


def goes_before(event: Event, view: View) -> bool:
    """Whether an event is a rewind to before what a view shows."""
    return isinstance(event.fact, Rewound) and event.fact.to <= view.start > 0


async def view_before(host: Host, task_id: str, view: View, event: Event) -> View:
    """The view to fold an event into: this one, or for a rewind to before it, one that begins
    earlier. It knows the rows after that too, because the rewind may be undone."""
    if not goes_before(event, view):
        return view
    assert isinstance(event.fact, Rewound)
    start = view_from(await start_of(host, task_id, event.fact.to))
    return await view_at(host, task_id, start, event.seq - 1)


async def view_at(host: Host, task_id: str, view: View, to: int) -> View:
    """The view after event `to`, from an earlier one."""
    async with aclosing(stored_events(host, task_id, view.seq, to)) as events:
        async for each in events:
            view = see(await view_before(host, task_id, view, each), each)
    return view


async def stored_events(
    host: Host, task_id: str, after: int, upto: int
) -> AsyncGenerator[Event, None]:
    """The events of an open task after event `after` and up to another, which is stored."""
    following = cast(AsyncGenerator[Event, None], host.follow(task_id, after))
    async with aclosing(following) as events:
        while after < upto:
            event = await anext(events)
            if event.fact.lasting:
                after = event.seq
                yield event
