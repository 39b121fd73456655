"""`rookery upgrade`: how to get a newer version, by whatever installed this one.

Nothing is looked up and nothing is downloaded: a program that replaces itself is trusted with
more than it needs. No package index is named either: a package of this name there is not ours.
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

A_COPY = "/path/to/clone-or-wheel"


@click.command()
def command() -> int:
    """Print how to upgrade. Nothing is downloaded."""
    print(f"{NAME} {VERSION}, in {sys.prefix}")
    print(f"To upgrade: {way_to_upgrade(Path(sys.prefix), Path(sys.executable))}")
    return 0


def way_to_upgrade(prefix: Path, python: Path) -> str:
    """The command for a shell."""
    installed = _installed()
    install = _installing(prefix, python, installed)
    origin = _origin(installed) if installed else {}
    url = str(origin.get("url", ""))
    if vcs := _dictionary(origin, "vcs_info").get("vcs"):
        return f"{install} {shlex.quote(f'{vcs}+{url}')}"
    clone = Path(unquote(urlsplit(url).path)) if url.startswith("file:") else None
    if clone is None or not (clone / ".git").exists():
        return f"{install} {A_COPY}  (a newer clone or wheel file that you have)"
    editable = "--editable " if _dictionary(origin, "dir_info").get("editable") else ""
    return f"git -C {shlex.quote(str(clone))} pull && {install} {editable}{shlex.quote(str(clone))}"


def _installing(prefix: Path, python: Path, installed: Distribution | None) -> str:
    """What installs a folder or a file over what is there."""
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
    """Where it was installed from, as the installer wrote it down."""
    try:
        said = json.loads(installed.read_text("direct_url.json") or "{}")
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}


def _dictionary(origin: dict[str, Any], name: str) -> dict[str, Any]:
    found = origin.get(name)
    return found if isinstance(found, dict) else {}
