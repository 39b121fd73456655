"""Runs commands in a temporary home, directly or in a shell."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.manager_project import WRITES
from support.sessions_shell import Shell, open_shell
from support.user_home import home

__all__ = ["home"]


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    with open_shell(tmp_path, WRITES) as shell:
        yield shell
