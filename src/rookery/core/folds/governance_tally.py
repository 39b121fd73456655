"""What governance came to in a run, folded from the facts of its tasks."""

from typing import Any

from rookery.core.facts import (
    Answered,
    Asked,
    CriteriaChecked,
    Ending,
    Fact,
    FilesChanged,
    Governed,
    IntentSelected,
    OutOfScopeWritten,
    ToolFinished,
    ToolStarted,
    Unrecorded,
)

UNRECORDED = ("TRC-001", "TRC-002")


class GovernanceTally:
    """Nothing, as long as no task is governed."""

    def __init__(self) -> None:
        self.governed = False
        self._observed = False
        self._intent = ""
        self._mutations = 0
        self._blocked = 0
        self._approvals = 0
        self._outside: list[str] = []
        self._state_id = ""
        self._checks: CriteriaChecked | None = None
        self._changing: set[str] = set()
        self._others: set[str] = set()
        """Calls that may change files without saying which."""
        self._asked: set[str] = set()
        self._unresolved = ""

    def see(self, fact: Fact) -> None:
        match fact:
            case Governed(mode=mode):
                self.governed = True
                self._observed = mode == "observe"
            case IntentSelected(intent_id=intent_id):
                self._intent = intent_id
            case ToolStarted(call_id=call_id, changes=changes) if changes:
                self._changing.add(call_id)
            case ToolStarted(call_id=call_id, child=""):
                self._others.add(call_id)
            case Unrecorded(code=code):
                self._unresolved = code
            case ToolFinished(refusal=refusal) if refusal:
                self._blocked += 1
                self._unresolved = refusal
                # what was begun before is no answer to it, however late it shows
                self._others.clear()
            case ToolFinished(call_id=call_id, ending=Ending.DONE) if call_id in self._changing:
                self._changed()
            case FilesChanged(call_id=call_id, before=before, after=after) if (
                call_id in self._others and before != after
            ):
                self._changed()
            case Asked(ask_id=ask_id, governance=question) if question:
                self._asked.add(ask_id)
            case Answered(ask_id=ask_id, reply="yes") if ask_id in self._asked:
                self._approvals += 1
            case OutOfScopeWritten(paths=paths):
                self._outside.extend(paths)
            case CriteriaChecked(state_id=state_id):
                self._checks = fact
                self._state_id = state_id
            case _:
                pass

    def _changed(self) -> None:
        """Who got something done was not stopped by what was refused before."""
        self._mutations += 1
        self._unresolved = ""

    @property
    def code(self) -> str:
        """Why a run is no success although its task was completed; empty if it is one."""
        if self._unresolved in UNRECORDED:
            return "trace_failed"
        if self._observed:
            return ""
        if self._failing:
            return "criteria_failed"
        return "governance_refused" if self._unresolved or self._outside else ""

    @property
    def _failing(self) -> list[str]:
        checks = self._checks.checks if self._checks else ()
        return [f"{each.id} ({each.command})" for each in checks if each.state == "failed"]

    @property
    def reason(self) -> str:
        if self._failing and self._checks:
            which = ", ".join(self._failing)
            return f"The criteria of {self._checks.intent_id} are not met: {which} fails."
        if self._outside:
            named = ", ".join(dict.fromkeys(self._outside[:5]))
            return f"A command changed files outside the scope of the intent: {named}."
        return f"What the task wanted to do last was refused by governance ({self._unresolved})."

    def as_json(self) -> dict[str, Any] | None:
        if not self.governed:
            return None
        told: dict[str, Any] = {
            "intent_id": self._intent or None,
            "mutations": self._mutations,
            "blocked": self._blocked,
            "approvals": self._approvals,
            "out_of_scope": list(dict.fromkeys(self._outside)),
            "state_id": self._state_id or None,
        }
        if self._checks:
            told["criteria"] = [
                {"id": each.id, "state": each.state, "text": each.text}
                for each in self._checks.checks
            ]
        return told
