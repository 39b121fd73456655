"""Checks of `rookery doctor` on disk: folders, files, settings, sessions and trust.

The checks change nothing: they create no folder, update no index and start no program.
"""

import os
import shlex
import shutil
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import anyio

from rookery import NAME
from rookery.core.limits import MIB
from rookery.core.protected_paths import IGNORE_FILES
from rookery.core.refusals import Finding, Health
from rookery.core.settings import Settings
from rookery.errors import SettingsError
from rookery.permissions.approval import problem_with_rules
from rookery.permissions.trust import TrustStore, never_trusted
from rookery.platform.disk import reason
from rookery.platform.user_folders import HOME_VARIABLE, Places
from rookery.providers.model_files import local_files
from rookery.storage.journal_lines import JOURNAL, never_started
from rookery.storage.settings_files import find_settings
from rookery.storage.verify import verify

SCARCE, FULL = 1024 * MIB, 64 * MIB
MOST_SESSIONS = 300
MOST_SECONDS = 10.0
MOST_NAMED = 3


def check_up(places: Places, workspace: Path, environ: Mapping[str, str]) -> Iterator[Finding]:
    trust = TrustStore(places.trust_file)
    for name, folder in {
        "settings folder": places.config,
        "data folder": places.data,
        "cache folder": places.cache,
        "state folder": places.state,
    }.items():
        yield check_folder(name, folder)
    yield check_space(places.data)
    yield check_settings(places.settings_file, workspace, environ, trusted=trust.trusts(workspace))
    for problem in (trust.problem, problem_with_rules(places.rules_file)):
        if problem:
            yield Finding("permissions", Health.BAD, problem)
    yield check_trust(trust, workspace)
    yield check_ignore_files(workspace)
    yield check_sessions(places.tasks)
    yield check_model_files(environ)


def check_folder(name: str, folder: Path) -> Finding:
    """Check that the folder is writable and private, or can be created."""
    elsewhere = f"Make it writable, or set {HOME_VARIABLE} to a folder that is."
    there = _nearest(folder)
    if not there.is_dir():
        return Finding(name, Health.BAD, f"{there} is not a folder.", elsewhere)
    if not os.access(there, os.R_OK | os.W_OK | os.X_OK):
        return Finding(name, Health.BAD, f"{there} is not writable.", elsewhere)
    if there != folder:
        return Finding(name, Health.OK, f"{folder} is created when it is needed.")
    if stat.S_IMODE(folder.stat().st_mode) & 0o077:
        todo = f"chmod 700 {shlex.quote(str(folder))}"
        return Finding(name, Health.WARN, f"Other users can read {folder}.", todo)
    return Finding(name, Health.OK, f"{folder} is writable and only yours.")


def check_space(folder: Path) -> Finding:
    there = _nearest(folder)
    try:
        free = shutil.disk_usage(there).free
    except OSError as error:
        return Finding("disk space", Health.WARN, f"Cannot check {there}: {reason(error)}")
    health = Health.BAD if free < FULL else Health.WARN if free < SCARCE else Health.OK
    todo = (
        "" if health is Health.OK else f"Free some space, or set {HOME_VARIABLE} to another disk."
    )
    return Finding("disk space", health, f"{free // MIB:,} MiB are free for sessions.", todo)


def check_settings(
    file: Path, workspace: Path, environ: Mapping[str, str], *, trusted: bool
) -> Finding:
    """Check the settings. The project's are read only if it is trusted."""
    try:
        found = find_settings(file, workspace if trusted else None, environ, {})
    except SettingsError as error:
        return Finding("settings", Health.BAD, str(error), f"Correct it; see {NAME} settings.")
    if found.refused:
        return Finding("settings", Health.WARN, " ".join(found.refused))
    if file.exists() and stat.S_IMODE(file.stat().st_mode) & 0o022:
        todo = f"chmod 600 {shlex.quote(str(file))}"
        return Finding("settings", Health.WARN, f"Other users can change {file}.", todo)
    source = f"{file} is in order." if file.exists() else f"No {file}; the defaults apply."
    return Finding("settings", Health.OK, source)


def check_model_files(environ: Mapping[str, str]) -> Finding:
    """Say whether model files can be run here, and how many there are."""
    files = local_files(environ)
    count = f"{len(files)} found in caches of other programs" if files else "None found"
    if find_spec("xllamacpp") is not None:
        text = f"{count}. xllamacpp {version('xllamacpp')} runs them with --provider local."
        return Finding("model files", Health.OK, text)
    text = f"{count}. Running one needs xllamacpp, which is not installed."
    return Finding("model files", Health.OK, text, "pip install xllamacpp" if files else "")


def check_trust(trust: TrustStore, workspace: Path) -> Finding:
    if trust.trusts(workspace):
        return Finding("this folder", Health.OK, f"{workspace} is trusted.")
    if refusal := never_trusted(workspace):
        return Finding("this folder", Health.WARN, refusal)
    return Finding(
        "this folder",
        Health.WARN,
        f"{workspace} is not trusted: it is read-only, and its own settings do not apply.",
        f"{NAME} trust",
    )


def check_ignore_files(workspace: Path) -> Finding:
    found = [name for name in IGNORE_FILES if os.path.lexists(workspace / name)]
    closed = [name for name in found if not os.access(workspace / name, os.R_OK)]
    if closed:
        text = f"{closed[0]} cannot be read, so it is not known which files to hide."
        return Finding("ignore files", Health.BAD, text, "Make it readable, or remove it.")
    text = f"{', '.join(found)}." if found else "None; the agent may read the whole folder."
    return Finding("ignore files", Health.OK, text)


def check_sessions(tasks: Path) -> Finding:
    """Check that the newest sessions can be read completely, within a time limit."""
    try:
        folders = _started_sessions(tasks)
    except OSError as error:
        return Finding("sessions", Health.BAD, f"{tasks} cannot be listed: {reason(error)}.")
    deadline = time.monotonic() + MOST_SECONDS
    damaged: dict[str, str] = {}
    checked = 0
    for folder in folders[:MOST_SESSIONS]:
        if time.monotonic() > deadline:
            break
        checked += 1
        if problem := _problem_with(folder):
            damaged[folder.name] = problem
    count = f"{len(folders)} stored"
    if checked < len(folders):
        count += f", the newest {checked} checked"
    if not damaged:
        return Finding("sessions", Health.OK, f"{count}, none damaged.")
    named = " ".join(f"{name}: {why}" for name, why in list(damaged.items())[:MOST_NAMED])
    return Finding(
        "sessions",
        Health.WARN,
        f"{count}, {len(damaged)} damaged. {named}",
        (
            f"Continue one with {NAME} --session-id ID: the readable part is kept, and "
            "the rest is moved to a file beside it."
        ),
    )


def _started_sessions(tasks: Path) -> list[Path]:
    """List the folders of sessions that have started, newest first."""
    try:
        with os.scandir(tasks) as entries:
            folders = [
                (entry.stat(follow_symlinks=False).st_mtime, Path(entry.path))
                for entry in entries
                if entry.is_dir(follow_symlinks=False) and not entry.name.startswith(".")
            ]
    except FileNotFoundError:
        return []
    newest = [folder for _, folder in sorted(folders, reverse=True)]
    return [folder for folder in newest if not never_started(folder / JOURNAL)]


def _problem_with(folder: Path) -> str:
    """Return the first problem of a session. Checks twice: another process may be writing."""
    problems = verify(folder) and verify(folder)
    return problems[0] if problems else ""


def _nearest(path: Path) -> Path:
    """Return the path, or its nearest parent that exists."""
    while not os.path.lexists(path) and path.parent != path:
        path = path.parent
    return path


def check_protection(settings: Settings, workspace: Path, places: Places) -> Iterator[Finding]:
    """Check the sandbox, the checkpoints and the language servers."""
    from rookery.app.command_parts import make_sandbox
    from rookery.sandbox.layers import NETWORK, Holds, guarantees

    trusted = TrustStore(places.trust_file).trusts(workspace)
    with closing(make_sandbox(settings, workspace, places)) as sandbox:
        confined = sandbox.state.kind != "none"
        yield Finding("sandbox", _health(confined), sandbox.state.line)
        for guarantee in guarantees(sandbox.state, open_to_all=sandbox.open_to_all):
            if guarantee.name == NETWORK and settings.sandbox.network == "on":
                continue
            holds = guarantee.holds is Holds.YES
            yield Finding(guarantee.name, _health(holds), guarantee.why or "It works here.")
    yield anyio.run(_check_checkpoints, settings, workspace, places)
    yield check_language_servers(settings, workspace, trusted=trusted, confined=confined)


def check_language_servers(
    settings: Settings, workspace: Path, *, trusted: bool, confined: bool
) -> Finding:
    """List the language servers that are installed, and say whether they are used."""
    from rookery.diagnostics.servers import installed_servers

    name = "language servers"
    try:
        found = installed_servers(workspace, settings.language_servers)
    except ValueError as error:
        return Finding(name, Health.BAD, f"language_servers.add: {error}", "Correct the setting.")
    listed = ", ".join(sorted({each.program for each in found})) or "None found"
    if settings.language_servers.use == "off":
        return Finding(name, Health.OK, f"{listed}. Turned off in the settings.")
    if found and not trusted:
        return Finding(name, Health.OK, f"{listed}. They start only in a trusted folder.")
    if found and not confined and settings.language_servers.use == "on":
        todo = 'Set use = "always" in [language_servers] to start them without a sandbox.'
        return Finding(name, Health.WARN, f"{listed}. They start only in a sandbox.", todo)
    return Finding(name, Health.OK, f"{listed}.")


async def _check_checkpoints(settings: Settings, workspace: Path, places: Places) -> Finding:
    from rookery.checkpoints.checkpoints import ShadowCheckpoints

    if not settings.checkpoints.use:
        return Finding("checkpoints", Health.WARN, "Turned off in the settings.")
    checkpoints = ShadowCheckpoints(workspace, places.checkpoints, settings.as_limits())
    used = await checkpoints.usage()
    problem = await checkpoints.health()
    size = f"Using {used / 2**20:.1f} of {settings.checkpoints.megabytes} MiB."
    return Finding("checkpoints", _health(not problem), problem or size)


def _health(good: bool) -> Health:
    return Health.OK if good else Health.WARN
