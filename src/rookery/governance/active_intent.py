"""The active intent of a task, and whether it is still valid.

The active intent is part of the task's log. The intent file is read again before each call that
changes something. If the scope shrinks, the new scope applies immediately. If it grows, the agent
must select the intent again. If a call of the task itself changed the file, a person must approve
the selection.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from typing import Any

import anyio.to_thread

from rookery.core.asks import AskedReason, Decision, IntentQuestion, Ruling
from rookery.core.blocks import ToolCall
from rookery.core.facts import IntentCleared, IntentSelected, Noted, Reminded
from rookery.core.limits import MIB
from rookery.core.refusals import DECLINED, Refusal
from rookery.engine.ports.actions import Action
from rookery.engine.ports.hooks import TaskLog
from rookery.errors import RookeryError
from rookery.governance.intents.intent import (
    Intent,
    IntentFile,
    IntentPermissions,
    digest,
    expired,
    timestamp,
)
from rookery.governance.intents.intent_changes import (
    IntentDefinition,
    ScopeEffect,
    change,
    difference,
)
from rookery.governance.intents.intent_edits import PlannedChange, scope_edits
from rookery.governance.intents.intent_file import IntentText
from rookery.governance.intents.selection import (
    MOST_NAMED,
    choices_text,
    fact_of,
    is_descendant,
    wanted_id,
)
from rookery.governance.project import GovernedProject
from rookery.governance.scope.call_verdict import CallContext
from rookery.governance.scope.project_rules import CommandPolicy
from rookery.governance.scope.scope_patterns import scope
from rookery.governance.scope.touched_paths import ReachKind, reach
from rookery.platform.disk import Unreadable, small_file

NoteIntent = Callable[[Any, str, Mapping[str, Any] | None], Awaitable[None]]
LARGEST_RULES = 1 * MIB
"""Maximum bytes of a governance file that is hashed."""


class ActiveIntent:
    def __init__(
        self, project: GovernedProject, task_id: str, log: TaskLog, note: NoteIntent
    ) -> None:
        self.project = project
        self.task_id = task_id
        self._log = log
        self._note = note
        self._definitions: dict[str, IntentDefinition] = {}
        """Definitions by digest: the old one is needed to find out what a new one changes."""
        self.inherited = ""
        """The intent that the parent started this sub-task for."""
        self.reviewed_digest = ""
        """Digest of the definition that the user was asked to review, if any."""

    @property
    def intent_id(self) -> str:
        active = self._log.state.intent
        return active.intent_id if active else ""

    @property
    def definition(self) -> IntentDefinition | None:
        active = self._log.state.intent
        return self._definitions.get(active.digest) if active else None

    async def standing(self, action: Action) -> CallContext | Refusal | None:
        """What the call is judged by, or a refusal; None if the call needs no intent."""
        state = self._log.state
        text = await self.project.intents(state.intent.intent_id if state.intent else "")
        if refusal := _unusable(text):
            return refusal
        if state.intent is None:
            return None if self._needs_no_intent(action) else self._refuse_unselected(text)
        definition = await self._current_definition(state.intent, text)
        if isinstance(definition, Refusal):
            return definition
        if state.unread_intent and definition.policy.same_turn_writes == "deny":
            return Refusal(
                code="REQ-003",
                message="The intent was selected in the same answer, before its "
                "context could be read. Make the call again in the next one.",
                intent_id=definition.intent.id,
                reason="context_not_seen",
                steps=("read the intent's context, then make the call again",),
            )
        commands, wrong = self.project.commands() if action.command else (CommandPolicy(), "")
        return CallContext(
            intent=definition.intent,
            policy=definition.policy,
            digest=digest(definition.intent, definition.policy),
            rules=self.project.rules(definition.intent, definition.policy, text),
            commands=commands,
            commands_error=wrong,
            grants=state.grants,
            allow=self.project.allow,
        )

    async def reading_permissions(self) -> tuple[IntentPermissions, ...] | Refusal:
        """The permissions that apply to reading: those selected, and those in the file now."""
        active = self._log.state.intent
        if active is None:
            return ()
        text = await self.project.intents(active.intent_id)
        selected = self._definitions.get(active.digest)
        refusal = _unusable(text)
        if refusal and selected is None:
            return refusal
        now = None if refusal else _definition_in(text.file, active.intent_id)
        known = [each.intent.permissions for each in (selected, now) if each]
        return tuple(dict.fromkeys(known))

    def _needs_no_intent(self, action: Action) -> bool:
        if not (self.project.settings.commands.read_only_without_intent and action.command):
            return False
        judged = action.judgement
        return judged is not None and reach(judged).kind is ReachKind.READ_ONLY

    def _refuse_unselected(self, text: IntentText) -> Refusal:
        choices = text.file.selectable(self.project.now())
        message = f"Select an intent before you change anything. {choices_text(choices)}"
        ids = [each.id for each in choices[:MOST_NAMED]]
        return Refusal(code="REQ-003", message=message, details=(("selectable", ids),))

    async def _current_definition(
        self, active: IntentSelected, text: IntentText
    ) -> IntentDefinition | Refusal:
        """The active intent's current definition, if the selection is still valid."""
        new = _definition_in(text.file, active.intent_id)
        if new and digest(new.intent, new.policy) == active.digest:
            self._definitions[active.digest] = new
            if not expired(new.intent, self.project.now()):
                return new
            return await self._invalidate(active, "expired", ("budget",), "It has expired.")
        old = self._definitions.get(active.digest)
        if old is None or new is None:
            fields, reason = ("intent",), "removed" if new is None else "changed"
            return await self._invalidate(active, reason, fields, _reselect_hint(active, new))
        found = change(old, new, now=self.project.now())
        if found.effect is ScopeEffect.NARROWED:
            await self.adopt(fact_of(new, by="user"), new)
            names = ", ".join(found.fields)
            self._log.append(
                Reminded(text=f"[automatic] The scope of {active.intent_id} was reduced: {names}.")
            )
            return new
        return await self._invalidate(
            active, found.reason or str(found.effect), found.fields, _reselect_hint(active, new)
        )

    async def _invalidate(
        self, active: IntentSelected, reason: str, fields: Sequence[str], what: str
    ) -> Refusal:
        refusal = Refusal(
            code="REQ-012",
            message=f"{active.intent_id} changed since it was selected ({reason}). {what}",
            intent_id=active.intent_id,
            reason=reason,
            details=(("change", list(fields)),),
        )
        await self._note("intent_invalidated", "", {"reason": reason, "fields": list(fields)})
        self._log.append(IntentCleared(reason=refusal.message))
        self._log.append(Noted(text=refusal.message))
        await anyio.to_thread.run_sync(self.release)
        return refusal

    def is_granted(self, path: str) -> bool:
        """Whether the user has allowed a file outside the scope for the rest of the task."""
        state = self._log.state
        now = state.intent.digest if state.intent else ""
        return any(
            each.of == "path" and each.digest == now and scope((each.pattern,)).covers(path)
            for each in state.grants
        )

    # ── selecting ───────────────────────────────────────────────────────────────────────

    async def rule_on_selection(self, call: ToolCall) -> Ruling:
        """Rule on a selection. A person must approve if a command of this task changed the
        governance files, or if a sub-task selects an intent that is not part of its parent's."""
        state = self._log.state
        wanted = wanted_id(dict(call.arguments))
        text = await self.project.intents()
        intent = self._resolve(text.file, wanted) if text.exists else None
        self.reviewed_digest = ""
        if intent is None:
            return Ruling()
        if state.distrusted:
            why = (
                "A command of this task changed the governance files. Review "
                f"{intent.id} before it is selected again."
            )
            new = IntentDefinition(intent, text.file.policy)
            self.reviewed_digest = digest(intent, text.file.policy)
            return _ask(intent, "REQ-012", why, self._difference(new))
        parent = self.inherited
        if parent and not is_descendant(text.file, intent, parent):
            why = f"{intent.id} is not part of {parent}, which this sub-task works for."
            return _ask(intent, "REQ-004", why)
        return Ruling()

    def _resolve(self, file: IntentFile, wanted: str) -> Intent | None:
        """The intent to select; without an id, the only selectable one if the settings allow it."""
        choices = file.selectable(self.project.now())
        if not wanted and self.project.settings.governance.auto_select_single and len(choices) == 1:
            return choices[0]
        return file.find(wanted)

    def _difference(self, new: IntentDefinition) -> tuple[str, ...]:
        """What changed since the last definition that this process knows."""
        known = reversed(self._definitions.values())
        old = next((each for each in known if each.intent.id == new.intent.id), None)
        return difference(old, new) if old else ()

    async def adopt(
        self, fact: IntentSelected, definition: IntentDefinition, call_id: str = ""
    ) -> None:
        """Make an intent the active one."""
        before = self._log.state.intent
        self._definitions[fact.digest] = definition
        if before and before.intent_id != fact.intent_id:
            await self._note("intent_cleared", call_id, {"reason": "another was selected"})
        self._log.append(fact)
        await anyio.to_thread.run_sync(self.take_lease)
        if before is None or before.digest != fact.digest:
            await self._note("intent_selected", call_id, {"by": fact.by})

    async def rule_on_expansion(self, action: Action) -> Ruling:
        """Rule on a request for more scope. A person always decides."""
        definition = self.definition
        if definition is None:
            refusal = Refusal(code="REQ-003", message="There is no active intent to extend.")
            return Ruling(Decision.DENY, (refusal.message,), refusals=(refusal,))
        intent = definition.intent
        pattern = str(action.payload.get("pattern", ""))
        why = f"This adds {pattern} to the scope of {intent.id}."
        reason = AskedReason(code="REQ-001", error_type="scope_violation", text=why)
        question = _question(intent, reason, pattern)
        refusal = Refusal(
            code="REQ-001",
            message=f"The scope of {intent.id} was not changed.",
            intent_id=intent.id,
            reason=DECLINED,
            steps=("do the work inside the scope, or finish and say what is left",),
        )
        return Ruling(Decision.ASK, (why,), refusals=(refusal,), question=question)

    async def expand(self, intent_id: str, pattern: str, call_id: str) -> IntentDefinition:
        """Add a pattern to the scope. Raises `RookeryError`; then the file is unchanged."""
        stamp = timestamp(self.project.now())

        def plan(text: IntentText) -> PlannedChange:
            intent = text.file.find(intent_id)
            if intent is None:
                raise RookeryError(f"Intent {intent_id} was removed.")
            return PlannedChange(
                intent_id=intent_id, edits=scope_edits(intent, [pattern], at=stamp)
            )

        written = await anyio.to_thread.run_sync(self.project.writer.change, plan)
        file = written.after.file
        intent = file.find(intent_id)
        assert intent
        definition = IntentDefinition(intent, file.policy)
        before = self.definition
        old = digest(before.intent, before.policy) if before else ""
        new = digest(intent, file.policy)
        more = {"change": "expand", "pattern": pattern, "digest_before": old, "digest_after": new}
        await self._note("intent_change", call_id, more)
        await self.adopt(fact_of(definition, by="user"), definition, call_id)
        return definition

    def take_lease(self) -> None:
        """Take or renew the lease, which shows other tasks that this one is working."""
        if active := self._log.state.intent:
            self.project.leases.take(
                self.task_id, active.intent_id, active.scope, now=self.project.now()
            )

    def release(self) -> None:
        with suppress(NotADirectoryError):  # a command removed the folder
            self.project.leases.release(self.task_id)

    def remember(self, definition: IntentDefinition) -> None:
        """Remember a definition that an earlier run or the parent selected."""
        self._definitions[digest(definition.intent, definition.policy)] = definition

    async def clear(self, reason: str, *, own_doing: bool = False) -> None:
        if self._log.state.intent is None and not own_doing:
            return
        kind = "intent_invalidated" if own_doing else "intent_cleared"
        await self._note(kind, "", {"reason": reason})
        self._log.append(IntentCleared(reason=reason, own_doing=own_doing))
        self._log.append(Noted(text=reason))
        await anyio.to_thread.run_sync(self.release)

    async def deselect_after_change(self, what: str) -> None:
        lost = f"{what}, so the intent was deselected. Selecting one again needs"
        await self.clear(f"{lost} your approval.", own_doing=True)
        self._log.append(Reminded(text=f"[automatic] CMD-002: {lost} the user's approval."))

    async def fingerprint_now(self) -> str:
        return await anyio.to_thread.run_sync(self.fingerprint)

    def fingerprint(self) -> str:
        """Hash of the files that define what is allowed."""
        layout = self.project.layout
        hasher = sha256()
        rules = (layout.intent_file, layout.ignore_file, layout.hooks_file)
        for path in (*rules, layout.command_policy_file):
            try:
                hasher.update(small_file(path, layout.workspace, largest=LARGEST_RULES))
            except (FileNotFoundError, Unreadable) as error:  # then it does not apply, either
                hasher.update(type(error).__name__.encode())
            hasher.update(b"\0")
        return hasher.hexdigest()


def _ask(intent: Intent, code: str, why: str, notes: tuple[str, ...] = ()) -> Ruling:
    question = _question(intent, AskedReason(code=code, error_type="", text=why))
    refusal = Refusal(code=code, message=why, intent_id=intent.id)
    note = f"scope: {', '.join(intent.owned_scope)}"
    return Ruling(Decision.ASK, (why,), (note, *notes), (refusal,), question)


def _question(intent: Intent, reason: AskedReason, pattern: str = "") -> IntentQuestion:
    return IntentQuestion(
        intent_id=intent.id,
        intent_name=intent.name,
        revision=intent.revision,
        scope=intent.owned_scope,
        reasons=(reason,),
        pattern=pattern,
        choices=("halt",),
    )


def _unusable(text: IntentText) -> Refusal | None:
    if not text.exists:
        return Refusal(
            code="REQ-011",
            message="There is no intent file, and one is required: rookery intents init",
        )
    if not text.file.usable:
        return Refusal(
            code="REQ-013",
            message="The intent file has errors, so nothing may be changed.",
            faults=text.file.errors,
        )
    return None


def _definition_in(file: IntentFile, intent_id: str) -> IntentDefinition | None:
    intent = file.find(intent_id)
    if intent is None or intent.id in file.broken:
        return None
    return IntentDefinition(intent, file.policy)


def _reselect_hint(active: IntentSelected, new: IntentDefinition | None) -> str:
    if new is None:
        return "It was removed, or has errors."
    return f"It was reworded: select {active.intent_id} again to use the new wording."
