"""Tools, hooks and providers that a program or a plug-in adds.

A tool made of a function goes through the gate like any other. It counts as an action outside the
workspace, because its effects are not known: the user is asked, unless it was declared to only
read. An added hook can refuse a call or have the user asked. It cannot approve anything.
"""

import inspect
import logging
import re
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, ClassVar, Protocol, TypeAlias, get_type_hints, overload

import anyio
import msgspec
from msgspec import Struct
from msgspec.structs import replace

from rookery.app.extra_tools import GivenByClient
from rookery.core.asks import Decision, Ruling, deny
from rookery.core.blocks import ToolCall
from rookery.core.tool_traits import ToolGroup
from rookery.engine.ports.actions import Action, Outcome, Permit
from rookery.engine.ports.hooks import Hook
from rookery.engine.ports.model import Provider
from rookery.engine.ports.tool import Tool, ToolContext
from rookery.errors import RookeryError, ToolError, UsageError
from rookery.platform.own_thread import in_own_thread

_debug = logging.getLogger(__name__)
HOOK_SECONDS = 60.0
"""Seconds that an added hook has for an opinion."""
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
"""Names of tools that every provider accepts."""

Veto: TypeAlias = Callable[[ToolCall, Action], Awaitable[Ruling | None] | Ruling | None]
"""A hook in one function: a ruling about a call, or None for no opinion."""
OpensProvider: TypeAlias = Callable[[str], Provider]
"""Opens a provider for the name of a model."""


class FunctionTool:
    """A tool made of a function: its name, its docstring and its annotated arguments."""

    name: ClassVar[str]
    arguments: ClassVar[type[Struct]]
    group: ClassVar[ToolGroup]

    def __init__(self, function: Callable[..., Any], *, reads_only: bool) -> None:
        if not inspect.isroutine(function):
            raise UsageError(f"@rookery.tool needs a function, not {function!r:.100}.")
        description = inspect.getdoc(function)
        if not description:
            raise UsageError(f"The tool {function.__name__} needs a docstring: the model reads it.")
        self.name = function.__name__  # type: ignore[misc]
        self.description = description
        self.arguments = _arguments(function)  # type: ignore[misc]
        self.group = ToolGroup.ALWAYS  # type: ignore[misc]
        self._function = function
        self._reads_only = reads_only

    def __call__(self, *args: Any, **named: Any) -> Any:
        return self._function(*args, **named)

    async def prepare(self, args: Struct, ctx: ToolContext) -> Action:
        said = msgspec.json.encode(args).decode()
        return Action(
            title=f"Use the tool {self.name}",
            perform=partial(self._perform, args),
            external="" if self._reads_only else f"tool {self.name} {said}",
            notes=[f"arguments: {said}"],
            payload={"tool": "customTool", "name": self.name},
        )

    async def _perform(self, args: Struct, permit: Permit) -> Outcome:
        given = {name: getattr(args, name) for name in args.__struct_fields__}
        try:
            if inspect.iscoroutinefunction(self._function):
                result = await self._function(**given)
            else:
                result = await in_own_thread(partial(self._function, **given))
        except (Exception, SystemExit) as error:
            raise self._failure(error) from error
        return Outcome(text=_as_text(result))

    def _failure(self, error: BaseException) -> RookeryError:
        if isinstance(error, RookeryError):
            return error
        return ToolError(f"{self.name} failed: {type(error).__name__}: {error}")


@overload
def tool(function: Callable[..., Any], /) -> FunctionTool: ...
@overload
def tool(*, reads_only: bool = False) -> Callable[[Callable[..., Any]], FunctionTool]: ...
def tool(
    function: Callable[..., Any] | None = None, /, *, reads_only: bool = False
) -> FunctionTool | Callable[[Callable[..., Any]], FunctionTool]:
    """Make a tool of a function. Its docstring tells the model what the tool does; its arguments
    need annotations. The user is asked before each call, unless it is declared `reads_only`."""
    if function is None:
        return partial(FunctionTool, reads_only=reads_only)
    return FunctionTool(function, reads_only=reads_only)


class AddedHook(Protocol):
    """Called before and after an action. It rules on the action and cannot act."""

    async def before(self, call: ToolCall, action: Action) -> Ruling: ...

    async def after(self, call: ToolCall, action: Action, outcome: Outcome) -> None:
        """Does nothing, unless a hook that inherits this overrides it."""


class GuardedHook(Hook):
    """An added hook that can only restrict. If it fails, the call is refused."""

    def __init__(self, hook: AddedHook | Veto, seconds: float = HOOK_SECONDS) -> None:
        self._hook = hook
        self._seconds = seconds
        self._name = getattr(hook, "__name__", type(hook).__name__)

    async def before(self, call: ToolCall, action: Action) -> Ruling:
        asked: Any = getattr(self._hook, "before", self._hook)
        try:
            with anyio.fail_after(self._seconds):
                said = asked(call, action)
                ruling = await said if inspect.isawaitable(said) else said
        except TimeoutError:
            return deny(f"The hook {self._name} did not answer within {self._seconds:g} s.")
        except (Exception, SystemExit) as error:
            return deny(f"The hook {self._name} failed: {type(error).__name__}: {error}")
        if ruling is None:
            return Ruling()
        if not isinstance(ruling, Ruling):
            return deny(f"The hook {self._name} returned {ruling!r:.100}, which is not a ruling.")
        allows = ruling.decision is Decision.ALLOW
        return replace(ruling, decision=Decision.NONE) if allows else ruling

    async def after(self, call: ToolCall, action: Action, outcome: Outcome) -> None:
        after = getattr(self._hook, "after", None)
        try:
            if after is not None and inspect.isawaitable(said := after(call, action, outcome)):
                await said
        except (Exception, SystemExit):  # the call is done, and must be recorded
            _debug.exception("the hook %s failed after a call", self._name)


class OpenedProvider:
    """A provider of a program, which need not have anything to close."""

    def __init__(self, provider: Provider) -> None:
        self._provider = provider
        self.model = provider.model
        self.stream = provider.stream

    async def aclose(self) -> None:
        close = getattr(self._provider, "aclose", None)
        if close:
            await close()


class Additions(Struct, frozen=True, kw_only=True):
    """What is added to a host."""

    tools: tuple[Tool[Any], ...] = ()
    hooks: tuple[AddedHook | Veto, ...] = ()
    providers: dict[str, OpensProvider] = {}
    problems: tuple[str, ...] = ()
    """What could not be added, in one sentence each."""

    def with_tools(self, tools: dict[str, Tool[Any]]) -> dict[str, Tool[Any]]:
        """All tools with the added ones. An added tool never replaces another."""
        found = dict(tools)
        for each in self.tools:
            check_tool(each)
            if each.name in found:
                raise UsageError(f"There is already a tool {each.name}. Give yours another name.")
            found[each.name] = each
        return found

    def joined(self, other: "Additions") -> "Additions":
        return Additions(
            tools=self.tools + other.tools,
            hooks=self.hooks + other.hooks,
            providers=self.providers | other.providers,
            problems=self.problems + other.problems,
        )

    def given(self) -> GivenByClient:
        for each in self.hooks:
            check_hook(each)
        return GivenByClient(
            hooks=[GuardedHook(each) for each in self.hooks],
            providers={name: partial(_opened, make) for name, make in self.providers.items()},
            problems=self.problems,
        )


def check_tool(tool: object) -> None:
    if not (hasattr(tool, "prepare") and hasattr(tool, "arguments")):
        raise UsageError(
            f"{tool!r:.100} is not a tool. Make one from a function with @rookery.tool."
        )
    name = getattr(tool, "name", None)
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise UsageError(
            f"A tool cannot be called {name!r}: use up to 64 letters, digits, _ and -, a letter "
            "first."
        )


def check_hook(hook: object) -> None:
    if not callable(getattr(hook, "before", hook)):
        raise UsageError(f"{hook!r:.100} is not a hook: a function, or an object with `before`.")


def _opened(make: OpensProvider, model: str) -> OpenedProvider:
    return OpenedProvider(make(model))


def _arguments(function: Callable[..., Any]) -> type[Struct]:
    hints = get_type_hints(function, include_extras=True)
    fields: list[Any] = []
    for each in inspect.signature(function).parameters.values():
        if each.name not in hints or each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD):
            raise UsageError(f"{function.__name__}: annotate the argument {each.name} with a type.")
        hint = hints[each.name]
        fields.append(
            (each.name, hint) if each.default is each.empty else (each.name, hint, each.default)
        )
    made = msgspec.defstruct(function.__name__, fields, forbid_unknown_fields=True, kw_only=True)
    try:
        msgspec.json.schema(made)
    except TypeError as error:
        wrong = str(error).splitlines()[-1]
        raise UsageError(
            f"{function.__name__}: an argument cannot be written as JSON: {wrong}."
        ) from error
    return made


def _as_text(result: object) -> str:
    if isinstance(result, str):
        return result
    try:
        return msgspec.json.encode(result).decode()
    except TypeError:
        return str(result)
