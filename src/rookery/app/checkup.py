"""How what is kept on disk stands: folders, files, settings, sessions and trust.

Looking changes nothing: no folder is made, no index brought up to date, no program started.
"""

import os
import shlex
import shutil
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
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
from rookery.storage.journal_lines import JOURNAL, never_begun
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


def check_folder(name: str, folder: Path) -> Finding:
    """Whether only its owner can reach it, and can write to it; what is missing can be made."""
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
    """What a project says counts, and is looked at, only where it is trusted."""
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
    """Whether the newest sessions can be read whole, as far as there is time to look."""
    try:
        folders = _begun(tasks)
    except OSError as error:
        return Finding("sessions", Health.BAD, f"{tasks} cannot be listed: {reason(error)}.")
    deadline = time.monotonic() + MOST_SECONDS
    damaged: dict[str, str] = {}
    looked_at = 0
    for folder in folders[:MOST_SESSIONS]:
        if time.monotonic() > deadline:
            break
        looked_at += 1
        if problem := _problem_with(folder):
            damaged[folder.name] = problem
    count = f"{len(folders)} stored"
    if looked_at < len(folders):
        count += f", the newest {looked_at} checked"
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


def _begun(tasks: Path) -> list[Path]:
    """The folders of tasks, newest first."""
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
    return [folder for folder in newest if not never_begun(folder / JOURNAL)]


def _problem_with(folder: Path) -> str:
    """The first thing wrong with a task. A second look, because somebody may be writing it."""
    problems = verify(folder) and verify(folder)
    return problems[0] if problems else ""


def _nearest(path: Path) -> Path:
    """The path, or what there is of it."""
    while not os.path.lexists(path) and path.parent != path:
        path = path.parent
    return path


def check_protection(settings: Settings, workspace: Path, places: Places) -> Iterator[Finding]:
    """What protects the user here, and what does not."""
    from rookery.app.command_parts import make_sandbox
    from rookery.sandbox.guarantees import NETWORK, Holds, guarantees

    with closing(make_sandbox(settings, workspace, places)) as sandbox:
        yield Finding("sandbox", _health(sandbox.state.kind != "none"), sandbox.state.line)
        for guarantee in guarantees(sandbox):
            if guarantee.name == NETWORK and settings.sandbox.network == "on":
                continue
            holds = guarantee.holds is Holds.YES
            yield Finding(guarantee.name, _health(holds), guarantee.why or "It works here.")
    yield anyio.run(_check_checkpoints, settings, workspace, places)


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
