"""`rookery intents check`: what the gate would say, without anything being done."""

import os
from collections.abc import Sequence
from pathlib import Path

import click

from rookery.core.blocks import ToolCall
from rookery.core.rulings import Decision
from rookery.core.text.terminal_text import harmless_line
from rookery.engine.ports import Action, Outcome, Permit
from rookery.errors import SettingsError, ToolError
from rookery.governance.cli.intents_commits import check_range, check_staged
from rookery.governance.cli.intents_common import (
    FINDINGS,
    Desk,
    Wishes,
    aligned,
    common,
    now,
    open_desk,
)
from rookery.governance.cli.intents_findings import all_fine, as_json, remark, rows, rules_of, word
from rookery.governance.intents.intent import Intent, digest, selectable
from rookery.governance.scope.call_verdict import Standing, judge_call
from rookery.governance.scope.command_policy import opinion
from rookery.governance.scope.command_policy_file import read_command_policy
from rookery.governance.scope.command_reach import Kind, Reach, all_commands_known
from rookery.governance.scope.judged_paths import NamedPath, judge_paths
from rookery.governance.scope.permission_rules import RuleCall, decide
from rookery.governance.scope.scope_verdict import Op, PathFinding


@click.command("check")
@click.option("--intent", "intent_id", metavar="ID", help="Under which intent.")
@click.option("--command", "line", metavar="LINE", help="Judge a command line instead of paths.")
@click.option("--staged", is_flag=True, help="Judge what git is about to commit.")
@click.option(
    "--message",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="With --staged: the message of the commit, whose Intent: lines say for which intents.",
)
@click.option("--range", "revisions", metavar="A..B", help="Judge commits by their Intent: lines.")
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@common
def check_command(
    wishes: Wishes,
    intent_id: str | None,
    line: str | None,
    staged: bool,
    message: Path | None,
    revisions: str | None,
    paths: Sequence[str],
) -> int:
    """Say what may be changed under an intent, as the gate would. Nothing is done."""
    kinds = [bool(paths), line is not None, staged, revisions is not None]
    if sum(kinds) != 1:
        raise SettingsError("Give paths, or one of --command, --staged and --range.")
    if message and not staged:
        raise SettingsError("--message is of the commit that --staged judges.")
    desk = open_desk(wishes)
    if revisions is not None:
        return check_range(wishes, desk, revisions, intent_id)
    if staged:
        return check_staged(wishes, desk, intent_id, message)
    if intent_id is None:
        raise SettingsError("Say under which intent: --intent ID.")
    intent = desk.sound_intent(intent_id)
    if line is not None:
        return _check_command(wishes, desk, intent, line)
    return _check_paths(wishes, desk, intent, paths)


def _check_paths(wishes: Wishes, desk: Desk, intent: Intent, paths: Sequence[str]) -> int:
    named = [NamedPath(path, Op.MODIFY) for path in paths]
    found = judge_paths(desk.layout, rules_of(desk, intent), named, cwd=os.fspath(wishes.folder))
    wishes.say(*_standing(intent), *rows(found))
    wishes.tell(
        {
            "intent": intent.id,
            "selectable": selectable(intent, now()),
            "targets": [as_json(each) for each in found],
            "ok": all_fine(found),
        }
    )
    return 0 if all_fine(found) else FINDINGS


def _check_command(wishes: Wishes, desk: Desk, intent: Intent, line: str) -> int:
    standing = _standing_of(desk, intent)
    action = _action(desk, line, os.fspath(wishes.folder))
    verdict = judge_call(_call(line), action, standing, desk.layout)
    told, found = verdict.reach or Reach(kind=Kind.UNBOUNDED), verdict.findings
    against = [each.refusal for each in verdict.objections if each.finding is None]
    ok = all_fine(found) and not against
    allowed = _allowing(standing, action) if ok else ""
    wishes.say(*_standing(intent), *_command_rows(told, found, line))
    wishes.say(*([f"  allowed by {harmless_line(allowed)}"] if allowed else []))
    wishes.say(*(f"  {each.code}  {harmless_line(each.message)}" for each in against))
    wishes.tell(
        {
            "intent": intent.id,
            "selectable": selectable(intent, now()),
            "command": line,
            "kind": str(told.kind),
            "why": told.why or None,
            "targets": [as_json(each) for each in found],
            "allowed_by": allowed or None,
            "decision": verdict.decision.name.lower(),
            "objections": [{"code": each.code, "message": each.message} for each in against],
            "ok": ok,
        }
    )
    return 0 if ok else FINDINGS


def _command_rows(told: Reach, found: Sequence[PathFinding], line: str) -> list[str]:
    kind = str(told.kind).replace("_", "-")
    if not found:
        return [f"{kind}  {harmless_line(line)}"]
    return aligned(
        [
            [kind if not place else "", f"{each.path} ({each.op})", word(each), remark(each)]
            for place, each in enumerate(found)
        ]
    )


def _standing_of(desk: Desk, intent: Intent) -> Standing:
    """What holds for a task that works under the intent."""
    policy, wrong = read_command_policy(desk.layout)
    return Standing(
        intent=intent,
        policy=desk.file.policy,
        digest=digest(intent, desk.file.policy),
        rules=rules_of(desk, intent),
        commands=policy,
        commands_wrong=wrong[0].message if wrong else "",
    )


def _action(desk: Desk, line: str, folder: str) -> Action:
    from rookery.app.check_shell import judge_of

    cwd = os.path.relpath(folder, desk.layout.workspace)
    return Action(
        title=line,
        perform=_never,
        command=line,
        cwd="" if cwd == "." else cwd,
        judgement=judge_of(desk)(line, cwd),
    )


def _call(line: str) -> ToolCall:
    return ToolCall(id="check", name="execute_command", arguments={"command": line})


def _allowing(standing: Standing, action: Action) -> str:
    """The rules that cover every part of the line; empty if none do."""
    judged = action.judgement
    if judged is None or not all_commands_known(action.command, judged):
        return ""
    asked = RuleCall(tool="execute_command", commands=judged.commands)
    decision, rule = decide(standing.intent.permissions, asked)
    if decision is Decision.ALLOW:
        return rule
    said = opinion(standing.commands, judged.commands, redirects=bool(judged.targets))
    if said.decision is not Decision.ALLOW:
        return ""
    return f"the project's rules for commands{f': {said.reason}' if said.reason else ''}"


async def _never(permit: Permit) -> Outcome:
    raise ToolError("Nothing is run here.")


def _standing(intent: Intent) -> list[str]:
    """Said if nobody could select the intent at this moment."""
    if selectable(intent, now()):
        return []
    return [f"note: {intent.id} is {intent.status} and could not be selected now"]
