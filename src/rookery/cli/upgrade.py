"""`rookery upgrade`: how to get a newer version, by whatever installed this one.

Nothing is looked up and nothing is downloaded: a program that replaces itself is trusted with
more than it needs.
"""

import json
import sys
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from itertools import pairwise
from pathlib import Path

import click

from rookery import NAME, VERSION


@click.command()
def command() -> int:
    """Print how to upgrade. Nothing is downloaded."""
    print(f"{NAME} {VERSION}, in {sys.prefix}")
    print(f"Upgrade with: {way_to_upgrade(Path(sys.prefix), Path(sys.executable))}")
    return 0


def way_to_upgrade(prefix: Path, python: Path) -> str:
    """The command for a shell."""
    installed = _installed()
    if installed and (source := _editable(installed)):
        return f"git -C {source} pull && {python} -m pip install --editable {source}"
    parts = prefix.parts
    if "pipx" in parts:
        return f"pipx upgrade {NAME}"
    if ("uv", "tools") in pairwise(parts):
        return f"uv tool upgrade {NAME}"
    if installed and (installed.read_text("INSTALLER") or "").strip() == "uv":
        return f"uv pip install --python {python} --upgrade {NAME}"
    return f"{python} -m pip install --upgrade {NAME}"


def _installed() -> Distribution | None:
    try:
        return distribution(NAME)
    except PackageNotFoundError:
        return None


def _editable(installed: Distribution) -> str:
    """The folder it is run from, if it was installed in place."""
    try:
        said = json.loads(installed.read_text("direct_url.json") or "{}")
        editable = said.get("dir_info", {}).get("editable", False)
        return str(said["url"]).removeprefix("file://") if editable else ""
    except (ValueError, KeyError, AttributeError):
        return ""
