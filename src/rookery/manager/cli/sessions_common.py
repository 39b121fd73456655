"""What the commands about running sessions have in common: the manager they talk to, which
session is meant, and how they tell what came of it."""

import functools
import json
import os
import sys
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import anyio
import click

from rookery import NAME
from rookery.cli.main import resolve_folder
from rookery.cli.reports import Exit
from rookery.core.queries import Asking
from rookery.core.settings import Settings
from rookery.core.text.characters import as_utf8, whole_values
from rookery.core.text.terminal_text import Paint, harmless, harmless_line
from rookery.errors import SettingsError
from rookery.manager.cli.host_dependencies import ProjectDependencies
from rookery.manager.handlers.router import reply_to_json
from rookery.manager.manager_socket import NoManager, RemoteManager, connect_manager
from rookery.manager.requests import (
    ListSessions,
)
from rookery.manager.shown_rows import Done, SessionRow, WorktreeRow
from rookery.manager.worktree_requests import (
    ListWorktrees,
)
from rookery.platform.user_folders import Places, find_places
from rookery.protocol.jsonrpc import Disconnected
from rookery.storage.cli.session_listing import SHORTEST, paint_for_output, short_ids

T = TypeVar("T")
MOST_NAMED = 5


class ManagerClient:
    """One command's visit to the manager of a project."""

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

    async def carry_out(self, request: Asking[Done], said: str) -> int:
        """Does it, and says so; what else should be known stands below."""
        return self.tell_done(await self.do(request), said)

    def tell_done(self, done: Done, said: str, *, instead: bool = False) -> int:
        """Says so, with the notes of the answer below or, if it has any, `instead`."""
        notes = list(map(harmless, done.notes))
        self.tell(done, notes if instead and notes else [said, *notes])
        return Exit.DONE

    def tell(self, answer: object, lines: Iterable[str]) -> None:
        """For a program the answer as it is; for a person some lines, which must be harmless."""
        if self.as_json:
            print(as_json(answer), flush=True)
            return
        for line in lines:
            print(line, flush=True)

    async def sessions(self) -> tuple[SessionRow, ...]:
        """All of them, also those put away."""
        return (await self.do(ListSessions(archived=True))).sessions

    async def session(self, given: str, *, none: str = "") -> SessionRow:
        """The session that is meant, by its id or the beginning of it. `none` is the error if
        there is none, where something else may be meant."""
        everyone = await self.sessions()
        wanted = given.lower()
        fitting = [each for each in everyone if each.session_id.startswith(wanted)]
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
                short = short_ids(each.session_id for each in everyone)
                named = [short[each.session_id] for each in fitting]
                raise SettingsError(
                    f"{given} matches several sessions: {some(named)}. Give more characters."
                )

    async def worktree(self, given: str) -> WorktreeRow:
        """The worktree that is meant: by its branch, its id, or a session that works in it."""
        there = await self.do(ListWorktrees())
        named = [each for each in there if given in (each.id, each.branch)]
        begun = [each for each in there if len(given) >= SHORTEST and each.id.startswith(given)]
        match named or begun:
            case [only]:
                return only
            case []:
                none = f"No such worktree: {given}. See {NAME} sessions worktrees list."
                session = await self.session(given, none=none)
            case several:
                branches = some([harmless_line(each.branch) for each in several])
                raise SettingsError(
                    f"{given} matches several worktrees: {branches}. Give the branch."
                )
        if not session.worktree_id:
            raise SettingsError(f"Session {given} works in the project itself, not in a worktree.")
        return next(each for each in there if each.id == session.worktree_id)


def short(session_id: str) -> str:
    """An id as a sentence names it."""
    return harmless_line(session_id[:8])


def some(names: Sequence[str]) -> str:
    return ", ".join(names[:MOST_NAMED]) + (", …" if len(names) > MOST_NAMED else "")


def as_json(answer: object) -> str:
    """On one line, with everything escaped that a terminal would obey."""
    said = whole_values(json.loads(reply_to_json(answer)))
    return json.dumps(said).replace("\x7f", "\\u007f")


def words_of(given: str) -> str:
    """Words from the command line, or all of standard input for a dash."""
    said = sys.stdin.read() if given == "-" else given
    if not said.strip():
        raise SettingsError("The text is missing. Give it as an argument, or - for standard input.")
    return as_utf8(said)


Body = Callable[..., Awaitable[int]]

workspace_option: Callable[[Callable[..., Any]], Callable[..., Any]] = click.option(
    "-w",
    "--workspace",
    type=click.Path(path_type=Path),
    default=".",
    callback=resolve_folder,
    help="The project folder.",
)
json_option: Callable[[Callable[..., Any]], Callable[..., Any]] = click.option(
    "--json", "as_json", is_flag=True, help="Print JSON."
)
one_session: Callable[[Callable[..., Any]], Callable[..., Any]] = click.argument(
    "session", metavar="ID"
)


def with_manager(body: Body) -> Callable[..., int]:
    """Gives a command the common options and, when it is called, a client."""
    return _command(body, stays=False)


def for_a_while(body: Body) -> Callable[..., int]:
    """The same for a command that goes on, while others may want the manager too."""
    return _command(body, stays=True)


def _command(body: Body, *, stays: bool) -> Callable[..., int]:
    @json_option
    @workspace_option
    @functools.wraps(body)
    def command(workspace: Path, as_json: bool, **given: Any) -> int:
        visit = functools.partial(
            _visit, workspace, functools.partial(body, **given), as_json=as_json, stays=stays
        )
        while True:
            try:
                return anyio.run(visit)
            except Disconnected as error:
                # whoever only looks on goes on with the next manager
                if not stays or isinstance(error, NoManager):
                    raise Disconnected(
                        f"{error} To see whether anything was done: {NAME} sessions"
                    ) from error

    return command


async def _visit(folder: Path, body: Body, *, as_json: bool, stays: bool) -> int:
    places = find_places(os.environ)
    dependencies = ProjectDependencies(folder, places)
    called = click.get_current_context().command_path.removeprefix(f"{NAME} ")
    async with connect_manager(
        folder, places, os.environ, dependencies, called=called, stays=stays
    ) as manager:
        return await body(ManagerClient(manager, folder, as_json=as_json))
