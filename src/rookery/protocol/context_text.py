"""What the model gets, as lines: for `rookery context`, `/context` and `/memory`."""

import os
from collections.abc import Iterable, Iterator, Sequence

from rookery.core.queries import ContextPart, KnownContext
from rookery.core.text.terminal_text import cells_of, counted, visible_line

_TITLES = {
    "prompt": "System prompt",
    "rules": "Rules",
    "mode": "Modes",
    "skill": "Skills",
    "tool": "Tools",
    "details": "Environment",
    "command": "Slash commands",
    "mcp": "MCP servers",
    "hook": "Hooks",
}
_COUNTED = {
    "command": "slash command",
    "mode": "mode",
    "skill": "skill",
    "mcp": "MCP server",
    "hook": "hook",
}
WIDEST = 50
MOST_UNUSED = 10
"""Unused files that the short list names."""
NO_RULES = "No rule files are in use. /init writes an AGENTS.md."


def context_lines(known: KnownContext) -> Iterator[str]:
    """Everything, for the command line."""
    sent = [part for part in known.parts if part.sent]
    yield f"Folder: {visible_line(known.workspace)}"
    yield f"Mode: {visible_line(known.mode)}"
    model = visible_line(known.model) or "none is set up yet"
    yield f"Model: {model}, window {known.window:,} tokens"
    yield ""
    yield f"First request: about {_tokens(sent):,} tokens ({_characters(sent):,} characters)"
    yield from _groups(sent)
    later = [part for part in known.parts if not (part.sent or part.unused)]
    if later:
        yield from ("", "Only when used:")
        yield from _groups(later)
    unused = [part for part in known.parts if part.unused]
    if unused or known.problems:
        yield from ("", "Not used:")
        yield from (f"  {visible_line(_why_unused(part))}" for part in unused)
        yield from (f"  {visible_line(problem)}" for problem in known.problems)


def _groups(parts: Sequence[ContextPart]) -> Iterator[str]:
    widest = min(WIDEST, max((cells_of(visible_line(each.name)) for each in parts), default=0))
    for kind, title in _TITLES.items():
        of_kind = [part for part in parts if part.kind == kind]
        if of_kind:
            yield f"  {title}"
        yield from (_row(part, widest) for part in of_kind)


def _row(part: ContextPart, widest: int) -> str:
    name = visible_line(part.name)
    space = " " * max(0, widest - cells_of(name))
    size = f"{part.tokens:>7,} tokens {part.characters:>8,} characters"
    shown = size if part.characters else " " * len(size)
    return f"    {name}{space}  {shown}  {visible_line(_origin(part))}".rstrip()


def _origin(part: ContextPart) -> str:
    if part.source == "built-in":
        return ""
    format = "" if part.agent in ("", "rookery") else f", {part.agent}"
    path = f" {part.path}" if part.path and part.path != part.name else ""
    return f"{part.source}{format}{path}"


def _why_unused(part: ContextPart) -> str:
    name = part.path if part.path in ("", part.name) else f"{part.path} ({part.name})"
    return f"{name or part.name}: {part.unused}"


def usage_lines(known: KnownContext) -> Iterator[str]:
    """How a session uses the context window, and the rest in short."""
    kinds = ("prompt", "mode", "skill"), ("rules",), ("tool",)
    system, rules, tools = (
        [part for part in known.parts if part.sent and part.kind in kind] for kind in kinds
    )
    details = [part for part in known.parts if part.kind == "details"]
    conversation = known.conversation or _tokens(details)
    used = _tokens([*system, *rules, *tools]) + conversation
    share = f" ({100 * used / known.window:.0f} %)" if known.window else ""
    yield f"About {used:,} of {known.window:,} tokens are used{share}."
    files = ", ".join(part.name for part in rules)
    for title, tokens, what in (
        ("System prompt", _tokens(system), ""),
        ("Rules", _tokens(rules), files),
        ("Tools", _tokens(tools), counted(len(tools), "tool")),
        ("Conversation", conversation, ""),
        ("Free", max(0, known.window - used), ""),
    ):
        yield f"  {title:<14}{tokens:>9,}  {visible_line(what)}".rstrip()
    if counts := _counts(known.parts):
        yield f"Also here: {counts}."
    yield from _unused_lines(known)
    yield "For every part with its size, in a shell: rookery context"


def _counts(parts: Iterable[ContextPart]) -> str:
    here = [part for part in parts if not part.unused and part.source != "built-in"]
    numbers = {kind: sum(part.kind == kind for part in here) for kind in _COUNTED}
    return ", ".join(counted(number, _COUNTED[kind]) for kind, number in numbers.items() if number)


def _unused_lines(known: KnownContext) -> Iterator[str]:
    lines = [
        *(_why_unused(part) for part in known.parts if part.unused),
        *known.problems,
    ]
    if lines:
        yield "Not used:"
        yield from (f"  {visible_line(line)}" for line in lines[:MOST_UNUSED])
    if len(lines) > MOST_UNUSED:
        yield f"  and {len(lines) - MOST_UNUSED} more"


def rules_files(known: KnownContext) -> list[ContextPart]:
    """The rule files in use."""
    return [part for part in known.parts if part.kind == "rules" and part.sent]


def rules_lines(known: KnownContext) -> Iterator[str]:
    """The rule files in use, and how to edit one."""
    found = rules_files(known)
    if not found:
        yield NO_RULES
        return
    for part in found:
        yield f"  {part.tokens:>6,} tokens  {visible_line(part.path)}"
    yield f"To edit one, open it in your editor: {visible_line(file_path(found[0], known))}"


def file_path(part: ContextPart, known: KnownContext) -> str:
    """The absolute path of a file."""
    return os.path.join(known.workspace, os.path.expanduser(part.path))


def _tokens(parts: Iterable[ContextPart]) -> int:
    return sum(part.tokens for part in parts)


def _characters(parts: Iterable[ContextPart]) -> int:
    return sum(part.characters for part in parts)
