"""The composition root: settings in, a host out. It names every part and decides nothing.

Clients talk to the host, the engine of one workspace. Queries are answered in `host_queries`, which
is loaded with the first.
"""

import os
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, closing, suppress
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

import anyio
import anyio.to_thread
from msgspec import Struct
from msgspec.structs import replace

from rookery.app import use_declared_tools
from rookery.app.briefing import Briefing, workspace_files
from rookery.app.extra_tools import Browsers, ExtraTools, GivenByClient, open_extra_tools
from rookery.app.model_choice import ModelChoice, Models, known_secrets
from rookery.app.task_factory import SystemClock, make_task, observed, parts_at
from rookery.app.task_hooks import Consent
from rookery.core.commands import (
    Answer,
    Command,
    OpenTask,
    ReopenTask,
    SwitchApproval,
    SwitchMode,
    SwitchModel,
)
from rookery.core.facts import Event
from rookery.core.modes import NO_SANDBOX, Level
from rookery.core.settings import Settings
from rookery.core.text.terminal_text import Hiding
from rookery.engine.engine import Engine
from rookery.engine.model_turn import Pace
from rookery.engine.ports.actions import Judgement
from rookery.engine.ports.hooks import TaskLogs
from rookery.engine.ports.tool import Tool, Worktrees
from rookery.errors import CommandRejected, SettingsError, StorageError
from rookery.platform.git_folders import is_worktree_of_agent, own_repository, repository_config
from rookery.platform.user_folders import Places, find_own_program
from rookery.storage.sessions import Journals, TaskStore
from rookery.tools.registry import all_tools
from rookery.workspace.files import WorkspaceFiles
from rookery.workspace.tree import WorkspaceFinder

if TYPE_CHECKING:
    from rookery.app.command_parts import CommandParts
    from rookery.app.host_queries import Answers
    from rookery.checkpoints.checkpoints import ShadowCheckpoints
    from rookery.core.hosts import HostPort
    from rookery.core.queries import Asking
    from rookery.diagnostics.servers import LanguageServers
    from rookery.governance.oversight import Oversight
    from rookery.platform.wardens import ForkedWardens
    from rookery.storage.running_commands import CommandRegistry


T = TypeVar("T")
Contents: TypeAlias = Sequence[tuple[str, bytes | None, bytes | None]]
"""The content of each changed file before and after."""
ToolSelection: TypeAlias = Callable[[dict[str, Tool[Any]]], dict[str, Tool[Any]]]
"""Returns the tools that sessions have, of all there are."""


def check_intent(settings: Settings, workspace: Path, intent_id: str) -> None:
    """Raise `IntentNotSelectable` if a run could not work for the intent."""
    from rookery.governance.intents.selection import check_selectable

    check_selectable(settings, workspace, intent_id)


@asynccontextmanager
async def open_host(
    settings: Settings,
    choice: ModelChoice,
    store: TaskStore,
    workspace: Path,
    places: Places,
    consent: Consent,
    choose: Callable[[Settings], ModelChoice],
    tools: ToolSelection = dict,
    given: GivenByClient | None = None,
    logs: TaskLogs | None = None,
) -> "AsyncIterator[LocalHost]":
    """Open a host for one workspace; leaving the context ends every task and process. `choose`
    finds the model and key for settings, `tools` selects what sessions have of all tools. `logs`
    stores the logs elsewhere than `store`."""
    given = given or GivenByClient()
    use_declared_tools()
    if settings.plugins:
        from rookery.app.plugins import add_plugins

        tools, given = add_plugins(settings.plugins, tools, given)
    hide = Hiding(known_secrets(choice, places))
    models = Models(settings, choice, choose, given.providers, hide)

    def start_soon(work: Callable[..., Coroutine[Any, Any, object]], *about: object) -> None:
        group.start_soon(work, *about)

    async with AsyncExitStack() as stack:
        stack.push_async_callback(models.aclose)
        files = workspace_files(workspace, places, settings, given.buffers)
        extra = open_extra_tools(
            settings,
            choice,
            workspace,
            places,
            files,
            settings.as_limits(),
            trusted=consent.trusted,
            may_act=consent.may_act,
            attended=consent.attended,
            servers=given.servers,
            provider=lambda: models.of("", ""),
        )
        parts = HostParts(
            settings=settings,
            workspace=workspace,
            places=places,
            consent=consent,
            store=store,
            choice=choice,
            models=models,
            files=files,
            hide=hide,
            git_config=_git_config(workspace, trusted=consent.trusted),
            start_soon=start_soon,
            stack=stack,
            extra=await stack.enter_async_context(extra),
            select_tools=tools,
            given=given,
        )
        async with anyio.create_task_group() as group:
            store.before_delete = partial(_record_unfinished, store, places)
            store.after_delete = lambda gone: group.start_soon(_forget_files, store, places, gone)
            make = observed(parts, partial(make_task, parts))
            engine = Engine(
                group, logs or store, make, now=parts.clock.now, workspace=str(workspace)
            )
            parts.offer_tools()
            yield LocalHost(engine, parts)
            group.cancel_scope.cancel()


class LocalHost:
    """A host in this process. Disk access runs in worker threads."""

    def __init__(self, engine: Engine, parts: "HostParts") -> None:
        self._engine = engine
        self._parts = parts

    async def send(self, command: Command) -> None:
        match command:
            case (
                SwitchApproval(level=Level.SANDBOXED)
                | ReopenTask(level=Level.SANDBOXED)
                | Answer(level=Level.SANDBOXED)
            ):
                await self._check_sandbox()
            case SwitchModel(provider=provider, model=model):
                self._check_model(provider, model)
            case OpenTask(mode=mode, provider=provider, model=model):
                self._check_mode(mode)
                if command.level is Level.SANDBOXED:
                    await self._check_sandbox()
                if model:
                    self._check_model(provider, model)
                consent = self._parts.consent
                chosen = command.level is not None or command.automatic is not None
                if consent.keeps_level and not chosen:
                    command = replace(command, level=consent.level)
            case SwitchMode(mode=mode):
                self._check_mode(mode)
            case _:
                pass
        await self._engine.send(command)

    def follow(self, task_id: str, after: int = 0) -> AsyncIterator[Event]:
        return self._engine.follow(task_id, after)

    @cached_property
    def _answers(self) -> "Answers":
        from rookery.app.host_queries import Answers

        return Answers(self._engine, self._parts)

    async def query(self, query: "Asking[T]") -> T:
        # mypy cannot infer that each query class is answered with its own type
        return cast(T, await self._answers.to(query))

    def _check_mode(self, mode: str) -> None:
        slugs = self._parts.briefing.slugs()
        if mode not in slugs:
            raise CommandRejected(f"No such mode: {mode!r}. Available: {', '.join(slugs)}.")

    def _check_model(self, provider: str, model: str) -> None:
        if not model.strip() or not (provider + model).isprintable():
            raise CommandRejected(f"{model!r} is not a valid model name.")
        try:
            self._parts.models.of(provider, model)
        except SettingsError as error:
            raise CommandRejected(str(error)) from error

    async def _check_sandbox(self) -> None:
        if not await anyio.to_thread.run_sync(lambda: self._parts.can_be_offline):
            raise CommandRejected(NO_SANDBOX)


class HostParts(Struct, frozen=True, kw_only=True, dict=True):
    """The parts that all tasks of a host share. Cached properties are created on first use."""

    settings: Settings
    workspace: Path
    places: Places
    consent: Consent
    store: TaskStore
    choice: ModelChoice
    models: Models
    files: WorkspaceFiles
    hide: Hiding
    git_config: str
    """The repository's configuration at the start; empty if the folder is not trusted."""
    start_soon: Callable[..., None]
    stack: AsyncExitStack
    extra: ExtraTools
    select_tools: ToolSelection = dict
    given: GivenByClient = GivenByClient()
    clock: SystemClock = SystemClock()
    shared_pace: Pace | None = None

    def at(self, workspace: str) -> "HostParts":
        """The parts of tasks that work in another folder: the worktree of a worker."""
        if Path(workspace) == self.workspace or not is_worktree_of_agent(workspace):
            return self  # a project may have been moved since
        if not os.path.isdir(workspace):
            raise StorageError(f"The folder {workspace} is gone, so its session cannot continue.")
        if workspace not in self._elsewhere:
            self._elsewhere[workspace] = parts_at(self, Path(workspace))
        return self._elsewhere[workspace]

    @cached_property
    def _elsewhere(self) -> "dict[str, HostParts]":
        return {}

    @cached_property
    def worktrees(self) -> "Worktrees | None":
        """The worktrees of workers; None if the workspace is not a git repository, or must not be
        changed."""
        if not (self.consent.may_act and own_repository(str(self.workspace))):
            return None
        from rookery.workspace.agent_worktrees import AgentWorktrees

        return AgentWorktrees(self.workspace)

    @cached_property
    def wardens(self) -> "ForkedWardens":
        from rookery.platform.wardens import ForkedWardens

        return self.stack.enter_context(closing(ForkedWardens()))

    @cached_property
    def commands(self) -> "CommandParts":
        from rookery.app.command_parts import CommandParts

        return self.stack.enter_context(closing(CommandParts(self)))

    def judge(self, command: str, cwd: str) -> Judgement:
        return self.commands.judge(command, cwd)

    @property
    def can_be_offline(self) -> bool:
        """Whether commands can run without network."""
        return self.commands.sandbox.can_be_offline

    @property
    def only_known_hosts(self) -> bool:
        """Whether commands and browsers may reach only known or approved hosts."""
        sandbox = self.settings.sandbox
        return sandbox.network == "known" and sandbox.use != "off"

    @cached_property
    def shell(self) -> str:
        found = find_own_program("bash", self.workspace.resolve())
        return self.settings.commands.shell or found or "/bin/sh"

    @cached_property
    def pace(self) -> Pace:
        return self.shared_pace or Pace(self.settings.request_pause)

    @cached_property
    def finder(self) -> WorkspaceFinder:
        return WorkspaceFinder(self.workspace, self.files, self.settings.as_limits())

    @cached_property
    def checkpoints(self) -> "ShadowCheckpoints":
        return open_checkpoints(self.settings, self.workspace, self.places)

    async def contents(self, before: str, after: str) -> Contents:
        """Return the differences between two checkpoints."""
        assert self.settings.checkpoints.use
        return await self.checkpoints.diff(before, after)

    @cached_property
    def running(self) -> "CommandRegistry":
        from rookery.storage.running_commands import CommandRegistry

        return CommandRegistry(self.places.running)

    @cached_property
    def browsers(self) -> Browsers:
        def knows(host: "HostPort") -> bool:
            return self.commands.network.knows(host)

        return Browsers(self.settings, self.start_soon, knows if self.only_known_hosts else None)

    @cached_property
    def language_servers(self) -> "LanguageServers | None":
        from rookery.app.edit_checks import open_language_servers

        return open_language_servers(self)

    @cached_property
    def tools(self) -> dict[str, Tool[Any]]:
        return self.select_tools(all_tools() | self.briefing.tools() | self.extra.tools)

    def offer_tools(self) -> None:
        """Give the briefing the tools of all modes."""
        browser = self.browsers.new()
        self.briefing.offer(self.tools | ({browser.name: browser} if browser else {}))

    @cached_property
    def briefing(self) -> Briefing:
        return Briefing(
            self.settings,
            self.places,
            self.files,
            home=Path.home(),
            trusted=self.consent.trusted,
            models=self.models,
            names_unknown_models=self.consent.on_screen,
            system=f"{os.uname().sysname}, shell {Path(self.shell).name}",
            news=lambda: (*self.given.problems, *self.extra.news()),
        )

    @cached_property
    def oversight(self) -> "Oversight":
        from rookery.governance.oversight import Oversight

        return Oversight(
            self.settings,
            self.workspace,
            self.places,
            intent=self.consent.intent,
            allow=self.consent.governance_allow,
            confines=lambda: self.commands.sandbox.narrows,
            contents=self.contents if self.settings.checkpoints.use else None,
            start_soon=self.start_soon,
            judge=self.judge,
            journals=Journals(self.store.folder),
            trusted=self.consent.trusted,
            attended=self.consent.attended,
        )


def _record_unfinished(store: TaskStore, places: Places, task_id: str) -> None:
    from rookery.app.past_session import record_unfinished

    record_unfinished(places, store, task_id)


async def _forget_files(store: TaskStore, places: Places, gone: Collection[str]) -> None:
    """Delete checkpoint data that only deleted sessions needed, and copies of repositories. If
    that fails, the next deletion tries again."""

    def forget() -> None:
        from rookery.app.past_session import drop_files

        with suppress(StorageError, OSError):
            drop_files(places, store, gone)

    with anyio.CancelScope(shield=True):
        await anyio.to_thread.run_sync(forget)


def _git_config(workspace: Path, *, trusted: bool) -> str:
    """Read the repository's configuration, if the folder is trusted."""
    return repository_config(str(workspace.resolve())) if trusted else ""


def open_checkpoints(settings: Settings, workspace: Path, places: Places) -> "ShadowCheckpoints":
    from rookery.checkpoints.checkpoints import ProtectedFilesOnly, ShadowCheckpoints

    kind = ShadowCheckpoints if settings.checkpoints.use else ProtectedFilesOnly
    return kind(workspace, places.checkpoints, settings.as_limits(), private=places.own_folders)
