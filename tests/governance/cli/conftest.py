"""Commands run in a home of the test's own."""

from pathlib import Path

import pytest

from support.governed_folder import IntentsBench
from support.user_home import home

__all__ = ["home"]


@pytest.fixture
def intents(home: Path, capsys: pytest.CaptureFixture[str]) -> IntentsBench:
    return IntentsBench(Path.cwd(), home, capsys)


@pytest.fixture
def governed(intents: IntentsBench) -> IntentsBench:
    intents.govern()
    return intents
