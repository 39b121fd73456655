"""Starts permitted commands: parsed or by a shell, in the sandbox or outside it."""

import os
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Protocol

import anyio.to_thread
from msgspec import Struct
from msgspec.structs import replace

from rookery.core.asks import Ruling
from rookery.core.blocks import ToolCall
from rookery.core.protected_paths import IGNORE_FILES, OF_BUILDS, protected
from rookery.core.text.characters import folded, folded_names
from rookery.engine.ports.actions import Action, GitUse, Permit, Plain, PlainCommand
from rookery.engine.ports.hooks import Hook
from rookery.engine.ports.workspace import EntryFilter, Launch, WayOut, check_not_narrowed
from rookery.platform import plain_runner
from rookery.platform.git_folders import ObeyedByGit
from rookery.platform.git_index import GitIndexes
from rookery.platform.own_programs import git_hardening, hardened, is_git, own_script, sub_command
from rookery.platform.paths import within
from rookery.platform.wardens import INTERPRETER
from rookery.sandbox.bubblewrap import SharedNetwork
from rookery.sandbox.confinement import NEVER_WRITABLE
from rookery.sandbox.sandbox import Sandbox

MOST_LOOKED_AT = 2_000
"""Entries that are searched for protected files, from the top of the workspace. Deeper ones are
restored after the command."""
MOST_SEARCHED = 50_000
"""Entries that are searched for ignored files. More, because reading them cannot be undone."""
MOST_MASKED = 500
"""Mounts for ignored files and their parent folders. The time grows with the square of their
number; this many take about half a second."""
_NEVER_WRITABLE = frozenset(map(folded, NEVER_WRITABLE))
_WITHOUT_PROTECTED = {"node_modules", "__pycache__"}

RUNNER = Path(plain_runner.__file__)


class _SpecialFiles(Struct, frozen=True):
    """Protected and ignored files that exist; a folder stands for its content. `whole`: no
    ignored file is missing."""

    protected: list[str]
    ignored: list[str]
    whole: bool


class SandboxedFolder(Protocol):
    """The workspace, the files that git obeys in it, and those hidden from the agent."""

    @property
    def root(self) -> Path: ...

    @property
    def obeyed_by_git(self) -> ObeyedByGit: ...

    def ignore_files(self) -> Sequence[str]: ...

    def hiding(self, top: str, withheld: Callable[[str], bool] | None) -> EntryFilter: ...


class Network(Protocol):
    def open(self, folder: str, allowed: Collection[str], inside: SharedNetwork | None) -> WayOut:
        """Open a way to the known hosts and those in `allowed`. `inside` is the shared network
        of commands, if there is one."""
        ...


class SandboxLauncher:
    def __init__(
        self,
        boundaries: SandboxedFolder,
        sandbox: Sandbox,
        repositories: Callable[[], Collection[str]] = lambda: (),
        network: Network | None = None,
    ) -> None:
        """`repositories` are the known ones in the workspace. Without a `network`, commands that
        may reach known hosts only reach none."""
        self._repositories = repositories
        self._network = network
        self._indexes = GitIndexes(str(boundaries.root))
        self._boundaries = boundaries
        self._root = boundaries.root
        self._sandbox = sandbox
        self._masks_all: bool | None = None
        """Whether all ignored files were masked the last time; None if unknown."""

    def __call__(self, shell_argv: Sequence[str], permit: Permit, folder: Path) -> Launch:
        words = list(shell_argv)
        if permit.plain:
            words = plain_argv(permit.plain, root=str(self._root))
        if not permit.confined:
            check_not_narrowed(permit.writable)
            return Launch(tuple(words), {})
        found = self._special_files(permit.withheld)
        obeyed = filter(self._exists, self._boundaries.obeyed_by_git.places())
        shielded = dict.fromkeys((*found.protected, *obeyed, *self._repositories()))
        way = self._way_out(permit)
        try:
            launch = self._sandbox.launch(
                words,
                cwd=str(folder),
                protected=[
                    path
                    for path in shielded
                    if not (self._may_git_change(path, permit) or _is_approved(path, permit))
                ],
                ignored=found.ignored,
                writable=permit.writable,
                git=permit.git is not GitUse.NONE,
                way=way,
            )
        except BaseException:
            if way:
                way.close()
            raise
        return replace(launch, way=way)

    def _exists(self, path: str) -> bool:
        return os.path.lexists(self._root / path)

    def _way_out(self, permit: Permit) -> WayOut | None:
        if self._network is None or permit.offline or not self._sandbox.proxied:
            return None
        sandbox = self._sandbox
        return self._network.open(sandbox.way_folder, permit.hosts, sandbox.shared_network)

    def _may_git_change(self, path: str, permit: Permit) -> bool:
        """Whether git may change the file. A mount would make a checkout fail halfway; what
        differs from git's version afterwards is restored."""
        if permit.git is GitUse.NONE or permit.writable is not None:
            return False
        if _NEVER_WRITABLE.intersection(folded_names(path)):
            return False
        tracked = self._indexes.tracked_in("")
        return path in tracked or bool(tracked.names_in(path))

    def describe(self, *, confined: bool) -> str:
        """One line that says where a command runs, for approval questions."""
        if not confined:
            return "outside the sandbox, with your keys and the network"
        state = self._sandbox.state
        if state.kind == "none" or not self._boundaries.ignore_files():
            return state.line
        if state.kind == "landlock":
            return f"{state.line}; ignored files can be read"
        if self._masks_all is None:
            self._special_files()
        return state.line if self._masks_all else f"{state.line}; some ignored files can be read"

    def _special_files(self, withheld: Callable[[str], bool] | None = None) -> _SpecialFiles:
        hiding = self._boundaries.hiding(str(self._root), withheld)
        thorough = withheld is not None or bool(self._boundaries.ignore_files())
        found = _special_files(self._root, hiding, thorough=thorough)
        self._masks_all = found.whole
        return found


def _is_approved(path: str, permit: Permit) -> bool:
    """Whether a person approved a command that names the file, or one in it, as changed."""
    if not permit.by_hand or permit.writable is not None:
        return False
    if _NEVER_WRITABLE.intersection(folded_names(path)):
        return False
    return any(within(named, path) for named in permit.named)


def _special_files(root: Path, hiding: EntryFilter, *, thorough: bool) -> _SpecialFiles:
    """Find protected files, and if `thorough` ignored ones in the whole workspace. Ignore files
    are only protected: to git, an unreadable one would look changed."""
    shielded: list[str] = []
    hidden: list[str] = []
    leading: set[str] = set()
    looked_at = searched = 0
    waiting = deque([("", True)])
    while waiting and searched < (MOST_SEARCHED if thorough else MOST_LOOKED_AT):
        folder, shielding = waiting.popleft()
        for entry in _entries(root / folder):
            searched += 1
            looked_at += shielding
            path = f"{folder}/{entry.name}" if folder else entry.name
            is_folder = entry.is_dir(follow_symlinks=False)
            if folded(path) not in IGNORE_FILES and hiding.hides(path, is_folder=is_folder):
                leading.update(map(str, PurePosixPath(path).parents))
                if len(hidden) + len(leading) >= MOST_MASKED:
                    return _SpecialFiles(shielded, hidden, whole=False)
                hidden.append(path)
                continue
            shield = shielding and looked_at <= MOST_LOOKED_AT and _is_shielded(path)
            if shield:
                shielded.append(path)
            inner = shielding and not shield and entry.name not in _WITHOUT_PROTECTED
            if is_folder and entry.name != ".git" and (inner or thorough):
                waiting.append((path, inner))
    return _SpecialFiles(shielded, hidden, whole=not (thorough and waiting))


def _is_shielded(path: str) -> bool:
    why = protected(path, new=False)
    return bool(why) and why not in OF_BUILDS and path != ".git"


OPEN_NETWORK = (
    "Commands can reach every host, because no network namespace can be made. Commands "
    "that name an unknown host need approval."
)


class NoSandboxNotice(Hook):
    """A hook that reports once, before the first command, what the sandbox does not confine."""

    def __init__(
        self, sandbox: Sandbox, report: Callable[[str], None], problems: Sequence[str] = ()
    ) -> None:
        """`problems` are sentences about sandbox settings, reported at the same time."""
        self._sandbox = sandbox
        self._report = report
        self._problems = problems
        self._reported = False

    async def before(self, call: ToolCall, action: Action) -> Ruling:
        if action.command and not self._reported:
            self._reported = True
            for line in await anyio.to_thread.run_sync(self._lines):
                self._report(line)
        return Ruling()

    def _lines(self) -> list[str]:
        state = self._sandbox.state
        lines = [state.line] if state.kind == "none" else []
        lines += [OPEN_NETWORK] if self._sandbox.open_to_all else []
        return [*lines, *self._problems]


def _entries(folder: Path) -> list["os.DirEntry[str]"]:
    try:
        with os.scandir(folder) as scan:
            return list(scan)
    except OSError:
        return []  # unreadable for commands too


def plain_argv(plain: Plain, *, root: str = "") -> list[str]:
    """The argv that runs a plain line. Each command must start with an absolute program path.

    Git is run with `git_hardening` for the workspace `root`.
    """
    variables, options = git_hardening(root)
    words = [*_with_length([f"{name}={text}" for name, text in variables.items()])]
    for pipeline in plain:
        words += [pipeline.when, str(len(pipeline.commands))]
        for command in pipeline.commands:
            words += [command.errors, command.output, command.folder, command.source]
            words += _words(command, options)
    return [INTERPRETER, "-I", "-S", own_script(RUNNER), *words]


def _words(command: PlainCommand, options: Sequence[str]) -> list[str]:
    """The number of words before git's sub-command (0 for other programs), then the words."""
    program = command.words[0]
    if not program.startswith("/"):
        raise ValueError(f"{program!r} is not the path of a program.")
    if not is_git(program):
        return ["0", *_with_length(command.words)]
    words = hardened(command.words, options)
    return [str(sub_command(words)), *_with_length(words)]


def _with_length(words: Sequence[str]) -> Iterator[str]:
    yield str(len(words))
    yield from words
