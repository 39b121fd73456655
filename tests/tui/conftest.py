"""The full screen is played on in time of its own: see `own_time`."""

from collections.abc import Iterator
from typing import Any

import pytest

from support.virtual_clock import VIRTUAL_TIME, screens_in_virtual_time


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return VIRTUAL_TIME


@pytest.fixture(autouse=True)
def time_of_screens(anyio_backend: object) -> Iterator[None]:
    """Where a file has a backend of its own, time is everybody's."""
    if anyio_backend is not VIRTUAL_TIME:
        yield
        return
    with screens_in_virtual_time():
        yield
