"""Whether one path may be changed under the active intent, and why not.

Two locations must be in scope: the path as named (parents resolved, last name as written) and the
real path behind it. This stops a symlink inside the scope that points outside, and the replacement
of a symlink that lies outside.
"""

import re
import unicodedata
from collections.abc import Callable, Sequence
from enum import StrEnum
from functools import partial
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
"""Characters that change the display order of others."""
_INVISIBLE = frozenset("\u200b\u200c\u200d\u2060\ufeff\u00ad\u180e")
_METADATA_FOLDERS = (".git", ".hg", ".jj", ".svn")
_ALWAYS_PROTECTED = {
    folded(GOVERNANCE_FOLDER): "it decides what an intent may do",
    folded(PROJECT_FOLDER): "it decides what the agent may do",
    **dict.fromkeys(map(folded, _METADATA_FOLDERS), "it belongs to version control"),
}
_DELETIONS = {"allow": Decision.NONE, "ask": Decision.ASK, "deny": Decision.DENY}
MOST_NAMED = 8
"""With more paths than this, the pattern covers their common folder."""
_SPECIAL_START = re.compile(r"[!~]|\\\\|[A-Za-z][A-Za-z0-9+.-]*:|\s*$")
_SPECIAL = re.compile(r"([\\*?\[\]{},])")


class Op(StrEnum):
    CREATE = "create"
    MODIFY = "modify"
    DELETE = "delete"
    RENAME = "rename"
    LINK = "link"


class Outside(StrEnum):
    """How a path leads out of the workspace."""

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
    """A resolved path. `named` and `real` are relative to the governance root if they lie below
    it; otherwise `governed` is False."""

    named: str
    real: str
    outside: Outside = Outside.NO
    governed: bool = True
    links: int = 1


class ScopeRules(Struct, frozen=True, kw_only=True):
    """The scope rules for one call. `protected` returns why a path may never be changed,
    `exempt` the `.intentignore` line for a path; `exempt_intent` is the line for the whole
    intent. All are empty if there is none."""

    patterns: tuple[str, ...]
    scope: Scope
    policy: Policy = Policy()
    protected: Callable[[str], str] = lambda path: ""
    exempt: Callable[[str], str] = lambda path: ""
    exempt_intent: str = ""


class PathFinding(Struct, frozen=True, kw_only=True):
    """The verdict on one path. `decision` is before the user is asked; NONE neither objects nor
    allows. `code` is the refusal code. Approval of a `once_only` finding is for this call only."""

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

    @property
    def is_outside(self) -> bool:
        return self.verdict not in (PathVerdict.IN_SCOPE, PathVerdict.IGNORED)


def path_fault(text: str) -> str:
    """Why a path is rejected before it is looked up; empty if it is not."""
    if "\0" in text:
        return "nul"
    if any(char in BIDIRECTIONAL or unicodedata.category(char) == "Cc" for char in text):
        return "control_char"
    if not text.strip():
        return "empty"
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        return "not_unicode"
    return "too_long" if size > LONGEST_PATH else ""


def reject_path(text: str, op: Op, reason: str) -> PathFinding:
    return PathFinding(
        path=text,
        op=op,
        verdict=PathVerdict.REJECTED,
        decision=Decision.DENY,
        code="REQ-015",
        reason=reason,
    )


def always_protected(path: str) -> str:
    """Why no intent can own the path; empty if one can."""
    found = (_ALWAYS_PROTECTED[each] for each in folded_names(path) if each in _ALWAYS_PROTECTED)
    return next(found, "")


def judge(location: Location, op: Op, rules: ScopeRules) -> PathFinding:
    """Judge a location. The first rule that applies decides."""
    named, real = location.named, location.real
    found = partial(PathFinding, path=named, op=op, real_path=real if real != named else "")
    asks = partial(found, decision=Decision.ASK, once_only=True)
    rejects = partial(found, verdict=PathVerdict.REJECTED, decision=Decision.DENY, code="REQ-015")
    if location.outside is Outside.WRITTEN:
        return asks(verdict=PathVerdict.OUTSIDE, code="REQ-001", reason="outside")
    if location.outside:
        return rejects(reason=str(location.outside))
    for path in dict.fromkeys((named, real)):
        if why := always_protected(path) or rules.protected(path):
            return asks(verdict=PathVerdict.PROTECTED, code="REQ-014", reason=why)
    if line := _exemption(location, rules):
        return found(verdict=PathVerdict.IGNORED, decision=Decision.NONE, matched=line)
    if not (location.governed and rules.scope.covers(named)):
        return found(
            verdict=PathVerdict.OUT_OF_SCOPE,
            decision=Decision[rules.policy.out_of_scope.upper()],
            code="REQ-001",
            reason="" if location.governed else "ungoverned",
            nearest=nearest(rules.patterns, named),
            matched=rules.scope.excluding_pattern(named),
        )
    if not rules.scope.covers(real):
        return rejects(reason="symlink_escape")
    decision, code, reason = _in_scope(location, op, rules)
    return found(
        verdict=PathVerdict.IN_SCOPE,
        decision=decision,
        code=code,
        reason=reason,
        matched=rules.scope.granting_pattern(named),
    )


def nearest(patterns: Sequence[str], path: str) -> str:
    """The granting pattern that shares the most folders with the path; empty without patterns."""
    granting = [text for text in patterns if not text.startswith("!")]
    return max(granting, key=lambda text: _shared_depth(text, path), default="")


def smallest_pattern(paths: Sequence[str]) -> str:
    """The narrowest pattern that covers all of the paths."""
    unique = list(dict.fromkeys(paths))
    if len(unique) == 1:
        return literal_pattern(unique[0])
    folders = _common_prefix([path.split("/")[:-1] for path in unique])
    rests = ["/".join(path.split("/")[len(folders) :]) for path in unique]
    start = "".join(f"{literal_pattern(each, first=not at)}/" for at, each in enumerate(folders))
    if len(unique) > MOST_NAMED:
        return f"{start}**"
    return f"{start}{{{','.join(literal_pattern(each, first=not folders) for each in rests)}}}"


def writable_prefixes(patterns: Sequence[str]) -> tuple[str, ...]:
    """The literal start of each granting pattern: a file or folder, or empty for the root. All
    paths that are granted lie below one of them."""
    granting = [scope_pattern(text) for text in patterns if not text.startswith("!")]
    found = ("/".join(literal_folder(variant)) for each in granting for variant in each.variants)
    return tuple(dict.fromkeys(found))


def literal_pattern(path: str, *, first: bool = True) -> str:
    """A pattern for exactly this path and what is below it. `first` if the pattern starts with
    it, so that its first characters must not be special."""
    spelled = _SPECIAL.sub(r"\\\1", path)
    return f"./{spelled}" if first and _SPECIAL_START.match(spelled) else spelled


def _exemption(location: Location, rules: ScopeRules) -> str:
    if rules.exempt_intent:
        return rules.exempt_intent
    return rules.exempt(location.named) if rules.exempt(location.real) else ""


def _in_scope(location: Location, op: Op, rules: ScopeRules) -> tuple[Decision, str, str]:
    """The decision on a path in scope, the refusal code and the reason."""
    decision = _DELETIONS[rules.policy.deletes]
    if op in (Op.DELETE, Op.RENAME) and decision is not Decision.NONE:
        return decision, "REQ-008", str(op)
    if doubt := _doubt(location):
        return Decision.ASK, "REQ-001", doubt
    return Decision.NONE, "", ""


def _doubt(location: Location) -> str:
    if location.links > 1:
        return "shared content"
    return "unseen characters" if _INVISIBLE.intersection(location.named + location.real) else ""


def _shared_depth(text: str, path: str) -> int:
    variants = scope_pattern(text).variants
    return max(len(_common_prefix([literal_folder(variant), split(path)])) for variant in variants)


def _common_prefix(rows: Sequence[Sequence[str]]) -> list[str]:
    """The longest common prefix."""
    columns = takewhile(lambda column: len(set(column)) == 1, zip(*rows, strict=False))
    return [column[0] for column in columns]
