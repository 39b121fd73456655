"""A session with a plan survives a kill after any fact: the plan is approved once, and exactly the
approved text is carried out."""

from itertools import count
from pathlib import Path

import anyio
import pytest

from rookery.app.local_host import open_host
from rookery.app.model_choice import ModelChoice
from rookery.app.task_hooks import Consent
from rookery.core.asks import AskKind
from rookery.core.commands import Answer, Command, OpenTask, ReopenTask
from rookery.core.facts import Answered, Asked, Event, RequestStarted
from rookery.core.folds.task_record import fold
from rookery.core.modes import KEPT, Level
from rookery.core.settings import Settings
from rookery.platform.user_folders import find_places
from rookery.protocol.codec import Host
from rookery.storage.sessions import TaskStore

pytestmark = pytest.mark.anyio

SCRIPT = """\
- calls: [{tool: present_plan, arguments: {plan: "- [ ] Write a.txt"}}]
- calls: [{tool: write_to_file, arguments: {path: a.txt, content: "new\\n"}}]
- say: Done.
"""
EDITED = "# Mine\n\n- [ ] Write a.txt\n- [ ] Say so @nothing"


def answer(asked: Asked) -> Answer | None:
    """What the user says; None at the end of the work."""
    given = Answer(task_id="t", ask_id=asked.ask_id, digest=asked.digest, reply="yes")
    if asked.plan:
        return Answer(
            task_id="t", ask_id=asked.ask_id, reply="message", text=EDITED, level=Level.EDITS
        )
    return None if asked.ask is AskKind.COMPLETION_RESULT else given


async def live(host: Host, first: Command, after: int, until: int) -> bool:
    """Live until an event was written. Returns whether the work ended before."""
    await host.send(first)
    with anyio.fail_after(60):
        async for event in host.follow("t", after):
            if event.fact.lasting and event.seq == until:
                return False
            if isinstance(event.fact, Asked):
                said = answer(event.fact)
                if said is None:
                    return True
                await host.send(said)
    raise AssertionError("The task ended by itself.")


def journal(folder: Path) -> list[Event]:
    store = TaskStore(find_places({"ROOKERY_HOME": str(folder / "home")}))
    return list(store.read("t")) if store.exists("t") else []


async def life(folder: Path, *, dies_after: int = 0) -> bool:
    """Run a process that dies after this number of facts. Returns whether the work was done."""
    work = folder / "work"
    work.mkdir(exist_ok=True, parents=True)
    (folder / "script.yaml").write_text(SCRIPT)
    choice = ModelChoice("scripted", str(folder / "script.yaml"), None, None)
    places = find_places({"ROOKERY_HOME": str(folder / "home")})
    before = journal(folder)
    level = fold(before).level
    first: Command = OpenTask(task_id="t", text="Do it")
    if before:
        first = ReopenTask(task_id="t", level=level if level in KEPT else None)
    consent = Consent(trusted=True, level=Level.PLAN)
    async with open_host(
        Settings(), choice, TaskStore(places), work, places, consent, lambda _: choice
    ) as host:
        return await live(host, first, len(before), len(before) + dies_after if dies_after else 0)


async def test_a_plan_survives_a_death_after_each_of_its_facts(tmp_path: Path):
    died = ""
    for nth in count(1):
        folder = tmp_path / str(nth)
        assert not await life(folder, dies_after=nth)
        died = type(journal(folder)[-1].fact).__name__
        if fold(journal(folder)).plan and died in ("CheckpointSaved", "ToolStarted"):
            break  # the first step has begun; `test_kill.py` has the rest
        assert await life(folder)
        check(folder, f"after {nth}, {died}")
    assert nth > 9, died


def check(folder: Path, died: str) -> None:
    events = journal(folder)
    approvals = [e.fact for e in events if isinstance(e.fact, Answered) and e.fact.level]
    assert [each.text for each in approvals] == [EDITED], died
    state = fold(events)
    assert (state.plan, [todo.content for todo in state.todos]) == (
        EDITED,
        ["Write a.txt", "Say so @nothing"],
    ), died
    sent = [e.fact.details for e in events if isinstance(e.fact, RequestStarted)]
    assert any(EDITED in text for details in sent for text in details.values()), died
    assert (folder / "work" / "a.txt").read_text() == "new\n", died
    assert [path.read_text() for path in (folder / "home").rglob("plan-1.md")] == [
        "- [ ] Write a.txt"
    ], died
