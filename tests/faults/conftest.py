"""What the tests of faults share."""

from collections.abc import Iterator

import pytest

from support.command_server import CommandServer


@pytest.fixture(scope="session")
def server() -> Iterator[CommandServer]:
    """One for all of them: to import the product takes as long as three runs."""
    with CommandServer() as server:
        yield server
