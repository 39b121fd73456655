from collections.abc import Iterator
from pathlib import Path

import pytest

from support.canaries import World, remove


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    remove(made)


@pytest.fixture
def stranger(tmp_path: Path) -> Iterator[World]:
    """A world with an untrusted workspace."""
    made = World(tmp_path, trusted=False)
    yield made
    remove(made)
