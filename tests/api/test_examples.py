"""The examples run as they are, with a scripted model."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
SOURCE = Path(__file__).parents[2] / "src"

WRITE = """
- calls:
  - tool: write_to_file
    arguments: {path: %s, content: hi}
- calls:
  - tool: write_to_file
    arguments: {path: b.py, content: hi}
- say: Both are tried.
"""
STOCK = """
- calls:
  - tool: stock
    arguments: {part: nuts}
- calls:
  - tool: order
    arguments: {part: nuts, pieces: 7}
- say: There are nuts again.
"""
CASES = {
    "one_prompt": ("- say: Hello.", "completed: Hello.\n"),
    "approvals": (WRITE % "a.txt", "[approved] Create a.txt"),
    "add_tool": (STOCK, "There are nuts again. {'bolts': 120, 'nuts': 7}"),
    "add_provider": ("", "You said: "),
    "veto": (WRITE % "uv.lock", "denied "),
    "script": ("- say: One.\n- say: Two.", "first: One.\nsecond: Two.\n"),
}


def run_example(name: str, script: str, folder: Path) -> str:
    work = folder / "work"
    work.mkdir()
    (folder / "script.yaml").write_text(script, encoding="utf-8")
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "PYTHONPATH": str(SOURCE),
        "ROOKERY_HOME": str(folder / "home"),
        "ROOKERY_PROVIDER": "scripted",
        "ROOKERY_MODEL": str(folder / "script.yaml"),
    }
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / f"{name}.py"), "do it"],
        cwd=work,
        env=environ,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stderr == ""
    assert done.returncode == 0
    return done.stdout


@pytest.mark.parametrize("name", CASES)
def test_example_runs(name: str, tmp_path: Path):
    script, expected = CASES[name]
    assert expected in run_example(name, script, tmp_path)


def test_every_example_is_run():
    assert {path.stem for path in EXAMPLES.glob("*.py")} == set(CASES)


def test_the_approving_example_changes_only_what_it_approved(tmp_path: Path):
    script, _ = CASES["approvals"]
    assert "[rejected] Create b.py" in run_example("approvals", script, tmp_path)
    assert os.listdir(tmp_path / "work") == ["a.txt"]


def test_the_vetoing_example_leaves_the_lock_file_alone(tmp_path: Path):
    script, _ = CASES["veto"]
    assert "Run the package manager." in run_example("veto", script, tmp_path)
    assert os.listdir(tmp_path / "work") == ["b.py"]
