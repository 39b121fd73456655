"""Records come in the order of the calls: those after the newest record were cut off."""

from pathlib import Path

import pytest

from rookery.core.blocks import ToolCall
from rookery.core.facts import CallPermitted, Noted, TaskOpened
from rookery.core.settings import Settings
from rookery.engine.event_log import EventLog
from rookery.engine.ports.actions import Action, Outcome, Permit
from rookery.governance.layout import Layout
from rookery.governance.ledger.ledger_reader import oldest
from rookery.governance.ledger.record_text import entry_of
from rookery.governance.project import open_project
from rookery.governance.recorder import Recorder
from rookery.governance.scope.call_verdict import CallVerdict
from rookery.platform.user_folders import Places
from rookery.storage.journal import Journal
from rookery.storage.sessions import Journals
from support.sample_ledgers import damage_line


async def nothing(permit: Permit) -> Outcome:
    return Outcome(text="")


@pytest.mark.anyio
async def test_losses_of_a_damaged_journal_are_recorded_once_as_unknown(tmp_path: Path):
    """Three calls are on record and a fourth is not when a line before all but one is damaged. The
    numbers of lost events are given again."""
    root = tmp_path / "space"
    (root / ".orchestration").mkdir(parents=True)
    home = {name: tmp_path / name for name in ("config", "data", "cache", "state")}

    async def run(log: EventLog, calls: list[str]) -> list[str]:
        """The messages at the start of a run."""
        project = open_project(Settings(), Layout(root, root), Places(**home))
        recorder = Recorder(project, "t", log, Journals(tmp_path.joinpath))
        before = len(log.events)
        assert await recorder.catch_up()
        reported = [each.fact.text for each in log.events[before:] if isinstance(each.fact, Noted)]
        for name in calls:
            action = Action(title="", command="true", perform=nothing)
            call = ToolCall(id=name, name="execute_command")
            await recorder.begin(call, action, CallVerdict(label="none"), None, {}, "none")
            if name == "three":
                await recorder.end(call, Outcome(text=""), settles=False)
        log.close()
        return reported

    log = EventLog(Journal.create(tmp_path / "t"), lambda: 0)
    log.append(TaskOpened(text="go"))
    assert await run(log, ["one", "two", "three", "lost"]) == []
    damage_line(tmp_path / "t", 3)
    damaged = "Part of the journal of session t cannot be read, so some of its actions are unknown."
    reported = await run(EventLog(Journal.open(tmp_path / "t"), lambda: 0), ["four"])
    assert reported == [f"{damaged} The ledger says so."]
    reported = await run(EventLog(Journal.open(tmp_path / "t"), lambda: 0), [])
    assert reported == ["1 interrupted call added to the ledger."]
    found = [r for r in oldest(root / ".orchestration") if r.kind in ("recovered", "command")]
    names = [r.tool_use_id or entry_of(r)["reason"] for r in found]
    assert names == ["one", "two", "three", "journal_damaged", "four"]


@pytest.mark.anyio
@pytest.mark.parametrize("dies", [True, False])
async def test_an_unfinished_call_is_recorded_before_the_next(tmp_path: Path, dies: bool):
    root = tmp_path / "space"
    (root / ".orchestration").mkdir(parents=True)
    home = {name: tmp_path / name for name in ("config", "data", "cache", "state")}
    project = open_project(Settings(), Layout(root, root), Places(**home))
    log = EventLog(Journal.create(tmp_path / "t"), lambda: 0)
    log.append(TaskOpened(text="go"))
    recorder = Recorder(project, "t", log, Journals(tmp_path.joinpath))
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
    again.recording.recover(root, Journals(tmp_path.joinpath), "t")
    assert [r.tool_use_id for r in oldest(root / ".orchestration") if r.tool_use_id] == [
        "broke down",
        "done",
    ]
