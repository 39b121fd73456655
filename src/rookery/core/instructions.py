"""What users and projects tell the agent: rules, skills, commands, and mentions in messages.

Text of a project is always quoted with its origin. It can instruct the model but grants nothing.

Mentions are `@/file`, `@/folder/`, `@https://…`, `@git-changes`, `@1a2b3c4`, `@problems`,
`@terminal` and `/command`. A mention starts at the beginning of a line or after whitespace; one
punctuation mark at its end is not part of it. A backslash in a path escapes the next character.
Piped text, and what a webhook brought, contain no mentions.
"""

import re
from collections import deque
from collections.abc import Collection, Iterable
from typing import Literal, TypeAlias

from msgspec import Struct

from rookery.first_use import lazy_pattern

MentionKind: TypeAlias = Literal[
    "file", "folder", "image", "url", "git_changes", "commit", "problems", "terminal"
]

PIPED_TEXT = "piped_text"
"""Tag around piped text. It cannot be closed inside."""
WEBHOOK_TEXT = "webhook_text"
"""The same around the text of a webhook, which the user has not seen."""

_PUNCTUATION = ".,;:!?"
_BEGIN, _END = r"(?<!\S)", r"(?=[.,;:!?]?(?:\s|\Z))"
_MENTION = lazy_pattern(
    rf"{_BEGIN}@(?:"
    r"(?P<path>/(?:[^\s\\]|\\[^\n\r])+)"
    r"|(?P<url>[A-Za-z][A-Za-z0-9+.-]*://\S+)"
    rf"|(?P<commit>[0-9A-Fa-f]{{7,40}}){_END}"
    rf"|(?P<word>problems|git-changes|terminal){_END})"
)
_COMMAND = lazy_pattern(rf"{_BEGIN}/(?P<name>[A-Za-z0-9_.-]+(?::[A-Za-z0-9_.-]+)*)(?!\S)")
_BARE_PATH = lazy_pattern(rf"{_BEGIN}@(?P<path>[\w.-][^\s`@]*)")
_PLACEHOLDER = lazy_pattern(r"\$(?:(?P<all>ARGUMENTS)\b|(?P<number>[1-9])(?!\d))")
_INSERTED_OUTPUT = lazy_pattern(r"!`[^`\n]+`")
_PIPED = lazy_pattern(rf"(?<!\S)<{PIPED_TEXT}>\n.*\n</{PIPED_TEXT}>(?!\S)", re.DOTALL)
_BROUGHT = lazy_pattern(rf"(?<!\S)<{WEBHOOK_TEXT}>\n.*\n</{WEBHOOK_TEXT}>(?!\S)", re.DOTALL)
_SERVER_PROMPT = lazy_pattern(r"\s*/mcp:(?P<server>[^\s:]+):\S")
_ESCAPE = lazy_pattern(r"\\(.)", re.DOTALL)
_TO_ESCAPE = lazy_pattern(r"[\\\s]")
_WORDS: dict[str, MentionKind] = {
    "problems": "problems",
    "git-changes": "git_changes",
    "terminal": "terminal",
}
_PICTURES = (".png", ".jpg", ".jpeg", ".gif", ".webp")


class Mention(Struct, frozen=True, kw_only=True):
    """`target` is the path relative to the workspace, the address or the hash. `start` and `end`
    are its position in the text."""

    kind: MentionKind
    target: str
    start: int
    end: int


class CommandMention(Struct, frozen=True, kw_only=True):
    name: str
    start: int
    end: int


def find_mentions(text: str) -> list[Mention]:
    return [_mention(found) for found in _MENTION.finditer(without_piped(text))]


def find_commands(text: str, known: Collection[str] | None = None) -> list[CommandMention]:
    """Slash commands in a text, or only those with these names; never part of another mention."""
    taken = deque((mention.start, mention.end) for mention in find_mentions(text))
    commands: list[CommandMention] = []
    for found in _COMMAND.finditer(without_piped(text)):
        while taken and taken[0][1] <= found.start():
            taken.popleft()
        inside = bool(taken) and taken[0][0] <= found.start()
        if not inside and (known is None or found["name"] in known):
            commands.append(
                CommandMention(name=found["name"], start=found.start(), end=found.end())
            )
    return commands


def files_of_command(content: str) -> list[Mention]:
    """The files that a command's text names, as `@/path` or, as in other agents, `@path`."""
    bare = [
        Mention(kind=_kind_of(path), target=path, start=found.start(), end=found.end())
        for found in _BARE_PATH.finditer(content)
        if (path := _without_punctuation(found["path"])) and not path.startswith("..")
    ]
    return [*find_mentions(content), *bare]


def server_prompt(text: str) -> str:
    """The MCP server in `/mcp:server:prompt words`; empty if it is not one."""
    found = _SERVER_PROMPT.match(text)
    return found["server"] if found else ""


def points_somewhere(text: str) -> bool:
    """Whether the text may contain mentions."""
    named = "/" in text and (find_commands(text) or server_prompt(text))
    return bool(named or ("@" in text and find_mentions(text)))


def rendered(text: str, mentions: Iterable[Mention | CommandMention]) -> str:
    """The text with every mention in words; the content is attached elsewhere."""
    pieces: list[str] = []
    done = 0
    for mention in sorted(mentions, key=lambda each: each.start):
        pieces += [text[done : mention.start], _words(mention)]
        done = mention.end
    return "".join([*pieces, text[done:]])


def mention_of(path: str) -> str:
    """The mention of a path; `find_mentions` returns the same path."""
    escaped = _TO_ESCAPE.sub(r"\\\g<0>", path)
    if escaped[-1:] in tuple(_PUNCTUATION):
        escaped = f"{escaped[:-1]}\\{escaped[-1]}"
    return f"@/{escaped}"


def without_piped(text: str) -> str:
    """The text with foreign parts blanked out, so that positions stay the same."""
    return _PIPED.sub(_blank, without_webhook(text))


def without_webhook(text: str) -> str:
    """The text without what a webhook brought, also of the same length."""
    return _BROUGHT.sub(_blank, text)


def _blank(found: re.Match[str]) -> str:
    return " " * len(found[0])


def _mention(found: re.Match[str]) -> Mention:
    start, end = found.span()
    if word := found["word"]:
        return Mention(kind=_WORDS[word], target="", start=start, end=end)
    if commit := found["commit"]:
        return Mention(kind="commit", target=commit, start=start, end=end)
    said = _without_punctuation(found["path"] or found["url"])
    end = start + len("@") + len(said)
    if found["url"]:
        return Mention(kind="url", target=said, start=start, end=end)
    path = _ESCAPE.sub(r"\1", said[1:])
    return Mention(kind=_kind_of(path), target=path, start=start, end=end)


def _without_punctuation(said: str) -> str:
    bare = said[:-1] if said[-1] in _PUNCTUATION else said
    escapes = len(bare) - len(bare.rstrip("\\"))
    return said if escapes % 2 or bare == "/" else bare


def _kind_of(path: str) -> MentionKind:
    if path.endswith("/"):
        return "folder"
    return "image" if path.lower().endswith(_PICTURES) else "file"


def _words(mention: Mention | CommandMention) -> str:
    match mention:
        case CommandMention(name=name):
            return f"command '{name}' (attached below)"
        case Mention(kind="url", target=target):
            return f"'{target}'"
        case Mention(kind="git_changes"):
            return "the uncommitted changes (attached below)"
        case Mention(kind="commit", target=target):
            return f"commit '{target}' (attached below)"
        case Mention(kind="problems"):
            return "the problems found in the workspace (attached below)"
        case Mention(kind="terminal"):
            return "the output of the last command (attached below)"
        case Mention(target=target):
            return f"'{target}' (attached below)"


REVIEWING = """\
You review a change; you do not make one. Look for faults that the change brings in: wrong results,
lost or leaked data, missing error handling, races, broken callers, security holes, tests that
cannot fail. Read the code around the change, and the callers, before you report a fault. Report
what you can show to be wrong, not style and not what might be nice. For each fault give the file,
the line, how bad it is (error, warning or note), when it happens, and how to repair it. No fault is
a good answer."""
"""The instructions of `rookery review` and of /review."""

Origin: TypeAlias = Literal["built-in", "user", "project"]

_UNSEEN = lazy_pattern(
    "[\u00ad\u061c\u115f\u1160\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\u3164\ufeff\uffa0"
    "\U000e0000-\U000e0fff]"
)
"""Characters that hide or turn text round, and what no person reads: tags, further selectors."""

LONGEST_LINE = 1024
"""Longest foreign text inside one of our lines."""
_OURS = ("user_message", "environment_details", "rules", "system")
"""Tags that tell the model who speaks. They are removed from foreign text."""

_SECTIONS = ("command", "instructions", "role", "skill")
"""Tags beside lines with foreign names."""


class Rule(Struct, frozen=True, kw_only=True):
    """One rule file; `path` is its displayed path."""

    path: str
    text: str
    origin: Origin = "project"


class OfferedRules(Struct, frozen=True, kw_only=True):
    """Rules that the agent reads if `when` fits its work."""

    when: str
    path: str


class Rules(Struct, frozen=True, kw_only=True):
    """All rules of a mode, in the order in which the model gets them."""

    for_mode: tuple[Rule, ...] = ()
    of_agents: tuple[Rule, ...] = ()
    """AGENTS.md and similar files of the workspace root."""
    general: tuple[Rule, ...] = ()
    offered: tuple[OfferedRules, ...] = ()
    for_files: tuple[Rule, ...] = ()
    """Rules that are sent when the agent has seen a file that matches."""
    skipped: tuple[tuple[str, str], ...] = ()
    """Files that are not sent, each with the reason. This is no problem."""
    problems: tuple[str, ...] = ()
    """What was skipped and why, for the user."""


class Skill(Struct, frozen=True, kw_only=True):
    """`path` is its displayed path; `modes` are the modes it is for, empty for all."""

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
    """The mode it should run in."""
    origin: Origin = "built-in"
    path: str = ""
    """Its displayed path."""


def revealed(text: str) -> tuple[str, int]:
    """The text with invisible characters spelled out, and their number."""
    return _UNSEEN.subn(lambda found: f"<U+{ord(found[0]):04X}>", text)


def quoted(tag: str, text: str, **attributes: str) -> str:
    """Foreign text between tags that it cannot close and in which it cannot pose as the user or
    the program."""
    said = "".join(f' {name}="{_attribute(value)}"' for name, value in attributes.items() if value)
    inner = _disarmed(text, tag).strip("\n")
    return f"<{tag}{said}>\n{inner}\n</{tag}>"


def in_a_line(text: str, most: int = LONGEST_LINE) -> str:
    """Foreign text for one of our lines: it cannot start a new line or a section."""
    line = " ".join(revealed(text)[0].split())
    cut = line if len(line) <= most else line[: most - 1] + "…"
    return _disarmed(cut, *_SECTIONS)


def _disarmed(text: str, *tags: str) -> str:
    names = "|".join((*tags, *_OURS))
    speaking = rf"<(?=\s*(?:/\s*)?(?:{names})(?![^\W_]))"
    return re.sub(speaking, r"<\\", text, flags=re.IGNORECASE)


def skills_for(skills: tuple[Skill, ...], mode: str) -> tuple[Skill, ...]:
    """The skills of a mode by name. The user's take precedence over a project's, then skills for
    this mode over general ones."""
    chosen: dict[str, Skill] = {}
    for skill in skills:
        if not skill.modes or mode in skill.modes:
            before = chosen.get(skill.name)
            if before is None or _rank(skill) >= _rank(before):
                chosen[skill.name] = skill
    return tuple(chosen[name] for name in sorted(chosen))


def skill_text(skill: Skill, body: str, arguments: str = "") -> str:
    """A skill as sent to the model."""
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
    """A slash command as sent to the model."""
    content = with_arguments(command.content, arguments)
    facts = {
        "Description": in_a_line(command.description),
        "Argument hint": in_a_line(command.argument_hint),
        "Mode": in_a_line(command.mode),
        "Arguments": arguments if content == command.content else "",
        "Note": _NOT_RUN if _INSERTED_OUTPUT.search(command.content) else "",
    }
    return "\n".join(
        [
            f"Command: /{command.name} ({command.origin})",
            *(f"{name}: {fact}" for name, fact in facts.items() if fact),
            quoted("command", content, name=command.name),
        ]
    )


_NOT_RUN = "commands in !`…` were not run. Run them yourself if you need their output."


def with_arguments(content: str, arguments: str) -> str:
    """A command's text with `$ARGUMENTS`, `$1` to `$9` filled in."""
    words = _split(arguments)

    def value(found: "re.Match[str]") -> str:
        if found["all"]:
            return arguments
        number = int(found["number"])
        return words[number - 1] if number <= len(words) else ""

    return _PLACEHOLDER.sub(value, content)


def _split(arguments: str) -> list[str]:
    """Words as in a shell, so that quotes keep words together."""
    import shlex

    try:
        return shlex.split(arguments)
    except ValueError:
        return arguments.split()


def _rank(skill: Skill) -> tuple[int, bool]:
    return ("built-in", "project", "user").index(skill.origin), bool(skill.modes)


def _attribute(text: str) -> str:
    plain = text.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")
    return " ".join(plain.splitlines())
