"""An action a tool wants to perform, the permit for it, and its outcome.

A permit covers exactly what the action names. Files and processes refuse to act without one.
"""

import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import IntEnum, StrEnum
from functools import cached_property
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct, field

from rookery.core.asks import AskKind
from rookery.core.blocks import Image
from rookery.core.facts import AgentResult, AgentTask, Change, Ending, Seen, Spent

Errors: TypeAlias = Literal["kept", "with output", "dropped"]
When: TypeAlias = Literal["always", "succeeded", "failed"]
Output: TypeAlias = Literal["kept", "dropped"]


class PlainCommand(Struct, frozen=True):
    """One program and its arguments. `errors` says where its standard error goes, `output` what
    becomes of the rest. It runs in `folder`, seen from where the line runs. `patterns` are those
    of file names that a shell would put in for words, by the places of these. `source` is the
    file that is its standard input, if it names one."""

    words: tuple[str, ...]
    errors: Errors = "kept"
    output: Output = "kept"
    folder: str = ""
    patterns: tuple[tuple[int, str], ...] = ()
    source: str = ""


class Pipeline(Struct, frozen=True):
    """Commands whose output is each the next one's input; `when` it is run, by how the pipeline
    before it ended."""

    commands: tuple[PlainCommand, ...]
    when: When = "always"


Plain: TypeAlias = tuple[Pipeline, ...]


def program_name(said: str) -> str:
    """A program's name whatever folder and letter case it was called by."""
    name = said.rstrip("/").rpartition("/")[2].lower()
    return name.removesuffix(".exe")


class Deed(StrEnum):
    READ = "read"
    WRITE = "write"
    DELETE = "delete"


class Target(Struct, frozen=True):
    """A file or folder that a command names, and what it would do to it.

    `path` is as permits know it: relative to the workspace, or absolute outside it. A `reach`
    says how much that is, such as "214 files below build/". It is `deep` if what is below a
    folder is read as well.
    """

    deed: Deed
    path: str
    outside: bool = False
    reach: str = ""
    deep: bool = False


class GitUse(StrEnum):
    """What a command line has to do with git's own folder."""

    NONE = "none"
    """It does not run git, or only to read."""
    PART = "part"
    """It runs git, and other programs that may change files too."""
    ONLY = "only"
    """Git is the only one of its programs that may change files."""


class GitShown(IntEnum):
    """Which files a git command may show besides those that it names as files."""

    NOTHING = 0
    NAMED = 1
    """Those below the paths that it names."""
    ANYTHING = 2
    """Any that git has, now or in an old commit."""


class Judgement(Struct, frozen=True, kw_only=True):
    """`commands` are the words of every simple command the line would run, at any depth.

    `why_not` is why it is not completely understood; empty if it is. Then `plain` is what is
    run instead of the text, if it needs no shell at all and only reads what it may. `spelled`
    is the same for a line that only a rule of the user's can allow. `dangers` are the reasons for
    asking whatever the settings say. `notes` tell a person what it would do. `too_deep` means
    that there may be commands which are not among `commands`. `needs_keys` if all of them are
    among those that run outside the sandbox. `redefines` if `git` may be another program: the line
    sets such variables or functions, or `PATH` has another one first. `redirects` if the shell
    itself writes files. `shown` says for each of the commands what git may print by it, and
    `hosts` are those that programs of the network name, as `host:port`.
    """

    commands: tuple[tuple[str, ...], ...] = ()
    line: tuple[str, str] | None = None
    """The command that was judged and the folder it would run in: it is of no other."""
    written: Plain | None = None
    """The line as it was written, if it is so plain that no shell is needed to read it."""
    shown: tuple[GitShown, ...] = ()
    plain: Plain | None = None
    spelled: Plain | None = None
    targets: tuple[Target, ...] = ()
    network: bool = False
    why_not: str = ""
    dangers: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    too_deep: bool = False
    needs_keys: bool = False
    redefines: bool = False
    redirects: bool = False
    hosts: tuple[str, ...] = ()
    git: GitUse = GitUse.NONE
    keeps_references: bool = True
    """Git has no part in it if a branch, a tag or a stash is gone afterwards."""
    only_moves_files: bool = False
    """Every program of the line is git, or copies, moves or unpacks files. The approval then covers
    everything the line does."""
    meant_to_read: bool = False
    """All its programs only read, by what is known of them. Git may still run programs that the
    folder names, so this allows nothing."""

    @property
    def only_reads(self) -> bool:
        """It is known to change nothing here or elsewhere."""
        return not (self.why_not or self.network or self.dangers) and all(
            target.deed is Deed.READ for target in self.targets
        )


class Outcome(Struct, frozen=True, kw_only=True):
    """The result of a performed action. The model reads `text`."""

    text: str
    ending: Ending = Ending.DONE
    images: tuple[Image, ...] = ()
    exit_code: int | None = None
    seen: tuple[Seen, ...] = ()
    """The files that this shows to the model."""
    spent: Spent | None = None
    """Usage of the child task that did the work."""
    refusal: str = ""
    """Code of the governance rule that refused the call."""
    would_change: bool = False
    """Whether a refused call might have changed something."""
    blocked: tuple[str, ...] = ()
    """Hosts it was blocked from, as `host:port`."""
    agents: tuple[AgentResult, ...] = ()
    """How the agents ended that did the work."""
    halts: bool = False
    """Whether a hook stops the task after this call."""


class Action(Struct, frozen=True, kw_only=True, dict=True):
    """What a tool wants to do. Nothing changes until `perform` is awaited.

    `reads`, `changes`, `command` and `external` are all it may touch: the permit covers exactly
    those. `judgement` is the analysis of the command. `payload` is shown to clients beside title,
    diff and `notes`. `whole` names files that are replaced regardless of their content. `ordinary`
    names protected files that this kind of change may touch without a question.
    """

    title: str
    perform: Callable[["Permit"], Awaitable[Outcome]]
    reads: Sequence[str] = ()
    changes: Sequence[Change] = ()
    whole: Sequence[str] = ()
    searched: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Text that an edit replaces, by file. Each piece occurs exactly once, and the edit changes
    nothing else. Files edited in another way are not listed."""
    ordinary: Sequence[str] = ()
    command: str = ""
    cwd: str = ""
    template: str = ""
    """The setting that the command was made from; "always" allows it for all files."""
    where: str = ""
    """What a command is confined to, as one line for the approval question."""
    judgement: Judgement | None = None
    external: str = ""
    spares_files: bool = False
    """Whether it cannot change files of the workspace."""
    ask_as: AskKind = AskKind.TOOL
    """The kind of question to ask, unless it is a command."""
    child: str = ""
    """The sub-task that will do the work; its actions are approved there."""
    agents: Sequence[AgentTask] = ()
    """The agents that will do the work side by side, each like a sub-task."""
    mode: str = ""
    """The mode to switch the task to."""
    diff: str = ""
    notes: Sequence[str] = ()
    payload: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        line = self.judgement.line if self.judgement else None
        if line not in (None, (self.command, self.cwd)):
            raise ValueError("The command is not the one that was judged.")

    @property
    def changes_things(self) -> bool:
        return bool(self.changes or self.command or self.external)

    @property
    def may_change_files(self) -> bool:
        """True for every command line that needs a shell: it may do more than the analysis
        shows."""
        judged = self.judgement
        only_reads = judged is not None and judged.plain is not None and judged.only_reads
        return self.changes_things and not (only_reads or self.spares_files)

    @property
    def is_read_only(self) -> bool:
        """Whether it changes nothing, neither outside nor in the task."""
        return not (self.changes_things or self.delegates or self.mode)

    @property
    def delegates(self) -> bool:
        return bool(self.child or self.agents)

    @property
    def ask(self) -> AskKind:
        return AskKind.COMMAND if self.command else self.ask_as

    @cached_property
    def digest(self) -> str:
        """Hash of everything the action may touch; an approval is bound to it. The id of a child
        is left out because it is new for every attempt: after a restart the same question is
        asked again."""
        scope = (
            self.title,
            list(self.reads),
            list(self.changes),
            self.command,
            self.cwd,
            self.where,
            self.external,
            "new" if self.delegates else "",
            self.mode,
            self.diff,
            list(self.notes),
        )
        return hashlib.sha256(msgspec.json.encode(scope)).hexdigest()


class Permit(Struct, frozen=True):
    """Permission for one action. Only the gate makes permits. Files and processes refuse to act
    without one, or with one for another action."""

    digest: str
    reads: frozenset[str] = frozenset()
    changes: frozenset[Change] = frozenset()
    command: str = ""
    cwd: str = ""
    plain: Plain | None = None
    """What to run without a shell, if the command was understood completely."""
    confined: bool = True
    """Whether the command runs in the sandbox."""
    writable: frozenset[str] | None = None
    """The only paths of the workspace that the command may write to; None for all."""
    git: GitUse = GitUse.NONE
    """Whether the command may write to git's own folders."""
    hosts: frozenset[str] = frozenset()
    """Hosts that the command may reach besides the default ones."""
    offline: bool = False
    """Whether the command has no network at all."""
    withheld: Callable[[str], bool] | None = None
    """Whether listings and searches leave out a file of the workspace."""
    by_hand: bool = False
    """Whether a person approved exactly this action."""
    named: frozenset[str] = frozenset()
    """Paths that the command line is known to write or delete."""
