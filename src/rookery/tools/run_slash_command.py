"""Read a command that the user or the project has written down, and go by it."""

from collections.abc import Callable, Sequence
from typing import Annotated, ClassVar

import msgspec

from rookery.core.facts import ModeSwitched
from rookery.core.instructions import SlashCommand, command_text
from rookery.engine.ports import Action, Outcome, Permit, ToolContext, ToolGroup
from rookery.errors import BadArguments


class RunSlashCommandArgs(msgspec.Struct, forbid_unknown_fields=True):
    command: Annotated[str, msgspec.Meta(description="Its name, without the slash.")]
    args: Annotated[str | None, msgspec.Meta(description="What it is to be applied to.")] = None


class RunSlashCommand:
    """A command may want another mode. The action says so, for that is a matter of rights;
    `modes` are the slugs of those there are."""

    name: ClassVar[str] = "run_slash_command"
    description: ClassVar[str] = "Get the instructions of one of the user's slash commands."
    arguments: ClassVar[type[msgspec.Struct]] = RunSlashCommandArgs
    group: ClassVar[ToolGroup] = ToolGroup.ALWAYS

    def __init__(
        self,
        commands: Callable[[], Sequence[SlashCommand]],
        modes: Callable[[], Sequence[str]],
    ) -> None:
        self._commands = commands
        self._modes = modes

    async def prepare(self, args: RunSlashCommandArgs, ctx: ToolContext) -> Action:
        command = self._wanted(args.command.removeprefix("/"))
        arguments = (args.args or "").strip()
        switches = command.mode not in ("", ctx.mode) and command.mode in self._modes()

        async def perform(permit: Permit) -> Outcome:
            if switches:
                ctx.append(ModeSwitched(mode=command.mode))
            return Outcome(text=command_text(command, arguments))

        facts = {
            "args": arguments,
            "description": command.description,
            "mode": command.mode if switches else "",
        }
        return Action(
            title=f"Run /{command.name}" + (f" in mode {command.mode}" if switches else ""),
            perform=perform,
            payload={
                "tool": "runSlashCommand",
                "command": command.name,
                "source": command.origin,
                **{name: fact for name, fact in facts.items() if fact},
            },
        )

    def _wanted(self, name: str) -> SlashCommand:
        commands = {command.name: command for command in self._commands()}
        if name not in commands:
            known = ", ".join(commands) or "none"
            raise BadArguments(f"There is no command {name[:100]!r}. There are: {known}.")
        return commands[name]
