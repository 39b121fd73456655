"""The tasks of the evaluation are fair: each check fails at the start and passes when solved."""

import os
import shutil
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from msgspec import Struct

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))

from suite import Task, load_tasks, run_check, scratch_workspace

TASKS = load_tasks()
JUDGED = TASKS if os.environ.get("ROOKERY_TORTURE") else TASKS[::8]
SMALL = 8
"""Files that a small prompt can hold."""


class Judged(Struct, frozen=True):
    """What the hidden check says at the start, what it says of the solution, and what the check
    says that the prompt names."""

    untouched: str
    solved: str
    named: str


def judge(task: Task) -> Judged:
    with scratch_workspace(task) as workspace:
        untouched = task.check(workspace, "")
        task.solve(workspace)
        named = task.described.check
        return Judged(
            untouched=untouched,
            solved=task.check(workspace, task.described.answer),
            named=run_check(["sh", "-c", named], workspace, {}) if named else "",
        )


@pytest.fixture(scope="module")
def judged() -> Iterator[dict[str, Judged]]:
    """All of them side by side: most of the time is spent on waiting for processes."""
    tasks = [task for task in JUDGED if not task.needs_node or shutil.which("node")]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        yield dict(zip((task.name for task in tasks), pool.map(judge, tasks), strict=True))


@pytest.mark.parametrize("task", JUDGED, ids=lambda task: task.name)
def test_a_hidden_check_fails_at_the_start_and_passes_when_solved(
    judged: dict[str, Judged], task: Task
):
    if task.name not in judged:
        pytest.skip("there is no node")
    found = judged[task.name]
    assert found.untouched
    assert not found.solved
    assert not found.named
    assert f"`{task.described.check}`" in task.described.prompt or not task.described.check


def test_the_suite_has_both_languages_and_some_tasks_too_large_for_a_small_prompt():
    python = [task for task in TASKS if task.name.startswith("py-")]
    script = [task for task in TASKS if task.name.startswith("js-")]
    assert len(python) + len(script) == len(TASKS) >= 44
    assert 0.55 <= len(python) / len(TASKS) <= 0.65
    many = [task for task in TASKS if len(task.files) > SMALL]
    long = [task for task in TASKS if any(t.count(b"\n") >= 300 for t in task.files.values())]
    assert all(20 <= len(task.files) <= 60 for task in many)
    assert len(many) >= 4
    assert len(long) >= 2


def test_a_change_to_a_forbidden_file_fails_a_solved_task():
    task = next(task for task in TASKS if task.name == "py-fix-median")
    with scratch_workspace(task) as workspace:
        task.solve(workspace)
        (workspace / "test_stats.py").write_text("", encoding="utf-8")
        assert "test_stats.py" in task.check(workspace, "")


def test_a_deleted_forbidden_file_fails_a_task():
    task = next(task for task in TASKS if task.name == "py-answer-port")
    with scratch_workspace(task) as workspace:
        assert not task.check(workspace, "The port is 7431.")
        (workspace / "README.md").unlink()
        assert "README.md" in task.check(workspace, "The port is 7431.")
