"""Commands that change an intent: written to the intent file and recorded in the ledger.

All of them use `IntentChanger`. `start`, `pause`, `reopen` and `expand` are here.
"""

import uuid
from collections.abc import Callable, Sequence

import click
from msgspec import Struct

from rookery import NAME
from rookery.core.text.terminal_text import counted, harmless_line
from rookery.errors import RookeryError, SettingsError
from rookery.governance.cli.common import GovernedFolder, governed_command, now, user_name
from rookery.governance.criteria import CHECK_TOOL, check_call_id
from rookery.governance.intents.intent import (
    LIFECYCLE,
    Intent,
    IntentFile,
    Move,
    digest,
    first_step,
    move,
    timestamp,
)
from rookery.governance.intents.intent_edits import (
    IntentWriter,
    PlannedChange,
    WrittenChange,
    edits_for,
    scope_edits,
)
from rookery.governance.intents.intent_file import IntentText
from rookery.governance.intents.leases import Leases
from rookery.governance.ledger.ledger_recording import Recording
from rookery.governance.ledger.records import LedgerEntry, Outcome
from rookery.governance.scope.name_patterns import PatternError
from rookery.governance.scope.scope_patterns import scope_pattern

SHORT_DIGEST = 4
_REASON = click.option("--reason", default="", help="The reason; it is recorded.")


class MadeChange(Struct, frozen=True, kw_only=True):
    before: Intent | None
    after: Intent
    digest_before: str
    digest_after: str
    tasks: int
    """Number of tasks running under it."""


class IntentChanger:
    """The changes of one command. What cannot be recorded in the ledger is not done."""

    def __init__(self, governed: GovernedFolder) -> None:
        self._governed = governed
        self.by = user_name(governed.layout.root)
        self._task = f"person-{uuid.uuid4().hex[:12]}"
        self._recording: Recording | None = None

    def change(
        self, command: str, plan: Callable[[IntentText], PlannedChange], *, reason: str = ""
    ) -> MadeChange:
        """Apply a change. `plan` returns the edits for the file as it is, or raises."""
        plan(self._governed.text)  # what is refused must not create a ledger
        recording = self._open_recording()
        written = IntentWriter(self._governed.layout).change(plan)
        made = self._made_change(written)
        recording.note(self._entry(command, written.planned, made, reason))
        recording.close()
        self._governed.text = written.after
        return made

    def note_check(
        self, intent: Intent, criterion: str, command: str, exit_code: int | None, *, ok: bool
    ) -> str:
        """Record the run of a criterion's command. Returns the record's id."""
        outcome: Outcome = "success" if ok else "failure"
        entry = LedgerEntry(
            kind="command",
            task_id=self._task,
            intent_id=intent.id,
            intent_rev=intent.revision,
            intent_digest=digest(intent, self._governed.file.policy),
            tool_name=CHECK_TOOL,
            tool_use_id=check_call_id(intent.id, criterion),
            command={"text": command, "exit_code": exit_code},
            outcome=outcome,
            contributor="human",
        )
        return self._open_recording().note(entry).id

    def _open_recording(self) -> Recording:
        """Raises `LedgerUnwritable` before anything is done that could not be recorded."""
        if self._recording is None:
            self._recording = self._governed.recording()
            self._recording.ledger.tail()
        return self._recording

    def _made_change(self, written: WrittenChange) -> MadeChange:
        before, after = written.before.file, written.after.file
        intent_id = written.planned.intent_id
        old, new = before.find(intent_id), after.find(intent_id)
        assert new is not None, "the writer has checked that it is there"
        active = Leases(self._governed.layout).active(now=now())
        return MadeChange(
            before=old,
            after=new,
            digest_before=digest(old, before.policy) if old else "",
            digest_after=digest(new, after.policy),
            tasks=sum(lease.intent_id == intent_id for lease in active),
        )

    def _entry(
        self, command: str, plan: PlannedChange, made: MadeChange, reason: str
    ) -> LedgerEntry:
        change = {
            "command": command,
            "from": str(made.before.status) if made.before else None,
            "to": str(made.after.status),
            "digest_before": made.digest_before or None,
            **plan.more,
        }
        return LedgerEntry(
            kind="intent_change",
            task_id=self._task,
            intent_id=made.after.id,
            intent_rev=made.after.revision,
            intent_digest=made.digest_after,
            outcome="success",
            approval={"by": self.by, "answer": command, **({"reason": reason} if reason else {})},
            contributor="human",
            related=made.after.related,
            more={"change": change},
        )


def _status_command(name: str, text: str) -> click.Command:
    """A command that only changes the status."""

    @click.command(name, help=text)
    @click.argument("intent_id", metavar="ID")
    @_REASON
    @governed_command
    def run(governed: GovernedFolder, intent_id: str, reason: str) -> int:
        find = governed.valid_intent if name == "start" else governed.intent
        return change_status(governed, name, find(intent_id), reason)

    return run


start_command = _status_command("start", "Start an intent, so that agents can work on it.")
pause_command = _status_command("pause", "Pause an intent. It is deselected in running sessions.")
reopen_command = _status_command("reopen", "Reopen a completed or abandoned intent.")


@click.command("expand")
@click.argument("intent_id", metavar="ID")
@click.argument("patterns", nargs=-1, required=True, metavar="PATTERN...")
@_REASON
@governed_command
def expand_command(
    governed: GovernedFolder, intent_id: str, patterns: Sequence[str], reason: str
) -> int:
    """Add files or patterns to the scope of an intent."""
    if wrong := next(filter(None, map(scope_fault, patterns)), ""):
        raise SettingsError(wrong)
    intent = governed.valid_intent(intent_id)
    new = tuple(dict.fromkeys(each for each in patterns if each not in intent.owned_scope))
    if not new:
        governed.echo(f"{intent.id} already has {_quoted(patterns)} in its scope")
        governed.print_json({"id": intent.id, "added": [], "revision": intent.revision})
        return 0

    def plan(text: IntentText) -> PlannedChange:
        current = _current(text, intent)
        added = [each for each in new if each not in current.owned_scope]
        edits = scope_edits(current, added, at=timestamp(now()))
        return PlannedChange(intent_id=current.id, edits=edits, more={"scope_added": added})

    made = IntentChanger(governed).change("expand", plan, reason=reason)
    governed.echo(
        f"added {_quoted(new)} to {made.after.id} (revision {made.after.revision}, "
        f"digest {_short(made.digest_before)} -> {_short(made.digest_after)})",
        "running tasks must select the intent again",
    )
    governed.print_json(
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


def change_status(governed: GovernedFolder, command: str, intent: Intent, reason: str) -> int:
    """Change the status of an intent, and print it. Raises `RookeryError`."""
    changer = IntentChanger(governed)

    def plan(text: IntentText) -> PlannedChange:
        current = _current(text, intent)
        step, at = possible_move(command, current, text.file), timestamp(now())
        edits = edits_for(step, current, at=at, by=changer.by, reason=reason)
        return PlannedChange(intent_id=current.id, edits=edits)

    made = changer.change(command, plan, reason=reason)
    unmet = governed.file.unmet(intent) if command == "start" else ()
    notes = [f"not completed yet: {', '.join(unmet)}"] if unmet else []
    old, new = made.before, made.after
    revision = f" (revision {new.revision})" if old and old.revision != new.revision else ""
    governed.echo(
        f"{new.id} {new.status}{revision}.{tasks_note(made)}",
        *(f"  {harmless_line(note)}" for note in notes),
    )
    governed.print_json(
        {
            "id": new.id,
            "status": str(new.status),
            "before": str(old.status) if old else None,
            "revision": new.revision,
            "digest": made.digest_after,
            "running_tasks": made.tasks,
            "notes": notes,
        }
    )
    return 0


def possible_move(command: str, intent: Intent, file: IntentFile) -> Move:
    """The move that the command makes. Raises `RookeryError`."""
    found = move(command, intent.status)
    if found is None:
        raise RookeryError(_hint(command, intent))
    if found.needs_scope and not any(each[:1] != "!" for each in intent.owned_scope):
        raise RookeryError(
            f"{intent.id} has no scope yet. Add files with: {NAME} intents expand "
            f"{intent.id} PATTERN"
        )
    unmet = file.unmet(intent) if found.needs_dependencies else ()
    if unmet and file.policy.dependencies == "block":
        raise RookeryError(
            f"{intent.id} has open dependencies: {', '.join(unmet)}. It stays "
            f"{intent.status}, because of the policy dependencies: block."
        )
    return found


def _hint(command: str, intent: Intent) -> str:
    step = first_step(command, intent.status)
    if step is None:
        return f"{intent.id} is already {intent.status}; nothing was changed."
    arrives = any(each.after is step.after for each in LIFECYCLE if each.command == command)
    run = "run" if arrives else "run first"
    return f"{intent.id} is {intent.status}; {run}: {NAME} intents {step.command} {intent.id}"


def _current(text: IntentText, intent: Intent) -> Intent:
    """The intent in the file as it is now. Raises `RookeryError` if it was removed."""
    current = text.file.find(intent.id)
    if current is None:
        raise RookeryError(f"{intent.id} was removed from the file just now; nothing was changed.")
    return current


def scope_fault(text: str) -> str:
    """What is wrong with a pattern; empty if it is valid."""
    try:
        scope_pattern(text)
    except PatternError as error:
        return f"{harmless_line(text)}: {error}."
    return ""


def tasks_note(made: MadeChange) -> str:
    if not made.tasks:
        return ""
    return f" {counted(made.tasks, 'running task')} will be notified."


def _quoted(patterns: Sequence[str]) -> str:
    return ", ".join(f'"{harmless_line(each)}"' for each in patterns)


def _short(digest: str) -> str:
    return f"{digest[:SHORT_DIGEST]}…"
