"""Mode, model, effort and permission level of a session as modes and configuration options."""

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from rookery.compat.acp.tool_calls import Wire
from rookery.core.commands import Command, OpenTask, SwitchApproval, SwitchMode, SwitchModel
from rookery.core.facts import (
    Answered,
    ApprovalSwitched,
    Fact,
    FellBack,
    ModelSwitched,
    ModeSwitched,
    TaskOpened,
)
from rookery.core.limits import Effort
from rookery.core.modes import GUARD, Level, level_named
from rookery.core.queries import About, KnownMode, KnownModel, Permissions
from rookery.errors import SettingsError

MODE, MODEL, LEVEL, EFFORT = "mode", "model", "permissions", "effort"
MOST_MODELS = 200
_LEVEL_NAMES = {
    Level.ASK: "Ask",
    Level.EDITS: "Edit files",
    Level.PLAN: "Plan",
    Level.SANDBOXED: "Sandboxed",
    Level.AUTO: "Auto-approve",
}
_EFFORT_NAMES: dict[Effort, str] = {
    "unspecified": "Default",
    "none": "None",
    "minimal": "Minimal",
    "low": "Low",
    "medium": "Medium",
    "high": "High",
    "xhigh": "Extra high",
}


OPTIONS = (TaskOpened, ModeSwitched, ModelSwitched, FellBack, ApprovalSwitched, Answered)
"""Facts that change what is chosen."""


class SessionChoices(Struct, kw_only=True):
    """What can be chosen in a session, and what is chosen."""

    mode: str
    provider: str
    model: str
    level: Level
    modes: Sequence[KnownMode]
    models: Sequence[tuple[str, str]]
    """Pairs of provider and model."""
    levels: Sequence[Level]
    effort: Effort = "unspecified"
    usual_effort: Effort = "unspecified"
    """The effort of the settings."""
    reasoning: frozenset[tuple[str, str]] = frozenset()
    """The models whose effort can be chosen."""

    @property
    def model_id(self) -> str:
        return _model_id(self.provider, self.model)

    def mode_state(self) -> Wire:
        known = [
            {"id": each.slug, "name": each.name, "description": each.when_to_use}
            for each in self.modes
        ]
        return {"currentModeId": self.mode, "availableModes": known}

    def config_options(self) -> list[Wire]:
        modes = [(each.slug, each.name, each.when_to_use) for each in self.modes]
        listed = dict.fromkeys([(self.provider, self.model), *self.models])
        models = [(_model_id(*each), each[1], each[0]) for each in listed]
        levels = [(each.value, _LEVEL_NAMES[each], each.sentence) for each in self.levels]
        about = f"What happens without asking. {GUARD}"
        return [
            _select(MODE, "Mode", self.mode, modes, category="mode"),
            _select(MODEL, "Model", self.model_id, models, category="model"),
            _select(LEVEL, "Permissions", self.level.value, levels, description=about),
            *self._effort_option(),
        ]

    def _effort_option(self) -> list[Wire]:
        if (self.provider, self.model) not in self.reasoning:
            return []
        now = "none" if self.effort == "disabled" else self.effort
        rows = [(each, name, "") for each, name in _EFFORT_NAMES.items()]
        return [_select(EFFORT, "Reasoning effort", now, rows, category="thought_level")]

    def command(self, config_id: str, value: object, task_id: str) -> Command:
        """The command that changes an option. Raises `SettingsError` for an unknown value."""
        match config_id, value:
            case "mode", str() if value in {each.slug for each in self.modes}:
                return SwitchMode(task_id=task_id, mode=value)
            case "model", str() if found := [
                each for each in self.models if _model_id(*each) == value
            ]:
                return _switch(task_id, found[0], self.effort)
            case "effort", str() if efforts := [each for each in _EFFORT_NAMES if each == value]:
                return _switch(task_id, (self.provider, self.model), efforts[0])
            case "permissions", str() if (level := level_named(value)) in self.levels:
                return SwitchApproval(task_id=task_id, level=level)
            case (("mode" | "model" | "permissions" | "effort"), _):
                raise SettingsError(f"The option {config_id!r} has no value {value!r}.")
            case _:
                raise SettingsError(
                    f"There is no option {config_id!r}. There are {MODE}, {MODEL}, {LEVEL} and "
                    f"{EFFORT}."
                )

    def applied_to(self, opening: OpenTask, before: "SessionChoices") -> OpenTask:
        """The first command with what was chosen since `before`."""
        opening = replace(opening, mode=self.mode)
        if (self.model_id, self.effort) != (before.model_id, before.effort):
            opening = replace(opening, provider=self.provider, model=self.model, effort=self.effort)
        return opening if self.level is before.level else replace(opening, level=self.level)

    def apply(self, change: Command | Fact) -> bool:
        """Note a choice of the client, or one that the log reports. Whether it changes anything."""
        before = replace(self)
        match change:
            case TaskOpened(mode=mode) | SwitchMode(mode=mode) | ModeSwitched(mode=mode):
                self.mode = mode
            case (
                SwitchModel(provider=provider, model=model, effort=effort)
                | ModelSwitched(provider=provider, model=model, effort=effort)
            ):
                self.provider, self.model = provider or self.provider, model
                self.effort = effort or self.usual_effort
            case FellBack(provider=provider, model=model, problem=""):
                self.provider, self.model = provider or self.provider, model
            case SwitchApproval(level=Level() as level) | ApprovalSwitched(to=Level() as level):
                self.level = level
            case Answered(level=Level() as level):  # a plan was approved
                self.level = level
            case _:
                pass
        return before != self


def session_choices(
    about: About,
    modes: Sequence[KnownMode],
    models: Sequence[KnownModel],
    permissions: Permissions,
) -> SessionChoices:
    listed = [(each.provider, each.model) for each in models][:MOST_MODELS]
    return SessionChoices(
        mode=about.mode,
        provider=about.provider,
        model=listed[0][1] if listed else about.model,
        level=permissions.level,
        modes=modes,
        models=listed,
        levels=permissions.levels,
        effort=about.effort,
        usual_effort=about.effort,
        reasoning=frozenset((each.provider, each.model) for each in models if each.reasons),
    )


def _switch(task_id: str, model: tuple[str, str], effort: Effort) -> SwitchModel:
    return SwitchModel(task_id=task_id, provider=model[0], model=model[1], effort=effort)


def _model_id(provider: str, model: str) -> str:
    return f"{provider}:{model}"


def _select(
    config_id: str,
    name: str,
    current: str,
    rows: Sequence[tuple[str, str, str]],
    *,
    category: str = "",
    description: str = "",
) -> Wire:
    options = [
        {"value": value, "name": shown, **({"description": about} if about else {})}
        for value, shown, about in rows
    ]
    extra = {"category": category} if category else {}
    extra |= {"description": description} if description else {}
    return {
        "id": config_id,
        "name": name,
        "type": "select",
        "currentValue": current,
        "options": options,
        **extra,
    }
