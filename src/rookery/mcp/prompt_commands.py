"""Prompts of servers as slash commands: `/mcp:server:prompt Oslo units=metric`."""

import shlex
from collections.abc import Sequence

from msgspec import Struct

from rookery.errors import BadArguments
from rookery.mcp.offers import PromptOffer
from rookery.mcp.tool_names import same_name

PREFIX = "mcp"


class PromptCommand(Struct, frozen=True):
    """A prompt that can be called; `name` is what is typed after the slash."""

    server: str
    prompt: PromptOffer

    @property
    def name(self) -> str:
        return "_".join(f"{PREFIX}:{self.server}:{self.prompt.name}".split())


def called(name: str, commands: Sequence[PromptCommand]) -> PromptCommand:
    """The command of that name. Raises `BadArguments` if there is none."""
    names = [command.name for command in commands]
    found = same_name(name.removeprefix("/"), names)
    if found is None:
        there = ", ".join(f"/{each}" for each in names) or "none"
        raise BadArguments(f"There is no prompt /{name.removeprefix('/')}. There are: {there}.")
    return commands[names.index(found)]


def arguments_for(prompt: PromptOffer, words: str) -> dict[str, str]:
    """What a line of words gives to a prompt: `name=value` by name, other words in their order,
    and all that is left over to the last. Raises `BadArguments` for what is missing."""
    try:
        given = shlex.split(words)
    except ValueError:
        given = words.split()
    names = [each.name for each in prompt.arguments]
    by_name = dict(word.split("=", 1) for word in given if word.partition("=")[0] in names)
    loose = [word for word in given if word.partition("=")[0] not in names]
    free = [name for name in names if name not in by_name]
    filled = dict(zip(free, loose, strict=False))
    if free and len(loose) > len(free):
        filled[free[-1]] = " ".join(loose[len(free) - 1 :])
    arguments = {**filled, **by_name}
    required = [each.name for each in prompt.arguments if each.required]
    if missing := [name for name in required if name not in arguments]:
        raise BadArguments(f"The prompt {prompt.name} needs {' and '.join(missing)}.")
    return arguments
