"""`rookery intents check`: what would be allowed under an intent, without doing it.

Checks paths, a command line, staged changes or commits, and prints their `PathFinding`s.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from rookery import NAME
from rookery.core.asks import Decision
from rookery.core.blocks import ToolCall
from rookery.core.modes import GOVERNANCE_FOLDER
from rookery.core.text.terminal_text import aligned, counted, harmless_line
from rookery.engine.ports.actions import Action, Outcome, Permit
from rookery.errors import SettingsError, ToolError
from rookery.governance.cli.common import GovernedFolder, governed_command, now
from rookery.governance.git_history import CommittedChange, CommittedChanges, trailer_intents
from rookery.governance.intents.intent import Intent, digest, selectable
from rookery.governance.layout import find_layout
from rookery.governance.scope.call_verdict import CallContext, judge_call
from rookery.governance.scope.locations import NamedPath, ignores_case, judge_paths
from rookery.governance.scope.permission_rules import RuleCall, decide
from rookery.governance.scope.project_rules import (
    active_scope,
    opinion,
    read_command_policy,
    read_intent_ignore,
)
from rookery.governance.scope.scope_verdict import Op, PathFinding, PathVerdict, ScopeRules
from rookery.governance.scope.touched_paths import Reach, ReachKind, all_commands_known

_VERDICT_TEXTS = {
    PathVerdict.IN_SCOPE: "in scope",
    PathVerdict.IGNORED: "ignored",
    PathVerdict.OUT_OF_SCOPE: "OUT OF SCOPE",
    PathVerdict.OUTSIDE: "OUTSIDE",
    PathVerdict.PROTECTED: "PROTECTED",
    PathVerdict.REJECTED: "REJECTED",
}
SHORT_REVISION = 12


@click.command("check")
@click.option("--intent", "intent_id", metavar="ID", help="The intent.")
@click.option("--command", "line", metavar="LINE", help="Check a command line instead of paths.")
@click.option("--staged", is_flag=True, help="Check what git is about to commit.")
@click.option(
    "--message",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="With --staged: the commit message, whose Intent: lines name the intents.",
)
@click.option("--range", "revisions", metavar="A..B", help="Check commits by their Intent: lines.")
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@governed_command
def check_command(
    governed: GovernedFolder,
    intent_id: str | None,
    line: str | None,
    staged: bool,
    message: Path | None,
    revisions: str | None,
    paths: Sequence[str],
) -> int:
    """Check whether a change would be allowed under an intent. Nothing is done."""
    kinds = [bool(paths), line is not None, staged, revisions is not None]
    if sum(kinds) != 1:
        raise SettingsError("Give paths, or one of --command, --staged and --range.")
    if message and not staged:
        raise SettingsError("--message needs --staged.")
    if revisions is not None:
        return check_range(governed, revisions, intent_id)
    if staged:
        return check_staged(governed, intent_id, message)
    if intent_id is None:
        raise SettingsError("Give an intent: --intent ID.")
    intent = governed.valid_intent(intent_id)
    if line is not None:
        return _check_command(governed, intent, line)
    return _check_paths(governed, intent, paths)


def rules_of(governed: GovernedFolder, intent: Intent) -> ScopeRules:
    at = now()
    known = [each.id for each in governed.file.intents]
    return active_scope(
        intent,
        governed.file.policy,
        read_intent_ignore(governed.layout, known, at),
        now=at,
        ignore_case=ignores_case(governed.layout.root),
    )


def rows(found: Sequence[PathFinding]) -> list[str]:
    return (
        aligned([[_VERDICT_TEXTS[each.verdict], each.path, remark(each)] for each in found])
        if found
        else []
    )


def remark(finding: PathFinding) -> str:
    if finding.verdict is PathVerdict.OUT_OF_SCOPE:
        excluded = f"excluded by {finding.matched}" if finding.matched else ""
        return excluded or (f"nearest: {finding.nearest}" if finding.nearest else "")
    asks = f"(asks first: {finding.reason})" if finding.decision and is_fine(finding) else ""
    return " ".join(filter(None, (finding.matched, asks))) or finding.reason


def counts(found: Sequence[PathFinding]) -> str:
    inside = sum(map(is_fine, found))
    return f"{counted(inside, 'file')} in scope, {len(found) - inside} outside"


def not_fine(found: Sequence[PathFinding]) -> list[PathFinding]:
    return [each for each in found if not is_fine(each)]


def is_fine(finding: PathFinding) -> bool:
    return not finding.is_outside and finding.decision is not Decision.DENY


def all_fine(found: Sequence[PathFinding]) -> bool:
    return all(map(is_fine, found))


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


def check_staged(governed: GovernedFolder, intent_id: str | None, message: Path | None) -> int:
    git = CommittedChanges(governed.layout)
    change = git.staged()
    text = message.read_text(encoding="utf-8", errors="replace") if message else ""
    named = (intent_id,) if intent_id else trailer_intents(text)
    if not change.files or (not named and git.is_governance_only(change)):
        what = f"nothing but {GOVERNANCE_FOLDER}/" if change.files else "nothing"
        governed.echo(f"{what} is staged, which needs no intent")
        return governed.finish(ok=True, intent=None, intents=[], targets=[])
    if message and not named:
        print(
            f"Error: The message has no line such as `Intent: INT-001` (see {NAME} intents list).",
            file=sys.stderr,
        )
        return governed.finish(ok=False, intent=None, intents=[], targets=[])
    source = " (from the message)" if message and not intent_id else ""
    if not named:
        branch_intent, where = _branch_intent(git)
        named, source = (branch_intent,), f" (from {where})"
    intents = [governed.valid_intent(each) for each in named]
    found = _best([git.judge_change(change, rules_of(governed, each)) for each in intents])
    ids = [each.id for each in intents]
    governed.echo(f"{', '.join(ids)}{source}  {counts(found)}", *rows(not_fine(found)))
    return governed.finish(
        ok=all_fine(found), intent=ids[0], intents=ids, targets=list(map(as_json, found))
    )


def check_range(governed: GovernedFolder, revisions: str, intent_id: str | None) -> int:
    git = CommittedChanges(governed.layout)
    results = [_check_commit(governed, git, each, intent_id) for each in git.commits(revisions)]
    bad = sum(not each["ok"] for each in results)
    governed.echo(f"{counted(len(results), 'commit')}, {bad} with findings")
    return governed.finish(ok=not bad, commits=results)


def _check_paths(governed: GovernedFolder, intent: Intent, paths: Sequence[str]) -> int:
    named = [NamedPath(path, Op.MODIFY) for path in paths]
    found = judge_paths(
        governed.layout, rules_of(governed, intent), named, cwd=os.fspath(governed.folder)
    )
    governed.echo(*_selectable_note(intent), *rows(found))
    return governed.finish(
        ok=all_fine(found),
        intent=intent.id,
        selectable=selectable(intent, now()),
        targets=list(map(as_json, found)),
    )


def _check_command(governed: GovernedFolder, intent: Intent, line: str) -> int:
    ctx = _call_context(governed, intent)
    action = _action(governed, line, os.fspath(governed.folder))
    call = ToolCall(id="check", name="execute_command", arguments={"command": line})
    verdict = judge_call(call, action, ctx, governed.layout)
    reach, found = verdict.reach or Reach(kind=ReachKind.UNBOUNDED), verdict.findings
    refusals = [each.refusal for each in verdict.objections if each.finding is None]
    ok = all_fine(found) and not refusals
    allowed = _allowing_rules(ctx, action) if ok else ""
    governed.echo(*_selectable_note(intent), *_command_rows(reach, found, line))
    governed.echo(*([f"  allowed by {harmless_line(allowed)}"] if allowed else []))
    governed.echo(*(f"  {each.code}  {harmless_line(each.message)}" for each in refusals))
    return governed.finish(
        ok=ok,
        intent=intent.id,
        selectable=selectable(intent, now()),
        command=line,
        kind=str(reach.kind),
        why=reach.why or None,
        targets=list(map(as_json, found)),
        allowed_by=allowed or None,
        decision=verdict.decision.name.lower(),
        objections=[{"code": each.code, "message": each.message} for each in refusals],
    )


def _command_rows(reach: Reach, found: Sequence[PathFinding], line: str) -> list[str]:
    kind = str(reach.kind).replace("_", "-")
    if not found:
        return [f"{kind}  {harmless_line(line)}"]
    return aligned(
        [
            [
                kind if not place else "",
                f"{each.path} ({each.op})",
                _VERDICT_TEXTS[each.verdict],
                remark(each),
            ]
            for place, each in enumerate(found)
        ]
    )


def _call_context(governed: GovernedFolder, intent: Intent) -> CallContext:
    """The rules for a task that works under the intent."""
    policy, wrong = read_command_policy(governed.layout)
    return CallContext(
        intent=intent,
        policy=governed.file.policy,
        digest=digest(intent, governed.file.policy),
        rules=rules_of(governed, intent),
        commands=policy,
        commands_error=wrong[0].message if wrong else "",
    )


def _action(governed: GovernedFolder, line: str, folder: str) -> Action:
    from rookery.app.command_parts import check_judge

    judge = check_judge(governed.settings, governed.layout.workspace, governed.places)
    below = os.path.relpath(folder, governed.layout.workspace)
    cwd = "" if below == "." else below
    return Action(
        title=line,
        perform=_refuse_to_run,
        command=line,
        cwd=cwd,
        judgement=judge(line, cwd),
    )


def _allowing_rules(ctx: CallContext, action: Action) -> str:
    """The rules that cover every part of the line; empty if none do."""
    judged = action.judgement
    if judged is None or not all_commands_known(judged):
        return ""
    rule_call = RuleCall(tool="execute_command", commands=judged.commands)
    decision, rule = decide(ctx.intent.permissions, rule_call)
    if decision is Decision.ALLOW:
        return rule
    decision, reason = opinion(ctx.commands, judged.commands, redirects=bool(judged.targets))
    if decision is not Decision.ALLOW:
        return ""
    return f"the project's rules for commands{f': {reason}' if reason else ''}"


async def _refuse_to_run(permit: Permit) -> Outcome:
    raise ToolError("Nothing is run here.")


def _selectable_note(intent: Intent) -> list[str]:
    """A note if the intent cannot be selected now."""
    if selectable(intent, now()):
        return []
    return [f"note: {intent.id} is {intent.status} and could not be selected now"]


def _branch_intent(git: CommittedChanges) -> tuple[str, str]:
    found = git.branch_intent()
    if found is None:
        raise SettingsError(
            "Neither the branch nor its last commit names an intent. Give --intent "
            f"ID, or: git config branch.NAME.description 'Intent: ID' (see {NAME} "
            "intents list)."
        )
    return found


def intent_of_commit(folder: Path) -> str:
    """The intent that a commit would be checked against; empty if nothing names one."""
    layout = find_layout(folder, folder).layout
    found = CommittedChanges(layout).branch_intent() if layout else None
    return found[0] if found else ""


def _check_commit(
    governed: GovernedFolder,
    git: CommittedChanges,
    change: CommittedChange,
    intent_id: str | None,
) -> dict[str, object]:
    """Check a commit. Each file must be in the scope of one of the intents it names."""
    ids = (intent_id,) if intent_id else change.intent_ids
    head = f"{change.revision[:SHORT_REVISION]}"
    result: dict[str, object] = {"commit": change.revision, "intents": list(ids), "targets": []}
    if not change.files or (not ids and git.is_governance_only(change)):
        governed.echo(f"{head}  no files that need an intent")
        return {**result, "problem": None, "ok": True}
    problem = _problem(governed, ids)
    if problem:
        governed.echo(f"{head}  {harmless_line(problem)}: {harmless_line(change.subject)}")
        return {**result, "problem": problem, "ok": False}
    found = _best(
        [git.judge_change(change, rules_of(governed, governed.intent(each))) for each in ids]
    )
    governed.echo(f"{head}  {', '.join(ids)}  {counts(found)}", *rows(not_fine(found)))
    targets = [as_json(each) for each in found]
    return {**result, "targets": targets, "problem": None, "ok": all_fine(found)}


def _problem(governed: GovernedFolder, ids: Sequence[str]) -> str:
    if not ids:
        return "no Intent: line"
    missing = [each for each in ids if governed.usable.find(each) is None]
    if missing:
        return f"no such intent: {missing[0]}"
    broken = [each for each in ids if governed.intent(each).id in governed.file.broken]
    return f"{broken[0]} has errors" if broken else ""


def _best(judgements: Sequence[tuple[PathFinding, ...]]) -> tuple[PathFinding, ...]:
    """For each file, the most favourable verdict of several intents."""
    return tuple(min(each, key=_objection) for each in zip(*judgements, strict=True))


def _objection(finding: PathFinding) -> tuple[bool, int]:
    return not is_fine(finding), int(finding.decision)
