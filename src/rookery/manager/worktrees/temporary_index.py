"""An index that is nobody's, to find out what would be if something were staged."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rookery.manager.worktrees.worktree_git import Git


@contextmanager
def own_index(git: Git) -> Iterator[dict[str, str]]:
    """A copy of the index that can be changed at will, as the variable that names it."""
    with tempfile.TemporaryDirectory(prefix="worktree-") as folder:
        index = Path(folder) / "index"
        if (git.git_folder / "index").exists():
            shutil.copy2(git.git_folder / "index", index)
        yield {"GIT_INDEX_FILE": str(index)}
