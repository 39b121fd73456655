"""Opens a host for a client, and ends both when a signal comes or the time is up."""

import gc
import logging
import os
import signal
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Protocol

import anyio

from rookery.app.local_host import open_host
from rookery.cli.exit_codes import exit_code
from rookery.cli.run_options import Run
from rookery.errors import StorageError
from rookery.protocol.client.attend import Fate, RunEnd
from rookery.protocol.host_interface import Host

KILLED_BY = 128
IN_VAIN = 3
"""Signals that nobody hears until the process is ended all the same."""
GRACE = 5.0
"""Seconds that a run has to end itself before another signal ends it."""


class Client(Protocol):
    async def run(self, host: Host) -> RunEnd:
        """Do whatever the client is for, and say how it ended."""
        ...

    async def stopped(self, host: Host) -> bool:
        """Ctrl-C came: whether it was meant for what is being done rather than for the run."""
        ...

    def ended(self, end: RunEnd) -> None:
        """Say how the run ended, once everything is closed."""
        ...


def run_client(run: Run, client: Client) -> int:
    """Run the client to its end. The exit code."""
    try:
        with _libraries_quiet():
            end, killed_by = anyio.run(_hosted, run, client)
    except BaseExceptionGroup as group:
        raise _first_in(group) from group
    client.ended(end)
    return KILLED_BY + killed_by if killed_by else exit_code(end)


@contextmanager
def _libraries_quiet() -> Iterator[None]:
    """What libraries warn their users of is nothing for ours; the debug log is elsewhere."""
    root, nowhere = logging.getLogger(), logging.NullHandler()
    root.addHandler(nowhere)
    logging.captureWarnings(True)
    try:
        yield
    finally:
        logging.captureWarnings(False)
        root.removeHandler(nowhere)


async def _hosted(run: Run, client: Client) -> tuple[RunEnd, int]:
    """How it ended, and the signal that ended it, if one did."""
    leaving = _Leaving(client)
    end = RunEnd(Fate.LEFT, code="task_aborted")
    heeded = _signals_heeded()
    with (
        anyio.open_signal_receiver(*heeded) as signals,
        anyio.move_on_after(run.timeout) as time_limit,
    ):
        leaving.insist(heeded)
        async with open_host(
            run.settings,
            run.choice,
            run.store,
            run.workspace,
            run.places,
            run.consent,
            choose=run.choose,
        ) as host:
            gc.freeze()  # whatever there is by now stays to the end, and is never garbage
            try:
                async with anyio.create_task_group() as group:
                    group.start_soon(leaving.watch, signals, host, group.cancel_scope)
                    end = await client.run(host)
                    group.cancel_scope.cancel()
            except* StorageError as errors:
                end = RunEnd(Fate.FAILED, str(_first_in(errors)), "storage_failed")
    if time_limit.cancelled_caught:
        end = RunEnd(Fate.LEFT, "The time given with --timeout is up.", "timeout")
    return end, leaving.killed_by


def _first_in(error: BaseException) -> BaseException:
    """Task groups wrap what went wrong in them; the reader wants to know what it was."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _signals_heeded() -> list[signal.Signals]:
    """What ends a run, except what whoever started it wants ignored, as `nohup` does."""
    ending = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    return [number for number in ending if signal.getsignal(number) is not signal.SIG_IGN]


class _Leaving:
    """Turns signals into a stop of the task or an end of the run."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.killed_by = 0
        self._unheard = 0
        self._leaving_since = 0.0

    def insist(self, signals: list[signal.Signals]) -> None:
        """A loop that does not turn hears no signal; the third in vain ends the process. What
        was on record is on disk, and commands end when their parent does."""
        for number in signals:
            signal.signal(number, self._count)

    def _count(self, number: int, _: object) -> None:
        self._unheard += 1
        if self._leaving_since:
            in_vain = time.monotonic() - self._leaving_since >= GRACE
        else:
            in_vain = self._unheard >= IN_VAIN
        if in_vain:
            os._exit(KILLED_BY + number)

    async def watch(
        self, signals: AsyncIterator[signal.Signals], host: Host, scope: anyio.CancelScope
    ) -> None:
        async for number in signals:
            self._unheard = 0
            if number == signal.SIGINT and await self._client.stopped(host):
                continue
            self.killed_by = number
            self._leaving_since = time.monotonic()
            scope.cancel()
