"""Shared parts of the `rookery sessions` commands: the connection to the manager, lookup of
sessions and worktrees, and output."""

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
from rookery.app.manager_features import ManagerFeatures
from rookery.cli.command_line import Decorator, folder_option, json_option
from rookery.cli.reports import Exit
from rookery.core.queries import Asking
from rookery.core.settings import Settings
from rookery.core.text.characters import as_utf8, whole_values
from rookery.core.text.terminal_text import Paint, harmless, harmless_line
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
