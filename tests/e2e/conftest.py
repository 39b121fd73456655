from pathlib import Path

import pytest

from terminal_session import Installed


@pytest.fixture
def rookery(tmp_path: Path) -> Installed:
    return Installed(tmp_path)
