"""Paths of the governance files, inside and outside the workspace, and `init` for new projects.

Every task checks here whether there are intents, so this module must not import the rest of
governance. What agents must not reach is stored outside the workspace (`outside_folder`).
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from msgspec import Struct

from rookery.core.modes import GOVERNANCE_FOLDER
from rookery.errors import RookeryError
from rookery.platform.disk import put
from rookery.platform.git_folders import repository_of
from rookery.platform.git_objects import ObjectKind, object_id
from rookery.platform.user_folders import Places

if TYPE_CHECKING:
    from rookery.core.refusals import Problem
    from rookery.core.settings_sections import Governance


SWITCHED_OFF = "This project has intents, but governance is turned off in the user's settings."


def mode_of_task(wanted: "Governance", *, has_intents: bool) -> "Governance":
    """The governance mode that a new task keeps until it ends."""
    if wanted == "auto":
        return "enforce" if has_intents else "off"
    return wanted


def note_write(folder: Path | None, path: Path, data: bytes) -> None:
    """Note what the host is about to write to a file. Failures are ignored."""
    if folder is None:
        return
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        put(folder / _key(path), [object_id(ObjectKind.BLOB, data).hex().encode()], durable=False)


def was_written(folder: Path, path: Path, blob: str) -> bool:
    """Whether the content is what the host wrote last; `blob` is its git object id."""
    try:
        return (folder / _key(path)).read_text(encoding="ascii") == blob
    except (OSError, ValueError):
        return False


def _key(path: Path) -> str:
    return sha256(os.fsencode(os.path.realpath(path))).hexdigest()[:32]


INTENT_FILE = "active_intents.yaml"
LEDGER = "agent_trace.jsonl"
HOOK_TRUST = "hook_trust.json"
"""The project's hooks that the user has reviewed."""
_SKIPPED = {".git", ".hg", ".jj", ".svn", "node_modules", ".venv", "venv", "__pycache__"}
_MAX_FOLDERS = 20_000
_FIRST_INTENTS = """\
schema_version: 1
# One entry per intent: what to do, which files it may change, and how to tell it is done.
# Add one with: rookery intents new
active_intents: []
"""
LedgerHome: TypeAlias = Literal["ignore", "track", "notes"]
GIT_LINES = {
    ".gitignore": (".state/", LEDGER, "trace/"),
    ".gitattributes": (f"{LEDGER} merge=union",),
}
"""Lines we may add to git's files. All other lines belong to the user."""


class Layout(Struct, frozen=True):
    """Paths of one governance root. `workspace` is the workspace that contains it, or the root
    itself. `written` is the folder for `note_write`, if it is used."""

    root: Path
    workspace: Path
    written: Path | None = None

    @property
    def folder(self) -> Path:
        return self.root / GOVERNANCE_FOLDER

    @property
    def intent_file(self) -> Path:
        return self.folder / INTENT_FILE

    @property
    def ignore_file(self) -> Path:
        return self.folder / ".intentignore"

    @property
    def ledger(self) -> Path:
        return self.folder / LEDGER

    @property
    def hooks_file(self) -> Path:
        return self.folder / "hooks.json"

    @property
    def command_policy_file(self) -> Path:
        return self.folder / "command_policy.yaml"

    @property
    def state(self) -> Path:
        return self.folder / ".state"

    @property
    def locks(self) -> Path:
        return self.state / "locks"

    @property
    def leases(self) -> Path:
        return self.state / "leases"

    def own_folder(self, path: Path) -> Path:
        """Create one of the host's own folders. Raises `RookeryError` if it is or is under a
        symbolic link: a repository could otherwise make the host write elsewhere."""
        for each in (self.folder, self.state, path):
            if each.is_symlink():
                raise RookeryError(f"{self.shown(each)} is a link; nothing was written. Remove it.")
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RookeryError(
                f"{self.shown(path)} cannot be created ({error.strerror})."
            ) from error
        return path

    def shown(self, path: Path) -> str:
        """Path relative to the governance root, for messages."""
        return path.relative_to(self.root).as_posix()


class FoundLayout(Struct, frozen=True, kw_only=True):
    """The layout that governs a folder, None if there is none. `notice` is to be shown to the
    user once."""

    layout: Layout | None = None
    notice: str = ""


def find_layout(cwd: Path, workspace: Path) -> FoundLayout:
    """Find the nearest folder with intents, from the working directory up to the workspace."""
    top = workspace.resolve()
    here = cwd.resolve()
    if not here.is_relative_to(top):
        return FoundLayout()
    notice = ""
    for folder in (here, *here.parents):
        if (folder / GOVERNANCE_FOLDER / INTENT_FILE).is_file():
            return FoundLayout(layout=Layout(folder, top))
        if (folder / GOVERNANCE_FOLDER).is_dir():
            notice = notice or (
                f"The folder {GOVERNANCE_FOLDER} has no {INTENT_FILE}, so no intents "
                "apply. Create one with: rookery intents init"
            )
        if folder == top:
            break
    return FoundLayout(notice=notice)


def find_ledger(folder: Path) -> Layout | None:
    """Find the nearest governance folder within the repository. Its intent file may be gone."""
    around = (folder, *folder.parents)
    for each in around[: around.index(repository_of(folder) or folder) + 1]:
        if (each / GOVERNANCE_FOLDER).is_dir():
            return Layout(each, each)
    return None


def nested_roots(layout: Layout) -> "tuple[Problem, ...]":
    """Warn about intent files in subfolders, which are ignored."""
    from rookery.core.refusals import Problem

    return tuple(
        Problem(
            file=path.relative_to(layout.root).as_posix(),
            code="W314",
            message=f"it is ignored: {layout.shown(layout.intent_file)} applies to this folder",
        )
        for path in _nested(layout.root)
    )


def git_lines(vcs: LedgerHome) -> dict[str, tuple[str, ...]]:
    """The lines for git's files, by how the ledger is stored."""
    tracked = vcs == "track"
    return {
        ".gitignore": GIT_LINES[".gitignore"][: 1 if tracked else None],
        ".gitattributes": GIT_LINES[".gitattributes"] if tracked else (),
    }


def init(root: Path, *, vcs: LedgerHome = "ignore") -> tuple[str, ...]:
    """Create the files that do not exist, and return their names. Raises `RookeryError`."""
    folder = root / GOVERNANCE_FOLDER
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise RookeryError(f"{folder} is not a real folder; nothing was created. Move it away.")
    wanted = {
        INTENT_FILE: _FIRST_INTENTS,
        **{name: "".join(f"{line}\n" for line in ours) for name, ours in git_lines(vcs).items()},
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return tuple(name for name, text in wanted.items() if text and _create(folder / name, text))
    except OSError as error:
        raise RookeryError(f"{folder} cannot be created ({error.strerror}).") from error


def outside_folder(layout: Layout, outside: Path) -> Path:
    """The folder in `outside` with data about a workspace."""
    from rookery.governance.ledger.state_files import workspace_key

    return outside / workspace_key(layout.state, layout.root, outside)


def hook_trust_file(workspace: Path, places: Places) -> Path:
    """The file that lists the reviewed hooks. Works without intents, too."""
    if layout := find_layout(workspace, workspace).layout:
        return outside_folder(layout, places.governance) / HOOK_TRUST
    key = sha256(os.fsencode(workspace.resolve())).hexdigest()[:16]
    return places.governance / key / HOOK_TRUST


def known_trust_file(workspace: Path, places: Places) -> Path:
    """Like `hook_trust_file`, but for a check that must not write: if that would create the
    workspace's id, the file that is returned does not exist."""
    layout = find_layout(workspace, workspace).layout
    if layout is not None and not (layout.state / "workspace_id").exists():
        return places.governance / "unnamed"
    return hook_trust_file(workspace, places)


def _create(path: Path, text: str) -> bool:
    try:
        with path.open("x", encoding="utf-8", newline="\n") as made:
            made.write(text)
    except FileExistsError:
        return False
    return True


def _nested(root: Path) -> Iterator[Path]:
    for number, (folder, names, _) in enumerate(os.walk(root)):
        if number == _MAX_FOLDERS:
            return
        here = Path(folder)
        if here != root and (here / GOVERNANCE_FOLDER / INTENT_FILE).is_file():
            yield here / GOVERNANCE_FOLDER / INTENT_FILE
        names[:] = sorted(set(names) - _SKIPPED - {GOVERNANCE_FOLDER})
