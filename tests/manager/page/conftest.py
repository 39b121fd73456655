"""One browser, model and manager for a module; sessions and tabs for each test."""

import os
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, sync_playwright

from rookery.browser.browser_action import find_browser
from rookery.errors import ToolError
from rookery.manager.web.page_files import HOW_TO_BUILD, PageFiles
from support.manager_page import Manager, Project, Tab, Tabs, Window, managed
from support.scripted_model import Model


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if not PageFiles().is_built:
        pytest.skip(f"the page is not built; {HOW_TO_BUILD} makes it, with Node")
    try:
        program = find_browser("", os.environ["PATH"])
    except ToolError as error:
        pytest.skip(str(error))
    with sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=program,
            args=["--disable-dev-shm-usage", "--disable-gpu", "--no-proxy-server"],
            chromium_sandbox=os.geteuid() != 0,
        )
        try:
            yield browser
        finally:
            browser.close()


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
def window(browser: Browser) -> Window:
    return Window(browser)


@pytest.fixture
def tabs(window: Window, manager: Manager) -> Iterator[Tabs]:
    """An error that a tab does not show fails the test."""
    tabs = Tabs(window, manager)
    yield tabs
    tabs.close()


@pytest.fixture
def tab(tabs: Tabs) -> Tab:
    return tabs.open()
