import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from manager.bench import Project


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    """No test leaves a process behind."""
    project = Project(tmp_path)
    yield project
    left = project.processes()
    for pid in left:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    assert left == {}
