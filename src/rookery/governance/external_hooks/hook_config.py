"""Hooks as a file says them: `{"version": 1, "hooks": {EVENT: [{matcher, hooks: [...]}]}}`.

Whatever cannot be understood is a problem of its own entry, never of the rest of the file. A
matcher is a list of names or a regular expression. Expressions that could backtrack for ever are
refused: a file of the project must not be able to hang whoever only asks whether it fits.
"""

import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import lru_cache
from shlex import join
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from rookery.governance.scope.permission_rules import rule_fault

LONGEST = 500
MOST_REPEATS = 3
"""Of one alternative. Each multiplies the steps by the length of a name."""
LONGEST_MATCHED = 128
_NAMES = re.compile(r"[A-Za-z0-9_\-|,\s]+")
_EVERYTHING = ("", "*")
_BETWEEN = re.compile(r"[|,]")
_NOT_REPEATED = ("", "(", "*", "+", "?", "}")
"""After these a question mark says something else."""
_SKIPPED = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]", re.DOTALL)
VERSION = 1
USUAL_SECONDS = 60.0
LEAST_SECONDS, MOST_SECONDS = 1.0, 3600.0
LONGEST_NAME = 64
UNSUPPORTED = ("http", "prompt", "agent", "mcp_tool")


class FaultyMatcher(ValueError):
    """Its text says what is wrong."""


class Matcher(Struct, frozen=True):
    text: str = ""

    def fits(self, names: Iterable[str]) -> bool:
        """Whether one of the names is meant. Without any name, only what is for everything fits."""
        if self.text in _EVERYTHING:
            return True
        if _NAMES.fullmatch(self.text):
            wanted = {name.strip() for name in _BETWEEN.split(self.text)} - {""}
            return not wanted or not wanted.isdisjoint(names)
        pattern = _compiled(self.text)
        # who guards is asked once too often rather than once too seldom
        return any(len(name) > LONGEST_MATCHED or pattern.search(name) for name in names)


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
    """`UNSAID` is what holds for a hook that says nothing about it."""

    UNSAID = ""
    WARN = "warn"
    BLOCK = "block"


class Dialect(StrEnum):
    CLAUDE = "claude"
    NATIVE = "native"


class HookCommand(Struct, frozen=True, kw_only=True):
    """One program. With `args` it is started directly, otherwise by the shell. `condition` is a
    permission rule: the hook is for calls that it fits. Who runs in the `background` decides
    nothing."""

    event: HookEvent
    name: str
    command: str
    args: tuple[str, ...] | None = None
    matcher: Matcher = Matcher()
    condition: str = ""
    timeout: float = USUAL_SECONDS
    on_failure: OnFailure = OnFailure.UNSAID
    dialect: Dialect = Dialect.CLAUDE
    env: tuple[tuple[str, str], ...] = ()
    background: bool = False
    sequential: bool = False
    """It waits for those before it in the same event."""
    description: str = ""

    @property
    def line(self) -> str:
        """What is run, on one line for a person."""
        return self.command if self.args is None else join([self.command, *self.args])


class ConfigProblem(Struct, frozen=True):
    """`where` is the element, such as `hooks.PreToolUse[0].matcher`; empty for the whole."""

    where: str
    text: str


class HookFile(Struct, frozen=True):
    hooks: tuple[HookCommand, ...] = ()
    problems: tuple[ConfigProblem, ...] = ()


class _Faulty(Exception):
    def __init__(self, where: str, text: str) -> None:
        super().__init__(text)
        self.problem = ConfigProblem(where, text)


def matcher(text: str) -> Matcher:
    """Raises `FaultyMatcher`."""
    if text not in _EVERYTHING and not _NAMES.fullmatch(text):
        if len(text) > LONGEST:
            raise FaultyMatcher(f"the matcher has more than {LONGEST} characters")
        try:
            _compiled(text)
        except (re.error, OverflowError, RecursionError) as error:
            raise FaultyMatcher(f"the matcher is not a regular expression ({error})") from error
        if _may_take_for_ever(text):
            raise FaultyMatcher("the matcher has nested repetition, which could run forever")
    return Matcher(text)


def read_hooks(document: object, *, imported: bool = False) -> HookFile:
    """The hooks of a decoded file. One that is `imported` was written for another product, has no
    version, and may say anything else beside its hooks."""
    problems: list[ConfigProblem] = []
    if not isinstance(document, Mapping):
        return HookFile(problems=(ConfigProblem("", "it must be a JSON object"),))
    version = document.get("version", VERSION)
    if not imported and (version != VERSION or isinstance(version, bool)):
        text = f"version {_brief(version)} is not supported, only {VERSION}; none of its hooks runs"
        return HookFile(problems=(ConfigProblem("version", text),))
    events = document.get("hooks", {})
    if not isinstance(events, Mapping):
        return HookFile(problems=(ConfigProblem("hooks", "it must be a JSON object"),))
    hooks = [
        hook for event, groups in events.items() for hook in _of_event(event, groups, problems)
    ]
    return HookFile(tuple(hooks), tuple(problems))


@lru_cache(maxsize=256)
def _compiled(text: str) -> re.Pattern[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # whoever wrote it is not the one who would read them
        return re.compile(text)


def _may_take_for_ever(text: str) -> bool:
    """A group that is repeated must not repeat or choose inside, and few repeats stand in a row."""
    plain = _SKIPPED.sub("x", text)
    busy = [False]
    repeats = 0
    for at, sign in enumerate(plain):
        if sign == "(":
            busy.append(False)
        elif sign == "|":
            busy[-1] = True
            repeats = 0 if len(busy) == 1 else repeats
        elif sign == ")" and len(busy) > 1:
            inner = busy.pop()
            if inner and plain[at + 1 : at + 2] in ("*", "+", "{"):
                return True
            busy[-1] = busy[-1] or inner
        elif sign in "*+{" or (sign == "?" and plain[at - 1 : at] not in _NOT_REPEATED):
            busy[-1] = True
            repeats += 1
        if repeats > MOST_REPEATS:
            return True
    return False


def _of_event(event: str, groups: object, problems: list[ConfigProblem]) -> list[HookCommand]:
    where = f"hooks.{event}"
    if event not in list(HookEvent):
        problems.append(ConfigProblem(where, f"unknown event {_brief(event)}; it is skipped"))
        return []
    if not isinstance(groups, Sequence) or isinstance(groups, str):
        problems.append(ConfigProblem(where, "it must be a list of groups; it is skipped"))
        return []
    found: list[HookCommand] = []
    for at, group in enumerate(groups):
        for position, entry in _entries(group, f"{where}[{at}]", problems):
            try:
                hook = _hook(HookEvent(event), group, entry, position, f"{event}-{len(found) + 1}")
                found.append(_named_apart(hook, found))
            except _Faulty as faulty:
                problems.append(faulty.problem)
    return found


def _named_apart(hook: HookCommand, others: Sequence[HookCommand]) -> HookCommand:
    """Whoever trusts one by its name must not mean another."""
    taken = {other.name for other in others}
    names = (hook.name, *(f"{hook.name}-{number}" for number in range(2, len(taken) + 2)))
    return replace(hook, name=next(name for name in names if name not in taken))


def _entries(
    group: Any, where: str, problems: list[ConfigProblem]
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    entries = group.get("hooks") if isinstance(group, Mapping) else None
    if not isinstance(entries, Sequence) or isinstance(entries, str):
        problems.append(ConfigProblem(where, "it has no list named hooks; it is skipped"))
        return
    for at, entry in enumerate(entries):
        position = f"{where}.hooks[{at}]"
        if isinstance(entry, Mapping):
            yield position, entry
        else:
            problems.append(ConfigProblem(position, "it must be a JSON object; it is skipped"))


def _hook(
    event: HookEvent, group: Mapping[str, Any], entry: Mapping[str, Any], where: str, usual: str
) -> HookCommand:
    kind = entry.get("type", "command")
    if kind in UNSUPPORTED:
        raise _Faulty(f"{where}.type", f"hooks of type {kind} are not supported; it is skipped")
    if kind != "command":
        raise _Faulty(f"{where}.type", f"unknown type {_brief(kind)}; it is skipped")
    return HookCommand(
        event=event,
        name=_name(entry, where) or usual,
        command=_command(entry, where),
        args=_args(entry, where),
        matcher=_matcher(group, where.rpartition(".hooks[")[0]),
        condition=_condition(entry, where),
        timeout=_seconds(entry, where),
        on_failure=_on_failure(entry, where),
        dialect=_dialect(entry, where),
        env=_env(entry, where),
        background=_yes_or_no(entry, "async", where, usual=False),
        sequential=_yes_or_no(group, "sequential", where, usual=event.is_after_tool),
        description=_text(entry, "description", where),
    )


def _text(entry: Mapping[str, Any], key: str, where: str) -> str:
    said = entry.get(key, "")
    if not isinstance(said, str):
        raise _Faulty(f"{where}.{key}", f"{key} must be text; the hook is skipped")
    return said


def _name(entry: Mapping[str, Any], where: str) -> str:
    said = _text(entry, "name", where)
    if len(said) > LONGEST_NAME or not said.isprintable():
        raise _Faulty(
            f"{where}.name",
            f"the name is not one line of at most {LONGEST_NAME} characters; the hook is skipped",
        )
    return said


def _yes_or_no(entry: Mapping[str, Any], key: str, where: str, *, usual: bool) -> bool:
    said = entry.get(key, usual)
    if not isinstance(said, bool):
        raise _Faulty(f"{where}.{key}", f"{key} must be true or false; the hook is skipped")
    return said


def _command(entry: Mapping[str, Any], where: str) -> str:
    said = _text(entry, "command", where)
    if not said.strip() or "\0" in said:
        raise _Faulty(f"{where}.command", "command is missing; the hook is skipped")
    return said


def _args(entry: Mapping[str, Any], where: str) -> tuple[str, ...] | None:
    said = entry.get("args")
    if said is None:
        return None
    if not isinstance(said, list) or not all(isinstance(each, str) for each in said):
        raise _Faulty(f"{where}.args", "args must be a list of texts; the hook is skipped")
    return tuple(said)


def _matcher(group: Mapping[str, Any], where: str) -> Matcher:
    said = group.get("matcher") or ""
    if not isinstance(said, str):
        raise _Faulty(f"{where}.matcher", "the matcher must be text; the hook is skipped")
    try:
        return matcher(said)
    except FaultyMatcher as error:
        raise _Faulty(f"{where}.matcher", f"{error}; the hook is skipped") from error


def _condition(entry: Mapping[str, Any], where: str) -> str:
    said = _text(entry, "if", where)
    if said and (fault := rule_fault(said)):
        raise _Faulty(f"{where}.if", f"{fault}; the hook is skipped")
    return said


def _seconds(entry: Mapping[str, Any], where: str) -> float:
    said = entry.get("timeout", USUAL_SECONDS)
    if not isinstance(said, int | float) or isinstance(said, bool) or not said >= LEAST_SECONDS:
        raise _Faulty(
            f"{where}.timeout",
            f"timeout is a number of seconds from {LEAST_SECONDS:g} to {MOST_SECONDS:g}; "
            "the hook is skipped",
        )
    if said > MOST_SECONDS:
        raise _Faulty(
            f"{where}.timeout",
            f"timeout is {said:g} seconds, but at most {MOST_SECONDS:g} are allowed "
            f"(for milliseconds write {max(1.0, said / 1000):g}); the hook is skipped",
        )
    return float(said)


def _on_failure(entry: Mapping[str, Any], where: str) -> OnFailure:
    """The other spellings are those of other products; whoever asks for a block gets it."""
    said = [entry[key] for key in ("on_failure", "onFailure") if key in entry]
    for key in ("on_failure", "onFailure"):
        if entry.get(key, OnFailure.WARN) not in (OnFailure.WARN, OnFailure.BLOCK):
            raise _Faulty(f"{where}.{key}", f"{key} must be warn or block; the hook is skipped")
    if _yes_or_no(entry, "failClosed", where, usual=False) or OnFailure.BLOCK in said:
        return OnFailure.BLOCK
    return OnFailure.WARN if said else OnFailure.UNSAID


def _dialect(entry: Mapping[str, Any], where: str) -> Dialect:
    said = entry.get("dialect", Dialect.CLAUDE)
    if said not in list(Dialect):
        raise _Faulty(f"{where}.dialect", "dialect must be claude or native; the hook is skipped")
    return Dialect(said)


def _env(entry: Mapping[str, Any], where: str) -> tuple[tuple[str, str], ...]:
    said = entry.get("env") or {}
    if not isinstance(said, Mapping) or not all(map(_can_be_set, said.items())):
        raise _Faulty(
            f"{where}.env", "env must be an object of names and texts; the hook is skipped"
        )
    return tuple(sorted(said.items()))


def _can_be_set(pair: tuple[object, object]) -> bool:
    name, text = pair
    texts = isinstance(name, str) and isinstance(text, str)
    return texts and bool(name) and "=" not in str(name) and "\0" not in f"{name}{text}"


def _brief(said: object) -> str:
    text = str(said)
    return text if len(text) <= 40 else f"{text[:40]}…"
