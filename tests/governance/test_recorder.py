"""Records come in the order of the calls: those after the newest record were cut off."""

from pathlib import Path

import pytest

from rookery.core.blocks import ToolCall
from rookery.core.facts import CallPermitted, TaskOpened
from rookery.core.settings import Settings
from rookery.engine.event_log import EventLog
from rookery.engine.ports.actions import Action, Outcome, Permit
from rookery.governance.layout import Layout
from rookery.governance.ledger.ledger_reader import oldest
from rookery.governance.project import open_project
from rookery.governance.recorder import Recorder
from rookery.governance.scope.call_verdict import CallVerdict
from rookery.platform.user_folders import Places
from rookery.storage.journal import Journal, events_of_dead_task


async def nothing(permit: Permit) -> Outcome:
    return Outcome(text="")


@pytest.mark.anyio
@pytest.mark.parametrize("dies", [True, False])
async def test_a_call_that_nobody_ended_is_recorded_before_the_next(tmp_path: Path, dies: bool):
    root = tmp_path / "space"
    (root / ".orchestration").mkdir(parents=True)
    home = {name: tmp_path / name for name in ("config", "data", "cache", "state")}
    project = open_project(Settings(), Layout(root, root), Places(**home))
    log = EventLog(Journal.create(tmp_path / "t"), lambda: 0)
    log.append(TaskOpened(text="go"))
    recorder = Recorder(project, "t", log, lambda each: None)
    assert await recorder.catch_up()
    for name in ("broke down", "done"):
        action = Action(title="", command="true", perform=nothing)
        call = ToolCall(id=name, name="execute_command")
        await recorder.begin(call, action, CallVerdict(label="none"), None, {}, "none")
    await recorder.end(call, Outcome(text=""), settles=False)
    if not dies:
        await recorder.settle_rest()
    log.close()
    assert sum(isinstance(event.fact, CallPermitted) for event in log.events) == 2
    again = open_project(Settings(), Layout(root, root), Places(**home))
    again.recording.recover(root, lambda each: events_of_dead_task(tmp_path / "t"), "t")
    assert [r.tool_use_id for r in oldest(root / ".orchestration") if r.tool_use_id] == [
        "broke down",
        "done",
    ]
