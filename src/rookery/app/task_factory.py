"""Creates the tasks of a host: part of the composition root. Hooks run in the order listed."""

import os
import random
import sys
import time
import uuid
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import closing, suppress
from functools import cache, partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import anyio
import anyio.lowlevel
from msgspec.structs import asdict

from rookery.app.briefing import Briefing, workspace_files
from rookery.app.task_hooks import (
    CommandHooks,
    LookedUpHooks,
    approval_hooks,
    limit_hooks,
    task_rules,
    web_hooks,
)
from rookery.core.facts import Answered, Effect, Noted, RequestStarted, TaskOpened, UserSpoke
from rookery.core.modes import Level
from rookery.core.next_step import TurnRules
from rookery.core.undo_plan import background_commands
from rookery.engine.event_log import EventLog
from rookery.engine.ports.hooks import EditChecks
from rookery.engine.ports.tool import Tool
from rookery.engine.task import Task
from rookery.engine.task_deps import Family, HidingShell, TaskDeps
from rookery.errors import StorageError
from rookery.permissions.restrictions import StaleGuard
from rookery.platform.disk import put
from rookery.platform.git_folders import git_branch
from rookery.prompting.system_prompt import (
    EnvironmentDetails,
    ModifiedFiles,
    changed_sections,
    format_time,
)
from rookery.storage.sessions import TaskArtifacts
from rookery.tools.conversation import PresentPlan
from rookery.workspace.files import WorkspaceFiles

if TYPE_CHECKING:
    from rookery.app.command_parts import TaskCommands
    from rookery.app.edit_checks import TaskEdits
    from rookery.app.local_host import HostParts


class SystemClock:
    def now(self) -> int:
        return time.time_ns() // 1_000_000

    async def wait(self, event: anyio.Event, seconds: float) -> None:
        with anyio.move_on_after(seconds):
            await event.wait()


MakeTask: TypeAlias = Callable[[str, EventLog, Family], Task]


def observed(parts: "HostParts", make: MakeTask) -> MakeTask:
    """Let telemetry watch the logs of tasks, if the user configured an address for it."""
    if parts.settings.telemetry.endpoint is None:
        return make
    from rookery.telemetry.recorder import TelemetryRecorder

    logs: list[EventLog] = []

    def report(text: str) -> None:
        if logs and not logs[-1].ended:
            with suppress(StorageError):
                logs[-1].append(Noted(text=text))
        else:
            print(text, file=sys.stderr)

    def make_watched(task_id: str, log: EventLog, family: Family) -> Task:
        recorder.watch(task_id, log)
        logs[:] = [each for each in logs if not each.ended] + [log]
        return make(task_id, log, family)

    recorder = TelemetryRecorder(parts.settings.telemetry, report)
    parts.stack.push_async_callback(recorder.aclose)
    parts.start_soon(recorder.run)
    return make_watched


def make_task(parts: "HostParts", task_id: str, log: EventLog, family: Family) -> Task:
    parts = parts.at(family.workspace)

    def notify_user(text: str) -> None:
        log.append(Noted(text=text))

    def level() -> Level:
        return log.state.level or parts.consent.level

    def planning() -> bool:
        return level() is Level.PLAN and not log.state.parent

    def intent_tools() -> Mapping[str, Tool[Any]]:
        return found.governance.tools if found.governance else {}

    def own_tools() -> Mapping[str, Tool[Any]]:
        return {**intent_tools(), **({plans.name: plans} if planning() else {})}

    def all_tools() -> Mapping[str, Tool[Any]]:
        pages = {browser.name: browser} if browser else {}
        return {**parts.tools, plans.name: plans, **pages, **intent_tools()}

    def browsed() -> Collection[str]:
        return browser.allowed if browser else ()

    def task_commands() -> "TaskCommands":
        from rookery.app.command_parts import TaskCommands

        return TaskCommands(parts, log, rules, level, browsed)

    files, briefing, extra = parts.files, parts.briefing, parts.extra
    now = parts.clock.now
    commands = CommandHooks(task_commands)
    browser = parts.browsers.new()
    found = LookedUpHooks(parts, task_id, log)
    guard = StaleGuard(
        lambda: log.known_files,
        files.known_text,
        tolerates=found.tolerates_stale,
    )
    rules = task_rules(parts)
    edits = _edit_checks(parts, log)
    plans = PresentPlan(planning, partial(_keep_plan, parts.store.folder(task_id)))
    deps = TaskDeps(
        tools=all_tools,
        equip=partial(briefing.equip, notify_user, own_tools),
        fall_back=parts.models.fall_back,
        sees_images=briefing.sees_images,
        details=details_source(
            briefing, files, guard.known, now, found.intent_now, parts.finder.overview, planning
        ),
        cache_key=sha256(os.fsencode(parts.workspace)).hexdigest()[:32],
        gather=briefing.gatherer(log, extra, edits.problems if edits else list),
        resolve_alias=extra.resolve_alias,
        outline=extra.outline,
        barred=briefing.barred,
        hooks=[
            *limit_hooks(parts, log, level),
            guard,
            commands,
            *approval_hooks(parts, rules, browser, level),
            *web_hooks(
                parts,
                rules,
                lambda: level() is Level.AUTO,
                lambda: (*family.above(), log.events),
            ),
            *([edits] if edits else []),
            *parts.given.hooks,
        ],
        find_hooks=found.find,
        carry_out=found.carry_out,
        edit_checks=edits.bind if edits else lambda acting: EditChecks(),
        rules=rules,
        checkpoints=lambda: parts.checkpoints,
        shielded=partial(_shielded, parts),
        checked_out=lambda *done: parts.commands.checked_out(*done),
        judge=parts.judge,
        files=files,
        finder=parts.finder,
        shell=HidingShell(lambda: parts.commands.shell, parts.hide),
        artifacts=TaskArtifacts(parts.store.folder(task_id)),
        uses_repository=lambda each: bool(each.command) and parts.commands.exposes_git(each),
        worktrees=lambda: parts.worktrees,
        settle=commands.settle,
        on_task_closed=browser.end if browser else anyio.lowlevel.checkpoint,
        command_list=cache(lambda: parts.running.of(task_id, parts.workspace)),
        clock=parts.clock,
        new_id=lambda: uuid.uuid4().hex,
        jitter=lambda most: random.uniform(0, most),
        pace=parts.pace,
        limits=parts.settings.as_limits(),
        turn=_turn_rules(parts),
        hide=parts.hide,
    )
    return Task(task_id, log, deps, family)


def _keep_plan(folder: Path, text: str) -> str:
    """Store a plan as the next file of the session, and return its path."""
    number = sum(1 for _ in folder.glob("plan-*.md")) + 1
    path = folder / f"plan-{number}.md"
    put(path, [text.encode("utf-8", "replace")])
    return str(path)


def _edit_checks(parts: "HostParts", log: EventLog) -> "TaskEdits | None":
    """Return what looks at edits, which it does in trusted folders only."""
    if not parts.consent.trusted:
        return None
    from rookery.app.edit_checks import TaskEdits

    return TaskEdits(parts, log)


def _turn_rules(parts: "HostParts") -> TurnRules:
    settings = parts.settings
    return TurnRules(
        words_end=settings.turn_end == "words",
        nudges=settings.nudges,
        attended=parts.consent.attended,
    )


def _shielded(
    parts: "HostParts", effects: Sequence[Effect], expected: Collection[str]
) -> Sequence[str]:
    if parts.consent.protected or not effects:
        return ()
    return parts.commands.shielded(effects, expected)


def details_source(
    briefing: Briefing,
    files: WorkspaceFiles,
    known: Callable[[], Mapping[str, str]],
    now: Callable[[], int],
    intent: Callable[[], Awaitable[str]],
    overview: Callable[[], Awaitable[str]],
    planning: Callable[[], bool],
) -> Callable[[EventLog], Awaitable[Mapping[str, str]]]:
    """Return a function that reads the environment details that the model does not have yet.

    `known` returns the hashes of the files the model has seen, `intent` the active intent,
    `overview` a listing of the workspace for the first request, `planning` whether the user wants a
    plan first.
    """
    root = Path(files.boundaries.root)
    modified = ModifiedFiles(root, files)
    last_request = 0

    async def details(log: EventLog) -> Mapping[str, str]:
        nonlocal last_request
        before, (last_request, spoke) = last_request, _since_last_request(log)
        mode, already_sent = briefing.mode(log.state.mode), log.state.known_details
        # otherwise the time is new in every request, and so is a todo list that the model wrote
        whole = spoke or not already_sent
        # governance may hide files: then the model must use the list tool, which filters them
        listed = not already_sent and log.state.governed is None
        seen = known()
        now_there = EnvironmentDetails(
            mode=mode.slug,
            mode_name=mode.name,
            modified=await modified.since(seen, sent=last_request != before),
            running=background_commands(log.events),
            time=format_time(now()) if whole else "",
            git=git_branch(root),
            files=await overview() if listed else "",
            intent=await intent(),
            plan=log.state.plan,
            planning=planning(),
            todos=log.state.todos if whole else None,
            rules=await briefing.rules_for(seen),
        )
        return changed_sections(now_there, already_sent)

    return details


def _since_last_request(log: EventLog) -> tuple[int, bool]:
    """The number of the last request's event, and whether the user has sent a message since."""
    spoke = False
    for event in reversed(log.events):
        match event.fact:
            case RequestStarted():
                return event.seq, spoke
            case TaskOpened() | UserSpoke():
                spoke = True
            case Answered(by="user", text=text):
                spoke = spoke or bool(text)
            case _:
                pass
    return 0, spoke


def parts_at(host: "HostParts", workspace: Path) -> "HostParts":
    """The parts of a host for a worktree. MCP servers and custom tools stay with the workspace:
    they would act there."""
    from rookery.app.extra_tools import CodeKnowledge, ExtraTools
    from rookery.app.local_host import HostParts

    files = workspace_files(workspace, host.places, host.settings)
    limits = host.settings.as_limits()
    code = CodeKnowledge(host.settings, workspace, host.places, files, limits)
    host.stack.enter_context(closing(code))
    others = {
        "workspace": workspace,
        "files": files,
        "shared_pace": host.pace,
        "extra": ExtraTools(tools={}, outline=code.outline),
    }
    # `replace` would also copy the cached properties
    parts = HostParts(**(asdict(host) | others))
    parts.offer_tools()
    return parts
