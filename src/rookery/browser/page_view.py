"""A look at a page, as much as it lets itself be looked at."""

from collections.abc import Awaitable
from typing import TYPE_CHECKING, TypeVar

import anyio

from rookery.browser.page_events import in_line, told
from rookery.browser.page_views import PageView
from rookery.browser.running_browser import RunningBrowser
from rookery.browser.watched_page import FROZEN
from rookery.core.limits import KIB
from rookery.core.text.characters import whole
from rookery.core.web_addresses import LONGEST_ADDRESS

if TYPE_CHECKING:
    from playwright.async_api import Page

LONGEST_TITLE = 200
LONGEST_OUTLINE = 8000
LONGEST_WORDS = 4000
LARGEST_PNG = 300 * KIB
"""Bytes from which a picture is worth being made smaller at the cost of its sharpness."""
WAY_OUT = "Use navigate to open one anew."

T = TypeVar("T")


async def view_of(browser: RunningBrowser, *, pictured: bool, seconds: float) -> PageView:
    """Each part of it within so many seconds; what cannot be had is left out, and told. Raises
    playwright's `Error` if the page is lost meanwhile."""
    watched, heard = browser.page, browser.heard
    page = watched.page
    title, picture, outline, words = "", b"", "", ""
    if not watched.gone:
        watched.trouble = ""
        try:
            title = await _within(seconds, page.title())
            words = await _within(seconds, _words(page))
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
        words=words,
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


_SEEN_WORDS = """most => {
  const walker = document.createTreeWalker(document.body || document, NodeFilter.SHOW_TEXT);
  const range = document.createRange();
  let words = '', last = null;
  while (words.length <= most && walker.nextNode()) {
    const node = walker.currentNode, parent = node.parentElement;
    const text = node.data.replace(/\\s+/g, ' ').trim();
    if (!text || !parent || !parent.checkVisibility({checkOpacity: true, checkVisibilityCSS: true}))
      continue;
    range.selectNodeContents(node);
    const box = range.getBoundingClientRect();
    if (box.width < 2 || box.height < 2) continue;
    if (box.bottom <= 0 || box.top >= innerHeight || box.right <= 0 || box.left >= innerWidth)
      continue;
    const block = parent.closest('p,div,li,td,th,h1,h2,h3,h4,h5,h6,tr,section,article,pre,form');
    words += (words ? (block === last ? ' ' : '\\n') : '') + text;
    last = block;
  }
  return words.slice(0, most + 1);
}"""


async def _words(page: "Page") -> str:
    """The text that is seen in the window. What the page makes of our question is its own."""
    found = await page.evaluate(_SEEN_WORDS, LONGEST_WORDS)
    words = whole(found) if isinstance(found, str) else ""
    if len(words) <= LONGEST_WORDS:
        return words
    return f"{words[:LONGEST_WORDS]}\n(The rest of the text is left out; scroll to see it.)"


async def _outline(page: "Page", seconds: float) -> str:
    text = whole(await page.locator("body").aria_snapshot(timeout=seconds * 1000))
    if len(text) <= LONGEST_OUTLINE:
        return text
    return f"{text[:LONGEST_OUTLINE]}\n(The rest of the outline is left out.)"
