"""`rookery intents`: the command group, `init`, `map` and `coverage`."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from msgspec import to_builtins

from rookery import NAME
from rookery.core.limits import MIB
from rookery.core.modes import GOVERNANCE_FOLDER
from rookery.core.text.terminal_text import aligned, counted
from rookery.errors import RookeryError
from rookery.governance.cli.common import (
    GIVEN,
    CommandFolder,
    GovernanceGroup,
    GovernedFolder,
    command_in,
    common_options,
    governed_command,
)
from rookery.governance.cli.intents_changes import (
    expand_command,
    pause_command,
    reopen_command,
    start_command,
)
from rookery.governance.cli.intents_check import check_command
from rookery.governance.cli.intents_close import close_command
from rookery.governance.cli.intents_list import coverage_of, list_command, show_command
from rookery.governance.cli.intents_new import new_command
from rookery.governance.cli.intents_validate import validate_command
from rookery.governance.intents.intent_map import (
    Coverage,
    MapEntry,
    intent_map,
    map_text,
)
from rookery.governance.layout import GIT_LINES, Layout, git_lines, init, note_write
from rookery.governance.ledger.ledger_reader import oldest
from rookery.platform.descriptors import attributes_at
from rookery.platform.disk import Unreadable, put, small_file
from rookery.platform.user_folders import find_places
from rookery.storage.settings_files import find_settings

FAULTS = frozenset({"outdated", "uncovered", "orphan"})


@click.command("coverage")
@click.option(
    "--allow",
    "allowed",
    multiple=True,
    type=click.Choice(sorted(FAULTS)),
    help="Allow this state. Repeatable.",
)
@governed_command
def coverage_command(governed: GovernedFolder, allowed: Sequence[str]) -> int:
    """Compare intents with recorded changes: what is verified, what is outdated and what has no
    intent. Fails if anything is outdated, uncovered or without an intent."""
    found = coverage_of(governed)
    states = {each.state for each in found.intents} | ({"orphan"} if found.orphans else set())
    faults = (states & FAULTS) - set(allowed)
    governed.echo(*_lines(found))
    return governed.finish(
        ok=not faults,
        intents=to_builtins(found.intents),
        orphans=list(found.orphans),
        drifted=list(found.drifted),
    )


@click.command("map")
@governed_command
def map_command(governed: GovernedFolder) -> int:
    """Print the files and functions of each intent as Markdown. Writes no file."""
    entries = intent_map(governed.layout, governed.usable.intents, oldest(governed.layout.folder))
    governed.echo(map_text(entries).rstrip("\n"))
    governed.print_json({"intents": [_entry_as_json(each) for each in entries]})
    return 0


def _entry_as_json(entry: MapEntry) -> dict[str, object]:
    files = [
        {
            "path": file.path,
            "symbols": list(file.symbols),
            "last_change": file.last_change or None,
            "sha256": file.after or None,
            "changes": file.changes,
        }
        for file in entry.files
    ]
    return {"id": entry.intent.id, "name": entry.intent.name, "files": files}


def _lines(found: Coverage) -> list[str]:
    rows = [
        [
            each.intent_id,
            each.state,
            counted(each.changes, "change"),
            counted(len(each.files), "file"),
        ]
        for each in found.intents
    ]
    rows += [["-", "orphan", path, ""] for path in found.orphans]
    rows += [["-", "drifted", path, ""] for path in found.drifted]
    return aligned(rows) if rows else ["no intents in progress or completed, and no changes"]


def replace_file(layout: Layout, path: Path, data: bytes) -> None:
    """Write a file in the governance folder. Raises `RookeryError`. Symlinks are refused, because
    a repository could use them to redirect the write."""
    name = layout.shown(path)
    if layout.folder.is_symlink() or path.is_symlink():
        raise RookeryError(f"{name} is a link; nothing was written. Remove it.")
    try:
        note_write(layout.written, path, data)
        put(path, [data], like=attributes_at(path), mode=0o644)
    except OSError as error:
        reason = error.strerror or str(error)
        raise RookeryError(f"{name} cannot be written ({reason}); it was not changed.") from error


def _update_lines(layout: Layout, name: str, ours: Sequence[str]) -> bool:
    """Update our own lines in one of git's files. Raises `RookeryError`."""
    path = layout.folder / name
    try:
        before = small_file(path, layout.workspace, largest=MIB).decode()
    except FileNotFoundError:
        before = ""
    except (Unreadable, UnicodeDecodeError) as error:
        shown = layout.shown(path)
        raise RookeryError(f"{shown} was not changed: {error}.") from error
    foreign = set(GIT_LINES[name]) - set(ours)
    lines = before.splitlines()
    after = [line for line in lines if line.strip() not in foreign]
    after += [line for line in ours if line not in {each.strip() for each in lines}]
    if after == lines:
        return False
    replace_file(layout, path, "".join(f"{line}\n" for line in after).encode())
    return True


_LEDGER = {
    "ignore": "not under version control",
    "track": "under version control",
    "notes": "in git notes",
}


@click.group(cls=GovernanceGroup, invoke_without_command=True)
@common_options
@click.pass_context
def command(ctx: click.Context, /, **given: Any) -> int:
    """Manage intents: what is to be done, which files it may change and when it is done.
    Without a command, list them."""
    source = ctx.get_parameter_source
    explicit = {name: value for name, value in given.items() if source(name) in GIVEN}
    ctx.default_map = dict.fromkeys(command.commands, explicit)
    return 0 if ctx.invoked_subcommand else int(ctx.invoke(list_command))


@click.command("init")
@command_in(CommandFolder)
def init_command(here: CommandFolder) -> int:
    """Set up governance in a folder: create the files it needs."""
    settings = find_settings(find_places(os.environ).settings_file, None, os.environ, {}).settings
    vcs = settings.trace.vcs
    made = init(here.folder, vcs=vcs)
    layout = Layout(here.folder, here.folder)
    changed = [name for name, ours in git_lines(vcs).items() if _update_lines(layout, name, ours)]
    created = f"created {GOVERNANCE_FOLDER}/ ({', '.join(made)})"
    updated = [f"updated for trace.vcs = {vcs}: {', '.join(changed)}"] if changed else []
    other = "ignore" if vcs == "track" else "track"
    here.echo(
        created if made else f"{GOVERNANCE_FOLDER}/ is already complete",
        *updated,
        f"ledger: {_LEDGER[vcs]} (change with: {NAME} config set trace.vcs {other})",
    )
    here.print_json(
        {
            "folder": str(here.folder),
            "created": list(made),
            "changed": changed,
            "ledger": vcs,
        }
    )
    return 0


for each in (
    init_command,
    list_command,
    new_command,
    show_command,
    start_command,
    pause_command,
    close_command,
    reopen_command,
    expand_command,
    validate_command,
    check_command,
    map_command,
    coverage_command,
):
    command.add_command(each)
