"""One run of one task, from checked flags to an exit code."""

import os
import signal
import sys
import uuid
from collections.abc import AsyncIterator, Iterable
from contextlib import AbstractContextManager, nullcontext, suppress

import anyio

from rookery.app import open_host, vocabulary
from rookery.cli.reports import Report, TextReport, open_report
from rookery.cli.runs import Run, prepare
from rookery.cli.wishes import Wishes
from rookery.clients.attendant import Fate, Focus, Responder, RunEnd, attend
from rookery.clients.displays import Displays
from rookery.clients.interrupts import Interrupts
from rookery.clients.keyboard import Keyboard
from rookery.clients.prompter import Heard, Prompter
from rookery.clients.slash_lines import SlashLines, Vocabulary
from rookery.clients.terminal_text import harmless
from rookery.clients.unattended import Unattended
from rookery.core.commands import Cancel, Speak
from rookery.errors import CommandRejected, StorageError
from rookery.storage.places import Places, find_places, temporary_places
from rookery.storage.tasks import TaskStore
from rookery.wire.host import Host

TIMED_OUT = 124
KILLED_BY = 128
IN_VAIN = 3


def run_session(wishes: Wishes) -> int:
    wishes.check()
    usual = find_places(os.environ)
    with _places(wishes, usual) as places:
        store = TaskStore(places)
        store.sweep()
        run = prepare(wishes, places, store)
        with open_report(run, wishes, places) as report:
            return carry_out(run, report)


def carry_out(run: Run, report: Report) -> int:
    try:
        end, code = anyio.run(_attended, run, report)
    except BaseExceptionGroup as group:
        raise _first_in(group) from group
    report.end(end)
    return code


def _first_in(error: BaseException) -> BaseException:
    """Task groups wrap what went wrong in them; the reader wants to know what it was."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _places(wishes: Wishes, usual: Places) -> AbstractContextManager[Places]:
    return temporary_places(usual) if wishes.ephemeral else nullcontext(usual)


async def _attended(run: Run, report: Report) -> tuple[RunEnd, int]:
    """Run the task until it ends, a signal comes or the time is up; the end and an exit code."""
    leaving = _Leaving(run)
    slash = SlashLines(run.first.task_id, run.stored, _vocabulary(run))
    focus = Focus(run.first.task_id)
    heeded = _signals_heeded()
    end = RunEnd(Fate.LEFT, code="task_aborted")
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
            await host.send(run.first)
            report.begin()
            try:
                async with anyio.create_task_group() as group:
                    group.start_soon(leaving.watch, signals, host, group.cancel_scope)
                    group.start_soon(report.beat)
                    end = await attend(
                        host,
                        run.first.task_id,
                        display=Displays(report.display, leaving.interrupts, slash),
                        respond=_responder(run, report, slash, host, group, focus),
                        after=run.after,
                        focus=focus,
                    )
                    group.cancel_scope.cancel()
            except* StorageError as errors:
                end = RunEnd(Fate.FAILED, str(_first_in(errors)), "storage_failed")
    if time_limit.cancelled_caught:
        return RunEnd(Fate.LEFT, "The time given with --timeout is up.", "timeout"), TIMED_OUT
    return end, leaving.code or int(end.fate is not Fate.COMPLETED)


def _vocabulary(run: Run) -> Vocabulary:
    if not run.person:
        return Vocabulary()
    known = vocabulary(run.places, run.workspace, trusted=run.consent.trusted)
    return Vocabulary(commands=known.commands, modes=known.modes)


def _responder(
    run: Run,
    report: Report,
    slash: SlashLines,
    host: Host,
    group: anyio.abc.TaskGroup,
    focus: Focus,
) -> Responder:
    if not run.person:
        return Unattended(run.opening)
    assert isinstance(report, TextReport)

    async def for_the_client(line: str) -> Heard:
        if (heard := slash.hear(line)) is None:
            return Heard.NOT_OURS
        if heard.words:
            report.screen.line(harmless(heard.words))
        try:
            for command in heard.commands:
                await host.send(command)
        except CommandRejected as refusal:
            report.screen.line(harmless(str(refusal)))
            return Heard.DONE
        return Heard.OVERTAKEN if heard.goes_back else Heard.DONE

    async def said_unasked(line: str) -> None:
        report.screen.enter()
        if await for_the_client(line) is not Heard.NOT_OURS:
            return
        # refused means that the task has just ended, which the person is about to see
        with suppress(CommandRejected):
            await host.send(Speak(task_id=focus.task_id, message_id=uuid.uuid4().hex, text=line))

    keyboard = Keyboard(sys.stdin.fileno(), said_unasked)
    group.start_soon(keyboard.run)
    return Prompter(keyboard, report.screen, opening=run.opening, heard=for_the_client)


def _signals_heeded() -> list[signal.Signals]:
    """What ends a run, except what whoever started it wants ignored, as `nohup` does."""
    ending = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    return [number for number in ending if signal.getsignal(number) is not signal.SIG_IGN]


class _Leaving:
    """Turns signals into a stop of the task or an end of the run."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self.interrupts = Interrupts()
        self.code = 0
        self._unheard = 0

    def insist(self, signals: Iterable[signal.Signals]) -> None:
        """A loop that does not turn hears no signal; the third in vain ends the process. What
        was on record is on disk, and commands end when their parent does."""
        for number in signals:
            signal.signal(number, self._count)

    def _count(self, number: int, _: object) -> None:
        self._unheard += 1
        if self._unheard >= IN_VAIN:
            os._exit(KILLED_BY + number)

    async def watch(
        self, signals: AsyncIterator[signal.Signals], host: Host, scope: anyio.CancelScope
    ) -> None:
        async for number in signals:
            self._unheard = 0
            asks_to_stop = number == signal.SIGINT and self._run.person
            if asks_to_stop and not self.interrupts.second() and await self._stopped(host):
                continue
            self.code = KILLED_BY + number
            scope.cancel()

    async def _stopped(self, host: Host) -> bool:
        try:
            await host.send(Cancel(task_id=self._run.first.task_id))
        except CommandRejected:
            return False
        return True
