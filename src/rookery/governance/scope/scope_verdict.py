"""Whether one path may be touched under the active intent, and what to say if not.

Two locations are judged: the one that was named, with the last name as it was written, and the
real one behind it. Requiring both closes two holes: a link inside the scope that points out of it,
and a link outside of it whose replacement would change a foreign folder's entry.
"""

import re
import unicodedata
from collections.abc import Callable, Sequence
from enum import StrEnum
from itertools import takewhile

from msgspec import Struct

from rookery import PROJECT_FOLDER
from rookery.core.asks import Decision
from rookery.core.modes import GOVERNANCE_FOLDER
from rookery.core.text.characters import folded, folded_names
from rookery.governance.intents.intent import Policy
from rookery.governance.scope.scope_patterns import Scope, literal_folder, scope_pattern, split

LONGEST_PATH = 4096
BIDIRECTIONAL = frozenset(
    "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
)
"""Characters that change the order in which others are shown."""
_UNSEEN = frozenset("\u200b\u200c\u200d\u2060\ufeff\u00ad\u180e")
_METADATA_FOLDERS = (".git", ".hg", ".jj", ".svn")
_ALWAYS_PROTECTED = {
    folded(GOVERNANCE_FOLDER): "it decides what an intent may do",
    folded(PROJECT_FOLDER): "it decides what the agent may do",
    **dict.fromkeys(map(folded, _METADATA_FOLDERS), "it belongs to version control"),
}
_DELETIONS = {"allow": Decision.NONE, "ask": Decision.ASK, "deny": Decision.DENY}
MOST_NAMED = 8
"""More paths than these are covered by their folder rather than one by one."""
_SIGN_AT_THE_START = re.compile(r"[!~]|\\\\|[A-Za-z][A-Za-z0-9+.-]*:|\s*$")
_MEANING = re.compile(r"([\\*?\[\]{},])")


class Op(StrEnum):
    CREATE = "create"
    MODIFY = "modify"
    DELETE = "delete"
    RENAME = "rename"
    COPY = "copy"
    LINK = "link"
    MODE = "mode"


class Outside(StrEnum):
    """How a path came to lie outside the workspace."""

    NO = ""
    TRAVERSAL = "traversal"
    LINK = "symlink_escape"
    WRITTEN = "outside"


class PathVerdict(StrEnum):
    IN_SCOPE = "in_scope"
    IGNORED = "ignored"
    OUT_OF_SCOPE = "out_of_scope"
    OUTSIDE = "outside"
    PROTECTED = "protected"
    REJECTED = "rejected"


class Location(Struct, frozen=True, kw_only=True):
    """A path found on disk: `named` and `real` are relative to the governance root where they lie
    below it. Without `governed` it is in a workspace that has no intents of its own."""

    named: str
    real: str
    outside: Outside = Outside.NO
    governed: bool = True
    links: int = 1


class ScopeRules(Struct, frozen=True, kw_only=True):
    """What holds for one call. `protected` says why a path may never be touched; `exempt` names the
    line of `.intentignore` that takes a path in; `exempt_intent` the one that does so for the whole
    intent. Each is empty if there is none."""

    patterns: tuple[str, ...]
    scope: Scope
    policy: Policy = Policy()
    protected: Callable[[str], str] = lambda path: ""
    exempt: Callable[[str], str] = lambda path: ""
    exempt_intent: str = ""


class PathFinding(Struct, frozen=True, kw_only=True):
    """The verdict on one path. `decision` is what follows from it before anybody was asked:
    NONE is no objection, and no leave either. `code` is what a refusal says. A yes to what is
    `once_only` covers this call and no more."""

    path: str
    op: Op
    verdict: PathVerdict
    decision: Decision
    code: str = ""
    reason: str = ""
    real_path: str = ""
    nearest: str = ""
    matched: str = ""
    once_only: bool = False


def path_fault(said: str) -> str:
    """Why a path is refused before it is looked for; empty if it is not."""
    if "\0" in said:
        return "nul"
    if any(sign in BIDIRECTIONAL or unicodedata.category(sign) == "Cc" for sign in said):
        return "control_char"
    if not said.strip():
        return "empty"
    try:
        size = len(said.encode())
    except UnicodeEncodeError:
        return "not_unicode"
    return "too_long" if size > LONGEST_PATH else ""


def rejected(said: str, op: Op, reason: str) -> PathFinding:
    return PathFinding(
        path=said,
        op=op,
        verdict=PathVerdict.REJECTED,
        decision=Decision.DENY,
        code="REQ-015",
        reason=reason,
    )


def always_protected(path: str) -> str:
    """Why no intent can ever own the path; empty if one can."""
    found = (_ALWAYS_PROTECTED[each] for each in folded_names(path) if each in _ALWAYS_PROTECTED)
    return next(found, "")


def judge(location: Location, op: Op, rules: ScopeRules) -> PathFinding:
    """The first rule that has something to say decides."""
    named, real = location.named, location.real
    if location.outside:
        return _outside(location, op)
    for path in dict.fromkeys((named, real)):
        if why := always_protected(path) or rules.protected(path):
            return _protected(location, op, why)
    if line := _exemption(location, rules):
        return _found(location, op, PathVerdict.IGNORED, Decision.NONE, matched=line)
    if location.governed and rules.scope.covers(named):
        if rules.scope.covers(real):
            return _in_scope(location, op, rules)
        return _escaped(location, op)
    return _out_of_scope(location, op, rules)


def judged(
    op: Op, path: str, *, destination: str = "", below: tuple[str, ...] = ()
) -> tuple[tuple[str, Op], ...]:
    """The paths an operation is judged by, and as what. `below` are the files of a folder."""
    match op:
        case Op.DELETE:
            return tuple((each, Op.DELETE) for each in below or (path,))
        case Op.RENAME:
            sources = tuple((each, Op.RENAME) for each in below or (path,))
            return (*sources, (destination, Op.CREATE))
        case Op.COPY:
            return ((destination, Op.CREATE),)
        case Op.LINK:
            return ((path, Op.LINK), (destination, Op.LINK))
        case _:
            return ((path, op),)


def nearest(patterns: Sequence[str], path: str) -> str:
    """The granting pattern that has the most folders in common with the path, the first if there
    are several; empty if there is none at all."""
    granting = [text for text in patterns if not text.startswith("!")]
    return max(granting, key=lambda text: _shared(text, path), default="")


def smallest_pattern(paths: Sequence[str]) -> str:
    """The narrowest pattern we can write that covers all of the paths."""
    unique = list(dict.fromkeys(paths))
    if len(unique) == 1:
        return literally(unique[0])
    folders = _common([path.split("/")[:-1] for path in unique])
    rests = ["/".join(path.split("/")[len(folders) :]) for path in unique]
    start = "".join(f"{literally(each, first=not at)}/" for at, each in enumerate(folders))
    if len(unique) > MOST_NAMED:
        return f"{start}**"
    return f"{start}{{{','.join(literally(each, first=not folders) for each in rests)}}}"


def writable_prefixes(patterns: Sequence[str]) -> tuple[str, ...]:
    """What each granting pattern begins with before anything in it varies: a file or a folder, or
    empty for the root. Nothing that any of them grants lies outside."""
    granting = [scope_pattern(text) for text in patterns if not text.startswith("!")]
    found = ("/".join(literal_folder(way)) for each in granting for way in each.ways)
    return tuple(dict.fromkeys(found))


def literally(path: str, *, first: bool = True) -> str:
    """A pattern for that path and nothing else but what is below it. What stands `first` must not
    be taken for a sign of its own."""
    spelled = _MEANING.sub(r"\\\1", path)
    return f"./{spelled}" if first and _SIGN_AT_THE_START.match(spelled) else spelled


def _outside(location: Location, op: Op) -> PathFinding:
    if location.outside is Outside.WRITTEN:
        return _found(
            location,
            op,
            PathVerdict.OUTSIDE,
            Decision.ASK,
            code="REQ-001",
            reason="outside",
            once_only=True,
        )
    return _found(
        location,
        op,
        PathVerdict.REJECTED,
        Decision.DENY,
        code="REQ-015",
        reason=str(location.outside),
    )


def _protected(location: Location, op: Op, why: str) -> PathFinding:
    return _found(
        location,
        op,
        PathVerdict.PROTECTED,
        Decision.ASK,
        code="REQ-014",
        reason=why,
        once_only=True,
    )


def _exemption(location: Location, rules: ScopeRules) -> str:
    if rules.exempt_intent:
        return rules.exempt_intent
    return rules.exempt(location.named) if rules.exempt(location.real) else ""


def _in_scope(location: Location, op: Op, rules: ScopeRules) -> PathFinding:
    matched = rules.scope.owner(location.named)
    decision, code, reason = Decision.NONE, "", ""
    if op in (Op.DELETE, Op.RENAME):
        decision = _DELETIONS[rules.policy.deletes]
        code, reason = ("REQ-008", str(op)) if decision else ("", "")
    if decision is Decision.NONE and (doubt := _doubt(location)):
        decision, code, reason = Decision.ASK, "REQ-001", doubt
    return _found(
        location, op, PathVerdict.IN_SCOPE, decision, code=code, reason=reason, matched=matched
    )


def _doubt(location: Location) -> str:
    if location.links > 1:
        return "shared content"
    return "unseen characters" if _UNSEEN.intersection(location.named + location.real) else ""


def _escaped(location: Location, op: Op) -> PathFinding:
    return _found(
        location, op, PathVerdict.REJECTED, Decision.DENY, code="REQ-015", reason="symlink_escape"
    )


def _out_of_scope(location: Location, op: Op, rules: ScopeRules) -> PathFinding:
    return _found(
        location,
        op,
        PathVerdict.OUT_OF_SCOPE,
        Decision[rules.policy.out_of_scope.upper()],
        code="REQ-001",
        reason="" if location.governed else "ungoverned",
        near=nearest(rules.patterns, location.named),
        matched=rules.scope.excluder(location.named),
    )


def _found(
    location: Location,
    op: Op,
    verdict: PathVerdict,
    decision: Decision,
    *,
    code: str = "",
    reason: str = "",
    near: str = "",
    matched: str = "",
    once_only: bool = False,
) -> PathFinding:
    return PathFinding(
        path=location.named,
        op=op,
        verdict=verdict,
        decision=decision,
        code=code,
        reason=reason,
        real_path=location.real if location.real != location.named else "",
        nearest=near,
        matched=matched,
        once_only=once_only,
    )


def _shared(text: str, path: str) -> int:
    ways = scope_pattern(text).ways
    return max(len(_common([literal_folder(way), split(path)])) for way in ways)


def _common(rows: Sequence[Sequence[str]]) -> list[str]:
    """What all of them begin with."""
    columns = takewhile(lambda column: len(set(column)) == 1, zip(*rows, strict=False))
    return [column[0] for column in columns]
