"""Names for what servers offer: `mcp--server--tool` for tools, `/mcp:server:prompt` for prompts.

Names of tools are cut to what providers take. What is cut, or would be the name of another tool
too, ends in a hash of the whole, so that every name stands for exactly one tool and can be looked
up.
"""

import hashlib
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from rookery.errors import BadArguments
from rookery.mcp.catalogue import PromptOffer

PREFIX = "mcp"
BETWEEN = "--"
LONGEST = 64
_HASH = 8
OWN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
"""What a server may be called by whoever adds one: it stays itself wherever it is said."""
OWN_NAME_IN_WORDS = "1 to 64 letters a to z, digits, _ . and -, beginning with a letter or digit"
_BLANKS = re.compile(r"\s+")
_OTHERS = re.compile(r"[^A-Za-z0-9_-]")
_HYPHENS = re.compile(r"-{2,}")


class PromptCommand(Struct, frozen=True):
    """A prompt that can be called; `name` is what is typed after the slash."""

    server: str
    prompt: PromptOffer

    @property
    def name(self) -> str:
        return "_".join(f"{PREFIX}:{self.server}:{self.prompt.name}".split())


def tool_name(server: str, tool: str) -> str:
    """The name of a tool, if no other has the same."""
    whole = BETWEEN.join([PREFIX, sanitised(server), sanitised(tool)])
    return whole if len(whole) <= LONGEST else _marked(whole, server, tool)


def all_names(tools: Iterable[tuple[str, str]]) -> dict[str, tuple[str, str]]:
    """A name for each pair of server and tool; those that would share one are told apart."""
    pairs = list(dict.fromkeys(tools))
    plain = [tool_name(*pair) for pair in pairs]
    alike = [folded(name) for name in plain]
    return {
        name if alike.count(folded(name)) == 1 else _marked(name, *pair): pair
        for name, pair in zip(plain, pairs, strict=True)
    }


def looked_up(name: str, known: Mapping[str, tuple[str, str]]) -> tuple[str, str] | None:
    """The server and the tool that a model means, however it writes hyphens and underscores."""
    if name in known:
        return known[name]
    return next((pair for each, pair in known.items() if folded(each) == folded(name)), None)


def same_name(wanted: str, names: Iterable[str]) -> str | None:
    """The one of `names` that is meant: itself, or what reads the same once both are folded."""
    candidates = list(names)
    if wanted in candidates:
        return wanted
    alike = [name for name in candidates if folded(name) == folded(wanted)]
    return alike[0] if len(alike) == 1 else None


def sanitised(part: str) -> str:
    part = _HYPHENS.sub("-", _OTHERS.sub("", _BLANKS.sub("_", part.strip())))
    if not part:
        return "_unnamed"
    return part if part[0].isalpha() else f"_{part}"


def folded(name: str) -> str:
    """What two names have in common that differ only in hyphens and underscores."""
    return sanitised(name).replace("-", "_").replace("__", "_").strip("_").casefold()


def called(name: str, commands: Sequence[PromptCommand]) -> PromptCommand:
    """The command of that name. Raises `BadArguments` if there is none."""
    names = [command.name for command in commands]
    found = same_name(name.removeprefix("/"), names)
    if found is None:
        there = ", ".join(f"/{each}" for each in names) or "none"
        raise BadArguments(f"No such prompt: /{name.removeprefix('/')}. Known: {there}.")
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


def _marked(name: str, server: str, tool: str) -> str:
    mark = hashlib.sha256(f"{server}\0{tool}".encode()).hexdigest()[:_HASH]
    return f"{name[: LONGEST - _HASH - 1]}_{mark}"
