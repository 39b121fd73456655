"""Shared parts of the governance commands: options, the folder they work on, output, exit codes."""

import functools
import getpass
import json
import os
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import UTC, datetime
from enum import IntEnum
from functools import cached_property
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource
from msgspec.structs import replace

from rookery import NAME
from rookery.cli.command_line import folder_option, json_option
from rookery.core.modes import GOVERNANCE_FOLDER
from rookery.core.settings import Settings
from rookery.core.text.terminal_text import Paint, harmless_line
from rookery.errors import RookeryError, SettingsError, StorageError
from rookery.governance.git_history import NoSuchCommit
from rookery.governance.intents.intent import Intent, IntentFile
from rookery.governance.intents.intent_checks import summary
from rookery.governance.intents.intent_file import IntentReader, IntentText
from rookery.governance.layout import find_layout, find_ledger
from rookery.governance.ledger.ledger_file import Flush
from rookery.governance.ledger.ledger_reader import EXAMPLES, parse_time
from rookery.governance.ledger.ledger_recording import Recording
from rookery.governance.ledger.state_files import KnownHeads, LedgerBusy, known_heads
from rookery.governance.ledger.verify_ledger import KnownHead
from rookery.permissions.trust import TrustStore
from rookery.platform.git_folders import repository_of
from rookery.platform.locks import LockTimeout
from rookery.platform.own_programs import read_settings
from rookery.platform.user_folders import find_own_program, find_places
from rookery.storage.cli.session_listing import paint_for_output
from rookery.storage.sessions import Journals
from rookery.storage.settings_files import find_settings

TASK = f"{NAME}-trace"
"""The task id of records that a command writes."""


class TraceExit(IntEnum):
    FINE = 0
    FINDINGS = 1
    USAGE = 2
    WARNINGS = 3
    """Warnings only, with `--strict`."""
    NOT_FOUND = 4
    BUSY = 5
    """Another process holds the file."""
    NOT_INITIALISED = 6
    """The folder has no intents or no ledger."""
    STORAGE = 9


class CommandFailed(RookeryError):
    """An error with an exit code of its own."""

    def __init__(self, message: str, exit_code: TraceExit) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def journals() -> Journals:
    return Journals(find_places(os.environ).tasks.joinpath)


def point_in_time(text: str | None) -> str:
    """Convert `--since 7d` to the time format of records; empty if not given."""
    if not text:
        return ""
    try:
        return parse_time(text, datetime.now(UTC))
    except ValueError as error:
        raise SettingsError(f"{text!r} is not a time. Write {EXAMPLES}.") from error


def today() -> str:
    return f"{datetime.now(UTC):%Y-%m-%d}"


def print_lines(lines: Iterable[str]) -> None:
    """Print lines with control characters removed, because they may come from untrusted files."""
    for line in lines:
        print(harmless_line(line))


def write_out(target: Path | None, pieces: Iterable[bytes]) -> None:
    """Write bytes to a file or standard output; on a terminal, control characters are removed."""
    if target is None:
        for piece in pieces:
            if sys.stdout.isatty():
                print_lines(piece.decode("utf-8", "replace").splitlines())
            else:
                sys.stdout.buffer.write(piece)
        sys.stdout.flush()
        return
    try:
        with open(target, "wb") as file:
            for piece in pieces:
                file.write(piece)
    except OSError as error:
        raise StorageError(f"{target} could not be written ({error.strerror}).") from error


class GovernanceGroup(click.Group):
    """A group that turns errors into exit codes."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (CommandFailed, NoSuchCommit, LockTimeout, LedgerBusy) as error:
            print(f"Error: {harmless_line(str(error))}", file=sys.stderr)
            match error:
                case CommandFailed(exit_code=code):
                    return code
                case NoSuchCommit():
                    return TraceExit.NOT_FOUND
                case _:
                    return TraceExit.BUSY


FINDINGS, WARNINGS = TraceExit.FINDINGS, TraceExit.WARNINGS


class CommandFolder:
    """The folder that a command works on, and how it prints."""

    def __init__(self, folder: Path, *, as_json: bool, plain: bool, quiet: bool) -> None:
        self.folder = folder
        self.as_json = as_json
        self.quiet = quiet
        self.places = find_places(os.environ)
        self.paint = Paint(False) if plain else paint_for_output(self.places)

    def echo(self, *lines: str) -> None:
        """Print lines for the user. Untrusted text must be escaped already."""
        if not self.quiet and not self.as_json:
            for line in lines:
                print(line, flush=True)

    def print_json(self, document: Any) -> None:
        """Print the result as JSON, with `--json`."""
        if self.as_json:
            print(json.dumps(document, ensure_ascii=False))

    def finish(self, *, ok: bool, **document: object) -> int:
        """Print the result of a check as JSON, with `--json`, and return the exit code."""
        self.print_json({**document, "ok": ok})
        return TraceExit.FINE if ok else TraceExit.FINDINGS


GIVEN = (ParameterSource.COMMANDLINE, ParameterSource.ENVIRONMENT)
"""Sources of options that were given explicitly."""


root_option = folder_option("The project folder.", "-w", "--root", "--workspace", "folder")


def common_options(command: Callable[..., int]) -> Callable[..., int]:
    """Add the options that may stand before or after the command's name."""
    for option in (
        click.option("-q", "--quiet", is_flag=True, help="Print less; use the exit code."),
        click.option("--no-color", "plain", is_flag=True, help="Print without colours."),
        json_option,
        root_option,
    ):
        command = option(command)
    return command


def command_in(opened: type[CommandFolder]) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Add the common options to a command, which gets the folder that they name."""

    def decorate(command: Callable[..., int]) -> Callable[..., int]:
        @common_options
        @functools.wraps(command)
        def with_folder(folder: Path, as_json: bool, plain: bool, quiet: bool, **given: Any) -> int:
            return command(opened(folder, as_json=as_json, plain=plain, quiet=quiet), **given)

        return with_folder

    return decorate


class OpenedLedger(CommandFolder):
    """An existing ledger."""

    def __init__(self, folder: Path, **output: bool) -> None:
        super().__init__(folder, **output)
        layout = find_ledger(folder)
        if layout is None:
            raise CommandFailed(
                f"No folder {GOVERNANCE_FOLDER} in {folder}, so nothing is recorded here. "
                f"Create one with: {NAME} intents init",
                TraceExit.NOT_INITIALISED,
            )
        self.layout = layout
        self.folder = layout.folder

    @cached_property
    def heads(self) -> KnownHeads:
        return known_heads(self.layout, self.places.governance)

    def known_head(self) -> KnownHead | None:
        """The end of the ledger as this machine last saw it."""
        try:
            return self.heads.read()
        except ValueError as error:
            raise StorageError(
                f"{self.heads.path} cannot be used ({error}), so a cut-off end would "
                f"not be noticed. Use another with `{NAME} trace verify --checkpoint "
                "FILE`, or remove it."
            ) from error

    def recording(self) -> Recording:
        """A recording that syncs every record to disk."""
        return Recording(self.folder, heads=self.heads, flush=Flush.ALWAYS)

    def echo(self, *lines: str) -> None:
        super().echo(*map(harmless_line, lines))


class GovernedFolder(CommandFolder):
    """A governed folder with its files as read at the start."""

    def __init__(self, folder: Path, **output: bool) -> None:
        super().__init__(folder, **output)
        found = find_layout(folder, repository_of(folder) or folder)
        if found.layout is None:
            raise CommandFailed(
                found.notice or f"{folder.resolve()} has no intents. To start: {NAME} intents init",
                TraceExit.NOT_INITIALISED,
            )
        self.layout = replace(found.layout, written=self.places.host_writes)
        self.reader = IntentReader(self.layout)
        self.text: IntentText = self.reader.read()

    @cached_property
    def settings(self) -> Settings:
        project = self.layout.workspace if self.trusted else None
        return find_settings(self.places.settings_file, project, os.environ, {}).settings

    @property
    def trusted(self) -> bool:
        return TrustStore(self.places.trust_file).trusts(self.layout.workspace)

    @property
    def file(self) -> IntentFile:
        return self.text.file

    @property
    def usable(self) -> IntentFile:
        """The intents. Raises `RookeryError` if the file as a whole has errors."""
        if not self.file.usable:
            name = self.layout.shown(self.layout.intent_file)
            raise RookeryError(f"{name}: {summary(self.file)} For details: {NAME} intents validate")
        return self.file

    def intent(self, wanted: str) -> Intent:
        found = self.usable.find(wanted)
        if found is None:
            known = ", ".join(each.id for each in self.file.intents[:20])
            listing = f"Known: {known}." if known else "There are none yet."
            raise CommandFailed(f"No such intent: {wanted}. {listing}", TraceExit.NOT_FOUND)
        return found

    def valid_intent(self, wanted: str) -> Intent:
        """Like `intent`; raises `RookeryError` if it has errors."""
        found = self.intent(wanted)
        if found.id in self.file.broken:
            raise RookeryError(
                f"{found.id} has errors, so nothing was done. For details: {NAME} intents validate"
            )
        return found

    def recording(self) -> Recording:
        """Raises `StorageError`."""
        try:
            heads = known_heads(self.layout, self.places.governance)
        except OSError as error:
            where = self.layout.shown(self.layout.state)
            raise StorageError(
                f"{where} cannot be written ({error.strerror}), so nothing was changed."
            ) from error
        flush = Flush(self.settings.trace.fsync)
        return Recording(self.layout.folder, heads=heads, flush=flush)


ledger_command = command_in(OpenedLedger)
governed_command = command_in(GovernedFolder)


def now() -> datetime:
    return datetime.now(UTC)


def user_name(folder: Path) -> str:
    """The user's name from git, or else the login name."""
    program = find_own_program("git", folder)
    with suppress(OSError):
        output = read_settings(program, ["user.name"], folder=folder, seconds=5)
        if name := " ".join(output.split()):
            return name[:100]
    with suppress(OSError, KeyError):
        return getpass.getuser()
    return f"uid {os.getuid()}"


def is_interactive() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def ask(question: str) -> str:
    """Ask a question at the terminal. Raises `SettingsError` at end of input."""
    try:
        return input(question).strip()
    except EOFError as error:
        raise SettingsError("Cancelled; nothing was done.") from error
