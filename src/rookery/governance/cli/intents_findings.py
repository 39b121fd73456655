"""Verdicts on paths, as a person and a program read them."""

from collections.abc import Sequence

from rookery.core.rulings import Decision
from rookery.governance.cli.intents_common import Desk, aligned, counted, now
from rookery.governance.intents.intent import Intent
from rookery.governance.scope.active_scope import active_scope
from rookery.governance.scope.intent_ignore import read_intent_ignore
from rookery.governance.scope.locations import ignores_case
from rookery.governance.scope.scope_verdict import PathFinding, ScopeRules, Verdict

_WORDS = {
    Verdict.IN_SCOPE: "in scope",
    Verdict.IGNORED: "ignored",
    Verdict.OUT_OF_SCOPE: "OUT OF SCOPE",
    Verdict.OUTSIDE: "OUTSIDE",
    Verdict.PROTECTED: "PROTECTED",
    Verdict.REJECTED: "REJECTED",
}
_FINE = (Verdict.IN_SCOPE, Verdict.IGNORED)


def rules_of(desk: Desk, intent: Intent) -> ScopeRules:
    at = now()
    known = [each.id for each in desk.file.intents]
    return active_scope(
        intent,
        desk.file.policy,
        read_intent_ignore(desk.layout, known, at),
        now=at,
        ignore_case=ignores_case(desk.layout.root),
    )


def rows(found: Sequence[PathFinding]) -> list[str]:
    return aligned([[word(each), each.path, remark(each)] for each in found]) if found else []


def word(finding: PathFinding) -> str:
    return _WORDS[finding.verdict]


def remark(finding: PathFinding) -> str:
    if finding.verdict is Verdict.OUT_OF_SCOPE:
        excluded = f"taken out by {finding.matched}" if finding.matched else ""
        return excluded or (f"nearest: {finding.nearest}" if finding.nearest else "")
    asks = f"(asks first: {finding.reason})" if finding.decision and fine(finding) else ""
    return " ".join(filter(None, (finding.matched, asks))) or finding.reason


def counts(found: Sequence[PathFinding]) -> str:
    inside = sum(map(fine, found))
    return f"{counted(inside, 'file')} in scope, {len(found) - inside} outside"


def astray(found: Sequence[PathFinding]) -> list[PathFinding]:
    return [each for each in found if not fine(each)]


def fine(finding: PathFinding) -> bool:
    return finding.verdict in _FINE and finding.decision is not Decision.DENY


def all_fine(found: Sequence[PathFinding]) -> bool:
    return all(map(fine, found))


def as_json(finding: PathFinding) -> dict[str, object]:
    return {
        "path": finding.path,
        "op": str(finding.op),
        "verdict": str(finding.verdict),
        "decision": finding.decision.name.lower(),
        "code": finding.code or None,
        "reason": finding.reason or None,
        "matched": finding.matched or None,
        "nearest": finding.nearest or None,
    }
