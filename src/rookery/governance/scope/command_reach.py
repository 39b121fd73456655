"""How far a command line reaches into the files, as somebody needs to know who judges by scope.

It only reads; or every file it changes is known; or it may change anything. The last is the
answer wherever there is a doubt: what an editor writes, where a download lands, what a link that
is made leads to. Targets that are known are told even then.
"""

import re
from collections.abc import Sequence
from enum import StrEnum

from msgspec import Struct

from rookery.commands.wrappers import program_name
from rookery.core.command_lines import Deed, Judgement, plain
from rookery.governance.scope.scope_verdict import Op

MOST_COMMANDS = 500
"""Of a line with more of them, not all were looked at."""

_OPS = {Deed.WRITE: Op.MODIFY, Deed.DELETE: Op.DELETE}
_WRITES_AS_IT_IS_TOLD = {
    **dict.fromkeys(("vi", "vim", "nano", "ed", "ex"), "is an editor"),
    "ln": "makes a link",
    "mknod": "makes a device",
}
_COPIERS = {"cp", "install"}
_RECURSIVE = re.compile(r"-[A-Za-z]*[rRaDd][A-Za-z]*|--(rec|arc|dir)[a-z-]*")
_DELETERS = {"rm", "rmdir", "unlink", "shred", "srm", "trash"}
_WORDS = re.compile(r"[^\s:,;]+")


class Kind(StrEnum):
    READ_ONLY = "read_only"
    BOUNDED = "bounded"
    UNBOUNDED = "unbounded"


class ReachTarget(Struct, frozen=True):
    """A file or folder that is changed. A folder stands for all that is in it. `path` is as
    permits know it: relative to the workspace, or absolute outside of it."""

    path: str
    op: Op
    outside: bool = False


class Reach(Struct, frozen=True, kw_only=True):
    """`why` says what is not known of a line that may change anything."""

    kind: Kind
    targets: tuple[ReachTarget, ...] = ()
    why: str = ""


def reach(judgement: Judgement) -> Reach:
    targets = _targets(judgement)
    if why := _unknown(judgement, targets):
        return Reach(kind=Kind.UNBOUNDED, targets=targets, why=why)
    return Reach(kind=Kind.BOUNDED if targets else Kind.READ_ONLY, targets=targets)


def all_commands_known(command: str, judgement: Judgement) -> bool:
    """Whether rules see every command of the line: then they can allow it, also if nobody knows
    what one of them does. What a command in it runs by itself counts as that command's deed."""
    return not judgement.too_deep and (not judgement.why_not or plain(command) is not None)


def _targets(judgement: Judgement) -> tuple[ReachTarget, ...]:
    """What is moved away is told as a rename, if nothing in the line deletes."""
    programs = {program_name(words[0]) for words in judgement.commands if words}
    moves = "mv" in programs and not programs & _DELETERS
    ops = {**_OPS, Deed.DELETE: Op.RENAME} if moves else _OPS
    found = (
        ReachTarget(each.path, ops[each.deed], each.outside)
        for each in judgement.targets
        if each.deed in ops
    )
    return tuple(dict.fromkeys(found))


def _unknown(judgement: Judgement, targets: Sequence[ReachTarget]) -> str:
    """Why there may be more targets than those; empty if there are not."""
    if judgement.why_not:
        return judgement.why_not
    if judgement.too_deep or len(judgement.commands) > MOST_COMMANDS:
        return "it has more commands than can be looked at"
    if judgement.network:
        return "it uses the network"
    told = {each.path for each in targets}
    for reason in judgement.grave:
        if not told.intersection(_WORDS.findall(reason)):
            return f"it {reason}"
    return next(filter(None, map(_as_told, judgement.commands)), "")


def _as_told(words: Sequence[str]) -> str:
    if not words:
        return ""
    name = program_name(words[0])
    if what := _WRITES_AS_IT_IS_TOLD.get(name):
        return f"{name} {what}"
    if name in _COPIERS and any(_RECURSIVE.fullmatch(word) for word in words[1:]):
        return f"{name} copies whole folders"
    return ""
