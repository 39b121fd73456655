"""`rookery settings`: every setting, its value and where it comes from."""

import json
import os
from pathlib import Path

import click

from rookery.cli.main import resolve_folder
from rookery.platform.user_folders import find_places
from rookery.storage.cli.session_argument import format_option
from rookery.storage.settings_files import explain, find_settings

LONGEST_ALIGNED = 24
"""A value that is longer, such as a list, does not push the origins of all others away."""


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
