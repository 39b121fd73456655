"""Hosts blocked for a command: the question, and what its answer covers."""

from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
from msgspec.structs import replace

from rookery.core.asks import Ruling, allow, ask
from rookery.core.blocks import ToolCall
from rookery.core.commands import Answer
from rookery.core.facts import Asked, Noted, TaskOpened
from rookery.engine.dialogue import Dialogue
from rookery.engine.event_log import EventLog
from rookery.engine.gate import Gate
from rookery.engine.ports.actions import Action, Judgement, Outcome, Permit
from rookery.engine.ports.hooks import Hook
from rookery.permissions.approval import AllowRules, stored_rules
from support.stage import TASK, Stage

pytestmark = pytest.mark.anyio

CALL = ToolCall(id="c", name="execute_command", arguments={"command": "sh do.sh"})
HOST = "evil.test:443"


async def perform(permit: Permit) -> Outcome:
    return Outcome(text="")


JUDGED = Judgement(hosts=("named.test:443",))
ACTION = Action(title="Run", perform=perform, command="sh do.sh", judgement=JUDGED)


class Bench:
    def __init__(self, folder: Path) -> None:
        self.stage = Stage(folder)
        self.log = EventLog(self.stage.store.create(TASK), self.stage.clock.now)
        self.log.append(TaskOpened(text="x"))
        self.dialogue = Dialogue(self.log, lambda: "q")

    def gate(self, *hooks: object) -> Gate:
        return Gate(hooks, self.dialogue, self.stage.rules)  # type: ignore[arg-type]

    async def blocked(self, reply: str, *, by: str = "user", always: bool = False) -> bool:
        answers: list[bool] = []

        async def ask_about() -> None:
            answers.append(await self.gate().ask_to_allow_hosts(CALL, [HOST]))

        async with anyio.create_task_group() as group:
            group.start_soon(ask_about)
            while not isinstance(question := self.log.events[-1].fact, Asked):
                await anyio.lowlevel.checkpoint()
            answer = Answer(task_id=TASK, ask_id="q", reply=reply, digest=question.digest)  # type: ignore[arg-type]
            self.dialogue.answer(replace(answer, by=by, always=always))  # type: ignore[arg-type]
        return answers[0]


class Opinion(Hook):
    def __init__(self, ruling: Ruling) -> None:
        self._ruling = ruling

    async def before(self, call: ToolCall, action: Action) -> Ruling:
        return self._ruling


async def test_a_blocked_host_is_shown_and_asked_about(tmp_path: Path):
    bench = Bench(tmp_path)
    assert not await bench.blocked("no")
    facts = [event.fact for event in bench.log.events]
    noted = next(fact.text for fact in facts if isinstance(fact, Noted))
    assert noted.startswith(f"Blocked: {HOST}. ")
    assert "sandbox.hosts" in noted
    question = next(fact for fact in facts if isinstance(fact, Asked))
    assert question.title == f"Allow commands to reach {HOST}?"
    assert "Blocked while this ran: sh do.sh" in question.notes
    assert bench.stage.rules.hosts() == []


async def test_an_approval_of_a_host_lasts_until_the_task_ends(tmp_path: Path):
    bench = Bench(tmp_path)
    assert await bench.blocked("yes")
    assert list(bench.stage.rules.hosts()) == [HOST]
    assert stored_rules(tmp_path / "allowed.json", bench.stage.clock.now()) == []
    assert list(Stage(tmp_path).rules.hosts()) == []


async def test_always_is_a_rule_for_this_workspace(tmp_path: Path):
    bench = Bench(tmp_path)
    await bench.blocked("yes", always=True)
    file, now = tmp_path / "allowed.json", bench.stage.clock.now
    [rule] = stored_rules(file, now())
    assert rule.words.endswith(f"may reach {HOST}, for 30 days")

    def hosts(workspace: Path) -> list[str]:
        return list(AllowRules(file, workspace, place=bench.stage.rules._place, now=now).hosts())

    assert hosts(bench.stage.root) == [HOST]
    assert hosts(tmp_path) == []


async def test_only_a_person_allows_a_host(tmp_path: Path):
    bench = Bench(tmp_path)
    assert not await bench.blocked("yes", by="policy")
    assert bench.stage.rules.hosts() == []


@pytest.mark.parametrize(
    ("by", "hosts"), [("user", {"named.test:443"}), ("policy", set()), ("", set())]
)
async def test_approving_a_command_allows_the_hosts_it_names(
    by: str, hosts: set[str], tmp_path: Path
):
    bench = Bench(tmp_path)
    permits: list[Permit] = []

    async def pass_through() -> None:
        gate = bench.gate(Opinion(ask("so") if by else allow()))
        permits.append((await gate.pass_through(CALL, ACTION))[0])

    async with anyio.create_task_group() as group:
        group.start_soon(pass_through)
        while by and not isinstance(bench.log.events[-1].fact, Asked):
            await anyio.lowlevel.checkpoint()
        if by:
            answer = Answer(task_id=TASK, ask_id="q", reply="yes", digest=ACTION.digest)
            bench.dialogue.answer(replace(answer, by=by))  # type: ignore[arg-type]
    assert permits[0].hosts == hosts
