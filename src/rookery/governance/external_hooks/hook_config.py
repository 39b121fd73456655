"""Parsing of hook files: `{"version": 1, "hooks": {EVENT: [{matcher, hooks: [...]}]}}`.

An invalid entry is skipped and reported; the rest of the file applies. A matcher is a list of names
or a regular expression, which is matched without backtracking, because a project's file must not be
able to hang the agent.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from shlex import join
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, ValidationError, convert, field
from msgspec.structs import replace

from rookery.core.path_patterns import path_pattern
from rookery.first_use import prepared
from rookery.governance.scope.permission_rules import rule_fault

_NAMES = re.compile(r"[A-Za-z0-9_\-|,\s]+")
_EVERYTHING = ("", "*")
_SEPARATOR = re.compile(r"[|,]")
VERSION = 1
DEFAULT_SECONDS = 60.0
LEAST_SECONDS, MOST_SECONDS = 1.0, 3600.0
LONGEST_NAME = 64
UNSUPPORTED = ("http", "prompt", "agent", "mcp_tool")


class InvalidMatcher(ValueError):
    """The message says what is wrong."""


class Matcher(Struct, frozen=True):
    text: str = ""

    def matches(self, names: Iterable[str]) -> bool:
        """Whether one of the names matches. Without names, only a matcher for everything does."""
        if self.text in _EVERYTHING:
            return True
        if _NAMES.fullmatch(self.text):
            wanted = {name.strip() for name in _SEPARATOR.split(self.text)} - {""}
            return not wanted or not wanted.isdisjoint(names)
        pattern = path_pattern(self.text)
        # better to run a guard needlessly than to skip it
        return any(pattern.found_in(name, unclear=True) for name in names)


class HookEvent(StrEnum):
    SESSION_START = "SessionStart"
    USER_PROMPT_SUBMIT = "UserPromptSubmit"
    PRE_TOOL_USE = "PreToolUse"
    PERMISSION_REQUEST = "PermissionRequest"
    POST_TOOL_USE = "PostToolUse"
    POST_TOOL_USE_FAILURE = "PostToolUseFailure"
    STOP = "Stop"
    SUBAGENT_STOP = "SubagentStop"
    PRE_COMPACT = "PreCompact"
    NOTIFICATION = "Notification"
    SESSION_END = "SessionEnd"
    INTENT_SELECTED = "IntentSelected"
    INTENT_INVALIDATED = "IntentInvalidated"

    @property
    def is_after_tool(self) -> bool:
        return self in (HookEvent.POST_TOOL_USE, HookEvent.POST_TOOL_USE_FAILURE)

    @property
    def is_about_tool(self) -> bool:
        before = (HookEvent.PRE_TOOL_USE, HookEvent.PERMISSION_REQUEST)
        return self in before or self.is_after_tool


class OnFailure(StrEnum):
    """`UNSET` means that the hook does not set it."""

    UNSET = ""
    WARN = "warn"
    BLOCK = "block"


class Dialect(StrEnum):
    CLAUDE = "claude"
    NATIVE = "native"


class HookCommand(Struct, frozen=True, kw_only=True):
    """One hook. With `args` it is started directly, otherwise by the shell. `condition` is a
    permission rule that the call must match. `background` hooks have no say."""

    event: HookEvent
    name: str
    command: str
    args: tuple[str, ...] | None = None
    matcher: Matcher = Matcher()
    condition: str = ""
    timeout: float = DEFAULT_SECONDS
    on_failure: OnFailure = OnFailure.UNSET
    dialect: Dialect = Dialect.CLAUDE
    env: tuple[tuple[str, str], ...] = ()
    background: bool = False
    sequential: bool = False
    """It waits for the earlier hooks of the event."""
    description: str = ""

    @property
    def line(self) -> str:
        """The command on one line, for display."""
        return self.command if self.args is None else join([self.command, *self.args])


class HookProblem(Struct, frozen=True):
    """`where` is the element, such as `hooks.PreToolUse[0].matcher`; empty for the whole file."""

    where: str
    text: str
    file: str = ""

    def __str__(self) -> str:
        return ": ".join(part for part in (self.file, self.where, self.text) if part)


class HookFile(Struct, frozen=True):
    hooks: tuple[HookCommand, ...] = ()
    problems: tuple[HookProblem, ...] = ()


class _HookEntry(Struct):
    """A hook as it is written in a file. Other products spell `on_failure` in two other ways."""

    command: str
    name: Annotated[str, Meta(max_length=LONGEST_NAME)] = ""
    args: tuple[str, ...] | None = None
    condition: str = field(default="", name="if")
    timeout: Annotated[float, Meta(ge=LEAST_SECONDS, le=MOST_SECONDS)] = DEFAULT_SECONDS
    on_failure: Literal["warn", "block"] | UnsetType = UNSET
    other_on_failure: Literal["warn", "block"] | UnsetType = field(default=UNSET, name="onFailure")
    fail_closed: bool = field(default=False, name="failClosed")
    dialect: Dialect = Dialect.CLAUDE
    env: dict[str, str] | None = None
    background: bool = field(default=False, name="async")
    description: str = ""

    @property
    def failure_mode(self) -> OnFailure:
        """If one of the keys says block, block applies."""
        values = (self.on_failure, self.other_on_failure)
        if self.fail_closed or "block" in values:
            return OnFailure.BLOCK
        return OnFailure.WARN if "warn" in values else OnFailure.UNSET


_FAULTY_KEY = re.compile(r"\$\.(\w+)")
_EXPECTED = {
    "command": "command is missing",
    "name": f"the name is not one line of at most {LONGEST_NAME} characters",
    "args": "args must be a list of texts",
    "env": "env must be an object of names and texts",
    "timeout": f"timeout is a number of seconds from {LEAST_SECONDS:g} to {MOST_SECONDS:g}, "
    "not of milliseconds",
    "dialect": "dialect must be claude or native",
    **{key: f"{key} must be warn or block" for key in ("on_failure", "onFailure")},
    **{key: f"{key} must be true or false" for key in ("failClosed", "async", "sequential")},
}


class _InvalidField(Exception):
    """An invalid field; the hook is skipped."""

    def __init__(self, where: str, key: str, text: str) -> None:
        super().__init__(text)
        self.problem = HookProblem(f"{where}.{key}", f"{text}; the hook is skipped")


def matcher(text: str) -> Matcher:
    """Raises `InvalidMatcher`."""
    if text not in _EVERYTHING and not _NAMES.fullmatch(text):
        try:
            path_pattern(text)
        except ValueError as error:
            raise InvalidMatcher(f"the matcher cannot be used: {error}") from error
    return Matcher(text)


def read_hooks(document: object, *, imported: bool = False) -> HookFile:
    """Parse a decoded hook file. An `imported` one was written for another product: it has no
    version and may have other keys."""
    problems: list[HookProblem] = []
    if not isinstance(document, Mapping):
        return HookFile(problems=(HookProblem("", "it must be a JSON object"),))
    version = document.get("version", VERSION)
    if not imported and (version != VERSION or isinstance(version, bool)):
        text = f"version {_short(version)} is not supported, only {VERSION}; none of its hooks runs"
        return HookFile(problems=(HookProblem("version", text),))
    events = document.get("hooks", {})
    if not isinstance(events, Mapping):
        return HookFile(problems=(HookProblem("hooks", "it must be a JSON object"),))
    hooks = [
        hook for event, groups in events.items() for hook in _event_hooks(event, groups, problems)
    ]
    return HookFile(tuple(hooks), tuple(problems))


def _event_hooks(event: str, groups: object, problems: list[HookProblem]) -> list[HookCommand]:
    where = f"hooks.{event}"
    if event not in list(HookEvent):
        problems.append(HookProblem(where, f"unknown event {_short(event)}; it is skipped"))
        return []
    if not isinstance(groups, Sequence) or isinstance(groups, str):
        problems.append(HookProblem(where, "it must be a list of groups; it is skipped"))
        return []
    found: list[HookCommand] = []
    for at, group in enumerate(groups):
        for position, entry in _entries(group, f"{where}[{at}]", problems):
            try:
                hook = _hook(HookEvent(event), group, entry, position, f"{event}-{len(found) + 1}")
                found.append(_with_unique_name(hook, found))
            except _InvalidField as faulty:
                problems.append(faulty.problem)
    return found


def _with_unique_name(hook: HookCommand, others: Sequence[HookCommand]) -> HookCommand:
    """Make the hook's name unique, so that trusting a hook by name cannot mean another one."""
    taken = {other.name for other in others}
    names = (hook.name, *(f"{hook.name}-{number}" for number in range(2, len(taken) + 2)))
    return replace(hook, name=next(name for name in names if name not in taken))


def _entries(
    group: Any, where: str, problems: list[HookProblem]
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    entries = group.get("hooks") if isinstance(group, Mapping) else None
    if not isinstance(entries, Sequence) or isinstance(entries, str):
        problems.append(HookProblem(where, "it has no list named hooks; it is skipped"))
        return
    for at, entry in enumerate(entries):
        position = f"{where}.hooks[{at}]"
        if isinstance(entry, Mapping):
            yield position, entry
        else:
            problems.append(HookProblem(position, "it must be a JSON object; it is skipped"))


def _hook(
    event: HookEvent, group: Mapping[str, Any], given: Mapping[str, Any], where: str, default: str
) -> HookCommand:
    kind = given.get("type", "command")
    if kind in UNSUPPORTED:
        raise _InvalidField(where, "type", f"hooks of type {kind} are not supported")
    if kind != "command":
        raise _InvalidField(where, "type", f"unknown type {_short(kind)}")
    try:
        entry = convert(given, prepared(_HookEntry))
    except ValidationError as error:
        found = _FAULTY_KEY.search(str(error))
        key = found[1] if found else "command"
        raise _InvalidField(where, key, _EXPECTED.get(key, f"{key} must be text")) from error
    sequential = group.get("sequential", event.is_after_tool)
    valid = {
        "command": bool(entry.command.strip()) and "\0" not in entry.command,
        "name": entry.name.isprintable(),
        "env": all(map(_is_variable, (entry.env or {}).items())),
        "sequential": isinstance(sequential, bool),
    }
    for key in (key for key, is_valid in valid.items() if not is_valid):
        raise _InvalidField(where, key, _EXPECTED[key])
    if entry.condition and (fault := rule_fault(entry.condition)):
        raise _InvalidField(where, "if", str(fault))
    return HookCommand(
        event=event,
        name=entry.name or default,
        command=entry.command,
        args=entry.args,
        matcher=_matcher(group, where.rpartition(".hooks[")[0]),
        condition=entry.condition,
        timeout=entry.timeout,
        on_failure=entry.failure_mode,
        dialect=entry.dialect,
        env=tuple(sorted((entry.env or {}).items())),
        background=entry.background,
        sequential=sequential,
        description=entry.description,
    )


def _matcher(group: Mapping[str, Any], where: str) -> Matcher:
    value = group.get("matcher") or ""
    if not isinstance(value, str):
        raise _InvalidField(where, "matcher", "the matcher must be text")
    try:
        return matcher(value)
    except InvalidMatcher as error:
        raise _InvalidField(where, "matcher", str(error)) from error


def _is_variable(pair: tuple[str, str]) -> bool:
    name, text = pair
    return bool(name) and "=" not in name and "\0" not in f"{name}{text}"


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 40 else f"{text[:40]}…"
