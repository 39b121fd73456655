"""Measurements of a page's appearance and accessibility."""

from functools import cache
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from support.manager_page import Colours, Tab

PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
AXE = Path(__file__).parents[2] / "web" / "node_modules" / "axe-core" / "axe.min.js"
WCAG = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
RUN = """
runOnly => axe
  .run(document, {
    resultTypes: ["violations"],
    preload: { assets: ["media"] }, // no rule of these reads the style sheets
    runOnly,
  })
  .then(({ violations }) =>
    violations.flatMap(({ id, nodes }) => nodes.map(({ target, html, any }) =>
      `${id}: ${target.join(" ")} ${html.slice(0, 120)} ${any[0]?.message ?? ""}`)))
"""
WIDE = """
() => {
  const room = document.documentElement.clientWidth;
  const boxed = (element) => {
    for (let at = element.parentElement; at; at = at.parentElement)
      if (getComputedStyle(at).overflowX !== "visible") return true;
    return false;
  };
  return [...document.querySelectorAll("body *")]
    .filter((element) => element.checkVisibility() && !boxed(element))
    .filter((element) => element.getBoundingClientRect().right > room + 1)
    .map((element) => `${element.tagName}.${element.className}`);
}
"""


def violations(page: Page) -> list[str]:
    """What axe-core finds: WCAG 2.2 AA and best practices."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(_axe())
    found: list[str] = page.evaluate(RUN, WCAG)
    return found


@cache
def _axe() -> str:
    if not AXE.exists():
        pytest.skip("the page's packages are not installed: sh web/build.sh --anew")
    return AXE.read_text(encoding="utf-8")


def too_wide(page: Page) -> list[str]:
    """Elements beyond the right edge that no scroll box contains; or that the page itself
    scrolls sideways."""
    sideways = page.evaluate(
        "document.scrollingElement.scrollWidth > document.documentElement.clientWidth"
    )
    found: list[str] = page.evaluate(WIDE)
    return ["the page", *found] if sideways else found


def visit(tab: Tab, place: str, title: str) -> None:
    """Open a view and wait until it has loaded."""
    tab.go(place)
    heads = ":is(.page-head, .session-head) h1:visible"
    expect(tab.page.locator(heads)).to_have_text(title)
    expect(tab.page.locator("main .spinner")).to_have_count(0)


def wrong_in(tab: Tab, what: str) -> dict[str, list[str]]:
    """What is wrong with what the tab shows. Switches the theme for the next view: a desktop and
    a phone that begin with different themes show every view in both."""
    theme = _theme(tab)
    wrong = {f"{what}, too wide": too_wide(tab.page), f"{what} in {theme}": violations(tab.page)}
    switch_theme(tab)
    return {key: found for key, found in wrong.items() if found}


def switch_theme(tab: Tab) -> None:
    other: Colours = "light" if _theme(tab) == "dark" else "dark"
    tab.page.emulate_media(color_scheme=other)
    expect(tab.page.locator(f"html[data-theme={other}]")).to_be_visible()


def _theme(tab: Tab) -> Colours:
    return "dark" if tab.page.locator("html[data-theme=dark]").count() else "light"
