"""What the commands about intents have in common: the folder they are about, and how they end."""

import functools
import getpass
import json
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource
from msgspec import Struct
from msgspec.structs import replace

from rookery import NAME, VERSION
from rookery.cli.main import resolve_folder
from rookery.core.settings import Settings
from rookery.core.text.terminal_text import Paint, cells_of, harmless, harmless_line
from rookery.errors import RookeryError, SettingsError, StorageError
from rookery.governance.cli.trace_common import TraceExit
from rookery.governance.intents.intent import Intent, IntentFile
from rookery.governance.intents.intent_checks import summary
from rookery.governance.intents.intent_file import IntentReader, IntentText
from rookery.governance.layout import Layout, find_layout
from rookery.governance.ledger.ledger_file import Flush
from rookery.governance.ledger.ledger_recording import Recording
from rookery.governance.ledger.records import Writer
from rookery.permissions.trust import TrustStore
from rookery.platform.git_runner import read_settings
from rookery.platform.locks import LockTimeout
from rookery.platform.own_programs import find_own_program
from rookery.platform.user_folders import Places, find_places
from rookery.storage.cli.session_listing import paint_for_output
from rookery.storage.settings_files import find_settings

FINDINGS, WARNINGS = TraceExit.FINDINGS, TraceExit.WARNINGS
GAP = "  "


class IntentNotFound(RookeryError):
    """There is no intent of that name."""


class NotInitialised(RookeryError):
    """The folder is not governed by intents."""


class IntentsInvalid(RookeryError):
    """The intent file has errors that keep the command from its work."""


_CODES: dict[type[RookeryError], int] = {
    IntentNotFound: TraceExit.NOT_FOUND,
    LockTimeout: TraceExit.BUSY,
    NotInitialised: TraceExit.NOT_INITIALISED,
}


class GovernanceGroup(click.Group):
    """Commands whose errors have exit codes of their own."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except tuple(_CODES) as error:
            print(f"Error: {harmless(str(error))}", file=sys.stderr)
            return next(code for kind, code in _CODES.items() if isinstance(error, kind))


class CommonOptions(Struct, frozen=True, kw_only=True):
    """The options that every command has."""

    folder: Path
    as_json: bool = False
    plain: bool = False
    quiet: bool = False

    @property
    def paint(self) -> Paint:
        return Paint(False) if self.plain else paint_for_output(find_places(os.environ))

    def say(self, *lines: str) -> None:
        """For a person. What comes from files must have been made harmless."""
        if not self.quiet and not self.as_json:
            for line in lines:
                print(line, flush=True)

    def tell(self, document: Any) -> None:
        """For a program."""
        if self.as_json:
            print(json.dumps(document, ensure_ascii=False))


SAID = (ParameterSource.COMMANDLINE, ParameterSource.ENVIRONMENT)
"""Where an option comes from that somebody gave."""


def common_options(command: Callable[..., int]) -> Callable[..., int]:
    """The options that stand before the name of a command of the group, or after it."""
    for option in (
        click.option("-q", "--quiet", is_flag=True, help="Print nothing; use the exit code."),
        click.option("--no-color", "plain", is_flag=True, help="Without colours."),
        click.option("--json", "as_json", is_flag=True, help="Print JSON."),
        click.option(
            "--root",
            "folder",
            type=click.Path(path_type=Path),
            default=".",
            callback=resolve_folder,
            help="The project folder.",
        ),
    ):
        command = option(command)
    return command


def common(command: Callable[..., int]) -> Callable[..., int]:
    """Gives a command the common options, as one value."""

    @common_options
    @functools.wraps(command)
    def with_options(folder: Path, as_json: bool, plain: bool, quiet: bool, **given: Any) -> int:
        options = CommonOptions(folder=folder.resolve(), as_json=as_json, plain=plain, quiet=quiet)
        return command(options, **given)

    return with_options


class GovernedFolder:
    """One governed folder, as its files are at this moment."""

    def __init__(self, layout: Layout, places: Places) -> None:
        self.layout = layout
        self.places = places
        self.reader = IntentReader(layout)
        self.text: IntentText = self.reader.read()

    @functools.cached_property
    def settings(self) -> Settings:
        heard = self.layout.workspace if self.trusted else None
        return find_settings(self.places.settings_file, heard, os.environ, {}).settings

    @property
    def trusted(self) -> bool:
        return TrustStore(self.places.trust_file).trusts(self.layout.workspace)

    @property
    def file(self) -> IntentFile:
        return self.text.file

    @property
    def usable(self) -> IntentFile:
        """The intents. Raises `IntentsInvalid` if the file as a whole cannot be used."""
        if not self.file.usable:
            name = self.layout.shown(self.layout.intent_file)
            raise IntentsInvalid(
                f"{name}: {summary(self.file)} For details: {NAME} intents validate"
            )
        return self.file

    def intent(self, wanted: str) -> Intent:
        found = self.usable.find(wanted)
        if found is None:
            known = ", ".join(each.id for each in self.file.intents[:20])
            there = f"Known: {known}." if known else "There are none yet."
            raise IntentNotFound(f"No such intent: {wanted}. {there}")
        return found

    def sound_intent(self, wanted: str) -> Intent:
        """The same; raises `IntentsInvalid` if something is wrong with it."""
        found = self.intent(wanted)
        if found.id in self.file.broken:
            raise IntentsInvalid(
                f"{found.id} has errors, so nothing was done. For details: {NAME} intents validate"
            )
        return found

    def recording(self) -> Recording:
        """Raises `StorageError`."""
        from rookery.governance.layout import governed_places
        from rookery.governance.ledger.state_files import KnownHeads

        try:
            heads = KnownHeads(governed_places(self.layout, self.places).heads)
        except OSError as error:
            where = self.layout.shown(self.layout.state)
            raise StorageError(
                f"{where} cannot be written ({error.strerror}), so nothing was changed."
            ) from error
        return Recording(
            self.layout.folder,
            writer=Writer(name=NAME, version=VERSION),
            heads=heads,
            flush=Flush(self.settings.trace.fsync),
        )


def open_folder(options: CommonOptions) -> GovernedFolder:
    """Raises `NotInitialised`."""
    found = find_layout(options.folder, workspace_of(options.folder))
    if found.layout is None:
        raise NotInitialised(
            found.notice or f"{options.folder} has no intents. To start: {NAME} intents init"
        )
    places = find_places(os.environ)
    return GovernedFolder(replace(found.layout, written=places.host_writes), places)


def workspace_of(folder: Path) -> Path:
    """The root of the repository a folder is in; the folder itself if it is in none."""
    return next((each for each in (folder, *folder.parents) if (each / ".git").exists()), folder)


def now() -> datetime:
    return datetime.now(UTC)


def stamp(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def who(folder: Path) -> str:
    """The person at the keyboard: as git knows them, or by the name they logged in with."""
    program = find_own_program("git", folder)
    with suppress(OSError):
        said = read_settings(program, ["user.name"], folder=folder, seconds=5)
        if name := " ".join(said.split()):
            return name[:100]
    with suppress(OSError, KeyError):
        return getpass.getuser()
    return f"uid {os.getuid()}"


def at_a_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def asked(question: str) -> str:
    """What somebody at the terminal answers. Raises `SettingsError` if they leave."""
    try:
        return input(question).strip()
    except EOFError as error:
        raise SettingsError("Cancelled; nothing was done.") from error


def aligned(rows: list[list[str]], *, right: frozenset[int] = frozenset()) -> list[str]:
    """A table; the columns named in `right` are numbers."""
    shown = [[harmless_line(cell) for cell in row] for row in rows]
    widths = [max(map(cells_of, column)) for column in zip(*shown, strict=True)]
    return [
        GAP.join(
            _padded(cell, width, right=place in right)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in shown
    ]


def _padded(cell: str, width: int, *, right: bool) -> str:
    space = " " * (width - cells_of(cell))
    return space + cell if right else cell + space


def counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
