"""Every setting as one validated value with its default and description.

A setting is a field here or in `settings_sections`, and nothing else: its type says which values
are allowed, its sentence in the class docstring is the documentation, its name is the key in files,
the environment variable and the flag. What projects may change is in `settings_reference`.
"""

from collections.abc import Mapping
from typing import Annotated, TextIO

import msgspec
from msgspec import Meta

from rookery.core.limits import MIB, Effort, Limits
from rookery.core.modes import Level
from rookery.core.settings_sections import (
    USUAL,
    Address,
    Amount,
    Approval,
    BrowserSettings,
    Ceiling,
    CheckpointSettings,
    CommandSettings,
    ContextSettings,
    GovernanceSettings,
    HookSettings,
    IndexSettings,
    LanguageServerSettings,
    LimitSettings,
    ManagerSettings,
    ModelDescription,
    ModeSettings,
    Name,
    SandboxSettings,
    Seconds,
    SettingsSection,
    TelemetrySettings,
    Texts,
    TraceSettings,
    TurnEnd,
    UiSettings,
    WebSettings,
)


class Settings(SettingsSection, frozen=True):
    """All that a user can choose. None means that nothing was chosen.

    provider: Model provider. Default: chosen by the keys that are found.
    model: Model to use. Default: the provider's usual one.
    base_url: Address of the provider. Default: its own.
    fallback: Models to use, in this order, when the model is busy, unreachable or does not exist.
        Write `provider:model` for a model of another provider.
    fallback_after: Seconds to retry a busy model before the next one takes over.
    folders: Folders outside the workspace that the agent may read and write. Changes there cannot
        be undone.
    mode: Mode in which new sessions begin.
    reasoning_effort: How much models reason, if they can. `unspecified` leaves it to the model;
        `disabled` and `none` turn it off.
    approval: The [level](safety.md#levels) of new sessions. Default: `ask`, and `auto` with
        `--print`.
    max_requests: Requests to the model after which you are asked; 0 means never.
    max_cost: Dollars after which you are asked; 0 means never.
    max_tokens: Tokens after which you are asked; 0 means never.
    max_minutes: Minutes of work after which you are asked; 0 means never.
    mistake_limit: Mistakes in a row after which you are asked; 0 means never.
    turn_end: What ends a turn: an answer without a tool call, or only a call of
        `attempt_completion`, as in Roo Code.
    nudges: Reminders to the model, per message of yours, when an answer looks like a slip (cut
        off, empty, a call written as text). Small models may need more.
    request_pause: Minimum seconds between the starts of two requests; 0 means no pause.
    followup_seconds: Seconds after which an auto-approved run answers a question itself. Default:
        60 in a terminal, 0 if not interactive.
    exit_on_error: Whether the first failed request ends the run.
    approve_edits: Whether edits of ordinary files in the workspace are auto-approved.
    approve_modes: Whether switching to another mode is auto-approved.
    approve_subtasks: Whether starting sub-tasks is auto-approved.
    approve_in_scope: Whether edits within the scope of the selected intent are auto-approved.
    checks: Commands to run when the model says that it is done, such as `pytest -q`. A command
        with `{file}` runs after each edit of a file.
    formatters: Commands that format a file after an edit, as `PATTERN: COMMAND`: `*.py: ruff
        format {file}`.
    check_seconds: Seconds after which a check or a formatter is stopped.
    plugins: Installed packages that may add tools, providers and hooks. See
        [plug-ins](python.md#plug-ins).
    """

    provider: Name | None = None
    model: Name | None = None
    base_url: Address | None = None
    fallback: Texts = ()
    fallback_after: Amount = USUAL.fallback_after
    folders: Texts = ()
    mode: Name = "code"
    reasoning_effort: Effort = "unspecified"
    approval: Approval | None = None
    max_requests: Ceiling = USUAL.requests
    max_cost: Amount = USUAL.cost
    max_tokens: Ceiling = USUAL.tokens
    max_minutes: Amount = USUAL.seconds / 60
    mistake_limit: Ceiling = USUAL.mistakes
    turn_end: TurnEnd = "words"
    nudges: Annotated[int, Meta(ge=0, le=100)] = 1
    request_pause: Annotated[float, Meta(ge=0, le=3600)] = 0.0
    followup_seconds: Amount | None = None
    exit_on_error: bool = False
    approve_edits: bool = False
    approve_modes: bool = False
    approve_subtasks: bool = False
    approve_in_scope: bool = False
    checks: Texts = ()
    formatters: Texts = ()
    check_seconds: Seconds = 120.0
    plugins: Texts = ()
    context: ContextSettings = ContextSettings()
    commands: CommandSettings = CommandSettings()
    governance: GovernanceSettings = GovernanceSettings()
    hooks: HookSettings = HookSettings()
    trace: TraceSettings = TraceSettings()
    sandbox: SandboxSettings = SandboxSettings()
    checkpoints: CheckpointSettings = CheckpointSettings()
    index: IndexSettings = IndexSettings()
    browser: BrowserSettings = BrowserSettings()
    web: WebSettings = WebSettings()
    language_servers: LanguageServerSettings = LanguageServerSettings()
    ui: UiSettings = UiSettings()
    manager: ManagerSettings = ManagerSettings()
    telemetry: TelemetrySettings = TelemetrySettings()
    limits: LimitSettings = LimitSettings()
    modes: dict[str, ModeSettings] = msgspec.field(default_factory=dict)
    models: dict[str, ModelDescription] = msgspec.field(default_factory=dict)

    def as_limits(self) -> Limits:
        return Limits(
            requests=self.max_requests,
            cost=self.max_cost,
            tokens=self.max_tokens,
            seconds=self.max_minutes * 60,
            mistakes=self.mistake_limit,
            fallbacks=len(self.fallback),
            fallback_after=self.fallback_after,
            command_seconds=self.commands.timeout,
            command_soft_seconds=self.commands.soft_timeout,
            checkpoint_bytes=self.checkpoints.megabytes * MIB,
            **msgspec.structs.asdict(self.limits),
        )

    @property
    def imports_hooks(self) -> bool:
        """Whether hooks of Claude Code run too."""
        return self.hooks.import_claude and self.context.other_agents

    def with_model(self, provider: str, model: str) -> "Settings":
        return msgspec.structs.replace(self, provider=provider, model=model)

    def with_mistake_limit(self, limit: int) -> "Settings":
        return msgspec.structs.replace(self, mistake_limit=limit)

    def with_more_instructions(self, text: str) -> "Settings":
        both = "\n".join(filter(None, (self.context.instructions, text)))
        context = msgspec.structs.replace(self.context, instructions=both)
        return msgspec.structs.replace(self, context=context)

    def with_usual_shell(self) -> "Settings":
        commands = msgspec.structs.replace(self.commands, shell=None)
        return msgspec.structs.replace(self, commands=commands)

    def level(self, *, once: bool) -> Level:
        """The level of new sessions; `once` says that `--print` was given."""
        return Level(self.approval or ("auto" if once else "ask"))

    def colours(self, out: TextIO, environ: Mapping[str, str]) -> bool:
        """Whether output to `out` is coloured. "auto" respects `NO_COLOR` and `TERM`."""
        if self.ui.colour != "auto":
            return self.ui.colour == "always"
        return out.isatty() and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"
