"""`rookery config` and `rookery settings`: read, change and explain settings."""

import json
import os
import secrets
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from msgspec import Struct

from rookery import NAME, PROJECT_FOLDER
from rookery.app.temporary_host import query_host
from rookery.cli.command_line import folder_option, format_option
from rookery.core.queries import AskModes
from rookery.core.settings_reference import (
    ANY,
    NAMED_BY_USER,
    PROJECT_MAY,
    Key,
    Setting,
    all_settings,
    checked,
    checked_text,
    general,
    is_list,
    loosens,
    no_such,
    shown,
    spelled,
    values_in,
    variable_of,
)
from rookery.core.text.terminal_text import harmless
from rookery.errors import SettingsError
from rookery.permissions.trust import TrustStore
from rookery.platform.disk import private_folder, put
from rookery.platform.user_folders import find_places
from rookery.storage.cli.session_listing import confirmed
from rookery.storage.settings_edits import change_settings, with_value, without
from rookery.storage.settings_files import (
    FoundSettings,
    Held,
    find_settings,
    held_in,
    keys_of,
    overriding_source,
    spoken,
    table_of,
    text_of,
)

_HERE = folder_option("The project folder.")
_PROJECT = click.option("--project", is_flag=True, help="Use the project's file, not yours.")
EDITORS = ("nano", "vim", "vi")
NOT_SET = "not set"
LONGEST_ALIGNED = 24
"""Longer values, such as lists, are not aligned."""


class Layer(Struct, frozen=True, kw_only=True):
    name: str
    value: Any = None
    note: str = ""


@click.group(invoke_without_command=True)
@click.pass_context
def command(ctx: click.Context) -> int:
    """Read and change settings. Without a command, list them."""
    return 0 if ctx.invoked_subcommand else int(ctx.invoke(list_command))


@command.command("list")
@_HERE
@format_option
def list_command(workspace: Path, form: str) -> int:
    """List every setting, its value and where the value comes from."""
    file = find_places(os.environ).settings_file
    found = find_settings(file, workspace, os.environ, {})
    rows = [_row(found, key) for key in keys_of(found)]
    if form == "json":
        listed = [dict(zip(("name", "value", "origin"), row, strict=True)) for row in rows]
        print(json.dumps({"settings": listed, "refused": found.refused, "file": str(file)}))
        return 0
    width = max(len(name) for name, _, _ in rows)
    column = max(len(value or NOT_SET) for _, value, _ in rows if len(value) <= LONGEST_ALIGNED)
    for name, value, origin in rows:
        print(f"{name:{width}}  {value or NOT_SET:{column}}  {origin}")
    for sentence in found.refused:
        print(f"note: {sentence}")
    print(f"\nYour settings file is {file}.")
    return 0


def _row(found: FoundSettings, key: Key) -> tuple[str, str, str]:
    """The name, value and origin of a setting; the value is empty if it is not set."""
    holds = held_in(found, key)
    return spelled(key), "" if holds.value is None else shown(holds.value), holds.origin


@command.command("get")
@click.argument("name")
@_HERE
@format_option
def get_command(name: str, workspace: Path, form: str) -> int:
    """Print the value of a setting, or nothing if it is not set."""
    key, _ = setting_called(name)
    found = held(key, workspace)
    if form == "json":
        print(json.dumps({"name": spelled(key), "value": found.value, "origin": found.origin}))
    elif found.value is not None:
        text = _plainly(found.value)
        print(harmless(text) if sys.stdout.isatty() else text)
    return 0


@command.command("set")
@click.argument("name")
@click.argument("texts", metavar="VALUE...", nargs=-1, required=True)
@_PROJECT
@_HERE
def set_command(name: str, texts: tuple[str, ...], project: bool, workspace: Path) -> int:
    """Change a setting in your user settings. The rest of the file is kept.

    Give a list as several values, or as a,b or ["a", "b"]. Give a switch as true or false.
    """
    key, setting = setting_called(name)
    wanted = _wanted(key, setting.expected, texts)
    if project:
        _check_tightens(key, wanted)
    if key == ("mode",):
        _check_mode(str(wanted), workspace)
    file = settings_file(workspace, project=project)
    change_settings(file, lambda text: with_value(text, key, wanted, file), shared=project)
    _say(f"{spelled(key)} = {shown(wanted)} in {file}")
    _report_winner(key, workspace, file)
    return 0


def _wanted(key: Key, expected: str, texts: Sequence[str]) -> Any:
    if len(texts) == 1:
        return checked_text(key, texts[0], name=spelled(key))
    if not is_list(key):
        raise SettingsError(f"{spelled(key)} takes one value, not {len(texts)}: {expected}.")
    return checked(key, list(texts), name=spelled(key))


def _check_mode(slug: str, workspace: Path) -> None:
    try:
        known = [mode.slug for mode in query_host(workspace, AskModes())]
    except SettingsError:
        return  # what else is wrong must not keep one value from being mended
    if slug not in known:
        raise SettingsError(f"No such mode: {slug!r}. Available: {', '.join(known)}.")


@command.command("unset")
@click.argument("name")
@_PROJECT
@_HERE
def unset_command(name: str, project: bool, workspace: Path) -> int:
    """Remove a setting from your user settings."""
    key, _ = setting_called(name)
    file = settings_file(workspace, project=project)
    changed = change_settings(file, lambda text: without(text, key, file), shared=project)
    _say(f"{spelled(key)} is {'no longer' if changed else 'not'} set in {file}.")
    return 0


@command.command("edit")
@_PROJECT
@_HERE
def edit_command(project: bool, workspace: Path) -> int:
    """Open your user settings in your editor. A file with errors is not saved."""
    file = settings_file(workspace, project=project)
    before = text_of(file)
    with tempfile.TemporaryDirectory(prefix=f"{NAME}-") as folder:
        copy = Path(folder) / PROJECT_FOLDER / "settings.toml"
        copy.parent.mkdir()
        copy.write_text(before, encoding="utf-8")
        while problem := _edited(copy, file, project=project):
            print(f"Error: {harmless(problem)}", file=sys.stderr)
            if not (sys.stdin.isatty() and confirmed("Edit it again?")):
                raise SettingsError(f"{file} was not changed.")
        after = text_of(copy)
    if after == before:
        _say(f"{file} was not changed.")
        return 0
    change_settings(
        file,
        lambda present: _merge_edit(before, after, present=present, file=file),
        shared=project,
    )
    _say(f"{file} was changed.")
    return 0


def _merge_edit(before: str, after: str, *, present: str, file: Path) -> str:
    """Save the edited text, unless the file has changed since; then save it beside the file."""
    if present in (before, after):
        return after
    folder = private_folder(find_places(os.environ).settings_file.parent)
    kept = folder / f"settings-edited-{secrets.token_hex(4)}.toml"
    put(kept, [after.encode()])
    raise SettingsError(
        f"{file} was changed while you edited it, so your version was saved to {kept} instead."
    )


@command.command("explain")
@click.argument("name")
@_HERE
@format_option
def explain_command(name: str, workspace: Path, form: str) -> int:
    """Show where the value of a setting comes from: every source, and which one applies."""
    key, setting = setting_called(name)
    layers = list(layers_of(key, setting, workspace))
    holds = held(key, workspace)
    if form == "json":
        rows = [{"layer": each.name, "value": each.value, "note": each.note} for each in layers]
        about = {"name": spelled(key), "meaning": setting.sentence, "expected": setting.expected}
        print(json.dumps({**about, "value": holds.value, "origin": holds.origin, "layers": rows}))
        return 0
    print(f"{spelled(key)}: {setting.sentence}")
    print(f"It must be {setting.expected}.\n")
    width = max(len(each.name) for each in layers)
    for each in layers:
        mark = "→" if each.name == holds.origin else " "
        said = "not set" if each.value is None else spoken(each.value)
        _say(f"{mark} {each.name:{width}}  {said}{f'  ({each.note})' if each.note else ''}")
    return 0


def _check_tightens(key: Key, wanted: Any) -> None:
    places = find_places(os.environ)
    if key not in PROJECT_MAY:
        raise SettingsError(
            f"{spelled(key)} cannot be set by a project; set it in {places.settings_file}, "
            "without --project."
        )
    present = held_in(find_settings(places.settings_file, None, {}, {}), key).value
    if loosens(key, wanted, present):
        raise SettingsError(
            f"A project can only {PROJECT_MAY[key]}, and {spelled(key)} is "
            f"{spoken(present)} for you, so {shown(wanted)} would be ignored."
        )


def _report_winner(key: Key, workspace: Path, file: Path) -> None:
    try:
        found = _found(workspace)
    except SettingsError as error:
        _say(f"note: {error}")
        return
    if notice := overriding_source(found, key, file):
        _say(f"note: {notice}")


def _edited(copy: Path, file: Path, *, project: bool) -> str:
    """Let the user edit a copy, and report problems in it."""
    try:
        done = subprocess.run([*_editor(os.environ), str(copy)], check=False)
    except OSError as error:
        raise SettingsError(f"The editor cannot be started: {error.strerror}.") from error
    if done.returncode:
        raise SettingsError(f"The editor exited with {done.returncode}, so {file} was not changed.")
    mine = find_places(os.environ).settings_file
    try:
        if project:
            found = find_settings(mine, copy.parent.parent, {}, {})
            return "\n".join(found.refused).replace(str(copy), str(file))
        find_settings(copy, None, {}, {})
    except SettingsError as error:
        return str(error).replace(str(copy), str(file))
    return ""


def _editor(environ: Mapping[str, str]) -> Sequence[str]:
    for variable in ("VISUAL", "EDITOR"):
        if words := environ.get(variable, "").strip():
            try:
                return shlex.split(words)
            except ValueError as error:
                raise SettingsError(f"{variable} is not a command: {words}") from error
    for name in EDITORS:
        if program := shutil.which(name):
            return [program]
    raise SettingsError("No editor found; set VISUAL or EDITOR.")


def _say(text: str) -> None:
    """Names of folders and text of projects may contain anything."""
    print(harmless(text))


def _plainly(held: Any) -> str:
    """A value for a shell: text without quotes, one line per list item."""
    match held:
        case str():
            return held
        case tuple():
            return "\n".join(held)
        case _:
            return shown(held)


def setting_called(name: str) -> tuple[Key, Setting]:
    key = _key(name)
    setting = all_settings().get(general(key))
    if setting is None or ANY in key:
        raise SettingsError(f"{_no_such(key)} See {NAME} config list.")
    return key, setting


def settings_file(workspace: Path, *, project: bool) -> Path:
    mine = find_places(os.environ).settings_file
    return workspace / PROJECT_FOLDER / "settings.toml" if project else mine


def held(key: Key, workspace: Path) -> Held:
    return held_in(_found(workspace), key)


def _found(workspace: Path) -> FoundSettings:
    """The settings in a folder. Its own file counts only if it is trusted."""
    places = find_places(os.environ)
    trusted = TrustStore(places.trust_file).trusts(workspace)
    return find_settings(places.settings_file, workspace if trusted else None, os.environ, {})


def layers_of(key: Key, setting: Setting, workspace: Path) -> Iterator[Layer]:
    """From strongest to weakest, without flags, which apply to one run only."""
    places = find_places(os.environ)
    if ANY not in general(key):
        variable = variable_of(key)
        yield Layer(name=variable, value=os.environ.get(variable) or None)
        file = settings_file(workspace, project=True)
        said = _said(file, key)
        yield Layer(name=str(file), value=said, note=_why_not(key, said, workspace))
    yield Layer(name=str(places.settings_file), value=_said(places.settings_file, key))
    yield Layer(name="default", value=setting.default)


def _no_such(key: Key) -> str:
    sentence = no_such(key).removesuffix("; remove it.")
    return f"{sentence[:1].upper()}{sentence[1:].rstrip('.?')}{'?' if '?' in sentence else '.'}"


def _key(name: str) -> Key:
    """The path of a setting. Names of models and modes may contain dots."""
    first, _, rest = name.partition(".")
    called, _, last = rest.rpartition(".")
    if first in NAMED_BY_USER and called:
        return first, called.strip('"'), last
    return tuple(name.split("."))


def _said(file: Path, key: Key) -> Any:
    return dict(values_in(table_of(text_of(file), str(file)))).get(key)


def _why_not(key: Key, said: Any, workspace: Path) -> str:
    """Why a project's value does not apply; empty if it does."""
    places = find_places(os.environ)
    if said is None:
        return ""
    if not TrustStore(places.trust_file).trusts(workspace):
        return f"ignored: you do not trust this folder, see {NAME} trust"
    refused = find_settings(places.settings_file, workspace, {}, {}).refused
    about = [sentence for sentence in refused if f"{spelled(key)} " in sentence]
    if about:
        return f"ignored: {about[0].partition(': ')[2].rstrip('.')}"
    mine = _said(places.settings_file, key)
    may = PROJECT_MAY.get(key)
    looser = may and mine is not None and loosens(key, said, mine)
    return f"ignored: a project can only {may}" if looser else ""
