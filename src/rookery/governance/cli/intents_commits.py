"""`rookery intents check --staged` and `--range`: what git has, or is about to have, by scope."""

import sys
from collections.abc import Sequence
from pathlib import Path

from rookery import NAME
from rookery.core.governance_mode import GOVERNANCE_FOLDER
from rookery.core.text.terminal_text import harmless_line
from rookery.errors import SettingsError
from rookery.governance.cli.intents_common import FINDINGS, Desk, Wishes, counted
from rookery.governance.cli.intents_findings import (
    all_fine,
    as_json,
    astray,
    counts,
    fine,
    rows,
    rules_of,
)
from rookery.governance.scope.committed_changes import (
    BranchIntent,
    CommittedChange,
    CommittedChanges,
    intents_named,
)
from rookery.governance.scope.scope_verdict import PathFinding

SHORT_REVISION = 12


def check_staged(wishes: Wishes, desk: Desk, intent_id: str | None, message: Path | None) -> int:
    git = CommittedChanges(desk.layout)
    change = git.staged()
    named = (intent_id,) if intent_id else _named_in(message) if message else ()
    if not change.files or (not named and git.only_governance(change)):
        what = f"nothing but {GOVERNANCE_FOLDER}/" if change.files else "nothing"
        wishes.say(f"{what} is staged, which needs no intent")
        wishes.tell({"intent": None, "intents": [], "targets": [], "ok": True})
        return 0
    if message and not named:
        print(
            f"Error: The message has no line such as `Intent: INT-001` (see {NAME} intents list).",
            file=sys.stderr,
        )
        wishes.tell({"intent": None, "intents": [], "targets": [], "ok": False})
        return FINDINGS
    source = " (from the message)" if message and not intent_id else ""
    if not named:
        branch = _of_branch(git)
        named, source = (branch.intent_id,), f" (from {branch.source})"
    intents = [desk.sound_intent(each) for each in named]
    found = _best([git.judged(change, rules_of(desk, each)) for each in intents])
    ids = [each.id for each in intents]
    wishes.say(f"{', '.join(ids)}{source}  {counts(found)}", *rows(astray(found)))
    wishes.tell(
        {
            "intent": ids[0],
            "intents": ids,
            "targets": [as_json(each) for each in found],
            "ok": all_fine(found),
        }
    )
    return 0 if all_fine(found) else FINDINGS


def _named_in(message: Path) -> tuple[str, ...]:
    return intents_named(message.read_text(encoding="utf-8", errors="replace"))


def _of_branch(git: CommittedChanges) -> BranchIntent:
    found = git.branch_intent()
    if found is None:
        raise SettingsError(
            "Neither the branch nor its last commit names an intent. Say --intent ID, or: "
            f"git config branch.NAME.description 'Intent: ID' (see {NAME} intents list)."
        )
    return found


def check_range(wishes: Wishes, desk: Desk, revisions: str, intent_id: str | None) -> int:
    git = CommittedChanges(desk.layout)
    told = [_check_commit(wishes, desk, git, each, intent_id) for each in git.commits(revisions)]
    bad = sum(not each["ok"] for each in told)
    wishes.say(f"{counted(len(told), 'commit')}, {bad} with findings")
    wishes.tell({"commits": told, "ok": not bad})
    return FINDINGS if bad else 0


def _check_commit(
    wishes: Wishes,
    desk: Desk,
    git: CommittedChanges,
    change: CommittedChange,
    intent_id: str | None,
) -> dict[str, object]:
    """A commit may be made for several intents; then each of its files must be some intent's."""
    ids = (intent_id,) if intent_id else change.intent_ids
    head = f"{change.revision[:SHORT_REVISION]}"
    said: dict[str, object] = {"commit": change.revision, "intents": list(ids), "targets": []}
    if not change.files or (not ids and git.only_governance(change)):
        wishes.say(f"{head}  no files of an intent")
        return {**said, "problem": None, "ok": True}
    problem = _problem(desk, ids)
    if problem:
        wishes.say(f"{head}  {harmless_line(problem)}: {harmless_line(change.subject)}")
        return {**said, "problem": problem, "ok": False}
    found = _best([git.judged(change, rules_of(desk, desk.intent(each))) for each in ids])
    wishes.say(f"{head}  {', '.join(ids)}  {counts(found)}", *rows(astray(found)))
    targets = [as_json(each) for each in found]
    return {**said, "targets": targets, "problem": None, "ok": all_fine(found)}


def _problem(desk: Desk, ids: Sequence[str]) -> str:
    if not ids:
        return "no Intent: line"
    missing = [each for each in ids if desk.usable.find(each) is None]
    if missing:
        return f"there is no {missing[0]}"
    broken = [each for each in ids if desk.intent(each).id in desk.file.broken]
    return f"{broken[0]} has errors" if broken else ""


def _best(judgements: Sequence[tuple[PathFinding, ...]]) -> tuple[PathFinding, ...]:
    """For each file the verdict of the intent that likes it best."""
    return tuple(min(each, key=_objection) for each in zip(*judgements, strict=True))


def _objection(finding: PathFinding) -> tuple[bool, int]:
    return not fine(finding), int(finding.decision)
