"""What an active intent has to say about one call.

Every objection is found, so that the model learns of all of them at once and a person is asked
one question.
"""

from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from rookery.core.asks import AskedReason, AskedTarget, Choice, Decision, IntentQuestion, Ruling
from rookery.core.blocks import ToolCall
from rookery.core.facts import ScopeGranted
from rookery.core.refusals import KINDS, Refusal, RefusedTarget, scope_refusal
from rookery.engine.ports.actions import Action
from rookery.governance.criteria import CHECK_TOOL
from rookery.governance.intents.intent import Intent, Policy
from rookery.governance.layout import Layout
from rookery.governance.scope.command_policy import CommandPolicy, opinion
from rookery.governance.scope.locations import NamedPath, judge_paths
from rookery.governance.scope.name_patterns import PatternError
from rookery.governance.scope.permission_rules import RuleCall, decide
from rookery.governance.scope.read_rules import reading_verdict
from rookery.governance.scope.scope_patterns import scope
from rookery.governance.scope.scope_verdict import (
    Op,
    PathFinding,
    PathVerdict,
    ScopeRules,
    smallest_pattern,
    writable_prefixes,
)
from rookery.governance.scope.touched_paths import (
    Reach,
    ReachKind,
    all_commands_known,
    changed_paths,
    reach,
    rule_names,
    server_paths,
)

MOST_NAMED = 20
LONGEST_GRANT = 300
"""Characters of a command that can be allowed for the rest of a task."""
_ALLOWED_BY = {"REQ-001": "scope", "REQ-002": "unknown", "REQ-008": "delete"}
"""Which flag of an unattended run stands for a yes."""


class CallStanding(Struct, frozen=True, kw_only=True):
    """What holds at this moment. `sandboxed` if a command could not write outside the scope."""

    intent: Intent
    policy: Policy
    digest: str
    rules: ScopeRules
    commands: CommandPolicy
    commands_wrong: str = ""
    sandboxed: bool = False
    unsandboxable: str = ""
    """Why a command cannot be run as strictly as the policy wants."""
    grants: tuple[ScopeGranted, ...] = ()
    allow: frozenset[str] = frozenset()


class Objection(Struct, frozen=True, kw_only=True):
    decision: Decision
    refusal: Refusal
    finding: PathFinding | None = None


class CallVerdict(Struct, frozen=True, kw_only=True):
    """`label` is how records call what the scope has to do with it."""

    objections: tuple[Objection, ...] = ()
    findings: tuple[PathFinding, ...] = ()
    reach: Reach | None = None
    label: str = "in_scope"
    matched: str = ""
    by_flag: tuple[str, ...] = ()
    question: IntentQuestion | None = None

    @property
    def decision(self) -> Decision:
        return max((each.decision for each in self.objections), default=Decision.NONE)

    @property
    def ruling(self) -> Ruling:
        if not self.objections:
            return Ruling()
        return Ruling(
            self.decision,
            tuple(dict.fromkeys(each.refusal.message for each in self.objections)),
            refusals=tuple(each.refusal for each in self.objections),
            question=self.question,
        )


def judge_call(call: ToolCall, action: Action, at: CallStanding, layout: Layout) -> CallVerdict:
    paths = _paths(call, action, layout)
    known = reach(action.judgement) if action.command and action.judgement else None
    if known:
        paths = [NamedPath(each.path, each.op) for each in known.targets]
    # what names no file still is a call: a command that only reads, a server's tool
    findings = tuple(
        _folder_of_scope(each, at, layout) if known else each
        for each in judge_paths(layout, at.rules, paths)
    )
    found = [
        *_about_paths(findings, at),
        *_about_rules(call, action, at, layout, findings),
        *_about_unknown(call, action, at, known),
    ]
    kept, granted, flagged = [], [], []
    for each in found:
        if each.decision is Decision.ASK and _granted(each, action, at):
            granted.append(each)
        elif each.decision is Decision.ASK and _ALLOWED_BY.get(each.refusal.code) in at.allow:
            flagged.append(each)
        else:
            kept.append(each)
    label = _label(findings, known, granted, flagged, action)
    ignored = next((each.matched for each in findings if each.verdict is PathVerdict.IGNORED), "")
    verdict = CallVerdict(
        objections=tuple(kept),
        findings=findings,
        reach=known,
        label=label,
        matched=ignored,
        by_flag=tuple(dict.fromkeys(each.refusal.code for each in flagged)),
    )
    return replace(verdict, question=_question(verdict, action, at)) if kept else verdict


def _folder_of_scope(finding: PathFinding, at: CallStanding, layout: Layout) -> PathFinding:
    """To make a folder that everything in the scope lies in is implied by the scope."""
    if finding.verdict is not PathVerdict.OUT_OF_SCOPE or finding.op not in (Op.CREATE, Op.MODIFY):
        return finding
    place = layout.root / finding.path
    inner = writable_prefixes(at.intent.owned_scope)
    within = any(each == finding.path or each.startswith(f"{finding.path}/") for each in inner)
    if not within or (place.exists() and not place.is_dir()):
        return finding
    return replace(finding, verdict=PathVerdict.IN_SCOPE, decision=Decision.NONE, code="")


def _paths(call: ToolCall, action: Action, layout: Layout) -> list[NamedPath]:
    if action.changes:
        return changed_paths(call, action, layout)
    return server_paths(call, action) if action.external else []


def _about_paths(findings: Sequence[PathFinding], at: CallStanding) -> Iterator[Objection]:
    for each in findings:
        if each.decision >= Decision.ASK:
            yield Objection(decision=each.decision, refusal=_path_refusal(each, at), finding=each)


def _path_refusal(finding: PathFinding, at: CallStanding) -> Refusal:
    target = RefusedTarget(finding.path, str(finding.op), str(finding.verdict))
    if finding.code == "REQ-001" and finding.verdict is PathVerdict.OUT_OF_SCOPE:
        refusal = scope_refusal(
            intent_id=at.intent.id,
            tool="",
            tool_use_id="",
            target=target,
            scope=at.intent.owned_scope,
        )
        return replace(refusal, reason=finding.reason)
    real = f"its real path is {finding.real_path}" if finding.real_path else ""
    return Refusal(
        code=finding.code,
        message=_MESSAGES[finding.code].format(
            path=finding.path, intent=at.intent.id, why=finding.reason or "it is not allowed here"
        ),
        intent_id=at.intent.id,
        targets=(target,),
        reason=finding.reason,
        steps=(real,) if real and finding.code == "REQ-015" else (),
    )


_MESSAGES = {
    "REQ-001": "{intent} may change {path} only with the user's approval: {why}.",
    "REQ-008": (
        "{intent} may remove or move {path} only with the user's approval, although it is in scope."
    ),
    "REQ-014": "{path} is protected: {why}.",
    "REQ-015": "{path} cannot be checked, so it was not changed: {why}.",
}


def _about_rules(
    call: ToolCall,
    action: Action,
    at: CallStanding,
    layout: Layout,
    findings: Sequence[PathFinding],
) -> Iterator[Objection]:
    """What the intent's permissions and the project's command rules forbid or ask about."""
    decision, rule = _decided(call, action, at, findings)
    if decision >= Decision.ASK:
        yield Objection(
            decision=decision,
            refusal=_not_authorized(at, f"A rule of {at.intent.id} applies: {rule}."),
        )
    reading, rule = reading_verdict(at.intent.permissions, call, action, layout)
    if reading >= Decision.ASK:
        yield Objection(
            decision=reading,
            refusal=_not_authorized(at, f"A rule of {at.intent.id} about reading applies: {rule}."),
        )
    if not action.command:
        return
    judged = action.judgement
    words = judged.commands if judged else ()
    redirects = bool(judged and judged.targets)
    said = opinion(at.commands, words, redirects=redirects)
    if said.decision >= Decision.ASK:
        why = f": {said.reason}" if said.reason else ""
        message = f"A command rule of the project applies{why}."
        yield Objection(decision=said.decision, refusal=_not_authorized(at, message))
    if at.commands_wrong:
        why = f"The project's command rules cannot be read: {at.commands_wrong}."
        yield Objection(decision=Decision.ASK, refusal=_not_authorized(at, why))
    if at.unsandboxable:
        yield Objection(decision=Decision.DENY, refusal=_not_authorized(at, at.unsandboxable))


def _not_authorized(at: CallStanding, message: str) -> Refusal:
    return Refusal(code="CMD-001", message=message, intent_id=at.intent.id)


def _decided(
    call: ToolCall, action: Action, at: CallStanding, findings: Sequence[PathFinding]
) -> tuple[Decision, str]:
    judged = action.judgement
    calls = [
        RuleCall(
            tool=name,
            paths=tuple(each.path for each in findings) if action.changes else (),
            commands=judged.commands if judged else (),
            all_known=judged is None or all_commands_known(judged),
        )
        for name in rule_names(call, action)
    ]
    try:
        decided, *others = [decide(at.intent.permissions, each) for each in calls]
    except PatternError as error:  # an intent with a faulty rule is broken, and not selected
        return Decision.DENY, str(error)
    return max([decided, *(each for each in others if each[0] >= Decision.ASK)], key=_strictness)


def _strictness(decided: tuple[Decision, str]) -> Decision:
    return decided[0]


def _about_unknown(
    call: ToolCall, action: Action, at: CallStanding, known: Reach | None
) -> Iterator[Objection]:
    """Whether it may touch more than can be told."""
    if action.changes or call.name == CHECK_TOOL:
        return
    if action.command and known and known.kind is not ReachKind.UNBOUNDED:
        return
    if action.command and (at.sandboxed or _allowed_command(action, at)):
        return
    decision, _ = _decided(call, action, at, ())
    if decision is Decision.ALLOW:
        return
    what = "This command" if action.command else "This MCP tool"
    why = known.why if known and known.why else "its effects are unknown"
    yield Objection(
        decision=Decision[at.policy.unknown_targets.upper()],
        refusal=Refusal(
            code="REQ-002",
            message=f"{what} may change files outside the scope of {at.intent.id}: {why}.",
            intent_id=at.intent.id,
        ),
    )


def _allowed_command(action: Action, at: CallStanding) -> bool:
    judged = action.judgement
    if judged is None or not all_commands_known(judged):
        return False
    return opinion(at.commands, judged.commands, redirects=True).decision is Decision.ALLOW


def _granted(objection: Objection, action: Action, at: CallStanding) -> bool:
    """Whether the user has allowed it for the rest of the task, under this very wording."""
    finding = objection.finding
    for grant in at.grants:
        if grant.digest != at.digest:
            continue
        if (
            grant.of == "path"
            and finding
            and not finding.once_only
            and (
                finding.verdict is PathVerdict.OUT_OF_SCOPE
                and scope((grant.pattern,)).covers(finding.path)
            )
        ):
            return True
        if (
            grant.of == "command"
            and objection.refusal.code == "REQ-002"
            and action.command == grant.pattern
        ):
            return True
    return False


def _label(
    findings: Sequence[PathFinding],
    known: Reach | None,
    granted: Sequence[Objection],
    flagged: Sequence[Objection],
    action: Action,
) -> str:
    """What it is called if nobody need be asked."""
    if flagged:
        codes = {each.refusal.code for each in flagged}
        return "unknown_approved" if codes == {"REQ-002"} else "approved_once"
    if granted:
        codes = {each.refusal.code for each in granted}
        return "unknown_approved" if codes == {"REQ-002"} else "approved_task"
    if any(each.verdict is PathVerdict.IGNORED for each in findings):
        return "ignored"
    if findings:
        return "in_scope"
    return (
        "none" if action.external or (known and known.kind is ReachKind.READ_ONLY) else "in_scope"
    )


def _question(verdict: CallVerdict, action: Action, at: CallStanding) -> IntentQuestion:
    found = [each.finding for each in verdict.objections if each.finding]
    outside = [each.path for each in found if each.verdict is PathVerdict.OUT_OF_SCOPE]
    codes = {each.refusal.code for each in verdict.objections}
    once = any(each.once_only for each in found)
    pattern = smallest_pattern(outside) if outside and not once else ""
    # more than the very line would let the same program do something else
    line = action.command if codes == {"REQ-002"} and len(action.command) <= LONGEST_GRANT else ""
    grant = pattern if codes == {"REQ-001"} else line
    choices: list[Choice] = []
    if grant:
        choices.append("task")
    if pattern and codes <= {"REQ-001", "REQ-008"}:
        choices.append("expand")
    by_rank = sorted(verdict.objections, key=lambda each: KINDS[each.refusal.code].rank)
    reasons = [
        AskedReason(
            code=each.refusal.code, error_type=each.refusal.error_type, text=each.refusal.message
        )
        for each in by_rank
    ]
    return IntentQuestion(
        intent_id=at.intent.id,
        intent_name=at.intent.name,
        revision=at.intent.revision,
        scope=at.intent.owned_scope,
        reasons=tuple(dict.fromkeys(reasons))[:MOST_NAMED],
        targets=tuple(
            AskedTarget(
                path=each.path,
                op=str(each.op),
                verdict=str(each.verdict),
                nearest=each.nearest,
                real_path=each.real_path,
            )
            for each in verdict.findings[:MOST_NAMED]
        ),
        analysis=str(verdict.reach.kind) if verdict.reach else "",
        sandboxed=at.sandboxed,
        pattern=pattern,
        grant=grant,
        choices=(*choices, "halt"),
    )
