from pathlib import Path

import pytest

from mcp_hub.bench import Bench


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)
