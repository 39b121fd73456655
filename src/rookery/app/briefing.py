"""What models are told and what they may use, mode by mode: part of the composition root.

Everything here is read again when it changes and is otherwise the same byte for byte, so that
what a provider has cached of earlier requests stays good.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import anyio.to_thread
from msgspec import Struct
from msgspec.structs import replace

from rookery.app.model_choice import Models
from rookery.core.facts import (
    AssistantSpoke,
    Condensed,
    Gathered,
    TaskOpened,
    ToolFinished,
    ToolStarted,
)
from rookery.core.folds.task_state import TaskState
from rookery.core.instructions import Rules, Skill, SlashCommand, skills_for
from rookery.core.limits import Limits
from rookery.core.modes import Mode, find_mode, offers, why_not
from rookery.core.settings import Settings
from rookery.core.undo_plan import commands_running_on
from rookery.engine.context import Equipment
from rookery.engine.event_log import EventLog
from rookery.engine.ports.actions import Action
from rookery.engine.ports.model import Provider, ToolSpec
from rookery.engine.ports.tool import Tool, ToolContext
from rookery.engine.task_deps import Act, Gatherer
from rookery.errors import SettingsError
from rookery.platform.user_folders import Places
from rookery.prompting.environment import (
    CommandNote,
    EnvironmentDetails,
    ModifiedFiles,
    environment_details,
    git_branch,
    moment,
)
from rookery.prompting.modes import ModeFiles
from rookery.prompting.rules import RuleFiles
from rookery.prompting.skills_and_commands import CommandFiles, FoundCommands, SkillFiles
from rookery.prompting.system_prompt import MODES, system_prompt
from rookery.tools.conversation import LoadSkill, NewTask, SwitchModeTool
from rookery.tools.registry import compact_spec, offered, spec_of
from rookery.workspace.files import WorkspaceFiles

BUILT_IN_MODES = frozenset(MODES)
LITTLE_ROOM = 16_384
"""Tokens of a window below which a model is told only what it must know."""


class Briefing:
    def __init__(
        self,
        settings: Settings,
        places: Places,
        files: WorkspaceFiles,
        *,
        home: Path,
        trusted: bool,
        models: Models,
        surroundings: str,
        news: Callable[[], Sequence[str]] = tuple,
    ) -> None:
        """`news` is what else the user should know, each thing told once."""
        at = (places.config, home, files.boundaries)
        self._settings = settings
        self._files = files
        self._root = Path(files.boundaries.root)
        self._surroundings = surroundings
        self._news = news
        self._models = models
        self._rules = RuleFiles(
            *at,
            trusted=trusted,
            subfolders=settings.context.subfolder_rules,
            agent_files=settings.context.agent_rules,
        )
        self._skill_files = SkillFiles(*at, trusted=trusted)
        self._command_files = CommandFiles(*at, trusted=trusted)
        known = ModeFiles(*at, trusted=trusted).read()
        self.modes: Sequence[Mode] = [self._changed(mode) for mode in known.modes]
        self._problems: list[str] = list(known.problems)
        self._told: set[str] = set()
        self._tools: Mapping[str, Tool[Any]] = {}
        self._specs: list[ToolSpec] = []

    def tools(self) -> dict[str, Tool[Any]]:
        """The tools that go by modes and skills."""
        return {
            "switch_mode": SwitchModeTool(lambda: self.modes),
            "new_task": NewTask(lambda: self.modes),
            "skill": LoadSkill(self.skills, self._skill_files.body),
        }

    def offer(self, tools: Mapping[str, Tool[Any]]) -> None:
        """Which tools there are, all modes taken together."""
        self._tools = tools
        self._specs = offered(tools)

    def slugs(self) -> list[str]:
        return [mode.slug for mode in self.modes]

    def mode(self, slug: str) -> Mode:
        """The mode of that name; one that is gone meanwhile is only named, and can do nothing."""
        known = find_mode(self.modes, slug)
        return known or Mode(slug=slug, name=slug, role="", groups=())

    def mode_of(self, state: TaskState) -> Mode:
        """The mode a task is in, run by the model that the user has chosen for it, if any."""
        mode = self.mode(state.mode)
        provider, model = state.chosen
        return replace(mode, provider=provider, model=model) if model else mode

    def group_of(self, tool: str) -> str:
        return str(self._tools[tool].group) if tool in self._tools else "always"

    def barred(self, slug: str, tool: str) -> str:
        """Why a mode does not let a tool be used; nothing if it does."""
        mode = self.mode(slug)
        return "" if offers(mode, self.group_of(tool)) else why_not(mode, tool)

    def sees_images(self, state: TaskState) -> bool:
        return self._provider_of(self.mode_of(state)).model.images

    def _provider_of(self, mode: Mode) -> Provider:
        """The model that the mode wants, or the usual one if that cannot be had."""
        try:
            return self._models.of(mode.provider, mode.model)
        except SettingsError as error:
            self._problems.append(f"Mode {mode.slug} uses another model. {error}")
            return self._models.of("", "")

    async def equip(
        self,
        tell: Callable[[str], None],
        more: Callable[[], Mapping[str, Tool[Any]]],
        state: TaskState,
    ) -> Equipment:
        """`more` are tools that only this task has."""
        mode = self.mode_of(state)
        provider = self._provider_of(mode)
        rules, skills, commands = await anyio.to_thread.run_sync(self._written_down, mode.slug)
        wrong = [*rules.problems, *self._skill_files.read().problems, *commands.problems]
        self._tell_problems(tell, [*wrong, *self._news()])
        specs = [*self._specs_for(mode, skills), *map(spec_of, more().values())]
        compact = self._is_brief(provider)
        system = system_prompt(
            mode=mode,
            modes=self.modes,
            workspace=str(self._root),
            tools=[spec.name for spec in specs],
            surroundings=self._surroundings,
            custom=self._settings.context.instructions,
            language=self._settings.context.language,
            ignored=" and ".join(self._files.boundaries.ignore_files()),
            skills=skills,
            rules=rules,
            compact=compact,
            words_end=self._settings.turn_end == "words",
        )
        return Equipment(provider, system, [compact_spec(s) for s in specs] if compact else specs)

    def _written_down(self, slug: str) -> tuple[Rules, tuple[Skill, ...], FoundCommands]:
        """What users and projects have written for a mode."""
        return self._rules.read(slug), self.skills(slug), self._command_files.read()

    def gatherer(self, log: EventLog, server_prompt: Callable[[str], Action]) -> Gatherer:
        async def gather(text: str, ctx: ToolContext, act: Act) -> Gathered:
            if not ("@" in text or "/" in text):
                return Gathered(text="")  # what looks up mentions and commands is not even loaded
            return await self._mentions(log, server_prompt)(text, ctx, act)

        return gather

    def _mentions(self, log: EventLog, server_prompt: Callable[[str], Action]) -> Gatherer:
        from rookery.prompting.mention_lookup import MentionLookup

        return MentionLookup(
            self._root,
            commands=self.commands,
            unreadable=lambda: dict(self._command_files.read().unreadable),
            skills=self.skills,
            body=self._skill_files.body,
            modes=self.slugs,
            last_output=partial(last_output, log),
            server_prompt=server_prompt,
        )

    def commands(self) -> Sequence[SlashCommand]:
        return self._command_files.read().commands

    def _changed(self, mode: Mode) -> Mode:
        changes = self._settings.modes.get(mode.slug, {})
        added = changes.get("instructions", "")
        return replace(
            mode,
            provider=changes.get("provider", mode.provider),
            model=changes.get("model", mode.model),
            instructions="\n\n".join(filter(None, [mode.instructions, added])),
        )

    def skills(self, slug: str) -> tuple[Skill, ...]:
        return skills_for(self._skill_files.read().skills, slug)

    def _specs_for(self, mode: Mode, skills: Collection[Skill]) -> list[ToolSpec]:
        return [
            spec
            for spec in self._specs
            if offers(mode, self.group_of(spec.name)) and (spec.name != "skill" or skills)
        ]

    def _is_brief(self, provider: Provider) -> bool:
        wanted = self._settings.context.prompt
        return wanted == "compact" or (wanted == "auto" and provider.model.window < LITTLE_ROOM)

    def _tell_problems(self, tell: Callable[[str], None], found: Sequence[str]) -> None:
        for problem in [*self._problems, *found]:
            if problem not in self._told:
                self._told.add(problem)
                tell(problem)


def situation(
    briefing: Briefing,
    files: WorkspaceFiles,
    known: Callable[[], Mapping[str, str]],
    now: Callable[[], int],
    intent: Callable[[], Awaitable[str]],
    overview: Callable[[], Awaitable[str]],
) -> Callable[[EventLog], Awaitable[str]]:
    """How things stand with a task, for the end of each request. `known` are the files that the
    model knows, by their hashes; `intent` is what it works for; `overview` are the files of the
    workspace, for a model that has seen nothing yet."""
    root = Path(files.boundaries.root)
    modified = ModifiedFiles(root, files)

    async def told(log: EventLog) -> str:
        mode = briefing.mode(log.state.mode)
        running = commands_running_on(log.events)
        return environment_details(
            EnvironmentDetails(
                mode=mode.slug,
                mode_name=mode.name,
                modified=await modified.since(known()),
                running=[CommandNote(id=id, command=text) for id, text in running.items()],
                time=moment(now()),
                git=git_branch(root),
                cost=log.state.spent.cost or None,
                files=await overview() if _needs_overview(log) else "",
                intent=await intent(),
                plan=log.state.plan,
                todos=log.state.todos,
            )
        )

    return told


def _needs_overview(log: EventLog) -> bool:
    """Whether the model has not answered yet since the task was opened or condensed. Where
    permission rules may hide files, it has to ask for a list, which they are applied to."""
    if log.state.governed is not None:
        return False
    for event in reversed(log.events):
        match event.fact:
            case AssistantSpoke():
                return False
            case Condensed() | TaskOpened():
                return True
            case _:
                pass
    return True


def last_output(log: EventLog) -> str:
    """What the last command of a task wrote, as the model was told."""
    ended: dict[str, str] = {}
    for event in reversed(log.events):
        match event.fact:
            case ToolFinished(call_id=call_id, text=text):
                ended[call_id] = text
            case ToolStarted(call_id=call_id, command=command) if command and call_id in ended:
                return ended[call_id]
            case _:
                pass
    return ""


class ProjectNames(Struct, frozen=True, kw_only=True):
    """What a project and its user have named, and what is wrong with how they did."""

    commands: tuple[tuple[str, str], ...]
    """Slash commands, each with what it is for."""
    modes: tuple[str, ...]
    problems: tuple[str, ...]


def project_names(places: Places, workspace: Path, *, trusted: bool) -> ProjectNames:
    files = WorkspaceFiles(workspace, Limits(), own_folders=places.own_folders, home=Path.home())
    at = (places.config, Path.home(), files.boundaries)
    commands = CommandFiles(*at, trusted=trusted).read()
    modes = ModeFiles(*at, trusted=trusted).read()
    return ProjectNames(
        commands=(
            *((each.name, each.description) for each in commands.commands),
            *(
                (each.name, each.description)
                for each in SkillFiles(*at, trusted=trusted).read().skills
            ),
            *((name, f"not available: {why}") for name, why in commands.unreadable),
        ),
        modes=tuple(mode.slug for mode in modes.modes),
        problems=(*modes.problems, *commands.problems),
    )
