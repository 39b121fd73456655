"""The verdict of the active intent on one tool call.

All objections are collected, so that the model sees them together and the user gets one question.
"""

from collections.abc import Iterator, Sequence
from operator import itemgetter

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
from rookery.governance.scope.locations import NamedPath, judge_paths
from rookery.governance.scope.name_patterns import PatternError
from rookery.governance.scope.permission_rules import RuleCall, decide
from rookery.governance.scope.project_rules import CommandPolicy, opinion
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
"""Longest command line, in characters, that can be allowed for the rest of a task."""
_ALLOWED_BY = {"REQ-001": "scope", "REQ-002": "unknown", "REQ-008": "delete"}
"""Refusal code to the `--allow` value that approves it in a non-interactive run."""


class CallContext(Struct, frozen=True, kw_only=True):
    """The rules in force for a call. `sandboxed` means a command cannot write outside the scope."""

    intent: Intent
    policy: Policy
    digest: str
    rules: ScopeRules
    commands: CommandPolicy
    commands_error: str = ""
    sandboxed: bool = False
    sandbox_error: str = ""
    """Why the sandbox that the policy requires is not available; empty if it is."""
    grants: tuple[ScopeGranted, ...] = ()
    allow: frozenset[str] = frozenset()


class Objection(Struct, frozen=True, kw_only=True):
    decision: Decision
    refusal: Refusal
    finding: PathFinding | None = None


class CallVerdict(Struct, frozen=True, kw_only=True):
    """`label` is the scope verdict as it is written to the ledger."""

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


def judge_call(call: ToolCall, action: Action, ctx: CallContext, layout: Layout) -> CallVerdict:
    paths = _paths(call, action, layout)
    known = reach(action.judgement) if action.command and action.judgement else None
    if known:
        paths = [NamedPath(each.path, each.op) for each in known.targets]
    # calls without paths are judged too: read-only commands, MCP tools
    findings = tuple(
        _allow_scope_parents(each, ctx, layout) if known else each
        for each in judge_paths(layout, ctx.rules, paths)
    )
    found = [
        *_path_objections(findings, ctx),
        *_rule_objections(call, action, ctx, layout, findings),
        *_unknown_objections(call, action, ctx, known),
    ]
    kept, granted, flagged = [], [], []
    for each in found:
        if each.decision is Decision.ASK and _is_granted(each, action, ctx):
            granted.append(each)
        elif each.decision is Decision.ASK and _ALLOWED_BY.get(each.refusal.code) in ctx.allow:
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
    return replace(verdict, question=_question(verdict, action, ctx)) if kept else verdict


def _allow_scope_parents(finding: PathFinding, ctx: CallContext, layout: Layout) -> PathFinding:
    """Allow a command to create the parent folders of the scope, which the scope implies."""
    if finding.verdict is not PathVerdict.OUT_OF_SCOPE or finding.op not in (Op.CREATE, Op.MODIFY):
        return finding
    place = layout.root / finding.path
    inner = writable_prefixes(ctx.intent.owned_scope)
    within = any(each == finding.path or each.startswith(f"{finding.path}/") for each in inner)
    if not within or (place.exists() and not place.is_dir()):
        return finding
    return replace(finding, verdict=PathVerdict.IN_SCOPE, decision=Decision.NONE, code="")


def _paths(call: ToolCall, action: Action, layout: Layout) -> list[NamedPath]:
    if action.changes:
        return changed_paths(call, action, layout)
    return server_paths(action) if action.external else []


def _path_objections(findings: Sequence[PathFinding], ctx: CallContext) -> Iterator[Objection]:
    for each in findings:
        if each.decision >= Decision.ASK:
            yield Objection(decision=each.decision, refusal=_path_refusal(each, ctx), finding=each)


def _path_refusal(finding: PathFinding, ctx: CallContext) -> Refusal:
    target = RefusedTarget(finding.path, str(finding.op), str(finding.verdict))
    if finding.code == "REQ-001" and finding.verdict is PathVerdict.OUT_OF_SCOPE:
        refusal = scope_refusal(
            intent_id=ctx.intent.id,
            tool="",
            tool_use_id="",
            target=target,
            scope=ctx.intent.owned_scope,
        )
        return replace(refusal, reason=finding.reason)
    real = f"its real path is {finding.real_path}" if finding.real_path else ""
    return Refusal(
        code=finding.code,
        message=_MESSAGES[finding.code].format(
            path=finding.path, intent=ctx.intent.id, why=finding.reason or "it is not allowed here"
        ),
        intent_id=ctx.intent.id,
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


def _rule_objections(
    call: ToolCall,
    action: Action,
    ctx: CallContext,
    layout: Layout,
    findings: Sequence[PathFinding],
) -> Iterator[Objection]:
    """Objections from the intent's permission rules and the project's command rules."""
    decision, rule = _permission_decision(call, action, ctx, findings)
    if decision >= Decision.ASK:
        yield Objection(
            decision=decision,
            refusal=_not_authorized(ctx, f"A rule of {ctx.intent.id} applies: {rule}."),
        )
    reading, rule = reading_verdict(ctx.intent.permissions, call, action, layout)
    if reading >= Decision.ASK:
        yield Objection(
            decision=reading,
            refusal=_not_authorized(
                ctx, f"A rule of {ctx.intent.id} about reading applies: {rule}."
            ),
        )
    if not action.command:
        return
    judged = action.judgement
    words = judged.commands if judged else ()
    redirects = bool(judged and judged.targets)
    decision, reason = opinion(ctx.commands, words, redirects=redirects)
    if decision >= Decision.ASK:
        why = f": {reason}" if reason else ""
        message = f"A command rule of the project applies{why}."
        yield Objection(decision=decision, refusal=_not_authorized(ctx, message))
    if ctx.commands_error:
        why = f"The project's command rules cannot be read: {ctx.commands_error}."
        yield Objection(decision=Decision.ASK, refusal=_not_authorized(ctx, why))
    if ctx.sandbox_error:
        yield Objection(decision=Decision.DENY, refusal=_not_authorized(ctx, ctx.sandbox_error))


def _not_authorized(ctx: CallContext, message: str) -> Refusal:
    return Refusal(code="CMD-001", message=message, intent_id=ctx.intent.id)


def _permission_decision(
    call: ToolCall, action: Action, ctx: CallContext, findings: Sequence[PathFinding]
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
        decided, *others = [decide(ctx.intent.permissions, each) for each in calls]
    except PatternError as error:  # unexpected: an intent with an invalid rule cannot be selected
        return Decision.DENY, str(error)
    return max([decided, *(each for each in others if each[0] >= Decision.ASK)], key=itemgetter(0))


def _unknown_objections(
    call: ToolCall, action: Action, ctx: CallContext, known: Reach | None
) -> Iterator[Objection]:
    """Object to a command or MCP tool whose targets are not all known."""
    if action.changes or call.name == CHECK_TOOL:
        return
    if action.command and known and known.kind is not ReachKind.UNBOUNDED:
        return
    if action.command and (ctx.sandboxed or _allowed_command(action, ctx)):
        return
    decision, _ = _permission_decision(call, action, ctx, ())
    if decision is Decision.ALLOW:
        return
    what = "This command" if action.command else "This MCP tool"
    why = known.why if known and known.why else "its effects are unknown"
    yield Objection(
        decision=Decision[ctx.policy.unknown_targets.upper()],
        refusal=Refusal(
            code="REQ-002",
            message=f"{what} may change files outside the scope of {ctx.intent.id}: {why}.",
            intent_id=ctx.intent.id,
        ),
    )


def _allowed_command(action: Action, ctx: CallContext) -> bool:
    judged = action.judgement
    if judged is None or not all_commands_known(judged):
        return False
    return opinion(ctx.commands, judged.commands, redirects=True)[0] is Decision.ALLOW


def _is_granted(objection: Objection, action: Action, ctx: CallContext) -> bool:
    """Whether the user allowed this for the rest of the task and the intent is unchanged."""
    finding = objection.finding
    for grant in ctx.grants:
        if grant.digest != ctx.digest:
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
    """The label for the ledger if the call needs no approval."""
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


def _question(verdict: CallVerdict, action: Action, ctx: CallContext) -> IntentQuestion:
    found = [each.finding for each in verdict.objections if each.finding]
    outside = [each.path for each in found if each.verdict is PathVerdict.OUT_OF_SCOPE]
    codes = {each.refusal.code for each in verdict.objections}
    once = any(each.once_only for each in found)
    pattern = smallest_pattern(outside) if outside and not once else ""
    # only the exact line: a prefix would let the same program do something else
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
        intent_id=ctx.intent.id,
        intent_name=ctx.intent.name,
        revision=ctx.intent.revision,
        scope=ctx.intent.owned_scope,
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
        sandboxed=ctx.sandboxed,
        pattern=pattern,
        grant=grant,
        choices=(*choices, "halt"),
    )
