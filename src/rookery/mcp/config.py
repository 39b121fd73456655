"""What configuration files say of MCP servers: `{"mcpServers": {name: definition}}`.

One bad definition costs only itself. A project was written by strangers: it may bring servers
of its own and switch off servers or tools of the user's, but neither takes their names nor
allows anything without a question.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from enum import StrEnum
from typing import Annotated, Any, Literal, TypeAlias
from urllib.parse import urlsplit

import msgspec

from rookery.core.values import record, value

SERVERS = "mcpServers"
EVERY_TOOL = "*"
LONGEST_NAME = 64
DEFAULT_TIMEOUT = 60.0

Source: TypeAlias = Literal["user", "project"]
Pairs: TypeAlias = tuple[tuple[str, str], ...]

_VARIABLE = re.compile(r"\$\{(env:[^}]+|workspaceFolder)\}")
_SECRET = re.compile(
    r"KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL|AUTH|(?<![A-Z])PASS(?![A-Z])", re.IGNORECASE
)
_NO_NAME = re.compile(r"\s*\Z|.*[\x00-\x1f\x7f-\x9f\u2028\u2029]", re.DOTALL)


class Transport(StrEnum):
    STDIO = "stdio"
    HTTP = "streamable-http"
    SSE = "sse"


_TRANSPORTS = {**{kind.value: kind for kind in Transport}, "http": Transport.HTTP}


@value
class ServerDefinition:
    """One server as it is configured, with every variable filled in. What may hold a secret is
    not part of how it prints."""

    name: str
    source: Source = "user"
    transport: Transport = Transport.STDIO
    command: str = ""
    args: tuple[str, ...] = field(default=(), repr=False)
    cwd: str = ""
    env: Pairs = field(default=(), repr=False)
    url: str = field(default="", repr=False)
    headers: Pairs = field(default=(), repr=False)
    disabled: bool = False
    timeout: float = DEFAULT_TIMEOUT
    always_allow: frozenset[str] = frozenset()
    disabled_tools: frozenset[str] = frozenset()

    @property
    def digest(self) -> str:
        """Of what is started or called, whatever is allowed there."""
        scope = (self.transport, self.command, self.args, self.cwd, self.env, self.url)
        return hashlib.sha256(msgspec.json.encode((*scope, self.headers))).hexdigest()

    @property
    def shown_place(self) -> str:
        """What is started or called, in words without secrets."""
        if self.transport is Transport.STDIO:
            return " ".join([self.command, *self.args])
        return shown_url(self.url)

    def allows(self, tool: str) -> bool:
        return self.source == "user" and bool(self.always_allow & {tool, EVERY_TOOL})


@record
class Problem:
    """Why a definition does not count, in a sentence."""

    server: str
    text: str


@value
class Parsed:
    """A file's servers, and what is wrong with the others. `tightened` are those it only
    switches off, wholly or in part, without defining them."""

    servers: tuple[ServerDefinition, ...] = ()
    tightened: tuple[ServerDefinition, ...] = ()
    problems: tuple[Problem, ...] = ()


class _Raw(msgspec.Struct, rename="camel"):
    type: str | None = None
    command: str | None = None
    args: list[str] = []
    cwd: str | None = None
    env: dict[str, str] = {}
    url: str | None = None
    headers: dict[str, str] = {}
    disabled: bool = False
    timeout: Annotated[float, msgspec.Meta(ge=1, le=3600)] = DEFAULT_TIMEOUT
    always_allow: list[str] = []
    disabled_tools: list[str] = []


def parse(data: bytes, source: Source, variables: Mapping[str, str]) -> Parsed:
    """What a file says. `variables` are those of `${env:NAME}`, and `workspaceFolder`."""
    try:
        table = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        return Parsed(problems=(Problem("", f"this is no valid JSON ({error})"),))
    servers = table.get(SERVERS, {}) if isinstance(table, dict) else None
    if not isinstance(servers, dict):
        return Parsed(problems=(Problem("", f'it has no object "{SERVERS}"'),))
    good: list[ServerDefinition] = []
    tightened: list[ServerDefinition] = []
    problems: list[Problem] = []
    for name, raw in servers.items():
        try:
            definition = _definition(name, raw, source, variables)
        except ValueError as error:
            problems.append(Problem(name[:LONGEST_NAME], str(error)))
            continue
        (good if definition.command or definition.url else tightened).append(definition)
    return Parsed(servers=tuple(good), tightened=tuple(tightened), problems=tuple(problems))


def merged(user: Parsed, projects: Sequence[Parsed]) -> Parsed:
    """All servers by their names. The user's stand, and the project files only switch off what
    is theirs; among the project's own the first file wins."""
    servers = {server.name: server for server in user.servers}
    problems = [*user.problems, *(problem for each in projects for problem in each.problems)]
    problems += [Problem(each.name, NEITHER) for each in user.tightened]
    mine = frozenset(servers)
    for project in projects:
        for server in (*project.servers, *project.tightened):
            if server.name in mine:
                servers[server.name] = _tightened(servers[server.name], server)
            elif server in project.tightened:
                problems.append(Problem(server.name, NEITHER))
            else:
                servers.setdefault(server.name, server)
        problems += [Problem(each.name, TAKEN) for each in project.servers if each.name in mine]
    return Parsed(servers=tuple(servers.values()), problems=tuple(problems))


NEITHER = "it needs a command, or a url with its type"
TAKEN = "the project's definition is not used, because you have a server of that name"


def _tightened(server: ServerDefinition, by: ServerDefinition) -> ServerDefinition:
    return replace(
        server,
        disabled=server.disabled or by.disabled,
        disabled_tools=server.disabled_tools | by.disabled_tools,
    )


def _definition(
    name: str, raw: Any, source: Source, variables: Mapping[str, str]
) -> ServerDefinition:
    if _NO_NAME.match(name) or len(name) > LONGEST_NAME:
        raise ValueError(f"its name must be one line of at most {LONGEST_NAME} characters")
    try:
        given = msgspec.convert(_filled_in(raw, source, variables), _Raw)
    except msgspec.ValidationError as error:
        raise ValueError(_in_words(error)) from error
    transport = _transport(given)
    if transport is not Transport.STDIO:
        _check_url(given.url or "")
    return ServerDefinition(
        name=name,
        source=source,
        transport=transport,
        command=given.command or "",
        args=tuple(given.args),
        cwd=given.cwd or "",
        env=tuple(sorted(given.env.items())),
        url=given.url or "",
        headers=tuple(sorted(given.headers.items())),
        disabled=given.disabled,
        timeout=given.timeout,
        always_allow=frozenset(given.always_allow),
        disabled_tools=frozenset(given.disabled_tools),
    )


def _transport(given: _Raw) -> Transport:
    kind = _TRANSPORTS.get(given.type or "")
    if given.type is not None and kind is None:
        raise ValueError("its type must be stdio, streamable-http or sse")
    local = given.command is not None or given.args or given.env or given.cwd
    remote = given.url is not None or given.headers
    if local and remote:
        raise ValueError("it has fields of a program and of a url; keep one kind")
    if remote and kind in (None, Transport.STDIO):
        raise ValueError("a url needs a type: streamable-http or sse")
    if (local and not given.command) or (remote and not given.url):
        raise ValueError(NEITHER)
    if local and kind not in (None, Transport.STDIO):
        raise ValueError("a command needs the type stdio, or none")
    if kind and not local and not remote:
        raise ValueError(NEITHER)
    return kind or Transport.STDIO


def _check_url(url: str) -> None:
    try:
        parts = urlsplit(url)
        host = parts.hostname
        _ = parts.port
    except ValueError as error:
        raise ValueError("its url is none") from error
    if parts.scheme not in ("http", "https") or not host:
        raise ValueError("its url must begin with http:// or https:// and name a host")
    if parts.username or parts.password:
        raise ValueError("its url holds a password; put it into headers")


def shown_url(url: str) -> str:
    """A url without what may be secret in it."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname}{f':{parts.port}' if parts.port else ''}{parts.path}"


def _filled_in(value: Any, source: Source, variables: Mapping[str, str]) -> Any:
    """The value with its variables filled in; those that are not known stay as they are. Raises
    `ValueError` if a project wants what looks like a secret of the user's."""

    def meant(found: re.Match[str]) -> str:
        name = found[1].removeprefix("env:")
        if source == "project" and _SECRET.search(name):
            raise ValueError(
                f"a project is not given {name}, which looks like a secret; if the server may "
                "have it, move its definition to your own file"
            )
        return variables.get(name, found[0])

    match value:
        case str():
            return _VARIABLE.sub(meant, value)
        case dict():
            return {key: _filled_in(each, source, variables) for key, each in value.items()}
        case list():
            return [_filled_in(each, source, variables) for each in value]
        case _:
            return value


def _in_words(error: msgspec.ValidationError) -> str:
    what, _, where = str(error).partition(" - at ")
    place = where.strip("`").removeprefix("$").removeprefix(".")
    return f"{place or 'it'}: {what[:1].lower()}{what[1:]}"
