"""The only way from a tool call to its effect.

The gate asks every hook, applies the strictest ruling, and asks the user at most one question. The
result is a permit for exactly this action, or a refusal. The hooks are informed of the result.

A formatter or watcher may change a file right after a call wrote it. The model is then shown the
difference; otherwise its next edit would be refused as stale.
"""

import json
from collections.abc import Callable, Sequence
from functools import partial
from hashlib import sha256

import anyio
import anyio.to_thread
from msgspec.structs import replace

from rookery.core.asks import AskKind, Decision, Ruling, strictest
from rookery.core.blocks import ToolCall
from rookery.core.facts import Answered, Change, Ending, Seen
from rookery.core.replies import (
    AMENDED,
    AS_SPECIFIED,
    BLOCKED,
    EDITED_BESIDE,
    NOT_AS_SPECIFIED,
    REMOVED,
    denied,
)
from rookery.core.text.text_lines import shown_difference
from rookery.engine.dialogue import Dialogue
from rookery.engine.ports.actions import Action, Deed, Judgement, Outcome, Permit
from rookery.engine.ports.hooks import Hook, RuleBook, denial_of
from rookery.engine.ports.workspace import Files, FileText
from rookery.errors import ChangedMeanwhile, CommandRejected, Denied, StorageError, ToolError

NOT_SHOWN = "(The changes are not known.)"
WITHHELD = "(The changes are not shown: a rule does not let you read this file.)"


async def with_amendments(
    files: Files, action: Action, permit: Permit, outcome: Outcome
) -> Outcome:
    """The outcome, with a note about files that others changed since the call wrote them.

    Shielded from cancellation, because the effect of the call must be recorded.
    """
    if outcome.ending is not Ending.DONE:
        return outcome
    with anyio.CancelScope(shield=True):
        for change in action.changes:
            outcome = await _amended(files, change, permit, outcome)
    return outcome


async def _amended(files: Files, change: Change, permit: Permit, outcome: Outcome) -> Outcome:
    sha = await _sha_of(files, change.path) if change.after else ""
    if sha == change.after:
        return outcome
    if not sha:
        return _not_as_specified(outcome, REMOVED.format(path=change.path))
    seen = Seen(change.path, sha, whole=False)
    if permit.withheld and permit.withheld(change.path):
        return _with_note(outcome, seen, WITHHELD)
    now = await _text_of(files, change.path)
    shown, all_of_it = await _difference(files.known_text(change.after), now)
    return _with_note(outcome, replace(seen, amended=all_of_it), shown)


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


def _with_note(outcome: Outcome, seen: Seen, shown: str) -> Outcome:
    noted = _not_as_specified(outcome, AMENDED.format(path=seen.path, difference=shown))
    return replace(noted, seen=(*outcome.seen, seen))


def _not_as_specified(outcome: Outcome, note: str) -> Outcome:
    text = outcome.text
    for said in AS_SPECIFIED:
        text = text.replace(said, NOT_AS_SPECIFIED)
    return replace(outcome, text=f"{text}\n\n{note}")


async def _difference(before: str | None, now: FileText | None) -> tuple[str, bool]:
    """The difference, and whether it is complete."""
    if before is None or now is None:
        return NOT_SHOWN, False
    return await anyio.to_thread.run_sync(shown_difference, before, now.text)


REFUSED_BEFORE = "You refused exactly this before."
MOST_NAMED = 20
HOST_APPROVAL_NOTE = (
    "Your approval lasts until this session ends. The command is not run again automatically."
)
NON_INTERACTIVE = "non_interactive"
"""Reason of a refusal in a run that cannot ask a person."""


class Gate:
    def __init__(self, hooks: Sequence[Hook], dialogue: Dialogue, rules: RuleBook) -> None:
        self._hooks = hooks
        self._dialogue = dialogue
        self._rules = rules
        self._refused: set[str] = set()
        self._notes: dict[str, tuple[str, ...]] = {}
        """Notes for the model to append to the results of permitted calls."""

    async def rewrite(self, call: ToolCall) -> ToolCall:
        """The call as the hooks rewrite it. Raises `Denied`."""
        for hook in self._hooks:
            call = await hook.rewrite(call)
        return call

    async def pass_through(self, call: ToolCall, action: Action) -> tuple[Permit, Answered | None]:
        """Return a permit for the action, and the user's answer if the user was asked.

        Raises `Denied` if a hook or the user refuses.
        """
        ruling = strictest([await hook.before(call, action) for hook in self._hooks])
        if ruling.decision is Decision.DENY:
            raise await self._refuse(call, action, ruling, None)
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
            offline=ruling.offline and not by_hand,
        )
        for hook in self._hooks:
            permit = await hook.permitted(call, action, ruling, answer, permit)
        if ruling.result_notes:
            self._notes[call.id] = ruling.result_notes
        return permit, answer

    def _hosts(self, action: Action, judged: Judgement, *, by_hand: bool) -> frozenset[str]:
        """Hosts named in the command are allowed too if a person approved the command."""
        allowed = self._rules.hosts()
        # most commands name no host, and whether a rule allows one takes looks at files
        if not judged.hosts or not (by_hand or self._rules.allows(action)):
            return frozenset(allowed)
        return frozenset((*allowed, *judged.hosts))

    async def report(self, call: ToolCall, action: Action, outcome: Outcome) -> Outcome:
        """Report the performed action to all hooks. Returns the outcome that the model sees."""
        for hook in self._hooks:
            await hook.after(call, action, outcome)
        outcome = await self.ended(call, action, outcome)
        return _with_notes(self._notes.pop(call.id, ()), outcome)

    async def ended(self, call: ToolCall, action: Action, outcome: Outcome) -> Outcome:
        for hook in self._hooks:
            outcome = await hook.ended(call, action, outcome)
        return outcome

    async def interrupted(self, call: ToolCall, action: Action) -> None:
        with anyio.CancelScope(shield=True):
            for hook in self._hooks:
                await hook.interrupted(call, action)

    def with_code(self, call: ToolCall, error: ToolError) -> ToolError:
        """The error as the model sees it, with a code in a governed task."""
        self._notes.pop(call.id, None)
        if not isinstance(error, ChangedMeanwhile) or not self._dialogue.governed:
            return error
        from rookery.core.refusals import Refusal

        return denial_of(Refusal(code="REQ-007", message=str(error), reason="changed"), call)

    async def _ask(self, call: ToolCall, action: Action, ruling: Ruling) -> Answered:
        for hook in self._hooks:
            await hook.asked(call, action.title or shown_text(action))
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
            # with another reason to ask, such a rule would not help
            prefix="" if ruling.question or ruling.reasons else self._rules.prefix_for(action),
            harmless=self._is_harmless(action, ruling),
        )
        if answer.reply != "yes":
            self._refused.add(action.digest)
            denial = await self._refuse(call, action, ruling, answer)
            denial.images = answer.images
            raise denial
        if answer.always:
            self._remember(partial(self._rules.add, action))
        if answer.prefix:
            self._remember(partial(self._rules.add_prefix, action))
        return answer

    def _is_harmless(self, action: Action, ruling: Ruling) -> bool:
        """Whether it only edits ordinary files, so that a wrong answer can be undone."""
        remarkable = ruling.question or ruling.reasons or ruling.notes or action.notes
        edits = bool(action.changes) and not (action.command or action.external or action.child)
        return edits and not remarkable and bool(self._rules.rule_for(action))

    async def _refuse(
        self, call: ToolCall, action: Action, ruling: Ruling, answer: Answered | None
    ) -> Denied:
        for hook in self._hooks:
            await hook.refused(call, action, ruling, answer)
        return self._denial(call, ruling, answer)

    def _denial(self, call: ToolCall, ruling: Ruling, answer: Answered | None) -> Denied:
        """The refusal as the model sees it, with a code if a rule that has one refused."""
        said = answer.text if answer else ""
        halts = answer is not None and answer.choice == "halt"
        if ruling.refusals and self._dialogue.governed:
            from rookery.core.refusals import merged

            not_interactive = answer is not None and answer.by == "policy"
            refusal = merged(
                [replace(each, tool=call.name, tool_use_id=call.id) for each in ruling.refusals]
            )
            refusal = replace(
                refusal,
                feedback="" if not_interactive else said,
                reason=refusal.reason or (NON_INTERACTIVE if not_interactive else ""),
            )
            return denial_of(refusal, call, halts=halts)
        reasons = ruling.reasons if answer is None or answer.by == "policy" else ()
        why = "; ".join(reasons).replace(".; ", ". ")
        return Denied(denied(" ".join(filter(None, [said, why]))), halts=halts)

    async def ask_to_restore(self, call: ToolCall, paths: Sequence[str]) -> bool:
        """Ask whether to restore files that a command changed outside the scope."""
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

    async def ask_to_allow_hosts(self, call: ToolCall, hosts: Sequence[str]) -> bool:
        """Ask whether later commands may reach hosts that this one was blocked from."""
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
                HOST_APPROVAL_NOTE,
            ),
            rule=self._rules.rule_for_hosts(hosts),
        )
        if answer.reply != "yes" or answer.by != "user":
            return False
        try:
            self._rules.allow_hosts(hosts, always=answer.always)
        except (StorageError, CommandRejected) as error:
            self._dialogue.note(f"Allowed only until this session ends; no rule was saved: {error}")
        return True

    def _remember(self, add: Callable[[], None]) -> None:
        """Add a rule. The action is approved once even if no rule can be stored."""
        try:
            add()
        except (StorageError, CommandRejected) as error:
            self._dialogue.note(f"Approved once, not always: {error}")


def shown_text(action: Action) -> str:
    """The text of an action for clients: the command line, or the tool's payload as JSON."""
    return action.command or json.dumps(dict(action.payload), ensure_ascii=False)


def _with_notes(notes: Sequence[str], outcome: Outcome) -> Outcome:
    if not notes or outcome.ending is not Ending.DONE:
        return outcome
    text = outcome.text
    for said in AS_SPECIFIED:
        text = text.replace(said, EDITED_BESIDE)
    return replace(outcome, text="\n\n".join([text, *notes]))
