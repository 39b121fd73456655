"""What calls do to files while a command of an earlier call runs on can be undone as well."""

from pathlib import Path

import pytest

from rookery.core.undo_plan import steps_since
from support.stage import Stage, call, finish, run, write

pytestmark = pytest.mark.anyio

WAITS_FOR_X = "echo s > started; while [ ! -e x.txt ]; do sleep 0.05; done; echo b > b.txt"
SCENES = {
    "a command that ends before the task": [
        [call("execute_command", command=WAITS_FOR_X, timeout=0.2)],
        [write("x.txt", "x\n")],
        [run("while [ ! -s b.txt ]; do sleep 0.05; done; touch y.txt")],
        [finish()],
    ],
    "a command that runs until the task ends": [
        [call("execute_command", command=f"{WAITS_FOR_X}; sleep 60", timeout=0.2)],
        [write("x.txt", "x\n")],
        [run("while [ ! -s b.txt ]; do sleep 0.05; done; touch y.txt")],
        [finish()],
    ],
}


@pytest.mark.parametrize("scenes", SCENES.values(), ids=SCENES.keys())
async def test_changes_beside_a_command_are_undone(tmp_path: Path, scenes):
    stage = Stage(tmp_path, *scenes, automatic=True, checkpoints=True)
    await stage.play("yes")
    assert {path.name for path in stage.root.iterdir()} == {"started", "b.txt", "x.txt", "y.txt"}
    restored = await stage.checkpoints.restore(steps_since(stage.events, 0), overwrite=False)
    assert (restored.problem, restored.kept, list(stage.root.iterdir())) == ("", (), [])
