"""One task on a plain terminal, in a pipe or as JSON: shown as it goes, its questions answered."""

import sys
import uuid
from contextlib import suppress
from typing import TYPE_CHECKING

import anyio
from anyio.abc import TaskGroup

from rookery.cli.reports import RunReport, TextReport
from rookery.cli.run_options import Run, note
from rookery.core.commands import Cancel, Speak
from rookery.core.facts import Event
from rookery.core.text.terminal_text import harmless
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
from rookery.protocol.outcomes import (
    RunVerdict,
    Unattended,
    UntilFirstFailure,
    leave_at_failure,
)

if TYPE_CHECKING:
    from rookery.plain.keyboard import Keyboard
    from rookery.protocol.client_commands import Vocabulary

SECONDS_UNTIL_SHOWN = 0.5
"""What was ordered has been done by then, or is not worth waiting for."""


class AttendedTask:
    """A client. It ends when the task does."""

    def __init__(self, run: Run, report: RunReport) -> None:
        self._run = run
        self._report = report
        self._interrupts = Interrupts()
        self._focus = Focus(run.task_id)
        self._keyboard: Keyboard | None = None
        self._news = _News()
        self._verdict = RunVerdict(automatic=run.consent.automatic)

    async def run(self, host: Host) -> RunEnd:
        run = self._run
        assert run.first
        await host.send(run.first)
        if run.trust_note:
            note(run.trust_note)
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
                    self._news,
                ),
                respond=respond,
                after=run.after,
                focus=self._focus,
                until=leave_at_failure if ends_early else never,
            )
            group.cancel_scope.cancel()
        return self._verdict.judged(end) if run.once or not run.person else end

    async def stopped(self, host: Host) -> bool:
        if self._keyboard:
            self._keyboard.forget()
        if not self._run.person or self._interrupts.second():
            return False
        try:
            await host.send(Cancel(task_id=self._run.task_id))
        except CommandRejected:
            return False
        return True

    def ended(self, end: RunEnd) -> None:
        self._report.end(end)

    async def _responder(self, host: Host, group: TaskGroup) -> tuple[Responder, Display]:
        """Who answers questions, and what must see the task for that."""
        run, report = self._run, self._report
        if not run.person:
            unattended = Unattended(
                run.opening,
                automatic=run.consent.automatic,
                seconds=run.patience,
                keeps_mode=bool(run.consent.mode),
            )
            return unattended, unattended
        assert isinstance(report, TextReport)
        from rookery.plain.keyboard import Keyboard
        from rookery.plain.prompter import LineUse, Prompter
        from rookery.protocol.client_commands import SlashLines

        known = await _vocabulary(run, host)
        slash = SlashLines(run.task_id, run.stored, known, automatic=run.consent.automatic)

        async def for_the_client(line: str) -> LineUse:
            if (heard := slash.hear(line)) is None:
                return LineUse.NOT_OURS
            if heard.words:
                report.screen.sentence(harmless(heard.words))
            shown = self._news.coming
            try:
                for command in heard.commands:
                    await host.send(command)
            except CommandRejected as refusal:
                report.screen.line(harmless(str(refusal)))
                return LineUse.DONE
            if heard.goes_back:
                return LineUse.OVERTAKEN
            if heard.commands:
                # or the question would be put before it and once more behind it
                with anyio.move_on_after(SECONDS_UNTIL_SHOWN):
                    await shown.wait()
            return LineUse.DONE

        async def said_unasked(line: str) -> None:
            report.screen.enter()
            if await for_the_client(line) is not LineUse.NOT_OURS:
                return
            words = Speak(task_id=self._focus.task_id, message_id=uuid.uuid4().hex, text=line)
            # refused means that the task has just ended, which the person is about to see
            with suppress(CommandRejected):
                await host.send(words)

        self._keyboard = keyboard = Keyboard(sys.stdin.fileno(), said_unasked)
        group.start_soon(keyboard.run)
        prompter = Prompter(
            keyboard,
            report.screen,
            opening=run.opening,
            heard=for_the_client,
            patience=lambda: run.patience if slash.automatic else None,
            keeps_mode=bool(run.consent.mode),
        )
        return prompter, slash


class _News:
    """A display that shows nothing, but tells whoever waits that something was shown."""

    def __init__(self) -> None:
        self.coming = anyio.Event()

    def show(self, event: Event) -> None:
        self.coming.set()
        self.coming = anyio.Event()

    def show_of_child(self, task_id: str, event: Event) -> None:
        self.show(event)


async def _vocabulary(run: Run, host: Host) -> "Vocabulary":
    from rookery.app.briefing import project_names
    from rookery.core.queries import AskIntents, AskModels
    from rookery.protocol.client_commands import Vocabulary

    known = project_names(run.places, run.workspace, trusted=run.consent.trusted)
    return Vocabulary(
        commands=known.commands,
        modes=known.modes,
        models=[(each.provider, each.model) for each in await host.query(AskModels())],
        intents=[
            (each.id, each.name) for each in await host.query(AskIntents()) if not each.problem
        ],
    )
