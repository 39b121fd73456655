"""Modes and levels: what an agent is for, which tools it may use, and how far it may go without
asking.

A mode has groups of tools. Its `edit` group may have a pattern that every changed file must match,
whichever tool changes it. Patterns are validated when they are read.

A session has one level. The gate reads it for every action, so a change applies to the next one.
Whatever the level is, destructive actions, files outside the workspace and protected files ask.
Only the user changes the level: with a key, a command, a flag, or by approving a plan.
"""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from itertools import pairwise
from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from rookery.core.tool_traits import ToolTraits

GOVERNANCE_FOLDER = ".orchestration"
LEDGER_NAMES = frozenset({".state", "trace", "agent_trace.jsonl"})
"""Files that tasks of any process append to, and that nothing may shorten."""
SELECT, EXPAND = "select_active_intent", "request_scope_expansion"
INTENT_TOOLS = (ToolTraits(name=SELECT), ToolTraits(name=EXPAND))
"""Declared here so that listing tools does not import governance."""
_HOST_WRITTEN = LEDGER_NAMES | {
    *("active_intents.yaml", "AGENT.md", "AGENT.archive.md", "intent_map.md"),
}


def is_hosts_own(path: str) -> bool:
    """Whether the host itself writes this governance file, for any task or person. A change
    while a command ran does not mean that the command made it."""
    names = path.split("/")
    return any(
        folder == GOVERNANCE_FOLDER and name in _HOST_WRITTEN for folder, name in pairwise(names)
    )


DEFAULT = "code"
GROUPS = ("read", "edit", "command", "mcp", "modes")
EVERYWHERE = frozenset(("always", "modes"))
"""Groups that every mode has."""

Source: TypeAlias = Literal["built-in", "user", "project"]


class Group(Struct, frozen=True):
    """`pattern` is a regular expression; None for any file."""

    name: str
    pattern: str = ""
    description: str = ""


class Mode(Struct, frozen=True, kw_only=True):
    """`provider` and `model` are set if the mode has its own."""

    slug: str
    name: str
    role: str
    when_to_use: str = ""
    description: str = ""
    instructions: str = ""
    groups: tuple[Group, ...] = ()
    provider: str = ""
    model: str = ""
    source: Source = "built-in"
    path: str = ""
    """The displayed path of its file."""


_READ, _EDIT, _COMMAND, _MCP = map(Group, ("read", "edit", "command", "mcp"))

BUILT_IN: tuple[Mode, ...] = (
    Mode(
        slug="code",
        name="Code",
        role="an experienced engineer who makes the change that was asked for and shows it works",
        when_to_use="write, change or repair code",
        groups=(_READ, _EDIT, _COMMAND, _MCP),
    ),
    Mode(
        slug="ask",
        name="Ask",
        role="an adviser who knows the code and answers questions about it",
        when_to_use="explain, compare, review; changes nothing",
        instructions=(
            "Answer in full, with the code that proves it. Do not build anything unless the user "
            "asks for it."
        ),
        groups=(_READ, _MCP),
    ),
    Mode(
        slug="architect",
        name="Architect",
        role="a technical lead who works out what to do before it is done",
        when_to_use="plan and design first; writes Markdown only",
        instructions=(
            "Gather what the plan depends on, and ask what only the user can know. Keep the plan "
            "as an ordered todo list of steps that can each be done and checked; write a Markdown "
            "file in plans/ only if the list cannot hold it. Diagrams may help; no quotes or "
            "parentheses within their brackets. Give no estimates of time. Go over the plan with "
            "the user, then propose to switch to the mode that carries it out."
        ),
        groups=(_READ, Group("edit", r"\.md$", "Markdown files only"), _MCP),
    ),
    Mode(
        slug="debug",
        name="Debug",
        role="a patient investigator who finds the cause before touching the symptom",
        when_to_use="find out why something fails",
        instructions=(
            "Think of several possible causes and narrow them down to the one or two likeliest. "
            "Prove the cause, with a test or added logging, and confirm it with the user before "
            "you repair it. Take the logging out again."
        ),
        groups=(_READ, _EDIT, _COMMAND, _MCP),
    ),
    Mode(
        slug="orchestrator",
        name="Orchestrator",
        role="a coordinator who has large work done in parts, by other modes",
        when_to_use="split large work into tasks and delegate them",
        instructions=(
            "Cut the work into parts with clear bounds and hand each to the fitting mode with "
            "new_task, or several that do not depend on each other with run_agents. Each message "
            "states all the part needs to know, exactly what to do and to "
            "do only that, that it ends with a summary, which is all that comes back, and that "
            "this overrules the mode's own instructions. Follow the results, decide the next part "
            "from them, and bring them together at the end."
        ),
    ),
)


def find_mode(modes: Iterable[Mode], slug: str) -> Mode | None:
    return next((mode for mode in modes if mode.slug == slug), None)


def merged(*layers: Sequence[Mode]) -> tuple[Mode, ...]:
    """All modes; a later layer replaces a mode of the same slug, in its place."""
    modes: dict[str, Mode] = {}
    for layer in layers:
        modes |= {mode.slug: mode for mode in layer}
    return tuple(modes.values())


def offers(mode: Mode, group_name: str) -> bool:
    """Whether tools of the group may be used."""
    return group_name in EVERYWHERE or _group(mode, group_name) is not None


def may_change(mode: Mode, path: str) -> bool:
    """Whether a file may be changed, by any tool."""
    group = _group(mode, "edit")
    if group is None or not group.pattern:
        return group is not None
    from rookery.core.path_patterns import path_pattern

    return path_pattern(group.pattern).found_in(path)


def gains(current: Mode, target: Mode) -> tuple[str, ...]:
    """The groups in which one mode may do more than another, including edits with a wider
    pattern."""
    return tuple(group.name for group in target.groups if _is_more(group, current))


def reading_only(mode: Mode) -> Mode:
    """The mode without everything that can change something."""
    return replace(mode, groups=tuple(group for group in mode.groups if group.name == "read"))


def why_not(mode: Mode, tool: str, path: str = "") -> str:
    """Why the mode forbids a tool, or changing a file with it."""
    group = _group(mode, "edit")
    if not path or group is None:
        return (
            f"Mode {mode.slug} does not have {tool}; nothing was done. Go on without it, or "
            "propose another mode with switch_mode."
        )
    meant = f" ({group.description})" if group.description else ""
    return (
        f"Mode {mode.slug} changes only files that match {group.pattern}{meant}, and {path} does "
        f"not, so {tool} did nothing. Propose another mode with switch_mode if it must be changed."
    )


def _group(mode: Mode, name: str) -> Group | None:
    return next((group for group in mode.groups if group.name == name), None)


def _is_more(group: Group, current: Mode) -> bool:
    present = _group(current, group.name)
    if group.name in EVERYWHERE:
        return False
    return present is None or bool(present.pattern and present.pattern != group.pattern)


class Level(StrEnum):
    """From the least to the most that happens without asking."""

    PLAN = "plan"
    ASK = "ask"
    EDITS = "edits"
    SANDBOXED = "sandboxed"
    AUTO = "auto"

    @property
    def edits_freely(self) -> bool:
        """Ordinary files in the workspace are edited without asking."""
        return self in (Level.EDITS, Level.SANDBOXED, Level.AUTO)

    @property
    def runs_freely(self) -> bool:
        """Commands run without asking."""
        return self in (Level.SANDBOXED, Level.AUTO)

    @property
    def sentence(self) -> str:
        return _SENTENCES[self]


_SENTENCES = {
    Level.PLAN: "only reads, then presents a plan for your approval",
    Level.ASK: "asks before every change and command",
    Level.EDITS: "edits files without asking; asks before commands",
    Level.SANDBOXED: "edits and runs commands without asking; no network",
    Level.AUTO: "acts without asking",
}
GUARD = "Destructive actions always ask."
"""What holds at every level."""
ALWAYS_ASK = (
    "Deletes and writes outside the workspace, protected files, forced pushes, git reset --hard "
    "and the like always ask."
)
NO_SANDBOX = (
    "The level sandboxed needs a sandbox without network: bubblewrap, with sandbox.network known "
    "or off. Use the level edits instead."
)

CYCLE = (Level.ASK, Level.EDITS, Level.PLAN, Level.SANDBOXED, Level.AUTO)
"""The order of the key that changes the level."""
KEPT = (Level.ASK, Level.EDITS, Level.PLAN)
"""Levels that a session keeps when it is continued at a terminal."""

_SPELLINGS = {
    **{level.value: level for level in Level},
    "default": Level.ASK,
    "manual": Level.ASK,
    "dontask": Level.ASK,
    "untrusted": Level.ASK,
    "acceptedits": Level.EDITS,
    "autoedit": Level.EDITS,
    "onrequest": Level.SANDBOXED,
    "onfailure": Level.SANDBOXED,
    "fullauto": Level.SANDBOXED,
    "bypasspermissions": Level.AUTO,
    "never": Level.AUTO,
    "yolo": Level.AUTO,
}
"""The levels, and what other agents call them; without hyphens and underscores."""


def level_named(word: str) -> Level | None:
    return _SPELLINGS.get(word.lower().replace("-", "").replace("_", ""))


def next_level(now: Level, *, sandboxed: bool) -> Level:
    """The next level of the cycle. `sandboxed` says whether that level can be had."""
    levels = [level for level in CYCLE if sandboxed or level is not Level.SANDBOXED]
    at = levels.index(now) if now in levels else levels.index(Level.AUTO) - 1
    return levels[(at + 1) % len(levels)]
