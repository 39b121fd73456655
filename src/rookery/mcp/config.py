"""Parse the configuration of MCP servers: `{"mcpServers": {name: definition}}`.

An invalid definition does not affect the others. A project is not trusted with the user's servers:
it may add its own and disable servers or tools of the user, but it can neither redefine them nor
allow anything without asking.
"""

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any, Literal, TypeAlias
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from rookery.core.commands import misspelled_field
from rookery.first_use import prepared
from rookery.mcp.variables import (
    Filler,
    Source,
    is_secret_name,
    masked,
    parts_of,
    secrets_in,
    secrets_within,
)

SERVERS = "mcpServers"
EVERY_TOOL = "*"
LONGEST_NAME = 64
DEFAULT_TIMEOUT = 60.0
HERE = {".", "./"}
"""Arguments that may be meant to refer to the workspace."""

Pairs: TypeAlias = tuple[tuple[str, str], ...]
Sampling: TypeAlias = Literal["ask", "always", "off"]

_SHOWN_OF_URL = re.compile(r"([A-Za-z][\w+.-]*://)(?:[^/?#@]*@)?([^?#]*)")
_INVALID_NAME = re.compile(r"\s*\Z|.*[\x00-\x1f\x7f-\x9f\u2028\u2029]", re.DOTALL)


class Transport(StrEnum):
    STDIO = "stdio"
    HTTP = "streamable-http"
    SSE = "sse"


_TRANSPORTS = {**{kind.value: kind for kind in Transport}, "http": Transport.HTTP}


class OAuthOptions(Struct, frozen=True, kw_only=True, rename="camel"):
    """How to sign in, where the server's own metadata does not suffice."""

    client_id: str = ""
    client_secret: str = ""
    callback_port: Annotated[int, msgspec.Meta(ge=0, le=65535)] = 0
    scope: str = ""

    def __repr__(self) -> str:
        return f"OAuthOptions({self.client_id!r})"


class ServerDefinition(Struct, frozen=True, kw_only=True):
    """One configured server, with variables filled in. Fields that may hold secrets are not in
    its repr."""

    name: str
    source: Source = "user"
    transport: Transport = Transport.STDIO
    command: str = ""
    args: tuple[str, ...] = ()
    cwd: str = ""
    env: Pairs = ()
    url: str = ""
    headers: Pairs = ()
    oauth: OAuthOptions = OAuthOptions()
    disabled: bool = False
    timeout: float = DEFAULT_TIMEOUT
    sampling: Sampling = "ask"
    always_allow: frozenset[str] = frozenset()
    disabled_tools: frozenset[str] = frozenset()
    place: str = ""
    """The command line or URL as written in the file, with secrets masked."""
    secrets: tuple[str, ...] = ()
    """Values that must not appear in output or logs."""
    file: str = ""
    """The file that defines it."""

    def __repr__(self) -> str:
        shown = (self.name, self.source, self.transport.value, self.command)
        return f"ServerDefinition({', '.join(map(repr, shown))})"

    @property
    def digest(self) -> str:
        """Identifies the program or URL, and its source; permissions are not included."""
        scope = (self.source, self.transport, self.command, self.args, self.cwd, self.env, self.url)
        return hashlib.sha256(msgspec.json.encode((*scope, self.headers))).hexdigest()

    @property
    def signs_in(self) -> bool:
        """Whether it can use OAuth: it has a url, and no header of its own for that."""
        own = any(name.lower() == "authorization" for name, _ in self.headers)
        return self.transport is not Transport.STDIO and not own

    @property
    def samples_freely(self) -> bool:
        """Whether it may use the model without asking; only the user's own file can allow it."""
        return self.source == "user" and self.sampling == "always"

    def allows(self, tool: str) -> bool:
        return self.source == "user" and bool(self.always_allow & {tool, EVERY_TOOL})


class ServerProblem(Struct, frozen=True):
    """Why a definition is not used, as a sentence."""

    server: str
    text: str


class Parsed(Struct, frozen=True, kw_only=True):
    """The servers of a file, and the problems of the others. `tightened` are servers that it
    disables, wholly or in part, but does not define. `doubts` are sentences about servers that
    are used, but perhaps not as intended."""

    servers: tuple[ServerDefinition, ...] = ()
    tightened: tuple[ServerDefinition, ...] = ()
    problems: tuple[ServerProblem, ...] = ()
    doubts: tuple[str, ...] = ()

    @property
    def unreadable(self) -> bool:
        """Whether the whole file could not be parsed."""
        return any(not problem.server for problem in self.problems)


class _Raw(msgspec.Struct, rename="camel"):
    type: str | None = None
    command: str | None = None
    args: list[str] = []
    cwd: str | None = None
    env: dict[str, str] = {}
    url: str | None = None
    headers: dict[str, str] = {}
    oauth: OAuthOptions | bool | None = None
    disabled: bool = False
    timeout: Annotated[float, msgspec.Meta(ge=1, le=3600)] = DEFAULT_TIMEOUT
    sampling: Sampling = "ask"
    always_allow: list[str] = []
    disabled_tools: list[str] = []


def parse(data: bytes, source: Source, variables: Mapping[str, str]) -> Parsed:
    """Parse a file. `variables` are the environment and `workspaceFolder`."""
    try:
        table = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        return Parsed(problems=(ServerProblem("", f"this is not valid JSON ({error})"),))
    servers = table.get(SERVERS, {}) if isinstance(table, dict) else None
    if not isinstance(servers, dict):
        return Parsed(problems=(ServerProblem("", f'it has no object "{SERVERS}"'),))
    if SERVERS not in table and (clause := misspelled_field(table, [SERVERS])):
        return Parsed(problems=(ServerProblem("", f"it {clause}"),))
    good: list[ServerDefinition] = []
    tightened: list[ServerDefinition] = []
    problems: list[ServerProblem] = []
    doubts: list[str] = []
    for name, raw in servers.items():
        filler = Filler(source, variables)
        try:
            definition = _definition(name, raw, source, filler)
        except ValueError as error:
            problems.append(ServerProblem(name[:LONGEST_NAME], str(error)))
            continue
        doubts += _doubts(definition, filler)
        (good if definition.command or definition.url else tightened).append(definition)
    return Parsed(
        servers=tuple(good),
        tightened=tuple(tightened),
        problems=tuple(problems),
        doubts=tuple(doubts),
    )


def with_given(user: Parsed, given: Parsed) -> Parsed:
    """The user's servers and those that a client gave. A name in the user's file comes first."""
    mine = {*(each.name for each in user.servers), *(each.server for each in user.problems)}
    taken = [each.name for each in given.servers if each.name in mine]
    problems = (*given.problems, *(ServerProblem(name, TAKEN_BY_USER) for name in taken))
    return replace(
        user,
        servers=(*user.servers, *(each for each in given.servers if each.name not in mine)),
        problems=(*user.problems, *problems),
    )


def merged(user: Parsed, projects: Sequence[Parsed]) -> Parsed:
    """All servers by name. The user's definitions win, and project files can only disable parts
    of them; among project files the first wins. A name stays the user's even if its definition
    is invalid. If the user's file cannot be read, no server of the project is used."""
    servers = {server.name: server for server in user.servers}
    problems = [*user.problems, *(ServerProblem(each.name, NEITHER) for each in user.tightened)]
    if user.unreadable:
        waiting = any(project.servers for project in projects)
        unknown = [ServerProblem("", UNKNOWN)] if waiting else []
        return Parsed(servers=user.servers, problems=(*problems, *unknown), doubts=user.doubts)
    mine = {*servers, *(problem.server for problem in problems)}
    problems += [problem for each in projects for problem in each.problems]
    for project in projects:
        for server in (*project.servers, *project.tightened):
            if server.name not in mine and server in project.tightened:
                problems.append(ServerProblem(server.name, NEITHER))
            elif server.name not in mine:
                servers.setdefault(server.name, server)
            elif server.name in servers:
                servers[server.name] = _tightened(servers[server.name], server)
        problems += [
            ServerProblem(each.name, TAKEN) for each in project.servers if each.name in mine
        ]
    doubts = [doubt for each in (user, *projects) for doubt in each.doubts]
    return Parsed(servers=tuple(servers.values()), problems=tuple(problems), doubts=tuple(doubts))


NEITHER = "it needs a command, or a url with its type"
TAKEN = "the project's definition is not used, because you have a server with that name"
TAKEN_BY_USER = "the editor's definition is not used, because you have a server with that name"
UNKNOWN = "servers of the project are not used until your own file can be read"


def _tightened(server: ServerDefinition, by: ServerDefinition) -> ServerDefinition:
    return replace(
        server,
        disabled=server.disabled or by.disabled,
        disabled_tools=server.disabled_tools | by.disabled_tools,
    )


def _definition(name: str, raw: Any, source: Source, filler: Filler) -> ServerDefinition:
    if _INVALID_NAME.match(name) or len(name) > LONGEST_NAME:
        raise ValueError(f"its name must be one line of at most {LONGEST_NAME} characters")
    fields = raw if isinstance(raw, dict) else {}
    if clause := misspelled_field(fields, _Raw.__struct_encode_fields__):
        raise ValueError(f"it {clause}")
    try:
        given = msgspec.convert(filler(raw), prepared(_Raw))
        written = msgspec.convert(raw, prepared(_Raw))
    except msgspec.ValidationError as error:
        raise ValueError(_error_text(error)) from error
    transport = _transport(given)
    if transport is not Transport.STDIO:
        _check_url(given.url or "")
    _check_texts(given)
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
        oauth=_oauth(given),
        disabled=given.disabled,
        timeout=given.timeout,
        sampling=given.sampling,
        always_allow=frozenset(given.always_allow),
        disabled_tools=frozenset(given.disabled_tools),
        place=_place(written),
        secrets=tuple(dict.fromkeys(filter(None, [*_secrets(given), *filler.secrets]))),
    )


def _place(written: _Raw) -> str:
    if written.command:
        return " ".join([written.command, *masked(written.args)])
    return shown_url(written.url or "")


def _secrets(given: _Raw) -> Iterator[str]:
    for name, text in (*given.env.items(), *given.headers.items()):
        yield from parts_of(text) if is_secret_name(name) else secrets_within(text)
    yield _oauth(given).client_secret
    yield from secrets_in(given.args)
    yield from secrets_within(given.url or "")


def _oauth(given: _Raw) -> OAuthOptions:
    """Other agents also write true or false, which says nothing new."""
    return given.oauth if isinstance(given.oauth, OAuthOptions) else OAuthOptions()


def _doubts(server: ServerDefinition, filler: Filler) -> Iterator[str]:
    """Warnings about a server that is used all the same."""
    name = server.name
    for variable in dict.fromkeys(filler.withheld):
        yield (
            f"The MCP server {name} does not get {variable}, which could hold a "
            "secret. To allow it, move the definition to your own file."
        )
    if server.source == "user" and not server.cwd and HERE & {*server.args}:
        yield (
            f"The MCP server {name} is started in an empty folder, which is what . means to it; "
            "write ${workspaceFolder} instead, or set cwd."
        )


def _transport(given: _Raw) -> Transport:
    kind = _TRANSPORTS.get(given.type or "")
    if given.type is not None and kind is None:
        raise ValueError("its type must be stdio, streamable-http or sse")
    local = given.command is not None or given.args or given.env or given.cwd
    remote = given.url is not None or given.headers or _oauth(given) != OAuthOptions()
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


def _check_texts(given: _Raw) -> None:
    """No program can be started with these."""
    pairs = (*given.env.items(), *given.headers.items())
    texts = (given.command or "", *given.args, given.cwd or "", *(text for _, text in pairs))
    if any("\0" in text for text in texts):
        raise ValueError("a value of it has a NUL character")
    if any(not name or set(name) & {"=", "\0"} for name, _ in pairs):
        raise ValueError("a name in env or headers is empty, or has = or NUL in it")


def _check_url(url: str) -> None:
    try:
        parts = urlsplit(url)
        host = parts.hostname
        _ = parts.port
    except ValueError as error:
        raise ValueError("its url is invalid") from error
    if parts.scheme not in ("http", "https") or not host:
        raise ValueError("its url must begin with http:// or https:// and name a host")
    if parts.username or parts.password:
        raise ValueError("its url holds a password; put it into headers")


def shown_url(url: str) -> str:
    """The URL without user, password, query and fragment, which may be secret."""
    found = _SHOWN_OF_URL.match(url)
    return f"{found[1]}{found[2]}" if found else ""


def _error_text(error: msgspec.ValidationError) -> str:
    what, _, where = str(error).partition(" - at ")
    place = where.strip("`").removeprefix("$").removeprefix(".")
    return f"{place or 'it'}: {what[:1].lower()}{what[1:]}"
