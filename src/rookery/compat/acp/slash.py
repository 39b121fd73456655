"""Slash commands of a session that are answered here, not by the model."""

from collections.abc import Iterator, Sequence

from rookery.compat.acp.tool_calls import Wire
from rookery.core.commands import Command, Condense, Rewind
from rookery.core.facts import Event
from rookery.core.queries import (
    AskCommands,
    AskContext,
    AskDifferences,
    AskPermissions,
    FileDifference,
    KnownCommand,
)
from rookery.errors import CommandRejected
from rookery.protocol.client_commands import SlashLines, permissions_text
from rookery.protocol.codec import Host
from rookery.protocol.slash_words import ALIASES
from rookery.protocol.transcript_text import fenced

OWN = (
    KnownCommand(name="undo", description="Undo the last change to files and what followed"),
    KnownCommand(
        name="rewind", description="Go back to an earlier point", argument_hint="number of a point"
    ),
    KnownCommand(name="condense", description="Summarise the conversation to save context"),
    KnownCommand(name="context", description="Show how the context window is used"),
    KnownCommand(name="cost", description="Show tokens and cost"),
    KnownCommand(name="diff", description="Show what this session changed"),
    KnownCommand(
        name="permissions",
        description="Show the level and the rules",
        argument_hint="a level, or remove and the id of a rule",
    ),
)
_NAMES = frozenset(each.name for each in OWN)


class SlashCommands:
    def __init__(self, host: Host, task_id: str, stored: Sequence[Event] = ()) -> None:
        self._host = host
        self._task_id = task_id
        self._lines = SlashLines(task_id, stored)
        self._of_model: tuple[KnownCommand, ...] = ()

    def show(self, event: Event) -> None:
        self._lines.show(event)

    async def listed(self) -> list[Wire]:
        """All commands, for the client. One of the project comes before ours."""
        self._of_model = await self._host.query(AskCommands())
        theirs = {each.name for each in self._of_model}
        known = (*self._of_model, *(each for each in OWN if each.name not in theirs))
        return [_shown(each) for each in known]

    def knows(self, line: str) -> bool:
        """Whether a message is a command that is answered here."""
        name = line.strip().partition(" ")[0]
        bare = name.removeprefix("/")
        if not name.startswith("/") or bare in {each.name for each in self._of_model}:
            return False
        return ALIASES.get(bare, bare) in _NAMES

    async def answer(self, line: str) -> tuple[str, tuple[Command, ...]]:
        """The text for the user, and commands for the host."""
        outcome = self._lines.handle(line)
        if outcome is None:
            return "", ()
        try:
            match outcome.shows:
                case "changes":
                    found = await self._host.query(AskDifferences(task_id=self._task_id))
                    return "\n".join(_changes(found)) or "This session has changed no files.", ()
                case "context" | "rules":
                    from rookery.protocol.context_text import usage_lines

                    known = await self._host.query(AskContext(task_id=self._task_id))
                    return fenced("\n".join(usage_lines(known))), ()
                case "permissions":
                    allowed = await self._host.query(AskPermissions(task_id=self._task_id))
                    return fenced(permissions_text(allowed)), ()
        except CommandRejected as error:
            return str(error), ()
        return fenced(outcome.words) if "\n" in outcome.words else outcome.words, outcome.commands


def asks_again(commands: Sequence[Command]) -> bool:
    """Whether the task asks what to do next once the commands are carried out."""
    return any(isinstance(each, Condense | Rewind) for each in commands)


def _shown(command: KnownCommand) -> Wire:
    hint = {"input": {"hint": command.argument_hint}} if command.argument_hint else {}
    return {"name": command.name, "description": command.description or command.name, **hint}


def _changes(found: Sequence[FileDifference]) -> Iterator[str]:
    for each in found:
        yield f"{each.path} ({each.change})"
        yield fenced(each.diff, "diff") if each.diff else ""
