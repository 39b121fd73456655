"""The actions that each level allows without asking, and those it denies."""

from pathlib import Path

import pytest

from rookery.core.asks import Decision
from rookery.core.blocks import ToolCall
from rookery.core.facts import AgentTask, Change
from rookery.core.modes import Level
from rookery.engine.ports.actions import Action, Judgement, Pipeline, PlainCommand
from rookery.engine.ports.workspace import Place
from rookery.permissions.approval import EMPTY, AllowRules, ApprovalGate
from support.actions import never

pytestmark = pytest.mark.anyio
NONE, ALLOW, ASK, DENY = Decision.NONE, Decision.ALLOW, Decision.ASK, Decision.DENY
LISTS = (Pipeline((PlainCommand(("/bin/ls",)),)),)


def act(**more: object) -> Action:
    return Action(title="Act", perform=never, **more)  # type: ignore[arg-type]


ACTIONS = {
    "read": act(reads=["a"]),
    "edit": act(changes=[Change(path="a", before="x", after="y")]),
    "delete": act(changes=[Change(path="a", before="x", after="")]),
    "empty": act(changes=[Change(path="a", before="x", after=EMPTY)]),
    "run": act(command="make"),
    "list": act(command="ls", judgement=Judgement(plain=LISTS)),
    "server": act(external="mcp one write"),
    "page": act(external="browser https://x.org", spares_files=True),
    "subtask": act(child="t2"),
    "worker": act(
        agents=[AgentTask(task_id="t3", name="w", text="Do.", mode="code", worktree="w")]
    ),
}
EXPECTED = {
    Level.PLAN: (ALLOW, DENY, DENY, DENY, DENY, NONE, DENY, NONE, NONE, DENY),
    Level.ASK: (ALLOW, NONE, NONE, ASK, NONE, NONE, NONE, NONE, NONE, NONE),
    Level.EDITS: (ALLOW, ALLOW, NONE, ASK, NONE, NONE, NONE, NONE, NONE, NONE),
    Level.SANDBOXED: (ALLOW, ALLOW, NONE, ASK, ALLOW, ALLOW, NONE, NONE, NONE, NONE),
    Level.AUTO: (ALLOW, ALLOW, ALLOW, ASK, ALLOW, ALLOW, ALLOW, ALLOW, ALLOW, ALLOW),
}


def gate(folder: Path, level: Level, *, offline: bool = True) -> ApprovalGate:
    rules = AllowRules(folder / "rules.json", folder, place=Place, now=lambda: 0)
    return ApprovalGate(rules, level=lambda: level, can_be_offline=lambda: offline)


@pytest.mark.parametrize("level", Level)
async def test_each_level_allows_what_it_says(level: Level, tmp_path: Path):
    hook, call = gate(tmp_path, level), ToolCall(id="c", name="any")
    found = [await hook.before(call, action) for action in ACTIONS.values()]
    assert dict(zip(ACTIONS, [each.decision for each in found], strict=True)) == dict(
        zip(ACTIONS, EXPECTED[level], strict=True)
    )
    assert [each.offline for each in found].count(True) == (2 if level is Level.SANDBOXED else 0)


async def test_without_a_sandbox_the_level_sandboxed_asks_about_commands(tmp_path: Path):
    hook = gate(tmp_path, Level.SANDBOXED, offline=False)
    ruling = await hook.before(ToolCall(id="c", name="any"), ACTIONS["run"])
    assert ruling.decision is NONE
