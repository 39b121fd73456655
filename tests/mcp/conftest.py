from pathlib import Path

import pytest

from support.mcp_workspace import Bench


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)
