"""What the `rookery trace` commands share: whose ledger is meant, how they print, how they end."""

import functools
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from enum import IntEnum
from functools import cached_property
from pathlib import Path
from typing import Any

import click

from rookery import NAME, VERSION
from rookery.cli.main import resolve_folder
from rookery.core.facts import Event
from rookery.core.modes import GOVERNANCE_FOLDER
from rookery.core.text.terminal_text import Paint, harmless_line
from rookery.errors import RookeryError, SettingsError, StorageError
from rookery.governance.layout import Layout, find_ledger, governed_places
from rookery.governance.ledger.ledger_file import Flush
from rookery.governance.ledger.ledger_reader import EXAMPLES, moment
from rookery.governance.ledger.ledger_recording import Recording
from rookery.governance.ledger.records import Writer
from rookery.governance.ledger.state_files import KnownHeads, LedgerBusy
from rookery.governance.ledger.verify_ledger import KnownHead
from rookery.platform.user_folders import find_places
from rookery.storage.cli.session_listing import paint_for_output
from rookery.storage.journal import events_of_dead_task

TASK = f"{NAME}-trace"
"""The task in whose name a command records something."""


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
    """No intents govern the folder, or it has no ledger."""
    STORAGE = 9


class CannotAnswer(RookeryError):
    """Said in one sentence, with the exit code that goes with it."""

    def __init__(self, sentence: str, ending: TraceExit) -> None:
        super().__init__(sentence)
        self.ending = ending


class OpenedLedger:
    """One ledger, and how to print what is found in it."""

    def __init__(self, layout: Layout, *, paint: Paint, as_json: bool, quiet: bool) -> None:
        self.layout = layout
        self.folder = layout.folder
        self.paint = paint
        self.as_json = as_json
        self.quiet = quiet

    @cached_property
    def heads(self) -> KnownHeads:
        return KnownHeads(governed_places(self.layout, find_places(os.environ)).heads)

    def known_head(self) -> KnownHead | None:
        """What this machine remembers of the ledger's end."""
        try:
            return self.heads.read()
        except ValueError as error:
            raise StorageError(
                f"{self.heads.path} cannot be used ({error}), so a cut-off end would "
                f"not be noticed. Use another with `{NAME} trace verify --checkpoint "
                "FILE`, or remove it."
            ) from error

    def recording(self) -> Recording:
        """For a command that adds to the ledger: what it adds is on the medium at once."""
        writer = Writer(name=NAME, version=VERSION)
        return Recording(self.folder, writer=writer, heads=self.heads, flush=Flush.ALWAYS)

    def say(self, text: str) -> None:
        """A remark for people, which `-q` leaves out."""
        if not self.quiet and not self.as_json:
            print_lines([text])


def ledger_command(run: Callable[..., int]) -> Callable[..., int]:
    """A command about a ledger: it gets the opened ledger and the common options."""

    @click.option(
        "-w",
        "--root",
        "--workspace",
        "root",
        type=click.Path(path_type=Path),
        default=".",
        callback=resolve_folder,
        help="The project folder.",
    )
    @click.option("--json", "as_json", is_flag=True, help="Print JSON.")
    @click.option("--no-color", is_flag=True, help="Print without colours.")
    @click.option("-q", "--quiet", is_flag=True, help="Print less.")
    @functools.wraps(run)
    def answered(root: Path, as_json: bool, no_color: bool, quiet: bool, **given: Any) -> int:
        try:
            paint = Paint(False) if no_color else paint_for_output(find_places(os.environ))
            opened = OpenedLedger(_layout(root), paint=paint, as_json=as_json, quiet=quiet)
            return run(opened, **given)
        except CannotAnswer as error:
            return _ended(error, error.ending)
        except LedgerBusy as error:
            return _ended(error, TraceExit.BUSY)

    return answered


def journal_of(task_id: str) -> Sequence[Event] | None:
    """The events of a task; None while a process works on it."""
    return events_of_dead_task(find_places(os.environ).tasks / task_id)


def point_in_time(text: str | None) -> str:
    """What `--since 7d` means, as records say it; empty if nothing was said."""
    if not text:
        return ""
    try:
        return moment(text, datetime.now(UTC))
    except ValueError as error:
        raise SettingsError(f"{text!r} is not a time. Write {EXAMPLES}.") from error


def today() -> str:
    return f"{datetime.now(UTC):%Y-%m-%d}"


def print_lines(lines: Iterable[str]) -> None:
    """Names, commands and texts of files may hold anything."""
    for line in lines:
        print(harmless_line(line))


def write_out(target: Path | None, pieces: Iterable[bytes]) -> None:
    """To a file as it is; to a terminal without what would play tricks on it."""
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


def _ended(error: RookeryError, ending: TraceExit) -> int:
    print(f"Error: {harmless_line(str(error))}", file=sys.stderr)
    return ending


def _layout(root: Path) -> Layout:
    if layout := find_ledger(root):
        return layout
    raise CannotAnswer(
        (
            f"No folder {GOVERNANCE_FOLDER} in {root}, so nothing is recorded here. "
            f"Create one with: {NAME} intents init"
        ),
        TraceExit.NOT_INITIALISED,
    )
