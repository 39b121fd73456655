"""`rookery settings`: every setting, its value and where it comes from.

For `rookery config`, also what each layer says about one setting, which layer decides it,
and why the others do not count.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from msgspec import Struct

from rookery import NAME, PROJECT_FOLDER
from rookery.cli.main import resolve_folder
from rookery.core.settings_reference import (
    ANY,
    PROJECT_MAY,
    Key,
    Setting,
    all_settings,
    loosens,
    variable_of,
)
from rookery.errors import SettingsError
from rookery.permissions.trust import TrustStore
from rookery.platform.user_folders import find_places
from rookery.storage.cli.session_listing import format_option
from rookery.storage.settings_files import (
    Held,
    explain,
    find_settings,
    held_in,
    settings_here,
    table_of,
    text_of,
)
from rookery.storage.settings_values import NAMED_BY_USER, general, no_such, spelled, values_in

LONGEST_ALIGNED = 24
"""A value that is longer, such as a list, does not push the origins of all others away."""


class Layer(Struct, frozen=True, kw_only=True):
    name: str
    value: Any = None
    note: str = ""

    def decides(self, origin: str) -> bool:
        return self.name == origin


@click.command()
@click.option(
    "-w",
    "--workspace",
    type=click.Path(path_type=Path),
    default=".",
    callback=resolve_folder,
    help="Where.",
)
@format_option
def command(workspace: Path, form: str) -> int:
    """Print every setting, its value and where the value comes from."""
    return print_settings(workspace, form)


def print_settings(workspace: Path, form: str) -> int:
    file = find_places(os.environ).settings_file
    found = find_settings(file, workspace, os.environ, {})
    rows = explain(found)
    if form == "json":
        listed = [{"name": row.key, "value": row.value, "origin": row.origin} for row in rows]
        print(json.dumps({"settings": listed, "refused": found.refused, "file": str(file)}))
        return 0
    width = max(len(row.key) for row in rows)
    values = [row.value or "not set" for row in rows]
    column = max(len(value) for value in values if len(value) <= LONGEST_ALIGNED)
    for row, value in zip(rows, values, strict=True):
        print(f"{row.key:{width}}  {value:{column}}  {row.origin}")
    for sentence in found.refused:
        print(f"note: {sentence}")
    print(f"\nYour settings file is {file}.")
    return 0


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
    return held_in(settings_here(find_places(os.environ), workspace, os.environ), key)


def layers_of(key: Key, setting: Setting, workspace: Path) -> Iterator[Layer]:
    """From the strongest to the weakest, but for flags, which are given to one run only."""
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
    """A name as one writes it; what a model or a mode is called may have dots in it."""
    first, _, rest = name.partition(".")
    called, _, last = rest.rpartition(".")
    if first in NAMED_BY_USER and called:
        return first, called.strip('"'), last
    return tuple(name.split("."))


def _said(file: Path, key: Key) -> Any:
    return dict(values_in(table_of(text_of(file), str(file)))).get(key)


def _why_not(key: Key, said: Any, workspace: Path) -> str:
    """Why what a project says is not heard, if it is not."""
    places = find_places(os.environ)
    if said is None:
        return ""
    if not TrustStore(places.trust_file).trusts(workspace):
        return f"not heard: you do not trust this folder, see {NAME} trust"
    refused = find_settings(places.settings_file, workspace, {}, {}).refused
    about = [sentence for sentence in refused if f"{spelled(key)} " in sentence]
    if about:
        return f"not heard: {about[0].partition(': ')[2].rstrip('.')}"
    mine = _said(places.settings_file, key)
    may = PROJECT_MAY.get(key)
    looser = may and mine is not None and loosens(key, said, mine)
    return f"not heard: a project can only {may}" if looser else ""
