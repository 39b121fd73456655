"""Actions that were refused in a run, folded from the facts of its tasks."""

from typing import Any, Literal, TypeAlias

from msgspec import Struct

from rookery.core.asks import AskKind
from rookery.core.blocks import ToolCall
from rookery.core.facts import (
    Answered,
    Asked,
    AssistantSpoke,
    Ending,
    Fact,
    FilesChanged,
    ToolFinished,
    ToolStarted,
)
from rookery.core.replies import sentence_in

NOT_INTERACTIVE = "This run is not interactive."
MOST_NAMED = 3

By: TypeAlias = Literal["user", "policy", "rule"]


class Denial(Struct, frozen=True, kw_only=True):
    """`by` is who answered the question; "rule" if none was asked."""

    call: ToolCall
    reason: str
    by: By
    change: bool
    """It would have changed something."""


class Denials:
    def __init__(self) -> None:
        self.found: list[Denial] = []
        self._changed = False
        self._ran: set[str] = set()
        """Commands that may have changed files."""
        self._compared: set[str] = set()
        """Calls of which it is known whether they changed files."""
        self._calls: dict[str, ToolCall] = {}
        self._began: dict[str, ToolStarted] = {}
        self._asked: dict[str, str] = {}
        """The calls that questions are about."""
        self._answers: dict[str, By] = {}
        """Who said no to a call."""

    def see(self, fact: Fact) -> None:
        match fact:
            case AssistantSpoke(blocks=blocks):
                self._calls |= {each.id: each for each in blocks if isinstance(each, ToolCall)}
            case ToolStarted(call_id=call_id):
                self._began[call_id] = fact
            case Asked(ask_id=ask_id, call_id=call_id) if call_id:
                self._asked[ask_id] = call_id
            case Answered(ask_id=ask_id, by=by, reply=reply) if ask_id in self._asked:
                if reply != "yes":
                    self._answers[self._asked[ask_id]] = by
            case ToolFinished():
                self._end(fact)
            case FilesChanged(call_id=call_id, before=before, after=after):
                self._compared.add(call_id)
                self._changed |= before != after
            case _:
                pass

    def forget(self) -> None:
        """What was refused so far has been told."""
        self.found.clear()

    @property
    def all_changes_refused(self) -> bool:
        """Whether something was to be changed, and nothing was. A command counts as a
        change if it may have changed files and no checkpoint tells."""
        changed = self._changed or self._ran - self._compared
        return not changed and any(each.change for each in self.found)

    def summary(self, how_to_allow: str) -> str:
        """One line for a person; nothing if nothing was refused. `how_to_allow` is for what only
        an approval was missing for."""
        if not self.found:
            return ""
        many = len(self.found)
        counted = "1 action was refused" if many == 1 else f"{many} actions were refused"
        names = list(dict.fromkeys(each.call.name for each in self.found))
        more = ", ..." if len(names) > MOST_NAMED else ""
        named = ", ".join(names[:MOST_NAMED]) + more
        return f"{counted} ({named}). {self._why(how_to_allow)}".rstrip()

    def as_json(self) -> list[dict[str, Any]] | None:
        return [_told(each) for each in self.found] or None

    def _end(self, end: ToolFinished) -> None:
        began = self._began.pop(end.call_id, None)
        refused = end.ending is Ending.DENIED or (end.refusal and end.ending is not Ending.DONE)
        if not refused:
            self._note_done(began, end.ending)
            return
        call = self._calls.get(end.call_id) or ToolCall(id=end.call_id, name="")
        by: By = self._answers.pop(end.call_id, "rule")
        change = end.would_change or bool(began and not began.harmless)
        denial = Denial(call=call, reason=sentence_in(end.text), by=by, change=change)
        self.found.append(denial)

    def _note_done(self, began: ToolStarted | None, ending: Ending) -> None:
        if began is None or began.only_reads:
            return
        if began.command:
            self._ran.add(began.call_id)
        elif began.changes or began.ask is AskKind.USE_MCP_SERVER:
            self._changed |= ending is Ending.DONE

    def _why(self, how_to_allow: str) -> str:
        last = self.found[-1]
        match last.by:
            case "policy":
                return f"{NOT_INTERACTIVE} {how_to_allow}"
            case "user":
                return "You refused the last of them."
            case _:
                return last.reason


def _told(denial: Denial) -> dict[str, Any]:
    call = denial.call
    return {
        "tool_name": call.name,
        "tool_use_id": call.id,
        "tool_input": dict(call.arguments),
        "reason": denial.reason,
    }
