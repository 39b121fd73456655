"""Plug-ins: packages that add tools, providers and hooks.

A package names what it adds in its entry points. It is loaded only if the user's setting `plugins`
has its name: a project cannot load code, and neither can a package that came along as a dependency.
A plug-in that fails is left out, with one sentence for the user.
"""

import sys
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import redirect_stdout
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, TypeAlias

from msgspec.structs import replace

from rookery import NAME
from rookery.app.additions import Additions, check_hook, check_tool
from rookery.app.extra_tools import GivenByClient
from rookery.core.tool_traits import known_tools
from rookery.engine.ports.tool import Tool

ToolSelection: TypeAlias = Callable[[dict[str, Tool[Any]]], dict[str, Tool[Any]]]

GROUPS = {kind: f"{NAME}.{kind}" for kind in ("tools", "hooks", "providers")}
"""The groups of entry points, by what they add."""


@cache
def load_plugins(names: tuple[str, ...]) -> Additions:
    """Load the named packages, once. What fails is among the problems."""
    added = Additions()
    for name in names:
        found = _load(name)
        taken = {each.name for each in added.tools}
        if twice := next((each.name for each in found.tools if each.name in taken), ""):
            found = _problem(name, f"another plug-in has a tool {twice}")
        added = added.joined(found)
    return added


def add_plugins(
    names: tuple[str, ...], tools: ToolSelection, given: GivenByClient
) -> tuple[ToolSelection, GivenByClient]:
    """Add the plug-ins to what a client selects and gives."""
    added = load_plugins(names)
    theirs = added.given()

    def select(all_tools: dict[str, Tool[Any]]) -> dict[str, Tool[Any]]:
        return tools(added.with_tools(all_tools))

    return select, replace(
        given,
        hooks=[*given.hooks, *theirs.hooks],
        providers={**theirs.providers, **given.providers},
        problems=[*given.problems, *theirs.problems],
    )


def _load(package: str) -> Additions:
    found = {kind: list(_points(package, group)) for kind, group in GROUPS.items()}
    if not any(found.values()):
        return _problem(package, f"it is not installed, or has no entry point for {NAME}")
    loaded: dict[str, dict[str, Any]] = {}
    for kind, points in found.items():
        try:
            with redirect_stdout(sys.stderr):  # standard output may carry a protocol
                loaded[kind] = {point.name: _made(kind, point.load()) for point in points}
        except (Exception, SystemExit) as error:
            return _problem(package, f"{type(error).__name__}: {error}")
    named = Counter(each.name for each in loaded["tools"].values())
    if twice := next((name for name, count in named.items() if count > 1), ""):
        return _problem(package, f"it has two tools {twice}")
    return Additions(
        tools=tuple(loaded["tools"].values()),
        hooks=tuple(loaded["hooks"].values()),
        providers=loaded["providers"],
    )


def _points(package: str, group: str) -> Iterable[EntryPoint]:
    for point in entry_points(group=group):
        if point.dist is not None and _plain(point.dist.name) == _plain(package):
            yield point


def _plain(name: str) -> str:
    return name.lower().replace("_", "-").replace(".", "-")


def _made(kind: str, found: Any) -> Any:
    """An entry point names a tool or a hook, or a class of one."""
    made = found() if isinstance(found, type) and kind != "providers" else found
    match kind:
        case "tools":
            check_tool(made)
            if made.name in known_tools():
                raise ValueError(f"there is already a tool {made.name}")
        case "hooks":
            check_hook(made)
        case _ if not callable(made):
            raise TypeError(f"{found!r} does not open a provider")
    return made


def _problem(package: str, why: str) -> Additions:
    return Additions(problems=(f"The plug-in {package} was left out: {why}.",))
