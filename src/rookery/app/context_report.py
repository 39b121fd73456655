"""What the model gets in a workspace: every part with its size and where it comes from, and the
files that are not used. Part of the composition root; nothing is started, and no model is called.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import anyio.to_thread
from msgspec.structs import replace

from rookery.app.briefing import Composition, InstructionFiles, instruction_files
from rookery.app.extra_tools import mcp_files
from rookery.core.facts import Event
from rookery.core.folds.history import history
from rookery.core.folds.task_record import fold
from rookery.core.folds.task_state import TaskState
from rookery.core.instructions import Rule
from rookery.core.modes import GOVERNANCE_FOLDER
from rookery.core.queries import ContextPart, KnownContext
from rookery.core.settings import Settings
from rookery.engine.ports.model import text_weight, weight
from rookery.governance.layout import known_trust_file
from rookery.platform.paths import visible
from rookery.prompting.system_prompt import mode_row, rule_text, skill_row

if TYPE_CHECKING:
    from rookery.app.local_host import HostParts

NOT_TRUSTED = "the folder is not trusted"
SWITCHED_OFF = "context.other_agents is off"
RULES_OFF = "context.agent_rules is off"
HOOKS_OFF = "hooks.import_claude is off"
SHARED = "shared"
_AGENTS = {
    ".roo": "roo",
    ".clinerules": "roo",
    ".claude": "claude",
    "CLAUDE": "claude",
    ".mcp.json": "claude",
    ".codex": "codex",
    ".gemini": "gemini",
    "GEMINI": "gemini",
    ".github": "copilot",
    ".cursor": "cursor",
    ".windsurf": "windsurf",
    ".opencode": "opencode",
    "opencode": "opencode",
    ".agents": SHARED,
    "AGENT": SHARED,
}
"""How a file's or folder's name begins, and the agent that it is for."""
_STATES = {"untrusted": NOT_TRUSTED, "disabled": "it is disabled"}
"""Why an MCP server in this state is not used."""
_OURS = ("rookery", "roo", SHARED)
"""Agents whose files are read in any case."""


async def context_report(parts: "HostParts", events: Sequence[Event]) -> KnownContext:
    """`events` are those of a session; none for the first request of a new one."""
    listing = await parts.finder.overview()
    return await anyio.to_thread.run_sync(_report, parts, events, listing)


def _report(parts: "HostParts", events: Sequence[Event], listing: str) -> KnownContext:
    state = fold(events) if events else TaskState(mode=parts.settings.mode)
    composed, model = parts.briefing.composed(state)
    files = _files_of(parts, parts.settings, trusted=parts.consent.trusted)
    others = _others(parts, parts.settings)
    used = [*_of_files(files, composed), *others.parts]
    found = [
        *_prompt_and_tools(composed, used, listing),
        *used,
        *_not_used(parts, used, composed),
    ]
    return KnownContext(
        workspace=str(parts.workspace),
        mode=state.mode,
        model=model.id,
        window=state.window or model.window,
        conversation=int(weight(history(events)) * state.per_byte) if events else 0,
        parts=tuple(
            replace(each, tokens=round(each.tokens * state.per_byte), path=visible(each.path))
            for each in found
        ),
        problems=(*parts.briefing.problems(composed), *others.problems),
    )


def agent_of(path: str) -> str:
    """Return the agent that a file is for, by its displayed path."""
    for name in path.split("/"):
        for beginning, agent in _AGENTS.items():
            if name.startswith(beginning):
                return agent
    return "rookery"


def _files_of(parts: "HostParts", settings: Settings, *, trusted: bool) -> InstructionFiles:
    return instruction_files(settings, parts.places, parts.files, Path.home(), trusted=trusted)


def _prompt_and_tools(
    composed: Composition, used: Iterable[ContextPart], listing: str
) -> Iterator[ContextPart]:
    """Yield the parts that do not come from files. The bytes are in `tokens` for now."""
    inside = [each for each in used if each.sent]
    yield ContextPart(
        kind="prompt",
        name="system prompt",
        characters=max(0, len(composed.system) - sum(each.characters for each in inside)),
        tokens=max(0, text_weight(composed.system) - sum(each.tokens for each in inside)),
        sent=True,
    )
    for spec in sorted(composed.specs, key=attrgetter("size"), reverse=True):
        length = len(spec.name) + len(spec.description) + len(str(spec.schema))
        yield ContextPart(
            kind="tool", name=spec.name, characters=length, tokens=spec.size, sent=True
        )
    yield _part("details", "list of files", listing, sent=True)


def _of_files(files: InstructionFiles, composed: Composition) -> Iterator[ContextPart]:
    for rule in _rules(composed):
        yield _part("rules", rule.path, rule_text(rule), rule.path, rule.origin, sent=True)
    for rule in composed.rules.for_files:
        yield _part("rules", rule.path, rule_text(rule), rule.path, rule.origin)
    for offered in composed.rules.offered:
        row = f"- {offered.path}: {offered.when}\n"
        yield _part("rules", offered.path, row, offered.path, "project", sent=True)
    yield from _modes_and_skills(files, composed)
    for command in composed.commands.commands:
        where = (command.path, command.origin)
        yield _part("command", f"/{command.name}", command.content, *where)
    for path, reason in composed.rules.skipped:
        yield replace(_part("rules", path, "", path, "project"), unused=reason)


def _modes_and_skills(files: InstructionFiles, composed: Composition) -> Iterator[ContextPart]:
    listed = "switch_mode" in {spec.name for spec in composed.specs}
    for mode in files.modes.read().modes:
        text = f"- {mode_row(mode)}\n"
        yield _part("mode", mode.slug, text, mode.path, mode.source, sent=listed)
    for skill in composed.skills:
        yield _part("skill", skill.name, skill_row(skill), skill.path, skill.origin, sent=True)


def _rules(composed: Composition) -> Sequence[Rule]:
    rules = composed.rules
    return (*rules.for_mode, *rules.of_agents, *rules.general)


class _Programs(NamedTuple):
    """MCP servers and hooks, and problems with their definitions."""

    parts: Sequence[ContextPart] = ()
    problems: Sequence[str] = ()


def _others(parts: "HostParts", settings: Settings) -> _Programs:
    servers = hooks = _Programs()
    if parts.places.any_mcp_servers(parts.workspace):
        servers = _servers(parts, settings)
    own = parts.workspace / GOVERNANCE_FOLDER
    if parts.places.any_hooks(parts.workspace, own, of_claude=settings.imports_hooks):
        hooks = _hooks(parts, settings)
    return _Programs((*servers.parts, *hooks.parts), (*servers.problems, *hooks.problems))


def _servers(parts: "HostParts", settings: Settings) -> _Programs:
    from rookery.mcp.hub import overview

    trusted = parts.consent.trusted
    configured = mcp_files(settings, parts.workspace, parts.places, os.environ, trusted=trusted)
    found, states = overview(configured, parts.places.mcp_memory)
    files = {server.name: server.file for server in found.servers}
    known = [
        replace(
            _part("mcp", each.name, "", _shown(parts, files[each.name]), each.source),
            unused=_STATES.get(each.state, ""),
        )
        for each in states
    ]
    problems = [
        f"The MCP server {each.server} is not used: {each.text}." if each.server else each.text
        for each in found.problems
    ]
    return _Programs(known, problems)


def _hooks(parts: "HostParts", settings: Settings) -> _Programs:
    from rookery.governance.external_hooks.hook_files import find_hooks, hook_places
    from rookery.governance.external_hooks.hook_trust import HookTrust

    trust_file = known_trust_file(parts.workspace, parts.places)
    trust = HookTrust(trust_file, parts.workspace, workspace_trusted=parts.consent.trusted)
    found = find_hooks(hook_places(parts.workspace, parts.places, settings))
    listed: list[ContextPart] = []
    for known in found.hooks:
        name = f"{known.hook.event}: {known.hook.name or known.hook.command}"
        source = "project" if known.source.is_of_project else known.source.partition("-")[0]
        part = _part("hook", name, "", _shown(parts, known.file), source)
        listed.append(replace(part, unused=trust.why_not(known)))
    return _Programs(listed, [*map(str, found.problems), *filter(None, [trust.problem])])


def _not_used(
    parts: "HostParts", used: Sequence[ContextPart], composed: Composition
) -> Iterator[ContextPart]:
    """Yield what would be used if the folder were trusted and nothing switched off."""
    settings = replace(
        parts.settings,
        context=replace(parts.settings.context, other_agents=True, agent_rules=True),
        hooks=replace(parts.settings.hooks, import_claude=True),
    )
    if parts.consent.trusted and settings == parts.settings:
        return
    files = _files_of(parts, settings, trusted=True)
    whole = replace(
        composed,
        rules=files.rules.read(parts.settings.mode),
        skills=files.skills.read().skills,
        commands=files.commands.read(),
    )
    known = {(each.kind, each.name, each.path) for each in used}
    for each in (*_of_files(files, whole), *_others(parts, settings).parts):
        if (each.kind, each.name, each.path) not in known:
            yield replace(each, sent=False, unused=_why(each, parts) or each.unused)


def _why(part: ContextPart, parts: "HostParts") -> str:
    """Return why a part is not used that could be."""
    context = parts.settings.context
    if part.source == "project" and not parts.consent.trusted:
        return NOT_TRUSTED
    if part.agent not in _OURS and not context.other_agents:
        return SWITCHED_OFF
    if part.kind == "hook" and part.agent == "claude":
        return HOOKS_OFF
    return RULES_OFF if part.kind == "rules" and not context.agent_rules else ""


def _part(
    kind: str, name: str, text: str, path: str = "", source: str = "built-in", *, sent: bool = False
) -> ContextPart:
    """Make a part. Its bytes are in `tokens` until the tokens per byte are known."""
    return ContextPart(
        kind=kind,  # type: ignore[arg-type]
        name=name,
        path=path,
        source=source,  # type: ignore[arg-type]
        agent=agent_of(path) if path else "",
        characters=len(text),
        tokens=text_weight(text),
        sent=sent,
    )


def _shown(parts: "HostParts", file: str) -> str:
    """Return a path relative to the workspace or below `~`."""
    path = Path(file)
    for top, label in ((parts.workspace, ""), (Path.home(), "~/")):
        if path.is_absolute() and path.is_relative_to(top):
            return f"{label}{path.relative_to(top)}"
    return file
