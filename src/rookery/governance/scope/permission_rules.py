"""Permission rules of an intent: `Tool` or `Tool(specifier)`, in the lists deny, ask and allow.

The lists are tried in that order and the first match decides, however specific a rule of a later
list is. An allow rule must cover every command and path of a call; a deny or ask rule applies if it
matches one of them.
"""

import re
from collections.abc import Collection, Sequence
from enum import Enum, auto
from functools import lru_cache
from posixpath import basename
from shlex import join

from msgspec import Struct

from rookery.core.asks import Decision
from rookery.core.tool_traits import known_tools, traits_of
from rookery.governance.intents.intent import IntentPermissions
from rookery.governance.scope.name_patterns import Name, PatternError, matches, text_pattern
from rookery.governance.scope.scope_patterns import ScopePattern, scope_pattern

_RULE = re.compile(r"(?P<tool>[A-Za-z0-9_.*-]+)(?:\((?P<specifier>.*)\))?", re.DOTALL)

READ = "read_file"
"""A rule for this tool applies to every way of reading a file."""
LIST = "list_files"
_MCP = "mcp--"


class Form(Enum):
    """What a specifier is matched against."""

    COMMANDS = auto()
    PATHS = auto()
    NOTHING = auto()


class RuleCall(Struct, frozen=True, kw_only=True):
    """A call as the rules see it. `commands` holds the words of each simple command; if not
    `all_known`, nothing can be allowed. MCP tools are `mcp--server--tool`."""

    tool: str
    paths: tuple[str, ...] = ()
    commands: tuple[tuple[str, ...], ...] = ()
    all_known: bool = True


class PermissionRule(Struct, frozen=True):
    """`tools` are built-in names, or one MCP pattern. Without a specifier every call matches."""

    text: str
    tools: tuple[str, ...]
    form: Form = Form.NOTHING
    command: tuple[Name, ...] = ()
    grants: ScopePattern | None = None
    forbids: ScopePattern | None = None

    def allows(self, call: RuleCall, part: int) -> bool:
        """Whether it covers one part of the call: one command, one path, or the call itself."""
        if not self._names_tool(call.tool):
            return False
        if self.form is Form.COMMANDS:
            return any(matches(each, join(call.commands[part])) for each in self.command)
        return self.grants is None or self.grants.covers(call.paths[part])

    def touches(self, call: RuleCall) -> bool:
        """Whether it matches any part of the call."""
        if not self._names_tool(call.tool):
            return False
        if self.form is Form.COMMANDS:
            spellings = [text for words in call.commands for text in _spellings(words)]
            return any(matches(each, text) for each in self.command for text in spellings)
        return self.forbids is None or any(map(self.forbids.covers, call.paths))

    def _names_tool(self, tool: str) -> bool:
        return normalize_tool(tool) in self.tools or any(
            each.startswith(_MCP) and matches(text_pattern(each), normalize_tool(tool))
            for each in self.tools
        )


def normalize_tool(name: str) -> str:
    """Write the name of an MCP tool with `--` instead of `__` between its parts."""
    return _MCP + name[5:].replace("__", "--") if name.startswith("mcp__") else name


@lru_cache(maxsize=1024)
def permission_rule(text: str) -> PermissionRule:
    """Parse a rule. Raises `PatternError` if it is invalid or can never match."""
    parts = _RULE.fullmatch(text.strip())
    if parts is None:
        raise PatternError("a rule is Tool or Tool(specifier)", 'e.g. "execute_command(pytest *)"')
    tools = _tools(parts["tool"])
    specifier = parts["specifier"]
    if specifier is None:
        return PermissionRule(text, tools)
    if not specifier.strip():
        raise PatternError("the specifier is empty", f'write "{parts["tool"]}" for every call')
    if specifier.startswith("!"):
        raise PatternError("a rule cannot be negated with !", "put it into another list")
    if all(traits_of(tool).takes_command for tool in tools):
        return PermissionRule(text, tools, Form.COMMANDS, command=_command(specifier.strip()))
    if all(traits_of(tool).takes_paths for tool in tools):
        grants, forbids = scope_pattern(specifier), scope_pattern(specifier, floating=True)
        return PermissionRule(text, tools, Form.PATHS, grants=grants, forbids=forbids)
    raise PatternError(
        f"{parts['tool']} has neither a command nor a path, so the rule never matches",
        f'write "{parts["tool"]}"',
    )


def rule_fault(text: str) -> PatternError | None:
    """The error of an invalid rule, or None."""
    try:
        permission_rule(text)
    except PatternError as error:
        return error
    return None


def decide(permissions: IntentPermissions, call: RuleCall) -> tuple[Decision, str]:
    """Return the decision on a call and the rule behind it. Raises `PatternError`."""
    for decision, texts in ((Decision.DENY, permissions.deny), (Decision.ASK, permissions.ask)):
        for text in texts:
            if permission_rule(text).touches(call):
                return decision, text
    allowing = [permission_rule(text) for text in permissions.allow]
    covering = _covering_rules(allowing, call)
    return (Decision.ALLOW, covering) if covering else (Decision.NONE, "")


def reading_rule(
    permissions: IntentPermissions, tool: str, paths: Collection[str]
) -> tuple[Decision, str]:
    """Return the decision on reading files with a tool, and the rule behind it. Files that no
    rule names may be read. Raises `PatternError`."""
    for decision, texts in ((Decision.DENY, permissions.deny), (Decision.ASK, permissions.ask)):
        for text in texts:
            rule = permission_rule(text)
            if _is_about_reading(rule, tool) and (
                rule.forbids is None or any(map(rule.forbids.covers, paths))
            ):
                return decision, text
    return Decision.NONE, ""


def withheld(permissions: IntentPermissions, tool: str) -> tuple[ScopePattern, ...]:
    """Files that a listing or search must skip: the user cannot be asked about each of them."""
    rules = [permission_rule(text) for text in (*permissions.deny, *permissions.ask)]
    return tuple(
        rule.forbids for rule in rules if rule.forbids is not None and _is_about_reading(rule, tool)
    )


def _is_about_reading(rule: PermissionRule, tool: str) -> bool:
    if rule.form is Form.COMMANDS:
        return False
    if READ in rule.tools:
        return rule.form is Form.PATHS or tool != LIST
    return rule.form is Form.PATHS and normalize_tool(tool) in rule.tools


def _covering_rules(rules: Sequence[PermissionRule], call: RuleCall) -> str:
    """The rules that together cover every part of a call; empty if a part is not covered."""
    if not call.all_known:
        return ""
    is_command = traits_of(normalize_tool(call.tool)).takes_command
    parts = len(call.commands) if is_command else len(call.paths)
    if is_command and not parts:
        return ""
    used: list[str] = []
    for part in range(max(parts, 1)):
        rule = next((each for each in rules if _covers(each, call, part, parts)), None)
        if rule is None:
            return ""
        used.append(rule.text)
    return ", ".join(dict.fromkeys(used))


def _covers(rule: PermissionRule, call: RuleCall, part: int, parts: int) -> bool:
    if not parts and rule.form is not Form.NOTHING:
        return False  # nothing to match the specifier against
    return rule.allows(call, part)


def _tools(name: str) -> tuple[str, ...]:
    normal = normalize_tool(name)
    if normal.startswith(_MCP):
        return (_mcp_pattern(normal),)
    if normal in known_tools():
        return (normal,)
    if matching := tuple(tool for tool, traits in known_tools().items() if name in traits.names):
        return matching
    raise PatternError(f"no such tool: {name}, so the rule never matches", "name a known tool")


def _mcp_pattern(name: str) -> str:
    server, _, tool = name.removeprefix(_MCP).partition("--")
    if "*" in server or not server:
        raise PatternError(
            "* is allowed in the last part of an MCP name only", 'e.g. "mcp--server--*"'
        )
    return f"{_MCP}{server}--{tool or '*'}"


def _command(specifier: str) -> tuple[Name, ...]:
    """A trailing ` *` also matches the bare command; `prefix:*` is its older spelling."""
    if specifier.endswith(":*"):
        specifier = f"{specifier[:-2]} *"
    if specifier.endswith(" *"):
        return (text_pattern(specifier[:-2]), text_pattern(specifier))
    return (text_pattern(specifier),)


def _spellings(words: Sequence[str]) -> tuple[str, ...]:
    """Spellings of a command that a deny or ask rule may match."""
    bare = (basename(words[0]), *words[1:]) if words else ()
    return (join(words), " ".join(words), " ".join(bare))
