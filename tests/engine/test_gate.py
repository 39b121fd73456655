"""The gate: hooks and approvals before an action, and the effect of a refusal."""

from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from rookery.commands.plain_line import plain
from rookery.core.asks import Decision, Ruling, allow, ask, deny, strictest
from rookery.core.blocks import ToolCall
from rookery.core.commands import Answer
from rookery.core.facts import Asked, Ending, TaskOpened, ToolFinished, ToolStarted
from rookery.engine.dialogue import Dialogue
from rookery.engine.event_log import EventLog
from rookery.engine.gate import REFUSED_BEFORE, Gate
from rookery.engine.ports.actions import Action, Judgement, Outcome, Permit
from rookery.engine.ports.hooks import Hook
from support.each_row import each_row
from support.stage import TASK, Stage, finish, write

pytestmark = pytest.mark.anyio


class Opinion(Hook):
    """A hook with one opinion about every change, which remembers what became of it."""

    def __init__(self, ruling: Ruling | Exception) -> None:
        self._ruling = ruling
        self.reported: list[str] = []

    async def before(self, call: ToolCall, action: Action) -> Ruling:
        if not action.changes_things:
            return Ruling()
        if isinstance(self._ruling, Exception):
            raise self._ruling
        return self._ruling

    async def after(self, call: ToolCall, action: Action, outcome: Outcome) -> None:
        self.reported.append(f"{action.title}: {outcome.ending}")


@each_row(
    ("rulings", "held"),
    [
        ([], Ruling(Decision.ASK)),
        ([Ruling(), Ruling()], Ruling(Decision.ASK)),
        ([Ruling(), allow()], allow()),
        ([allow(), ask("a"), allow()], ask("a")),
        ([ask("a"), deny("b"), allow(), deny("c")], Ruling(Decision.DENY, ("b", "c"))),
    ],
)
def test_the_strictest_ruling_applies_and_none_means_ask(rulings: list[Ruling], held: Ruling):
    assert strictest(rulings) == held


async def test_a_denial_applies_in_automatic_runs_and_the_model_sees_the_reason(tmp_path: Path):
    hook = Opinion(deny("Not on a Sunday."))
    stage = Stage(tmp_path, [write("a", "1")], [finish()], automatic=True, hooks=[hook])
    await stage.play("yes")
    end = next(fact for fact in stage.facts if isinstance(fact, ToolFinished))
    assert end.ending is Ending.DENIED
    assert "Not on a Sunday." in end.text
    assert list(stage.root.iterdir()) == []


async def test_several_reasons_for_a_denial_are_separated(tmp_path: Path):
    reasons = ("Not on a Sunday.", "deletes everything", "outside the workspace")
    hook = Opinion(Ruling(Decision.DENY, reasons))
    stage = Stage(tmp_path, [write("a", "1")], [finish()], automatic=True, hooks=[hook])
    await stage.play("yes")
    end = next(fact for fact in stage.facts if isinstance(fact, ToolFinished))
    assert "Not on a Sunday. deletes everything; outside the workspace" in end.text


async def test_a_hook_that_asks_is_respected_in_automatic_runs(tmp_path: Path):
    hook = Opinion(ask("Sure?"))
    stage = Stage(tmp_path, [write("a", "1")], [finish()], automatic=True, hooks=[hook])
    await stage.play("no", "yes")
    assert stage.asks == ["tool", "completion_result"]
    assert list(stage.root.iterdir()) == []


async def test_a_failing_hook_blocks_the_action(tmp_path: Path):
    hook = Opinion(RuntimeError("hook is broken"))
    stage = Stage(tmp_path, [write("a", "1")], [finish()], automatic=True, hooks=[hook])
    await stage.play("yes")
    started = [fact.tool for fact in stage.facts if isinstance(fact, ToolStarted)]
    assert started == ["attempt_completion"]
    assert list(stage.root.iterdir()) == []


async def test_hooks_get_the_outcome_of_an_action(tmp_path: Path):
    hook = Opinion(Ruling())
    stage = Stage(tmp_path, [write("a", "1")], [finish()], automatic=True, hooks=[hook])
    await stage.play("yes")
    assert hook.reported[0] == "Create a: done"


# ── questions, and what an approval covers ──────────────────────────────────────────────


def asked(stage: Stage) -> list[Asked]:
    return [fact for fact in stage.facts if isinstance(fact, Asked) and fact.call_id]


async def test_a_question_lists_every_reason_and_note(tmp_path: Path):
    hooks = [Opinion(ask("outside: /x")), Opinion(Ruling(notes=("a link leads to /y",)))]
    stage = Stage(tmp_path, [write("a", "1")], [finish()], automatic=True, hooks=hooks)
    await stage.play("yes", "yes")
    assert asked(stage)[0].notes == ("outside: /x", "a link leads to /y")


async def test_an_action_refused_before_is_marked_when_asked_again(tmp_path: Path):
    scenes = [[write("a", "1")], [write("a", "1")], [write("a", "2")], [finish()]]
    stage = Stage(tmp_path, *scenes)
    await stage.play("no", "no", "no", "yes")
    assert [question.notes for question in asked(stage)] == [(), (REFUSED_BEFORE,), ()]


async def test_always_allows_what_the_rule_says_and_nothing_else(tmp_path: Path):
    scenes = [[write("a", "1")], [write("b", "2")], [write("AGENTS.md", "3")], [finish()]]
    stage = Stage(tmp_path, *scenes)
    await stage.play("always", "no", "yes")
    first, other = asked(stage)
    assert first.rule.startswith("edits of files in ")
    assert (other.title, other.rule) == ("Create AGENTS.md", "")
    assert sorted(path.name for path in stage.root.iterdir()) == ["a", "b"]


async def test_a_rule_ends_with_its_task(tmp_path: Path):
    stage = Stage(tmp_path, [write("a", "1")], [finish()])
    await stage.play("always", "yes")
    again = Stage(tmp_path, [write("b", "2")], [finish()])
    await again.play("message go on", "no", "yes", reopen=True)
    assert asked(again)[-1].title == "Create b"


PLAIN = plain("cat a.txt")


@pytest.mark.parametrize(
    ("judged", "answers", "run_plainly"),
    [
        (Judgement(plain=PLAIN, spelled=PLAIN), [], True),
        (Judgement(spelled=PLAIN), [], True),
        (Judgement(spelled=PLAIN, dangers=("so",)), ["yes"], False),
        (Judgement(), [], False),
    ],
    ids=["understood", "spelled by a rule", "read by a person", "text for a shell"],
)
async def test_commands_that_no_person_approved_run_without_a_shell(
    tmp_path: Path, judged: Judgement, answers: list[str], run_plainly: bool
):
    permits: list[Permit] = []

    async def perform(permit: Permit) -> Outcome:
        permits.append(permit)
        return Outcome(text="")

    action = Action(title="Run", perform=perform, command="cat a.txt", judgement=judged)
    hook = Opinion(Ruling(Decision.ASK, judged.dangers) if judged.dangers else allow())
    permit = await permitted(tmp_path, action, hook, answers)
    assert (permit.plain is not None) is run_plainly


@pytest.mark.parametrize(("by", "confined"), [("user", False), ("policy", True), ("", True)])
async def test_a_command_leaves_the_sandbox_only_with_a_persons_approval(
    tmp_path: Path, by: str, confined: bool
):
    async def perform(permit: Permit) -> Outcome:
        return Outcome(text="")

    judged = Judgement(needs_keys=True)
    action = Action(title="Run", perform=perform, command="git push", judgement=judged)
    hook = Opinion(ask("so") if by else allow())
    permit = await permitted(tmp_path, action, hook, ["yes"] if by else [], by=by or "user")
    assert permit.confined is confined


async def permitted(
    folder: Path, action: Action, hook: Opinion, answers: list[str], by: str = "user"
) -> Permit:
    """The permit for an action, with the questions on the way answered."""
    stage = Stage(folder)
    log = EventLog(stage.store.create(TASK), stage.clock.now)
    log.append(TaskOpened(text="x"))
    dialogue = Dialogue(log, lambda: "q")
    gate = Gate([hook], dialogue, stage.rules)
    permits: list[Permit] = []

    async def pass_through() -> None:
        permit, _ = await gate.pass_through(ToolCall(id="c", name="t", arguments={}), action)
        permits.append(permit)

    async with anyio.create_task_group() as group:
        group.start_soon(pass_through)
        for reply in answers:
            while not isinstance(log.events[-1].fact, Asked):
                await anyio.lowlevel.checkpoint()
            dialogue.answer(
                Answer(task_id=TASK, ask_id="q", reply=reply, digest=action.digest, by=by)  # type: ignore[arg-type]
            )
    return permits[0]


async def test_the_example_hook_in_the_docs_works(tmp_path: Path):
    page = Path(__file__).parents[2] / "docs" / "architecture.md"
    section = page.read_text(encoding="utf-8").partition("## How to add a hook")[2]
    names: dict[str, Any] = {}
    exec(section.partition("```python\n")[2].partition("```")[0], names)
    scenes = [write("uv.lock", "a")], [write("a.txt", "a")], [finish()]
    stage = Stage(tmp_path, *scenes, automatic=True, hooks=[names["LockFiles"]()])
    await stage.play("yes")
    assert [path.name for path in stage.root.iterdir()] == ["a.txt"]
    endings = [fact.ending for fact in stage.facts if isinstance(fact, ToolFinished)]
    assert endings[:2] == [Ending.DENIED, Ending.DONE]
