"""What a tool is about to do, the permit to do it, and what became of it.

The permit covers exactly what the action names. Files and processes refuse whoever comes without
one.
"""

import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import msgspec
from msgspec import Struct, field

from rookery.core.asks import AskKind
from rookery.core.blocks import Image
from rookery.core.command_lines import GitUse, Judgement, Plain
from rookery.core.facts import Change, Ending, Seen, Spent


class Outcome(Struct, frozen=True, kw_only=True):
    """What became of an action that was performed. The model reads `text`."""

    text: str
    ending: Ending = Ending.DONE
    images: tuple[Image, ...] = ()
    exit_code: int | None = None
    seen: tuple[Seen, ...] = ()
    """The files the model is shown by this."""
    spent: Spent | None = None
    """What had been used when the child task that did it ended."""
    refusal: str = ""
    """The code of the rule of governance that refused the call."""
    would_change: bool = False
    """It was refused, and might have changed something."""
    blocked: tuple[str, ...] = ()
    """Hosts that it tried to reach and may not, as `host:port`."""
    halts: bool = False
    """A hook wants the task to stop after it."""


class Action(Struct, frozen=True, kw_only=True, dict=True):
    """What a tool is about to do. Nothing has changed until `perform` is awaited.

    `reads`, `changes`, `command` and `external` are all it may touch: the permit covers
    exactly those. `judgement` is what is known of the command. `payload` is what clients are
    shown of the call, beside title, diff and `notes`. `whole` names files that are replaced
    without regard to what is in them, `ordinary` files that are protected, but not against a
    change like this one.
    """

    title: str
    perform: Callable[["Permit"], Awaitable[Outcome]]
    reads: Sequence[str] = ()
    changes: Sequence[Change] = ()
    whole: Sequence[str] = ()
    searched: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The pieces of text that an edit replaces in a file. Each is in it once, as quoted, and the
    edit changes nothing else. Files that are edited in another way are not named."""
    ordinary: Sequence[str] = ()
    command: str = ""
    cwd: str = ""
    where: str = ""
    """What a command is confined to, in a line for whoever is asked."""
    judgement: Judgement | None = None
    external: str = ""
    spares_files: bool = False
    """What it does elsewhere, it cannot do to files here."""
    ask_as: AskKind = AskKind.TOOL
    """What kind of question it makes, unless it is a command."""
    child: str = ""
    """The task that is to do the work; what it does is asked about there."""
    mode: str = ""
    """The mode in which the task would go on."""
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
        """A line that needs a shell may do more than can be read from it."""
        judged = self.judgement
        only_reads = judged is not None and judged.plain is not None and judged.only_reads
        return self.changes_things and not (only_reads or self.spares_files)

    @property
    def only_looks(self) -> bool:
        """It changes nothing, and it changes nothing about how the task goes on."""
        return not (self.changes_things or self.child or self.mode)

    @property
    def ask(self) -> AskKind:
        return AskKind.COMMAND if self.command else self.ask_as

    @cached_property
    def digest(self) -> str:
        """Of everything the action may touch: what a yes is bound to. The id of a child is new
        for every attempt, and so is no part of it: after a restart the same is asked again."""
        scope = (
            self.title,
            list(self.reads),
            list(self.changes),
            self.command,
            self.cwd,
            self.where,
            self.external,
            "new" if self.child else "",
            self.mode,
            self.diff,
            list(self.notes),
        )
        return hashlib.sha256(msgspec.json.encode(scope)).hexdigest()


class Permit(Struct, frozen=True):
    """Leave to make one action happen. Only the gate makes permits; files and processes
    refuse whoever comes without one, or with one for something else.
    """

    digest: str
    reads: frozenset[str] = frozenset()
    changes: frozenset[Change] = frozenset()
    command: str = ""
    cwd: str = ""
    plain: Plain | None = None
    """What to run instead of giving the command to a shell: it was understood completely."""
    confined: bool = True
    """Whether the command stays in the sandbox."""
    writable: frozenset[str] | None = None
    """The only folders and files of the workspace that the command may write to; None: all."""
    git: GitUse = GitUse.NONE
    """Whether the command may write in git's own folders."""
    hosts: frozenset[str] = frozenset()
    """Hosts that the command may reach besides the known ones."""
    withheld: Callable[[str], bool] | None = None
    """Whether a file of the workspace is left out wherever folders are looked through."""
    by_hand: bool = False
    """Whether a person was asked about exactly this, and said yes."""
    named: frozenset[str] = frozenset()
    """What the command writes or deletes, as far as its line tells."""
