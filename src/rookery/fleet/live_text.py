"""Text as a model streams it, from the worker that runs a session to managers that show it.

It does not go through the database. A manager that shows a session leaves its address there; the
slot that runs the session connects to it with a WebSocket and is then the host on it, which the
manager follows. Only passing events are sent: lasting ones are in the database, so a manager that
misses the text loses nothing.

A slot proves who it is with a secret whose digest is in its row. The certificate of a manager must
have the fingerprint that it left.
"""

import hashlib
import logging
import socket
from collections.abc import AsyncIterator
from typing import NoReturn, TypeVar

from msgspec import Struct

from rookery.core.commands import Command
from rookery.core.facts import Event
from rookery.core.queries import Asking
from rookery.errors import CommandRejected
from rookery.fleet.journal import FleetDatabase
from rookery.protocol.codec import Host
from rookery.protocol.server import serve
from rookery.protocol.worker_channel import WorkerGreeting, dial_manager

T = TypeVar("T")
_debug = logging.getLogger(__name__)
WATCH_SECONDS = 15.0
"""How long a manager's wish to see a session lasts."""


class Watcher(Struct, frozen=True):
    """A manager that shows a session."""

    url: str
    fingerprint: str = ""
    """Of its certificate; empty for one that the system's authorities have signed, or for none."""
    machine: str = ""
    """The only machine that reaches the address; empty for any."""


def digest_of(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def this_machine() -> str:
    return socket.gethostname()


def watchers(database: FleetDatabase, session_id: str) -> list[Watcher]:
    """The managers that this machine reaches and that want to see a session."""
    found = database.execute(
        "select url, fingerprint, machine from rookery.watchers where task = %s "
        "and machine in ('', %s) and seen > now() - %s * interval '1 second'",
        [session_id, this_machine(), WATCH_SECONDS],
    ).fetchall()
    return [Watcher(*row) for row in found]


async def show_text(watcher: Watcher, host: Host, greeting: WorkerGreeting) -> None:
    """Show a session's text to a manager until it wants no more. Whatever goes wrong with it, the
    session goes on."""
    try:
        async with dial_manager(watcher.url, watcher.fingerprint, greeting) as channel:
            await serve(PassingEvents(host, greeting.session_id), channel)
    except Exception as error:
        _debug.debug("the text is not shown to %s: %r", watcher.url, error)


class PassingEvents(Struct):
    """A host that only shows the passing events of one session."""

    host: Host
    session_id: str

    async def follow(self, task_id: str, after: int = 0) -> AsyncIterator[Event]:
        if task_id != self.session_id:
            _refuse()
        async for event in self.host.follow(task_id, after):
            if not event.fact.lasting:
                yield event

    async def send(self, command: Command) -> None:
        _refuse()

    async def query(self, query: Asking[T]) -> T:
        _refuse()


def _refuse() -> NoReturn:
    raise CommandRejected("A worker only shows the text of its session. It accepts no commands.")
