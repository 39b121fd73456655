"""What is known of a command line before it runs."""

from enum import StrEnum

from msgspec import Struct

from rookery.core.plain_commands import Plain


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


class Judgement(Struct, frozen=True, kw_only=True):
    """`commands` are the words of every simple command the line would run, at any depth.

    `why_not` is why it is not completely understood; empty if it is. Then `plain` is what is
    run instead of the text, if it needs no shell at all and only reads what it may. `spelled`
    is the same for a line that only a rule of the user's can allow. `grave` are the reasons for
    asking whatever the settings say. `notes` tell a person what it would do. `too_deep` means
    that there may be commands which are not among `commands`. `needs_keys` if all of them are
    among those that run outside the sandbox. `redefines` if `git` may be another program: the line
    sets such variables or functions, or `PATH` has another one first. `redirects` if the shell
    itself writes files.
    """

    commands: tuple[tuple[str, ...], ...] = ()
    plain: Plain | None = None
    spelled: Plain | None = None
    targets: tuple[Target, ...] = ()
    network: bool = False
    why_not: str = ""
    grave: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    too_deep: bool = False
    needs_keys: bool = False
    redefines: bool = False
    redirects: bool = False

    @property
    def only_reads(self) -> bool:
        """It is known to change nothing here or elsewhere."""
        return not (self.why_not or self.network or self.grave) and all(
            target.deed is Deed.READ for target in self.targets
        )
