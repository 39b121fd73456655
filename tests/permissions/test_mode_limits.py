"""What a mode does not have, no tool has in it."""

import pytest

from rookery.core.asks import Decision, Ruling
from rookery.core.blocks import ToolCall
from rookery.core.facts import AgentTask, Change
from rookery.core.modes import BUILT_IN, Group, Mode, find_mode
from rookery.engine.ports.actions import Action, Outcome
from rookery.errors import BadArguments
from rookery.permissions.restrictions import ModeLimits
from support.actions import never
from support.each_row import each_row

pytestmark = pytest.mark.anyio

GROUPS = {
    "read_file": "read",
    "apply_patch": "edit",
    "execute_command": "command",
    "mcp--web--fetch": "mcp",
    "generate_image": "always",
    "attempt_completion": "always",
    "new_task": "modes",
}


def limits(
    slug: str, *, automatic: bool = False, approved: bool = False, chosen: str = ""
) -> ModeLimits:
    mode = find_mode(BUILT_IN, slug)
    assert mode
    return ModeLimits(
        lambda: mode,
        GROUPS.__getitem__,
        automatic=lambda: automatic,
        approved=approved,
        chosen=chosen,
    )


def action(**more: object) -> Action:
    return Action(title="Act", perform=never, **more)  # type: ignore[arg-type]


def changes(*paths: str) -> list[Change]:
    return [Change(path=path, before="a", after="b") for path in paths]


ALLOWED = [
    ("ask", "read_file", action(reads=["a"])),
    ("code", "execute_command", action(command="ls")),
    ("code", "apply_patch", action(changes=changes("a.py"))),
    ("architect", "apply_patch", action(changes=changes("a.md", "b/c.md"))),
    ("ask", "mcp--web--fetch", action(external="web")),
    ("orchestrator", "attempt_completion", action(external="web a.example", spares_files=True)),
    ("orchestrator", "attempt_completion", action()),
    ("orchestrator", "new_task", action()),
]
FORBIDDEN = [
    ("ask", "apply_patch", action(changes=changes("a.md"))),
    ("ask", "execute_command", action(command="ls")),
    ("orchestrator", "read_file", action(reads=["a"])),
    ("orchestrator", "mcp--web--fetch", action(external="web")),
    ("orchestrator", "attempt_completion", action(external="web")),
    ("architect", "apply_patch", action(changes=changes("a.md", "a.py"))),
    ("architect", "apply_patch", action(changes=[Change(path="a.md", before="x"), *changes("a")])),
    ("architect", "generate_image", action(changes=changes("a.png"))),
    ("ask", "mcp--web--fetch", action(external="web", changes=changes("a.md"))),
]


def named(row: object) -> str:
    return row if isinstance(row, str) else ""


@pytest.mark.parametrize(("mode", "tool", "act"), ALLOWED, ids=named)
async def test_tools_of_the_mode_are_left_to_other_hooks(mode: str, tool: str, act: Action):
    hook = limits(mode)
    assert await hook.before(ToolCall(id="c", name=tool), act) == Ruling()
    await hook.after(ToolCall(id="c", name=tool), act, Outcome(text=""))


@pytest.mark.parametrize(("mode", "tool", "act"), FORBIDDEN, ids=named)
async def test_tools_that_the_mode_lacks_are_an_error_of_the_model(
    mode: str, tool: str, act: Action
):
    with pytest.raises(BadArguments, match=rf"Mode {mode} .*{tool}"):
        await limits(mode).before(ToolCall(id="c", name=tool), act)


async def test_the_current_mode_applies():
    modes = [Mode(slug="a", name="a", role="r", groups=(Group("read"),))]
    hook = ModeLimits(lambda: modes[-1], GROUPS.__getitem__)
    call = ToolCall(id="c", name="read_file")
    assert await hook.before(call, action(reads=["x"])) == Ruling()
    modes.append(Mode(slug="b", name="b", role="r"))
    with pytest.raises(BadArguments, match="Mode b"):
        await hook.before(call, action(reads=["x"]))


CALL = ToolCall(id="c", name="new_task")
STEPS = {
    "switch": lambda target: action(mode=target, payload={"tool": "switchMode", "mode": target}),
    "child": lambda target: action(child="t2", payload={"tool": "newTask", "mode": target}),
}


@each_row("step", STEPS)
@each_row(
    ("here", "target", "gained"),
    [
        ("ask", "code", "edit, command"),
        ("architect", "code", "edit, command"),
        ("ask", "architect", "edit"),
        ("code", "ask", ""),
        ("code", "debug", ""),
        ("code", "orchestrator", ""),
        ("ask", "no such mode", ""),
        ("ask", "orchestrator", "edit, command"),
    ],
)
async def test_a_step_to_a_mode_that_may_do_more_asks_unless_approved(
    step: str, here: str, target: str, gained: str
):
    act = STEPS[step](target)
    ruling = await limits(here).before(CALL, act)
    reasons = (f"mode {target} may do more than mode {here}: {gained}",) if gained else ()
    assert ruling == Ruling(Decision.ASK if gained else Decision.NONE, reasons)
    assert await limits(here, approved=True).before(CALL, act) == Ruling()


@each_row("approved", [False, True])
@each_row(
    ("chosen", "here", "step", "target", "denied"),
    [
        ("ask", "ask", "switch", "code", True),
        ("ask", "ask", "child", "code", True),
        ("ask", "ask", "child", "orchestrator", True),
        ("ask", "ask", "switch", "orchestrator", True),
        ("architect", "ask", "switch", "architect", False),
        ("architect", "architect", "child", "code", True),
        ("code", "ask", "switch", "code", False),
        ("code", "architect", "child", "debug", False),
        ("", "ask", "switch", "code", False),
        ("orchestrator", "orchestrator", "child", "code", False),
        ("orchestrator", "architect", "child", "code", False),
        ("orchestrator", "orchestrator", "switch", "code", True),
    ],
)
async def test_automatic_runs_get_no_more_rights_than_the_chosen_mode(
    chosen: str, here: str, step: str, target: str, denied: bool, approved: bool
):
    hook = limits(here, automatic=True, approved=approved, chosen=chosen)
    ruling = await hook.before(CALL, STEPS[step](target))
    assert ruling.decision is (Decision.DENY if denied else Decision.NONE)
    assert not denied or f"the user chose mode {chosen} " in ruling.reasons[0]


async def test_the_orchestrator_delegates_freely_but_asks_before_a_switch():
    for target in ("ask", "code", "debug"):
        assert await limits("orchestrator").before(CALL, STEPS["child"](target)) == Ruling()
        switch = await limits("orchestrator").before(CALL, STEPS["switch"](target))
        assert switch.decision is Decision.ASK


def agents(*kinds: tuple[str, str]) -> Action:
    return action(
        agents=[
            AgentTask(task_id=mode, name=mode, text="x", mode=mode, worktree=tree)
            for mode, tree in kinds
        ]
    )


@each_row(
    ("mode", "started", "decision"),
    [
        ("code", agents(("code", "/w"), ("ask", "")), Decision.NONE),
        ("ask", agents(("code", "")), Decision.NONE),  # an explorer only reads, in any mode
        ("ask", agents(("ask", ""), ("code", "/w")), Decision.ASK),
        ("orchestrator", agents(("code", "/w")), Decision.NONE),
    ],
)
async def test_agents_count_as_a_switch_to_their_modes(
    mode: str, started: Action, decision: Decision
):
    ruling = await limits(mode).before(ToolCall(id="c", name="new_task"), started)
    assert ruling.decision is decision


async def test_an_automatic_run_starts_no_worker_beyond_the_chosen_mode():
    hook = limits("ask", automatic=True, chosen="ask")
    call = ToolCall(id="c", name="new_task")
    assert (await hook.before(call, agents(("code", "/w")))).decision is Decision.DENY
    assert (await hook.before(call, agents(("code", "")))).decision is Decision.NONE
