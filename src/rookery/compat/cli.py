"""`rookery import`: sessions of other agents become sessions here, and their settings ours."""

import hashlib
import json
import os
import shutil
import sys
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from datetime import datetime
from itertools import chain
from pathlib import Path

import click
from msgspec import Struct
from msgspec.structs import replace

from rookery import NAME
from rookery.app.foreign_settings import ForeignSetting, foreign_settings
from rookery.cli.command_line import folder_option, json_option
from rookery.cli.main import subcommand
from rookery.compat.importers import claude, codex, gemini, opencode, roo
from rookery.compat.importers.foreign_sessions import ForeignSession, Importer, Problems
from rookery.compat.importers.imported_facts import imported_events
from rookery.core.limits import KIB, MIB
from rookery.core.settings_reference import Key
from rookery.core.text.terminal_text import aligned, counted, harmless_line
from rookery.errors import RookeryError, SettingsError
from rookery.platform.disk import put, reason
from rookery.platform.user_folders import Places, find_places
from rookery.storage.cli.session_listing import (
    age,
    cut,
    cut_front,
    folder_name,
    one_line,
    short_ids,
)
from rookery.storage.session_copies import add_session
from rookery.storage.sessions import TaskStore
from rookery.storage.settings_files import find_settings

IMPORTERS = {
    each.name: each
    for each in (
        *(claude.IMPORTER, codex.IMPORTER, roo.ROO, roo.CLINE, roo.KILO),
        *(opencode.IMPORTER, gemini.IMPORTER),
    )
}
_IDS = uuid.UUID("6f4a2f4e-2b0e-5c1d-9a57-0d3f1f6f7b21")
"""The namespace of the ids that imported sessions get."""
NONE_FOUND = 1
NOT_ALL = 9


class ImportOutcome(Struct, frozen=True, kw_only=True):
    """What became of one session."""

    source: ForeignSession
    id: str
    state: str
    """imported, known, empty or failed."""
    problems: int = 0
    reasons: tuple[str, ...] = ()


@click.command()
@click.argument("agent", required=False, type=click.Choice(list(IMPORTERS)))
@click.option("--all", "every", is_flag=True, help="Import the sessions of every folder.")
@click.option("--session", metavar="ID", help="Import one session; give the beginning of its id.")
@click.option(
    "--path",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Look in this folder instead of the agent's own.",
)
@click.option("--here", is_flag=True, help="Import them as sessions of this folder.")
@click.option(
    "--settings",
    "of_settings",
    is_flag=True,
    help="List settings, modes, rules and MCP servers instead; with an agent, copy them.",
)
@folder_option("The folder whose sessions to import.")
@json_option
def command(
    agent: str | None,
    every: bool,
    session: str | None,
    path: Path | None,
    here: bool,
    of_settings: bool,
    workspace: Path,
    as_json: bool,
) -> int:
    """Import sessions of another agent, so that you can list, search, show and continue them.

    Without an agent, list the sessions that were found on this machine. With one, import those of
    this folder. Files of other agents are not changed, and a session is imported only once.
    """
    if of_settings:
        if every or session or path or here:
            raise SettingsError("With --settings, give only an agent, -w and --json.")
        return _settings(agent, workspace, as_json)
    if agent is None:
        if every or session or path or here:
            raise SettingsError(f"Name an agent: {', '.join(IMPORTERS)}.")
        return _list(as_json)
    importer = IMPORTERS[agent]
    found = _found(importer, [path] if path else None)
    chosen = _chosen(found, workspace, session, every=every or (here and path is not None))
    if not chosen:
        print(_none_chosen(importer, found, session), file=sys.stderr)
        return NONE_FOUND
    store = TaskStore(find_places(os.environ))
    outcomes = [_import(store, importer, each, workspace, here=here) for each in chosen]
    _report(outcomes, as_json)
    return NOT_ALL if any(each.state == "failed" for each in outcomes) else 0


def _found(importer: Importer, roots: Sequence[Path] | None = None) -> list[ForeignSession]:
    """Newest first. Several roots may lead to the same session."""
    folders = importer.roots(Path.home(), os.environ) if roots is None else roots
    sessions = map(_with_folder, chain.from_iterable(map(importer.find, folders)))
    found = {each.id: each for each in sorted(sessions, key=lambda each: each.updated)}
    return [*reversed(found.values())]


def _with_folder(session: ForeignSession) -> ForeignSession:
    """With its folder, or without one if it names none that this system could have."""
    usable = os.path.isabs(session.folder) and "\0" not in session.folder
    return session if usable else replace(session, folder="")


def _chosen(
    found: Sequence[ForeignSession], workspace: Path, session: str | None, *, every: bool
) -> list[ForeignSession]:
    if session is None:
        return [each for each in found if every or _is_of(each, workspace)]
    matching = [each for each in found if each.id.startswith(session)]
    exact = [each for each in matching if each.id == session]
    if len(exact or matching) > 1:
        names = ", ".join(each.id for each in matching[:5])
        raise SettingsError(f"Several sessions begin with {session}: {names}.")
    return exact or matching


def _is_of(session: ForeignSession, workspace: Path) -> bool:
    digest = hashlib.sha256(os.fsencode(workspace)).hexdigest()
    known = os.path.realpath(session.folder) if session.folder else ""
    return session.folder_hash == digest or known == str(workspace)


def _none_chosen(importer: Importer, found: Sequence[ForeignSession], session: str | None) -> str:
    if not found:
        return f"No sessions of {importer.title} were found. Give their folder with --path."
    if session is not None:
        return f"No session of {importer.title} begins with {session}. See: {NAME} import"
    return (
        f"{counted(len(found), 'session')} of {importer.title} found, but none of this folder. "
        "--all imports those of every folder."
    )


def _import(
    store: TaskStore, importer: Importer, session: ForeignSession, workspace: Path, *, here: bool
) -> ImportOutcome:
    task_id = str(uuid.uuid5(_IDS, f"{session.agent}:{session.id}"))
    if store.exists(task_id):
        return ImportOutcome(source=session, id=task_id, state="known")
    own = session.folder and not here and not _is_of(session, workspace)
    folder = session.folder if own else str(workspace)
    problems = Problems()
    entries = importer.read(session, problems)
    events = imported_events(session, importer.title, entries, folder, problems)
    state = "imported"
    first = next(events, None)
    if first is None:
        state = "empty"
    else:
        try:
            add_session(store, task_id, chain([first], events))
        except RookeryError as error:
            state = "failed"
            problems.add("storing", str(error))
    return ImportOutcome(
        source=session,
        id=task_id,
        state=state,
        problems=problems.count,
        reasons=tuple(problems.reasons),
    )


def _report(outcomes: Sequence[ImportOutcome], as_json: bool) -> None:
    if as_json:
        print(json.dumps({"sessions": [_outcome_object(each) for each in outcomes]}))
        return
    for each in outcomes:
        print(f"{_STATES[each.state]}  {each.id[:8]}  {_title(each.source, 60)}")
        if each.problems:
            unread = counted(each.problems, "record")
            where = harmless_line(str(each.source.path))
            print(f"  {unread} of {where} could not be read:", file=sys.stderr)
            for why in each.reasons:
                print(f"    {harmless_line(why)}", file=sys.stderr)
    imported = [each for each in outcomes if each.state == "imported"]
    print(f"Imported {counted(len(imported), 'session')}.")
    if imported:
        print(f"Continue one with: {NAME} --resume {imported[0].id[:8]}")


_STATES = {
    "imported": "imported",
    "known": "already here",
    "empty": "no messages",
    "failed": "not stored",
}


def _outcome_object(each: ImportOutcome) -> dict[str, object]:
    return {
        **_object(each.source),
        "session": each.id if each.state in ("imported", "known") else None,
        "state": each.state,
        "unread": each.problems,
        "reasons": each.reasons,
    }


def _object(session: ForeignSession) -> dict[str, object]:
    return {
        "agent": session.agent,
        "id": session.id,
        "folder": session.folder or None,
        "title": session.title,
        "updated": session.updated,
        "bytes": session.size,
        "path": str(session.path),
    }


def _list(as_json: bool) -> int:
    found = [each for importer in IMPORTERS.values() for each in _found(importer)]
    if as_json:
        print(json.dumps({"sessions": [_object(each) for each in found]}))
    elif found:
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        for line in _table(found):
            print(line if width is None else cut(line, width))
        print(f"\nImport those of this folder with: {NAME} import AGENT")
    else:
        print("No sessions of other agents were found.")
    return 0


def _table(found: Sequence[ForeignSession]) -> Iterator[str]:
    now, home = datetime.now().astimezone(), os.path.expanduser("~")
    short = short_ids(each.id for each in found)
    rows = [
        [
            each.agent,
            short[each.id],
            age(each.updated, now),
            _size(each.size),
            cut_front(folder_name(each.folder, home), 30) or "?",
            _title(each, 100),
        ]
        for each in found
    ]
    return iter(aligned(rows))


def _title(session: ForeignSession, width: int) -> str:
    return cut(one_line(session.title), width)


def _size(size: int) -> str:
    """Of a session in a database it is not known."""
    if not size:
        return "?"
    return f"{size / MIB:.1f} MB" if size >= MIB else f"{-(-size // KIB)} KB"


_USES = {
    "in place": "read where it is",
    "copy": "can be copied",
    "not copied": "is not copied",
}


def _settings(agent: str | None, workspace: Path, as_json: bool) -> int:
    wanted = [agent] if agent else list(IMPORTERS)
    everything = foreign_settings(Path.home(), os.environ, workspace)
    found = [each for each in everything if each.agent in wanted]
    found.sort(key=lambda each: wanted.index(each.agent))
    if agent is None or not any(each.use == "copy" for each in found):
        _list_settings(found, as_json, agent)
        return 0
    places = find_places(os.environ)
    chosen = find_settings(places.settings_file, None, {}, {}).origins
    with redirect_stdout(sys.stderr if as_json else sys.stdout):
        states = [(each, _copy(each, places, chosen)) for each in found if each.use == "copy"]
    if as_json:
        print(json.dumps({"settings": [_setting_object(each, state) for each, state in states]}))
    else:
        print(f"Copied {counted(sum(state == 'copied' for _, state in states), 'setting')}.")
    return NOT_ALL if any(state == "failed" for _, state in states) else 0


def _copy(setting: ForeignSetting, places: Places, chosen: Mapping[Key, str]) -> str:
    """Copy it, unless there is one already. Returns what became of it, and prints it."""
    together = ("provider", "model") if setting.kind in ("provider", "model") else (setting.kind,)
    try:
        if setting.target:
            return _copy_file(setting, places.config / setting.target)
        if setting.command[0] == "config" and any((name,) in chosen for name in together):
            print(f"You have set {' or '.join(together)}, so {setting.kind} was not copied.")
            return "known"
        done = subcommand(setting.command[0]).main([*setting.command[1:]], standalone_mode=False)
        return "failed" if done else "copied"
    except RookeryError as error:
        print(harmless_line(str(error)), file=sys.stderr)
        return "failed"


def _copy_file(setting: ForeignSetting, target: Path) -> str:
    if target.exists() or target.is_symlink():
        print(harmless_line(f"{target} already exists."))
        return "known"
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        put(target, [setting.text.encode()])
    except OSError as error:
        raise SettingsError(f"{target} could not be written: {reason(error)}.") from error
    print(harmless_line(f"Copied {setting.path} to {target}."))
    return "copied"


def _list_settings(found: Sequence[ForeignSetting], as_json: bool, agent: str | None) -> None:
    if as_json:
        print(json.dumps({"settings": [_setting_object(each, "found") for each in found]}))
        return
    if not found:
        print("No settings of other agents were found.")
        return
    home = os.path.expanduser("~")
    rows = [
        [each.agent, each.kind, folder_name(str(each.path), home), _USES[each.use], each.note]
        for each in found
    ]
    print("\n".join(aligned([[harmless_line(cell) for cell in row] for row in rows])))
    if any(each.use == "copy" for each in found):
        print(f"\nCopy those of an agent with: {NAME} import AGENT --settings")
    elif agent:
        print("\nThere is nothing to copy.")


def _setting_object(each: ForeignSetting, state: str) -> dict[str, object]:
    return {
        "agent": each.agent,
        "kind": each.kind,
        "path": str(each.path),
        "use": each.use,
        "note": each.note,
        "state": state,
    }
