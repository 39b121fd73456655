"""The composition root: settings in, a host out. It names every part and decides nothing."""

import os
import random
import time
import uuid
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, closing, contextmanager, suppress
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import anyio
import anyio.to_thread
from msgspec import Struct

from rookery import VERSION
from rookery.app.briefing import Briefing, situation
from rookery.app.extra_tools import Browsers, known_servers, open_extra_tools
from rookery.app.host import Knowledge, Workplace
from rookery.app.model_choices import ModelChoice, Models
from rookery.browser.browser_action import KnownOrigins
from rookery.checkpoints.checkpoint_upkeep import drop_unneeded
from rookery.checkpoints.checkpoints import ShadowCheckpoints
from rookery.checkpoints.repositories.git_copies import drop_copies
from rookery.checkpoints.repositories.git_repair import GitMending
from rookery.checkpoints.repositories.git_views import GitEyes
from rookery.checkpoints.repositories.git_watch import GitWatch
from rookery.checkpoints.without_checkpoints import ProtectedFilesOnly
from rookery.commands.git_use import GitUse, git_use
from rookery.commands.network_gate import NetworkGate
from rookery.commands.rules import CommandRules
from rookery.core.command_lines import Judgement
from rookery.core.facts import Effect, Event, Fact, Noted, Reminded
from rookery.core.findings import Finding, Health
from rookery.core.hosts import faulty_entries
from rookery.core.limits import Limits
from rookery.core.next_step import TurnRules
from rookery.core.queries import About
from rookery.core.secret_mask import Hiding
from rookery.core.settings import Settings
from rookery.core.undo_plan import approved_by_user, commands_running_on, was_started
from rookery.engine.engine import Engine, settled_before
from rookery.engine.event_log import EventLog
from rookery.engine.ports import Action, Checkpoints, Restored
from rookery.engine.subtasks import recover
from rookery.engine.task import Attend, Gear, Task
from rookery.engine.task_shell import HidingShell
from rookery.engine.timers import Pace
from rookery.engine.undo import Undo
from rookery.errors import StorageError
from rookery.governance.host_writes import was_written
from rookery.governance.oversight import Charter, Oversight
from rookery.permissions.allow_rules import Permissions
from rookery.permissions.approval import ApprovalGate
from rookery.permissions.mode_limits import ModeLimits
from rookery.permissions.protected_changes import (
    nothing_shielded,
    shielded,
    shielded_where_it_is_mounted,
)
from rookery.permissions.restrictions import Restrictions
from rookery.permissions.stale_files import StaleGuard
from rookery.permissions.trust_gate import TrustGate
from rookery.platform.git.git_folders import own_repository, repository_config
from rookery.platform.git.git_index import checked_out
from rookery.platform.processes.wardens import WardensInAdvance
from rookery.platform.user_folders import Places
from rookery.providers.registry import KEY_VARIABLES, OTHER_KEY_VARIABLES
from rookery.sandbox.confinement import within_any
from rookery.sandbox.egress.known_hosts import KnownHosts
from rookery.sandbox.egress.remotes import remotes
from rookery.sandbox.egress.way_out import Egress
from rookery.sandbox.launcher import Launching, NoSandboxNotice
from rookery.sandbox.sandbox import Sandbox
from rookery.sandbox.sandbox_options import SandboxWishes
from rookery.storage.artifacts import TaskArtifacts
from rookery.storage.keys import all_keys
from rookery.storage.running_commands import RunningCommands
from rookery.storage.sessions import TaskStore
from rookery.tools.registry import all_tools
from rookery.workspace.files import WorkspaceFiles
from rookery.workspace.search import WorkspaceFinder
from rookery.workspace.terminal import Terminal

if TYPE_CHECKING:
    from rookery.commands.judge import CommandJudge


class Consent(Struct, frozen=True, kw_only=True):
    """What whoever started a run agreed to, by flags, settings or an answer."""

    automatic: bool = False
    """Actions are allowed without a question."""
    trusted: bool = False
    acts_anyway: bool = False
    """The folder may be worked in, for this run, although it is not trusted."""
    outside: bool = False
    protected: bool = False
    mode: str = ""
    """The mode that was chosen for this run; nothing if it is only the usual one."""
    charter: Charter = Charter()
    attended: bool = True
    """Somebody can be asked."""

    @property
    def may_act(self) -> bool:
        return self.trusted or self.acts_anyway


class SystemClock:
    def now(self) -> int:
        return time.time_ns() // 1_000_000

    async def wait(self, event: anyio.Event, seconds: float) -> None:
        with anyio.move_on_after(seconds):
            await event.wait()


@asynccontextmanager
async def open_host(
    settings: Settings,
    choice: ModelChoice,
    store: TaskStore,
    workspace: Path,
    places: Places,
    consent: Consent,
    choose: Callable[[Settings], ModelChoice],
) -> AsyncIterator[Workplace]:
    """A host for one workspace. Leaving the context ends every task and process. `choose` finds
    the model that settings ask for, and its key."""
    limits = settings.as_limits()
    clock = SystemClock()
    pace = Pace(settings.request_pause)
    home = Path.home()
    files = WorkspaceFiles(workspace, limits, own_folders=places.own_folders, home=home)
    finder = WorkspaceFinder(workspace, files, limits)
    running = RunningCommands(places.running)
    hide = Hiding(_secrets(choice, places))
    models = Models(settings, choice, choose)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(models.aclose)
        sandbox = stack.enter_context(open_sandbox(settings, workspace, places))
        wardens = stack.enter_context(closing(WardensInAdvance()))
        extra = await stack.enter_async_context(
            open_extra_tools(
                settings,
                workspace,
                places,
                files,
                limits,
                trusted=consent.trusted,
                may_act=consent.may_act,
                attended=consent.attended,
            )
        )
        eyes = GitEyes(files.boundaries.root, places.data / "set-aside")

        def start_beside(work: Callable[..., Coroutine[Any, Any, object]], *about: object) -> None:
            group.start_soon(work, *about)

        known = _known_hosts(settings, workspace, home, trusted=consent.trusted)
        network = Egress(start_beside, known)
        launching = Launching(files.boundaries, sandbox, lambda: eyes.repositories, network)

        @cache
        def command_judge() -> "CommandJudge":
            # what is known of commands is much to load, and the first request has none
            from rookery.commands.judge import CommandJudge
            from rookery.platform.git.git_programs import git_programs

            return CommandJudge(
                files,
                workspace,
                home=home,
                hiding=files.boundaries.hiding,
                leave=settings.sandbox.leave,
                writable=sandbox.writable,
                own_repository=partial(own_repository, str(files.boundaries.root)),
                git_programs=partial(git_programs, files.boundaries.root),
            )

        def judge(command: str, cwd: str) -> Judgement:
            return command_judge()(command, cwd)

        shell = Terminal(workspace, limits, launching, wardens, settings.commands.shell)
        checkpoints = _checkpoints(settings, workspace, places)

        briefing = Briefing(
            settings,
            places,
            files,
            home=home,
            trusted=consent.trusted,
            models=models,
            surroundings=f"{os.uname().sysname}, shell {shell.name}",
            news=extra.news,
        )
        shared = all_tools() | briefing.tools() | extra.tools

        def shields(effects: Sequence[Effect], expected: Collection[str]) -> Sequence[str]:
            # what the sandbox can do is found out with the first command, not before
            by = shielded_where_it_is_mounted if sandbox.mounts else shielded
            found = [*by(effects, expected), *_obeyed_by_git(files, effects, expected)]
            own = {e.path for e in effects if e.path in found and written_by_host(e)}
            return [path for path in dict.fromkeys(found) if path not in own]

        def written_by_host(effect: Effect) -> bool:
            path = files.boundaries.root / effect.path
            return effect.after is not None and was_written(
                places.host_writes, path, effect.after.blob
            )

        def exposed(action: Action) -> bool:
            """Whether a command could destroy what is in git's own folders."""
            # git runs hooks, filters and aliases of the repository, which the judge cannot know
            runs_git = git_use(action.judgement) is not GitUse.NONE
            return action.may_change_files and (runs_git or not sandbox.mounts)

        def as_git_has_them(effects: Sequence[Effect], git: GitUse, began: int) -> Collection[str]:
            known = partial(checked_out, files.boundaries.root, effects)
            if git is GitUse.ONLY:
                return known(anywhere=True)
            if git is GitUse.NONE and sandbox.mounts:
                return known()
            # a program beside git could have put anything into the repository
            return known(before=began * 1_000_000)

        oversight = Oversight(
            settings,
            workspace,
            places,
            consent.charter,
            confines=lambda: sandbox.narrows,
            contents=checkpoints.diff if isinstance(checkpoints, ShadowCheckpoints) else None,
            start_beside=start_beside,
            judge=judge,
            wardens=wardens,
            trusted=consent.trusted,
            attended=consent.attended,
        )
        only_known = settings.sandbox.network == "known" and settings.sandbox.use != "off"
        browsers = Browsers(settings, start_beside, network.knows if only_known else None)
        briefing.offer(shared | browsers.tools(browsers.new()))

        def make_task(task_id: str, log: EventLog, attend: Attend) -> Task:
            def tell_user(text: str) -> None:
                log.append(Noted(text=text))

            def automatic() -> bool:
                switched = log.state.automatic
                return consent.automatic if switched is None else switched

            def tell_both(text: str) -> None:
                tell_user(text)
                log.append(Reminded(text=f"[automatic] {text}"))

            watch = GitWatch(
                workspace.resolve(),
                places.data / "set-aside",
                tell_both,
                attended=lambda: not automatic(),
                running=lambda: bool(commands_running_on(log.events)),
                started=lambda call_id: was_started(log.events, call_id),
                approved=lambda call_id: approved_by_user(log.events, call_id),
                unconfined=lambda: sandbox.state.kind == "none",
                eyes=eyes,
                mending=GitMending(
                    files.boundaries.root, places.git_copies, places.data / "set-aside"
                ),
                exposed=exposed,
            )
            browser = browsers.new()
            governance = oversight.of(task_id, log)
            guard = StaleGuard(
                lambda: log.events, files.known_text, tolerates=governance.tolerates_stale
            )
            rules = Permissions(places.rules_file, workspace, place=files.place, now=clock.now)
            gear = Gear(
                tools=shared | browsers.tools(browser),
                equip=partial(briefing.equip, tell_user, governance.specs),
                sees_images=briefing.sees_images,
                now=situation(
                    briefing, files, guard.known, clock.now, governance.now, finder.overview
                ),
                gather=briefing.gatherer(log, extra.server_prompt),
                meant=extra.meant,
                outline=extra.outline,
                barred=briefing.barred,
                hooks=[
                    TrustGate(trusted=consent.trusted, acts_anyway=consent.acts_anyway),
                    Restrictions(
                        files,
                        allow_outside=consent.outside,
                        allow_protected=consent.protected,
                        automatic=automatic,
                    ),
                    ModeLimits(
                        lambda: briefing.mode(log.state.mode),
                        briefing.group_of,
                        modes=lambda: briefing.modes,
                        automatic=automatic,
                        approved=settings.approve_modes,
                        chosen=consent.mode,
                    ),
                    guard,
                    watch,
                    NoSandboxNotice(sandbox, tell_user, faulty_entries(settings.sandbox.hosts)),
                    *(
                        [
                            NetworkGate(
                                rules,
                                knows=network.knows,
                                open_to_all=lambda: sandbox.open_to_all,
                                remotes=known.remotes.names,
                                browsed=lambda: browser.allowed,
                            )
                        ]
                        if only_known
                        else []
                    ),
                    CommandRules(
                        allow=settings.commands.allow,
                        deny=settings.commands.deny,
                        trusted=consent.trusted,
                        confines=lambda: sandbox.state.kind != "none",
                    ),
                    ApprovalGate(
                        rules,
                        automatic=automatic,
                        edits=settings.approve_edits,
                        modes=settings.approve_modes,
                        children=settings.approve_subtasks,
                    ),
                    *extra.hooks,
                    KnownOrigins(lambda: browser.allowed),
                ],
                governance=governance,
                rules=rules,
                checkpoints=checkpoints,
                shielded=nothing_shielded if consent.protected else shields,
                checked_out=as_git_has_them,
                judge=judge,
                files=files,
                finder=finder,
                shell=HidingShell(shell, hide),
                artifacts=TaskArtifacts(store.folder(task_id)),
                settle=watch.settle,
                farewell=browser.end,
                command_list=running.of(task_id, workspace),
                clock=clock,
                new_id=lambda: uuid.uuid4().hex,
                spread=lambda most: random.uniform(0, most),
                pace=pace,
                limits=limits,
                turn=TurnRules(
                    words_end=settings.turn_end == "words",
                    nudges=settings.nudges,
                    attended=consent.attended,
                ),
                hide=hide,
            )
            return Task(task_id, log, gear, attend)

        async with anyio.create_task_group() as group:
            store.after_delete = lambda gone: group.start_soon(_forget_files, store, places, gone)
            engine = Engine(group, store, make_task, now=clock.now, workspace=str(workspace))
            yield Workplace(
                engine,
                Knowledge(
                    about=partial(_about, settings, choice, models, workspace, consent),
                    briefing=briefing,
                    models=models,
                    store=store,
                    intents=oversight.known,
                    servers=partial(known_servers, workspace, places, consent.trusted),
                    paths=finder.paths,
                    contents=(
                        checkpoints.diff if isinstance(checkpoints, ShadowCheckpoints) else None
                    ),
                ),
            )
            group.cancel_scope.cancel()


async def _forget_files(store: TaskStore, places: Places, gone: Collection[str]) -> None:
    """Drop what checkpoints hold only for deleted sessions, and copies of repositories. If that
    fails, the next deletion tries again."""

    def forget() -> None:
        with suppress(StorageError, OSError):
            drop_copies(places.git_copies)
            others_work = store.some_run()
            drop_unneeded(places.checkpoints, store.hashes(), gone, others_work=others_work)

    with anyio.CancelScope(shield=True):
        await anyio.to_thread.run_sync(forget)


def _about(
    settings: Settings, choice: ModelChoice, models: Models, workspace: Path, consent: Consent
) -> About:
    allowances = {
        "edits": settings.approve_edits,
        "modes": settings.approve_modes,
        "subtasks": settings.approve_subtasks,
        "outside": consent.outside,
        "protected": consent.protected,
    }
    return About(
        version=VERSION,
        workspace=str(workspace),
        provider=choice.provider,
        model=choice.name,
        window=models.of("", "").model.window,
        automatic=consent.automatic,
        trusted=consent.trusted,
        mode=settings.mode,
        allows=tuple(name for name, allowed in allowances.items() if allowed),
    )


class Past(Struct, frozen=True):
    """A session that nobody is running, and what it would take to go back in it."""

    task_id: str
    log: EventLog
    _undo: Undo

    @property
    def events(self) -> Sequence[Event]:
        return self.log.events

    def settled_before(self, to: int) -> int:
        return settled_before(self.log.events, to)

    def append(self, fact: Fact) -> None:
        self.log.append(fact)

    async def recover(self) -> None:
        await self._undo.recover()

    async def rehearse(self, to: int, *, overwrite: bool) -> Restored:
        return await self._undo.rehearse(to, overwrite=overwrite)

    async def restore(self, to: int, *, overwrite: bool) -> None:
        await self._undo.restore(to, overwrite=overwrite)


@asynccontextmanager
async def open_past(
    settings: Settings, places: Places, store: TaskStore, task_id: str, workspace: Path
) -> AsyncIterator[Past]:
    """The past of a session. Raises `StorageError` while another process runs it."""
    from rookery.governance.projects import PastGovernance

    checkpoints = _checkpoints(settings, workspace, places)
    async with anyio.create_task_group() as group:

        def stored(task_id: str) -> Past:
            log = EventLog(store.open(task_id), SystemClock().now)
            undo = Undo(
                log,
                checkpoints,
                shielded=shielded,
                start_soon=group.start_soon,
                governance=PastGovernance(settings, workspace, places, task_id, log),
            )
            return Past(task_id, log, undo)

        past = stored(task_id)
        try:
            await recover(past, lambda child: stored(child) if store.exists(child) else None)
            yield past
        finally:
            past.log.close()


class Vocabulary(Struct, frozen=True, kw_only=True):
    """What a project and its user have named, and what is wrong with how they did."""

    commands: tuple[tuple[str, str], ...]
    """Slash commands, each with what it is for."""
    modes: tuple[str, ...]
    problems: tuple[str, ...]


def vocabulary(places: Places, workspace: Path, *, trusted: bool) -> Vocabulary:
    from rookery.prompting.modes import ModeFiles
    from rookery.prompting.skills import SkillFiles
    from rookery.prompting.slash_commands import CommandFiles

    files = WorkspaceFiles(workspace, Limits(), own_folders=places.own_folders, home=Path.home())
    at = (places.config, Path.home(), files.boundaries)
    commands = CommandFiles(*at, trusted=trusted).read()
    modes = ModeFiles(*at, trusted=trusted).read()
    return Vocabulary(
        commands=(
            *((each.name, each.description) for each in commands.commands),
            *(
                (each.name, each.description)
                for each in SkillFiles(*at, trusted=trusted).read().skills
            ),
            *((name, f"not to be had: {why}") for name, why in commands.unreadable),
        ),
        modes=tuple(mode.slug for mode in modes.modes),
        problems=(*modes.problems, *commands.problems),
    )


def examine(settings: Settings, workspace: Path, places: Places) -> Iterator[Finding]:
    """What protects the user here, and what does not."""
    from rookery.sandbox.guarantees import NETWORK, Holds, guarantees

    with open_sandbox(settings, workspace, places) as sandbox:
        yield Finding("sandbox", _health(sandbox.state.kind != "none"), sandbox.state.line)
        for guarantee in guarantees(sandbox):
            if guarantee.name == NETWORK and settings.sandbox.network == "on":
                continue
            holds = guarantee.holds is Holds.YES
            yield Finding(guarantee.name, _health(holds), guarantee.why or "It holds here.")
    yield anyio.run(_examine_checkpoints, settings, workspace, places)


async def _examine_checkpoints(settings: Settings, workspace: Path, places: Places) -> Finding:
    if not settings.checkpoints.use:
        return Finding("checkpoints", Health.WARN, "They are switched off in the settings.")
    checkpoints = ShadowCheckpoints(workspace, places.checkpoints, settings.as_limits())
    used = await checkpoints.usage()
    problem = await checkpoints.health()
    size = f"They take {used / 2**20:.1f} of {settings.checkpoints.megabytes} MiB."
    return Finding("checkpoints", _health(not problem), problem or size)


def _health(good: bool) -> Health:
    return Health.OK if good else Health.WARN


def _secrets(choice: ModelChoice, places: Places) -> Iterator[str]:
    """What must not be seen in anything a tool returns."""
    if choice.key:
        yield choice.key.reveal()
    if choice.base_url and (password := urlsplit(choice.base_url).password):
        yield password
    variables = (*KEY_VARIABLES.values(), *OTHER_KEY_VARIABLES.values())
    yield from all_keys(os.environ, variables, places.keys_file)


@contextmanager
def open_sandbox(settings: Settings, workspace: Path, places: Places) -> Iterator[Sandbox]:
    sandbox = Sandbox(
        SandboxWishes(
            root=workspace,
            home=Path.home(),
            mode=settings.sandbox.use,
            network=settings.sandbox.network,
            writable=tuple(map(os.path.expanduser, settings.sandbox.writable)),
            hidden=tuple(map(os.path.expanduser, settings.sandbox.hidden)),
            own=tuple(map(str, places.own_folders)),
        )
    )
    try:
        yield sandbox
    finally:
        sandbox.close()


def _known_hosts(settings: Settings, workspace: Path, home: Path, *, trusted: bool) -> KnownHosts:
    """What a folder says that is not trusted does not count, its repository's remotes included."""
    config = repository_config(str(workspace.resolve())) if trusted else ""
    return KnownHosts(
        listed=settings.sandbox.hosts,
        remotes=remotes(config),
        home=home,
        workspace=workspace,
        environ=os.environ,
    )


def _checkpoints(settings: Settings, workspace: Path, places: Places) -> Checkpoints:
    if not settings.checkpoints.use:
        return ProtectedFilesOnly(
            workspace, places.checkpoints, settings.as_limits(), private=places.own_folders
        )
    return ShadowCheckpoints(
        workspace, places.checkpoints, settings.as_limits(), private=places.own_folders
    )


def _obeyed_by_git(
    files: WorkspaceFiles, effects: Sequence[Effect], expected: Collection[str]
) -> list[str]:
    """What a command changed, unasked, of files that git's settings name."""
    places = files.boundaries.obeyed_by_git.places()
    changed = (each.path for each in effects if each.path not in expected)
    return [path for path in changed if within_any(path, places)]
