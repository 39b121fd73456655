"""One turn of a session for a tool call: it runs until the agent is done or needs an answer.

The calling agent never approves an action. The user does, in a form of the MCP client. If the
client shows no forms, the turn stops at the question, and the result has it.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from rookery import NAME
from rookery.compat.acp.folders import OpenedFolder
from rookery.compat.acp.questions import question_notes, question_text
from rookery.core.asks import APPROVALS, ASKED_AGAIN, AskKind
from rookery.core.commands import OpenTask, ReopenTask
from rookery.core.event_list import live
from rookery.core.facts import Answered, Asked, CompletionOffered, Event, ToolStarted
from rookery.core.queries import AskDifferences, FileDifference
from rookery.core.text.terminal_text import harmless
from rookery.errors import RookeryError
from rookery.protocol.attend import Displays, Fate, Leave, Response, RunEnd, Say, attend
from rookery.protocol.codec import Host
from rookery.protocol.jsonrpc import Peer, RpcError
from rookery.protocol.outcomes import Troubles, Unattended

LONGEST_SHOWN = 4000
"""Characters of a diff in a form."""
ALLOW, REJECT = "Allow once", "Reject"
REJECTED = "The user rejected this action."
WAITING = (
    "The MCP client cannot ask the user, so the session waits. The user can answer in a terminal: "
    f"{NAME} --resume {{}}. Rules in the user's settings and flags of {NAME} mcp serve can allow "
    "such actions. A message rejects the action."
)
HOW_TO_ALLOW = "Only the user can allow it."
UNTRUSTED = f"The folder is not trusted, so it is read-only. The user can trust it: {NAME} trust"
Status: TypeAlias = Literal["completed", "question", "waiting_for_approval", "stopped", "failed"]


class CallResult(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a tool call returns about a session."""

    session_id: str
    status: Status
    answer: str = ""
    question: str = ""
    """What the agent asks; the next message answers it."""
    approval: str = ""
    """The action that waits for the user's approval."""
    reason: str = ""
    """Why it stopped."""
    changes: Sequence[FileDifference] = ()
    """What the session has changed."""
    refused: Sequence[dict[str, Any]] = ()
    note: str = ""


class SessionCall:
    """Runs a turn and answers its questions. `progress` gets a line for each action."""

    def __init__(
        self, client: Peer, *, forms: bool, message: str, progress: Callable[[str], None]
    ) -> None:
        """`forms`: the client can ask the user. `message` continues a stored session."""
        self._client = client
        self._forms = forms
        self._message = message
        self._progress = progress
        self._rules = Unattended(automatic=False)
        self._troubles = Troubles()
        self._answer = ""
        self._question = ""
        self._waiting = ""
        self._changes: tuple[FileDifference, ...] = ()
        self._asked_before = False
        """Whether the stored session waits for an answer; the message is that answer."""

    async def start(self, folder: OpenedFolder, first: OpenTask | ReopenTask) -> CallResult:
        """Open the task, run the turn, and return its result."""
        self._asked_before = waits_for_answer(folder.stored)
        for event in folder.stored:
            self._troubles.denials.see(event.fact)
        self._troubles.denials.forget()  # earlier turns reported them
        await folder.host.send(first)
        end = await attend(
            folder.host,
            first.task_id,
            display=Displays(self, self._rules),
            respond=partial(self._respond, folder.host, first.task_id),
            after=folder.stored[-1].seq if folder.stored else 0,
        )
        return self._result(first.task_id, end, trusted=folder.trusted)

    def show(self, event: Event, child: str = "") -> None:
        self._troubles.see(event)
        match event.fact:
            case ToolStarted(title=title):
                self._progress(harmless(title))
            case CompletionOffered(result=result) if not child:
                self._answer = result
            case _:
                pass

    async def _respond(self, host: Host, task_id: str, asked: Asked) -> Response:
        response = await self._decide(asked)
        if isinstance(response, Leave) or asked.ask is AskKind.COMPLETION_RESULT:
            with suppress(RookeryError):  # such as without checkpoints
                self._changes = await host.query(AskDifferences(task_id=task_id))
        return response

    async def _decide(self, asked: Asked) -> Response:
        if asked.ask in APPROVALS:
            return await self._approval(asked)
        if asked.ask is AskKind.RESUME_TASK and self._asked_before:
            return Say("yes", by="policy")
        takes_message = asked.ask in (AskKind.FOLLOWUP, *ASKED_AGAIN)
        if takes_message and not asked.title and (message := self._take_message()):
            return Say("message", message)
        if asked.ask is AskKind.FOLLOWUP:
            self._question = question_text(asked)
            return Leave("The agent asks a question.", "needs_human")
        return await self._rules(asked)

    def _take_message(self) -> str:
        message, self._message = self._message, ""
        return message

    async def _approval(self, asked: Asked) -> Response:
        """Only the offered word in an accepted form approves. Anything else rejects or waits."""
        form = approval_form(asked)
        if not self._forms:
            if message := self._take_message():
                return Say("no", message, by="policy")
            return self._wait(form)
        self._progress(f"Waiting for the user: {harmless(asked.title)}")
        try:
            response = await self._client.call("elicitation/create", form)
        except RpcError:
            return self._wait(form)
        match response:
            case {"action": "accept", "content": {"decision": str(word)}} if word == ALLOW:
                return Say("yes")
            case {"action": "accept", "content": {"reason": str(reason)}} if reason.strip():
                return Say("no", reason)
            case _:
                return Say("no", REJECTED)

    def _wait(self, form: dict[str, Any]) -> Leave:
        self._waiting = form["message"]
        return Leave("An action needs the user's approval.", "needs_human")

    def _result(self, task_id: str, end: RunEnd, *, trusted: bool) -> CallResult:
        denials = self._troubles.denials
        note = denials.summary(HOW_TO_ALLOW) or ("" if trusted else UNTRUSTED)
        return CallResult(
            session_id=task_id,
            status=self._status(end),
            answer=self._answer if end.fate is Fate.COMPLETED else "",
            question=self._question,
            approval=self._waiting,
            reason="" if self._question or self._waiting else end.reason,
            changes=self._changes,
            refused=denials.as_json() or (),
            note=WAITING.format(task_id) if self._waiting else note,
        )

    def _status(self, end: RunEnd) -> Status:
        if self._waiting:
            return "waiting_for_approval"
        if self._question:
            return "question"
        by_fate: dict[Fate, Status] = {Fate.COMPLETED: "completed", Fate.FAILED: "failed"}
        return by_fate.get(end.fate, "stopped")


def approval_form(asked: Asked) -> dict[str, Any]:
    """The form that asks the user about one action. It has no preselected answer."""
    diff = asked.diff
    if len(diff) > LONGEST_SHOWN:
        diff = f"{diff[:LONGEST_SHOWN]}\n... (the diff has {len(diff)} characters)"
    command = asked.text if asked.ask is AskKind.COMMAND else ""
    shown = [f"{NAME} asks: {asked.title or asked.text}", command, question_notes(asked), diff]
    decision = {"type": "string", "title": "Decision", "enum": [ALLOW, REJECT]}
    reason = {"type": "string", "title": "Reason for a rejection"}
    return {
        "message": harmless("\n".join(filter(None, shown))),
        "requestedSchema": {
            "type": "object",
            "properties": {"decision": decision, "reason": reason},
            "required": ["decision"],
        },
    }


def last_answer(stored: Sequence[Event]) -> str:
    """The last result of a stored session."""
    offered = (each.fact for each in live(stored) if isinstance(each.fact, CompletionOffered))
    return next((fact.result for fact in reversed([*offered])), "")


def waits_for_answer(stored: Sequence[Event]) -> bool:
    """Whether a stored session ended at a question of the agent or about an action."""
    about = (each.fact for each in reversed(live(stored)))
    last = next((fact for fact in about if isinstance(fact, Asked | Answered)), None)
    return isinstance(last, Asked) and last.ask in (AskKind.FOLLOWUP, *APPROVALS)
