"""Git repositories for tests: each kind is created once, and copied for every test."""

import atexit
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

IDENTITY = (
    *("-c", "user.name=a", "-c", "user.email=a@example.org"),
    *("-c", "gc.auto=0", "-c", "init.defaultBranch=main"),
)


def git(folder: Path, *words: str) -> str:
    command = ["git", *IDENTITY, *words]
    done = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def copy_of(make: Callable[[Path], object], folder: Path) -> Path:
    """Copy what `make` puts into an empty folder to `folder`."""
    shutil.copytree(_made_by(make), folder, symlinks=True, dirs_exist_ok=True)
    return folder


def new_template() -> Path:
    """An empty folder that exists until the tests end."""
    folder = Path(tempfile.mkdtemp()).resolve()
    atexit.register(shutil.rmtree, folder)
    return folder


@cache
def _made_by(make: Callable[[Path], object]) -> Path:
    folder = new_template()
    make(folder)
    return folder
