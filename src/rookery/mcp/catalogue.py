"""What servers offer: cached across runs, and by what names.

The cache lets the model and the user see a server's tools without a connection. It may be deleted
at any time; approvals are stored elsewhere, in `agreements`.

Names are `mcp--server--tool` for tools and `/mcp:server:prompt` for prompts. Tool names are
shortened to what providers accept. A shortened or ambiguous name ends in a hash, so that every name
refers to exactly one tool.
"""

import hashlib
import re
import shlex
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from rookery.core.limits import KIB, MIB
from rookery.errors import BadArguments
from rookery.first_use import prepared
from rookery.mcp.config import ServerDefinition
from rookery.platform.disk import put

MOST_REMEMBERED = 100
LARGEST_FILE = 4 * MIB


class ToolOffer(msgspec.Struct, frozen=True, dict=True):
    """A tool as its server describes it, with hidden characters made visible."""

    name: str
    description: str = ""
    schema: Mapping[str, Any] = msgspec.field(default_factory=dict)
    as_task: bool = False
    """Whether the server can run it as a task."""

    @cached_property
    def digest(self) -> str:
        scope = (self.name, self.description, self.schema)
        return hashlib.sha256(msgspec.json.encode(scope, order="sorted")).hexdigest()


class PromptArgument(Struct, frozen=True, kw_only=True):
    name: str
    description: str = ""
    required: bool = False


class PromptOffer(Struct, frozen=True, kw_only=True):
    name: str
    description: str = ""
    arguments: tuple[PromptArgument, ...] = ()


class ResourceOffer(Struct, frozen=True, kw_only=True):
    """A resource; the `uri` of a template has placeholders."""

    uri: str
    name: str = ""
    description: str = ""
    template: bool = False


class Catalogue(Struct, frozen=True, kw_only=True):
    tools: tuple[ToolOffer, ...] = ()
    prompts: tuple[PromptOffer, ...] = ()
    resources: tuple[ResourceOffer, ...] = ()
    notes: tuple[str, ...] = ()
    """Why parts of the lists are missing, as sentences."""


class LastConnection(Struct, frozen=True, kw_only=True):
    """The state of a server at the end of its last connection or attempt."""

    catalogue: Catalogue = Catalogue()
    error: str = ""
    ts: int = 0
    """Milliseconds since the epoch."""


class CatalogueCache:
    """The cache file; servers are keyed by the digests of their definitions."""

    def __init__(self, file: Path) -> None:
        self._file = file

    @cached_property
    def _known(self) -> dict[str, LastConnection]:
        return self._read()

    def of(self, server: ServerDefinition) -> LastConnection | None:
        return self._known.get(server.digest)

    def learn(self, server: ServerDefinition, catalogue: Catalogue) -> None:
        self._keep(server, LastConnection(catalogue=catalogue, ts=milliseconds()))

    def failed(self, server: ServerDefinition, error: str) -> None:
        old = self.of(server) or LastConnection()
        self._keep(server, replace(old, error=error, ts=milliseconds()))

    def _read(self) -> dict[str, LastConnection]:
        try:
            with self._file.open("rb") as stream:
                return msgspec.json.decode(
                    stream.read(LARGEST_FILE), type=prepared(dict[str, LastConnection])
                )
        except (OSError, msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
            return {}  # an unreadable cache is empty

    def _keep(self, server: ServerDefinition, news: LastConnection) -> None:
        self._known[server.digest] = news
        everything = {**self._read(), server.digest: news}
        with suppress(OSError):  # it is only a cache
            self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            put(self._file, [msgspec.json.encode(_newest(everything))], durable=False)


def named(tools: Iterable[ToolOffer]) -> dict[str, ToolOffer]:
    return {tool.name: tool for tool in tools}


def _newest(everything: Mapping[str, LastConnection]) -> dict[str, msgspec.Raw]:
    """As many as fit into the file, newest first."""
    kept: dict[str, msgspec.Raw] = {}
    room = LARGEST_FILE - KIB
    latest = sorted(everything.items(), key=lambda item: item[1].ts, reverse=True)
    for digest, remembered in latest[:MOST_REMEMBERED]:
        data = msgspec.json.encode(remembered)
        size = len(data) + len(digest) + 4
        if size <= room:
            room -= size
            kept[digest] = msgspec.Raw(data)
    return kept


def milliseconds() -> int:
    """The time, since the epoch."""
    return time.time_ns() // 1_000_000


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
    # a NUL in the server's name must not look like the separator
    escaped = server.replace("\\", r"\\").replace("\0", r"\0")
    mark = hashlib.sha256(f"{escaped}\0{tool}".encode()).hexdigest()[:_HASH]
    return f"{name[: LONGEST - _HASH - 1]}_{mark}"
