"""Changes of intents that a person orders: written into the intent file, and into the ledger."""

import uuid
from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct

from rookery.errors import RookeryError
from rookery.governance.cli.intents_common import Desk, now, who
from rookery.governance.criteria.criteria_standing import CHECK_TOOL, check_call_id
from rookery.governance.intents.intent import Intent, IntentFile, digest
from rookery.governance.intents.intent_edits import Edit
from rookery.governance.intents.intent_writer import EditOf, IntentWriter
from rookery.governance.intents.leases import Leases
from rookery.governance.ledger.ledger_recording import Recording
from rookery.governance.ledger.records import Entry, Outcome, Related


class NotPossible(RookeryError):
    """The intent is not in a state in which this can be done; nothing was changed."""


class Plan(Struct, frozen=True, kw_only=True):
    """What is to be written about one intent."""

    intent_id: str
    edits: tuple[Edit, ...]
    more: dict[str, Any]
    """What the ledger is told besides."""


class Made(Struct, frozen=True, kw_only=True):
    before: Intent | None
    after: Intent
    digest_before: str
    digest_after: str
    tasks: int
    """How many tasks run under it at this moment."""


class Changing:
    """One command's changes. What the ledger cannot take is not done."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self.by = who(desk.layout.root)
        self._task = f"person-{uuid.uuid4().hex[:12]}"
        self._recording: Recording | None = None

    def change(self, command: str, plan: Callable[[IntentFile], Plan], *, reason: str = "") -> Made:
        """`plan` says what is to be done to the file as it stands, or raises."""
        desk = self._desk
        planned = plan(desk.usable)
        recording = self._opened()

        def decide(file: IntentFile) -> Sequence[EditOf]:
            nonlocal planned
            planned = plan(file)
            return _edits(planned)

        after = IntentWriter(desk.layout).change(desk.text, _edits(planned), decide)
        made = self._made(desk.file, after.file, planned.intent_id)
        recording.note(self._entry(command, planned, made, reason))
        recording.close()
        desk.text = after
        return made

    def note_check(
        self, intent: Intent, criterion: str, command: str, exit_code: int | None, *, ok: bool
    ) -> str:
        """Record the run of a criterion's command, and give the record's id."""
        outcome: Outcome = "success" if ok else "failure"
        entry = Entry(
            kind="command",
            task_id=self._task,
            intent_id=intent.id,
            intent_rev=intent.revision,
            intent_digest=digest(intent, self._desk.file.policy),
            tool_name=CHECK_TOOL,
            tool_use_id=check_call_id(intent.id, criterion),
            command={"text": command, "exit_code": exit_code},
            outcome=outcome,
            contributor="human",
        )
        return self._opened().note(entry).id

    def _opened(self) -> Recording:
        """Raises `LedgerUnwritable` before anything is done that could not be recorded."""
        if self._recording is None:
            self._recording = self._desk.recording()
            self._recording.ledger.tail()
        return self._recording

    def _made(self, before: IntentFile, after: IntentFile, intent_id: str) -> Made:
        old, new = before.find(intent_id), after.find(intent_id)
        assert new is not None, "the writer has checked that it is there"
        living = Leases(self._desk.layout).living(now=now())
        return Made(
            before=old,
            after=new,
            digest_before=digest(old, before.policy) if old else "",
            digest_after=digest(new, after.policy),
            tasks=sum(lease.intent_id == intent_id for lease in living),
        )

    def _entry(self, command: str, plan: Plan, made: Made, reason: str) -> Entry:
        change = {
            "command": command,
            "from": str(made.before.status) if made.before else None,
            "to": str(made.after.status),
            "digest_before": made.digest_before or None,
            **plan.more,
        }
        return Entry(
            kind="intent_change",
            task_id=self._task,
            intent_id=made.after.id,
            intent_rev=made.after.revision,
            intent_digest=made.digest_after,
            outcome="success",
            approval={"by": self.by, "answer": command, **({"reason": reason} if reason else {})},
            contributor="human",
            related=tuple(Related(type=each.type, url=each.url) for each in made.after.related),
            more={"change": change},
        )


def _edits(plan: Plan) -> tuple[EditOf, ...]:
    return tuple(EditOf(plan.intent_id, each) for each in plan.edits)
