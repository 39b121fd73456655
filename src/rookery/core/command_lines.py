"""Command lines as values: what a plain one runs, and what is known of any before it runs."""

from enum import IntEnum, StrEnum
from typing import Literal, TypeAlias

from msgspec import Struct

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
    """Every program of the line is git, or one that copies, moves or unpacks files: then whoever
    approved it has seen what it does."""
    meant_to_read: bool = False
    """All its programs only read, by what is known of them. Git may still run programs that the
    folder names, so this allows nothing."""

    @property
    def only_reads(self) -> bool:
        """It is known to change nothing here or elsewhere."""
        return not (self.why_not or self.network or self.dangers) and all(
            target.deed is Deed.READ for target in self.targets
        )
