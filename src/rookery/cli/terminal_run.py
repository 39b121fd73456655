"""The client for one task on a plain terminal, in a pipe or as JSON."""

import sys
from typing import TYPE_CHECKING

import anyio
from anyio.abc import TaskGroup

from rookery.cli.first_run import note
from rookery.cli.reports import RunReport, TextReport
from rookery.cli.run_options import Run
from rookery.core.commands import Cancel
from rookery.core.modes import Level
from rookery.errors import CommandRejected
from rookery.protocol.attend import (
    Display,
    Displays,
    Focus,
    Interrupts,
    Responder,
    RunEnd,
    attend,
    never,
)
from rookery.protocol.codec import Host
from rookery.protocol.outcomes import RunVerdict, Unattended, UntilFirstFailure, leave_at_failure

if TYPE_CHECKING:
    from rookery.plain.keyboard import Keyboard
    from rookery.protocol.client_commands import Vocabulary


class AttendedTask:
    """A client that ends when its task does."""

    def __init__(self, run: Run, report: RunReport) -> None:
        self._run = run
        self._report = report
        self._interrupts = Interrupts()
        self._focus = Focus(run.task_id)
        self._keyboard: Keyboard | None = None
        self._verdict = RunVerdict(
            automatic=run.consent.level is Level.AUTO, planning=run.consent.level is Level.PLAN
        )

    async def run(self, host: Host) -> RunEnd:
        run = self._run
        assert run.first
        await host.send(run.first)
        for sentence in filter(None, run.notes):
            note(sentence)
        self._report.begin()
        async with anyio.create_task_group() as group:
            group.start_soon(self._report.beat)
            respond, watching = await self._responder(host, group)
            ends_early = run.settings.exit_on_error
            display = self._report.display
            end = await attend(
                host,
                run.task_id,
                display=Displays(
                    UntilFirstFailure(display) if ends_early else display,
                    self._interrupts,
                    watching,
                    self._verdict,
                ),
                respond=respond,
                after=run.after,
                focus=self._focus,
                until=leave_at_failure if ends_early else never,
            )
            group.cancel_scope.cancel()
        return self._verdict.judged(end) if run.once or not run.person else end

    async def on_interrupt(self, host: Host) -> bool:
        if self._keyboard:
            self._keyboard.forget()
        if not self._run.person or self._interrupts.second():
            return False
        try:
            await host.send(Cancel(task_id=self._run.task_id))
        except CommandRejected:
            return False
        return True

    def report_end(self, end: RunEnd) -> None:
        self._report.end(end)

    async def _responder(self, host: Host, group: TaskGroup) -> tuple[Responder, Display]:
        """Return who answers questions, and the display it needs to follow the task."""
        run, report = self._run, self._report
        if not run.person:
            unattended = Unattended(
                run.opening,
                automatic=run.consent.level is Level.AUTO,
                seconds=run.patience,
                keeps_mode=bool(run.consent.mode),
            )
            return unattended, unattended
        assert isinstance(report, TextReport)
        from rookery.plain.client_lines import ClientLines
        from rookery.plain.keyboard import Keyboard
        from rookery.plain.prompter import Prompter
        from rookery.protocol.client_commands import SlashLines

        known = await _vocabulary(run, host)
        slash = SlashLines(run.task_id, run.stored, known, level=run.consent.level)
        lines = ClientLines(host, slash, report.screen, self._focus)
        self._keyboard = keyboard = Keyboard(sys.stdin.fileno(), lines.send)
        group.start_soon(keyboard.run)
        prompter = Prompter(
            keyboard,
            report.screen,
            opening=run.opening,
            handle_line=lines.run,
            patience=lambda: run.patience if slash.level is Level.AUTO else None,
            keeps_mode=bool(run.consent.mode),
            level=lambda: slash.level,
        )
        return prompter, lines


async def _vocabulary(run: Run, host: Host) -> "Vocabulary":
    from rookery.app.briefing import project_names
    from rookery.core.queries import AskIntents, AskModels
    from rookery.protocol.client_commands import Vocabulary

    known = project_names(
        run.places,
        run.workspace,
        trusted=run.consent.trusted,
        other_agents=run.settings.context.other_agents,
    )
    return Vocabulary(
        commands=known.commands,
        modes=known.modes,
        models=[(each.provider, each.model) for each in await host.query(AskModels())],
        intents=[
            (each.id, each.name) for each in await host.query(AskIntents()) if not each.problem
        ],
    )
