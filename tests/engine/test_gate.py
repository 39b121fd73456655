"""Who is heard before something happens, and what a refusal leaves behind."""

from pathlib import Path

import pytest

from rookery.core.blocks import ToolCall
from rookery.core.facts import Ending, ToolFinished, ToolStarted
from rookery.core.rulings import Decision, Ruling, allow, ask, deny, strictest
from rookery.engine.ports import Action, Outcome
from stage import Stage, finish, write

pytestmark = pytest.mark.anyio


class Opinion:
    """A hook with one opinion about every change, which remembers what became of it."""

    def __init__(self, ruling: Ruling | Exception) -> None:
        self._ruling = ruling
        self.told: list[str] = []

    async def before(self, call: ToolCall, action: Action) -> Ruling:
        if not action.changes_things:
            return Ruling()
        if isinstance(self._ruling, Exception):
            raise self._ruling
        return self._ruling

    async def after(self, call: ToolCall, action: Action, outcome: Outcome) -> None:
        self.told.append(f"{action.title}: {outcome.ending}")


@pytest.mark.parametrize(
    ("rulings", "held"),
    [
        ([], Ruling(Decision.ASK)),
        ([Ruling(), Ruling()], Ruling(Decision.ASK)),
        ([Ruling(), allow()], allow()),
        ([allow(), ask("a"), allow()], ask("a")),
        ([ask("a"), deny("b"), allow(), deny("c")], Ruling(Decision.DENY, ("b", "c"))),
    ],
)
def test_the_strictest_opinion_holds_and_none_at_all_means_asking_gate_2(
    rulings: list[Ruling], held: Ruling
):
    assert strictest(rulings) == held


async def test_a_denial_holds_in_automatic_runs_and_the_model_hears_why_gate_9(tmp_path: Path):
    hook = Opinion(deny("Not on a Sunday."))
    stage = Stage(tmp_path, [write("a", "1")], [finish()], automatic=True, hooks=[hook])
    await stage.play("yes")
    end = next(fact for fact in stage.facts if isinstance(fact, ToolFinished))
    assert end.ending is Ending.DENIED
    assert "Not on a Sunday." in end.text
    assert list(stage.root.iterdir()) == []


async def test_a_hook_that_wants_to_ask_is_heard_in_automatic_runs(tmp_path: Path):
    hook = Opinion(ask("Sure?"))
    stage = Stage(tmp_path, [write("a", "1")], [finish()], automatic=True, hooks=[hook])
    await stage.play("no", "yes")
    assert stage.asks == ["tool", "completion_result"]
    assert list(stage.root.iterdir()) == []


async def test_a_hook_that_breaks_lets_nothing_happen_ax_3(tmp_path: Path):
    hook = Opinion(RuntimeError("hook is broken"))
    stage = Stage(tmp_path, [write("a", "1")], [finish()], automatic=True, hooks=[hook])
    await stage.play("yes")
    started = [fact.tool for fact in stage.facts if isinstance(fact, ToolStarted)]
    assert started == ["attempt_completion"]
    assert list(stage.root.iterdir()) == []


async def test_hooks_are_told_what_became_of_an_action(tmp_path: Path):
    hook = Opinion(Ruling())
    stage = Stage(tmp_path, [write("a", "1")], [finish()], automatic=True, hooks=[hook])
    await stage.play("yes")
    assert hook.told[0] == "Create a: done"
