"""`rookery settings`: every setting, its value and where it comes from."""

import os
from pathlib import Path

import click

from rookery.cli.main import resolve_folder
from rookery.storage.places import find_places
from rookery.storage.settings_files import explain, find_settings


@click.command()
@click.option(
    "-w",
    "--workspace",
    type=click.Path(path_type=Path),
    default=".",
    callback=resolve_folder,
    help="Where.",
)
def command(workspace: Path) -> int:
    """Print every setting, its value and where the value comes from."""
    file = find_places(os.environ).settings_file
    found = find_settings(file, workspace, os.environ, {})
    rows = explain(found)
    width = max(len(row.key) for row in rows)
    for row in rows:
        print(f"{row.key:{width}}  {row.value or 'not set':12}  {row.origin}")
    for sentence in found.refused:
        print(f"note: {sentence}")
    print(f"\nYour settings file is {file}.")
    return 0
