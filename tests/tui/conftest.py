"""Tests of the full screen run in virtual time; see `support.virtual_clock`."""

from collections.abc import Iterator
from typing import Any

import pytest

from support.virtual_clock import VIRTUAL_TIME, screens_in_virtual_time


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return VIRTUAL_TIME


@pytest.fixture(autouse=True)
def virtual_time_of_screens(anyio_backend: object) -> Iterator[None]:
    """A file that defines its own backend uses real time."""
    if anyio_backend is not VIRTUAL_TIME:
        yield
        return
    with screens_in_virtual_time():
        yield
