"""Git repositories for tests: each kind is made once, and copied for every test."""

import atexit
import shutil
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path


def copy_of(make: Callable[[Path], object], folder: Path) -> Path:
    """The folder, with what `make` puts into an empty one."""
    shutil.copytree(_made_by(make), folder, symlinks=True, dirs_exist_ok=True)
    return folder


@cache
def _made_by(make: Callable[[Path], object]) -> Path:
    folder = Path(tempfile.mkdtemp()).resolve()
    atexit.register(shutil.rmtree, folder)
    make(folder)
    return folder
