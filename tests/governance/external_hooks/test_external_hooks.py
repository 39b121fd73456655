"""Unchanged scripts written for the common hook contract, run on real events."""

import json
import textwrap
from collections.abc import Awaitable, Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import anyio
import pytest

from rookery.core.blocks import ToolCall
from rookery.governance.external_hooks.hook_answers import HookDecision, HookVerdict
from rookery.governance.external_hooks.hook_calls import Situation, ToolResponse
from rookery.governance.external_hooks.hook_config import HookEvent
from rookery.governance.external_hooks.hook_files import HookPlaces, find_hooks
from rookery.governance.external_hooks.hook_runner import HookRunner
from rookery.governance.external_hooks.hook_runs import (
    LONG_CONTEXTS,
    MOST_HOLDS,
    Commands,
    ExternalHooks,
)
from rookery.governance.external_hooks.hook_trust import HookTrust

pytestmark = pytest.mark.anyio

SECRET_SCANNER = """\
#!/usr/bin/env python3
import json
import re
import sys

data = json.load(sys.stdin)
tool_input = data.get("tool_input", {})
text = tool_input.get("content") or tool_input.get("new_string") or ""
if re.search(r"AKIA[0-9A-Z]{16}", text):
    print(f"Secret found in {tool_input.get('file_path')}", file=sys.stderr)
    sys.exit(2)
sys.exit(0)
"""
FORMATTER = """\
f=$(sed -E 's/.*"tool_input": *[{]"file_path": *"([^"]*)".*/\\1/')
case "$f" in *.txt) printf '%s formatted\\n' "$1" >> "$f";; esac
"""
REWRITER = """\
shown='s|.*"tool_input": *([{].*[}]), "tool_use_id".*|\\1|'
sed -E "$shown" | sed -E 's|("file_path": *")[^"]*|\\1'"$PWD/$1|" |
{
  read -r new
  printf '{"hookSpecificOutput": {"hookEventName": "PreToolUse", "updatedInput": %s}}' "$new"
}
"""


class Bench:
    """A workspace with scripts and user hooks, and the messages shown to the user."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "work"
        self.root.mkdir()
        self.config = folder / "hooks.json"
        self.reported: list[str] = []
        self.intent = ""
        self.state: Path | None = None

    def script(self, name: str, text: str) -> str:
        path = self.root / "tools" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(textwrap.dedent(text), encoding="utf-8")
        interpreter = "python3 -SE" if name.endswith(".py") else "sh"
        return f'{interpreter} "$CLAUDE_PROJECT_DIR"/tools/{name}'

    def hooks(
        self,
        *entries: dict[str, Any] | str,
        event: str = "PreToolUse",
        interactive: bool = True,
        ofproject: bool = False,
        background: Callable[[Callable[[], Awaitable[None]]], None] | None = None,
        **group: Any,
    ) -> ExternalHooks:
        listed = [each if isinstance(each, dict) else {"command": each} for each in entries]
        file = self.root / ".orchestration" / "hooks.json" if ofproject else self.config
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps({"hooks": {event: [{"hooks": listed, **group}]}}))
        return self.open(interactive=interactive, background=background)

    def open(
        self,
        *,
        interactive: bool = True,
        background: Callable[[Callable[[], Awaitable[None]]], None] | None = None,
    ) -> ExternalHooks:
        found = find_hooks(HookPlaces(workspace=self.root, user=self.config))
        assert found.problems == ()
        return ExternalHooks(
            found.hooks,
            self.trust,
            HookRunner(self.root),
            situation=self.situation,
            notify=self.reported.append,
            interactive=interactive,
            background=background,
            state=self.state,
        )

    @property
    def trust(self) -> HookTrust:
        file = self.config.with_name("hook_trust.json")
        return HookTrust(file, self.root, workspace_trusted=True)

    def situation(self) -> Situation:
        root = str(self.root)
        return Situation(session_id="t1", root=root, intent_id=self.intent)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def write(path: str, content: str = "x") -> ToolCall:
    return ToolCall(id="c1", name="write_to_file", arguments={"path": path, "content": content})


def command(line: str) -> ToolCall:
    return ToolCall(id="c1", name="execute_command", arguments={"command": line})


async def before(hooks: ExternalHooks, call: ToolCall, commands: Commands = None) -> HookVerdict:
    return await hooks.for_call(HookEvent.PRE_TOOL_USE, call, commands)


async def after(hooks: ExternalHooks, call: ToolCall, response: ToolResponse) -> HookVerdict:
    failed = response.failed
    event = HookEvent.POST_TOOL_USE_FAILURE if failed else HookEvent.POST_TOOL_USE
    return await hooks.for_call(event, call, response=response)


def patch(*files: tuple[str, str]) -> ToolCall:
    added = "\n".join(f"*** Add File: {name}\n+{text}" for name, text in files)
    text = f"*** Begin Patch\n{added}\n*** End Patch"
    return ToolCall(id="c1", name="apply_patch", arguments={"patch": text})


KEY = "AKIA" + "B" * 16


async def test_one_refused_file_refuses_the_whole_patch(bench: Bench):
    hooks = bench.hooks(bench.script("scan.py", SECRET_SCANNER), matcher="Edit|Write")
    verdict = await before(hooks, patch(("a.txt", "fine"), ("b.txt", KEY)))
    assert verdict.decision is HookDecision.DENY
    assert verdict.reason == f"Secret found in {bench.root}/b.txt"


async def test_a_script_that_exits_1_warns_or_blocks(bench: Bench):
    hooks = bench.hooks("echo oops >&2; exit 1")
    verdict = await before(hooks, write("a.txt"))
    assert verdict.decision is HookDecision.NONE
    warning = "The hook PreToolUse-1 failed with exit status 1 (oops)."
    assert bench.reported == [warning]
    await before(hooks, write("a.txt"))
    assert bench.reported == [warning]
    hooks = bench.hooks({"command": "exit 1", "on_failure": "block"})
    verdict = await before(hooks, write("a.txt"))
    assert (verdict.decision, verdict.code) == (HookDecision.DENY, "HOOK-002")


async def test_a_refusal_longer_than_the_kept_output_is_a_refusal(bench: Bench):
    reason = "head -c 2000000 /dev/zero | tr '\\0' x"
    long = f"""printf '{{"decision": "block", "reason": "'; {reason}; echo '"}}'"""
    verdict = await before(bench.hooks(long), write("a.txt"))
    assert (verdict.decision, verdict.code) == (HookDecision.DENY, "HOOK-002")
    assert "longer than can be read" in verdict.reason


async def test_an_answer_that_is_not_utf_8_is_a_refusal(bench: Bench):
    for encoding in ("utf-16", "utf-16-le", "utf-16-be", "latin-1"):
        answer = '{"decision": "block", "reason": "\xe9"}'.encode(encoding)
        (bench.root / "answer").write_bytes(answer)
        verdict = await before(bench.hooks("cat answer"), write("a.txt"))
        assert (verdict.decision, verdict.code) == (HookDecision.DENY, "HOOK-002"), encoding
    text = bench.hooks("yes é | head -c 1048577")
    assert await before(text, write("a.txt")) == HookVerdict()


@pytest.mark.parametrize("script", ["exit 0", "head -c 9000000 /dev/zero", "yes >&2 & kill $!"])
async def test_a_hook_that_reads_nothing_or_writes_much_has_no_opinion(bench: Bench, script: str):
    verdict = await before(bench.hooks(script), write("a.txt", "x" * 500_000))
    assert verdict == HookVerdict()


async def test_a_rewritten_path_comes_back_as_arguments_to_be_judged_anew(bench: Bench):
    hooks = bench.hooks(f"{bench.script('move.sh', REWRITER)} src/api/user.py")
    verdict = await before(hooks, write("a.txt", "text"))
    assert verdict.decision is HookDecision.NONE
    assert verdict.updated_input == {"path": "src/api/user.py", "content": "text"}


async def test_of_two_that_rewrite_the_last_in_the_file_wins_however_slow_the_first(
    bench: Bench,
):
    move = bench.script("move.sh", REWRITER)
    hooks = bench.hooks(f"sleep 0.3; {move} slow", f"{move} quick")
    verdict = await before(hooks, write("a.txt"))
    assert verdict.updated_input == {"path": "quick", "content": "x"}
    assert "PreToolUse-1, PreToolUse-2" in verdict.notes[0]


async def test_rewriting_one_of_several_files_is_refused(bench: Bench):
    hooks = bench.hooks(f"{bench.script('move.sh', REWRITER)} b.txt")
    verdict = await before(hooks, patch(("a.txt", "x"), ("c.txt", "x")))
    assert (verdict.decision, verdict.code) == (HookDecision.DENY, "HOOK-002")
    assert "touches several" in verdict.reason


async def test_a_hook_that_stops_the_task_overrides_its_other_answers(bench: Bench):
    own = {"hookEventName": "PreToolUse", "updatedInput": {"file_path": "x"}}
    answer = {"continue": False, "stopReason": "enough", "hookSpecificOutput": own}
    hooks = bench.hooks(f"echo '{json.dumps(answer)}'")
    verdict = await before(hooks, patch(("a.txt", "x"), ("c.txt", "x")))
    assert (verdict.decision, verdict.reason) == (HookDecision.HALT, "enough")


async def test_two_formatters_run_one_after_the_other(bench: Bench):
    script = bench.script("format.sh", FORMATTER)
    hooks = bench.hooks(f"sleep 0.3; {script} one", f"{script} two", event="PostToolUse")
    (bench.root / "a.txt").write_text("")
    verdict = await after(hooks, write("a.txt"), ToolResponse(text="Created a.txt."))
    assert verdict == HookVerdict()
    assert (bench.root / "a.txt").read_text() == "one formatted\ntwo formatted\n"


async def test_a_failed_tool_is_a_separate_event(bench: Bench):
    hooks = bench.hooks("cat > event.json; echo why >&2; exit 2", event="PostToolUseFailure")
    failed = ToolResponse(text="It broke.", failed=True, duration_ms=7)
    assert (await after(hooks, write("a"), failed)).context.endswith("] why")
    received = json.loads((bench.root / "event.json").read_text())
    assert (received["error"], received["duration_ms"]) == ("It broke.", 7)
    assert await after(hooks, write("a"), ToolResponse(text="Done.")) == HookVerdict()


async def test_the_input_names_folder_session_and_call(bench: Bench):
    bench.intent = "INT-001"
    hooks = bench.hooks("cat > event.json")
    await before(hooks, write("a.txt", "text"))
    assert json.loads((bench.root / "event.json").read_text()) == {
        "session_id": "t1",
        "transcript_path": None,
        "cwd": str(bench.root),
        "hook_event_name": "PreToolUse",
        "permission_mode": "default",
        "model": "",
        "turn_id": "",
        "tool_name": "Write",
        "tool_input": {"file_path": f"{bench.root}/a.txt", "content": "text"},
        "tool_use_id": "c1",
        "native_tool_name": "write_to_file",
        "native_tool_input": {"path": "a.txt", "content": "text"},
        "governance": {
            "mode": "off",
            "intent_id": "INT-001",
            "intent_digest": None,
        },
    }


async def test_in_the_native_dialect_the_call_is_shown_as_it_is(bench: Bench):
    hooks = bench.hooks({"command": "cat > event.json", "dialect": "native"}, matcher="Edit")
    made = patch(("a.txt", "x"), ("b.txt", "x"))
    await before(hooks, made)
    received = json.loads((bench.root / "event.json").read_text())
    assert (received["tool_name"], received["tool_input"]) == ("apply_patch", dict(made.arguments))


async def test_identical_commands_run_once(bench: Bench):
    hooks = bench.hooks("echo run >> runs", "echo run >> runs", {"command": "echo run >> runs"})
    await before(hooks, write("a.txt"))
    assert (bench.root / "runs").read_text() == "run\n"


@pytest.mark.parametrize(
    ("rule", "made", "runs"),
    [
        ("Bash(rm *)", command("rm x"), True),
        ("Bash(rm *)", command("ls x"), False),
        ("Edit(src/**)", patch(("src/a", "x")), True),
        ("Edit(src/**)", patch(("docs/a", "x")), False),
    ],
)
async def test_a_condition_says_which_calls_a_hook_is_for(
    bench: Bench, rule: str, made: ToolCall, runs: bool
):
    hooks = bench.hooks({"command": "exit 2", "if": rule})
    words = tuple(str(made.arguments.get("command", "")).split())
    verdict = await before(hooks, made, (words,))
    assert (verdict.decision is HookDecision.DENY) is runs


async def test_a_condition_is_met_if_the_command_cannot_be_parsed(bench: Bench):
    hooks = bench.hooks({"command": "exit 2", "if": "Bash(rm *)"})
    assert (await before(hooks, command("eval $x"))).decision is HookDecision.DENY


@pytest.mark.parametrize(
    ("interactive", "decision"), [(True, HookDecision.ASK), (False, HookDecision.DENY)]
)
async def test_defer_means_ask_or_deny_when_not_interactive(
    bench: Bench, interactive: bool, decision: HookDecision
):
    own = {"hookEventName": "PreToolUse", "permissionDecision": "defer"}
    answer = json.dumps({"hookSpecificOutput": own})
    hooks = bench.hooks(f"echo '{answer}'", interactive=interactive)
    assert (await before(hooks, write("a"))).decision is decision


async def test_a_background_hook_decides_nothing(bench: Bench):
    async with anyio.create_task_group() as group:
        hooks = bench.hooks(
            {"command": "sleep 0.2; touch ran; exit 2", "async": True},
            background=lambda work: group.start_soon(work),
        )
        assert await before(hooks, write("a.txt")) == HookVerdict()
        assert not (bench.root / "ran").exists()
    assert (bench.root / "ran").exists()


async def test_a_hook_of_the_project_runs_once_it_was_looked_at(bench: Bench):
    script = bench.script("guard.sh", "exit 2")
    hooks = bench.hooks({"command": script, "name": "guard"}, ofproject=True)
    assert (await before(hooks, write("a"))).decision is HookDecision.NONE
    assert bench.reported == ["The hook guard was not run: you have not trusted it yet."]
    (known,) = find_hooks(HookPlaces(workspace=bench.root)).hooks
    bench.trust.accept(known, bench.trust.covered(known))
    assert (await before(hooks, write("a"))).code == "HOOK-001"
    bench.script("guard.sh", "exit 0")
    assert (await before(hooks, write("a"))).decision is HookDecision.NONE
    assert "it changed since you trusted it (file tools/guard.sh" in bench.reported[-1]


async def test_a_guard_that_is_deleted_in_mid_task_stays(bench: Bench):
    hooks = bench.hooks("exit 2")
    bench.config.unlink()
    assert (await before(hooks, write("a"))).decision is HookDecision.DENY


async def test_a_hook_can_keep_a_turn_open_at_most_eight_times(bench: Bench):
    script = bench.script(
        "hold.sh",
        """\
        #!/bin/sh
        grep -q '"stop_hook_active": true' && again=True || again=False
        echo "{\\"decision\\": \\"block\\", \\"reason\\": \\"$again\\"}"
        """,
    )
    hooks = bench.hooks(script, event="Stop")
    verdicts = [await hooks.event("Stop", {}) for _ in range(MOST_HOLDS + 2)]
    assert [each.decision for each in verdicts] == [
        *[HookDecision.DENY] * MOST_HOLDS,
        HookDecision.NONE,
        HookDecision.DENY,
    ]
    assert [each.reason for each in verdicts[:2]] == ["False", "True"]
    assert bench.reported == ["Hooks continued the turn 8 times in a row; it ends now."]


@pytest.mark.parametrize(
    ("event", "matcher", "fields", "received"),
    [
        ("SessionStart", "startup", {"source": "startup"}, True),
        ("SessionStart", "resume", {"source": "startup"}, False),
        ("PreCompact", "auto", {"trigger": "manual"}, False),
        ("Notification", "idle", {"type": "idle", "message": "x"}, True),
        ("SessionEnd", "logout", {"reason": "other"}, False),
        ("UserPromptSubmit", "anything", {"prompt": "x"}, True),
        ("IntentSelected", "", {"intent_id": "INT-001"}, True),
    ],
)
async def test_each_event_has_its_own_matchers(
    bench: Bench, event: str, matcher: str, fields: dict[str, Any], received: bool
):
    hooks = bench.hooks("cat > event.json", event=event, matcher=matcher)
    assert await hooks.event(event, fields) == HookVerdict()
    assert (bench.root / "event.json").exists() is received
    if received:
        reported = json.loads((bench.root / "event.json").read_text())
        assert {**fields, "hook_event_name": event}.items() <= reported.items()


@pytest.mark.parametrize("kept", [True, False])
async def test_a_long_context_is_cut_and_the_whole_is_kept(bench: Bench, kept: bool):
    bench.state = bench.root / ".state" if kept else None
    hooks = bench.hooks("head -c 30000 /dev/zero | tr '\\0' x", event="UserPromptSubmit")
    verdict = await hooks.event("UserPromptSubmit", {"prompt": "x"})
    head, _, note = verdict.context.partition("\n")
    assert head == f"[hook UserPromptSubmit-1] {'x' * 10_000}"
    assert note.startswith("[20000 more characters left out")
    if kept:
        (file,) = (bench.root / ".state" / LONG_CONTEXTS).iterdir()
        assert f"all of it is in {file}]" in note
        assert file.read_text() == "x" * 30_000


@pytest.mark.parametrize("link", ["folder", "file"])
async def test_a_long_context_is_not_written_through_a_link(bench: Bench, link: str):
    bench.state = bench.root / ".state"
    text = "x" * 30_000
    kept = bench.state / LONG_CONTEXTS / f"{sha256(text.encode()).hexdigest()[:16]}.txt"
    outside = bench.root.parent / "outside"
    outside.mkdir()
    place, target = (kept, outside / "rc") if link == "file" else (kept.parent, outside)
    place.parent.mkdir(parents=True)
    place.symlink_to(target)
    hooks = bench.hooks("head -c 30000 /dev/zero | tr '\\0' x", event="UserPromptSubmit")
    await hooks.event("UserPromptSubmit", {"prompt": "x"})
    assert not list(outside.iterdir())


async def test_a_permission_request_says_what_would_be_asked(bench: Bench):
    own = {"hookEventName": "PermissionRequest", "decision": {"behavior": "allow"}}
    answer = json.dumps({"hookSpecificOutput": own})
    hooks = bench.hooks(f"cat > event.json; echo '{answer}'", event="PermissionRequest")
    verdict = await hooks.for_call(HookEvent.PERMISSION_REQUEST, write("a"), ask="Create a?")
    assert verdict.decision is HookDecision.ALLOW
    assert json.loads((bench.root / "event.json").read_text())["ask"] == "Create a?"


async def test_without_hooks_nothing_is_worked_out(bench: Bench):
    def never_asks() -> Situation:
        raise AssertionError

    hooks = ExternalHooks(
        (),
        bench.trust,
        HookRunner(bench.root),
        situation=never_asks,
        notify=bench.reported.append,
        interactive=True,
    )
    assert await before(hooks, write("a")) == HookVerdict()
    assert await hooks.event("Stop", {}) == HookVerdict()
    assert not hooks.has_hooks_for(*HookEvent)
