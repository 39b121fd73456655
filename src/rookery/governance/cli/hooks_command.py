"""`rookery hooks`: programs that are told what the agent does, and may refuse it."""

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from rookery import NAME
from rookery.cli.main import resolve_folder
from rookery.core.modes import GovernanceMode, ModeWishes, latched
from rookery.core.settings import Settings
from rookery.core.text.terminal_text import cells_of, harmless, visible_line
from rookery.errors import SettingsError
from rookery.governance.cli.hook_trial import SAMPLE_TOOL, Overheard, Trial, tried
from rookery.governance.external_hooks.hook_config import HookEvent
from rookery.governance.external_hooks.hook_files import (
    HOOK_FILE,
    MANAGED_FILE,
    FoundHooks,
    HookPlaces,
    KnownHook,
    TrustStatus,
    find_hooks,
)
from rookery.governance.external_hooks.hook_runner import HookDesk, HookRunner
from rookery.governance.external_hooks.hook_trust import HookTrust
from rookery.governance.external_hooks.hook_verdict import HookVerdict
from rookery.governance.layout import find_layout, hook_trust_file
from rookery.permissions.trust import TrustStore
from rookery.platform.user_folders import Places, find_places
from rookery.storage.cli.session_listing import GAP, confirmed
from rookery.storage.settings_files import find_settings

MOST_SHOWN = 2_000
"""Characters of each stream."""

_HERE = click.option(
    "-w",
    "--workspace",
    "--root",
    "workspace",
    type=click.Path(path_type=Path),
    default=".",
    callback=resolve_folder,
    help="The project folder.",
)
_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.group(invoke_without_command=True)
@click.pass_context
def command(ctx: click.Context) -> int:
    """Manage hooks: programs that run when the agent does something and can block it. Without a
    command, list them."""
    return 0 if ctx.invoked_subcommand else int(ctx.invoke(list_command))


@command.command("list")
@_HERE
@_JSON
def list_command(workspace: Path, as_json: bool) -> int:
    """List the hooks, where they come from and whether they run. Nothing is started."""
    found, trust = _surroundings(workspace)
    statuses = [(known, trust.status(known)) for known in found.hooks]
    if as_json:
        hooks = [_fields(known, status) for known, status in statuses]
        problems = [
            {"file": each.file, "where": each.where, "problem": each.text}
            for each in found.problems
        ]
        print(json.dumps({"hooks": hooks, "problems": problems, "trust": trust.problem or None}))
        return 0
    for problem in (*map(str, found.problems), *filter(None, [trust.problem])):
        print(visible_line(f"Problem: {problem}"))
    if not found.hooks:
        print(f"No hooks. Put yours into {_user_file(find_places(os.environ))}.")
        return 0
    print("\n".join(_aligned([_row(known, status) for known, status in statuses])))
    if waiting := [known.hook.name for known, status in statuses if not status.may_run]:
        print(visible_line(f"To review and trust one: {NAME} hooks trust {waiting[0]}"))
    return 0


@command.command("trust")
@click.argument("name")
@_HERE
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
def trust_command(name: str, workspace: Path, yes: bool) -> int:
    """Show a project's hook, or what changed in it, and allow it to run."""
    found, trust = _surroundings(workspace)
    named = [known for known in found.hooks if known.hook.name == name]
    if not named:
        raise SettingsError(f"No such hook: {name}. See {NAME} hooks list.")
    waiting = [known for known in named if not trust.accepts(known)]
    if not waiting:
        print(visible_line(f"{name} is already trusted."))
    for known in waiting:
        looked_at = trust.covered(known)
        print(visible_line(f"{known.hook.event} hook {name} of {known.file}:"))
        for line in trust.difference(known, looked_at):
            print(visible_line(f"{GAP}{line}"), flush=True)
        if not yes and not confirmed("Let it run?"):
            print("It is not trusted.")
            return 1
        trust.accept(known, looked_at, found.hooks)
        print(visible_line(f"{name} is trusted as it is now."))
    if any(known.source.is_of_project for known in named) and not _trusted(workspace):
        print(f"It runs only when the folder is trusted: {NAME} trust")
    return 0


@command.command("test")
@click.argument("event")
@click.option("--tool", help=f"The tool of a tool event; default {SAMPLE_TOOL}.")
@click.option(
    "--input", "given", metavar="JSON", help="The tool's input or the event's fields, as JSON."
)
@_HERE
@_JSON
def test_command(
    event: str, tool: str | None, given: str | None, workspace: Path, as_json: bool
) -> int:
    """Run the hooks of an event with sample input and print their input, output and decision.
    Nothing else is done."""
    import anyio

    if event not in list(HookEvent):
        raise SettingsError(f"No such event: {event}. Known: {', '.join(HookEvent)}.")
    said = _object(given)
    if tool and not HookEvent(event).is_about_tool:
        raise SettingsError(f"{event} is not a tool event; do not give --tool.")
    found, trust = _surroundings(workspace)
    settings = _settings(workspace)
    runner = HookRunner(workspace, env_allow=settings.hooks.env_allow)
    desk = HookDesk(found, trust, runner)

    async def run() -> Trial:
        name = tool or SAMPLE_TOOL
        mode = _governance_mode(workspace, settings)
        return await tried(desk, HookEvent(event), workspace, tool=name, said=said, mode=mode)

    trial = anyio.run(run)
    if as_json:
        print(json.dumps(trial.fields()))
        return 0
    for line in _told(trial):
        print(line)
    return 0


def _surroundings(workspace: Path) -> tuple[FoundHooks, HookTrust]:
    places = find_places(os.environ)
    settings = _settings(workspace).hooks
    found = find_hooks(
        HookPlaces(
            workspace=workspace,
            managed=MANAGED_FILE,
            user=_user_file(places),
            import_claude=settings.import_claude,
            managed_only=settings.managed_only,
        )
    )
    file = hook_trust_file(workspace, places)
    return found, HookTrust(file, workspace, workspace_trusted=_trusted(workspace))


def _settings(workspace: Path) -> Settings:
    places = find_places(os.environ)
    heard = workspace if _trusted(workspace) else None
    return find_settings(places.settings_file, heard, os.environ, {}).settings


def _governance_mode(workspace: Path, settings: Settings) -> str:
    """How a task that began here would be governed."""
    there = find_layout(workspace, workspace).layout is not None
    return latched(ModeWishes(user=GovernanceMode(settings.governance.mode)), there=there).mode


def _trusted(workspace: Path) -> bool:
    return TrustStore(find_places(os.environ).trust_file).trusts(workspace)


def _user_file(places: Places) -> Path:
    return places.config / HOOK_FILE


def _object(given: str | None) -> dict[str, Any] | None:
    if given is None:
        return None
    try:
        said = json.loads(sys.stdin.read() if given == "-" else given)
    except ValueError as error:
        raise SettingsError(f"--input is not JSON: {error}.") from error
    if not isinstance(said, dict):
        raise SettingsError('--input must be a JSON object, such as {"command": "ls"}.')
    return said


def _fields(known: KnownHook, status: TrustStatus) -> dict[str, Any]:
    hook = known.hook
    return {
        "name": hook.name,
        "source": str(known.source),
        "file": known.file,
        "event": str(hook.event),
        "matcher": hook.matcher.text,
        "if": hook.condition or None,
        "command": hook.line,
        "timeout": hook.timeout,
        "on_failure": str(hook.on_failure) or "default",
        "dialect": str(hook.dialect),
        "async": hook.background,
        "status": str(status),
    }


def _row(known: KnownHook, status: TrustStatus) -> list[str]:
    hook = known.hook
    matcher = hook.matcher.text or "*"
    return [hook.name, str(known.source), str(hook.event), matcher, str(status), hook.line]


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    shown = [[visible_line(cell) for cell in row] for row in rows]
    widths = [max(map(cells_of, column)) for column in zip(*shown, strict=True)]
    widths[-1] = 0
    return [
        GAP.join(
            cell + " " * (width - cells_of(cell)) for cell, width in zip(row, widths, strict=True)
        )
        for row in shown
    ]


def _told(trial: Trial) -> list[str]:
    lines = [line for each in trial.runs for line in _told_of_run(each)]
    if not trial.runs:
        lines.append("No hook was run.")
    return [*lines, *_told_of_verdict(trial.verdict)]


def _told_of_run(overheard: Overheard) -> list[str]:
    run, known = overheard.run, overheard.known
    ended = f"exit status {run.status}" if run.status is not None else "no exit status"
    late = ", timed out" if run.timed_out else ""
    return [
        visible_line(f"{known.hook.name} ({known.file}): {known.hook.line}"),
        *_quoted("input", overheard.document.decode("ascii")),
        *_quoted("stdout", run.stdout),
        *_quoted("stderr", run.stderr),
        *_quoted("trouble", run.trouble),
        f"{GAP}{ended} after {run.seconds:.2f} s{late}",
        *(f"{GAP}{note}" for note in overheard.notes),
    ]


def _told_of_verdict(verdict: HookVerdict) -> list[str]:
    code = f" ({verdict.code})" if verdict.code else ""
    reason = f": {verdict.reason}" if verdict.reason else ""
    updated = "" if verdict.updated_input is None else json.dumps(verdict.updated_input)
    return [
        visible_line(f"verdict: {verdict.decision}{code}{reason}"),
        *_quoted("new input", updated),
        *_quoted("for the model", verdict.context),
        *_quoted("new output", verdict.new_output or ""),
        *(visible_line(f"{GAP}for you: {each}") for each in verdict.system_messages),
        *(visible_line(f"{GAP}warning: {each}") for each in verdict.warnings),
        *(visible_line(f"{GAP}note: {each}") for each in verdict.notes),
    ]


def _quoted(name: str, text: str) -> list[str]:
    if not text.strip():
        return []
    cut = text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]} [cut]"
    return [f"{GAP}{name}: {line}" for line in harmless(cut).strip().splitlines()]
