from pathlib import Path

import pytest

from governed.stage import Governed
from terminal_session import Installed


@pytest.fixture
def rookery(tmp_path: Path) -> Installed:
    """Installed, and its user has trusted the folder they work in."""
    return Installed(tmp_path)


@pytest.fixture
def governed(rookery: Installed) -> Governed:
    """With the intents that `governed.stage` has."""
    return Governed(rookery)


@pytest.fixture
def ungoverned(rookery: Installed) -> Governed:
    """Nobody has made the folder for intents yet."""
    return Governed(rookery, None)
