"""The prompt and tools of each mode: part of the composition root.

Files are read again when they change; otherwise the result is the same byte for byte, so that the
provider's cache of earlier requests stays valid.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio.to_thread
from msgspec import Struct
from msgspec.structs import replace

from rookery.app.model_choice import Models
from rookery.core.event_list import newest
from rookery.core.facts import Gathered, ToolFinished, ToolStarted
from rookery.core.folds.task_state import TaskState
from rookery.core.instructions import Rules, Skill, SlashCommand, skills_for
from rookery.core.modes import SELECT, Mode, find_mode, offers, reading_only, why_not
from rookery.core.settings import Settings
from rookery.core.settings_sections import Prompt
from rookery.core.tool_traits import COMPLETION
from rookery.engine.context import Equipment
from rookery.engine.event_log import EventLog
from rookery.engine.ports.model import ModelInfo, Provider, ToolSpec
from rookery.engine.ports.tool import Tool, ToolContext
from rookery.engine.ports.workspace import Buffers
from rookery.engine.task_deps import Act, Gatherer
from rookery.errors import SettingsError
from rookery.permissions.trust import never_trusted
from rookery.platform.user_folders import Places
from rookery.prompting.config_files import ConfigPlaces
from rookery.prompting.modes import ModeFiles
from rookery.prompting.rules import RuleFiles
from rookery.prompting.skills_and_commands import CommandFiles, FoundCommands, SkillFiles
from rookery.prompting.system_prompt import MODES, system_prompt
from rookery.tools.agents import RunAgents
from rookery.tools.conversation import LoadSkill, NewTask, SwitchModeTool
from rookery.tools.registry import essential_specs, offered, spec_of
from rookery.workspace.files import WorkspaceFiles

if TYPE_CHECKING:
    from rookery.app.extra_tools import ExtraTools

BUILT_IN_MODES = frozenset(MODES)
SMALL_WINDOW = 16_384
"""Context windows below this many tokens get the compact prompt."""
GUIDED_UP_TO, COMPACT_UP_TO = 4.0, 15.0
"""Billions of parameters up to which a model is guided, or gets the compact prompt."""


def workspace_files(
    workspace: Path, places: Places, settings: Settings, buffers: Buffers | None = None
) -> WorkspaceFiles:
    return WorkspaceFiles(
        workspace,
        settings.as_limits(),
        own_folders=places.own_folders,
        home=Path.home(),
        added=added_folders(settings),
        buffers=buffers,
    )


def added_folders(settings: Settings) -> tuple[Path, ...]:
    """Return the user's further folders, without missing ones and those that hold too much."""
    named = [Path(folder).expanduser() for folder in settings.folders]
    return tuple(each.resolve() for each in named if each.is_dir() and not never_trusted(each))


class InstructionFiles(Struct, frozen=True):
    """The readers of all files that instruct the model."""

    rules: RuleFiles
    skills: SkillFiles
    commands: CommandFiles
    modes: ModeFiles


def instruction_files(
    settings: Settings, places: Places, files: WorkspaceFiles, home: Path, *, trusted: bool
) -> InstructionFiles:
    context, at = settings.context, (places.config, home, files.boundaries)
    found = ConfigPlaces(*at, trusted=trusted, other_agents=context.other_agents)
    return InstructionFiles(
        RuleFiles(found, subfolders=context.subfolder_rules, agent_files=context.agent_rules),
        SkillFiles(found),
        CommandFiles(found),
        ModeFiles(found),
    )


class Composition(Struct, frozen=True):
    """The prompt, tools, rules and skills of a mode, and the problems with all files that instruct
    the model."""

    system: str
    specs: Sequence[ToolSpec]
    rules: Rules
    skills: Sequence[Skill]
    commands: FoundCommands
    problems: Sequence[str]


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
        names_unknown_models: bool = False,
        system: str,
        news: Callable[[], Sequence[str]] = tuple,
    ) -> None:
        """`news` returns other notices for the user; each is shown once."""
        self._settings = settings
        self._files = files
        self._root = Path(files.boundaries.root)
        self._system = system
        self._news = news
        self._models = models
        self._names_unknown = names_unknown_models
        found = instruction_files(settings, places, files, home, trusted=trusted)
        self._rules = found.rules
        self._skill_files = found.skills
        self._command_files = found.commands
        known = found.modes.read()
        self.modes: Sequence[Mode] = [self._configured(mode) for mode in known.modes]
        self._problems: list[str] = list(known.problems)
        self._reported: set[str] = set()
        self._tools: Mapping[str, Tool[Any]] = {}
        self._specs: list[ToolSpec] = []

    def tools(self) -> dict[str, Tool[Any]]:
        """Return the tools that depend on modes and skills."""
        return {
            "switch_mode": SwitchModeTool(lambda: self.modes),
            "new_task": NewTask(lambda: self.modes),
            "run_agents": RunAgents(lambda: self.modes, self._unusable),
            "skill": LoadSkill(self.skills, self._skill_files.body),
        }

    def _unusable(self, provider: str, model: str) -> str:
        """Return why a model cannot be used; empty if it can."""
        try:
            self._models.of(provider, model)
        except SettingsError as error:
            return str(error)
        return ""

    def offer(self, tools: Mapping[str, Tool[Any]]) -> None:
        """Set the tools that are available, over all modes."""
        self._tools = tools
        self._specs = offered(tools)

    def slugs(self) -> list[str]:
        return [mode.slug for mode in self.modes]

    def mode(self, slug: str) -> Mode:
        """Return the mode. A mode that no longer exists has no tools."""
        known = find_mode(self.modes, slug)
        return known or Mode(slug=slug, name=slug, role="", groups=())

    def mode_in(self, state: TaskState) -> Mode:
        """Return the mode of a task; an agent that only reads has nothing else of it."""
        mode = self.mode(state.mode)
        return reading_only(mode) if state.opened.only_reads else mode

    def mode_of(self, state: TaskState) -> Mode:
        """Return the mode of a task, with the model that the user chose for the task or that
        took over, if any."""
        mode = self.mode_in(state)
        provider, model = state.fallback_model if state.fallback_model[1] else state.chosen
        return replace(mode, provider=provider, model=model) if model else mode

    def group_of(self, tool: str) -> str:
        return str(self._tools[tool].group) if tool in self._tools else "always"

    def barred(self, slug: str, tool: str) -> str:
        """Return why a mode does not allow a tool; empty if it does."""
        mode = self.mode(slug)
        return "" if offers(mode, self.group_of(tool)) else why_not(mode, tool)

    def sees_images(self, state: TaskState) -> bool:
        return self._provider_of(self.mode_of(state), state).model.images

    def _provider_of(self, mode: Mode, state: TaskState) -> Provider:
        """Return the mode's model, or the default one if that is not available."""
        try:
            return self._models.of(mode.provider, mode.model, state.effort)
        except SettingsError as error:
            self._problems.append(f"Mode {mode.slug} uses another model. {error}")
            return self._models.of("", "")

    async def equip(
        self,
        notify: Callable[[str], None],
        more: Callable[[], Mapping[str, Tool[Any]]],
        state: TaskState,
    ) -> Equipment:
        """Return provider, prompt and tools for a request. `more` returns tools of this task."""
        mode = self.mode_of(state)
        provider = self._provider_of(mode, state)
        await self._models.learn(provider)
        composed = await anyio.to_thread.run_sync(self._compose, mode, provider.model, more())
        wrong = [*composed.problems]
        if self._names_unknown and (unknown := self._models.note_on(provider.model)):
            wrong.append(unknown)
        self._report_problems(notify, [*self._problems, *wrong, *self._news()])
        governed = SELECT in {spec.name for spec in composed.specs}
        if self._profile(provider.model) == "guided" and not governed:
            from rookery.guided.provider import GuidedProvider

            provider = GuidedProvider(provider, self._files.examine)
        return Equipment(provider, composed.system, composed.specs)

    def composed(self, state: TaskState) -> tuple[Composition, ModelInfo]:
        """Return what a request would have, and its model. Reports nothing and asks no server."""
        mode = self.mode_of(state)
        model = self._provider_of(mode, state).model
        return self._compose(mode, model, {}), model

    def problems(self, composed: Composition) -> Sequence[str]:
        """Return the problems with all files that instruct the model."""
        return [*self._problems, *composed.problems]

    def _compose(self, mode: Mode, model: ModelInfo, more: Mapping[str, Tool[Any]]) -> Composition:
        """Read the files and compose prompt and tools. `more` are tools of one task."""
        rules, found = self._rules.read(mode.slug), self._skill_files.read()
        skills, commands = skills_for(found.skills, mode.slug), self._command_files.read()
        compact = self._profile(model) != "full"
        words_end = self._settings.turn_end == "words"
        specs = self._specs_for(mode, skills)
        if compact:
            specs = essential_specs(specs, also="" if words_end else COMPLETION)
        specs += map(spec_of, more.values())
        system = system_prompt(
            mode=mode,
            modes=self.modes,
            workspace=str(self._root),
            folders=[str(each) for each in self._files.boundaries.added],
            tools=[spec.name for spec in specs],
            system=self._system,
            custom=self._settings.context.instructions,
            language=self._settings.context.language,
            ignored=" and ".join(self._files.boundaries.ignore_files()),
            skills=skills,
            rules=rules,
            compact=compact,
            words_end=words_end,
        )
        wrong = (*rules.problems, *self._rules.problems_of_files(), *found.problems)
        return Composition(system, specs, rules, skills, commands, (*wrong, *commands.problems))

    async def rules_for(self, paths: Collection[str]) -> Mapping[str, str]:
        """Return the rules for files that the model has seen, by title."""
        if not self._rules.may_have_rules_for(paths):
            return {}  # saves a thread in most requests
        return await anyio.to_thread.run_sync(self._rules.for_files, paths)

    def gatherer(
        self, log: EventLog, extra: "ExtraTools", problems: Callable[[], Sequence[str]]
    ) -> Gatherer:
        async def gather(text: str, ctx: ToolContext, act: Act) -> Gathered:
            if not ("@" in text or "/" in text):
                return Gathered(text="")  # saves importing the lookup
            return await self._mentions(log, extra, problems)(text, ctx, act)

        return gather

    def _mentions(
        self, log: EventLog, extra: "ExtraTools", problems: Callable[[], Sequence[str]]
    ) -> Gatherer:
        from rookery.prompting.mention_lookup import MentionLookup

        return MentionLookup(
            self._root,
            commands=self.commands,
            unreadable=lambda: dict(self._command_files.read().unreadable),
            skills=self.skills,
            body=self._skill_files.body,
            modes=self.slugs,
            last_output=partial(last_output, log),
            server_prompt=extra.server_prompt,
            fetch_page=extra.web.mentioned if extra.web else None,
            problems=problems,
        )

    def commands(self) -> Sequence[SlashCommand]:
        return self._command_files.read().commands

    def _configured(self, mode: Mode) -> Mode:
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

    def _profile(self, model: ModelInfo) -> Prompt:
        """How a model is instructed: as the settings say, or by its size and context window."""
        wanted = self._settings.context.prompt
        if wanted != "auto":
            return wanted
        if 0 < model.parameters <= GUIDED_UP_TO:
            return "guided"
        small = model.window < SMALL_WINDOW or 0 < model.parameters <= COMPACT_UP_TO
        return "compact" if small else "full"

    def _report_problems(self, notify: Callable[[str], None], found: Sequence[str]) -> None:
        for problem in found:
            if problem not in self._reported:
                self._reported.add(problem)
                notify(problem)


def last_output(log: EventLog) -> str:
    """Return the output of the task's last command, as the model saw it."""
    ended: dict[str, str] = {}
    for event in newest(log.events, ToolFinished, ToolStarted):
        match event.fact:
            case ToolFinished(call_id=call_id, text=text):
                ended[call_id] = text
            case ToolStarted(call_id=call_id, command=command) if command and call_id in ended:
                return ended[call_id]
            case _:
                pass
    return ""


class ProjectNames(Struct, frozen=True, kw_only=True):
    """The commands and modes that the user and the project define, and problems in their files."""

    commands: tuple[tuple[str, str], ...]
    """Names of slash commands and skills, each with its description."""
    modes: tuple[str, ...]
    problems: tuple[str, ...]


def project_names(
    places: Places, workspace: Path, *, trusted: bool, other_agents: bool
) -> ProjectNames:
    files = workspace_files(workspace, places, Settings())
    at = (places.config, Path.home(), files.boundaries)
    found = ConfigPlaces(*at, trusted=trusted, other_agents=other_agents)
    commands, modes = CommandFiles(found).read(), ModeFiles(found).read()
    skills = SkillFiles(found).read().skills
    return ProjectNames(
        commands=(
            *((each.name, each.description) for each in commands.commands),
            *((each.name, each.description) for each in skills),
            *((name, f"not available: {why}") for name, why in commands.unreadable),
        ),
        modes=tuple(mode.slug for mode in modes.modes),
        problems=(*modes.problems, *commands.problems),
    )
