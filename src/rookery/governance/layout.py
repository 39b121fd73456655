"""Where the files of governance are, inside the workspace and outside, and how a project starts.

Every task looks here whether there are intents, so this loads nothing else of governance. What is
kept outside of the workspace (`GovernedPlaces`) is there because no agent can reach it.
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
from rookery.platform.git_objects import ObjectKind, object_id
from rookery.platform.user_folders import Places

if TYPE_CHECKING:
    from rookery.core.refusals import Problem


def note_write(folder: Path | None, path: Path, data: bytes) -> None:
    """To be called before the file is replaced. Whoever cannot note it writes all the same."""
    if folder is None:
        return
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        put(folder / _key(path), [object_id(ObjectKind.BLOB, data).hex().encode()], durable=False)


def was_written(folder: Path, path: Path, blob: str) -> bool:
    """Whether that is what the host wrote last; `blob` is what git calls the content."""
    try:
        return (folder / _key(path)).read_text(encoding="ascii") == blob
    except (OSError, ValueError):
        return False


def _key(path: Path) -> str:
    return sha256(os.fsencode(os.path.realpath(path))).hexdigest()[:32]


INTENT_FILE = "active_intents.yaml"
LEDGER = "agent_trace.jsonl"
_SKIPPED = {".git", ".hg", ".jj", ".svn", "node_modules", ".venv", "venv", "__pycache__"}
_MOST_FOLDERS = 20_000
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
"""What we may write into the files that git reads. Every other line in them is somebody's."""


class Layout(Struct, frozen=True):
    """Of one governance root. `workspace` is the root it lies in, or is. `written` is where it is
    noted what the host writes, if it is."""

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
    def sealed_ledger(self) -> Path:
        return self.folder / "trace"

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
        """Makes a folder of the host's own. Raises `RookeryError` if a link leads to it: whoever
        wrote the repository could have things written elsewhere."""
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
        """As messages name it: relative to the governance root."""
        return path.relative_to(self.root).as_posix()


class FoundLayout(Struct, frozen=True, kw_only=True):
    """What governs a folder: nothing if there is no layout. `notice` is for the user, once."""

    layout: Layout | None = None
    notice: str = ""


class GovernedPlaces(Struct, frozen=True):
    folder: Path

    @property
    def heads(self) -> Path:
        """What this machine remembers of the ledger's end."""
        from rookery.governance.ledger.state_files import HEADS

        return self.folder / HEADS

    @property
    def hook_trust(self) -> Path:
        """Which hooks of the project the user has looked at."""
        return self.folder / "hook_trust.json"


def find_layout(cwd: Path, workspace: Path) -> FoundLayout:
    """The nearest folder with intents, from the working directory up to the workspace's root."""
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
    """The nearest folder of governance, within the repository. One whose intents are gone still
    has its ledger."""
    around = (folder, *folder.parents)
    top = next((each for each in around if (each / ".git").exists()), folder)
    for each in around[: around.index(top) + 1]:
        if (each / GOVERNANCE_FOLDER).is_dir():
            return Layout(each, each)
    return None


def nested_roots(layout: Layout) -> "tuple[Problem, ...]":
    """Folders with intents inside of what others govern already."""
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
    """Which of them stand there, by what becomes of the ledger."""
    tracked = vcs == "track"
    return {
        ".gitignore": GIT_LINES[".gitignore"][: 1 if tracked else None],
        ".gitattributes": GIT_LINES[".gitattributes"] if tracked else (),
    }


def init(root: Path, *, vcs: LedgerHome = "ignore") -> tuple[str, ...]:
    """Makes what is not there yet, and says what it made. Raises `RookeryError`."""
    folder = root / GOVERNANCE_FOLDER
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise RookeryError(f"{folder} is not a real folder; nothing was created. Move it away.")
    wanted = {
        INTENT_FILE: _FIRST_INTENTS,
        **{name: "".join(f"{line}\n" for line in ours) for name, ours in git_lines(vcs).items()},
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return tuple(name for name, text in wanted.items() if text and _made(folder / name, text))
    except OSError as error:
        raise RookeryError(f"{folder} cannot be created ({error.strerror}).") from error


def governed_places(layout: Layout, places: Places) -> GovernedPlaces:
    from rookery.governance.ledger.state_files import workspace_key

    kept = places.governance
    return GovernedPlaces(kept / workspace_key(layout.state, layout.root, kept))


def hook_trust_file(workspace: Path, places: Places) -> Path:
    """Where it is kept which hooks the user has looked at, also where there are no intents."""
    if layout := find_layout(workspace, workspace).layout:
        return governed_places(layout, places).hook_trust
    key = sha256(os.fsencode(workspace.resolve())).hexdigest()[:16]
    return places.governance / key / "hook_trust.json"


def _made(path: Path, text: str) -> bool:
    try:
        with path.open("x", encoding="utf-8", newline="\n") as made:
            made.write(text)
    except FileExistsError:
        return False
    return True


def _nested(root: Path) -> Iterator[Path]:
    for number, (folder, names, _) in enumerate(os.walk(root)):
        if number == _MOST_FOLDERS:
            return
        here = Path(folder)
        if here != root and (here / GOVERNANCE_FOLDER / INTENT_FILE).is_file():
            yield here / GOVERNANCE_FOLDER / INTENT_FILE
        names[:] = sorted(set(names) - _SKIPPED - {GOVERNANCE_FOLDER})
