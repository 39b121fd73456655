"""Names for what servers offer: `mcp--server--tool` for tools, `/mcp:server:prompt` for prompts.

Tool names are shortened to what providers accept. A shortened or ambiguous name ends in a hash, so
that every name refers to exactly one tool.
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
VALID_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
"""Names that `mcp add` accepts: they are never changed by `sanitised`."""
VALID_NAME_TEXT = "1 to 64 letters a to z, digits, _ . and -, beginning with a letter or digit"
_BLANKS = re.compile(r"\s+")
_OTHERS = re.compile(r"[^A-Za-z0-9_-]")
_HYPHENS = re.compile(r"-{2,}")


class PromptCommand(Struct, frozen=True):
    """A prompt as a slash command; `name` is what is typed after the slash."""

    server: str
    prompt: PromptOffer

    @property
    def name(self) -> str:
        return "_".join(f"{PREFIX}:{self.server}:{self.prompt.name}".split())


def tool_name(server: str, tool: str) -> str:
    """The tool's name, if no other tool has the same."""
    whole = BETWEEN.join([PREFIX, sanitised(server), sanitised(tool)])
    return whole if len(whole) <= LONGEST else _with_hash(whole, server, tool)


def all_names(tools: Iterable[tuple[str, str]]) -> dict[str, tuple[str, str]]:
    """Map unique names to pairs of server and tool."""
    pairs = list(dict.fromkeys(tools))
    plain = [tool_name(*pair) for pair in pairs]
    alike = [folded(name) for name in plain]
    return {
        name if alike.count(folded(name)) == 1 else _with_hash(name, *pair): pair
        for name, pair in zip(plain, pairs, strict=True)
    }


def find_tool(name: str, known: Mapping[str, tuple[str, str]]) -> tuple[str, str] | None:
    """The server and the tool for a name, ignoring differences of hyphens and underscores."""
    if name in known:
        return known[name]
    return next((pair for each, pair in known.items() if folded(each) == folded(name)), None)


def same_name(wanted: str, names: Iterable[str]) -> str | None:
    """The exact match in `names`, or the only one that is equal after folding."""
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
    """The name for comparisons: case, hyphens and underscores do not matter."""
    return sanitised(name).replace("-", "_").replace("__", "_").strip("_").casefold()


def find_command(name: str, commands: Sequence[PromptCommand]) -> PromptCommand:
    """The command with that name. Raises `BadArguments` if there is none."""
    names = [command.name for command in commands]
    found = same_name(name.removeprefix("/"), names)
    if found is None:
        there = ", ".join(f"/{each}" for each in names) or "none"
        raise BadArguments(f"No such prompt: /{name.removeprefix('/')}. Known: {there}.")
    return commands[names.index(found)]


def arguments_for(prompt: PromptOffer, words: str) -> dict[str, str]:
    """Parse the arguments of a prompt: `name=value` by name, other words in order, and the rest
    to the last one. Raises `BadArguments` if a required one is missing."""
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


def _with_hash(name: str, server: str, tool: str) -> str:
    mark = hashlib.sha256(f"{server}\0{tool}".encode()).hexdigest()[:_HASH]
    return f"{name[: LONGEST - _HASH - 1]}_{mark}"
