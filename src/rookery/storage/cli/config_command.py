"""`rookery config`: read and change settings, and find out where a value comes from."""

import json
import os
import secrets
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from rookery import NAME, PROJECT_FOLDER
from rookery.app.host_queries import ask_a_host
from rookery.cli.main import resolve_folder
from rookery.core.queries import AskModes
from rookery.core.settings_reference import PROJECT_MAY, Key, loosens, shown
from rookery.core.text.terminal_text import harmless
from rookery.errors import SettingsError
from rookery.platform.disk import private_folder, put
from rookery.platform.user_folders import find_places
from rookery.storage.cli.session_listing import confirmed, format_option
from rookery.storage.cli.settings_table import (
    held,
    layers_of,
    print_settings,
    setting_called,
    settings_file,
)
from rookery.storage.settings_edits import change_settings, with_value, without
from rookery.storage.settings_files import (
    find_settings,
    other_voice,
    settings_here,
    spoken,
    text_of,
)
from rookery.storage.settings_values import checked, checked_text, is_list, spelled

_HERE = click.option(
    "-w",
    "--workspace",
    type=click.Path(path_type=Path),
    default=".",
    callback=resolve_folder,
    help="The folder that is meant.",
)
_PROJECT = click.option("--project", is_flag=True, help="In the project's file, not in yours.")
EDITORS = ("nano", "vim", "vi")


@click.group(invoke_without_command=True)
@click.pass_context
def command(ctx: click.Context) -> int:
    """Read and change settings. Without a command they are listed."""
    return 0 if ctx.invoked_subcommand else int(ctx.invoke(list_command))


@command.command("list")
@_HERE
@format_option
def list_command(workspace: Path, form: str) -> int:
    """Print every setting, its value and where the value comes from."""
    return print_settings(workspace, form)


@command.command("get")
@click.argument("name")
@_HERE
@format_option
def get_command(name: str, workspace: Path, form: str) -> int:
    """Print the value of a setting; nothing if none was chosen."""
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
    """Set a setting in your own file. The rest of the file stays as you wrote it.

    A list is several values, or one such as a,b or ["a", "b"]. A switch is true or false.
    """
    key, setting = setting_called(name)
    wanted = _wanted(key, setting.expected, texts)
    if project:
        _insist_that_it_tightens(key, wanted)
    if key == ("mode",):
        _insist_on_a_mode(str(wanted), workspace)
    file = settings_file(workspace, project=project)
    change_settings(file, lambda text: with_value(text, key, wanted, file), shared=project)
    _say(f"{spelled(key)} = {shown(wanted)} in {file}")
    _tell_who_wins(key, workspace, file)
    return 0


def _wanted(key: Key, expected: str, texts: Sequence[str]) -> Any:
    if len(texts) == 1:
        return checked_text(key, texts[0], name=spelled(key))
    if not is_list(key):
        raise SettingsError(f"{spelled(key)} takes one value, not {len(texts)}: {expected}.")
    return checked(key, list(texts), name=spelled(key))


def _insist_on_a_mode(slug: str, workspace: Path) -> None:
    try:
        known = [mode.slug for mode in ask_a_host(workspace, AskModes())]
    except SettingsError:
        return  # what else is wrong must not keep one value from being mended
    if slug not in known:
        raise SettingsError(f"There is no mode {slug!r} here. There are: {', '.join(known)}.")


@command.command("unset")
@click.argument("name")
@_PROJECT
@_HERE
def unset_command(name: str, project: bool, workspace: Path) -> int:
    """Remove a setting from your own file, so that the next layer decides it."""
    key, _ = setting_called(name)
    file = settings_file(workspace, project=project)
    changed = change_settings(file, lambda text: without(text, key, file), shared=project)
    _say(f"{spelled(key)} is {'no longer' if changed else 'not'} set in {file}.")
    return 0


@command.command("edit")
@_PROJECT
@_HERE
def edit_command(project: bool, workspace: Path) -> int:
    """Open your settings file in your editor. What is faulty does not replace it."""
    file = settings_file(workspace, project=project)
    before = text_of(file)
    with tempfile.TemporaryDirectory(prefix=f"{NAME}-") as folder:
        copy = Path(folder) / PROJECT_FOLDER / "settings.toml"
        copy.parent.mkdir()
        copy.write_text(before, encoding="utf-8")
        while problem := _edited(copy, file, project=project):
            print(f"Error: {harmless(problem)}", file=sys.stderr)
            if not (sys.stdin.isatty() and confirmed("Edit it again?")):
                raise SettingsError(f"{file} is as it was.")
        after = text_of(copy)
    if after == before:
        _say(f"{file} is as it was.")
        return 0
    change_settings(
        file, lambda present: _over(before, after, present=present, file=file), shared=project
    )
    _say(f"{file} is changed.")
    return 0


def _over(before: str, after: str, *, present: str, file: Path) -> str:
    """What was edited, unless the file has changed since; then it is kept beside your own."""
    if present in (before, after):
        return after
    folder = private_folder(find_places(os.environ).settings_file.parent)
    kept = folder / f"settings-edited-{secrets.token_hex(4)}.toml"
    put(kept, [after.encode()])
    raise SettingsError(
        f"{file} was changed while you edited it, so it stays as it is now; what you wrote is "
        f"kept in {kept}."
    )


@command.command("explain")
@click.argument("name")
@_HERE
@format_option
def explain_command(name: str, workspace: Path, form: str) -> int:
    """Print what every layer says about a setting, and which of them decides it."""
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
        mark = "→" if each.decides(holds.origin) else " "
        said = "not set" if each.value is None else spoken(each.value)
        _say(f"{mark} {each.name:{width}}  {said}{f'  ({each.note})' if each.note else ''}")
    return 0


def _insist_that_it_tightens(key: Key, wanted: Any) -> None:
    places = find_places(os.environ)
    if key not in PROJECT_MAY:
        raise SettingsError(
            f"{spelled(key)} cannot be set by a project; set it in {places.settings_file}, "
            "without --project."
        )
    mine = find_settings(places.settings_file, None, {}, {}).settings
    present: Any = mine
    for name in key:
        present = getattr(present, name)
    if loosens(key, wanted, present):
        raise SettingsError(
            f"A project can only {PROJECT_MAY[key]}, and {spelled(key)} is {spoken(present)} "
            f"for you, so {shown(wanted)} would not be heard."
        )


def _tell_who_wins(key: Key, workspace: Path, file: Path) -> None:
    try:
        found = settings_here(find_places(os.environ), workspace, os.environ)
    except SettingsError as error:
        _say(f"note: {error}")
        return
    if told := other_voice(found, key, file):
        _say(f"note: {told}")


def _edited(copy: Path, file: Path, *, project: bool) -> str:
    """Have a copy edited, and say what is wrong with it then."""
    try:
        done = subprocess.run([*_editor(os.environ), str(copy)], check=False)
    except OSError as error:
        raise SettingsError(f"The editor cannot be started: {error.strerror}.") from error
    if done.returncode:
        raise SettingsError(f"The editor ended with {done.returncode}, so {file} is as it was.")
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
                raise SettingsError(f"{variable} is no command: {words}") from error
    for name in EDITORS:
        if program := shutil.which(name):
            return [program]
    raise SettingsError("There is no editor; set VISUAL or EDITOR to one.")


def _say(text: str) -> None:
    """Folders and what projects write may be called anything."""
    print(harmless(text))


def _plainly(held: Any) -> str:
    """A value for a shell: a text is not quoted, a list is a line for each."""
    match held:
        case str():
            return held
        case tuple():
            return "\n".join(held)
        case _:
            return shown(held)
