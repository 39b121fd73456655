"""Resolves what a message refers to: files, folders, commits, slash commands and skills.

Whatever reads the workspace or a web page is an action of its own and goes through the gate. If a
mention cannot be resolved, a note takes its place: a message never fails because of what it
mentions.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias, TypeVar

from msgspec import Struct

from rookery.core.blocks import Image
from rookery.core.facts import Gathered, ModeSwitched, Noted, Seen
from rookery.core.instructions import (
    CommandMention,
    Mention,
    Skill,
    SlashCommand,
    command_text,
    files_of_command,
    find_commands,
    find_mentions,
    quoted,
    server_prompt,
    skill_text,
    with_arguments,
)
from rookery.core.replies import sentence_in
from rookery.engine.ports.actions import Action, Outcome, Permit
from rookery.engine.ports.tool import ToolContext
from rookery.errors import ToolError
from rookery.prompting.mention_contents import FetchPage, MentionAttachments, note, plain_text

MOST_MENTIONS = 50
MOST_COMMANDS = 10
"""Distinct mentions and commands of one message that are resolved."""
LONGEST_NOTE = 300
_PATHS = ("file", "folder", "image")

Found = TypeVar("Found", Mention, CommandMention)
Act: TypeAlias = Callable[[Action], Awaitable[Outcome]]
"""Has the gate judge an action, and performs it."""


class MentionLookup(Struct):
    root: Path
    commands: Callable[[], Sequence[SlashCommand]]
    unreadable: Callable[[], Mapping[str, str]]
    """The names of invalid commands, with the reasons."""
    skills: Callable[[str], Sequence[Skill]]
    """Those of a mode."""
    body: Callable[[Skill], str]
    modes: Callable[[], Sequence[str]]
    """Their slugs."""
    last_output: Callable[[], str]
    """Of the last command."""
    server_prompt: Callable[[str], Action]
    """Makes the action that gets a prompt from an MCP server."""
    fetch_page: FetchPage | None = None
    """Without it, web pages are not attached."""
    problems: Callable[[], Sequence[str]] = tuple
    """Those that language servers report."""

    async def __call__(self, text: str, ctx: ToolContext, act: Act) -> Gathered:
        attachments = MentionAttachments(self.root, ctx, self.fetch_page)
        texts: list[str] = []
        images: list[Image] = []
        seen: list[Seen] = []
        mentions = _unique([*find_mentions(text), *self._files_of_commands(text)])
        for mention in mentions[:MOST_MENTIONS]:
            outcome = await self._resolve(mention, attachments, ctx, act)
            texts.append(outcome.text)
            images += outcome.images
            seen += outcome.seen
        texts += _skip_notice(len(mentions) - MOST_MENTIONS, "things that are mentioned", ctx)
        texts += await self._expand_commands(text, ctx, act)
        if server_prompt(text):
            texts.append(await self._server_text(text, act))
        return Gathered(
            text="\n\n".join(filter(None, texts)), images=tuple(images), seen=tuple(seen)
        )

    def _files_of_commands(self, text: str) -> list[Mention]:
        """Return the files that the texts of the named commands mention."""
        commands = {command.name: command for command in self.commands()}
        named = _unique(find_commands(text, known=commands))[:MOST_COMMANDS]
        return [
            mention
            for each in named
            for mention in files_of_command(
                with_arguments(commands[each.name].content, _arguments(text, each, named))
            )
            if mention.kind not in _PATHS or (self.root / mention.target).exists()
        ]

    async def _resolve(
        self, mention: Mention, attachments: MentionAttachments, ctx: ToolContext, act: Act
    ) -> Outcome:
        try:
            if action := attachments.action_for(mention):
                return await act(action)
        except ToolError as error:
            what = (mention.target or mention.kind)[:LONGEST_NOTE]
            ctx.append(Noted(text=f"{what}: {sentence_in(str(error))[:LONGEST_NOTE]}"))
            return Outcome(text=note(mention, error))
        return Outcome(text=plain_text(mention, self.last_output(), self.problems()))

    async def _expand_commands(self, text: str, ctx: ToolContext, act: Act) -> list[str]:
        """Return the texts of the commands and skills that the message names. The first command
        that wants another mode switches to it, if that is approved."""
        commands = {command.name: command for command in self.commands()}
        skills = {skill.name: skill for skill in self.skills(ctx.mode)}
        unreadable = self.unreadable()
        called = _unique(find_commands(text, known={*commands, *skills, *unreadable}))
        named = called[:MOST_COMMANDS]
        wanted = [commands[each.name] for each in named if each.name in commands]
        texts = await self._switch_mode(wanted, ctx, act)
        for each in named:
            arguments = _arguments(text, each, named)
            if command := commands.get(each.name):
                texts.append(command_text(command, arguments))
            elif skill := skills.get(each.name):
                texts.append(skill_text(skill, self.body(skill), arguments))
            else:
                reason = f"/{each.name} is not available. {unreadable[each.name]}"
                ctx.append(Noted(text=reason))
                texts.append(f"({reason})")
        return [*texts, *_skip_notice(len(called) - MOST_COMMANDS, "commands and skills", ctx)]

    async def _server_text(self, text: str, act: Act) -> str:
        try:
            return quoted("prompt", (await act(self.server_prompt(text.strip()))).text)
        except ToolError as error:
            return f"({error})"

    async def _switch_mode(
        self, commands: Sequence[SlashCommand], ctx: ToolContext, act: Act
    ) -> list[str]:
        wanting = next((each for each in commands if each.mode not in ("", ctx.mode)), None)
        if wanting is None or wanting.mode not in self.modes():
            return []

        async def perform(permit: Permit) -> Outcome:
            ctx.append(ModeSwitched(mode=wanting.mode))
            return Outcome(text="")

        action = Action(
            title=f"Switch to mode {wanting.mode} for /{wanting.name}",
            perform=perform,
            mode=wanting.mode,
            payload={"tool": "switchMode", "mode": wanting.mode, "reason": f"/{wanting.name}"},
        )
        try:
            await act(action)
        except ToolError as error:
            why = sentence_in(str(error))
            return [f"(The user did not want mode {wanting.mode} for /{wanting.name}. {why})"]
        return []


def _unique(found: Sequence[Found]) -> list[Found]:
    """Remove duplicates, keeping the first of each."""
    first: dict[tuple[str, str], Found] = {}
    for each in found:
        key = (
            ("command", each.name) if isinstance(each, CommandMention) else (each.kind, each.target)
        )
        first.setdefault(key, each)
    return list(first.values())


def _skip_notice(count: int, what: str, ctx: ToolContext) -> list[str]:
    if count <= 0:
        return []
    sentence = f"{count} more {what} were not looked up: too many for one message."
    ctx.append(Noted(text=sentence))
    return [f"({sentence})"]


def _arguments(text: str, command: CommandMention, others: Sequence[CommandMention]) -> str:
    """Return the text after a command, up to the next command."""
    until = min((each.start for each in others if each.start > command.start), default=len(text))
    return text[command.end : until].strip()
