"""The composition root: settings in, a host out. It names every part and decides nothing."""

import os
import time
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Coroutine,
    Iterator,
)
from contextlib import AsyncExitStack, asynccontextmanager, closing, contextmanager, suppress
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import anyio
import anyio.to_thread
from msgspec import Struct

from rookery import VERSION
from rookery.app.briefing import Briefing
from rookery.app.consent import Consent
from rookery.app.extra_tools import Browsers, ExtraTools, known_servers, open_extra_tools
from rookery.app.host import Contents, Knowledge, Workplace
from rookery.app.model_choice import ModelChoice, Models
from rookery.app.task_factory import HostParts, make_task, only_known_hosts
from rookery.app.tool_table import use_declared_tools
from rookery.checkpoints.checkpoint_upkeep import drop_unneeded
from rookery.checkpoints.checkpoints import ProtectedFilesOnly, ShadowCheckpoints
from rookery.checkpoints.repositories.git_copies import drop_copies
from rookery.checkpoints.repositories.git_views import GitEyes
from rookery.core.command_lines import Judgement
from rookery.core.queries import About
from rookery.core.secret_mask import Hiding
from rookery.core.settings import Settings
from rookery.engine.engine import Engine
from rookery.engine.ports.checkpoints import Checkpoints
from rookery.engine.timers import Pace
from rookery.errors import StorageError
from rookery.governance.oversight import Oversight
from rookery.platform.git.git_folders import own_repository, repository_config
from rookery.platform.processes.wardens import WardensInAdvance
from rookery.platform.user_folders import Places
from rookery.providers.registry import KEY_VARIABLES, OTHER_KEY_VARIABLES
from rookery.sandbox.confinement import SandboxWishes
from rookery.sandbox.egress.known_hosts import KnownHosts, remotes
from rookery.sandbox.egress.way_out import Egress
from rookery.sandbox.launcher import Launching
from rookery.sandbox.sandbox import Sandbox
from rookery.storage.keys import all_keys
from rookery.storage.running_commands import RunningCommands
from rookery.storage.sessions import TaskStore
from rookery.tools.registry import all_tools
from rookery.workspace.files import WorkspaceFiles
from rookery.workspace.search import WorkspaceFinder
from rookery.workspace.terminal import Terminal

if TYPE_CHECKING:
    from rookery.commands.judge import CommandJudge


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
    use_declared_tools()
    files = _files(settings, workspace, places)
    hide = Hiding(_secrets(choice, places))
    models = Models(settings, choice, choose)

    def start_beside(work: Callable[..., Coroutine[Any, Any, object]], *about: object) -> None:
        group.start_soon(work, *about)

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
                settings.as_limits(),
                trusted=consent.trusted,
                may_act=consent.may_act,
                attended=consent.attended,
            )
        )
        given = _Given(settings, workspace, places, consent, store, files)
        parts = _host_parts(given, models, hide, sandbox, wardens, extra, start_beside)
        async with anyio.create_task_group() as group:
            store.after_delete = lambda gone: group.start_soon(_forget_files, store, places, gone)
            now, make = parts.clock.now, partial(make_task, parts)
            engine = Engine(group, store, make, now=now, workspace=str(workspace))
            yield Workplace(engine, _knowledge(parts, choice, models))
            group.cancel_scope.cancel()


class _Given(Struct, frozen=True):
    """What a host is opened for."""

    settings: Settings
    workspace: Path
    places: Places
    consent: Consent
    store: TaskStore
    files: WorkspaceFiles


def _host_parts(
    given: _Given,
    models: Models,
    hide: Hiding,
    sandbox: Sandbox,
    wardens: WardensInAdvance,
    extra: ExtraTools,
    start_beside: Callable[..., None],
) -> HostParts:
    settings, workspace, places = given.settings, given.workspace, given.places
    files, consent, limits = given.files, given.consent, settings.as_limits()
    finder = WorkspaceFinder(workspace, files, limits)
    eyes = GitEyes(files.boundaries.root, places.data / "set-aside")
    known_hosts = _known_hosts(settings, workspace, Path.home(), trusted=consent.trusted)
    network = Egress(start_beside, known_hosts)
    launching = Launching(files.boundaries, sandbox, lambda: eyes.repositories, network)
    judge = _judge(settings, workspace, files, sandbox)
    shell = Terminal(workspace, limits, launching, wardens, settings.commands.shell)
    checkpoints = open_checkpoints(settings, workspace, places)
    surroundings = f"{os.uname().sysname}, shell {shell.name}"
    briefing = _briefing(given, models, surroundings, extra)
    tools = all_tools() | briefing.tools() | extra.tools
    oversight = _oversight(given, sandbox, checkpoints, judge, wardens, start_beside)
    knows = network.knows if only_known_hosts(settings) else None
    browsers = Browsers(settings, start_beside, knows)
    briefing.offer(tools | browsers.tools(browsers.new()))
    return HostParts(
        settings=settings,
        workspace=workspace,
        places=places,
        consent=consent,
        store=given.store,
        clock=SystemClock(),
        pace=Pace(settings.request_pause),
        files=files,
        finder=finder,
        shell=shell,
        judge=judge,
        hide=hide,
        sandbox=sandbox,
        network=network,
        known_hosts=known_hosts,
        git_views=eyes,
        checkpoints=checkpoints,
        running=RunningCommands(places.running),
        briefing=briefing,
        extra=extra,
        oversight=oversight,
        browsers=browsers,
        tools=tools,
    )


def _oversight(
    given: _Given,
    sandbox: Sandbox,
    checkpoints: Checkpoints,
    judge: Callable[[str, str], Judgement],
    wardens: WardensInAdvance,
    start_beside: Callable[..., None],
) -> Oversight:
    return Oversight(
        given.settings,
        given.workspace,
        given.places,
        given.consent.charter,
        confines=lambda: sandbox.narrows,
        contents=_contents(checkpoints),
        start_beside=start_beside,
        judge=judge,
        wardens=wardens,
        trusted=given.consent.trusted,
        attended=given.consent.attended,
    )


def _briefing(given: _Given, models: Models, surroundings: str, extra: ExtraTools) -> Briefing:
    return Briefing(
        given.settings,
        given.places,
        given.files,
        home=Path.home(),
        trusted=given.consent.trusted,
        models=models,
        surroundings=surroundings,
        news=extra.news,
    )


def _judge(
    settings: Settings, workspace: Path, files: WorkspaceFiles, sandbox: Sandbox
) -> Callable[[str, str], Judgement]:
    @cache
    def command_judge() -> "CommandJudge":
        # what is known of commands is much to load, and the first request has none
        from rookery.commands.judge import CommandJudge
        from rookery.platform.git.git_programs import git_programs

        return CommandJudge(
            files,
            workspace,
            home=Path.home(),
            hiding=files.boundaries.hiding,
            leave=settings.sandbox.leave,
            writable=sandbox.writable,
            own_repository=partial(own_repository, str(files.boundaries.root)),
            git_programs=partial(git_programs, files.boundaries.root),
        )

    return lambda command, cwd: command_judge()(command, cwd)


def _knowledge(parts: HostParts, choice: ModelChoice, models: Models) -> Knowledge:
    settings, workspace, consent = parts.settings, parts.workspace, parts.consent
    return Knowledge(
        about=partial(_about, settings, choice, models, workspace, consent),
        briefing=parts.briefing,
        models=models,
        store=parts.store,
        intents=parts.oversight.known,
        servers=partial(known_servers, workspace, parts.places, consent.trusted),
        paths=parts.finder.paths,
        contents=_contents(parts.checkpoints),
    )


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


def open_checkpoints(settings: Settings, workspace: Path, places: Places) -> Checkpoints:
    if not settings.checkpoints.use:
        return ProtectedFilesOnly(
            workspace, places.checkpoints, settings.as_limits(), private=places.own_folders
        )
    return ShadowCheckpoints(
        workspace, places.checkpoints, settings.as_limits(), private=places.own_folders
    )


def _contents(checkpoints: Checkpoints) -> Callable[[str, str], Awaitable[Contents]] | None:
    return checkpoints.diff if isinstance(checkpoints, ShadowCheckpoints) else None


def _files(settings: Settings, workspace: Path, places: Places) -> WorkspaceFiles:
    limits = settings.as_limits()
    return WorkspaceFiles(workspace, limits, own_folders=places.own_folders, home=Path.home())
