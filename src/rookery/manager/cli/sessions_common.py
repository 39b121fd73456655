"""Shared parts of the `rookery sessions` commands: the connection to the manager, lookup of
sessions and worktrees, output, and commands that send one request and print its answer.

The help of such a command is the docstring of its request.
"""

import functools
import json
import os
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import anyio
import click
from msgspec import NODEFAULT, Struct
from msgspec.structs import FieldInfo, asdict, fields

from rookery import NAME
from rookery.app.manager_features import ManagerFeatures
from rookery.cli.command_line import Decorator, folder_option, json_option
from rookery.cli.reports import Exit
from rookery.core.queries import Asking
from rookery.core.settings import Settings
from rookery.core.text.characters import as_utf8, whole_values
from rookery.core.text.terminal_text import Paint, aligned, harmless, harmless_line
from rookery.errors import SettingsError
from rookery.manager.dependencies import Form
from rookery.manager.handlers.router import reply_to_json
from rookery.manager.manager_socket import NoManager, RemoteManager, connect_manager
from rookery.manager.requests import ListSessions, ListWorktrees
from rookery.manager.shown_rows import Done, SessionRow, WorktreeRow
from rookery.platform.user_folders import Places, find_places
from rookery.protocol.jsonrpc import Disconnected
from rookery.storage.cli.session_listing import SHORTEST, paint_for_output, short_ids

T = TypeVar("T")
MOST_NAMED = 5


class ProjectDependencies(ManagerFeatures):
    """Dependencies of a project's manager."""

    def document(self, task_id: str, form: Form) -> str:
        from rookery.storage.cli.export import SessionDocument

        return "".join(SessionDocument(self.tasks, task_id).pieces(form))


class ManagerClient:
    """Connection of one command to the manager of a project."""

    def __init__(self, manager: RemoteManager, folder: Path, *, as_json: bool) -> None:
        self.manager = manager
        self.folder = folder
        self.as_json = as_json

    @functools.cached_property
    def places(self) -> Places:
        return find_places(os.environ)

    @functools.cached_property
    def paint(self) -> Paint:
        return paint_for_output(self.places)

    @functools.cached_property
    def settings(self) -> Settings:
        return ProjectDependencies(self.folder, self.places).settings()

    async def do(self, request: Asking[T]) -> T:
        return await self.manager.do(request)

    async def carry_out(self, request: Asking[Done], text: str) -> int:
        """Send a request and print `text`, with the notes of the answer below."""
        return self.print_done(await self.do(request), text)

    def print_done(self, done: Done, text: str, *, instead: bool = False) -> int:
        """Print `text` with the notes of the answer below; with `instead`, notes replace it."""
        notes = list(map(harmless, done.notes))
        self.print(done, notes if instead and notes else [text, *notes])
        return Exit.DONE

    def print(self, answer: object, lines: Iterable[str]) -> None:
        """Print the answer as JSON, or the lines, which must be escaped for the terminal."""
        if self.as_json:
            print(as_json(answer), flush=True)
            return
        for line in lines:
            print(line, flush=True)

    async def sessions(self) -> tuple[SessionRow, ...]:
        """All sessions, including archived ones."""
        return (await self.do(ListSessions(archived=True))).sessions

    async def session(self, given: str, *, none: str = "") -> SessionRow:
        """Find a session by its id or a prefix of it. `none` is the error if nothing matches,
        where `given` may name something else."""
        known = await self.sessions()
        wanted = given.lower()
        fitting = [each for each in known if each.session_id.startswith(wanted)]
        if none and not fitting:
            raise SettingsError(none)
        if len(wanted) < SHORTEST and len(fitting) != 1:
            raise SettingsError(
                f"{given!r} is too short for a session id; give at least {SHORTEST} characters."
            )
        match fitting:
            case []:
                raise SettingsError(f"No session begins with {given}. See {NAME} sessions.")
            case [only]:
                return only
            case _:
                short = short_ids(each.session_id for each in known)
                named = [short[each.session_id] for each in fitting]
                raise SettingsError(
                    f"{given} matches several sessions: {few(named)}. Give more characters."
                )

    async def worktree(self, given: str) -> WorktreeRow:
        """Find a worktree by its branch, its id, or a session that works in it."""
        there = await self.do(ListWorktrees())
        named = [each for each in there if given in (each.id, each.branch)]
        by_prefix = [each for each in there if len(given) >= SHORTEST and each.id.startswith(given)]
        match named or by_prefix:
            case [only]:
                return only
            case []:
                none = f"No such worktree: {given}. See {NAME} sessions worktrees list."
                session = await self.session(given, none=none)
            case several:
                branches = few([harmless_line(each.branch) for each in several])
                raise SettingsError(
                    f"{given} matches several worktrees: {branches}. Give the branch."
                )
        if not session.worktree_id:
            raise SettingsError(f"Session {given} works in the project itself, not in a worktree.")
        return next(each for each in there if each.id == session.worktree_id)


def short(session_id: str) -> str:
    """Short id for use in a sentence."""
    return harmless_line(session_id[:8])


def few(names: Sequence[str]) -> str:
    return ", ".join(names[:MOST_NAMED]) + (", …" if len(names) > MOST_NAMED else "")


def as_json(answer: object) -> str:
    """Encode as one line of JSON, with control characters escaped."""
    value = whole_values(json.loads(reply_to_json(answer)))
    return json.dumps(value).replace("\x7f", "\\u007f")


def text_of(given: str) -> str:
    """Return the text from the command line, or standard input if it is a dash."""
    text = sys.stdin.read() if given == "-" else given
    if not text.strip():
        raise SettingsError("The text is missing. Give it as an argument, or - for standard input.")
    return as_utf8(text)


Body = Callable[..., Awaitable[int]]

workspace_option = folder_option("The project folder.")
one_session: Decorator = click.argument("session", metavar="ID")


def with_manager(body: Body) -> Callable[..., int]:
    """Decorator that adds the common options and connects a client for the command."""
    return _command(body, stays=False)


def long_running(body: Body) -> Callable[..., int]:
    """Like `with_manager`, for a long-running command: it does not block others and reconnects."""
    return _command(body, stays=True)


def _command(body: Body, *, stays: bool) -> Callable[..., int]:
    @json_option
    @workspace_option
    @functools.wraps(body)
    def command(workspace: Path, as_json: bool, **given: Any) -> int:
        connected = functools.partial(
            _run, workspace, functools.partial(body, **given), as_json=as_json, stays=stays
        )
        while True:
            try:
                return anyio.run(connected)
            except Disconnected as error:
                # commands that only watch reconnect to the next manager
                if not stays or isinstance(error, NoManager):
                    raise Disconnected(
                        f"{error} To see whether anything was done: {NAME} sessions"
                    ) from error

    return command


async def _run(folder: Path, body: Body, *, as_json: bool, stays: bool) -> int:
    places = find_places(os.environ)
    dependencies = ProjectDependencies(folder, places)
    called = click.get_current_context().command_path.removeprefix(f"{NAME} ")
    async with connect_manager(
        folder, places, os.environ, dependencies, called=called, stays=stays
    ) as manager:
        return await body(ManagerClient(manager, folder, as_json=as_json))


Lines = Callable[[Any, ManagerClient], Iterable[str]]

_NAMES = {"session_id": "session", "worktree_id": "which"}
"""Fields whose parameter has another name."""

_METAVARS = {"session_id": "ID", "session_ids": "ID...", "worktree_id": "ID|BRANCH", "id": "ID"}


class CommandSpec(Struct, frozen=True):
    name: str
    """Name after `rookery sessions`; two words for a command in a group."""
    request: type[Any]
    """The request type; its docstring is the help."""
    arguments: tuple[str, ...] = ()
    """Fields that are arguments although they have a default."""
    options: Mapping[str, str | click.Option] = {}
    """For each field, the help of its option or the whole option."""
    done: str | Callable[[Any], str] = ""
    """Message for the answer `Done`; a template with the request's fields, `{id}`, `{branch}`
    and `{path}`."""
    notes_instead: bool = False
    """Whether notes of the answer replace that message."""
    lines: Lines | None = None
    """Formats any other answer."""
    refuse: Callable[[Any], str] | None = None
    """Return why the request is invalid; empty if it is valid."""


def request_command(spec: CommandSpec) -> click.Command:
    known = fields(spec.request)

    async def run(client: ManagerClient, **given: Any) -> int:
        values = {field.name: given[name] for field in known if (name := _param(field)) in given}
        names = await _resolve(client, values, known)
        request = spec.request(**values)
        if spec.refuse and (problem := spec.refuse(request)):
            raise SettingsError(problem)
        return _print(client, spec, request, await client.do(request), names)

    name, params = spec.name.split()[-1], list(_params(spec, known))
    return click.command(name, help=spec.request.__doc__, params=params)(with_manager(run))


def _params(spec: CommandSpec, known: Iterable[FieldInfo]) -> Iterator[click.Parameter]:
    hints = get_type_hints(spec.request)
    for field in known:
        if field.required or field.name in spec.arguments:
            yield _argument(field, hints[field.name])
    for name, option in spec.options.items():
        (field,) = (each for each in known if each.name == name)
        yield option if isinstance(option, click.Option) else _option(field, hints[name], option)


def _argument(field: FieldInfo, hint: Any) -> click.Argument:
    default = {} if field.default is NODEFAULT else {"default": field.default, "required": False}
    metavar = _METAVARS.get(field.name)
    if get_origin(hint) is tuple:
        default |= {"nargs": -1, "required": field.required}
    return click.Argument([_param(field)], type=_type(hint), metavar=metavar, **default)


def _option(field: FieldInfo, hint: Any, help: str) -> click.Option:
    name = _param(field)
    flag = f"--{name.replace('_', '-')}"
    if hint is bool:
        return click.Option([flag, name], is_flag=True, help=help)
    metavar = _METAVARS.get(field.name)
    return click.Option(
        [flag, name], type=_type(hint), default=field.default, metavar=metavar, help=help
    )


def _type(hint: Any) -> Any:
    if get_origin(hint) is Literal:
        return click.Choice(get_args(hint))
    return int if int in (hint, *get_args(hint)) else str


def _param(field: FieldInfo) -> str:
    return _NAMES.get(field.name, field.name)


async def _resolve(
    client: ManagerClient, values: dict[str, Any], known: Iterable[FieldInfo]
) -> dict[str, str]:
    """Replace ids typed by the user with full ones. Return names for use in messages."""
    names: dict[str, str] = {}
    if given := values.get("session_id"):
        values["session_id"] = (await client.session(given)).session_id
        names["id"] = short(values["session_id"])
    if given := values.get("session_ids"):
        values["session_ids"] = tuple([(await client.session(each)).session_id for each in given])
    if given := values.get("worktree_id"):
        row = await client.worktree(given)
        values["worktree_id"] = row.id
        names |= {"branch": harmless_line(row.branch), "path": harmless_line(row.path)}
    for field in known:
        if field.name == "text" and values["text"] != field.default:
            values["text"] = text_of(values["text"])
    return names


def _print(
    client: ManagerClient, spec: CommandSpec, request: Any, answer: Any, names: Mapping[str, str]
) -> int:
    if not isinstance(answer, Done):
        assert spec.lines, spec.name
        client.print(answer, spec.lines(answer, client))
        return Exit.DONE
    message = spec.done if isinstance(spec.done, str) else spec.done(request)
    values = {name: harmless_line(str(value)) for name, value in asdict(request).items()}
    return client.print_done(
        answer, message.format(**{**values, **names}), instead=spec.notes_instead
    )


def table(row: Callable[[Any], list[str]], nothing: str, head: list[str] | None = None) -> Lines:
    """Return a formatter that prints each item of an answer as a table row."""

    def lines(found: Iterable[Any], client: ManagerClient) -> list[str]:
        rows = list(map(row, found))
        return aligned([head, *rows] if head else rows) if rows else [nothing]

    return lines
