"""One run of one task, from checked flags to an exit code."""

import os
import signal
import sys
import uuid
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path

import anyio

from rookery import NAME
from rookery.app import ModelChoice, open_host
from rookery.cli.model_choice import choose_model
from rookery.cli.reports import Report, TextReport, open_report
from rookery.cli.wishes import Wishes, whole
from rookery.clients.attendant import Fate, Responder, RunEnd, attend
from rookery.clients.displays import Displays
from rookery.clients.interrupts import Interrupts
from rookery.clients.keyboard import Keyboard
from rookery.clients.prompter import Prompter
from rookery.clients.unattended import Unattended
from rookery.core.commands import Cancel, OpenTask, ReopenTask, Speak
from rookery.core.facts import Event, TaskOpened
from rookery.core.values import value
from rookery.errors import CommandRejected, SettingsError, StorageError
from rookery.settings import Settings
from rookery.storage.places import Places, find_places, temporary_places
from rookery.storage.settings_files import find_settings
from rookery.storage.tasks import TaskStore
from rookery.wire.host import Host

TIMED_OUT = 124
KILLED_BY = 128
IN_VAIN = 3


@value
class Run:
    """Everything one run needs, found out before anything is started."""

    settings: Settings
    choice: ModelChoice
    store: TaskStore
    workspace: Path
    first: OpenTask | ReopenTask
    stored: Sequence[Event] = ()
    """What a resumed task already has on record; old news."""
    opening: str = ""
    """What a resumed task is told first."""
    person: bool = False
    """Somebody sits at the terminal."""
    timeout: float | None = None
    automatic: bool = False
    """Actions are allowed without a question."""
    to_repeat: Sequence[str] = ()
    """The flags that a later run needs again."""

    @property
    def after(self) -> int:
        return self.stored[-1].seq if self.stored else 0


def run_session(wishes: Wishes) -> int:
    wishes.check()
    usual = find_places(os.environ)
    with _places(wishes, usual) as places:
        store = TaskStore(places)
        store.sweep()
        run = _prepare(wishes, usual, store)
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


def _prepare(wishes: Wishes, usual: Places, store: TaskStore) -> Run:
    settings = _settings(wishes, usual)
    choice = choose_model(settings, os.environ, usual.keys_file, wishes.api_key)
    first, opening = _first_command(wishes, settings, store)
    stored = store.read(first.task_id) if isinstance(first, ReopenTask) else ()
    return Run(
        settings=settings,
        choice=choice,
        store=store,
        workspace=wishes.workspace,
        first=first,
        stored=list(stored),
        opening=opening,
        person=wishes.interactive,
        timeout=wishes.timeout,
        automatic=settings.acts_unasked(person=not wishes.once),
        to_repeat=wishes.to_repeat(),
    )


def _settings(wishes: Wishes, places: Places) -> Settings:
    flags = {
        "provider": wishes.provider,
        "model": wishes.model,
        "base_url": wishes.base_url,
        "mode": wishes.mode,
        "approval": wishes.approval,
    }
    found = find_settings(places.settings_file, wishes.workspace, os.environ, flags)
    for sentence in found.refused:
        print(f"note: {sentence}", file=sys.stderr)
    return found.settings


def _first_command(
    wishes: Wishes, settings: Settings, store: TaskStore
) -> tuple[OpenTask | ReopenTask, str]:
    """How the run begins: with a new task, or with a stored one and perhaps words for it."""
    prompt = wishes.prompt()
    if wishes.resumes:
        task_id = wishes.session_id.lower() if wishes.session_id else _latest(wishes, store)
        if not store.exists(task_id):
            raise SettingsError(f"There is no session {task_id}. See {NAME} list.")
        _insist_on_workspace(store, task_id, wishes.workspace)
        return ReopenTask(task_id=task_id), prompt
    if not prompt.strip() and wishes.interactive:
        prompt = whole(input("What should be done? "))
    if not prompt.strip():
        raise SettingsError("Say what to work on, as an argument or on standard input.")
    task_id = (wishes.create_with_session_id or str(uuid.uuid4())).lower()
    if store.exists(task_id):
        raise SettingsError(f"Session {task_id} exists already. Go on with --session-id {task_id}.")
    return OpenTask(task_id=task_id, text=prompt, mode=settings.mode), ""


def _insist_on_workspace(store: TaskStore, task_id: str, workspace: Path) -> None:
    """A task must not go on in other files than it began in, unless those have moved away."""
    opened = next((event.fact for event in store.read(task_id)), None)
    home = opened.workspace if isinstance(opened, TaskOpened) else ""
    if home and home != str(workspace) and Path(home).is_dir():
        raise SettingsError(f"Session {task_id} is about {home}. Go on there, or with -w {home}.")


def _latest(wishes: Wishes, store: TaskStore) -> str:
    sessions = store.list(str(wishes.workspace))
    if not sessions:
        raise SettingsError(f"There is no session to go on with in {wishes.workspace}.")
    return sessions[0].id


async def _attended(run: Run, report: Report) -> tuple[RunEnd, int]:
    """Run the task until it ends, a signal comes or the time is up; the end and an exit code."""
    leaving = _Leaving(run)
    heeded = _signals_heeded()
    end = RunEnd(Fate.LEFT, code="task_aborted")
    with (
        anyio.open_signal_receiver(*heeded) as signals,
        anyio.move_on_after(run.timeout) as time_limit,
    ):
        leaving.insist(heeded)
        async with open_host(
            run.settings, run.choice, run.store, run.workspace, automatic=run.automatic
        ) as host:
            await host.send(run.first)
            report.begin()
            try:
                async with anyio.create_task_group() as group:
                    group.start_soon(leaving.watch, signals, host, group.cancel_scope)
                    end = await attend(
                        host,
                        run.first.task_id,
                        display=Displays(report.display, leaving.interrupts),
                        respond=_responder(run, report, host, group),
                        after=run.after,
                    )
                    group.cancel_scope.cancel()
            except* StorageError as errors:
                end = RunEnd(Fate.FAILED, str(_first_in(errors)), "storage_failed")
    if time_limit.cancelled_caught:
        return RunEnd(Fate.LEFT, "The time given with --timeout is up.", "timeout"), TIMED_OUT
    return end, leaving.code or int(end.fate is not Fate.COMPLETED)


def _responder(run: Run, report: Report, host: Host, group: anyio.abc.TaskGroup) -> Responder:
    if not run.person:
        return Unattended(run.opening)
    assert isinstance(report, TextReport)

    async def said_unasked(line: str) -> None:
        report.screen.enter()
        # refused means that the task has just ended, which the person is about to see
        with suppress(CommandRejected):
            await host.send(
                Speak(task_id=run.first.task_id, message_id=uuid.uuid4().hex, text=line)
            )

    keyboard = Keyboard(sys.stdin.fileno(), said_unasked)
    group.start_soon(keyboard.run)
    return Prompter(keyboard, report.screen, opening=run.opening)


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
