import pytest

from support.governed_session import Governed
from support.terminal_session import Installed


@pytest.fixture
def governed(rookery: Installed) -> Governed:
    """With the intents that `support.governed_session` has."""
    return Governed(rookery)


@pytest.fixture
def ungoverned(rookery: Installed) -> Governed:
    """A workspace without a folder for intents."""
    return Governed(rookery, None)
