"""`rookery rewind`: what it lists, what it refuses, and what it leaves alone when it must."""

import os
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from rookery.checkpoints.checkpoints import ShadowCheckpoints
from rookery.cli.main import run
from rookery.core.facts import (
    CheckpointSaved,
    Condensed,
    Fact,
    FilesChanged,
    FilesRestored,
    Rewound,
    TaskOpened,
    ToolFinished,
    ToolStarted,
    UserSpoke,
)
from rookery.core.limits import Limits
from rookery.platform.user_folders import find_places
from rookery.storage.sessions import TaskStore
from support.sample_logs import log

SESSION = "5e551011-0000-4000-8000-000000000000"
Captured = pytest.CaptureFixture[str]
LOST = "0" * 40
"""A checkpoint that does not exist."""


def store() -> TaskStore:
    return TaskStore(find_places(os.environ))


def keep(*facts: Fact, workspace: Path | None = None) -> None:
    journal = store().create(SESSION)
    opened = TaskOpened(text="go", workspace=str(workspace or Path.cwd()))
    for event in log(opened, *facts):
        journal.write(event)
    journal.close()


def kept() -> list[Fact]:
    return [event.fact for event in store().read(SESSION)]


def saved() -> str:
    """The files as they are now."""
    places = find_places(os.environ)
    checkpoints = ShadowCheckpoints(Path.cwd(), places.checkpoints, Limits())
    return anyio.run(checkpoints.save, None).id


def step(call_id: str, title: str, before: str, after: str | None, *, at: int) -> list[Fact]:
    """A call whose checkpoint is event `at`; without `after` its changes are not recorded."""
    facts: list[Fact] = [
        CheckpointSaved(id=before, call_id=call_id),
        ToolStarted(call_id=call_id, tool="execute_command", title=title, command="x"),
        ToolFinished(call_id=call_id, text=""),
    ]
    if after is None:
        return facts[:2]
    return [*facts, FilesChanged(call_id=call_id, before=before, after=after, since=at)]


@pytest.fixture
def rewind(capsys: Captured) -> Callable[..., tuple[int, str, str]]:
    def call(*arguments: str) -> tuple[int, str, str]:
        code = run(["rewind", *arguments])
        said = capsys.readouterr()
        return code, said.out, said.err

    return call


def two_changes() -> None:
    """`a.txt` is there, then changed, then removed."""
    file = Path("a.txt")
    file.write_text("one\n")
    first = saved()
    file.write_text("two\n")
    second = saved()
    file.unlink()
    third = saved()
    keep(*step("c1", "Run one", first, second, at=2), *step("c2", "Run two", second, third, at=6))


def test_each_point_is_one_line_with_escaped_text(rewind):
    keep(
        UserSpoke(message_id="m", text="also\nthe \x1b[8m docs"),
        *step("c1", "Run x", "b", "a", at=3),
        *step("c2", "Run y", "b", "b", at=7),
        FilesRestored(to=1, before="b", after="a", paths=("a.txt",), count=1),
        Rewound(to=1),
        Condensed(upto=1),
    )
    code, out, err = rewind()
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        *("    1    1970-01-01    you go", "    1    1970-01-01    you also the ␛[8m docs"),
        *("    2    1970-01-01  ±     Run x", "    6    1970-01-01        Run y"),
        "   10    1970-01-01  ±     (Restored 1 file: a.txt.)",
        "   11    1970-01-01        (The conversation was rewound to 1.)",
        "   12    1970-01-01        (The conversation was condensed.)",
        *("", "± changed files. To rewind to before a step: rookery rewind --to NUMBER"),
    ]


def test_a_session_is_found_by_an_id_prefix(rewind, tmp_path: Path):
    keep(workspace=tmp_path)
    code, out, _ = rewind(SESSION[:6])
    assert (code, out.splitlines()[-1].endswith(f" {SESSION[:6]} --to NUMBER")) == (0, True)
    _, out, _ = rewind("-w", str(tmp_path))
    assert out.endswith(f" {SESSION[:8]} --to NUMBER\n")
    assert rewind()[2].startswith("Error: No session to rewind in ")


def test_old_steps_that_changed_only_ignored_files_are_skipped(rewind):
    """They are on record as changes."""
    Path(".gitignore").write_text("*.log\n")
    first = saved()
    Path("a.txt").write_text("one\n")
    second = saved()
    Path("x.log").write_text("tested\n")
    third = saved()
    assert second != third
    keep(*step("c1", "Edit", first, second, at=2), *step("c2", "Test", second, third, at=6))
    code, out, err = rewind("--last", "-y")
    assert (code, err) == (0, "")
    assert "Restored 1 file: a.txt.\n" in out
    assert not Path("a.txt").exists()


def test_a_rewind_without_changes_reports_it(rewind):
    two_changes()
    assert rewind("--to", "1", "--files", "-y")[0] == 0
    code, out, err = rewind("--to", "1", "--files", "-y")
    assert (code, out, err) == (
        0,
        "No files to restore.\nNo files had to be restored.\n",
        "",
    )


def test_files_are_restored_step_by_step(rewind):
    two_changes()
    code, out, err = rewind("--last", "-y")
    assert (code, err) == (0, "")
    assert "  create    a.txt\nRestored 1 file: a.txt.\n" in out
    assert Path("a.txt").read_text() == "two\n"
    assert [type(fact) for fact in kept()[-2:]] == [FilesRestored, Rewound]
    rewind("--to", "1", "-y")
    assert Path("a.txt").read_text() == "one\n"


def test_a_number_inside_a_call_means_the_point_before_it(rewind):
    two_changes()
    _, out, _ = rewind("--to", "3", "-y")
    assert out.startswith("The conversation will be rewound to 2: ")
    assert kept()[-1] == Rewound(to=2)


def test_only_files_or_only_the_conversation_can_be_rewound(rewind):
    two_changes()
    assert rewind("--to", "1", "--conversation", "-y")[0] == 0
    assert not Path("a.txt").exists()
    assert kept()[-1] == Rewound(to=1)
    assert rewind("--to", "1", "--files", "-y")[0] == 0
    assert Path("a.txt").read_text() == "one\n"
    assert isinstance(kept()[-1], FilesRestored)


def test_a_dry_run_does_not_change_the_log(rewind):
    two_changes()
    before = kept()
    assert rewind("--to", "1", "--dry-run")[0] == 0
    assert kept() == before
    assert not Path("a.txt").exists()


def test_without_checkpoints_neither_files_nor_conversation_are_rewound(rewind):
    Path("a.txt").write_text("mine\n")
    keep(*step("c1", "Run x", LOST, LOST[:-1] + "1", at=2))
    before = kept()
    code, _, err = rewind("--to", "1", "-y")
    assert code == 1
    assert err.startswith("The files cannot be restored. ")
    assert err.count("\n") == 1
    assert kept() == before
    assert Path("a.txt").read_text() == "mine\n"
    assert rewind("--to", "1", "--conversation", "-y")[0] == 0
    assert kept()[-1] == Rewound(to=1)


def test_rewinding_a_moved_workspace_does_not_touch_the_current_folder(rewind, tmp_path: Path):
    two_changes()
    Path("a.txt").write_text("mine\n")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "a.txt").write_text("another\n")
    Path.cwd().rename(tmp_path / "moved")
    os.chdir(elsewhere)
    code, _, err = rewind(SESSION, "--to", "1", "-y")
    assert (code, err.count("\n")) == (1, 1)
    assert Path("a.txt").read_text() == "another\n"


def test_last_includes_an_unfinished_command(rewind):
    Path("a.txt").write_text("one\n")
    first = saved()
    Path("a.txt").write_text("two\n")
    second = saved()
    Path("b.txt").write_text("written by what died\n")
    keep(*step("c1", "Run one", first, second, at=2), *step("c2", "Run two", second, None, at=6))
    code, out, err = rewind("--last", "-y")
    assert (code, err) == (0, "")
    assert "  remove    b.txt\n" in out
    assert not Path("b.txt").exists()
    assert Path("a.txt").read_text() == "two\n"


def test_an_open_session_is_not_rewound(rewind):
    two_changes()
    journal = store().open(SESSION)
    try:
        code, _, err = rewind("--to", "1", "-y")
    finally:
        journal.close()
    assert (code, err.count("\n")) == (9, 1)
    assert err.startswith("Error: ")
    assert not Path("a.txt").exists()


def test_last_without_changes_is_an_error(rewind):
    keep()
    assert rewind("--last", "-y") == (2, "", "Error: No step of this session changed files.\n")
