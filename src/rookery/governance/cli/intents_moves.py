"""`rookery intents start|pause|reopen|expand`, and what abandons one."""

from collections.abc import Sequence

import click

from rookery import NAME
from rookery.core.text.terminal_text import harmless_line
from rookery.errors import SettingsError
from rookery.governance.cli.intents_changes import Changing, Made, NotPossible, Plan
from rookery.governance.cli.intents_common import (
    Desk,
    Wishes,
    common,
    counted,
    now,
    open_desk,
    stamp,
)
from rookery.governance.intents.intent import Intent, IntentFile
from rookery.governance.intents.intent_edits import AddScope, Edit, SetField, edits_for
from rookery.governance.intents.lifecycle import LIFECYCLE, Move, first_step, move
from rookery.governance.scope.braces import PatternError
from rookery.governance.scope.scope_patterns import scope_pattern

SHORT_DIGEST = 4

_REASON = click.option("--reason", default="", help="Why; it is recorded.")


@click.command("start")
@click.argument("intent_id", metavar="ID")
@_REASON
@common
def start_command(wishes: Wishes, intent_id: str, reason: str) -> int:
    """Put an intent in progress, so that agents can work under it."""
    desk = open_desk(wishes)
    intent = desk.sound_intent(intent_id)
    made = moved(desk, "start", intent, reason)
    unmet = desk.file.unmet(intent)
    notes = [f"not completed yet: {', '.join(unmet)}"] if unmet else []
    return told(wishes, made, notes)


@click.command("pause")
@click.argument("intent_id", metavar="ID")
@_REASON
@common
def pause_command(wishes: Wishes, intent_id: str, reason: str) -> int:
    """Stop work under an intent. Tasks that run under it lose it."""
    desk = open_desk(wishes)
    return told(wishes, moved(desk, "pause", desk.intent(intent_id), reason))


@click.command("reopen")
@click.argument("intent_id", metavar="ID")
@_REASON
@common
def reopen_command(wishes: Wishes, intent_id: str, reason: str) -> int:
    """Take up an intent again that was completed or abandoned."""
    desk = open_desk(wishes)
    return told(wishes, moved(desk, "reopen", desk.intent(intent_id), reason))


@click.command("expand")
@click.argument("intent_id", metavar="ID")
@click.argument("patterns", nargs=-1, required=True, metavar="PATTERN...")
@_REASON
@common
def expand_command(wishes: Wishes, intent_id: str, patterns: Sequence[str], reason: str) -> int:
    """Add files or patterns to the scope of an intent."""
    _insist_on_patterns(patterns)
    desk = open_desk(wishes)
    intent = desk.sound_intent(intent_id)
    new = tuple(dict.fromkeys(each for each in patterns if each not in intent.owned_scope))
    if not new:
        wishes.say(f"{intent.id} has {_quoted(patterns)} in its scope already")
        wishes.tell({"id": intent.id, "added": [], "revision": intent.revision})
        return 0

    def plan(file: IntentFile) -> Plan:
        there = _still(file, intent)
        added = [each for each in new if each not in there.owned_scope]
        edits: list[Edit] = [AddScope(each) for each in added]
        edits += [SetField("updated_at", stamp(now()))] if there.updated_at else []
        return Plan(intent_id=there.id, edits=tuple(edits), more={"scope_added": added})

    made = Changing(desk).change("expand", plan, reason=reason)
    wishes.say(
        f"added {_quoted(new)} to {made.after.id} (revision {made.after.revision}, "
        f"digest {_short(made.digest_before)} -> {_short(made.digest_after)})",
        "running tasks must select the intent again",
    )
    wishes.tell(
        {
            "id": made.after.id,
            "added": list(new),
            "revision": made.after.revision,
            "digest_before": made.digest_before,
            "digest": made.digest_after,
            "running_tasks": made.tasks,
        }
    )
    return 0


def moved(desk: Desk, command: str, intent: Intent, reason: str) -> Made:
    """Take an intent from its status to the next. Raises `NotPossible`."""
    changing = Changing(desk)

    def plan(file: IntentFile) -> Plan:
        there = _still(file, intent)
        edits = edits_for(
            possible_move(command, there, file),
            there,
            at=stamp(now()),
            by=changing.by,
            reason=reason,
        )
        return Plan(intent_id=there.id, edits=tuple(edits), more={})

    return changing.change(command, plan, reason=reason)


def told(wishes: Wishes, made: Made, notes: Sequence[str] = ()) -> int:
    old, new = made.before, made.after
    risen = f" (revision {new.revision})" if old and old.revision != new.revision else ""
    wishes.say(
        f"{new.id} {new.status}{risen}.{_tasks(made)}",
        *(f"  {harmless_line(note)}" for note in notes),
    )
    wishes.tell(
        {
            "id": new.id,
            "status": str(new.status),
            "before": str(old.status) if old else None,
            "revision": new.revision,
            "digest": made.digest_after,
            "running_tasks": made.tasks,
            "notes": list(notes),
        }
    )
    return 0


def possible_move(command: str, intent: Intent, file: IntentFile) -> Move:
    """What the command does to the intent. Raises `NotPossible`."""
    found = move(command, intent.status)
    if found is None:
        raise NotPossible(_way_out(command, intent))
    if found.needs_scope and not any(each[:1] != "!" for each in intent.owned_scope):
        raise NotPossible(
            f"{intent.id} owns no files yet, so nobody could work under it. "
            f"Give it some with: {NAME} intents expand {intent.id} PATTERN"
        )
    unmet = file.unmet(intent) if found.needs_dependencies else ()
    if unmet and file.policy.dependencies == "block":
        raise NotPossible(
            f"{intent.id} depends on what is not completed: {', '.join(unmet)}. It stays "
            f"{intent.status}, because the policy says dependencies: block."
        )
    return found


def _way_out(command: str, intent: Intent) -> str:
    step = first_step(command, intent.status)
    if step is None:
        return f"{intent.id} is {intent.status} already; nothing was changed."
    arrives = any(each.after is step.after for each in LIFECYCLE if each.command == command)
    run = "run" if arrives else "run first"
    return f"{intent.id} is {intent.status}; {run}: {NAME} intents {step.command} {intent.id}"


def _still(file: IntentFile, intent: Intent) -> Intent:
    """The intent in the file as it is now; somebody may have removed it."""
    there = file.find(intent.id)
    if there is None:
        raise NotPossible(f"{intent.id} was removed from the file just now; nothing was changed.")
    return there


def _insist_on_patterns(patterns: Sequence[str]) -> None:
    for each in patterns:
        try:
            scope_pattern(each)
        except PatternError as error:
            raise SettingsError(f"{each}: {error}.") from error


def _tasks(made: Made) -> str:
    """What becomes of tasks that run under the intent."""
    if not made.tasks:
        return ""
    return f" {counted(made.tasks, 'running task')} will be told."


def _quoted(patterns: Sequence[str]) -> str:
    return ", ".join(f'"{harmless_line(each)}"' for each in patterns)


def _short(digest: str) -> str:
    return f"{digest[:SHORT_DIGEST]}…"
