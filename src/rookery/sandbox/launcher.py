"""How a permitted command is started: as its parsed words or by a shell, confined or not."""

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
from rookery.core.command_lines import GitUse, Plain, PlainCommand
from rookery.core.protected_paths import IGNORE_FILES, OF_BUILDS, protected
from rookery.core.text.characters import folded, folded_names
from rookery.engine.ports.actions import Action, Outcome, Permit
from rookery.engine.ports.workspace import EntryFilter, Launch, WayOut, check_not_narrowed
from rookery.platform.git_index import GitIndexes
from rookery.platform.git_programs import ObeyedByGit
from rookery.platform.git_runner import git_hardening, hardened, is_git, sub_command
from rookery.platform.paths import within
from rookery.sandbox.confinement import NEVER_WRITABLE
from rookery.sandbox.layers import INTERPRETER
from rookery.sandbox.sandbox import Sandbox
from rookery.sandbox.shared_network import SharedNetwork

MOST_LOOKED_AT = 2_000
"""Entries of the workspace among which protected ones are looked for, from the top. What lies
deeper is put back after the command."""
MOST_SEARCHED = 50_000
"""Entries among which ignored ones are looked for, for what was read cannot be put back."""
MOST_MASKED = 500
"""Mounts for ignored files and the folders that lead to them; twice as many take four times as
long, and these take about half a second."""
MOST_NAMED = 5
_NEVER_LEFT_TO_GIT = frozenset(map(folded, NEVER_WRITABLE))
_WITHOUT_PROTECTED = {"node_modules", "__pycache__"}

RUNNER = Path(__file__).parents[1] / "platform" / "plain_runner.py"


class _Special(Struct, frozen=True):
    """What there is of protected and of ignored files; of a folder only itself. It is whole if
    no ignored file is left out."""

    protected: list[str]
    ignored: list[str]
    whole: bool


class SandboxedFolder(Protocol):
    """The workspace, what git obeys in it, and what is kept from the agent."""

    @property
    def root(self) -> Path: ...

    @property
    def obeyed_by_git(self) -> ObeyedByGit: ...

    def hiding(self, top: str, withheld: Callable[[str], bool] | None) -> EntryFilter: ...


class Network(Protocol):
    def open(self, folder: str, allowed: Collection[str], inside: SharedNetwork | None) -> WayOut:
        """A way to the hosts that are known, and to those that are allowed besides. `inside` is
        the network that commands share, if they do."""
        ...


class Launching:
    def __init__(
        self,
        boundaries: SandboxedFolder,
        sandbox: Sandbox,
        repositories: Callable[[], Collection[str]] = lambda: (),
        network: Network | None = None,
    ) -> None:
        """`repositories` are the ones that are known, wherever they lie in the workspace. Without a
        `network` commands reach none where only known hosts are to be reached."""
        self._repositories = repositories
        self._network = network
        self._indexes = GitIndexes(str(boundaries.root))
        self._boundaries = boundaries
        self._root = boundaries.root
        self._sandbox = sandbox
        self._masks_all: bool | None = None
        """Whether all ignored files were masked the last time, as far as that is known."""

    def __call__(self, shell_argv: Sequence[str], permit: Permit, folder: Path) -> Launch:
        words = list(shell_argv)
        if permit.plain:
            words = plain_argv(permit.plain, root=str(self._root))
        if not permit.confined:
            check_not_narrowed(permit.writable)
            return Launch(tuple(words), {})
        found = self._special_files(permit.withheld)
        obeyed = filter(self._is_there, self._boundaries.obeyed_by_git.places())
        shielded = dict.fromkeys((*found.protected, *obeyed, *self._repositories()))
        way = self._way_out(permit)
        try:
            launch = self._sandbox.launch(
                words,
                cwd=str(folder),
                protected=[
                    path
                    for path in shielded
                    if not (self._left_to_git(path, permit) or _is_approved(path, permit))
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

    def _is_there(self, path: str) -> bool:
        return os.path.lexists(self._root / path)

    def _way_out(self, permit: Permit) -> WayOut | None:
        if self._network is None or not self._sandbox.proxied:
            return None
        sandbox = self._sandbox
        return self._network.open(sandbox.way_folder, permit.hosts, sandbox.shared_network)

    def _left_to_git(self, path: str, permit: Permit) -> bool:
        """Whether git may change it: a mount in its way would leave a checkout half done. What is
        not as git has it afterwards is put back."""
        if permit.git is GitUse.NONE or permit.writable is not None:
            return False
        if _NEVER_LEFT_TO_GIT.intersection(folded_names(path)):
            return False
        tracked = self._indexes.tracked_in("")
        return path in tracked or bool(tracked.names_in(path))

    def describe(self, *, confined: bool, writable: Collection[str] | None = None) -> str:
        """Where a command runs, in one line for whoever is asked."""
        if not confined:
            return "outside the sandbox, with your keys and the network"
        line = self._describe_sandbox()
        return line if writable is None else f"{line}; of the workspace only {_named(writable)}"

    def _describe_sandbox(self) -> str:
        state = self._sandbox.state
        if state.kind == "none" or not _has_rules(self._hiding()):
            return state.line
        if state.kind == "landlock":
            return f"{state.line}; ignored files can be read"
        if self._masks_all is None:
            self._special_files()
        return state.line if self._masks_all else f"{state.line}; some ignored files can be read"

    def _hiding(self, withheld: Callable[[str], bool] | None = None) -> EntryFilter:
        return self._boundaries.hiding(str(self._root), withheld)

    def _special_files(self, withheld: Callable[[str], bool] | None = None) -> _Special:
        hiding = self._hiding(withheld)
        thorough = withheld is not None or _has_rules(hiding)
        found = _special_files(self._root, hiding, thorough=thorough)
        self._masks_all = found.whole
        return found


def _is_approved(path: str, permit: Permit) -> bool:
    """Whether a person said yes to a command whose line names it, or a file in it, as changed."""
    if not permit.by_hand or permit.writable is not None:
        return False
    if _NEVER_LEFT_TO_GIT.intersection(folded_names(path)):
        return False
    return any(within(named, path) for named in permit.named)


def _named(writable: Collection[str]) -> str:
    """The part of the workspace that can be written, in a few words."""
    names = sorted(path or "." for path in writable)
    more = [f"{len(names) - MOST_NAMED} more"] if len(names) > MOST_NAMED else []
    return ", ".join([*names[:MOST_NAMED], *more]) or "nothing"


def _has_rules(hiding: EntryFilter) -> bool:
    """As soon as there is one, the files they are in are kept from the agent too."""
    return hiding.hides(IGNORE_FILES[0], is_folder=False)


def _special_files(root: Path, hiding: EntryFilter, *, thorough: bool) -> _Special:
    """Ignored files are looked for everywhere if it is thorough. The files with the rules are
    only protected: git would take one that cannot be read for a change."""
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
                    return _Special(shielded, hidden, whole=False)
                hidden.append(path)
                continue
            shield = shielding and looked_at <= MOST_LOOKED_AT and _is_shielded(path)
            if shield:
                shielded.append(path)
            inner = shielding and not shield and entry.name not in _WITHOUT_PROTECTED
            if is_folder and entry.name != ".git" and (inner or thorough):
                waiting.append((path, inner))
    return _Special(shielded, hidden, whole=not (thorough and waiting))


def _is_shielded(path: str) -> bool:
    why = protected(path, new=False)
    return bool(why) and why not in OF_BUILDS and path != ".git"


OPEN_NETWORK = (
    "Commands can reach every host, because no network namespace can be made. Commands "
    "that name an unknown host need approval."
)


class NoSandboxNotice:
    """A hook that says once, before the first command, what does not confine it."""

    def __init__(
        self, sandbox: Sandbox, tell: Callable[[str], None], problems: Sequence[str] = ()
    ) -> None:
        """`problems` are sentences about settings of the sandbox, told at the same time."""
        self._sandbox = sandbox
        self._tell = tell
        self._problems = problems
        self._told = False

    async def before(self, call: ToolCall, action: Action) -> Ruling:
        if action.command and not self._told:
            self._told = True
            for line in await anyio.to_thread.run_sync(self._lines):
                self._tell(line)
        return Ruling()

    async def after(self, call: ToolCall, action: Action, outcome: Outcome) -> None:
        pass

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
        return []  # nobody can read it, and so nobody needs to be kept from it


def plain_argv(plain: Plain, *, root: str = "") -> list[str]:
    """The argv that runs it. Every command must begin with the absolute path of its program.

    Git among them is run with `git_hardening` for the workspace `root`.
    """
    variables, options = git_hardening(root)
    words = [*_counted([f"{name}={text}" for name, text in variables.items()])]
    for pipeline in plain:
        words += [pipeline.when, str(len(pipeline.commands))]
        for command in pipeline.commands:
            words += [command.errors, command.output, command.folder, command.source]
            words += _words(command, options)
    return [INTERPRETER, "-I", "-S", str(RUNNER), *words]


def _words(command: PlainCommand, options: Sequence[str]) -> list[str]:
    """How many words stand before git's sub-command (none for other programs), and all."""
    program = command.words[0]
    if not program.startswith("/"):
        raise ValueError(f"{program!r} is not the path of a program.")
    if not is_git(program):
        return ["0", *_counted(command.words)]
    words = hardened(command.words, options)
    return [str(sub_command(words)), *_counted(words)]


def _counted(words: Sequence[str]) -> Iterator[str]:
    yield str(len(words))
    yield from words
