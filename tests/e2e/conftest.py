from pathlib import Path

import pytest

from support.terminal_session import Installed


@pytest.fixture
def rookery(tmp_path: Path) -> Installed:
    """Installed, and its user has trusted the folder they work in."""
    return Installed(tmp_path)


@pytest.fixture
def unconfined(rookery: Installed) -> Installed:
    """As it is without a sandbox, for commands of which only matters that they run."""
    rookery.environ["ROOKERY_SANDBOX_USE"] = "off"
    return rookery


@pytest.fixture
def fresh(tmp_path: Path) -> Installed:
    """A fresh installation: no home folder yet, and no trusted folder."""
    return Installed(tmp_path, trusted=False)
