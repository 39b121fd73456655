"""`rookery hooks`: list, trust and try the user's hooks."""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click
from msgspec import Struct, to_builtins
from msgspec.structs import replace

from rookery import NAME
from rookery.cli.command_line import json_option
from rookery.core.settings import Settings
from rookery.core.text.terminal_text import aligned, harmless, visible_line
from rookery.core.tool_traits import traits_of
from rookery.errors import SettingsError
from rookery.governance.cli.common import root_option
from rookery.governance.external_hooks.hook_answers import HookRun, HookVerdict
from rookery.governance.external_hooks.hook_calls import Situation, ToolResponse, sample_call
from rookery.governance.external_hooks.hook_config import HookEvent
from rookery.governance.external_hooks.hook_files import (
    HOOK_FILE,
    FoundHooks,
    KnownHook,
    TrustStatus,
    find_hooks,
    hook_places,
)
from rookery.governance.external_hooks.hook_runner import HookRunner
from rookery.governance.external_hooks.hook_runs import ExternalHooks
from rookery.governance.external_hooks.hook_trust import HookTrust
from rookery.governance.layout import find_layout, hook_trust_file, mode_of_task
from rookery.permissions.trust import TrustStore
from rookery.platform.user_folders import find_places
from rookery.storage.cli.session_listing import GAP, confirmed
from rookery.storage.settings_files import find_settings

EXITS_WITH_1 = (
    "Exit status 1 is a failure and blocks nothing. A hook that wants to block exits with 2."
)
SAMPLE_TOOL = "write_to_file"
SAMPLE_ARGUMENTS = {
    "command": "true",
    "path": "example.txt",
    "file_path": "example.txt",
    "content": "example\n",
}
SAMPLE_FIELDS: dict[HookEvent, dict[str, Any]] = {
    HookEvent.SESSION_START: {"source": "startup"},
    HookEvent.USER_PROMPT_SUBMIT: {"prompt": "This is an example."},
    HookEvent.STOP: {"last_assistant_message": "Done."},
    HookEvent.SUBAGENT_STOP: {"last_assistant_message": "Done."},
    HookEvent.PRE_COMPACT: {"trigger": "manual"},
    HookEvent.NOTIFICATION: {"message": "This is an example.", "type": "example"},
    HookEvent.SESSION_END: {"reason": "other"},
    HookEvent.INTENT_SELECTED: {"intent_id": "INT-001", "reason": "example"},
    HookEvent.INTENT_INVALIDATED: {"intent_id": "INT-001", "reason": "example"},
}
_CALL_ID = "example"


class RecordedRun(Struct, frozen=True, kw_only=True):
    known: KnownHook
    document: bytes
    run: HookRun

    @property
    def notes(self) -> tuple[str, ...]:
        return (EXITS_WITH_1,) if self.run.status == 1 else ()

    def fields(self) -> dict[str, Any]:
        return {
            "hook": self.known.hook.name,
            "source": str(self.known.source),
            "command": self.known.hook.line,
            "input": json.loads(self.document),
            "exit_status": self.run.status,
            "stdout": self.run.stdout,
            "stderr": self.run.stderr,
            "timed_out": self.run.timed_out,
            "trouble": self.run.trouble or None,
            "seconds": round(self.run.seconds, 3),
            "notes": list(self.notes),
        }


async def run_trial(
    found: FoundHooks,
    trust: HookTrust,
    event: HookEvent,
    workspace: Path,
    *,
    tool: str = SAMPLE_TOOL,
    fields: Mapping[str, Any] | None = None,
    mode: str = "off",
    env_allow: Sequence[str] = (),
) -> tuple[list[RecordedRun], HookVerdict]:
    """Run the hooks of an event with sample input. `fields` is the tool's input or the event's
    fields; `mode` is the governance mode."""
    situation = Situation(session_id="hooks-test", root=str(workspace), mode=mode)
    recorded: list[RecordedRun] = []

    def record(known: KnownHook, document: bytes, run: HookRun) -> None:
        recorded.append(RecordedRun(known=known, document=document, run=run))

    hooks = ExternalHooks(
        found.hooks,
        trust,
        HookRunner(workspace, env_allow=env_allow),
        situation=lambda: situation,
        notify=lambda line: None,
        interactive=True,
        on_run=record,
    )
    verdict = await _verdict(hooks, event, tool=tool, fields=fields)
    return sorted(recorded, key=lambda each: found.hooks.index(each.known)), verdict


async def _verdict(
    hooks: ExternalHooks, event: HookEvent, *, tool: str, fields: Mapping[str, Any] | None
) -> HookVerdict:
    if not event.is_about_tool:
        return await hooks.event(event, SAMPLE_FIELDS[event] if fields is None else fields)
    call = sample_call(tool, fields or {}, _CALL_ID)
    if fields is None:
        accepted = traits_of(call.name).arguments
        sample = {name: each for name, each in SAMPLE_ARGUMENTS.items() if name in accepted}
        call = replace(call, arguments=sample)
    failed = event is HookEvent.POST_TOOL_USE_FAILURE
    return await hooks.for_call(
        event,
        call,
        ask="This is an example." if event is HookEvent.PERMISSION_REQUEST else "",
        response=ToolResponse(text="Example.", failed=failed) if event.is_after_tool else None,
    )


MOST_SHOWN = 2_000
"""Characters shown of each stream."""


@click.group(invoke_without_command=True)
@click.pass_context
def command(ctx: click.Context) -> int:
    """Manage hooks: programs that run when the agent does something and can block it. Without a
    command, list them."""
    return 0 if ctx.invoked_subcommand else int(ctx.invoke(list_command))


@command.command("list")
@root_option
@json_option
def list_command(folder: Path, as_json: bool) -> int:
    """List the hooks, where they come from and whether they run. Nothing is started."""
    found, trust = _hooks_and_trust(folder)
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
        print(f"No hooks. Put yours into {find_places(os.environ).config / HOOK_FILE}.")
        return 0
    print("\n".join(aligned([_row(*each) for each in statuses], shown=visible_line)))
    if untrusted := [known.hook.name for known, status in statuses if not status.may_run]:
        print(visible_line(f"To review and trust one: {NAME} hooks trust {untrusted[0]}"))
    return 0


@command.command("trust")
@click.argument("name")
@root_option
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
def trust_command(name: str, folder: Path, yes: bool) -> int:
    """Show a project's hook, or what changed in it, and allow it to run."""
    found, trust = _hooks_and_trust(folder)
    named = [known for known in found.hooks if known.hook.name == name]
    if not named:
        raise SettingsError(f"No such hook: {name}. See {NAME} hooks list.")
    untrusted = [known for known in named if not trust.accepts(known)]
    if not untrusted:
        print(visible_line(f"{name} is already trusted."))
    for known in untrusted:
        covered = trust.covered(known)
        print(visible_line(f"{known.hook.event} hook {name} of {known.file}:"))
        for line in trust.difference(known, covered):
            print(visible_line(f"{GAP}{line}"), flush=True)
        if not yes and not confirmed("Let it run?"):
            print("It is not trusted.")
            return 1
        trust.accept(known, covered, found.hooks)
        print(visible_line(f"{name} is trusted as it is now."))
    if any(known.source.is_of_project for known in named) and not _trusted(folder):
        print(f"It runs only when the folder is trusted: {NAME} trust")
    return 0


@command.command("test")
@click.argument("event")
@click.option("--tool", help=f"The tool of a tool event; default {SAMPLE_TOOL}.")
@click.option(
    "--input", "given", metavar="JSON", help="The tool's input or the event's fields, as JSON."
)
@root_option
@json_option
def test_command(
    event: str, tool: str | None, given: str | None, folder: Path, as_json: bool
) -> int:
    """Run the hooks of an event with sample input and print their input, output and decision.
    Nothing else is done."""
    import anyio

    if event not in list(HookEvent):
        raise SettingsError(f"No such event: {event}. Known: {', '.join(HookEvent)}.")
    fields = _parse_input(given)
    if tool and not HookEvent(event).is_about_tool:
        raise SettingsError(f"{event} is not a tool event; do not give --tool.")
    found, trust = _hooks_and_trust(folder)
    settings = _settings(folder)
    governed = find_layout(folder, folder).layout is not None
    trial = partial(
        run_trial,
        tool=tool or SAMPLE_TOOL,
        fields=fields,
        mode=mode_of_task(settings.governance.mode, has_intents=governed),
        env_allow=settings.hooks.env_allow,
    )
    runs, verdict = anyio.run(trial, found, trust, HookEvent(event), folder)
    if as_json:
        decided = {**to_builtins(verdict), "code": verdict.code or None}
        print(json.dumps({"runs": [each.fields() for each in runs], "verdict": decided}))
        return 0
    lines = [line for each in runs for line in _run_lines(each)] or ["No hook was run."]
    print(*lines, *_verdict_lines(verdict), sep="\n")
    return 0


def _hooks_and_trust(workspace: Path) -> tuple[FoundHooks, HookTrust]:
    places = find_places(os.environ)
    found = find_hooks(hook_places(workspace, places, _settings(workspace)))
    file = hook_trust_file(workspace, places)
    return found, HookTrust(file, workspace, workspace_trusted=_trusted(workspace))


def _settings(workspace: Path) -> Settings:
    places = find_places(os.environ)
    project = workspace if _trusted(workspace) else None
    return find_settings(places.settings_file, project, os.environ, {}).settings


def _trusted(workspace: Path) -> bool:
    return TrustStore(find_places(os.environ).trust_file).trusts(workspace)


def _parse_input(given: str | None) -> dict[str, Any] | None:
    if given is None:
        return None
    try:
        fields = json.loads(sys.stdin.read() if given == "-" else given)
    except ValueError as error:
        raise SettingsError(f"--input is not JSON: {error}.") from error
    if not isinstance(fields, dict):
        raise SettingsError('--input must be a JSON object, such as {"command": "ls"}.')
    return fields


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


def _run_lines(recorded: RecordedRun) -> list[str]:
    run, known = recorded.run, recorded.known
    ended = f"exit status {run.status}" if run.status is not None else "no exit status"
    late = ", timed out" if run.timed_out else ""
    return [
        visible_line(f"{known.hook.name} ({known.file}): {known.hook.line}"),
        *_quoted("input", recorded.document.decode("ascii")),
        *_quoted("stdout", run.stdout),
        *_quoted("stderr", run.stderr),
        *_quoted("trouble", run.trouble),
        f"{GAP}{ended} after {run.seconds:.2f} s{late}",
        *(f"{GAP}{note}" for note in recorded.notes),
    ]


def _verdict_lines(verdict: HookVerdict) -> list[str]:
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
