"""The hooks of a task, and what the user has allowed in a run: part of the composition root.

Those about commands and web pages, intents, and the user's own are loaded only when a task needs
them.
"""

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from rookery.core.asks import Ruling, joined
from rookery.core.blocks import ToolCall
from rookery.core.commands import Command, SelectIntent
from rookery.core.facts import Event, Noted
from rookery.core.modes import GOVERNANCE_FOLDER, Level
from rookery.engine.event_log import EventLog
from rookery.engine.ports.actions import Action, Outcome
from rookery.engine.ports.hooks import Hook, LateHooks
from rookery.errors import CommandRejected
from rookery.permissions.approval import AllowRules, ApprovalGate
from rookery.permissions.restrictions import DeniedTools, ModeLimits, Restrictions, TrustGate
from rookery.permissions.trust import never_trusted

if TYPE_CHECKING:
    from rookery.app.command_parts import TaskCommands
    from rookery.app.local_host import HostParts
    from rookery.browser.browser_action import BrowserAction
    from rookery.governance.hook import GovernanceHook


class Consent(Struct, frozen=True, kw_only=True):
    level: Level = Level.ASK
    """How far sessions go without asking, unless their user says otherwise."""
    keeps_level: bool = False
    """New sessions record the level, which a flag names, so that they keep it when continued."""
    run_commands: frozenset[tuple[str, ...]] = frozenset()
    denied_tools: frozenset[str] = frozenset()
    trusted: bool = False
    acts_anyway: bool = False
    """This run may change the folder although it is not trusted."""
    outside: bool = False
    protected: bool = False
    mode: str = ""
    """The mode chosen with a flag; empty if the settings decide."""
    intent: str = ""
    """The id of the intent to work for."""
    governance_allow: frozenset[str] = frozenset()
    """Which questions of governance are approved automatically."""
    attended: bool = True
    """A user can answer questions."""
    on_screen: bool = False
    """Show notes about the run in the session, because a full screen hides all others."""

    @property
    def may_act(self) -> bool:
        return self.trusted or self.acts_anyway


NO_INTENTS = "This session has no intents. After `rookery intents init`, new sessions have them."


def task_rules(parts: "HostParts") -> AllowRules:
    return AllowRules(
        parts.places.rules_file,
        parts.workspace,
        place=parts.files.place,
        now=parts.clock.now,
        prefix_of=lambda judged: parts.commands.prefix_of(judged),
    )


def limit_hooks(parts: "HostParts", log: EventLog, level: Callable[[], Level]) -> list[Hook]:
    """Return the hooks that enforce trust, the flags and the mode."""
    consent, briefing = parts.consent, parts.briefing
    return [
        TrustGate(
            trusted=consent.trusted,
            acts_anyway=consent.acts_anyway,
            never=never_trusted(parts.workspace),
        ),
        DeniedTools(consent.denied_tools),
        Restrictions(
            parts.files,
            allow_outside=consent.outside,
            allow_protected=consent.protected,
            automatic=lambda: level().edits_freely,
        ),
        ModeLimits(
            lambda: briefing.mode_in(log.state),
            briefing.group_of,
            modes=lambda: briefing.modes,
            automatic=lambda: level() is Level.AUTO,
            approved=parts.settings.approve_modes,
            chosen=consent.mode,
        ),
    ]


def approval_hooks(
    parts: "HostParts",
    rules: AllowRules,
    browser: "BrowserAction | None",
    level: Callable[[], Level],
) -> list[Hook]:
    """Return the hooks that ask for approval of changes and of extra tools."""
    settings = parts.settings
    pages = [parts.browsers.known_origins(browser)] if browser else []
    return [
        ApprovalGate(
            rules,
            level=level,
            can_be_offline=lambda: parts.can_be_offline,
            edits=settings.approve_edits,
            modes=settings.approve_modes,
            children=settings.approve_subtasks,
        ),
        *parts.extra.hooks,
        *pages,
    ]


def web_hooks(
    parts: "HostParts",
    rules: AllowRules,
    automatic: Callable[[], bool],
    logs: Callable[[], Sequence[Sequence[Event]]],
) -> list[Hook]:
    """Return the hook that asks about each web origin once."""
    if parts.extra.web is None:
        return []
    from rookery.web.web_tools import KnownPages

    return [KnownPages(rules, parts.extra.web.is_listed, automatic, logs)]


class CommandHooks(Hook):
    """The hooks for commands and web pages, created with the first of them."""

    def __init__(self, make: "Callable[[], TaskCommands]") -> None:
        self._make = make
        self._made: TaskCommands | None = None

    async def before(self, call: ToolCall, action: Action) -> Ruling:
        return joined([await hook.before(call, action) for hook in self._hooks_for(action)])

    async def after(self, call: ToolCall, action: Action, outcome: Outcome) -> None:
        for hook in self._hooks_for(action):
            await hook.after(call, action, outcome)

    async def settle(self) -> None:
        if self._made:
            await self._made.watch.settle()

    def _hooks_for(self, action: Action) -> Sequence[Hook]:
        if not (action.command or action.external):
            return ()
        self._made = self._made or self._make()
        return self._made.hooks


class LookedUpHooks:
    """Governance and the user's hooks, which are loaded if there may be any. A task that begins
    governed, as the child of a governed one, stays so wherever it works."""

    def __init__(self, parts: "HostParts", task_id: str, log: EventLog) -> None:
        self._parts, self._task_id, self._log = parts, task_id, log
        self.governance: GovernanceHook | None = None

    def find(self) -> LateHooks:
        if self._log.state.governed is None and not self._may_apply():
            return LateHooks()
        task, hooks = self._parts.oversight.hooks_of(self._task_id, self._log)
        self.governance, own = task, [hooks] if hooks else []
        return LateHooks([task], [task, task.changes, *own]) if task else LateHooks(own, own)

    def _may_apply(self) -> bool:
        parts = self._parts
        settings, folder = parts.settings, parts.workspace / GOVERNANCE_FOLDER
        return bool(
            settings.governance.mode != "auto"
            or parts.consent.intent
            or os.path.lexists(folder)
            or parts.places.any_hooks(parts.workspace, folder, of_claude=settings.imports_hooks)
        )

    async def carry_out(self, command: Command) -> None:
        assert isinstance(command, SelectIntent)
        try:
            if self.governance is None:
                raise CommandRejected(NO_INTENTS)
            await self.governance.select(command.intent_id)
        except CommandRejected as error:
            self._log.append(Noted(text=str(error)))

    async def tolerates_stale(self, call: ToolCall, action: Action) -> bool:
        return self.governance is not None and self.governance.tolerates_stale(call, action)

    async def intent_now(self) -> str:
        return await self.governance.now() if self.governance else ""
