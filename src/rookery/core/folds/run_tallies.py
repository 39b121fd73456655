"""Totals of a run, folded from its facts: usage, refused actions, and governance."""

import json
from typing import Any, Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import fields, replace

from rookery.core.asks import AskKind
from rookery.core.blocks import ToolCall
from rookery.core.facts import (
    Answered,
    Asked,
    AssistantSpoke,
    Condensed,
    CriteriaChecked,
    Ending,
    Fact,
    FilesChanged,
    Governed,
    IntentSelected,
    Noted,
    OutOfScopeWritten,
    RequestFailed,
    Spent,
    ToolFinished,
    ToolStarted,
    Unrecorded,
    Usage,
)
from rookery.core.replies import sentence_in

NOT_INTERACTIVE = "This run is not interactive."
MOST_NAMED = 3
By: TypeAlias = Literal["user", "policy", "rule"]

UNRECORDED = ("TRC-001", "TRC-002")


def added(one: Usage, other: Usage) -> Usage:
    """The sum. The cost is unknown only if both are unknown."""
    costs = [usage.cost for usage in (one, other) if usage.cost is not None]
    return Usage(
        tokens_in=one.tokens_in + other.tokens_in,
        tokens_out=one.tokens_out + other.tokens_out,
        cache_reads=one.cache_reads + other.cache_reads,
        cache_writes=one.cache_writes + other.cache_writes,
        cost=sum(costs) if costs else None,
    )


def paid_in(fact: Fact) -> Usage | None:
    """The usage of a model that a fact reports, if any."""
    match fact:
        case (
            AssistantSpoke(usage=usage)
            | RequestFailed(usage=usage)
            | Condensed(usage=usage)
            | Noted(usage=Usage() as usage)
        ):
            return usage
        case _:
            return None


LIMITED = tuple(field.name for field in fields(Spent))
"""Usage that has a limit."""


def limit_in(question: str) -> str:
    """The limit that a question is about; empty if it cannot be parsed."""
    try:
        kind = json.loads(question)["type"]
    except (ValueError, KeyError, TypeError):
        return ""
    return kind if kind in LIMITED else ""


def spent_with(spent: Spent, usage: Usage) -> Spent:
    return replace(
        spent,
        tokens=spent.tokens + usage.tokens_in + usage.tokens_out,
        cost=spent.cost + (usage.cost or 0.0),
    )


def spent_without(spent: Spent, kind: str) -> Spent:
    """The usage after a yes: only the limit that was asked about starts again."""
    none = Spent()
    return replace(spent, **{kind: getattr(none, kind)}) if kind else none


def used_since(before: Spent, now: Spent) -> Spent:
    """The difference. A limit that started again since counts from there."""
    kinds = {kind: (getattr(before, kind), getattr(now, kind)) for kind in LIMITED}
    return Spent(**{kind: new - old if new >= old else new for kind, (old, new) in kinds.items()})


def used_together(*all_of_it: Spent) -> Spent:
    return Spent(**{kind: sum(getattr(each, kind) for each in all_of_it) for kind in LIMITED})


def used_up(budget: Spent, used: Spent) -> str:
    """The first kind of usage that has reached its budget; empty if none has."""
    return next((kind for kind in LIMITED if 0 < getattr(budget, kind) <= getattr(used, kind)), "")


class Totals(Struct, frozen=True, kw_only=True):
    """Sums over all requests. Cache usage that the provider never reported stays None.

    `context_tokens` is the size of the newest request with a reported size.
    """

    tokens_in: int = 0
    tokens_out: int = 0
    cache_writes: int | None = None
    cache_reads: int | None = None
    cost: float = 0.0
    context_tokens: int = 0


def plus(totals: Totals, usage: Usage) -> Totals:
    caching = bool(usage.cache_reads or usage.cache_writes)
    return replace(
        totals,
        tokens_in=totals.tokens_in + usage.tokens_in,
        tokens_out=totals.tokens_out + usage.tokens_out,
        cache_writes=_sum(totals.cache_writes, usage.cache_writes)
        if caching
        else totals.cache_writes,
        cache_reads=_sum(totals.cache_reads, usage.cache_reads) if caching else totals.cache_reads,
        cost=totals.cost + (usage.cost or 0.0),
        context_tokens=(usage.tokens_in + usage.tokens_out) or totals.context_tokens,
    )


def _sum(total: int | None, more: int) -> int:
    return (total or 0) + more


class Denial(Struct, frozen=True, kw_only=True):
    """`by` is who answered the question; "rule" if there was none."""

    call: ToolCall
    reason: str
    by: By
    change: bool
    """Whether it would have changed something."""


class Denials:
    def __init__(self) -> None:
        self.found: list[Denial] = []
        self._changed = False
        self._ran: set[str] = set()
        """Commands that may have changed files."""
        self._compared: set[str] = set()
        """Calls for which it is known whether they changed files."""
        self._calls: dict[str, ToolCall] = {}
        self._began: dict[str, ToolStarted] = {}
        self._asked: dict[str, str] = {}
        """The call of each question."""
        self._answers: dict[str, By] = {}
        """Who refused each call."""

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
        """Forget refusals that are reported."""
        self.found.clear()

    @property
    def all_changes_refused(self) -> bool:
        """Whether changes were requested and none was made. A command counts as a change if it
        may have changed files and no checkpoint shows otherwise."""
        changed = self._changed or self._ran - self._compared
        return not changed and any(each.change for each in self.found)

    def summary(self, how_to_allow: str) -> str:
        """One line for a person; empty if nothing was refused. `how_to_allow` is added for
        actions that lacked only approval."""
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
                return "You rejected the last one."
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


class GovernanceTally:
    """Empty as long as no task is governed."""

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
        self._held = ""
        """Why a hook objects to the end of the turn."""
        self._changing: set[str] = set()
        self._others: set[str] = set()
        """Calls that may change files without listing them."""
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
                # a call that began earlier does not answer it, even if it ends later
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
            case CriteriaChecked(by_hook=True, failed=failed, checks=checks):
                self._held = checks[0].text if failed else ""
            case CriteriaChecked(state_id=state_id):
                self._checks = fact
                self._state_id = state_id
            case _:
                pass

    def _changed(self) -> None:
        """A run that changed something was not stopped by earlier refusals."""
        self._mutations += 1
        self._unresolved = ""

    @property
    def code(self) -> str:
        """Why the run is not a success although its task was completed; empty if it is."""
        if self._unresolved in UNRECORDED:
            return "trace_failed"
        if self._observed:
            return ""
        if self._failing or self._held:
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
            return f"The criteria of {self._checks.intent_id} are not met: {which} failed."
        if self._held:
            return f"A hook still did not let the turn end: {self._held}"
        if self._outside:
            named = ", ".join(dict.fromkeys(self._outside[:5]))
            return f"A command changed files outside the scope of the intent: {named}."
        return f"Governance refused the task's last action ({self._unresolved})."

    def as_json(self) -> dict[str, Any] | None:
        if not self.governed:
            return None
        values: dict[str, Any] = {
            "intent_id": self._intent or None,
            "mutations": self._mutations,
            "blocked": self._blocked,
            "approvals": self._approvals,
            "out_of_scope": list(dict.fromkeys(self._outside)),
            "state_id": self._state_id or None,
        }
        if self._checks:
            values["criteria"] = [
                {"id": each.id, "state": each.state, "text": each.text}
                for each in self._checks.checks
            ]
        return values
