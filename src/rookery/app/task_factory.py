"""Makes the tasks of a host: part of the composition root.

`HostParts` is what all tasks share; `make_task` adds what only one has. The order of the hooks is
the order in which they are asked.
"""

import random
import uuid
from collections.abc import Callable, Collection, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct

from rookery.app.briefing import Briefing, situation
from rookery.app.consent import Consent
from rookery.app.extra_tools import Browsers, ExtraTools
from rookery.browser.browser_action import BrowserAction, KnownOrigins
from rookery.checkpoints.repositories.git_repair import GitMending
from rookery.checkpoints.repositories.git_views import GitEyes
from rookery.checkpoints.repositories.git_watch import GitWatch
from rookery.commands.network_gate import NetworkGate
from rookery.commands.rules import CommandRules
from rookery.core.command_lines import GitUse, Judgement
from rookery.core.facts import Effect, Noted, Reminded
from rookery.core.hosts import faulty_entries
from rookery.core.next_step import TurnRules
from rookery.core.secret_mask import Hiding
from rookery.core.settings import Settings
from rookery.core.undo_plan import approved_by_user, commands_running_on, was_started
from rookery.engine.event_log import EventLog
from rookery.engine.ports.actions import Action
from rookery.engine.ports.checkpoints import Checkpoints
from rookery.engine.ports.hooks import Hook
from rookery.engine.ports.tool import Tool
from rookery.engine.task import Task
from rookery.engine.task_deps import Attend, TaskDeps
from rookery.engine.task_shell import HidingShell
from rookery.engine.timers import Clock, Pace
from rookery.governance.host_writes import was_written
from rookery.governance.oversight import Oversight
from rookery.permissions.approval import ApprovalGate, Permissions
from rookery.permissions.protected_changes import (
    nothing_shielded,
    shielded,
    shielded_where_it_is_mounted,
)
from rookery.permissions.restrictions import ModeLimits, Restrictions, TrustGate
from rookery.permissions.stale_files import StaleGuard
from rookery.platform.git.git_index import checked_out
from rookery.platform.paths import within_any
from rookery.platform.user_folders import Places
from rookery.sandbox.egress.known_hosts import KnownHosts
from rookery.sandbox.egress.way_out import Egress
from rookery.sandbox.launcher import NoSandboxNotice
from rookery.sandbox.sandbox import Sandbox
from rookery.storage.artifacts import TaskArtifacts
from rookery.storage.running_commands import RunningCommands
from rookery.storage.sessions import TaskStore
from rookery.workspace.files import WorkspaceFiles
from rookery.workspace.search import WorkspaceFinder
from rookery.workspace.terminal import Terminal


class HostParts(Struct, frozen=True, kw_only=True):
    """What all tasks of a host share."""

    settings: Settings
    workspace: Path
    places: Places
    consent: Consent
    store: TaskStore
    clock: Clock
    pace: Pace
    files: WorkspaceFiles
    finder: WorkspaceFinder
    shell: Terminal
    judge: Callable[[str, str], Judgement]
    hide: Hiding
    sandbox: Sandbox
    network: Egress
    known_hosts: KnownHosts
    git_views: GitEyes
    checkpoints: Checkpoints
    running: RunningCommands
    briefing: Briefing
    extra: ExtraTools
    oversight: Oversight
    browsers: Browsers
    tools: dict[str, Tool[Any]]


def only_known_hosts(settings: Settings) -> bool:
    """Whether commands and browsers reach only hosts that are known or approved."""
    return settings.sandbox.network == "known" and settings.sandbox.use != "off"


def make_task(parts: HostParts, task_id: str, log: EventLog, attend: Attend) -> Task:
    def tell_user(text: str) -> None:
        log.append(Noted(text=text))

    def automatic() -> bool:
        switched = log.state.automatic
        return parts.consent.automatic if switched is None else switched

    settings, files, briefing, extra = parts.settings, parts.files, parts.briefing, parts.extra
    now = parts.clock.now
    watch = _git_watch(parts, log, automatic)
    browser = parts.browsers.new()
    governance = parts.oversight.of(task_id, log)
    guard = StaleGuard(lambda: log.events, files.known_text, tolerates=governance.tolerates_stale)
    rules = Permissions(parts.places.rules_file, parts.workspace, place=files.place, now=now)
    deps = TaskDeps(
        tools=parts.tools | parts.browsers.tools(browser),
        equip=partial(briefing.equip, tell_user, governance.specs),
        sees_images=briefing.sees_images,
        now=situation(briefing, files, guard.known, now, governance.now, parts.finder.overview),
        gather=briefing.gatherer(log, extra.server_prompt),
        resolve_alias=extra.meant,
        outline=extra.outline,
        barred=briefing.barred,
        hooks=[
            *_limits(parts, log, automatic),
            guard,
            watch,
            NoSandboxNotice(parts.sandbox, tell_user, faulty_entries(settings.sandbox.hosts)),
            *_approvals(parts, rules, browser, automatic),
        ],
        governance=governance,
        rules=rules,
        checkpoints=parts.checkpoints,
        shielded=nothing_shielded if parts.consent.protected else partial(_shielded, parts),
        checked_out=partial(_as_git_has_them, parts),
        judge=parts.judge,
        files=files,
        finder=parts.finder,
        shell=HidingShell(parts.shell, parts.hide),
        artifacts=TaskArtifacts(parts.store.folder(task_id)),
        settle=watch.settle,
        on_task_closed=browser.end,
        command_list=parts.running.of(task_id, parts.workspace),
        clock=parts.clock,
        new_id=lambda: uuid.uuid4().hex,
        jitter=lambda most: random.uniform(0, most),
        pace=parts.pace,
        limits=settings.as_limits(),
        turn=_turn_rules(parts),
        hide=parts.hide,
    )
    return Task(task_id, log, deps, attend)


def _git_watch(parts: HostParts, log: EventLog, automatic: Callable[[], bool]) -> GitWatch:
    def tell_both(text: str) -> None:
        log.append(Noted(text=text))
        log.append(Reminded(text=f"[automatic] {text}"))

    set_aside = parts.places.data / "set-aside"
    return GitWatch(
        parts.workspace.resolve(),
        set_aside,
        tell_both,
        attended=lambda: not automatic(),
        running=lambda: bool(commands_running_on(log.events)),
        started=lambda call_id: was_started(log.events, call_id),
        approved=lambda call_id: approved_by_user(log.events, call_id),
        unconfined=lambda: parts.sandbox.state.kind == "none",
        eyes=parts.git_views,
        mending=GitMending(parts.files.boundaries.root, parts.places.git_copies, set_aside),
        exposed=partial(_exposes_git, parts),
    )


def _limits(parts: HostParts, log: EventLog, automatic: Callable[[], bool]) -> list[Hook]:
    """What the folder, the flags and the mode allow."""
    consent, briefing = parts.consent, parts.briefing
    return [
        TrustGate(trusted=consent.trusted, acts_anyway=consent.acts_anyway),
        Restrictions(
            parts.files,
            allow_outside=consent.outside,
            allow_protected=consent.protected,
            automatic=automatic,
        ),
        ModeLimits(
            lambda: briefing.mode(log.state.mode),
            briefing.group_of,
            modes=lambda: briefing.modes,
            automatic=automatic,
            approved=parts.settings.approve_modes,
            chosen=consent.mode,
        ),
    ]


def _approvals(
    parts: HostParts, rules: Permissions, browser: BrowserAction, automatic: Callable[[], bool]
) -> list[Hook]:
    """What must be approved: hosts, commands, changes, and what extra tools do."""
    settings, sandbox = parts.settings, parts.sandbox
    hooks: list[Hook] = []
    if only_known_hosts(settings):
        hooks.append(
            NetworkGate(
                rules,
                knows=parts.network.knows,
                open_to_all=lambda: sandbox.open_to_all,
                remotes=parts.known_hosts.remotes.names,
                browsed=lambda: browser.allowed,
            )
        )
    return [
        *hooks,
        CommandRules(
            allow=settings.commands.allow,
            deny=settings.commands.deny,
            trusted=parts.consent.trusted,
            confines=lambda: sandbox.state.kind != "none",
        ),
        ApprovalGate(
            rules,
            automatic=automatic,
            edits=settings.approve_edits,
            modes=settings.approve_modes,
            children=settings.approve_subtasks,
        ),
        *parts.extra.hooks,
        KnownOrigins(lambda: browser.allowed),
    ]


def _turn_rules(parts: HostParts) -> TurnRules:
    settings = parts.settings
    return TurnRules(
        words_end=settings.turn_end == "words",
        nudges=settings.nudges,
        attended=parts.consent.attended,
    )


def _shielded(
    parts: HostParts, effects: Sequence[Effect], expected: Collection[str]
) -> Sequence[str]:
    """What a command changed of protected files, unasked, and the host did not write itself."""
    # what the sandbox can do is found out with the first command, not before
    by = shielded_where_it_is_mounted if parts.sandbox.mounts else shielded
    found = [*by(effects, expected), *_obeyed_by_git(parts.files, effects, expected)]
    own = {e.path for e in effects if e.path in found and _written_by_host(parts, e)}
    return [path for path in dict.fromkeys(found) if path not in own]


def _written_by_host(parts: HostParts, effect: Effect) -> bool:
    path = parts.files.boundaries.root / effect.path
    return effect.after is not None and was_written(
        parts.places.host_writes, path, effect.after.blob
    )


def _obeyed_by_git(
    files: WorkspaceFiles, effects: Sequence[Effect], expected: Collection[str]
) -> list[str]:
    """What a command changed, unasked, of files that git's settings name."""
    places = files.boundaries.obeyed_by_git.places()
    changed = (each.path for each in effects if each.path not in expected)
    return [path for path in changed if within_any(path, places)]


def _exposes_git(parts: HostParts, action: Action) -> bool:
    """Whether a command could destroy what is in git's own folders."""
    # git runs hooks, filters and aliases of the repository, which the judge cannot know
    runs_git = action.judgement is not None and action.judgement.git is not GitUse.NONE
    return action.may_change_files and (runs_git or not parts.sandbox.mounts)


def _as_git_has_them(
    parts: HostParts, effects: Sequence[Effect], git: GitUse, began: int
) -> Collection[str]:
    """Which changed files are as the repository has them, so that nothing of them is lost."""
    blobs = {each.path: each.after.blob if each.after else "" for each in effects}
    known = partial(checked_out, parts.files.boundaries.root, blobs)
    if git is GitUse.ONLY:
        return known(anywhere=True)
    if git is GitUse.NONE and parts.sandbox.mounts:
        return known()
    # a program beside git could have put anything into the repository
    return known(before=began * 1_000_000)
