"""What the tests of a fleet share."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from support.fleet_machines import Machine, Start, new_remote
from support.postgres import Postgres


@pytest.fixture
def address(postgres: Postgres) -> str:
    return postgres.new_database()


@pytest.fixture
def remote(tmp_path: Path) -> Path:
    return new_remote(tmp_path / "git")


@pytest.fixture
def start(address: str, tmp_path: Path) -> Iterator[Start]:
    """Starts workers, and ends them after the test."""
    with ExitStack() as stack:

        def start(name: str, script: str, *options: str, **more: Any) -> Machine:
            file = tmp_path / f"{name}.yaml"
            file.write_text(script)
            machine = Machine(tmp_path, name, address, file, *options, **more)
            stack.callback(machine.close)
            return machine

        yield start
