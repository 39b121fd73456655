"""A look at a page, as much as it lets itself be looked at."""

from collections.abc import Awaitable
from typing import TYPE_CHECKING, TypeVar

import anyio

from rookery.browser.happenings import in_line, told
from rookery.browser.running_browser import RunningBrowser
from rookery.browser.watched_page import FROZEN
from rookery.core.characters import whole
from rookery.core.limits import KIB
from rookery.core.page_views import PageView
from rookery.core.web_addresses import LONGEST_ADDRESS

if TYPE_CHECKING:
    from playwright.async_api import Page

LONGEST_TITLE = 200
LONGEST_OUTLINE = 8000
LARGEST_PNG = 300 * KIB
"""Bytes from which a picture is worth being made smaller at the cost of its sharpness."""
WAY_OUT = "Use navigate to open one anew."

T = TypeVar("T")


async def view_of(browser: RunningBrowser, *, pictured: bool, seconds: float) -> PageView:
    """Each part of it within so many seconds; what cannot be had is left out, and told. Raises
    playwright's `Error` if the page is lost meanwhile."""
    watched, heard = browser.page, browser.heard
    page = watched.page
    title, picture, outline = "", b"", ""
    if not watched.gone:
        watched.trouble = ""
        try:
            title = await _within(seconds, page.title())
            if pictured:
                picture = await _within(2 * seconds, _picture(page, seconds))
            else:
                outline = await _within(seconds, _outline(page, seconds))
        except _Unresponsive:
            watched.trouble = watched.trouble or FROZEN
    if watched.trouble:
        heard.note(f"{watched.trouble} {WAY_OUT}")
    return PageView(
        url=told(page.url, LONGEST_ADDRESS),
        title=in_line(title, LONGEST_TITLE),
        notes=heard.take_notes(),
        console=heard.take_console(),
        picture=picture,
        outline=outline,
    )


class _Unresponsive(Exception):
    pass


async def _within(seconds: float, look: Awaitable[T]) -> T:
    from playwright.async_api import TimeoutError as Late

    try:
        with anyio.fail_after(seconds):
            return await look
    except (Late, TimeoutError) as error:
        raise _Unresponsive from error


async def _picture(page: "Page", seconds: float) -> bytes:
    limit = seconds * 1000
    sharp = await page.screenshot(type="png", timeout=limit)
    if len(sharp) <= LARGEST_PNG:
        return sharp
    return await page.screenshot(type="jpeg", quality=70, timeout=limit)


async def _outline(page: "Page", seconds: float) -> str:
    text = whole(await page.locator("body").aria_snapshot(timeout=seconds * 1000))
    if len(text) <= LONGEST_OUTLINE:
        return text
    return f"{text[:LONGEST_OUTLINE]}\n(The rest of the outline is left out.)"
