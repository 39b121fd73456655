"""Lines typed at the plain client that are not answers: client commands, and messages."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from enum import Enum

import anyio

from rookery.core.commands import Command, RestoreFiles
from rookery.core.facts import Asked, Event
from rookery.core.queries import (
    AskContext,
    AskDifferences,
    AskPermissions,
    AskRehearsal,
    RestoreRehearsal,
)
from rookery.core.text.terminal_text import folded_diff, harmless, visible_line
from rookery.errors import CommandRejected
from rookery.plain.screen import Screen
from rookery.protocol.attend import Focus, new_message
from rookery.protocol.client_commands import SlashLines, permissions_text
from rookery.protocol.codec import Host
from rookery.protocol.rewind_text import extent_of, rehearsal_lines

Read = Callable[[str], Awaitable[str | None]]
YES = frozenset(("y", "yes"))
NOT_REWOUND = "Nothing was rewound."
EFFECT_TIMEOUT = 0.5
"""How long to wait for the effect of a command before the question is shown again."""


class LineUse(Enum):
    """What became of a line that may be a client command."""

    NOT_OURS = "it is an answer"
    DONE = "the question is still open"
    OVERTAKEN = "its effect will close the question"
    LEAVES = "the user leaves"


class ClientLines:
    """Handles lines that are not answers: client commands, and messages to the task. As a display
    it follows the task."""

    def __init__(self, host: Host, slash: SlashLines, screen: Screen, focus: Focus) -> None:
        self._host = host
        self._slash = slash
        self._screen = screen
        self._focus = focus
        self._next_event = anyio.Event()
        self._proposed: Sequence[Command] = ()
        """A rewind that the user has not confirmed yet. A new question withdraws it, because the
        next line would answer that."""

    def show(self, event: Event, child: str = "") -> None:
        self._slash.show(event, child)
        if isinstance(event.fact, Asked):
            self._proposed = ()
        self._next_event.set()
        self._next_event = anyio.Event()

    async def run(self, line: str, read: Read | None = None) -> LineUse:
        """Run a client command. `read` asks the user for a line."""
        if (outcome := self._slash.handle(line)) is None:
            return LineUse.NOT_OURS
        if outcome.leaves:
            return LineUse.LEAVES
        if outcome.words:
            self._screen.sentence(harmless(outcome.words))
        if outcome.shows:
            await self._show(outcome.shows)
        if extent_of(outcome.commands):
            return await self._rewind(outcome.commands, read)
        shown = self._next_event
        if await self._sent(outcome.commands) and outcome.commands:
            # or the question would be shown before the command's effect and again after it
            with anyio.move_on_after(EFFECT_TIMEOUT):
                await shown.wait()
        return LineUse.DONE

    async def _sent(self, commands: Sequence[Command]) -> bool:
        try:
            for command in commands:
                await self._host.send(command)
        except CommandRejected as refusal:
            self._screen.line(harmless(str(refusal)))
            return False
        return True

    async def _rewind(self, commands: Sequence[Command], read: Read | None) -> LineUse:
        """Show what would be undone, and ask. Without `read`, the next line is the answer."""
        possible = await self._show_rehearsal(commands)
        if not (extent := extent_of(possible)):
            return LineUse.DONE
        if read is None:
            self._proposed = possible
            self._screen.line(f"{extent.question} Type y to confirm.")
            return LineUse.DONE
        if not _is_yes(await read(f"{extent.question} [y/N] ")):
            self._screen.line(NOT_REWOUND)
            return LineUse.DONE
        return LineUse.OVERTAKEN if await self._sent(possible) else LineUse.DONE

    async def _show_rehearsal(self, commands: Sequence[Command]) -> Sequence[Command]:
        """Print what would be undone. Returns the commands that can be carried out."""
        restore, *rest = commands
        assert isinstance(restore, RestoreFiles)
        rehearsal = await self._rehearsal(restore)
        if rehearsal.problem:
            problem = f"The files cannot be restored. {rehearsal.problem}"
            self._screen.sentence(harmless(problem), self._screen.paint.red)
            commands = rest
        if extent := extent_of(commands):
            if what := self._slash.step_at(restore.to):
                self._screen.line(f"To the point before: {visible_line(what)}")
            for row in rehearsal_lines(extent, rehearsal):
                self._screen.line(row)
        return commands

    async def _rehearsal(self, restore: RestoreFiles) -> RestoreRehearsal:
        try:
            return await self._host.query(AskRehearsal(task_id=restore.task_id, to=restore.to))
        except CommandRejected as refusal:
            return RestoreRehearsal(problem=str(refusal))

    async def _show(self, what: str) -> None:
        """Fetch and print changes, context, rules or permissions."""
        from rookery.protocol.context_text import rules_lines, usage_lines

        screen, host, task_id = self._screen, self._host, self._focus.task_id
        try:
            match what:
                case "changes":
                    found = await host.query(AskDifferences(task_id=task_id))
                    if not found:
                        screen.line("This session has changed no files.")
                    for each in found:
                        screen.line(screen.paint.bold(f"{visible_line(each.path)} ({each.change})"))
                        screen.line(screen.paint.diff(folded_diff(each.diff)))
                case "permissions":
                    allowed = await host.query(AskPermissions(task_id=task_id))
                    screen.sentence(permissions_text(allowed))
                case _:
                    known = await host.query(AskContext(task_id=task_id))
                    lines = rules_lines(known) if what == "rules" else usage_lines(known)
                    screen.line("\n".join(lines))
        except CommandRejected as refusal:
            screen.line(harmless(str(refusal)))

    async def send(self, line: str) -> None:
        """Send a line that was typed while no question was open."""
        self._screen.enter()
        proposed, self._proposed = self._proposed, ()
        if proposed and _is_yes(line):
            await self._sent(proposed)
            return
        use = await self.run(line)
        if use is LineUse.LEAVES:
            self._screen.line("Still working. Press Ctrl-C to stop, then /quit to exit.")
        if use is not LineUse.NOT_OURS:
            return
        with suppress(CommandRejected):  # the task has just ended
            await self._host.send(new_message(self._focus.task_id, line))


def _is_yes(line: str | None) -> bool:
    return (line or "").strip().lower() in YES
