"""One browser for all modules here; windows, a model and a manager for each module; sessions and
tabs for each test."""

import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, closing
from functools import cache
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Playwright, sync_playwright

from rookery.browser.browser_action import find_browser
from rookery.errors import ToolError
from rookery.manager.web.page_files import HOW_TO_BUILD, PageFiles
from support.manager_page import Manager, Project, Tab, Tabs, Window, managed
from support.page_measures import PHONE
from support.scripted_model import Model

ARGUMENTS = (
    "--disable-dev-shm-usage",
    "--disable-gpu",
    "--no-proxy-server",
    "--js-flags=--no-opt --no-maglev",  # no page here runs for long enough to gain by them
)
opened = ExitStack()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> Iterator[None]:
    """Close the browser before a test elsewhere: its driver runs an event loop in this thread."""
    try:
        return (yield)
    finally:
        if nextitem is None or nextitem.path.parent != Path(__file__).parent:
            opened.close()
            open_browser.cache_clear()
            open_driver.cache_clear()


def found_browser() -> str:
    if not PageFiles().is_built:
        pytest.skip(f"the page is not built; {HOW_TO_BUILD} makes it, with Node")
    try:
        return find_browser("", os.environ["PATH"])
    except ToolError as error:
        pytest.skip(str(error))


@cache
def open_driver() -> Playwright:
    return opened.enter_context(sync_playwright())


@cache
def open_browser(program: str) -> Browser:
    browser = open_driver().chromium.launch(
        executable_path=program,
        args=ARGUMENTS,
        chromium_sandbox=os.geteuid() != 0,
    )
    opened.callback(browser.close)
    return browser


@pytest.fixture(scope="module")
def browser() -> Browser:
    """The headless build of Chromium, if it is installed: it needs a third less time."""
    whole = found_browser()
    return open_browser(shutil.which("chromium-headless-shell") or whole)


@pytest.fixture
def whole_browser() -> Browser:
    return open_browser(found_browser())


@pytest.fixture(scope="module")
def model() -> Iterator[Model]:
    with Model() as model:
        yield model


@pytest.fixture(scope="module")
def project(
    browser: Browser, model: Model, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Project]:
    project = Project(tmp_path_factory.mktemp("page"), model)
    yield project
    project.end_all()


@pytest.fixture(scope="module")
def common_manager(project: Project) -> Iterator[Manager]:
    with managed(project) as manager:
        yield manager


@pytest.fixture
def manager(common_manager: Manager) -> Iterator[Manager]:
    yield common_manager
    common_manager.clear()


@pytest.fixture(scope="module")
def window(browser: Browser) -> Iterator[Window]:
    with closing(Window(browser)) as window:
        yield window


@pytest.fixture(scope="module")
def other_window(browser: Browser) -> Iterator[Window]:
    """Without access when another window has it."""
    with closing(Window(browser)) as window:
        yield window


@pytest.fixture(scope="module")
def phone_window(browser: Browser) -> Iterator[Window]:
    with closing(Window(browser, **PHONE)) as window:
        yield window


@pytest.fixture
def tabs(window: Window, manager: Manager) -> Iterator[Tabs]:
    """An error that a tab does not show fails the test."""
    tabs = Tabs(window, manager)
    yield tabs
    tabs.close()


@pytest.fixture
def tab(tabs: Tabs) -> Tab:
    return tabs.open()


@pytest.fixture
def phone(phone_window: Window, manager: Manager) -> Iterator[Tab]:
    tabs = Tabs(phone_window, manager)
    yield tabs.open()
    tabs.close()
