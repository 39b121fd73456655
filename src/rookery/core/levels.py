"""How far the agent may go without asking: one level per session.

The gate reads the level for every action, so a change applies to the next one. Whatever the level
is, destructive actions, files outside the workspace and protected files ask. Only the user changes
the level: with a key, a command, a flag, or by approving a plan.
"""

from enum import StrEnum


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
