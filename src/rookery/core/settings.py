"""Every setting as one validated value with its default and one sentence.

A setting is a field here and nothing else: its type says what may be written, its sentence
is the documentation, its name is the key in files, the environment variable and the flag.
`python -m rookery.core.settings` prints `docs/settings.md`.
"""

import math
from collections.abc import Iterator, Mapping
from enum import StrEnum
from functools import cache
from types import NoneType
from typing import (
    Annotated,
    Any,
    Literal,
    TextIO,
    TypeAlias,
    TypedDict,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec
from msgspec import Meta, Struct

from rookery import ENV_PREFIX, NAME, PROJECT_FOLDER
from rookery.core.effort import Effort
from rookery.core.limits import MIB, Limits

Key: TypeAlias = tuple[str, ...]
"""Where a setting stands: `("ui", "colour")` is `colour` in the section `[ui]`."""

Prompt: TypeAlias = Literal["auto", "full", "compact"]
TurnEnd: TypeAlias = Literal["words", "completion"]
Approval: TypeAlias = Literal["ask", "auto"]
Containment: TypeAlias = Literal["on", "required", "off"]
Network: TypeAlias = Literal["known", "on", "off"]
Colour: TypeAlias = Literal["auto", "always", "never"]
Look: TypeAlias = Literal["auto", "dark", "light"]
Notify: TypeAlias = Literal["auto", "bell", "off"]
Governance: TypeAlias = Literal["auto", "off", "observe", "enforce", "required"]
LedgerHome: TypeAlias = Literal["ignore", "track", "notes"]
LedgerFlush: TypeAlias = Literal["always", "batch", "never"]
OnFailure: TypeAlias = Literal["block", "warn"]

_Name: TypeAlias = Annotated[str, Meta(min_length=1)]
_Tokens: TypeAlias = Annotated[int, Meta(ge=1)]
_Amount: TypeAlias = Annotated[float, Meta(ge=0)]
_Address: TypeAlias = Annotated[
    str,
    Meta(
        pattern=r"^https?://[^/?#@\s]+([/?#]\S*)?\Z",
        extra={
            "expected": "an address that begins with http:// or https:// and holds no user name "
            "or password"
        },
    ),
]
_ANY_TEXT = {"expected": "a text"}
_Count: TypeAlias = Annotated[int, Meta(ge=1, le=1_000_000)]
_Bytes: TypeAlias = Annotated[int, Meta(ge=1, le=1024 * MIB)]
_Seconds: TypeAlias = Annotated[float, Meta(ge=0.1, le=86_400.0)]
_Texts: TypeAlias = tuple[_Name, ...]
_Ceiling: TypeAlias = Annotated[int, Meta(ge=0)]
_USUAL = Limits()


class _Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings that stand together. Unknown names are refused, never ignored."""


class ModelDescription(TypedDict, total=False):
    """What the user knows of a model, by the names of `ModelInfo`; the rest stays as it was."""

    window: Annotated[
        _Tokens, Meta(description="Tokens that a request and its answer may hold together.")
    ]
    max_output: Annotated[_Tokens, Meta(description="Tokens that one answer may hold.")]
    images: Annotated[bool, Meta(description="Whether the model can see images.")]
    thinking: Annotated[bool, Meta(description="Whether the model can reason before it answers.")]
    caching: Annotated[
        bool, Meta(description="Whether the provider caches the beginning of requests.")
    ]
    input_price: Annotated[_Amount, Meta(description="Dollars per million tokens of input.")]
    output_price: Annotated[_Amount, Meta(description="Dollars per million tokens of output.")]
    cache_read_price: Annotated[
        _Amount, Meta(description="Dollars per million tokens read from the cache.")
    ]
    cache_write_price: Annotated[
        _Amount, Meta(description="Dollars per million tokens written to the cache.")
    ]


class ModeSettings(TypedDict, total=False):
    """What the user changes about a mode."""

    provider: Annotated[_Name, Meta(description="Who runs the model in this mode.")]
    model: Annotated[_Name, Meta(description="Which model to use in this mode.")]
    instructions: Annotated[_Name, Meta(description="What the model is told in this mode besides.")]


class CommandSettings(_Section, frozen=True):
    shell: Annotated[
        _Name | None,
        Meta(description="The shell that commands run in, by its whole path; without it bash."),
    ] = None
    timeout: Annotated[
        _Seconds, Meta(description="Seconds after which a running command is ended.")
    ] = _USUAL.command_seconds
    soft_timeout: Annotated[
        _Seconds,
        Meta(description="Seconds after which the model goes on while a command runs."),
    ] = _USUAL.command_soft_seconds
    allow: Annotated[
        _Texts,
        Meta(
            description="Commands that run without asking, by their first words: `pytest` "
            'covers `pytest -q tests`, but no other command on the line; `"*"` covers all.'
        ),
    ] = ()
    deny: Annotated[
        _Texts,
        Meta(
            description="Commands that are refused, by their first words. It is a convenience; "
            "what protects you is the sandbox."
        ),
    ] = ()
    read_only_without_intent: Annotated[
        bool,
        Meta(description="Whether commands that only look may run before an intent is selected."),
    ] = False


class GovernanceSettings(_Section, frozen=True):
    mode: Annotated[
        Governance,
        Meta(
            description='Whether intents govern what may be changed; "auto" goes by whether '
            "the project has any."
        ),
    ] = "auto"
    auto_select_single: Annotated[
        bool,
        Meta(description="Whether a model that names no intent gets the only one in progress."),
    ] = False
    context_chars: Annotated[
        int,
        Meta(
            ge=4_000,
            le=200_000,
            description="Characters that the description of an intent may have for the model.",
        ),
    ] = 12_000


class HookSettings(_Section, frozen=True):
    import_claude: Annotated[
        bool, Meta(description="Whether hooks in .claude/settings.json are heeded too.")
    ] = False
    managed_only: Annotated[
        bool, Meta(description="Whether only the administrator's hooks run.")
    ] = False
    env_allow: Annotated[
        _Texts, Meta(description="Environment variables that hooks see besides the usual ones.")
    ] = ()


class TraceSettings(_Section, frozen=True):
    vcs: Annotated[
        LedgerHome,
        Meta(
            description="What becomes of the ledger in version control: it is ignored, tracked, "
            "or put into git notes."
        ),
    ] = "ignore"
    fsync: Annotated[
        LedgerFlush,
        Meta(
            description='When records are flushed to the disk; "batch" does it once a turn, and '
            "the journal of calls makes up for it."
        ),
    ] = "batch"
    on_failure: Annotated[
        OnFailure,
        Meta(description="Whether a change is refused that could not be recorded."),
    ] = "block"
    on_broken: Annotated[
        OnFailure,
        Meta(description="Whether changes are refused while the ledger is not whole."),
    ] = "warn"
    signing_key: Annotated[
        _Name | None, Meta(description="No longer used: exports are not signed.")
    ] = None


class SandboxSettings(_Section, frozen=True):
    use: Annotated[
        Containment,
        Meta(
            description="Whether commands run in a sandbox where the machine has one; "
            '"required" runs none where it has none.'
        ),
    ] = "on"
    network: Annotated[
        Network,
        Meta(
            description='Hosts that sandboxed commands can reach. "known" means package '
            "registries configured on this machine, the repository's remotes and `hosts`."
        ),
    ] = "known"
    hosts: Annotated[
        _Texts,
        Meta(
            description="More hosts that commands may reach, such as example.com, "
            "*.example.com or localhost:8080."
        ),
    ] = ()
    writable: Annotated[
        _Texts, Meta(description="Folders outside the workspace that commands may write to.")
    ] = ()
    hidden: Annotated[
        _Texts, Meta(description="Files and folders that commands do not see, besides keys.")
    ] = ()
    leave: Annotated[
        _Texts,
        Meta(
            description="Commands that need your keys or change git's own settings, by their "
            "first words: they run outside the sandbox, but only if you allow them yourself."
        ),
    ] = ("git", "gh", "glab", "ssh", "scp", "docker", "podman")


class CheckpointSettings(_Section, frozen=True):
    use: Annotated[
        bool, Meta(description="Whether files are kept before they change, so that you can undo.")
    ] = True
    megabytes: Annotated[
        _Count, Meta(description="Size at which the oldest checkpoints of a folder are removed.")
    ] = _USUAL.checkpoint_bytes // MIB


class ContextSettings(_Section, frozen=True):
    prompt: Annotated[
        Prompt,
        Meta(
            description="How much models are told beforehand; "
            '"auto" is brief with models that have little room.'
        ),
    ] = "auto"
    instructions: Annotated[
        str, Meta(description="What models are told in every mode besides.", extra=_ANY_TEXT)
    ] = ""
    language: Annotated[
        str,
        Meta(description="The language models are to speak; without it yours.", extra=_ANY_TEXT),
    ] = ""
    agent_rules: Annotated[bool, Meta(description="Whether AGENTS.md and its like are heeded.")] = (
        True
    )
    subfolder_rules: Annotated[
        bool, Meta(description="Whether rules in folders below the workspace are heeded.")
    ] = False


class IndexSettings(_Section, frozen=True):
    use: Annotated[
        bool,
        Meta(description="Whether code can be searched by words, from an index kept here."),
    ] = True
    provider: Annotated[
        _Name | None,
        Meta(description="Who turns code into vectors; without it only words are compared."),
    ] = None
    model: Annotated[_Name | None, Meta(description="Which model turns code into vectors.")] = None
    base_url: Annotated[
        _Address | None,
        Meta(description="Where that provider is reached; without it at its own address."),
    ] = None


class BrowserSettings(_Section, frozen=True):
    use: Annotated[
        bool, Meta(description="Whether the model can use web pages, where a browser is installed.")
    ] = True
    path: Annotated[
        _Name | None, Meta(description="The Chromium or Chrome to use; without it the usual one.")
    ] = None


class UiSettings(_Section, frozen=True):
    colour: Annotated[
        Colour,
        Meta(description='Whether output is coloured; "auto" colours only what a terminal shows.'),
    ] = "auto"
    oneshot: Annotated[
        bool, Meta(description="Whether the full screen is left when the task is done.")
    ] = False
    look: Annotated[
        Look,
        Meta(description='The colours of the full screen; "auto" goes by the terminal\'s own.'),
    ] = "auto"
    notify: Annotated[
        Notify,
        Meta(
            description='How you are called when you look elsewhere: "auto" by a notification of '
            'the terminal and its bell, "bell", or "off".'
        ),
    ] = "auto"


class ManagerSettings(_Section, frozen=True):
    """Of the Agent Manager, and of the sessions that it starts."""

    running_limit: Annotated[
        int, Meta(ge=1, le=32, description="Sessions that work at once; further ones wait.")
    ] = 5
    branch_prefix: Annotated[
        str,
        Meta(description="How the names of new branches for sessions begin.", extra=_ANY_TEXT),
    ] = "agent/"
    auto_approve: Annotated[
        bool,
        Meta(description="Whether new sessions act unasked, except where it could do great harm."),
    ] = True
    notify: Annotated[
        bool, Meta(description="Whether the page tells you when a session needs you.")
    ] = True


class LimitSettings(_Section, frozen=True):
    """The fields of `core.limits.Limits` of the same names."""

    repeats: Annotated[_Count, Meta(description="Identical tool calls in a row that are run.")] = (
        _USUAL.repeats
    )
    calls_per_message: Annotated[
        _Count, Meta(description="Tool calls of one answer that are run.")
    ] = _USUAL.calls_per_message
    output_for_model: Annotated[
        int,
        Meta(
            ge=2 * _USUAL.output_head,
            le=1024 * MIB,
            description="Bytes of a command's output that the model is shown.",
        ),
    ] = _USUAL.output_for_model
    output_on_disk: Annotated[
        _Bytes, Meta(description="Bytes of a command's output that are kept on disk.")
    ] = _USUAL.output_on_disk
    read_bytes: Annotated[
        _Bytes, Meta(description="Bytes of a file that one read gives the model.")
    ] = _USUAL.read_bytes
    read_lines: Annotated[
        _Count, Meta(description="Lines of a file that one read gives the model.")
    ] = _USUAL.read_lines
    edit_bytes: Annotated[
        _Bytes, Meta(description="Size in bytes up to which a file can be edited.")
    ] = _USUAL.edit_bytes
    image_bytes: Annotated[
        _Bytes, Meta(description="Size in bytes up to which an image is sent to the model.")
    ] = _USUAL.image_bytes
    list_entries: Annotated[
        _Count, Meta(description="Entries that one listing of a folder shows.")
    ] = _USUAL.list_entries
    search_matches: Annotated[_Count, Meta(description="Matches that one search shows.")] = (
        _USUAL.search_matches
    )
    search_seconds: Annotated[
        _Seconds, Meta(description="Seconds after which a search shows what it has.")
    ] = _USUAL.search_seconds
    connect_seconds: Annotated[
        _Seconds, Meta(description="Seconds to wait for a connection to the provider.")
    ] = _USUAL.connect_seconds
    first_byte_seconds: Annotated[
        _Seconds, Meta(description="Seconds to wait for an answer to begin.")
    ] = _USUAL.first_byte_seconds
    first_byte_seconds_local: Annotated[
        _Seconds,
        Meta(
            description="Seconds to wait for the answer of a model on this machine to begin.",
        ),
    ] = _USUAL.first_byte_seconds_local
    idle_seconds: Annotated[
        _Seconds, Meta(description="Seconds without a byte after which an answer is lost.")
    ] = _USUAL.idle_seconds
    progress_seconds: Annotated[
        _Seconds,
        Meta(
            description="Seconds without a new word after which an answer is lost, even if the "
            "connection lives.",
        ),
    ] = _USUAL.progress_seconds


class Settings(_Section, frozen=True):
    """All that a user can choose. None means that nothing was chosen."""

    provider: Annotated[
        _Name | None,
        Meta(description="Who runs the model; without it the keys at hand decide."),
    ] = None
    model: Annotated[
        _Name | None,
        Meta(description="Which model to use; without it the provider's usual one."),
    ] = None
    base_url: Annotated[
        _Address | None,
        Meta(description="Where the provider is reached; without it at its own address."),
    ] = None
    mode: Annotated[_Name, Meta(description="The mode that new tasks begin in.")] = "code"
    reasoning_effort: Annotated[
        Effort,
        Meta(
            description="How hard models think that can; `unspecified` leaves it to them, "
            "`disabled` and `none` keep them from it."
        ),
    ] = "unspecified"
    approval: Annotated[
        Approval | None,
        Meta(
            description="Whether actions are asked about or run unasked; without it only "
            "`--print` runs them unasked."
        ),
    ] = None
    max_requests: Annotated[
        _Ceiling,
        Meta(description="Requests to the model after which you are asked; 0 means never."),
    ] = _USUAL.requests
    max_cost: Annotated[
        _Amount, Meta(description="Dollars spent after which you are asked; 0 means never.")
    ] = _USUAL.cost
    max_tokens: Annotated[
        _Ceiling, Meta(description="Tokens used after which you are asked; 0 means never.")
    ] = _USUAL.tokens
    max_minutes: Annotated[
        _Amount, Meta(description="Minutes of work after which you are asked; 0 means never.")
    ] = _USUAL.seconds / 60
    mistake_limit: Annotated[
        _Ceiling,
        Meta(description="Mistakes in a row after which you are asked; 0 means never."),
    ] = _USUAL.mistakes
    turn_end: Annotated[
        TurnEnd,
        Meta(
            description="What ends a turn: an answer without a tool call, or only a call of "
            "`attempt_completion`, as in Roo Code."
        ),
    ] = "words"
    nudges: Annotated[
        int,
        Meta(
            ge=0,
            le=100,
            description="Reminders to the model, per message of yours, when an answer looks "
            "like a slip (cut off, empty, a call written as text). Small models may need more.",
        ),
    ] = 1
    request_pause: Annotated[
        float,
        Meta(
            ge=0,
            le=3600,
            description="Minimum seconds between the starts of two requests; 0 means no pause.",
        ),
    ] = 0.0
    followup_seconds: Annotated[
        _Amount | None,
        Meta(
            description="Seconds after which a run that acts unasked answers a question itself; "
            "without it 60 at a terminal, and none where nobody is.",
        ),
    ] = None
    exit_on_error: Annotated[
        bool, Meta(description="Whether the first request that fails ends the run.")
    ] = False
    approve_edits: Annotated[
        bool,
        Meta(description="Whether edits of ordinary files in the workspace are made unasked."),
    ] = False
    approve_modes: Annotated[
        bool, Meta(description="Whether the model may go on in another mode unasked.")
    ] = False
    approve_subtasks: Annotated[
        bool, Meta(description="Whether the model may hand work to tasks of its own unasked.")
    ] = False
    approve_in_scope: Annotated[
        bool,
        Meta(description="Whether edits within the scope of the selected intent are made unasked."),
    ] = False
    context: ContextSettings = ContextSettings()
    commands: CommandSettings = CommandSettings()
    governance: GovernanceSettings = GovernanceSettings()
    hooks: HookSettings = HookSettings()
    trace: TraceSettings = TraceSettings()
    sandbox: SandboxSettings = SandboxSettings()
    checkpoints: CheckpointSettings = CheckpointSettings()
    index: IndexSettings = IndexSettings()
    browser: BrowserSettings = BrowserSettings()
    ui: UiSettings = UiSettings()
    manager: ManagerSettings = ManagerSettings()
    limits: LimitSettings = LimitSettings()
    modes: dict[str, ModeSettings] = {}
    models: dict[str, ModelDescription] = {}

    def as_limits(self) -> Limits:
        return Limits(
            requests=self.max_requests,
            cost=self.max_cost,
            tokens=self.max_tokens,
            seconds=self.max_minutes * 60,
            mistakes=self.mistake_limit,
            command_seconds=self.commands.timeout,
            command_soft_seconds=self.commands.soft_timeout,
            checkpoint_bytes=self.checkpoints.megabytes * MIB,
            **msgspec.structs.asdict(self.limits),
        )

    def with_model(self, provider: str, model: str) -> "Settings":
        return msgspec.structs.replace(self, provider=provider, model=model)

    def with_mistake_limit(self, limit: int) -> "Settings":
        return msgspec.structs.replace(self, mistake_limit=limit)

    def with_usual_shell(self) -> "Settings":
        commands = msgspec.structs.replace(self.commands, shell=None)
        return msgspec.structs.replace(self, commands=commands)

    def acts_unasked(self, *, once: bool) -> bool:
        """Whether actions run without a question; `once` tells that `--print` was given."""
        return self.approval == "auto" if self.approval else once

    def colours(self, out: TextIO, environ: Mapping[str, str]) -> bool:
        """Whether what is written to `out` is coloured. "auto" heeds `NO_COLOR` and `TERM`."""
        if self.ui.colour != "auto":
            return self.ui.colour == "always"
        return out.isatty() and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"


class ProjectMay(StrEnum):
    """How far a project's own file may go with a setting: it tightens, or it is not heard."""

    LOWER = "lower it"
    LOWER_CEILING = "lower it (0 is no limit)"
    ADD = "add to it"
    MAKE_IT_ASK = 'set it to "ask"'
    REQUIRE = 'set it to "required"'
    CLOSE = 'narrow it to "known" or "off"'
    REFUSE = "set it to false"


PROJECT_MAY: dict[Key, ProjectMay] = {
    ("approval",): ProjectMay.MAKE_IT_ASK,
    ("max_requests",): ProjectMay.LOWER_CEILING,
    ("max_cost",): ProjectMay.LOWER_CEILING,
    ("max_tokens",): ProjectMay.LOWER_CEILING,
    ("max_minutes",): ProjectMay.LOWER_CEILING,
    ("mistake_limit",): ProjectMay.LOWER_CEILING,
    ("approve_edits",): ProjectMay.REFUSE,
    ("approve_modes",): ProjectMay.REFUSE,
    ("approve_subtasks",): ProjectMay.REFUSE,
    ("approve_in_scope",): ProjectMay.REFUSE,
    ("commands", "timeout"): ProjectMay.LOWER,
    ("commands", "deny"): ProjectMay.ADD,
    ("sandbox", "use"): ProjectMay.REQUIRE,
    ("sandbox", "network"): ProjectMay.CLOSE,
    ("sandbox", "hidden"): ProjectMay.ADD,
    ("manager", "running_limit"): ProjectMay.LOWER,
    ("manager", "auto_approve"): ProjectMay.REFUSE,
    **{("limits", name): ProjectMay.LOWER for name in LimitSettings.__struct_fields__},
}


_STRICTEST: dict[ProjectMay, Any] = {
    ProjectMay.MAKE_IT_ASK: "ask",
    ProjectMay.REQUIRE: "required",
    ProjectMay.REFUSE: False,
}


_NARROWING: tuple[Network, ...] = ("on", "known", "off")


def loosens(key: Key, wanted: Any, present: Any) -> bool:
    """Whether a project that wants this value instead of the present one would loosen it."""
    match PROJECT_MAY[key]:
        case ProjectMay.ADD:
            return False
        case ProjectMay.LOWER:
            return bool(wanted > present)
        case ProjectMay.LOWER_CEILING:
            return bool((wanted or math.inf) > (present or math.inf))
        case ProjectMay.CLOSE:
            return _NARROWING.index(wanted) < _NARROWING.index(present)
        case way:
            return bool(wanted != _STRICTEST[way])


def tightened(key: Key, wanted: Any, present: Any) -> Any:
    """What holds once a project that does not loosen a setting was heard."""
    if PROJECT_MAY[key] is ProjectMay.ADD:
        return (*present, *(text for text in wanted if text not in present))
    return wanted


ANY = "<id>"
"""Stands in a key for a name that the user gives."""


class Setting(Struct, frozen=True):
    """One setting as its field declares it. `default` is None where there is none."""

    type: Any
    default: Any
    sentence: str
    expected: str
    """What may be written for it, to be read after "must be"."""


@cache
def all_settings() -> dict[Key, Setting]:
    """Every setting there is, in the order of this file."""
    return dict(_declared_in(Settings, ()))


def _declared_in(section: type[Any], at: Key) -> Iterator[tuple[Key, Setting]]:
    for name, kind in get_type_hints(section, include_extras=True).items():
        key = (*at, name)
        if get_origin(kind) is dict:
            yield from _declared_in(get_args(kind)[1], (*key, ANY))
        elif isinstance(kind, type):
            yield from _declared_in(kind, key)
        else:
            base, metas = _unwrapped(kind)
            sentence = next(meta.description for meta in reversed(metas) if meta.description)
            yield (
                key,
                Setting(kind, getattr(section(), name, None), sentence, _expected(base, metas)),
            )


def _unwrapped(kind: Any) -> tuple[Any, list[Meta]]:
    """A type without what was said about it, and what was said, innermost first."""
    if get_origin(kind) is Annotated:
        inner, *metas = get_args(kind)
        base, inside = _unwrapped(inner)
        return base, [*inside, *metas]
    if NoneType in get_args(kind):
        return _unwrapped(get_args(kind)[0])
    return kind, []


def _expected(base: Any, metas: list[Meta]) -> str:
    if get_origin(base) is Literal:
        *others, last = map(shown, get_args(base))
        return f"{', '.join(others)} or {last}"
    if base is bool:
        return "true or false"
    if get_origin(base) is tuple:
        return "a list of texts that are not empty"
    rule = metas[0]
    if base is str:
        return str((rule.extra or {}).get("expected", "a text that is not empty"))
    number = "a whole number" if base is int else "a number"
    if rule.le is None:
        return f"{number} of at least {shown(rule.ge)}"
    return f"{number} from {shown(rule.ge)} to {shown(rule.le)}"


def variable_of(key: Key) -> str:
    return ENV_PREFIX + "_".join(key).upper()


def shown(value: Any) -> str:
    """A value as one writes it in TOML, on one line, with nothing in it that a terminal obeys."""
    match value:
        case bool():
            return str(value).lower()
        case int() | float():
            return "a number so large" if abs(value) >= 10**15 else f"{value:.15g}"
        case str():
            text = value if len(value) <= 60 else value[:59] + "…"
            return '"' + "".join(map(_harmless, text)) + '"'
        case tuple():
            texts = [shown(text) for text in value]
            return f"[{', '.join(texts)}]" if len(texts) <= 10 else f"a list of {len(texts)}"
        case list():
            return "a list"
        case Mapping():
            return "a table"
        case _:
            return "a date or time"


def _harmless(char: str) -> str:
    if char in '"\\':
        return "\\" + char
    return char if char.isprintable() else f"\\u{ord(char):04x}"


def document() -> str:
    """`docs/settings.md`."""
    lines = [
        "# Settings",
        "",
        f"<!-- Made by `python -m {NAME}.core.settings`; "
        f"edit src/{NAME}/core/settings.py instead. -->",
        "",
        "A setting is taken from the first of these that has it:",
        "",
        "1. a flag of the command line;",
        f"2. an environment variable: the key in capitals after `{ENV_PREFIX}`, with `_` between",
        f"   section and name, as in `{variable_of(('model',))}` and "
        f"`{variable_of(('ui', 'colour'))}`; an empty one counts as absent;",
        f"3. the project's `{PROJECT_FOLDER}/settings.toml`, which can only tighten, and only",
        "   where the tables below say so;",
        f"4. your own file, `~/.config/{NAME}/settings.toml` on Linux and",
        f"   `~/Library/Application Support/{NAME}/settings.toml` on macOS, or",
        f"   `${ENV_PREFIX}HOME/config/settings.toml`; `{NAME} settings` prints where it is;",
        "5. the default.",
        "",
        "Both files are TOML. A setting of a section is written below its `[section]`. Models",
        "that are not known by themselves, or are known wrongly, are described one by one below",
        '`[models."<id>"]`, and what you change about a mode stands below `[modes.<slug>]`; both',
        "in your own file only.",
    ]
    section: Key | None = None
    for key, setting in all_settings().items():
        if key[:-1] != section:
            section = key[:-1]
            lines += ["", f"## [{'.'.join(section)}]" if section else "## Without a section", ""]
            lines += ["| setting | may be | default | a project may | meaning |"]
            lines += ["| --- | --- | --- | --- | --- |"]
        default = "" if setting.default is None else f"`{shown(setting.default)}`"
        cells = (setting.expected, default, PROJECT_MAY.get(key, ""), setting.sentence)
        lines += [f"| `{key[-1]}` | {' | '.join(cells)} |"]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(document(), end="")
