"""`rookery intents check`: what the gate would say, without anything being done."""

import os
from collections.abc import Sequence

import click

from rookery.cli.intents_commits import check_range, check_staged
from rookery.cli.intents_desk import FINDINGS, Desk, Wishes, aligned, common, now, open_desk
from rookery.cli.intents_findings import all_fine, as_json, remark, rows, rules_of, word
from rookery.clients.terminal_text import harmless_line
from rookery.core.blocks import ToolCall
from rookery.core.intents.command_reach import Kind, Reach
from rookery.core.intents.intent import Intent, digest, selectable
from rookery.core.intents.scope_verdict import Op, PathFinding
from rookery.engine.ports import Action, Outcome, Permit
from rookery.errors import SettingsError, ToolError
from rookery.workspace.governed.verdicts import CallVerdict, Standing, judge_call
from rookery.workspace.orchestration.command_policy_file import read_command_policy
from rookery.workspace.orchestration.judged_paths import NamedPath, judge_paths


@click.command("check")
@click.option("--intent", "intent_id", metavar="ID", help="Under which intent.")
@click.option("--command", "line", metavar="LINE", help="Judge a command line instead of paths.")
@click.option("--staged", is_flag=True, help="Judge what git is about to commit.")
@click.option("--range", "revisions", metavar="A..B", help="Judge commits by their Intent: lines.")
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@common
def check_command(
    wishes: Wishes,
    intent_id: str | None,
    line: str | None,
    staged: bool,
    revisions: str | None,
    paths: Sequence[str],
) -> int:
    """Say what may be changed under an intent, as the gate would. Nothing is done."""
    kinds = [bool(paths), line is not None, staged, revisions is not None]
    if sum(kinds) != 1:
        raise SettingsError("Give paths, or one of --command, --staged and --range.")
    desk = open_desk(wishes)
    if revisions is not None:
        return check_range(wishes, desk, revisions, intent_id)
    if staged:
        return check_staged(wishes, desk, intent_id)
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
    verdict = _verdict(desk, intent, line, os.fspath(wishes.folder))
    told, found = verdict.reach or Reach(kind=Kind.UNBOUNDED), verdict.findings
    against = [each.refusal for each in verdict.objections if each.finding is None]
    ok = all_fine(found) and not against
    wishes.say(*_standing(intent), *_command_rows(told, found, line))
    wishes.say(*(f"  {each.code}  {harmless_line(each.message)}" for each in against))
    wishes.tell(
        {
            "intent": intent.id,
            "selectable": selectable(intent, now()),
            "command": line,
            "kind": str(told.kind),
            "why": told.why or None,
            "targets": [as_json(each) for each in found],
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


def _verdict(desk: Desk, intent: Intent, line: str, folder: str) -> CallVerdict:
    """What the gate would say to a task that works under the intent and runs the line."""
    from rookery.cli.intents_workshop import judge_of

    cwd = os.path.relpath(folder, desk.layout.workspace)
    policy, wrong = read_command_policy(desk.layout)
    standing = Standing(
        intent=intent,
        policy=desk.file.policy,
        digest=digest(intent, desk.file.policy),
        rules=rules_of(desk, intent),
        commands=policy,
        commands_wrong=wrong[0].message if wrong else "",
    )
    action = Action(
        title=line,
        perform=_never,
        command=line,
        cwd="" if cwd == "." else cwd,
        judgement=judge_of(desk)(line, cwd),
    )
    call = ToolCall(id="check", name="execute_command", arguments={"command": line})
    return judge_call(call, action, standing, desk.layout)


async def _never(permit: Permit) -> Outcome:
    raise ToolError("Nothing is run here.")


def _standing(intent: Intent) -> list[str]:
    """Said if nobody could select the intent at this moment."""
    if selectable(intent, now()):
        return []
    return [f"note: {intent.id} is {intent.status} and could not be selected now"]
