"""The installed browser, and two local sites."""

import os
from collections.abc import Iterator

import pytest

from rookery.browser.browser_action import find_browser
from rookery.errors import ToolError
from support.browser_site import Site


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def program() -> str:
    try:
        return find_browser("", os.environ["PATH"])
    except ToolError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[Site]:
    with Site().open() as site:
        yield site


@pytest.fixture(scope="module")
def site(elsewhere: Site) -> Iterator[Site]:
    with Site(elsewhere.origin).open() as site:
        yield site
