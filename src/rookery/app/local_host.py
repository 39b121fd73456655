"""The composition root: settings in, a host out. It names every part and decides nothing."""

import os
import time
from collections.abc import (
    AsyncIterator,
    Callable,
    Collection,
    Coroutine,
    Iterator,
)
from contextlib import AsyncExitStack, asynccontextmanager, closing, suppress
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

import anyio
import anyio.to_thread
from msgspec import Struct

from rookery import VERSION
from rookery.app.briefing import Briefing
from rookery.app.extra_tools import (
    Browsers,
    ExtraTools,
    known_servers,
    open_extra_tools,
)
from rookery.app.host import Contents, Knowledge, Workplace
from rookery.app.model_choice import ModelChoice, Models
from rookery.app.task_factory import make_task
from rookery.app.tool_table import use_declared_tools
from rookery.core.command_lines import Judgement
from rookery.core.queries import About
from rookery.core.settings import Settings
from rookery.core.text.output_preview import Hiding
from rookery.engine.engine import Engine
from rookery.engine.model_turn import Pace
from rookery.engine.ports.tool import Tool
from rookery.errors import StorageError
from rookery.governance.oversight import Oversight
from rookery.platform.git_folders import repository_config
from rookery.platform.own_programs import find_own_program
from rookery.platform.user_folders import Places
from rookery.platform.wardens import WardensInAdvance
from rookery.providers.registry import KEY_VARIABLES, OTHER_KEY_VARIABLES
from rookery.storage.journal import events_of_dead_task
from rookery.storage.keys import all_keys
from rookery.storage.running_commands import CommandRegistry
from rookery.storage.sessions import TaskStore
from rookery.tools.registry import all_tools
from rookery.workspace.files import WorkspaceFiles
from rookery.workspace.search import WorkspaceFinder

if TYPE_CHECKING:
    from rookery.app.command_parts import CommandParts
    from rookery.checkpoints.checkpoints import ProtectedFilesOnly, ShadowCheckpoints
    from rookery.core.hosts import HostPort


class Consent(Struct, frozen=True, kw_only=True):
    automatic: bool = False
    """Actions are allowed without a question."""
    trusted: bool = False
    acts_anyway: bool = False
    """The folder may be worked in, for this run, although it is not trusted."""
    outside: bool = False
    protected: bool = False
    mode: str = ""
    """The mode that was chosen for this run; nothing if it is only the usual one."""
    intent: str = ""
    """The intent that the task works for."""
    governance_allow: frozenset[str] = frozenset()
    """Which questions of governance are answered with yes."""
    attended: bool = True
    """A user can answer questions."""

    @property
    def may_act(self) -> bool:
        return self.trusted or self.acts_anyway


def check_intent(settings: Settings, workspace: Path, intent_id: str) -> None:
    """Raises `IntentNotSelectable` if a run could not work for the intent."""
    from rookery.governance.intents.selection import check_selectable

    check_selectable(settings, workspace, intent_id)


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
    models = Models(settings, choice, choose)

    def start_beside(work: Callable[..., Coroutine[Any, Any, object]], *about: object) -> None:
        group.start_soon(work, *about)

    async with AsyncExitStack() as stack:
        stack.push_async_callback(models.aclose)
        files = _files(settings, workspace, places)
        extra = open_extra_tools(
            settings,
            workspace,
            places,
            files,
            settings.as_limits(),
            trusted=consent.trusted,
            may_act=consent.may_act,
            attended=consent.attended,
        )
        parts = HostParts(
            settings=settings,
            workspace=workspace,
            places=places,
            consent=consent,
            store=store,
            models=models,
            files=files,
            hide=Hiding(_secrets(choice, places)),
            git_config=_git_config(workspace, trusted=consent.trusted),
            start_beside=start_beside,
            stack=stack,
            wardens=stack.enter_context(closing(WardensInAdvance())),
            extra=await stack.enter_async_context(extra),
        )
        async with anyio.create_task_group() as group:
            store.before_delete = partial(_record_rest, store, places)
            store.after_delete = lambda gone: group.start_soon(_forget_files, store, places, gone)
            now, make = parts.clock.now, partial(make_task, parts)
            engine = Engine(group, store, make, now=now, workspace=str(workspace))
            yield Workplace(engine, _knowledge(parts, choice))
            group.cancel_scope.cancel()


class HostParts(Struct, frozen=True, kw_only=True, dict=True):
    """What all tasks of a host share. What is not given is made when it is first used."""

    settings: Settings
    workspace: Path
    places: Places
    consent: Consent
    store: TaskStore
    models: Models
    files: WorkspaceFiles
    hide: Hiding
    git_config: str
    """The repository's, as it was when the host was opened; empty if the folder is not trusted."""
    start_beside: Callable[..., None]
    stack: AsyncExitStack
    wardens: WardensInAdvance
    extra: ExtraTools
    clock: SystemClock = SystemClock()

    @cached_property
    def commands(self) -> "CommandParts":
        from rookery.app.command_parts import CommandParts

        return self.stack.enter_context(closing(CommandParts(self)))

    def judge(self, command: str, cwd: str) -> Judgement:
        return self.commands.judge(command, cwd)

    @property
    def only_known_hosts(self) -> bool:
        """Whether commands and browsers reach only hosts that are known or approved."""
        sandbox = self.settings.sandbox
        return sandbox.network == "known" and sandbox.use != "off"

    @cached_property
    def shell(self) -> str:
        found = find_own_program("bash", self.workspace.resolve())
        return self.settings.commands.shell or found or "/bin/sh"

    @cached_property
    def pace(self) -> Pace:
        return Pace(self.settings.request_pause)

    @cached_property
    def finder(self) -> WorkspaceFinder:
        return WorkspaceFinder(self.workspace, self.files, self.settings.as_limits())

    @cached_property
    def checkpoints(self) -> "ShadowCheckpoints | ProtectedFilesOnly":
        return open_checkpoints(self.settings, self.workspace, self.places)

    async def contents(self, before: str, after: str) -> Contents:
        """What differs between two checkpoints."""
        assert self.settings.checkpoints.use
        return await cast("ShadowCheckpoints", self.checkpoints).diff(before, after)

    @cached_property
    def running(self) -> CommandRegistry:
        return CommandRegistry(self.places.running)

    @cached_property
    def browsers(self) -> Browsers:
        def knows(host: "HostPort") -> bool:
            return self.commands.network.knows(host)

        return Browsers(self.settings, self.start_beside, knows if self.only_known_hosts else None)

    @cached_property
    def tools(self) -> dict[str, Tool[Any]]:
        return all_tools() | self.briefing.tools() | self.extra.tools

    @cached_property
    def briefing(self) -> Briefing:
        return Briefing(
            self.settings,
            self.places,
            self.files,
            home=Path.home(),
            trusted=self.consent.trusted,
            models=self.models,
            surroundings=f"{os.uname().sysname}, shell {Path(self.shell).name}",
            news=self.extra.news,
        )

    @cached_property
    def oversight(self) -> Oversight:
        return Oversight(
            self.settings,
            self.workspace,
            self.places,
            intent=self.consent.intent,
            allow=self.consent.governance_allow,
            confines=lambda: self.commands.sandbox.narrows,
            contents=self.contents if self.settings.checkpoints.use else None,
            start_beside=self.start_beside,
            judge=self.judge,
            wardens=self.wardens,
            journal_of=lambda task_id: events_of_dead_task(self.store.folder(task_id)),
            trusted=self.consent.trusted,
            attended=self.consent.attended,
        )


def _knowledge(parts: HostParts, choice: ModelChoice) -> Knowledge:
    settings, workspace, consent = parts.settings, parts.workspace, parts.consent
    models = parts.models
    browser = parts.browsers.new()
    parts.briefing.offer(parts.tools | ({browser.name: browser} if browser else {}))
    return Knowledge(
        about=partial(_about, settings, choice, models, workspace, consent),
        briefing=parts.briefing,
        models=models,
        store=parts.store,
        intents=parts.oversight.known,
        servers=partial(known_servers, workspace, parts.places, consent.trusted),
        paths=parts.finder.paths,
        contents=parts.contents if settings.checkpoints.use else None,
    )


def _record_rest(store: TaskStore, places: Places, task_id: str) -> None:
    from rookery.app.past_session import record_rest

    record_rest(places, store, task_id)


async def _forget_files(store: TaskStore, places: Places, gone: Collection[str]) -> None:
    """Drop what checkpoints hold only for deleted sessions, and copies of repositories. If that
    fails, the next deletion tries again."""

    def forget() -> None:
        from rookery.app.past_session import drop_files

        with suppress(StorageError, OSError):
            drop_files(places, store, gone)

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


def _git_config(workspace: Path, *, trusted: bool) -> str:
    """What a folder says that is not trusted does not count, its repository's remotes included."""
    return repository_config(str(workspace.resolve())) if trusted else ""


def open_checkpoints(
    settings: Settings, workspace: Path, places: Places
) -> "ShadowCheckpoints | ProtectedFilesOnly":
    from rookery.checkpoints.checkpoints import ProtectedFilesOnly, ShadowCheckpoints

    kind = ShadowCheckpoints if settings.checkpoints.use else ProtectedFilesOnly
    return kind(workspace, places.checkpoints, settings.as_limits(), private=places.own_folders)


def _files(settings: Settings, workspace: Path, places: Places) -> WorkspaceFiles:
    limits = settings.as_limits()
    return WorkspaceFiles(workspace, limits, own_folders=places.own_folders, home=Path.home())
