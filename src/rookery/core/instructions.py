"""What users and projects write down for the agent: rules, skills and commands.

Text of a project is quoted wherever it is shown, with its origin. It instructs, and grants
nothing.
"""

import re
from typing import Literal, TypeAlias

from msgspec import Struct

Origin: TypeAlias = Literal["built-in", "user", "project"]

_UNSEEN = re.compile(
    "[\u00ad\u061c\u115f\u1160\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\u3164\ufeff\uffa0"
    "\U000e0000-\U000e0fff]"
)
"""Characters that hide or turn text round, and what no person reads: tags, further selectors."""

LONGEST_LINE = 1024
"""Characters of somebody else's words that stand in a line of ours."""
_OURS = ("user_message", "environment_details", "rules", "system")
"""Tags by which the model tells who speaks: no text of others has any of them."""

_SECTIONS = ("command", "instructions", "role", "skill")
"""Tags that stand beside the lines in which others are named."""


class Rule(Struct, frozen=True, kw_only=True):
    """One file of rules; `path` is what it is called."""

    path: str
    text: str
    origin: Origin = "project"


class NestedRules(Struct, frozen=True, kw_only=True):
    """Rules that hold for work below a folder, and are read when there is some."""

    folder: str
    path: str


class Rules(Struct, frozen=True, kw_only=True):
    """All rules that hold in a mode, in the order in which they are told."""

    for_mode: tuple[Rule, ...] = ()
    of_agents: tuple[Rule, ...] = ()
    """AGENTS.md and its like, of the workspace itself."""
    general: tuple[Rule, ...] = ()
    nested: tuple[NestedRules, ...] = ()
    problems: tuple[str, ...] = ()
    """What was left out, and why, for the user."""


class Skill(Struct, frozen=True, kw_only=True):
    """`path` is its file as it is called; `modes` are those it is for, all if there are none."""

    name: str
    description: str
    path: str
    origin: Origin
    modes: tuple[str, ...] = ()


class SlashCommand(Struct, frozen=True, kw_only=True):
    name: str
    content: str
    description: str = ""
    argument_hint: str = ""
    mode: str = ""
    """The mode it wants to be carried out in."""
    origin: Origin = "built-in"


def revealed(text: str) -> tuple[str, int]:
    """The text with unseen characters spelled out, and how many there were."""
    return _UNSEEN.subn(lambda found: f"<U+{ord(found[0]):04X}>", text)


def quoted(tag: str, text: str, **attributes: str) -> str:
    """Text of others between tags, which it cannot close by itself, and in which it cannot pose
    as the user or the program."""
    said = "".join(f' {name}="{_attribute(value)}"' for name, value in attributes.items() if value)
    inner = _disarmed(text, tag).strip("\n")
    return f"<{tag}{said}>\n{inner}\n</{tag}>"


def in_a_line(text: str, most: int = LONGEST_LINE) -> str:
    """Words of others for a line of ours: they begin no other line, and end or begin no section."""
    line = " ".join(revealed(text)[0].split())
    cut = line if len(line) <= most else line[: most - 1] + "…"
    return _disarmed(cut, *_SECTIONS)


def _disarmed(text: str, *tags: str) -> str:
    names = "|".join((*tags, *_OURS))
    speaking = rf"<(?=\s*(?:/\s*)?(?:{names})(?![^\W_]))"
    return re.sub(speaking, r"<\\", text, flags=re.IGNORECASE)


def skills_for(skills: tuple[Skill, ...], mode: str) -> tuple[Skill, ...]:
    """The skills of a mode by name. The user's own is taken before a project's, then one made for
    the mode before one for all."""
    chosen: dict[str, Skill] = {}
    for skill in skills:
        if not skill.modes or mode in skill.modes:
            before = chosen.get(skill.name)
            if before is None or _rank(skill) >= _rank(before):
                chosen[skill.name] = skill
    return tuple(chosen[name] for name in sorted(chosen))


def skill_text(skill: Skill, body: str, arguments: str = "") -> str:
    """A skill as the model is given it."""
    return "\n".join(
        [
            f"Skill: {skill.name}",
            f"Description: {in_a_line(skill.description)}",
            *([f"Arguments: {arguments}"] if arguments else []),
            f"From: {in_a_line(skill.path)} ({skill.origin})",
            quoted("instructions", body),
        ]
    )


def command_text(command: SlashCommand, arguments: str = "") -> str:
    """A command as the model is given it."""
    facts = {
        "Description": in_a_line(command.description),
        "Argument hint": in_a_line(command.argument_hint),
        "Mode": in_a_line(command.mode),
        "Arguments": arguments,
    }
    return "\n".join(
        [
            f"Command: /{command.name} ({command.origin})",
            *(f"{name}: {fact}" for name, fact in facts.items() if fact),
            quoted("command", command.content, name=command.name),
        ]
    )


def _rank(skill: Skill) -> tuple[int, bool]:
    return ("built-in", "project", "user").index(skill.origin), bool(skill.modes)


def _attribute(text: str) -> str:
    plain = text.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")
    return " ".join(plain.splitlines())
