"""Rules for one run, in the words of other agents: `--allowed-tools "Bash(pytest:*) Edit"`.

They become our own rules: first words of commands, whole commands, edits, sub-tasks. A rule that
would mean more or less than it says is refused.
"""

import re
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from rookery.commands.plain_line import plain
from rookery.commands.rules import EVERYTHING, faulty_entries
from rookery.core.settings import Settings
from rookery.core.tool_traits import known_tools
from rookery.errors import SettingsError

_RULE = re.compile(r"([A-Za-z_][\w-]*)(?:\(([^()]*)\))?(?:[,\s]+|$)")
_READS = frozenset(
    ["Read", "Grep", "Glob", "LS", "NotebookRead", "TodoWrite", "TodoRead", "AskUserQuestion"]
)
"""Tools that ask about nothing anyway."""
_EDITS = ("Edit", "MultiEdit", "Write", "NotebookEdit")
_COMMANDS = "Bash"


def tools_of_run(
    settings: Settings, allowed: Sequence[str], disallowed: Sequence[str]
) -> tuple[Settings, frozenset[tuple[str, ...]], frozenset[str]]:
    """The settings of a run with the rules of `--allowed-tools` and `--disallowed-tools`, the
    whole commands that these allow, and the tools that they deny. Raises `SettingsError` for a
    rule that cannot be kept."""
    exactly = set[tuple[str, ...]]()
    for tool, about in _rules(allowed, "--allowed-tools"):
        settings = _allowing(settings, tool, about, exactly)
    denied = set[str]()
    for tool, about in _rules(disallowed, "--disallowed-tools"):
        if tool == _COMMANDS:
            deny = (*settings.commands.deny, _prefix(about) or about or EVERYTHING)
            settings = replace(settings, commands=replace(settings.commands, deny=deny))
        else:
            denied.add(_tool_name(tool, about))
    return settings, frozenset(exactly), frozenset(denied)


def _rules(given: Sequence[str], flag: str) -> Iterator[tuple[str, str]]:
    """Each tool with what is in its parentheses."""
    for text in given:
        place = 0
        while found := _RULE.match(text.strip(), place):
            yield found[1], (found[2] or "").strip()
            place = found.end()
        if place != len(text.strip()):
            raise SettingsError(
                f"{flag} takes rules such as Bash(pytest:*) and Edit, not {text!r}."
            )


def _allowing(settings: Settings, tool: str, about: str, exactly: set[tuple[str, ...]]) -> Settings:
    if tool == _COMMANDS:
        return _allowing_command(settings, about, exactly)
    if tool in _EDITS and not about:
        return replace(settings, approve_edits=True)
    if tool == "Task" and not about:
        return replace(settings, approve_subtasks=True)
    if tool in _READS:
        return settings
    if tool in _EDITS:
        raise SettingsError(
            f"{tool}({about}): edits cannot be allowed by path. Use {tool}, or an intent with a "
            "scope: rookery intents"
        )
    if tool.startswith("mcp__"):
        raise SettingsError(f"{tool}: list it under alwaysAllow in mcp.json instead.")
    raise SettingsError(f"{tool} cannot be allowed by a flag. Use Bash(PREFIX:*), Edit or Task.")


def _allowing_command(settings: Settings, about: str, exactly: set[tuple[str, ...]]) -> Settings:
    prefix = _prefix(about) or ("" if about else EVERYTHING)
    if wrong := faulty_entries([prefix or about]):
        raise SettingsError(wrong[0])
    if not prefix:
        parsed = plain(about)
        assert parsed
        exactly.add(parsed[0].commands[0].words)
        return settings
    allow = (*settings.commands.allow, prefix)
    return replace(settings, commands=replace(settings.commands, allow=allow))


def _prefix(about: str) -> str:
    """The first words of `npm test:*` or `npm test *`; empty for a whole command."""
    for end in (":*", " *"):
        if about.endswith(end):
            return about.removesuffix(end).strip()
    return EVERYTHING if about == EVERYTHING else ""


def _tool_name(tool: str, about: str) -> str:
    if about:
        raise SettingsError(f"{tool}({about}): only Bash takes a pattern. Use {tool}.")
    known = {name for traits in known_tools().values() for name in traits.names}
    if tool not in known:
        raise SettingsError(f"No such tool: {tool}. The tools are: {', '.join(sorted(known))}.")
    return tool
