"""`rookery upgrade`: print how to get a newer version, depending on how this one was installed.

Nothing is looked up or downloaded: a program that replaces itself needs more trust than it should.
No package index is named, because a package of this name there is not ours.
"""

import json
import shlex
import sys
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import click

from rookery import NAME, VERSION

SOURCE = "/path/to/clone-or-wheel"


@click.command()
def command() -> int:
    """Print how to upgrade. Nothing is downloaded."""
    print(f"{NAME} {VERSION}, in {sys.prefix}")
    print(f"To upgrade: {upgrade_command(Path(sys.prefix), Path(sys.executable))}")
    return 0


def upgrade_command(prefix: Path, python: Path) -> str:
    """Return the shell command."""
    installed = _installed()
    install = _install_command(prefix, python, installed)
    origin = _origin(installed) if installed else {}
    url = str(origin.get("url", ""))
    if vcs := _dictionary(origin, "vcs_info").get("vcs"):
        return f"{install} {shlex.quote(f'{vcs}+{url}')}"
    clone = Path(unquote(urlsplit(url).path)) if url.startswith("file:") else None
    if clone is None or not (clone / ".git").exists():
        return f"{install} {SOURCE}  (a newer clone or wheel file that you have)"
    editable = "--editable " if _dictionary(origin, "dir_info").get("editable") else ""
    return f"git -C {shlex.quote(str(clone))} pull && {install} {editable}{shlex.quote(str(clone))}"


def _install_command(prefix: Path, python: Path, installed: Distribution | None) -> str:
    """Return the command that installs a folder or a file over this version."""
    parts = prefix.parts
    if "pipx" in parts:
        return "pipx install --force"
    if ("uv", "tools") in pairwise(parts):
        return "uv tool install --force"
    if installed and (installed.read_text("INSTALLER") or "").strip() == "uv":
        return f"uv pip install --python {python} --upgrade"
    return f"{python} -m pip install --upgrade"


def _installed() -> Distribution | None:
    try:
        return distribution(NAME)
    except PackageNotFoundError:
        return None


def _origin(installed: Distribution) -> dict[str, Any]:
    """Read where this version was installed from, as recorded by the installer."""
    try:
        data = json.loads(installed.read_text("direct_url.json") or "{}")
    except ValueError:
        return {}
    return data if isinstance(data, dict) else {}


def _dictionary(origin: dict[str, Any], name: str) -> dict[str, Any]:
    found = origin.get(name)
    return found if isinstance(found, dict) else {}
