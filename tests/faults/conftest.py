"""What the tests of faults share."""

import uuid
from collections.abc import Iterator

import pytest

from support.command_server import CommandServer
from support.twelve_turns import Playground, Record, record


@pytest.fixture
def mark() -> str:
    """A number of seconds to sleep that no other process on the machine sleeps."""
    return f"9{uuid.uuid4().int % 10**12:012d}"


@pytest.fixture(scope="session")
def server() -> Iterator[CommandServer]:
    """One for all of them: to import the product takes as long as three runs."""
    with CommandServer() as server:
        yield server


@pytest.fixture(scope="session")
def whole_ground(server: CommandServer, tmp_path_factory: pytest.TempPathFactory) -> Playground:
    """Where a run took its twelve turns and nothing interrupted it; it logged its instants."""
    ground = Playground(tmp_path_factory.mktemp("whole") / "run")
    log = ground.folder / "instants"
    ended = ground.run(server, ground.first, ROOKERY_KILLPOINT_LOG=str(log))
    assert (ended.code, ended.left) == (0, False), ended.err
    return ground


@pytest.fixture(scope="session")
def whole(whole_ground: Playground) -> Record:
    return record(whole_ground, (whole_ground.folder / "stdout").read_text())
