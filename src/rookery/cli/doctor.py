"""`rookery doctor` checks the installation; `rookery upgrade` prints how to get a newer version.

An upgrade looks up and downloads nothing: a program that replaces itself needs more trust than it
should. No package index is named, because a package of this name there is not ours.
"""

import errno
import json
import os
import platform
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import Distribution, PackageNotFoundError, distribution, version
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import click

from rookery import NAME, VERSION
from rookery.app.checkup import check_up
from rookery.app.model_choice import KEYS_OF_PROVIDERS
from rookery.cli.command_line import between_words, folder_option
from rookery.core.refusals import Finding, Health
from rookery.core.settings import Settings
from rookery.core.text.characters import whole_values
from rookery.core.text.terminal_text import Paint, harmless, harmless_line
from rookery.errors import SettingsError
from rookery.permissions.trust import TrustStore
from rookery.platform.own_programs import run_program
from rookery.platform.user_folders import Places, find_places
from rookery.providers.cli.auth_command import key_variable
from rookery.storage.keys import (
    NoKeyring,
    key_in_keyring,
    keyring_here,
    providers_in_keyring,
    source_of_key,
)
from rookery.storage.settings_files import find_settings

OLDEST_PYTHON = (3, 11)
TIMEOUT = 5.0
MIN_COLUMNS, MIN_LINES = 40, 10
COMPLETIONS = {
    "bash": (f".local/share/bash-completion/completions/{NAME}",),
    "zsh": (f".zfunc/_{NAME}",),
    "fish": (f".config/fish/completions/{NAME}.fish",),
}
_MARKS = {Health.OK: "✔", Health.WARN: "!", Health.BAD: "✗"}


@click.command()
@folder_option("The folder to check.")
@click.option("--json", "for_programs", is_flag=True, help="Print JSON.")
def command(workspace: Path, for_programs: bool) -> int:
    """Check the installation, this folder and the stored sessions. Nothing is changed, and
    nothing in the folder is run."""
    findings = list(all_checks(workspace, os.environ))
    if for_programs:
        print(_json(findings))
    else:
        print(_text(findings, Paint(Settings().colours(sys.stdout, os.environ))))
    return int(any(finding.health is Health.BAD for finding in findings))


def all_checks(workspace: Path, environ: Mapping[str, str]) -> Iterator[Finding]:
    from rookery.app.checkup import check_protection
    from rookery.governance.cli.intents_validate import check_governed

    places = find_places(environ)
    settings = _settings(places, workspace, environ)
    yield check_python()
    yield from check_python_path(environ)
    yield check_program("git", workspace, environ, missing="Commands that use it will fail.")
    yield check_program("rg", workspace, environ, missing="Search works without it, but slower.")
    yield from check_protection(settings, workspace, places)
    yield from check_up(places, workspace, environ)
    yield from check_governed(workspace, places, settings)
    yield check_keys(places.keys_file, environ)
    yield check_keyring(places.keys_file)
    yield check_terminal(environ)
    yield check_full_screen(environ)
    yield check_completion(environ)


def _settings(places: Places, workspace: Path, environ: Mapping[str, str]) -> Settings:
    """Return the settings in force; the defaults if they are invalid, which `check_up` reports."""
    trusted = TrustStore(places.trust_file).trusts(workspace)
    try:
        project = workspace if trusted else None
        return find_settings(places.settings_file, project, environ, {}).settings
    except SettingsError:
        return Settings()


def check_python() -> Finding:
    python = platform.python_version()
    text = f"{NAME} {VERSION} on Python {python}, {platform.system()} {platform.machine()}."
    if sys.version_info < OLDEST_PYTHON:
        return Finding("versions", Health.BAD, text, "Install Python 3.11 or newer.")
    return Finding("versions", Health.OK, text)


def check_python_path(environ: Mapping[str, str]) -> Iterator[Finding]:
    """Warn if PYTHONPATH has a relative entry: Python would run a sitecustomize.py of the
    current folder before it runs us."""
    paths = environ.get("PYTHONPATH", "")
    if paths and not all(map(os.path.isabs, paths.split(os.pathsep))):
        yield Finding(
            "PYTHONPATH",
            Health.WARN,
            (
                "It has an empty or relative entry: Python runs a sitecustomize.py of "
                f"the current folder before {NAME} can prevent it."
            ),
            "Use only absolute paths in PYTHONPATH, or unset it.",
        )


def check_program(
    name: str, workspace: Path, environ: Mapping[str, str], *, missing: str
) -> Finding:
    """Check that a helper program is installed and runs."""
    program = find_program(name, workspace, environ)
    if program is None:
        return Finding(name, Health.WARN, f"It is not installed. {missing}", f"Install {name}.")
    try:
        done = run_program([program, "--version"], cwd="/", environment=environ, seconds=TIMEOUT)
        if done.status:
            raise OSError(errno.EIO, f"it ended with status {done.status}")
    except OSError as error:
        return Finding(
            name, Health.WARN, f"{program} does not run ({error}).", f"Reinstall {name}."
        )
    first, *_ = done.out.decode("utf-8", "replace").splitlines() or [""]
    return Finding(name, Health.OK, f"{first} ({program}).")


def find_program(name: str, workspace: Path, environ: Mapping[str, str]) -> str | None:
    """Find a program beside the interpreter or on the PATH, but never inside the workspace."""
    beside = Path(sys.executable).parent
    listed = [Path(entry) for entry in environ.get("PATH", "").split(os.pathsep)]
    folders = [
        folder
        for folder in listed
        if folder.is_absolute() and not folder.resolve().is_relative_to(workspace)
    ]
    for program in (folder / name for folder in (beside, *folders)):
        inside = program.resolve().is_relative_to(workspace) and program.parent != beside
        if program.is_file() and os.access(program, os.X_OK) and not inside:
            return str(program)
    return None


def check_keys(keys_file: Path, environ: Mapping[str, str]) -> Finding:
    """List the providers with a key and where it comes from, never the keys."""
    found: list[str] = []
    try:
        for provider in KEYS_OF_PROVIDERS:
            variable = key_variable(provider, environ)
            source = source_of_key(
                provider, variable=variable, environ=environ, keys_file=keys_file
            )
            found += [f"{provider} ({source})"] if source else []
    except SettingsError as error:
        return Finding("keys", Health.BAD, str(error))
    if found:
        return Finding("keys", Health.OK, f"{', '.join(found)}.")
    return Finding(
        "keys",
        Health.WARN,
        "No key found: only models on this machine can be used.",
        f"{NAME} auth PROVIDER",
    )


def check_keyring(keys_file: Path) -> Finding:
    """Check the keyring. Problems count only if it is meant to hold keys."""
    inside = providers_in_keyring(keys_file)
    try:
        missing = [provider for provider in inside if not key_in_keyring(provider)]
        name = keyring_here()
    except SettingsError as error:
        return Finding("keyring", Health.BAD, str(error))
    except NoKeyring as error:
        return Finding("keyring", Health.OK, f"Keys are stored in a file instead: {error}.")
    if missing:
        gone = f"The key for {', '.join(missing)} was removed from the keyring."
        return Finding("keyring", Health.WARN, gone, f"{NAME} auth {missing[0]}")
    held = f"; it has keys for {', '.join(inside)}" if inside else ""
    return Finding("keyring", Health.OK, f"{name}{held}.")


def check_terminal(environ: Mapping[str, str]) -> Finding:
    encoding = (getattr(sys.stdout, "encoding", None) or "ascii").lower()
    if encoding.replace("-", "") != "utf8":
        return Finding(
            "terminal",
            Health.WARN,
            f"The encoding is {encoding}: some characters cannot be shown.",
            "Set LANG to a UTF-8 locale, such as C.UTF-8.",
        )
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return Finding("terminal", Health.OK, "UTF-8; not a terminal, so runs are not interactive")
    size = os.get_terminal_size(sys.stdout.fileno())
    summary = f"UTF-8, {_colours(environ)}, {size.columns} columns of {size.lines} lines"
    if size.columns < MIN_COLUMNS or size.lines < MIN_LINES:
        wider = f"Make it at least {MIN_COLUMNS} by {MIN_LINES}, or use --no-tui."
        return Finding("terminal", Health.WARN, f"{summary}: too small.", wider)
    return Finding("terminal", Health.OK, f"{summary}.")


def _colours(environ: Mapping[str, str]) -> str:
    if not Settings().colours(sys.stdout, environ):
        return "no colours"
    if environ.get("COLORTERM", "") in ("truecolor", "24bit"):
        return "all colours"
    return "256 colours" if "256" in environ.get("TERM", "") else "16 colours"


def check_full_screen(environ: Mapping[str, str]) -> Finding:
    if find_spec("textual") is None:
        todo = "pip install textual"
        return Finding("full screen", Health.WARN, "Not installed: the plain client is used.", todo)
    if environ.get("TERM", "dumb") in ("", "dumb"):
        return Finding(
            "full screen", Health.OK, "This terminal does not support it: the plain client is used."
        )
    return Finding("full screen", Health.OK, f"textual {version('textual')}.")


def check_completion(environ: Mapping[str, str]) -> Finding:
    """Check whether the completion script is in the usual place for the user's shell."""
    shell = Path(environ.get("SHELL", "")).name
    if shell not in COMPLETIONS:
        return Finding("completion", Health.OK, "Available for bash, zsh and fish.")
    home = Path(environ.get("HOME", "/"))
    there = [home / place for place in COMPLETIONS[shell] if (home / place).is_file()]
    if there:
        return Finding("completion", Health.OK, f"{there[0]}.")
    first = COMPLETIONS[shell][0]
    todo = f"mkdir -p ~/{Path(first).parent} && {NAME} completion {shell} > ~/{first}"
    return Finding("completion", Health.OK, f"Completion for {shell} is not installed.", todo)


def _json(findings: Sequence[Finding]) -> str:
    rows = [
        {"name": each.name, "health": each.health, "text": each.text, "todo": each.todo}
        for each in findings
    ]
    healthy = all(each.health is not Health.BAD for each in findings)
    return json.dumps(whole_values({"ok": healthy, "findings": rows}))


def _text(findings: Sequence[Finding], paint: Paint) -> str:
    width = max(len(each.name) for each in findings)
    colours = {Health.OK: paint.green, Health.WARN: paint.yellow, Health.BAD: paint.red}
    margin = " " * (width + 4)
    lines: list[str] = []
    for each in findings:
        mark = _MARKS[each.health]
        text = harmless(each.text).replace("\n", f"\n{margin}")
        row = between_words(f"{mark} {each.name:{width}}  {text}", sys.stdout, margin)
        lines.append(row.replace(mark, colours[each.health](mark), 1))
        if each.todo:
            lines.append(f"{margin}{paint.dim('to do:')} {harmless_line(each.todo)}")
    return "\n".join(lines)


SOURCE = "/path/to/clone-or-wheel"


@click.command("upgrade")
def upgrade() -> int:
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
    # these make a new environment, which would lack what was installed besides
    extras = "[all]" if install.endswith("--force") else ""
    source = shlex.quote(f"{clone}{extras}")
    return f"git -C {shlex.quote(str(clone))} pull && {install} {editable}{source}"


def _install_command(prefix: Path, python: Path, installed: Distribution | None) -> str:
    """Return the command that installs a folder or a file over this version."""
    parts = prefix.parts
    if "pipx" in parts or (prefix / "pipx_metadata.json").exists():
        return "pipx install --force"
    if ("uv", "tools") in pairwise(parts) or (prefix / "uv-receipt.toml").exists():
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
