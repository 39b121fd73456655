"""`rookery intents`: why something may be changed, and where. Said by people, kept by the gate."""

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from hashlib import file_digest
from pathlib import Path
from typing import Any

import click
from msgspec import Struct
from msgspec.structs import replace

from rookery import NAME
from rookery.core.limits import MIB
from rookery.core.modes import GOVERNANCE_FOLDER
from rookery.errors import RookeryError
from rookery.governance.cli.intents_changes import (
    expand_command,
    pause_command,
    reopen_command,
    start_command,
)
from rookery.governance.cli.intents_check import check_command
from rookery.governance.cli.intents_close import close_command
from rookery.governance.cli.intents_common import (
    FINDINGS,
    SAID,
    CommonOptions,
    GovernanceGroup,
    GovernedFolder,
    aligned,
    common,
    common_options,
    counted,
    open_folder,
)
from rookery.governance.cli.intents_list import list_command, show_command
from rookery.governance.cli.intents_new import new_command
from rookery.governance.cli.intents_validate import validate_command
from rookery.governance.criteria import (
    CriterionStanding,
    criteria_standing,
    is_check,
    to_the_second,
)
from rookery.governance.intents.intent import digest
from rookery.governance.intents.intent_map import (
    Coverage,
    CoveredIntent,
    IntentCoverage,
    MapEntry,
    coverage,
    intent_map,
    map_text,
)
from rookery.governance.layout import GIT_LINES, Layout, LedgerHome, git_lines, init, note_write
from rookery.governance.ledger.ledger_reader import oldest
from rookery.governance.ledger.statistics import Counted, counted_lines, is_by_product
from rookery.governance.ledger.traced import TracedRecord, records_on
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
@common
def coverage_command(options: CommonOptions, allowed: Sequence[str]) -> int:
    """Compare intents with recorded changes: what is verified, what is outdated and what has no
    intent. Fails if anything is outdated, uncovered or without an intent."""
    governed = open_folder(options)
    found = coverage_of(governed).coverage
    states = {each.state for each in found.intents} | ({"orphan"} if found.orphans else set())
    faults = (states & FAULTS) - set(allowed)
    options.say(*_lines(found))
    options.tell(
        {
            "intents": [_as_json(each) for each in found.intents],
            "orphans": list(found.orphans),
            "drifted": list(found.drifted),
            "ok": not faults,
        }
    )
    return FINDINGS if faults else 0


@click.command("map")
@common
def map_command(options: CommonOptions) -> int:
    """Print the files and functions of each intent as Markdown. Writes no file."""
    governed = open_folder(options)
    entries = intent_map(governed.layout, governed.usable.intents, oldest(governed.layout.folder))
    options.say(map_text(entries).rstrip("\n"))
    options.tell({"intents": [_entry_as_json(each) for each in entries]})
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


class Proved(Struct, frozen=True, kw_only=True):
    """What the ledger and the intents come to. `standings` are of the criteria, by intent."""

    coverage: Coverage
    standings: Mapping[str, tuple[CriterionStanding, ...]]


def coverage_of(governed: GovernedFolder) -> Proved:
    """In one pass: a ledger may hold hundreds of thousands of records."""
    last_changes: dict[str, str] = {}
    checks: list[TracedRecord] = []

    def counted_records() -> Iterator[Counted]:
        for line, record in counted_lines(governed.layout.folder):
            if is_check(record):
                checks.extend(filter(is_check, records_on(line)))
            if any(not is_by_product(file.path) for file in record.files):
                last_changes[record.intent_id] = record.time
            yield record

    intents, policy = governed.usable.intents, governed.file.policy
    known = [
        CoveredIntent(
            id=each.id,
            status=str(each.status),
            revision=each.revision,
            digest=digest(each, policy),
            verified=True,
        )
        for each in intents
    ]
    found = coverage(known, counted_records(), _Hashes(governed.layout.root))
    standings = {each.id: criteria_standing(each, policy, checks) for each in intents}
    proved = {id for id in standings if _verified(standings[id], last_changes.get(id, ""))}
    judged = tuple(_judged(each, proved) for each in found.intents)
    return Proved(coverage=replace(found, intents=judged), standings=standings)


def _judged(found: IntentCoverage, proved: Collection[str]) -> IntentCoverage:
    """Criteria are known only after all records were read."""
    covered = found.state == "covered" and found.intent_id not in proved
    return replace(found, state="unverified") if covered else found


class _Hashes(Mapping[str, str | None]):
    """The present hashes of files, computed on first use."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def __getitem__(self, path: str) -> str | None:
        return _present(self._root / path)

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


def _verified(criteria: Sequence[CriterionStanding], last_change: str) -> bool:
    """All its criteria can be checked, were checked since anything changed, and hold."""
    since = to_the_second(last_change)
    return bool(criteria) and all(
        each.criterion.verify and each.state == "passed" and since <= to_the_second(each.at)
        for each in criteria
    )


def _present(path: Path) -> str | None:
    try:
        with path.open("rb") as opened:
            return file_digest(opened, "sha256").hexdigest()
    except OSError:
        return None  # there is no such file any more


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


def _as_json(each: IntentCoverage) -> dict[str, object]:
    return {
        "id": each.intent_id,
        "state": each.state,
        "changes": each.changes,
        "files": list(each.files),
        "drifted": list(each.drifted),
    }


class NotReplaced(RookeryError):
    """The file is as it was."""


def bring_in_line(layout: Layout, vcs: LedgerHome) -> tuple[str, ...]:
    """Adds and removes our own lines, no others, and says which files are other ones now. Raises
    `RookeryError`."""
    return tuple(name for name, ours in git_lines(vcs).items() if _changed(layout, name, ours))


def replace_file(layout: Layout, path: Path, data: bytes) -> None:
    """Write a file in the governance folder. Raises `NotReplaced`. Links are not followed: whoever
    wrote the repository could have things written elsewhere."""
    name = layout.shown(path)
    if layout.folder.is_symlink() or path.is_symlink():
        raise NotReplaced(f"{name} is a link; nothing was written. Remove it.")
    try:
        note_write(layout.written, path, data)
        put(path, [data], like=attributes_at(path), mode=0o644)
    except OSError as error:
        reason = error.strerror or str(error)
        raise NotReplaced(f"{name} cannot be written ({reason}); it was not changed.") from error


def _changed(layout: Layout, name: str, ours: Sequence[str]) -> bool:
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
    said = {name: held for name, held in given.items() if ctx.get_parameter_source(name) in SAID}
    ctx.default_map = dict.fromkeys(command.commands, said)
    return 0 if ctx.invoked_subcommand else int(ctx.invoke(list_command))


@click.command("init")
@common
def init_command(options: CommonOptions) -> int:
    """Set up governance in a folder: create the files it needs."""
    settings = find_settings(find_places(os.environ).settings_file, None, os.environ, {}).settings
    vcs = settings.trace.vcs
    made = init(options.folder, vcs=vcs)
    mended = bring_in_line(Layout(options.folder, options.folder), vcs)
    said = f"created {GOVERNANCE_FOLDER}/ ({', '.join(made)})"
    brought = [f"updated for trace.vcs = {vcs}: {', '.join(mended)}"] if mended else []
    other = "ignore" if vcs == "track" else "track"
    options.say(
        said if made else f"{GOVERNANCE_FOLDER}/ is already complete",
        *brought,
        f"ledger: {_LEDGER[vcs]} (change with: {NAME} config set trace.vcs {other})",
    )
    options.tell(
        {
            "folder": str(options.folder),
            "created": list(made),
            "changed": list(mended),
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
