"""The small tasks in `tasks/`: what the agent sees, the reference solution and the hidden check.

A task is a folder with `task.toml`, `files/`, `hidden/` and `solution/`; docs/evaluation.md
describes them. A hidden check runs in a copy of the workspace and never in the workspace itself.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from fnmatch import fnmatch
from functools import cached_property
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

TASKS = Path(__file__).parent / "tasks"
CHECK_SECONDS = 30
ANSWER_VARIABLE = "ANSWER"
"""Names the file with the agent's standard output, for hidden checks."""
MADE_BY_TOOLS = {".git", "__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache"}
Kind = Literal[
    "fix", "add", "rename", "config", "refactor", "new file", "convert", "answer", "count", "search"
]


class Description(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The content of `task.toml`."""

    prompt: str
    kind: Kind
    check: str = ""
    """A command that the prompt names; it passes when the task is solved."""
    unchanged: list[str] = []
    """Patterns of files that must stay as they are."""
    removed: list[str] = []
    """Files that the reference solution deletes."""
    answer: str = ""
    """The reference answer, for tasks that are questions."""


class Task:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.name = folder.name
        text = (folder / "task.toml").read_bytes()
        self.described = msgspec.toml.decode(text, type=Description)

    @cached_property
    def files(self) -> dict[str, bytes]:
        return read_tree(self.folder / "files")

    @property
    def hidden_check(self) -> Path:
        (script,) = (self.folder / "hidden").glob("hidden_check.*")
        return script

    @property
    def needs_node(self) -> bool:
        return self.name.startswith("js-")

    def start(self, workspace: Path) -> None:
        """Write the files that the agent sees."""
        shutil.copytree(self.folder / "files", workspace, dirs_exist_ok=True)

    def solve(self, workspace: Path) -> None:
        """Apply the reference solution."""
        if (self.folder / "solution").exists():
            shutil.copytree(self.folder / "solution", workspace, dirs_exist_ok=True)
        for name in self.described.removed:
            (workspace / name).unlink()

    def forbidden_changes(self, workspace: Path) -> list[str]:
        """The files that the task forbids to change and that changed."""
        now = read_tree(workspace)
        return [
            name
            for name in sorted(self.files.keys() | now.keys())
            if any(fnmatch(name, pattern) for pattern in self.described.unchanged)
            and self.files.get(name) != now.get(name)
        ]

    def check(self, workspace: Path, answer: str) -> str:
        """Run the hidden check; return the problem, or an empty text if the task is solved."""
        if forbidden := self.forbidden_changes(workspace):
            return f"Changed although the task forbids it: {', '.join(forbidden)}"
        with tempfile.TemporaryDirectory() as folder:
            copy, words = Path(folder, "workspace"), Path(folder, "answer.txt")
            shutil.copytree(workspace, copy, ignore=shutil.ignore_patterns(*MADE_BY_TOOLS))
            shutil.copytree(self.folder / "hidden", copy, dirs_exist_ok=True)
            words.write_text(answer, encoding="utf-8")
            program = sys.executable if self.hidden_check.suffix == ".py" else "node"
            return run_check([program, self.hidden_check.name], copy, {ANSWER_VARIABLE: str(words)})


def run_check(command: Sequence[str], folder: Path, more: Mapping[str, str]) -> str:
    """Run a check to its end; return its output if it fails, otherwise nothing."""
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env={**plain_environment(), **more, "PYTHONDONTWRITEBYTECODE": "1"},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        try:
            code = process.wait(CHECK_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            process.wait()
            return f"The check did not end within {CHECK_SECONDS} seconds."
        output.seek(0)
        text = output.read(100_000).decode(errors="replace").strip()
    return "" if code == 0 else text or f"The check exits with {code}."


def plain_environment() -> dict[str, str]:
    """The environment without variables that change how Python, git or rookery run."""
    others = ("PYTHON", "ROOKERY_", "GIT_", "XDG_", "VIRTUAL_ENV", "NODE_")
    return {name: value for name, value in os.environ.items() if not name.startswith(others)}


def read_tree(folder: Path) -> dict[str, bytes]:
    """The files below a folder, without those that tools make."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder)
        if not MADE_BY_TOOLS.intersection(name.parts) and path.is_file():
            found[name.as_posix()] = path.read_bytes()
    return found


def load_tasks(patterns: Sequence[str] = ()) -> list[Task]:
    """The tasks in order of their names; with patterns, those that match one of them."""
    tasks = [Task(file.parent) for file in sorted(TASKS.glob("*/task.toml"))]
    if not patterns:
        return tasks
    return [task for task in tasks if any(fnmatch(task.name, each) for each in patterns)]


@contextmanager
def scratch_workspace(task: Task) -> Iterator[Path]:
    """A temporary folder with the task's files."""
    with tempfile.TemporaryDirectory() as folder:
        task.start(Path(folder))
        yield Path(folder)
