"""The one way from a tool call to its effect.

Every hook is heard, the strictest ruling holds, and all that needs asking is asked in one
question. What comes out is a permit for exactly this action, or a refusal. Governance is one of
the hooks, and sees what comes out.

A formatter or a watcher may change a file again right after a call wrote it. The model is shown
the difference, or its next edit would be refused as stale.
"""

import json
from collections.abc import Mapping, Sequence
from hashlib import sha256

import anyio
import anyio.to_thread
from msgspec.structs import replace

from rookery.core.asks import AskKind, Decision, Ruling, strictest
from rookery.core.blocks import ToolCall
from rookery.core.command_lines import Deed, Judgement
from rookery.core.facts import Answered, Change, Ending, Seen
from rookery.core.replies import (
    AMENDED,
    AS_SPECIFIED,
    BLOCKED,
    EDITED_BESIDE,
    NOT_AS_SPECIFIED,
    denied,
)
from rookery.core.text.text_lines import shown_difference
from rookery.engine.dialogue import Dialogue
from rookery.engine.ports.actions import Action, Outcome, Permit
from rookery.engine.ports.hooks import Governance, Hook, RuleBook, Ungoverned
from rookery.engine.ports.workspace import Files, FileText
from rookery.errors import ChangedMeanwhile, CommandRejected, Denied, StorageError, ToolError

NOT_SHOWN = "(The changes are not known.)"
WITHHELD = "(The changes are not shown: a rule does not let you read this file.)"


async def texts_of(files: Files, action: Action) -> dict[str, FileText]:
    """The files that a call wrote, as they are now; without those that cannot be shown.

    Cancelling does not reach it: what the call did must still come on record.
    """
    paths = [change.path for change in action.changes if change.after]
    with anyio.CancelScope(shield=True):
        found = [await _text_of(files, path) for path in paths]
    return {file.path: file for file in found if file}


async def with_amendments(
    files: Files,
    action: Action,
    permit: Permit,
    written: Mapping[str, FileText],
    outcome: Outcome,
) -> Outcome:
    """The outcome, with what others have changed about the files since they were written.

    Cancelling does not reach it either.
    """
    if outcome.ending is not Ending.DONE:
        return outcome
    with anyio.CancelScope(shield=True):
        for change in action.changes:
            outcome = await _amended(files, change, permit, written.get(change.path), outcome)
    return outcome


async def _amended(
    files: Files, change: Change, permit: Permit, before: FileText | None, outcome: Outcome
) -> Outcome:
    sha = await _sha_of(files, change.path) if change.after else ""
    if sha in ("", change.after):
        return outcome
    seen = Seen(change.path, sha, whole=False)
    if permit.withheld and permit.withheld(change.path):
        return _told(outcome, seen, WITHHELD)
    own = before if before and before.sha == change.after else None
    shown, all_of_it = await _difference(own, await _text_of(files, change.path))
    return _told(outcome, replace(seen, amended=all_of_it), shown)


async def _sha_of(files: Files, path: str) -> str:
    try:
        return await files.sha(path) if files.locate(path) == path else ""
    except ToolError:
        return ""


async def _text_of(files: Files, path: str) -> FileText | None:
    try:
        file = await files.examine(path)
    except ToolError:
        return None
    return file if file and file.path == path else None  # a link may have taken its place


def _told(outcome: Outcome, seen: Seen, shown: str) -> Outcome:
    text = outcome.text
    for said in AS_SPECIFIED:
        text = text.replace(said, NOT_AS_SPECIFIED)
    told = AMENDED.format(path=seen.path, difference=shown)
    return replace(outcome, text=f"{text}\n\n{told}", seen=(*outcome.seen, seen))


async def _difference(before: FileText | None, now: FileText | None) -> tuple[str, bool]:
    """What differs, and whether that is all of it."""
    if before is None or now is None:
        return NOT_SHOWN, False
    return await anyio.to_thread.run_sync(shown_difference, before.text, now.text)


REFUSED_BEFORE = "You refused exactly this before."
MOST_NAMED = 20
YES_MEANS = "Your approval lasts until this task ends. The command is not run again automatically."
NOBODY = "non_interactive"
"""The reason of a refusal that no person has anything to do with."""


class Gate:
    def __init__(
        self,
        hooks: Sequence[Hook],
        dialogue: Dialogue,
        rules: RuleBook,
        governance: Governance | None = None,
    ) -> None:
        self.governance = governance or Ungoverned()
        self._hooks = (self.governance, *hooks)
        self._dialogue = dialogue
        self._rules = rules
        self._refused: set[str] = set()
        self._told: dict[str, tuple[str, ...]] = {}
        """What the model is to read with the result of a call that was let through."""

    async def pass_through(self, call: ToolCall, action: Action) -> tuple[Permit, Answered | None]:
        """A permit for the action, and the yes if somebody was asked.

        Raises `Denied` if a hook or the user says no.
        """
        ruling = strictest([await hook.before(call, action) for hook in self._hooks])
        if ruling.decision is Decision.DENY:
            await self.governance.refused(call, action, ruling, None)
            raise self._denial(call, ruling, None)
        answer = None
        if ruling.decision is Decision.ASK:
            answer = await self._ask(call, action, ruling)
        by_hand = answer is not None and answer.by == "user"
        judged = action.judgement or Judgement()
        permit = Permit(
            digest=action.digest,
            reads=frozenset(action.reads),
            changes=frozenset(action.changes),
            command=action.command,
            cwd=action.cwd,
            # what no person has read is not given to a shell if it can be helped
            plain=judged.plain if by_hand else judged.plain or judged.spelled,
            confined=not (judged.needs_keys and by_hand),
            git=judged.git,
            by_hand=by_hand,
            named=frozenset(each.path for each in judged.targets if each.deed is not Deed.READ),
            hosts=self._hosts(action, judged, by_hand=by_hand) if action.command else frozenset(),
        )
        permit = await self.governance.permitted(call, action, ruling, answer, permit)
        if ruling.told:
            self._told[call.id] = ruling.told
        return permit, answer

    def _hosts(self, action: Action, judged: Judgement, *, by_hand: bool) -> frozenset[str]:
        """Who allows a command has read which hosts it names."""
        allowed = self._rules.hosts()
        # most commands name no host, and whether a rule allows one takes looks at files
        if not judged.hosts or not (by_hand or self._rules.allows(action)):
            return frozenset(allowed)
        return frozenset((*allowed, *judged.hosts))

    async def report(self, call: ToolCall, action: Action, outcome: Outcome) -> Outcome:
        """The action was performed; what the model is to read about it."""
        for hook in self._hooks:
            await hook.after(call, action, outcome)
        outcome = await self.governance.ended(call, action, outcome) or outcome
        return _with(self._told.pop(call.id, ()), outcome)

    def told(self, call: ToolCall, error: ToolError) -> ToolError:
        """What went wrong, with a code if governance has one for it."""
        self._told.pop(call.id, None)
        if not isinstance(error, ChangedMeanwhile) or not self._dialogue.governed:
            return error
        from rookery.core.refusals import Refusal

        stale = Refusal(
            code="REQ-007",
            message=str(error),
            reason="changed",
            tool=call.name,
            tool_use_id=call.id,
        )
        text = json.dumps(stale.to_json(), ensure_ascii=False)
        return Denied(text, code=stale.code, retryable=stale.retryable)

    async def _ask(self, call: ToolCall, action: Action, ruling: Ruling) -> Answered:
        await self.governance.asked(call, action.title or shown_text(action))
        refused = [REFUSED_BEFORE] if action.digest in self._refused else []
        answer = await self._dialogue.ask(
            action.ask,
            shown_text(action),
            title=action.title,
            diff=action.diff,
            cwd=action.cwd,
            call_id=call.id,
            digest=action.digest,
            where=action.where,
            notes=tuple(dict.fromkeys([*refused, *ruling.reasons, *ruling.notes, *action.notes])),
            # what goes beyond an intent is never allowed for good
            rule="" if ruling.question else self._rules.rule_for(action),
            governance=ruling.question,
        )
        if answer.reply != "yes":
            self._refused.add(action.digest)
            await self.governance.refused(call, action, ruling, answer)
            denial = self._denial(call, ruling, answer)
            denial.images = answer.images
            raise denial
        if answer.always:
            self._remember(action)
        return answer

    def _denial(self, call: ToolCall, ruling: Ruling, answer: Answered | None) -> Denied:
        """With a code if governance is to blame, so that a program can go by it."""
        said = answer.text if answer else ""
        halts = answer is not None and answer.choice == "halt"
        if ruling.refusals and self._dialogue.governed:
            from rookery.core.refusals import merged

            nobody = answer is not None and answer.by == "policy"
            refusal = merged(
                [replace(each, tool=call.name, tool_use_id=call.id) for each in ruling.refusals]
            )
            refusal = replace(
                refusal,
                feedback="" if nobody else said,
                reason=refusal.reason or (NOBODY if nobody else ""),
            )
            text = json.dumps(refusal.to_json(), ensure_ascii=False)
            return Denied(
                text, code=refusal.code, retryable=refusal.retryable and not halts, halts=halts
            )
        why = ruling.reasons if answer is None or answer.by == "policy" else ()
        return Denied(denied(" ".join(filter(None, [said, *why]))), halts=halts)

    async def may_put_back(self, call: ToolCall, paths: Sequence[str]) -> bool:
        """Whether the user wants files as they were before a command that had no business there."""
        many = "a file" if len(paths) == 1 else f"{len(paths)} files"
        title = f"Restore {many} outside the scope?"
        shown = {"tool": "putBack", "paths": list(paths), "content": "\n".join(paths)}
        answer = await self._dialogue.ask(
            AskKind.TOOL,
            json.dumps(shown, ensure_ascii=False),
            title=title,
            call_id=call.id,
            digest=sha256("\0".join(paths).encode("utf-8", "surrogatepass")).hexdigest(),
            notes=("The command that was just run changed: " + ", ".join(paths[:MOST_NAMED]),),
        )
        return answer.reply == "yes"

    async def may_reach(self, call: ToolCall, hosts: Sequence[str]) -> bool:
        """Ask about hosts that a command was kept from. It has ended, so nothing waits for this."""
        names = ", ".join(hosts)
        ran = call.arguments.get("command") or call.name
        self._dialogue.note(BLOCKED.format(names))
        answer = await self._dialogue.ask(
            AskKind.TOOL,
            json.dumps({"tool": "allowHosts", "content": names}, ensure_ascii=False),
            title=f"Allow commands to reach {names}?",
            call_id=call.id,
            digest=sha256(f"hosts {names}".encode()).hexdigest(),
            notes=(
                f"Blocked while this ran: {ran}",
                YES_MEANS,
            ),
            rule=self._rules.rule_for_hosts(hosts),
        )
        if answer.reply != "yes" or answer.by != "user":
            return False
        try:
            self._rules.allow_hosts(hosts, always=answer.always)
        except (StorageError, CommandRejected) as error:
            self._dialogue.note(f"Allowed only until this task ends; no rule was saved: {error}")
        return True

    def _remember(self, action: Action) -> None:
        """What cannot be kept for later is allowed this once all the same."""
        try:
            self._rules.add(action)
        except (StorageError, CommandRejected) as error:
            self._dialogue.note(f"Approved once, not always: {error}")


def shown_text(action: Action) -> str:
    """What clients are told of an action: a command's own line, or the payload of a tool."""
    return action.command or json.dumps(dict(action.payload), ensure_ascii=False)


def _with(told: Sequence[str], outcome: Outcome) -> Outcome:
    if not told or outcome.ending is not Ending.DONE:
        return outcome
    text = outcome.text
    for said in AS_SPECIFIED:
        text = text.replace(said, EDITED_BESIDE)
    return replace(outcome, text="\n\n".join([text, *told]))
