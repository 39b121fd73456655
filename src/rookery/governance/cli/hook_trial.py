"""Hooks tried out on a sample of an event: what each was told, what it answered, what it means."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from rookery.core.tool_traits import traits_of
from rookery.governance.external_hooks.hook_answers import HookRun
from rookery.governance.external_hooks.hook_calls import Situation, ToolResponse, sample_call
from rookery.governance.external_hooks.hook_config import HookEvent
from rookery.governance.external_hooks.hook_files import KnownHook
from rookery.governance.external_hooks.hook_runner import HookDesk
from rookery.governance.external_hooks.hook_runs import ExternalHooks
from rookery.governance.external_hooks.hook_verdict import HookVerdict

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


class Overheard(Struct, frozen=True, kw_only=True):
    """One run of a hook."""

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


class Trial(Struct, frozen=True, kw_only=True):
    runs: Sequence[Overheard]
    verdict: HookVerdict

    def fields(self) -> dict[str, Any]:
        verdict = self.verdict
        return {
            "runs": [each.fields() for each in self.runs],
            "verdict": {
                "decision": str(verdict.decision),
                "code": verdict.code or None,
                "reason": verdict.reason,
                "updated_input": verdict.updated_input,
                "context": verdict.context,
                "system_messages": list(verdict.system_messages),
                "warnings": list(verdict.warnings),
                "notes": list(verdict.notes),
                "new_output": verdict.new_output,
            },
        }


class _ListeningDesk:
    """A desk that remembers what was said at it."""

    def __init__(self, desk: HookDesk) -> None:
        self._desk = desk
        self.hooks = desk.hooks
        self.overheard: list[Overheard] = []

    async def why_not(self, known: KnownHook) -> str:
        return await self._desk.why_not(known)

    async def run(
        self, known: KnownHook, document: bytes, *, task_id: str, intent_id: str
    ) -> HookRun:
        run = await self._desk.run(known, document, task_id=task_id, intent_id=intent_id)
        self.overheard.append(Overheard(known=known, document=document, run=run))
        return run

    def keep(self, text: str) -> str:
        return self._desk.keep(text)


async def tried(
    desk: HookDesk,
    event: HookEvent,
    workspace: Path,
    *,
    tool: str,
    said: Mapping[str, Any] | None,
    mode: str,
) -> Trial:
    """`said` is the input of the tool, or the fields of an event that is not about one; `mode` is
    that of governance."""
    listening = _ListeningDesk(desk)
    folder = str(workspace)
    situation = Situation(session_id="hooks-test", cwd=folder, root=folder, mode=mode)
    hooks = ExternalHooks(
        listening, situation=lambda: situation, tell=lambda line: None, interactive=True
    )
    verdict = await _verdict(hooks, event, tool=tool, said=said)
    order = list(desk.hooks)
    runs = sorted(listening.overheard, key=lambda each: order.index(each.known))
    return Trial(runs=runs, verdict=verdict)


async def _verdict(
    hooks: ExternalHooks, event: HookEvent, *, tool: str, said: Mapping[str, Any] | None
) -> HookVerdict:
    if not event.is_about_tool:
        return await hooks.event(event, SAMPLE_FIELDS[event] if said is None else said)
    call = sample_call(tool, said or {}, _CALL_ID)
    if said is None:
        taken = traits_of(call.name).arguments
        sample = {name: each for name, each in SAMPLE_ARGUMENTS.items() if name in taken}
        call = replace(call, arguments=sample)
    match event:
        case HookEvent.PRE_TOOL_USE:
            return await hooks.before_tool(call)
        case HookEvent.PERMISSION_REQUEST:
            return await hooks.permission_request(call, "This is an example.")
        case _:
            failed = event is HookEvent.POST_TOOL_USE_FAILURE
            return await hooks.after_tool(call, ToolResponse(text="Example.", failed=failed))
