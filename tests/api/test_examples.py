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
EDITS = WRITE % "a.txt"
LOCK_FILE = WRITE % "uv.lock"
RUNS = [
    ("one_prompt", "- say: Hello.", ["completed: Hello.\n"], []),
    ("approvals", EDITS, ["[approved] Create a.txt", "[rejected] Create b.py"], ["a.txt"]),
    ("add_tool", STOCK, ["There are nuts again. {'bolts': 120, 'nuts': 7}"], []),
    ("add_provider", "", ["You said: "], []),
    ("veto", LOCK_FILE, ["denied ", "Run the package manager."], ["b.py"]),
    ("script", "- say: One.\n- say: Two.", ["first: One.\nsecond: Two.\n"], []),
]


@pytest.mark.parametrize(
    ("name", "script", "printed", "written"), RUNS, ids=[run[0] for run in RUNS]
)
def test_an_example_prints_and_writes_what_it_shows(
    name: str, script: str, printed: list[str], written: list[str], tmp_path: Path
):
    work = tmp_path / "work"
    work.mkdir()
    (tmp_path / "script.yaml").write_text(script, encoding="utf-8")
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "PYTHONPATH": str(SOURCE),
        "ROOKERY_HOME": str(tmp_path / "home"),
        "ROOKERY_PROVIDER": "scripted",
        "ROOKERY_MODEL": str(tmp_path / "script.yaml"),
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
    assert [words for words in printed if words not in done.stdout] == []
    assert os.listdir(work) == written


def test_every_example_is_run():
    assert {path.stem for path in EXAMPLES.glob("*.py")} == {name for name, *_ in RUNS}
