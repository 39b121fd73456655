"""Mode, model and permission level of a session as modes and configuration options."""

from collections.abc import Sequence

from msgspec import Struct

from rookery.compat.acp.tool_calls import Wire
from rookery.core.commands import Command, SwitchApproval, SwitchMode, SwitchModel
from rookery.core.facts import (
    Answered,
    ApprovalSwitched,
    Fact,
    FellBack,
    ModelSwitched,
    ModeSwitched,
    TaskOpened,
)
from rookery.core.levels import GUARD, Level, level_named
from rookery.core.queries import About, KnownMode, KnownModel, Permissions
from rookery.errors import SettingsError

MODE, MODEL, LEVEL = "mode", "model", "permissions"
MOST_MODELS = 200
_LEVEL_NAMES = {
    Level.ASK: "Ask",
    Level.EDITS: "Edit files",
    Level.PLAN: "Plan",
    Level.SANDBOXED: "Sandboxed",
    Level.AUTO: "Auto-approve",
}


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
        ]

    def command(self, config_id: str, value: object, task_id: str) -> Command:
        """The command that changes an option. Raises `SettingsError` for an unknown value."""
        match config_id, value:
            case "mode", str() if value in {each.slug for each in self.modes}:
                return SwitchMode(task_id=task_id, mode=value)
            case "model", str() if found := [
                each for each in self.models if _model_id(*each) == value
            ]:
                return SwitchModel(task_id=task_id, provider=found[0][0], model=found[0][1])
            case "permissions", str() if (level := level_named(value)) in self.levels:
                return SwitchApproval(task_id=task_id, level=level)
            case (("mode" | "model" | "permissions"), _):
                raise SettingsError(f"The option {config_id!r} has no value {value!r}.")
            case _:
                raise SettingsError(
                    f"There is no option {config_id!r}. There are {MODE}, {MODEL} and {LEVEL}."
                )

    def apply(self, change: Command | Fact) -> bool:
        """Note a choice of the client, or one that the log reports. Whether it changes anything."""
        before = (self.mode, self.provider, self.model, self.level)
        match change:
            case TaskOpened(mode=mode) | SwitchMode(mode=mode) | ModeSwitched(mode=mode):
                self.mode = mode
            case (
                SwitchModel(provider=provider, model=model)
                | ModelSwitched(provider=provider, model=model)
            ):
                self.provider, self.model = provider or self.provider, model
            case FellBack(provider=provider, model=model, problem=""):
                self.provider, self.model = provider or self.provider, model
            case SwitchApproval(level=Level() as level) | ApprovalSwitched(to=Level() as level):
                self.level = level
            case Answered(level=Level() as level):  # a plan was approved
                self.level = level
            case _:
                pass
        return before != (self.mode, self.provider, self.model, self.level)


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
    )


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
