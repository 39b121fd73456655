"""Measurements of a page's appearance and accessibility."""

from typing import Any

from playwright.sync_api import Page

NAMED = {
    *("button", "link", "textbox", "searchbox", "checkbox", "switch", "radio", "combobox"),
    *("menuitem", "tab", "dialog", "log", "navigation", "complementary", "region", "listbox"),
}
"""Roles that need a name."""
FAINT = """
() => {
  const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const draw = (text) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = text;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const drawn = new Map();
  const parse = (text) => {
    if (!drawn.has(text)) drawn.set(text, draw(text));
    return [...drawn.get(text)];
  };
  const over = (top, under) =>
    top.slice(0, 3).map((c, at) => c * top[3] + under[at] * (1 - top[3]));
  const grounds = new Map([[null, [255, 255, 255]]]);
  const ground = (element) => {
    if (!grounds.has(element)) {
      const colour = parse(getComputedStyle(element).backgroundColor);
      const under = colour[3] === 1 ? colour : ground(element.parentElement);
      grounds.set(element, over(colour, under));
    }
    return grounds.get(element);
  };
  const light = (colour) => {
    const [r, g, b] = colour
      .map((c) => c / 255)
      .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const opacities = new Map([[null, 1]]);
  const opacity = (element) => {
    if (!opacities.has(element)) {
      const own = Number(getComputedStyle(element).opacity);
      opacities.set(element, own * opacity(element.parentElement));
    }
    return opacities.get(element);
  };
  const faint = [];
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const element = texts.currentNode.parentElement;
    const words = texts.currentNode.data.trim();
    const seen = { opacityProperty: true, visibilityProperty: true };
    if (!words || !element.checkVisibility(seen)) continue;
    if (element.closest(":disabled, .unseen, .skip, noscript, option")) continue;
    const box = element.getBoundingClientRect();
    if (box.width < 2 || box.height < 2) continue;
    const style = getComputedStyle(element);
    const under = ground(element);
    const ink = parse(style.color);
    ink[3] *= opacity(element);
    const [one, other] = [light(over(ink, under)), light(under)].sort((a, b) => b - a);
    const ratio = (one + 0.05) / (other + 0.05);
    const size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    if (ratio >= (large ? 3 : 4.5)) continue;
    const where = `${element.tagName}.${element.className}`;
    faint.push(`${ratio.toFixed(2)} ${where}: ${words.slice(0, 40)}`);
  }
  return [...new Set(faint)];
}
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


def faint_texts(page: Page) -> list[str]:
    """Texts whose contrast is below WCAG AA, with their contrast."""
    found: list[str] = page.evaluate(FAINT)
    return found


def too_wide(page: Page) -> list[str]:
    """Elements beyond the right edge that no scroll box contains; or that the page itself
    scrolls sideways."""
    sideways = page.evaluate(
        "document.scrollingElement.scrollWidth > document.documentElement.clientWidth"
    )
    found: list[str] = page.evaluate(WIDE)
    return ["the page", *found] if sideways else found


def nameless(page: Page) -> list[str]:
    """Controls and landmarks without a name for screen readers."""
    session = page.context.new_cdp_session(page)
    tree: dict[str, Any] = session.send("Accessibility.getFullAXTree")
    session.detach()
    return [
        f"{_said(node, 'role')} {node.get('properties', [])[:3]}"
        for node in tree["nodes"]
        if not node.get("ignored")
        and _said(node, "role").lower() in NAMED
        and not _said(node, "name").strip()
    ]


def _said(node: dict[str, Any], what: str) -> str:
    return str(node.get(what, {}).get("value", ""))
